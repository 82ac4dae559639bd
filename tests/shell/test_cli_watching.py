"""What is seen of a send while it goes on, in real processes: `--events`, `--live`, the status line, and patience (LO, CL-01 .. CL-16)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gptbridge.core.turn import PHASES, TERMINALS, fold
from gptbridge.practice.server import PracticeServer
from gptbridge.shell import topics

from .practising import VALID, Desk, until

LINE = jsonschema.Draft202012Validator(json.loads(topics.data("event.schema.json")))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with PracticeServer() as site:
        desk = Desk(tmp_path, site)
        yield desk
        desk.tidy()


def events_of(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    """Every line of it, checked for what holds of all (LO-01 .. LO-04)."""
    assert done.stdout.isascii() and done.stdout.endswith(b"\n"), done
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(event)[:4] == ["type", "phase", "operation_id", "at"] for event in events), events
    for event in events:
        LINE.validate(event)
    phases = [PHASES.index(event["phase"]) for event in events]
    assert phases == sorted(phases), [event["phase"] for event in events]
    assert [event["type"] in TERMINALS for event in events] == [False] * (len(events) - 1) + [True]
    assert len([event for event in events if event["type"] == "meta"]) <= 1
    VALID.validate(events[-1]["result"])
    assert events[-1]["result"]["exit_code"] == done.returncode
    return events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["state"] if event["type"] == "state" else event["type"] for event in events]


def test_the_events_of_a_send_and_of_its_replays(desk: Desk) -> None:
    (desk.work / "a.txt").write_text("words")
    desk.site.world.switches.start("thinking", {"seconds": 0.3})
    done = desk.run("send", "Hello there", "-f", "a.txt", "--events")
    events = events_of(done)
    result = events[-1]["result"]
    assert kinds(events)[:7] == ["queued", "upload", "upload", "upload", "claimed", "dispatched", "accepted"]
    assert kinds(events)[-3:] == ["response_done", "completed", "done"]
    assert {event["operation_id"] for event in events} == {result["operation_id"]}
    assert fold(events) == (result["thinking"], result["answer"]) == fold(e for e in events if e["type"] != "response_done")
    assert events[-1]["reply"] == {"text": result["answer"], **{key: result[key] for key in
                                   ("thinking", "images", "files", "url", "conversation_id")}}
    lines = done.stderr.decode().splitlines()
    assert [line.split(":")[0] for line in lines] == ["operation", "upload", "upload", "upload", "resume", "Log", "Log"], lines
    for words in (["send", "Hello there", "-f", "a.txt", "--operation-id", result["operation_id"]], ["resume", result["operation_id"]],
                  ["resume", result["conversation_id"]]):
        again = events_of(desk.run(*words, "--events"))
        document = desk.document(*words)
        assert again[-1]["result"] == document and fold(again) == (result["thinking"], result["answer"]), words
        assert again[-1]["type"] == "done" and kinds(again)[-2] == "response_done"
    assert len(desk.sends) == 1


def test_a_thousand_rewrites_fold_to_the_answer(desk: Desk) -> None:
    desk.site.world.switches.start("rewrites", {"count": 1000, "seconds": 1.0})
    events = events_of(desk.run("send", "Hello there, words to be rewritten", "--events"))
    deltas = [event for event in events if event["type"] != "response_done"]
    assert fold(deltas) == fold(events) == ("", events[-1]["result"]["answer"])
    assert kinds(events).count("replace") > 20


def test_every_failure_has_its_one_end(desk: Desk) -> None:
    """LO-08, LO-09, RL-13: class, detail, what was there; the result is what --json says."""
    for words, klass in ((["send", ""], "local"), (["send", "x", "--live"], "local"), (["resume", "0" * 8], "local"),
                         (["send", "x", "--wait", "soon"], "local")):
        [end] = events_of(desk.run(*words, "--events"))
        assert (end["type"], end["class"], end["operation_id"]) == ("error", klass, None) and end["partial"]["phase"] == "attaching"
    desk.site.world.switches.start("failed-turn", {"partial": True})
    end = events_of(desk.run("send", "Hello there, words enough for two halves", "--events"))[-1]
    assert (end["class"], end["result"]["exit_code"], end["partial"]["phase"]) == ("chat", 32, "streaming")
    assert end["partial"]["answer"] == end["result"]["answer"] != ""
    desk.site.world.switches.end("failed-turn")
    desk.site.world.switches.start("site-429", {})
    end = events_of(desk.run("send", "Another", "--events"))[-1]
    assert (end["class"], end["result"]["exit_code"], end["result"]["sent"]) == ("capped", 11, "no")


def test_one_way_to_speak_at_a_time(desk: Desk) -> None:
    """CL-09."""
    for first, second in (("--live", "--json"), ("--events", "--json"), ("--live", "--events")):
        done = desk.run("send", "x", first, second)
        assert done.returncode == 2 and b"exclude each other" in done.stderr and done.stdout.count(b"\n") == 1
    assert desk.run("download-attachments", "0" * 8, "--live").returncode == 2
    assert desk.run("list", "--events").returncode == 2
    assert not desk.sends


def test_live_into_a_pipe_is_plain_and_prints_the_answer_once(desk: Desk) -> None:
    done = desk.run("send", "practice:think Hello", "--live")
    text = done.stdout.decode()
    assert done.returncode == 0 and "\x1b" not in text and text.count("> practice:think Hello") == 1
    assert text.startswith("| **Reading the question**\n| \n| I read") and text.endswith("\n\nYou said:\n\n> practice:think Hello\n")
    quiet = desk.run("send", "practice:escapes", "--live", "-q")
    assert b"\x1b" not in quiet.stdout and "␛1B;[31mred".encode() in quiet.stdout
    assert [line.split(b":")[0] for line in quiet.stderr.splitlines()] == [b"operation"]


def test_a_line_for_each_phase_where_nobody_looks(desk: Desk) -> None:
    done = desk.run("send", "Hello")
    assert [line.removeprefix("phase: ") for line in done.stderr.decode().splitlines() if line.startswith("phase: ")] == [
        "attaching", "submitted", "named", "streaming", "response_done", "collecting"]
    assert done.stdout == b"You said:\n\n> Hello\n" and done.stderr.startswith(b"operation: ")
    assert b"phase" not in desk.run("send", "Hello again", "-q").stderr


def on_a_terminal(desk: Desk, *words: str, env: dict[str, str] | None = None, at: bytes = b"", number: int = 0) -> tuple[int, str]:
    """The exit code, and every byte that it wrote to a terminal of 80 columns; when it has written `at` it gets that signal."""
    main, other = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "tests.fake_cli", *words], env={**desk.env, "TERM": "xterm", **(env or {})},
                               cwd=desk.work, stdin=other, stdout=other, stderr=other, start_new_session=True)
    os.close(other)
    desk.started.append(process)
    said = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
        if number and at in said:
            process.send_signal(number)
            number = 0
    os.close(main)
    return process.wait(30), said.decode()


def test_a_status_line_on_a_terminal_is_wiped_before_anything_else(desk: Desk) -> None:
    desk.site.world.switches.start("thinking", {"seconds": 0.6})
    code, said = on_a_terminal(desk, "send", "Hello there")
    drawn = [part for part in said.replace("\x1b[K", "").split("\r") if part and part[0].isdigit()]
    assert code == 0 and any("thinking: Reading the question" in part for part in drawn), said
    assert "phase: " not in said and "\x1b[2" not in said
    at = said.index("You said:")
    assert said[:at].endswith("\r\x1b[K") and said[at:].startswith("You said:\r\n\r\n> Hello there\r\nLog: ")


@pytest.mark.parametrize(("env", "dim", "moves"), [({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)])
def test_live_on_a_terminal(desk: Desk, env: dict[str, str], dim: bool, moves: bool) -> None:
    desk.site.world.switches.start("rewrites", {"count": 5, "seconds": 0.5})
    code, said = on_a_terminal(desk, "send", "practice:think Hello", "--live", env=env)
    assert code == 0 and ("\x1b[2m" in said, "\x1b[J" in said) == (dim, moves)
    assert ("\x1b" in said) == moves and "| **Reading the question**" in said


def test_ctrl_c_leaves_the_terminal_clean(desk: Desk) -> None:
    """In the middle of a line of thinking: 130, the line is ended, nothing is switched on; the worker goes on."""
    desk.site.world.switches.start("thinking", {"seconds": 2.0})
    code, said = on_a_terminal(desk, "send", "Hello there", "--live", at=b"twice", number=signal.SIGINT)
    assert code == 130 and said.index("twice") < said.index("\r\nask-gpt: ") and said.count("\x1b[2m") == said.count("\x1b[0m")
    desk.reaches("completed")


@pytest.mark.parametrize("hold", ["open", "click"])
def test_a_worker_that_is_stopped_is_not_waited_for_for_ever(desk: Desk, hold: str) -> None:
    """Case 42, of the command's own worker: before the dispatch nothing leaves when it wakes, after it the band is `unknown`."""
    desk.env["ASKGPT_WAIT"] = "1s"
    process = desk.start("send", "Hello there", "--events", "--queue-wait", "1s", hold=hold)
    pid = int(until(lambda: next((line.split()[0] for line in desk.seen() if line.split()[1] == hold), None)))
    os.kill(pid, signal.SIGSTOP)
    try:
        events = events_of(desk.end(process))
    finally:
        Path(str(desk.marks) + ".go").touch()
        os.kill(pid, signal.SIGCONT)
    document = events[-1]["result"]
    assert events[-1]["class"] == "timeout"  # the caller's patience, whatever the worker does
    assert [event["state"] for event in events if event["type"] == "state"][-1] == document["state"]  # also where the front recorded it
    if hold == "open":
        assert (document["exit_code"], document["sent"], document["state"], document["retry"]) == (10, "no", "stopped", "later")
        assert str(pid) in document["error"]["message"] or str(pid) in document["error"]["hint"]
    else:
        assert (document["exit_code"], document["sent"], document["state"]) == (40, "unknown", "dispatched")
    until(lambda: not alive(pid))
    assert not list((desk.home / "reports").glob("*")), "what the front recorded is no surprise to the worker"
    assert len(desk.sends) == (0 if hold == "open" else 1)
    if hold == "open":  # the same command again is a next attempt
        again = desk.document("send", "Hello there", "--operation-id", document["operation_id"])
        assert again["ok"] and len(desk.sends) == 1


