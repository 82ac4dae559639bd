"""What goes into the logs and the registry: turns of our own, turns copied from the site, and the conversation's row.

A turn is known by its native user message id: it is written once, whoever saw it first (TL-15). The log never decides the state of an
operation; a turn carries an operation id only where a receipt in the ledger binds them (HY-07).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gptbridge.core import brought
from gptbridge.core.brought import Brought
from gptbridge.core.conversation import SiteConversation, SiteTurn
from gptbridge.core.errors import Failure
from gptbridge.core.importing import retitled
from gptbridge.core.ledger import Operation, View, rfc3339
from gptbridge.core.lifecycle import State
from gptbridge.core.listing import real_title
from gptbridge.core.ports import World
from gptbridge.core.registry import Conversation, provisional_title
from gptbridge.core.transcript import Block, Log

_PLAIN = re.compile(r"[A-Za-z0-9._:-]{1,200}")
UNFINISHED = frozenset({"answering", "incomplete", "interrupted", "torn"})


def log_name(op: Operation) -> str:
    """The log an operation's turn stands in: its conversation's, or its own while no conversation took it."""
    return op.conversation_id if op.conversation_id and op.sent == "yes" else f"failed-{op.operation_id}"


def url_of(w: World, conversation_id: str) -> str:
    return f"{w.settings.site}/c/{conversation_id}"


def write_turn(w: World, op: Operation, prompt: str, turn: SiteTurn | None, *, state: str, thinking: str | None = None,
               answer: str | None = None, failure: Failure | None = None, files: Sequence[Brought] = ()) -> None:
    """Append the turn of our own operation, fsynced, then replace the copy. `turn` is the site's account of it, if it could be read."""
    name = log_name(op)
    if turn is not None:  # a failed turn may have lost the words that were streamed: they are kept
        thinking, answer = turn.thinking or thinking, answer if turn.answer is None else turn.answer
    sections: list[tuple[str, str]] = [("prompt", prompt)]
    if thinking:
        sections.append(("thinking", thinking))
    if answer is not None:
        sections.append(("answer", answer))
    if files:
        sections.append((brought.SECTION, brought.text(files)))
    if failure is not None:
        sections.append(("error", f"{failure.slug}: {failure.message}"))
    attrs = {"op": op.operation_id, "user": op.site_message_id or op.user_message_id, "turn": op.turn_id,
             "model": (turn.model if turn else None) or op.site_model, "effort": (turn.effort if turn else None) or op.site_effort}
    block = {"kind": "turn", "at": op.dispatched_at or op.queued_at, "attrs": _named(attrs), "sections": sections, "state": state,
             "words": ()}
    w.logs.append(name, header=_header(w, op.conversation_id if name == op.conversation_id else None, op, op.account), blocks=[block])
    w.logs.copy(name)


def write_event(w: World, conversation_id: str, account: str, files: Sequence[Brought]) -> None:
    """Append what a collection of files brought, as a record without a turn (TL-16), then replace the copy."""
    state = "incomplete" if brought.missing(files, conversation_id) else "completed"
    block = {"kind": "event", "at": rfc3339(w.clock.now().wall), "attrs": _named({"did": "download-attachments"}),
             "sections": [(brought.SECTION, brought.text(files))], "state": state, "words": ()}
    w.logs.append(conversation_id, header=_header(w, conversation_id, None, account), blocks=[block])
    w.logs.copy(conversation_id)


