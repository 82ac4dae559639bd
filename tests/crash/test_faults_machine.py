"""Random histories on one home: several processes, crashes at any durable call, stops, clock steps; what must hold holds after each step.

TE-06 with TE-13: at most one message for each operation, receipts unique, one operation of the account in flight, states only as the tables
allow, and at the end of each history every operation in the bin that its last record and the site's own count demand.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State as S
from gptbridge.core.operation import NEW, Payload
from gptbridge.flow import deciding
from tests.crash.harness_judge import Killed
from tests.crash.harness_process import Process, Time
from tests.crash.harness_site import Site
from tests.edge.crashing import Tap

TEXTS, OTHER = ("one", "two", "three"), "quite other words"


class Crashing(Tap):
    """Raises `Killed` before call number `at` (0: never) and at each one after it."""

    def __init__(self, at: int, killed: Any) -> None:
        self.left, self.killed, self.dead = at, killed, False
        super().__init__(self._count)

    def _count(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "open" and not args[1] & os.O_CREAT:
            return
        if self.dead:
            raise Killed
        self.left -= 1
        if self.left == 0:
            if name == "write":
                os.write(args[0], args[1][:len(args[1]) // 2])
            self.dead = True
            self.killed()
            raise Killed


class Histories(RuleBasedStateMachine):
    operations: Bundle[tuple[str, str]] = Bundle("operations")
    queued: Bundle[tuple[Process, str]] = Bundle("queued")

    @initialize()
    def home(self) -> None:
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.path = Path(tempfile.mkdtemp(prefix="gptbridge-machine-", dir=memory))
        self.time = Time()
        self.site = Site(lambda: self.time.wall)
        self.number = 0
        self.known: dict[str, str] = {}  # operation id -> text
        self.target: dict[str, str] = {}
        self.alive: dict[str, Process] = {}  # of queued ones
        self.last: dict[str, S] = {}
        self.stopped: set[str] = set()
        self.let_go = False
        self.count = 0

    def process(self, kill_at: int = 0, let_go: bool = False) -> Process:
        self.number += 1
        made: list[Process] = []

        def killed() -> None:
            for process in made:
                if let_go:
                    process.browser.let_go()
                else:
                    for seat in process.browser.seats:
                        seat.gate.held = None

        made.append(Process(self.path, self.site, self.time, self.number, disk=Crashing(0, killed), queue_wait=5.0))
        made[0].disk.left = kill_at  # type: ignore[attr-defined]
        return made[0]

    def carry(self, process: Process, operation_id: str, text: str, target: str) -> Operation | None:
        """A whole command, or as much of it as its process lived for."""
        clicks = len(self.site.clicks)
        kill_at, process.disk.left = process.disk.left, 0  # type: ignore[attr-defined]
        process.recover()  # what a dead owner left queued may be admitted again
        before = process.view.get(operation_id)
        process.disk.left = kill_at  # type: ignore[attr-defined]
        try:
            op = process.send(text, id=operation_id, to=target)
            assert op.state in (S.COMPLETED, S.REJECTED, S.STOPPED, S.UNCERTAIN, S.ACCEPTED), op
            if before is not None and not before.admissible:
                assert len(self.site.clicks) == clicks, "it was clicked for again"
            return op
        except Killed:
            return None
        except Failure as failure:
            if process.disk.dead:  # type: ignore[attr-defined]
                return None
            assert failure.slug in ("conflict", "busy", "usage", "expired"), failure  # the last two: the clock was set
            assert len(self.site.clicks) == clicks
            return None
        finally:
            process.dies()

    @rule(target=operations, text=st.sampled_from(TEXTS), kill_at=st.integers(0, 75), let_go=st.booleans(), resume=st.booleans())
    def submit(self, text: str, kill_at: int, let_go: bool, resume: bool) -> Any:
        """A new operation; its text may be that of another one."""
        process = self.process(kill_at, let_go)
        operation_id = process.host.ulid()
        conversations = sorted(self.site.documents)
        registered = [c for c in conversations if process.world.registry.get(c) is not None]
        target = registered[-1] if resume and registered else NEW
        text = f"{text} {target[:4]}"
        equal = self.unseen(process, text)
        op = self.carry(process, operation_id, text, target)
        if equal and op is None and operation_id not in self.fresh().operations:
            return multiple()
        self.known[operation_id], self.target[operation_id] = text, target
        return operation_id, text

    def unseen(self, process: Process, text: str) -> list[str]:
        """Operations of that text whose end nobody has seen."""
        return [op.operation_id for op in process.view.operations.values()
                if op.sent != "no" and op.shown_at is None and self.known.get(op.operation_id) == text]

    @rule(operation=operations, kill_at=st.one_of(st.just(0), st.integers(1, 75)), let_go=st.booleans())
    def again(self, operation: tuple[str, str], kill_at: int, let_go: bool) -> None:
        operation_id, text = operation
        self.carry(self.process(kill_at, let_go), operation_id, text, self.target[operation_id])

    @rule(operation=operations)
    def other_text(self, operation: tuple[str, str]) -> None:
        """AD-06: another request under the same id changes nothing."""
        operation_id, _ = operation
        process = self.process()
        before = process.view.get(operation_id)
        if before is not None and self.known[operation_id] == OTHER:
            return process.dies()
        equal = self.unseen(process, OTHER)
        try:
            op = process.send(OTHER, id=operation_id, to=self.target[operation_id])
            assert before is None, op
            self.known[operation_id] = OTHER
        except Failure as failure:
            allowed = ("usage", "expired", *(["conflict"] if equal else ())) if before is None else ("conflict",)
            assert failure.slug in allowed, failure
        finally:
            process.dies()

    @rule(target=queued, text=st.sampled_from(TEXTS))
    def admit(self, text: str) -> Any:
        """A process that has admitted and goes no further for now."""
        process = self.process()
        operation_id = process.host.ulid()
        process.custody.recover()
        process.custody.admit(operation_id, Payload(text, NEW), account=None, folder=None, again=True)
        self.known[operation_id], self.target[operation_id] = text, NEW
        self.alive[operation_id] = process
        return process, operation_id

    @rule(one=consumes(queued), end=st.sampled_from(["dies", "claimed", "dispatched", "ready"]))
    def waiter_dies(self, one: tuple[Process, str], end: str) -> None:
        process, operation_id = one
        op = process.view.operations[operation_id]
        if end != "dies" and op.state is S.QUEUED and op.stop_at is None:
            process.custody.ready(operation_id, "user-0000")
            if end in ("claimed", "dispatched") and process.custody.claim(operation_id, "user-0000", first=lambda view: True):
                assert process.custody.claim(operation_id, "user-0000", first=lambda view: True) is None
                if end == "dispatched":
                    assert process.custody.dispatch(operation_id) is not None
                    assert process.custody.dispatch(operation_id) is None, "SM-06"
        del self.alive[operation_id]
        process.dies()

    @rule(operation=operations)
    def stop(self, operation: tuple[str, str]) -> None:
        process = self.process()
        if operation[0] in process.view.operations:
            clicks = len(self.site.clicks)
            said, op = deciding.stop(process.world, process.custody, operation[0])
            assert said in ("stopped", "stop-pressed", "stop-unconfirmed", "not-running") and len(self.site.clicks) == clicks
            assert said != "stopped" or op.sent == "no"
        process.dies()

    @rule(one=queued)
    def stop_waiting(self, one: tuple[Process, str]) -> None:
        """Recorded for a live one that does not move: said to be unconfirmed, and it can never be claimed."""
        process, operation_id = one
        if process.view.operations[operation_id].ended:
            return
        other = self.process()
        said, _ = deciding.stop(other.world, other.custody, operation_id)
        assert said == "stop-unconfirmed"
        assert process.custody.claim(operation_id, "user-0000", first=lambda view: True) is None
        other.dies()

    @rule(kill_at=st.integers(0, 12))
    def recover(self, kill_at: int) -> None:
        process = self.process(kill_at)
        try:
            process.recover()
            assert process.recover() == [], "twice is once"
        except Killed:
            pass
        finally:
            process.dies()

    @rule(kill_at=st.integers(0, 40))
    def sweep(self, kill_at: int) -> None:
        process = self.process(kill_at)
        clicks = len(self.site.clicks)
        try:
            process.sweep()
        except Killed:
            pass
        finally:
            process.dies()
        assert len(self.site.clicks) == clicks

    @rule(seconds=st.sampled_from([1.0, 60.0, 3_700.0, -600.0, 40_000.0]), reboot=st.booleans())
    def clock(self, seconds: float, reboot: bool) -> None:
        self.time.wall += seconds
        if seconds > 0:
            self.time.boottime += seconds
        if reboot and not self.alive:
            self.time.reboot()

    def fresh(self) -> Any:
        process = self.process()
        view = process.view
        process.dies()
        return view

    @invariant()
    def what_must_hold(self) -> None:
        if not hasattr(self, "path"):
            return
        process = self.process()
        view = process.view  # the fold checks tables, epochs and receipts of the whole history
        flying = [op for op in view.operations.values() if op.in_flight and op.operation_id in self.alive]
        assert len(flying) <= 1
        receipts = [(op.conversation_id, op.user_message_id) for op in view.operations.values() if op.sent == "yes" and op.user_message_id]
        assert len(receipts) == len(set(receipts))
        ids = [sent.message_id for sent in self.site.taken]
        assert len(ids) == len(set(ids))
        for operation_id, op in view.operations.items():
            mine = [sent for sent in self.site.taken if sent.message_id.lower() in op.message_ids()]
            assert len(mine) <= 1
            assert op.sent != "no" or not mine, op
            assert op.sent != "yes" or len(mine) == 1, op
            before = self.last.get(operation_id)
            if before in (S.COMPLETED, S.UNCERTAIN):
                assert op.state is before or (before is S.UNCERTAIN and op.state in (S.ACCEPTED, S.COMPLETED)), (before, op.state)
            self.last[operation_id] = op.state
        by_text: dict[str, int] = {}
        for op in view.operations.values():
            by_text[self.known.get(op.operation_id, "")] = by_text.get(self.known.get(op.operation_id, ""), 0) + 1
        for text in set(self.known.values()):
            assert len(self.site.sends_of(text)) <= by_text.get(text, 0), "more messages than operations"
        process.dies()

    def teardown(self) -> None:
        """The end of every history: nobody lives any more; recovery, sweep, and each operation is where it belongs."""
        if not hasattr(self, "path"):
            return
        try:
            for process in self.alive.values():
                process.dies()
            process = self.process()
            before = dict(process.view.operations)
            process.recover()
            for operation_id, op in before.items():
                expected = {S.QUEUED: S.REJECTED, S.CLAIMED: S.UNCERTAIN, S.DISPATCHED: S.UNCERTAIN}.get(op.state, op.state)
                assert process.view.operations[operation_id].state is expected
            for _ in range(6):
                self.time.sleep(2.0)
                process.sweep()
            for op in process.view.operations.values():
                mine = [sent for sent in self.site.taken if sent.message_id.lower() in op.message_ids()]
                if mine:
                    assert op.state is S.COMPLETED, op
                    turns = [b for b in process.turns(op.conversation_id or "") if (b.attr("user") or "").lower() in op.message_ids()]
                    assert [b.state for b in turns].count("completed") == 1, [(b.state, b.attrs) for b in turns]
                    assert {b.state for b in turns} <= {"completed", "interrupted"}
                else:
                    assert op.state in (S.REJECTED, S.STOPPED, S.UNCERTAIN), op
            process.dies()
            last = self.process()
            assert last.send("the last words").state is S.COMPLETED
            last.dies()
        finally:
            shutil.rmtree(self.path, ignore_errors=True)


EXAMPLES = int(os.environ.get("SOAK_EXAMPLES") or 0) or 24
Histories.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=14, deadline=None,
                                       suppress_health_check=list(HealthCheck), print_blob=True)
TestHistories = pytest.mark.soak(pytest.mark.timeout(120 if EXAMPLES <= 24 else 36_000)(Histories.TestCase))
