"""`ops` where it changes something, and `--again`: real processes, a live worker, the practice server's own count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.practice.server import PracticeServer
from tests.edge.crashing import Quick

from .practising import VALID, Desk, until
from .seeding import Seed, conversation_id, ulid


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


def told(seed: Seed, *words: str) -> dict[str, Any]:
    found = seed.document(*words)
    VALID.validate(found)
    return found


# Stop

def test_stop_of_one_that_waits_for_the_gap(desk: Desk) -> None:
    """ST-04, ST-13, ST-17: at once, for ever, and nothing left."""
    assert desk.run("send", "first").returncode == 0
    desk.env["ASKGPT_DISPATCH_GAP"] = "60"
    waiting = desk.start("send", "second", "--json")
    operation = desk.reaches("queued")
    done = desk.run("ops", "stop", operation)
    assert (done.returncode, done.stdout) == (0, b"stopped\n")
    found = desk.told(desk.end(waiting))
    assert (found["exit_code"], found["sent"], found["retry"], found["state"]) == (24, "no", "never", "stopped")
    again = desk.document("ops", "stop", operation)
    assert again["stop"] == "stopped" and again["operations"][0]["state"] == "stopped" and again["operations"][0]["admission"] == "accepted"
    replay = desk.document("send", "second", "--operation-id", operation)
    assert replay["exit_code"] == 24 and len(desk.sends) == 1
    assert b"stop asked for" in desk.run("ops", "show", operation).stdout


def test_stop_at_the_gate(desk: Desk) -> None:
    held = desk.start("send", "words", "--json", hold="held")
    until(lambda: any(line.endswith(" held") for line in desk.seen()))
    operation = desk.operations()[0]["operation_id"]
    stopping = desk.start("ops", "stop", operation)
    until(lambda: b'"stop_phase":"pending"' in (desk.home / "ledger.jsonl").read_bytes())
    Path(f"{desk.marks}.go").touch()
    assert desk.end(stopping).stdout == b"stopped\n"
    found = desk.told(desk.end(held))
    assert (found["exit_code"], found["sent"], found["retry"], desk.sends) == (24, "no", "never", [])


def test_stop_of_an_answer_that_comes(desk: Desk) -> None:
    """ST-05, ST-07 .. ST-09: the page's own stop, once, confirmed by the site."""
    desk.site.world.switches.start("slow-answer", {"seconds": 30.0})
    sending = desk.start("send", "practice:slow words", "--json")
    operation = desk.reaches("accepted")
    found = desk.document("ops", "stop", operation)
    row = found["operations"][0]
    assert (found["stop"], row["stop_phase"], row["sent"], row["turn"]) == ("stop-pressed", "confirmed", "yes", "stopped")
    ended = desk.told(desk.end(sending))
    assert ended["exit_code"] in (0, 31) and ended["sent"] == "yes" and ended["warnings"]
    shown = desk.operations("show", operation)[0]
    assert [entry["reason"] for entry in shown["history"]].count("pressing the page's stop") == 1
    assert desk.run("ops", "stop", operation).stdout == b"stop-pressed\n"
    assert b"stop: confirmed" in desk.run("ops", "show", operation).stdout


def test_stop_of_a_conversation(desk: Desk) -> None:
    """ST-19."""
    conversation = desk.document("send", "first")["conversation_id"]
    desk.env["ASKGPT_DISPATCH_GAP"] = "60"
    waiting = desk.start("resume", conversation, "second", "--json")
    operation = desk.reaches("queued")
    found = desk.document("ops", "stop", "--conversation", conversation)
    assert found["stop"] == "stopped" and [row["operation_id"] for row in found["operations"]] == [operation]
    assert found["operations"][0]["stop"] == "stopped" and desk.told(desk.end(waiting))["exit_code"] == 24
    done = desk.run("ops", "stop", "--conversation", f"{desk.site.url}/c/{conversation}")
    assert (done.returncode, done.stdout) == (0, b"not-running\n") and len(desk.sends) == 1


