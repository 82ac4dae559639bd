"""Reading back and hydration: what the site has and the log lacks is added once, by native id; nothing is sent (HY-01 .. HY-12)."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.operation import KEEP_S
from gptbridge.core.pacing import Gap
from gptbridge.flow.deciding import resolve
from gptbridge.flow.reporting import outcome_of
from gptbridge.flow.upkeep import sweep
from gptbridge.practice import nodes
from gptbridge.practice.world import FIRST
from tests.flow.test_deciding import Killed, killed_at
from tests.flow.test_recovery import WHO, reach
from tests.flow.test_upkeep import arrived
from tests.flow.world import Ground, Worker


def foreign(ground: Ground, conversation_id: str, prompt: str = "by hand", answer: str = "its answer", **facts: object) -> str:
    """A turn that somebody made elsewhere; its message id."""
    data = ground.site.world.conversations[conversation_id].data
    at = data["update_time"] + 1.0
    user = nodes.message(nodes.new_id(), "user", nodes.text(prompt), at)
    nodes.link(data["mapping"], data["current_node"], user)
    reply = nodes.message(nodes.new_id(), "assistant", nodes.text(answer), at + 0.5, end_turn=True, channel="final", **facts)  # type: ignore[arg-type]
    nodes.link(data["mapping"], user["id"], reply)
    data["current_node"], data["update_time"] = reply["id"], at + 1.0
    return str(user["id"])


def prompts(worker: Worker, conversation_id: str) -> list[str | None]:
    return [turn.section("prompt") for turn in worker.turns(conversation_id)]


@pytest.fixture
def talk(ground: Ground, worker: Worker) -> str:
    return worker.send("first words").conversation_id or ""


def test_turns_of_other_hands_are_hydrated_before_ours_is_typed(ground: Ground, worker: Worker, talk: str) -> None:
    """HY-01 .. HY-03."""
    user = foreign(ground, talk)
    seen: list[list[str | None]] = []
    worker.on["paste"] = lambda: seen.append(prompts(worker, talk))
    op = worker.send("second words", to=talk)
    assert op.state == "completed" and seen == [["first words", "by hand"]]
    turns = worker.turns(talk)
    assert [t.words for t in turns] == [(), ("hydrated",), ()] and [t.number for t in turns] == [1, 2, 3]
    assert turns[1].attr("user") == user and turns[1].attr("op") is None and turns[1].section("answer") == "its answer"
    assert ground.copy(talk) == ground.canonical(talk)


def test_hydrating_twice_changes_nothing(ground: Ground, worker: Worker, talk: str) -> None:
    """HY-06, HY-10."""
    foreign(ground, talk)
    worker.dies()
    first = ground.worker()
    found = first.resume(talk)
    lines, bytes_ = ground.ledger_lines(), ground.canonical(talk)
    assert (found.slug, found.operation) == ("ok", None) and len(first.turns(talk)) == 2
    again = first.resume(talk)
    assert again.slug == "ok" and ground.canonical(talk) == bytes_ and ground.ledger_lines() == lines and first.browser.clicks == 0


def test_equal_prompts_are_two_turns(ground: Ground, worker: Worker, talk: str) -> None:
    """HY-04, case 20."""
    for _ in range(2):
        foreign(ground, talk, "Continue", "more")
    worker.resume(talk)
    assert prompts(worker, talk) == ["first words", "Continue", "Continue"]
    assert len({t.attr("user") for t in worker.turns(talk)}) == 3


def test_the_turn_of_an_operation_is_tagged_only_through_its_receipt(ground: Ground, worker: Worker) -> None:
    """HY-07, HY-03: a turn of ours that a crash kept out of the log; one of the same text that is somebody's."""
    worker.world.logs.begin = worker.world.logs.finish = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(Failure):
        worker.send("the words")
    talk = worker.op.conversation_id or ""
    foreign(ground, talk, "the words", "somebody's answer")
    worker.dies()
    reader = ground.worker()
    reader.resume(talk)
    ours, theirs = reader.turns(talk)
    assert (ours.attr("op"), theirs.attr("op")) == (worker.id, None) and ours.words == ("hydrated",)
    assert reader.document(reader.view.operations[worker.id])["answer"] == "You said:\n\n> the words"


