"""A kept fold as text, whose rows stay text until somebody asks for one: a command looks at a few of thousands.

Guarantees: whole or refused: checksums cover every byte behind the first line, so a row that is decoded later is the row that was kept.
What the rows mean is the fold's affair; that the kept fold belongs to the file beside it is edge/checkpoint.py's. Pure.

Format: `NAME/VERSION <CRC-32 of the head> <CRC-32 of the rest>`, 8 hex digits each, LF; then the head, one line of JSON (facts of the
caller; `open`: where the rows that are nearly always wanted begin and end; `near`: once more the text of these and of the newest 256 rows,
for who wants no others; `least`: the lowest number of the newest, 0 where `near` holds all there are); then one line of JSON of its own
(`aside`), then the rows, each `KEY NUMBER JSON`: a key of 26 characters, the number that orders the rows, and the row in ASCII JSON.
Fails closed: ValueError for anything else.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar

KEY = 26  # characters, as a ULID has
NEWEST = 256  # rows

T = TypeVar("T")
K = TypeVar("K")


class Rows(MutableMapping[str, T], Generic[T]):
    """Rows by key, in order of their first appearance. Those of a kept fold are decoded one by one, when asked for."""

    def __init__(self, text: bytes = b"", decode: Callable[[bytes], T] | None = None, spots: dict[str, list[int]] | None = None) -> None:
        self._text, self._spots = text, spots or {}
        self._decode = decode
        self._rows: dict[str, T | bytes] = {}

    def _all(self) -> dict[str, T | bytes]:
        if self._text:
            rows: dict[str, T | bytes] = {str(line[:KEY], "ascii"): line for line in self._text.split(b"\n")}
            rows.update(self._rows)
            self._rows, self._text, self._spots = rows, b"", {}
        return self._rows

    def __getitem__(self, key: str) -> T:
        row = self._rows.get(key)
        if row is None:
            spot = self._spots.get(key)  # known without cutting the text into rows
            row = self._text[spot[0]:spot[1]] if spot else self._all()[key]
        if isinstance(row, bytes):
            assert self._decode is not None
            row = self._rows[key] = self._decode(_body(row))
        return row

    def __setitem__(self, key: str, row: T) -> None:
        self._rows[key] = row

    def __delitem__(self, key: str) -> None:
        del self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"Rows({dict(self)!r})"

    def highest_first(self, number: Callable[[T], int]) -> Iterator[T]:
        """By descending number; a row is decoded when its turn comes."""
        numbered = [(_number(row) if isinstance(row, bytes) else number(row), key) for key, row in self._all().items()]
        numbered.sort(reverse=True)
        return (self[key] for _, key in numbered)

    def mentioning(self, word: str) -> Iterator[T]:
        """Every row that holds `word` as a whole string somewhere, and others that are decoded already: the caller looks closer."""
        wanted = json.dumps(word).encode("ascii")
        for key, row in list(self._all().items()):
            if not isinstance(row, bytes) or wanted in row:
                yield self[key]

    def lines(self, number: Callable[[T], int], encode: Callable[[T], dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
        """(key, its row as text); a row that was never decoded is given as it was kept."""
        for key, row in self._all().items():
            if isinstance(row, bytes):
                yield key, row
            else:
                yield key, f"{key} {number(row)} {_json(encode(row))}".encode("ascii")


class Deferred(MutableMapping[K, T], Generic[K, T]):
    """A mapping that is made when first looked into."""

    def __init__(self, make: Callable[[], dict[K, T]]) -> None:
        self._make, self._made = make, None

    _made: dict[K, T] | None

    @property
    def _now(self) -> dict[K, T]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: K) -> T:
        return self._now[key]

    def __setitem__(self, key: K, value: T) -> None:
        self._now[key] = value

    def __delitem__(self, key: K) -> None:
        del self._now[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)


def pack(name: str, facts: dict[str, Any], aside: Any, rows: Iterator[tuple[str, bytes]], wanted: Callable[[str], bool]) -> bytes:
    """ValueError for a key of another length, or one that no line can hold."""
    spots: dict[str, list[int]] = {}
    lines: list[bytes] = []
    at = 0
    for key, line in rows:
        if len(key) != KEY or not (key.isascii() and key.isalnum()):
            raise ValueError("a key that cannot be kept")
        if wanted(key):
            spots[key] = [at, at + len(line)]
        at += len(line) + 1
        lines.append(line)
    least = sorted(map(_number, lines))[-NEWEST] if len(lines) > NEWEST else 0
    near = [str(line, "ascii") for line in lines if str(line[:KEY], "ascii") in spots or _number(line) >= least]
    head = _json({**facts, "open": spots, "near": "\n".join(near), "least": least}).encode("ascii")
    rest = b"\n".join([_json(aside).encode("ascii"), *lines])
    return f"{name} {zlib.crc32(head):08x} {zlib.crc32(rest):08x}\n".encode("ascii") + head + b"\n" + rest


def unpack(name: str, data: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """(facts with `open`, the text of `aside`, the text of the rows)."""
    facts, end, checksum = _head(name, data)
    if zlib.crc32(memoryview(data)[end + 1:]) != checksum:
        raise ValueError("not whole")
    start = data.find(b"\n", end + 1)
    aside = data[end + 1:start] if start >= 0 else data[end + 1:]
    return facts, aside, data[start + 1:] if start >= 0 else b""


def unpack_head(name: str, data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """(facts with `open` and `least`, the text of the `near` rows) from the beginning of a kept fold; None: of a longer beginning."""
    if data.count(b"\n") == 1:
        return None
    facts = _head(name, data)[0]
    return facts, facts["near"].encode("ascii")


def _head(name: str, data: bytes) -> tuple[dict[str, Any], int, int]:
    """(facts, where the head's line ends, the checksum of what follows)."""
    first = len(name) + 19
    words = data[:first].split(b" ")
    if len(words) != 3 or words[0] != name.encode("ascii") or not words[2].endswith(b"\n"):
        raise ValueError("no kept fold of this version")
    end = data.index(b"\n", first)
    if zlib.crc32(memoryview(data)[first:end]) != int(words[1], 16):
        raise ValueError("not whole")
    return json.loads(data[first:end]), end, int(words[2], 16)


def _body(line: bytes) -> bytes:
    return line[line.index(b" ", KEY + 1) + 1:]


def _number(line: bytes) -> int:
    return int(line[KEY + 1:line.index(b" ", KEY + 1)])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
