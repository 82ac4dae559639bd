"""How every POST of a window, and of all that belongs to it, is stopped and read over the DevTools protocol.

Guarantees: attached before the window first navigates, it stops each request of the page, its frames, its dedicated workers, its popups
and the origin's shared and service workers; reads go on at once, in the reader thread; each POST is judged by its body's shape, and the
listener says what becomes of a send. A request that cannot be judged is failed. Nothing of a request is kept but its address and the
account's header. Touches one DevTools connection, in its reader thread, which never waits. Fails closed, but Chrome continues what is
still stopped when this connection ends (measured) - unless another connection stops requests of the same window: those of one window are
asked one after the other, and who attached first is asked last (Chromium 156, measured 2026-11).
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from gptbridge.core.errors import Failure
from gptbridge.core.send_request import is_send
from gptbridge.edge.chatgpt_requests import ACCOUNT_HEADER, is_send_path
from gptbridge.edge.devtools import DevTools
from gptbridge.edge.upload_watch import UploadWatch

Step = tuple[str, dict[str, Any]]
Part = dict[str, Any] | None

# By type, because methods cannot be named: scripts, styles and pictures are never POSTs and pass without a stop.
_PATTERNS = [{"urlPattern": "*", "resourceType": kind, "requestStage": "Request"} for kind in ("Document", "XHR", "Fetch", "Ping", "Other")]
# Popups and service workers come to us on the browser level; a page-level attachment as well would only double them.
_NOT_RELATED = ("page", "tab", "browser", "service_worker", "shared_worker")
# Waiting on the browser level makes every new page wait, so pages must be in this list: left out, they would wait for ever.
_AROUND = [{"type": kind} for kind in ("shared_worker", "service_worker", "page")]
STILL_S = 10.0
STUCK_S = 2.0
ROUNDS, CALM_ROUNDS, ROUND_S = 4, 2, 0.03
_KINDS = ("iframe", "worker", "shared_worker", "service_worker", "popup")
_READS = ("GET", "HEAD", "OPTIONS")


@dataclass(slots=True)
class Realm:
    """An attached target: `kind` is "page", "iframe", "worker", "shared_worker", "service_worker" or "popup"."""

    kind: str
    target: str

    @property
    def may_open(self) -> bool:
        return self.kind in ("page", "worker")

    @property
    def has_document(self) -> bool:
        return self.kind in ("page", "iframe", "popup")

    @property
    def outlives_us(self) -> bool:
        return self.kind in ("shared_worker", "service_worker")


@dataclass(slots=True)
class Stopped:
    """A POST that waits. `network` names the request in every connection's events; `account_id` is its account header."""

    handle: str
    session: str
    network: str
    url: str
    kind: str
    account_id: str | None
    redirected: bool

    @property
    def path(self) -> str:
        return urlsplit(self.url).path


class Listener(Protocol):
    """What is done about it. All but `realm_steps` is called in the reader thread and must not wait."""

    def realm_steps(self, realm: Realm) -> Sequence[Step]:
        """What is called in a realm beside stopping its requests, before its first script."""
        ...

    def send_stopped(self, stopped: Stopped, part: Part) -> None:
        """A send: `go_on`, `fail` or keep it. `part`: see core.send_request.is_send."""
        ...

    def other_passes(self, stopped: Stopped, body: str | None) -> None: ...
    def unjudged(self, stopped: Stopped) -> None:
        """It could not be read, and was failed."""
        ...

    def event(self, method: str, params: dict[str, Any], session: str) -> None: ...
    def left(self, session: str) -> None: ...
    def dropped(self) -> None: ...