@pytest.mark.parametrize("events", [True, False])
def test_a_worker_that_died_after_the_dispatch(desk: Desk, events: bool) -> None:
    """CL-13, CL-14, contract: 40 is of class `browser` where nobody's patience ended; it says not to send again, and where to look."""
    process = desk.start("send", "Hello there", *(["--events"] if events else []), hold="click")
    pid = int(until(lambda: next((line.split()[0] for line in desk.seen() if line.split()[1] == "click"), None)))
    os.kill(pid, signal.SIGKILL)
    done = desk.end(process)
    [row] = desk.operations()
    assert (done.returncode, row["state"], row["sent"], row["retry"]) == (40, "uncertain", "unknown", "never")
    operation = row["operation_id"]
    if events:
        end = events_of(done)[-1]
        assert (end["class"], end["operation_id"]) == ("browser", operation)
        error, after = end["result"]["error"], end["result"]["next"]
        assert after == [["ask-gpt", "ops", "show", operation], ["ask-gpt", "resume", operation]]
        said = f"{error['message']} {error['hint']}"
    else:
        said = done.stderr.decode()
    assert "will not be sent again" in said and "do not resend" in said
    assert "look at the conversation" in said and f"ask-gpt ops show {operation}" in said
    assert not desk.sends


def test_thinking_that_cannot_be_read_is_a_warning_wherever_the_turn_is_shown(desk: Desk) -> None:
    """CL-15, HY-08."""
    first = desk.document("send", "practice:think Hello")
    assert first["thinking"] and first["warnings"] == []
    operation, conversation_id = first["operation_id"], first["conversation_id"]
    for node in desk.site.world.conversations[conversation_id].data["mapping"].values():
        content = (node.get("message") or {}).get("content") or {}
        if content.get("content_type") == "thoughts":
            del content["thoughts"]
    for log in (*(desk.home / "logs").iterdir(), *(desk.work / "ask-gpt").glob("*.log")):
        log.unlink()
    said = "the thinking of this turn is there but could not be read"
    for words in (["resume", conversation_id], ["resume", operation], ["send", "practice:think Hello", "--operation-id", operation]):
        found = desk.document(*words)
        assert (found["exit_code"], found["thinking"], found["answer"]) == (0, "[thinking present but not harvested]", first["answer"])
        assert found["warnings"] == [said], words
        shown = desk.run(*words)
        assert shown.stdout.decode() == first["answer"] + "\n" and shown.stderr.decode().count(f"warning: {said}\n") == 1
        assert said.encode() not in desk.run(*words, "-q").stderr


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_patience_ends_with_what_to_do_next(desk: Desk) -> None:
    """LO-10: exit 30, the worker goes on; following it shows the rest."""
    desk.site.world.switches.start("slow-answer", {"seconds": 8.0})
    events = events_of(desk.run("send", "Hello there", "--wait", "1s", "--events"))
    end = events[-1]
    operation = end["operation_id"]
    assert (end["class"], end["result"]["exit_code"], end["result"]["sent"]) == ("timeout", 30, "yes")
    assert end["result"]["next"] == [["ask-gpt", "resume", operation]] and end["partial"]["phase"] in ("named", "streaming")
    followed = events_of(desk.run("resume", operation, "--events"))
    assert kinds(followed)[0] == "accepted" and followed[-1]["type"] == "done" and len(desk.sends) == 1
    assert fold(followed).answer == "You said:\n\n> Hello there"


