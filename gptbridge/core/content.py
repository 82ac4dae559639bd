"""What one message says: its content kinds as Markdown, as thinking, as files.

Text is the site's own Markdown, untouched but for citation marks (citations.py). A kind that is not known becomes a named
placeholder `[unsupported content: <kind>]` and is never dropped; a part that is a picture or a sound is a file, not text.
Lone surrogates pass through. Touches nothing; raises nothing: what has a wrong shape counts as unreadable or absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gptbridge.core.citations import Sources, resolve
from gptbridge.core.nodes import Node, dict_of, list_of, node_of, text_of

ROLES = frozenset({"user", "assistant", "tool", "system", "root", "critic"})
UNREADABLE = "[thinking present but not harvested]"

# Kinds of an assistant node that are no part of an answer: thinking, tool traffic, errors.
_NOT_ANSWERS = frozenset(
    {"thoughts", "reasoning_recap", "code", "execution_output", "tether_browsing_code", "tether_browsing_display", "system_error"}
)
AUDIO = frozenset({"audio_asset_pointer", "real_time_user_audio_video_asset_pointer"})
_TEXT_FIELDS = {"tether_quote": ("title", "text", "url"), "sonic_webpage": ("title", "text", "url")}
_PRO_THINKING = "a8km123"
_IMAGE_TOOLS = ("dalle", "t2uay3k")


def is_thinking(node: Node) -> bool:
    """Holds reasoning for the reader: thoughts, analysis meant for all, or the text of a pro-mode job."""
    if node.kind == "thoughts" or (node.role == "assistant" and node.channel == "analysis" and node.kind == "text" and node.to_all):
        return True
    return node.role == "tool" and (node.name == _PRO_THINKING or node.metadata.get("async_task_type") == "pro_mode")


def is_answer(node: Node) -> bool:
    """Visible words of the model: not a tool call, not thinking, not an error."""
    return (
        node.role == "assistant"
        and node.to_all
        and not node.hidden
        and node.channel != "analysis"
        and node.kind not in _NOT_ANSWERS
        and not is_error(node)
    )


def is_stranger(node: Node) -> bool:
    """Says something, and nothing tells whose words they are: a role that is not known, or none."""
    return node.role not in ROLES and node.to_all and not node.hidden and any(parts(node.content))


def is_error(node: Node) -> bool:
    return node.metadata.get("is_error") is True or node.kind == "system_error" or node.status == "error"


def error_text(node: Node) -> str:
    text = text_of(node.content.get("text")) or plain(node)
    return text or text_of(node.content.get("name")) or "the site marked this reply as failed"


def parts(content: dict[str, Any]) -> Iterator[str]:
    """The texts of a message's content, in order."""
    stored = content.get("parts")
    if not isinstance(stored, list):
        yield text_of(stored) or text_of(content.get("text")) or ""
        return
    for part in stored:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            kind = text_of(part.get("content_type")) or "object"
            if kind == "audio_transcription" or (kind == "text" and isinstance(part.get("text"), str)):
                yield text_of(part.get("text")) or ""
            elif kind != "image_asset_pointer" and kind not in AUDIO:
                yield f"[unsupported content: {kind}]"
        elif part is not None:
            yield f"[unsupported content: {type(part).__name__}]"


def plain(node: Node) -> str:
    """The message's text as stored; several parts joined by a blank line, empty ones left out."""
    content = node.content
    if node.kind in _TEXT_FIELDS:
        return "\n\n".join(value for name in _TEXT_FIELDS[node.kind] if (value := text_of(content.get(name))))
    if node.kind in ("text", "multimodal_text", ""):
        return "\n\n".join(part for part in parts(content) if part)
    if node.kind in ("code", "execution_output"):
        return text_of(content.get("text")) or ""
    return f"[unsupported content: {node.kind}]"