class Interception:
    """Of one window. `browser_url` is the browser-level DevTools socket, `origin` like `https://chatgpt.com`.

    workers: attach to dedicated workers too (their requests stop on their page in any case).
    """

    def __init__(self, browser_url: str, target: str, origin: str, listener: Listener, *, workers: bool = True) -> None:
        self.target, self.session = target, ""
        self.realms: dict[str, Realm] = {}
        self.pages = {target}  # the window and the popups that it opened
        self.faults: list[str] = []  # what could not be attached whole
        self.gone = threading.Event()  # the window is
        self._url, self._origin, self._listener = browser_url, origin.rstrip("/"), listener
        self._related = [*({"type": kind, "exclude": True} for kind in (*_NOT_RELATED, *(() if workers else ("worker",)))), {}]
        self._devtools: DevTools | None = None
        self._dropped = False
        self._failed = False  # the page tried what it may not: it may try again
        self._seen = 0  # requests that might have been a send
        self._opening = 0
        self._unread: dict[str, Stopped] = {}
        self._files: dict[str, Stopped] = {}  # bytes of files, until it is known that the site wants them there
        self.uploads = UploadWatch(self.post, self._let_files_go)

    # -- for the owner's threads

    def begin(self) -> None:
        """Failure("browser") when any part of it was refused."""
        self._devtools = DevTools(self._url, on_event=self._event, on_drop=self._drop)
        self.session = str(self.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"])
        realm = self.realms[self.session] = Realm("page", self.target)
        self._devtools.calls(self._steps(realm), self.session)
        self.call("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _AROUND})

    def still(self, *, more: bool = False) -> None:
        """Before the window is closed: until its page makes no more requests. Chrome lets go what is stopped, and what waits to begin, when
        a window closes: a page that posts every 10 ms got a send out in 13 of 40 closings, on a busy machine a worker of its in 2 of 14
        (Chromium 156, measured 2026-11).

        Its scripts end first; its requests are still stopped and judged meanwhile. A round trip through Chrome's network side comes back
        after what is on its way there was handed on; how long such a thing is on its way depends on the machine, so rounds are made until
        some in a row brought nothing new; more of them where a send was failed, or is known to come (`more`). Bounded: STILL_S.
        """
        ended: set[str] = set()
        until = time.monotonic() + STILL_S
        quiet = 0
        while quiet < (ROUNDS if more or self._failed else CALM_ROUNDS) and self.whole and time.monotonic() < until:
            before = (self._seen, set(self.realms))
            for session in [session for session, realm in list(self.realms.items()) if realm.has_document]:
                try:
                    if session not in ended:
                        self.call("Emulation.setScriptExecutionDisabled", {"value": True}, session, STUCK_S)
                        ended.add(session)
                    self.call("Fetch.enable", {"patterns": _PATTERNS}, session, STUCK_S)
                except Failure:
                    pass  # it is gone, or busy: then the next round asks again
            if self.gone.wait(ROUND_S):
                return
            quiet = quiet + 1 if before == (self._seen, set(self.realms)) else 0

    def spare(self, files: bool) -> None:
        """With `files`, until it is called without: requests of the window to other hosts than the site's are not stopped. Chrome hands
        over the whole body of every request that stops, 500 MB too, and the site may keep files on hosts of their own."""
        scheme, _, host = self._origin.partition("://")
        places = (f"{scheme}://{host}/*", f"{scheme}://*.{host}/*", "https://*.openai.com/*") if files else ("*",)
        patterns = [{**pattern, "urlPattern": place} for pattern in _PATTERNS for place in places]
        self.call("Fetch.enable", {"patterns": patterns}, self.session)

    @property
    def whole(self) -> bool:
        """The connection never dropped since `begin`."""
        return self._devtools is not None and not self._devtools.dropped and not self._dropped

    @property
    def lost(self) -> bool:
        """The connection dropped, by no wish of ours."""
        return self._dropped

    def end(self) -> None:
        """Ends the connection; Chrome continues whatever is still stopped by it."""
        if self._devtools is not None:
            self._devtools.close()

    def call(self, method: str, params: dict[str, Any], session: str = "", timeout: float = 10.0) -> dict[str, Any]:
        if self._devtools is None:
            raise Failure("browser", "The request gate is not attached.")
        return self._devtools.call(method, params, session, timeout)

    def post(self, method: str, params: dict[str, Any], session: str = "",
             then: Callable[[dict[str, Any] | None, str], None] | None = None) -> None:
        if self._devtools is not None:
            self._devtools.post(method, params, session, then)

    def go_on(self, stopped: Stopped) -> None:
        self.post("Fetch.continueRequest", {"requestId": stopped.handle}, stopped.session)

    def fail(self, stopped: Stopped) -> None:
        self._failed = True
        self.post("Fetch.failRequest", {"requestId": stopped.handle, "errorReason": "Aborted"}, stopped.session)

    def take_unread(self) -> list[Stopped]:
        """Those whose body is still asked for; they are the caller's now."""
        taken = list(self._unread.values())
        self._unread.clear()
        return taken

    # -- events, in the reader thread

    def _event(self, method: str, params: dict[str, Any], session: str) -> None:
        if method == "Fetch.requestPaused":
            self._paused(params, session)
        elif method == "Target.attachedToTarget":
            self._attached(params, session)
        elif method == "Page.windowOpen":
            self._opening += 1
        elif method == "Target.detachedFromTarget":
            self._left(str(params.get("sessionId", "")))
        else:
            if method.startswith("Network."):
                self.uploads.event(method, params, session)
            self._listener.event(method, params, session)

    def _paused(self, params: dict[str, Any], session: str) -> None:
        request, handle = params["request"], str(params["requestId"])
        if request["method"] in _READS:
            self.post("Fetch.continueRequest", {"requestId": handle}, session)
            return
        self._seen += 1
        realm = self.realms.get(session)
        kind = realm.kind if realm else "unknown"
        if kind == "page" and params.get("frameId", self.target) != self.target:
            kind = "iframe"
        account = next((value for name, value in request["headers"].items() if name.lower() == ACCOUNT_HEADER), None)
        stopped = Stopped(handle, session, str(params.get("networkId", "")), request["url"], kind, account,
                          bool(params.get("redirectedRequestId")))
        if request["method"] == "PUT" and not is_send_path(stopped.path) and self.uploads.takes(stopped.url) is not False:
            self._unread[handle] = self._files[handle] = stopped
            self._let_files_go()
        elif "postData" in request or not request.get("hasPostData"):
            self._judge(stopped, request.get("postData"))
        else:
            self._read_body(stopped)

    def _let_files_go(self) -> None:
        """Bytes of files may look like anything, a send too. They go to where the site wants them, and nowhere else, and nobody reads them.
        The page may know that place a moment before we do."""
        for handle, stopped in list(self._files.items()):
            known = self.uploads.takes(stopped.url)
            if known is None:
                continue
            del self._files[handle]
            if self._unread.pop(handle, None) is None:
                continue  # it was taken and failed meanwhile
            if known:
                self.uploads.stores(stopped.network, stopped.url)
                self.go_on(stopped)
            else:
                self._read_body(stopped)

    def _read_body(self, stopped: Stopped) -> None:
        self._unread[stopped.handle] = stopped
        self.post("Network.getRequestPostData", {"requestId": stopped.network}, stopped.session,
                  lambda result, reason: self._read_later(stopped, result))

    def _read_later(self, stopped: Stopped, result: dict[str, Any] | None) -> None:
        if self._unread.pop(stopped.handle, None) is None:
            return  # it was taken and failed meanwhile
        body = result.get("postData") if result else None
        if result and result.get("base64Encoded"):
            body = base64.b64decode(body or "").decode("utf-8", "replace")
        self._judge(stopped, body)

    def _judge(self, stopped: Stopped, body: str | None) -> None:
        try:
            sends, part = is_send(body, to_send_path=is_send_path(stopped.path))
            if sends:
                self._listener.send_stopped(stopped, part)
            else:
                self._listener.other_passes(stopped, body)
                self.uploads.asked(stopped.network, stopped.url, body)
                self.go_on(stopped)
        except Exception as error:
            # A request that cannot be judged must not leave; and the reader must live, or Chrome lets all of them go.
            self.faults.append(f"a request could not be judged ({type(error).__name__})")
            self.fail(stopped)
            self._listener.unjudged(stopped)

    def _attached(self, params: dict[str, Any], parent: str) -> None:
        info, session = params["targetInfo"], str(params["sessionId"])
        kind, target = str(info["type"]), str(info["targetId"])
        if not parent and self.session in ("", session):
            return  # our own attachment, announced
        if not parent:
            if kind == "page" and target != self.target and (info.get("openerId") in self.pages or self._opened_unseen(info)):
                kind = "popup"
                self.pages.add(target)
                self._opening = max(0, self._opening - 1)
            elif kind == "page" or not self._of_the_site(str(info.get("url", ""))):
                # Somebody else's window or worker: it waits for us only because waiting cannot be asked for by kind.
                self.post("Runtime.runIfWaitingForDebugger", {}, session)
                self.post("Target.detachFromTarget", {"sessionId": session})
                return
        if kind not in _KINDS:
            self.post("Runtime.runIfWaitingForDebugger", {}, session)  # worklets and the like: they have no network
            return
        realm = self.realms[session] = Realm(kind, target)
        for method, step in self._steps(realm):
            self.post(method, step, session, self._or_fault(session, f"{method} on a {kind}"))
        self.post("Runtime.runIfWaitingForDebugger", {}, session)

    def _opened_unseen(self, info: dict[str, Any]) -> bool:
        """A new window that names no opener, while our page has just opened one (`noopener`)."""
        return self._opening > 0 and "openerId" not in info and info.get("url") in ("", "about:blank")

    def _of_the_site(self, url: str) -> bool:
        place = urlsplit(url.removeprefix("blob:"))
        return f"{place.scheme}://{place.netloc}" == self._origin

    def _steps(self, realm: Realm) -> list[Step]:
        steps: list[Step] = [("Network.enable", {})]
        if realm.has_document:
            steps += [("Network.setBypassServiceWorker", {"bypass": True}), ("Page.enable", {})]
        if realm.kind != "worker":  # a dedicated worker has no Fetch domain: its requests stop on its page
            steps += [("Fetch.enable", {"patterns": _PATTERNS})]
        return [*steps, *self._listener.realm_steps(realm),
                ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": self._related})]

    def _or_fault(self, session: str, what: str) -> Callable[[dict[str, Any] | None, str], None]:
        def then(result: dict[str, Any] | None, reason: str) -> None:
            if result is not None and "exceptionDetails" in result:
                details = result["exceptionDetails"]  # of our own script: no text of the page's
                reason = str(details.get("exception", {}).get("description", details.get("text", ""))).partition("\n")[0][:120]
            if reason and session in self.realms and "not found" not in reason and not self._dropped:
                self.faults.append(f"{what}: {reason}")

        return then

    def _left(self, session: str) -> None:
        realm = self.realms.pop(session, None)
        if realm is not None and realm.target == self.target:
            self.gone.set()
        self._listener.left(session)

    def _drop(self) -> None:
        self._dropped = True
        self._listener.dropped()
