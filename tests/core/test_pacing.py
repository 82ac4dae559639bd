"""The gap between dispatches under every clock there is (RL-01, RL-11, TE-07)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.pacing import Gap, Now, Stamp, remaining

YEAR = 365.25 * 86400
GAP = Gap()


def left(stamp: Stamp | None, now: Now, gap: float = 60.0, unchanged: float = 0.0) -> float:
    return remaining(stamp, now, gap, unchanged_for=unchanged, longest=75.0)


STAMP = Stamp(1_800_000_000.0, 5_000.0, "boot-a", 4)


def test_the_gap_is_uniform_between_its_bounds() -> None:
    assert (GAP.shortest, GAP.longest) == (60.0, 75.0)
    assert (GAP.draw(0.0), GAP.draw(0.5), GAP.draw(1.0)) == (60.0, 67.5, 75.0)
    assert Gap(0.0).draw(0.7) == 0.0 and Gap(2.0).draw(0.5) == 2.25


def test_no_stamp_no_wait() -> None:
    assert left(None, Now(0.0, 0.0, "boot-a")) == 0.0


@pytest.mark.parametrize(("later", "wait"), [(0.0, 60.0), (59.0, 1.0), (60.0, 0.0), (61.0, 0.0), (1e6, 0.0)])
@pytest.mark.parametrize("step", [0.0, 3600.0, -3600.0, 10 * YEAR, -10 * YEAR])
def test_within_one_boot_no_step_of_the_wall_clock_counts(later: float, wait: float, step: float) -> None:
    assert left(STAMP, Now(STAMP.wall + later + step, STAMP.boottime + later, "boot-a")) == wait


@pytest.mark.parametrize(("later", "wait"), [(0.0, 60.0), (59.5, 0.5), (60.0, 0.0), (-3600.0, 60.0), (-10 * YEAR, 60.0), (10 * YEAR, 0.0)])
def test_after_a_reboot_the_wall_clock_clamped(later: float, wait: float) -> None:
    assert left(STAMP, Now(STAMP.wall + later, 12.0, "boot-b")) == wait


@pytest.mark.parametrize("unchanged", [0.0, 30.0, 70.0, 74.9])
def test_a_stamp_of_the_future_of_another_boot_holds_nobody_for_longer_than_the_longest_gap(unchanged: float) -> None:
    ahead = Now(STAMP.wall - 10 * YEAR, 12.0 + unchanged, "boot-b")
    assert 0.0 < left(ahead and STAMP, ahead, unchanged=unchanged) <= 75.0 - unchanged
    assert left(STAMP, ahead, unchanged=75.0) == 0.0


class Waiting:
    """A waiter that sleeps what it is told to, in slices, and looks again, as `flow/line.py` does."""

    def __init__(self, stamp: Stamp, now: Now, gap: float) -> None:
        self.stamp, self.now, self.gap, self.begun = stamp, now, gap, now.boottime

    def run(self, slices: list[float], steps: list[float]) -> float:
        """Seconds of boottime until it may go; `steps` are added to the wall clock at each look."""
        for index in range(10_000):
            wait = remaining(self.stamp, self.now, self.gap, unchanged_for=self.now.boottime - self.begun, longest=75.0)
            assert 0.0 <= wait <= 75.0
            if wait == 0.0:
                return self.now.boottime - self.begun
            nap = max(min(wait, slices[index % len(slices)]), 1e-6)  # no clock stands still
            step = steps[index] if index < len(steps) else 0.0
            self.now = Now(self.now.wall + nap + step, self.now.boottime + nap, self.now.boot_id)
        raise AssertionError("waits for ever")


seconds = st.floats(-20 * YEAR, 20 * YEAR, allow_nan=False)


@given(unit=st.floats(0, 1), since=st.floats(0, 200), rebooted=st.booleans(), wall=seconds, steps=st.lists(seconds, max_size=8),
       slices=st.lists(st.floats(0.5, 80), min_size=1, max_size=4))
def test_no_wait_over_75_s_and_none_under_60_s_within_one_boot(
        unit: float, since: float, rebooted: bool, wall: float, steps: list[float], slices: list[float]) -> None:
    now = Now(STAMP.wall + wall, 3.0 if rebooted else STAMP.boottime + since, "boot-b" if rebooted else "boot-a")
    waited = Waiting(STAMP, now, GAP.draw(unit)).run(slices, steps)
    assert waited <= 75.0 + 1e-6
    if not rebooted:
        assert since + waited >= 60.0 - 1e-6


def test_the_stamp_reads_what_it_wrote_and_nothing_else() -> None:
    assert Stamp.read(STAMP.fields()) == STAMP
    good = STAMP.fields()
    for broken in ({}, {**good, "wall": "x"}, {**good, "seq": None}, {k: v for k, v in good.items() if k != "seq"}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Stamp.read(broken)
