"""What goes into the logs: turns of our own, turns copied from the site, and events.

A turn is known by its native user message id: it is written once, whoever saw it first (TL-15). The log never decides the state of an
operation; a turn carries an operation id only where a receipt in the ledger binds them (HY-07).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptbridge.core import attachments, brought
from gptbridge.core.brought import Brought
from gptbridge.core.conversation import UNREADABLE, SiteConversation, SiteTurn
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, View, rfc3339
from gptbridge.core.lifecycle import State
from gptbridge.core.ports import Rendered, World
from gptbridge.flow.logged import PLAIN, REPLACED, UNFINISHED, Known, is_unfinished, key_of, known_turns, may_go_on, plain


def log_name(op: Operation) -> str:
    """The log an operation's turn stands in: its conversation's, or its own while no conversation took it."""
    return op.conversation_id if op.conversation_id and op.sent == "yes" else f"failed-{op.operation_id}"


def url_of(w: World, conversation_id: str) -> str:
    return f"{w.settings.site}/c/{conversation_id}"


def begin_turn(w: World, op: Operation, prompt: str) -> None:
    """The beginning of an accepted operation's turn, durable before its answer comes: a power cut or a kill in the middle of a long answer
    leaves the prompt. A failure is a warning here: the message has left, and `write_turn` will need the same file."""
    name = log_name(op)
    try:
        w.logs.begin(name, header=_header(w, name, op), block=_own_block(op, [("prompt", prompt), *_attachments(op)]))
        w.logs.copy(name)
    except Failure as failure:
        w.caller.emit({"type": "warning", "message": failure.message})


def write_turn(w: World, op: Operation, prompt: str, turn: SiteTurn | None, *, state: str, thinking: str | None = None,
               answer: str | None = None, failure: Failure | None = None, phase: str | None = None,
               files: Sequence[Brought] = ()) -> None:
    """Close the turn of our own operation, or append it whole where it was not begun; fsynced, then the copy is replaced.

    `turn` is the site's account of it, if it could be read; `failure` and `phase` (how far the turn was) of one that has no good end.
    """
    name = log_name(op)
    if turn is not None:  # a failed turn may have lost the words that were streamed: they are kept
        thinking, answer = turn.thinking or thinking, answer if turn.answer is None else turn.answer
    sections: list[tuple[Any, ...]] = [("prompt", prompt), *_attachments(op)]
    if thinking:
        sections.append(("thinking", thinking))
    if turn is not None and turn.workings:
        sections.append(("workings", turn.workings))
    if answer is not None:
        sections.append(("answer", answer))
    if files:
        sections.append((brought.SECTION, brought.text(files)))
    if failure is not None:
        sections.append(("error", f"{failure.slug}: {failure.message}", _named({"class": failure.exit.event_class, "phase": phase})))
    late = {"user": op.site_message_id, "reply": key_of(turn.final_node_id) if turn and turn.final_node_id else None,
            "model": (turn.model if turn else None) or op.site_model, "effort": (turn.effort if turn else None) or op.site_effort}
    w.logs.finish(name, header=_header(w, name, op), block={**_own_block(op, sections), "state": state, "end": _named(late)})
    w.logs.copy(name)


def _own_block(op: Operation, sections: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What is known when a turn begins and does not change until it ends: its opening must read the same then."""
    return {"kind": "turn", "at": op.dispatched_at or op.queued_at, "words": (), "sections": sections,
            "attrs": _named({"op": op.operation_id, "user": op.user_message_id, "turn": op.turn_id, "asked-model": op.model,
                             "asked-effort": op.effort})}


def write_event(w: World, conversation_id: str, account: str, files: Sequence[Brought]) -> None:
    """Append what a collection of files brought, as a record without a turn (TL-16), then replace the copy."""
    state = "incomplete" if brought.missing(files, conversation_id) else "completed"
    block = {"kind": "event", "at": rfc3339(w.clock.now().wall), "attrs": _named({"did": "download-attachments"}),
             "sections": [(brought.SECTION, brought.text(files))], "state": state, "words": ()}
    w.logs.append(conversation_id, header=_header_of(w, conversation_id, account), blocks=[block])
    w.logs.copy(conversation_id)


def hydrate(w: World, site: SiteConversation, conversation_id: str, account: str, view: View) -> list[str]:
    """Append, in order, the site's turns that the log lacks; gives the native ids that were added. Twice changes nothing (HY-10).

    A turn that is still being answered is left for later. One that replaces an interrupted or failed block, or one that was read from the
    page's looks, names it (`supersedes`); another answer to a prompt that has one (regenerated by hand) stands beside it.
    """
    known = _whole_log(w, conversation_id)
    blocks: list[dict[str, Any]] = []
    added: list[str] = []
    for turn in site.turns:
        key = key_of(turn.user_message_id or turn.node_ids[0])
        op = receipt_of(view, key)
        # A block that was only begun may know our message by the id that it had before the site renamed it.
        names = (key, *map(key_of, turn.node_ids), *(sorted(op.message_ids()) if op is not None else ()))
        seen = next((known[name] for name in names if name in known), None)
        unfinished = is_unfinished(turn)
        if unfinished and (turn is site.turns[-1]) and may_go_on(turn, w.clock.now().wall):
            continue
        if seen is not None and not seen.lacks(turn, unfinished):
            continue
        blocks.append(_hydrated(w, turn, key, view, "incomplete" if unfinished else turn.state, seen))
        added.append(key)
    if blocks and not site.complete:
        blocks.append(_remark(w, "the site's account is incomplete: older turns, or the newest, may be missing", "site"))
    if blocks:
        w.logs.append(conversation_id, header=_header_of(w, conversation_id, account), blocks=blocks)
    return added


