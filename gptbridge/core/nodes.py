"""Where a fact stands in the site's conversation JSON: one node's fields, and how nodes hang together.

Nothing else reads raw nodes. The document is somebody else's: every field may be missing or of another type, ids may be
written in another case, `parent` may point nowhere or in a circle. A wrong type reads as "absent", so that in doubt a turn
looks unfinished and never finished. All walks are loops (chains of more than a thousand nodes exist) and linear.

Format: `{"mapping": {id: {"id", "parent", "children", "message"}}, "current_node": id}` as the site's conversation
endpoint and its data export give it, 2023 to 2026; also the flat `{"messages": [...]}` that some answers were seen to have.
Touches nothing. Raises ValueError with a short reason, never with the document's text, for what is no conversation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_YEAR_10000 = 253402300800.0
_CONTEXT_KINDS = frozenset({"user_editable_context", "model_editable_context", "system_message", "system_content"})
_HIDDEN_FLAGS = (
    "is_visually_hidden_from_conversation",
    "is_user_system_message",
    "rebase_developer_message",
    "rebase_system_message",
)


def conversation_id_of(value: object) -> str | None:
    """`value` in lower case if it is a real conversation id (8-4-4-4-12 hex, any version), else None.

    `WEB:<uuid>` and `local-...` are the page's own provisional names and never an id; neither is anything that could be a path.
    """
    return value.lower() if isinstance(value, str) and _UUID.fullmatch(value) else None


def seconds(value: object) -> float | None:
    """Epoch seconds, from 1970 to 9999, of a number or an ISO string (without zone: UTC; `+00:00`; `Z`; microseconds), else None."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, (int, float)):
            number = float(value)
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value)
            number = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number < _YEAR_10000 else None  # also not for NaN


def text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def dict_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


@dataclass(slots=True)  # not frozen: a conversation has thousands, and freezing doubles what making one costs
class Node:
    """One node that holds a message. `key`: its name in `mapping`; `id`: the message's own id, nearly always the same.
    hidden: not shown on the page: flagged so, or a context kind; `weight` is no proof (old visible nodes have 0)."""

    key: str
    parent: str | None
    id: str
    role: str
    name: str
    kind: str
    content: dict[str, Any]
    metadata: dict[str, Any]
    channel: str | None
    recipient: str
    status: str | None
    end_turn: bool | None
    created: float | None
    has_channel: bool
    hidden: bool

    @property
    def turn_id(self) -> str | None:
        return text_of(self.metadata.get("turn_exchange_id")) or None

    @property
    def opens_turn(self) -> bool:
        return self.role == "user" and not self.hidden

    @property
    def to_all(self) -> bool:
        """Meant for the reader; any other recipient makes it a tool call, whatever its content kind."""
        return self.recipient == "all"

    @property
    def finish(self) -> str | None:
        """`stop`, `interrupted`, `max_tokens`, `content_filter` ... or None."""
        return text_of(dict_of(self.metadata.get("finish_details")).get("type"))


def node_of(key: str, parent: object, message: dict[str, Any]) -> Node:
    author, end_turn, content = message.get("author"), message.get("end_turn"), message.get("content")
    if isinstance(author, str) or author is None:
        author = {"role": author or message.get("role")}
    if isinstance(content, (str, list)):
        content = {"content_type": "text", "parts": content}
    author, content, metadata = dict_of(author), dict_of(content), dict_of(message.get("metadata"))
    kind = text_of(content.get("content_type")) or ""
    return Node(
        key=key,
        parent=text_of(parent),
        id=text_of(message.get("id")) or key,
        role=text_of(author.get("role")) or "",
        name=text_of(author.get("name")) or "",
        kind=kind,
        content=content,
        metadata=metadata,
        channel=text_of(message.get("channel")),
        recipient=text_of(message.get("recipient")) or "all",
        status=text_of(message.get("status")),
        end_turn=end_turn if isinstance(end_turn, bool) else None,
        created=seconds(message.get("create_time")),
        has_channel="channel" in message,
        hidden=kind in _CONTEXT_KINDS or any(metadata.get(flag) is True for flag in _HIDDEN_FLAGS if flag in metadata),
    )


