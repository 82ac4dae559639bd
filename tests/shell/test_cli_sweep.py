"""`sweep` and `bin/ask-gpt-sweep`: what is healed, what is said, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gptbridge.core.ports import Settings
from gptbridge.core.record import encode
from gptbridge.edge.config import Config
from gptbridge.practice.server import PracticeServer
from gptbridge.shell.job import Job, Output
from gptbridge.shell.sweeping import SweepFront

from .practising import VALID, Desk, until
from .seeding import ROOT, Seed, conversation_id


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with PracticeServer() as site:
        site.world.switches.start("slow-answer", {"seconds": 0.0})
        made = Desk(tmp_path, site)
        yield made
        made.tidy()
        assert all(send["copy_of"] is None for send in made.sends)


@pytest.fixture
def seed(tmp_path: Path) -> Seed:
    return Seed(tmp_path / "home")


def test_a_killed_send_is_brought_home(desk: Desk) -> None:
    """GT-05's bins, with real kills: no person is needed where the id is on disk."""
    operation = desk.wreck("words to find", "sent")
    shutil.rmtree(desk.work / "ask-gpt")
    done = desk.run("sweep")
    assert (done.returncode, done.stdout) == (0, b"sweep: 0 uncertain, 1 hydrated, 0 interrupted, 1 ok, 1 recovered, 1 reconciled\n")
    assert not (desk.work / "ask-gpt").exists()
    row = desk.operations()[0]
    assert (row["operation_id"], row["state"], row["sent"]) == (operation, "completed", "yes")
    assert b"words to find" in desk.run("show", operation, "--answer").stdout
    again = desk.document("sweep")
    assert again["sweep"]["rows"] == [] and {k: v for k, v in again["sweep"]["counts"].items() if v} == {"ok": 1}
    quiet = desk.run("sweep", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"") and len(desk.sends) == 1


def test_a_copy_that_lies_in_the_folder_is_kept_up(desk: Desk) -> None:
    """Whoever reads nothing but the folder finds the answer there: one that its command was killed for, too."""
    assert desk.run("send", "the first words").returncode == 0
    conversation = desk.sends[0]["conversation_id"]
    copy = desk.work / "ask-gpt" / f"{conversation}.log"
    log = desk.home / "logs" / copy.name
    copy.write_bytes(copy.read_bytes()[:-40])  # as a killed command leaves it
    log.write_bytes(log.read_bytes()[:-40])
    assert desk.run("sweep").returncode == 0
    assert copy.read_bytes() == log.read_bytes() and copy.read_bytes().endswith(b" -->\n")


def test_a_killed_send_that_never_left_needs_a_person_after_a_while(desk: Desk) -> None:
    operation = desk.wreck("words that stay", "click")
    found = desk.document("sweep")
    assert found["exit_code"] == 0 and found["retry"] == "safe" and found["sweep"]["counts"]["recovered"] == 1
    [row] = found["sweep"]["rows"]
    assert (row["operation_id"], row["state"], row["sent"], row["conversation_id"]) == (operation, "uncertain", "unknown", None)
    assert row["next"] == [["ask-gpt", "ops", "show", operation]] and "before its message id" in row["known"]
    stale = desk.document("sweep", "--stale-after", "0")
    assert (stale["exit_code"], stale["error"]["code"], stale["sent"]) == (3, "findings", "no") and operation in stale["error"]["hint"]
    assert f"ask-gpt ops resolve {operation} --sent (or --not-sent) --because TEXT" in stale["error"]["hint"]
    done = desk.run("sweep", "--stale-after", "0", "-q")
    assert done.returncode == 3 and done.stdout.startswith(f"{operation}\tuncertain\t".encode())
    assert done.stdout.splitlines()[-1].startswith(b"sweep: 1 uncertain (oldest ") and desk.sends == []
    assert desk.document("sweep", "--stale-after", "1d")["exit_code"] == 0


@pytest.mark.parametrize(("scenario", "code"), [("signed-out", 12), ("throttled", 11), ("challenge", 12)])
def test_a_site_that_refuses(desk: Desk, scenario: str, code: int) -> None:
    desk.wreck("words to find", "sent")
    desk.site.world.switches.start(scenario, {})
    found = desk.document("sweep")
    assert found["exit_code"] == code and found["sweep"]["counts"]["recovered"] == 1 and len(found["sweep"]["rows"]) == 1
    offline = desk.document("sweep", "--offline")
    assert offline["exit_code"] == 0 and offline["sweep"]["counts"]["uncertain"] == 1
    desk.site.world.switches.end(scenario)
    assert desk.document("sweep")["sweep"]["counts"]["reconciled"] == 1 and len(desk.sends) == 1


