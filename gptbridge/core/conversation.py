"""The site's conversation JSON read as turns: what was asked, what was answered, and whether that is all.

`read` gives the selected branch; `find_message` looks in every node, selected or not, for a recorded id; `completed_by` is
the one rule that may complete an operation of ours. Nothing is inferred from position, count, equal text or silence. In doubt
a turn is not complete: a turn that looks unfinished is read again, one that looks finished never is.

Format: nodes.py (tree), content.py (messages), citations.py (marks). Touches nothing. Raises ValueError with a short reason for
what is no conversation, and nothing else whatever the document holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gptbridge.core import content
from gptbridge.core.citations import Sources
from gptbridge.core.content import UNREADABLE as UNREADABLE
from gptbridge.core.nodes import Node, Tree, conversation_id_of, seconds, text_of

State = Literal["completed", "answering", "stopped", "failed", "empty", "incomplete"]

_NEW_ERA = 1751328000.0  # 2025-07-01: from here on a message without `channel` is no proof of an old, dead reply


@dataclass(frozen=True, slots=True)
class SiteTurn:
    """A prompt and its answer, as the JSON has them at this moment.

    user_text: None if the turn has no user message. at: epoch seconds of the user message. node_ids: message ids, oldest first,
    hidden ones too. turn_id: `turn_exchange_id`, else the id of the first assistant node. thinking: "" none, `UNREADABLE` if it
    is there and cannot be read. answer: None = no answer node yet, "" = known to be empty. parent_id: node above the turn.
    error: the site's own words for a failed turn. attachments: {id, name, size, mime} each. artifacts: {kind image | audio |
    file | sandbox, pointer, path, node_id, name, size} each.

    state, lenient, for turns that may be anybody's and of any year (ours complete by `completed_by` alone):
    completed  there is an answer, nothing says that more comes
    answering  the newest turn, and its last node is unfinished or asks for more
    stopped    interrupted in the page; also an old `in_progress` that nobody will ever finish
    failed     the last node is an error; `error` says which
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


@dataclass(frozen=True, slots=True)
class SiteConversation:
    """turns: the selected branch, oldest first. complete: False if a parent was missing on the way or `current_node` names no
    node. newest_node_id: the selected leaf, hidden or not: what the page names as parent of the next message. Times: epoch
    seconds. model: of the newest turn that says one, else the conversation's default."""

    conversation_id: str
    title: str | None
    created_at: float | None
    updated_at: float | None
    current_node: str | None
    turns: tuple[SiteTurn, ...]
    complete: bool
    newest_node_id: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """A message that is in the conversation. message_id: as the site writes it. answer_turn: the turn of its nearest user
    message (itself, if it is one), with the newest complete answer if there are several; None if no user message stands above."""

    message_id: str
    turn_id: str | None
    on_selected_branch: bool
    answer_turn: SiteTurn | None


def read(document: dict[str, Any], *, conversation_id: str | None = None) -> SiteConversation:
    """The selected branch. `conversation_id`: which conversation was asked for; ValueError if the document is of another."""
    tree = Tree.of(document)
    ident = _identity(document, conversation_id)
    leaf, named = tree.selected()
    path, rooted = tree.branch(leaf) if leaf is not None else ([], False)
    groups: list[list[Node]] = []
    for node in filter(None, map(tree.node, path)):
        if node.opens_turn or not groups:
            groups.append([])
        groups[-1].append(node)
    if groups and not groups[0][0].opens_turn and not any(map(content.is_answer, groups[0])):
        groups.pop(0)  # the hidden preamble
    busy = bool(document.get("async_status"))
    turns = tuple(
        _turn(group[0], group[1:], live=group is groups[-1], busy=busy)
        if group[0].opens_turn
        else _turn(None, group, live=group is groups[-1], busy=busy)
        for group in groups
    )
    return SiteConversation(
        conversation_id=ident,
        title=text_of(document.get("title")),
        created_at=seconds(document.get("create_time")),
        updated_at=seconds(document.get("update_time")),
        current_node=text_of(document.get("current_node")),
        turns=turns,
        complete=named and rooted,
        newest_node_id=leaf,
        model=next((turn.model for turn in reversed(turns) if turn.model), text_of(document.get("default_model_slug"))),
    )


