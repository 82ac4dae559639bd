"""A turn watched through a real Chromium, and what takes its window or its Chrome away in the middle (cases 26, 41; CL-14)."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from gptbridge.core.turn import fold
from tests.browser.real import Desk, Home, operation_of, until

pytestmark = pytest.mark.browser


def close_by_hand(home: Home) -> None:
    """As a person does it: the window of the conversation is closed, Chrome lives on."""
    window = next(one for one in home.windows() if "/c/" in one["url"])
    connection = http.client.HTTPConnection("127.0.0.1", home.browser()["port"], timeout=5)
    connection.request("GET", f"/json/close/{window['id']}")
    assert connection.getresponse().status == 200
    connection.close()


def kill_chrome(home: Home) -> None:
    os.kill(home.browser()["pid"], signal.SIGKILL)


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", [close_by_hand, kill_chrome])
def test_a_window_that_goes_away_in_the_middle_of_an_answer(desk: Desk, end: Callable[[Home], None]) -> None:
    """Said at once, with what was there; the operation is never sent again, and its answer is read back later."""
    text = f"Words enough for many pieces of an answer, until {end.__name__}"
    desk.site.scenarios("slow-answer:seconds=8")
    before = len(desk.site.sends())
    running = desk.start("send", text, "--events")
    operation = operation_of(running)
    until(lambda: b'"type":"answer"' in running.shown(), "the answer to begin", 40)
    end(desk.home)
    ran = running.wait(30)
    events: list[dict[str, Any]] = [json.loads(line) for line in ran.out.splitlines()]
    last = events[-1]
    assert (ran.code, last["type"], last["class"], last["result"]["sent"]) == (30, "error", "timeout", "yes"), ran
    assert last["partial"]["answer"] == fold(events).answer != "" and last["result"]["next"] == [["ask-gpt", "resume", operation]]
    assert ran.seconds < 25, "not when the site would have been done"
    assert any("interrupted" in text.decode() for text in desk.copies().values())

    def whole() -> Any:
        found = desk.json("resume", operation)
        return found.code == 0 and found.doc

    document = until(whole, "the answer", 40)
    assert document["answer"] == f"You said:\n\n> {text}" and len(desk.site.sends()) == before + 1
