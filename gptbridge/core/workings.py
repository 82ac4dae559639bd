"""What the model made on the way to its answer that a person sees in the page: code that it ran, and canvas documents.

These are tool calls and tool output, no part of the answer; without them a log would lose a whole document or the program behind a number.
Searches and other calls to tools are left out, as they are on the page. Touches nothing; raises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from gptbridge.core import content
from gptbridge.core.nodes import Node, text_of

_RUNNER, _CANVAS = "python", "canmore."


def workings(shown: Sequence[Node]) -> str:
    """Markdown, oldest first: each piece a bold line that says what it is, and a fenced block. "" without any."""
    return "\n\n".join(found for node in shown if (found := _piece(node)))


def _piece(node: Node) -> str | None:
    if node.role == "assistant" and not node.to_all:
        body = content.plain(node)
        if node.recipient == _RUNNER:
            return f"**code**\n\n{_fenced(body, _RUNNER)}"
        if node.recipient.startswith(_CANVAS):
            return _canvas(node.recipient, body)
    elif node.role == "tool" and node.name == _RUNNER and node.kind in ("execution_output", "system_error"):
        body = text_of(node.content.get("text")) or ""
        return f"**{'error' if node.kind == 'system_error' else 'output'}**\n\n{_fenced(body)}" if body else None
    return None


def _canvas(tool: str, body: str) -> str:
    """The document that a call creates; what changes it is kept as it was said (its JSON is often cut off at the end)."""
    try:
        made = json.loads(body)
    except (ValueError, RecursionError):
        made = None
    text = text_of(made.get("content")) if isinstance(made, dict) else None
    if text is None:
        return f"**canvas: {_inline(tool.removeprefix(_CANVAS))}**\n\n{_fenced(body, 'json')}"
    name, kind = text_of(made.get("name")) or "", text_of(made.get("type")) or ""
    language = kind.removeprefix("code/") if kind.startswith("code/") else "markdown"
    return f"**canvas: {_inline(name)}**\n\n{_fenced(text, _inline(language))}"


def _inline(name: str) -> str:
    return re.sub(r"[^\w.+ -]+", " ", name)[:80].strip()


def _fenced(body: str, language: str = "") -> str:
    fence = "`" * (max(map(len, re.findall("```+", body)), default=2) + 1)
    return f"{fence}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{fence}"
