"""Front and worker as processes: killed, interrupted, waited for too long, started twice (FW-01 .. FW-06, AD-19, XP-01, XP-06, DU-08)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.crash.harness import Place, alive, until

BEFORE = ["open", "paste"]


def answer(prompt: str) -> str:
    return f"You said:\n\n> {prompt}"


@pytest.mark.parametrize("stage", BEFORE)
def test_a_front_killed_before_the_dispatch_leaves_nothing(place: Place, stage: str) -> None:
    """FW-02."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold=stage)
    worker = command.stands_at(stage)
    command.signal(signal.SIGKILL)
    command.process.wait()
    command.go()
    until(lambda: not alive(worker))
    assert place.state(operation_id) == "stopped" and place.sends == []
    code, doc, _ = place.run("send", "Hello", "--operation-id", operation_id)
    assert (code, doc["state"], len(place.sends)) == (0, "completed", 1)


@pytest.mark.parametrize("stage", ["click", "held", "sent"])
def test_a_front_killed_after_the_dispatch_never_loses_the_answer(place: Place, stage: str) -> None:
    """FW-01: the answer is in the folder and nobody ran anything."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold=stage)
    worker = command.stands_at(stage)
    command.signal(signal.SIGKILL)
    command.process.wait()
    command.go()
    until(place.copies)
    until(lambda: not alive(worker))
    [copy] = place.copies()
    assert "> You said:" in copy.read_text() and copy.read_bytes() == (place.home / "logs" / copy.name).read_bytes()
    assert place.state(operation_id) == "completed" and len(place.sends) == 1


@pytest.mark.parametrize("both", [False, True])
def test_killed_after_the_end_of_the_turn_and_before_anybody_was_told(place: Place, both: bool) -> None:
    """Case 5: whoever runs it again under a new id has seen nothing of the answer."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold="sent")
    worker = command.stands_at("sent")
    command.signal(signal.SIGSTOP)
    command.go()
    until(lambda: place.state(operation_id) == "completed")
    if both:
        os.kill(worker, signal.SIGKILL)
    command.signal(signal.SIGKILL)
    command.process.wait()
    until(lambda: not alive(worker))
    code, doc, _ = place.run("send", "Hello")
    assert (code, doc["error"]["code"], len(place.sends)) == (21, "conflict", 1) and operation_id in doc["error"]["message"]
    assert place.run("resume", operation_id)[0] == 0
    for sends in (2, 3):  # its own front has told of the second
        assert place.run("send", "Hello")[0] == 0 and len(place.sends) == sends


