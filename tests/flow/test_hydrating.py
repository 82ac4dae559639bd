"""What a sweep brings home from the site: which conversations it reads, how often, how many, and a home with every kind of wreck."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from gptbridge.core.operation import KEEP_S
from gptbridge.core.pacing import READS_S, Gap
from gptbridge.core.record import SEAL
from gptbridge.core.registry import Conversation
from gptbridge.flow.upkeep import Swept, summary
from tests.flow.test_deciding import killed_at
from tests.flow.test_recovery import reach
from tests.flow.test_upkeep import DAY, WHO, arrived, counted, ended, everything, swept
from tests.flow.world import Ground, Worker


def log_of(ground: Ground, talk: str) -> Path:
    return ground.path / "home" / "logs" / f"{talk}.log"


def talks(worker: Worker, count: int) -> list[str]:
    """That many conversations of ours, which a sweep has read."""
    made = [worker.send(f"words {number}").conversation_id or "" for number in range(count)]
    arrived(worker.ground)
    assert swept(worker).failure is None
    return made


def looked(worker: Worker) -> tuple[Swept, int]:
    """A sweep, and how often it asked the site."""
    before = worker.ground.site.world.reads
    found = swept(worker)
    return found, worker.ground.site.world.reads - before


def idle(worker: Worker) -> None:
    """Another sweep reads the list, once, and changes nothing."""
    before = everything(worker.ground)
    found, reads = looked(worker)
    assert found.failure is None and everything(worker.ground) == before and reads == 1 and counted(found).keys() <= {"ok", "uncertain"}


def test_long_answers_in_every_window_are_no_failure(ground: Ground, worker: Worker) -> None:
    """An hour's thinking is normal: a timer that told it each time would not be read any more. What needs no site is done."""
    [talk] = talks(worker, 1)
    ground.person("said on a phone", to=talk)
    log = log_of(ground, talk)
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])
    with ExitStack() as seats:
        for _ in range(worker.settings.seats):
            seats.enter_context(ground.worker().world.locks.seat())
        begun = ground.time.boottime
        found, reads = looked(worker)
        assert (found.failure, found.findings, reads) == (None, False, 0) and counted(found).keys() == {"interrupted", "sealed", "ok"}
        assert "seats" in found.busy and 60.0 <= ground.time.boottime - begun < 62.0
        again, _ = looked(worker)
        assert not again.something and again.busy
    found, _ = looked(worker)
    assert (found.failure, found.busy, found.counts["hydrated"] >= 1) == (None, "", True)


# A newer update

def test_what_was_said_elsewhere_is_read_once(ground: Ground, worker: Worker) -> None:
    one, other = talks(worker, 2)
    idle(worker)
    ground.person("said on a phone", to=one)
    arrived(ground)
    found, reads = looked(worker)
    assert (found.failure, found.counts["hydrated"], reads) == (None, 1, 2)  # the list, and that conversation
    assert [t.section("prompt") for t in worker.turns(one)] == ["words 0", "said on a phone"] and len(worker.turns(other)) == 1
    assert next(fields.get("conversation_id") for _, fields in worker.world.registry.newest_first()) == one
    idle(worker)


def test_what_the_home_does_not_know_is_not_imported(ground: Ground, worker: Worker) -> None:
    ground.person("somebody's own")
    assert looked(worker) == (Swept(), 0) and worker.browser.seats == []  # an empty home: no window at all
    talks(worker, 1)
    ground.person("somebody's own")
    arrived(ground)
    idle(worker)
    assert len(list(worker.world.logs.names())) == 1


def test_an_imported_conversation_is_read_when_it_changes_and_not_before(ground: Ground, worker: Worker) -> None:
    talk = worker.send("words").conversation_id or ""
    arrived(ground)
    known = worker.world.registry.get(talk)
    assert known is not None
    log_of(ground, talk).unlink()
    (ground.path / "home" / "conversations.jsonl").unlink()
    ground.time.sleep(KEEP_S + 1.0)
    swept(worker, offline=True)  # its operation is forgotten
    worker.world.registry.put(Conversation(WHO, talk, known.title, known.url, origin="imported"))
    idle(worker)
    ground.site.world.conversations[talk].data["update_time"] = ground.time.wall + 1.0
    found, reads = looked(worker)
    assert (found.counts["hydrated"], reads) == (1, 2)
    idle(worker)


def test_titles_come_from_the_list(ground: Ground, worker: Worker) -> None:
    """RG-06: without reading the conversation, and never a worse one."""
    [talk] = talks(worker, 1)
    data = ground.site.world.conversations[talk].data
    data["title"] = "A better title"
    found, reads = looked(worker)
    known = worker.world.registry.get(talk)
    assert reads == 1 and known is not None and (known.title, known.provisional) == ("A better title", False) and not found.something
    for worse in ("New chat", "", None):
        data["title"] = worse
        idle(worker)


