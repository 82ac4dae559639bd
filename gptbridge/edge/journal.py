"""How bytes become durable: the only module that writes state.

Guarantees: what returns is on the disk (fsync of the file, and of its folder for a new name); a file that is replaced is old
or new, never between; after a failed or short write or a failed fsync nothing is tried again (a second fsync that succeeds
proves nothing: the kernel has dropped the pages and marked them clean), the caller gets `state-unwritable`, and the journal
object refuses to append until `reopen()`.
Touches: single names below a directory descriptor; no link is ever followed. Files 0600, folders 0700, whatever the umask.
Owns: the order of the calls, and the names of temporary files (`.NAME.HEX.tmp`); the format of a line is core/record.py's.
Fails closed: Failure names the file, never its content.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from gptbridge.core.errors import Failure
from gptbridge.core.record import SEAL, BadLine, Record, Scan, Stale, decode, encode, scan, tail_lines

NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
_TEMP = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_CHUNK = 1 << 20
_MANY = 16  # records; from here on one replacement of the file is cheaper than an fsync for each
_NO_FULLFSYNC = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)
_NO_COPY_RANGE = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


class FsyncFailed(OSError):
    """fsync said no: what the page cache shows of this file is not to be trusted any more."""


class Disk:
    """The system calls behind every write, one method each, so that a recorder or a fault injector can stand in their place.

    Names are single path components below `dir_fd`. `write` may be short, as write(2). All raise OSError.
    """

    def open(self, name: str, flags: int, dir_fd: int, mode: int = 0o600) -> int:
        return os.open(name, flags | NOFOLLOW, mode, dir_fd=dir_fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def copy_range(self, source: int, target: int, size: int) -> int:
        return os.copy_file_range(source, target, size) if hasattr(os, "copy_file_range") else _refuse(errno.ENOSYS)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        _fsync(fd)

    def fsync_dir(self, fd: int) -> None:
        _fsync(fd)

    def rename(self, source: str, target: str, source_dir_fd: int, target_dir_fd: int) -> None:
        os.rename(source, target, src_dir_fd=source_dir_fd, dst_dir_fd=target_dir_fd)

    def unlink(self, name: str, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def mkdir(self, name: str, dir_fd: int, mode: int = 0o700) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)

    def names(self, dir_fd: int) -> list[str]:
        return sorted(os.listdir(dir_fd))

    def token(self) -> str:
        """16 hex digits that no other temporary file has."""
        return os.urandom(8).hex()


def _refuse(number: int) -> int:
    raise OSError(number, os.strerror(number))


def _fsync(fd: int) -> None:
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as why:
            if why.errno not in _NO_FULLFSYNC:
                raise
    os.fsync(fd)


def component(name: str) -> str:
    """`name`, if it is a single path component; ValueError for anything that could leave the folder."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError("not a single path component")
    return name


def unwritable(name: str, why: OSError) -> Failure:
    """The Failure for an OSError on a file of ours: a link is `bad-config`, everything else `state-unwritable`."""
    if why.errno in (errno.ELOOP, errno.EMLINK):
        return Failure("bad-config", f"{name} is a link or no regular file; it was not followed.", f"Move {name} away.")
    text = why.strerror or type(why).__name__
    return Failure("state-unwritable", f"{name} could not be read or written: {text}.", "Make room or mend the permissions.")


@contextmanager
def _named(name: str) -> Iterator[None]:
    component(name)
    try:
        yield
    except OSError as why:
        raise unwritable(name, why) from why


def _regular(disk: Disk, fd: int) -> os.stat_result:
    found = disk.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ELOOP, "not a regular file")
    return found


def _private(disk: Disk, fd: int) -> os.stat_result:
    """fstat of a regular file of ours whose mode is 0600 from here on; a file of another user is refused."""
    found = _regular(disk, fd)
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "another user's file")
    if stat.S_IMODE(found.st_mode) != 0o600:
        disk.fchmod(fd, 0o600)
    return found


def _write_once(disk: Disk, fd: int, data: bytes) -> None:
    """One write(2). A short one is an error: its rest is not written, since a torn end must stay recognisable as one."""
    written = disk.write(fd, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"short write: {written} of {len(data)} bytes")


def _sync(disk: Disk, fd: int, folder: bool = False) -> None:
    try:
        disk.fsync_dir(fd) if folder else disk.fsync(fd)
    except OSError as why:
        raise FsyncFailed(why.errno, why.strerror) from why


