"""What a sweep brings home from the site: at most 20 conversations a run, read one after another, each once.

First those of uncertain and unfinished operations, the least recently tried first; then those whose log has a torn or interrupted turn;
then those that changed since they were last read, by one look at the 20 newest of the account's list. Only what the home knows already is
read or given a title; another account's is passed over; what a live worker holds is left alone (DU-11). How far a log goes is kept in the
registry, by the site's own clock, so nothing is read again before it changes (`Conversation.read_at`, `lacking`).

Fails with the site's own no (11 to 16), a throttle first of all, which ends the run there. Where our own work has every seat, the site is
not asked, which is said and is no failure. One conversation that cannot be read, or whose files are damaged, is told and hides no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from gptbridge.core import listing
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, rfc3339
from gptbridge.core.lifecycle import State
from gptbridge.core.listing import Listed
from gptbridge.core.ports import Unread, World
from gptbridge.core.registry import Conversation
from gptbridge.flow import belonging, logged, reading, reconciling, recording, registering, snapshots
from gptbridge.flow.custody import Custody
from gptbridge.flow.healing import Healed, Heed, Swept, note_look
from gptbridge.flow.paced import Enough, PacedReader

READS = 20  # conversations in one run
SPARED = 5  # of them, for what is no operation: twenty that nobody can settle do not keep it away for ever
NEWEST = 20  # of the account's list
SEAT_S = 60.0  # how long it waits for a window: sends go first


def bring_home(w: World, custody: Custody, healed: Healed, found: Swept, heed: Heed) -> None:
    """Opens no window where the home knows of no conversation and has nothing to look for."""
    ops = unfinished(w)
    if not ops and not any("conversation_id" in fields for _, fields in w.registry.newest_first()):
        return
    tried: list[Operation] = []
    try:
        with ExitStack() as places:
            page, account = reading.reader(w, places, heed, wait_s=SEAT_S)

            def fails(failure: Failure) -> None:
                if found.failure is None:  # the one that the run ends with
                    snapshots.keep(w, page, failure)
                found.fails(failure)
            paced = PacedReader(w, page, heed, reads=READS, searches=reconciling.READS)
            run = _Run(w, custody, paced, account, healed, found, heed, fails)
            with paced.sparing(SPARED):
                run.operations(ops, tried)
            run.interrupted()
            run.newest()
    except Failure as failure:
        if failure.slug in ("interrupted", "terminated"):
            raise
        if failure.slug == "busy":  # answers that take an hour are no trouble that a timer should tell each time; the next run looks
            found.busy = f"{failure.message.rstrip('.')}; the site was not asked this time"
        else:
            found.fails(failure)
    open_ones = {op.operation_id for op in unfinished(w)} if tried else set()
    for op in tried:
        if op.operation_id in open_ones:
            by = "looked for by its id" if op.message_ids() else "its conversation was read; no message id is recorded"
            note_look(w, custody, op, by)


def unfinished(w: World) -> list[Operation]:
    """Without a live owner: uncertain or accepted with an id to look for; uncertain without one, if its conversation is known and was not
    read since; completed and not in log or registry. The least recently tried first, so that twenty that cannot be found do not starve the
    next for ever."""
    blocks: dict[str, Any] = {}

    def is_logged(op: Operation) -> bool:
        name = recording.log_name(op)
        if name not in blocks:
            blocks[name] = w.logs.read(name)
        block = logged.turn_of(blocks[name], op)
        return block is not None and (op.turn is not None or block.state not in logged.UNFINISHED)

    def is_open(op: Operation) -> bool:
        if op.state not in (State.UNCERTAIN, State.ACCEPTED, State.COMPLETED):
            return False
        if not op.message_ids() and (op.state is not State.UNCERTAIN or op.kind != "resume" or op.looked_at is not None):
            return False
        if op.ended and (op.conversation_id is None or (is_logged(op) and w.registry.get(op.conversation_id) is not None)):
            return False
        return _is_orphan(w, op)

    found = [op for op in list(w.ledger.view().operations.values()) if is_open(op)]
    # A look is the last record of what it did not find: the order of records, since the times of two looks may be of two clocks.
    return sorted(found, key=lambda op: (op.looked_at is not None, op.seq if op.looked_at else op.order))


def _is_orphan(w: World, op: Operation) -> bool:
    return op.epoch == w.owner.epoch or w.owner.is_dead(op.epoch)


class _Run:
    def __init__(self, w: World, custody: Custody, paced: PacedReader, account: str, healed: Healed, found: Swept, heed: Heed,
                 fails: Callable[[Failure], None]) -> None:
        self._w, self._custody, self._paced, self._account = w, custody, paced, account
        self._healed, self._found, self._heed, self._fails = healed, found, heed, fails
        self._done: set[str] = set()

    def operations(self, ops: list[Operation], tried: list[Operation]) -> None:
        """`tried` gets those that were looked for to the end."""
        for op in ops:
            self._heed()
            if op.account not in (None, self._account):
                continue  # another account's: this session cannot see it, and that proves nothing
            try:
                conversation_id = self._locate(op)
                if conversation_id is None or self._read(conversation_id):
                    tried.append(op)
            except Enough:
                continue  # another one may lie in a conversation that was read already

    def interrupted(self) -> None:
        """Logs with an unfinished turn that the site was not asked for yet; those that were never read first."""
        wanted: list[tuple[str, str]] = []
        for conversation_id, numbers in self._healed.lacking.items():
            known = self._ours(conversation_id)
            if known is not None and not set(numbers) <= set(known.lacking):
                wanted.append((known.read_at or "", conversation_id))
        try:
            for _, conversation_id in sorted(wanted):
                self._read(conversation_id)
        except Enough:
            return

    def newest(self) -> None:
        """What changed on the site; of what did not, the title."""
        document = self._paced.listing(0, listing.USUAL)
        try:
            page = listing.read(document, asked=listing.USUAL)
        except ValueError as why:
            raise Failure("site-changed", f"the site's list of conversations is not as known ({why})", "update ask-gpt") from why
        changed: list[Listed] = []
        for item in page.items[:NEWEST]:
            known = self._ours(item.conversation_id)
            if known is None or item.conversation_id in self._done or self._w.locks.is_held(item.conversation_id):
                continue
            if self._is_behind(known, item):
                changed.append(item)
            else:
                registering.retitle(self._w, item.conversation_id, item.title)
        # The newest that this run may still read, the newest of them last: what was changed last stands first in `list`.
        for item in reversed(changed[:max(self._paced.left, 0)]):
            self._read(item.conversation_id, item.updated_at)

    def _ours(self, conversation_id: str) -> Conversation | None:
        known = None if conversation_id in self._healed.unusable else self._w.registry.get(conversation_id)
        return known if known is not None and known.account == self._account else None

    def _is_behind(self, known: Conversation, item: Listed) -> bool:
        if known.known_to is None:
            return True
        if item.updated_at is not None and rfc3339(item.updated_at) > known.known_to:
            return True
        return known.read_at is not None and self._w.logs.paths(known.conversation_id)[1] is None  # its log was moved away

    def _locate(self, op: Operation) -> str | None:
        """The conversation that holds it: the known one, or the one among the newest in which its message is seen."""
        if op.conversation_id is not None or op.kind == "resume":
            return op.conversation_id or op.target
        with self._paced.searching():
            sighting = reconciling.find(self._w, self._paced, op, pause_s=0.0, heed=self._heed)
        return sighting.conversation_id if sighting else None

    def _read(self, conversation_id: str, listed_at: float | None = None) -> bool:
        """Whether it was read, now or before, or cannot be; False while a live worker holds it."""
        if conversation_id in self._done:
            return True
        self._heed()
        try:
            self._catch_up(conversation_id, listed_at)
        except Unread as failure:
            self._fails(failure)
        except Failure as failure:
            match failure.slug:
                case "busy":
                    return False  # nothing of a live worker's is touched (DU-11)
                case "unknown-conversation":
                    registering.note_gone(self._w, conversation_id, self._healed.lacking.get(conversation_id, ()))
                    belonging.note_lost(self._w, self._custody, self._paced, conversation_id, self._account, actor="sweep")
                case "state-corrupt" | "site-changed":
                    self._fails(failure)  # that conversation's; the others are none the worse
                case _:
                    raise
        self._done.add(conversation_id)
        return True

    def _catch_up(self, conversation_id: str, listed_at: float | None) -> None:
        w, counts = self._w, self._found.counts
        # With a seat held, so without waiting: a live worker that holds it would wait for a seat in turn.
        with w.locks.fresh_conversation(conversation_id):
            # Nobody else moves these: their owners are dead.
            before = {op.operation_id: (op.state, op.turn) for op in w.ledger.view().unresolved() if _is_orphan(w, op)}
            _, added = reading.catch_up(w, self._custody, self._paced, conversation_id, self._account, actor="sweep", listed_at=listed_at)
            after = w.ledger.view().operations
            counts["reconciled"] += sum(1 for i, was in before.items() if i in after and (after[i].state, after[i].turn) != was)
            counts["hydrated"] += len(added)
