"""Recovery has only the ledger: which bin, once, and never the page (CR-01 .. CR-20). And a process killed before each of its writes."""

from __future__ import annotations

import copy
import errno
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.result import document
from gptbridge.core.transcript import Block
from gptbridge.edge.disk import Disk
from gptbridge.flow.reporting import outcome_of
from gptbridge.practice.world import Conversation
from tests.edge.crashing import Killer, Quick, Tap, child, status
from tests.flow.world import Ground, Machine, Worker

WHO = "user-0000"


def reach(worker: Worker, state: str, prompt: str = "Hello", *, account: str = WHO, to: str = "new") -> Operation:
    """A row in that state, as its witness writes it."""
    custody = worker.custody
    worker.admit(prompt, to=to)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("queued", lambda: custody.ready(worker.id, account)),
        ("claimed", lambda: custody.claim(worker.id, account, first=lambda view: True)),
        ("dispatched", lambda: custody.dispatch(worker.id)), ("held", lambda: custody.held(worker.id, f"message-{worker.id}", "parent")),
        ("released", lambda: custody.released(worker.id))]
    for name, step in steps:
        step()
        if name == state:
            break
    return worker.op


@pytest.mark.parametrize(("state", "bin_", "slug"), [
    ("queued", "rejected", "browser"), ("claimed", "uncertain", "uncertain"), ("dispatched", "uncertain", "uncertain"),
    ("held", "uncertain", "uncertain"), ("released", "uncertain", "uncertain")])
def test_the_bins(ground: Ground, worker: Worker, state: str, bin_: str, slug: str) -> None:
    """CR-01, CR-03 .. CR-06, CR-08, CR-09, SM-22, case 52."""
    before = reach(worker, state)
    other = ground.worker()
    assert other.custody.recover() == [] and other.view.operations[worker.id].state == before.state  # its owner lives (CR-20, case 51)
    worker.dies()
    [row] = other.custody.recover()
    assert (row.state, row.slug, row.dispatched_at is None) == (bin_, slug, state in ("queued", "claimed"))
    assert row.admissible == (state == "queued")
    lines = ground.ledger_lines()
    assert other.custody.recover() == [] and ground.ledger_lines() == lines
    assert other.browser.seats == [] and ground.sends == []
    history = other.world.ledger.history(worker.id)  # type: ignore[attr-defined]
    assert (history.history[-1]["actor"], history.history[-1]["to"]) == ("recovery", bin_)
    # No id but the queued one is ever clicked again.
    op = other.send(id=worker.id)
    assert (op.state == "completed" and op.attempt == 2) if state == "queued" else (op.state == bin_ and other.browser.seats == [])


def test_what_has_ended_and_what_was_accepted_is_left_alone(ground: Ground, worker: Worker) -> None:
    """CR-10, CR-11."""
    worker.send("one")
    ground.on("signed-out")
    worker.send("two")
    ground.off("signed-out")
    ground.on("failed-turn")
    worker.send("three")
    lines = ground.ledger_lines()
    worker.dies()
    other = ground.worker()
    assert other.custody.recover() == [] and ground.ledger_lines() == lines


def test_the_same_crash_point_ends_otherwise_for_its_witness(ground: Ground) -> None:
    """CR-07: claimed is rejected by the witness and uncertain by recovery; a caller without the claim can do nothing (SM-20, SM-21)."""
    from gptbridge.core.errors import Failure
    from gptbridge.flow.custody import Refused
    worker, other = ground.worker(), ground.worker()
    reach(worker, "claimed")
    with pytest.raises(Refused):
        other.custody.fail(worker.id, Failure("browser", "m"), nothing_left=True)
    assert worker.custody.fail(worker.id, Failure("browser", "m"), nothing_left=True).state == "rejected"
    for again in (lambda: worker.custody.fail(worker.id, Failure("browser", "m"), nothing_left=True),
                  lambda: worker.custody.stop(worker.id, "front", Failure("terminated", "m"))):
        with pytest.raises(Refused):
            again()


def test_claim_and_dispatch_give_nothing_in_the_wrong_state(ground: Ground, worker: Worker) -> None:
    """SM-04 .. SM-06, SM-12 .. SM-14."""
    from gptbridge.flow.custody import Receipt, Refused
    reach(worker, "queued")
    receipt = Receipt("68c1d2e3-0000-8000-8000-000000000001", f"message-{worker.id}", "turn")
    assert worker.custody.dispatch(worker.id) is None
    assert ground.worker().custody.claim(worker.id, WHO, first=lambda view: True) is None  # another epoch
    assert worker.custody.claim(worker.id, WHO, first=lambda view: False) is None
    assert worker.custody.claim(worker.id, WHO, first=lambda view: True) is not None
    assert worker.custody.claim(worker.id, WHO, first=lambda view: True) is None or worker.op.state == "claimed"
    with pytest.raises(Refused):
        worker.custody.accept(worker.id, receipt)
    assert worker.custody.dispatch(worker.id) is not None and worker.custody.dispatch(worker.id) is None
    worker.custody.held(worker.id, receipt.user_message_id, None)
    worker.custody.released(worker.id)
    worker.custody.accept(worker.id, receipt)
    lines = ground.ledger_lines()
    worker.custody.accept(worker.id, receipt)
    for other in (Receipt("68c1d2e3-0000-8000-8000-000000000002", receipt.user_message_id, "turn"),
                  Receipt(receipt.conversation_id, receipt.user_message_id, "another turn")):
        with pytest.raises(Refused):
            worker.custody.accept(worker.id, other)
    assert ground.ledger_lines() == lines