def markdown(node: Node, sources: Sources | None = None) -> str:
    """An answer node's text for a reader."""
    if is_stranger(node):
        return f"[unsupported author: {node.role or 'none'}]\n\n{resolve(plain(node), node.metadata, sources)}"
    found = report(node)
    if found is not None:
        return resolve(plain(found), found.metadata, sources)
    texts = [part for part in parts(node.content) if part] if node.kind in ("text", "multimodal_text", "") else []
    if len(texts) > 1:  # offsets of citations count within a part
        return "\n\n".join(resolve(part, node.metadata, sources) for part in texts)
    return resolve(plain(node), node.metadata, sources)


def report(node: Node) -> Node | None:
    """The report inside a research widget (its state is a JSON string in the metadata), as a message of its own, if it is there."""
    if "chatgpt_sdk" not in node.metadata and "chatgpt_sdk.widget_state" not in node.metadata:
        return None
    state = dict_of(node.metadata.get("chatgpt_sdk")).get("widget_state") or node.metadata.get("chatgpt_sdk.widget_state")
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError):
            return None
    message = dict_of(state).get("report_message")
    if not isinstance(message, dict):
        return None
    found = node_of(node.key, node.parent, message)
    return found if any(parts(found.content)) else None


def thoughts(node: Node) -> tuple[str, bool]:
    """The reasoning in a thinking node, each thought a bold summary line and its text; and whether all that is there could be read."""
    if node.kind != "thoughts":
        return (plain(node), True) if node.kind in ("text", "multimodal_text", "") else ("", False)
    found = node.content.get("thoughts")
    if not isinstance(found, list):
        return "", False
    blocks, bad = [], False
    for thought in found:
        facts = dict_of(thought)
        summary, body = text_of(facts.get("summary")), text_of(facts.get("content"))
        if not body:
            body = "".join(chunk for chunk in list_of(facts.get("chunks")) if isinstance(chunk, str))
        summary = " ".join(summary.split()) if summary else ""
        bad = bad or not (summary or body or (isinstance(thought, dict) and ("summary" in facts or "content" in facts)))
        blocks += [block for block in (f"**{summary}**" if summary else "", resolve(body)) if block]
    return "\n\n".join(blocks), not bad


def recap(node: Node) -> str:
    """`Thought for 15s`, in the account's language; "" if the node is none."""
    if node.kind != "reasoning_recap":
        return ""
    return text_of(node.content.get("content")) or "\n\n".join(part for part in parts(node.content) if part)


def attachments(node: Node) -> list[dict[str, Any]]:
    """The user's files: `id`, `name`, `size`, `mime`; pictures that only the parts name are there without a name."""
    found: list[dict[str, Any]] = []
    for entry in map(dict_of, list_of(node.metadata.get("attachments"))):
        if text_of(entry.get("id")) or text_of(entry.get("name")):
            mime = text_of(entry.get("mime_type")) or text_of(entry.get("mimeType"))
            found.append({"id": text_of(entry.get("id")), "name": text_of(entry.get("name")), "size": size_of(entry), "mime": mime})
    for part in map(dict_of, list_of(node.content.get("parts"))):
        pointer = text_of(part.get("asset_pointer"))
        ident = pointer.rpartition("://")[2].partition("#")[0] if pointer else ""
        if ident and not any(entry["id"] == ident for entry in found):
            found.append({"id": ident, "name": None, "size": size_of(part), "mime": None})
    return found


def size_of(facts: dict[str, Any]) -> int | None:
    for key in ("size", "size_bytes"):
        value = facts.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def made_image(node: Node) -> bool:
    """Holds a picture that the site made (not one that a tool only looked at, not a page of somebody's file)."""
    if node.kind != "multimodal_text" or node.role not in ("assistant", "tool") or node.hidden:
        return False
    by_tool = node.name.startswith(_IMAGE_TOOLS) or any(key.startswith("image_gen") for key in node.metadata)
    for part in map(dict_of, list_of(node.content.get("parts"))):
        if part.get("content_type") != "image_asset_pointer" or "#" in (text_of(part.get("asset_pointer")) or "#"):
            continue
        facts = dict_of(part.get("metadata"))
        if by_tool or node.role == "assistant" or facts.get("dalle") or facts.get("generation"):
            return True
    return False
