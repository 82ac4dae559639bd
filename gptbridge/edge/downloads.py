"""Secret: how a file's bytes come out of Chrome, hop by hop allowed, a piece at a time.

Each file gets a hidden window without a page: it is sent to the signed address, every request of that navigation (redirects too) waits for
our word before it leaves, and the answer's body is taken as a stream before anything could show or keep it. So cookies, proxy and handshake
are Chrome's own and go where Chrome would send them; neither a cookie nor the bearer ever comes here. Guarantees: no request to a host that
is none of the site's; at most HOPS redirects; pieces of at most PIECE bytes, one ahead of the one that is used, so memory is bounded on
both sides; no download of Chrome's own begins. The window dies with this process's connection: killed in the middle, nothing is left
(measured 2026-11, Chrome 156: 20 MB/s on two busy cores, 45 MB of ours for 500 MB).
Touches one DevTools connection of its own. Fails by `Unavailable` for one file. A body that was cut short looks complete: who saves it
must compare its size with `size`.
"""

from __future__ import annotations

import base64
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Link, Unavailable
from gptbridge.edge.chatgpt_files import disposed_name, unfetched
from gptbridge.edge.devtools import DevTools

HOPS = 5
PIECE = 1 << 20
SMALL = 1 << 10
ANSWER_S = 60.0  # until the first byte
STALL_S = 60.0  # between two pieces
BEAT_S = 0.5  # an empty piece this often while nothing comes, so that whoever saves it can give up
Paused = dict[str, Any]


class Courier:
    """Fetches through the Chrome at `browser_url`. `may`: whether a request to that address may leave."""

    def __init__(self, browser_url: str, may: Callable[[str], bool]) -> None:
        self._url, self._may = browser_url, may
        self._devtools: DevTools | None = None
        self._session = ""
        self._hops = 0
        self._answers: queue.SimpleQueue[Paused | Unavailable] = queue.SimpleQueue()

    @contextmanager
    def fetch(self, link: Link) -> Iterator[Stream]:
        if not self._may(link.url):
            raise _foreign()
        devtools = self._connected()
        self._answers, self._hops = queue.SimpleQueue(), 0
        target = str(devtools.call("Target.createTarget", {"url": "about:blank", "hidden": True})["targetId"])
        try:
            self._session = str(devtools.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"])
            stages = [{"urlPattern": "*", "requestStage": stage} for stage in ("Request", "Response")]
            devtools.calls([
                ("Network.enable", {}), ("Network.setBypassServiceWorker", {"bypass": True}),
                # A compressed answer has no length to compare with.
                ("Network.setExtraHTTPHeaders", {"headers": {"Accept-Encoding": "identity"}}),
                ("Fetch.enable", {"patterns": stages})], self._session)
            devtools.post("Page.navigate", {"url": link.url}, self._session, self._navigated)
            yield self._opened(devtools, link)
        finally:
            self._session = ""
            try:
                devtools.call("Target.closeTarget", {"targetId": target})
            except Failure:
                pass  # it is gone with its browser

    def close(self) -> None:
        if self._devtools is not None:
            self._devtools.close()
            self._devtools = None

    def _connected(self) -> DevTools:
        if self._devtools is None or self._devtools.dropped:
            self._devtools = DevTools(self._url, on_event=self._event, on_drop=lambda: self._answers.put(_lost()))
        return self._devtools

    # In the reader thread, which must not wait

    def _event(self, method: str, params: Paused, session: str) -> None:
        if method != "Fetch.requestPaused" or session != self._session or self._devtools is None:
            return
        paused = {"requestId": params["requestId"]}
        status = params.get("responseStatusCode")
        if "responseErrorReason" in params:
            self._answers.put(Unavailable(f"its host cannot be reached ({params['responseErrorReason']})", again=True))
        elif status is None:
            self._hops += 1
            if self._may(str(params["request"]["url"])) and self._hops <= HOPS + 1:
                self._devtools.post("Fetch.continueRequest", paused, session)
                return
            self._answers.put(_foreign() if self._hops <= HOPS + 1 else Unavailable("its link leads from address to address"))
        elif status in (301, 302, 303, 307, 308):
            self._devtools.post("Fetch.continueRequest", paused, session)  # the next hop waits for our word again
            return
        elif status == 200:
            self._answers.put(params)
            return
        else:
            self._answers.put(unfetched(int(status)))
        self._devtools.post("Fetch.failRequest", {**paused, "errorReason": "Aborted"}, session)

    def _navigated(self, result: dict[str, Any] | None, reason: str) -> None:
        said = reason if result is None else str(result.get("errorText") or "")
        if said and said != "net::ERR_ABORTED":  # that one is our own doing
            self._answers.put(Unavailable(f"its host cannot be reached ({said[:60]})", again=True))

    # In the caller's

    def _opened(self, devtools: DevTools, link: Link) -> Stream:
        try:
            answer = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise Unavailable("its host does not answer", again=True) from None
        if isinstance(answer, Unavailable):
            raise answer
        headers = {str(one["name"]).lower(): str(one["value"]) for one in answer.get("responseHeaders", [])}
        mime = headers.get("content-type", "").partition(";")[0].strip().lower() or None
        disposition = headers.get("content-disposition")
        if mime == "text/html" and not disposition and (link.mime or "text/html") != mime:
            raise Unavailable("the site answered with a page instead of the file")
        length = headers.get("content-length", "")
        size = int(length) if length.isascii() and length.isdigit() and "content-encoding" not in headers else None
        taken = devtools.call("Fetch.takeResponseBodyAsStream", {"requestId": answer["requestId"]}, self._session)
        return Stream(devtools, self._session, str(taken["stream"]), disposed_name(disposition), mime, size)


class Stream:
    """The Body port."""

    def __init__(self, devtools: DevTools, session: str, handle: str, name: str | None, mime: str | None, size: int | None) -> None:
        self._devtools, self._session, self._handle = devtools, session, handle
        self.name, self.mime, self.size = name, mime, size

    def chunks(self) -> Iterator[bytes]:
        wanted = SMALL << 6
        asked = self._ask(wanted)
        while True:
            came, began = asked
            while True:
                try:
                    result = came.get(timeout=BEAT_S)
                    break
                except queue.Empty:
                    if time.monotonic() - began > STALL_S:
                        raise Unavailable("it stopped coming", again=True) from None
                    yield b""
            if result is None:
                raise _lost()
            # Chrome waits until a piece is full: a slow file is asked for in small ones, so that it does not look stalled.
            took, over = time.monotonic() - began, bool(result.get("eof"))
            wanted = min(wanted * 2, PIECE) if took < 0.3 else max(wanted // 4, SMALL) if took > 2.0 else wanted
            if not over:
                asked = self._ask(wanted)  # it comes while this one is saved
            data = str(result.get("data", ""))
            if data:
                yield base64.b64decode(data) if result.get("base64Encoded") else data.encode("utf-8", "surrogatepass")
            if over:
                return

    def _ask(self, size: int) -> tuple[queue.SimpleQueue[dict[str, Any] | None], float]:
        came: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._devtools.post("IO.read", {"handle": self._handle, "size": size}, self._session, lambda result, reason: came.put(result))
        return came, time.monotonic()


def _foreign() -> Unavailable:
    return Unavailable("its link leads to a host that is none of the site's; it was not followed")


def _lost() -> Unavailable:
    return Unavailable("the browser went away", again=False, everything=True)
