"""What a person decides: stops at every stage, settled uncertainty, accepted losses (ST, SM-23, RP-06 .. RP-11, DU-13)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.pacing import Gap
from gptbridge.flow import deciding, upkeep
from gptbridge.flow.custody import Refused
from gptbridge.flow.sending import Sending
from tests.flow.test_recovery import reach
from tests.flow.world import Ground, Worker

TALK = "68c1d2e3-0000-8000-8000-00000000cafe"
OTHER = "68c1d2e3-0000-8000-8000-00000000beef"


class Killed(BaseException):
    """What a test throws where a process is to end."""


def stop(desk: Worker, operation_id: str) -> tuple[str, Operation]:
    return deciding.stop(desk.world, desk.custody, operation_id)


def slug(call: Callable[..., object], *args: Any, **more: Any) -> str:
    with pytest.raises(Failure) as caught:
        call(*args, **more)
    return caught.value.slug


def killed_at(worker: Worker, what: str, prompt: str = "Hello") -> None:
    def end() -> None:
        raise Killed

    worker.on[what] = end
    with pytest.raises(Killed):
        worker.send(prompt)
    worker.dies()
    until = time.monotonic() + 20.0
    while what == "released" and not worker.ground.sends:  # let go, and on its way
        assert time.monotonic() < until
        time.sleep(0.01)


# Stop

def test_a_stop_while_it_waits_for_the_gap(ground: Ground) -> None:
    """ST-01, ST-04, ST-13, ST-17: stopped for ever, nothing left, and asking again changes nothing."""
    worker, desk = ground.worker(gap=Gap(60.0)), ground.worker()
    worker.send("first words")
    said: list[str] = []
    ground.time.at(10.0, lambda: said.append(stop(desk, worker.id)[0]))
    op = worker.send("second words")
    assert (op.state, op.slug, op.stop, op.sent, op.durable, len(ground.sends)) == ("stopped", "stopped", "person", "no", True, 1)
    assert said == ["stop-unconfirmed"]  # its worker could not answer from within the test's own sleep
    lines = ground.ledger_lines()
    assert stop(desk, op.operation_id)[0] == stop(desk, op.operation_id)[0] == "stopped" and ground.ledger_lines() == lines
    again = worker.send("second words", id=op.operation_id)
    assert (again.state, again.attempt, again.retry, len(ground.sends)) == ("stopped", 1, "never", 1)


@pytest.mark.parametrize("stage", ["arm", "paste", "click", "held"])
def test_a_stop_before_the_release(ground: Ground, worker: Worker, stage: str) -> None:
    """ST-04, GT-04: whatever was clicked, the request does not leave."""
    desk = ground.worker()
    worker.on[stage] = lambda: stop(desk, worker.id) and None
    op = worker.send()
    assert (op.slug, op.sent, op.stop_at is not None, ground.sends) == ("stopped", "no", True, [])
    assert op.state == ("stopped" if stage in ("arm", "paste") else "rejected") and op.retry == "never"
    assert (op.dispatched_at is not None) == (stage in ("click", "held"))
    assert stop(desk, worker.id)[0] == "stopped" and worker.seat.closed


def test_a_stop_during_the_answer_presses_once_and_is_confirmed_by_the_site(ground: Ground, worker: Worker) -> None:
    """ST-05, ST-07 .. ST-09, ST-13, ST-18."""
    ground.on("slow-answer", seconds=30.0)
    desk = ground.worker()
    worker.front.says = lambda event: stop(desk, worker.id) and None if event["type"] == "meta" else None
    op = worker.send("practice:slow and long")
    assert (op.state, op.turn, op.stop_phase, op.sent, op.slug) == ("accepted", "stopped", "confirmed", "yes", "ok")
    assert op.dispatched_at is not None and worker.happened.count("halt") == 1
    phases = [row["reason"] for row in worker.world.ledger.history(worker.id).history]  # type: ignore[attr-defined]
    assert phases.index("stop asked for") < phases.index("pressing the page's stop")
    lines = ground.ledger_lines()
    assert stop(desk, worker.id)[0] == "stop-pressed" and ground.ledger_lines() == lines and worker.happened.count("halt") == 1
    found = worker.document()
    assert found["exit_code"] in (0, 31) and found["sent"] == "yes" and found["warnings"]


def test_a_page_without_a_stop_control_confirms_nothing(ground: Ground, worker: Worker) -> None:
    desk = ground.worker()
    ground.on("slow-answer", seconds=1.0)
    worker.front.says = lambda event: stop(desk, worker.id) and None if event["type"] == "meta" else None
    worker.on["halt"] = lambda: setattr(worker.seat.gate, "_released", False)  # the page shows none
    op = worker.send()
    assert (op.state, op.stop_phase, op.sent) == ("completed", "uncertain", "yes")
    assert stop(desk, worker.id)[0] == "stop-unconfirmed"


def test_a_stop_that_the_site_does_not_confirm(ground: Ground, worker: Worker) -> None:
    """ST-07, ST-08: pressed, and 15 s later the site has not said that it stopped."""
    ground.on("slow-answer", seconds=0.5)
    desk, pressed = ground.worker(), list[float]()

    def press() -> bool:
        pressed.append(ground.time.boottime)
        ground.time.sleep(16.0)
        return True

    def ask(event: Any) -> None:
        if event["type"] == "meta":
            worker.seat.page.stop = press  # type: ignore[method-assign]
            asked(desk, worker.id)

    worker.front.says = ask
    op = worker.send()
    assert (op.state, op.stop_phase, op.sent, len(pressed)) == ("completed", "uncertain", "yes", 1)
    assert stop(desk, worker.id)[0] == "stop-unconfirmed"


def test_a_second_stop_presses_no_second_time(ground: Ground, worker: Worker) -> None:
    """ST-09, ST-13: also between the press and the site's word."""
    ground.on("slow-answer", seconds=30.0)
    desk = ground.worker()
    worker.front.says = lambda event: asked(desk, worker.id) if event["type"] == "meta" else None
    lines: list[int] = []

    def ask_again() -> None:
        lines.append(len(ground.ledger_lines()))
        asked(desk, worker.id)
        lines.append(len(ground.ledger_lines()))

    worker.on["halt"] = ask_again
    op = worker.send("practice:slow and long")
    assert (op.turn, op.stop_phase, worker.happened.count("halt")) == ("stopped", "confirmed", 1) and lines[0] == lines[1]


