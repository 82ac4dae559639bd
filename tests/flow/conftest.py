"""One practice server for the flow tests, forgetful between them; every test ends with at most one arrival for each message id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gptbridge.practice.server import PracticeServer
from tests.flow.world import Ground, Worker


@pytest.fixture(scope="package")
def practice() -> Iterator[PracticeServer]:
    with PracticeServer() as site:
        yield site


@pytest.fixture
def ground(practice: PracticeServer, tmp_path: Path) -> Iterator[Ground]:
    practice.world.reset()
    practice.world.switches.start("slow-answer", {"seconds": 0.0})  # as quick as it can be
    made = Ground(tmp_path, practice)
    yield made
    assert len(made.sends) <= made.clicks + len(made.by_hand), "more requests than clicks"  # TE-05
    assert all(send["copy_of"] is None for send in made.sends), "a message came twice"
    recorded = (made.path / "home" / "ledger.jsonl").exists()
    for worker in made.workers if recorded else ():
        for operation in worker.view.operations.values() if worker.home.exists else ():
            arrived = [s for s in made.sends if (s["message_id"] or "").lower() in operation.message_ids()]
            assert len(arrived) <= 1 and (operation.sent != "no" or not arrived or operation.refusal), operation
    practice.world.reset()


@pytest.fixture
def worker(ground: Ground) -> Worker:
    return ground.worker()
