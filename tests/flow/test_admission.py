"""Admission and replay: one id is one request, and what was decided is answered from the ledger (AD-16 .. AD-41)."""

from __future__ import annotations

import errno
import shutil
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.flow.custody import UNRESOLVED, WAITING
from tests.core.test_operation import ulid
from tests.edge.crashing import Faulty, Tap
from tests.flow.world import Ground, Worker

DAY = 86400.0


def fails(worker: Worker, *args: Any, **options: Any) -> Failure:
    with pytest.raises(Failure) as why:
        worker.send(*args, **options)
    return why.value


def dies_and(ground: Ground, worker: Worker) -> Worker:
    worker.dies()
    return ground.worker(folder="elsewhere")


def same(first: dict[str, Any], again: dict[str, Any]) -> bool:
    return {k: v for k, v in first.items() if k not in ("log", "warnings", "next")} == {
        k: v for k, v in again.items() if k not in ("log", "warnings", "next")}


# Replays


@pytest.mark.parametrize("end", ["completed", "failed-turn", "site-429", "swallow-click"])
def test_a_retry_gives_the_first_document_again_without_a_browser_from_any_folder(ground: Ground, worker: Worker, end: str) -> None:
    """AD-16 .. AD-18, AD-22, RL-12."""
    if end != "completed":
        ground.on(end)
    worker.send("Hello there")
    first, lines = worker.document(), ground.ledger_lines()
    other = dies_and(ground, worker)
    ground.on("signed-out")  # also when nobody could send now
    ground.site.world.conversations.clear()
    other.send("Hello there", id=worker.id)
    assert same(first, other.document()) and other.browser.seats == [] and ground.ledger_lines() == lines
    assert other.happened == []


def test_a_retry_of_an_uncertain_one(ground: Ground, worker: Worker) -> None:
    worker.on["click"] = lambda: setattr(worker.seat.gate, "connected", False)
    ground.on("swallow-click")
    worker.send()
    first = worker.document()
    other = dies_and(ground, worker)
    other.send(id=worker.id)
    assert first["exit_code"] == 40 and same(first, other.document()) and other.browser.seats == []


def test_a_retry_while_it_runs_follows_it(ground: Ground, worker: Worker) -> None:
    """CL-10, FW-03: a second command with the id of a running operation."""
    second = ground.worker(folder="elsewhere")
    got: list[Operation] = []
    worker.admit()
    ground.time.at(0.05, lambda: got.append(worker.world.ledger.view().operations[worker.id]))
    # The first one carries it on while the second sleeps.
    from gptbridge.flow.sending import Sending
    ground.time.at(0.15, lambda: Sending(worker.world, worker.custody, worker.op, "Hello").run())
    op = second.send(id=worker.id)
    assert op.state == "completed" and second.browser.seats == [] and len(ground.sends) == 1
    assert same(worker.document(), second.document()) and got


def test_a_follower_admits_the_next_attempt_when_the_first_front_went(ground: Ground, worker: Worker) -> None:
    second = ground.worker()
    worker.admit()
    ground.time.at(1.0, worker.dies)
    op = second.send(id=worker.id)
    assert (op.state, op.attempt, len(ground.sends)) == ("completed", 2, 1)


@pytest.mark.parametrize(("queue_wait", "wait"), [(5.0, 900.0), (900.0, 5.0)])
def test_a_follower_waits_as_long_as_it_was_told(ground: Ground, worker: Worker, queue_wait: float, wait: float) -> None:
    """`--queue-wait` before the dispatch, `--wait` after it."""
    second = ground.worker(queue_wait=queue_wait, wait=wait)
    worker.admit()
    if wait < queue_wait:
        worker.custody.ready(worker.id, "user-0000")
        worker.custody.claim(worker.id, "user-0000", first=lambda view: True)
        worker.custody.dispatch(worker.id)
    begun = ground.time.boottime
    op = second.send(id=worker.id)
    assert 5.0 <= ground.time.boottime - begun < 6.0
    assert second.document(op)["exit_code"] == (10 if queue_wait < wait else 40)


