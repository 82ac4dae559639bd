"""`bootstrap-registry` in real processes: 1,000 conversations through a throttle and kills, what is said, and the single one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gptbridge.core import record
from gptbridge.practice.control import many
from gptbridge.practice.server import PracticeServer

from .practising import Desk, until

UNKNOWN = "68c1d2e3-0000-8000-8000-00000000dead"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with PracticeServer() as site:
        made = Desk(tmp_path, site)
        yield made
        made.tidy()
        assert made.sends == []


def ids(desk: Desk) -> list[str]:
    done = desk.run("list", "0")
    assert done.returncode == 0
    return [line.split("\t")[0] for line in done.stdout.decode().splitlines()]


def in_file(desk: Desk) -> int:
    scan = record.scan((desk.home / "conversations.jsonl").read_bytes())
    assert not scan.damage
    return sum("conversation_id" in fields for _, fields in scan.pairs())


def killed(desk: Desk, at: str, *, front: bool = False) -> subprocess.CompletedProcess[bytes]:
    """An import whose worker, and with `front` its front before it, is killed where that happens."""
    process = desk.start("bootstrap-registry", hold=at)
    name, _, number = at.partition(":")

    def stands() -> str | None:
        at_it = [line.split()[0] for line in desk.seen() if line.endswith(f" {name}")]
        return at_it[-1] if len(at_it) == int(number) else None

    worker = int(until(stands))
    if front:
        os.kill(process.pid, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    desk.marks.unlink()
    return desk.end(process)


def test_a_thousand_through_a_throttle_and_kills(desk: Desk) -> None:
    """Case 37: a throttle at 400, a kill of the worker at 700, one of front and worker right after: 1,000 records, none twice."""
    there = many(desk.site.world, 1000)
    switches = desk.site.world.switches
    switches.start("list-total", {})
    switches.start("list-throttled", {"at": 400, "retry_after": 30})
    first = desk.run("bootstrap-registry")
    assert (first.returncode, first.stdout) == (11, b"")
    said = first.stderr.decode().splitlines()
    assert said[:4] == [f"imported {count} of 1000" for count in (100, 195, 290, 385)]
    assert "385 conversations are imported so far" in said[4] and "wait 30 s" in said[5] and "goes on where it stopped" in said[5]
    assert ids(desk) == there[:385]
    again = desk.document("bootstrap-registry")
    assert (again["exit_code"], again["retry"], again["sent"]) == (11, "later", "no")
    assert again["bootstrap"] == {"imported": 0, "conversations": 385, "listed": None, "total": None, "complete": False}
    switches.end("list-throttled")
    done = killed(desk, "read:5")
    assert done.returncode == 16 and b"what is imported stays" in done.stderr and in_file(desk) == 765
    assert killed(desk, "read:2", front=True).returncode == -signal.SIGKILL and in_file(desk) == 860
    found = desk.document("bootstrap-registry")
    assert found["exit_code"] == 0 and found["retry"] == "safe" and found["account"].startswith("user-0000/")
    assert found["bootstrap"] == {"imported": 140, "conversations": 1000, "listed": 1000, "total": 1000,
                                  "complete": True}
    assert ids(desk) == there and in_file(desk) == 1000
    before = (desk.home / "conversations.jsonl").read_bytes()
    once_more = desk.document("bootstrap-registry")
    assert (once_more["exit_code"], once_more["error"]["code"]) == (21, "conflict")
    assert (desk.home / "conversations.jsonl").read_bytes() == before


def test_ctrl_c_keeps_what_is_there(desk: Desk) -> None:
    there = many(desk.site.world, 250)
    process = desk.start("bootstrap-registry", "--json", hold="read")
    until(lambda: any(line.endswith(" read") for line in desk.seen()))
    process.send_signal(signal.SIGINT)
    Path(f"{desk.marks}.go").touch()
    found = desk.told(desk.end(process))
    assert (found["exit_code"], found["error"]["code"], found["sent"]) == (130, "interrupted", "no")
    done = desk.run("bootstrap-registry", "-q")
    assert (done.returncode, done.stderr) == (0, b"") and ids(desk) == there


def test_it_says_what_it_did(desk: Desk) -> None:
    many(desk.site.world, 3)
    done = desk.run("bootstrap-registry")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"3 conversations imported\n", b"imported 3\n")
    assert not (desk.work / "ask-gpt").exists() and desk.operations() == [], "no send, so no operation (AD-50)"


def test_a_list_that_is_not_whole(desk: Desk) -> None:
    many(desk.site.world, 150)
    desk.site.world.switches.start("list-total", {})
    desk.site.world.switches.start("list-capped", {"at": 40})
    found = desk.document("bootstrap-registry")
    assert found["exit_code"] == 0 and found["bootstrap"]["complete"] is False and "150 conversations and listed 40" in found["warnings"][0]
    desk.site.world.switches.end("list-capped")
    done = desk.run("bootstrap-registry")
    assert done.returncode == 0 and len(ids(desk)) == 150 and b"warning" not in done.stderr


@pytest.mark.parametrize(("scenario", "code"), [("signed-out", 12), ("throttled", 11), ("challenge", 12)])
def test_a_site_that_refuses(desk: Desk, scenario: str, code: int) -> None:
    many(desk.site.world, 3)
    desk.site.world.switches.start(scenario, {})
    for words in (("bootstrap-registry",), ("bootstrap-registry", "--conversation", UNKNOWN)):
        found = desk.document(*words)
        assert (found["exit_code"], found["sent"]) == (code, "no")
    assert not (desk.home / "conversations.jsonl").exists()


def test_one_conversation_by_its_url(desk: Desk) -> None:
    talk = many(desk.site.world, 3)[1]
    done = desk.run("bootstrap-registry", "--conversation", f"{desk.site.url}/c/{talk}")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{talk}\tConversation 2\n".encode(), b"")
    again = desk.run("bootstrap-registry", "--conversation", talk[:13])
    assert (again.returncode, again.stdout) == (0, done.stdout) and again.stderr == b"it was in the registry already\n"
    found = desk.document("bootstrap-registry", "--conversation", talk)
    assert (found["conversation_id"], found["title"], found["url"]) == (talk, "Conversation 2", f"{desk.site.url}/c/{talk}")
    assert [one["origin"] for one in found["conversations"]] == ["imported"] and found["next"] == [["ask-gpt", "resume", talk]]
    assert (found["operation_id"], found["state"], found["sent"], found["retry"]) == (None, None, "no", "safe")
    assert ids(desk) == [talk]
    resumed = desk.document("resume", talk)
    assert resumed["exit_code"] == 0 and resumed["answer"].startswith("**1**")
    assert desk.document("bootstrap-registry")["exit_code"] == 21


@pytest.mark.parametrize(("value", "code"), [
    (UNKNOWN, 14), ("68c1d2e3", 17), ("01KB7X00000000000000000001", 2), ("https://example.org/c/" + UNKNOWN, 2), ("a title", 2), ("", 2)])
def test_a_conversation_that_cannot_be_had(desk: Desk, value: str, code: int) -> None:
    many(desk.site.world, 1)
    found = desk.document("bootstrap-registry", "--conversation", value)
    assert (found["exit_code"], found["sent"]) == (code, "no") and not (desk.home / "conversations.jsonl").exists()


def test_a_conversation_that_nobody_knows_names_the_way_in(desk: Desk) -> None:
    talk = many(desk.site.world, 1)[0]
    for words in (("resume", talk), ("show", talk)):
        found = desk.document(*words)
        assert f"bootstrap-registry --conversation {talk}" in found["error"]["hint"], found["error"]


def test_titles_are_somebodys_words(desk: Desk) -> None:
    talk = many(desk.site.world, 1)[0]
    desk.site.world.conversations[talk].data["title"] = "an\x1b[31m EVIL\ttitle\nand more"
    done = desk.run("bootstrap-registry", "--conversation", talk)
    assert done.stdout.count(b"\n") == 1 and done.stdout.count(b"\t") == 1
    assert json.loads(desk.run("list", "--json").stdout)["conversations"][0]["title"] == "an\x1b[31m EVIL\ttitle\nand more"