def test_a_crash_between_the_press_and_its_result(ground: Ground, worker: Worker) -> None:
    """CR-18: uncertain, and not pressed again by whoever comes later."""
    ground.on("slow-answer", seconds=1.0)
    desk = ground.worker()
    worker.front.says = lambda event: stop(desk, worker.id) and None if event["type"] == "meta" else None
    killed_at(worker, "halt")
    assert desk.view.operations[worker.id].stop_phase == "dispatched"
    desk.custody.recover()
    assert desk.view.operations[worker.id].stop_phase == "uncertain"
    lines = ground.ledger_lines()
    assert stop(desk, worker.id)[0] == "stop-unconfirmed" and ground.ledger_lines() == lines
    ground.site.world.switches.end("slow-answer")
    other = ground.worker()
    assert other.resume(operation=worker.id).operation is not None and "halt" not in other.happened


def test_a_stop_asked_for_and_never_pressed_since_its_owner_died(ground: Ground, worker: Worker) -> None:
    """ST-07, phase pending."""
    desk = ground.worker()
    ground.on("slow-answer", seconds=1.0)

    def ask_and_end(event: Any) -> None:
        if event["type"] == "meta":
            stop(desk, worker.id)
            raise Killed

    worker.front.says = ask_and_end
    with pytest.raises(Killed):
        worker.send()
    worker.dies()
    desk.custody.recover()
    word, op = stop(desk, worker.id)
    assert (word, op.stop_phase, op.sent) == ("not-running", "pending", "yes")


