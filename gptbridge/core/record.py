"""The framing of journal lines: how a record becomes one line, and how a damaged file is told from a whole one.

Guarantees: a line decodes only if every byte of it is as written; a lost, repeated, moved or changed line of an acknowledged
record shows as `Damage` (but a tail cut at a line end, which only a number kept elsewhere can show), and what stands behind
the damage is still read. Pure; touches nothing.
Format: `{"seq":N,"sum":"<8 hex>",...}` LF, ASCII JSON without blanks; `sum` is the CRC-32 of every byte before the LF but its
own 8 digits. `seq` counts 1, 2, 3 ... over valid records; the first record of a rewritten file carries `base`, and the next
record is `base` + 1. Bytes without a LF were never committed; the next writer ends them with `SEAL`, and such a line is
harmless for ever.
Fails closed: what it cannot prove is damage; it never guesses a record.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SEAL = b"\0torn\n"
_MARK = SEAL[:-1]
_LINE = re.compile(rb'\{"seq":([1-9][0-9]{0,15}),"sum":"([0-9a-f]{8})"((?:,[ -~]+)?)\}')


class BadLine(ValueError):
    """These bytes are not one whole record; the text says why, without any of the content."""


class Stale(Exception):
    """The journal holds records that the writer has not read: read them, under the lock, and decide again."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"expected to write record {expected}, but the next is {found}")
        self.expected = expected
        self.found = found


class Record(NamedTuple):
    """One valid record: its number, its fields without `seq` and `sum`, and the offset of its line in the file (bytes)."""

    seq: int
    fields: dict[str, Any]
    offset: int


class Damage(NamedTuple):
    """Where an acknowledged record is gone: line number from 1, offset in bytes, what was found there (never content)."""

    line_no: int
    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What a journal file holds. `records` in file order; `next_seq`: the number that the next record gets, above every one
    that a damaged line may have had; `torn_size`: bytes behind the last LF; `clean_size`: bytes up to and with it."""

    records: Sequence[Record] = ()
    next_seq: int = 1
    torn_size: int = 0
    clean_size: int = 0
    damage: Sequence[Damage] = ()
    lines: int = 0
    bad_since: int = field(default=0, repr=False)  # unsealed bad lines since the last valid record: each may have been one

    @property
    def torn(self) -> bool:
        return self.torn_size > 0

    @property
    def size(self) -> int:
        return self.clean_size + self.torn_size

    def pairs(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, fields) of every valid record, as the folds take them."""
        return ((record.seq, record.fields) for record in self.records)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadLine("a key stands twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadLine("a number out of range")
    return number


def _no_constant(_: str) -> None:
    raise BadLine("a number that JSON does not know")


_STRICT = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_no_constant)


def _checksum(before: bytes, behind: bytes) -> str:
    return f"{zlib.crc32(behind, zlib.crc32(before)):08x}"


def encode(seq: int, fields: dict[str, Any]) -> bytes:
    """The line of record `seq`, with its LF. ValueError for a reserved key, NaN or a number below 1; TypeError for what JSON lacks."""
    if seq < 1 or "seq" in fields or "sum" in fields:
        raise ValueError("seq below 1, or a field named seq or sum")
    body = json.dumps(fields, ensure_ascii=True, allow_nan=False, separators=(",", ":"))[1:]
    before = f'{{"seq":{seq},"sum":"'.encode("ascii")
    behind = (f'",{body}' if fields else f'"{body}').encode("ascii")
    return before + _checksum(before, behind).encode("ascii") + behind + b"\n"


def decode(line: bytes) -> tuple[int, dict[str, Any]]:
    """The record of one line (with or without its LF); BadLine unless it is exactly what `encode` wrote."""
    line = line.removesuffix(b"\n")
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadLine("NUL bytes" if b"\0" in line else "no record")
    if not intact(line, found.start(2), found.end(2)):
        raise BadLine("a wrong checksum")
    try:
        fields = _STRICT.decode("{" + found[3][1:].decode("ascii") + "}")
    except BadLine:
        raise
    except (ValueError, RecursionError):
        raise BadLine("no JSON") from None
    if "seq" in fields or "sum" in fields:
        raise BadLine("a key stands twice")
    return int(found[1]), fields


def _swallowed(torn: bytes) -> bool:
    """Whether a torn line is really a whole record that lost its LF to damage and ran into what stood behind it.

    A torn write leaves a beginning of a line, or NULs where its bytes should be, or a half-written seal; never a whole record
    with other bytes behind it.
    """
    if not torn.startswith(b'{"seq":'):
        return False
    try:
        end = json.JSONDecoder().raw_decode(torn.decode("latin-1"))[1]
        decode(torn[:end])
    except (ValueError, RecursionError):
        return False
    return torn[end : end + 1] not in (b"", b"\0")


def is_sealed(line: bytes) -> bool:
    """Whether a line (without its LF) is a torn one that a later writer ended: harmless, it was never committed."""
    return line.endswith(_MARK) and not _swallowed(line[: -len(_MARK)])


def intact(line: bytes, before: int, behind: int) -> bool:
    """Whether a line's sum, the 8 digits from `before` to `behind`, is that of its bytes."""
    return b"%08x" % zlib.crc32(line[behind:], zlib.crc32(line[:before])) == line[before:behind]


def scan(data: bytes, *, first_seq: int = 1, after: Scan | None = None) -> Scan:
    """Read a whole file, or with `after` only the bytes from `after.clean_size` on, and return the view of the whole.

    first_seq: the number of the first record of a file that carries no `base`. Never raises for any bytes.
    """
    old = after or Scan(next_seq=first_seq)
    if after is not None and not data and not after.torn:
        return after
    records, damage = list(old.records), list(old.damage)
    line_no, offset, bad = old.lines, old.clean_size, old.bad_since
    expected = old.next_seq - bad
    body, lf, tail = data.rpartition(b"\n")
    for line in body.split(b"\n") if lf else ():
        line_no += 1
        start, offset = offset, offset + len(line) + 1
        if line.endswith(_MARK):
            if not is_sealed(line):
                damage.append(Damage(line_no, start, "a record without its line end"))
            continue
        try:
            seq, fields = decode(line)
        except BadLine as why:
            damage.append(Damage(line_no, start, str(why)))
            bad += 1
            continue
        base = fields.get("base") if not records and not damage else None
        if type(base) is int and base >= seq:
            expected, bad = base + 1, 0
        elif seq < expected:
            damage.append(Damage(line_no, start, f"record {seq} out of its place"))
            if any(seq == known.seq for known in records):
                continue
        else:
            if seq > expected + bad:
                damage.append(Damage(line_no, start, f"records {expected + bad} to {seq - 1} are missing"))
            expected, bad = seq + 1, 0
        records.append(Record(seq, fields, start))
    if _swallowed(tail):
        damage.append(Damage(line_no + 1, offset, "a record without its line end"))
    return Scan(tuple(records), expected + bad, len(tail), offset, tuple(damage), line_no, bad)


def whole_lines(chunk: bytes, *, whole: bool) -> tuple[int, int]:
    """For reading backwards: where the whole lines of a chunk begin and end that itself ends at the file's end or at a line's end. When
    it holds none, both are its length: take a larger chunk (or none is left).

    whole: the chunk begins at the file's start, so that its first line is whole too. Bytes behind the last LF are left out.
    For display only: reading backwards does not check that the numbers are contiguous.
    """
    end = chunk.rfind(b"\n") + 1
    start = 0 if whole else chunk.find(b"\n") + 1 or len(chunk)
    return (start, end) if start < end else (0, 0) if whole else (len(chunk), len(chunk))
