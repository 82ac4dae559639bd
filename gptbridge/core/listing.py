"""The site's list of conversations read as values: one page of `GET /backend-api/conversations`, as the notes of 2023 to 2026 show it.

Guarantees: an id is a real one, lower case; a time is epoch seconds or None; a title is somebody's words or None where the site has none
yet. What cannot be read as an item is counted, never guessed. `total` may be null and is not to be relied on; `limit` is at most 100.
Touches nothing. Raises ValueError for what is no page of the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gptbridge.core.nodes import conversation_id_of, dict_of, seconds, text_of

LIMIT = 100  # more is refused with 422 (2024-12)
USUAL = 28  # what the page itself asks for; deep in the list a shorter page may come where a long one fails
UNTITLED = "New chat"  # the site's word until a title is made, English in JSON whatever the language


@dataclass(frozen=True, slots=True)
class Listed:
    """One conversation of the list. Times in epoch seconds."""

    conversation_id: str
    title: str | None
    created_at: float | None
    updated_at: float | None


@dataclass(frozen=True, slots=True)
class ListPage:
    """`size`: how many entries came; `items`: those of them that could be read. `short`: fewer than asked for, so nothing stands behind
    them. `missing`: the site says that it could not list all."""

    items: tuple[Listed, ...]
    size: int
    short: bool
    total: int | None
    missing: bool

    @property
    def newest(self) -> float | None:
        return max((item.updated_at for item in self.items if item.updated_at is not None), default=None)

    @property
    def oldest(self) -> float | None:
        return min((item.updated_at for item in self.items if item.updated_at is not None), default=None)


def read(document: dict[str, Any], *, asked: int) -> ListPage:
    """`asked`: the limit of the request; a site that answers with a lower one of its own is taken at its word."""
    entries = document.get("items")
    if not isinstance(entries, list):
        raise ValueError("no list of items")
    own = document.get("limit")
    limit = own if type(own) is int and 0 < own < asked else asked
    total = document.get("total") if type(document.get("total")) is int else None
    missing = document.get("has_missing_conversations") is True
    items = tuple(item for item in map(_item, entries) if item is not None)
    return ListPage(items, len(entries), len(entries) < limit and not missing, total, missing)


def real_title(title: str | None) -> str | None:
    """A title that says something, else None: it is never put in the place of another one."""
    return None if title is None or not title.strip() or title == UNTITLED else title


def _item(entry: object) -> Listed | None:
    fields = dict_of(entry)
    ident = conversation_id_of(fields.get("id"))
    if ident is None:
        return None
    created, updated = seconds(fields.get("create_time")), seconds(fields.get("update_time"))
    return Listed(ident, real_title(text_of(fields.get("title"))), created, updated if updated is not None else created)
