"""Secret: how the one send request of a window is held, let go or failed over the DevTools protocol.

Guarantees: armed before the window first navigates, the gate is closed, open for one, or spent. Every POST of the window, its
frames, its workers, and of the origin's shared and service workers is looked at; a send by its shape is held once when open and
failed in every other state; everything else continues at once, in the reader thread. A guard inside each realm keeps the same
states, so the page does not outlive its gate (GT-11). Nothing of a request is kept but named fields and digests: no bearer.
Touches one DevTools connection. Fails closed: a request that cannot be judged is failed; but when this process dies while a
request is held, Chrome lets that one go (measured), so `shut` comes before everything else in every way out (GT-10).
Threads: events come in the reader thread, which never waits; `shut` and `refuse` may be called from a signal handler.
"""

from __future__ import annotations

import base64
import hashlib
import json
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Held, Note
from gptbridge.edge import guard, send_shape
from gptbridge.edge.devtools import DevTools, Refused

# By type, because methods cannot be named: scripts, styles and pictures are never POSTs and pass without a stop.
_PATTERNS = [{"urlPattern": "*", "resourceType": kind, "requestStage": "Request"} for kind in ("Document", "XHR", "Fetch", "Ping", "Other")]
# Popups and service workers come to us on the browser level; a page-level attachment as well would only double them.
_RELATED = [{"type": kind, "exclude": True} for kind in ("page", "tab", "browser", "service_worker", "shared_worker")] + [{}]
# Waiting on the browser level makes every new page wait, so pages must be in this list: left out, they would wait for ever.
_AROUND = [{"type": kind} for kind in ("shared_worker", "service_worker", "page")]
_KINDS = ("iframe", "worker", "shared_worker", "service_worker", "popup")
_READS = ("GET", "HEAD", "OPTIONS")
_ACK_S = 2.0
NAVIGATE_S = 30.0


@dataclass(slots=True)
class _Realm:
    """An attached target: `kind` is "page", "iframe", "worker", "shared_worker", "service_worker" or "popup"."""

    kind: str
    target: str

    @property
    def may_open(self) -> bool:
        return self.kind in ("page", "worker")

    @property
    def outlives_us(self) -> bool:
        return self.kind in ("shared_worker", "service_worker")


@dataclass(slots=True)
class _Paused:
    handle: str
    session: str
    network: str
    url: str
    kind: str
    headers: dict[str, str] = field(repr=False)


