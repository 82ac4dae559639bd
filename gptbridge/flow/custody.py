"""The only writer of operation records: who may move an operation, decided under the ledger lock against its last record.

> At most one send request is released by the page per operation id, across threads, processes, crashes and restarts that share one
> state directory on a local file system with working flock and fsync, and not restored from a backup. Chrome's own network stack may
> repeat that very request, with the same message id, when a connection dies before any answer; nothing above it can see that.

Every method is one transaction: read, decide, append durably, return the operation as it stands then. What a witness may do needs the
epoch that admitted the operation; recovery needs the dead owner's slot. No method touches the page, and none is called with a page
call or a sleep inside. `Refused` says that the row was not in the state that the caller believed; nothing was written then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from gptbridge.core import attachments
from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Actor, Operation, View
from gptbridge.core.lifecycle import IllegalStep, State
from gptbridge.core.operation import NEW, Payload, check_id, encoded, is_expired, time_of
from gptbridge.core.page_request import Upload
from gptbridge.core.ports import World
from gptbridge.flow.telling import tell_row

WAITING = 32
UNRESOLVED = 1000
UNCERTAIN_S = 3600.0


class Refused(Exception):
    """The operation's last record is not the one that was decided on; the ledger is unchanged."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The native tuple of a turn. Never inferred from time, position, count or equal text."""

    conversation_id: str
    user_message_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Admission:
    """`fresh`: this call admitted it (a new row or a next attempt); else the row was there and is answered from the ledger."""

    operation: Operation
    fresh: bool


