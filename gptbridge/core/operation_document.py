"""What is told of an operation where no turn is shown: its object in `operations[]`, and the one line about those that are uncertain.

Apart from core/result.py, since a reading command needs no log for it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State


def operation_document(op: Operation, *, detail: bool = False) -> dict[str, Any]:
    """One of `operations[]`; `detail` adds what `ops show` adds."""
    doc: dict[str, Any] = {
        "operation_id": op.operation_id, "state": op.state.value, "sent": op.sent, "retry": op.retry, "kind": op.kind, "target": op.target,
        "conversation_id": op.conversation_id, "user_message_id": op.user_message_id,
        "admission": "rejected" if op.durable and not op.claimed and op.state is State.REJECTED else "accepted",
        "blocking_reason": op.blocking_reason, "stop_phase": op.stop_phase, "queued_at": op.queued_at, "dispatched_at": op.dispatched_at,
        "updated_at": op.updated_at, "turn": op.turn, "attempt": op.attempt, "refusal": op.refusal}
    if detail:
        accepted = op.state in (State.ACCEPTED, State.COMPLETED)
        doc["asked"] = {"model": op.model, "effort": op.effort}
        doc["fingerprint"] = op.fingerprint
        doc["receipt"] = {"conversation_id": op.conversation_id, "user_message_id": op.user_message_id, "turn_id": op.turn_id,
                          "site_message_id": op.site_message_id} if accepted else None
        doc["history"] = [dict(entry) for entry in op.history]
    return doc


def uncertain_line(operations: Sequence[Operation]) -> str | None:
    """The one line that every command says on standard error while uncertain operations exist; None when there is none."""
    count = len(operations)
    return None if not count else f"ask-gpt: {count} uncertain operation{'s' if count > 1 else ''}: ask-gpt ops list --state uncertain"
