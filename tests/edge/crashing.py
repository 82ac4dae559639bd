"""Children that die where they are told to, and disks that record, fail or kill: real processes and real files throughout."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from gptbridge.edge.disk import Disk
from gptbridge.edge.home import Home, open_home
from gptbridge.edge.journal import Journal

CALLS = ("open", "fchmod", "write", "copy_range", "ftruncate", "fsync", "fsync_dir", "rename", "link", "link_across", "rename_new",
         "unlink", "mkdir", "rmdir")


class Quick(Disk):
    """Without fsync, which only a power cut could tell: what a killed process wrote is in the page cache and stays."""

    def fsync(self, fd: int) -> None:
        pass

    fsync_dir = fsync


class Tap(Quick):
    """A disk that tells `on(call, args)` of every call that can change something, before it is done."""

    def __init__(self, on: Callable[[str, tuple[Any, ...]], None]) -> None:
        for name in CALLS:
            setattr(self, name, self._tapped(name, on))

    def _tapped(self, name: str, on: Callable[[str, tuple[Any, ...]], None]) -> Callable[..., Any]:
        real = getattr(super(), name)

        def call(*args: Any) -> Any:
            on(name, args)
            return real(*args)

        return call


class Recorder(Tap):
    """`calls`: names and what matters of the arguments, in order; temporary names shown as TEMP, reading opens left out."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        super().__init__(self._note)

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        shown = tuple("TEMP" if isinstance(a, str) and a.endswith(".tmp") else a for a in args if isinstance(a, str))
        if name != "open" or args[1] & os.O_ACCMODE != os.O_RDONLY:
            self.calls.append((name, *shown))


class Faulty(Tap):
    """The n-th call of `call` (from 1) raises `number`; for write with `short`, that many bytes are written instead."""

    def __init__(self, call: str, n: int = 1, number: int = errno.ENOSPC, short: int | None = None) -> None:
        self.seen = dict.fromkeys(CALLS, 0)
        self.fault = (call, n, number)
        self.short = short
        super().__init__(self._maybe)

    def _maybe(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "open" and args[1] & os.O_ACCMODE == os.O_RDONLY:
            return
        self.seen[name] += 1
        call, n, number = self.fault
        if name == call and self.seen[name] == n and self.short is None:
            raise OSError(number, os.strerror(number))

    def _tapped(self, name: str, on: Callable[[str, tuple[Any, ...]], None]) -> Callable[..., Any]:
        inner = super()._tapped(name, on)

        def call(*args: Any) -> Any:
            if name == self.fault[0] == "write" and self.seen["write"] + 1 == self.fault[1] and self.short is not None:
                args = (args[0], args[1][: self.short])
            return inner(*args)

        return call


class Killer(Tap):
    """Kills this process before its n-th call (from 1), or half way through a write."""

    def __init__(self, n: int, *, half: bool = False) -> None:
        self.left, self.half = n, half
        super().__init__(self._count)

    def _count(self, name: str, args: tuple[Any, ...]) -> None:
        self.left -= 1
        if self.left == 0:
            if self.half and name == "write":
                os.write(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)


def child(work: Callable[[], object]) -> int:
    """A forked process that does `work` and ends: 0, or 1 with a traceback. Gives its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def status(pid: int, within: float = 20.0) -> int:
    """How a child ended: its exit code, or minus its signal. One that does not end in time is killed and is an error."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(raw)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child did not end")


@contextmanager
def holding(work: Callable[[Callable[[], None]], None]):
    """A child that runs `work(ready)`; entered once it called `ready`, which then sleeps for ever. Killed at the end."""
    reader, writer = os.pipe()

    def ready() -> None:
        os.write(writer, b".")
        while True:
            time.sleep(60)

    pid = child(lambda: work(ready))
    os.close(writer)
    try:
        assert os.read(reader, 1) == b".", "the child died early"
        yield pid
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)


def make_home(tmp_path: Any, **options: Any) -> Home:
    return open_home({"ASKGPT_HOME": str(tmp_path / "home")}, **{"disk": Quick(), **options})


def ledger(home: Home, disk: Disk | None = None) -> Journal:
    assert home.locks is not None
    return Journal(disk or home.disk, home.fd, "ledger.jsonl", home.locks.lock("ledger"))
