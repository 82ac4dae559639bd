"""The system calls behind every durable write, and what each of them is checked for.

Guarantees: a write is one write(2), and a short one is an error; a failed fsync is `FsyncFailed`, told apart from every other error,
because a second one that succeeds proves nothing (the kernel has dropped the pages and marked them clean).
Touches: single names below a directory descriptor; no link is ever followed. Files 0600, whatever the umask. Nothing is retried.
Fails closed: `named` turns an OSError into a Failure that names the file, never its content.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gptbridge.core.errors import Failure

NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
_NO_FULLFSYNC = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


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

    def rename_new(self, source: str, target: str, dir_fd: int) -> None:
        """A rename that replaces nothing; FileExistsError where the target is there, ENOSYS where the system has no such call."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        call, flag = ("renameatx_np", 4) if sys.platform == "darwin" else ("renameat2", 1)
        if not hasattr(libc, call):
            _refuse(errno.ENOSYS)
        if getattr(libc, call)(dir_fd, os.fsencode(source), dir_fd, os.fsencode(target), flag):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), target)

    def link(self, source: str, target: str, dir_fd: int) -> None:
        os.link(source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    def link_across(self, source: str, target: str, source_dir_fd: int, target_dir_fd: int) -> None:
        os.link(source, target, src_dir_fd=source_dir_fd, dst_dir_fd=target_dir_fd, follow_symlinks=False)

    def unlink(self, name: str, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def rmdir(self, name: str, dir_fd: int) -> None:
        os.rmdir(name, dir_fd=dir_fd)

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


def unwritable(name: str, why: OSError, away: str = "") -> Failure:
    """The Failure for an OSError on a file of ours: a link is `bad-config`, everything else `state-unwritable`. away: what to do about a
    link, where that is not just to move it."""
    if why.errno in (errno.ELOOP, errno.EMLINK):
        return Failure("bad-config", f"{name} is a link or no regular file; it was not followed.", away or f"Move {name} away.")
    text = why.strerror or type(why).__name__
    return Failure("state-unwritable", f"{name} could not be read or written: {text}.", "Make room or mend the permissions.")


@contextmanager
def named(name: str, away: str = "") -> Iterator[None]:
    component(name)
    try:
        yield
    except OSError as why:
        raise unwritable(name, why, away) from why


def regular(disk: Disk, fd: int) -> os.stat_result:
    found = disk.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ELOOP, "not a regular file")
    return found


def private(disk: Disk, fd: int) -> os.stat_result:
    """fstat of a regular file of ours whose mode is 0600 from here on; a file of another user is refused."""
    found = regular(disk, fd)
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "another user's file")
    if stat.S_IMODE(found.st_mode) != 0o600:
        disk.fchmod(fd, 0o600)
    return found


def write_once(disk: Disk, fd: int, data: bytes) -> None:
    """One write(2). A short one is an error: its rest is not written, since a torn end must stay recognisable as one."""
    written = disk.write(fd, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"short write: {written} of {len(data)} bytes")


def sync(disk: Disk, fd: int, folder: bool = False) -> None:
    try:
        disk.fsync_dir(fd) if folder else disk.fsync(fd)
    except OSError as why:
        raise FsyncFailed(why.errno, why.strerror) from why


def read_from(disk: Disk, fd: int, offset: int, limit: int = sys.maxsize) -> bytes:
    parts = []
    while offset < limit and (part := disk.read(fd, min(CHUNK, limit - offset), offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
