"""The sweep: what heals by itself is healed, what needs a person is said. It never sends and never clicks.

Offline work comes first and is kept whatever the site says (healing.py). Then, with a browser, paced and bounded, each uncertain or
unfinished operation is looked for by its recorded id, and what a crash left out of log and registry is brought home. What a live worker
owns is left alone (DU-11).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import AHEAD_S
from gptbridge.core.ports import Page, PageFacts, World
from gptbridge.flow import reading, reconciling, recording
from gptbridge.flow.custody import Custody
from gptbridge.flow.healing import Heed, Swept, heal, note_look

READS = 20  # conversations read in one run
PAUSE_S = 1.0
STALE_S = 900.0


def sweep(w: World, custody: Custody, *, offline: bool, stale_after: float = STALE_S, heed: Heed = lambda: None) -> Swept:
    """Raises Failure where the ledger itself cannot be trusted, or the caller left; everything else is in what it gives."""
    found = Swept()
    with w.locks.sweep() as alone:
        if not alone:
            found.elsewhere = True
            return found
        complete = heal(w, custody, found, heed)
        open_ones = _unfinished(w) if complete and not offline else []
        if open_ones:
            tried: list[str] = []
            try:
                _online(w, custody, open_ones, tried, found, heed)
            except Failure as failure:
                if failure.slug in ("interrupted", "terminated"):
                    raise
                found.fails(failure)
            for op in _unfinished(w) if tried else []:
                if op.operation_id in tried:
                    note_look(w, custody, op, "looked for by its id")
        _report(w, found, stale_after)
    return found


# Online

def _unfinished(w: World) -> list[Operation]:
    """Without a live owner: uncertain or accepted with an id to look for; completed and not in log or registry. The least recently tried
    first, so that twenty that cannot be found do not starve the next for ever."""
    blocks: dict[str, Any] = {}

    def is_logged(op: Operation) -> bool:
        name = recording.log_name(op)
        if name not in blocks:
            blocks[name] = w.logs.read(name)
        block = recording.turn_of(blocks[name], op)
        return block is not None and (op.turn is not None or block.state not in recording.UNFINISHED)

    def is_open(op: Operation) -> bool:
        if op.state not in (State.UNCERTAIN, State.ACCEPTED, State.COMPLETED) or not op.message_ids():
            return False
        if op.ended and (op.conversation_id is None or (is_logged(op) and w.registry.get(op.conversation_id) is not None)):
            return False
        return op.epoch == w.owner.epoch or w.owner.is_dead(op.epoch)

    found = [op for op in list(w.ledger.view().operations.values()) if is_open(op)]
    # A look is the last record of what it did not find: the order of records, since the times of two looks may be of two clocks.
    return sorted(found, key=lambda op: (op.looked_at is not None, op.seq if op.looked_at else op.order))


class _Enough(Exception):
    """This run has read as many conversations as it may."""


class _Paced:
    """The page as the sweep reads it: each conversation once a run, with a pause between two, and no more than it may."""

    def __init__(self, w: World, page: Page, heed: Heed) -> None:
        self._w, self._page, self._heed = w, page, heed
        self._known: dict[str, dict[str, Any] | Failure] = {}
        self._listed: dict[int, dict[str, Any]] = {}
        self.searches = reconciling.READS
        self.searching = False

    def facts(self) -> PageFacts:
        return self._page.facts()

    def listing(self, offset: int, limit: int) -> dict[str, Any]:
        if offset not in self._listed:
            if self._listed and self._w.settings.gap.shortest:
                self._w.clock.sleep(PAUSE_S)
            self._listed[offset] = self._page.listing(offset, limit)
        return self._listed[offset]

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        if conversation_id not in self._known:
            if len(self._known) >= READS or (self.searching and self.searches <= 0):
                raise _Enough
            self.searches -= self.searching
            self._heed()
            if self._known and self._w.settings.gap.shortest:
                self._w.clock.sleep(PAUSE_S)
            try:
                self._known[conversation_id] = self._page.conversation(conversation_id)
            except Failure as failure:
                if failure.slug != "unknown-conversation":
                    raise
                self._known[conversation_id] = failure
        found = self._known[conversation_id]
        if isinstance(found, Failure):
            raise found
        return found


def _online(w: World, custody: Custody, ops: list[Operation], tried: list[str], found: Swept, heed: Heed) -> None:
    """`tried` gets the ids of those that were looked for to the end."""
    with ExitStack() as places:
        page, account = reading.reader(w, places, heed)
        paced = _Paced(w, page, heed)
        done: set[str] = set()
        for op in ops:
            heed()
            if op.account not in (None, account):
                continue  # another account's: this session cannot see it, and that proves nothing
            try:
                conversation_id = _locate(w, custody, paced, op, heed)
                if conversation_id is not None and conversation_id not in done:
                    done.add(conversation_id)
                    _bring_home(w, custody, paced, conversation_id, account, found)
            except _Enough:
                continue  # another one may lie in a conversation that was read already
            except Failure as failure:
                if failure.slug == "busy":
                    continue  # nothing of a live worker's is touched (DU-11)
                if failure.slug not in ("state-corrupt", "unknown-conversation"):
                    raise
                if failure.slug == "state-corrupt":
                    found.fails(failure)  # that conversation's; the others are none the worse
            tried.append(op.operation_id)


def _locate(w: World, custody: Custody, paced: _Paced, op: Operation, heed: Heed) -> str | None:
    """The conversation that holds it: the known one, or the one among the newest in which its message is seen."""
    if op.conversation_id is not None or op.kind == "resume":
        return op.conversation_id or op.target
    paced.searching = True
    try:
        sighting = reconciling.find(w, paced, op, pause_s=0.0, heed=heed)
    finally:
        paced.searching = False
    return sighting.conversation_id if sighting else None


def _bring_home(w: World, custody: Custody, paced: _Paced, conversation_id: str, account: str, found: Swept) -> None:
    # With a seat held, so without waiting: a live worker that holds it would wait for a seat in turn.
    with w.locks.fresh_conversation(conversation_id):
        before = {op.operation_id: (op.state, op.turn) for op in w.ledger.view().operations.values()}
        _, added = reading.catch_up(w, custody, paced, conversation_id, account, actor="sweep")
        after = w.ledger.view().operations
        found.counts["reconciled"] += sum(1 for i, was in before.items() if i in after and (after[i].state, after[i].turn) != was)
        found.counts["hydrated"] += len(added)


# What is said

def _report(w: World, found: Swept, stale_after: float) -> None:
    now = w.clock.now().wall
    for op in w.ledger.view().operations.values():
        if op.state is State.UNCERTAIN:
            passed = now - records.epoch_seconds(op.uncertain_at)
            age = max(passed, 0.0)
            found.counts["uncertain"] += 1
            found.oldest_s = max(found.oldest_s, age)
            if age > stale_after or passed < -AHEAD_S:  # by a clock that was set back since, it would never grow old
                found.stale.append(op.operation_id)
            known = "its message id is recorded" if op.message_ids() else "the process ended before its message id was known"
            found.rows.append({"operation_id": op.operation_id, "state": op.state.value, "sent": op.sent, "age_s": round(age, 3),
                               "conversation_id": op.conversation_id or (op.target if op.kind == "resume" else None),
                               "user_message_id": op.user_message_id, "known": known,
                               "next": [["ask-gpt", "ops", "show", op.operation_id]]})
        elif op.ended:
            found.counts["ok"] += 1


def summary(found: Swept) -> str:
    """`sweep: 2 uncertain (oldest 3d), 1 hydrated, 0 interrupted, 14 ok`."""
    counts = found.counts
    oldest = f" (oldest {age_text(found.oldest_s)})" if counts["uncertain"] else ""
    more = "".join(f", {counts[name]} {name}" for name in ("recovered", "reconciled", "pruned", "quarantined") if counts[name])
    return (f"sweep: {counts['uncertain']} uncertain{oldest}, {counts['hydrated']} hydrated, {counts['interrupted']} interrupted, "
            f"{counts['ok']} ok{more}")


def age_text(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
