"""What a person decides about an operation: stop it, or settle one whose fate nobody can prove. No browser is opened here.

A stop is recorded before anything else; the live worker reads it at its next step and, where the message has left, presses the page's own
stop control once. Nothing decided here ever releases a request, and what was sent is never shown as not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, View
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import time_of
from gptbridge.core.ports import World
from gptbridge.flow.custody import Custody, stopped

POLL_S = 0.1
CONFIRM_S = 30.0
STOPPABLE = (State.QUEUED, State.CLAIMED, State.DISPATCHED, State.ACCEPTED)


def stop(w: World, custody: Custody, operation_id: str) -> tuple[str, Operation]:
    """(`stopped` nothing left | `stop-pressed` | `stop-unconfirmed` | `not-running`, the row). Repeating it has no new effect (ST-13).

    One that has ended and that its id might still send (a job runner that runs the same command again) is stopped, too (CR-17).
    """
    custody.recover()
    op = _known(w.ledger.view(), operation_id)
    if not _is_live(w, op) and not op.admissible:
        return _said(op), op
    _request(w, lambda view: [view.operations[operation_id]])
    return _await(w, custody, operation_id, w.clock.now().boottime + CONFIRM_S)


def stop_conversation(w: World, custody: Custody, conversation_id: str) -> list[tuple[str, Operation]]:
    """Everything that waits for this conversation and was admitted before, and the turn in progress; later ones survive (ST-19)."""
    custody.recover()
    seen = w.ledger.view().last_seq
    live = {op.operation_id for op in w.ledger.view().of_conversation(conversation_id) if _is_live(w, op)}
    ids = _request(w, lambda view: [op for op in view.of_conversation(conversation_id)
                                    if op.operation_id in live or (op.order > seen and not op.ended)])
    until = w.clock.now().boottime + CONFIRM_S
    return [_await(w, custody, operation_id, until) for operation_id in ids]


def _request(w: World, chosen: Callable[[View], list[Operation]]) -> list[str]:
    """One transaction: the fence stands before any later admission (ST-01). The ids of those chosen."""
    at = records.rfc3339(w.clock.now().wall)
    ids: list[str] = []

    def decide(view: View) -> list[dict[str, Any]]:
        ops = chosen(view)
        ids[:] = [op.operation_id for op in ops]
        return [records.move(op, op.state, epoch=op.epoch, actor="person", stop_at=at, **facts)
                for op in ops if (facts := _stop_facts(op)) is not None]

    w.ledger.transact(decide)
    return ids


def _stop_facts(op: Operation) -> dict[str, Any] | None:
    if op.admissible:
        return {"reason": "stopped after its end: its id sends nothing any more", "stop": "person", **records.failure_fields(stopped())}
    if op.state in STOPPABLE and not op.ended and op.stop_at is None:
        return {"reason": "stop asked for", "stop_phase": "pending"}
    return None


def _await(w: World, custody: Custody, operation_id: str, until: float) -> tuple[str, Operation]:
    while True:
        custody.recover()
        op = w.ledger.view().operations[operation_id]
        if op.ended or op.state is State.UNCERTAIN or op.stop_phase in ("confirmed", "uncertain") or not _is_live(w, op):
            return _said(op), op
        if w.clock.now().boottime >= until:
            return "stop-unconfirmed", op
        w.clock.sleep(POLL_S)


def _said(op: Operation) -> str:
    if op.ended and op.sent == "no" and op.stop_at is not None:
        return "stopped"
    if op.stop_phase == "confirmed":
        return "stop-pressed"
    return "stop-unconfirmed" if op.stop_phase in ("dispatched", "uncertain") else "not-running"


def _is_live(w: World, op: Operation) -> bool:
    if op.ended or op.state not in STOPPABLE:
        return False
    return not w.owner.is_dead(op.epoch)


def resolve(w: World, custody: Custody, operation_id: str, *, sent: bool, because: str, conversation_id: str | None = None) -> Operation:
    """A person settles an uncertain operation: it was sent (accepted), or it was not (rejected). Any other state is left as it is (21)."""
    custody.recover()
    op = _known(w.ledger.view(), operation_id)
    at = records.rfc3339(w.clock.now().wall)

    def decide(view: View) -> list[dict[str, Any]]:
        row = _known(view, operation_id)
        if row.state is not State.UNCERTAIN:
            raise Failure("conflict", f"operation {operation_id} is {row.state}, not uncertain; nothing changed",
                          f"ask-gpt ops show {operation_id}")
        if not sent:
            verdict = Failure("stopped", "a person found that it was not sent", durable=True)
            return [records.move(row, State.REJECTED, epoch=row.epoch, actor="person", reason=because, **records.failure_fields(verdict))]
        if row.dispatched_at is None:
            raise Failure("conflict", f"the ledger holds no dispatch of {operation_id}, so it cannot be accepted; nothing changed",
                          f"ask-gpt ops resolve {operation_id} --not-sent --because TEXT")
        known = row.conversation_id or (row.target if row.kind == "resume" else None)
        if None not in (known, conversation_id) and known != conversation_id:
            raise Failure("conflict", f"operation {operation_id} belongs to conversation {known}; nothing changed",
                          f"ask-gpt ops show {operation_id}")
        place = conversation_id or known
        if any(view.receipts.get((place or "", message_id), operation_id) != operation_id for message_id in row.message_ids()):
            raise Failure("conflict", f"that message belongs to another operation than {operation_id}; nothing changed",
                          f"ask-gpt ops show {operation_id}")
        facts: dict[str, Any] = {"conversation_id": place} if place else {}
        if not row.message_ids():
            # Nothing by which its answer could ever be told from another one: a person reads it in the browser.
            facts |= {"turn": "lost", "turn_ended_at": at}
        return [records.move(row, State.ACCEPTED, epoch=row.epoch, actor="person", reason=because, **facts)]

    return w.ledger.transact(decide).operations[op.operation_id]


def unknown(view: View, operation_id: str) -> Failure:
    """Of an id at or below the floor it is not even known whether it ran."""
    pruned = time_of(operation_id) <= view.floor
    gone = "; operations of its time were pruned or lost, so whether it was sent is not known" if pruned else ""
    return Failure("bad-input", f"operation {operation_id} is not in the ledger{gone}; nothing changed", "ask-gpt ops list")


def _known(view: View, operation_id: str) -> Operation:
    op = view.get(operation_id)
    if op is None:
        raise unknown(view, operation_id)
    return op
