"""How records become durable: an append-only file of one record a line, for ledger and registry.

Guarantees: what an append returns is on the disk (fsync of the file, and of its folder for a new name); after a failed or short write
or a failed fsync nothing is tried again (a second fsync that succeeds proves nothing), the caller gets `state-unwritable`, and the
journal object refuses to append until `reopen()`.
Touches: one name below a directory descriptor, through edge/disk.py and edge/files.py; these three are all that writes durable state.
The format of a line is core/record.py's. Fails closed: Failure names the file, never its content.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from gptbridge.core.errors import Failure
from gptbridge.core.record import SEAL, BadLine, Record, Scan, Stale, decode, encode, scan, whole_lines
from gptbridge.edge.disk import CHUNK, Disk, FsyncFailed, component, named, private, read_from, regular, sync, write_once
from gptbridge.edge.files import read_bytes, temporary

_PIECE = 1 << 22
_MANY = 16  # records; from here on one replacement of the file is cheaper than an fsync for each
AWAY = "restore the file; else ask-gpt ops accept-loss --because TEXT moves it aside"


class Held(Protocol):
    """A lock, as far as a journal cares: whether the calling thread holds it now."""

    @property
    def held(self) -> bool: ...


class NoLock:
    """For those who only read: nothing is ever held."""

    held = False


class Appended(NamedTuple):
    """What an append did: the number of the (last) record, and how many torn bytes of a dead writer it sealed first."""

    seq: int
    sealed: int


class _Seen(NamedTuple):
    """What was read last: the view, the file it was in, the bytes at both ends of it, and the CRC-32 of all its committed bytes."""

    scan: Scan
    inode: tuple[int, int]
    ends: tuple[bytes, bytes]
    crc: int


class Journal:
    """One append-only file of records. Reading needs no lock; every write asserts that this thread holds `lock`.

    dir_fd: the folder, None for a home that does not exist (reads as empty). keep: False for a file that may be too large for memory:
    it is read by `piece` bytes, every record is checked and let go, and a Scan holds the last one at most.
    """

    def __init__(self, disk: Disk, dir_fd: int | None, name: str, lock: Held, *, keep: bool = True, piece: int = _PIECE) -> None:
        self.name = component(name)
        self._disk, self._dir, self._lock = disk, dir_fd, lock
        self._width = None if keep else piece
        self._seen: _Seen | None = None
        self.beginnings = 0  # how often the file was read from its start: another number is another list of records
        self._failed = False  # a write broke off: no further one before `reopen`
        self._distrust = False  # an fsync failed: the file's pages may be lost whatever a later one says
        self._safe: tuple[int, int, int] | None = None  # device, inode and size of the file whose name and bytes we put on the disk

    def read(self) -> Scan:
        """The whole file; only what is new is read when it is the file of last time. An absent file is an empty Scan."""
        seen = self._look()
        return seen.scan if seen else Scan()

    @property
    def seen(self) -> Scan:
        """What `read` or an append saw last, where the lock was held since; else as `read`."""
        return self._seen.scan if self._seen else self.read()

    @property
    def checksum(self) -> int:
        """CRC-32 of the committed bytes as `read` found them last."""
        return self._seen.crc if self._seen else 0

    def start_at(self, size: int, checksum: int, known: Scan) -> bool:
        """Go on from a view of the file's first `size` bytes that somebody kept; False, and nothing changed, where these bytes are not
        the ones of then. Later reads give the records behind them alone."""
        with named(self.name, AWAY), self._open() as fd:
            if fd < 0:
                return False
            found, crc, at = regular(self._disk, fd), 0, 0
            while at < size and (part := self._disk.read(fd, min(CHUNK, size - at), at)):
                crc, at = zlib.crc32(part, crc), at + len(part)
            if (at, crc) != (size, checksum):
                return False
            self._seen = _Seen(known, (found.st_dev, found.st_ino), self._ends(fd, size), crc)
            return True

    @property
    def ends_checksum(self) -> int:
        """CRC-32 of both ends of what `read` found last, as `start_between` wants it."""
        return zlib.crc32(b"".join(self._seen.ends)) if self._seen else 0

    def start_between(self, size: int, ends: int, known: Scan) -> bool:
        """As `start_at`, for display: only both ends of the first `size` bytes are looked at."""
        with named(self.name), self._open() as fd:
            if fd < 0:
                return False
            found, seen = regular(self._disk, fd), self._ends(fd, size)
            if found.st_size < size or zlib.crc32(b"".join(seen)) != ends:
                return False
            self._seen = _Seen(known, (found.st_dev, found.st_ino), seen, 0)
            return True

    def newest(self) -> Iterator[Record]:
        """Valid records, newest first, without reading the whole file; for display (damage is skipped, order is not checked)."""
        for line, at in self.newest_lines():
            try:
                yield Record(*decode(line), at)
            except BadLine:
                continue

    def newest_lines(self) -> Iterator[tuple[bytes, int]]:
        """(line without its LF, offset), newest first, valid or not; bytes behind the last LF are left out."""
        for at, block in self._backwards():
            at += len(block)
            for line in block.split(b"\n")[-2::-1]:
                at -= len(line) + 1
                yield line, at

    def mentioning(self, text: bytes) -> Iterator[Record]:
        """Valid records whose line holds `text`, newest first; no other line is looked at. For display, as `newest`."""
        for at, block in self._backwards():
            end = len(block)
            while (hit := block.rfind(text, 0, end)) >= 0:
                end = block.rfind(b"\n", 0, hit) + 1
                try:
                    yield Record(*decode(block[end:block.index(b"\n", hit)]), at + end)
                except BadLine:
                    continue

    def _backwards(self) -> Iterator[tuple[int, bytes]]:
        """(offset, whole lines) from the end of the file to its start, in growing steps."""
        with named(self.name, AWAY), self._open() as fd:
            end, width = regular(self._disk, fd).st_size if fd >= 0 else 0, 1 << 14
            while end > 0:
                begin = max(0, end - width)
                chunk = read_from(self._disk, fd, begin, end)
                start, stop = whole_lines(chunk, whole=begin == 0)
                if start < stop:
                    yield begin + start, chunk[start:stop]
                if begin == 0:
                    return
                if start < stop:
                    end, width = begin + start, min(2 * width, CHUNK)
                else:
                    width *= 2

    def append(self, fields: dict[str, Any], *, expect: int, despite_damage: bool = False, seq: int | None = None) -> Appended:
        """Write one record and return when it is on the disk.

        expect: `next_seq` of the Scan on which the caller decided; Stale if the file has gone on since. seq: a higher number
        than that, for the record that accepts a loss. despite_damage: the caller knows of the damage and may go on; else it is
        `state-corrupt`, naming file and line. A torn end is sealed first.
        """
        return self._append([fields], expect, despite_damage, seq)

    def append_all(self, rows: Sequence[dict[str, Any]], *, expect: int, despite_damage: bool = False) -> Appended:
        """Write several records, in order. A crash may leave the first few of them; more than 16 come all or not at all."""
        return self._append(rows, expect, despite_damage, None)

    def rewrite(self, rows: Iterable[dict[str, Any]], first: dict[str, Any], *, expect: int, despite_damage: bool = False) -> Appended:
        """Replace the file (pruning) by `first` and `rows`, under new numbers: `first` gets the next one and `base`, the same
        number, from which the rows go on. The caller holds the lock from reading to here."""
        seen = self._begin(expect, despite_damage)
        base = expect
        lines = [encode(base, {**first, "base": base}), *(encode(base + 1 + n, row) for n, row in enumerate(rows))]
        self._replace(lines)
        return Appended(base + len(lines) - 1, seen.scan.torn_size if seen else 0)

    def settle(self) -> None:
        """Put on the disk what others wrote, and the file's name: before anything that must not outlive these records. Who wrote them may
        have been killed just before that, and a power cut then takes the whole file."""
        if not self._lock.held:
            raise RuntimeError(f"sync of {self.name} without its lock")
        seen = self._look()
        if seen is None or self._safe == (*seen.inode, seen.scan.size):
            return
        with self._writing() as dir_fd:
            fd = self._disk.open(self.name, os.O_RDWR | os.O_APPEND, dir_fd)
            try:
                opened = private(self._disk, fd)
                sync(self._disk, fd)
                sync(self._disk, dir_fd, folder=True)
                self._safe = opened.st_dev, opened.st_ino, opened.st_size
            finally:
                self._disk.close(fd)

    @property
    def sound(self) -> bool:
        """False after a write or an fsync that failed, until an append has made it good."""
        return not (self._failed or self._distrust)

    def reopen(self) -> None:
        """Let appends go on after a failure, for the witness's last word. The file is read anew, its torn end sealed; after a
        failed fsync its bytes go to a new file first, since those of the old one may never reach the disk."""
        self._failed = False
        self._seen = None

    @contextmanager
    def _open(self) -> Iterator[int]:
        """A descriptor for reading, -1 for a file that is not there."""
        try:
            fd = -1 if self._dir is None else self._disk.open(self.name, os.O_RDONLY | os.O_NONBLOCK, self._dir)
        except FileNotFoundError:
            fd = -1
        try:
            yield fd
        finally:
            if fd >= 0:
                self._disk.close(fd)

    def _look(self) -> _Seen | None:
        with named(self.name, AWAY), self._open() as fd:
            self._seen = self._refresh(fd) if fd >= 0 else None
            return self._seen

    def _refresh(self, fd: int) -> _Seen:
        found, seen = regular(self._disk, fd), self._seen
        inode = (found.st_dev, found.st_ino)
        # An inode number can come back after two rewrites, so the bytes at both ends must be the known ones as well.
        if seen and (seen.inode != inode or found.st_size < seen.scan.clean_size or seen.ends != self._ends(fd, seen.scan.clean_size)):
            seen = None
        if seen is None:
            self.beginnings += 1
        if seen and found.st_size == seen.scan.clean_size and not seen.scan.torn:
            return seen
        new, crc = self._scan(fd, seen)
        return _Seen(new, inode, self._ends(fd, new.clean_size), crc)

    def _scan(self, fd: int, seen: _Seen | None) -> tuple[Scan, int]:
        """What the file holds now, read from behind `seen`; at once, or piece by piece where the records are not kept."""
        found, crc = (seen.scan, seen.crc) if seen else (Scan(), 0)
        width = self._width or sys.maxsize
        while True:
            at = found.clean_size
            data = read_from(self._disk, fd, at, at + width)
            last = len(data) < width
            if not last and not (whole := data.rfind(b"\n") + 1):
                width *= 2
                continue
            found = scan(data if last else data[:whole], after=found)
            crc = zlib.crc32(memoryview(data)[:found.clean_size - at], crc)
            if self._width:
                found = dataclasses.replace(found, records=found.records[-1:])
            if last:
                return found, crc

    def _ends(self, fd: int, size: int) -> tuple[bytes, bytes]:
        return read_from(self._disk, fd, 0, min(size, 512)), read_from(self._disk, fd, max(0, size - 512), size)

    def _begin(self, expect: int, despite_damage: bool) -> _Seen | None:
        """The checks before any write: lock, earlier failure, unread records, damage."""
        if not self._lock.held:
            raise RuntimeError(f"write to {self.name} without its lock")
        if self._dir is None:
            raise Failure("state-unwritable", f"{self.name} has no folder.")
        if self._failed:
            raise Failure("state-unwritable", f"{self.name}: nothing more is written after a write that failed.")
        seen = self._look()
        found = seen.scan if seen else Scan()
        if found.next_seq != expect:
            raise Stale(expect, found.next_seq)
        if found.damage and not despite_damage:
            raise damaged(self.name, found)
        return seen

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """Around every write: whatever breaks it off, a signal's exception too, leaves this object refusing until `reopen()`."""
        assert self._dir is not None
        self._failed = True
        with named(self.name, AWAY):
            try:
                yield self._dir
            except FsyncFailed:
                self._distrust = True
                raise
        self._failed = False

    def _append(self, rows: Sequence[dict[str, Any]], expect: int, despite_damage: bool, seq: int | None) -> Appended:
        seen = self._begin(expect, despite_damage)
        first = expect if seq is None else seq
        if first < expect:
            raise ValueError("a number that is taken")
        lines = [encode(first + n, row) for n, row in enumerate(rows)]
        sealed = seen.scan.torn_size if seen else 0
        if sealed:
            lines.insert(0, SEAL)
        if len(lines) > _MANY or self._distrust:
            self._replace(lines, keep=True)
        elif lines:
            self._append_lines(lines, seen)
        return Appended(first + len(rows) - 1, sealed)

    def _append_lines(self, lines: Sequence[bytes], seen: _Seen | None) -> None:
        with self._writing() as dir_fd:
            fd = self._disk.open(self.name, os.O_RDWR | os.O_APPEND | (0 if seen else os.O_CREAT | os.O_EXCL), dir_fd)
            try:
                opened, listed = private(self._disk, fd), self._disk.stat(self.name, dir_fd)
                if {(opened.st_dev, opened.st_ino)} != {(listed.st_dev, listed.st_ino), *((seen.inode,) if seen else ())}:
                    raise OSError(errno.ESTALE, "another file took its place")
                safe = self._safe or (0, 0, 0)
                if seen and safe != (opened.st_dev, opened.st_ino, opened.st_size):
                    # The last record may be of a writer that was killed before its fsync: of it and ours a power cut may keep ours alone.
                    sync(self._disk, fd)
                for line in lines:
                    # An fsync for each: of two lines in the page cache a power cut may keep the second alone, which is damage.
                    write_once(self._disk, fd, line)
                    sync(self._disk, fd)
                if safe[:2] != (opened.st_dev, opened.st_ino):
                    # A name is only in the folder's pages until this: without it a power cut takes all of the file, or brings back the one
                    # before a rewrite. Also for a file that was there: who made or replaced it may have been killed just before this.
                    sync(self._disk, dir_fd, folder=True)
                self._safe = opened.st_dev, opened.st_ino, opened.st_size + sum(map(len, lines))
                self._seen = self._refresh(fd)
            finally:
                self._disk.close(fd)

    def _replace(self, lines: Sequence[bytes], keep: bool = False) -> None:
        """Put `lines` in the file's place; with `keep`, behind the bytes that it holds now."""
        with self._writing() as dir_fd:
            self._seen = None
            old = (read_bytes(self._disk, dir_fd, self.name) if keep else None) or b""
            with temporary(self._disk, dir_fd, self.name, 0o600) as fd:
                write_once(self._disk, fd, b"".join([old, *lines]))
            self._distrust = False


def damaged(name: str, found: Scan, hint: str = "Restore the file.") -> Failure:
    """`state-corrupt` for the first damage of a Scan, naming file and line."""
    at = found.damage[0]
    return Failure(
        "state-corrupt",
        f"{name}, line {at.line_no}: {at.what} ({len(found.damage)} damaged place(s)); nothing was written to it.",
        hint,
    )