def test_stop_of_what_is_not_there_makes_nothing(seed: Seed, tmp_path: Path) -> None:
    for words in (["ops", "stop", ulid(7)], ["ops", "stop", "--conversation", conversation_id(7)]):
        found = told(seed, *words)
        assert (found["exit_code"], found["sent"]) == (17, "no")
    assert told(seed, "ops", "stop", "--conversation", ulid(7))["exit_code"] == 2
    seed.env["ASKGPT_HOME"] = str(tmp_path / "none")
    assert told(seed, "ops", "stop", ulid(7))["exit_code"] == 17 and told(seed, "ops", "accept-loss", "--because", "x")["exit_code"] == 21
    assert not (tmp_path / "none").exists()


# Resolve

def test_resolve(seed: Seed) -> None:
    """SM-23, RP-10, RP-11, RP-13."""
    gone, sent, early = (seed.operation(1, "claimed", "dispatched", "uncertain"), seed.operation(2, "claimed", "dispatched", "uncertain"),
                         seed.operation(3, "claimed", "uncertain"))
    found = told(seed, "ops", "resolve", gone, "--not-sent", "--because", "I looked at the list")
    row = found["operations"][0]
    assert (row["state"], row["sent"], row["retry"]) == ("rejected", "no", "never")
    assert (row["history"][-1]["actor"], row["history"][-1]["reason"]) == ("person", "I looked at the list")
    done = seed.run("ops", "resolve", sent, "--sent", "--conversation", conversation_id(9), "--because", "I\x1b[31m saw it")
    assert done.returncode == 0 and done.stdout.split(b"\t")[:3] == [sent.encode(), b"accepted", b"sent=yes"]
    assert told(seed, "ops", "show", sent)["operations"][0]["conversation_id"] == conversation_id(9)
    assert told(seed, "ops", "resolve", early, "--sent", "--because", "x")["exit_code"] == 21
    assert told(seed, "ops", "resolve", early, "--not-sent", "--because", "x")["exit_code"] == 0
    for operation in (gone, sent, early):
        again = told(seed, "ops", "resolve", operation, "--not-sent", "--because", "x")
        assert (again["exit_code"], again["retry"], again["error"]["code"]) == (21, "never", "conflict")
    assert told(seed, "ops", "resolve", ulid(9), "--sent", "--because", "x")["exit_code"] == 17


# Accepted losses

def test_accept_loss(desk: Desk) -> None:
    """DU-13."""
    before = desk.document("send", "first")["operation_id"]
    assert desk.document("ops", "accept-loss", "--because", "no reason")["exit_code"] == 21
    ledger = desk.home / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:3] + lines[4:]))
    broken = desk.document("send", "second")
    assert broken["exit_code"] == 18 and "line 4" in broken["error"]["message"] and "accept-loss" in broken["error"]["hint"]
    assert desk.document("send", "first", "--operation-id", before)["exit_code"] == 40  # the id is given and cannot be looked up
    assert desk.document("ops", "stop", before)["exit_code"] == 40
    found = desk.document("ops", "accept-loss", "--because", "disk broke")
    assert found["exit_code"] == 0 and found["operations"] == []
    fresh = desk.document("send", "second")
    assert (fresh["exit_code"], fresh["retry"], fresh["operation_id"]) == (10, "later", None)
    assert desk.document("send", "third", "--operation-id", ulid(1).replace("01KB7X", "01KA7X"))["exit_code"] == 41
    assert desk.document("ops", "accept-loss", "--because", "again")["exit_code"] == 21 and len(desk.sends) == 1


def test_accept_loss_of_a_deleted_ledger_keeps_the_home_its_sites(desk: Desk) -> None:
    assert desk.run("send", "first").returncode == 0
    (desk.home / "ledger.jsonl").unlink()
    done = desk.run("ops", "accept-loss", "--because", "deleted by hand")
    assert done.returncode == 0 and b"new work waits until" in done.stdout
    desk.env["ASKGPT_SITE"] = "http://127.0.0.1:1"
    assert desk.document("send", "second")["exit_code"] == 20


