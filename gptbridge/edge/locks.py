"""Who may act: named flocks in the home's `locks` folder, and the one order in which they are taken.

Guarantees: at most one holder of a lock among all threads and processes of this machine; a holder that dies, however, frees it;
a wait is bounded and its error names lock and holder; a lock out of order is a bug and raises `LockOrder` before it can deadlock.
Every lock is tested with a second descriptor as it is taken, since a file system can say yes without locking.
Touches: one file for each lock, which is never deleted (an unlinked one has two holders). Owns its content: one line of JSON about
the holder, for people only; it decides nothing. flock only: a POSIX lock is lost when any descriptor of the file is closed.
Fails closed: any error of flock but "taken" is `bad-config`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gptbridge.core.errors import Failure

if TYPE_CHECKING:
    from gptbridge.core import ports

# The one order: a thread that holds a lock waits only for locks of a higher rank. The unranked (owner slots, the self-test's file, the
# sweep's) are tried, never waited for.
RANKS = {"conversation": 1, "seat": 2, "chrome": 3, "dispatch": 4, "ledger": 5, "registry": 6}
UNRANKED = ("owner", "probe", "sweep")
SLOTS = 1024
WAIT_S = 30.0
_TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK)
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,120}")
_EPOCH = re.compile(r"(0|[1-9][0-9]{0,3})\.[0-9a-f]{1,64}")
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Flock = Callable[[int, int], None]


class LockOrder(RuntimeError):
    """A lock was asked for while this thread holds one that comes after it, or the same: a bug, found before it deadlocks."""


class Host(Protocol):
    @property
    def pid(self) -> int: ...
    def wall(self) -> float: ...
    def boottime(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    def random_bytes(self, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Holder:
    """What a holder wrote about itself; `since` in epoch seconds; `note` outlives it (a seat's window). pid 0: nobody now."""

    pid: int = 0
    epoch: str = ""
    purpose: str = ""
    since: float = 0.0
    note: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        return f"process {self.pid} ({self.purpose or 'unknown'}, since {time.strftime('%H:%M:%SZ', time.gmtime(self.since))})"

    def line(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode("ascii") + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Holder:
        """The holder of a lock file's content; an empty one for anything that is not ours."""
        try:
            found = json.loads(data)
            texts = [re.sub(r"[^ -~]", "?", str(found[name]))[:200] for name in ("epoch", "purpose", "note")]
            return cls(int(found["pid"]), texts[0], texts[1], float(found["since"]), texts[2])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return cls()


OnWait = Callable[[str, Holder, float], None]


class Lock:
    """One named lock. Made by `Locks.lock`; a thread that holds it must be the one that gives it back."""

    def __init__(self, locks: Locks, kind: str, key: str) -> None:
        self.kind, self.key = kind, key
        plain = key if _PLAIN.fullmatch(key) else "~" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.name = f"{kind}-{plain}" if key else kind
        self.rank = RANKS.get(kind, 0)
        self.last = Holder()  # of the last refused attempt, or what the holder before us left
        self.fd = -1
        self.thread = 0
        self._locks = locks

    def __str__(self) -> str:
        return f"{self.kind} {self.key}".rstrip() if self.kind in ("conversation", "seat", "owner") else f"the {self.kind} lock"

    @property
    def held(self) -> bool:
        """Whether this thread holds it."""
        return self.fd >= 0 and self.thread == threading.get_ident()

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
        """Give it back. LOCK_UN, since a forked child may still have the descriptor and closing ours alone would not free it."""
        fd, self.fd, self.thread = self.fd, -1, 0
        if fd < 0:
            return
        self._locks.held.remove(self)
        _describe(fd, Holder(note=self.last.note))
        try:
            self._locks.flock(fd, fcntl.LOCK_UN)
        except OSError:
            pass  # closing it frees it all the same, and what was done under it stands
        finally:
            os.close(fd)

    def note(self, text: str) -> None:
        """Leave a word for the next holder (printable ASCII, at most 200 characters); not durable."""
        self._describe(text)

    def is_taken(self) -> bool:
        """Whether anyone holds it now. It is tried for an instant: not for locks that others take without waiting."""
        if self.fd >= 0:
            return True
        try:
            fd = self._open()
        except FileNotFoundError:
            return False
        try:
            return not self._flock(fd)
        finally:
            os.close(fd)

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

    def _open(self, create: int = 0) -> int:
        try:
            fd = os.open(self.name, _OPEN | create, 0o600, dir_fd=self._locks.dir_fd)
        except FileNotFoundError:
            raise
        except OSError as why:
            link = why.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO)
            raise Failure("bad-config" if link else "state-unwritable", f"locks/{self.name} cannot be opened: {why.strerror}.") from why
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            os.close(fd)
            raise Failure("bad-config", f"locks/{self.name} belongs to another user.")
        if found.st_mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)
        return fd

    def _flock(self, fd: int) -> bool:
        try:
            self._locks.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as why:
            if why.errno in _TAKEN:
                return False
            raise _no_flock(f"flock says {why.strerror}") from why

    def attempt(self) -> bool:
        """One try, whatever the order says."""
        try:
            for _ in range(10):
                taken = self._try_file()
                if taken is not None:
                    return taken
        except OSError as why:
            raise Failure("state-unwritable", f"locks/{self.name} cannot be used: {why.strerror}.") from why
        raise _no_flock("the lock file does not stay")

    def _try_file(self) -> bool | None:
        """None when the file was not the one that its name leads to: a lock on an unlinked file excludes nobody."""
        fd = self._open(os.O_CREAT)
        try:
            if not self._flock(fd):
                self.last = _holder(fd)
                return False
            try:
                named, mine = os.stat(self.name, dir_fd=self._locks.dir_fd, follow_symlinks=False), os.fstat(fd)
                if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
                    return None
                self._second_descriptor()
            except FileNotFoundError:
                return None
            self.last = _holder(fd)
            self.fd, self.thread, fd = fd, threading.get_ident(), -1
            self._locks.held.append(self)
            self._describe(self.last.note)
            return True
        finally:
            if fd >= 0:
                os.close(fd)

    def _second_descriptor(self) -> None:
        """With the lock held, a second descriptor must be refused, in the same process too; else flock lies."""
        second = self._open()
        try:
            if self._flock(second):
                raise _no_flock("flock lets two holders in")
        finally:
            os.close(second)

    def _describe(self, note: str) -> None:
        locks = self._locks
        self.last = Holder(locks.host.pid, locks.epoch, locks.purpose, locks.host.wall(), note)
        _describe(self.fd, self.last)


