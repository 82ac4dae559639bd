"""Processes that stand still, and many at once that are killed at random: real forks, real locks, a practice server as witness."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import transcript
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import epoch_seconds
from gptbridge.core.lifecycle import State as S
from gptbridge.core.pacing import TURN_S
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal
from gptbridge.shell.wiring import HostClock
from tests.crash.harness_process import Process, Time
from tests.crash.harness_site import Site
from tests.crash.harness_strace import Practice
from tests.crash.test_faults_recorder import MORE, SEED, scratch
from tests.edge.crashing import Quick, Tap, child
from tests.fakes import FakeBrowser, silent

__all__ = ["scratch"]


@pytest.fixture(scope="module")
def site() -> Iterator[Practice]:
    with Practice() as made:
        yield made


class Shifted(Host):
    """The real machine, whose clocks a test moves on for all its processes together: as after a long stop."""

    def __init__(self, env: dict[str, str]) -> None:
        super().__init__(env)
        self.shared = mmap.mmap(-1, 8)

    @property
    def shift(self) -> float:
        return float(struct.unpack("d", self.shared[:])[0])

    @shift.setter
    def shift(self, seconds: float) -> None:
        self.shared[:] = struct.pack("d", seconds)

    def boottime(self) -> float:
        return super().boottime() + self.shift

    def wall(self) -> float:
        return super().wall() + self.shift


class Quickly(Shifted):
    """Whose sleeping moves the clocks on instead."""

    def sleep(self, seconds: float) -> None:
        self.shift += seconds


def process_of(path: Path, site: Practice, host: Host | None = None, *, disk: Any = None, tell: Any = silent, **settings: Any) -> Process:
    host = host or Host({"ASKGPT_HOME": str(path / "home")})
    return Process(path, Site(lambda: 0.0), Time(), 0, host=host, site_url=site.url, disk=disk or Quick(),
                   browser=FakeBrowser(site.url, HostClock(host), tell=tell), **settings)


@contextmanager
def stopped(work: Callable[[], object]) -> Iterator[int]:
    """A child that stops itself somewhere in `work`; inside it stands still. It must end by itself once it was woken, or is killed."""
    pid = child(work)
    try:
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), "it ended before it came to stand still"
        yield pid
    finally:
        for number in (signal.SIGKILL, signal.SIGCONT):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass


def wake(pid: int) -> int:
    os.kill(pid, signal.SIGCONT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def stop_here() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class StopsAt(Tap):
    """Stands still before the first call for which `when` says so."""

    def __init__(self, when: Callable[[str, tuple[Any, ...]], bool]) -> None:
        self.done = False

        def on(name: str, args: tuple[Any, ...]) -> None:
            if not self.done and when(name, args):
                self.done = True
                stop_here()

        super().__init__(on)


def after_the_stamp() -> Callable[[str, tuple[Any, ...]], bool]:
    seen: list[bool] = []

    def when(name: str, args: tuple[Any, ...]) -> bool:
        if name == "rename" and args[1] == "dispatch.stamp":
            seen.append(True)
        return name == "fsync_dir" and bool(seen)

    return when


@pytest.mark.parametrize("where", ["between commit and click", "request held"])
def test_stopped_for_ten_minutes_on_the_way_out(scratch: Path, site: Practice, where: str) -> None:
    """DU-07: no click after a commit that is 10 minutes old, no release of a request that was held so long; nobody else settles it."""
    host = Shifted({"ASKGPT_HOME": str(scratch / "home")})
    operation_id, text = host.ulid(), f"stopped {where}"
    clicks = mmap.mmap(-1, 1)

    def work() -> None:
        def tell(what: str) -> None:
            if what == "click":
                clicks[:] = b"1"
            if what == "held" and where == "request held":
                stop_here()

        disk = StopsAt(after_the_stamp()) if where != "request held" else None
        process_of(scratch, site, host, disk=disk, tell=tell).send(text, id=operation_id)

    with stopped(work) as pid:
        other = process_of(scratch, site, host, queue_wait=0.4)
        assert other.recover() == [] and other.view.operations[operation_id].state is S.DISPATCHED, "its owner lives"
        if where == "request held":
            assert other.send("of another process meanwhile").slug == "busy", "the account is in flight"
        host.shift = 600.0
        assert wake(pid) == 0
    op = other.view.operations[operation_id]
    assert (op.state, op.slug, op.sent, op.retry) == (S.REJECTED, "browser", "no", "never")
    assert site.sends(text) == [] and (clicks[:] == b"1") == (where == "request held")
    assert process_of(scratch, site, host).send("and then").state is S.COMPLETED
    other.dies()


@pytest.mark.parametrize("end", ["goes on", "is killed"])
@pytest.mark.parametrize("lock", ["ledger", "dispatch"])
def test_the_holder_of_a_lock_stands_still(scratch: Path, site: Practice, lock: str, end: str) -> None:
    """XP-15: a bounded wait, then an error that names lock and holder; killed, it is free at once (XP-06)."""
    Process(scratch, Site(lambda: 0.0), Time(), 0, host=Host({"ASKGPT_HOME": str(scratch / "home")}), site_url=site.url).dies()
    host = Quickly({"ASKGPT_HOME": str(scratch / "home")})
    operation_id, text = host.ulid(), f"holds {lock} and {end}"

    def in_ledger(name: str, args: tuple[Any, ...]) -> bool:
        return name == "write" and b'"state":"queued"' in args[1]

    def work() -> None:
        disk = StopsAt(in_ledger if lock == "ledger" else after_the_stamp())
        process_of(scratch, site, disk=disk).send(text, id=operation_id)

    with stopped(work) as pid:
        other = process_of(scratch, site, host)
        if lock == "ledger":
            with pytest.raises(Failure) as caught:
                other.send("kept out")
            assert caught.value.slug == "busy" and f"the {lock} lock" in caught.value.message and str(pid) in caught.value.message
        else:
            before = host.shift
            row = other.send("kept out")
            assert row.slug == "busy" and 20.0 <= host.shift - before <= 120.0, "within its --queue-wait"
        assert site.sends("kept out") == []
        if end == "goes on":
            assert wake(pid) == 0
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    other.recover()
    op = other.view.get(operation_id)
    if end == "goes on":
        assert op is not None and op.state is S.COMPLETED and len(site.sends(text)) == 1
    else:
        assert op is None or op.state is (S.REJECTED if lock == "ledger" else S.UNCERTAIN)
        assert site.sends(text) == []
    began = time.monotonic()
    assert process_of(scratch, site).send("afterwards").state is S.COMPLETED and time.monotonic() - began < 20
    other.dies()


# Many at once


@dataclass(slots=True)
class Task:
    operation_id: str
    text: str
    tries: int = 0
    kill_at: float | None = None
    ends: list[int] = field(default_factory=list)


def campaign(path: Path, site: Practice, *, operations: int, processes: int, chance: random.Random, within: float) -> list[Task]:
    """All operations to their end, at most `processes` at once; each run may be killed at a random moment and is then begun again."""
    host = Host({"ASKGPT_HOME": str(path / "home")})
    Process(path, Site(lambda: 0.0), Time(), 0, host=host, site_url=site.url).dies()  # the home, before they race for it
    tasks = [Task(host.ulid(), f"operation {number} of {path.name}") for number in range(operations)]
    waiting, running = list(tasks), dict[int, Task]()
    deadline = time.monotonic() + within

    def run(task: Task) -> Callable[[], None]:
        def work() -> None:
            try:
                process_of(path, site, seats=8, queue_wait=60.0).send(task.text, id=task.operation_id)
            except Failure as failure:
                os._exit(failure.exit.code)

        return work

    try:
        while waiting or running:
            assert time.monotonic() < deadline, f"{len(waiting)} waiting, {[task.text for task in running.values()]} running"
            while waiting and len(running) < processes:
                task = waiting.pop(0)
                task.tries += 1
                task.kill_at = time.monotonic() + chance.uniform(0.0, 0.6) if task.tries <= 2 and chance.random() < 0.6 else None
                running[child(run(task))] = task
            for pid, task in list(running.items()):
                if task.kill_at is not None and time.monotonic() >= task.kill_at:
                    os.kill(pid, signal.SIGKILL)
                    task.kill_at = None
                done, raw = os.waitpid(pid, os.WNOHANG)
                if done:
                    del running[pid]
                    task.ends.append(os.waitstatus_to_exitcode(raw))
                    if task.ends[-1] != 0:
                        assert task.tries < 8, f"{task.text} ends as {task.ends}"
                        waiting.append(task)
            time.sleep(0.002)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return tasks


def overtakings(process: Process) -> list[str]:
    """Claims of an operation while one that was admitted before it was ready, and had been so for less than the time after which it is
    passed over."""
    assert process.home.locks is not None
    journal = Journal(process.home.disk, process.home.fd, "ledger.jsonl", process.home.locks.lock("ledger"))
    order: dict[str, int] = {}
    ready: dict[str, float] = {}
    found = []
    for record in journal.read().records:
        fields = record.fields
        operation_id = fields.get("operation_id")
        if operation_id is None:
            continue
        if fields["state"] == "queued":
            if "attempt" in fields:
                order[operation_id] = record.seq
            if "ready_at" in fields:
                ready[operation_id] = epoch_seconds(fields["ready_at"])
            continue
        ready.pop(operation_id, None)
        if fields["state"] == "claimed" and fields["reason"] == "turn of the line":
            at = epoch_seconds(fields["at"])
            found += [f"{operation_id} before {earlier}" for earlier, since in ready.items()
                      if order[earlier] < order[operation_id] and at - since < TURN_S - 1.0]
    return found


@pytest.mark.soak
@pytest.mark.timeout(300 if not MORE else 36_000)
def test_many_processes_and_random_kills(scratch: Path, site: Practice) -> None:
    """XP-01 to XP-08: no message twice, no turn lost, and of those that are ready the first admitted goes first."""
    operations = 200 if MORE else 16
    chance = random.Random(SEED)
    tasks = campaign(scratch, site, operations=operations, processes=8, chance=chance, within=90.0 if not MORE else 3000.0)
    assert not MORE or any(-signal.SIGKILL in task.ends for task in tasks)
    process = process_of(scratch, site)
    for _ in range(10):  # each run reads a few conversations, those first that were looked for least recently
        process.sweep()
        if not [op for op in process.view.uncertain() if op.message_ids()]:
            break
    view = process.view
    ids: Counter[str] = Counter()
    for task in tasks:
        op, sends = view.operations[task.operation_id], site.sends(task.text)
        ids.update(send["message_id"] for send in sends)
        assert len(sends) <= 1, (task, sends)
        known = bool(sends) and sends[0]["message_id"].lower() in op.message_ids()
        if known:
            assert op.state is S.COMPLETED and op.conversation_id == sends[0]["conversation_id"], op
            log = process.world.logs.read(op.conversation_id)
            assert log is not None
            # One that was killed while it wrote its turn leaves the beginning of it, which the whole one names and replaces.
            told = [b for b in transcript.turns(log) if b.attr("op") == op.operation_id]
            assert len(told) == 1, [(b.state, b.attrs) for b in log.blocks]
            [turn] = told
            assert turn.state == "completed" and turn.section("prompt") == task.text
            assert process.world.registry.get(op.conversation_id) is not None
        else:
            assert op.state in (S.UNCERTAIN, S.REJECTED) and -signal.SIGKILL in task.ends, (op, task)
            assert not sends or op.state is S.UNCERTAIN
    assert all(count == 1 for count in ids.values())
    assert overtakings(process) == []
    assert process.send("a last one").state is S.COMPLETED
    process.dies()