@pytest.mark.parametrize(("state", "after"), [("queued", "rejected"), ("held", "uncertain"), ("released", "uncertain")])
def test_a_stop_of_what_a_dead_owner_left(ground: Ground, worker: Worker, state: str, after: str) -> None:
    """ST-06; CR-17: what its id might still send is stopped for ever."""
    reach(worker, state)
    worker.dies()
    desk = ground.worker()
    word, op = stop(desk, worker.id)
    assert (word, op.state, op.stop_at is not None) == ("stopped" if state == "queued" else "not-running", after, state == "queued")
    lines = ground.ledger_lines()
    assert stop(desk, worker.id)[0] == word and ground.ledger_lines() == lines
    again = desk.send(id=worker.id)
    assert (again.state, again.attempt, again.retry, ground.clicks) == (after, 1, "never", 0)


def asked(desk: Worker, operation_id: str) -> None:
    """The stop on record, and nobody has read it yet."""
    deciding._request(desk.world, lambda view: [view.operations[operation_id]])


@pytest.mark.parametrize(("state", "ends"), [("queued", ("rejected", "stopped", "no")), ("claimed", ("uncertain", "uncertain", "unknown"))])
def test_no_retry_sends_what_was_stopped_before_its_worker_was_killed(ground: Ground, worker: Worker, state: str,
                                                                      ends: tuple[str, str, str]) -> None:
    """CR-17: the stop is on record, its worker had not read it."""
    reach(worker, state)
    desk = ground.worker()
    asked(desk, worker.id)
    worker.dies()
    [row] = desk.custody.recover()
    assert (row.state, row.slug, row.sent) == ends and not row.admissible and row.retry == "never"
    again = desk.send(id=worker.id)
    assert (again.state, again.attempt, ground.clicks, ground.sends) == (row.state, 1, 0, [])
    assert stop(desk, worker.id)[0] == ("stopped" if state == "queued" else "not-running")


@pytest.mark.parametrize("ending", ["fails", "front goes", "front leaves"])
@pytest.mark.parametrize("state", ["queued", "claimed"])
def test_whatever_else_ends_it_a_stop_on_record_is_final(ground: Ground, worker: Worker, state: str, ending: str) -> None:
    """CR-17, ST-04, ST-10."""
    reach(worker, state)
    desk, no = ground.worker(), Failure("needs-human", "a challenge; nothing was sent", "answer it")
    asked(desk, worker.id)
    match ending:
        case "fails":
            op = worker.custody.fail(worker.id, no, nothing_left=True)
        case "front goes":
            op = worker.custody.stop(worker.id, "front", Failure("terminated", "stopped", "run it again"))
        case _:
            op = desk.custody.abandon(worker.id, worker.world.owner.epoch, no)
    assert (op.state, op.slug, op.stop, op.sent, op.durable, op.retry) == ("stopped", "stopped", "person", "no", True, "never")
    again = worker.send(id=worker.id)
    assert (again.state, again.attempt, ground.clicks) == ("stopped", 1, 0) and stop(desk, worker.id)[0] == "stopped"


def test_a_stop_that_comes_while_the_page_fails(ground: Ground, worker: Worker) -> None:
    """CR-17: the page's no is no reason outside of the request any more."""
    desk, seat = ground.worker(), worker.browser.seat

    def fails(number: int) -> Any:
        asked(desk, worker.id)
        raise Failure("needs-human", "a challenge; nothing was sent", "answer it")

    worker.browser.seat = fails  # type: ignore[method-assign]
    op = worker.send()
    worker.browser.seat = seat  # type: ignore[method-assign]
    logged = worker.turns(f"failed-{op.operation_id}")[0].section("error") or ""
    assert "stopped before the message left" in logged and "challenge" not in logged
    assert (op.state, op.slug, worker.document()["exit_code"], stop(desk, worker.id)[0]) == ("stopped", "stopped", 24, "stopped")
    assert worker.send(id=worker.id).state == "stopped" and ground.sends == []


