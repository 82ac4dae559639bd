"""How a conversation looks in the site's own JSON: nodes, messages, contents, the tree.

Guarantees: every message has the keys that the site sends in 2025-26; `link` keeps `parent` and `children` in step. Pure but for
random ids. Owns no state. Raises KeyError when a parent is not in the mapping.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any

Json = dict[str, Any]
ROOT = "client-created-root"
MODEL = "gpt-5-5"


def new_id() -> str:
    return str(uuid.uuid4())


def conversation_id(at: float) -> str:
    """An id as the site makes them since 2024: the first 8 hex digits are the second `at`, the version nibble is 8."""
    r = uuid.uuid4().hex
    return f"{int(at) & 0xFFFFFFFF:08x}-{r[:4]}-83{r[4:6]}-{'89ab'[int(r[6], 16) % 4]}{r[7:10]}-{r[10:22]}"


def iso(at: float | None) -> str | None:
    """Epoch seconds as the list endpoint writes times: ISO 8601, microseconds, `Z`."""
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def text(*parts: str) -> Json:
    return {"content_type": "text", "parts": list(parts)}


def thoughts(*pairs: tuple[str, str]) -> Json:
    """Finished thoughts, as (summary, content)."""
    return {
        "content_type": "thoughts",
        "thoughts": [{"summary": s, "content": c, "chunks": [c], "finished": True} for s, c in pairs],
        "source_analysis_msg_id": None,
    }


def recap(words: str) -> Json:
    return {"content_type": "reasoning_recap", "content": words}


def message(
    ident: str,
    role: str,
    content: Json,
    at: float | None,
    *,
    name: str | None = None,
    status: str = "finished_successfully",
    end_turn: bool | None = None,
    weight: float = 1.0,
    channel: str | None = None,
    recipient: str = "all",
    metadata: Json | None = None,
) -> Json:
    return {
        "id": ident,
        "author": {"role": role, "name": name, "metadata": {}},
        "create_time": at,
        "update_time": None,
        "content": content,
        "status": status,
        "end_turn": end_turn,
        "weight": weight,
        "metadata": {"timestamp_": "absolute", **(metadata or {})},
        "recipient": recipient,
        "channel": channel,
    }


def link(mapping: Json, parent: str, content: Json) -> Json:
    """Add the message `content` below `parent`; returns its node. Raises KeyError."""
    node: Json = {"id": content["id"], "message": content, "parent": parent, "children": []}
    mapping[parent].setdefault("children", []).append(content["id"])
    mapping[content["id"]] = node
    return node


def hidden_system(ident: str, **metadata: Any) -> Json:
    flags = {"request_id": None, "turn_exchange_id": None, "is_visually_hidden_from_conversation": True, **metadata}
    return message(ident, "system", text(""), None, end_turn=True, weight=0.0, metadata=flags)


def conversation(ident: str, at: float, *, title: str = "New chat", model: str = "auto", hidden: tuple[str, str] | None = None) -> Json:
    """A conversation that holds its root and two hidden system messages (`hidden`: their ids) and nothing else."""
    mapping: Json = {ROOT: {"id": ROOT, "message": None, "parent": None, "children": []}}
    first, second = hidden or (new_id(), new_id())
    link(mapping, ROOT, hidden_system(first))
    link(mapping, first, hidden_system(second, rebase_developer_message=True))
    return {
        "title": title,
        "create_time": at,
        "update_time": at,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": second,
        "plugin_ids": None,
        "conversation_id": ident,
        "conversation_template_id": None,
        "gizmo_id": None,
        "gizmo_type": None,
        "is_archived": False,
        "is_starred": None,
        "safe_urls": [],
        "blocked_urls": [],
        "default_model_slug": model,
        "conversation_origin": None,
        "voice": None,
        "async_status": None,
        "disabled_tool_ids": [],
        "is_do_not_remember": False,
        "memory_scope": "global_enabled",
        "is_study_mode": False,
        "sugar_item_id": None,
        "context_scopes": None,
        "pinned_time": None,
        "owner": None,
    }
