"""Who may act: named locks in the home's `locks` folder, and the one order in which they are taken.

Guarantees: a wait is bounded and its error names lock and holder; a lock out of order is a bug and raises `LockOrder` before it can
deadlock; a forked child keeps none. That one holder excludes all others is edge/lock_file.py's.
Touches: one file for each lock, which is never deleted. Fails closed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from gptbridge.core.errors import Failure
from gptbridge.edge.lock_file import Flock, Holder, LockFile, no_flock

if TYPE_CHECKING:
    from gptbridge.core import ports

# The one order: a thread that holds a lock waits only for locks of a higher rank. The unranked (owner slots, the self-test's file, the
# sweep's) are tried, never waited for.
RANKS = {"conversation": 1, "seat": 2, "chrome": 3, "dispatch": 4, "ledger": 5, "registry": 6}
UNRANKED = ("owner", "probe", "sweep")
WAIT_S = 30.0
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,120}")


class LockOrder(RuntimeError):
    """A lock was asked for while this thread holds one that comes after it, or the same: a bug, found before it deadlocks."""


class Host(Protocol):
    @property
    def pid(self) -> int: ...
    def wall(self) -> float: ...
    def boottime(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    def random_bytes(self, count: int) -> bytes: ...


OnWait = Callable[[str, Holder, float], None]


class Lock:
    """One named lock. Made by `Locks.lock`; a thread that holds it must be the one that gives it back."""

    def __init__(self, locks: Locks, kind: str, key: str) -> None:
        self.kind, self.key = kind, key
        plain = key if _PLAIN.fullmatch(key) else "~" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.rank = RANKS.get(kind, 0)
        self.thread = 0
        self.file = LockFile(locks.dir_fd, f"{kind}-{plain}" if key else kind, locks.flock)
        self._locks = locks

    def __str__(self) -> str:
        return f"{self.kind} {self.key}".rstrip() if self.kind in ("conversation", "seat", "owner") else f"the {self.kind} lock"

    @property
    def held(self) -> bool:
        """Whether this thread holds it."""
        return self.file.fd >= 0 and self.thread == threading.get_ident()

    @property
    def last(self) -> Holder:
        """Of the last refused attempt, or what the holder before us left."""
        return self.file.last

    def try_acquire(self, *, fresh: bool = False) -> bool:
        """Take it if it is free. fresh: the lock of a conversation that did not exist before, with the seat held."""
        self.in_order(fresh=fresh, waits=False)
        return self.attempt()

    def acquire(self, wait_s: float = WAIT_S, *, heed: Callable[[], None] | None = None, fresh: bool = False) -> None:
        """Take it, waiting at most `wait_s` seconds of boottime, then Failure("busy"); `fresh` never waits.

        heed: called before each sleep; what it raises ends the wait.
        """
        self.in_order(fresh=fresh, waits=True)
        for _ in self._locks.turns(str(self), lambda: self.last, 0.0 if fresh else wait_s, heed):
            if self.attempt():
                return

    @contextmanager
    def hold(self, wait_s: float = WAIT_S, *, heed: Callable[[], None] | None = None, fresh: bool = False) -> Iterator[Lock]:
        self.acquire(wait_s, heed=heed, fresh=fresh)
        try:
            yield self
        finally:
            self.release()

    def release(self) -> None:
        if self.file.fd >= 0:
            self.thread = 0
            self._locks.held.remove(self)
            self.file.give()

    def note(self, text: str) -> None:
        """Leave a word for the next holder (printable ASCII, at most 200 characters); not durable."""
        self.file.describe(self._locks.holder(text))

    def is_taken(self) -> bool:
        """Whether anyone holds it now. It is tried for an instant: not for locks that others take without waiting."""
        return self.file.is_taken()

    def in_order(self, *, fresh: bool, waits: bool) -> None:
        """LockOrder if this thread may not ask for it now."""
        mine = [lock for lock in self._locks.held if lock.held]
        top = max((lock.rank for lock in mine), default=0)
        seat = RANKS["seat"]
        if self in mine:
            raise LockOrder(f"{self} is already held by this thread")
        if not self.rank and waits:
            raise LockOrder(f"{self} may only be tried")
        untangled = (self.kind == "conversation" and fresh) or (self.kind == "seat" and not waits)
        if self.rank and not (self.rank > top or (untangled and top <= seat)):
            raise LockOrder(f"{self} comes before {', '.join(str(lock) for lock in mine if lock.rank >= self.rank)}")

    def attempt(self) -> bool:
        """One try, whatever the order says."""
        if not self.file.take():
            return False
        self.thread = threading.get_ident()
        self._locks.held.append(self)
        self.note(self.last.note)
        return True


class SeatLock:
    """A taken seat, and what its last holder wrote about its window."""

    def __init__(self, lock: Lock) -> None:
        self.number = int(lock.key)
        self._lock = lock

    def window(self) -> str | None:
        return self._lock.last.note or None

    def note_window(self, window: str | None) -> None:
        self._lock.note(window or "")


class Locks:
    """All locks of one home, as this process sees them. Safe for threads: each has its own order.

    on_wait: called with the lock's name, its holder and the seconds waited, at each turn of a wait. purpose: a word for people,
    such as the command. `epoch` is set by owner.own.
    """

    def __init__(
        self, dir_fd: int, host: Host, *, purpose: str = "", seats: int = 3, flock: Flock = fcntl.flock, on_wait: OnWait | None = None
    ) -> None:
        self.dir_fd, self.host, self.purpose, self.seats, self.flock, self.on_wait = dir_fd, host, purpose, seats, flock, on_wait
        self.epoch = ""
        self.held: list[Lock] = []
        self._known: dict[tuple[str, str], Lock] = {}
        _ALL.add(self)

    def lock(self, kind: str, key: str = "") -> Lock:
        """The lock of a kind: `conversation` (key: its id), `seat` (number), `chrome`, `dispatch`, `ledger`, `registry`, `sweep`."""
        if kind not in RANKS and kind not in UNRANKED:
            raise LockOrder(f"no place in the order for {kind}")
        return self._known.setdefault((kind, key), Lock(self, kind, key))

    def holder(self, note: str) -> Holder:
        """This process, as its lock files describe it."""
        return Holder(self.host.pid, self.epoch, self.purpose, self.host.wall(), note)

    @contextmanager
    def conversation(self, conversation_id: str, *, wait_s: float = WAIT_S, heed: Callable[[], None] | None = None) -> Iterator[None]:
        with self.lock("conversation", conversation_id).hold(wait_s, heed=heed):
            yield

    @contextmanager
    def fresh_conversation(self, conversation_id: str) -> Iterator[None]:
        """The one exception to the order: nobody can wait for the lock of a conversation that did not exist before."""
        with self.lock("conversation", conversation_id).hold(fresh=True):
            yield

    @contextmanager
    def seat(self, *, wait_s: float = WAIT_S, heed: Callable[[], None] | None = None) -> Iterator[SeatLock]:
        """The first free seat, waiting for any of them; Failure("busy") names the holder of the last one."""
        lock = self._first_seat(wait_s, heed)
        try:
            yield SeatLock(lock)
        finally:
            lock.release()

    def _first_seat(self, wait_s: float, heed: Callable[[], None] | None) -> Lock:
        seats = [self.lock("seat", str(number)) for number in range(self.seats)]
        for seat in seats:
            seat.in_order(fresh=False, waits=True)
        for _ in self.turns(f"every one of {self.seats} seats", lambda: seats[-1].last, wait_s, heed):
            for seat in seats:
                if seat.attempt():
                    return seat
        raise AssertionError("turns end with a Failure")

    def turns(self, what: str, last: Callable[[], Holder], wait_s: float, heed: Callable[[], None] | None) -> Iterator[None]:
        """One bounded wait: a turn for each attempt, with a sleep between them, then Failure("busy")."""
        begun, pause = self.host.boottime(), 0.01
        while True:
            yield
            waited = self.host.boottime() - begun
            if waited >= wait_s:
                raise Failure("busy", f"{what} is in use by {last()}; gave up after {waited:.0f} s.", "Wait for it to end, or stop it.")
            if heed is not None:
                heed()
            if self.on_wait is not None:
                self.on_wait(what, last(), waited)
            self.host.sleep(max(0.001, min(pause, wait_s - waited)))
            pause = min(pause * 1.5, 0.25)

    @contextmanager
    def dead_seats(self) -> Iterator[list[ports.SeatLock]]:
        """Every seat that is free now, held while inside; none is waited for."""
        with ExitStack() as stack:
            found: list[ports.SeatLock] = []
            for number in range(self.seats):
                lock = self.lock("seat", str(number))
                if not lock.held and lock.try_acquire():
                    stack.callback(lock.release)
                    found.append(SeatLock(lock))
            yield found

    @contextmanager
    def dispatch(self) -> Iterator[None]:
        with self.lock("dispatch").hold():
            yield

    def is_held(self, conversation_id: str) -> bool:
        return self.lock("conversation", conversation_id).is_taken()

    @contextmanager
    def sweep(self) -> Iterator[bool]:
        lock = self.lock("sweep")
        if not lock.try_acquire():
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def probe(self) -> None:
        """Self-test with two descriptors; Failure("bad-config") when flock fails or lets both in. Microseconds."""
        lock = Lock(self, "probe", "")
        # Refused: another process is testing at this moment, and that we see it is the proof.
        if lock.attempt():
            lock.release()

    def probe_across(self) -> None:
        """Self-test with a second process, for a new home: its own descriptor must be refused while we hold the lock."""
        lock = Lock(self, "probe", "")
        if not lock.attempt():
            return
        try:
            if not lock.file.refused_in_child():
                raise no_flock("another process is let in")
        finally:
            lock.release()

    def close_in_child(self) -> None:
        """In a forked child: close every lock without unlocking it. Else it would outlive the parent for as long as the child lives."""
        for lock in self.held:
            lock.thread = 0
            lock.file.close_in_child()
        self.held.clear()


_ALL: weakref.WeakSet[Locks] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for locks in list(_ALL):
        locks.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)
