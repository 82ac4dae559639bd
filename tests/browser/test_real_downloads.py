"""What the model made, brought back by the real commands through a real Chromium: names, bytes, codes, records, memory, kills."""

from __future__ import annotations

import hashlib
import os
import pty
import select
import signal
import time
from pathlib import Path

import pytest

from gptbridge.core.registry import Conversation
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.practice.downloads import generated
from gptbridge.practice.world import FIRST
from tests import made
from tests.browser.real import NEWEST, Desk, Ran, until
from tests.browser.test_real_send import valid

pytestmark = pytest.mark.browser
MB = 10**6
PEAK_KB = 100_000
SOAK = bool(os.environ.get("SOAK_EXAMPLES"))
HUGE = 500 * MB if SOAK else 24 * MB


def knows(desk: Desk, conversation_id: str) -> str:
    """The conversation is in the registry of that home, as an import would have put it there."""
    host = Host(desk.home.env)
    home = open_home(desk.home.env, create=True, host=host)
    try:
        RegistryFile(home, host).put(Conversation(f"{FIRST.user_id}/{FIRST.account_id}", conversation_id, "Files", None, origin="imported"))
    finally:
        home.close()
    return conversation_id


def folder(desk: Desk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (desk.folder / "ask-gpt").iterdir()
            if path.suffix != ".log" and path.name != ".gitignore"}


def lines(ran: Ran, word: str) -> list[str]:
    return [line.removeprefix(f"{word}: ") for line in ran.out.decode().splitlines() if line.startswith(f"{word}: ")]