def test_the_worker_is_of_a_session_of_its_own_and_keeps_nothing_of_the_caller(place: Place) -> None:
    """FW-05, FW-01: the whole process group is killed; no pipe, no terminal, working folder `/`."""
    command = place.start("send", "Hello", hold="sent")
    worker = command.stands_at("sent")
    assert os.getsid(worker) == worker != os.getsid(command.process.pid)
    assert os.readlink(f"/proc/{worker}/cwd") == "/"
    fds = []
    for fd in os.listdir(f"/proc/{worker}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it opens and closes its marks meanwhile
            fds.append(os.readlink(f"/proc/{worker}/fd/{fd}"))
    assert not any(fd.startswith("pipe:") for fd in fds)
    assert [os.readlink(f"/proc/{worker}/fd/{fd}") for fd in (0, 1, 2)] == ["/dev/null"] * 3
    assert str(place.work / "ask-gpt") in fds and str(place.work) not in fds
    command.signal(signal.SIGKILL)
    command.go()
    until(place.copies)


# The worker is killed


@pytest.mark.parametrize(("stage", "code", "state"), [
    ("open", 16, "rejected"), ("paste", 16, "rejected"), ("click", 40, "uncertain"), ("held", 40, "uncertain"),
    ("release", 40, "uncertain"), ("read", 30, "accepted")])
def test_a_killed_worker_is_told_within_a_second(place: Place, stage: str, code: int, state: str) -> None:
    """FW-04."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold=stage)
    worker = command.stands_at(stage)
    begun = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    ended, doc, _ = command.end()
    took = time.monotonic() - begun
    assert (ended, doc["exit_code"], doc["state"]) == (code, code, state) and place.state(operation_id) == state
    assert took < 1.5, took  # a second, on a machine that does other things as well
    assert doc["sent"] == {16: "no", 40: "unknown", 30: "yes"}[code] and doc["retry"] == ("safe" if code == 16 else "never")
    assert len(place.sends) == (1 if stage == "read" else 0)
    # The same command again: nothing leaves a second time.
    ended, doc, _ = place.run("send", "Hello", "--operation-id", operation_id)
    assert (ended, len(place.sends)) == ((0, 1) if code == 16 else (code, 1 if stage == "read" else 0))
    if stage == "read":
        ended, doc, _ = place.run("resume", operation_id)
        assert (ended, doc["answer"], doc["state"]) == (0, answer("Hello"), "completed")


def test_a_worker_killed_after_the_release_is_found_by_its_id(place: Place) -> None:
    place.site.world.switches.start("slow-answer", {"seconds": 0.5})
    command = place.start("send", "Hello", hold="sent")
    worker = command.stands_at("sent")
    os.kill(worker, signal.SIGKILL)
    ended, doc, _ = command.end()
    assert ended in (30, 40) and len(place.sends) == 1

    def resumed() -> bool:
        nonlocal doc
        code, doc, _ = place.run("resume", doc["operation_id"])
        return code == 0
    until(resumed)
    assert (doc["answer"], doc["state"], doc["sent"], len(place.sends)) == (answer("Hello"), "completed", "yes", 1)
    [copy] = place.copies()
    assert copy.read_bytes() == (place.home / "logs" / copy.name).read_bytes()


def test_a_worker_killed_at_random_moments(place: Place) -> None:
    """CR-14, GT-05 without the browser: one message id for each operation, and whatever left and was recorded ends completed."""
    chance = random.Random(20261129)
    for round_ in range(3):
        operation_id = place.id()
        command = place.start("send", f"words {round_}", "--operation-id", operation_id)
        worker = command.worker
        moment = time.monotonic() + chance.uniform(0.0, 0.25)
        until(lambda moment=moment: time.monotonic() > moment)
        os.kill(worker, signal.SIGKILL)
        code, doc, err = command.end()
        op = place.view().operations[operation_id]
        assert code == {"completed": 0, "accepted": 30, "uncertain": 40, "rejected": 16}[op.state.value], (doc, err)
        code, doc, _ = place.run("resume" if op.sent != "no" else "send", *([operation_id] if op.sent != "no" else
                             [f"words {round_}", "--operation-id", operation_id]))
        arrived = [s for s in place.sends if s["text"] == f"words {round_}"]
        assert len(arrived) <= 1
        if arrived:
            until(lambda operation_id=operation_id: place.run("resume", operation_id)[0] == 0)
            assert place.state(operation_id) == "completed"
    assert place.run("send", "the last words")[0] == 0


# One id, two ids


def test_six_commands_with_one_id_are_one_request_and_six_equal_answers(place: Place) -> None:
    """AD-19, XP-01."""
    operation_id = place.id()
    commands = [place.start("send", "Hello", "--operation-id", operation_id) for _ in range(6)]
    ends = [command.end() for command in commands]
    assert [code for code, _, _ in ends] == [0] * 6
    documents = [{k: v for k, v in doc.items() if k not in ("log", "warnings", "next")} for _, doc, _ in ends]
    assert all(doc == documents[0] for doc in documents) and documents[0]["answer"] == answer("Hello")
    assert len(place.sends) == 1 and len(place.view().operations) == 1
    assert sum(len([h for h in c.happened() if h == "click"]) for c in commands) == 1


def test_two_commands_of_one_account_are_never_both_between_claim_and_release(place: Place) -> None:
    """XP-02."""
    first = place.start("send", "one", hold="held")
    first.stands_at("held")
    second = place.start("send", "two")
    until(lambda: "session" in second.happened())
    ids = [op.operation_id for op in place.view().operations.values()]
    assert len(ids) == 2
    pause = time.monotonic() + 0.5
    while time.monotonic() < pause:
        states = [op.state.value for op in place.view().operations.values()]
        assert states.count("claimed") + states.count("dispatched") == 1 and "click" not in second.happened()
    first.go()
    assert [first.end()[0], second.end()[0]] == [0, 0]
    assert [s["text"] for s in place.sends] == ["one", "two"]


def test_locks_die_with_their_worker(place: Place) -> None:
    """XP-06, DU-08, case 49."""
    code, doc, _ = place.run("send", "one")
    talk = doc["conversation_id"]
    command = place.start("resume", talk, "two", hold="paste")
    os.kill(command.stands_at("paste"), signal.SIGKILL)
    command.end()
    begun = time.monotonic()
    code, doc, _ = place.run("resume", talk, "three")
    assert (code, doc["answer"]) == (0, answer("three")) and time.monotonic() - begun < 10.0


@pytest.mark.parametrize("stage", ["paste", "held", "sent"])
def test_two_sweeps_at_once_beside_a_live_send(place: Place, stage: str) -> None:
    """DU-11, case 53: one sweeps, the other says so, and neither touches what lives."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold=stage)
    command.stands_at(stage)
    ledger = (place.home / "ledger.jsonl").read_bytes()
    sweeps = [place.start("sweep") for _ in range(2)]
    for code, doc, err in [sweep.end() for sweep in sweeps]:
        assert code == 0 and not any(doc["sweep"]["counts"].values()), (doc, err)
        assert doc["warnings"] in ([], ["another sweep is running; nothing was done here"])
    assert (place.home / "ledger.jsonl").read_bytes() == ledger and place.view().operations[operation_id].sent in ("no", "unknown")
    command.go()
    code, doc, _ = command.end()
    assert (code, doc["answer"], len(place.sends)) == (0, answer("Hello"), 1)
    code, doc, _ = place.run("sweep")
    assert (code, doc["sweep"]["counts"]["ok"]) == (0, 1)


# Signals and patience


@pytest.mark.parametrize(("number", "code", "stage"), [
    (signal.SIGINT, 130, "paste"), (signal.SIGTERM, 143, "paste"), (signal.SIGINT, 130, "held"), (signal.SIGTERM, 143, "sent")])
def test_a_signal_before_the_dispatch_stops_and_after_it_ends_the_patience_alone(
        place: Place, number: signal.Signals, code: int, stage: str) -> None:
    """ST-14."""
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, hold=stage)
    worker = command.stands_at(stage)
    slept = sleeps(command.process.pid)
    command.signal(number)
    if stage == "paste":
        until(lambda: sleeps(command.process.pid) > slept)  # the front has passed it on, and waits for the worker's word
        command.go()
    ended, doc, err = command.end()
    assert (ended, doc["error"]["code"]) == (code, "interrupted" if code == 130 else "terminated")
    assert "operation: " + operation_id in err
    if stage == "paste":
        assert (doc["state"], doc["sent"], doc["retry"], place.sends) == ("stopped", "no", "safe", [])
    else:
        assert (doc["sent"], doc["retry"]) == ("unknown", "never")
        command.go()
        until(lambda: place.state(operation_id) == "completed")
        assert len(place.sends) == 1
    until(lambda: not alive(worker))