def _mapping(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    mapping = document.get("mapping")
    if isinstance(mapping, dict):
        return mapping
    if mapping is not None or not isinstance(document.get("messages"), list):
        raise ValueError("no mapping of messages in it")
    chain: dict[str, Any] = {}
    above: str | None = None
    for message in document["messages"]:
        key = text_of(dict_of(message).get("id"))
        if key and key not in chain:
            chain[key] = {"id": key, "parent": above, "message": message}
            above = key
    return chain


@dataclass(slots=True)
class Tree:
    """All nodes of one document, by key. Build it once per document; the indexes are made when first asked for."""

    document: dict[str, Any]
    mapping: dict[str, Any]
    _folded: dict[str, str] | None = None
    _children: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, document: object) -> Tree:
        mapping = _mapping(document)
        if not any(isinstance(raw, dict) for raw in mapping.values()):
            raise ValueError("no messages in it")
        return cls(dict_of(document), mapping)

    def node(self, key: str | None) -> Node | None:
        """The node of that key, or None if there is none or it holds no message."""
        raw = dict_of(self.mapping.get(key)) if key is not None else {}
        message = raw.get("message")
        return node_of(key, raw.get("parent"), message) if key is not None and isinstance(message, dict) else None

    def resolve(self, name: object) -> str | None:
        """The key that `name` means: exact, else whatever differs only in case, else the node whose message has that id."""
        if not isinstance(name, str):
            return None
        if isinstance(self.mapping.get(name), dict):
            return name
        if self._folded is None:
            self._folded = {}
            for key, raw in self.mapping.items():
                if isinstance(raw, dict):
                    self._folded.setdefault(key.lower(), key)
            for key, raw in self.mapping.items():
                own = dict_of(dict_of(raw).get("message")).get("id")
                if isinstance(own, str):
                    self._folded.setdefault(own.lower(), key)
        return self._folded.get(name.lower())

    def parent(self, key: str) -> tuple[str | None, bool]:
        """Key of the parent, and whether the link is sound (a null parent is the root's and sound)."""
        named = dict_of(self.mapping.get(key)).get("parent")
        if named is None:
            return None, True
        found = self.resolve(named)
        return found, found is not None

    @property
    def children(self) -> dict[str, list[str]]:
        """Parent key -> child keys, from the `parent` links alone (trimmed documents keep stale `children`)."""
        if self._children is None:
            self._children = {}
            for key, raw in self.mapping.items():
                above, _ = self.parent(key) if isinstance(raw, dict) else (None, True)
                if above is not None:
                    self._children.setdefault(above, []).append(key)
        return self._children

    def up(self, key: str) -> Iterator[str]:
        """`key` and its ancestors, nearest first; stops at a missing parent or when it meets a circle."""
        seen: set[str] = set()
        here: str | None = key
        while here is not None and here not in seen:
            seen.add(here)
            yield here
            here, _ = self.parent(here)

    def branch(self, key: str) -> tuple[list[str], bool]:
        """Root to `key`, and whether the way up ended at a root (not at a missing parent, not in a circle)."""
        path = list(self.up(key))
        above, sound = self.parent(path[-1])
        return path[::-1], sound and above is None

    def newest(self, keys: list[str]) -> str | None:
        """The key created last; of equals the later one in the document. Undated ones count as oldest."""
        best, best_at = None, -math.inf
        for key in keys:
            node = self.node(key)
            at = node.created if node and node.created is not None else -math.inf
            if best is None or at >= best_at:
                best, best_at = key, at
        return best

    def selected(self) -> tuple[str | None, bool]:
        """Key of the selected leaf, and whether the document names it (else the newest leaf stands in)."""
        named = self.resolve(self.document.get("current_node"))
        if named is not None:
            return named, True
        keys = [key for key, raw in self.mapping.items() if isinstance(raw, dict)]
        leaves = [key for key in keys if key not in self.children]
        return self.newest(leaves or keys), False