def test_wait_counts_from_the_dispatch_however_short_queue_wait_was(ground: Ground, worker: Worker) -> None:
    second = ground.worker(queue_wait=5.0, wait=50.0)
    worker.admit()
    worker.custody.ready(worker.id, "user-0000")
    worker.custody.claim(worker.id, "user-0000", first=lambda view: True)
    worker.custody.dispatch(worker.id)
    begun = ground.time.boottime
    second.send(id=worker.id)
    assert 50.0 <= ground.time.boottime - begun < 51.0


# Conflicts


def test_another_request_under_a_known_id_is_a_conflict_and_changes_nothing(ground: Ground, worker: Worker) -> None:
    """AD-06 .. AD-08."""
    op = worker.send("Hello there")
    lines, spooled = ground.ledger_lines(), worker.world.spool.prompt(op.operation_id)
    for prompt, to in (("Hello there ", "new"), ("", "new"), ("Hello there", op.conversation_id or "")):
        failure = fails(worker, prompt, id=op.operation_id, to=to)
        assert failure.slug == "conflict" and op.operation_id in failure.message
    assert ground.ledger_lines() == lines and worker.world.spool.prompt(op.operation_id) == spooled == b"Hello there"
    assert len(ground.sends) == 1


def test_the_loser_of_a_race_for_one_id_leaves_the_winners_text_alone(ground: Ground, worker: Worker) -> None:
    other = ground.worker()
    worker.admit("the winner's words")
    for _ in range(2):
        assert fails(other, "the loser's words", id=worker.id).slug == "conflict"
    assert worker.world.spool.prompt(worker.id) == b"the winner's words"


# Age


def test_ids_too_old_and_too_new(ground: Ground, worker: Worker) -> None:
    """AD-31 .. AD-34: no row, no spooled text."""
    now = ground.time.wall
    for at, slug in ((now - 7 * DAY - 1, "expired"), (now + 301, "usage")):
        assert fails(worker, id=ulid(at)).slug == slug
    assert worker.view.operations == {} and not any(name.startswith("spool/") for name in worker.files())
    assert worker.send("old", id=ulid(now - 7 * DAY + 60)).state == "completed"
    assert worker.send("new", id=ulid(now + 290)).state == "completed"
    ground.time.wall += 30 * DAY  # a known id whatever its age
    assert worker.send("old", id=ulid(now - 7 * DAY + 60)).state == "completed" and len(ground.sends) == 2


def test_malformed_ids(ground: Ground, worker: Worker) -> None:
    for bad in ("x", ulid(ground.time.wall).lower(), ulid(ground.time.wall) + "0"):
        assert fails(worker, id=bad).slug == "usage"
    assert not (ground.path / "home" / "ledger.jsonl").exists()


# Room in the line


def test_the_33rd_is_refused_for_ever_with_its_own_code(ground: Ground, worker: Worker) -> None:
    """AD-25 .. AD-29."""
    ids = [worker.admit(f"words {n}").operation_id for n in range(WAITING)]
    second = ground.worker()
    op = second.send("one more")
    assert (op.state, op.slug, op.durable, op.retry) == ("rejected", "queue-full", True, "never")
    assert second.document(op)["exit_code"] == 23 and second.world.spool.prompt(op.operation_id) is None
    assert worker.admit("words 0", id=ids[0]).operation_id == ids[0]  # an identical retry uses no slot
    worker.dies()  # the line drains
    third = ground.worker()
    assert third.send("one more", id=op.operation_id).slug == "queue-full"
    assert third.send("one more after that").state == "completed" and len(ground.sends) == 1


def test_other_accounts_have_lines_of_their_own(ground: Ground, worker: Worker) -> None:
    """AD-25: for new conversations 32 wait for each account."""
    for n in range(WAITING):
        worker.admit(f"words {n}", account="user-0000")
    second = ground.worker()
    assert second.admit("for another account", account="user-0001").state == "queued"
    assert second.admit("for the same one", account="user-0000").state == "rejected"


