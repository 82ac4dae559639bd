"""Who a process is in the ledger: its owner slot, held for its whole life, and the epoch that it writes into each record.

Guarantees: an epoch names one taking of one slot, so a process that is given the number of a dead one is never taken for it; a dead
owner is proved by its slot's lock, never by pid or age. Touches the `owner-N` lock files. Fails closed: unproved is alive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gptbridge.core.errors import Failure
from gptbridge.edge.locks import Lock, Locks

SLOTS = 1024
STRANGE = 3
_EPOCH = re.compile(r"(0|[1-9][0-9]{0,3})\.[0-9a-f]{1,64}")


class Owner:
    """This process's owner slot, held for its whole life; `epoch` is `<slot>.<random hex>`, new for each taking."""

    def __init__(self, locks: Locks, lock: Lock, epoch: str) -> None:
        self.epoch = epoch
        self._locks, self._lock = locks, lock
        self._recovering: set[str] = set()

    @contextmanager
    def hold_dead(self, epoch: str) -> Iterator[bool]:
        """Holds the slot of `epoch` while inside, if its owner is dead (True); False while the slot is someone else's. Never waits.

        An earlier epoch of our own slot is dead, and we hold its slot already.
        """
        slot = epoch.partition(".")[0]
        if not _EPOCH.fullmatch(epoch) or epoch == self.epoch:
            yield False
        elif slot == self._lock.key or slot in self._recovering:
            yield True
        elif not self._locks.lock("owner", slot).try_acquire():
            yield False
        else:
            self._recovering.add(slot)
            try:
                yield True
            finally:
                self._recovering.discard(slot)
                self._locks.lock("owner", slot).release()

    def is_dead(self, epoch: str) -> bool:
        """Whether the owner of `epoch` is gone, now and so for ever. Proof is its slot: free, or held by another epoch, whose name
        stands in the slot's file; nobody takes a slot from a living owner."""
        slot = epoch.partition(".")[0]
        with self.hold_dead(epoch) as dead:
            if dead:
                return True
        return bool(_EPOCH.fullmatch(epoch)) and self._locks.lock("owner", slot).last.epoch not in ("", epoch, self.epoch)

    def release(self) -> None:
        self._lock.release()


def own(locks: Locks) -> Owner:
    """Take the first free owner slot, without waiting, and make this process's epoch; Failure("busy") when all are taken.

    A few whose lock file is a link or the like are passed over: the sweep, which moves such entries away, needs a slot as well.
    """
    strange = 0
    for slot in range(SLOTS):
        lock = locks.lock("owner", str(slot))
        epoch = f"{slot}.{locks.host.random_bytes(8).hex()}"
        before, locks.epoch = locks.epoch, epoch
        try:
            if lock.try_acquire():
                return Owner(locks, lock, epoch)
        except Failure as why:
            strange += 1
            if why.slug != "bad-config" or strange > STRANGE:
                raise
        locks.epoch = before
    raise Failure("busy", f"All {SLOTS} owner slots are taken.", "End some of the running commands.")
