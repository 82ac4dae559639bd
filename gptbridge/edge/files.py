"""How single files and folders become durable: replaced, copied, appended to, moved and removed.

Guarantees: what returns is on the disk (fsync of the file, and of its folder for a new name); a file that is replaced is old
or new, never between; after a failed or short write or a failed fsync nothing is tried again, the caller gets `state-unwritable`.
Touches: single names below a directory descriptor, through edge/disk.py. Files 0600, folders 0700, whatever the umask.
Owns: the order of the calls, and the names of temporary files (`.NAME.HEX.tmp`). Fails closed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gptbridge.core.errors import Failure
from gptbridge.edge.disk import CHUNK, Disk, component, named, private, read_from, regular, sync, write_once

_TEMP = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_NO_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_NO_COPY_RANGE = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


def _target_mode(disk: Disk, dir_fd: int, name: str) -> None:
    """Refuse a target that is there but no regular file: a rename would put a file in a link's place unasked."""
    try:
        found = disk.stat(name, dir_fd)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ELOOP, "not a regular file")


@contextmanager
def temporary(disk: Disk, dir_fd: int, name: str, mode: int) -> Iterator[int]:
    """A new file that takes the place of `name` when the block ends well: temp, (block), fsync, rename, fsync of the folder.

    Without the first fsync a power cut can leave the new name with no bytes; without the second it can bring the old file
    back after the caller was told that the new one is there.
    """
    _target_mode(disk, dir_fd, name)
    temp = f".{name}.{disk.token()}.tmp"
    fd = disk.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, dir_fd, mode)
    with _or_nothing(disk, dir_fd, temp):
        try:
            disk.fchmod(fd, mode)
            yield fd
            sync(disk, fd)
        finally:
            disk.close(fd)
        disk.rename(temp, name, dir_fd, dir_fd)
    sync(disk, dir_fd, folder=True)


@contextmanager
def _or_nothing(disk: Disk, dir_fd: int, temp: str) -> Iterator[None]:
    """What breaks the block off leaves no file of that name, as far as the disk lets us."""
    try:
        yield
    except BaseException:
        try:
            disk.unlink(temp, dir_fd)
        except OSError:
            pass
        raise