def hydrate_rendered(w: World, seen: Rendered, conversation_id: str, account: str, view: View, why: str) -> list[str]:
    """The same from what the page shows, where its JSON is refused: marked as such, `state=incomplete` whatever it looks like, and replaced
    by the first reading of the JSON. A turn that is known in any form is left as it is."""
    known = _whole_log(w, conversation_id)
    blocks: list[dict[str, Any]] = []
    added: list[str] = []
    for turn in seen.turns:
        key = key_of(turn.user_message_id)
        if key in known or (seen.generating and turn is seen.turns[-1]):
            continue
        op = receipt_of(view, key)
        sections = [("prompt", turn.prompt), *([("thinking", UNREADABLE)] if turn.thought else [])]
        sections += [("answer", turn.answer)] if turn.answer is not None else []
        attrs = {"op": op.operation_id if op else None, "user": key, "source": "page"}
        blocks.append({"kind": "turn", "at": rfc3339(w.clock.now().wall), "attrs": _named(attrs), "sections": sections,
                       "state": "incomplete", "words": ("hydrated", "from-page")})
        added.append(key)
    if blocks:
        blocks.append(_remark(w, why, "page"))
        w.logs.append(conversation_id, header=_header_of(w, conversation_id, account), blocks=blocks)
    return added


def _whole_log(w: World, conversation_id: str) -> dict[str, Known]:
    if w.logs.is_torn(conversation_id):
        w.logs.seal(conversation_id)  # first: an end that lacks its last byte alone is whole once healed, and must not be added again
    return known_turns(w.logs.read(conversation_id))


def _hydrated(w: World, turn: SiteTurn, key: str, view: View, state: str, seen: Known | None) -> dict[str, Any]:
    op = receipt_of(view, key)
    if seen is not None and seen.state not in UNFINISHED:
        op = None  # what the operation was answered stands in the log; this is another answer to the same prompt
    supersedes = str(seen.number) if seen is not None and (seen.state in UNFINISHED or seen.state in REPLACED) else None
    attrs = {"op": op.operation_id if op else None, "user": plain(turn.user_message_id) or key, "turn": turn.turn_id,
             "reply": key_of(turn.final_node_id) if turn.final_node_id else None, "model": turn.model, "effort": turn.effort,
             "supersedes": supersedes}
    sections = [("prompt", turn.user_text)] if turn.user_text is not None else []
    if op is not None and op.files:
        sections += _attachments(op)
    elif turn.attachments:
        sections.append((attachments.SECTION, brought.offered(turn.attachments)))
    sections += _said(turn)
    if turn.artifacts:
        sections.append((brought.SECTION, brought.offered(turn.artifacts)))
    if turn.error:
        sections.append(("error", turn.error))
    at = rfc3339(turn.at) if turn.at is not None else rfc3339(w.clock.now().wall)
    return {"kind": "turn", "at": at, "attrs": _named(attrs), "sections": sections, "words": ("hydrated",),
            "state": "completed" if state == "empty" else state}


def _said(turn: SiteTurn) -> list[tuple[str, str]]:
    """The sections of what the model did and said, in the order of a turn."""
    found = [("thinking", turn.thinking), ("workings", turn.workings)]
    return [pair for pair in found if pair[1]] + ([("answer", turn.answer)] if turn.answer is not None else [])


def _remark(w: World, text: str, source: str) -> dict[str, Any]:
    return {"kind": "event", "at": rfc3339(w.clock.now().wall), "attrs": [("source", source)], "sections": [("note", text)],
            "state": "incomplete", "words": ()}


def receipt_of(view: View, key: str) -> Operation | None:
    """The operation that a receipt binds to this native id (HY-07)."""
    op = view.by_message(key)
    return op if op is not None and op.state in (State.ACCEPTED, State.COMPLETED) else None


def _attachments(op: Operation | None) -> list[tuple[str, str]]:
    """The files that an operation sent, as a section; none where it sent none."""
    found = attachments.rows(op.files, op.uploads) if op is not None else []
    return [(attachments.SECTION, attachments.section(found))] if found else []


def _named(attrs: dict[str, str | None]) -> list[tuple[str, str]]:
    """Attributes for a block's comment; what the site says is left out where it is not a plain word: the log's structure is ours alone."""
    return [(key, value) for key, value in attrs.items() if value and PLAIN.fullmatch(value)]


def _header(w: World, name: str, op: Operation) -> dict[str, str]:
    if name == op.conversation_id:
        return _header_of(w, name, op.account)
    return _header_of(w, None, op.account, operation=op.operation_id)


def _header_of(w: World, conversation_id: str | None, account: str | None, **more: str) -> dict[str, str]:
    """The header of a log that is not there yet."""
    header = dict(more)
    if conversation_id:
        header |= {"conversation": conversation_id, "url": url_of(w, conversation_id)}
    if account:
        header["account"] = account
    return {**header, "created": rfc3339(w.clock.now().wall)}
