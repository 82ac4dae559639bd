"""How a log that was cut off in the middle of a block is made whole again, and what the next block will be called.

Under the conversation's lock, before any append: truncate the file to `Tail.keep`, append `Tail.seal`. Every quoted byte stays; cut are
only a NUL run, half a character, and a line of ours that never got its LF (a heading without its LF goes whole). Then the block says
`*(interrupted)*`, and is closed with `state=interrupted` and `cut=` bytes lost. Text of other hands is never removed. Sealing may itself be
cut off at any byte and be done again; done twice it changes nothing. A log of a newer version is never touched. Pure; never raises.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gptbridge.core.log_block import SEAL, Attrs, Block, Kind, Section, close_block, last_of_other, open_block, render_block, render_section
from gptbridge.core.log_header import read as read_header
from gptbridge.core.log_read import END_START, Log, Mark, Scan, Span, cut_nuls, end_mark, is_begun, parse, scan, torn_end


@dataclass(slots=True)
class Tail:
    """The end of a log. clean: nothing to repair. prev: for the next block's end mark. keep: bytes to truncate to. seal: what to append
    then (b"" when clean). newer: of a later version, nothing may be written."""

    clean: bool
    next_turn: int
    next_event: int
    prev: str
    keep: int
    seal: bytes
    newer: bool = False

    def block(
        self, kind: Kind, at: str, *, attrs: Attrs = (), sections: Iterable[Section] = (), state: str, words: Iterable[str] = (),
        end: Attrs = (),
    ) -> bytes:  # fmt: skip
        """The next block, numbered and chained, to be appended once the tail is repaired."""
        number, other = (self.next_turn, self.next_event) if kind == "turn" else (self.next_event, self.next_turn)
        return render_block(
            kind, number, at, attrs=attrs, sections=sections, state=state, words=words, prev=self.prev, other=other - 1, end=end
        )  # fmt: skip

    def opening(
        self, kind: Kind, at: str, *, attrs: Attrs = (), sections: Iterable[Section] = (), words: Iterable[str] = ()
    ) -> bytes:  # fmt: skip
        """The first bytes of the next block, to be appended when it begins: `block` with more sections begins with them, and what it has
        behind them closes the block. A log that ends so is torn to every reader, until that happened or `seal` took its place."""
        number = self.next_turn if kind == "turn" else self.next_event
        return open_block(kind, number, at, attrs=attrs, words=words) + b"".join(map(render_section, sections))

    def after(self, kind: Kind, block: bytes) -> Tail:
        """The end of the log once it is repaired and the whole `block` of `kind` is appended."""
        mark = end_mark(block, block.rindex(END_START))
        assert mark is not None
        turn, event = (self.next_turn + 1, self.next_event) if kind == "turn" else (self.next_turn, self.next_event + 1)
        return Tail(True, turn, event, mark.sha256[:16], self.keep + len(self.seal) + len(block), b"")


def tail(data: bytes) -> Tail:
    """The end of the log whose bytes are `data` (the whole file)."""
    head = read_header(data)
    if head.newer:
        return Tail(True, 1, 1, "-", len(data), b"", newer=True)
    return _end(data, scan(data, head.end), head.end)


def tail_from_end(chunk: bytes, size: int) -> Tail | None:
    """The same from the last bytes of a file of `size` bytes, if they hold a whole end mark that tells all; None = give more of the file.

    1,024 bytes are enough for every clean end written by `Tail.block`. The header is not seen here, unless `chunk` is the whole file: ask
    `is_newer` of the file's first bytes.
    """
    if len(chunk) >= size:
        return tail(chunk)
    before = size - len(chunk)
    at = len(chunk)
    while (at := chunk.rfind(END_START, 0, at + len(END_START) - 1)) >= 0:
        mark = end_mark(chunk, at)
        if mark and mark.whole and mark.size <= before + at and "sum" in mark.extra and _numbers(mark) == {"turn", "event"}:
            found = _end(chunk, scan(chunk, at + 1), at)
            found.keep += before
            return found
    return None


def _numbers(mark: Mark) -> set[str]:
    """The kinds whose last number the mark names."""
    return {mark.kind} | {key for key in ("turn", "event") if mark.extra.get(key, "").isdigit()}


def seal(data: bytes) -> bytes:
    """`data` with its end repaired; `data` itself when there is nothing to repair or the format is newer."""
    found = tail(data)
    return data if found.clean else data[: found.keep] + found.seal


def turns(log: Log, *, with_superseded: bool = False) -> list[Block]:
    """The turns in file order, without those that a later whole one replaces (`supersedes=N`), unless asked for, and without what holds
    nothing: a block that was cut off behind its heading tells neither whose turn it was nor a word of it."""
    found = [block for block in log.blocks if block.kind == "turn"
             and (block.attrs or block.sections or block.state not in ("torn", "interrupted"))]
    whole = [block for block in found if block.ok and block.state not in ("torn", "interrupted")]
    gone = set() if with_superseded else {(block.attr("supersedes"), block.number) for block in whole}
    hidden = {number for number, by in gone if number and number.isdigit() and int(number[:9]) < by}
    return [block for block in found if str(block.number) not in hidden]


def _end(data: bytes, found: Scan, floor: int) -> Tail:
    if found.torn:
        return _torn(data, found, found.torn)
    keep, closing = _behind(data, found.marks[-1].stop if found.marks else floor)
    clean = keep == len(data) and not closing
    return Tail(clean, found.last("turn") + 1, found.last("event") + 1, found.prev, keep, closing)


def told(log: Log, *, answering: bool) -> Log:
    """A log as a reader is to be told of it: a torn end is no damage. It is `answering` while its writer lives (and holds the
    conversation's lock), else `interrupted`, which is what the next writer will call it."""
    if not log.torn:
        return log
    *before, last = log.blocks
    problems = tuple(problem for problem in log.problems if problem.offset != last.start)
    return replace(log, blocks=(*before, replace(last, state="answering" if answering else "interrupted")), problems=problems)


def loses(old: bytes, new: bytes) -> bool:
    """Whether a reader of the log `old` would lose anything whole if `new` took its place: bytes that are gone, blocks that are damaged."""
    if new.startswith(old):
        return False
    before, after = parse(old), parse(new)
    if (before.newer and not after.newer) or (before.header and not after.header):
        return True
    return not _whole(before) <= _whole(after)


def _whole(log: Log) -> set[tuple[str, str]]:
    """What is whole in a log, by the message or operation that it tells of, else by its bytes."""
    whole = (block for block in log.blocks if block.ok and block.state != "interrupted")
    return {(block.kind, block.attr("user") or block.attr("op") or block.digest) for block in whole}


def _torn(data: bytes, found: Scan, span: Span) -> Tail:
    following = (found.last("turn") + 1, found.last("event") + 1)
    at = data.rfind(b"\n", span.body - 1)
    mark = end_mark(data[at:] + b"\n", 0)
    named = mark and mark.whole and (mark.kind, mark.number, mark.prev) == (span.kind, span.number, found.prev)
    if mark and named and mark.sha256 == hashlib.sha256(data[span.start : at]).hexdigest():
        # Only the last LF is missing: the block itself is all there.
        return Tail(False, *following, mark.sha256[:16], len(data), b"\n")
    keep = torn_end(data, span)
    ending = SEAL if data[keep - 1] == 10 else b"\n" + SEAL
    body = data[span.start : keep] + ending
    other = found.last("event" if span.kind == "turn" else "turn")
    attrs = {"cut": str(len(data) - keep)} | last_of_other(span.kind, other)
    closing = close_block(body, span.kind, span.number, "interrupted", found.prev, (), **attrs)
    return Tail(False, *following, hashlib.sha256(body).hexdigest()[:16], keep, ending + closing)


def _behind(data: bytes, floor: int) -> tuple[int, bytes]:
    """What to keep, and to append, of what follows the last end mark: the first bytes of a block are cut, other hands' text is kept."""
    keep = cut_nuls(data, len(data), floor)
    bol = max(data.rfind(b"\n", 0, keep) + 1, floor)
    if bol < keep and is_begun(data[bol : min(keep, bol + 64)], (b"## turn ", b"## event ")):
        keep = bol
    if not data[floor:keep].strip(b"\n"):
        # A block's first LF is all that was written of it.
        return floor, b""
    return keep, b"" if data[keep - 1] == 10 else b"\n"