def test_a_stop_between_two_attempts_of_one_id(ground: Ground, worker: Worker) -> None:
    """CR-17: a job runner would run the same command again."""
    ground.on("signed-out")
    op = worker.send()
    ground.off("signed-out")
    assert op.admissible
    desk = ground.worker()
    word, op = stop(desk, worker.id)
    assert (word, op.state, op.slug, op.retry) == ("stopped", "rejected", "stopped", "never")
    again = worker.send(id=worker.id)
    assert (again.slug, again.attempt, ground.sends) == ("stopped", 1, [])


def test_a_stop_of_what_has_ended_or_was_never_there(ground: Ground, worker: Worker) -> None:
    op = worker.send()
    desk = ground.worker()
    lines = ground.ledger_lines()
    assert stop(desk, op.operation_id)[0] == "not-running" and ground.ledger_lines() == lines
    assert slug(stop, desk, desk.machine.ulid()) == "bad-input"


def test_a_stop_of_a_whole_conversation(ground: Ground) -> None:
    """ST-11, ST-19: what waits for it and was admitted before, and nothing else."""
    one, two, elsewhere, desk = (ground.worker() for _ in range(4))
    waiting = [one.admit("one", to=TALK), two.admit("two", to=TALK)]
    apart = elsewhere.admit("three", to=OTHER)
    stopped = deciding.stop_conversation(desk.world, desk.custody, TALK)
    assert [op.operation_id for _, op in stopped] == [op.operation_id for op in waiting]
    later = ground.worker().admit("four", to=TALK)
    rows = desk.view.operations
    assert [rows[op.operation_id].stop_at is not None for op in (*waiting, apart, later)] == [True, True, False, False]
    for worker, op in zip((one, two), waiting, strict=True):
        Sending(worker.world, worker.custody, op, "text").run()
        assert (worker.op.state, worker.op.slug) == ("stopped", "stopped")
    assert {word for word, _ in deciding.stop_conversation(desk.world, desk.custody, OTHER)} == {"stop-unconfirmed"}


def test_one_admitted_while_the_stop_is_decided_is_stopped_too(ground: Ground) -> None:
    """ST-01: the fence is the record; what stands before it in the ledger is stopped."""
    desk, late = ground.worker(), ground.worker()
    ground.worker().admit("one", to=TALK)
    transact = desk.world.ledger.transact

    def slow(decide: Any) -> Any:
        desk.world.ledger.transact = transact  # type: ignore[method-assign]
        late.admit("two", to=TALK)
        return transact(decide)

    desk.world.ledger.transact = slow  # type: ignore[method-assign]
    stopped = deciding.stop_conversation(desk.world, desk.custody, TALK)
    assert late.id in [op.operation_id for _, op in stopped]
    assert late.op.stop_at is not None


# Resolve

