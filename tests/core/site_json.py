"""Conversation JSON of the site's shapes, made for tests. Ids have version nibble 8 or the old client's `aaa2` prefix."""

from __future__ import annotations

from typing import Any

CONVERSATION = "691c5e10-7a44-8330-b2d1-4c5d6e7f8091"
ROOT = "client-created-root"
Json = dict[str, Any]


def text(*parts: Any) -> Json:
    return {"content_type": "text", "parts": list(parts)}


def image(pointer: str = "sediment://file_00000000aaaa61f7bbbb0000cccc1111", **metadata: Any) -> Json:
    part = {"content_type": "image_asset_pointer", "asset_pointer": pointer, "size_bytes": 7, "width": 1, "height": 1}
    return {"content_type": "multimodal_text", "parts": [part | {"metadata": metadata}]}


def thoughts(*pairs: tuple[str, str]) -> Json:
    return {"content_type": "thoughts", "thoughts": [{"summary": s, "content": c, "chunks": [c], "finished": True} for s, c in pairs]}


class Doc:
    """A document that grows node by node; `add` puts a node below the last one unless told otherwise and selects it."""

    def __init__(self, **top: Any) -> None:
        self.data: Json = {
            "title": "Sample",
            "create_time": 1763466768.1,
            "update_time": 1763466796.3,
            "mapping": {ROOT: {"id": ROOT, "message": None, "parent": None, "children": []}},
            "current_node": ROOT,
            "conversation_id": CONVERSATION,
            "default_model_slug": "auto",
            "async_status": None,
            **top,
        }
        self.clock = 1763466770.0

    def add(
        self,
        ident: str,
        role: str,
        content: Json,
        *,
        parent: str | None = None,
        name: str | None = None,
        status: str = "finished_successfully",
        end_turn: bool | None = None,
        recipient: str = "all",
        old: bool = False,
        channel: str | None = None,
        **metadata: Any,
    ) -> Json:
        above = parent or self.data["current_node"]
        self.clock += 1.0
        message: Json = {
            "id": ident,
            "author": {"role": role, "name": name, "metadata": {}},
            "create_time": self.clock - (80_000_000.0 if old else 0.0),
            "update_time": None,
            "content": content,
            "status": status,
            "end_turn": end_turn,
            "weight": 1.0,
            "metadata": metadata,
            "recipient": recipient,
        }
        if not old:
            message["channel"] = channel
        self.data["mapping"][ident] = {"id": ident, "message": message, "parent": above, "children": []}
        if above in self.data["mapping"]:
            self.data["mapping"][above]["children"].append(ident)
        self.data["current_node"] = ident
        return message

    def user(self, ident: str, words: str, **more: Any) -> Json:
        return self.add(ident, "user", text(words), **more)

    def final(self, ident: str, words: str, **more: Any) -> Json:
        return self.add(ident, "assistant", text(words), **{"channel": "final", "end_turn": True, **more})

    def old_reply(self, ident: str, words: str, **more: Any) -> Json:
        return self.add(ident, "assistant", text(words), **{"old": True, "end_turn": True, **more})