def test_other_conversations_have_lines_of_their_own(ground: Ground, worker: Worker) -> None:
    first = worker.send("first")
    for n in range(WAITING):
        worker.admit(f"words {n}")
    second = ground.worker()
    assert second.admit("into a conversation", to=first.conversation_id or "").state == "queued"
    assert second.admit("for a new one").state == "rejected"
    # An account that is not known yet counts with every account.
    assert second.admit("for a known account", account="user-0000").state == "rejected"


def test_a_thousand_unresolved_ones(ground: Ground, worker: Worker) -> None:
    def many(view: object) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for n in range(UNRESOLVED):
            operation_id = ulid(ground.time.wall, f"{n:016d}")
            rows.append({"operation_id": operation_id, "state": "queued", "epoch": worker.world.owner.epoch, "actor": "worker",
                         "reason": "r", "target": f"c{n}", "attempt": 1})
        return rows
    worker.world.ledger.transact(many)
    second = ground.worker()
    assert fails(second).slug == "queue-full" and second.browser.seats == []


# Failures of admission


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "fsync_dir", "open"])
def test_an_admission_that_fails_leaves_no_row_and_no_text_and_the_same_id_then_sends(ground: Ground, call: str) -> None:
    """AD-21, DU-04."""
    met = 0
    for n in range(1, 6):
        ground.worker().dies()
        home = ground.path / "home"
        disk = Faulty(call, n, errno.ENOSPC)
        try:
            worker = ground.worker(disk=disk)
        except Failure as failure:  # the home itself could not be opened: nothing was admitted
            assert failure.slug == "state-unwritable"
            met += 1
            continue
        before = worker.files()
        try:
            worker.admit(f"words {call} {n}")
        except Failure as failure:
            met += 1
            assert failure.slug == "state-unwritable"
            row = worker.view.get(worker.id)
            # A record whose fsync failed is readable: it may stay, but neither waits nor counts as admitted.
            assert row is None or (row.state == "rejected" and row.admissible and call in ("fsync", "fsync_dir")), (n, row)
            left = [name for name in worker.files() if name not in before and name != "ledger.jsonl"]
            assert row is not None or left == [], (n, left)
        worker.dies()
        after = ground.worker()
        assert after.send(f"words {call} {n}", id=worker.id).state == "completed", n
        after.dies()
        shutil.rmtree(home)
    assert met >= 1


def test_a_home_of_another_site_is_refused(ground: Ground, worker: Worker) -> None:
    """SE-09."""
    worker.send()
    other = ground.worker()
    other.world.ledger._site = "https://chatgpt.com"  # type: ignore[attr-defined]
    failure = fails(other)
    assert failure.slug == "bad-config" and ground.url in failure.message
    other.dies()


# Damage


def test_a_ledger_that_lost_an_acknowledged_record_refuses_to_send(ground: Ground, worker: Worker) -> None:
    """DU-03: a tail cut above the stamp's number, a line gone, a line changed."""
    worker.send("one")
    worker.dies()
    path = ground.path / "home" / "ledger.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for damage in (b"".join(lines[:-1]), b"".join(lines[:3] + lines[4:]), whole.replace(b"claimed", b"claimet"),
                   whole[:200] + b"\0" * 20 + whole[220:]):
        path.write_bytes(damage)
        other = ground.worker()
        failure = fails(other, "two")
        assert failure.slug == "state-corrupt" and "ledger.jsonl" in failure.message and other.browser.clicks == 0
        other.dies()
    path.write_bytes(whole + b'{"seq":99,"torn')  # never acknowledged: sealed, said, harmless
    other = ground.worker()
    assert other.send("two").state == "completed" and any("sealed" in w for w in other.warnings)
    assert len(ground.sends) == 2