def lost(*args: object, **kwargs: object) -> None:
    raise Failure("state-unwritable", "no space left")


def test_a_bare_resume_of_a_conversation_says_what_its_newest_turn_is(ground: Ground, worker: Worker, talk: str) -> None:
    found = worker.resume(talk)
    assert (found.slug, found.operation and found.operation.operation_id) == ("ok", worker.id)
    user = foreign(ground, talk)
    found = worker.resume(talk)
    assert (found.slug, found.operation, found.user_message_id) == ("ok", None, user)  # LO-13: not the answer of the turn before
    data = ground.site.world.conversations[talk].data
    last = data["mapping"][data["current_node"]]["message"]
    for changes, slug in (({"status": "in_progress", "end_turn": None}, "still-answering"),
                          ({"status": "finished_successfully", "end_turn": None, "channel": None}, "ok"),
                          ({"status": "error"}, "answer-failed")):
        last.update(changes)
        assert worker.resume(talk).slug == slug, changes


def test_a_bare_resume_of_an_operation_gives_the_answer_to_that_very_message(ground: Ground, worker: Worker, talk: str) -> None:
    first = worker.id
    worker.send("second words", to=talk)
    found = worker.resume(operation=first)
    assert (found.slug, found.user_message_id) == ("ok", worker.view.operations[first].user_message_id)
    assert worker.document(found.operation, command="resume")["answer"] == "You said:\n\n> first words"


def test_operations_that_left_nothing_are_answered_without_a_browser(ground: Ground, worker: Worker) -> None:
    ground.on("signed-out")
    op = worker.send()
    seats = len(worker.browser.seats)
    found = worker.resume(operation=op.operation_id)
    assert (found.slug, len(worker.browser.seats)) == ("needs-human", seats)
    with pytest.raises(Failure) as why:
        worker.resume(operation=worker.machine.ulid())
    assert why.value.slug == "bad-input"


def test_a_conversation_of_nobody_is_not_opened(ground: Ground, worker: Worker) -> None:
    with pytest.raises(Failure) as why:
        worker.resume("68c1d2e3-0000-8000-8000-00000000dead")
    assert why.value.slug == "unknown-conversation" and worker.browser.seats == []


@pytest.mark.parametrize(("scenario", "slug"), [
    ("signed-out", "needs-human"), ("other-account", "account-mismatch"), ("challenge", "needs-human"), ("throttled", "rate-limited")])
def test_a_read_that_the_site_refuses(ground: Ground, worker: Worker, talk: str, scenario: str, slug: str) -> None:
    """Cases 33, 35: nothing is changed."""
    lines, log = ground.ledger_lines(), ground.canonical(talk)
    ground.on(scenario)
    with pytest.raises(Failure) as why:
        worker.resume(talk)
    assert why.value.slug == slug and ground.ledger_lines() == lines and ground.canonical(talk) == log and worker.seat.closed


def test_while_a_worker_holds_the_conversation_it_is_followed_without_its_lock(ground: Ground, worker: Worker, talk: str) -> None:
    """FW-03, contract: at most `--wait`; 40 before the receipt, 30 after it."""
    other = ground.worker(wait=5.0)
    seen: list[tuple[str, int]] = []

    def look() -> None:
        begun = ground.time.boottime
        for question in ({"conversation_id": talk}, {"operation": worker.id}):
            found = other.resume(**question)
            assert ground.time.boottime - begun <= 11.0
            seen.append((found.slug, len(other.browser.seats)))
    worker.on["click"] = look
    worker.front.says = lambda event: look() if event.get("state") == "accepted" else None
    assert worker.send("second words", to=talk).state == "completed"
    assert seen == [("uncertain", 0), ("uncertain", 0), ("still-answering", 0), ("still-answering", 0)]
    assert other.resume(talk).slug == "ok"


