"""One practice server for the crash tests, and a place of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gptbridge.practice.server import PracticeServer
from tests.crash.harness import Place


@pytest.fixture(scope="package")
def practice() -> Iterator[PracticeServer]:
    with PracticeServer() as site:
        yield site


@pytest.fixture
def place(practice: PracticeServer, tmp_path: Path) -> Iterator[Place]:
    practice.world.reset()
    made = Place(tmp_path, practice)
    try:
        yield made
    finally:
        made.end()
    ids = [send["message_id"] for send in made.sends]
    assert len(ids) == len(set(ids)), "a message came twice"
    practice.world.reset()
