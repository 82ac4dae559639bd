"""Every state in which a power cut, a failed fsync, a short write or a kill before a power cut may leave one send; and that it is seen.

The quick set takes a third of the states of the plain mode and a seeded sample of the others; the soak takes all of them in all modes, and
prints how many there were. The eleven defects of the
durability study are seeded, one at a time, and each must be found; the product must be found without one.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import BrokenHistory, Operation
from gptbridge.core.lifecycle import State as S
from gptbridge.flow.custody import Refused
from tests.crash.harness_disk import State
from tests.crash.harness_judge import TEXT, Judge, Populated, Run, every_state, faults, record
from tests.crash.harness_mutants import MUTANTS, GapInLock
from tests.crash.harness_process import Parts, Process, Time
from tests.crash.harness_site import Site

MORE = int(os.environ.get("SOAK_EXAMPLES") or 0)
SEED = int(os.environ.get("SOAK_SEED") or 0)
SAMPLE = 16  # of the quick set: states of each mode and home beyond the plain one
HOMES = ("fresh", "populated")
whole = pytest.mark.timeout(120 if not MORE else 36_000)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where the machine has such a place: nothing here depends on a real disk."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    path = Path(tempfile.mkdtemp(prefix="gptbridge-crash-", dir=memory))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def home_of(kind: str, scratch: Path) -> Populated | None:
    return Populated(scratch) if kind == "populated" else None


def some(runs: Iterable[Run], chance: random.Random) -> Iterator[tuple[Run, Iterable[State]]]:
    """In the soak every state of each run. Else a few random ones, about `SAMPLE` in all; each at a moment of its own."""
    known = list(runs)
    for run in known:
        if MORE:
            yield run, every_state(run)
            continue
        each = max(1, round(SAMPLE / len(known)))
        moments = range(run.first, len(run.events) + 1)
        points = set(chance.sample(moments, min(each, len(moments))))
        found = list(every_state(run, points=points))
        yield run, chance.sample(found, min(each, len(found)))


@whole
@pytest.mark.soak
@pytest.mark.parametrize("kind", HOMES)
def test_every_state_of_one_send(scratch: Path, kind: str) -> None:
    """DU-01, plain mode: each prefix, with what was not synced lost, torn or zeroed, names too; the populated one is pruned in between."""
    run = record(scratch, populated=home_of(kind, scratch))
    assert isinstance(run.outcome, Operation) and run.outcome.state is S.COMPLETED and run.sends == 1
    judge = Judge(scratch)
    found = list(every_state(run))
    assert len(found) > 100
    if not MORE:
        found = found[SEED % 3::3]
    assert judge.violations(run, found) == []
    print(f"\n{kind}: {len(run.events)} events, {judge.judged} states")


def failed_well(run: Run) -> list[str]:
    """DU-04: what the live process makes of its own fault: 19 before the release, 34 after, never a click after a failed sync."""
    said = [event.said[0] if event.kind == "say" else event.kind for event in run.events]
    at = max(run.fault.hit_at, 0)
    name = f"{run.name} {run.fault.call}{run.fault.n}"
    found = []
    if any(what == "click" for what in said[at:]) and run.row is not None and run.row.error is not None:
        found.append(f"{name}: a click after the fault")
    slug = run.outcome.slug if isinstance(run.outcome, Failure | Operation) else str(run.outcome)
    released = "release" in said[:at]
    allowed = ("record-failed", "ok", "uncertain") if released else ("state-unwritable", "ok") if "held" not in said[:at] else (
        "state-unwritable", "record-failed", "ok")
    if slug not in allowed:
        found.append(f"{name}: ended as {slug}, released before: {released}")
    if slug == "ok" and run.sends != 1:
        found.append(f"{name}: ok, but {run.sends} messages")
    if slug == "state-unwritable" and run.sends:
        found.append(f"{name}: said not to be sent, but {run.sends} messages left")
    return found


@whole
@pytest.mark.soak
@pytest.mark.parametrize("kind", HOMES)
@pytest.mark.parametrize("mode", ["fsync", "write"])
def test_every_failed_fsync_and_every_short_write(scratch: Path, kind: str, mode: str) -> None:
    """DU-01, the other two modes: the process lives and says so itself; then the power is cut, now or later."""
    populated = home_of(kind, scratch)
    every = faults(record(scratch, populated=populated))[0 if mode == "fsync" else 1]
    runs = [record(scratch, populated=populated, fault=fault) for fault in every]
    assert [what for run in runs for what in failed_well(run)] == []
    judge = Judge(scratch)
    found = []
    for run, states in some(runs, random.Random(SEED)):
        found += judge.violations(run, states)
    assert found == [] and judge.judged > 10
    print(f"\n{kind}, {mode}: {len(runs)} faults, {judge.judged} states")


@whole
@pytest.mark.soak
@pytest.mark.parametrize("kind", HOMES)
def test_a_kill_and_later_a_power_cut(scratch: Path, kind: str) -> None:
    """Killed before any call, sent again by another process, and then everything that was never synced may go."""
    populated = home_of(kind, scratch)
    calls = record(scratch, populated=populated).calls
    chance = random.Random(SEED)
    points = range(1, calls + 1) if MORE else chance.sample(range(1, calls + 1), 16)
    judge = Judge(scratch)
    found = []
    runs = [record(scratch, populated=populated, kill_at=n, name=f"{kind} killed at {n}") for n in points]
    for run, states in some(runs, chance):
        found += judge.violations(run, states)
    assert found == []
    print(f"\n{kind}: {len(runs)} kills before one of {calls} calls, {judge.judged} states")


# The eleven defects: the harness must find each


def crossing(scratch: Path, parts: Parts) -> list[str]:
    """Another process takes its turn wherever this one let go of a lock between looking and writing."""
    found = []
    for moment in range(1, 12):
        path = scratch / f"crossing-{parts.name.split()[0]}-{moment}"
        path.mkdir()
        time = Time()
        site = Site(lambda time=time: time.wall)
        one, two = (Process(path, site, time, number, parts=parts, queue_wait=1.0) for number in (1, 2))
        operation_id = one.host.ulid()
        left = [moment]

        def between(one: Process = one, two: Process = two, left: list[int] = left, operation_id: str = operation_id) -> None:
            left[0] -= 1
            if left[0] == 0:
                two.send(TEXT, id=operation_id)

        GapInLock.between = staticmethod(between)
        try:
            one.send(TEXT, id=operation_id)
            one.view  # noqa: B018
        except (Failure, Refused, BrokenHistory) as broken:
            found.append(f"moment {moment}: {broken}")
        except Exception as broken:
            found.append(f"moment {moment}: {type(broken).__name__} {broken}")
        finally:
            GapInLock.between = staticmethod(lambda: None)
        if len(site.sends_of(TEXT)) > 1:
            found.append(f"moment {moment}: {len(site.sends_of(TEXT))} messages of one operation")
        one.dies()
        two.dies()
        if found:
            break
    return found


def hunt(scratch: Path, parts: Parts) -> list[str]:
    """The first violation that a defective product shows: crossing, plain, fsync fails, short writes; both homes, what is quick first."""
    if parts.ledger is GapInLock:
        return crossing(scratch, parts)
    homes = {kind: home_of(kind, scratch) for kind in HOMES}
    plain = {kind: record(scratch, populated=populated, parts=parts) for kind, populated in homes.items()}
    for run in plain.values():
        if found := Judge(scratch, parts, deep=False).violations(run, every_state(run), limit=1):
            return found
    for populated in homes.values():
        syncs, shorts = faults(record(scratch, populated=populated))
        ordered = zip_longest(syncs, (fault for fault in shorts if fault.keep == -1))  # in turn: each kind of defect shows early
        for fault in (fault for pair in ordered for fault in pair if fault is not None):
            try:
                run = record(scratch, populated=populated, fault=fault, parts=parts)
            except Exception as broken:  # the defect lets the product break down: that is seen, too
                return [f"{fault}: {type(broken).__name__}"]
            if found := Judge(scratch, parts, deep=False).violations(run, every_state(run, every=False), limit=1):
                return found
            if run.fault.hit_at >= 0 and (found := failed_well(run)):
                return found
    for run in plain.values():
        if found := Judge(scratch, parts).violations(run, every_state(run), limit=1):
            return found
    return []


@whole
@pytest.mark.soak
@pytest.mark.parametrize("defect", MUTANTS)
def test_each_seeded_defect_is_found(scratch: Path, defect: str) -> None:
    """DU-02."""
    assert hunt(scratch, MUTANTS[defect]), "the harness does not see it"


def test_without_the_gap_nothing_crosses(scratch: Path) -> None:
    """The same crossing with the product's own ledger: the other one is kept out of every lock, and one message leaves."""
    class Whole(GapInLock):
        def transact(self, decide):
            view = super(GapInLock, self).transact(decide)
            type(self).between()
            return view

    assert crossing(scratch, Parts("whole", ledger=Whole)) == []