@pytest.mark.sample(2)
@pytest.mark.parametrize("lost", ["registry", "stamp", "ledger and stamp", "registry and ledger"])
def test_accept_loss_is_the_way_past_every_damage(desk: Desk, lost: str) -> None:
    """RG-18, DU-13: refused with the way on, accepted with a reason, then the next send works; nothing of a damaged file is dropped."""
    talk = desk.document("send", "first")["conversation_id"]
    registry, ledger, stamp = desk.home / "conversations.jsonl", desk.home / "ledger.jsonl", desk.home / "dispatch.stamp"
    kept = registry.read_bytes()
    if "registry" in lost:
        kept = kept.splitlines(keepends=True)[0] + b"rubbish of another program\n"
        registry.write_bytes(kept)
    if lost == "stamp":
        stamp.write_bytes(b"{}")
    if lost == "ledger and stamp":
        ledger.unlink()
        stamp.unlink()
    if lost == "registry and ledger":
        ledger.write_bytes(ledger.read_bytes().replace(b"accepted", b"axxepted"))
    refused = desk.document("send", "second")
    assert (refused["exit_code"], refused["sent"]) == (18, "no") and "accept-loss" in refused["error"]["hint"], refused
    done = desk.run("ops", "accept-loss", "--because", "a test broke it")
    assert done.returncode == 0, done
    assert (b"new work waits" in done.stdout) == (lost != "registry") and (b"conversations.jsonl" in done.stdout) == ("registry" in lost)
    assert desk.document("ops", "accept-loss", "--because", "again")["exit_code"] == 21
    assert registry.read_bytes().startswith(kept)
    if lost == "stamp":
        assert [p.name for p in (desk.home / "quarantine").iterdir()] == ["dispatch.stamp"] and not stamp.exists()
    desk.env["FAKE_STEP"] = "310"
    again = desk.document("send", "second")
    assert again["exit_code"] == 0, again
    if lost == "registry":  # its row is gone, and comes home by what the ledger knows
        assert talk not in desk.run("list", "0").stdout.decode()
        assert desk.run("sweep").returncode == 0 and talk in desk.run("list", "0").stdout.decode()
        assert desk.document("resume", talk, "third")["exit_code"] == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["ledger.jsonl", "conversations.jsonl"])
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_accept_loss_moves_aside_what_is_no_file(desk: Desk, kind: str, name: str) -> None:
    """Refused (20) with the way on; then nothing is lost of it, no id of before runs, and sending works again."""
    before = desk.document("send", "first")["operation_id"]
    place, elsewhere = desk.home / name, desk.home.parent / "elsewhere"
    place.rename(elsewhere)
    {"link": lambda: place.symlink_to(elsewhere), "folder": place.mkdir, "pipe": lambda: os.mkfifo(place)}[kind]()
    kept = elsewhere.read_bytes()
    refused = desk.document("send", "second")
    assert (refused["exit_code"], refused["sent"]) == (20, "no") and "accept-loss" in refused["error"]["hint"], refused
    done = desk.run("ops", "accept-loss", "--because", "a test moved it")
    assert done.returncode == 0 and f"it is now quarantine/{name}".encode() in done.stdout, done
    assert elsewhere.read_bytes() == kept and os.path.lexists(desk.home / "quarantine" / name)
    if name == "ledger.jsonl":
        assert desk.document("send", "first", "--operation-id", before)["exit_code"] == 41
    assert desk.document("ops", "accept-loss", "--because", "again")["exit_code"] == 21
    desk.env["FAKE_STEP"] = "310"
    assert desk.document("send", "second")["exit_code"] == 0 and len(desk.sends) == 2


def test_an_unknown_id_below_the_floor_is_said_to_be_unknown(seed: Seed) -> None:
    seed.operation(5, "claimed", "rejected")
    assert seed.ledger.prune(seed.host.wall() + 1.0, 128) == [ulid(5)]
    found = told(seed, "ops", "show", ulid(3))
    assert found["exit_code"] == 17 and "not known" in found["error"]["message"]
    assert "not known" not in told(seed, "ops", "show", "7" + ulid(3)[1:])["error"]["message"]