def _describe(fd: int, holder: Holder) -> None:
    """Best effort: the lock is what counts, and a full disk must not keep anyone from giving one back. The first line counts:
    it is written before the old rest is cut off, so that a kill between the two does not lose a note."""
    line = holder.line() if holder != Holder() else b""
    try:
        os.pwrite(fd, line, 0)
        os.ftruncate(fd, len(line))
    except OSError:
        pass


def _holder(fd: int) -> Holder:
    return Holder.parse(os.pread(fd, 4096, 0).partition(b"\n")[0])


def _no_flock(what: str) -> Failure:
    return Failure("bad-config", f"The file system of the home has no working flock ({what}).", "Set ASKGPT_HOME to a local disk.")


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
    such as the command. `epoch` is set by `own`.
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
            if not _refused_in_child(lock):
                raise _no_flock("another process is let in")
        finally:
            lock.release()

    def close_in_child(self) -> None:
        """In a forked child: close every lock without unlocking it. Else it would outlive the parent for as long as the child lives."""
        for lock in self.held:
            os.close(lock.fd)
            lock.fd, lock.thread = -1, 0
        self.held.clear()


def _refused_in_child(lock: Lock) -> bool:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"?"
        try:
            fd = lock._open()
            answer = b"y" if lock._flock(fd) else b"n"
        finally:
            os.write(writer, answer)
            os._exit(0)
    os.close(writer)
    try:
        answer = os.read(reader, 1)
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # SIGCHLD is ignored here, the kernel has buried it
        return answer == b"n"
    finally:
        os.close(reader)


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
    """Take the first free owner slot, without waiting, and make this process's epoch; Failure("busy") when all are taken."""
    for slot in range(SLOTS):
        lock = locks.lock("owner", str(slot))
        epoch = f"{slot}.{locks.host.random_bytes(8).hex()}"
        before, locks.epoch = locks.epoch, epoch
        if lock.try_acquire():
            return Owner(locks, lock, epoch)
        locks.epoch = before
    raise Failure("busy", f"All {SLOTS} owner slots are taken.", "End some of the running commands.")


_ALL: weakref.WeakSet[Locks] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for locks in list(_ALL):
        locks.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)
