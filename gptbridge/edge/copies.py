"""The copies in the working folder: `./ask-gpt/`, real files, replaced whole, never through a link.

The folder is opened once, as a directory, without following a link, and all files go through that descriptor. A folder or a target that
is a link, or not ours, or cannot be written, means no copy and one warning: the canonical log is what counts, and the exit code stays.
A copy is replaced only by a log that holds all that is whole in it; one that is up to date is not written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from gptbridge.core.errors import Failure
from gptbridge.edge.disk import Disk
from gptbridge.edge.files import copy, open_dir, read_bytes, replace

FOLDER = "ask-gpt"
Warn = Callable[[str], None]


class CopyFolder:
    """`cwd`: a descriptor of the working folder, closed once the folder is open; None where copies are switched off. `makes` False:
    copies that are there already are kept up, none is made."""

    def __init__(self, disk: Disk, cwd: int | None, warn: Warn, *, makes: bool = True) -> None:
        self._disk, self._cwd, self._warn = disk, cwd, warn
        self.makes = makes
        self._fd: int | None = None
        self._warned = False
        self.reason: str | None = None  # why the folder cannot be used

    @classmethod
    def here(cls, warn: Warn, disk: Disk | None = None, *, makes: bool = True) -> CopyFolder:
        """For the process's own working folder."""
        try:
            cwd: int | None = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            cwd = None
        return cls(disk or Disk(), cwd, warn, makes=makes)

    def open(self, *, create: bool) -> int | None:
        """The folder's descriptor; made (0700, with a .gitignore of one line) only with `create`."""
        if self._fd is None and self._cwd is not None:
            try:
                self._fd = open_dir(self._disk, self._cwd, FOLDER, create=create, mend=False)
                if self._fd is not None and create and read_bytes(self._disk, self._fd, ".gitignore") is None:
                    replace(self._disk, self._fd, ".gitignore", b"*\n")
            except (Failure, OSError) as why:
                self._say(why)
                self._fd = None
            if self._fd is not None or create:
                os.close(self._cwd)
                self._cwd = None
        return self._fd

    def replace(self, name: str, data: bytes | Iterable[bytes]) -> bool:
        """True when the file is there, whole."""
        return self._do(lambda fd: replace(self._disk, fd, name, data))

    def follow(self, source_fd: int, name: str, data: bytes, loses: Callable[[bytes, bytes], bool]) -> bool:
        """Bring the copy up to the log `name` below `source_fd`, whose bytes are `data`; one that would lose something by it (`loses`
        says so of old and new bytes) stays as it is."""
        def work(fd: int) -> None:
            there = None
            if self.holds(name) and not os.path.samestat(self._disk.stat(name, fd), self._disk.stat(name, source_fd)):
                there = read_bytes(self._disk, fd, name)
            if there == data:
                return
            if there and loses(there, data):
                raise Failure("state-corrupt", f"{name} there holds turns that the log itself lacks or has damaged; it was left as it is")
            copy(self._disk, source_fd, name, fd, name)

        return self._do(work)

    def holds(self, name: str) -> bool:
        """Whether a regular file of that name lies there (the folder is not made for the question)."""
        fd = self.open(create=False)
        try:
            return fd is not None and os.path.stat.S_ISREG(self._disk.stat(name, fd).st_mode)  # type: ignore[attr-defined]
        except OSError:
            return False

    def _do(self, work: Callable[[int], None]) -> bool:
        fd = self.open(create=self.makes)
        if fd is None:
            return False
        try:
            work(fd)
            return True
        except (Failure, OSError) as why:
            self._say(why)
            return False

    def _say(self, why: Failure | OSError) -> None:
        self.reason = why.message if isinstance(why, Failure) else (why.strerror or "cannot be written")
        if not self._warned:
            self._warned = True
            self._warn(f"no copy in ./{FOLDER}/: {self.reason}")
