"""How a flow tells its front what becomes of the turn that the command is about: the events of the one accumulator, each with id and time.

The accumulator is `World.turn`; nothing else makes events of a turn. A ledger's state is told when its record is durable, never before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gptbridge.core.ledger import Operation, rfc3339
from gptbridge.core.turn import Event, TurnState
from gptbridge.flow import recording

if TYPE_CHECKING:
    from gptbridge.core.ports import World


def begin(w: World, operation_id: str | None = None, *, phase: str = "attaching") -> None:
    """A turn of its own for each command of a world."""
    w.turn = TurnState(phase, operation_id)


def tell(w: World, events: Iterable[Event]) -> None:
    for event in events:
        w.caller.emit({**event, "operation_id": w.turn.operation_id, "at": rfc3339(w.clock.now().wall)})


def tell_row(w: World, op: Operation) -> None:
    """The ledger's state, if the operation is the one that this command is about."""
    if op.operation_id == w.turn.operation_id:
        tell(w, w.turn.state(op.state.value))


def tell_followed(w: World, op: Operation) -> None:
    """An operation that another process carries, or that has ended, as its row stands now."""
    tell_row(w, op)
    if op.sent != "no" and w.turn.phase == "attaching":
        w.turn.submitted()
    if op.sent == "yes" and op.conversation_id is not None:
        tell(w, w.turn.named(op.conversation_id, recording.url_of(w, op.conversation_id)))
