"""From the release to the end of the turn: which end it is, what is written, and what is never stored (SM-15 .. SM-17, CR-16, LO-05)."""

from __future__ import annotations

import errno
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gptbridge.core import transcript
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.flow import upkeep
from gptbridge.flow.belonging import LATE_S
from tests.edge.crashing import Faulty, Quick
from tests.flow.world import Ground, Worker


def later(seconds: float, act: Callable[[], object]) -> None:
    """In the server's time, which is the real one."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


@pytest.mark.parametrize(("scenario", "facts", "warns"), [
    ("stream-error", {}, ""), ("moderated", {"what": "prompt"}, "moderation"), ("moderated", {"what": "answer"}, "moderation")])
def test_a_turn_that_the_stream_or_the_sites_moderation_ends(ground: Ground, worker: Worker, scenario: str, facts: dict[str, str],
                                                             warns: str) -> None:
    """32 within a few reads, never a wait to the end of patience for an answer that is nowhere."""
    ground.on(scenario, **facts)
    began = ground.time.boottime
    op = worker.send("Hello there")
    assert (op.state, op.turn, op.slug, op.sent, len(ground.sends)) == ("accepted", "failed", "answer-failed", "yes", 1)
    assert ground.time.boottime - began < 60.0 and worker.document()["exit_code"] == 32
    assert [warns in str(event["message"]) for event in worker.front.of("warning")] == [True] * bool(warns)
    assert worker.turns(op.conversation_id or "")[-1].state == "failed"


def test_a_page_that_asks_something_in_mid_answer_is_said_once_and_left_alone(ground: Ground, worker: Worker) -> None:
    """A tool that wants to be allowed: nothing is pressed, and when a person has answered the turn goes on to its end."""
    ground.on("tool-approval")
    ground.time.at(30.0, lambda: ground.off("tool-approval"))
    op = worker.send("Hello there")
    assert (op.state, op.slug, len(ground.sends), ground.clicks) == ("completed", "ok", 1, 1)
    assert len([event for event in worker.front.of("warning") if "waits for a person" in str(event["message"])]) == 1


@pytest.mark.parametrize("partial", [False, True])
def test_a_turn_that_the_site_fails(ground: Ground, worker: Worker, partial: bool) -> None:
    """Case 17: exit 32 at once, never pressed."""
    ground.on("failed-turn", partial=partial)
    op = worker.send("Hello there, words enough for two halves")
    assert (op.state, op.turn, op.slug, op.sent, op.retry, len(ground.sends)) == ("accepted", "failed", "answer-failed", "yes", "never", 1)
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.state == "failed" and bool(turn.section("answer")) == partial
    assert worker.document()["exit_code"] == 32 and op.ended
    ground.off("failed-turn")
    # An old failed turn above does not count.
    assert worker.send("Again", to=op.conversation_id or "").state == "completed"


@pytest.mark.parametrize("early", [False, True])
def test_an_answer_that_was_stopped_in_the_page(ground: Ground, worker: Worker, early: bool) -> None:
    """Case 25: 0 with a warning; 31 where nothing was written."""
    ground.on("slow-answer", seconds=6.0 if early else 3.0)

    def stop() -> None:
        for conversation in ground.site.world.conversations.values():
            if conversation.turn is not None:
                conversation.turn.stop()
    if early:
        worker.on["sent"] = stop
    else:
        worker.on["sent"] = lambda: later(0.4, stop)
    op = worker.send("Hello there, words enough for several pieces of an answer")
    assert (op.state, op.turn, op.sent) == ("accepted", "stopped", "yes")
    doc = worker.document()
    assert worker.turns(op.conversation_id or "")[0].state == "stopped"
    if early:
        assert doc["exit_code"] == 31
    else:
        assert (doc["exit_code"], doc["ok"], doc["answer"][:3]) == (0, True, "You") and any("stopped" in w for w in doc["warnings"])


def test_slow_answers_pauses_and_a_preamble(ground: Ground, worker: Worker) -> None:
    """Cases 13, 14: silence proves nothing."""
    ground.on("slow-answer", seconds=0.6)
    assert worker.send("practice:markdown").state == "completed"
    ground.on("pause-mid-word", seconds=0.5)
    op = worker.send("Hello there, a word that is long enough")
    assert worker.document(op)["answer"].endswith("> Hello there, a word that is long enough")
    ground.off("pause-mid-word")
    ground.on("silence", seconds=0.5)
    op = worker.send("Hello again")
    assert "> Hello again" in worker.document(op)["answer"] and "Reading the question" in worker.document(op)["thinking"]


def test_a_provisional_id_is_never_stored_shown_or_logged(ground: Ground, worker: Worker) -> None:
    """Case 15."""
    ground.on("web-url", seconds=0.6)
    op = worker.send()
    assert op.state == "completed" and op.conversation_id == ground.sends[0]["conversation_id"]
    assert not any("WEB" in str(event) for event in worker.front.events)
    for name in worker.files():
        assert b"WEB:" not in (ground.path / "home" / name).read_bytes(), name


def test_the_newest_is_one_turn_behind(ground: Ground, worker: Worker) -> None:
    """Case 19: anchored on our message id."""
    first = worker.send("first words")
    sent = time.time()
    until(lambda: time.time() > sent + 0.5)  # the scenario hides what is younger, the first turn too
    ground.on("newest-behind", seconds=0.5)
    op = worker.send("second words", to=first.conversation_id or "")
    assert op.state == "completed" and worker.document(op)["answer"] == "You said:\n\n> second words"


def test_give_up_ends_the_turn_as_abandoned_and_a_later_read_brings_the_answer(ground: Ground) -> None:
    """CR-16, TL-05, HY-05: 31, and a full turn that names the interrupted block that it replaces."""
    worker = ground.worker(give_up=20.0)
    ground.on("slow-answer", seconds=2.0)
    op = worker.send("Hello there, slowly")
    assert (op.state, op.turn, op.slug, op.sent) == ("accepted", "abandoned", "answer-lost", "yes")
    assert worker.document()["exit_code"] == 31
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.state == "interrupted"
    worker.dies()
    until(lambda: all(c.turn is None or c.turn.done for c in ground.site.world.conversations.values()))
    reader = ground.worker()
    found = reader.resume(operation=op.operation_id)
    turns = reader.turns(op.conversation_id or "")
    assert [t.state for t in turns] == ["interrupted", "completed"] and turns[1].attr("supersedes") == "1"
    assert turns[1].section("answer") == "You said:\n\n> Hello there, slowly" and turns[1].attr("op") == op.operation_id
    assert found.conversation_id == op.conversation_id and len(ground.sends) == 1


def until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)


def test_the_browser_is_lost_in_the_middle_of_an_answer(ground: Ground, worker: Worker) -> None:
    """Case 26: the partial is kept and marked; a later read brings the rest."""
    ground.on("slow-answer", seconds=1.0)

    def lost() -> None:
        worker.seat.session.dead = "disconnected"
    worker.on["ended"] = lost
    op = worker.send("Hello there, words enough for several pieces")
    assert (op.state, op.slug, op.sent) == ("accepted", "still-answering", "yes")
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.state == "interrupted" and (turn.section("answer") or "").startswith("You said") and turn.section("error")
    assert worker.document()["exit_code"] == 30
    worker.dies()
    reader = ground.worker()
    assert reader.resume(operation=op.operation_id).slug == "ok"
    assert [t.state for t in reader.turns(op.conversation_id or "")] == ["interrupted", "completed"]


def test_a_conversation_id_is_shown_only_when_its_lock_receipt_and_registry_row_are_there(ground: Ground, worker: Worker) -> None:
    """XP-14, RG-05."""
    other = ground.worker()
    seen: list[tuple[str, bool, bool]] = []

    def look(event: object) -> None:
        if isinstance(event, dict) and event["type"] == "meta":
            conversation_id = event["conversation_id"]
            row = other.view.operations[worker.id]
            registered, held = other.world.registry.get(conversation_id) is not None, other.world.locks.is_held(conversation_id)
            seen.append((row.state.value, registered, held))
    worker.front.says = look
    worker.send()
    assert seen == [("accepted", True, True)]


def test_a_front_that_leaves_after_the_dispatch_changes_nothing(ground: Ground, worker: Worker) -> None:
    """FW-01."""
    worker.on["sending"] = lambda: setattr(worker.front, "left", True)
    op = worker.send()
    assert op.state == "completed" and ground.copy(op.conversation_id or "") == ground.canonical(op.conversation_id or "")


# Reading the conversation once the stream is over is refused

REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "signed out": ("signed-out", {}), "challenge": ("challenge", {}), "not known yet": ("json-refused", {"status": 404}),
    "throttled": ("throttled", {}), "refused": ("json-refused", {"status": 403}), "out of order": ("json-refused", {"status": 503})}


def refuse(ground: Ground, worker: Worker, how: str, *, times: int | None = None) -> list[float]:
    """From the send on, so many reads or all; when each was."""
    scenario, facts = REFUSED[how]
    reads: list[float] = []

    def read() -> None:
        reads.append(ground.time.boottime)
        if times is not None and len(reads) > times:
            ground.off(scenario)

    def sent() -> None:
        worker.on["read"] = read
        ground.on(scenario, **facts)
    worker.on["sent"] = sent
    return reads


@pytest.mark.parametrize("how", REFUSED)
def test_a_read_that_is_refused_twice_after_the_answer_ends_nothing(ground: Ground, worker: Worker, how: str) -> None:
    """The worker goes on to the end of the turn; after a throttle it waits before it asks again."""
    reads = refuse(ground, worker, how, times=2)
    op = worker.send("Hello there")
    assert (op.state, op.slug, len(ground.sends)) == ("completed", "ok", 1) and len(reads) >= 3
    assert worker.document()["answer"] == "You said:\n\n> Hello there"
    warnings = [str(event["message"]) for event in worker.front.of("warning")]
    assert [("429" in one, "the message was sent" in one) for one in warnings] == [(True, True)] * (how == "throttled")
    if how == "throttled":
        assert [round(b - a) for a, b in itertools.pairwise(reads)] == [60, 120]


@pytest.mark.parametrize("how", REFUSED)
def test_what_stays_refused_after_the_answer_is_said_as_it_is(ground: Ground, how: str) -> None:
    """30, or 31 at the end of patience: what was streamed is kept, it was sent, and nobody goes on; never that nothing was sent."""
    worker = ground.worker(give_up=1800.0)
    reads = refuse(ground, worker, how)
    begun = ground.time.boottime
    op = worker.send("Hello there")
    lasts = {"throttled": 1800.0, "not known yet": LATE_S, "out of order": 120.0}.get(how, 15.0)
    assert lasts - 15.0 <= ground.time.boottime - begun <= lasts + 40.0 and len(reads) <= lasts / 13.0 + 8
    doc = worker.document()
    code = 31 if how == "throttled" else 30
    assert (op.state, op.sent, doc["exit_code"], doc["retry"]) == ("accepted", "yes", code, "never")
    [turn] = worker.turns(op.conversation_id or "")
    assert (turn.state, turn.section("answer")) == ("interrupted", "You said:\n\n> Hello there")
    warned = [str(event["message"]) for event in worker.front.of("warning")]
    assert warned and all("the message was sent" in one for one in warned)
    said = " ".join([*warned, str(turn.section("error")), doc["error"]["message"]])
    assert not any(word in said.lower() for word in ("nothing was sent", "not released", "nothing was pressed"))
    assert how == "throttled" or ("no worker follows it" in doc["error"]["message"] and f"ask-gpt resume {op.operation_id}" in warned[-1])
    ground.off(REFUSED[how][0])
    worker.dies()
    reader = ground.worker()
    assert reader.resume(operation=op.operation_id).slug == ("answer-lost" if how == "throttled" else "ok")
    assert reader.turns(op.conversation_id or "")[-1].state == "completed"


def test_a_window_that_is_lost_is_not_asked_again(ground: Ground, worker: Worker) -> None:
    def lost() -> None:
        worker.seat.session.dead, worker.seat.gate.lost = "disconnected", True
    worker.on["ended"] = lost
    begun = ground.time.boottime
    op = worker.send("Hello there")
    assert (op.state, op.slug) == ("accepted", "still-answering") and ground.time.boottime - begun < 10.0


def test_a_refusal_before_the_receipt_is_not_taken_for_one_before_the_send(ground: Ground, worker: Worker) -> None:
    """The page is lost between release and receipt: uncertain, and no word of nothing having been sent."""
    real = worker.browser.prepare

    def prepare(seat: Any) -> None:
        real(seat)

        def reply(timeout: float) -> bytes | None:
            raise Failure("needs-human", "nobody is signed in on the site; nothing was sent", "ask-gpt login, then run this again")
        seat.gate.reply = reply
    worker.browser.prepare = prepare
    op = worker.send("Hello there")
    assert (op.state, op.sent) == ("uncertain", "unknown")
    last = worker.world.ledger.history(op.operation_id).history[-1]  # type: ignore[attr-defined]
    said = [*(str(event["message"]) for event in worker.front.of("warning")), str(last["reason"])]
    assert said and not any("nothing was sent" in one for one in said) and all("signed in" in one for one in said)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_two_windows_that_change_places_after_the_release(ground: Ground, cut: bool, known: bool) -> None:
    """Case 18: what a window shows binds nothing; each operation ends with the answer to its own message id."""
    first, second = ground.worker(), ground.worker()
    targets = [ground.worker().send(f"begin {n}").conversation_id or "" for n in range(2)] if known else ["new", "new"]
    if cut:
        ground.on("connection-drops")

    def swap() -> None:
        one, other = first.seat.page, second.seat.page
        one._session, other._session = other._session, one._session
    second.on["released"] = swap
    real = first.custody.released

    def released(operation_id: str) -> Operation:
        row = real(operation_id)
        second.send("to the second", to=targets[1])  # the first one's answer is looked for when the second one is through
        return row
    first.custody.released = released  # type: ignore[method-assign]
    first.send("to the first", to=targets[0])
    for worker, words in ((first, "to the first"), (second, "to the second")):
        op = worker.op
        [sent] = [send for send in ground.sends if send["text"] == words]
        assert (op.state, op.conversation_id, op.user_message_id) == ("completed", sent["conversation_id"], sent["message_id"])
        assert worker.document()["answer"] == f"You said:\n\n> {words}"
        assert worker.turns(op.conversation_id or "")[-1].section("prompt") == words
    assert first.op.conversation_id != second.op.conversation_id


# The turn in the log, from its beginning to its end


def test_the_prompt_is_in_log_and_copy_while_the_answer_is_awaited(ground: Ground, worker: Worker) -> None:
    """It is begun once `accepted` is on disk, before the id is shown; no sweep, no reader touches it while its worker lives (case 53)."""
    seen: list[str] = []

    def look(event: Mapping[str, Any]) -> None:
        if event["type"] == "meta" and not seen:
            name = str(event["conversation_id"])
            assert worker.op.state == "accepted" and worker.world.registry.get(name) is not None
            begun = ground.canonical(name)
            log = transcript.parse(begun)
            assert log.torn and (log.blocks[-1].section("prompt"), log.blocks[-1].attr("op")) == ("Hello there", worker.id)
            assert ground.copy(name) == begun
            other = ground.worker(folder="elsewhere")
            swept = upkeep.sweep(other.world, other.custody, offline=True)
            assert (swept.counts["sealed"], swept.counts["interrupted"], swept.failure) == (0, 0, None)
            doc = other.document(other.view.operations[worker.id])
            assert (doc["exit_code"], doc["answer"], doc["thinking"]) == (30, None, None)
            assert ground.canonical(name) == begun
            other.dies()
            seen.append(name)
    worker.front.says = look
    op = worker.send("Hello there")
    assert seen == [op.conversation_id] and op.state == "completed"
    log = worker.log(seen[0])
    assert [(b.number, b.state, b.ok) for b in log.blocks] == [(1, "completed", True)] and not log.problems
    assert ground.copy(seen[0]) == ground.canonical(seen[0]) and log.blocks[0].attr("model") is not None


def test_a_worker_killed_in_the_middle_of_its_answer_leaves_the_prompt(ground: Ground) -> None:
    """TL-05, HY-05: the next writer seals it, the full turn names it, and what is shown is whole."""
    ground.on("slow-answer", seconds=0.2)
    worker = ground.worker()

    def dies(event: Mapping[str, Any]) -> None:
        if event["type"] == "meta":
            raise KeyboardInterrupt
    worker.front.says = dies
    with pytest.raises(KeyboardInterrupt):
        worker.send("Hello there")
    op = worker.op
    name = op.conversation_id or ""
    worker.dies()
    assert transcript.parse(ground.canonical(name)).torn
    until(lambda: all(c.turn is None or c.turn.done for c in ground.site.world.conversations.values()))
    reader = ground.worker()
    doc = reader.document(reader.view.operations[op.operation_id])
    assert (doc["exit_code"], doc["answer"]) == (30, None), "begun is not answered"
    assert reader.resume(operation=op.operation_id).slug == "ok"
    assert [(b.number, b.state, b.section("prompt"), b.attr("supersedes")) for b in reader.turns(name)] == [
        (1, "interrupted", "Hello there", None), (2, "completed", "Hello there", "1")]
    assert [b.number for b in transcript.turns(reader.log(name))] == [2] and b"*(interrupted)*" in ground.canonical(name)
    assert ground.copy(name) == ground.canonical(name)


def test_a_completed_operation_whose_turn_was_only_begun_has_no_answer(ground: Ground, worker: Worker) -> None:
    """A log restored from before its end: never an empty answer and exit 0."""
    worker.front.says = lambda event: begun.append(ground.canonical(event["conversation_id"])) if event["type"] == "meta" else None
    begun: list[bytes] = []
    op = worker.send("Hello there")
    (ground.path / "home" / "logs" / f"{op.conversation_id}.log").write_bytes(begun[0])
    doc = worker.document()
    assert (doc["exit_code"], doc["answer"]) == (31, None)


@pytest.mark.parametrize("full", [False, True])
def test_a_log_that_cannot_be_begun_does_not_end_the_turn(ground: Ground, full: bool) -> None:
    """Case 46: the disk fills in the middle of a turn and is freed: a warning, and the whole turn at the end."""
    disk = Full(ground)
    worker = ground.worker(disk=disk)
    if full:
        worker.send("the one before")
        disk.fills = "the turn"
    else:
        disk.fills = "its folder"
    op = worker.send("Hello there")
    assert op.state == "completed" and worker.front.of("warning")
    log = worker.log(op.conversation_id or "")
    assert [(b.state, b.section("prompt")) for b in log.blocks] == [("completed", "Hello there")] and not log.problems


class Full(Quick):
    """A disk on which the first write of a log's beginning fails."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.fills = ground, ""

    def write(self, fd: int, data: bytes) -> int:
        if self.fills and b"\n### prompt\n" in data and b"<!-- ask-gpt end" not in data:
            self.fills = ""
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(fd, data)


