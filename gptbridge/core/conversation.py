"""The site's conversation JSON read as turns: which branch, which message, and the one rule that completes an operation.

`read` gives the selected branch; `find_message` looks in every node, selected or not, for a recorded id; `completed_by` is
the one rule that may complete an operation of ours. Nothing is inferred from position, count, equal text or time.

Format: nodes.py (tree), exchange.py (turns), content.py (messages), citations.py (marks). Touches nothing. Raises ValueError
with a short reason for what is no conversation, and nothing else whatever the document holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gptbridge.core import content
from gptbridge.core.artifacts import made
from gptbridge.core.content import UNREADABLE as UNREADABLE
from gptbridge.core.exchange import SiteTurn as SiteTurn
from gptbridge.core.exchange import State as State
from gptbridge.core.exchange import finished, is_final, turn_of, widget_end
from gptbridge.core.nodes import Node, Tree, conversation_id_of, seconds, text_of


@dataclass(frozen=True, slots=True)
class SiteConversation:
    """turns: the selected branch, oldest first. complete: False if a parent was missing on the way or `current_node` names no
    node. newest_node_id: the selected leaf, hidden or not: what the page names as parent of the next message. Times: epoch
    seconds. model: of the newest turn that says one, else the conversation's default.
    elsewhere: what nodes off the selected branch made."""

    conversation_id: str
    title: str | None
    created_at: float | None
    updated_at: float | None
    current_node: str | None
    turns: tuple[SiteTurn, ...]
    complete: bool
    newest_node_id: str | None
    model: str | None
    elsewhere: tuple[dict[str, Any], ...] = ()


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
    if groups and not groups[0][0].opens_turn and not any(content.is_answer(node) or content.is_stranger(node) for node in groups[0]):
        groups.pop(0)  # the hidden preamble
    busy = bool(document.get("async_status"))
    turns = tuple(
        turn_of(group[0], group[1:], live=group is groups[-1], busy=busy)
        if group[0].opens_turn
        else turn_of(None, group, live=group is groups[-1], busy=busy)
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
        elsewhere=tuple(made(_off(tree, path))),
    )


def check(document: dict[str, Any], conversation_id: str) -> None:
    """ValueError, with the reason, if `document` is no conversation or another one; what passes here, the functions below can read."""
    Tree.of(document)
    _identity(document, conversation_id)


def _off(tree: Tree, path: list[str]) -> list[Node]:
    """Visible assistant and tool nodes that the selected branch leaves out: other answers to the same prompt, edited prompts."""
    on = set(path)
    nodes = (tree.node(key) for key in tree.mapping if key not in on)
    return [node for node in nodes if node is not None and not node.hidden and node.role in ("assistant", "tool")]


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


def completed_by(document: dict[str, Any], user_message_id: str, *, ended: bool = False) -> SiteTurn | None:
    """The finished turn of that user message, or None while one fact is missing.

    Finished: below it, with no other user message between, stands an assistant message for all with channel final, end_turn true
    and status finished_successfully, not interrupted, and nothing after it is in progress. Or a made image or a research report is
    the last node, no background job runs, and the exchange is over: the image says so (end_turn, finish_details), or its tool's
    closing words follow it, or the next prompt does, or the caller knows (`ended`: the stream said `Completed`). A picture alone
    proves nothing: words may follow it. Of several such answers the newest.
    """
    tree = Tree.of(document)
    user = tree.node(tree.resolve(user_message_id))
    if user is None or user.role != "user":
        return None
    nodes, live = _best_path(tree, user)
    busy = bool(document.get("async_status"))
    turn = turn_of(user, nodes, live=live, busy=busy)
    return turn if finished(nodes, busy=busy, ended=ended or not live) and turn.state == "completed" else None


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

    def upwards(key: str) -> Iterator[Node]:
        for here in tree.up(key):
            if here == user.key:
                return
            node = inside.get(here)
            if node is not None:
                yield node

    nodes = {key: node for key, node in inside.items() if node is not None and key != user.key}
    leaves = [key for key in nodes if not below(key)]
    best = tree.newest([key for key, node in nodes.items() if is_final(node)])
    if best is None:
        best = tree.newest([key for key in leaves if widget_end(upwards(key), busy=busy, ended=True)])
    if best is None:
        best = tree.newest([key for key, node in nodes.items() if _old_end(node)])
    if best is None:
        leaf, _ = tree.selected()
        best = next((key for key in tree.up(leaf) if key in nodes), None) if leaf is not None else None
    if best is None:
        best = tree.newest(leaves)
    end = _deepest(tree, best or user.key, below)
    return list(upwards(end))[::-1], not tree.children.get(end)


def _old_end(node: Node) -> bool:
    return content.is_answer(node) and node.end_turn is True and node.status == "finished_successfully"


def _deepest(tree: Tree, key: str, below: Callable[[str], list[str]]) -> str:
    seen = {key}
    while (down := tree.newest(below(key))) is not None and down not in seen:
        seen.add(down)
        key = down
    return key


def _best_turn(tree: Tree, user: Node) -> SiteTurn:
    nodes, live = _best_path(tree, user)
    return turn_of(user, nodes, live=live, busy=bool(tree.document.get("async_status")))
