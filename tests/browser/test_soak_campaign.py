"""The crash campaign in a real Chromium: fronts, workers, process groups and Chrome killed at random moments of real sends, some while the
page tries again by itself; then resumes and sweeps, and then the count.

`make soak` with SEED and COUNT: COUNT kills (at most 200). The practice server's list of arrivals is the witness.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from gptbridge.core import transcript
from gptbridge.edge import processes
from tests.browser.real import Desk, Home, Running, until

pytestmark = [pytest.mark.browser, pytest.mark.soak,
              pytest.mark.skipif(not os.environ.get("SOAK_EXAMPLES"), reason="minutes long: make soak SEED=1 COUNT=200")]
AT_ONCE = 3
RESUMES = 10  # of what was sent, so many are brought home by a resume, the rest by the sweep
COUNT = min(int(os.environ.get("SOAK_EXAMPLES") or 0), 200)
VICTIMS = {"worker": 5, "front": 2, "worker's group": 2, "front's group": 2, "chrome": 1}
WEATHER = ((), ("slow-answer:seconds=1",), ("thinking:seconds=1",), ("page-retries:times=3", "send-502:times=1"),
           ("page-retries:times=3", "send-502:times=3"), ("connection-drops:times=1",), ("connection-drops:times=1,frames=3",),
           ("page-retries:times=3", "connection-drops:times=1,frames=1"))
LOOSE = "connection-drops"  # Chrome's own network stack may post the very request again, with the same id
ENDED = ("rejected", "stopped", "uncertain", "accepted", "completed")


@dataclass(slots=True)
class Send:
    text: str
    operation_id: str
    weather: tuple[str, ...]
    desk: Desk
    running: Running
    due: float
    victim: str
    row: dict[str, Any] = field(default_factory=dict)


def rows(home: Home) -> dict[str, dict[str, Any]]:
    """Of each operation: its last state and pid, and the ids that its records name."""
    found: dict[str, dict[str, Any]] = {}
    for record in home.records():
        if "operation_id" in record:
            keep = ("state", "user_message_id", "turn", "pid", "conversation_id")
            found.setdefault(record["operation_id"], {}).update({key: record[key] for key in keep if record.get(key)})
    return found


def ours(pid: int) -> bool:
    return any("gptbridge" in word for word in processes.command_line(pid))


def strike(home: Home, send: Send) -> bool:
    """Kill it now; False when there was nothing to kill any more, or not yet."""
    def blow(kill: Callable[[int, int], None], pid: int) -> bool:
        try:
            kill(pid, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return False

    if send.victim.startswith("front"):
        if send.running.process.poll() is not None:
            return False
        return blow(os.killpg if "group" in send.victim else os.kill, send.running.process.pid)
    if send.victim == "chrome":
        if not (home.path / "browser" / "browser.json").exists() or "pid" not in home.browser() or not home.chrome_lives():
            return False
        return blow(os.kill, home.browser()["pid"])
    pid = rows(home).get(send.operation_id, {}).get("pid", 0)
    return bool(pid) and ours(pid) and blow(os.killpg if "group" in send.victim else os.kill, pid)


def whole_turns(home: Home, operation_id: str, text: str) -> int:
    """The turns in all canonical logs that are this operation's, with its prompt and an answer."""
    count = 0
    for path in (home.path / "logs").glob("*.log"):
        for block in transcript.parse(path.read_bytes()).blocks:
            if block.attr("op") == operation_id and block.state == "completed":
                assert block.section("prompt") == text and block.section("answer"), (path, operation_id)
                count += 1
    return count


