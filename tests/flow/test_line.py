"""The line of an account: gaps under every clock, one in flight, the first admitted first (RL-01 .. RL-11, XP-02, AD-38, case 40, 54)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.pacing import Gap
from gptbridge.flow import reading
from gptbridge.flow.sending import Sending
from tests.flow.world import Ground, Worker

YEAR = 365.25 * 86400
ACCOUNT = "user-0000"


def sent_at(ground: Ground, worker: Worker) -> None:
    worker.on["click"] = lambda: ground.clicked.append(ground.time.boottime)  # type: ignore[attr-defined]


@pytest.fixture
def clicked(ground: Ground) -> Callable[[], list[float]]:
    ground.clicked = []  # type: ignore[attr-defined]
    return lambda: ground.clicked  # type: ignore[attr-defined,no-any-return]


def test_two_sends_are_a_gap_apart_and_it_is_said(ground: Ground, clicked: Callable[[], list[float]]) -> None:
    for n in range(4):
        worker = ground.worker(gap=Gap(60.0))
        sent_at(ground, worker)
        assert worker.send(f"words {n}").state == "completed"
        said = worker.front.of("ratelimit")
        assert (len(said) == 1 and 50.0 < said[0]["wait_s"] <= 75.0) if n else not said  # RL-07
        worker.dies()
    gaps = [b - a for a, b in zip(clicked(), clicked()[1:], strict=False)]
    assert all(60.0 <= gap <= 76.0 for gap in gaps), gaps


@pytest.mark.parametrize("step", [3600.0, -3600.0, 10 * YEAR, -10 * YEAR])
@pytest.mark.parametrize("when", ["before", "while"])
def test_no_step_of_the_wall_clock_changes_the_gap(ground: Ground, clicked: Callable[[], list[float]], step: float, when: str) -> None:
    """RL-11."""
    first, second = ground.worker(gap=Gap(60.0)), ground.worker(gap=Gap(60.0))
    sent_at(ground, first)
    sent_at(ground, second)
    first.send("one")

    def jump() -> None:
        ground.time.wall += step
    if when == "before":
        jump()
    else:
        ground.time.at(20.0, jump)
    assert second.send("two").state == "completed"
    a, b = clicked()
    assert 60.0 <= b - a <= 76.0


@pytest.mark.parametrize(("step", "shortest"), [
    (0.0, 60.0), (30.0, 30.0), (3600.0, 0.0), (-3600.0, 60.0), (-10 * YEAR, 60.0), (10 * YEAR, 0.0)])
def test_after_a_reboot_the_wall_clock_within_bounds(
        ground: Ground, clicked: Callable[[], list[float]], step: float, shortest: float) -> None:
    first = ground.worker(gap=Gap(60.0))
    first.send("one")
    first.dies()
    ground.time.reboot()
    ground.time.wall += step
    begun = ground.time.boottime
    second = ground.worker(gap=Gap(60.0))
    sent_at(ground, second)
    assert second.send("two").state == "completed"
    assert shortest - 2.0 <= clicked()[0] - begun <= 77.0


@pytest.mark.parametrize(("later", "shortest", "longest"), [(0.0, 60.0, 76.0), (40.0, 60.0, 76.0), (100.0, 100.0, 102.0)])
def test_a_stamp_that_is_gone_skips_no_gap(ground: Ground, clicked: Callable[[], list[float]], later: float, shortest: float,
                                           longest: float) -> None:
    """The ledger knows of the dispatch as well."""
    first, second = ground.worker(gap=Gap(60.0)), ground.worker(gap=Gap(60.0))
    sent_at(ground, first)
    sent_at(ground, second)
    first.send("one")
    (ground.path / "home" / "dispatch.stamp").unlink()
    ground.time.sleep(later)
    assert second.send("two").state == "completed" and (ground.path / "home" / "dispatch.stamp").exists()
    a, b = clicked()
    assert shortest <= b - a <= longest


@pytest.mark.parametrize("step", [-3600.0, -10 * YEAR, 10 * YEAR])
def test_a_stamp_that_is_gone_and_a_clock_that_was_set(ground: Ground, clicked: Callable[[], list[float]], step: float) -> None:
    """The ledger has the wall clock alone: nobody waits longer than the longest gap."""
    first, second = ground.worker(gap=Gap(60.0)), ground.worker(gap=Gap(60.0))
    sent_at(ground, first)
    sent_at(ground, second)
    first.send("one")
    (ground.path / "home" / "dispatch.stamp").unlink()
    ground.time.wall += step
    assert second.send("two").state == "completed"
    a, b = clicked()
    assert (60.0 if step < 0 else 0.0) <= b - a <= 76.0


def test_another_that_sends_while_the_text_is_typed_is_a_gap_apart(ground: Ground, clicked: Callable[[], list[float]]) -> None:
    """RL-01, RL-02: the gap is looked at again at the commit; the text does not wait for it in the composer."""
    first, second = ground.worker(gap=Gap(60.0)), ground.worker(gap=Gap(60.0))
    sent_at(ground, first)
    sent_at(ground, second)

    def other() -> None:
        first.on.pop("paste")
        assert second.send("from the other").state == "completed"
    first.on["paste"] = other
    assert first.send("from the first").state == "completed"
    a, b = clicked()
    assert 60.0 <= b - a <= 76.0
    assert [first.happened.count(what) for what in ("paste", "untype", "click")] == [2, 1, 1]


@pytest.mark.parametrize(("late", "typed"), [(9.0, 1), (10.5, 2)])
def test_a_text_that_waited_for_its_commit_is_typed_again(ground: Ground, worker: Worker, late: float, typed: int) -> None:
    """SM-24: 10 s after typing the page may have changed."""
    def slow() -> None:
        worker.on.pop("session")
        ground.time.sleep(late)

    def pasted() -> None:
        worker.on.pop("paste")
        worker.on["session"] = slow
    worker.on["paste"] = pasted
    assert worker.send("words").state == "completed"
    assert (worker.happened.count("paste"), worker.happened.count("click"), len(ground.sends)) == (typed, 1, 1)


def test_the_stamp_is_taken_at_the_dispatch_and_not_at_the_reply(ground: Ground, clicked: Callable[[], list[float]]) -> None:
    """RL-05, SM-10: the account is free as soon as the request is released."""
    first, second = ground.worker(gap=Gap(60.0)), ground.worker(gap=Gap(60.0))
    sent_at(ground, first)
    sent_at(ground, second)
    # While the first one waits for its answer.
    first.front.says = lambda event: second.send("two") and None if event["type"] == "meta" else None
    assert first.send("one").state == "completed"
    assert second.op.state == "completed" and 60.0 <= clicked()[1] - clicked()[0] <= 76.0


def test_no_lock_but_conversation_and_seat_is_held_while_sleeping(ground: Ground) -> None:
    """RL-03, XP-17."""
    first = ground.worker(gap=Gap(60.0))
    op = first.send("one")
    locks = first.home.locks
    assert locks is not None
    seen: list[set[str]] = []
    ground.time.at(30.0, lambda: seen.append({lock.kind for lock in locks.held}))
    first.send("two", to=op.conversation_id or "")
    assert seen == [{"owner", "seat", "conversation"}]


def test_nothing_is_claimed_while_another_of_the_account_is_in_flight(ground: Ground, worker: Worker) -> None:
    """XP-02."""
    other = ground.worker()
    other.admit("other words")
    worker.front.says = lambda event: None
    states: list[str] = []

    def claimed_by_the_other() -> None:
        worker.on.pop("paste")
        other.custody.ready(other.id, f"{ACCOUNT}/{account_id(ground)}")
        assert other.custody.claim(other.id, f"{ACCOUNT}/{account_id(ground)}", first=lambda view: True) is not None
        ground.time.at(5.0, lambda: other.custody.dispatch(other.id) and None)
        ground.time.at(9.0, lambda: states.append(worker.op.state))
        ground.time.at(10.0, lambda: other.custody.released(other.id) and None)
    worker.on["paste"] = claimed_by_the_other
    begun = ground.time.boottime
    op = worker.send("our words")
    assert op.state == "completed" and states == ["queued"] and ground.time.boottime - begun >= 10.0
    assert worker.happened.count("paste") == 2 and worker.happened.count("click") == 1  # it did not wait with its text typed
    assert other.op.state == "dispatched"


def account_id(ground: Ground) -> str:
    from gptbridge.practice.world import FIRST
    return FIRST.account_id


def test_a_dead_owners_claim_does_not_hold_the_account(ground: Ground, worker: Worker) -> None:
    other = ground.worker()
    other.admit("other words")
    whose = f"{ACCOUNT}/{account_id(ground)}"
    other.custody.ready(other.id, whose)
    other.custody.claim(other.id, whose, first=lambda view: True)
    ground.time.at(3.0, other.dies)
    assert worker.send("our words").state == "completed" and worker.view.operations[other.id].state == "uncertain"


def test_the_one_admitted_first_goes_first(ground: Ground, clicked: Callable[[], list[float]]) -> None:
    """AD-38, case 40."""
    first, second = ground.worker(gap=Gap(2.0)), ground.worker(gap=Gap(2.0))
    order: list[str] = []
    first.on["click"] = lambda: order.append("first")
    second.on["click"] = lambda: order.append("second")
    first.admit("one")
    first.custody.ready(first.id, f"{ACCOUNT}/{account_id(ground)}")
    ground.time.at(4.0, lambda: Sending(first.world, first.custody, first.op, "one").run())
    assert second.send("two").state == "completed"
    assert order == ["first", "second"] and first.op.state == "completed"


def test_one_that_is_not_ready_holds_nobody_up(ground: Ground, worker: Worker) -> None:
    ground.worker().admit("prepares for ever")
    begun = ground.time.boottime
    assert worker.send("two").state == "completed" and ground.time.boottime - begun < 5.0


def test_one_that_does_not_take_its_turn_is_passed_over_after_10_s(ground: Ground, worker: Worker) -> None:
    other = ground.worker()
    other.admit("hangs")
    other.custody.ready(other.id, f"{ACCOUNT}/{account_id(ground)}")
    begun = ground.time.boottime
    assert worker.send("two").state == "completed"
    assert 10.0 <= ground.time.boottime - begun < 13.0 and other.op.state == "queued"


def test_another_accounts_line_is_another_line(ground: Ground, worker: Worker) -> None:
    """RL-10."""
    slow = ground.worker(gap=Gap(60.0))
    slow.send("one")
    ground.on("other-account")
    begun = ground.time.boottime
    other = ground.worker(gap=Gap(60.0))
    assert other.send("two").state == "completed" and ground.time.boottime - begun < 5.0


def test_a_resume_waits_for_the_turn_before_it_in_its_conversation(ground: Ground, worker: Worker) -> None:
    """XP-13, SM-11."""
    op = worker.send("one")
    second = ground.worker()
    assert worker.home.locks is not None
    lock = worker.home.locks.lock("conversation", op.conversation_id or "")
    lock.acquire()
    ground.time.at(8.0, lock.release)
    begun = ground.time.boottime
    assert second.send("two", to=op.conversation_id or "").state == "completed"
    assert ground.time.boottime - begun >= 8.0 and second.turns(op.conversation_id or "")[1].section("prompt") == "two"


def left_open(ground: Ground, seat: int) -> Worker:
    """A worker that was killed with its text typed, in the window of that seat."""
    dead = ground.worker(seats=2)
    others = ground.worker(seats=2)
    with ExitStack() as taken:
        for number in range(seat):
            assert others.home.locks is not None
            taken.enter_context(others.home.locks.lock("seat", str(number)).hold(0.0))
        dead.on["paste"] = dead.dies
        with pytest.raises(BaseException):  # noqa: B017 - whatever a process with no descriptors left runs into
            dead.send("left open")
    return dead


def notes(ground: Ground) -> list[str | None]:
    looker = ground.worker(seats=2)
    with looker.world.locks.dead_seats() as places:
        return [place.window() for place in places]


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("how", ["send", "resume"])
def test_windows_of_dead_owners_are_buried_first(ground: Ground, seat: int, how: str) -> None:
    """GT-18: whichever seat was theirs, before a window is opened and before any lock is waited for."""
    known = ground.worker().send("one")
    dead = left_open(ground, seat)
    living = ground.worker(seats=2)
    assert living.home.locks is not None
    lock = dead.ground.workers[0].home.locks.lock("conversation", known.conversation_id or "")  # type: ignore[union-attr]
    lock.acquire()
    free_at: list[float] = []

    def release() -> None:
        free_at.append(ground.time.boottime)
        lock.release()
    buried_at: list[float] = []
    living.on["bury"] = lambda: buried_at.append(ground.time.boottime)
    ground.time.at(8.0, release)
    if how == "send":
        assert living.send("two", to=known.conversation_id or "").state == "completed"
    else:
        assert living.resume(known.conversation_id).slug == "ok"
    assert living.browser.buried == ["window-1"] and living.view.operations[dead.id].state == "rejected"
    assert living.browser.looked_for_blank == [[0, 1], [0, 1]]
    assert buried_at[0] < free_at[0] and living.happened.index("bury") < living.happened.index("seat")
    assert notes(ground) == [None, None]


def test_a_window_whose_owner_dies_while_locks_are_waited_for_is_buried_too(ground: Ground) -> None:
    known = ground.worker().send("one")
    holder, living = ground.worker(), ground.worker(seats=2)
    assert holder.home.locks is not None
    lock = holder.home.locks.lock("conversation", known.conversation_id or "")
    lock.acquire()
    ground.time.at(5.0, lambda: left_open(ground, 1) and None)
    ground.time.at(8.0, lock.release)
    assert living.send("two", to=known.conversation_id or "").state == "completed"
    assert living.browser.buried == ["window-1"] and notes(ground) == [None, None]


def test_a_dead_window_is_not_forgotten_while_chrome_does_not_answer(ground: Ground) -> None:
    """Nothing is sent beside it; it is tried again, and buried once Chrome answers."""
    left_open(ground, 0)
    living = ground.worker(seats=2, queue_wait=40.0)
    living.browser.mute = True
    op = living.send("two")
    assert (op.state, op.slug, op.retry, ground.sends, living.browser.seats) == ("rejected", "browser", "safe", [], [])
    assert notes(ground) == ["window-1", None] and living.happened.count("bury") >= 2
    with pytest.raises(Failure):
        reading.window(living.world, ExitStack(), lambda: None)
    assert notes(ground) == ["window-1", None]
    ground.time.at(20.0, lambda: setattr(living.browser, "mute", False))
    assert living.send("two", id=op.operation_id).state == "completed"
    assert living.browser.buried == ["window-1"] and notes(ground) == [None, None]


def test_a_window_of_our_own_that_chrome_does_not_close_is_left_to_the_next(ground: Ground, worker: Worker) -> None:
    worker.browser.prepare = lambda seat: setattr(seat, "stuck", True)
    assert worker.send("one").state == "completed"
    assert notes(ground) == ["window-1", None]
    worker.browser.prepare = lambda seat: None
    assert worker.send("two").state == "completed"
    assert worker.browser.buried == ["window-1"] and notes(ground) == [None, None]
