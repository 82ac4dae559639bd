"""Waiting for the account's turn: the gap since the last dispatch, nothing in flight, and nobody who was admitted earlier and is ready.

Holds neither dispatch, ledger nor registry lock while it sleeps; after each sleep everything is read again, so a stop, a clock step or
another process's dispatch counts at once (RL-03, ST-17). One that is ahead but does not take its turn within 10 s of this process's
own boottime is passed over.
"""

from __future__ import annotations

from collections.abc import Callable

from gptbridge.core import pacing
from gptbridge.core.ledger import Operation, View, epoch_seconds
from gptbridge.core.pacing import Stamp
from gptbridge.core.ports import World
from gptbridge.flow.custody import Custody
from gptbridge.flow.telling import tell

TICK_S = 0.1
SLICE_S = 1.0


class Line:
    """The place of one ready operation in its account's line."""

    def __init__(self, world: World, custody: Custody, operation: Operation, account: str, heed: Callable[[], None]) -> None:
        self._w, self._custody, self._heed = world, custody, heed
        self._op, self._account = operation, account
        self._gap = world.settings.gap.draw(world.ids.unit())
        self._stamp: Stamp | None = None
        self._seen_at = world.clock.now().boottime  # since when the stamp stood unchanged before our eyes
        self._ahead: tuple[str, float] | None = None  # who is before us, and since when it could have gone
        self._passed: set[str] = set()
        self._said = False

    def wait(self) -> None:
        """Return when the turn is due; `heed` raises to leave the line."""
        while True:
            self._heed()
            wait = self.remaining()
            if wait <= 0.0:
                return
            if wait > TICK_S and not self._said:
                self._said = True
                tell(self._w, self._w.turn.ratelimit(round(wait, 1)))
            self._w.clock.sleep(min(wait, SLICE_S))

    def remaining(self) -> float:
        """Seconds to sleep before looking again; 0.0 when it is our turn now."""
        self._custody.recover()  # a dead owner's claim must not hold the account for ever
        view = self._w.ledger.view()
        now = self._w.clock.now()
        gap = self.gap_left()
        if gap > 0.0:
            self._ahead = None
            return gap
        if self.blocked(view):
            self._ahead = None
            return TICK_S
        first = self.before_us(view)
        if first is None:
            return 0.0
        if self._ahead is None or self._ahead[0] != first.operation_id:
            self._ahead = (first.operation_id, now.boottime)
        elif now.boottime - self._ahead[1] >= pacing.TURN_S:
            self._passed.add(first.operation_id)
            self._ahead = None
        return TICK_S

    def gap_left(self) -> float:
        """What is left of the gap by the stamp as it stands now; by the ledger where the stamp is gone."""
        now = self._w.clock.now()
        stamp = self._w.stamps.read(self._account) or last_dispatch(self._w.ledger.view(), self._account)
        if _dispatch(stamp) != _dispatch(self._stamp):
            self._stamp, self._seen_at = stamp, now.boottime
        return pacing.remaining(stamp, now, self._gap, unchanged_for=now.boottime - self._seen_at, longest=self._w.settings.gap.longest)

    def blocked(self, view: View) -> bool:
        return any(op.in_flight and op.account == self._account for op in view.unresolved())

    def before_us(self, view: View) -> Operation | None:
        """The first of the ready ones that was admitted before us and was not passed over."""
        ready = [op for op in view.unresolved() if op.waiting and op.ready_at is not None and op.account == self._account
                 and op.order < self._op.order and op.operation_id not in self._passed]
        return min(ready, key=lambda op: op.order, default=None)

    def may_go(self, view: View) -> bool:
        """Decided again under the ledger lock: nobody who is ready is before us."""
        return self.before_us(view) is None


def last_dispatch(view: View, account: str) -> Stamp | None:
    """What the ledger knows of an account's last dispatch: its wall clock alone, as of another boot."""
    at = max((op.dispatched_at for op in view.operations.values() if op.account == account and op.dispatched_at), default=None)
    return Stamp(epoch_seconds(at), 0.0, "", 0) if at else None


def _dispatch(stamp: Stamp | None) -> tuple[float, float, str] | None:
    """Which dispatch a stamp tells of: its number may be raised without one."""
    return None if stamp is None else (stamp.wall, stamp.boottime, stamp.boot_id)
