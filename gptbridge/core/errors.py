"""Every way to fail, in one table: slug, exit code, what a caller may do.

The band of an exit code says whether the message left: 10-24 no, 30-34 yes, 40-41 unknown (contract.md, Exit codes).
A `Failure` carries data; the sentences that say what happened, what is true now and what to type are its three parts.
Pure; raises nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Retry = Literal["safe", "never", "after-fix", "later"]
Sent = Literal["no", "unknown", "yes"]


@dataclass(frozen=True, slots=True)
class Exit:
    """One row of the exit table: `code` 0-255, `retry` as `--json` says it, `event_class` as `--events` says it."""

    slug: str
    code: int
    retry: Retry
    event_class: str


def _table(*rows: Exit) -> MappingProxyType[str, Exit]:
    return MappingProxyType({row.slug: row for row in rows})


EXITS = _table(
    Exit("ok", 0, "never", "local"),
    Exit("bug", 1, "never", "local"),
    Exit("usage", 2, "after-fix", "local"),
    Exit("findings", 3, "safe", "local"),
    Exit("busy", 10, "later", "timeout"),
    Exit("rate-limited", 11, "later", "capped"),
    Exit("needs-human", 12, "after-fix", "chat"),
    Exit("account-mismatch", 13, "after-fix", "chat"),
    Exit("unknown-conversation", 14, "after-fix", "chat"),
    Exit("site-changed", 15, "after-fix", "protocol"),
    Exit("browser", 16, "safe", "browser"),
    Exit("bad-input", 17, "after-fix", "local"),
    Exit("state-corrupt", 18, "after-fix", "local"),
    Exit("state-unwritable", 19, "after-fix", "local"),
    Exit("bad-config", 20, "after-fix", "local"),
    Exit("conflict", 21, "never", "local"),
    Exit("queue-full", 23, "never", "local"),
    Exit("stopped", 24, "never", "local"),
    Exit("still-answering", 30, "never", "timeout"),
    Exit("answer-lost", 31, "never", "protocol"),
    Exit("answer-failed", 32, "never", "chat"),
    Exit("artifacts-incomplete", 33, "never", "local"),
    Exit("record-failed", 34, "never", "local"),
    Exit("uncertain", 40, "never", "timeout"),
    Exit("expired", 41, "never", "local"),
    Exit("interrupted", 130, "safe", "local"),
    Exit("terminated", 143, "safe", "local"),
)

# What the exit code alone says of the message (contract.md, Exit codes). The others (a bug, a signal) leave it to the ledger.
BANDS: MappingProxyType[str, Sent] = MappingProxyType(
    {row.slug: "no" if row.code == 2 or 10 <= row.code < 30 else "yes" if row.code in (0, *range(30, 40)) else "unknown"
     for row in EXITS.values() if row.code in (0, 2) or 10 <= row.code < 50})

# When several hold at once the first of these decides the exit code (contract.md, Outcomes).
PRECEDENCE = ("uncertain", "record-failed", "answer-lost", "answer-failed", "still-answering", "artifacts-incomplete")


# What a place that cannot know it otherwise says of the message: true as long as nothing was released.
_UNSENT = re.compile(r"[;,. ]*\b(?:nothing was (?:typed or )?sent(?: and nothing was pressed)?|(?:it|the request) was not released)\b\.?",
                     re.IGNORECASE)


class Failure(Exception):
    """A command cannot do what was asked; raised anywhere, turned into words by shell alone.

    slug: a key of `EXITS`. message: what happened, and what is true now (did the message leave?), without any prompt text,
    token or cookie. hint: what to type or do, or "". durable: a decision about the request itself, which replays for ever. again: a page
    that did not load or a lost seat: the preparation of a send (and nothing after it) may be tried once more.
    """

    def __init__(self, slug: str, message: str, hint: str = "", *, durable: bool = False, again: bool = False) -> None:
        if slug not in EXITS:
            raise KeyError(slug)
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.hint = hint
        self.durable = durable
        self.again = again

    @property
    def exit(self) -> Exit:
        return EXITS[self.slug]

    @property
    def says_unsent(self) -> bool:
        return _UNSENT.search(self.message) is not None

    @property
    def cause(self) -> str:
        """What happened, as a clause, without a word on the message: for whoever knows better whether that left."""
        said = _UNSENT.sub("", self.message).strip().rstrip(".")
        return said[:1].lower() + said[1:] if said[1:2].islower() else said