def test_a_turn_that_fails_keeps_what_was_said_and_how_far_it_was(ground: Ground, worker: Worker) -> None:
    """TL-06: phase and class stand with the error, thinking and answer so far before it."""
    ground.on("thinking", seconds=0.2)
    ground.on("slow-answer", seconds=3.0)
    worker.front.says = lambda event: worker.seat.session.__setattr__("dead", "killed") if event["type"] == "answer" else None
    op = worker.send("Hello there, words enough for several pieces of an answer")
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.state == "interrupted" and turn.ok and [s.name for s in turn.sections] == ["prompt", "thinking", "answer", "error"]
    assert (turn.section("answer") or "").startswith("You") and "Reading the question" in (turn.section("thinking") or "")
    assert turn.sections[-1].attrs == (("class", "browser"), ("phase", "streaming"))


def test_a_turn_that_never_left_says_so_in_a_log_of_its_own(ground: Ground, worker: Worker) -> None:
    """TL-07."""
    ground.on("draft", text="somebody's words")
    op = worker.send("Hello there")
    [turn] = worker.turns(f"failed-{op.operation_id}")
    assert (turn.state, turn.section("prompt"), turn.section("answer")) == ("failed", "Hello there", None)
    assert turn.sections[-1].attrs == (("class", "chat"), ("phase", "attaching"))
    assert worker.log(f"failed-{op.operation_id}").header["operation"] == op.operation_id
    assert worker.document()["log"] == f"./ask-gpt/failed-{op.operation_id}.log"


