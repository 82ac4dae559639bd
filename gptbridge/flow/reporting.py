"""The outcome of a sending command, rebuilt from ledger and log, so that a replay says what the first run said; and who has seen it.

An answer that its own command did not live to show is noted as such, until a command has shown it: till then an equal request is refused
unless `--again` (design 4).
"""

from __future__ import annotations

from typing import Any

from gptbridge.core import brought
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Actor, Operation, failure_of, rfc3339
from gptbridge.core.lifecycle import State
from gptbridge.core.ports import Ledger, Logs, Registry, World
from gptbridge.core.result import UNREADABLE, Outcome
from gptbridge.core.transcript import Block
from gptbridge.flow import logged, recording
from gptbridge.flow.custody import Custody


def outcome_of(command: str, op: Operation, ledger: Ledger, logs: Logs, registry: Registry, *, slug: str | None = None,
               failure: Failure | None = None) -> Outcome:
    """`slug` overrides what the row says: the caller's patience ended, a record could not be written, the user stopped it."""
    name = recording.log_name(op)
    try:
        log = logs.read(name)
        copied, canonical = logs.paths(name, expected=op.state is State.ACCEPTED and not op.ended)
    except Failure:
        log, copied, canonical = None, None, None  # a log that cannot be read: what the ledger says still counts
    block = logged.turn_of(log, op) if op.sent == "yes" else None
    said = slug or op.slug
    if said == "ok" and op.state is State.COMPLETED and (block is None or block.state in logged.UNFINISHED):
        said = "answer-lost"  # completed, and its turn is not in the log: read back by resume
    left = op.front == "gone" or (block is not None and block.state == "interrupted")  # a worker's last word, or recovery's after its death
    if said == "still-answering" and failure is None and left:
        failure = Failure(said, "the message was sent, but its answer was not followed to its end, and no worker follows it any more",
                          f"ask-gpt resume {op.operation_id} reads it")
    conversation = registry.get(op.conversation_id) if op.conversation_id else None
    warnings = warnings_of(block) + _replaced(op)
    if said == "ok" and op.turn == "stopped":
        warnings.append("the answer was stopped before its end")
        if block is None or not block.section("answer"):
            said = "answer-lost"
    files = brought.of_block(block)
    lost = brought.missing(files, op.conversation_id)
    if said == "ok" and lost is not None:
        said, failure = lost.slug, lost
    return Outcome(command, said, failure or (failure_of(op) if said == op.slug else None), op, block, conversation, log=copied,
                   log_canonical=canonical, warnings=warnings, files=files)


def warnings_of(block: Block | None) -> list[str]:
    """What the turn that is shown says of itself (HY-08)."""
    thinking = (block.section("thinking") if block is not None else None) or ""
    if not thinking.endswith(UNREADABLE):
        return []
    return ["the thinking of this turn is there but could not be read" if thinking == UNREADABLE else
            "some of the thinking of this turn is there but could not be read"]


def _replaced(op: Operation) -> list[str]:
    """The request asked for it, and the site took something else all the same."""
    pairs = (("model", op.model, op.site_model), ("effort", op.effort, op.site_effort))
    return [f"{name} {asked} was asked for, and the site says that {given} answered" for name, asked, given in pairs
            if asked and given and asked != given]


def note_gone(w: World, custody: Custody, op: Operation) -> Operation:
    """By the worker, at the end of the turn: the front that was to show this answer is gone."""
    if op.front is None and op.sent != "no" and op.shown_at is None and w.caller.gone():
        return _noted(w, custody, op, "nobody waits for its answer any more", "worker", front="gone")
    return op


def note_told(w: World, custody: Custody, operation_id: str, *, told: bool) -> None:
    """By the worker, last of all. `told`: its front lived to tell its caller what became of the message."""
    op = w.ledger.view().get(operation_id)
    if op is None or op.epoch != w.owner.epoch or op.sent == "no" or op.shown_at is not None:
        return  # what another one carries, its own worker notes
    if told and op.ended:
        _noted(w, custody, op, "its answer was shown", "worker", shown_at=rfc3339(w.clock.now().wall))
    elif not told:
        note_gone(w, custody, op)


def note_shown(w: World, custody: Custody, op: Operation) -> Operation:
    """By a command that is about to show the turn of an operation whose own front did not live to show it; once."""
    unseen = op.front == "gone" or w.owner.is_dead(op.epoch)
    if not unseen or op.shown_at is not None or not op.ended or op.sent == "no" or w.caller.gone():
        return op
    block = logged.turn_of(w.logs.read(recording.log_name(op)), op)
    if block is None or (op.state is State.COMPLETED and block.state in logged.UNFINISHED):
        return op  # nothing is there to be shown yet
    return _noted(w, custody, op, "its answer was shown", "resume", shown_at=rfc3339(w.clock.now().wall))


def _noted(w: World, custody: Custody, op: Operation, reason: str, actor: Actor, **facts: Any) -> Operation:
    """A note that cannot be written takes nothing from the answer."""
    try:
        op = custody.note(op.operation_id, reason, actor=actor, **facts)
        if op.account is not None and w.ledger.sound:
            w.stamps.raise_seq(op.account, op.seq)  # without it, whoever reads a ledger that lost this record does not know
        return op
    except Failure as failure:
        w.caller.emit({"type": "warning", "message": failure.message})
        return op