def test_nine_files_seven_saved_two_reported(desk: Desk) -> None:
    conversation_id = knows(desk, made.nine(desk.site.url))
    first = desk.run("download-attachments", f"{desk.site.url}/c/{conversation_id}")
    assert first.code == 33, first
    assert sorted(lines(first, "saved")) == sorted(f"./ask-gpt/{name}" for name in made.NINE) and not lines(first, "present")
    assert folder(desk) == made.NINE
    assert "failed: image: its link has expired (HTTP 403)" in first.err
    assert "failed: gone.bin: its container is gone (HTTP 410)" in first.err
    assert "2 of 9 files could not be brought back" in first.err and f"Log: ./ask-gpt/{conversation_id}.log" in first.err
    log = desk.log(conversation_id).decode()
    assert log.count("\n## event 1 ") == 1 and log.count('> {"status": "saved"') == 7 and log.count('> {"status": "failed"') == 2

    second = desk.json("download-attachments", conversation_id)
    doc = valid(second)
    assert (second.code, doc["sent"], doc["retry"], doc["operation_id"]) == (33, "no", "safe", None)
    came = [*doc["images"], *doc["files"]]  # type: ignore[misc]
    assert sorted(one["status"] for one in came) == ["failed"] * 2 + ["present"] * 7
    for one in came:
        if one["path"] is not None:
            data = made.NINE[one["path"].removeprefix("./ask-gpt/")]
            assert (one["size"], one["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert doc["next"] == [["ask-gpt", "download-attachments", conversation_id]] and folder(desk) == made.NINE
    assert not desk.site.sends() and desk.log(conversation_id).count(b"\n## event ") == 2


@pytest.mark.sample(1)
@NEWEST
def test_a_send_brings_what_its_answer_made(desk: Desk) -> None:
    ran = desk.run("send", "practice:files please")
    assert ran.code == 0 and ran.out.startswith(b"I made two files"), ran
    names = folder(desk)
    assert len(names) == 3 and {"table.csv", "notes.md"} <= set(names)
    assert all(f"saved: ./ask-gpt/{name}" in ran.err for name in names) and b"saved:" not in ran.out
    operation_id = desk.newest()
    replay = desk.json("send", "practice:files please", "--operation-id", operation_id)
    doc = valid(replay)
    assert [one["path"] for one in doc["files"]] == ["./ask-gpt/table.csv", "./ask-gpt/notes.md"]  # type: ignore[attr-defined]
    assert len(doc["images"]) == 1 and len(desk.site.sends()) == 1  # type: ignore[arg-type]
    shown = desk.json("show", str(doc["conversation_id"])).doc["turns"][0]["files"]
    assert len(shown) == 3
    again = desk.run("download-attachments", str(doc["conversation_id"]), "-q")
    assert again.code == 0 and len(lines(again, "present")) == 3 and not again.err and folder(desk) == names


def test_an_unknown_conversation_is_refused_as_resume_refuses_it(desk: Desk) -> None:
    ran = desk.json("download-attachments", "68c1d2e3-0000-8000-8000-0000000000ff")
    assert (ran.code, valid(ran)["sent"]) == (14, "no")
    assert desk.run("download-attachments", "68c1d2e3-0000-8000-8000-0000000000ff", "a prompt").code == 2


def worker_of(front: int) -> int | None:
    try:
        found = Path(f"/proc/{front}/task/{front}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(found[0]) if found else None


def peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def part(desk: Desk) -> int:
    """Bytes of the part that is being written, 0 for none."""
    found = list((desk.folder / "ask-gpt").glob(".ask-gpt-*.part")) if (desk.folder / "ask-gpt").exists() else []
    return found[0].stat().st_size if found else 0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_huge_file_takes_little_memory_and_survives_a_kill(desk: Desk) -> None:
    conversation_id = knows(desk, made.one(desk.site.url, None, "huge.bin", size=HUGE))
    running = desk.start("download-attachments", conversation_id)
    front = running.process.pid
    until(lambda: part(desk) > HUGE // 4, "a quarter of it", 120.0)
    worker = worker_of(front)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    ran = running.wait()
    assert ran.code == 16 and "huge.bin" not in folder(desk), ran
    assert part(desk) > 0, "what the kill left is hidden"

    running = desk.start("download-attachments", conversation_id)
    front, peaks = running.process.pid, {"front": 0, "worker": 0}
    worker = until(lambda: worker_of(front), "the worker")
    while running.process.poll() is None:
        peaks = {"front": max(peaks["front"], peak_kb(front)), "worker": max(peaks["worker"], peak_kb(worker))}
        time.sleep(0.02)
    ran = running.wait()
    assert ran.code == 0 and lines(ran, "saved") == ["./ask-gpt/huge.bin"], ran
    assert max(peaks.values()) < PEAK_KB, peaks
    wanted, got = hashlib.sha256(), hashlib.sha256()
    for block in generated(HUGE):
        wanted.update(block)
    with open(desk.folder / "ask-gpt" / "huge.bin", "rb") as file:
        while data := file.read(1 << 20):
            got.update(data)
    assert got.digest() == wanted.digest() and part(desk) == 0, "and the part of the killed one is gone"
    print(f"\n{HUGE / MB:.0f} MB in {ran.seconds:.1f} s, peaks {peaks}")


@pytest.mark.parametrize("how", ["ctrl-c", "front killed"])
def test_stopped_in_the_middle(desk: Desk, how: str) -> None:
    """Ctrl-C ends it with 130; a front that dies takes its worker along: nobody waits for these files."""
    conversation_id = knows(desk, made.one(desk.site.url, b"x" * 4_000_000, "long.bin", body="slow", seconds=1.0))
    running = desk.start("download-attachments", conversation_id)
    until(lambda: part(desk) > 0, "its first bytes", 60.0)
    worker = worker_of(running.process.pid)
    if how == "ctrl-c":
        running.process.send_signal(signal.SIGINT)
        assert running.wait().code == 130
    else:
        running.kill()
    until(lambda: worker is None or peak_kb(worker) == 0, "the worker to end", 30.0)
    assert folder(desk) == {}


def test_a_person_at_a_terminal_sees_how_far_it_is(desk: Desk) -> None:
    conversation_id = knows(desk, made.one(desk.site.url, b"x" * 200_000, "long.bin", body="slow", seconds=1.0))
    master, slave = pty.openpty()
    running = desk.start("download-attachments", conversation_id, ways={"stderr": slave})
    os.close(slave)
    said = b""
    ready = select.poll()  # a descriptor of this process may be too high for select()
    ready.register(master, select.POLLIN)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None:
        if ready.poll(200):
            try:
                said += os.read(master, 65536)
            except OSError:
                break
    ran = running.wait()
    os.close(master)
    assert ran.code == 0 and lines(ran, "saved") == ["./ask-gpt/long.bin"]
    assert b"\r" in said and b"% of 0.2 MB  long.bin" in said and said.rstrip().splitlines()[-1].startswith(b"Log: ")
