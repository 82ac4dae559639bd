"""When an exchange is finished, and what it says: one user message with the nodes below it, read as a turn.

In doubt an exchange is not finished: one that looks unfinished is read again, one that looks finished never is. Nothing is
inferred from silence; the words of an answer never decide, only the site's own marks do (an answer may quote any error).
Touches nothing; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gptbridge.core import content
from gptbridge.core.artifacts import made
from gptbridge.core.citations import Sources
from gptbridge.core.content import UNREADABLE
from gptbridge.core.nodes import Node, text_of
from gptbridge.core.workings import workings

State = Literal["completed", "answering", "stopped", "failed", "empty", "incomplete"]

_NEW_ERA = 1751328000.0  # 2025-07-01: from here on a message without `channel` is no proof of an old, dead reply


FILTERED = "the site's content filter ended this reply"


@dataclass(frozen=True, slots=True)
class SiteTurn:
    """A prompt and its answer, as the JSON has them at this moment.

    user_text: None if the turn has no user message. at: epoch seconds of its first message. node_ids: message ids, oldest first,
    hidden ones too. turn_id: `turn_exchange_id`, else the id of the first assistant node. thinking: "" none; `UNREADABLE`
    stands at its end, once, where some of it is there and cannot be read, and alone where none of it can. answer: None = no answer node
    yet, "" = known to be empty. parent_id: node above the turn. workings: code that was run and canvas documents, as Markdown, "" none.
    error: the site's own words for a failed turn. attachments: {id, name, size, mime} each. artifacts: see `artifacts.made`.

    state, lenient, for turns that may be anybody's and of any year (ours complete by `completed_by` alone):
    completed  there is an answer, nothing says that more comes
    answering  the newest turn, and its last node is unfinished or asks for more
    stopped    interrupted in the page; also an old `in_progress` that nobody will ever finish
    failed     the last node is an error, or cut off by the site's content filter; `error` says which
    empty      no answer node at all (answer None), or an end without words and files (answer "")
    incomplete cut off: by length, or after a tool call that nothing followed
    """

    user_message_id: str | None
    user_text: str | None
    at: float | None
    node_ids: tuple[str, ...]
    turn_id: str | None
    thinking: str
    answer: str | None
    state: State
    final_node_id: str | None
    model: str | None
    effort: str | None
    attachments: tuple[dict[str, Any], ...]
    artifacts: tuple[dict[str, Any], ...]
    parent_id: str | None
    error: str | None
    workings: str = ""


def is_final(node: Node) -> bool:
    return (
        content.is_answer(node)
        and node.channel == "final"
        and node.end_turn is True
        and node.status == "finished_successfully"
        and node.finish != "interrupted"
    )


def widget_end(upwards: Iterable[Node], *, busy: bool, ended: bool) -> Node | None:
    """The image or report that ends these nodes (newest first), if it does: only tool words and hidden nodes may follow it."""
    for node in upwards:
        if node.status != "finished_successfully" or node.end_turn is False or node.finish == "interrupted" or content.is_error(node):
            return None
        found = content.report(node)
        if found is not None:
            return node if found.status in (None, "finished_successfully") and found.end_turn is not False else None
        if content.made_image(node):
            over = ended or node.end_turn is True or node.finish == "stop" or bool(content.plain(node))
            return node if over and not busy else None
        if not (node.hidden or (node.role == "tool" and node.kind == "text")):
            return None
        ended = ended or (not node.hidden and bool(content.plain(node)))
    return None


def finished(nodes: Sequence[Node], *, busy: bool, ended: bool) -> bool:
    for at in range(len(nodes) - 1, -1, -1):
        if is_final(nodes[at]):
            return not any(node.status == "in_progress" for node in nodes[at + 1 :] if not node.hidden)
    return widget_end(reversed(nodes), busy=busy, ended=ended) is not None


def _state(shown: Sequence[Node], *, live: bool, busy: bool, said: bool) -> State:
    """`shown`: visible assistant and tool nodes. `live`: nothing stands below them. `said`: words or files came."""
    if not shown:
        return "empty"
    last = shown[-1]
    replies = [node for node in shown if node.role != "tool"]
    recent = any(node.has_channel or node.turn_id or (node.created or 0.0) >= _NEW_ERA for node in shown)
    live = live and recent
    # A tool's error is for the model to read; only in the old days, when nothing can follow any more, it is the end.
    if content.is_error(last) and not (live and last.role == "tool"):
        return "failed"
    if replies and replies[-1].finish == "interrupted":
        return "stopped"
    if finished(shown, busy=busy, ended=True):
        return "completed"
    if last.status == "in_progress":
        return "answering" if live else "stopped"
    if last.finish == "content_filter":
        return "failed"
    if last.status == "finished_partial_completion" or last.finish in ("max_tokens", "max_length"):
        return "incomplete"
    end = replies[-1] if replies and last.role == "tool" and replies[-1].end_turn is True else last
    if content.is_answer(end) and end.channel in (None, "final") and end.end_turn is not False:
        return "completed" if said else "empty"
    if not live and not recent and content.made_image(last):
        return "completed"
    return "answering" if live else "incomplete"


def _answer(shown: Sequence[Node]) -> tuple[str, Node | None]:
    """All words for the reader in order, blank lines between, a continuation joined to what it continues; and their last node."""
    sources = Sources()
    for node in shown:
        sources.add(node.metadata)
    texts: list[str] = []
    seen: set[str] = set()
    final: Node | None = None
    previous: Node | None = None
    for node in shown:
        if not (content.is_answer(node) or content.is_stranger(node) or content.report(node)) or node.id in seen:
            continue
        seen.add(node.id)
        text = content.markdown(node, sources)
        cut = previous is not None and previous.finish == "max_tokens" and node.parent == previous.key
        if texts and (cut or node.metadata.get("message_type") == "continue"):
            texts[-1] = text if text.startswith(texts[-1]) else texts[-1] + text
        elif text and not (content.report(node) and text in texts):
            texts.append(text)
        if text or final is None or not texts:
            final = node
        previous = node
    return "\n\n".join(texts), final


def _thinking(nodes: Sequence[Node]) -> str:
    read = [content.thoughts(node) for node in nodes if content.is_thinking(node)]
    texts = [text for text, _ in read if text] + ([] if all(whole for _, whole in read) else [UNREADABLE])
    return "\n\n".join(texts or filter(None, map(content.recap, nodes)))


def turn_of(user: Node | None, below: Sequence[Node], *, live: bool, busy: bool) -> SiteTurn:
    """The turn of `user` (None if the top of the branch is missing) and the nodes below it; never without any node."""
    nodes = [user, *below] if user else list(below)
    shown = [node for node in below if not node.hidden and node.role in ("assistant", "tool")]
    replies = [node for node in shown if node.role == "assistant"]
    text, final = _answer([node for node in below if content.is_stranger(node) or (node.role in ("assistant", "tool") and not node.hidden)])
    files = made(shown)
    state = _state(shown, live=live, busy=busy, said=bool(text or files))
    ended = state in ("completed", "empty", "stopped") and bool(shown)
    last_error = next((node for node in reversed(shown) if content.is_error(node)), None) if state == "failed" else None
    final = next((node for node in reversed(shown) if is_final(node)), final)
    if final is None and state == "completed":
        final = widget_end(reversed(shown), busy=busy, ended=True) or next((n for n in reversed(shown) if content.made_image(n)), None)
    return SiteTurn(
        user_message_id=user.id if user else None,
        user_text=content.plain(user) if user else None,
        at=nodes[0].created,
        node_ids=tuple(node.id for node in nodes),
        turn_id=next((node.turn_id for node in nodes if node.turn_id), replies[0].id if replies else None),
        thinking=_thinking(shown),
        answer=text if text or ended else None,
        state=state,
        final_node_id=final.id if final else None,
        model=_last(replies, "resolved_model_slug") or _last(replies, "model_slug") or _last(shown, "model_slug"),
        effort=_last(replies, "thinking_effort") or (_last([user], "thinking_effort") if user else None),
        attachments=tuple(content.attachments(user)) if user else (),
        artifacts=tuple(files),
        parent_id=nodes[0].parent,
        error=content.error_text(last_error) if last_error else FILTERED if state == "failed" else None,
        workings=workings(shown),
    )


def _last(nodes: Sequence[Node], key: str) -> str | None:
    return next((value for node in reversed(nodes) if (value := text_of(node.metadata.get(key)))), None)
