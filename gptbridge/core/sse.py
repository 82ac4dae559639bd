"""Where one server-sent event ends: bytes cut anywhere to the `data` lines of each event.

Format: lines end in LF, CR or CRLF, an empty line ends the event, `data: [DONE]` ends it at once; comments and other fields are
skipped. Bytes that are no UTF-8 become U+FFFD. Linear in the bytes, also when they come one by one. Touches nothing; raises nothing.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n?|\n")


class EventLines:
    """`feed` and `close` give the events that became whole, each as the list of its `data` values, never empty."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._scan = 0  # no line end stands before this offset
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[list[str]]:
        self._bytes += data
        events: list[list[str]] = []
        start = 0
        while (cut := self._line_end(start)) is not None:
            end, after = cut
            self._line(bytes(self._bytes[start:end]), events)
            start = self._scan = after
        del self._bytes[:start]
        self._scan -= start
        return events

    def close(self) -> list[list[str]]:
        """The bytes are over: the last line and event count although nothing ended them."""
        events: list[list[str]] = []
        rest = bytes(self._bytes).rstrip(b"\r")
        self._bytes.clear()
        self._scan = 0
        if rest:
            self._line(rest, events)
        self._end(events)
        return events

    def _line_end(self, start: int) -> tuple[int, int] | None:
        found = _LINE_END.search(self._bytes, max(start, self._scan))
        if found is None:
            self._scan = len(self._bytes)
            return None
        if found[0] == b"\r" and found.end() == len(self._bytes):  # the second half of CRLF may still come
            self._scan = found.start()
            return None
        return found.span()

    def _line(self, raw: bytes, events: list[list[str]]) -> None:
        if not raw:
            self._end(events)
            return
        line = raw.decode("utf-8", "replace").removeprefix("\ufeff")
        if line.startswith("data:"):
            value = line[5:].removeprefix(" ")
            self._data.append(value)
            if value.strip() == "[DONE]":
                self._end(events)

    def _end(self, events: list[list[str]]) -> None:
        if self._data:
            events.append(self._data)
            self._data = []