class Custody:
    def __init__(self, world: World) -> None:
        self._w = world

    # Admission

    def admit(self, operation_id: str, payload: Payload, *, account: str | None, folder: str | None,
              again: bool = False) -> Admission:
        """Step 1: look up the id before anything else, judge its age by the floor, check room, append `queued` and spool the payload.

        Raises Failure: usage (id too far ahead), expired, conflict (same id, other request; or, without `again`, a request equal to one
        whose fate nobody has seen), queue-full (recorded for ever), busy (a loss was accepted a moment ago).
        """
        w = self._w
        fingerprint = payload.fingerprint()
        now = w.clock.now().wall
        fresh, full, spooled, empty = False, False, False, False

        def decide(view: View) -> list[dict[str, Any]]:
            nonlocal fresh, full, spooled, empty
            empty = False
            op = view.get(operation_id)
            if op is not None:
                if not op.fingerprint:
                    raise expired(operation_id)  # the record of its admission is lost
                if op.fingerprint != fingerprint:
                    raise conflict(operation_id)
                if not op.admissible:
                    return []
                if view.is_lossy(op):
                    raise expired(operation_id)  # what it did after its last record may be lost
            else:
                check_id(operation_id, now)
                if now < view.loss_until and time_of(operation_id) > view.loss_at:
                    raise loss_is_fresh(view.loss_until)
                if is_expired(operation_id, now, view.floor):
                    raise expired(operation_id)
            if now < view.loss_until:
                raise loss_is_fresh(view.loss_until)
            if len(view.unresolved()) >= UNRESOLVED:
                raise Failure("queue-full", f"{UNRESOLVED} operations are unresolved; nothing was sent", "ask-gpt ops list")
            if not again and op is None:
                refuse_equal(view, payload, now, self._w.owner.is_dead)
            empty = not view.last_seq
            if empty:
                return []
            fields: dict[str, Any] = {
                "kind": payload.kind, "target": payload.target, "fingerprint": fingerprint, "prompt_sha256": payload.prompt_sha256,
                "prompt_bytes": None if payload.prompt is None else len(encoded(payload.prompt)), "effort": payload.effort,
                "model": payload.model, "account": account, "folder": folder, "attempt": 1 if op is None else op.attempt + 1}
            if payload.files:
                fields["files"] = attachments.recorded(payload.files)
            fresh = True
            queued = records.move(op, State.QUEUED, epoch=w.owner.epoch, actor="worker", reason="admitted", **fields) if op else {
                "operation_id": operation_id, "state": "queued", "epoch": w.owner.epoch, "actor": "worker", "reason": "admitted", **fields}
            if waiting(view, payload.target, account) < WAITING:
                # Under the lock and before the row: no crash leaves a queued row without its text, and no other request of the same id
                # can put its text there. Files were stored before; a sweep that saw no row for them yet may have dropped them.
                if not all(w.spool.holds(file.sha256) for file in payload.files):
                    raise Failure("busy", "a sweep dropped the files while they were admitted; nothing was sent", "run it again")
                spooled = True
                # Whoever wrote the first record may have been killed before the ledger's name was on the disk: after a power cut the text
                # would tell of operations in a home whose ledger is gone.
                w.ledger.settle()
                w.spool.put(operation_id, encoded(payload.prompt or ""))
                return [queued]
            full = True
            refusal = Failure("queue-full", f"{WAITING} operations already wait for this target; nothing was sent",
                              "wait for them, then send under a new id", durable=True)
            return [queued, {"operation_id": operation_id, "state": "rejected", "epoch": w.owner.epoch, "actor": "worker",
                             "reason": "queue full", **records.failure_fields(refusal)}]

        try:
            view = w.ledger.transact(decide)
            if empty:
                w.ledger.begin()
                view = w.ledger.transact(decide)
                if empty:
                    raise Failure("state-unwritable", "the ledger does not keep its first record; nothing was sent")
        except Failure:
            if spooled:
                self._unadmit(operation_id)
            raise
        tell_row(w, view.operations[operation_id])
        return Admission(view.operations[operation_id], fresh and not full)

    def _unadmit(self, operation_id: str) -> None:
        """Admission failed: leave neither text nor row (AD-21). A failed fsync leaves its record readable: that must not wait in line."""
        def decide(view: View) -> list[dict[str, Any]]:
            op = view.get(operation_id)
            if op is None:
                self._w.spool.drop(operation_id)
            elif op.waiting and op.epoch == self._w.owner.epoch:
                lost = _final(op, Failure("state-unwritable", "the operation could not be recorded; nothing was sent", "make room"))
                return [self._move(op, State.REJECTED, lost.slug, **records.failure_fields(lost))]
            return []

        self._w.ledger.reopen()
        try:
            self._w.ledger.transact(decide)
        except Failure:
            pass  # the next recovery settles what is there

    # The witness

    def ready(self, operation_id: str, account: str) -> Operation:
        """Prepared and in the line of its account; keeps the place that its admission gave it."""
        return self._note(operation_id, State.QUEUED, "prepared", account=account, ready_at=self._at(), blocking_reason=None)

    def claim(self, operation_id: str, account: str, *, first: Callable[[View], bool]) -> Operation | None:
        """Take the account's turn; None unless the operation is queued, ours, and nothing else of the account is in flight."""
        done = False

        def decide(view: View) -> list[dict[str, Any]]:
            nonlocal done
            op = view.get(operation_id)
            if op is None or op.state is not State.QUEUED or op.epoch != self._w.owner.epoch or op.stop_at is not None:
                return []
            busy = any(o.in_flight and o.account == account for o in view.unresolved())
            if busy or not first(view):
                return []
            done = True
            return [self._move(op, State.CLAIMED, "turn of the line", account=account)]

        op = self._transact(operation_id, decide)
        return op if done else None

    def dispatch(self, operation_id: str) -> Operation | None:
        """The durable record that authorises one click and its request; None unless claimed by us."""
        done = False

        def decide(view: View) -> list[dict[str, Any]]:
            nonlocal done
            op = view.get(operation_id)
            if op is None or op.state is not State.CLAIMED or op.epoch != self._w.owner.epoch:
                return []
            done = True
            return [self._move(op, State.DISPATCHED, "one click is authorised")]

        op = self._transact(operation_id, decide)
        return op if done else None

    def held(self, operation_id: str, message_id: str, parent_id: str | None, uploads: Sequence[Upload] = ()) -> Operation:
        """The native id of the held request, on disk before the request may leave (GT-03); and those of its files, in their order."""
        files: dict[str, Any] = {"uploads": [{"id": upload.file_id, "name": upload.name} for upload in uploads]} if uploads else {}
        return self._note(operation_id, State.DISPATCHED, "request held", user_message_id=message_id, parent_message_id=parent_id, **files)

    def released(self, operation_id: str) -> Operation:
        """The account is free for the next. A record that fails here is written anew behind a reopened ledger: the request is gone, and
        without the note it would seem in flight for as long as its answer takes."""
        try:
            return self._note(operation_id, State.DISPATCHED, "request released", request="released")
        except Failure:
            self._w.ledger.reopen()
            return self._note(operation_id, State.DISPATCHED, "request released", request="released")

    def renamed(self, operation_id: str, message_id: str) -> Operation:
        """The site's stream gives our message another id; both are kept (GT-13)."""
        return self._note(operation_id, None, "the site renamed the message", site_message_id=message_id)

    def accept(self, operation_id: str, receipt: Receipt, *, actor: Actor = "worker", evidence: dict[str, Any] | None = None) -> Operation:
        """Record the receipt; the same one again is no change, another one raises `Refused` and the first stays (SM-13, SM-14).

        An uncertain operation needs `evidence`: who saw what, under which native ids (RP-06).
        """
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            owner = view.receipts.get((receipt.conversation_id, receipt.user_message_id.lower()))
            if owner not in (None, operation_id):
                raise Refused(f"this receipt belongs to {owner}")
            if op.state in (State.ACCEPTED, State.COMPLETED):
                if op.turn_id is not None or op.conversation_id not in (None, receipt.conversation_id):
                    if (op.conversation_id, op.turn_id) != (receipt.conversation_id, receipt.turn_id):
                        raise Refused(f"{operation_id} was accepted with another receipt")
                    return []
                if evidence is None:
                    raise Refused(f"{operation_id} was accepted by a person")  # its receipt comes later, and with evidence
            fields: dict[str, Any] = {"conversation_id": receipt.conversation_id, "turn_id": receipt.turn_id}
            if op.user_message_id is None:
                fields["user_message_id"] = receipt.user_message_id
            if evidence is not None:
                fields["evidence"] = evidence
            if op.state is State.UNCERTAIN and op.front is None:
                fields["front"] = "gone"  # its own command ended, by force or with 40: whatever the answer is, nobody has seen it
            return [self._move(op, State.ACCEPTED, "receipt" if evidence is None else "found by its message id", actor=actor, **fields)]

        return self._transact(operation_id, decide)

    def complete(self, operation_id: str, *, actor: Actor = "worker", **facts: Any) -> Operation:
        """`facts`: title, site_model, site_effort as the site says them. A completed one stays as it is."""
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            return [] if op.state is State.COMPLETED else [self._move(op, State.COMPLETED, "final answer", actor=actor, **facts)]

        return self._transact(operation_id, decide)

    def end_turn(self, operation_id: str, turn: str, reason: str, *, actor: Actor = "worker", **facts: Any) -> Operation:
        """The turn of an accepted operation ended without a final answer: failed, stopped, abandoned, lost (CR-16)."""
        return self._note(operation_id, State.ACCEPTED, reason, actor=actor, turn=turn, turn_ended_at=self._at(), **facts)

    def fail(self, operation_id: str, failure: Failure, *, nothing_left: bool, refusal: dict[str, Any] | None = None) -> Operation:
        """The live owner gives up: queued and claimed are `rejected`; dispatched too, but only with proof, else `uncertain` (SM-18, SM-19).

        With a stop on record, what has not been dispatched ends as that stop, whatever else happened to it: for ever (CR-17, ST-04).
        Raises `Refused` for a caller without the claim, or when the operation has ended already.
        """
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            if op.epoch != self._w.owner.epoch or op.state not in (State.QUEUED, State.CLAIMED, State.DISPATCHED):
                raise Refused(f"{operation_id} is {op.state} and not this process's to fail")
            if op.state is not State.DISPATCHED and op.stop_at is not None:
                return [self._ended_by_stop(op, f"stopped, and failed: {failure.slug}")]
            durable = failure.durable or op.claimed
            if op.state is State.DISPATCHED and not nothing_left:
                return [self._move(op, State.UNCERTAIN, failure.message)]
            facts = records.failure_fields(failure, durable=durable)
            if op.state is State.DISPATCHED and op.request is None:
                facts["request"] = "refused"
            if refusal is not None:
                facts["refusal"] = refusal
            return [self._move(op, State.REJECTED, failure.slug, **facts)]

        return self._transact(operation_id, decide)

    def stop(self, operation_id: str, by: str, failure: Failure) -> Operation:
        """Nobody waits any more and nothing left: queued or claimed by us becomes `stopped`."""
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            if op.epoch != self._w.owner.epoch or op.state not in (State.QUEUED, State.CLAIMED):
                raise Refused(f"{operation_id} is {op.state}")
            if op.stop_at is not None:
                return [self._ended_by_stop(op, "stopped: person" if by == "person" else f"stopped: person, and {by}")]
            return [self._move(op, State.STOPPED, f"stopped: {by}", stop=by,
                               **records.failure_fields(failure, durable=failure.durable or op.claimed))]

        return self._transact(operation_id, decide)

    def abandon(self, operation_id: str, epoch: str, failure: Failure) -> Operation:
        """By the front of a worker that does not answer any more: what that epoch has not dispatched it shall not dispatch when it wakes.
        From `dispatched` on, and where another process carries it, the row is left as it is."""
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            if op.epoch != epoch or op.state not in (State.QUEUED, State.CLAIMED):
                return []
            if op.stop_at is not None:
                return [self._ended_by_stop(op, "stopped, and its worker does not answer", actor="front")]
            return [records.move(op, State.STOPPED, epoch=op.epoch, actor="front", reason="its worker does not answer", stop="front",
                                 **records.failure_fields(failure, durable=op.claimed))]

        return self._transact(operation_id, decide)

    def note(self, operation_id: str, reason: str, *, actor: Actor = "worker", **facts: Any) -> Operation:
        """Facts about an operation that keep its state."""
        return self._note(operation_id, None, reason, actor=actor, **facts)

    # Recovery: only the ledger is known, and the page is never touched

    def recover(self) -> list[Operation]:
        """Settle the rows of dead owners, each while holding its owner's slot or while a later owner has it (CR-20): queued is rejected,
        claimed and dispatched are uncertain, accepted stays and its answer counts as unseen. Run first by every command that admits, waits
        or dispatches. Running it twice changes nothing."""
        w = self._w
        epochs = {op.epoch for op in w.ledger.view().unsettled() if _unsettled(op) and op.epoch != w.owner.epoch}
        if not epochs:
            return []
        with ExitStack() as stack:
            # A slot that has a later owner is not waited for: that one may never recover, and hold the account for as long as it lives.
            dead = {epoch for epoch in sorted(epochs) if stack.enter_context(w.owner.hold_dead(epoch)) or w.owner.is_dead(epoch)}
            changed: list[str] = []

            def decide(view: View) -> list[dict[str, Any]]:
                moves = []
                for op in view.unsettled():
                    if op.epoch not in dead or not _unsettled(op):
                        continue
                    if op.state is State.ACCEPTED:
                        moves.append(records.move(op, op.state, epoch=op.epoch, actor="recovery", **_accepted_facts(op)))
                        continue
                    changed.append(op.operation_id)
                    if view.is_lossy(op):
                        # A queued one too: that it was claimed and dispatched may stand in the records that are gone.
                        moves.append(records.move(op, State.UNCERTAIN, epoch=op.epoch, actor="recovery", lossy=True,
                                                  reason=f"owner gone, last seen {op.state.value}, and records of its time are lost"))
                    elif op.state is State.QUEUED:
                        gone = _final(op, Failure("browser", "the process that was to send this ended before it did; nothing was sent",
                                                  "run it again"))
                        moves.append(records.move(op, State.REJECTED, epoch=op.epoch, actor="recovery", reason="owner gone while queued",
                                                  **records.failure_fields(gone)))
                    else:
                        moves.append(records.move(op, State.UNCERTAIN, epoch=op.epoch, actor="recovery",
                                                  reason=f"owner gone while {op.state.value}"))
                return moves

            if not dead:
                return []
            view = w.ledger.transact(decide)
        return [view.operations[i] for i in changed]

    # Shared

    def _known(self, view: View, operation_id: str) -> Operation:
        op = view.get(operation_id)
        if op is None:
            raise Refused(f"{operation_id} is not in the ledger")
        return op

    def _move(self, op: Operation, to: State, reason: str, *, actor: Actor = "worker", **facts: Any) -> dict[str, Any]:
        epoch = self._w.owner.epoch if actor == "worker" else op.epoch
        return records.move(op, to, epoch=epoch, actor=actor, reason=reason, **facts)

    def _ended_by_stop(self, op: Operation, reason: str, *, actor: Actor = "worker") -> dict[str, Any]:
        return self._move(op, State.STOPPED, reason, actor=actor, stop="person", **records.failure_fields(stopped()))

    def _note(self, operation_id: str, state: State | None, reason: str, *, actor: Actor = "worker", **facts: Any) -> Operation:
        def decide(view: View) -> list[dict[str, Any]]:
            op = self._known(view, operation_id)
            if state is not None and op.state is not state:
                raise Refused(f"{operation_id} is {op.state}, not {state}")
            return [self._move(op, op.state, reason, actor=actor, **facts)]

        return self._transact(operation_id, decide)

    def _transact(self, operation_id: str, decide: records.Decide) -> Operation:
        try:
            op = self._w.ledger.transact(decide).operations[operation_id]
        except IllegalStep as error:
            raise Refused(str(error)) from None
        tell_row(self._w, op)
        return op

    def _at(self) -> str:
        return records.rfc3339(self._w.clock.now().wall)


