"""What requests of the page say, reduced at once to named fields: a send that is held or was failed, a file that goes up.

Apart from core/ports.py, since the process that only stops requests needs nothing else of it. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Upload:
    """One file on its way to the site, as its own requests and the site's answers show it. announced: the site gave it an id, stored: its
    bytes arrived, ready: the site says that it can be used, failed: `status` (HTTP, 0 = the network) and `code` (a word of the site's)."""

    name: str
    size: int
    state: Literal["asked", "announced", "stored", "ready", "failed"] = "asked"
    file_id: str | None = None
    status: int | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that a held request names; None where it does not say."""

    file_id: str
    name: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A held send request, reduced to named fields. `user_texts` and `user_message_ids` are those of its user messages, in order."""

    handle: str
    path: str
    action: str | None
    user_message_ids: tuple[str, ...]
    user_texts: tuple[str, ...]
    other_messages: int
    conversation_id: str | None
    parent_message_id: str | None
    model: str | None
    effort: str | None
    temporary: bool
    account_id: str | None
    attachments: tuple[SentFile, ...]
    readable: bool = True
    mode: str | None = None
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A send that was failed instead of released: when, where it came from, under which ids."""

    kind: str
    path: str
    message_ids: tuple[str, ...] = ()
