"""Whose a conversation is, and what becomes of ours in one that the site does not give to its own account any more.

Registry first, then the ledger's own receipts; nobody guesses. Touches the ledger alone; raises Failure("unknown-conversation").
"""

from __future__ import annotations

from typing import Protocol

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Actor
from gptbridge.core.lifecycle import State
from gptbridge.core.ports import Session, World
from gptbridge.flow.custody import Custody

LATE_S = 600.0  # after a dispatch, how long the site may not know of its conversation


class SessionOf(Protocol):
    def session(self) -> Session: ...


def bound_account(w: World, conversation_id: str) -> str:
    """Whose conversation it is: by the registry, or by an accepted operation of ours whose registry row a crash left out."""
    registered = w.registry.get(conversation_id)
    if registered is not None:
        return registered.account
    for op in w.ledger.view().of_conversation(conversation_id):
        if op.conversation_id == conversation_id and op.sent == "yes" and op.account is not None:
            return op.account
    raise Failure("unknown-conversation", f"conversation {conversation_id} is not in the registry of this home",
                  f"begun elsewhere? ask-gpt bootstrap-registry --conversation {conversation_id}")


def note_lost(w: World, custody: Custody, page: SessionOf, conversation_id: str, account: str, *, actor: Actor) -> None:
    """The site does not give the conversation to the account that it belongs to, while that one is signed in: it was deleted, and what was
    accepted there gets no answer any more (CR-16). One of the last minutes is waited for: a site may know of it late."""
    now = w.clock.now().wall
    ours = [op for op in w.ledger.view().of_conversation(conversation_id)
            if op.state is State.ACCEPTED and not op.ended and op.conversation_id == conversation_id and not _is_carried(w, op.epoch)
            and now - records.epoch_seconds(op.dispatched_at or op.queued_at) > LATE_S]
    if ours and bound_account(w, conversation_id) == account == page.session().account:
        for op in ours:
            custody.end_turn(op.operation_id, "lost", "the site does not give its conversation to its own account", actor=actor)


def _is_carried(w: World, epoch: str) -> bool:
    """Its worker lives, and sees more than a look does."""
    return epoch != w.owner.epoch and not w.owner.is_dead(epoch)
