"""What a person sees of a conversation, read from its JSON by a small walk of the tests' own: the oracle that the reader is held against.

It shares nothing with the reader and knows only what the samples hold. Citation marks are not rewritten here: `Seen.answer` is a pattern in
which the words between marks are literal and each mark must be its links, its name, or nothing, with at most one blank more or less.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MARK = re.compile("\ue200([^\ue200\ue201]*)(?:\ue201|\\Z)|【\\d+(?::\\d+)?†[^】]*】|[\ue203\ue204]")
HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message", "rebase_developer_message", "rebase_system_message")
SPOKEN = ("text", "multimodal_text")
UNSEEN = ("thoughts", "reasoning_recap", "code", "execution_output", "tether_browsing_code", "tether_browsing_display", "system_error")


@dataclass
class Seen:
    """One prompt and what was said to it. `answer`: a pattern; `words`: the literal pieces in it."""

    user: str | None
    prompt: str | None
    thinking: str
    answer: str
    words: list[str]

    def says(self, answer: str | None) -> bool:
        return re.fullmatch(self.answer, answer or "", re.DOTALL) is not None


def visible(document: Json) -> list[Seen]:
    mapping: Json = document["mapping"]
    here = document.get("current_node")
    if here not in mapping:
        parents = {node["parent"] for node in mapping.values()}
        leaves = [key for key in mapping if key not in parents]
        here = max(leaves, key=lambda key: ((mapping[key].get("message") or {}).get("create_time") or 0.0))
    path: list[Json] = []
    while here in mapping and mapping[here] not in path:
        path.insert(0, mapping[here])
        here = mapping[here]["parent"]
    turns: list[list[Json]] = []
    for node in path:
        message = node["message"]
        if message is None or _hidden(message):
            continue
        if message["author"]["role"] == "user":
            turns.append([message])
        elif turns:
            turns[-1].append(message)
        elif message["author"]["role"] == "assistant" and message["content"]["content_type"] in SPOKEN:
            turns.append([{"id": None, "author": {"role": "nobody"}, "content": {"parts": []}}, message])
    return [_turn(messages) for messages in turns]


def _hidden(message: Json) -> bool:
    kind = message["content"].get("content_type", "")
    return kind in ("user_editable_context", "model_editable_context", "system_message", "system_content") or any(
        (message.get("metadata") or {}).get(flag) for flag in HIDDEN)


def _turn(messages: list[Json]) -> Seen:
    user, *rest = messages
    thinking = [one for message in rest for one in _thought(message)]
    recap = [message["content"]["content"] for message in rest if message["content"].get("content_type") == "reasoning_recap"]
    names = {f"turn{e['ref_id']['turn_index']}{e['ref_id']['ref_type']}{e['ref_id']['ref_index']}": e["url"]
             for message in rest for group in (message.get("metadata") or {}).get("search_result_groups") or []
             for e in group["entries"] if e.get("ref_id")}
    said: list[tuple[str, list[str]]] = []
    for message in rest:
        text, words = _said(message, names)
        if not text:
            continue
        if said and message["metadata"].get("message_type") == "continue":
            said[-1] = (said[-1][0] + text, said[-1][1] + words)
        else:
            said.append((text, words))
    return Seen(user["id"], None if user["id"] is None else "\n\n".join(_texts(user)), "\n\n".join(thinking or recap),
                "\n\n".join(text for text, _ in said), [word for _, words in said for word in words])


def _thought(message: Json) -> list[str]:
    if message["content"].get("content_type") != "thoughts":
        return []
    found = []
    for thought in message["content"]["thoughts"]:
        found += [part for part in (f"**{thought['summary']}**" if thought["summary"] else "", thought["content"]) if part]
    return found


def _texts(message: Json) -> list[str]:
    content = message["content"]
    kind = content["content_type"]
    if kind not in SPOKEN:
        return [f"[unsupported content: {kind}]"]
    found = []
    for part in content["parts"]:
        if isinstance(part, str):
            found.append(part)
        elif part["content_type"] == "audio_transcription":
            found.append(part["text"])
        elif not part["content_type"].endswith("asset_pointer"):
            found.append(f"[unsupported content: {part['content_type']}]")
    return [text for text in found if text]


def _said(message: Json, names: dict[str, str]) -> tuple[str, list[str]]:
    """A pattern for what this message says, and its literal pieces."""
    metadata, kind = message.get("metadata") or {}, message["content"].get("content_type")
    state = metadata.get("chatgpt_sdk", {}).get("widget_state")
    if state and "report_message" in json.loads(state):
        message = json.loads(state)["report_message"]
        metadata = message.get("metadata") or {}
    elif message["author"]["role"] != "assistant" or not _spoken(message, metadata, kind):
        return "", []
    found = [_pattern(text, metadata, names) for text in _texts(message)]
    return r"\n\n".join(text for text, _ in found), [word for _, words in found for word in words]


def _spoken(message: Json, metadata: Json, kind: str | None) -> bool:
    if message.get("recipient") not in ("all", None) or kind in UNSEEN or message.get("channel") == "analysis":
        return False
    return message.get("status") != "error" and not metadata.get("is_error")


def _pattern(text: str, metadata: Json, names: dict[str, str]) -> tuple[str, list[str]]:
    out, words, at = "", [], 0
    for mark in MARK.finditer(text):
        words.append(text[at:mark.start()])
        out += _literal(words[-1]) + _of_mark(mark, metadata, names)
        at = mark.end()
    words.append(text[at:])
    return out + _literal(words[-1]), [word for word in words if word.strip()]


def _literal(text: str) -> str:
    """Its own words; a blank at either end may be gone, where a mark stood."""
    inner = text.strip(" ")
    if not inner:
        return " *"
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return (" ?" * bool(before) + " " * max(before - 1, 0)) + re.escape(inner) + (" " * max(after - 1, 0) + " ?" * bool(after))


def _of_mark(mark: re.Match[str], metadata: Json, names: dict[str, str]) -> str:
    whole = mark[0]
    if mark[1] is None and whole[0] != "【":
        return ""
    if mark[1] is not None and mark[1].startswith("entity"):
        return re.escape(json.loads(mark[1].partition("\ue202")[2])[1])
    urls = [source["url"] for reference in metadata.get("content_references") or []
            if reference.get("matched_text") == whole and not reference.get("invalid") for item in reference.get("items") or []
            for source in (item, *(item.get("supporting_websites") or []))]
    if whole[0] == "【":
        urls += [one["metadata"]["url"] for one in metadata.get("citations") or []
                 if one["start_ix"] == mark.start() and one["metadata"].get("url")]
    elif not urls:
        urls = [names[name] for name in re.findall(r"turn\d+[a-z]+\d+", mark[1]) if name in names]
    if not urls:
        return " ?"
    return r" ?\(" + ", ".join(rf"\[[^\n]+?\]\({re.escape(url)}\)" for url in dict.fromkeys(urls)) + r"\)"