def replace(disk: Disk, dir_fd: int, name: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put `data` (bytes, or chunks of bytes) in the place of `name`, whole or not at all."""
    with named(name), temporary(disk, dir_fd, name, mode) as fd:
        for chunk in (data,) if isinstance(data, bytes) else data:
            write_once(disk, fd, chunk)


def copy(disk: Disk, source_dir_fd: int, source: str, target_dir_fd: int, target: str) -> None:
    """Put a full copy of `source` in the place of `target` (0600), whole or not at all."""
    with named(source):
        from_fd = disk.open(source, os.O_RDONLY | os.O_NONBLOCK, source_dir_fd)
        try:
            regular(disk, from_fd)
            with named(target), temporary(disk, target_dir_fd, target, 0o600) as fd:
                copied = 0
                try:
                    while count := disk.copy_range(from_fd, fd, 1 << 30):
                        copied += count
                except OSError as why:
                    if copied or why.errno not in _NO_COPY_RANGE:
                        raise
                # Some file systems answer 0 for a file that has bytes: what is left, if anything, is copied by hand.
                while chunk := disk.read(from_fd, CHUNK, copied):
                    write_once(disk, fd, chunk)
                    copied += len(chunk)
        finally:
            disk.close(from_fd)


def store(disk: Disk, dir_fd: int, chunks: Iterable[bytes], name: Callable[[str], str]) -> tuple[int, str]:
    """Put bytes under the name that `name` makes of their sha256; (how many, the 64 hex digits). What is there under it stays as it is.

    What `chunks` raises, and a full disk, leave nothing behind.
    """
    digest, size = hashlib.sha256(), 0
    temp = f".new.{disk.token()}.tmp"
    with named(temp):
        fd = disk.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, dir_fd)
        with _or_nothing(disk, dir_fd, temp):
            try:
                disk.fchmod(fd, 0o600)
                for chunk in chunks:
                    write_once(disk, fd, chunk)
                    digest.update(chunk)
                    size += len(chunk)
                found = name(digest.hexdigest())
                known = exists(disk, dir_fd, found)
                if not known:
                    sync(disk, fd)
            finally:
                disk.close(fd)
            if known:
                disk.unlink(temp, dir_fd)
            else:
                disk.rename(temp, component(found), dir_fd, dir_fd)
        # Also where it was there: who stored it may have been killed before its name was safe.
        sync(disk, dir_fd, folder=True)
    return size, digest.hexdigest()


def exists(disk: Disk, dir_fd: int, name: str) -> bool:
    """Whether a regular file of that name is there; anything else of that name is an error, and no link is followed."""
    with named(name):
        try:
            found = disk.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ELOOP, "not a regular file")
        return True


def link(disk: Disk, source_dir_fd: int, source: str, target_dir_fd: int, target: str) -> None:
    """Give a file a second name, or where the file system has none such, a copy under it. Not durable: for what a restart makes anew."""
    with named(target):
        try:
            disk.link_across(source, component(target), source_dir_fd, target_dir_fd)
            return
        except OSError as why:
            if why.errno not in _NO_LINK:
                raise
    copy(disk, source_dir_fd, source, target_dir_fd, target)


def remove_folder(disk: Disk, dir_fd: int, name: str) -> bool:
    """Delete a folder of ours and the files in it (it holds no folder); False if it was not there."""
    fd = open_dir(disk, dir_fd, name, create=False)
    if fd is None:
        return False
    with named(name):
        try:
            for inner in disk.names(fd):
                disk.unlink(inner, fd)
        finally:
            disk.close(fd)
        disk.rmdir(name, dir_fd)
    return True


def append_bytes(disk: Disk, dir_fd: int, name: str, data: bytes, *, truncate_to: int | None = None) -> None:
    """Append `data` in one write and fsync, after cutting the file to `truncate_to` bytes; a new file comes whole or not at all.

    The caller holds the file's lock. `state-corrupt` if the file is shorter than `truncate_to` (bytes that were there are gone).
    """
    with named(name):
        try:
            fd = disk.open(name, os.O_RDWR | os.O_APPEND, dir_fd)
        except FileNotFoundError:
            fd = -1
        if fd < 0:
            if truncate_to:
                raise Failure("state-corrupt", f"{name} has vanished.", "Look for a copy of it.")
            return replace(disk, dir_fd, name, data)
        try:
            size = private(disk, fd).st_size
            if truncate_to is not None and truncate_to != size:
                if truncate_to > size:
                    raise Failure("state-corrupt", f"{name} is shorter than it was.", "Look for a copy of it.")
                disk.ftruncate(fd, truncate_to)
            if data:
                # First what a killed writer may have left in the page cache alone: a power cut could keep ours and not that.
                sync(disk, fd)
                write_once(disk, fd, data)
            sync(disk, fd)
        finally:
            disk.close(fd)
        # Who made the file may have been killed before its name was safe; a power cut would then take this append with all the rest.
        sync(disk, dir_fd, folder=True)


def read_bytes(disk: Disk, dir_fd: int, name: str, *, start: int = 0, limit: int = sys.maxsize,
               away: str = "") -> bytes | None:
    """The bytes of `name` from `start` on (negative: that many from its end) up to `limit`, None if there is none; a link is refused;
    `away` is what to do about one."""
    with named(name, away):
        try:
            fd = disk.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd)
        except FileNotFoundError:
            return None
        try:
            size = regular(disk, fd).st_size
            return read_from(disk, fd, max(0, size + start) if start < 0 else start, limit)
        finally:
            disk.close(fd)


def remove(disk: Disk, dir_fd: int, name: str) -> bool:
    """Delete `name` and fsync the folder; False if it was not there."""
    with named(name):
        try:
            disk.unlink(name, dir_fd)
        except FileNotFoundError:
            return False
        sync(disk, dir_fd, folder=True)
        return True


def move(disk: Disk, dir_fd: int, source: str, target: str, *, into: int | None = None) -> None:
    """Rename within one folder, or `into` another one, and fsync them; a target that exists is refused."""
    target_fd = dir_fd if into is None else into
    with named(source):
        try:
            disk.stat(component(target), target_fd)
        except FileNotFoundError:
            disk.rename(source, target, dir_fd, target_fd)
            # Where it is now before where it is no more: a power cut between the two must not leave it nowhere.
            for fd in dict.fromkeys((target_fd, dir_fd)):
                sync(disk, fd, folder=True)
        else:
            raise OSError(errno.EEXIST, "target exists")


def open_dir(disk: Disk, dir_fd: int, name: str, *, create: bool, mend: bool = True) -> int | None:
    """A descriptor of the folder `name` (ours, no link). create: make it (0700), and with `mend` set one that is there to 0700;
    else nothing is changed, and None says that it is not there."""
    with named(name):
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
                sync(disk, dir_fd, folder=True)
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
        with named(name):
            try:
                if now - disk.stat(name, dir_fd).st_mtime > age_s:
                    disk.unlink(name, dir_fd)
                    count += 1
            except FileNotFoundError:
                continue
    return count