def test_who_holds_the_conversation_is_followed_not_who_waits_for_it(ground: Ground, worker: Worker, talk: str) -> None:
    """Contract: 30 while it is being answered, whatever was admitted behind it."""
    waiting, reader = ground.worker(), ground.worker(wait=5.0)
    seen: list[tuple[str, str | None]] = []

    def look() -> None:
        waiting.admit("third words", to=talk)
        found = reader.resume(talk)
        seen.append((found.slug, found.operation and found.operation.operation_id))
    worker.front.says = lambda event: look() if event.get("state") == "accepted" else None
    assert worker.send("second words", to=talk).state == "completed"
    assert seen == [("still-answering", worker.id)]


def test_a_message_that_waits_and_has_the_conversation_is_named(ground: Ground, talk: str) -> None:
    """Followed for as long as `--wait` says; then what is in the way, not the lock."""
    waiting, reader = ground.worker(), ground.worker(wait=5.0)
    with waiting.world.locks.conversation(talk, wait_s=0.0, heed=lambda: None):
        waiting.admit("third words", to=talk)
        with pytest.raises(Failure) as busy:
            reader.resume(talk)
    assert busy.value.slug == "busy" and waiting.id in busy.value.message and f"ops stop {waiting.id}" in busy.value.hint
    assert "still waits to be sent" in busy.value.message


def test_a_known_id_whose_worker_is_gone_is_told_that_nobody_follows_it(ground: Ground, worker: Worker) -> None:
    def killed(event: object) -> None:
        if isinstance(event, dict) and event.get("state") == "accepted":
            raise Killed

    worker.front.says = killed
    with pytest.raises(Killed):
        worker.send()
    worker.dies()
    other = ground.worker()
    other.custody.recover()
    world = other.world
    told = outcome_of("send", world.ledger.view().operations[worker.id], world.ledger, world.logs, world.registry)
    assert told.slug == "still-answering" and told.failure is not None and "no worker follows it" in told.failure.message


def test_the_next_of_the_conversation_is_followed_too(ground: Ground, talk: str) -> None:
    """One that took the conversation while the one before it was followed is no reason to say `busy`: its message is under way."""
    first, second, reader = ground.worker(), ground.worker(), ground.worker(wait=5.0)
    with ExitStack() as held:
        place = held.enter_context(ExitStack())
        place.enter_context(first.world.locks.conversation(talk, wait_s=0.0, heed=lambda: None))
        reach(first, "claimed", to=talk)
        second.admit("third words", to=talk)
        ground.worker().admit("fourth words", to=talk)

        def goes_on() -> None:
            first.custody.stop(first.id, "person", Failure("stopped", "stopped; nothing was sent"))
            place.close()
            held.enter_context(second.world.locks.conversation(talk, wait_s=0.0, heed=lambda: None))
            second.custody.claim(second.id, WHO, first=lambda view: True)
            second.custody.dispatch(second.id)
        ground.time.at(2.0, goes_on)
        begun = ground.time.boottime
        found = reader.resume(talk)
        assert (found.slug, found.operation and found.operation.operation_id) == ("uncertain", second.id)
        assert 5.0 <= ground.time.boottime - begun < 6.0 and reader.browser.seats == []


def test_a_newest_turn_of_a_refused_operation_has_its_answer_and_is_nobodys(ground: Ground, worker: Worker) -> None:
    """HY-07, contract: 0 when the newest turn has an answer, whoever began it. A person said that it did not arrive, and erred."""
    talk = worker.send("first words").conversation_id or ""
    user = foreign(ground, talk)
    other = ground.worker()
    reach(other, "dispatched", "by hand", to=talk)
    other.custody.held(other.id, user, "parent")
    other.dies()
    reader = ground.worker()
    reader.custody.recover()
    assert resolve(reader.world, reader.custody, other.id, sent=False, because="it is not there").state == "rejected"
    found = reader.resume(talk)
    assert (found.slug, found.operation, found.user_message_id) == ("ok", None, user)
    assert reader.turns(talk)[-1].section("answer") == "its answer"


