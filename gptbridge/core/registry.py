"""What the registry of conversations means: one record per line, the latest of an id counts, an id never changes its account.

Format `ask-gpt-registry/1`; fields `account`, `conversation_id`, `title`, `provisional`, `url`, `created_at`, `origin` (`own`,
`bootstrap`, `imported`) and `at`, the time of the record; where its turns were read, also `read_at`, the site's time of the last change
that the log has, and `lacking`, the numbers of turns that stand there unfinished, since the site had no more of them. Pure; an account
conflict is `Failure("state-corrupt")`.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import check_format
from gptbridge.core.record import decode, intact

FORMAT = "ask-gpt-registry"
VERSION = 1
TITLE_CODE_POINTS = 80


@dataclass(frozen=True, slots=True)
class Conversation:
    """A registered conversation; times are RFC 3339 strings; `title` may be provisional (the prompt's first line). `read_at`: how far its
    log goes, by the site's own clock; None: nobody has looked since it was begun. `lacking`: turns of the log that the site could not
    complete then."""

    account: str
    conversation_id: str
    title: str
    url: str | None = None
    provisional: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    origin: str = "own"
    read_at: str | None = None
    lacking: tuple[int, ...] = ()

    @property
    def known_to(self) -> str | None:
        """The site's time of the newest change that is known: read, or seen in its list when it was imported."""
        return self.read_at if self.read_at is not None or self.origin == "own" else self.updated_at

    def fields(self) -> dict[str, Any]:
        """The record without `at`, which the writer adds."""
        return {"account": self.account, "conversation_id": self.conversation_id, "title": self.title, "provisional": self.provisional,
                "url": self.url, "created_at": self.created_at, "origin": self.origin,
                **({"read_at": self.read_at} if self.read_at is not None else {}), **({"lacking": self.lacking} if self.lacking else {})}

    def document(self) -> dict[str, Any]:
        """As `conversations[]` and `list --export` give it."""
        return {"account": self.account, "conversation_id": self.conversation_id, "title": self.title, "url": self.url,
                "created_at": self.created_at, "updated_at": self.updated_at, "origin": self.origin}


def first_record(at: str) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "at": at}


def read(fields: Mapping[str, Any]) -> Conversation | None:
    """One record; None for the format record (checked) and for kinds of later minor versions."""
    if "format" in fields:
        check_format(fields, "conversations.jsonl", FORMAT, VERSION)
        return None
    if "conversation_id" not in fields or "account" not in fields:
        return None
    return Conversation(
        account=str(fields["account"]), conversation_id=str(fields["conversation_id"]), title=str(fields.get("title") or ""),
        url=fields.get("url"), provisional=bool(fields.get("provisional")), created_at=fields.get("created_at"),
        updated_at=fields.get("at"), origin=str(fields.get("origin", "own")), read_at=fields.get("read_at"),
        lacking=tuple(fields.get("lacking") or ()))


class Glance(NamedTuple):
    """What a list needs to know of a record; `line` is all of it."""

    seq: int
    account: str
    conversation_id: str
    title: str
    at: str | None
    line: bytes

    def conversation(self) -> Conversation:
        found = read(decode(self.line)[1])
        assert found is not None
        return found


_unquoted = json.JSONDecoder().raw_decode  # a third of what json.loads takes for a short text
# The beginning of a record as `Conversation.fields` writes it; any other is decoded as a whole.
_ROW = re.compile(rb'\{"seq":([1-9][0-9]{0,15}),"sum":"([0-9a-f]{8})","at":"([^"\\]*)","account":"([^"\\]*)",'
                  rb'"conversation_id":"([^"\\]*)","title":"([^"\\]*+(?:\\.[^"\\]*+)*+)",[ -~]*\}')


def glance(line: bytes) -> Glance | None:
    """One record of which only the few facts are taken out; None as `read`, BadLine as `decode`."""
    found = _ROW.fullmatch(line)
    if found is None or not intact(line, found.start(2), found.end(2)):
        seq, fields = decode(line)
        whole = read(fields)
        if whole is None:
            return None
        return Glance(seq, whole.account, whole.conversation_id, whole.title, whole.updated_at or whole.created_at, line)
    seq_, _, at, account, conversation_id, title = found.groups()
    return Glance(int(seq_), str(account, "ascii"), str(conversation_id, "ascii"),
                  _unquoted(f'"{str(title, "ascii")}"')[0] if b"\\" in title else str(title, "ascii"), str(at, "ascii"), line)


def newest(glances: Iterable[Glance], *, account: str | None = None, every_account: bool = False,
           keep: Callable[[Glance], bool] | None = None) -> Iterator[Conversation]:
    """The conversations by their newest record, from records given newest first; reads on only as it is asked for more.

    Without `every_account` only those of `account`, or of the newest record's account when that is None.
    """
    seen: dict[str, str] = {}
    accounts: dict[str, str] = {}  # each once: a million records name few
    for found in glances:
        before = seen.get(found.conversation_id)
        if before is not None:
            if before != found.account:
                raise conflict(found.conversation_id, found.seq)
            continue
        seen[found.conversation_id] = accounts.setdefault(found.account, found.account)
        if not every_account:
            account = account or found.account
            if found.account != account:
                continue
        if keep is None or keep(found):
            yield found.conversation()


def conflict(conversation_id: str, seq: int) -> Failure:
    return Failure("state-corrupt", f"conversations.jsonl: record {seq} gives conversation {conversation_id} another account",
                   "look at that record; ask-gpt refuses to guess whose conversation it is")


def title_filter(pattern: str) -> Callable[[Glance], bool]:
    """`list --search`: a Python regular expression, case-insensitive, anywhere in the title; else a shell pattern over all of it."""
    try:
        expression = re.compile(pattern, re.IGNORECASE)
        return lambda found: expression.search(found.title) is not None
    except re.error:
        glob = re.compile(fnmatch.translate(pattern), re.IGNORECASE)
        return lambda found: glob.match(found.title) is not None


def provisional_title(prompt: str) -> str:
    """The first 80 code points of the prompt's first line."""
    return prompt.split("\n", 1)[0][:TITLE_CODE_POINTS]