class Gate:
    """The gate of one window. `browser_url` is the browser-level DevTools socket, `site_origin` like `https://chatgpt.com`.

    States: "closed", "open", "spent". `notes` lists every send that was failed or could only be seen; kinds are the realm's,
    `redirect`, `socket` (a frame that left: seen, not stoppable), and `guard:` with what the page used (fetch, xhr, beacon, socket).
    """

    def __init__(self, browser_url: str, target_id: str, site_origin: str) -> None:
        self._url = browser_url
        self._target = target_id
        self._origin = site_origin.rstrip("/")
        self._lock = threading.RLock()  # reentrant: a signal handler may come while the main thread holds it
        self._turn = threading.Condition(self._lock)
        self._state = "closed"
        self._devtools: DevTools | None = None
        self._session = ""
        self._realms: dict[str, _Realm] = {}
        self._pages = {target_id}
        self._opening = 0
        self._secret = secrets.token_hex(16)
        self._binding = f"b{secrets.token_hex(12)}"
        # Workers shared between windows get one guard for Chrome's whole life, however many gates come and go.
        shared = hashlib.sha256(browser_url.encode()).hexdigest()
        self._shared_secret, self._shared_binding = shared[:32], f"b{shared[32:56]}"
        self._unread: dict[str, _Paused] = {}
        self._held: _Paused | None = None
        self._view: Held | None = None
        self._fate = ""  # of the held request: "", "released", "refused"
        self._unspent: set[str] = set()
        self._notes: list[Note] = []
        self._needles: tuple[str, ...] = ()
        self._trace_paths: list[str] = []
        self._faults: list[str] = []
        self._dropped = False
        self._to_the_end = False  # attached, without a drop, until the window was gone
        self._gone = threading.Event()
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reply_status: int | None = None
        self._reply_ended: str | None = None
        self._streaming = False
        self._end: str | None = None

    # -- arming and states

    def arm(self) -> None:
        """Closed, on this window and all that belongs to it. Before the first navigation; on a window of a dead owner at once.

        Anything that fails is Failure("site-changed"): without the whole gate nothing is typed.
        """
        try:
            self._devtools = DevTools(self._url, on_event=self._event, on_drop=self._drop)
            self._session = str(self._call("Target.attachToTarget", {"targetId": self._target, "flatten": True})["sessionId"])
            self._realms[self._session] = _Realm("page", self._target)
            self._devtools.calls(self._page_steps(), self._session)
            self._call("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _AROUND})
            state = self._tell_guard(self._session, "state")
        except Failure as failure:
            self.detach()
            raise Failure("site-changed", f"The request gate could not be armed: {failure.message} Nothing was typed or sent.",
                          "ask-gpt login --quit, then the command again") from failure
        if state != "closed" or self._faults:
            self.detach()
            raise Failure("site-changed", f"The request gate could not be armed ({'; '.join(self._faults) or 'no guard in the page'}). "
                          "Nothing was typed or sent.")

    def navigate(self, url: str) -> None:
        """Sends the armed window to `url`; Failure("browser") when nothing answers there."""
        reason = self._call("Page.navigate", {"url": url}, self._session, NAVIGATE_S).get("errorText")
        if reason and reason != "net::ERR_ABORTED":  # that one: a page that goes on to another at once
            raise Failure("browser", f"The site cannot be reached ({reason}). Nothing was sent.", "check the network", again=True)

    def open_once(self) -> None:
        """Lets the next send be held instead of failed. Failure("site-changed") when the gate is not whole; it stays closed then."""
        with self._lock:
            if self._state != "closed" or self._faults or not self.connected:
                raise Failure("site-changed", "The request gate is not whole any more" + "".join(f"; {fault}" for fault in self._faults)
                              + ". Nothing was sent.")
            self._state = "open"
        if self._tell_guard(self._session, "open") != "open":
            self.shut()
            raise Failure("site-changed", "The page carries no guard of ours. Nothing was sent.")
        for session, realm in list(self._realms.items()):
            if realm.kind == "worker":
                self._post("Runtime.evaluate", {"expression": guard.word(self._secret, "open"), "returnByValue": True}, session)

    def wait(self, timeout: float) -> Held | None:
        """The held request, once every guard is closed behind it; None after `timeout` seconds, or when Chrome or the window is gone."""
        with self._turn:
            self._turn.wait_for(lambda: (self._view is not None and not self._unspent) or self._dropped or self._gone.is_set(), timeout)
            return self._view

    def release(self, held: Held) -> bool:
        """Lets it go to the site. False when Chrome says that it no longer exists: nothing left.

        Failure("browser") when the connection died meanwhile: then it may have left. Failure("site-changed"), with the request
        failed, when a guard could not be closed behind it.
        """
        paused = self._current(held)
        with self._turn:
            guarded = self._turn.wait_for(lambda: not self._unspent or self._dropped, _ACK_S)
        if not guarded:
            self.refuse(held)
            raise Failure("site-changed", "A part of the page could not be closed behind the request; it was failed in the "
                          "browser. Nothing was sent.")
        self._fate = "released"
        try:
            self._call("Fetch.continueRequest", {"requestId": paused.handle}, paused.session)
        except Refused:
            self._finish("failed: it no longer existed")
            return False
        return True

    def refuse(self, held: Held) -> bool:
        """Fails it in the browser; it never reaches the site. False when that could not be confirmed (the connection died)."""
        paused = self._current(held)
        self._fate = "refused"
        try:
            self._call("Fetch.failRequest", {"requestId": paused.handle, "errorReason": "Aborted"}, paused.session, _ACK_S)
        except Refused:
            return True  # Chrome has no such request any more: it cannot leave
        except Failure:
            return False
        return True

    def shut(self) -> None:
        """Fails what is held first, then lets nothing through any more, and stays attached. Safe at any time, also twice."""
        with self._lock:
            self._state = "spent" if self._state == "spent" or self._view else "closed"
            held, paused, unread = self._view, self._held, list(self._unread.values())
            self._unread.clear()
        if held and paused and not self._fate:
            self.refuse(held)
        for waiting in unread:
            self._fail(waiting, None)
        for session, realm in list(self._realms.items()):
            self._post("Runtime.evaluate", {"expression": guard.word(self._secret_of(realm), "close")}, session)

    close = shut

    def detach(self) -> None:
        """Ends the connection. Only when the window is gone, or nothing of it matters: Chrome continues whatever is still paused."""
        if self._devtools is not None:
            self._to_the_end = self.connected and self._gone.is_set()
            self._devtools.close()

    def gone(self, timeout: float) -> bool:
        """Waits for the window to be gone."""
        return self._gone.wait(timeout)

    # -- what was seen

    def watch(self, text: str) -> None:
        """Looks for this text in every POST body, beacon and socket frame from now on (GT-06)."""
        self._needles = send_shape.needles(text)

    def traces(self) -> int:
        """How often the watched text was seen leaving in anything but the held request; what was failed did not leave."""
        return len(self._trace_paths)

    def trace_paths(self) -> Sequence[str]:
        return tuple(self._trace_paths)

    def notes(self) -> Sequence[Note]:
        return tuple(self._notes)

    @property
    def state(self) -> str:
        return self._state

    @property
    def connected(self) -> bool:
        """Its connection never dropped since it was armed; after `detach`: not before the window was gone."""
        return self._to_the_end or (self._devtools is not None and not self._devtools.dropped and not self._dropped)

    # -- the answer to the released request

    def reply(self, timeout: float) -> bytes | None:
        """The next bytes of the answer as they arrive; None when none came within `timeout` seconds or the answer has ended."""
        try:
            chunk = self._chunks.get(timeout=timeout) if self._reply_ended is None else self._chunks.get_nowait()
        except queue.Empty:
            return None
        return chunk

    @property
    def reply_status(self) -> int | None:
        return self._reply_status

    @property
    def reply_ended(self) -> str | None:
        """None while open; "finished", or "failed: <reason>". Bytes may still wait in `reply`."""
        return self._reply_ended

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
        elif method == "Network.webSocketFrameSent":
            self._frame(params)
        elif method == "Runtime.bindingCalled":
            self._guard_said(params)
        elif method.startswith("Network.") and self._held is not None and params.get("requestId") == self._held.network:
            self._answered(method, params, session)

    def _paused(self, params: dict[str, Any], session: str) -> None:
        request = params["request"]
        handle = str(params["requestId"])
        if request["method"] in _READS:
            self._post("Fetch.continueRequest", {"requestId": handle}, session)
            return
        realm = self._realms.get(session)
        kind = realm.kind if realm else "unknown"
        if kind == "page" and params.get("frameId", self._target) != self._target:
            kind = "iframe"
        account = {name: value for name, value in request["headers"].items() if name.lower() == send_shape.ACCOUNT_HEADER}
        paused = _Paused(handle, session, str(params.get("networkId", "")), request["url"], kind, account)
        try:
            if params.get("redirectedRequestId") and self._held is not None and paused.network == self._held.network:
                _, part = send_shape.is_send(request["url"], request.get("postData"))
                self._fail(paused, part, "redirect")
            elif "postData" in request or not request.get("hasPostData"):
                self._judge(paused, request.get("postData"))
            else:
                self._unread[handle] = paused
                self._post("Network.getRequestPostData", {"requestId": paused.network}, session,
                           lambda result, reason: self._read_later(paused, result))
        except Exception as error:
            # A request that cannot be judged must not leave; and the reader must live, or Chrome lets all of them go.
            self._faults.append(f"a request could not be judged ({type(error).__name__})")
            self._fail(paused, None)

    def _read_later(self, paused: _Paused, result: dict[str, Any] | None) -> None:
        if self._unread.pop(paused.handle, None) is None:
            return  # shut has failed it meanwhile
        body = result.get("postData") if result else None
        if result and result.get("base64Encoded"):
            body = base64.b64decode(body or "").decode("utf-8", "replace")
        self._judge(paused, body)

    def _judge(self, paused: _Paused, body: str | None) -> None:
        is_send, part = send_shape.is_send(paused.url, body)
        if not is_send:
            if body and send_shape.carries(body, self._needles):
                self._trace_paths.append(send_shape.path_of(paused.url))
            self._post("Fetch.continueRequest", {"requestId": paused.handle}, paused.session)
            return
        with self._turn:
            if self._state != "open" or paused.kind not in ("page", "worker"):
                self._fail(paused, part)
                return
            self._state = "spent"
            self._held = paused
            self._view = send_shape.held(paused.handle, paused.url, paused.headers, part)
            # From here on no realm may send, even if we die: all are closed before the request can be released.
            for session, realm in list(self._realms.items()):
                if realm.may_open:
                    self._unspent.add(session)
                    self._post("Runtime.evaluate", {"expression": guard.word(self._secret, "spend")}, session, self._acknowledged(session))
            self._turn.notify_all()

    def _acknowledged(self, session: str) -> Callable[[dict[str, Any] | None, str], None]:
        def then(result: dict[str, Any] | None, reason: str) -> None:
            with self._turn:
                if result is not None or session not in self._realms:
                    self._unspent.discard(session)
                    self._turn.notify_all()

        return then

    def _fail(self, paused: _Paused, part: dict[str, Any] | None, kind: str = "") -> None:
        self._notes.append(Note(kind or paused.kind, send_shape.path_of(paused.url), send_shape.message_ids(part)))
        self._post("Fetch.failRequest", {"requestId": paused.handle, "errorReason": "Aborted"}, paused.session)

    def _attached(self, params: dict[str, Any], parent: str) -> None:
        info, session = params["targetInfo"], str(params["sessionId"])
        kind, target = str(info["type"]), str(info["targetId"])
        if not parent and self._session in ("", session):
            return  # our own attachment, announced
        if not parent:
            if kind == "page" and target != self._target and (info.get("openerId") in self._pages or self._opened_unseen(info)):
                kind = "popup"
                self._pages.add(target)
                self._opening = max(0, self._opening - 1)
            elif kind == "page" or not self._of_the_site(str(info.get("url", ""))):
                # Somebody else's window or worker: it waits for us only because waiting cannot be asked for by kind.
                self._post("Runtime.runIfWaitingForDebugger", {}, session)
                self._post("Target.detachFromTarget", {"sessionId": session})
                return
        if kind not in _KINDS:
            self._post("Runtime.runIfWaitingForDebugger", {}, session)  # worklets and the like: they have no network
            return
        realm = _Realm(kind, target)
        self._realms[session] = realm
        steps = self._page_steps() if kind in ("iframe", "popup") else self._worker_steps(realm)
        for method, step in steps:
            self._post(method, step, session, self._or_fault(session, f"{method} on a {kind}"))
        self._post("Runtime.runIfWaitingForDebugger", {}, session)

    def _opened_unseen(self, info: dict[str, Any]) -> bool:
        """A new window that names no opener, while our page has just opened one (`noopener`)."""
        return self._opening > 0 and "openerId" not in info and info.get("url") in ("", "about:blank")

    def _page_steps(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            ("Network.enable", {}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Fetch.enable", {"patterns": _PATTERNS}),
            # Only an enabled Runtime gives new documents the binding before their first script; ChromeDriver enables it too.
            ("Runtime.enable", {}),
            ("Runtime.addBinding", {"name": self._binding}),
            ("Page.enable", {}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": guard.source(self._secret, self._binding), "runImmediately": True}),
            ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _RELATED}),
        ]

    def _worker_steps(self, realm: _Realm) -> list[tuple[str, dict[str, Any]]]:
        # Requests of a dedicated worker pause on its page; a worker has no Fetch domain of its own.
        steps: list[tuple[str, dict[str, Any]]] = [("Fetch.enable", {"patterns": _PATTERNS})] if realm.outlives_us else []
        binding = self._shared_binding if realm.outlives_us else self._binding
        state = "open" if self._state == "open" and realm.may_open else "closed"
        return [
            *steps,
            ("Network.enable", {}),
            ("Runtime.enable", {}),
            ("Runtime.addBinding", {"name": binding}),
            ("Runtime.evaluate", {"expression": guard.source(self._secret_of(realm), binding, state=state, keep=realm.outlives_us)}),
            ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _RELATED}),
        ]

    def _or_fault(self, session: str, what: str) -> Callable[[dict[str, Any] | None, str], None]:
        def then(result: dict[str, Any] | None, reason: str) -> None:
            if result is not None and "exceptionDetails" in result:
                details = result["exceptionDetails"]  # of our own script: no text of the page's
                reason = str(details.get("exception", {}).get("description", details.get("text", ""))).partition("\n")[0][:120]
            if reason and session in self._realms and "not found" not in reason and not self._dropped:
                self._faults.append(f"{what}: {reason}")

        return then

    def _left(self, session: str) -> None:
        with self._turn:
            realm = self._realms.pop(session, None)
            self._unspent.discard(session)
            if realm is not None and realm.target == self._target:
                self._gone.set()
            self._turn.notify_all()

    def _frame(self, params: dict[str, Any]) -> None:
        frame = params.get("response", {})
        text = send_shape.frame_text(int(frame.get("opcode", 1)), str(frame.get("payloadData", "")))
        part = send_shape.sending_part(text)
        if part is not None:
            self._notes.append(Note("socket", "", send_shape.message_ids(part)))
        if part is not None or send_shape.carries(text, self._needles):
            self._trace_paths.append("socket")

    def _guard_said(self, params: dict[str, Any]) -> None:
        if params.get("name") not in (self._binding, self._shared_binding):
            return
        try:
            said = json.loads(params["payload"])
            self._notes.append(Note(f"guard:{said['kind']}", str(said["path"]), tuple(str(one) for one in said["ids"])))
        except (ValueError, KeyError, TypeError):
            self._notes.append(Note("guard:unreadable", ""))

    def _answered(self, method: str, params: dict[str, Any], session: str) -> None:
        if method == "Network.requestWillBeSent" and "redirectResponse" in params:
            self._reply_status = int(params["redirectResponse"]["status"])
        elif method == "Network.responseReceived":
            self._reply_status = int(params["response"]["status"])
            self._streaming = True
            request = str(params["requestId"])
            self._post("Network.streamResourceContent", {"requestId": request}, session, self._streams(request, session))
        elif method == "Network.dataReceived" and params.get("data"):
            self._chunks.put(base64.b64decode(params["data"]))
        elif method == "Network.loadingFinished":
            self._finish("finished")
        elif method == "Network.loadingFailed":
            self._finish(f"failed: {params.get('errorText', 'unknown')}")

    def _streams(self, request: str, session: str) -> Callable[[dict[str, Any] | None, str], None]:
        def whole(result: dict[str, Any] | None, reason: str) -> None:
            if result is not None:
                text = str(result.get("body", ""))
                self._chunks.put(base64.b64decode(text) if result.get("base64Encoded") else text.encode("utf-8", "surrogatepass"))
            self._streaming = False
            self._finish(self._end)

        def then(result: dict[str, Any] | None, reason: str) -> None:
            if result is None:
                # It was over before the stream could be asked for: the body is there as a whole.
                self._post("Network.getResponseBody", {"requestId": request}, session, whole)
                return
            if result.get("bufferedData"):
                self._chunks.put(base64.b64decode(result["bufferedData"]))
            self._streaming = False
            self._finish(self._end)

        return then

    def _finish(self, how: str | None) -> None:
        """The answer's end becomes visible only after all of its bytes lie in the queue."""
        self._end = self._end or how
        if self._end is not None and not self._streaming and self._reply_ended is None:
            self._reply_ended = self._end
            self._chunks.put(None)

    def _drop(self) -> None:
        with self._turn:
            self._dropped = True
            self._streaming = False
            if self._fate == "released":
                self._finish("failed: the connection to Chrome ended")
            self._turn.notify_all()

    # -- small things

    def _current(self, held: Held) -> _Paused:
        paused = self._held
        if paused is None or paused.handle != held.handle or self._fate:
            raise ValueError("this request is not held any more")
        return paused

    def _of_the_site(self, url: str) -> bool:
        place = urlsplit(url.removeprefix("blob:"))
        return f"{place.scheme}://{place.netloc}" == self._origin

    def _secret_of(self, realm: _Realm) -> str:
        return self._shared_secret if realm.outlives_us else self._secret

    def _tell_guard(self, session: str, said: str) -> str:
        answer = self._call("Runtime.evaluate", {"expression": guard.word(self._secret, said), "returnByValue": True}, session)
        return str(answer.get("result", {}).get("value"))

    def _call(self, method: str, params: dict[str, Any], session: str = "", timeout: float = 10.0) -> dict[str, Any]:
        if self._devtools is None:
            raise Failure("browser", "The request gate is not attached.")
        return self._devtools.call(method, params, session, timeout)

    def _post(self, method: str, params: dict[str, Any], session: str = "",
              then: Callable[[dict[str, Any] | None, str], None] | None = None) -> None:
        if self._devtools is not None:
            self._devtools.post(method, params, session, then)
