"""The eleven seeded defects of the durability study, each a part in the test tree that stands where the product's own stands.

`MUTANTS` in the order of the study's table. Seven are ways to treat the disk, as a product with that defect would call it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gptbridge.core.lifecycle import State
from gptbridge.core.pacing import Stamp
from gptbridge.core.record import SEAL
from gptbridge.edge.disk import Disk, unwritable
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.stamps import StampFile
from gptbridge.flow.custody import Custody
from gptbridge.flow.sending import Sending
from tests.crash.harness_process import Parts


class Wrapped(Disk):
    """Passes everything on to `inner`; a defect overrides what it does otherwise."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        for name in ("open", "close", "stat", "fstat", "fchmod", "read", "write", "copy_range", "ftruncate", "fsync", "fsync_dir", "rename",
                     "unlink", "mkdir", "names", "token"):
            if name not in type(self).__dict__:
                setattr(self, name, getattr(inner, name))


class DispatchedNotSynced(Wrapped):
    def __init__(self, inner: Disk) -> None:
        super().__init__(inner)
        self._last: dict[int, bytes] = {}

    def write(self, fd: int, data: bytes) -> int:
        self._last[fd] = data
        return self.inner.write(fd, data)

    def fsync(self, fd: int) -> None:
        if b'"state":"dispatched"' not in self._last.get(fd, b""):
            self.inner.fsync(fd)


class ErrorSwallowed(Wrapped):
    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except OSError:
            pass


class ErrorRetried(Wrapped):
    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except OSError:
            self.inner.fsync(fd)


class RenameUnsynced(Wrapped):
    """A temporary file is put in a file's place before its bytes are safe."""

    def __init__(self, inner: Disk) -> None:
        super().__init__(inner)
        self._temporary: set[int] = set()

    def open(self, name: str, flags: int, dir_fd: int, mode: int = 0o600) -> int:
        fd = self.inner.open(name, flags, dir_fd, mode)
        (self._temporary.add if name.endswith(".tmp") else self._temporary.discard)(fd)
        return fd

    def fsync(self, fd: int) -> None:
        if fd not in self._temporary:
            self.inner.fsync(fd)


class FolderUnsynced(Wrapped):
    def fsync_dir(self, fd: int) -> None:
        pass


class BlindAppend(Wrapped):
    """A torn end is not sealed: the next record is written right behind it."""

    def write(self, fd: int, data: bytes) -> int:
        return len(data) if data == SEAL else self.inner.write(fd, data)


class ShortWriteIgnored(Wrapped):
    def write(self, fd: int, data: bytes) -> int:
        self.inner.write(fd, data)
        return len(data)


class ClickFirst(Sending):
    """The click comes before the commit."""

    def _commit(self) -> bool:
        self._committed = self._w.clock.now().boottime
        self._gate.open_once()
        self._pressed = True
        self._page.press()
        return super()._commit()

    def _press(self) -> None: ...


class InPlace(StampFile):
    """The stamp is written over in its place."""

    def write(self, account: str, stamp: Stamp) -> None:
        import json

        disk, folder = self._home.disk, self._home.need()
        accounts = {**self._accounts(), account: stamp}
        data = json.dumps({"format": "ask-gpt-stamp/1", "accounts": {n: s.fields() for n, s in accounts.items()}}).encode() + b"\n"
        try:
            fd = disk.open("dispatch.stamp", os.O_RDWR, folder)
            disk.ftruncate(fd, 0)
        except FileNotFoundError:
            fd = disk.open("dispatch.stamp", os.O_RDWR | os.O_CREAT | os.O_EXCL, folder)
        try:
            disk.write(fd, data)
            disk.fsync(fd)
            disk.fsync_dir(folder)
        except OSError as why:
            raise unwritable("dispatch.stamp", why) from why
        finally:
            disk.close(fd)


class ResendsClaimed(Custody):
    """Recovery takes a claimed row for one that surely was not sent, and sends it."""

    def recover(self) -> Any:
        w = self._w
        for op in w.ledger.view().operations.values():
            with w.owner.hold_dead(op.epoch) as dead:
                if dead and op.state in (State.CLAIMED, State.DISPATCHED):
                    prompt = (w.spool.prompt(op.operation_id) or b"").decode()
                    _, seat = w.browser.seat(0)
                    seat.gate.arm()
                    seat.page.open(None if op.target == "new" else op.target)
                    seat.page.type(prompt)
                    seat.gate.open_once()
                    seat.page.press()
                    held = seat.gate.wait(0.0)
                    if held is not None:
                        seat.gate.release(held)
        return super().recover()


class GapInLock(LedgerFile):
    """The lock is given back between reading and appending. `between` is what another process does in that moment."""

    between: Callable[[], None] = staticmethod(lambda: None)

    def transact(self, decide: Any) -> Any:
        rows: list[Any] = []

        def read(view: Any) -> list[Any]:
            rows.extend(decide(view))
            return []

        view = super().transact(read)
        type(self).between()
        return super().transact(lambda view: rows) if rows else view


MUTANTS = {
    "click before dispatched": Parts("click before dispatched", sending=ClickFirst),
    "dispatched not fsynced": Parts("dispatched not fsynced", disk=DispatchedNotSynced),
    "fsync error swallowed": Parts("fsync error swallowed", disk=ErrorSwallowed),
    "fsync retried after error": Parts("fsync retried after error", disk=ErrorRetried),
    "rename without fsync": Parts("rename without fsync", disk=RenameUnsynced),
    "no directory fsync": Parts("no directory fsync", disk=FolderUnsynced),
    "overwrite in place": Parts("overwrite in place", stamps=InPlace),
    "blind append to a torn tail": Parts("blind append to a torn tail", disk=BlindAppend),
    "recovery re-sends claimed": Parts("recovery re-sends claimed", custody=ResendsClaimed),
    "short write ignored": Parts("short write ignored", disk=ShortWriteIgnored),
    "lock released between check and use": Parts("lock released between check and use", ledger=GapInLock),
}
