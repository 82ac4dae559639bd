"""Files with a prompt: what is read, stored and admitted; what the page makes of it; and that nothing is ever sent without its files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.attachments import LARGEST, MOST, read_section
from gptbridge.core.errors import Failure
from gptbridge.core.operation import KEEP_S
from gptbridge.flow import spooling
from gptbridge.flow.upkeep import sweep
from tests.edge.crashing import Faulty
from tests.flow.test_recovery import reach
from tests.flow.world import Ground, Worker


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def given(ground: Ground) -> list[Path]:
    """Two files of one base name, one of no bytes."""
    contents = {"alpha/NOTES.md": b"alpha\n", "beta/NOTES.md": b"beta, and more of it\n", "empty.txt": b""}
    for name, data in contents.items():
        path = ground.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return [ground.path / name for name in contents]


def spool(ground: Ground) -> list[str]:
    return sorted(str(path.relative_to(ground.path / "home" / "spool")) for path in (ground.path / "home" / "spool").rglob("*"))


def stored(ground: Ground) -> list[str]:
    return [name for name in spool(ground) if name.endswith(".file")]


def arrived(ground: Ground) -> list[tuple[str, str, int]]:
    """(name, digest, size) of the newest send's files, as the site has them."""
    return [(file["name"], file["sha256"], file["size"]) for file in ground.sends[-1]["attachments"]]


def fails(worker: Worker, *args: Any, **how: Any) -> Failure:
    with pytest.raises(Failure) as why:
        worker.send(*args, **how)
    return why.value


# The whole way


