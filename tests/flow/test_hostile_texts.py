"""Hostile texts through whole sends on the fake page, which is quick; tests/browser/test_real_texts.py has some in a real Chromium."""

from __future__ import annotations

import os

import pytest

from tests.core.transcript_cases import sendable
from tests.flow.world import Ground, Worker
from tests.texts import check_sent

COUNT = max(60, min(int(os.environ.get("SOAK_EXAMPLES") or 0), 1000))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_hostile_texts_come_to_the_site_and_into_the_log_as_they_are(ground: Ground, worker: Worker) -> None:
    """SE-06, cases 7, 57."""
    ground.on("slow-answer", seconds=0.0)
    first = int(os.environ.get("SOAK_SEED") or 0) * 1000
    env = {"ASKGPT_HOME": str(ground.path / "home")}
    for seed in range(first, first + COUNT):
        text = sendable(seed)
        op = worker.send(text)
        name = op.conversation_id or ""
        assert op.state == "completed", (seed, op.state, op.slug)
        try:
            check_sent(text, ground.sends[-1]["text"], name, ground.site.world.conversations[name].data, env,
                       ground.path / "work" / "ask-gpt" / f"{name}.log")
        except AssertionError as why:
            raise AssertionError(f"seed {seed}: {text!a}") from why