def test_every_command_recovers_before_it_waits(ground: Ground, worker: Worker) -> None:
    reach(worker, "claimed", "old words")
    worker.dies()
    other = ground.worker()
    assert other.send("new words").state == "completed" and other.view.operations[worker.id].state == "uncertain"


def test_a_claim_whose_owners_slot_has_a_later_owner_does_not_hold_the_account(ground: Ground, worker: Worker) -> None:
    """CR-20: the later owner (an import) never recovers; that it has the slot is proof enough."""
    reach(worker, "claimed", "old words")
    slot = worker.world.owner.epoch.partition(".")[0]
    worker.dies()
    importing, other = ground.worker(), ground.worker(queue_wait=100.0)
    assert importing.world.owner.epoch.partition(".")[0] == slot
    op = other.send("new words")
    assert (op.state, other.view.operations[worker.id].state) == ("completed", "uncertain")


class NoRelease(Quick):
    """The note that the request is gone does not get onto the disk, once."""

    failed = 0

    def write(self, fd: int, data: bytes) -> int:
        if b'"request":"released"' in data and not self.failed:
            self.failed = 1
            raise OSError(errno.EIO, "Input/output error")
        return super().write(fd, data)


def test_a_release_that_cannot_be_noted_is_noted_behind_a_reopened_ledger(ground: Ground) -> None:
    """The request is gone; without the note it would seem in flight, and hold the account, for as long as its answer takes."""
    disk = NoRelease()
    worker, seen = ground.worker(disk=disk), list[bool]()
    worker.front.says = lambda event: seen.append(worker.op.in_flight) if event["type"] == "meta" else None
    op = worker.send()
    assert (disk.failed, op.state, op.request, len(ground.sends)) == (1, "completed", "released", 1) and seen == [False]


# Killed before each of its writes


# Each write changes what the next process finds; between write and fsync of the message id, and between both and the next write, the
# page goes on. The other calls add no state of their own to a kill.
COUNTED = {"new": ("write", "fsync", "rename", "copy_range", "ftruncate", "unlink"), "resume": ("write", "rename")}


class Counter(Tap):
    def __init__(self) -> None:
        self.calls: list[str] = []
        super().__init__(lambda name, args: self.calls.append(name))


class WriteKiller(Killer):
    def __init__(self, n: int, counted: tuple[str, ...]) -> None:
        self.counted = counted
        super().__init__(n)

    def _count(self, name: str, args: tuple[Any, ...]) -> None:
        if name in self.counted:
            super()._count(name, args)


def life(ground: Ground, disk: Disk, id: str, to: str) -> None:
    worker = Worker(ground, disk=disk)
    worker.send("Hello there", id=id, to=to)


@pytest.mark.parametrize("kind", COUNTED)
def test_a_process_killed_before_each_of_its_writes(ground: Ground, kind: str) -> None:
    """CR-12, CR-14, TE-04, TE-13: old or new and never between; at most one request; the exact end state."""
    base = Ground(ground.path / "base", ground.site)
    base.path.mkdir()
    maker = base.worker()
    to = "new" if kind == "new" else maker.send("first words").conversation_id or ""
    maker.dies()
    counter = Counter()
    trial = Ground(ground.path / "trial", ground.site)
    shutil.copytree(base.path, trial.path)
    known = {i: copy.deepcopy(c.data) for i, c in ground.site.world.conversations.items()}
    counted = trial.worker(disk=counter)
    counted.send("Hello there", to=to)
    counted.dies()
    total = sum(1 for name in counter.calls if name in COUNTED[kind])
    ends = {_killed(ground, base, known, kind, n, to) for n in range(1, total + 1)}
    states = {(crashed, ended) for crashed, ended, _ in ends}
    assert states >= {("none", "completed"), ("queued", "completed"), ("claimed", "uncertain"), ("dispatched", "uncertain"),
                      ("accepted", "completed"), ("completed", "completed")}, states
    # What left is never lost: it ends completed, whatever the crash point.
    assert {ended for _, ended, sent in ends if sent} == {"completed"}, ends
    ground.site.world.reset()


