"""What the model made comes back, each file by itself (FA-06 .. FA-17, SE-02, SE-13, TL-16; cases 24, 30, 31)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import brought
from gptbridge.core.brought import Brought
from gptbridge.core.errors import Failure
from gptbridge.core.registry import Conversation
from gptbridge.edge.disk import Disk
from tests import made
from tests.edge.crashing import Faulty, Quick
from tests.flow.world import Ground, Worker

ACCOUNT = "user-0000/ba617bc0-627a-5292-87bb-bf2f4c1d54f1"


def knows(worker: Worker, conversation_id: str) -> str:
    """The conversation is in the registry, as one of ours."""
    from gptbridge.practice.world import FIRST

    worker.world.ledger.begin()
    worker.world.registry.put(Conversation(f"{FIRST.user_id}/{FIRST.account_id}", conversation_id, "Files", None))
    return conversation_id


def folder(ground: Ground, name: str = "work") -> dict[str, bytes]:
    """What lies in ./ask-gpt but the log and the .gitignore."""
    place = ground.path / name / "ask-gpt"
    return {path.name: path.read_bytes() for path in place.iterdir() if path.suffix != ".log" and path.name != ".gitignore"}


def statuses(files: list[Brought]) -> dict[str, str]:
    return {one.name: one.status for one in files}


def test_nine_files_over_five_turns(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.nine(ground.url, slow=0.1))
    came = worker.download(conversation_id)
    assert [(one.status, one.name) for one in came] == [
        ("saved", "plot.png"), ("saved", "r.csv"), ("saved", "r.csv"), ("failed", "image"), ("saved", "bashrc.file"),
        ("saved", "donn\u00e9es \u8868.csv"), ("failed", "gone.bin"), ("saved", "notes.pdf"), ("saved", "all.zip")]
    assert folder(ground) == made.NINE
    for one in came:
        if one.path is not None:
            data = made.NINE[one.path.removeprefix("./ask-gpt/")]
            assert (one.size, one.sha256, one.error) == (len(data), made.sha(data), None)
    assert [one.error for one in came if one.status == "failed"] == ["its link has expired (HTTP 403)", "its container is gone (HTTP 410)"]
    lost = brought.missing(came, conversation_id)
    assert lost is not None and lost.exit.code == 33 and "2 of 9" in lost.message
    [event] = [block for block in worker.log(conversation_id).blocks if block.kind == "event"]
    assert brought.of_block(event) == came and event.state == "incomplete" and event.ok
    assert len(worker.turns(conversation_id)) == 5 and ground.copy(conversation_id) == ground.canonical(conversation_id)
    assert not ground.sends and not ground.clicks and "type" not in worker.happened
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (ground.path / "work" / "ask-gpt").iterdir())
    fetches = made.ask(ground.url, "GET", "/practice/files")["fetches"]
    assert not any(fetch["bearer"] for fetch in fetches) and len([f for f in fetches if f["file"] == "file-expired"]) == 2

    # A second run asks for what is missing alone, saves nothing, and says so.
    before = {path: path.stat().st_mtime_ns for path in (ground.path / "work" / "ask-gpt").iterdir() if path.suffix != ".log"}
    again = ground.worker().download(conversation_id)
    assert [one.status for one in again] == [{"saved": "present"}.get(one.status, one.status) for one in came]
    assert before == {path: path.stat().st_mtime_ns for path in before} and folder(ground) == made.NINE
    assert len(made.ask(ground.url, "GET", "/practice/files")["fetches"]) == len(fetches) + 2


def test_events_say_started_and_saved(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.one(ground.url, b"abc"))
    worker.download(conversation_id)
    said = [(event["file"], event["state"], event["path"]) for event in worker.front.of("download")]
    assert said == [("one.bin", "started", None), ("one.bin", "saved", "./ask-gpt/one.bin")]


LINK_FAULTS = {
    "file_not_found": "the site does not have it any more", "ace_pod_expired": "its container is gone", "file_expired": "it has expired",
    "410": "its container is gone", "404": "does not give it (HTTP 404)", "403": "does not give it (HTTP 403)", "422": "(HTTP 422)",
    "500": "(HTTP 500)", "retry": "was not ready", "foreign": "none of the site's", "429": "too many requests"}
BODY_FAULTS = {
    "expired": "its link has expired", "410": "it is gone", "404": "it is gone", "500": "(HTTP 500)",
    "redirect-foreign": "none of the site's", "redirect-loop": "address to address", "drop": "incomplete", "drop-chunked": "incomplete",
    "wrong-length": "incomplete",
    "page": "a page instead of the file"}


@pytest.mark.parametrize(("step", "fault", "reason"), [*(("link", f, r) for f, r in LINK_FAULTS.items()),
                                                       *(("body", f, r) for f, r in BODY_FAULTS.items())])
def test_every_fault_is_that_file_s_alone(ground: Ground, worker: Worker, step: str, fault: str, reason: str) -> None:
    conversation_id = knows(worker, made.one(ground.url, b"x" * 300_000, **{step: fault}))
    [one] = worker.download(conversation_id)
    assert one.status == "failed" and one.path is None and reason in (one.error or ""), one
    assert folder(ground) == {} and "http" not in (one.error or "").replace("HTTP", "")
    assert os.listdir(ground.path / "work" / "ask-gpt").count(f"{conversation_id}.log") == 1


@pytest.mark.parametrize(("step", "fault"), [("link", "retry"), ("link", "500"), ("body", "expired"), ("body", "410"), ("body", "drop"),
                                             ("body", "drop-chunked"), ("body", "500")])
def test_what_fails_once_is_asked_for_anew_once(ground: Ground, worker: Worker, step: str, fault: str) -> None:
    """A link that expired between the two steps, a connection that broke, a file that was not ready."""
    data = os.urandom(200_000)
    conversation_id = knows(worker, made.one(ground.url, data, **{step: fault, f"{step}_times": 1}))
    [one] = worker.download(conversation_id)
    assert one.status == "saved" and folder(ground) == {"one.bin": data}


@pytest.mark.parametrize("way", [{"link": "blob"}, {"body": "redirect-blob"}])
def test_the_other_file_host_gets_no_cookie(ground: Ground, worker: Worker, way: dict[str, str]) -> None:
    """SE-03."""
    conversation_id = knows(worker, made.one(ground.url, b"data", **way))
    [one] = worker.download(conversation_id)
    fetches = made.ask(ground.url, "GET", "/practice/files")["fetches"]
    assert one.status == "saved" and fetches[-1]["host"].startswith("localhost") and not fetches[-1]["cookie"]


def test_a_throttle_ends_the_asking(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.nine(ground.url))
    made.ask(ground.url, "POST", "/practice/scenario", {"name": "download-trouble", "link": "429"})
    reads = made.ask(ground.url, "GET", "/practice/state")["reads"]
    came = worker.download(conversation_id)
    assert {one.status for one in came} == {"failed"} and {one.error for one in came} == {"the site says: too many requests (HTTP 429)"}
    assert made.ask(ground.url, "GET", "/practice/state")["reads"] == reads + 2, "the conversation, and one file"


def test_equal_bytes_are_kept_and_said_once(ground: Ground, worker: Worker) -> None:
    """FA-09, FA-10: the same file linked in two turns, and a file of the user's own under that name."""
    place = ground.path / "work" / "ask-gpt"
    place.mkdir()
    (place / "ONE.bin").write_bytes(b"mine")
    conversation_id = knows(worker, made.one(ground.url, b"theirs", twice=True))
    first, second = worker.download(conversation_id)
    assert (first.status, first.path, second.status, second.path) == ("saved", "./ask-gpt/one-2.bin", "present", "./ask-gpt/one-2.bin")
    assert folder(ground) == {"ONE.bin": b"mine", "one-2.bin": b"theirs"}


