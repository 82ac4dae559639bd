"""How a file of unknown length becomes durable under a free name: hidden while it grows, named when it is whole, replacing none.

Guarantees: a name appears only when every byte is on the disk; nothing that is there is ever overwritten, whatever it is; a killed
process leaves a hidden part at most, which the next one deletes (its flock is free), and never one of the living. Touches single names
below a directory descriptor; no link is followed; files 0600. Owns the names of parts, `.ask-gpt-HEX.part`. Fails by `Failure`, naming
the file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re

from gptbridge.edge.disk import Disk, component, named, regular, sync, write_once

_PART = re.compile(r"\.ask-gpt-[0-9a-f]{16}\.part")
_CHUNK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)


class Arriving:
    """A file of ours that grows under a hidden name (`.ask-gpt-HEX.part`) until it is whole; `place` gives it its name.

    Its descriptor holds a flock, so that a later run knows the parts of killed ones from those of the living.
    """

    def __init__(self, disk: Disk, dir_fd: int) -> None:
        self._disk, self._dir = disk, dir_fd
        while not self._begun():
            pass  # another process tidied between the open and the flock: once more, under another name

    def _begun(self) -> bool:
        self.name = f".ask-gpt-{self._disk.token()}.part"
        self._fd = self._disk.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._dir)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._disk.close(self._fd)
            return False
        except OSError:
            return True  # a file system without flock: nobody tidies there either
        if self._disk.fstat(self._fd).st_nlink:
            return True
        self._disk.close(self._fd)
        return False

    def write(self, data: bytes) -> None:
        with named("a download"):
            write_once(self._disk, self._fd, data)

    def whole(self) -> None:
        """Every byte to the disk. Before any name: a power cut must not leave one with half of them."""
        with named("a download"):
            sync(self._disk, self._fd)

    def place(self, name: str) -> bool:
        """Give it that name; False where the name is taken, by whatever it is: nothing is ever overwritten."""
        with named(name):
            try:
                self._disk.link(self.name, name, self._dir)
            except FileExistsError:
                return False
            except OSError as why:
                if why.errno not in _NO_LINKS:
                    raise
                try:  # no hard links there (FAT)
                    self._disk.rename_new(self.name, name, self._dir)
                except FileExistsError:
                    return False
            sync(self._disk, self._dir, folder=True)
            return True

    def close(self) -> None:
        """Let go of it; the hidden name goes, whatever became of the file."""
        try:
            self._disk.unlink(self.name, self._dir)
        except OSError:
            pass
        finally:
            self._disk.close(self._fd)


def remove_dead_parts(disk: Disk, dir_fd: int) -> int:
    """Delete the parts of killed downloads: those whose flock is free; how many."""
    count = 0
    for name in filter(_PART.fullmatch, disk.names(dir_fd)):
        try:
            fd = disk.open(name, os.O_RDWR | os.O_NONBLOCK, dir_fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                disk.unlink(name, dir_fd)
                count += 1
            finally:
                disk.close(fd)
        except OSError:
            continue  # it lives, or is somebody's own
    return count


def digest_of(disk: Disk, dir_fd: int, name: str, size: int) -> str | None:
    """sha256 (hex) of the regular file `name`, a chunk at a time; None where there is none of that size, or it cannot be read."""
    try:
        fd = disk.open(component(name), os.O_RDONLY | os.O_NONBLOCK, dir_fd)
    except (OSError, ValueError):
        return None
    try:
        if regular(disk, fd).st_size != size:
            return None
        digest, at = hashlib.sha256(), 0
        while data := disk.read(fd, _CHUNK, at):
            digest.update(data)
            at += len(data)
        return digest.hexdigest()
    except OSError:
        return None
    finally:
        disk.close(fd)