def test_a_heartbeat_comes_while_nothing_happens() -> None:
    from gptbridge.core.turn import TurnState
    from gptbridge.shell.event_lines import HEARTBEAT_S, EventLines
    from gptbridge.shell.terminal import Terminal

    reader, writer = os.pipe()
    now = [100.0]
    lines, turn = EventLines(Terminal(out=writer), lambda: now[0]), TurnState()
    assert lines.tick(turn) == HEARTBEAT_S
    now[0] += HEARTBEAT_S
    assert lines.tick(turn) == HEARTBEAT_S
    event = json.loads(os.read(reader, 4096))
    os.close(reader)
    os.close(writer)
    assert (event["type"], event["elapsed_s"], event["phase"], event["operation_id"]) == ("heartbeat", HEARTBEAT_S, "attaching", None)


def test_a_reader_that_stands_still_loses_no_event(desk: Desk) -> None:
    """What it has not taken is told later in one piece; the worker is never held up."""
    desk.site.world.switches.start("rewrites", {"count": 2000, "seconds": 2.0})
    process = desk.start("send", "practice:markdown", "--events")
    desk.reaches("completed")
    events = events_of(desk.end(process))
    assert fold(e for e in events if e["type"] != "response_done") == fold(events) == ("", events[-1]["result"]["answer"])