def hydrate(w: World, site: SiteConversation, conversation_id: str, account: str, view: View) -> list[str]:
    """Append, in order, the site's turns that the log lacks; gives the native ids that were added. Twice changes nothing (HY-10).

    A turn that is still being answered is left for later. One that replaces an interrupted block names it (`supersedes`).
    """
    if w.logs.is_torn(conversation_id):
        w.logs.seal(conversation_id)  # first: an end that lacks its last byte alone is whole once healed, and must not be added again
    log = w.logs.read(conversation_id)
    have, partial = known_turns(log)
    blocks: list[dict[str, Any]] = []
    added: list[str] = []
    for turn in site.turns:
        key = (turn.user_message_id or turn.node_ids[0]).lower()
        unfinished = turn.state in ("answering", "incomplete") or (turn.answer is None and turn.state == "empty")
        if key in have or (unfinished and (turn is site.turns[-1] or key in partial)):
            continue
        op = view.by_message(key)
        if op is not None and op.state not in (State.ACCEPTED, State.COMPLETED):
            op = None
        attrs = {"op": op.operation_id if op else None, "user": turn.user_message_id or key, "turn": turn.turn_id, "model": turn.model,
                 "effort": turn.effort, "supersedes": str(partial[key]) if key in partial else None}
        sections = [("prompt", turn.user_text)] if turn.user_text is not None else []
        if turn.thinking:
            sections.append(("thinking", turn.thinking))
        if turn.answer is not None:
            sections.append(("answer", turn.answer))
        if turn.error:
            sections.append(("error", turn.error))
        at = rfc3339(turn.at) if turn.at is not None else rfc3339(w.clock.now().wall)
        state = "incomplete" if unfinished else {"empty": "completed"}.get(turn.state, turn.state)
        blocks.append({"kind": "turn", "at": at, "attrs": _named(attrs), "sections": sections, "state": state, "words": ("hydrated",)})
        added.append(key)
    if blocks:
        w.logs.append(conversation_id, header=_header(w, conversation_id, None, account), blocks=blocks)
    return added


def known_turns(log: Log | None) -> tuple[set[str], dict[str, int]]:
    """(native ids that stand in the log whole, native id -> number of an interrupted block that a full turn may replace)."""
    have: set[str] = set()
    partial: dict[str, int] = {}
    for block in log.blocks if log is not None else ():
        key = (block.attr("user") or "").lower()
        if block.kind != "turn" or not key:
            continue
        if block.state in UNFINISHED:
            partial[key] = block.number
        else:
            have.add(key)
            partial.pop(key, None)
    return have, {key: number for key, number in partial.items() if key not in have}


def turn_of(log: Log | None, op: Operation) -> Block | None:
    """The block that holds an operation's turn: by its receipt, else by its own id."""
    found: Block | None = None
    for block in log.blocks if log is not None else ():
        if block.kind == "turn" and ((block.attr("user") or "").lower() in op.message_ids() or block.attr("op") == op.operation_id):
            found = block if found is None or found.state in UNFINISHED or block.state not in UNFINISHED else found
    return found


def register(w: World, conversation_id: str, account: str, prompt: str, at: float) -> None:
    """The provisional row of a new conversation, as soon as its id is known (RG-05)."""
    if w.registry.get(conversation_id) is None:
        w.registry.put(Conversation(account, conversation_id, provisional_title(prompt), url_of(w, conversation_id), provisional=True,
                                    created_at=rfc3339(at)))


def retitle(w: World, conversation_id: str, title: str | None) -> None:
    """The site's title replaces a provisional or an older one; prompt text never replaces a real title (RG-06)."""
    known, title = w.registry.get(conversation_id), real_title(title)
    if known is not None and title is not None and (known.provisional or known.title != title):
        w.registry.put(retitled(known, title))


def _named(attrs: dict[str, str | None]) -> list[tuple[str, str]]:
    """Attributes for a block's comment; what the site says is left out where it is not a plain word: the log's structure is ours alone."""
    return [(key, value) for key, value in attrs.items() if value and _PLAIN.fullmatch(value)]


def _header(w: World, conversation_id: str | None, op: Operation | None, account: str | None) -> dict[str, str]:
    created = rfc3339(w.clock.now().wall)
    header: dict[str, str] = {}
    if conversation_id:
        header = {"conversation": conversation_id, "url": url_of(w, conversation_id)}
    elif op is not None:
        header = {"operation": op.operation_id}
    if account:
        header["account"] = account
    return {**header, "created": created}
