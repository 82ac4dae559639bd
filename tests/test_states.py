"""The committed drawing of the states is what the tables give, and draws every move that the matrix test allows."""

from __future__ import annotations

import re

from tests.core.test_lifecycle import ALLOWED
from tools import states


def test_the_drawing_is_the_tables() -> None:
    assert states.FILE.read_text("utf-8") == states.text(), "make states"


def test_every_allowed_move_is_drawn_once_and_no_other() -> None:
    drawn = [(role, *found) for role in states.ROLES for found in re.findall(r"^    (\w+) --> (\w+)", states.diagram(role), re.M)]
    assert sorted(drawn) == sorted(ALLOWED)
    for role in states.ROLES:
        for line in re.findall(r"-->.*", states.diagram(role)):
            assert line.count(":") <= 1 and ";" not in line  # what a label may not hold in such a diagram


def test_what_a_move_needs_is_said() -> None:
    assert states.needs("witness", states.State.CLAIMED, states.State.REJECTED) == ""
    assert states.needs("recovery", states.State.CLAIMED, states.State.REJECTED) is None
    assert states.needs("recovery", states.State.UNCERTAIN, states.State.REJECTED) == "a person's word"
    assert "never if it was claimed" in (states.needs("witness", states.State.REJECTED, states.State.QUEUED) or "")