def sleeps(pid: int) -> int:
    """How often a process with one thread has gone to sleep, while it sleeps; 0 while it runs."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(status["voluntary_ctxt_switches"]) if status["State"].strip().startswith("S") else 0


@pytest.mark.parametrize(("wait", "code"), [("0", 30), ("0.2", 30)])
def test_patience_ends_and_the_worker_does_not(place: Place, wait: str, code: int) -> None:
    """FW-03: `--wait 0` leaves at the receipt."""
    place.site.world.switches.start("slow-answer", {"seconds": 1.5})
    operation_id = place.id()
    begun = time.monotonic()
    ended, doc, err = place.run("send", "Hello", "--operation-id", operation_id, "--wait", wait)
    assert (ended, doc["state"], doc["sent"], doc["answer"]) == (code, "accepted", "yes", None) and time.monotonic() - begun < 15.0
    assert ["ask-gpt", "resume", operation_id] in doc["next"] and f"resume: ask-gpt resume {doc['conversation_id']}" in err
    ended, doc, _ = place.run("resume", operation_id)
    assert (ended, doc["answer"], len(place.sends)) == (0, answer("Hello"), 1)
    assert len(place.copies()) == 1


def test_patience_ends_before_the_receipt(place: Place) -> None:
    operation_id = place.id()
    command = place.start("send", "Hello", "--operation-id", operation_id, "--wait", "0.3", hold="held")
    ended, doc, err = command.end()
    assert (ended, doc["state"], doc["sent"], doc["retry"]) == (40, "dispatched", "unknown", "never")
    assert "do not resend" in err
    # A second front follows the running worker by its id.
    second = place.start("send", "Hello", "--operation-id", operation_id)
    until(lambda: second.process.poll() is None)
    command.go()
    ended, doc, _ = second.end()
    assert (ended, doc["answer"], len(place.sends)) == (0, answer("Hello"), 1)


def test_queue_wait_ends(place: Place) -> None:
    first = place.start("send", "one", hold="held")
    first.stands_at("held")
    ended, doc, _ = place.run("send", "two", "--queue-wait", "1")
    assert (ended, doc["state"], doc["retry"]) == (10, "rejected", "later")
    first.go()
    assert first.end()[0] == 0 and len(place.sends) == 1


# What the caller gives and takes away


def test_an_open_standard_input_without_data_does_not_hang(place: Place) -> None:
    """Case 43."""
    reader, writer = os.pipe()
    try:
        assert place.run("send", "Hello", stdin=reader)[0] == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_a_closed_standard_output_changes_no_exit_code(place: Place) -> None:
    command = place.start("send", "Hello", hold="sent")
    command.stands_at("sent")
    assert command.process.stdout is not None
    command.process.stdout.close()
    command.process.stdout = None
    command.go()
    assert command.process.wait(20) == 0 and len(place.copies()) == 1


def test_a_home_that_cannot_be_written(place: Place) -> None:
    """Must show: 19, nothing sent, no hang."""
    place.home.mkdir(mode=0o700)
    wrap: tuple[str, ...] = ()
    if os.geteuid() == 0:  # root writes everywhere: a read-only mount of its own
        if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
            pytest.skip("root, and no mount namespace to be had")
        home = str(place.home)
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        wrap = ("unshare", "-m", "sh", "-c", mount, home)
    else:
        place.home.chmod(0o500)
    ended, doc, err = place.run("send", "Hello", wrap=wrap)
    assert (ended, doc["sent"], doc["state"], place.sends) == (19, "no", None, []), err


def test_a_front_that_is_stopped_misses_events_and_nothing_more(place: Place) -> None:
    """A slow reader never holds the worker up, and no event is torn for it."""
    operation_id = place.id()
    command = place.start("send", "practice:markdown " + "long words " * 4000, "--operation-id", operation_id, hold="sent")
    worker = command.stands_at("sent")
    command.signal(signal.SIGSTOP)
    command.go()
    until(lambda: place.state(operation_id) == "completed")
    command.signal(signal.SIGCONT)
    ended, doc, _ = command.end()
    assert (ended, doc["state"]) == (0, "completed") and doc["answer"].startswith("# A heading")
    until(lambda: not alive(worker))