def test_a_second_sweep_says_so_and_a_signal_stops_the_first(desk: Desk) -> None:
    desk.wreck("words to find", "sent")
    first = desk.start("sweep", "--json", hold="open")
    until(lambda: any(line.endswith(" open") for line in desk.seen()))
    second = desk.document("sweep")
    assert second["exit_code"] == 0 and "another sweep is running" in second["warnings"][0]
    plain = desk.run("sweep")
    assert (plain.returncode, plain.stdout) == (0, b"") and b"another sweep is running" in plain.stderr
    first.send_signal(signal.SIGINT)
    Path(f"{desk.marks}.go").touch()
    found = desk.told(desk.end(first))
    assert (found["exit_code"], found["error"]["code"]) == (130, "interrupted")
    assert desk.document("sweep")["sweep"]["counts"]["reconciled"] == 1


def test_a_sweep_beside_a_live_send(desk: Desk) -> None:
    """DU-11."""
    desk.site.world.switches.start("slow-answer", {"seconds": 2.0})
    sending = desk.start("send", "words", "--json")
    desk.reaches("accepted")
    before = (desk.home / "ledger.jsonl").read_bytes()
    found = desk.document("sweep")
    done = {name: count for name, count in found["sweep"]["counts"].items() if count and name != "ok"}  # `ok`: it ended meanwhile
    assert found["exit_code"] == 0 and not done
    assert (desk.home / "ledger.jsonl").read_bytes().startswith(before)
    assert desk.told(desk.end(sending))["exit_code"] == 0 and len(desk.sends) == 1
    [log] = (desk.home / "logs").iterdir()
    assert log.read_bytes().count(b"\n## turn ") == 1


def test_sweeps_all_the_while_four_sends_run(desk: Desk) -> None:
    """DU-11: each completes, with one message and one turn, and no sweep is in any of its records."""
    talk = desk.document("send", "the first")["conversation_id"]
    desk.site.world.switches.start("slow-answer", {"seconds": 2.0})
    sending = [desk.start("send", f"words {number}", "--json") for number in range(3)]
    sending.append(desk.start("resume", talk, "words 3", "--json"))
    sweeps = 0
    while any(process.poll() is None for process in sending):
        began = time.monotonic()
        done = desk.run("sweep", "-q")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
        sweeps += 1
        time.sleep(max(1.0 - (time.monotonic() - began), 0.0))  # one each second
    ends = [desk.told(desk.end(process)) for process in sending]
    assert sweeps >= 2 and all((end["exit_code"], end["state"]) == (0, "completed") for end in ends) and len(desk.sends) == 5
    rows = [json.loads(line) for line in (desk.home / "ledger.jsonl").read_bytes().splitlines()]
    assert {row.get("actor", "worker") for row in rows} == {"worker"}
    for end in ends:
        log = (desk.home / "logs" / f"{end['conversation_id']}.log").read_bytes()
        assert log.count(b"\n## turn ") == (2 if end["conversation_id"] == talk else 1) and b"interrupted" not in log
    assert desk.document("sweep")["exit_code"] == 0