# Files that cannot be written


def test_the_log_cannot_be_written_after_the_answer(ground: Ground) -> None:
    """34: it was sent; a later read back brings it."""
    disk = Quick()
    worker = ground.worker(disk=disk)

    def full(*args: object, **kwargs: object) -> None:
        raise Failure("state-unwritable", "no space left")
    worker.world.logs.finish = full  # type: ignore[method-assign]
    with pytest.raises(Failure) as why:
        worker.send()
    assert why.value.slug == "record-failed" and worker.op.state == "accepted" and len(ground.sends) == 1
    assert worker.document(slug="record-failed")["exit_code"] == 34
    worker.dies()
    reader = ground.worker()
    found = reader.resume(operation=worker.id)
    begun, full_one = reader.turns(found.conversation_id or "")
    assert found.slug == "ok" and (begun.state, full_one.state, full_one.attr("supersedes")) == ("interrupted", "completed", "1")


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_every_write_of_a_send_may_fail_once(ground: Ground, call: str) -> None:
    """DU-04: at most one click, never an exit that contradicts the row; what was sent is found again; the next send works."""
    for n in range(1, 60):
        ground.site.world.reset()
        ground.on("slow-answer", seconds=0.0)
        place = Ground(ground.path / f"{call}{n}", ground.site)
        place.path.mkdir()
        place.worker().dies()  # the home is there: what is made once is another test's
        disk = Faulty(call, n, errno.EIO)
        worker = place.worker(disk=disk)
        raised: Failure | None = None
        try:
            worker.send()
        except Failure as failure:
            raised = failure
        assert place.clicks <= 1 and len(place.sends) <= place.clicks
        row = worker.view.get(worker.id)
        if row is None:
            assert raised is not None and raised.slug == "state-unwritable" and not place.sends
        else:
            doc = worker.document(row, slug=raised.slug if raised else None)
            code, sent = doc["exit_code"], doc["sent"]
            assert {0: "yes", 19: "no", 34: "yes", 40: "unknown", 30: "yes", 31: "yes"}[code] == sent, (n, doc)
            if place.sends:
                assert sent != "no", (n, doc)
        worker.dies()
        after = place.worker()
        if place.sends:
            found = after.resume(operation=worker.id)
            assert found.slug == "ok" and after.view.operations[worker.id].state == "completed", (n, found)
        else:
            again = after.send(id=worker.id)
            assert again.state in ("completed", "rejected", "uncertain"), (n, again)
            if row is None or (row.state == "rejected" and row.admissible):
                assert again.state == "completed"
        assert after.send("other words").state == "completed"
        after.dies()
        if disk.seen[call] < n:
            assert n > 10, "the fault was never met"
            ground.site.world.reset()
            return
    raise AssertionError("more writes than expected")