def test_names_in_the_way_that_are_no_files(ground: Ground, worker: Worker) -> None:
    """A folder, a link that leads out, a dangling one: each keeps its place."""
    place = ground.path / "work" / "ask-gpt"
    place.mkdir()
    (place / "one.bin").mkdir()
    outside = ground.path / "outside"
    outside.write_bytes(b"x")
    (place / "one-2.bin").symlink_to(outside)
    (place / "one-3.bin").symlink_to(ground.path / "nowhere")
    conversation_id = knows(worker, made.one(ground.url, b"x"))
    [one] = worker.download(conversation_id)
    assert one.path == "./ask-gpt/one-4.bin" and outside.read_bytes() == b"x" and not (ground.path / "nowhere").exists()


def test_a_folder_that_is_a_link_fails_every_file_and_asks_for_none(ground: Ground, worker: Worker) -> None:
    (ground.path / "elsewhere").mkdir()
    (ground.path / "work" / "ask-gpt").symlink_to(ground.path / "elsewhere")
    conversation_id = knows(worker, made.nine(ground.url))
    came = worker.download(conversation_id)
    assert {one.status for one in came} == {"failed"} and all("ask-gpt" in (one.error or "") for one in came)
    assert not made.ask(ground.url, "GET", "/practice/files")["fetches"] and not list((ground.path / "elsewhere").iterdir())
    assert len(worker.turns(conversation_id)) == 5, "the log is what counts"