@pytest.mark.parametrize("quiet", [False, True])
def test_busy_windows_are_a_note_for_who_asks_and_nothing_for_a_timer(capfd: pytest.CaptureFixture[str], quiet: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end = {"type": "end", "slug": "ok", "counts": {}, "rows": [], "stale": [], "strange": [], "summary": "sweep: 1 ok",
               "something": False, "elsewhere": False, "busy": "all in use"}
        theirs.sendall(json.dumps(end).encode() + b"\n")
        assert SweepFront(Job("sweep"), Output(quiet=quiet), Config(Settings()), {}, ours, 0, None).run() == 0
    out, err = capfd.readouterr()
    assert (out, err) == (("", "") if quiet else ("sweep: 1 ok\n", "warning: all in use\n"))


def test_every_command_says_that_something_is_uncertain(desk: Desk) -> None:
    """RP-14: one line on standard error, the last, however it ends; not with -q."""
    talk = desk.document("send", "the first")["conversation_id"]
    desk.wreck("words that stay", "click")
    said = b"ask-gpt: 1 uncertain operation: ask-gpt ops list --state uncertain"
    for words in (["send", "other words"], ["resume", talk], ["resume", "0" * 8 + "-0000-4000-8000-" + "0" * 12], ["list"], ["show", talk],
                  ["ops"], ["download-attachments", talk], ["bootstrap-registry"], ["sweep", "--offline"], ["doctor"]):
        done = desk.run(*words)
        assert done.stderr.splitlines()[-1] == said and done.stderr.count(said) == 1, done
    assert said not in desk.run("list", "-q").stderr + desk.run("help", "sweep").stderr + desk.run("--version").stderr


def test_files_of_a_newer_version_are_left_alone(seed: Seed) -> None:
    seed.env["ASKGPT_SITE"] = "https://chatgpt.com"
    path = seed.path / "conversations.jsonl"
    path.write_bytes(encode(1, {"format": "ask-gpt-registry", "version": 2}) + b"a torn end")
    before = path.read_bytes()
    assert seed.document("sweep", "--offline")["exit_code"] == 18 and path.read_bytes() == before
    path.unlink()
    path = seed.path / "ledger.jsonl"
    path.write_bytes(encode(1, {"format": "ask-gpt-ledger", "version": 2, "site": "x"}) + b"a torn end")
    before = path.read_bytes()
    assert seed.document("sweep", "--offline")["exit_code"] == 18 and path.read_bytes() == before
    assert seed.document("ops", "accept-loss", "--because", "x")["exit_code"] in (18, 21) and path.read_bytes() == before


def test_strange_and_damaged_files_are_findings_and_are_named(desk: Desk, tmp_path: Path) -> None:
    talk = desk.document("send", "words to find")["conversation_id"]
    wreck = desk.wreck("words to bring home", "sent")
    log = desk.home / "logs" / f"{talk}.log"
    log.write_bytes(log.read_bytes().replace(b"> words to find", b"> words to fake"))
    damaged = log.read_bytes()
    (tmp_path / "private").write_text("not ours")
    (desk.home / "logs" / "a\x1b[31m.log").symlink_to(tmp_path / "private")
    (desk.home / "spool" / "things").mkdir()
    found = desk.document("sweep")
    counts = found["sweep"]["counts"]
    assert (found["exit_code"], counts["quarantined"], counts["recovered"], counts["reconciled"]) == (3, 2, 1, 1)
    hint = found["error"]["hint"]
    assert "3 strange or damaged files" in found["error"]["message"] and hint.isprintable() is False and "\x1b" not in hint
    assert "quarantine/logs-a__31m.log" in hint and "quarantine/spool-things" in hint and f"logs/{talk}.log, line " in hint
    assert (tmp_path / "private").read_text() == "not ours" and log.read_bytes() == damaged
    quiet = desk.run("sweep", "-q")
    assert quiet.returncode == 3 and quiet.stdout.endswith(b", 2 ok\n")
    assert talk.encode() in quiet.stderr  # said until somebody mends it
    log.unlink()
    assert desk.run("sweep").returncode == 0
    assert log.read_bytes().count(b"\n## turn ") == 1 and wreck in {row["operation_id"] for row in desk.operations("--state", "completed")}


def test_the_timers_command(seed: Seed, tmp_path: Path) -> None:
    """From any folder and through links; silent unless there is something."""
    link = tmp_path / "a link"
    link.symlink_to(ROOT / "bin" / "ask-gpt-sweep")

    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([link, "--offline", *words], cwd=tmp_path, env=seed.env, capture_output=True, timeout=60, check=False)

    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    seed.conversation(1, "a title")
    seed.log(conversation_id(1), {"sections": [("prompt", "p"), ("answer", "a")]})
    log = seed.path / "logs" / f"{conversation_id(1)}.log"
    log.write_bytes(log.read_bytes()[:-40])
    done = run()
    assert (done.returncode, done.stdout) == (0, b"sweep: 0 uncertain, 0 hydrated, 1 interrupted, 0 ok\n")
    assert (run().stdout, run("--json").stderr) == (b"", b"")
    seed.operation(1, "claimed", "dispatched", "uncertain")
    done = run("--json", "--stale-after", "0")
    VALID.validate(json.loads(done.stdout))
    assert done.returncode == 3


def test_what_killed_writers_left_is_removed_after_a_day(seed: Seed) -> None:
    assert seed.document("sweep", "--offline")["exit_code"] == 0
    logs = Path(seed.env["ASKGPT_HOME"]) / "logs"
    old, new = (logs / f".a.log.{digit * 16}.tmp" for digit in "01")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    assert seed.document("sweep", "--offline")["exit_code"] == 0
    assert not old.exists() and new.exists()
