"""The crash campaign in a real Chromium: fronts, workers and Chrome killed at random moments of real sends, then one sweep, then the count.

`make soak` with SEED and COUNT: COUNT kills (at most 200). The practice server's list of arrivals is the witness.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.browser.real import Desk, Home, Running, operation_of, until

pytestmark = [pytest.mark.browser, pytest.mark.soak,
              pytest.mark.skipif(not os.environ.get("SOAK_EXAMPLES"), reason="minutes long: make soak SEED=1 COUNT=200")]
AT_ONCE = 3
COUNT = min(int(os.environ.get("SOAK_EXAMPLES") or 0), 200)


def kill_something(rng: random.Random, home: Home, running: Running, operation_id: str) -> str:
    """Who dies: mostly the worker, sometimes the front, sometimes all of Chrome."""
    victim = rng.choices(("worker", "front", "chrome"), (6, 3, 1))[0]
    if victim == "front":
        running.process.kill()
    elif victim == "chrome":
        if (home.path / "browser" / "browser.json").exists() and "pid" in home.browser():
            try:
                os.kill(home.browser()["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass
    elif records := home.records(operation_id):
        try:
            os.kill(int(records[-1]["pid"]), signal.SIGKILL)
        except ProcessLookupError:
            pass
    return victim


def states(home: Home) -> dict[str, dict[str, str]]:
    """Of each operation: its last state, and the message id and text digest that its records name."""
    found: dict[str, dict[str, str]] = {}
    for record in home.records():
        if "operation_id" in record:
            row = found.setdefault(record["operation_id"], {})
            row.update({key: record[key] for key in ("state", "user_message_id", "turn", "prompt_sha256") if record.get(key)})
    return found


@pytest.mark.timeout(3600)
def test_random_kills_of_real_sends(own_home: Home, tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED") or 0)
    rng = random.Random(seed)
    site = own_home.site
    site.scenario("slow-answer", seconds=1.0)
    done, victims = 0, {"worker": 0, "front": 0, "chrome": 0}
    texts: dict[str, str] = {}
    calm = Desk(own_home, tmp_path / "calm")
    calm.json("send", "the first one starts Chrome")
    length = calm.json("send", "how long one takes").seconds * 2  # with others beside it
    while done < COUNT:
        batch: list[tuple[Desk, Running, str, float]] = []
        for _ in range(min(AT_ONCE, COUNT - done)):
            text = f"campaign {seed} {done}"
            desk = Desk(own_home, tmp_path / f"work{done}")
            running = desk.start("send", text, "--json")
            operation_id = operation_of(running)
            texts[text] = operation_id
            batch.append((desk, running, operation_id, time.monotonic() + rng.uniform(0.0, length)))
            done += 1
        for _, running, operation_id, due in sorted(batch, key=lambda one: one[3]):
            time.sleep(max(due - time.monotonic(), 0.0))  # the random moment itself
            victims[kill_something(rng, own_home, running, operation_id)] += 1
        for _, running, _, _ in batch:
            if running.process.poll() is None:
                running.wait(120)
            else:
                running.kill()
    until(lambda: own_home.records() and not any(
        row["state"] in ("queued", "claimed", "dispatched") and _lives(own_home, i) for i, row in states(own_home).items()),
        "the workers to end", 60)
    sweeper = Desk(own_home, tmp_path / "sweeper")
    for _ in range(3 + COUNT // 20):  # a run reads so many conversations at most
        swept = sweeper.run("sweep", "--json", seconds=240)
        assert swept.code in (0, 3), str(swept)
    ids: dict[str, set[str]] = {}
    for send in site.sends():
        ids.setdefault(send["text"], set()).add(send["message_id"])
    assert all(len(found) == 1 for found in ids.values()), f"seed {seed}: two message ids for one text: {ids}"
    rows = states(own_home)
    for text, operation_id in texts.items():
        row, counted = rows[operation_id], text in ids
        assert row["state"] in ("rejected", "stopped", "uncertain", "accepted", "completed"), (seed, text, row)
        if counted:
            assert row["state"] not in ("rejected", "stopped"), (seed, text, row)
            if row.get("user_message_id"):
                assert row["state"] in ("accepted", "completed"), (seed, text, row)
        else:
            assert row["state"] not in ("accepted", "completed"), (seed, text, row)
    ends = {state: sum(row["state"] == state for row in rows.values()) for state in {row["state"] for row in rows.values()}}
    print(f"seed {seed}: {COUNT} sends, killed {victims}, {len(site.sends())} requests, ends {ends}")


def _lives(home: Home, operation_id: str) -> bool:
    try:
        os.kill(int(home.records(operation_id)[-1]["pid"]), 0)
    except ProcessLookupError:
        return False
    return True