def test_a_run_is_bounded_and_paced_and_the_newest_come_first(ground: Ground, worker: Worker) -> None:
    made = [worker.send(f"words {number}").conversation_id or "" for number in range(23)]
    arrived(ground)
    desk = ground.worker(gap=Gap(60.0))
    begun = ground.time.boottime
    found, reads = looked(desk)
    assert found.failure is None and reads == 21 and 20 * READS_S <= ground.time.boottime - begun < 20 * READS_S + 5.0
    read = [talk for talk in made if (known := desk.world.registry.get(talk)) is not None and known.read_at is not None]
    assert read == made[3:]
    newest = [fields.get("conversation_id") for _, fields in desk.world.registry.newest_first()]
    assert newest[:20] == made[:2:-1]
    idle(worker)


def test_what_nobody_can_settle_does_not_keep_the_newest_away(ground: Ground, worker: Worker) -> None:
    made = talks(worker, 24)
    swept(worker)
    swept(worker)
    for number, talk in enumerate(made[:22]):
        common = {"operation_id": f"01KB7X{number:020d}", "epoch": "7.dead", "actor": "worker", "reason": "r"}
        for row in ({"state": "queued", "kind": "resume", "target": talk, "fingerprint": "f" * 64, "attempt": 1, "account": WHO},
                    {"state": "claimed"}, {"state": "dispatched", "user_message_id": f"aaaaaaaa-0000-4000-8000-{number:012x}"},
                    {"state": "uncertain", "actor": "recovery"}):
            worker.world.ledger.transact(lambda view, row=row, common=common: [{**common, **row}])  # type: ignore[misc]
    ground.person("said on a phone", to=made[23])
    arrived(ground)
    found, reads = looked(worker)
    assert found.failure is None and (found.counts["hydrated"], found.counts["uncertain"], reads) == (1, 22, 17)
    assert [t.section("prompt") for t in worker.turns(made[23])] == ["words 23", "said on a phone"]


def test_a_throttle_ends_it_at_once_and_the_rest_comes_later(ground: Ground, worker: Worker) -> None:
    for number in range(4):
        worker.send(f"words {number}")
    arrived(ground)
    asked: list[int] = []

    def third() -> None:  # the list, one conversation, and then too many
        asked.append(1)
        if len(asked) == 3:
            ground.on("throttled", after=0)

    worker.on["read"] = third
    found, reads = looked(worker)
    assert found.failure is not None and found.failure.slug == "rate-limited" and reads == len(asked) == 3
    assert sum("read_at" in fields for _, fields in worker.world.registry.newest_first()) == 1
    ground.off("throttled")
    assert looked(worker)[1] == 4
    idle(worker)


# Interrupted logs

def test_an_interrupted_log_of_a_forgotten_operation(ground: Ground, worker: Worker) -> None:
    """HY-05: the full turn comes, also where the operation was pruned and another sweep has sealed the log."""
    [talk] = talks(worker, 1)
    ground.time.sleep(KEEP_S + 1.0)
    log = log_of(ground, talk)
    log.write_bytes(log.read_bytes()[:-200])
    assert counted(swept(worker, offline=True)) == {"interrupted": 1, "sealed": 1, "pruned": 1}
    found, reads = looked(worker)
    assert (found.failure, found.counts["hydrated"], reads) == (None, 1, 2)
    assert [(t.state, t.attr("supersedes")) for t in worker.turns(talk)] == [("interrupted", None), ("completed", "1")]
    idle(worker)


def test_an_interrupted_log_that_the_site_cannot_complete_is_asked_for_once(ground: Ground, worker: Worker) -> None:
    one, other = talks(worker, 2)
    ground.time.sleep(KEEP_S + 1.0)
    log_of(ground, one).write_bytes(log_of(ground, one).read_bytes()[:-200])
    ground.site.world.conversations[one].visible = False
    found, reads = looked(worker)
    assert (found.failure, found.counts["interrupted"], found.counts["hydrated"], reads) == (None, 1, 0, 2)
    idle(worker)
    assert worker.world.registry.get(other) is not None


def test_a_log_that_was_moved_away_comes_back(ground: Ground, worker: Worker) -> None:
    """As the sweep says of a damaged one: move it away and sweep again."""
    [talk] = talks(worker, 1)
    ground.time.sleep(KEEP_S + 1.0)
    swept(worker, offline=True)
    log = log_of(ground, talk)
    log.write_bytes(log.read_bytes().replace(b"> words 0", b"> words X"))
    assert swept(worker).findings and len(worker.turns(talk)) == 1
    log.rename(ground.path / "kept")
    assert swept(worker).counts["hydrated"] == 1 and worker.turns(talk)[0].section("prompt") == "words 0"
    idle(worker)


