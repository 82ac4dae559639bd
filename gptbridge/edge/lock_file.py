"""One lock file: how it is opened, taken with flock, proved to exclude, described and given back.

Guarantees: at most one holder among all threads and processes of this machine; a holder that dies, however, frees it. Each taking is
tested with a second descriptor, since a file system can say yes without locking. The file is never deleted (an unlinked one has two
holders). Touches: that file, below a directory descriptor; no link is followed. Owns its content: one line of JSON about the holder, for
people; only of an owner slot its epoch decides something (edge/owner.py), so a line never names another holder than the present or the
last one. flock only: a POSIX lock is lost when any descriptor of the file is closed.
Fails closed: any error of flock but "taken" is `bad-config`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gptbridge.core.errors import Failure

_TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK)
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Flock = Callable[[int, int], None]


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


class LockFile:
    """The file `name` in the folder `dir_fd`. `last`: of the last refused attempt, or what the holder before us left."""

    def __init__(self, dir_fd: int, name: str, flock: Flock) -> None:
        self.name, self.last, self.fd = name, Holder(), -1
        self._dir, self._call = dir_fd, flock

    def take(self) -> bool:
        """One try; False when it is taken."""
        try:
            for _ in range(10):
                taken = self._try_file()
                if taken is not None:
                    return taken
        except OSError as why:
            raise Failure("state-unwritable", f"locks/{self.name} cannot be used: {why.strerror}.") from why
        raise no_flock("the lock file does not stay")

    def give(self) -> None:
        """Give it back. LOCK_UN, since a forked child may still have the descriptor and closing ours alone would not free it."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        _write(fd, Holder(note=self.last.note))
        try:
            self._call(fd, fcntl.LOCK_UN)
        except OSError:
            pass  # closing it frees it all the same, and what was done under it stands
        finally:
            os.close(fd)

    def close_in_child(self) -> None:
        """Let go of the descriptor alone: the parent holds the lock still."""
        os.close(self.fd)
        self.fd = -1

    def describe(self, holder: Holder) -> None:
        self.last = holder
        _write(self.fd, holder)

    def is_taken(self) -> bool:
        """Whether anyone holds it now (`last`). It is tried for an instant: not for locks that others take without waiting."""
        if self.fd >= 0:
            return True
        try:
            fd = self._open()
        except FileNotFoundError:
            return False
        try:
            if self._flock(fd):
                return False
            self.last = _read(fd)
            return True
        finally:
            os.close(fd)

    def refused_in_child(self) -> bool:
        """Whether a second process is refused while we hold it."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            answer = b"?"
            try:
                fd = self._open()
                answer = b"y" if self._flock(fd) else b"n"
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

    def _open(self, create: int = 0) -> int:
        try:
            fd = os.open(self.name, _OPEN | create, 0o600, dir_fd=self._dir)
        except FileNotFoundError:
            raise
        except OSError as why:
            link = why.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO)
            raise Failure("bad-config" if link else "state-unwritable", f"locks/{self.name} cannot be opened: {why.strerror}.",
                          f"Move locks/{self.name} away." if link else "") from why
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            os.close(fd)
            raise Failure("bad-config", f"locks/{self.name} belongs to another user.")
        if found.st_mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)
        return fd

    def _flock(self, fd: int) -> bool:
        try:
            self._call(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as why:
            if why.errno in _TAKEN:
                return False
            raise no_flock(f"flock says {why.strerror}") from why

    def _try_file(self) -> bool | None:
        """None when the file was not the one that its name leads to: a lock on an unlinked file excludes nobody."""
        fd = self._open(os.O_CREAT)
        try:
            if not self._flock(fd):
                self.last = _read(fd)
                return False
            try:
                named, mine = os.stat(self.name, dir_fd=self._dir, follow_symlinks=False), os.fstat(fd)
                if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
                    return None
                self._second_descriptor()
            except FileNotFoundError:
                return None
            self.last = _read(fd)
            self.fd, fd = fd, -1
            return True
        finally:
            if fd >= 0:
                os.close(fd)

    def _second_descriptor(self) -> None:
        """With the lock held, a second descriptor must be refused, in the same process too; else flock lies."""
        second = self._open()
        try:
            if self._flock(second):
                raise no_flock("flock lets two holders in")
        finally:
            os.close(second)


def _write(fd: int, holder: Holder) -> None:
    """Best effort: the lock is what counts, and a full disk must not keep anyone from giving one back. The first line counts:
    it is written before the old rest is cut off, so that a kill between the two does not lose a note."""
    line = holder.line() if holder != Holder() else b""
    try:
        os.pwrite(fd, line, 0)
        os.ftruncate(fd, len(line))
    except OSError:
        if not holder.note:
            with suppress(OSError):
                os.ftruncate(fd, 0)  # an earlier owner's epoch here would have its successor, which lives, taken for dead


def _read(fd: int) -> Holder:
    return Holder.parse(os.pread(fd, 4096, 0).partition(b"\n")[0])


def no_flock(what: str) -> Failure:
    return Failure("bad-config", f"The file system of the home has no working flock ({what}).", "Set ASKGPT_HOME to a local disk.")
