"""How a conversation log is read: where its blocks stand, and which of them are exactly what was written.

Reading starts afresh at every heading of ours, so damage stays in its own block; text of other hands between blocks is skipped. A block is
`ok` when its length, its digest, its end mark's own sum and the digest of the block before it agree, and no NUL stands in it (a lost disk
block). What is not ok is still read as far as it can be, and named in `problems`. Text of a block that was cut off ends at the cut: at a
NUL run, half a character, half an escape or half a line of ours. Unknown sections, attributes and words of a later minor version are kept.
Pure; no bytes make `parse` raise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from gptbridge.core.escape import drop_cut_escape, unescape
from gptbridge.core.log_block import MARK_KEYS, SEAL, Block, Kind, Section, mark_sum
from gptbridge.core.log_header import read as read_header

HEAD_START = b"\n## "
END_START = b"\n<!-- ask-gpt end "
_PAIRS = rb"((?: [a-z][a-z0-9_-]*=[A-Za-z0-9._:-]+)*)"
_TIME = rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)"
_HEAD = re.compile(rb"\n## (turn|event) ([1-9]\d{0,8}) \xc2\xb7 " + _TIME + rb"((?: \([a-z][a-z-]*\))*)\n")
_COMMENT = re.compile(rb"\n<!-- ask-gpt (turn|event)=(\d{1,9})" + _PAIRS + rb" -->\n")
_SECTION = re.compile(rb"\n### ([a-z][a-z0-9-]*)\n(?:\n<!-- ask-gpt" + _PAIRS + rb" -->\n)?")
_END = re.compile(
    rb"\n(<!-- ask-gpt end (turn|event)=(\d{1,9}) state=([a-z][a-z-]*) bytes=(\d{1,15}) sha256=([0-9a-f]{64}) prev=(-|[0-9a-f]{16})"
    + _PAIRS
    + rb") -->\n"
)
_LINES_OF_OURS = (b"### ", b"## turn ", b"## event ", b"<!-- ask-gpt ", b"*(interrupted)*")
# With the LF of an end mark that was begun, whole, and without its last line or two. A lone LF is no evidence, and harmless.
_SEALS_BEGUN = (SEAL + b"\n", SEAL, SEAL[:-16], SEAL[:-17])


class Problem(NamedTuple):
    """Something in a log that is not as it was written. `offset` in bytes from 0, `line` from 1."""

    offset: int
    line: int
    what: str


@dataclass(slots=True)
class Log:
    """A log as read. torn: the last block was not closed, `seal` would close it. newer: of a later version, nothing may be written."""

    header: dict[str, str]
    blocks: tuple[Block, ...]
    problems: tuple[Problem, ...]
    torn: bool
    newer: bool

    @property
    def damage(self) -> str | None:
        """What is not as it was written, in a few words; a torn end, which heals, is no damage."""
        if self.newer or not self.problems or (self.torn and len(self.problems) == 1):
            return None
        first, more = self.problems[0], len(self.problems) - 1 - self.torn
        return f"line {first.line}: {first.what}" + (f" (and {more} more)" if more > 0 else "")


class Mark(NamedTuple):
    """An end mark: the offsets of the LF before it and behind its own LF, and its words. `whole`: its own sum is right, or it has none."""

    start: int
    stop: int
    kind: str
    number: int
    state: str
    size: int
    sha256: str
    prev: str
    extra: dict[str, str]
    whole: bool


@dataclass(slots=True)
class Span:
    """One block's place: its first LF, the end of its heading line, its own end mark, the first LF of the next block."""

    kind: Kind
    number: int
    at: str
    words: tuple[str, ...]
    start: int
    body: int
    stop: int = 0
    mark: Mark | None = None


@dataclass(slots=True)
class Scan:
    """All blocks and all end marks in file order. `torn`: the last block, if no end mark of any block follows its heading."""

    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    torn: Span | None = None

    @property
    def prev(self) -> str:
        """What the next block's end mark says about the block before it."""
        return self.marks[-1].sha256[:16] if self.marks else "-"

    def last(self, kind: str) -> int:
        """The greatest number of that kind that any heading or sound end mark names, 0 if none."""
        named = [s.number for s in self.spans if s.kind == kind] + [m.number for m in self.marks if m.kind == kind]
        return max([0, *named, *(int(m.extra[kind]) for m in self.marks if m.whole and m.extra.get(kind, "").isdigit())])


