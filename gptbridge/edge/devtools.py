"""Secret: how a DevTools socket is spoken; others see calls, results and events.

Guarantees: a call returns its result or raises `Failure("browser")`; events are handed over in order, in the reader thread;
nothing here blocks the reader thread, and nothing is logged (requests carry the bearer token). `call`, `post` and `close` may
be used from a signal handler: writes go through a reentrant queue, no lock of ours is ever held.
Touches one TCP connection to loopback and two daemon threads. Fails closed: a socket that dies marks itself `dropped`, ends
every waiting call with a Failure, and never reconnects.
Source: Chrome DevTools Protocol, JSON over WebSocket, flattened sessions (`sessionId` beside `method`).
"""

from __future__ import annotations

import http.client
import itertools
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from gptbridge.core.errors import Failure

Event = Callable[[str, dict[str, Any], str], None]  # method, params, session id ("" = the socket's own target)
Then = Callable[[dict[str, Any] | None, str], None]  # result or None, reason of the refusal or ""

LOOPBACK = "127.0.0.1"


class Refused(Failure):
    """Chrome answered a call with an error; `reason` is its own sentence (never a payload)."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__("browser", f"Chrome refused {method}: {reason}.")
        self.reason = reason


def version_of(port: int, timeout: float = 5.0) -> dict[str, str] | None:
    """The answer of `/json/version` on a loopback port, or None where no DevTools server answers in `timeout` seconds."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)
    try:
        connection.request("GET", "/json/version")
        answer = connection.getresponse()
        document = json.loads(answer.read(65536)) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if not isinstance(document, dict) or not isinstance(document.get("webSocketDebuggerUrl"), str):
        return None
    return {key: value for key, value in document.items() if isinstance(value, str)}


class DevTools:
    """A client of one DevTools WebSocket, `ws://127.0.0.1:PORT/devtools/browser/ID`.

    `on_event` is called in the reader thread for every event and must not block; `on_drop` once, when the socket is gone.
    """

    def __init__(self, url: str, *, on_event: Event | None = None, on_drop: Callable[[], None] | None = None,
                 timeout: float = 10.0) -> None:
        import websocket  # 20 ms: only commands that talk to a browser pay for it

        place = urlsplit(url)
        if place.hostname not in (LOOPBACK, "localhost", "::1") or place.port is None:
            raise Failure("browser", "The address of Chrome's DevTools is not on loopback; nothing was attached.")
        try:
            # A socket of our own keeps proxy settings of the environment out of the way.
            raw = socket.create_connection((LOOPBACK, place.port), timeout=timeout)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = websocket.create_connection(url, socket=raw, timeout=timeout, suppress_origin=True,
                                                       skip_utf8_validation=True)
        except (OSError, websocket.WebSocketException) as error:
            raise Failure("browser", f"Chrome's DevTools did not answer on port {place.port} ({type(error).__name__}).",
                          "run: ask-gpt login --quit, then the command again") from error
        self._socket.settimeout(None)
        self.dropped = False
        self._closing = False
        self._on_event = on_event or (lambda method, params, session: None)
        self._on_drop = on_drop or (lambda: None)
        self._ids = itertools.count(1)
        self._waiting: dict[int, Then] = {}
        self._outgoing: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="devtools-read", daemon=True)
        self._writer = threading.Thread(target=self._write, name="devtools-write", daemon=True)
        self._reader.start()
        self._writer.start()

    def call(self, method: str, params: dict[str, Any] | None = None, session_id: str = "",
             timeout: float = 10.0) -> dict[str, Any]:
        """The result of one call. Raises `Refused` when Chrome says no, Failure("browser") on silence or a dead socket.

        Never from the reader thread: it would wait for itself.
        """
        return self.calls([(method, params or {})], session_id, timeout)[0]

    def calls(self, steps: Sequence[tuple[str, dict[str, Any]]], session_id: str = "", timeout: float = 10.0) -> list[dict[str, Any]]:
        """Several calls in this order, all written before the first answer is waited for; the results, or the first failure."""
        answers: queue.SimpleQueue[tuple[int, dict[str, Any] | None, str]] = queue.SimpleQueue()
        got: dict[int, dict[str, Any]] = {}

        def answer(place: int) -> Then:
            return lambda result, reason: answers.put((place, result, reason))

        numbers = [self.post(method, params, session_id, answer(place)) for place, (method, params) in enumerate(steps)]
        deadline = time.monotonic() + timeout
        while len(got) < len(steps):
            try:
                place, result, reason = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                for number in numbers:
                    self._waiting.pop(number, None)
                silent = next(method for place, (method, _) in enumerate(steps) if place not in got)
                raise Failure("browser", f"Chrome did not answer {silent} within {timeout:g} s.") from None
            if result is None:
                if self.dropped:
                    raise Failure("browser", f"The connection to Chrome ended during {steps[place][0]}.")
                raise Refused(steps[place][0], reason)
            got[place] = result
        return [got[place] for place in range(len(steps))]

    def post(self, method: str, params: dict[str, Any] | None = None, session_id: str = "", then: Then | None = None) -> int:
        """Sends a call and returns at once; `then` runs later in the reader thread. Calls are written in the order of posting."""
        number = next(self._ids)
        if then is not None:
            self._waiting[number] = then
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session_id:
            message["sessionId"] = session_id
        self._outgoing.put(json.dumps(message))
        if self.dropped:
            self._end_waiting()
        return number

    def close(self) -> None:
        """Closes the socket. Chrome then continues whatever this client held: fail it first."""
        self._closing = True
        self._outgoing.put(None)
        try:
            if self._socket.sock is not None:
                self._socket.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if threading.current_thread() is not self._reader:
            self._reader.join(2.0)

    def _write(self) -> None:
        while (text := self._outgoing.get()) is not None:
            try:
                self._socket.send(text)
            except Exception:
                return  # the reader sees the same dead socket and says so

    def _read(self) -> None:
        try:
            while True:
                raw = self._socket.recv()
                if not raw:
                    break
                message = json.loads(raw)
                if "id" in message:
                    then = self._waiting.pop(message["id"], None)
                    if then is not None:
                        error = message.get("error")
                        then(None if error else message.get("result", {}), str(error.get("message", "")) if error else "")
                elif "method" in message:
                    self._on_event(message["method"], message.get("params", {}), message.get("sessionId", ""))
        except Exception:
            pass  # any end of the reader is the end of the connection; what it means is the owner's to say
        finally:
            self.dropped = True
            self._outgoing.put(None)
            try:
                self._socket.shutdown()  # type: ignore[no-untyped-call]
            except Exception:
                pass
            self._end_waiting()
            if not self._closing:
                self._on_drop()

    def _end_waiting(self) -> None:
        while self._waiting:
            try:
                _, then = self._waiting.popitem()
            except KeyError:
                return
            then(None, "connection ended")