def _read_from(disk: Disk, fd: int, offset: int, limit: int = sys.maxsize) -> bytes:
    parts = []
    while offset < limit and (part := disk.read(fd, min(_CHUNK, limit - offset), offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _target_mode(disk: Disk, dir_fd: int, name: str) -> None:
    """Refuse a target that is there but no regular file: a rename would put a file in a link's place unasked."""
    try:
        found = disk.stat(name, dir_fd)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ELOOP, "not a regular file")


@contextmanager
def _temporary(disk: Disk, dir_fd: int, name: str, mode: int) -> Iterator[int]:
    """A new file that takes the place of `name` when the block ends well: temp, (block), fsync, rename, fsync of the folder.

    Without the first fsync a power cut can leave the new name with no bytes; without the second it can bring the old file
    back after the caller was told that the new one is there.
    """
    _target_mode(disk, dir_fd, name)
    temp = f".{name}.{disk.token()}.tmp"
    fd = disk.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, dir_fd, mode)
    try:
        try:
            disk.fchmod(fd, mode)
            yield fd
            _sync(disk, fd)
        finally:
            disk.close(fd)
        disk.rename(temp, name, dir_fd, dir_fd)
    except BaseException:
        try:
            disk.unlink(temp, dir_fd)
        except OSError:
            pass
        raise
    _sync(disk, dir_fd, folder=True)