def test_one_that_cannot_be_read_hides_no_other(ground: Ground, worker: Worker) -> None:
    one, other = talks(worker, 2)
    for talk in (one, other):
        ground.person("said on a phone", to=talk)
    arrived(ground)
    ground.site.world.conversations[other].data["mapping"] = {}
    found = swept(worker)
    assert found.failure is not None and found.failure.slug == "site-changed" and found.counts["hydrated"] == 1
    assert len(worker.turns(one)) == 2 and len(worker.turns(other)) == 1


# Hints

def test_turns_with_the_same_text_are_hints_and_prove_nothing(ground: Ground, worker: Worker) -> None:
    """HY-12, HY-06, LO-15: killed at the click; somebody sends the same words by hand, before and after."""
    [talk] = talks(worker, 1)
    ground.person("the same words", to=talk)
    ground.time.sleep(3600.0)
    wreck = ground.worker()
    reach(wreck, "dispatched", "the same words", account=WHO, to=talk)
    wreck.dies()
    assert swept(worker, offline=True).rows[0]["next"] == [["ask-gpt", "ops", "show", wreck.id]]
    assert worker.view.operations[wreck.id].looked_at is None  # nobody has looked at the site
    ground.person("the same words", to=talk)
    ground.person("other words", to=talk)
    nodes = ground.site.world.conversations[talk].data["mapping"].values()
    for message in [n["message"] for n in nodes if n["message"] and n["message"]["id"] in ground.by_hand[1:]]:
        message["create_time"] = ground.time.wall  # the site's clock goes with ours
    arrived(ground)
    found = swept(worker)
    [row] = found.rows
    assert found.failure is None and found.counts["hydrated"] == 3
    assert "the same text stands in turn 3 of its conversation" in row["known"] and row["next"][1:] == [
        ["ask-gpt", "show", talk, "--turn", "3"]]
    op = worker.view.operations[wreck.id]
    assert (op.state, op.looked_at is not None) == ("uncertain", True) and all(t.attr("op") != wreck.id for t in worker.turns(talk))
    idle(worker)
    assert swept(worker).rows[0]["known"] == row["known"]


# Every wreck at once

def test_a_home_with_every_kind_of_wreck(ground: Ground, worker: Worker) -> None:
    """One sweep brings each to its end, a second changes nothing, and nothing is sent."""
    home = ground.path / "home"
    ground.time.wall -= KEEP_S + DAY  # the site's own times are real ones
    expired = [*ended(worker, 130), *(worker.send(f"old {number}").operation_id for number in range(2))]
    ground.time.sleep(KEEP_S + DAY)
    torn, whole, foreign, lost = (worker.send(f"words {number}").conversation_id or "" for number in range(4))
    ground.person("said on a phone", to=foreign)
    worker.dies()
    stages = {}
    # Before the claim and after it; before the click; after it without an id, with one, and with one whose message arrived.
    for stage in ("claimed", "paste", "click", "held", "released", "queued"):
        stages[stage] = wreck = ground.worker()
        if stage in ("claimed", "queued"):
            reach(wreck, stage, f"{stage} words", account=WHO)
            wreck.dies()
        else:
            killed_at(wreck, stage, f"{stage} words")
    arrived(ground)
    log_of(ground, torn).write_bytes(log_of(ground, torn).read_bytes()[:-150])
    log_of(ground, lost).unlink()
    for name in ("ledger.jsonl", "conversations.jsonl"):
        with (home / name).open("ab") as file:
            file.write(b'{"seq":99,"sum":"00')
    sends = len(ground.sends)
    desk = ground.worker()
    found = swept(desk)
    state = {stage: desk.view.operations[wreck.id].state for stage, wreck in stages.items()}
    assert state == {"paste": "rejected", "click": "uncertain", "held": "uncertain", "released": "completed", "queued": "rejected",
                     "claimed": "uncertain"}
    assert found.failure is None and not found.findings and counted(found) == {
        "uncertain": 3, "recovered": 2, "reconciled": 1, "hydrated": 4, "interrupted": 1, "sealed": 3, "pruned": 132, "ok": 7}
    assert summary(found) == ("sweep: 3 uncertain (oldest 0s), 4 hydrated, 1 interrupted, 7 ok, 2 recovered, 1 reconciled, 3 sealed, "
                              "132 pruned")
    assert not set(expired) & set(desk.view.operations)
    assert [len(desk.turns(talk)) for talk in (torn, whole, foreign, lost)] == [2, 1, 2, 1]
    assert SEAL in (home / "conversations.jsonl").read_bytes() and (home / "ledger.jsonl").read_bytes().endswith(b"}\n")
    before = everything(ground)
    again = swept(desk)
    assert counted(again) == {"uncertain": 3, "ok": 7} and not again.findings and everything(ground) == before
    assert len(ground.sends) == sends == 2 + 4 + 1 + 1 and os.listdir(home / "logs")
    ground.time.sleep(1000.0)
    assert len(swept(desk, offline=True).stale) == 3
