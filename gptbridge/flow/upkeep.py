"""The sweep: what heals by itself is healed, what needs a person is said. It never sends and never clicks.

Offline work comes first and is kept whatever the site says: rows of dead owners, torn ends of logs, old operations and files. Then, with a
browser, paced and bounded, each uncertain or unfinished operation is looked for by its recorded id, and what a crash left out of log and
registry is brought home. What a live worker owns is left alone (DU-11); what is of a newer version is left as it is, and said.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import KEEP_S
from gptbridge.core.ports import Page, PageFacts, World
from gptbridge.flow import reading, reconciling, recording
from gptbridge.flow.custody import Custody

BATCH = 128  # operations pruned in one hold of the ledger lock
READS = 20  # conversations read in one run
PAUSE_S = 1.0
STALE_S = 900.0
COUNTS = ("uncertain", "recovered", "reconciled", "hydrated", "interrupted", "sealed", "quarantined", "pruned", "ok")
Heed = Callable[[], None]


@dataclass(slots=True)
class Swept:
    """`counts` and `rows` as `--json` gives them; `stale`: operations that need a person; `failure`: the first no, the rest stands."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    rows: list[dict[str, Any]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    oldest_s: float = 0.0
    failure: Failure | None = None
    elsewhere: bool = False  # another sweep runs: nothing was done here

    @property
    def findings(self) -> bool:
        return self.counts["quarantined"] > 0 or bool(self.stale)

    @property
    def something(self) -> bool:
        """Whether there is anything that a quiet sweep says."""
        return self.failure is not None or any(count for name, count in self.counts.items() if name != "ok")

    def fails(self, failure: Failure) -> None:
        self.failure = self.failure or failure


def sweep(w: World, custody: Custody, *, offline: bool, stale_after: float = STALE_S, heed: Heed = lambda: None) -> Swept:
    """Raises Failure where ledger or registry themselves cannot be trusted, or the caller left; everything else is in what it gives."""
    found = Swept()
    with w.locks.sweep() as alone:
        if not alone:
            found.elsewhere = True
            return found
        w.registry.check()
        found.counts["recovered"] = len(custody.recover())
        _seal(w, found, heed)
        _prune(w, found, heed)
        w.host.remove_stale_temps(w.clock.now().wall)
        _look_once(w, custody)
        open_ones = [] if offline else _unfinished(w)
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
                    _note_look(w, custody, op, "looked for by its id")
        _report(w, found, stale_after)
    return found


# Offline

def _seal(w: World, found: Swept, heed: Heed) -> None:
    for name in w.logs.names():
        heed()
        try:
            if not w.logs.is_torn(name):
                continue
            with ExitStack() as places:
                if not _is_free(w, places, name, heed):
                    continue
                if w.logs.seal(name):
                    found.counts["sealed"] += 1
                    found.counts["interrupted"] += 1
        except Failure as failure:
            if failure.slug != "busy":  # busy: its worker lives and writes it
                found.fails(failure)


def _is_free(w: World, places: ExitStack, name: str, heed: Heed) -> bool:
    """Nobody writes this log while `places` is open: its conversation's lock, or the slot of the operation whose own log it is."""
    op = w.ledger.view().get(name.removeprefix("failed-"))
    if op is not None:
        return places.enter_context(w.owner.hold_dead(op.epoch))
    places.enter_context(w.locks.conversation(name, wait_s=0.0, heed=heed))
    return True


def _prune(w: World, found: Swept, heed: Heed) -> None:
    """Each batch is one hold of the lock, never within anything else (RE-14)."""
    ended_before = w.clock.now().wall - KEEP_S
    while True:
        heed()
        known = dict(w.ledger.view().operations)
        pruned = w.ledger.prune(ended_before, BATCH)
        for operation_id in pruned:
            op = known.get(operation_id)
            # The text goes when its turn is in a log; of what never left there is nothing to wait for.
            if op is None or op.sent == "no" or recording.turn_of(w.logs.read(recording.log_name(op)), op) is not None:
                w.spool.drop(operation_id)
        found.counts["pruned"] += len(pruned)
        if len(pruned) < BATCH:
            return


def _look_once(w: World, custody: Custody) -> None:
    """An uncertain operation without a recorded id: there is nothing to look for, and that is what a look can say."""
    for op in w.ledger.view().uncertain():
        if not op.message_ids() and not _looked_at(op):
            _note_look(w, custody, op, "no message id is recorded: nothing to look for")


def _looked_at(op: Operation) -> bool:
    return op.looked_at is not None and op.looked_at >= (op.uncertain_at or "")


def _note_look(w: World, custody: Custody, op: Operation, reason: str) -> None:
    custody.note(op.operation_id, reason, actor="sweep", looked_at=records.rfc3339(w.clock.now().wall))


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
    return sorted(found, key=lambda op: (op.looked_at or "", op.order))


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
            age = max(now - records.epoch_seconds(op.uncertain_at), 0.0)
            found.counts["uncertain"] += 1
            found.oldest_s = max(found.oldest_s, age)
            if age > stale_after:
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
    more = "".join(f", {counts[name]} {name}" for name in ("recovered", "reconciled", "pruned") if counts[name])
    return (f"sweep: {counts['uncertain']} uncertain{oldest}, {counts['hydrated']} hydrated, {counts['interrupted']} interrupted, "
            f"{counts['ok']} ok{more}")


def age_text(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