def test_reading_takes_the_conversation_and_no_dispatch_slot(ground: Ground, worker: Worker, talk: str) -> None:
    """HY-11: a send that dispatches, in whatever conversation, keeps no reading off; one who holds the conversation does."""
    foreign(ground, talk)
    other, reader = ground.worker(), ground.worker(wait=2.0)
    with other.world.locks.dispatch():
        assert reader.resume(talk).slug == "ok" and len(reader.turns(talk)) == 2
    foreign(ground, talk)
    with other.world.locks.conversation(talk), pytest.raises(Failure) as why:
        reader.resume(talk)
    assert why.value.slug == "busy" and len(reader.turns(talk)) == 2


def test_what_the_site_proves_settles_a_row_of_any_age(ground: Ground, worker: Worker) -> None:
    """RE-09, RE-03: an uncertain one older than any receipt is neither forgotten nor out of reach of its proof."""
    killed_at(worker, "released", "old words")
    arrived(ground)
    ground.time.sleep(KEEP_S + 86400.0)
    reader = ground.worker()
    reader.custody.recover()
    ground.time.sleep(KEEP_S + 86400.0)
    assert sweep(reader.world, reader.custody, offline=True).counts["pruned"] == 0
    op = reader.view.operations[worker.id]
    assert (op.state, op.sent) == ("uncertain", "unknown")
    found = reader.resume(operation=worker.id)
    settled = reader.view.operations[worker.id]
    assert (found.slug, settled.state, settled.sent, len(ground.sends)) == ("ok", "completed", "yes", 1)
    assert reader.send("old words", id=worker.id).state == "completed" and len(ground.sends) == 1  # its receipt counts, not its age


def test_an_operation_whose_registry_row_a_crash_left_out(ground: Ground, worker: Worker) -> None:
    """Killed between the receipt and the registry: found by the operation, the conversation, and made up for."""
    class Killed(BaseException):
        pass

    def killed(conversation: object) -> None:
        raise Killed
    worker.world.registry.put = killed  # type: ignore[method-assign,assignment]
    with pytest.raises(Killed):
        worker.send()
    talk = worker.op.conversation_id or ""
    worker.dies()
    assert ground.worker().resume(operation=worker.id).slug == "ok"
    reader = ground.worker()
    registered = reader.world.registry.get(talk)
    assert registered is not None and registered.title == "Hello" and reader.resume(talk).slug == "ok"


def test_hints_never_become_receipts(ground: Ground, worker: Worker, talk: str) -> None:
    """HY-12, RP-02, LO-15: an uncertain one without a recorded id stays so, whatever its conversation shows."""
    other = ground.worker()
    other.admit("second words", to=talk)
    other.custody.ready(other.id, "user-0000")
    other.custody.claim(other.id, "user-0000", first=lambda view: True)
    other.custody.dispatch(other.id)
    other.dies()
    foreign(ground, talk, "second words", "an answer")
    reader = ground.worker()
    found = reader.resume(operation=other.id)
    assert found.slug == "uncertain" and reader.view.operations[other.id].state == "uncertain"
    assert prompts(reader, talk) == ["first words", "second words"] and reader.turns(talk)[1].attr("op") is None


