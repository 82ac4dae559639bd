"""What a person decides about an operation: stop it, or settle one whose fate nobody can prove. No browser is opened here.

A stop is recorded before anything else; the live worker reads it at its next step and, where the message has left, presses the page's own
stop control once. Nothing decided here ever releases a request, and what was sent is never shown as not sent.
"""

from __future__ import annotations

from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, View
from gptbridge.core.lifecycle import State
from gptbridge.core.ports import World
from gptbridge.flow.custody import Custody

POLL_S = 0.1
CONFIRM_S = 30.0
STOPPABLE = (State.QUEUED, State.CLAIMED, State.DISPATCHED, State.ACCEPTED)


def stop(w: World, custody: Custody, operation_id: str) -> tuple[str, Operation]:
    """(`stopped` nothing left | `stop-pressed` | `stop-unconfirmed` | `not-running`, the row). Repeating it has no new effect (ST-13)."""
    custody.recover()
    op = _known(w.ledger.view(), operation_id)
    if not _is_live(w, op):
        return _said(op), op
    _request(w, [operation_id])
    return _await(w, custody, operation_id)


def stop_conversation(w: World, custody: Custody, conversation_id: str) -> list[tuple[str, Operation]]:
    """Everything that waits for this conversation and was admitted before, and the turn in progress; later ones survive (ST-19)."""
    custody.recover()
    live = [op.operation_id for op in w.ledger.view().of_conversation(conversation_id) if _is_live(w, op)]
    _request(w, live)
    return [_await(w, custody, operation_id) for operation_id in live]


def _request(w: World, operation_ids: list[str]) -> None:
    """One transaction: the fence stands before any later admission (ST-01)."""
    at = records.rfc3339(w.clock.now().wall)

    def decide(view: View) -> list[dict[str, Any]]:
        ops = [view.operations[i] for i in operation_ids]
        return [records.move(op, op.state, epoch=op.epoch, actor="person", reason="stop asked for", stop_at=at, stop_phase="pending")
                for op in ops if op.state in STOPPABLE and not op.ended and op.stop_at is None]

    w.ledger.transact(decide)


def _await(w: World, custody: Custody, operation_id: str) -> tuple[str, Operation]:
    until = w.clock.now().boottime + CONFIRM_S
    while True:
        custody.recover()
        op = w.ledger.view().operations[operation_id]
        if op.ended or op.state is State.UNCERTAIN or op.stop_phase in ("confirmed", "uncertain") or not _is_live(w, op):
            return _said(op), op
        if w.clock.now().boottime >= until:
            return "stop-unconfirmed", op
        w.clock.sleep(POLL_S)


def _said(op: Operation) -> str:
    if op.sent == "no" and op.stop_at is not None and op.slug == "stopped":
        return "stopped"
    if op.stop_phase == "confirmed":
        return "stop-pressed"
    return "stop-unconfirmed" if op.stop_phase in ("dispatched", "uncertain") else "not-running"


def _is_live(w: World, op: Operation) -> bool:
    if op.ended or op.state not in STOPPABLE:
        return False
    with w.owner.hold_dead(op.epoch) as dead:
        return not dead


def resolve(w: World, custody: Custody, operation_id: str, *, sent: bool, because: str, conversation_id: str | None = None) -> Operation:
    """A person settles an uncertain operation: it was sent (accepted), or it was not (rejected). Any other state is left as it is (21)."""
    custody.recover()
    op = _known(w.ledger.view(), operation_id)

    def decide(view: View) -> list[dict[str, Any]]:
        row = _known(view, operation_id)
        if row.state is not State.UNCERTAIN:
            raise Failure("conflict", f"operation {operation_id} is {row.state}, not uncertain; nothing changed",
                          f"ask-gpt ops show {operation_id}")
        if not sent:
            verdict = Failure("stopped", "a person found that it was not sent", durable=True)
            return [records.move(row, State.REJECTED, epoch=row.epoch, actor="person", reason=because, **records.failure_fields(verdict))]
        if row.dispatched_at is None:
            raise Failure("conflict", f"operation {operation_id} never reached the page, so it cannot have been sent; nothing changed",
                          f"ask-gpt ops resolve {operation_id} --not-sent --because TEXT")
        facts: dict[str, Any] = {"conversation_id": conversation_id or (row.target if row.kind == "resume" else None)}
        return [records.move(row, State.ACCEPTED, epoch=row.epoch, actor="person", reason=because,
                             **{name: value for name, value in facts.items() if value})]

    return w.ledger.transact(decide).operations[op.operation_id]


def _known(view: View, operation_id: str) -> Operation:
    op = view.get(operation_id)
    if op is None:
        raise Failure("bad-input", f"operation {operation_id} is not in the ledger; nothing changed", "ask-gpt ops list")
    return op
