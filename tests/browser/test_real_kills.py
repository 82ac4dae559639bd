"""Processes that are killed between click and answer: the front never takes the answer along, the worker never leaves a second message."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.edge import processes
from tests.browser.real import Desk, Home, Running, operation_of, until

pytestmark = pytest.mark.browser


def state_of(home: Home, operation_id: str) -> str:
    return str(home.records(operation_id)[-1]["state"])


def worker_of(home: Home, operation_id: str) -> int:
    return int(home.records(operation_id)[-1]["pid"])


@pytest.fixture
def terminal() -> Iterator[tuple[int, Callable[[], None]]]:
    """(a terminal's descriptor for the command, what closes that terminal)."""
    ours, theirs = os.openpty()
    open_ends = {ours, theirs}

    def close() -> None:
        while open_ends:
            os.close(open_ends.pop())

    try:
        yield theirs, close
    finally:
        close()


def test_a_front_that_is_killed_never_takes_the_answer_along(desk: Desk, tmp_path: Path, terminal: tuple[int, Callable[[], None]]) -> None:
    """By itself, with its process group, and with its terminal: three sends at once, in three windows of one Chrome (FW-01, case 18)."""
    desk.site.scenarios("slow-answer:seconds=6")
    tty, hang_up = terminal
    ends: dict[str, Callable[[Running], None]] = {
        "process": lambda front: os.kill(front.process.pid, signal.SIGKILL),
        "group": lambda front: os.killpg(front.process.pid, signal.SIGKILL),
        "terminal": lambda front: hang_up(),
    }
    fronts: dict[str, tuple[Desk, Running]] = {}
    for name in ends:
        place = Desk(desk.home, tmp_path / name)
        ways: Any = {}
        if name == "terminal":
            ways = {"stdout": tty, "preexec_fn": lambda: fcntl.ioctl(tty, termios.TIOCSCTTY, 0)}
        fronts[name] = place, place.start("send", f"killed by {name}", stdin=tty if ways else None, ways=ways)
    waiting = dict(ends)

    def arrived() -> list[str]:
        texts = {one["text"] for one in desk.site.sends()}
        return [name for name in waiting if f"killed by {name}" in texts]

    while waiting:
        for name in until(arrived, "the messages to reach the site", 40):
            place, front = fronts[name]
            assert not any(b"You said" in data for data in place.copies().values()), "not answered yet"
            waiting.pop(name)(front)
            assert front.process.wait(10) < 0
    operations = {name: operation_of(front) for name, (_, front) in fronts.items()}
    for name, (place, front) in fronts.items():
        front.kill()
        until(lambda place=place: any(b"You said" in data for data in place.copies().values()),
              "the answer in the folder, nobody having run anything", 40)
        copies = place.copies()
        assert len(copies) == 1
        text = next(iter(copies.values()))
        assert f"killed by {name}".encode() in text and b"You said" in text
        assert not any(f"killed by {other}".encode() in text for other in ends if other != name), "its own answer, nobody else's"
        until(lambda name=name: state_of(desk.home, operations[name]) == "completed", "the operation to be completed")
        place.log(next(iter(copies)).removesuffix(".log"))
    assert sorted(one["text"] for one in desk.site.sends()) == sorted(f"killed by {name}" for name in ends)


def test_a_front_that_goes_before_dispatch_cancels(desk: Desk) -> None:
    """Nobody waits any more, so nothing is sent (FW-02); Ctrl-C says so itself, a front that is killed leaves it to the worker."""
    assert desk.run("send", "first").code == 0
    killed = desk.start("send", "never sent", ASKGPT_DISPATCH_GAP="60")
    stopped = desk.start("send", "nor this", ASKGPT_DISPATCH_GAP="60")
    for front in (killed, stopped):
        until(lambda front=front: "rate-limit: waiting" in front.said(), "the wait for the gap", 30)
    operations = [operation_of(front) for front in (killed, stopped)]
    killed.kill()
    stopped.process.send_signal(signal.SIGINT)
    ran = stopped.wait(20)
    assert ran.code == 130 and ran.out == b"", ran
    for operation in operations:
        until(lambda operation=operation: state_of(desk.home, operation) == "stopped", "the operation to be stopped")
        assert desk.operation(operation)["sent"] == "no"
    assert [one["text"] for one in desk.site.sends()] == ["first"]


def test_patience_and_sigterm_after_dispatch(desk: Desk) -> None:
    """The caller leaves, the worker goes on; a second front follows it by the operation's id, or reads its answer back (FW-03)."""
    desk.site.scenarios("slow-answer:seconds=3")
    impatient = desk.start("send", "--wait", "1", "--json", "without patience")
    until(desk.site.sends, "the message to reach the site", 30)
    ended = desk.start("send", "ended by SIGTERM")
    until(lambda: len(desk.site.sends()) == 2, "the other message to reach the site", 30)
    operation = operation_of(ended)
    ended.process.terminate()
    first, second = impatient.wait(20), ended.wait(20)
    assert first.code in (30, 40) and first.doc["answer"] is None and first.doc["retry"] == "never", first
    assert first.doc["sent"] == {30: "yes", 40: "unknown"}[first.code]
    assert second.code == 143 and second.out == b"", second
    followed = desk.json("send", "ended by SIGTERM", "--operation-id", operation)
    assert followed.code == 0 and followed.doc["answer"] == "You said:\n\n> ended by SIGTERM", followed
    read = desk.json("resume", first.doc["operation_id"])
    assert read.code == 0 and read.doc["answer"] == "You said:\n\n> without patience", read
    assert len(desk.site.sends()) == 2


HELD = ("held", lambda record: "user_message_id" in record and record.get("request") is None)
RELEASED = ("released", lambda record: record.get("request") == "released")
ACCEPTED = ("accepted", lambda record: record["state"] == "accepted")


def kill_worker_at(desk: Desk, running: Running, reached: Callable[[dict[str, Any]], bool]) -> str:
    """SIGKILL as soon as such a record is in the ledger; the operation's id.

    Between the record of the held request and its release lies a question to the page, 10 ms and more: the blow nearly always falls there.
    """
    operation = operation_of(running)
    deadline = time.monotonic() + 40
    while not any(map(reached, desk.home.records(operation)[1:])):
        assert time.monotonic() < deadline and running.process.poll() is None, running.said()
        time.sleep(0.0005)
    os.kill(worker_of(desk.home, operation), signal.SIGKILL)
    return operation


RETRIES = ("page-retries:times=3", "send-502:times=1")


@pytest.mark.parametrize(("moment", "scenarios"), [(RELEASED, RETRIES), (ACCEPTED, ())], ids=["released, page retries", "answering"])
def test_a_worker_that_is_killed_never_leaves_a_second_message(desk: Desk, moment: Any, scenarios: tuple[str, ...]) -> None:
    """Just released, while the page tries again by itself, and answering. Its window is closed, and the next command reads it all.

    Where the page retries the message goes into a known conversation and `resume ID` finds it, else into a new one and `resume OPERATION`.
    """
    name, reached = moment
    conversation = desk.json("send", "first").doc["conversation_id"] if scenarios else None
    before = len(desk.site.sends())
    text = f"killed while {name}"
    desk.site.scenarios("slow-answer:seconds=2", *scenarios)
    running = desk.start(*(("resume", conversation) if conversation else ("send",)), text, "--json")
    operation = kill_worker_at(desk, running, reached)
    began = time.monotonic()
    ran = running.wait(10)
    assert time.monotonic() - began < 5, "the front says at once that its worker is gone (FW-04)"
    assert ran.code == (30 if name == "accepted" else 40), ran
    assert ran.doc["sent"] == ("yes" if name == "accepted" else "unknown") and ran.doc["retry"] == "never"
    until(lambda: not desk.home.drivers(), "the dead worker's driver to end")
    until(lambda: not desk.home.windows(), "the dead worker's window to be closed")

    recovered = until(lambda: read_back(desk, conversation or operation), "the answer", 40)
    assert (recovered["operation_id"], recovered["state"], recovered["answer"]) == (operation, "completed", f"You said:\n\n> {text}")
    sends = desk.site.sends()[before:]
    assert [one["message_id"] for one in sends] == [desk.operation(operation)["user_message_id"]], "one message, once"
    assert text.encode() in desk.log(recovered["conversation_id"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("by", ["worker", "reload", "document", "frame"])
def test_a_page_that_haunts_its_site_after_the_worker_died(desk: Desk, by: str) -> None:
    """GT-11: the same send, over and over, from what the page makes anew; the server counts one, and the sweep finds it by its id."""
    desk.site.scenarios("slow-answer:seconds=1")
    desk.site.scenario("page-haunts", by=by)
    running = desk.start("send", f"haunted by {by}", "--json")
    operation = kill_worker_at(desk, running, RELEASED[1])
    assert running.wait(10).code in (30, 40)
    until(lambda: not desk.home.windows(), "the dead worker's window to be closed")
    assert len(desk.site.sends()) == 1
    desk.site.end("page-haunts")

    def found() -> bool:
        assert desk.run("sweep").code == 0
        return bool(desk.operation(operation)["state"] == "completed")

    until(found, "the answer", 60)
    assert [one["message_id"] for one in desk.site.sends()] == [desk.operation(operation)["user_message_id"]]


@pytest.mark.sample(1)
@pytest.mark.parametrize("scenarios", [RETRIES, ()], ids=["page retries", ""])
def test_a_worker_that_is_killed_while_it_holds_the_request_lets_nothing_go(desk: Desk, scenarios: tuple[str, ...]) -> None:
    """The sentry fails what the gate held. Nobody can prove that afterwards, so the row stays uncertain, and a person may say it."""
    desk.site.scenarios(*scenarios)
    running = desk.start("send", f"killed while held, {len(scenarios)} scenarios", "--json")
    operation = kill_worker_at(desk, running, HELD[1])
    ran = running.wait(10)
    assert ran.code == 40 and ran.doc["sent"] == "unknown" and ran.doc["retry"] == "never", ran
    until(lambda: not desk.home.windows(), "the dead worker's window to be closed")
    released = any(map(RELEASED[1], desk.home.records(operation)))  # the blow fell late
    assert len(desk.site.sends()) == (1 if released else 0)
    swept = desk.run("sweep", "--json")
    assert swept.code in (0, 3), swept
    assert desk.operation(operation)["state"] == ("completed" if released else "uncertain")


def read_back(desk: Desk, reference: str) -> dict[str, Any] | None:
    """A bare resume; None while the site still writes the answer."""
    ran = desk.json("resume", reference)
    assert ran.code in (0, 30), ran
    return ran.doc if ran.code == 0 else None


def test_a_browser_that_dies_while_it_answers(desk: Desk) -> None:
    """Case 26, and 39: the next command starts Chrome anew on the profile that the crash left locked, and reads the answer back."""
    desk.site.scenarios("slow-answer:seconds=3")
    running = desk.start("send", "the browser dies", "--json")
    operation = operation_of(running)
    until(lambda: any(map(ACCEPTED[1], desk.home.records(operation)[1:])), "the receipt", 30)
    dead = desk.home.browser()
    os.kill(dead["pid"], signal.SIGKILL)
    ran = running.wait(30)
    assert ran.code == 30 and ran.doc["sent"] == "yes", ran
    conversation = ran.doc["conversation_id"]
    recovered = until(lambda: read_back(desk, conversation), "the answer", 40)
    assert recovered["operation_id"] == operation and recovered["answer"] == "You said:\n\n> the browser dies"
    assert len(desk.site.sends()) == 1
    assert not desk.home.chrome_lives(), "a command that starts Chrome only to read closes it again"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_worker_and_what_it_starts_keep_nothing_of_the_caller(desk: Desk) -> None:
    """FW-05, with its driver and its sentry: another session, working folder `/`, none of the caller's streams; `ops list` shows it."""
    desk.site.scenarios("slow-answer:seconds=4")
    running = desk.start("send", "who keeps what", "--json")
    operation = operation_of(running)
    until(lambda: any(map(ACCEPTED[1], desk.home.records(operation)[1:])), "the receipt", 40)
    worker, front = worker_of(desk.home, operation), running.process.pid
    streams = {os.readlink(f"/proc/{front}/fd/{fd}") for fd in (0, 1, 2)}
    parents = {int(path.parent.name): int(path.read_text().rpartition(")")[2].split()[1]) for path in Path("/proc").glob("[0-9]*/stat")}
    family = [worker]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    lines = [" ".join(processes.command_line(pid)) for pid in family]
    assert any("gptbridge.edge.sentry" in line for line in lines) and any("chromedriver" in line for line in lines)
    for pid in family:
        assert os.readlink(f"/proc/{pid}/cwd") == "/" and os.getsid(pid) != os.getsid(front)
        kept = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
        assert not kept & streams and not any(name.startswith("/dev/pts") for name in kept)
        assert {name for name in kept if name.startswith(str(desk.folder))} <= ({str(desk.folder / "ask-gpt")} if pid == worker else set())
    listed = desk.json("ops", "list").doc["operations"]
    assert [row["state"] for row in listed if row["operation_id"] == operation] == ["accepted"]
    assert running.wait(30).code == 0
    until(lambda: not any(processes.started(pid) for pid in family), "the worker and what it started to end")