def _unsettled(op: Operation) -> bool:
    return op.state in (State.QUEUED, State.CLAIMED, State.DISPATCHED) or (op.state is State.ACCEPTED and bool(_accepted_facts(op)))


def _accepted_facts(op: Operation) -> dict[str, Any]:
    """What recovery notes of an accepted one; it stays accepted (CR-10)."""
    facts: dict[str, Any] = {}
    if op.stop_phase == "dispatched":
        # The stop control was pressed, and nobody saw what came of it: not pressed again (CR-18).
        facts |= {"reason": "owner gone while it stopped", "stop_phase": "uncertain"}
    if op.front is None and not op.ended:
        # Whoever killed the worker may have killed its front with it, and one that lives has no answer to show: till a command has shown
        # it, an equal request under a new id is held (design 4).
        facts = {"reason": "owner gone before its answer was shown", **facts, "front": "gone"}
    return facts


def stopped() -> Failure:
    """How `ops stop` ends what has not left: a decision about the request itself, so the same answer for ever."""
    return Failure("stopped", "stopped before the message left; nothing was sent", durable=True)


def _final(op: Operation, failure: Failure) -> Failure:
    """Why it ends: a stop on record comes before whatever kept it from being sent, else a retry would send what a person stopped."""
    return failure if op.stop_at is None else stopped()