def find_message(document: dict[str, Any], message_id: str) -> Found | None:
    """The message of that id (case does not matter) anywhere in the tree, or None. Absence proves nothing."""
    tree = Tree.of(document)
    node = tree.node(tree.resolve(message_id))
    if node is None:
        return None
    user = _user_above(tree, node)
    turn = _best_turn(tree, user) if user else None
    leaf, _ = tree.selected()
    selected = leaf is not None and node.key in tree.up(leaf)
    return Found(node.id, node.turn_id or (turn.turn_id if turn else None), selected, turn)


def completed_by(document: dict[str, Any], user_message_id: str) -> SiteTurn | None:
    """The finished turn of that user message, or None while one fact is missing.

    Finished: below it, with no other user message between, stands an assistant message for all with channel final, end_turn true
    and status finished_successfully, not interrupted, and nothing after it is in progress; or a made image or a research report
    is the last node and no background job runs. Of several such answers the newest.
    """
    tree = Tree.of(document)
    user = tree.node(tree.resolve(user_message_id))
    if user is None or user.role != "user":
        return None
    nodes, _ = _best_path(tree, user)
    return _best_turn(tree, user) if _finished(nodes, busy=bool(document.get("async_status"))) else None


def _identity(document: dict[str, Any], asked: str | None) -> str:
    own = conversation_id_of(document.get("conversation_id")) or conversation_id_of(document.get("id"))
    wanted = conversation_id_of(asked)
    if asked is not None and wanted is None:
        raise ValueError("not a conversation id")
    if own and wanted and own != wanted:
        raise ValueError("the document is of another conversation")
    ident = own or wanted
    if ident is None:
        raise ValueError("no conversation id in it")
    return ident


# One branch: is it finished, and what does it say?


def _is_final(node: Node) -> bool:
    return (
        content.is_answer(node)
        and node.channel == "final"
        and node.end_turn is True
        and node.status == "finished_successfully"
        and node.finish != "interrupted"
    )


def _widget_end(nodes: Sequence[Node], *, busy: bool) -> Node | None:
    """The image or report that ends these nodes, if it does: only tool words and hidden nodes may follow it."""
    for node in reversed(nodes):
        if node.status != "finished_successfully" or node.end_turn is False or node.finish == "interrupted" or content.is_error(node):
            return None
        found = content.report(node)
        if found is not None:
            return node if found.status in (None, "finished_successfully") and found.end_turn is not False else None
        if content.made_image(node):
            return None if busy else node
        if not (node.hidden or (node.role == "tool" and node.kind == "text")):
            return None
    return None


def _finished(nodes: Sequence[Node], *, busy: bool) -> bool:
    for at in range(len(nodes) - 1, -1, -1):
        if _is_final(nodes[at]):
            return not any(node.status == "in_progress" for node in nodes[at + 1 :] if not node.hidden)
    return _widget_end(nodes, busy=busy) is not None


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
    if _finished(shown, busy=busy):
        return "completed"
    if last.status == "in_progress":
        return "answering" if live else "stopped"
    if last.status == "finished_partial_completion" or last.finish in ("max_tokens", "max_length", "content_filter"):
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
        if not (content.is_answer(node) or content.report(node)) or node.id in seen:
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
    texts = [text for text in read if text]
    if texts:
        return "\n\n".join(texts)
    if None in read:
        return UNREADABLE
    return "\n\n".join(filter(None, map(content.recap, nodes)))