STATES = ["queued", "claimed", "dispatched", "held", "released"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sent", [True, False])
def test_only_what_is_uncertain_is_settled_by_a_person(ground: Ground, worker: Worker, state: str, sent: bool) -> None:
    """SM-23, RP-10, RP-11."""
    reach(worker, state)
    desk = ground.worker()
    before = ground.ledger_lines()

    def settle() -> Operation:
        return deciding.resolve(desk.world, desk.custody, worker.id, sent=sent, because="I looked", conversation_id=TALK if sent else None)

    assert slug(settle) == "conflict" and ground.ledger_lines() == before  # a live owner's
    worker.dies()
    if state == "queued" or (sent and state == "claimed"):
        assert slug(settle) == "conflict" and desk.view.operations[worker.id].state == ("rejected" if state == "queued" else "uncertain")
        return
    op = settle()
    last = desk.world.ledger.history(worker.id).history[-1]  # type: ignore[attr-defined]
    assert (last["actor"], last["reason"], last["from"]) == ("person", "I looked", "uncertain")
    if sent:
        assert (op.state, op.sent, op.conversation_id, op.retry) == ("accepted", "yes", TALK, "never")
        assert op.turn == ("lost" if state == "dispatched" else None)  # without an id no answer can ever be told to be its own
    else:
        assert (op.state, op.sent, op.slug, op.retry, op.durable) == ("rejected", "no", "stopped", "never", True)
    assert slug(settle) == "conflict"
    replay = desk.send(id=worker.id)
    assert replay.state == op.state and ground.sends == [] and ground.clicks == 0  # RP-11: no click on that id, ever


def test_settled_in_another_conversation_than_its_own(ground: Ground, worker: Worker) -> None:
    worker.admit(to=TALK)
    worker.custody.ready(worker.id, "user-0000")
    worker.custody.claim(worker.id, "user-0000", first=lambda view: True)
    worker.custody.dispatch(worker.id)
    worker.dies()
    desk = ground.worker()
    assert slug(deciding.resolve, desk.world, desk.custody, worker.id, sent=True, because="x", conversation_id=OTHER) == "conflict"
    assert deciding.resolve(desk.world, desk.custody, worker.id, sent=True, because="x").conversation_id == TALK


def test_a_person_cannot_give_one_message_to_two_operations(ground: Ground, worker: Worker) -> None:
    """RP-03: refused, and the ledger stays one that can be read."""
    first = worker.send("first words")
    reach(worker, "dispatched", "second words")
    worker.custody.held(worker.id, (first.user_message_id or "").upper(), None)
    worker.dies()
    desk = ground.worker()
    desk.custody.recover()
    lines = ground.ledger_lines()
    said = slug(deciding.resolve, desk.world, desk.custody, worker.id, sent=True, because="x", conversation_id=first.conversation_id)
    assert said == "conflict"
    assert ground.ledger_lines() == lines and ground.worker().view.operations[worker.id].state == "uncertain"
    assert deciding.resolve(desk.world, desk.custody, worker.id, sent=True, because="x", conversation_id=TALK).state == "accepted"


def test_an_answer_is_read_after_a_person_said_that_it_was_sent(ground: Ground, worker: Worker) -> None:
    killed_at(worker, "released")
    desk = ground.worker()
    deciding.resolve(desk.world, desk.custody, worker.id, sent=True, because="I saw it in the list")
    found = desk.resume(operation=worker.id)
    assert found.operation is not None and (found.slug, found.operation.state) == ("ok", "completed")
    assert found.operation.turn_id is not None and len(ground.sends) == 1
    with pytest.raises(Refused):
        desk.custody.fail(worker.id, Failure("busy", "x"), nothing_left=True)


# An equal request, and who has seen the answer

def test_an_answer_that_nobody_saw_holds_an_equal_request_until_it_is_shown(ground: Ground, worker: Worker) -> None:
    worker.front.says = lambda event: setattr(worker.front, "left", True) if event["type"] == "meta" else None
    op = worker.send("equal words")
    assert (op.state, op.front, op.shown_at) == ("completed", "gone", None)
    other = ground.worker()
    lines = ground.ledger_lines()
    with pytest.raises(Failure) as caught:
        other.send("equal words")
    assert caught.value.slug == "conflict" and op.operation_id in caught.value.message and f"resume {op.operation_id}" in caught.value.hint
    assert ground.ledger_lines() == lines and other.browser.seats == []
    assert other.send("equal words", again=True).state == "completed"
    other.send("equal words", id=op.operation_id)  # a replay shows it
    assert other.view.operations[op.operation_id].shown_at is not None
    lines = ground.ledger_lines()
    other.send("equal words", id=op.operation_id)
    assert ground.ledger_lines() == lines and other.send("equal words").state == "completed" and len(ground.sends) == 3


@pytest.mark.parametrize("by", ["operation", "conversation"])
def test_reading_back_shows_it_too(ground: Ground, worker: Worker, by: str) -> None:
    worker.front.says = lambda event: setattr(worker.front, "left", True) if event["type"] == "meta" else None
    op = worker.send("equal words")
    other = ground.worker()
    other.resume(op.conversation_id) if by == "conversation" else other.resume(operation=op.operation_id)
    assert other.view.operations[op.operation_id].shown_at is not None
    assert other.send("equal words").state == "completed"


def ended_together(ground: Ground, worker: Worker, when: str) -> str:
    """Front and worker killed at once (a container's end, a reboot): none of them notes anything."""
    if when == "accepted":
        ground.on("slow-answer", seconds=0.3)
        worker.front.says = lambda event: end() if event["type"] == "meta" else None

        def end() -> None:
            raise Killed

        with pytest.raises(Killed):
            worker.send("equal words")
        worker.dies()
        ground.off("slow-answer")
    else:  # "end": of the turn, before its front has told anybody
        killed_at(worker, when, "equal words")
        assert when != "end" or ground.worker().view.operations[worker.id].state == "completed"
    return worker.id


def answered(desk: Worker, operation_id: str, look: Callable[[], object]) -> None:
    """Looks until the practice site, whose clock is a real one, has answered."""
    until = time.monotonic() + 20.0
    look()
    while desk.view.operations[operation_id].state != "completed":
        assert time.monotonic() < until
        time.sleep(0.05)
        look()


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("when", ["accepted", "released", "end"])
def test_an_equal_request_after_front_and_worker_were_killed_together(ground: Ground, worker: Worker, when: str, swept: bool) -> None:
    """Case 5: a wrapper that was killed with them runs the same prompt under a new id."""
    first = ended_together(ground, worker, when)
    other = ground.worker()
    if swept:
        answered(other, first, lambda: upkeep.sweep(other.world, other.custody, offline=False))
        ground.time.sleep(7200.0)  # an uncertain one holds an equal request for an hour
    assert slug(other.send, "equal words") == "conflict" and len(ground.sends) == 1
    lines = ground.ledger_lines()
    assert other.custody.recover() == [] and ground.ledger_lines() == lines
    answered(other, first, lambda: other.resume(operation=first))
    assert other.view.operations[first].shown_at is not None
    assert other.send("equal words").state == "completed"


# Accepted losses

def delete_line(ledger: Path) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:3] + lines[4:]))


