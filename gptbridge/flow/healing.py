"""What a sweep heals without the site: rows of dead owners, torn ends of logs, strange entries of the home, old operations.

What is of a newer version, or damaged, is left as it is, and said; what is not ours is moved aside, so that one strange entry keeps nothing
else from being healed; what a live worker owns is left alone (DU-11).

No clock is trusted: what counts as old by a clock that was set since can be wrong by any amount, so only the floor of pruned ids decides
what may run, "least recently" is the order of records, and a time that lies ahead of the clock is no age that could be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.operation import KEEP_S
from gptbridge.core.ports import World
from gptbridge.flow import logged, recording, spooling
from gptbridge.flow.custody import Custody

LOOK_S = 3600.0  # between two notes that an operation was looked for
BATCH = 128  # operations pruned in one hold of the ledger lock
COUNTS = ("uncertain", "recovered", "reconciled", "hydrated", "interrupted", "sealed", "quarantined", "pruned", "ok")
Heed = Callable[[], None]


@dataclass(slots=True)
class Swept:
    """`counts` and `rows` as `--json` gives them; `stale`: operations that need a person; `strange`: a sentence for each entry that is not
    ours and for each file of ours that is damaged; `failure`: the first no, the rest stands."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    rows: list[dict[str, Any]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    oldest_s: float = 0.0
    failure: Failure | None = None
    busy: str = ""  # why the site was not asked in this run, though nothing is wrong: work of ours has every place
    elsewhere: bool = False  # another sweep runs: nothing was done here

    @property
    def findings(self) -> bool:
        return bool(self.strange or self.stale)

    @property
    def something(self) -> bool:
        """Whether there is anything that a quiet sweep says."""
        return self.failure is not None or self.findings or any(count for name, count in self.counts.items() if name != "ok")

    def fails(self, failure: Failure) -> None:
        self.failure = self.failure or failure


@dataclass(slots=True)
class Healed:
    """What the offline part leaves to the rest. `registry`: it can be written, so conversations can be brought home. `lacking`: by log, the
    turns that stand there unfinished; `unusable`: logs that are damaged or of a newer version."""

    registry: bool = False
    lacking: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unusable: set[str] = field(default_factory=set)


def heal(w: World, custody: Custody, found: Swept, heed: Heed) -> Healed:
    """The offline part, in order."""
    healed = Healed()
    stuck = _tidy(w, found)  # first: one that stands at the name of a lock or a log would break off all that follows
    found.counts["sealed"] += w.ledger.seal()
    found.counts["recovered"] = len(custody.recover())
    _seal(w, found, healed, stuck, heed)
    _prune(w, found, heed)
    w.host.remove_stale_temps(w.clock.now().wall)
    _look_once(w, custody)
    healed.registry = _has_registry(w, found)
    return healed


def _tidy(w: World, found: Swept) -> set[str]:
    """Moves aside what is not ours; the places of those that could not be moved."""
    stuck: set[str] = set()
    for stray in w.strays.move_aside():
        if stray.now is None:
            stuck.add(stray.place)
            found.strange.append(f"{stray.place} is {stray.what}, was left where it is, and should be moved away: {stray.why}")
        else:
            found.counts["quarantined"] += 1
            found.strange.append(f"{stray.place} was {stray.what}; it lies in {stray.now} now, unchanged")
    return stuck


def _has_registry(w: World, found: Swept) -> bool:
    """Without it no conversation could be brought home; what needs no registry is done all the same."""
    try:
        w.registry.check()
        found.counts["sealed"] += w.registry.seal()
        return True
    except Failure as failure:
        found.fails(failure)
        return False


def _seal(w: World, found: Swept, healed: Healed, stuck: Container[str], heed: Heed) -> None:
    """Torn ends are healed; a log that is damaged elsewhere is said and left as it is."""
    for name in w.logs.names():
        heed()
        if f"logs/{name}.log" in stuck:
            continue
        try:
            if w.logs.is_torn(name):
                with ExitStack() as places:
                    if _is_free(w, places, name, heed) and w.logs.seal(name):
                        found.counts["sealed"] += 1
                        found.counts["interrupted"] += 1
                        w.logs.copy(name)
            log = w.logs.read(name)
            if log is None:
                continue
            if numbers := logged.lacking(log):
                healed.lacking[name] = numbers
            if (damage := log.damage) is not None:
                healed.unusable.add(name)
                found.strange.append(f"logs/{name}.log, {damage}; it was left as it is: restore it, or move it away and sweep again")
        except Failure as failure:
            if failure.slug != "busy":  # busy: its worker lives and writes it
                healed.unusable.add(name)
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
            if op is None or op.sent == "no" or logged.turn_of(w.logs.read(recording.log_name(op)), op) is not None:
                w.spool.drop(operation_id)
        found.counts["pruned"] += len(pruned)
        if len(pruned) < BATCH:
            break
    spooling.tidy(w)


def _look_once(w: World, custody: Custody) -> None:
    """An uncertain operation without a recorded id or a conversation: there is nothing to look for, and that is what a look can say."""
    for op in w.ledger.view().uncertain():
        if not op.message_ids() and op.kind != "resume" and op.looked_at is None:
            note_look(w, custody, op, "no message id is recorded: nothing to look for")


def note_look(w: World, custody: Custody, op: Operation, reason: str) -> None:
    """One record an hour is enough of what is not found: the ledger would grow with every sweep. By a clock that was set back the last look
    lies ahead, and is no age."""
    if op.looked_at is not None and 0.0 <= w.clock.now().wall - records.epoch_seconds(op.looked_at) < LOOK_S:
        return
    custody.note(op.operation_id, reason, actor="sweep", looked_at=records.rfc3339(w.clock.now().wall))