def end_mark(data: bytes, at: int) -> Mark | None:
    """The end mark whose leading LF stands at `at`, or None."""
    m = _END.match(data, at)
    if not m:
        return None
    kind, number, state, size, sha256, prev = (g.decode() for g in m.group(2, 3, 4, 5, 6, 7))
    extra = {key: value[:200] for key, value in _split(m[8])}
    guarded, _, total = m[1].rpartition(b" sum=")
    whole = "sum" not in extra or mark_sum(guarded) == total
    return Mark(at, m.end(), kind, int(number), state, int(size), sha256, prev, extra, whole)


def scan(data: bytes, begin: int) -> Scan:
    """Find blocks and end marks from offset `begin` (the end of the header, or of any line) on."""
    found = Scan()
    for at in _each(data, HEAD_START, max(0, begin - 1)):
        m = _HEAD.match(data, at)
        if m:
            words = tuple(w[1:-1] for w in m[4].decode().split())
            found.spans.append(Span(cast(Kind, m[1].decode()), int(m[2]), m[3].decode(), words, at, m.end()))
    found.marks = [mark for at in _each(data, END_START, max(0, begin - 1)) if (mark := end_mark(data, at))]
    marks = iter(found.marks)
    mark = next(marks, None)
    for i, span in enumerate(found.spans):
        span.stop = found.spans[i + 1].start if i + 1 < len(found.spans) else len(data)
        while mark and mark.start < span.stop:
            if not span.mark and mark.start >= span.body - 1 and (mark.kind, mark.number) == (span.kind, span.number):
                span.mark = mark
            mark = next(marks, None)
    if found.spans and (not found.marks or found.marks[-1].start < found.spans[-1].start):
        found.torn = found.spans[-1]
    return found


def parse(data: bytes) -> Log:
    """The whole log. Reads about 100 MB/s; never raises, whatever the bytes are."""
    head = read_header(data)
    found = scan(data, head.end)
    problems = list(head.problems)
    blocks: list[Block] = []
    marks = {mark.start: i for i, mark in enumerate(found.marks)}
    computed: dict[int, str] = {}
    for span in found.spans:
        name = f"{span.kind} {span.number}"
        if span.mark is None:
            kept = torn_end(data, span) if span is found.torn else span.stop
            blocks.append(_block(data, span, kept, "", False, problems))
            problems.append((span.start, f"{name} has no end mark"))
            continue
        mark = span.mark
        digest = hashlib.sha256(memoryview(data)[span.start : mark.start]).hexdigest()
        index = marks[mark.start]
        computed[index] = digest
        before = {found.marks[index - 1].sha256[:16], computed.get(index - 1, "")[:16]} if index else {"-"}
        wrong = []
        if digest != mark.sha256 or mark.start - span.start != mark.size:
            wrong.append("is not what was written")
        if not mark.whole:
            wrong.append("has a damaged end mark")
        if mark.prev not in before:
            wrong.append("does not follow the block that it was written after")
        if data.find(b"\0", span.start, mark.stop) >= 0:
            wrong.append("holds NUL bytes")
        problems.extend((span.start, f"{name} {what}") for what in wrong)
        blocks.append(_block(data, span, mark.start, mark.sha256, not wrong, problems))
    owned = {span.mark.start for span in found.spans if span.mark}
    problems.extend((m.start, f"end mark of {m.kind} {m.number} without its block") for m in found.marks if m.start not in owned)
    return Log(head.values, tuple(blocks), _with_lines(data, problems), found.torn is not None, head.newer)


def torn_end(data: bytes, span: Span) -> int:
    """How much of a file that ends in the unclosed block `span` is kept (an offset). Cut are a NUL run at the end, half a character, a line
    of ours without its LF, and a seal that was begun; never a quoted byte or the heading."""
    keep = len(data)
    while True:
        before = keep
        while (shorter := cut_half_character(data, cut_nuls(data, keep, span.body), span.body)) < keep:
            keep = shorter
        bol = data.rfind(b"\n", 0, keep) + 1
        if bol < keep and is_begun(data[bol : min(keep, bol + 64)], _LINES_OF_OURS):
            keep = bol
        for begun in _SEALS_BEGUN:
            if keep - len(begun) >= span.body and data.endswith(begun, 0, keep):
                keep -= len(begun)
        if keep == before:
            return keep


