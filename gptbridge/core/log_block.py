"""How one block of a conversation log is written: heading, comment, quoted sections, end mark.

One rule holds for every reader: a line that does not begin with `>` is ours, a quoted line is somebody's words. So no prompt or answer can
forge a turn, a heading or an end mark. Format, version 1 (`n` line feeds of a text give `n + 1` quoted lines):

    LF ## turn 1 · 2026-11-29T13:00:05Z (hydrated)
    LF <!-- ask-gpt turn=1 op=01JDX3V9 effort=high -->
    LF ### prompt
    LF [<!-- ask-gpt eol=crlf -->
    LF] > Explain flock.
    LF <!-- ask-gpt end turn=1 state=completed bytes=358 sha256=HEX64 prev=- event=0 sum=HEX8 -->

`bytes` and `sha256` cover the block from its first LF up to, not including, the LF before the end mark; `prev` is the first 16 hex digits
of the block before, or `-`. `event` (in an event's mark: `turn`) is the last number of the other kind, so that the end of the file tells
both next numbers; `sum` guards the mark itself: the first 8 hex digits of the sha256 of the mark up to it. What is known of a block only
when it ends (`model`, another `user`) stands in the mark too, and counts before the same key of the comment below the heading.
A block may be written in two goes: its opening (heading, comment, first sections), and the rest when the turn has ended.
Values in comments are `[A-Za-z0-9._:-]+`, never a user's text: anything else raises ValueError. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gptbridge.core.escape import escape
from gptbridge.core.rawhtml import disarm

Kind = Literal["turn", "event"]
Attrs = Mapping[str, str | None] | Iterable[tuple[str, str | None]]

_KEY = re.compile("[a-z][a-z0-9_-]*")
_VALUE = re.compile("[A-Za-z0-9._:-]+")
_WORD = re.compile("[a-z][a-z-]*")
_NAME = re.compile("[a-z][a-z0-9-]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_PREV = re.compile("-|[0-9a-f]{16}")
MARK_KEYS = frozenset(("turn", "event", "cut", "sum"))  # the end mark's own; "kind=" before it is `turn` or `event` as well
SEAL = b"\n<!-- ask-gpt torn -->\n\n*(interrupted)*\n"


@dataclass(frozen=True, slots=True)
class Section:
    """One quoted text: `name` is prompt, thinking, answer, artifacts, error (or a later version's); `text` is exact, any str."""

    name: str
    text: str
    attrs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """One turn or event as read from a log.

    at: RFC 3339 UTC, from the heading. state: from the end mark; "torn" without one. attrs: of the comment below the heading and of the end
    mark. words: of the heading, such as "hydrated". digest: 64 hex digits, "" if torn. ok: length, digest, end mark and order are as
    written. start, stop: the block's bytes in the file, end mark included.
    """

    kind: Kind
    number: int
    at: str
    state: str
    sections: tuple[Section, ...] = ()
    attrs: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    digest: str = ""
    ok: bool = False
    start: int = field(default=0, compare=False)
    stop: int = field(default=0, compare=False)

    @property
    def hydrated(self) -> bool:
        """Copied from the site: its sections hold the site's words, no record of ours."""
        return "hydrated" in self.words

    def section(self, name: str) -> str | None:
        """The text of the first section of that name, None if there is none."""
        return next((s.text for s in self.sections if s.name == name), None)

    def attr(self, key: str) -> str | None:
        """The value of that key, None if there is none."""
        return next((value for name, value in self.attrs if name == key), None)


def render_block(
    kind: Kind, number: int, at: str, *, attrs: Attrs = (), sections: Iterable[Section] = (), state: str, words: Iterable[str] = (),
    prev: str, other: int | None = None, end: Attrs = (),
) -> bytes:  # fmt: skip
    """A whole closed block with its leading LF, ready to be appended. `other`: last number of the other kind, 0 = none yet. `end`:
    attributes that the end mark is to carry."""
    body = open_block(kind, number, at, attrs=attrs, words=words) + b"".join(map(render_section, sections))
    return body + close_block(body, kind, number, state, prev, end, **last_of_other(kind, other))


def last_of_other(kind: Kind, number: int | None) -> dict[str, str]:
    """The end mark's key for the last number of the kind that the block is not; nothing when it is not known."""
    return {} if number is None else {"event" if kind == "turn" else "turn": str(number)}


def open_block(kind: Kind, number: int, at: str, *, attrs: Attrs = (), words: Iterable[str] = ()) -> bytes:
    """Heading and comment; `at` is RFC 3339 with `Z`, None as a value leaves an attribute out."""
    if kind not in ("turn", "event") or not 0 < number < 10**9:
        raise ValueError(f"not a block: {kind!r} {number!r}")
    heading = f"\n## {kind} {number} · {_checked(_TIME, at)}" + "".join(f" ({_checked(_WORD, w)})" for w in words)
    return f"{heading}\n\n<!-- ask-gpt {kind}={number}{_pairs(attrs)} -->\n".encode()


def open_section(name: str, attrs: Attrs = ()) -> bytes:
    """A section's heading and, if it has attributes, its comment. With `eol=crlf` its text must be quoted with `crlf=True`."""
    pairs = _pairs(attrs)
    comment = f"<!-- ask-gpt{pairs} -->\n\n" if pairs else ""
    return f"\n### {_checked(_NAME, name)}\n\n{comment}".encode()


def quote(text: str, *, crlf: bool = False) -> bytes:
    """A section's whole text as quoted lines; `crlf` says that every line ends in CRLF, which the section's `eol=crlf` will restore."""
    plain = disarm(escape(text.replace("\r\n", "\n") if crlf else text))
    return "".join([f"> {line}\n" if line else ">\n" for line in plain.split("\n")]).encode()


def render_section(section: Section) -> bytes:
    """`open_section` and `quote` of one section, line ends included."""
    if any(key == "eol" for key, _ in section.attrs):
        raise ValueError("eol is the writer's own attribute")
    crlf = is_crlf(section.text)
    return open_section(section.name, (*section.attrs, ("eol", "crlf")) if crlf else section.attrs) + quote(section.text, crlf=crlf)


def is_crlf(text: str) -> bool:
    """Whether every line end of `text` is CRLF, and there is one."""
    return "\r" in text and text.count("\r\n") == text.count("\r") == text.count("\n")


def close_block(body: bytes, kind: Kind, number: int, state: str, prev: str, end: Attrs = (), **attrs: str | None) -> bytes:
    """The LF and end mark that close a block whose bytes so far are `body` (from its first LF)."""
    _checked(_WORD, state)
    _checked(_PREV, prev)
    late = list(end.items() if isinstance(end, Mapping) else end)
    if any(key in MARK_KEYS for key, _ in late):
        raise ValueError("the end mark's own keys are no attributes")
    digest = hashlib.sha256(body).hexdigest()
    words = _pairs(late) + _pairs(attrs)
    mark = f"<!-- ask-gpt end {kind}={number} state={state} bytes={len(body)} sha256={digest} prev={prev}{words}".encode()
    return b"\n" + mark + b" sum=" + mark_sum(mark) + b" -->\n"


def mark_sum(mark: bytes) -> bytes:
    """The guard of an end mark's own words: 8 hex digits over all that stands before ` sum=`."""
    return hashlib.sha256(mark).hexdigest()[:8].encode()


def _checked(pattern: re.Pattern[str], value: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError("a value for the log's own lines has a form that is not allowed there")
    return value


def _pairs(attrs: Attrs) -> str:
    items = attrs.items() if isinstance(attrs, Mapping) else attrs
    return "".join(f" {_checked(_KEY, key)}={_checked(_VALUE, value)}" for key, value in items if value is not None)