def _turn(user: Node | None, below: Sequence[Node], *, live: bool, busy: bool) -> SiteTurn:
    """The turn of `user` (None if the top of the branch is missing) and the nodes below it; never without any node."""
    nodes = [user, *below] if user else list(below)
    shown = [node for node in below if not node.hidden and node.role in ("assistant", "tool")]
    replies = [node for node in shown if node.role == "assistant"]
    text, final = _answer(shown)
    files: dict[tuple[object, ...], dict[str, Any]] = {}
    for node in shown:
        for one in content.artifacts(node):
            files.setdefault((one["kind"], one["pointer"], one["path"]), one)
    state = _state(shown, live=live, busy=busy, said=bool(text or files))
    ended = state in ("completed", "empty", "stopped") and bool(shown)
    last_error = next((node for node in reversed(shown) if content.is_error(node)), None) if state == "failed" else None
    final = next((node for node in reversed(shown) if _is_final(node)), final)
    if final is None and state == "completed":
        final = _widget_end(shown, busy=busy) or next((n for n in reversed(shown) if content.made_image(n)), None)
    return SiteTurn(
        user_message_id=user.id if user else None,
        user_text=content.plain(user) if user else None,
        at=user.created if user else None,
        node_ids=tuple(node.id for node in nodes),
        turn_id=next((node.turn_id for node in nodes if node.turn_id), replies[0].id if replies else None),
        thinking=_thinking(shown),
        answer=text if text or ended else None,
        state=state,
        final_node_id=final.id if final else None,
        model=_last(replies, "resolved_model_slug") or _last(replies, "model_slug") or _last(shown, "model_slug"),
        effort=_last(replies, "thinking_effort") or (_last([user], "thinking_effort") if user else None),
        attachments=tuple(content.attachments(user)) if user else (),
        artifacts=tuple(files.values()),
        parent_id=nodes[0].parent,
        error=content.error_text(last_error) if last_error else None,
    )


def _last(nodes: Sequence[Node], key: str) -> str | None:
    return next((value for node in reversed(nodes) if (value := text_of(node.metadata.get(key)))), None)


# The whole tree: everything between one user message and the next ones below it.


def _user_above(tree: Tree, node: Node) -> Node | None:
    if node.role == "user":
        return node
    for key in tree.up(node.key):
        above = tree.node(key)
        if above is not None and above.opens_turn:
            return above
    return None


def _best_path(tree: Tree, user: Node) -> tuple[list[Node], bool]:
    """Nodes below `user`, oldest first, along the best answer, and whether nothing at all stands below the last of them.

    Best: the newest final; else a finished image or report; else the newest old-style finished answer; else the selected branch;
    else the newest leaf.
    """
    inside: dict[str, Node | None] = {user.key: user}
    queue = [user.key]
    for key in queue:
        for child in tree.children.get(key, ()):
            node = tree.node(child)
            if child not in inside and not (node and node.opens_turn):
                inside[child] = node
                queue.append(child)
    busy = bool(tree.document.get("async_status"))

    def below(key: str) -> list[str]:
        return [child for child in tree.children.get(key, ()) if child in inside]

    def path(key: str) -> list[Node]:
        up = []
        for here in tree.up(key):
            if here == user.key:
                break
            node = inside.get(here)
            up += [node] if node else []
        return up[::-1]

    nodes = {key: node for key, node in inside.items() if node is not None and key != user.key}
    best = tree.newest([key for key, node in nodes.items() if _is_final(node)])
    if best is None:
        widgets = [key for key, node in nodes.items() if content.report(node) or content.made_image(node)]
        best = tree.newest([key for key in widgets if _widget_end(path(_deepest(tree, key, below)), busy=busy)])
    if best is None:
        best = tree.newest([key for key, n in nodes.items() if content.is_answer(n) and n.end_turn and n.status == "finished_successfully"])
    if best is None:
        leaf, _ = tree.selected()
        best = next((key for key in tree.up(leaf) if key in nodes), None) if leaf is not None else None
    if best is None:
        best = tree.newest([key for key in nodes if not below(key)])
    end = _deepest(tree, best or user.key, below)
    return path(end), not tree.children.get(end)


def _deepest(tree: Tree, key: str, below: Any) -> str:
    seen = {key}
    while (down := tree.newest(below(key))) is not None and down not in seen:
        seen.add(down)
        key = down
    return key


def _best_turn(tree: Tree, user: Node) -> SiteTurn:
    nodes, live = _best_path(tree, user)
    return _turn(user, nodes, live=live, busy=bool(tree.document.get("async_status")))