# --again

def test_an_equal_request_is_refused_until_somebody_knows(desk: Desk) -> None:
    lost = desk.wreck("equal words", "held")
    found = desk.document("send", "equal words")
    assert (found["exit_code"], found["retry"], found["operation_id"], found["sent"]) == (21, "never", None, "no")
    assert lost in found["error"]["message"] and f"resume {lost}" in found["error"]["hint"] and "--again" in found["error"]["hint"]
    assert len(desk.operations()) == 1 and [p.name for p in (desk.home / "spool").iterdir()] == [f"{lost}.prompt"]
    assert desk.document("send", "other words")["exit_code"] == 0
    assert desk.document("send", "equal words", "--again")["exit_code"] == 0
    assert desk.document("send", "equal words")["exit_code"] == 21  # what became of the first is as unknown as before
    assert desk.document("ops", "resolve", lost, "--not-sent", "--because", "I looked")["exit_code"] == 0
    assert desk.document("send", "equal words")["exit_code"] == 0 and len(desk.sends) == 3


@pytest.mark.parametrize("by", ["replay", "resume"])
def test_an_answer_whose_front_was_killed_is_shown_once(desk: Desk, by: str) -> None:
    desk.site.world.switches.start("slow-answer", {"seconds": 2.0})
    sending = desk.start("send", "equal words")
    operation = desk.reaches("accepted")
    os.kill(sending.pid, signal.SIGKILL)
    desk.reaches("completed")
    desk.site.world.switches.start("slow-answer", {"seconds": 0.0})
    shown = desk.run("ops", "show", operation).stdout
    assert b"front: gone" in shown and b"answer shown" not in shown
    assert desk.document("send", "equal words")["exit_code"] == 21
    found = desk.document("resume", operation) if by == "resume" else desk.document("send", "equal words", "--operation-id", operation)
    assert found["exit_code"] == 0 and "equal words" in found["answer"]
    assert b"answer shown" in desk.run("ops", "show", operation).stdout
    lines = (desk.home / "ledger.jsonl").read_bytes()
    again = desk.document("send", "equal words", "--operation-id", operation)
    assert (again["exit_code"], again["answer"]) == (0, found["answer"]) and (desk.home / "ledger.jsonl").read_bytes() == lines
    assert desk.document("send", "equal words")["exit_code"] == 0 and len(desk.sends) == 2


def test_an_answer_that_standard_output_does_not_take_is_no_success(desk: Desk) -> None:
    first = desk.document("send", "words")
    for words in (("send", "words", "--again"), ("send", "words", "--again", "--events"), ("resume", first["operation_id"]),
                  ("resume", first["conversation_id"], "--json")):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, "-m", "tests.fake_cli", *words], env=desk.env, cwd=desk.work, stdin=subprocess.DEVNULL,
                                  stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode == 34 and b"standard output could not be written" in done.stderr, (words, done)


# The kept view

def test_a_long_ledger_is_kept_by_the_worker_and_read_from_there(desk: Desk) -> None:
    home = open_home(desk.env, create=True, disk=Quick())
    ledger = LedgerFile(home, Host(desk.env), site=desk.site.url)
    for number in range(300):
        row = {"operation_id": ulid(number), "epoch": "0.aa", "actor": "worker", "reason": "r"}
        ledger.transact(lambda view, row=row: [{**row, "state": "queued", "attempt": 1}, {**row, "state": "rejected"}])  # type: ignore[misc]
    home.close()
    assert desk.run("send", "words").returncode == 0
    kept = until(lambda: (desk.home / "ledger.check").exists() and (desk.home / "ledger.check").read_bytes())
    assert ulid(299).encode() in kept and kept.startswith(b"ask-gpt-ledger-check/3 ")
    newest = desk.operations("--limit", "2")
    assert [row["state"] for row in newest] == ["completed", "rejected"] and newest[1]["operation_id"] == ulid(299)
