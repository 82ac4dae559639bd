"""What the registry of conversations means: one record per line, the latest of an id counts, an id never changes its account.

Format `ask-gpt-registry/1`; fields `account`, `conversation_id`, `title`, `provisional`, `url`, `created_at`, `origin` (`own`,
`bootstrap`, `imported`) and `at`, the time of the record. Pure; `fold` raises `Failure("state-corrupt")` for an account conflict.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import check_format

FORMAT = "ask-gpt-registry"
VERSION = 1
TITLE_CODE_POINTS = 80


@dataclass(frozen=True, slots=True)
class Conversation:
    """A registered conversation; times are RFC 3339 strings; `title` may be provisional (the prompt's first line)."""

    account: str
    conversation_id: str
    title: str
    url: str | None = None
    provisional: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    origin: str = "own"

    def fields(self) -> dict[str, Any]:
        """The record without `at`, which the writer adds."""
        return {"account": self.account, "conversation_id": self.conversation_id, "title": self.title, "provisional": self.provisional,
                "url": self.url, "created_at": self.created_at, "origin": self.origin}

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
        updated_at=fields.get("at"), origin=str(fields.get("origin", "own")))


def fold(records: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, Conversation]:
    """All records in order -> the latest per id, oldest record first (the newest record of an id moves it to the end)."""
    latest: dict[str, Conversation] = {}
    for seq, fields in records:
        found = read(fields)
        if found is None:
            continue
        before = latest.pop(found.conversation_id, None)
        if before is not None and before.account != found.account:
            raise conflict(found.conversation_id, seq)
        latest[found.conversation_id] = found
    return latest


def newest(records: Iterable[tuple[int, Mapping[str, Any]]], limit: int | None, *, account: str | None = None,
           every_account: bool = False, keep: Callable[[Conversation], bool] | None = None) -> list[Conversation]:
    """The newest `limit` conversations from records given newest first; stops reading as soon as it has them.

    Without `every_account` only those of `account`, or of the newest record's account when that is None.
    """
    seen: dict[str, str] = {}
    found: list[Conversation] = []
    for seq, fields in records:
        conversation = read(fields)
        if conversation is None:
            continue
        if conversation.conversation_id in seen:
            if seen[conversation.conversation_id] != conversation.account:
                raise conflict(conversation.conversation_id, seq)
            continue
        seen[conversation.conversation_id] = conversation.account
        if not every_account:
            account = account or conversation.account
            if conversation.account != account:
                continue
        if keep is None or keep(conversation):
            found.append(conversation)
            if limit is not None and len(found) >= limit:
                break
    return found


def conflict(conversation_id: str, seq: int) -> Failure:
    return Failure("state-corrupt", f"conversations.jsonl: record {seq} gives conversation {conversation_id} another account",
                   "look at that record; ask-gpt refuses to guess whose conversation it is")


def title_filter(pattern: str) -> Callable[[Conversation], bool]:
    """`list --search`: a Python regular expression, case-insensitive, anywhere in the title; else a shell pattern over all of it."""
    try:
        expression = re.compile(pattern, re.IGNORECASE)
        return lambda conversation: expression.search(conversation.title) is not None
    except re.error:
        glob = re.compile(fnmatch.translate(pattern), re.IGNORECASE)
        return lambda conversation: glob.match(conversation.title) is not None


def provisional_title(prompt: str) -> str:
    """The first 80 code points of the prompt's first line."""
    return prompt.split("\n", 1)[0][:TITLE_CODE_POINTS]