@pytest.mark.parametrize("left", ["logs", "failed", "spool", "registry"])
def test_a_home_that_has_had_a_ledger_is_no_fresh_one(ground: Ground, worker: Worker, left: str) -> None:
    """Ledger and stamp are gone: one thing that was only ever written after a record is enough to know it."""
    if left == "failed":
        ground.on("swallow-click")
    op = worker.send("one")
    worker.dies()
    home = ground.path / "home"
    (home / "ledger.jsonl").unlink()
    (home / "dispatch.stamp").unlink()
    places = {"logs": home / "logs" / f"{op.conversation_id}.log", "failed": home / "logs" / f"failed-{op.operation_id}.log",
              "spool": home / "spool" / f"{op.operation_id}.prompt", "registry": home / "conversations.jsonl"}
    assert places[left].exists()
    for name, path in places.items():
        if name != left:
            path.unlink(missing_ok=True)
    other = ground.worker()
    for empty in (False, True):
        if empty:
            (home / "ledger.jsonl").write_bytes(b"")
        failure = fails(other, "two")
        assert failure.slug == "state-corrupt" and "accept-loss" in failure.hint and other.browser.seats == []
        assert fails(other, "one", id=op.operation_id).slug == "state-corrupt"
        with pytest.raises(Failure):
            other.view  # noqa: B018  nobody is shown an empty ledger either
        assert other.world.ledger.is_damaged()  # type: ignore[attr-defined]
    other.world.ledger.accept_loss("deleted")  # type: ignore[attr-defined]
    ground.time.sleep(301.0)
    if left == "failed":
        ground.off("swallow-click")
    assert fails(other, "one", id=op.operation_id).slug == "expired"
    assert other.send("two").state == "completed"


def test_conversations_of_others_are_no_trace_of_operations(ground: Ground, worker: Worker) -> None:
    """A home that only imported and read is a fresh one for its first message."""
    from gptbridge.core.registry import Conversation

    op = worker.send("one")
    talk = op.conversation_id or ""
    log = ground.canonical(talk)
    home = ground.path / "home"
    worker.dies()
    shutil.rmtree(home)
    other = ground.worker()
    row = Conversation(op.account or "", talk, "imported", f"{ground.url}/c/{talk}", origin="imported")
    other.world.registry.put(row)
    (home / "logs" / f"{talk}.log").write_bytes(log.replace(f"op={op.operation_id} ".encode(), b""))
    assert other.send("two", to=talk).state == "completed"


def test_no_text_of_an_operation_is_on_the_disk_before_the_ledgers_first_record(ground: Ground) -> None:
    """Else a crash between the two would make a fresh home look like one that lost its ledger."""
    seen: list[bool] = []

    def on(name: str, args: tuple[Any, ...]) -> None:
        if name == "rename" and args[1].endswith(".prompt"):
            seen.append((ground.path / "home" / "ledger.jsonl").read_bytes().count(b"\n") == 1)

    worker = ground.worker(disk=Tap(on))
    assert worker.send("one").state == "completed" and seen == [True]


def test_a_stamp_that_cannot_be_read_refuses_to_send(ground: Ground, worker: Worker) -> None:
    worker.send("one")
    (ground.path / "home" / "dispatch.stamp").write_bytes(b"{}")
    assert fails(ground.worker(), "two").slug == "state-corrupt" and len(ground.sends) == 1


def test_a_disk_that_fails_right_after_the_admission_settles_the_row(ground: Ground, worker: Worker) -> None:
    """19 beside `rejected`: no row waits in line for a process that gave up."""
    def full() -> None:
        raise Failure("state-unwritable", "No space left on device", "make room")

    worker.world.logs.prepare = full  # type: ignore[method-assign]
    op = worker.send()
    assert (op.state, op.slug, op.admissible, op.retry) == ("rejected", "state-unwritable", True, "after-fix")
    assert worker.browser.seats == [] and ground.worker().send(id=op.operation_id).state == "completed" and len(ground.sends) == 1