def replace(disk: Disk, dir_fd: int, name: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put `data` (bytes, or chunks of bytes) in the place of `name`, whole or not at all."""
    with _named(name), _temporary(disk, dir_fd, name, mode) as fd:
        for chunk in (data,) if isinstance(data, bytes) else data:
            _write_once(disk, fd, chunk)


def copy(disk: Disk, source_dir_fd: int, source: str, target_dir_fd: int, target: str) -> None:
    """Put a full copy of `source` in the place of `target` (0600), whole or not at all."""
    with _named(source):
        from_fd = disk.open(source, os.O_RDONLY | os.O_NONBLOCK, source_dir_fd)
        try:
            _regular(disk, from_fd)
            with _named(target), _temporary(disk, target_dir_fd, target, 0o600) as fd:
                copied = 0
                try:
                    while count := disk.copy_range(from_fd, fd, 1 << 30):
                        copied += count
                except OSError as why:
                    if copied or why.errno not in _NO_COPY_RANGE:
                        raise
                # Some file systems answer 0 for a file that has bytes: what is left, if anything, is copied by hand.
                while chunk := disk.read(from_fd, _CHUNK, copied):
                    _write_once(disk, fd, chunk)
                    copied += len(chunk)
        finally:
            disk.close(from_fd)


def append_bytes(disk: Disk, dir_fd: int, name: str, data: bytes, *, truncate_to: int | None = None) -> None:
    """Append `data` in one write and fsync, after cutting the file to `truncate_to` bytes; a new file comes whole or not at all.

    The caller holds the file's lock. `state-corrupt` if the file is shorter than `truncate_to` (bytes that were there are gone).
    """
    with _named(name):
        try:
            fd = disk.open(name, os.O_RDWR | os.O_APPEND, dir_fd)
        except FileNotFoundError:
            fd = -1
        if fd < 0:
            if truncate_to:
                raise Failure("state-corrupt", f"{name} has vanished.", "Look for a copy of it.")
            return replace(disk, dir_fd, name, data)
        try:
            size = _private(disk, fd).st_size
            if truncate_to is not None and truncate_to != size:
                if truncate_to > size:
                    raise Failure("state-corrupt", f"{name} is shorter than it was.", "Look for a copy of it.")
                disk.ftruncate(fd, truncate_to)
            if data:
                # First what a killed writer may have left in the page cache alone: a power cut could keep ours and not that.
                _sync(disk, fd)
                _write_once(disk, fd, data)
            _sync(disk, fd)
        finally:
            disk.close(fd)
        # Who made the file may have been killed before its name was safe; a power cut would then take this append with all the rest.
        _sync(disk, dir_fd, folder=True)


def read_bytes(disk: Disk, dir_fd: int, name: str, *, start: int = 0, limit: int = sys.maxsize) -> bytes | None:
    """The bytes of `name` from `start` on (negative: that many from its end) up to `limit`, None if there is none; a link is refused."""
    with _named(name):
        try:
            fd = disk.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd)
        except FileNotFoundError:
            return None
        try:
            size = _regular(disk, fd).st_size
            return _read_from(disk, fd, max(0, size + start) if start < 0 else start, limit)
        finally:
            disk.close(fd)


def remove(disk: Disk, dir_fd: int, name: str) -> bool:
    """Delete `name` and fsync the folder; False if it was not there."""
    with _named(name):
        try:
            disk.unlink(name, dir_fd)
        except FileNotFoundError:
            return False
        _sync(disk, dir_fd, folder=True)
        return True


def move(disk: Disk, dir_fd: int, source: str, target: str) -> None:
    """Rename within one folder and fsync it; a target that exists is refused."""
    with _named(source):
        try:
            disk.stat(component(target), dir_fd)
        except FileNotFoundError:
            disk.rename(source, target, dir_fd, dir_fd)
            _sync(disk, dir_fd, folder=True)
        else:
            raise OSError(errno.EEXIST, "target exists")


def open_dir(disk: Disk, dir_fd: int, name: str, *, create: bool, mend: bool = True) -> int | None:
    """A descriptor of the folder `name` (ours, no link). create: make it (0700), and with `mend` set one that is there to 0700;
    else nothing is changed, and None says that it is not there."""
    with _named(name):
        made = False
        if create:
            try:
                disk.mkdir(name, dir_fd)
                made = True
            except FileExistsError:
                pass
        try:
            fd = disk.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd)
        except FileNotFoundError:
            if create:
                raise
            return None
        except NotADirectoryError as why:  # so says Linux of a link, too
            raise OSError(errno.ELOOP, "not a folder") from why
        try:
            own_dir(disk, fd, name, mend=made or (create and mend), made=made)
            if made:
                _sync(disk, dir_fd, folder=True)
        except BaseException:
            disk.close(fd)
            raise
        return fd


def own_dir(disk: Disk, fd: int, name: str, *, mend: bool, made: bool = False) -> None:
    """Refuse a folder of another user (bad-config); with `mend` set its mode to 0700 where it is another.

    One that is read-only is refused then, unless we `made` it just now: somebody wanted it so, and root could write it all the same.
    """
    found = disk.fstat(fd)
    if found.st_uid != os.geteuid():
        raise Failure("bad-config", f"{name} belongs to another user.", "Set ASKGPT_HOME to a folder of your own.")
    mode = stat.S_IMODE(found.st_mode)
    if mend and not made and mode & 0o700 != 0o700:
        raise Failure("state-unwritable", f"{name} is read-only (mode {mode:04o}); nothing was sent.", f"chmod u+rwx {name}")
    if mend and mode != 0o700:
        disk.fchmod(fd, 0o700)


def remove_stale_temps(disk: Disk, dir_fd: int, *, now: float, age_s: float = 86400.0) -> int:
    """Delete temporary files of killed writers that are older than `age_s` by the wall clock `now`; how many."""
    count = 0
    for name in filter(_TEMP.fullmatch, disk.names(dir_fd)):
        with _named(name):
            try:
                if now - disk.stat(name, dir_fd).st_mtime > age_s:
                    disk.unlink(name, dir_fd)
                    count += 1
            except FileNotFoundError:
                continue
    return count


class Held(Protocol):
    """A lock, as far as a journal cares: whether the calling thread holds it now."""

    @property
    def held(self) -> bool: ...


class Appended(NamedTuple):
    """What an append did: the number of the (last) record, and how many torn bytes of a dead writer it sealed first."""

    seq: int
    sealed: int


class _Seen(NamedTuple):
    """What was read last: the view, the file it was in, and the bytes at both ends of it."""

    scan: Scan
    inode: tuple[int, int]
    ends: tuple[bytes, bytes]


class Journal:
    """One append-only file of records. Reading needs no lock; every write asserts that this thread holds `lock`.

    dir_fd: the folder, None for a home that does not exist (reads as empty).
    """

    def __init__(self, disk: Disk, dir_fd: int | None, name: str, lock: Held) -> None:
        self.name = component(name)
        self._disk, self._dir, self._lock = disk, dir_fd, lock
        self._seen: _Seen | None = None
        self.beginnings = 0  # how often the file was read from its start: another number is another list of records
        self._failed = False  # a write broke off: no further one before `reopen`
        self._distrust = False  # an fsync failed: the file's pages may be lost whatever a later one says
        self._safe: tuple[int, int, int] | None = None  # device, inode and size of the file whose name and bytes we put on the disk

    def read(self) -> Scan:
        """The whole file; only what is new is read when it is the file of last time. An absent file is an empty Scan."""
        seen = self._look()
        return seen.scan if seen else Scan()

    def checksum(self, size: int) -> int:
        """crc32 of the first `size` bytes (of all, where there are fewer)."""
        with _named(self.name), self._open() as fd:
            return zlib.crc32(_read_from(self._disk, fd, 0, size)) if fd >= 0 else 0

    def start_at(self, size: int, checksum: int, known: Scan) -> bool:
        """Go on from a view of the file's first `size` bytes that somebody kept; False, and nothing changed, where these bytes are not
        the ones of then. Later reads give the records behind them alone."""
        with _named(self.name), self._open() as fd:
            if fd < 0 or zlib.crc32(before := _read_from(self._disk, fd, 0, size)) != checksum or len(before) != size:
                return False
            found = _regular(self._disk, fd)
            self._seen = _Seen(known, (found.st_dev, found.st_ino), (before[:512], before[-512:]))
            return True

    def newest(self) -> Iterator[Record]:
        """Valid records, newest first, without reading the whole file; for display (damage is skipped, order is not checked)."""
        with _named(self.name), self._open() as fd:
            end, width = _regular(self._disk, fd).st_size if fd >= 0 else 0, 1 << 14
            while end > 0:
                begin = max(0, end - width)
                lines, start = tail_lines(_read_from(self._disk, fd, begin, end), whole=begin == 0)
                at = begin + start + sum(len(line) + 1 for line in lines)
                for line in lines:
                    at -= len(line) + 1
                    try:
                        yield Record(*decode(line), at)
                    except BadLine:
                        continue
                if lines or begin == 0:
                    end = begin + start
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
        with _named(self.name), self._open() as fd:
            self._seen = self._refresh(fd) if fd >= 0 else None
            return self._seen

    def _refresh(self, fd: int) -> _Seen:
        found, seen = _regular(self._disk, fd), self._seen
        inode = (found.st_dev, found.st_ino)
        # An inode number can come back after two rewrites, so the bytes at both ends must be the known ones as well.
        if seen and (seen.inode != inode or found.st_size < seen.scan.clean_size or seen.ends != self._ends(fd, seen.scan.clean_size)):
            seen = None
        if seen is None:
            self.beginnings += 1
        new = scan(_read_from(self._disk, fd, seen.scan.clean_size if seen else 0), after=seen.scan if seen else None)
        return _Seen(new, inode, self._ends(fd, new.clean_size))

    def _ends(self, fd: int, size: int) -> tuple[bytes, bytes]:
        return _read_from(self._disk, fd, 0, min(size, 512)), _read_from(self._disk, fd, max(0, size - 512), size)

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
        with _named(self.name):
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
                opened, named = _private(self._disk, fd), self._disk.stat(self.name, dir_fd)
                if {(opened.st_dev, opened.st_ino)} != {(named.st_dev, named.st_ino), *((seen.inode,) if seen else ())}:
                    raise OSError(errno.ESTALE, "another file took its place")
                safe = self._safe or (0, 0, 0)
                if seen and safe != (opened.st_dev, opened.st_ino, opened.st_size):
                    # The last record may be of a writer that was killed before its fsync: of it and ours a power cut may keep ours alone.
                    _sync(self._disk, fd)
                for line in lines:
                    # An fsync for each: of two lines in the page cache a power cut may keep the second alone, which is damage.
                    _write_once(self._disk, fd, line)
                    _sync(self._disk, fd)
                if safe[:2] != (opened.st_dev, opened.st_ino):
                    # A name is only in the folder's pages until this: without it a power cut takes all of the file, or brings back the one
                    # before a rewrite. Also for a file that was there: who made or replaced it may have been killed just before this.
                    _sync(self._disk, dir_fd, folder=True)
                self._safe = opened.st_dev, opened.st_ino, opened.st_size + sum(map(len, lines))
                self._seen = self._refresh(fd)
            finally:
                self._disk.close(fd)

    def _replace(self, lines: Sequence[bytes], keep: bool = False) -> None:
        """Put `lines` in the file's place; with `keep`, behind the bytes that it holds now."""
        with self._writing() as dir_fd:
            self._seen = None
            old = (read_bytes(self._disk, dir_fd, self.name) if keep else None) or b""
            with _temporary(self._disk, dir_fd, self.name, 0o600) as fd:
                _write_once(self._disk, fd, b"".join([old, *lines]))
            self._distrust = False


def damaged(name: str, found: Scan, hint: str = "Restore the file.") -> Failure:
    """`state-corrupt` for the first damage of a Scan, naming file and line."""
    at = found.damage[0]
    return Failure(
        "state-corrupt",
        f"{name}, line {at.line_no}: {at.what} ({len(found.damage)} damaged place(s)); nothing was written to it.",
        hint,
    )