def flip_byte(ledger: Path) -> None:
    data = bytearray(ledger.read_bytes())
    data[len(data) // 2] ^= 1
    ledger.write_bytes(bytes(data))


def cut_tail(ledger: Path) -> None:
    """Back to where the first operation was only queued."""
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:2]))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "line": delete_line, "byte": flip_byte, "tail": cut_tail, "file": Path.unlink, "first": lambda p: p.write_bytes(
        b"".join(p.read_bytes().splitlines(keepends=True)[1:])), "emptied": lambda p: p.write_bytes(b"")}


@pytest.mark.parametrize("damage", DAMAGES)
def test_after_an_accepted_loss_no_id_of_before_runs(ground: Ground, damage: str) -> None:
    """DU-13."""
    first = ground.worker(queue_wait=0.0)
    waited = first.send("refused words").operation_id  # it ended before its claim: the same id might run again
    worker = ground.worker()
    sent = worker.send("first words").operation_id
    never = worker.machine.ulid()
    for one in (first, worker):
        one.dies()
    DAMAGES[damage](ground.path / "home" / "ledger.jsonl")
    desk = ground.worker()
    ledger: Any = desk.world.ledger
    assert ledger.is_damaged() and slug(desk.send, "other words") == "state-corrupt"
    ledger.accept_loss("a test broke it")
    assert not ledger.is_damaged()
    desk.custody.recover()
    ground.time.sleep(1.0)
    fresh = desk.machine.ulid()
    for id, text in ((fresh, "other words"), (None, "other words")):
        assert slug(desk.send, text, id=id, again=True) == "busy"
    ids = [(waited, "refused words"), (sent, "first words"), (never, "other words")]

    def run_again() -> None:
        for id, text in ids:
            try:
                op = desk.send(text, id=id, again=True)
            except Failure as failure:
                assert failure.slug == "expired", (id, failure.slug)
            else:
                assert op.sent in ("yes", "unknown") and op.retry == "never"

    run_again()
    ground.time.sleep(300.0)
    assert desk.send("other words", again=True).state == "completed"
    run_again()
    assert slug(desk.send, "other words", id=fresh, again=True) == "expired"  # it cannot be told from one of before
    assert [send["text"] for send in ground.sends] == ["first words", "other words"]
    # A pruning forgets nothing of it.
    ground.time.sleep(8 * 86400.0)
    assert desk.world.ledger.prune(ground.time.wall - 7 * 86400, 128)
    assert ground.worker().view.loss_seq > 0
    assert slug(desk.send, "other words", id=never, again=True) == "expired"