def waiting(view: View, target: str, account: str | None) -> int:
    """How many wait for that conversation; for new ones, for that account or before their account is known (AD-25)."""
    return sum(1 for o in view.unresolved()
               if o.waiting and o.target == target and (target != NEW or None in (account, o.account) or o.account == account))


def conflict(operation_id: str) -> Failure:
    return Failure("conflict", f"operation {operation_id} was admitted with another request; nothing was sent now and nothing changed",
                   f"ask-gpt ops show {operation_id}, or send under a new id")


def expired(operation_id: str) -> Failure:
    return Failure("expired", f"operation {operation_id} is unknown and older than its receipt would be: it may have been sent long ago",
                   "never send it again under a new id before looking in the log of its conversation")


def loss_is_fresh(until: float) -> Failure:
    return Failure("busy", "records of this home were lost and the loss was accepted; new work waits until "
                   f"{records.rfc3339(until)}; nothing was sent", "run it again after that time, without an operation id of before")


def refuse_equal(view: View, payload: Payload, now: float, is_dead: Callable[[str], bool]) -> None:
    """A new operation equal in text, files and target to one whose fate nobody has seen: an outer wrapper that runs a prompt again because
    it thinks that the first run hangs. Only `--again` lifts it (design 4). `is_dead`: whether the owner of that epoch is."""
    digests = [file.sha256 for file in payload.files]
    for op in view.of_prompt(payload.prompt_sha256):
        if op.target != payload.target or [file["sha256"] for file in op.files or ()] != digests:
            continue
        recent = op.state is State.UNCERTAIN and (
            op.looked_at is None or now - records.epoch_seconds(op.uncertain_at) < UNCERTAIN_S)
        # A worker that ended in peace has noted which of the two it was; killed together with its front it notes nothing.
        unseen = op.sent != "no" and op.shown_at is None and (op.front == "gone" or (op.ended and is_dead(op.epoch)))
        if recent or unseen:
            what = "it is not known whether it was sent" if recent else "its answer has not been shown yet"
            raise Failure("conflict",
                          f"operation {op.operation_id} sends the same text to the same place, and {what}; nothing was sent now",
                          f"ask-gpt resume {op.operation_id}; to send it once more all the same: --again")