def _killed(ground: Ground, base: Ground, known: dict[str, Any], kind: str, n: int, to: str) -> tuple[str, str, int]:
    """(state at the crash, state at the end, sends) for a kill before write `n`."""
    site = ground.site.world
    site.reset()
    ground.on("slow-answer", seconds=0.0)
    site.conversations = {ident: Conversation(copy.deepcopy(data), WHO) for ident, data in known.items()}
    place = Ground(ground.path / f"kill{n}", ground.site)
    shutil.copytree(base.path, place.path)
    operation_id = Machine(place.time, {}).ulid()
    ended = status(child(lambda: life(place, WriteKiller(n, COUNTED[kind]), operation_id, to)))
    assert ended in (0, -9), f"write {n}: ended with {ended}"
    settle(place)
    after = Worker(place)
    row = after.view.get(operation_id)
    crashed = row.state.value if row else "none"
    assert len(place.sends) <= 1
    first = after.send("Hello there", id=operation_id, to=to)  # the same command again
    assert after.browser.clicks == (1 if crashed in ("none", "queued") else 0), (n, crashed)
    if first.state != "completed":
        after.resume(operation=operation_id)
    settle(place)
    sent = sum(1 for one in place.sends if one["message_id"])  # a request whose body was cut off by the kill is no message
    assert sent <= 1, (n, crashed)
    row = after.view.operations[operation_id]
    if row.state == "completed":
        assert sent == 1 and row.conversation_id is not None
        if not whole_turns(after, row):  # killed between the record and the log: reading back brings it
            assert after.resume(operation=operation_id).slug == "ok"
        [turn] = whole_turns(after, row)
        assert turn.section("answer") == "You said:\n\n> Hello there" and turn.attr("op") == operation_id, n
        assert not after.log(row.conversation_id).problems, n
        registered = after.world.registry.get(row.conversation_id)
        assert registered is not None and registered.account == row.account, n
    else:
        assert row.state == "uncertain" and sent == 0, (n, row)
    assert after.send("the next words").state == "completed", n
    after.dies()
    return crashed, row.state.value, sent


def whole_turns(worker: Worker, row: Operation) -> list[Block]:
    log = worker.world.logs.read(row.conversation_id or "")
    return [b for b in (log.blocks if log else ()) if b.state == "completed" and (b.attr("user") or "").lower() in row.message_ids()]


def settle(place: Ground) -> None:
    """The server's answers are written: a killed client does not stop them."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        with place.site.world.lock:
            if all(c.turn is None or c.turn.done for c in place.site.world.conversations.values()):
                return
        time.sleep(0.002)
    raise AssertionError("an answer never ended")


def test_a_torn_log_and_a_torn_ledger_are_sealed_by_the_next_command(ground: Ground, worker: Worker) -> None:
    """CR-13, TL-05, case 44."""
    op = worker.send("one")
    worker.dies()
    name = f"{op.conversation_id}.log"
    with open(ground.path / "home" / "logs" / name, "ab") as file:
        file.write(b"\n## turn 2 \xc2\xb7 2026-11-29T13:00:05Z\n\n<!-- ask-gpt turn=2 -->\n\n### prompt\n\n> half a wo")
    other = ground.worker()
    assert other.send("two", to=op.conversation_id or "").state == "completed"
    assert [t.state for t in other.turns(op.conversation_id or "")] == ["completed", "interrupted", "completed"]
    assert ground.copy(op.conversation_id or "") == ground.canonical(op.conversation_id or "")
    assert os.path.exists(ground.path / "home" / "ledger.jsonl")


# What cannot be written after the release


@pytest.mark.parametrize(("fails", "for_good", "state", "code"), [
    (b'"state":"accepted"', False, "uncertain", 40), (b'"state":"accepted"', True, "uncertain", 40),
    (b'"request":"released"', True, "dispatched", 40), (b"<!-- ask-gpt turn=", True, "completed", 34)])
def test_unknown_comes_before_not_recorded(ground: Ground, fails: bytes, for_good: bool, state: str, code: int) -> None:
    """DU-04 and the order of outcomes: 34 says that it was sent; where the receipt cannot be written, nobody but that process knows it."""
    hits: list[int] = []

    def on(name: str, args: tuple[Any, ...]) -> None:
        if name == "write" and ((fails in args[1] and not hits) or (hits and for_good)):
            hits.append(1)
            raise OSError(errno.ENOSPC, "no room")

    worker = ground.worker(disk=Tap(on))
    try:
        worker.send("words")
    except Failure as failure:
        assert failure.slug in ("record-failed", "uncertain")
    deadline = time.monotonic() + 10.0
    while not ground.sends:  # released, and perhaps not yet there
        assert hits and time.monotonic() < deadline
        time.sleep(0.01)
    assert hits and len(ground.sends) == 1
    other = ground.worker()
    op = other.view.operations[worker.id]
    if code == 34:
        assert op.sent == "yes"
    else:
        assert op.sent == "unknown" and op.state in (state, "dispatched")
    worker.dies()
    said = document(outcome_of("send", op, other.world.ledger, other.world.logs, other.world.registry, slug="record-failed"))
    assert (said["exit_code"], said["sent"], said["retry"]) == (code, op.sent, "never")
    until = time.monotonic() + 10.0
    while other.resume(operation=worker.id).slug != "ok":
        assert time.monotonic() < until
    assert other.view.operations[worker.id].state == "completed" and len(ground.sends) == 1