def test_three_files_reach_the_site_and_are_told_of_everywhere(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """FA-01, FA-03, AD-37, case 28."""
    op = worker.send("Look at these", files=given)
    assert op.state == "completed" and len(ground.sends) == 1 and ground.sends[0]["text"] == "Look at these"
    expected = [("NOTES.md", sha(b"alpha\n"), 6), ("NOTES-2.md", sha(b"beta, and more of it\n"), 21), ("empty.txt", sha(b""), 0)]
    assert arrived(ground) == expected
    rows = [{"name": path.name, "sent_name": name, "size": size, "sha256": digest}
            for path, (name, digest, size) in zip(given, expected, strict=True)]
    document = worker.document()
    assert document["attachments"] == rows
    [turn] = worker.turns(op.conversation_id or "")
    assert read_section(turn.section("attachments")) == rows and turn.section("prompt") == "Look at these"
    assert b"\n### attachments\n\n> {" in ground.copy(op.conversation_id or "")
    queued = next(line for line in ground.ledger_lines() if '"queued"' in line)
    assert str(ground.path) not in queued and '"name":"NOTES.md"' in queued and "sent_name" not in queued
    events = [(event["file"], event["state"]) for event in worker.front.of("upload")]
    assert events == [(name, state) for state in ("queued", "uploading", "attached") for name, _, _ in expected]
    again = ground.worker()
    kept = again.send("Look at these", id=op.operation_id, files=given)
    assert kept.seq >= op.seq and again.document() == {**document, "log": again.document()["log"], "warnings": again.document()["warnings"]}
    assert len(ground.sends) == 1 and again.browser.seats == []
    assert [name for name in spool(ground) if name.endswith(".up")] == [], "what Chrome took them from is gone"
    for path in (ground.path / "home" / "spool").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("prompt", ["", None])
def test_files_alone_and_the_empty_text_and_no_text_are_two_requests(ground: Ground, worker: Worker, given: list[Path],
                                                                     prompt: str | None) -> None:
    """AD-05."""
    op = worker.send(prompt, files=given[:1])
    assert op.state == "completed" and ground.sends[0]["text"] == "" and len(arrived(ground)) == 1
    other = ground.worker()
    assert fails(other, None if prompt == "" else "", id=op.operation_id, files=given[:1]).slug == "conflict"
    registered = worker.world.registry.get(op.conversation_id or "")
    assert registered is not None and len(ground.sends) == 1


def test_files_into_a_known_conversation(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """FA-02."""
    first = worker.send("first")
    second = ground.worker().send("second", to=first.conversation_id or "", files=given)
    assert second.state == "completed" and second.conversation_id == first.conversation_id and len(arrived(ground)) == 3
    third = ground.worker().send("third", to=first.conversation_id or "")
    assert third.state == "completed" and ground.sends[-1]["attachments"] == []


# Admission


def test_other_bytes_are_another_request_and_where_they_lie_is_not(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """AD-09, AD-36."""
    op = worker.send("text", files=given[:1])
    os.utime(given[0], (1, 1))
    assert ground.worker().send("text", id=op.operation_id, files=given[:1]).state == "completed"
    assert fails(ground.worker(), "text", id=op.operation_id, files=given[1:2]).slug == "conflict"
    moved = ground.path / "NOTES.md"
    given[0].rename(moved)
    assert ground.worker().send("text", id=op.operation_id, files=[moved]).state == "completed"
    moved.write_bytes(b"edited")
    assert fails(ground.worker(), "text", id=op.operation_id, files=[moved]).slug == "conflict"
    assert fails(ground.worker(), "text", id=op.operation_id).slug == "conflict"
    assert len(ground.sends) == 1 and len(stored(ground)) <= 1


def test_what_was_admitted_is_sent_whatever_becomes_of_the_file(ground: Ground, given: list[Path]) -> None:
    """AD-36."""
    for change in (lambda path: path.write_bytes(b"edited"), lambda path: path.unlink()):
        path = given[0]
        path.write_bytes(b"alpha\n")
        worker = ground.worker()
        worker.on["seat"] = lambda change=change, path=path: change(path)  # type: ignore[misc]
        op = worker.send(f"text {change}", files=[path])
        assert op.state == "completed" and arrived(ground) == [("NOTES.md", sha(b"alpha\n"), 6)]


def test_a_retry_needs_the_file_no_more(ground: Ground, given: list[Path]) -> None:
    """A next attempt too: its bytes are kept while it may be sent."""
    ground.on("signed-out")
    worker = ground.worker()
    op = worker.send("text", files=given)
    assert op.state == "rejected" and op.admissible and ground.sends == []
    ground.off("signed-out")
    for path in given:
        path.unlink()
    assert sweep(worker.world, worker.custody, offline=True).failure is None
    again = ground.worker()
    assert again.send("text", id=op.operation_id, files=given).state == "completed" and len(arrived(ground)) == 3
    assert ground.worker().send("text", id=op.operation_id, files=given).state == "completed" and len(ground.sends) == 1
    other = ground.path / "other.md"
    assert fails(ground.worker(), "text", id=op.operation_id, files=[*given[:2], other]).slug == "bad-input"


def test_a_known_operation_stores_nothing_and_needs_no_room(ground: Ground, given: list[Path]) -> None:
    """AD-18: a full disk keeps no receipt back, and keeps off no attempt whose bytes are kept."""
    ground.on("signed-out")
    op = ground.worker().send("text", files=given)
    ground.off("signed-out")
    before, full = stored(ground), ground.worker()
    full.machine.room = spooling.ROOM_BYTES - 1
    assert fails(full, "text", files=given).slug == "state-unwritable" and stored(ground) == before
    failure = full.send("text", id=op.operation_id, files=given)  # the attempt itself says what it lacks
    assert (failure.slug, failure.attempt, stored(ground)) == ("state-unwritable", 2, before)
    assert ground.worker().send("text", id=op.operation_id, files=given).state == "completed"
    full = ground.worker()
    full.machine.room = 0
    assert full.send("text", id=op.operation_id, files=given).state == "completed" and len(ground.sends) == 1


def test_an_equal_text_with_other_files_is_not_the_same_request(ground: Ground, given: list[Path]) -> None:
    first = ground.worker()
    reach(first, "held")
    first.dies()
    assert ground.worker().send("Hello", files=given[:1]).state == "completed"
    assert fails(ground.worker(), "Hello").slug == "conflict"


@pytest.mark.parametrize("what", ["gone", "folder", "fifo", "device", "socket", "too large", "unreadable folder"])
def test_what_cannot_be_sent_is_refused_and_nothing_admitted(ground: Ground, worker: Worker, what: str) -> None:
    """SE-12."""
    path = ground.path / "it.md"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path = Path("/dev/zero")
    elif what == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    elif what == "too large":
        with path.open("wb") as file:
            file.truncate(LARGEST + 1)
    elif what == "unreadable folder":
        path = ground.path / "work" / "a file" / "it.md"
        path.parent.parent.mkdir(exist_ok=True)
        path.parent.write_bytes(b"")
    failure = fails(worker, files=[path])
    assert failure.slug == "bad-input" and path.name in failure.message and "nothing was sent" in failure.message
    assert worker.view.operations == {} and worker.browser.seats == [] and spool(ground) == []


def test_too_many(ground: Ground, worker: Worker, given: list[Path]) -> None:
    assert fails(worker, files=[given[0]] * (MOST + 1)).slug == "bad-input" and worker.view.operations == {}
    assert worker.send(files=[given[0]] * MOST).state == "completed" and len({name for name, _, _ in arrived(ground)}) == MOST


def test_a_file_that_changes_while_it_is_read(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """SE-12."""
    given[0].write_bytes(b"x" * 3_000_000)
    room = worker.world.host.free_bytes
    grown: list[int] = []

    def grows() -> int:
        if not grown:
            grown.append(1)
            with given[0].open("ab") as file:
                file.write(b"more")
        return room()

    worker.world.host.free_bytes = grows  # type: ignore[method-assign]
    failure = fails(worker, files=given[:1])
    assert failure.slug == "bad-input" and "changed" in failure.message and worker.view.operations == {} and spool(ground) == []


def test_one_file_in_three_operations_is_stored_once(ground: Ground, given: list[Path]) -> None:
    """FA-05."""
    for n in range(3):
        assert ground.worker().send(f"text {n}", files=[given[0], given[0]]).state == "completed"
        assert stored(ground) == [f"{sha(given[0].read_bytes())}.file"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename", "fsync_dir"])
def test_a_disk_that_fails_while_files_are_stored_leaves_nothing_behind(ground: Ground, given: list[Path], call: str) -> None:
    """19, nothing half-admitted; the same id then sends."""
    ground.worker().dies()
    met = 0
    for n in range(1, 8):
        given[0].write_bytes(b"%d" % n)
        disk = Faulty(call, n, errno.ENOSPC)
        try:
            worker = ground.worker(disk=disk)
        except Failure:
            continue
        before = spool(ground)
        said = ""
        try:
            worker.send(f"text {call} {n}", files=given[:2])
        except Failure as failure:
            said = failure.slug
        row = worker.view.get(worker.id)
        if row is not None and row.claimed:  # the fault came later, or never
            worker.dies()
            break
        assert said == "state-unwritable" or (row is not None and row.error is not None and row.error["slug"] == "state-unwritable")
        met += 1
        assert row is None or (row.state == "rejected" and row.admissible)
        assert row is not None or [name for name in spool(ground) if name not in before] == []
        assert worker.browser.clicks == 0
        worker.dies()
        after = ground.worker()
        assert after.send(f"text {call} {n}", id=worker.id, files=given[:2]).state == "completed"
        after.dies()
    assert met >= 1


def test_no_room_for_the_bytes(ground: Ground, worker: Worker, given: list[Path]) -> None:
    worker.machine.room = 1 << 20
    assert fails(worker, files=given).slug == "state-unwritable" and worker.view.operations == {} and spool(ground) == []


# The page


def test_an_upload_that_never_ends_sends_nothing(ground: Ground, given: list[Path]) -> None:
    """SM-25: a fresh page at most every 15 s, within the caller's patience; then 10."""
    ground.on("upload-stalls")
    worker = ground.worker(queue_wait=200.0)
    opened: list[float] = []
    worker.on["open"] = lambda: opened.append(ground.time.boottime)
    op = worker.send(files=given)
    assert op.state == "rejected" and op.error is not None and op.error["slug"] in ("busy", "browser") and ground.sends == []
    assert ground.clicks == 0 and len(opened) == 3 and all(b - a >= 15.0 for a, b in pairwise(opened))
    ground.off("upload-stalls")
    again = ground.worker()
    assert again.send(id=op.operation_id, files=given).state == "completed" and len(arrived(ground)) == 3


def test_the_callers_patience_ends_while_files_are_uploaded(ground: Ground, given: list[Path]) -> None:
    ground.on("upload-stalls")
    op = ground.worker(queue_wait=20.0).send(files=given)
    assert op.state == "rejected" and op.error is not None and op.error["slug"] == "busy" and "files" in op.error["message"]
    assert ground.sends == [] and ground.clicks == 0


def test_a_stop_while_files_are_uploaded(ground: Ground, worker: Worker, given: list[Path]) -> None:
    ground.on("upload-stalls")
    worker.on["stored"] = lambda: setattr(worker.front, "wish", "interrupt")
    op = worker.send(files=given)
    assert op.state == "stopped" and ground.sends == [] and [name for name in spool(ground) if name.endswith(".up")] == []


@pytest.mark.parametrize(("scenario", "names"), [
    ("upload-no-chip", ["NOTES.md", "NOTES-2.md", "empty.txt"]), ("upload-cut-label", ["NOTES.md", "NOTES-2.md", "empty.txt"]),
    ("upload-renames", ["NOTES(1).md", "NOTES-2(1).md", "empty(1).txt"]),
    ("upload-early-send", ["NOTES.md", "NOTES-2.md", "empty.txt"])])
def test_what_the_page_shows_of_a_file_does_not_decide(ground: Ground, worker: Worker, given: list[Path], scenario: str,
                                                      names: list[str]) -> None:
    """Cases 3 and 29: by the site's own answers, by count and input, never by a label."""
    ground.on(scenario)
    op = worker.send(files=given)
    assert op.state == "completed" and [name for name, _, _ in arrived(ground)] == names
    assert [digest for _, digest, _ in arrived(ground)] == [sha(path.read_bytes()) for path in given]
    assert [row["sent_name"] for row in worker.document()["attachments"]] == names
    assert [row["name"] for row in worker.document()["attachments"]] == [path.name for path in given]


@pytest.mark.parametrize(("scenario", "said"), [("upload-lost", "1 of 3 missing"), ("upload-extra", "1 more than were given")])
def test_a_request_with_other_files_is_not_let_go(ground: Ground, worker: Worker, given: list[Path], scenario: str, said: str) -> None:
    """GT-02."""
    ground.on(scenario)
    op = worker.send(files=given)
    assert op.state == "rejected" and op.error is not None and op.error["slug"] == "site-changed" and said in op.error["message"]
    assert ground.sends == [] and ground.clicks == 1


def test_a_file_that_nobody_gave_is_not_sent_along(ground: Ground, worker: Worker) -> None:
    ground.on("upload-extra")
    op = worker.send("no files")
    assert op.state == "rejected" and op.error is not None and "1 more" in op.error["message"] and ground.sends == []


@pytest.mark.parametrize(("status", "code", "slug"), [
    (413, "file_too_large", "bad-input"), (415, "file_type_not_supported", "bad-input"), (422, "file_zero_bytes", "bad-input"),
    (403, "over_user_quota", "rate-limited"), (429, "too_many_requests", "rate-limited"), (401, "token_expired", "needs-human"),
    (400, "something_new", "site-changed")])
def test_the_sites_refusal_of_a_file(ground: Ground, worker: Worker, given: list[Path], status: int, code: str, slug: str) -> None:
    ground.on("upload-refused", status=status, code=code)
    op = worker.send(files=given)
    assert op.state == "rejected" and op.error is not None and op.error["slug"] == slug and code in op.error["message"]
    assert ground.sends == [] and ground.clicks == 0 and op.admissible


def test_a_file_that_the_site_finds_useless(ground: Ground, worker: Worker, given: list[Path]) -> None:
    ground.on("upload-not-processed", code="file_encrypted")
    op = worker.send(files=given)
    assert op.error is not None and op.error["slug"] == "bad-input" and "file_encrypted" in op.error["message"] and ground.sends == []


def test_the_network_fails_once(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """A fresh page, and no file twice."""
    ground.on("upload-refused", status=503, code="unavailable", times=1)
    op = worker.send(files=given)
    assert op.state == "completed" and len(arrived(ground)) == 3 and len(worker.browser.seats) == 2


def test_files_that_an_earlier_run_left_are_removed_and_a_persons_are_not(ground: Ground, given: list[Path]) -> None:
    """SM-27, CR-19."""
    ground.on("draft-file", name="NOTES.md")
    worker = ground.worker()
    op = worker.send("first")
    assert op.state == "rejected" and op.error is not None and op.error["slug"] == "needs-human" and ground.sends == []
    ground.off("draft-file")
    assert ground.worker().send("second", files=given[:1]).state == "completed"
    ground.on("draft-file", name="NOTES.md")
    third = ground.worker()
    assert third.send("third", files=given[1:2]).state == "completed" and arrived(ground) == [("NOTES.md", sha(given[1].read_bytes()), 21)]
    assert ground.worker().send("fourth").state == "completed" and ground.sends[-1]["attachments"] == []
    ground.on("draft", text="a person's words")
    assert ground.worker().send("fifth").state == "rejected"


def test_a_text_that_is_typed_again_keeps_its_files(ground: Ground, worker: Worker, given: list[Path]) -> None:
    pasted: list[int] = []

    def vanishes() -> None:
        pasted.append(1)
        if len(pasted) == 1:
            ground.site.world.switches.start("truncate-composer", {"at": 2})
        else:
            ground.site.world.switches.end("truncate-composer")

    worker.on["paste"] = vanishes
    op = worker.send("some words", files=given)
    assert op.state == "completed" and ground.sends[0]["text"] == "some words" and len(arrived(ground)) == 3


def test_a_paste_that_becomes_a_file_beside_ours_is_refused(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """Case 8 stays what it was."""
    ground.on("paste-becomes-file", at=3)
    op = worker.send("some words", files=given)
    assert op.state == "rejected" and ground.sends == [] and ground.clicks == 0


# What a crash leaves


@pytest.mark.parametrize("where", ["announcing", "announced", "stored", "ready", "paste"])
def test_killed_at_every_step_of_an_upload(ground: Ground, given: list[Path], where: str) -> None:
    """CR-19: not sent; the next run goes on with a page of its own and what was left is dropped."""
    class Dies(BaseException):
        pass

    worker = ground.worker()

    def die() -> None:
        worker.on.clear()
        raise Dies

    worker.on[where] = die
    worker.world.spool.unstage = lambda operation_id: None  # type: ignore[method-assign]  # a killed process tidies nothing
    with pytest.raises(Dies):
        worker.send(files=given)
    worker.dies()
    assert [name for name in spool(ground) if name.endswith(".up")] and ground.sends == []
    again = ground.worker()
    sweep(again.world, again.custody, offline=True)
    row = again.view.operations[worker.id]
    assert row.state == "rejected" and row.sent == "no" and [name for name in spool(ground) if ".up" in name] == []
    assert again.send(id=worker.id, files=given).state == "completed" and len(arrived(ground)) == 3 and len(ground.sends) == 1


def test_bytes_go_only_when_no_operation_needs_them(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """RE-12."""
    open_ = ground.worker()
    open_.on["held"] = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        open_.send("uncertain", files=given[:1])
    open_.dies()
    done = worker.send("done", files=given[:2])
    assert len(stored(ground)) == 2
    sweep(worker.world, worker.custody, offline=True)
    assert stored(ground) == [f"{sha(given[0].read_bytes())}.file"], "one is needed still"
    assert worker.view.operations[done.operation_id].files is not None
    ground.time.sleep(KEEP_S + 60.0)
    sweep(worker.world, worker.custody, offline=True)
    assert stored(ground) == [f"{sha(given[0].read_bytes())}.file"] and list(worker.view.operations) == [open_.id]


def test_a_crash_before_the_row_leaves_nothing_for_ever(ground: Ground, worker: Worker, given: list[Path]) -> None:
    worker.send("first")
    before = spool(ground)
    size, digest = worker.world.spool.keep([given[1].read_bytes()])
    orphan = worker.machine.ulid()
    worker.world.spool.put(orphan, b"never admitted")
    assert size == 21 and stored(ground) == [f"{digest}.file"] and f"{orphan}.prompt" in spool(ground)
    sweep(ground.worker().world, worker.custody, offline=True)
    assert spool(ground) == before


def test_a_sweep_beside_an_upload_leaves_it_alone(ground: Ground, worker: Worker, given: list[Path]) -> None:
    """DU-11."""
    other = ground.worker()
    seen: list[int] = []

    def swept() -> None:
        sweep(other.world, other.custody, offline=True)
        seen.append(len([name for name in spool(ground) if ".up/" in name]))

    worker.on["stored"] = swept
    assert worker.send(files=given).state == "completed" and seen == [3, 3, 3] and len(arrived(ground)) == 3


def test_a_sweep_drops_the_bytes_of_what_is_never_sent_again(ground: Ground, worker: Worker, given: list[Path]) -> None:
    ground.on("upload-lost")
    assert worker.send(files=given).state == "rejected" and not worker.view.operations[worker.id].admissible
    assert len(stored(ground)) == 3
    spooling.tidy(worker.world)
    assert stored(ground) == []


def test_a_sweep_between_storing_and_admission_is_seen(ground: Ground, worker: Worker, given: list[Path]) -> None:
    other = ground.worker()
    keep = worker.world.spool.keep

    def kept(chunks: Any) -> tuple[int, str]:
        found = keep(chunks)
        spooling.tidy(other.world)
        return found

    worker.world.spool.keep = kept  # type: ignore[method-assign]
    assert fails(worker, files=given).slug == "busy" and worker.view.operations == {}
    worker.world.spool.keep = keep  # type: ignore[method-assign]
    assert worker.send(files=given, id=worker.id).state == "completed"
