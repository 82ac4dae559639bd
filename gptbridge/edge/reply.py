"""The answer to the one released request, byte by byte as Chrome receives it.

Guarantees: bytes come in order and once; the end becomes visible only after all of them lie in the queue. Fed in the DevTools reader
thread, read in another. Touches nothing. Fails towards "still open": only Chrome's own word, or the end of its connection, ends it.
"""

from __future__ import annotations

import base64
import queue
from collections.abc import Callable
from typing import Any

Ask = Callable[[str, dict[str, Any], Callable[[dict[str, Any] | None, str], None]], None]  # method, params, then


class Reply:
    """`status` is None before the headers; `ended` None while open, "finished" or "failed: <reason>"."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.ended: str | None = None
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._streaming = False
        self._end: str | None = None

    def next(self, timeout: float) -> bytes | None:
        """The next bytes as they arrive; None when none came within `timeout` seconds or the answer has ended."""
        try:
            return self._chunks.get(timeout=timeout) if self.ended is None else self._chunks.get_nowait()
        except queue.Empty:
            return None

    def heard(self, method: str, params: dict[str, Any], ask: Ask) -> None:
        """A `Network.` event of the released request; `ask` calls in its session."""
        if method == "Network.requestWillBeSent" and "redirectResponse" in params:
            self.status = int(params["redirectResponse"]["status"])
        elif method == "Network.responseReceived":
            self.status = int(params["response"]["status"])
            self._streaming = True
            request = {"requestId": str(params["requestId"])}
            ask("Network.streamResourceContent", request, lambda result, reason: self._streams(result, request, ask))
        elif method == "Network.dataReceived" and params.get("data"):
            self._chunks.put(base64.b64decode(params["data"]))
        elif method == "Network.loadingFinished":
            self.end("finished")
        elif method == "Network.loadingFailed":
            self.end(f"failed: {params.get('errorText', 'unknown')}")

    def end(self, how: str) -> None:
        self._end = self._end or how
        self._settle()

    def cut(self, how: str) -> None:
        """The connection is gone: no more bytes will come."""
        self._streaming = False
        self.end(how)

    def _streams(self, result: dict[str, Any] | None, request: dict[str, Any], ask: Ask) -> None:
        if result is None:
            # It was over before the stream could be asked for: the body is there as a whole.
            ask("Network.getResponseBody", request, self._whole)
            return
        if result.get("bufferedData"):
            self._chunks.put(base64.b64decode(result["bufferedData"]))
        self._streaming = False
        self._settle()

    def _whole(self, result: dict[str, Any] | None, reason: str) -> None:
        if result is not None:
            text = str(result.get("body", ""))
            self._chunks.put(base64.b64decode(text) if result.get("base64Encoded") else text.encode("utf-8", "surrogatepass"))
        self._streaming = False
        self._settle()

    def _settle(self) -> None:
        if self._end is not None and not self._streaming and self.ended is None:
            self.ended = self._end
            self._chunks.put(None)