def test_what_was_sent_is_never_shown_as_not_sent_after_a_loss(ground: Ground, worker: Worker) -> None:
    """The ledger cut back to `queued`: its dispatch is among what is lost, so recovery must not say that it never left."""
    op = worker.send("first words")
    worker.dies()
    cut_tail(ground.path / "home" / "ledger.jsonl")
    desk = ground.worker()
    desk.world.ledger.accept_loss("power cut")  # type: ignore[attr-defined]
    [row] = desk.custody.recover()
    assert (row.operation_id, row.state, row.sent) == (op.operation_id, "uncertain", "unknown")
    assert slug(deciding.resolve, desk.world, desk.custody, row.operation_id, sent=True, because="x") == "conflict"
    assert deciding.resolve(desk.world, desk.custody, row.operation_id, sent=False, because="x").state == "rejected"


def test_a_loss_that_is_accepted_twice_and_a_ledger_of_a_newer_version(ground: Ground, worker: Worker) -> None:
    worker.send("first words")
    ledger: Any = worker.world.ledger
    path = ground.path / "home" / "ledger.jsonl"
    delete_line(path)
    ledger.accept_loss("once")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2] + lines[-1:]))  # damage before an accepted one stays accepted
    assert not ground.worker().world.ledger.is_damaged()  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes() + b"no record\n")
    assert ledger.is_damaged()
    ledger.accept_loss("twice")
    assert not ledger.is_damaged() and ledger.view().loss_seq == ledger.view().last_seq


def test_the_home_stays_its_sites_own_after_its_ledger_was_deleted(ground: Ground, worker: Worker) -> None:
    worker.send("first words")
    (ground.path / "home" / "ledger.jsonl").unlink()
    desk = ground.worker()
    desk.world.ledger.accept_loss("deleted")  # type: ignore[attr-defined]
    assert desk.view.site == ground.url


def test_a_front_settles_what_its_own_worker_has_not_dispatched_and_nothing_else(ground: Ground) -> None:
    """Case 42: the worker may wake up later, and must find that nobody waits."""
    failure = Failure("busy", "the time to wait is over; nothing was sent", "run it again")
    worker, other = ground.worker(), ground.worker()
    seen: list[tuple[str, str]] = []

    def leave(epoch: str) -> None:
        op = other.custody.abandon(worker.op.operation_id, epoch, failure)
        seen.append((op.state.value, op.sent))

    worker.on["open"] = lambda: leave("0.none")  # another's operation is not touched
    def leaves() -> None:
        leave(worker.world.owner.epoch)
        worker.front.left = True

    worker.on["paste"] = leaves
    op = worker.send("words that wait")
    assert seen == [("queued", "no"), ("stopped", "no")]
    assert (op.state, op.stop, op.slug, op.retry, op.admissible, len(ground.sends)) == ("stopped", "front", "busy", "later", True, 0)
    late = ground.worker()
    late.on["sent"] = lambda: seen.append((other.custody.abandon(late.id, late.world.owner.epoch, failure).state.value, ""))
    assert late.send("words that left").state == "completed" and seen[-1][0] == "dispatched"