# A conversation that was deleted

def abandoned(ground: Ground, worker: Worker) -> Operation:
    """An accepted operation whose worker was killed in the middle of the answer, and whose conversation is deleted since."""
    def lost() -> None:
        worker.seat.session.dead = "disconnected"
    worker.on["ended"] = lost
    op = worker.send("soon gone")
    assert op.slug == "still-answering"
    worker.dies()
    ground.site.world.conversations[op.conversation_id or ""].visible = False
    return op


@pytest.mark.parametrize("by", ["sweep", "resume"])
def test_an_answer_whose_conversation_was_deleted_is_lost(ground: Ground, worker: Worker, by: str) -> None:
    """CR-16: only the account that it belongs to can say so, and not in the first minutes; then nobody looks for it any more."""
    op = abandoned(ground, worker)

    def look() -> Operation:
        desk = ground.worker()
        if by == "resume":
            found = desk.resume(operation=op.operation_id)
            assert found.slug == desk.view.operations[op.operation_id].slug
        else:
            upkeep.sweep(desk.world, desk.custody, offline=False)
        now = desk.view.operations[op.operation_id]
        desk.dies()
        return now

    assert (look().turn, look().slug) == (None, "still-answering")  # a site may know of it late
    ground.time.sleep(3600.0)
    ground.on("other-account")
    if by == "sweep":
        assert look().turn is None
    ground.off("other-account")
    lost = look()
    assert (lost.state, lost.turn, lost.slug, lost.sent, lost.retry) == ("accepted", "lost", "answer-lost", "yes", "never")
    lines, reads = ground.ledger_lines(), ground.site.world.reads
    if by == "sweep":
        look()
        assert ground.ledger_lines() == lines and ground.site.world.reads <= reads + 1, "it is not looked for again"
    assert len(ground.sends) == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_machine_that_slept_reads_what_the_site_has_by_then(ground: Ground, worker: Worker, named: bool) -> None:
    """A laptop closed for ten hours in the middle of an answer, or before its receipt: nobody's patience is over when it wakes."""
    ground.on("slow-answer", seconds=1.0)
    if not named:
        ground.on("connection-drops", frames=0, times=1)
    slept = False

    def sleep(event: Mapping[str, Any]) -> None:
        nonlocal slept
        if not slept and event["type"] == "answer":
            slept = True
            ground.time.sleep(36_000.0)

    def sleep_at_once() -> None:
        ground.time.sleep(36_000.0)
    if named:
        worker.front.says = sleep
    else:
        worker.on["sent"] = sleep_at_once
    op = worker.send("Hello there, words enough for several pieces of an answer")
    assert (op.state, op.slug, len(ground.sends)) == ("completed", "ok", 1) and (slept or not named)


def test_a_reply_that_goes_on_elsewhere_is_shown_as_the_site_has_it(ground: Ground, worker: Worker) -> None:
    """The stream ends in the middle; what comes after it is read, shown as it grows, and folds to the whole."""
    from gptbridge.core.turn import fold

    ground.on("connection-drops", frames=12, times=1)
    ground.on("slow-answer", seconds=3.0)
    op = worker.send("Hello there, words enough for several pieces of an answer")
    assert op.state == "completed"
    deltas = [event for event in worker.front.events if event["type"] in ("thinking", "answer", "replace")]
    assert fold(deltas).answer == worker.document()["answer"] and len(deltas) > 2
