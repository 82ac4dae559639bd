"""Every no of the page and every change of it (tests/browser/refusals.py): a sample here, all of it under soak and with `make refusals`."""

from __future__ import annotations

import os

import pytest

from tests.browser import refusals
from tests.browser.real import Desk
from tests.browser.refusals import GENERATIONS, ROWS, SAMPLE, Row

pytestmark = pytest.mark.browser


def check(desk: Desk, row: Row, generation: int) -> None:
    seen = refusals.run(desk, row, generation)
    assert refusals.faults(row, seen) == [], f"{row}\n{seen.ran}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in SAMPLE], ids=str)
def test_a_sample(desk: Desk, row: Row) -> None:
    check(desk, row, GENERATIONS[ROWS.index(row) % len(GENERATIONS)])


if os.environ.get("SOAK_EXAMPLES"):  # minutes long: make soak, or make refusals

    @pytest.mark.soak
    @pytest.mark.parametrize("generation", GENERATIONS)
    @pytest.mark.parametrize("row", ROWS, ids=str)
    def test_the_whole_table(desk: Desk, row: Row, generation: int) -> None:
        check(desk, row, generation)


def test_the_table_names_every_row_once() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) and set(SAMPLE) <= set(names)