def test_a_link_that_has_a_name_of_ours(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.one(ground.url, b"x", "AGENTS.md"))
    [one] = worker.download(conversation_id)
    assert (one.path, one.name) == ("./ask-gpt/AGENTS.md.file", "AGENTS.md.file")


@pytest.mark.parametrize("listed", [True, False])
def test_canvas_documents_come_as_text(ground: Ground, worker: Worker, listed: bool) -> None:
    conversation_id = knows(worker, made.canvas(ground.url, listed=listed))
    came = worker.download(conversation_id)
    assert statuses(came) == {"My plan.md": "saved", "conftest.py.file": "saved"} and {one.kind for one in came} == {"canvas"}
    plan = b"# Edited by hand\n" if listed else b"# Better plan\n"
    assert folder(ground) == {"My plan.md": plan, "conftest.py.file": b"print(1)\n"}
    assert statuses(ground.worker().download(conversation_id)) == {"My plan.md": "present", "conftest.py.file": "present"}


class Full(Quick):
    """No room for anything large."""

    def write(self, fd: int, data: bytes) -> int:
        if len(data) > 30_000:
            raise OSError(28, "No space left on device")
        return super().write(fd, data)


def test_a_full_disk_takes_that_one_file(ground: Ground) -> None:
    worker = ground.worker(disk=Full())
    doc_id = knows(worker, made.nine(ground.url, slow=0.1))
    made.sandboxed(ground.url, "file_r1", "/mnt/data/r.csv", os.urandom(40_000), "a1")
    came = worker.download(doc_id)
    assert [one.status for one in came].count("failed") == 3 and "r.csv could not be" in (came[1].error or "")
    assert came[2].path == "./ask-gpt/r.csv" and not [name for name in folder(ground) if name.startswith(".")]


@pytest.mark.parametrize("call", ["fsync", "link", "rename"])
def test_a_call_that_fails_leaves_no_name(ground: Ground, call: str) -> None:
    """Whatever breaks off: a name stands for whole bytes, and the next run brings what is missing."""
    conversation_id = knows(ground.worker(), made.one(ground.url, b"whole"))
    for n in range(1, 12):
        disk = Faulty(call, n, 5)
        worker = ground.worker(disk=disk, folder=f"{call}{n}")
        try:
            [one] = worker.download(conversation_id)
            assert one.status in ("saved", "failed")
        except Failure:
            pass
        found = folder(ground, f"{call}{n}") if (ground.path / f"{call}{n}" / "ask-gpt").exists() else {}
        assert found in ({}, {"one.bin": b"whole"}), (n, found)
        worker.dies()
        after = ground.worker(folder=f"{call}{n}")
        assert after.download(conversation_id)[0].status in ("saved", "present")
        after.dies()
        assert folder(ground, f"{call}{n}") == {"one.bin": b"whole"}


class NoLinks(Quick):
    def link(self, source: str, target: str, dir_fd: int) -> None:
        raise OSError(1, "no hard links here")


def test_a_file_system_without_hard_links(ground: Ground) -> None:
    worker = ground.worker(disk=NoLinks())
    (ground.path / "work" / "ask-gpt").mkdir()
    (ground.path / "work" / "ask-gpt" / "one.bin").write_bytes(b"mine")
    conversation_id = knows(worker, made.one(ground.url, b"theirs"))
    assert worker.download(conversation_id)[0].path == "./ask-gpt/one-2.bin"
    assert folder(ground) == {"one.bin": b"mine", "one-2.bin": b"theirs"}
    with pytest.raises(FileExistsError):
        fd = os.open(ground.path / "work" / "ask-gpt", os.O_RDONLY)
        Disk().rename_new("one-2.bin", "one.bin", fd)


def test_parts_of_the_dead_go_and_those_of_the_living_stay(ground: Ground, worker: Worker) -> None:
    from gptbridge.edge.parts import Arriving

    place = ground.path / "work" / "ask-gpt"
    place.mkdir()
    (place / ".ask-gpt-0123456789abcdef.part").write_bytes(b"half")
    (place / ".ask-gpt-mine.part").write_bytes(b"not ours")
    fd = os.open(place, os.O_RDONLY)
    living = Arriving(Disk(), fd)
    living.write(b"half")
    conversation_id = knows(worker, made.one(ground.url, b"x"))
    worker.download(conversation_id)
    assert set(folder(ground)) == {living.name, ".ask-gpt-mine.part", "one.bin"}
    living.close()
    os.close(fd)
    assert set(folder(ground)) == {".ask-gpt-mine.part", "one.bin"}