@pytest.mark.timeout(3600)
def test_random_kills_of_real_sends(own_home: Home, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("SOAK_SEED") or 0)
    rng, site = random.Random(seed), own_home.site
    began = time.monotonic()

    def say(words: str) -> None:
        with capfd.disabled():
            print(f"[{time.monotonic() - began:5.0f} s] seed {seed}: {words}", flush=True)

    calm = Desk(own_home, tmp_path / "calm")
    known = str(calm.json("send", "the first one starts Chrome", seconds=120).doc["conversation_id"])
    length = calm.json("send", "how long one takes", seconds=120).seconds * 2  # with others beside it
    kills: Counter[str] = Counter()
    sends: list[Send] = []
    while kills.total() < COUNT:
        weather = rng.choice(WEATHER)
        site.scenarios(*weather)
        batch: list[Send] = []
        for _ in range(min(AT_ONCE, COUNT - kills.total())):
            text, operation_id = f"campaign {seed} {len(sends) + len(batch)}", str(ULID())
            desk = Desk(own_home, tmp_path / f"work{len(sends) + len(batch)}")
            words = ("resume", known) if rng.random() < 0.2 else ("send",)
            running = desk.start(*words, text, "--json", "--operation-id", operation_id)
            victim = rng.choices(tuple(VICTIMS), tuple(VICTIMS.values()))[0]
            batch.append(Send(text, operation_id, weather, desk, running, time.monotonic() + rng.uniform(0.1, 1.0) * length, victim))
        for send in sorted(batch, key=lambda one: one.due):
            time.sleep(max(send.due - time.monotonic(), 0.0))  # the random moment itself
            if strike(own_home, send):
                kills[send.victim] += 1
        for send in batch:
            if send.running.process.poll() is None:
                send.running.wait(180)
            else:
                send.running.kill()
        sends += batch
        for option in weather:
            site.end(option.partition(":")[0])
        say(f"{kills.total()} kills in {len(sends)} sends; {len(site.sends())} requests; weather was {' '.join(weather) or 'calm'}")
    until(lambda: not any(row["state"] in ("queued", "claimed", "dispatched") and ours(row["pid"]) for row in rows(own_home).values()),
          "the workers to end", 120)

    left = [send for send in sends if rows(own_home).get(send.operation_id, {}).get("user_message_id")]
    for send in rng.sample(left, min(RESUMES, len(left))):
        ran = calm.json("resume", send.operation_id, seconds=120)
        assert ran.code in (0, 30, 31, 32, 40), str(ran)
    for number in range(3 + COUNT // 10):  # a run reads so many conversations at most
        before = rows(own_home)
        swept = calm.run("sweep", "--json", seconds=240)
        assert swept.code in (0, 3), str(swept)
        say(f"sweep {number + 1}: {swept.doc['sweep']['counts'] if 'counts' in swept.doc['sweep'] else swept.doc['sweep']}")
        if {i: row["state"] for i, row in rows(own_home).items()} == {i: row["state"] for i, row in before.items()}:
            break

    arrived: dict[str, list[str]] = {}
    for one in site.sends():
        arrived.setdefault(one["text"], []).append(one["message_id"])
    states, wrong = rows(own_home), []
    for send in sends:
        row, ids = states.get(send.operation_id, {"state": "none"}), arrived.get(send.text, [])
        state, recorded = row["state"], row.get("user_message_id")
        copies_allowed = any(option.startswith(LOOSE) for option in send.weather)
        checks = {
            "two message ids": len(set(ids)) <= 1,
            "sent twice": len(ids) <= 1 or copies_allowed,
            "no bin of the table": state in ENDED or (state == "none" and not ids),
            "sent, yet refused": not ids or state not in ("rejected", "stopped"),
            "recorded and sent, yet open": not (ids and recorded) or state in ("accepted", "completed"),
            "another id than the recorded one": not (ids and recorded) or recorded in ids,
            "not sent, yet accepted": bool(ids) or state not in ("accepted", "completed"),
            "a lost or doubled turn": state != "completed" or whole_turns(own_home, send.operation_id, send.text) == 1,
        }
        wrong += [f"{send.text} ({' '.join(send.weather) or 'calm'}; {send.victim}): {what}; {row}; {ids}"
                  for what, holds in checks.items() if not holds]
    ends = Counter(states.get(send.operation_id, {"state": "none"})["state"] for send in sends)
    copies = sum(len(ids) - len(set(ids)) for ids in arrived.values())
    say(f"{kills.total()} kills {dict(kills)} in {len(sends)} sends: {len(site.sends())} requests, double sends "
        f"{sum(len(set(ids)) - 1 for ids in arrived.values())}, copies by the network {copies}, ends {dict(ends)}, wrong {len(wrong)}")
    assert not wrong, "\n".join(wrong)
    assert calm.json("send", "and the next one is sent", seconds=120).code == 0, "every lock is free"
