"""The body of a send request as the page makes it: `messages: [{id, author: {role}, content: {parts}, metadata}]`.

Guarantees: pure; a body is recognised by its shape, never by its text; what leaves here are named fields, no header but the
account's, no bearer. Fails towards "send": a POST to a known send path that cannot be read counts as one (GT-12).
Sources: the bodies of the web client, 2022 to 2026-11. The paths and the account's header are edge/chatgpt.py's.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

from gptbridge.core.page_request import Held, SentFile

DEPTH = 5  # a wrapper or two around the body is still that body
_USER = re.compile(r'"role"\s*:\s*"user"')
_OPENS = re.compile(r"\s*[\[{]")
_SHORT = 12


def sending_part(value: Any, depth: int = DEPTH) -> dict[str, Any] | None:
    """The object whose `messages` hold a user message, inside JSON, JSON in strings included; None when there is none."""
    if depth < 0:
        return None
    if isinstance(value, str):
        return sending_part(_json(value), depth - 1) if _OPENS.match(value) and "messages" in value else None
    if isinstance(value, dict):
        messages = value.get("messages")
        if isinstance(messages, list) and any(_is_user(message) for message in messages):
            return value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            found = sending_part(inner, depth - 1) if isinstance(inner, dict | list | str) else None
            if found is not None:
                return found
    return None


def is_send(body: str | None, *, to_send_path: bool) -> tuple[bool, dict[str, Any] | None]:
    """(whether a POST with this body is a send, the part of it that says so or None when it could not be read)."""
    document = _json(body) if body else None
    part = sending_part(document)
    if part is not None:
        return True, part
    # A form or several JSON lines: no JSON as a whole, a send all the same.
    looks = document is None and body is not None and any("messages" in form and _USER.search(form) for form in (body, unquote_plus(body)))
    return looks or (document is None and to_send_path), None


def message_ids(part: Mapping[str, Any] | None) -> tuple[str, ...]:
    return tuple(str(message.get("id")) for message in _users(part)) if part else ()


def held(handle: str, path: str, account_id: str | None, part: Mapping[str, Any] | None) -> Held:
    """The request reduced to the fields that are compared before it may continue."""
    users = _users(part)
    body = part or {}
    return Held(
        handle=handle, path=path, action=_text(body.get("action")), user_message_ids=message_ids(part),
        user_texts=tuple(_parts(message) for message in users), other_messages=len(body.get("messages", ())) - len(users),
        conversation_id=_text(body.get("conversation_id")), parent_message_id=_text(body.get("parent_message_id")),
        model=_text(body.get("model")), effort=_text(body.get("thinking_effort")),
        temporary=bool(body.get("history_and_training_disabled")), account_id=account_id,
        attachments=tuple(file for message in users for file in _attachments(message)), readable=part is not None,
        mode=_text(mode.get("kind")) if isinstance(mode := body.get("conversation_mode"), dict) else None,
        tools=tuple(str(hint) for hint in hints) if isinstance(hints := body.get("system_hints"), list) else (),
    )


def needles(text: str) -> tuple[str, ...]:
    """How a text may stand in a body, beacon or frame: plain, in JSON, in JSON within JSON, percent-encoded. Short ones only whole."""
    text = text.strip()
    if not text:
        return ()
    plain = [json.dumps(text, ensure_ascii=ascii_only) for ascii_only in (False, True)]
    nested = [json.dumps(form, ensure_ascii=False) for form in plain]
    if len(text) < _SHORT:
        return tuple(dict.fromkeys([*plain, *(form[1:-1] for form in nested)]))
    encoded = text.encode("utf-8", "surrogatepass")
    return tuple(dict.fromkeys([text, *(form[1:-1] for form in plain), *(form[3:-3] for form in nested), quote(encoded, safe=""),
                                quote_plus(encoded)]))


def carries(body: str, looked_for: tuple[str, ...]) -> bool:
    return any(needle in body for needle in looked_for)


def frame_text(opcode: int, payload: str) -> str:
    """The text of a socket frame as DevTools gives it: text for opcode 1, base64 else."""
    if opcode == 1:
        return payload
    try:
        return base64.b64decode(payload).decode("utf-8", "replace")
    except ValueError:
        return payload


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_user(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    author = message.get("author")
    return (author.get("role") if isinstance(author, dict) else message.get("role")) == "user"  # as the guard in the page decides it


def _users(part: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [message for message in part["messages"] if _is_user(message)] if part else []


def _parts(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content.get("parts") if isinstance(content, dict) else None
    return "\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else ""


def _attachments(message: Mapping[str, Any]) -> list[SentFile]:
    """Files that the message names: as attachments, and images that stand in its parts alone."""
    metadata, content = message.get("metadata"), message.get("content")
    listed = metadata.get("attachments") if isinstance(metadata, dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    found = [SentFile(str(item.get("id")), _text(item.get("name")), _whole(item.get("size"))) for item in _dicts(listed)]
    known = {file.file_id for file in found}
    for part in _dicts(parts):
        pointer = str(part.get("asset_pointer")).partition("://")[2].partition("#")[0] or "unknown"
        if pointer not in known:
            found.append(SentFile(pointer, None, _whole(part.get("size_bytes"))))
    return found


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