def is_begun(line: bytes, ours: tuple[bytes, ...]) -> bool:
    """Whether `line` is the beginning of a line that begins with one of `ours`, or goes on behind it."""
    return any(begin.startswith(line) or line.startswith(begin) for begin in ours)


def cut_nuls(data: bytes, keep: int, floor: int) -> int:
    """`keep` without the NULs just before it, and not below `floor`."""
    while keep > floor and data[keep - 1] == 0:
        low = max(floor, keep - 65536)
        keep = low + len(data[low:keep].rstrip(b"\0"))
    return keep


def cut_half_character(data: bytes, keep: int, floor: int) -> int:
    """`keep` without the first bytes of a UTF-8 character whose last bytes are not there."""
    for back in range(1, min(3, keep - floor) + 1):
        lead = data[keep - back]
        if not 0x80 <= lead < 0xC0:
            return keep - back if lead >= 0xC0 and back < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4) else keep
    return keep


def _block(data: bytes, span: Span, stop: int, digest: str, ok: bool, problems: list[tuple[int, str]]) -> Block:
    state = span.mark.state if span.mark else "torn"
    if state in ("torn", "interrupted"):
        nul = data.find(b"\0", span.body, stop)
        stop = stop if nul < 0 else nul
    attrs: tuple[tuple[str, str], ...] = ()
    at = span.body
    comment = _COMMENT.match(data, at, stop)
    if comment:
        attrs = tuple(_split(comment[3]))
        at = comment.end() - 1
        if (comment[1].decode(), int(comment[2])) != (span.kind, span.number):
            problems.append((span.start, f"{span.kind} {span.number} is called otherwise in its comment"))
            ok = False
    else:
        at -= 1
    heads = [m for p in _each(data, b"\n### ", at, stop) if (m := _SECTION.match(data, p, stop))]
    ends = [*(m.start() for m in heads[1:]), stop]
    sections = [s for m, end in zip(heads, ends, strict=False) if (s := _section(data, m, end))]
    if span.mark and span.mark.whole and "sum" in span.mark.extra:  # what no sum guards is not taken for ours
        late = {key: value for key, value in span.mark.extra.items() if key not in MARK_KEYS}
        attrs = (*(pair for pair in attrs if pair[0] not in late), *late.items())
    end = span.mark.stop if span.mark else span.stop
    return Block(span.kind, span.number, span.at, state, tuple(sections), attrs, span.words, digest, ok, span.start, end)


def _section(data: bytes, head: re.Match[bytes], stop: int) -> Section | None:
    attrs = tuple(_split(head[2] or b""))
    text = _unquote(data[head.end() : stop].decode("utf-8", "replace"), "\r\n" if ("eol", "crlf") in attrs else "\n")
    if text is None:
        return None
    return Section(head[1].decode(), unescape(drop_cut_escape(text)), tuple(pair for pair in attrs if pair[0] != "eol"))


def _unquote(lines: str, eol: str) -> str | None:
    """What the quoted lines of `lines` say, None if there is none."""
    # As the writer leaves them: one blank line, then quoted lines alone. Twice, since neighbours share their LF.
    whole = lines[:-1].replace("\n>\n", "\n> \n").replace("\n>\n", "\n> \n")
    whole = whole + " " if whole.endswith("\n>") else whole
    count = whole.count("\n> ")
    if count and count == lines.count("\n") - 1 and lines.startswith("\n> ") and lines.endswith("\n"):
        return whole.replace("\n> ", eol)[len(eol) :]
    quoted = [line[2:] if line[1:2] == " " else line[1:] for line in lines.split("\n") if line[:1] == ">"]
    return eol.join(quoted) if quoted else None


def _split(pairs: bytes) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (pair.partition("=") for pair in pairs.decode().split())]


def _each(data: bytes, needle: bytes, begin: int, end: int | None = None) -> Iterator[int]:
    end = len(data) if end is None else end
    at = data.find(needle, begin, end)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1, end)


def _with_lines(data: bytes, problems: list[tuple[int, str]]) -> tuple[Problem, ...]:
    out: list[Problem] = []
    at, line = 0, 1
    for offset, what in sorted(problems):
        line += data.count(b"\n", at, offset)
        at = offset
        # A block's first LF ends the blank line before it; a person looks for the heading.
        out.append(Problem(offset, line + (data[offset : offset + 1] == b"\n"), what))
    return tuple(out)
