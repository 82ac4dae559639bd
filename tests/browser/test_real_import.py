"""The import of 1,000 conversations through a real Chromium: a throttle, a kill, and all of them once; then one alone."""

from __future__ import annotations

import json
import os
import signal

import pytest

from gptbridge.core import record
from gptbridge.edge.lock_file import Holder
from tests.browser.real import Desk, Home, until

pytestmark = pytest.mark.browser


def imported(home: Home) -> int:
    try:
        data = (home.path / "conversations.jsonl").read_bytes()
    except FileNotFoundError:
        return 0
    scan = record.scan(data)
    assert not scan.damage
    return sum("conversation_id" in fields for _, fields in scan.pairs())


def worker_of(home: Home) -> int:
    for path in sorted((home.path / "locks").glob("owner-*")):
        holder = Holder.parse(path.read_bytes())
        if holder is not None and "bootstrap-registry" in str(holder):
            return holder.pid
    raise AssertionError("no worker says that it imports")


def test_a_thousand_with_a_throttle_at_400_and_a_kill_at_700(own_home: Home) -> None:
    """Case 37. A Chrome that was started only to read is closed, also after a throttle."""
    desk, site = Desk(own_home, own_home.path.parent / "work"), own_home.site
    site.scenarios("many-conversations:count=1000", "list-total", "list-throttled:at=400,retry_after=30")
    ran = desk.json("bootstrap-registry")
    assert (ran.code, ran.doc["retry"], ran.doc["bootstrap"]["conversations"]) == (11, "later", 385), ran
    assert "wait 30 s" in ran.doc["error"]["hint"] and "imported 385 of 1000" in ran.err and not own_home.chrome_lives()
    site.end("list-throttled")
    site.scenarios("list-slow:seconds=3,at=700")
    killed = desk.start("bootstrap-registry")
    until(lambda: imported(own_home) > 600, "the import to be at 700", 40)
    os.kill(worker_of(own_home), signal.SIGKILL)
    ran = killed.wait()
    assert ran.code == 16 and 600 < imported(own_home) < 800, ran
    site.end("list-slow")
    ran = desk.json("bootstrap-registry", "-q")
    assert ran.code == 0 and ran.err == "" and ran.doc["bootstrap"]["complete"] is True, ran
    titles = [line.split("\t")[1] for line in desk.run("list", "0").out.decode().splitlines()]
    assert titles == [f"Conversation {number}" for number in range(1000, 0, -1)] and imported(own_home) == 1000
    assert desk.json("bootstrap-registry").code == 21 and not site.sends()
    desk.check()


def test_one_that_was_begun_elsewhere_is_imported_and_resumed(own_home: Home) -> None:
    desk, site = Desk(own_home, own_home.path.parent / "work"), own_home.site
    site.scenarios("many-conversations:count=3")
    listed = site.ask("GET", "/backend-api/conversations", headers={"Authorization": f"Bearer {site.token()}"})["items"]
    talk = str(listed[1]["id"])
    assert desk.json("resume", talk).code == 14
    ran = desk.run("bootstrap-registry", "--conversation", f"{site.url}/c/{talk}")
    assert (ran.code, ran.out) == (0, f"{talk}\tConversation 2\n".encode()), ran
    first = desk.json("resume", talk)
    assert first.code == 0 and first.doc["answer"].startswith("**1**"), first
    second = desk.json("resume", talk, "and more")
    assert second.code == 0 and [one["text"] for one in site.sends()] == ["and more"], second
    assert json.loads(desk.run("list", "--json").out)["conversations"][0]["origin"] == "imported"
    desk.check()