def test_the_log_decides_no_state(ground: Ground, worker: Worker, talk: str) -> None:
    """TL-14: a whole turn in the log makes no uncertain operation an accepted one, and a log that is gone unmakes no completed one."""
    done, lost = worker.op, ground.worker()
    reach(lost, "dispatched", "second words", account=done.account or "", to=talk)
    lost.dies()
    block = {"kind": "turn", "at": "2026-11-29T13:00:05Z", "words": (),
             "attrs": {"op": lost.id, "user": "68c1d2e3-0000-8000-8000-0000000000aa"}, "state": "completed",
             "sections": [("prompt", "second words"), ("answer", "an answer")]}
    worker.world.logs.append(talk, header={}, blocks=[block])
    reader = ground.worker()
    assert sweep(reader.world, reader.custody, offline=True).counts["uncertain"] == 1
    assert reader.resume(operation=lost.id).slug == "uncertain"
    row = reader.view.operations[lost.id]
    assert row.state == "uncertain" and reader.turns(talk)[-1].attr("op") == lost.id
    doc = reader.document(row)
    assert (doc["exit_code"], doc["state"], doc["sent"], doc["retry"], doc["answer"]) == (40, "uncertain", "unknown", "never", None)
    (ground.path / "home" / "logs" / f"{talk}.log").unlink()
    assert sweep(reader.world, reader.custody, offline=True).failure is None
    row = reader.view.operations[done.operation_id]
    assert row.state == "completed" and reader.document(row)["exit_code"] == 31 and reader.resume(operation=done.operation_id).slug == "ok"


def test_a_real_title_replaces_a_provisional_one_and_no_prompt_replaces_it(ground: Ground, worker: Worker, talk: str) -> None:
    """RG-06."""
    ground.site.world.conversations[talk].data["title"] = "A title given by hand"
    worker.send("second words", to=talk)
    registered = worker.world.registry.get(talk)
    assert registered is not None and registered.title == "A title given by hand"


def test_a_stale_or_missing_copy_is_repaired(ground: Ground, worker: Worker, talk: str) -> None:
    """TL-03, TL-04."""
    path = ground.path / "work" / "ask-gpt" / f"{talk}.log"
    for damage in (path.unlink, lambda: path.write_bytes(b"stale")):
        damage()
        worker.resume(talk)
        assert path.read_bytes() == ground.canonical(talk)


def test_a_folder_that_cannot_be_used_costs_one_warning_and_no_exit(ground: Ground) -> None:
    """TL-17, SE-11."""
    (ground.path / "elsewhere").mkdir()
    (ground.path / "linked").mkdir()
    (ground.path / "linked" / "ask-gpt").symlink_to(ground.path / "elsewhere")
    worker = ground.worker(folder="linked")
    assert worker.send().state == "completed" and len(worker.warnings) == 1 and list((ground.path / "elsewhere").iterdir()) == []
    assert worker.document()["log"] is None and worker.document()["log_canonical"]


# Pace


def test_looking_for_a_message_reads_ten_conversations_a_second_apart(ground: Ground) -> None:
    """On the machine's own clock, which only sleeping moves."""
    writer = ground.worker(gap=Gap(60.0))
    reach(writer, "released", account=f"{FIRST.user_id}/{FIRST.account_id}")
    writer.dies()
    for _ in range(14):
        ground.person("somebody's words")
    reader = ground.worker(gap=Gap(60.0))
    moments: list[float] = []
    reader.on["read"] = lambda: moments.append(ground.time.boottime)
    found = reader.resume(operation=writer.id)
    assert found.slug == "uncertain" and len(moments) == 11  # the list, and ten conversations
    assert all(after - before >= 1.0 for before, after in pairwise(moments[1:]))


def test_a_bare_resume_reads_its_conversation_once(ground: Ground, worker: Worker, talk: str) -> None:
    for _ in range(3):
        foreign(ground, talk)
    reads: list[str] = []
    worker.on["read"] = lambda: reads.append("read")
    assert worker.resume(talk).slug == "ok" and reads == ["read"]
    ground.on("throttled")
    with pytest.raises(Failure) as why:
        worker.resume(talk)
    assert why.value.slug == "rate-limited" and len(reads) <= 2
