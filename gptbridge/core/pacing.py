"""When the next dispatch of an account is due.

The gap is uniform in [60, 75] s after the account's last dispatch; on a loopback site N to 1.25 N (0 is none). Within one boot the
boottime of the stamp decides, so no step of the wall clock shortens or stretches it; after a reboot the wall clock, clamped to the
gap. A waiter whose own boottime saw the stamp unchanged for the longest gap may go in any case: a stamp from the future of another
boot would otherwise hold it for ever. Pure; seconds throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GAP_S = 60.0
SPREAD = 1.25
READS_S = 2.0
TURN_S = 10.0  # one that does not take its turn within this time is passed over
COMMIT_TO_CLICK_S = 30.0
CLICK_TO_REQUEST_S = 30.0
HELD_S = 60.0  # oldest commit whose held request may still be released


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of the clocks: epoch seconds, seconds since boot (counts suspend), and which boot."""

    wall: float
    boottime: float
    boot_id: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """An account's last dispatch and `seq`, the ledger's high-water mark: a ledger that ends below it lost an acknowledged record."""

    wall: float
    boottime: float
    boot_id: str
    seq: int

    def fields(self) -> dict[str, Any]:
        return {"wall": self.wall, "boottime": self.boottime, "boot_id": self.boot_id, "seq": self.seq}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Stamp:
        """Raises KeyError, TypeError or ValueError for what is no stamp."""
        return cls(float(fields["wall"]), float(fields["boottime"]), str(fields["boot_id"]), int(fields["seq"]))


@dataclass(frozen=True, slots=True)
class Gap:
    """The shortest gap in seconds; `draw` turns a random number in [0, 1) into this wait's gap."""

    shortest: float = GAP_S

    @property
    def longest(self) -> float:
        return self.shortest * SPREAD

    @property
    def between_reads(self) -> float:
        """Seconds that whoever reads more than once lets pass between two reads of the site; none where there is no gap (loopback)."""
        return READS_S if self.shortest else 0.0

    def draw(self, unit: float) -> float:
        return self.shortest + (self.longest - self.shortest) * unit


def remaining(stamp: Stamp | None, now: Now, gap: float, *, unchanged_for: float, longest: float) -> float:
    """Seconds until the next dispatch is due, 0.0 when it is. `unchanged_for`: the waiter's own boottime against this very stamp."""
    if stamp is None or unchanged_for >= longest:
        return 0.0
    since = now.boottime - stamp.boottime if stamp.boot_id == now.boot_id else now.wall - stamp.wall
    return min(max(gap - since, 0.0), max(longest - unchanged_for, 0.0), gap)