def test_the_user_stops_it_and_what_came_stays(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.nine(ground.url, slow=0.1))

    def stop(event: Any) -> None:
        if event["type"] == "download" and event["state"] == "saved":
            worker.front.wish = "interrupt"
    worker.front.says = stop
    with pytest.raises(Failure) as why:
        worker.download(conversation_id)
    assert why.value.slug == "interrupted" and folder(ground) == {"plot.png": made.PICTURE}
    [event] = [block for block in worker.log(conversation_id).blocks if block.kind == "event"]
    assert [one.status for one in brought.of_block(event)] == ["saved"]


def test_a_conversation_that_nobody_knows(ground: Ground, worker: Worker) -> None:
    """FA-07: the not-found error of resume, before any browser."""
    with pytest.raises(Failure) as why:
        worker.download(made.nine(ground.url))
    assert why.value.slug == "unknown-conversation" and "seat" not in worker.happened


def test_another_account_is_signed_in(ground: Ground, worker: Worker) -> None:
    conversation_id = knows(worker, made.nine(ground.url))
    ground.on("other-account")
    with pytest.raises(Failure) as why:
        worker.download(conversation_id)
    assert why.value.slug == "account-mismatch"


# After a turn of our own


def test_a_send_brings_its_own_files(ground: Ground, worker: Worker) -> None:
    op = worker.send("practice:files please")
    doc = worker.document(op)
    assert (op.state, doc["exit_code"], [one["status"] for one in doc["files"] + doc["images"]]) == ("completed", 0, ["saved"] * 3)
    assert sorted(one["name"] for one in doc["files"]) == ["notes.md", "table.csv"] and doc["images"][0]["mime"] == "image/png"
    assert set(folder(ground)) == {one["path"].removeprefix("./ask-gpt/") for one in doc["files"] + doc["images"]}
    [turn] = worker.turns(op.conversation_id or "")
    assert len(brought.of_block(turn)) == 3 and {event["phase"] for event in worker.front.of("download")} == {"collecting"}
    assert worker.document(op, slug=None) == doc, "a replay says the same"


def test_files_that_fail_leave_the_operation_completed(ground: Ground, worker: Worker) -> None:
    """FA-15: 33, the answer is there."""
    ground.on("download-trouble", link="ace_pod_expired")
    op = worker.send("practice:files please")
    doc = worker.document(op)
    assert (op.state, op.slug, doc["exit_code"], doc["sent"], doc["retry"]) == ("completed", "ok", 33, "yes", "never")
    assert doc["answer"].startswith("I made two files") and {one["status"] for one in doc["files"]} == {"failed"}
    assert doc["error"]["code"] == "artifacts-incomplete" and doc["next"] == [["ask-gpt", "download-attachments", op.conversation_id]]
    ground.off("download-trouble")
    assert [one.status for one in ground.worker().download(op.conversation_id or "")] == ["saved"] * 3
    assert worker.document(op)["exit_code"] == 33, "the first outcome again"


def test_a_folder_that_is_none_is_what_the_hint_is_about(ground: Ground, worker: Worker) -> None:
    (ground.path / "work" / "ask-gpt").write_text("a file")
    worker.send("practice:files please")
    doc = worker.document()
    assert doc["exit_code"] == 33 and all(one["error"].startswith("./ask-gpt cannot be used") for one in doc["files"])
    assert doc["error"]["hint"].startswith("make ./ask-gpt a folder of yours")


def test_a_front_that_left_gets_its_files_all_the_same(ground: Ground, worker: Worker) -> None:
    worker.on["sending"] = lambda: setattr(worker.front, "left", True)
    worker.send("practice:files please")
    assert {"table.csv", "notes.md"} <= set(folder(ground))


def test_copies_off_is_about_logs(ground: Ground) -> None:
    worker = ground.worker(copies=False)
    worker.world.logs._copies = None  # type: ignore[attr-defined]
    worker.send("practice:files please")
    assert {"table.csv", "notes.md"} <= set(folder(ground)) and not list((ground.path / "work" / "ask-gpt").glob("*.log"))


def test_a_line_of_another_version_is_skipped() -> None:
    whole = Brought("saved", "./ask-gpt/a", "a", 1, "0" * 64, None, None, "file", "file:x")
    other = json.dumps({"status": "moved", "path": "x"})
    assert brought.parse(f"{other}\n{whole.line}\n[]\nnull\n- old words") == [whole]
    assert Path(whole.path or "").name == "a"
