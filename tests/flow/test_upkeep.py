"""The sweep and the retention: each wreck ends as the table says, twice changes nothing, what lives or is newer is left alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import LOOKS
from gptbridge.core.operation import KEEP_S
from gptbridge.core.pacing import Gap
from gptbridge.core.record import encode
from gptbridge.edge import ledger_file
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.flow.custody import Receipt
from gptbridge.flow.hydrating import READS, SPARED
from gptbridge.flow.upkeep import Swept, summary, sweep
from gptbridge.practice.world import FIRST, Conversation
from tests.edge.crashing import Quick, child, status
from tests.flow.test_answering import abandoned
from tests.flow.test_deciding import Killed, killed_at, slug
from tests.flow.test_recovery import reach
from tests.flow.world import Ground, Worker

DAY = 86400.0


def swept(worker: Worker, *, offline: bool = False, stale_after: float = 900.0, heed: Callable[[], None] = lambda: None) -> Swept:
    return sweep(worker.world, worker.custody, offline=offline, stale_after=stale_after, heed=heed)


def counted(found: Swept) -> dict[str, int]:
    return {name: count for name, count in found.counts.items() if count}


def everything(ground: Ground) -> dict[str, bytes]:
    home = ground.path / "home"
    return {str(p.relative_to(home)): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file() and "locks" not in p.parts}


def arrived(ground: Ground) -> None:
    """The newest send is at the site, and answered to the end: nothing of it changes any more."""
    until = time.monotonic() + 10.0
    talks = ground.site.world.conversations
    while not (ground.sends and ground.sends[-1]["answered"] and all(t.turn is None or t.turn.done for t in list(talks.values()))):
        assert time.monotonic() < until
        time.sleep(0.01)


# Retention

def ended(worker: Worker, count: int) -> list[str]:
    """That many operations that never left."""
    ids = []
    for number in range(count):
        worker.admit(f"text {number}")
        worker.custody.fail(worker.id, Failure("busy", "a test"), nothing_left=True)
        worker.ground.time.sleep(0.001)
        ids.append(worker.id)
    return ids


def test_seven_days_after_its_end_and_not_before(ground: Ground, worker: Worker) -> None:
    """RE-01 .. RE-03."""
    done = worker.send("done").operation_id
    open_ = ground.worker()
    reach(open_, "held")
    open_.dies()
    ground.time.sleep(KEEP_S - 60.0)
    assert swept(worker, offline=True).counts["pruned"] == 0 and done in worker.view.operations
    ground.time.sleep(120.0)
    found = swept(worker, offline=True)
    assert found.counts["pruned"] == 1 and list(worker.view.operations) == [open_.id]
    assert slug(worker.send, "done", id=done) == "expired" and len(ground.sends) == 1
    ground.time.sleep(400 * DAY)
    assert swept(worker, offline=True).counts["uncertain"] == 1


def test_at_most_128_in_one_hold(ground: Ground, worker: Worker) -> None:
    """RE-04."""
    ids = ended(worker, 300)
    ground.time.sleep(KEEP_S + 1.0)
    holds = [worker.world.ledger.prune(ground.time.wall - KEEP_S, 128) for _ in range(4)]
    assert [len(hold) for hold in holds] == [128, 128, 44, 0] and [i for hold in holds for i in hold] == ids  # oldest first
    assert worker.view.operations == {}
    assert all(slug(worker.admit, "x", id=ids[at]) == "expired" for at in (0, 150, 299))


def test_the_texts_go_with_their_operations(ground: Ground, worker: Worker) -> None:
    """RE-12: not before, and not one whose turn stands in no log."""
    done = worker.send("done").operation_id
    unlogged = worker.send("unlogged")
    (ground.path / "home" / "logs" / f"{unlogged.conversation_id}.log").unlink()
    never = ended(worker, 1)[0]
    assert all(worker.world.spool.prompt(i) is not None for i in (done, unlogged.operation_id, never))
    ground.time.sleep(KEEP_S + 1.0)
    assert swept(worker, offline=True).counts["pruned"] == 3
    kept = [worker.world.spool.prompt(i) for i in (done, unlogged.operation_id, never)]
    assert kept == [None, b"unlogged", None]
    assert (ground.path / "home" / "logs").is_dir() and worker.turns(next(iter(worker.world.logs.names())))  # RE-13


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_what_is_kept_counts_from_the_end_of_the_turn(ground: Ground, worker: Worker, end: str) -> None:
    """RE-01, RE-02: neither from its dispatch nor from what was noted since."""
    reach(worker, "released", account=WHO)
    worker.custody.accept(worker.id, Receipt("68c1d2e3-0000-8000-8000-000000000001", f"message-{worker.id}", "turn"))
    ground.time.sleep(10 * DAY)
    worker.custody.complete(worker.id) if end == "completed" else worker.custody.end_turn(worker.id, "failed", "a test")
    assert swept(worker, offline=True).counts["pruned"] == 0
    ground.time.sleep(KEEP_S - 60.0)
    worker.custody.note(worker.id, "its answer was shown", shown_at="2026-11-29T13:00:00.000Z")
    assert swept(worker, offline=True).counts["pruned"] == 0
    ground.time.sleep(61.0)
    assert swept(worker, offline=True).counts["pruned"] == 1


def test_an_id_that_lay_ahead_never_runs_again(ground: Ground, worker: Worker) -> None:
    """RE-05, RE-06."""
    ground.time.wall += 299.0
    ahead = worker.machine.ulid()
    ground.time.wall -= 299.0
    other = worker.send("behind").operation_id
    assert worker.send("ahead", id=ahead).state == "completed"
    for later in (KEEP_S + 1.0, 200.0, 200.0, 30 * DAY):
        ground.time.sleep(later)
        swept(worker, offline=True)
        assert slug(worker.send, "ahead", id=ahead) == "expired" and slug(worker.send, "behind", id=other) == "expired"
    assert worker.send("fresh").state == "completed" and len(ground.sends) == 3


def test_a_clock_that_steps_back_lets_no_pruned_id_run(ground: Ground, worker: Worker) -> None:
    """RE-07."""
    old = worker.send("old").operation_id
    ground.time.sleep(KEEP_S + 1.0)
    assert swept(worker, offline=True).counts["pruned"] == 1
    for step in (-1 * DAY, -7 * DAY, -3650 * DAY):
        ground.time.wall += step
        assert slug(worker.send, "old", id=old) in ("expired", "usage")  # usage: it lies ahead of such a clock
        ground.time.wall -= step
    assert len(ground.sends) == 1


def test_a_clock_that_was_ten_years_ahead(ground: Ground, worker: Worker) -> None:
    """RE-07: only a pruning at that time makes ids of now expire, and only those up to the newest pruned one."""
    young = worker.send("young").operation_id
    ground.time.wall += 3650 * DAY
    assert slug(worker.send, "other", id="01M8M000000000000000000001") == "expired"
    ground.time.wall -= 3650 * DAY
    assert worker.send("fresh").state == "completed"
    ground.time.wall += 3650 * DAY
    assert swept(worker, offline=True).counts["pruned"] == 2
    ground.time.wall -= 3650 * DAY
    assert slug(worker.send, "young", id=young) == "expired"
    ground.time.sleep(60.0)
    assert worker.send("newer than all that was pruned").state == "completed" and len(ground.sends) == 3


def test_a_clock_that_steps_back_refuses_no_fresh_id(ground: Ground, worker: Worker) -> None:
    worker.send("one")
    ground.time.wall -= 8 * DAY
    assert worker.send("two").state == "completed"
    ground.time.wall += 8 * DAY
    assert worker.send("three").state == "completed"


def test_a_sweep_prunes_in_holds_of_128(ground: Ground, worker: Worker) -> None:
    """RE-04, RE-14."""
    ended(worker, 300)
    ground.time.sleep(KEEP_S + 1.0)
    ledger, holds = worker.world.ledger, list[int]()
    prune = ledger.prune

    def told(ended_before: float, limit: int) -> Any:
        gone = prune(ended_before, limit)
        holds.append(len(gone))
        return gone

    ledger.prune = told  # type: ignore[method-assign]
    assert swept(worker, offline=True).counts["pruned"] == 300 and holds == [128, 128, 44]
    before = everything(ground)
    assert swept(worker, offline=True).counts["pruned"] == 0 and holds[3:] == [0] and everything(ground) == before


STEPS = [-10 * 365.25 * DAY, -8 * DAY, -3600.0, 3600.0, 8 * DAY, 10 * 365.25 * DAY]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", ["claimed", "held"])
def test_a_second_sweep_changes_nothing_whatever_the_clock_does(ground: Ground, worker: Worker, state: str, step: float) -> None:
    """What was looked for is known by its record, not by its time."""
    wreck(worker, state)
    ground.time.wall += step
    desk = ground.worker()
    swept(desk)
    assert desk.view.operations[worker.id].looked_at is not None
    for later in (0.0, -step, step, -step):
        ground.time.wall += later
        before = everything(ground)
        found = swept(desk, offline=state == "held")
        assert everything(ground) == before and found.counts["recovered"] == found.counts["pruned"] == 0
        assert found.counts["uncertain"] == 1 and found.rows[0]["age_s"] >= 0.0
    assert ground.sends == []


def test_stale_by_a_clock_that_was_set(ground: Ground, worker: Worker) -> None:
    """--stale-after counts by the wall clock; a time that lies ahead of it is never waited for."""
    wreck(worker, "claimed")
    desk = ground.worker()
    assert not swept(desk, offline=True).findings
    ground.time.wall += 901.0
    assert swept(desk, offline=True).stale == [worker.id] and swept(desk, offline=True).oldest_s > 900.0
    assert not swept(desk, offline=True, stale_after=DAY).findings
    ground.time.wall -= 901.0
    assert not swept(desk, offline=True).findings
    ground.time.wall -= 200.0  # a clock that was put right
    assert not swept(desk, offline=True).findings
    for step in (-8 * DAY, -10 * 365.25 * DAY, 10 * 365.25 * DAY):
        ground.time.wall += step
        assert swept(desk, offline=True).findings
        ground.time.wall -= step


def test_what_became_uncertain_ten_years_ahead(ground: Ground, worker: Worker) -> None:
    ground.time.wall += 3650 * DAY
    wreck(worker, "claimed")
    desk = ground.worker()
    swept(desk, offline=True)
    ground.time.wall -= 3650 * DAY
    found = swept(desk, offline=True, stale_after=30 * DAY)
    assert found.findings and found.rows[0]["age_s"] == 0.0
    assert slug(desk.send, "Hello") == "conflict"  # equal to one that is uncertain: a person's word is needed
    assert desk.send("Hello", again=True).state == "completed"


def test_who_was_tried_last_is_no_matter_of_clocks(ground: Ground, worker: Worker) -> None:
    """Fifteen that were looked for ten years ahead are as recent as any: the other ten come next, and then they."""
    for number in range(25):
        reach(worker, "released", account=WHO, to=f"68c1d2e3-0000-8000-8000-{number:012x}")
    ids = list(worker.view.operations)
    worker.dies()
    desk = ground.worker()
    ground.time.wall += 3650 * DAY
    swept(desk)
    ground.time.wall -= 3650 * DAY

    def tried() -> list[str]:
        known = {i: op.seq for i, op in desk.view.operations.items()}
        swept(desk)
        return [i for i, op in desk.view.operations.items() if op.seq != known[i]]

    assert tried() == ids[:5] + ids[15:] and set(ids[5:15]) <= set(tried())


def test_pruning_loses_nothing_that_another_process_appends(ground: Ground, worker: Worker) -> None:
    ended(worker, 150)
    ground.time.sleep(KEEP_S + 1.0)

    def ledger() -> LedgerFile:
        host = Host(worker.machine.env)  # real clocks: the two wait for each other
        return LedgerFile(open_home(host.env, host=host, disk=Quick()), host, site=ground.url)

    def append() -> None:
        mine, host = ledger(), Host(worker.machine.env)
        for _ in range(100):
            row = {"operation_id": host.ulid(), "state": "queued", "epoch": "0.aa", "actor": "worker", "reason": "admitted", "attempt": 1}
            mine.transact(lambda view, row=row: [row])  # type: ignore[misc]

    mine = ledger()
    pid = child(append)
    left = 150
    while left:
        left -= len(mine.prune(ground.time.wall - KEEP_S, 3))
    assert status(pid) == 0
    assert len(mine.view().operations) == len(ledger().view().operations) == 100 and not mine.is_damaged()


# Wrecks

WHO = f"{FIRST.user_id}/{FIRST.account_id}"


def wreck(worker: Worker, state: str) -> None:
    reach(worker, state, account=WHO)
    worker.dies()


@pytest.mark.parametrize(("state", "after"), [("queued", "rejected"), ("claimed", "uncertain"), ("dispatched", "uncertain"),
                                              ("held", "uncertain"), ("released", "uncertain")])
def test_a_wreck_that_left_nothing_at_the_site(ground: Ground, worker: Worker, state: str, after: str) -> None:
    wreck(worker, state)
    desk = ground.worker()
    found = swept(desk)
    assert desk.view.operations[worker.id].state == after and found.counts["recovered"] == 1 and found.failure is None
    assert (found.counts["uncertain"], len(found.rows), found.findings) == ((1, 1, False) if after == "uncertain" else (0, 0, False))
    assert (desk.browser.seats != []) == (state in ("held", "released"))  # only where there is an id to look for
    if after == "uncertain":
        assert desk.view.operations[worker.id].looked_at is not None and found.rows[0]["sent"] == "unknown"
        ground.time.sleep(1000.0)
        assert swept(desk, offline=True).findings and not swept(desk, offline=True, stale_after=DAY).findings
    assert ground.sends == []


@pytest.mark.parametrize("target", ["new", "known"])
def test_a_wreck_whose_message_arrived_is_brought_home_without_a_person(ground: Ground, worker: Worker, target: str) -> None:
    first = ground.worker().send("first words")

    def end() -> None:
        raise Killed

    worker.on["released"] = end
    with pytest.raises(Killed):
        worker.send("second words", to="new" if target == "new" else first.conversation_id or "")
    worker.dies()
    arrived(ground)
    desk = ground.worker()
    found = swept(desk)
    op = desk.view.operations[worker.id]
    assert (op.state, op.sent, found.failure) == ("completed", "yes", None)
    assert counted(found) == {"recovered": 1, "reconciled": 1, "hydrated": 1, "ok": 2}
    [turn] = [t for t in desk.turns(op.conversation_id or "") if t.attr("op") == worker.id]
    assert "second words" in (turn.section("answer") or "") and desk.world.registry.get(op.conversation_id or "") is not None
    before, reads = everything(ground), ground.site.world.reads
    assert counted(swept(desk)) == {"ok": 2} and everything(ground) == before and ground.site.world.reads == reads + 1  # the list
    assert len(ground.sends) == 2 and desk.browser.seats[-1].closed


@pytest.mark.parametrize("lost", ["log", "registry", "both", "torn"])
def test_a_completed_one_that_a_crash_left_out_of_log_or_registry(ground: Ground, worker: Worker, lost: str) -> None:
    op = worker.send("first words")
    log = ground.path / "home" / "logs" / f"{op.conversation_id}.log"
    if lost in ("log", "both"):
        log.unlink()
    if lost in ("registry", "both"):
        (ground.path / "home" / "conversations.jsonl").unlink()
    if lost == "torn":
        log.write_bytes(log.read_bytes()[:-200])
    worker.dies()
    desk = ground.worker()
    found = swept(desk)
    assert found.failure is None and desk.world.registry.get(op.conversation_id or "") is not None
    assert found.counts["hydrated"] == (lost != "registry") and found.counts["sealed"] == (lost == "torn")
    assert any(t.state == "completed" and t.section("answer") for t in desk.turns(op.conversation_id or ""))
    before = everything(ground)
    assert counted(swept(desk)) == {"ok": 1} and everything(ground) == before


def test_an_accepted_one_whose_worker_died(ground: Ground, worker: Worker) -> None:
    ground.on("slow-answer", seconds=0.3)

    def end(event: Any) -> None:
        if event["type"] == "meta":
            raise Killed

    worker.front.says = end
    with pytest.raises(Killed):
        worker.send("words")
    worker.dies()
    desk = ground.worker()
    assert desk.view.operations[worker.id].state == "accepted"
    until = time.monotonic() + 10.0
    while desk.view.operations[worker.id].state != "completed":
        assert time.monotonic() < until and swept(desk).failure is None
    assert swept(desk).something is False and len(ground.sends) == 1


def test_offline_opens_no_browser(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    arrived(ground)
    desk = ground.worker()
    found = swept(desk, offline=True)
    assert counted(found) == {"recovered": 1, "uncertain": 1} and desk.browser.seats == []
    assert summary(found) == "sweep: 1 uncertain (oldest 0s), 0 hydrated, 0 interrupted, 0 ok, 1 recovered"
    assert desk.view.operations[worker.id].looked_at is None  # nobody has looked at the site


def test_an_equal_request_is_held_until_a_sweep_has_looked(ground: Ground, worker: Worker) -> None:
    """Design 4: however long ago it turned uncertain."""
    wreck(worker, "claimed")
    desk = ground.worker()
    desk.custody.recover()
    ground.time.sleep(2 * DAY)
    assert slug(desk.send, "Hello") == "conflict" and desk.browser.seats == []
    swept(desk)
    assert desk.send("Hello").state == "completed"


def test_another_account_cannot_say_that_a_conversation_is_lost(ground: Ground, worker: Worker) -> None:
    """CR-16: the account is asked once more, behind the answer that it is not there."""
    op = abandoned(ground, worker)
    ground.time.sleep(3600.0)
    desk = ground.worker()
    desk.browser.prepare = lambda seat: answers_as_another(ground, seat)
    assert slug(desk.resume, op.conversation_id) == "unknown-conversation" and desk.view.operations[op.operation_id].turn is None
    ground.off("other-account")
    desk.browser.prepare = lambda seat: None
    assert slug(desk.resume, op.conversation_id) == "unknown-conversation" and desk.view.operations[op.operation_id].turn == "lost"


def answers_as_another(ground: Ground, seat: Any) -> None:
    """The page changes its account just before it is asked for a conversation."""
    fetch = seat.page.conversation

    def fetched(conversation_id: str) -> Any:
        ground.on("other-account")
        return fetch(conversation_id)

    seat.page.conversation = fetched


@pytest.mark.parametrize(("scenario", "no"), [("signed-out", "needs-human"), ("throttled", "rate-limited"), ("challenge", "needs-human")])
def test_a_site_that_refuses_keeps_the_offline_work(ground: Ground, worker: Worker, scenario: str, no: str) -> None:
    """Case 35."""
    killed_at(worker, "released")
    arrived(ground)
    ground.on(scenario)
    desk = ground.worker()
    found = swept(desk)
    assert found.failure is not None and found.failure.slug == no and found.counts["recovered"] == 1 and len(found.rows) == 1
    op = desk.view.operations[worker.id]
    assert (op.state, op.looked_at) == ("uncertain", None)
    ground.off(scenario)
    assert swept(desk).failure is None and desk.view.operations[worker.id].state == "completed"


def test_another_accounts_operations_are_left_alone(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    arrived(ground)
    ground.on("other-account")
    desk = ground.worker()
    swept(desk)
    lines = ground.ledger_lines()
    found = swept(desk)
    assert found.failure is None and ground.ledger_lines() == lines
    assert (desk.view.operations[worker.id].state, desk.view.operations[worker.id].looked_at) == ("uncertain", None)
    ground.off("other-account")
    assert swept(desk).failure is None and desk.view.operations[worker.id].state == "completed"


def test_the_least_recently_tried_come_first_and_a_run_is_bounded(ground: Ground, worker: Worker) -> None:
    for number in range(25):
        reach(worker, "released", account=WHO, to=f"68c1d2e3-0000-8000-8000-{number:012x}")
    worker.dies()
    desk = ground.worker()
    reads = ground.site.world.reads
    assert swept(desk).counts["uncertain"] == 25
    tried = [op.operation_id for op in desk.view.operations.values() if op.looked_at is not None]
    assert tried == list(desk.view.operations)[:READS - SPARED] and ground.site.world.reads - reads <= READS
    ground.time.sleep(1.0)
    swept(desk)
    assert all(op.looked_at is not None for op in desk.view.operations.values())


def test_sweeps_that_find_nothing_do_not_fill_the_ledger(ground: Ground, worker: Worker) -> None:
    """An unresolved one is never pruned: an hourly look for a year must not bring the ledger to its limit."""
    wreck(worker, "released")
    desk = ground.worker()
    swept(desk)
    lines = ground.ledger_lines()
    for minutes in (15, 15, 15):
        ground.time.sleep(minutes * 60.0)
        swept(desk)
    assert ground.ledger_lines() == lines
    before = desk.view.operations[worker.id]
    for _ in range(LOOKS + 6):
        ground.time.sleep(3600.0)
        reads = ground.site.world.reads
        swept(desk)
        assert ground.site.world.reads > reads  # it is looked for all the same
        assert len(ground.ledger_lines()) < len(lines) + LOOKS
    op, fresh = desk.view.operations[worker.id], ground.worker().view.operations[worker.id]
    assert op.looked_at == fresh.looked_at == op.updated_at and op.looked_at != before.looked_at
    assert (op.state, op.order < op.seq, op.dispatched_at, op.uncertain_at, op.user_message_id) == (
        "uncertain", True, before.dispatched_at, before.uncertain_at, before.user_message_id)
    assert not desk.world.ledger.is_damaged()  # type: ignore[attr-defined]


def test_a_ledger_over_its_limit_takes_no_new_work_until_a_sweep_has_pruned_it(ground: Ground, worker: Worker,
                                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """XP-24: nothing is dropped, and what is under way goes on. (Of 64 MB it would take a quarter of a minute.)"""
    assert ledger_file.LIMIT_BYTES == 64 * 2**20
    monkeypatch.setattr(ledger_file, "LIMIT_BYTES", 2**16)
    done = worker.send("old words").operation_id
    open_ = ground.worker()
    reach(open_, "queued", "open words")
    while (ground.path / "home" / "ledger.jsonl").stat().st_size <= 2**16:
        worker.custody.note(done, "x" * 2**12)
    lines = len(ground.ledger_lines())
    with pytest.raises(Failure) as caught:
        worker.send("new words")
    assert (caught.value.slug, "64 MB" in caught.value.message, "ask-gpt sweep" in caught.value.hint) == ("state-unwritable", True, True)
    assert len(ground.ledger_lines()) == lines and worker.view.get(worker.id) is None and worker.world.spool.prompt(worker.id) is None
    assert swept(worker, offline=True).counts["pruned"] == 0 and slug(worker.send, "new words") == "state-unwritable"
    open_.custody.claim(open_.id, WHO, first=lambda view: True)
    assert open_.op.state == "claimed"
    ground.time.sleep(KEEP_S + 1.0)
    assert swept(worker, offline=True).counts["pruned"] == 1 and open_.op.state == "claimed"
    open_.custody.fail(open_.id, Failure("browser", "m"), nothing_left=True)
    assert worker.send("new words").state == "completed"


def test_a_conversation_that_cannot_be_understood_hides_no_other(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    arrived(ground)
    at = ground.site.world.sends[-1].at
    for number in range(3):
        ident = f"68c1d2e3-0000-8000-8000-00000000000{number}"
        odd = {"conversation_id": ident, "title": "odd", "create_time": at, "update_time": at + 60.0, "mapping": {}}
        ground.site.world.conversations[ident] = Conversation(odd, FIRST.user_id)
    desk = ground.worker()
    assert swept(desk).failure is None and desk.view.operations[worker.id].state == "completed"


def test_reading_is_paced(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    arrived(ground)
    desk = ground.worker(gap=Gap(60.0))
    begun = ground.time.boottime
    assert swept(desk).failure is None and desk.view.operations[worker.id].state == "completed" and ground.time.boottime - begun < 5.0


# What lives

@pytest.mark.parametrize("stage", ["seat", "arm", "paste", "click", "held", "release"])
def test_a_sweep_beside_a_live_send_changes_nothing_of_it(ground: Ground, worker: Worker, stage: str) -> None:
    """DU-11, case 53."""
    desk = ground.worker()
    found: list[Swept] = []
    seen: list[bool] = []

    def run() -> None:
        worker.on.pop(stage, None)
        lines = ground.ledger_lines()
        found.append(swept(desk))
        seen.append(ground.ledger_lines() == lines)

    worker.on[stage] = run
    op = worker.send("words")
    assert (op.state, len(ground.sends), len(worker.turns(op.conversation_id or ""))) == ("completed", 1, 1)
    assert seen == [True] and counted(found[0]) == {} and desk.browser.seats == []


def test_a_sweep_while_an_answer_comes(ground: Ground, worker: Worker) -> None:
    desk = ground.worker()
    wreck = ground.worker()
    killed_at(wreck, "released")
    arrived(ground)
    ground.on("slow-answer", seconds=0.5)
    found: list[Swept] = []
    worker.front.says = lambda event: found.append(swept(desk)) if event["type"] == "meta" else None
    op = worker.send("words")
    assert op.state == "completed" and len(worker.turns(op.conversation_id or "")) == 1 and worker.browser.buried == []
    assert desk.view.operations[wreck.id].state == "completed" and found[0].failure is None and len(ground.sends) == 2


def test_one_sweep_at_a_time(ground: Ground, worker: Worker) -> None:
    with ground.worker().world.locks.sweep() as alone:
        assert alone
        found = swept(worker)
        assert found.elsewhere and not found.something and not found.findings
    assert not swept(worker).elsewhere


def test_whoever_leaves_stops_the_sweep_and_keeps_its_work(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    arrived(ground)
    desk = ground.worker()

    def heed() -> None:
        if desk.browser.seats:
            raise Failure("interrupted", "stopped")

    assert slug(swept, desk, heed=heed) == "interrupted"
    assert desk.view.operations[worker.id].state == "uncertain"
    assert all(seat.closed for seat in desk.browser.seats) and not swept(desk).elsewhere


# What is strange, and what is damaged

def strange_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.sample(8)
@pytest.mark.parametrize("place", ["logs/x.log", "logs/failed-x.log", "spool/{op}.prompt", "reports/x", "locks/conversation-x",
                                   "locks/owner-0", "locks/ledger", "locks/registry", "logs/{talk}.log"])
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_one_strange_entry_keeps_nothing_else_from_being_healed(ground: Ground, place: str, kind: str) -> None:
    home = ground.path / "home"
    first = ground.worker()
    talk = first.send("first words").conversation_id or ""
    wreck = ground.worker()
    killed_at(wreck, "released")
    first.dies()
    arrived(ground)
    path = home / place.format(op=wreck.id, talk=talk)
    path.unlink(missing_ok=True)
    strange_link(path) if kind == "link" else path.mkdir()
    desk = ground.worker()
    found = swept(desk)
    assert found.failure is None and found.findings and found.counts["quarantined"] == 1 == len(found.strange)
    assert desk.view.operations[wreck.id].state == "completed" and found.counts["recovered"] == found.counts["reconciled"] == 1
    [moved] = (home / "quarantine").iterdir()
    assert moved.is_symlink() == (kind == "link") and moved.name in found.strange[0]
    before = everything(ground)
    again = swept(desk)
    assert again.counts["quarantined"] == 0 and not again.findings and everything(ground) == before
    assert desk.turns(talk) and ground.worker().send("and on").state == "completed"


@pytest.mark.parametrize("where", ["digest", "nul", "gone", "header"])
def test_a_damaged_log_is_said_and_left_as_it_is(ground: Ground, worker: Worker, where: str) -> None:
    """TL: a digest that does not agree. Said each time, since nobody but a person can mend it."""
    talk = worker.send("first words").conversation_id or ""
    worker.send("second words", to=talk)
    path = ground.path / "home" / "logs" / f"{talk}.log"
    whole = path.read_bytes()
    bad = {"digest": whole.replace(b"> first words", b"> other words"), "nul": whole[:600] + bytes(200) + whole[800:],
           "gone": whole[:500] + whole[900:], "header": b"rubbish\n" + whole[20:]}[where]
    path.write_bytes(bad)
    wreck = ground.worker()
    killed_at(wreck, "released")
    arrived(ground)
    for _ in range(2):
        found = swept(ground.worker())
        assert found.findings and found.failure is None and f"logs/{talk}.log, line " in found.strange[0]
        assert path.read_bytes() == bad and found.counts["quarantined"] == 0
    assert worker.view.operations[wreck.id].state == "completed"
    path.write_bytes(whole)
    assert not swept(worker).findings


def test_a_damaged_registry_stops_only_what_needs_it(ground: Ground, worker: Worker) -> None:
    """RG-18: said with its line; rows of dead owners, torn logs and old operations are dealt with all the same."""
    worker.send("words")
    wreck = ground.worker()
    killed_at(wreck, "released")
    arrived(ground)
    registry = ground.path / "home" / "conversations.jsonl"
    registry.write_bytes(registry.read_bytes() + b"garbage\n")
    found = swept(worker)
    assert found.failure is not None and found.failure.slug == "state-corrupt" and "conversations.jsonl, line 4" in found.failure.message
    assert found.counts["recovered"] == 1 and len(worker.browser.seats) == 1


# What is newer

def newer_ledger(home: Path) -> Path:
    (home / "ledger.jsonl").write_bytes(encode(1, {"format": "ask-gpt-ledger", "version": 2, "site": "x"}) + encode(2, {"new": True}))
    return home / "ledger.jsonl"


def newer_registry(home: Path) -> Path:
    path = home / "conversations.jsonl"
    path.write_bytes(encode(1, {"format": "ask-gpt-registry", "version": 2}) + encode(2, {"new": True}))
    return path


def newer_log(home: Path) -> Path:
    [path] = (home / "logs").glob("6*.log")
    path.write_bytes(path.read_bytes().replace(b"ask-gpt-log/1", b"ask-gpt-log/2")[:-100])
    return path


@pytest.mark.parametrize("make", [newer_ledger, newer_registry, newer_log])
def test_what_is_of_a_newer_version_is_left_byte_for_byte(ground: Ground, worker: Worker, make: Callable[[Path], Path]) -> None:
    worker.send("words")
    worker.dies()
    path = make(ground.path / "home")
    before = path.read_bytes()
    desk = ground.worker()
    try:
        found = swept(desk)
        assert found.failure is not None and found.failure.slug == "state-corrupt" and "newer" in found.failure.message
    except Failure as failure:
        assert failure.slug == "state-corrupt" and "newer" in failure.message and make is not newer_log
    assert path.read_bytes() == before
    if make is newer_ledger:
        ledger: Any = desk.world.ledger
        assert slug(ledger.accept_loss, "x") == "state-corrupt" and path.read_bytes() == before
        ground.workers.remove(desk)


def test_one_log_that_cannot_be_used_does_not_stop_the_others(ground: Ground, worker: Worker) -> None:
    worker.send("words")
    newer_log(ground.path / "home")
    wreck = ground.worker()
    killed_at(wreck, "released")
    arrived(ground)
    desk = ground.worker()
    found = swept(desk)
    assert found.failure is not None and desk.view.operations[wreck.id].state == "completed"
