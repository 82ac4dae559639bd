"""The files that a caller names with `-f`: opened once, looked at, and read once from that descriptor.

Guarantees: only a regular file is taken (a FIFO or a device could wait for ever or never end), checked on the descriptor that is read, so
that no other file can come in its place; a file that changes while it is read is refused, since neither of its states was asked for.
Standard input is read as it comes. The place in a file is the reader's own: what a forked process read of it changes nothing here.
Touches what the caller named, for reading, and changes nothing. Fails with `bad-input`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

from gptbridge.core.attachments import LARGEST
from gptbridge.core.errors import Failure
from gptbridge.core.escape import visible
from gptbridge.edge.descriptors import readable

_CHUNK = 1 << 20
_WAIT_S = 0.25


class GivenFile:
    """The Source port. `fd` is open before the worker is forked and is the worker's to read; -1 where `missing` says why there is none."""

    def __init__(self, name: str, fd: int, *, stream: bool = False, missing: Failure | None = None) -> None:
        self._name, self._fd, self._stream, self._missing = name, fd, stream, missing

    @property
    def name(self) -> str:
        return self._name

    @property
    def missing(self) -> Failure | None:
        return self._missing

    def fileno(self) -> int:
        return self._fd

    def hand_over(self) -> None:
        """Another process reads it: a stream is not here any more, since what that one takes from it is gone."""
        if self._stream and self._fd >= 0:
            os.close(self._fd)
            self._fd, self._missing = -1, Failure("bad-input", f"{shown(self._name)} was read already; nothing was sent")

    def chunks(self, heed: Callable[[], None]) -> Iterator[bytes]:
        """`heed` is called between two reads and may raise to give up."""
        if self._missing is not None:
            raise self._missing
        before = None if self._stream else os.fstat(self._fd)
        size = 0
        try:
            while True:
                heed()
                if self._stream and not readable((self._fd,), _WAIT_S):
                    continue
                chunk = os.read(self._fd, _CHUNK) if self._stream else os.pread(self._fd, _CHUNK, size)
                if not chunk:
                    break
                size += len(chunk)
                if size > LARGEST:
                    raise too_large(self._name)
                yield chunk
            if before is not None and (_state(before) != _state(os.fstat(self._fd)) or size != before.st_size):
                raise Failure("bad-input", f"{shown(self._name)} changed while it was read; nothing was sent",
                              "run it again when nobody writes to it")
        except OSError as why:
            raise unreadable(self._name, why) from why
        finally:
            os.close(self._fd)
            self._fd, self._missing = -1, Failure("bad-input", f"{shown(self._name)} was read already; nothing was sent")


def open_given(path: str) -> GivenFile:
    """Open what stands at `path`. What is no file that can be sent is `missing`, with the reason: a receipt needs it no more."""
    name = os.path.basename(path)
    if "\0" in path:
        return GivenFile(name, -1, missing=Failure("bad-input", "a file's name holds a NUL; nothing was sent"))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # a FIFO must not hold us up
    except OSError as why:
        no_file = _not_regular(path, "it is a socket or a device") if why.errno == errno.ENXIO else unreadable(path, why)
        return GivenFile(name, -1, missing=no_file)
    found = os.fstat(fd)
    missing = None
    if not stat.S_ISREG(found.st_mode):
        missing = _not_regular(path, _kind(found.st_mode))
    elif found.st_size > LARGEST:
        missing = too_large(path)
    if missing is None:
        return GivenFile(name, fd)
    os.close(fd)
    return GivenFile(name, -1, missing=missing)


def standard_input(name: str) -> GivenFile:
    """Standard input as a file; the worker reads it, so it must be kept open beyond the command's own end of it."""
    try:
        return GivenFile(name, os.dup(0), stream=True)
    except OSError as why:
        return GivenFile(name, -1, missing=unreadable("standard input", why))


def shown(path: str) -> str:
    """A file's name in a message: one line, nothing in it that acts."""
    text = visible(path, multiline=False)
    return text if len(text) <= 200 else text[:100] + "..." + text[-90:]


def unreadable(path: str, why: OSError) -> Failure:
    return Failure("bad-input", f"{shown(path)} cannot be read: {why.strerror}; nothing was sent", "check the path of -f")


def too_large(path: str) -> Failure:
    return Failure("bad-input", f"{shown(path)} is larger than {LARGEST >> 20} MiB, which the site does not take; nothing was sent",
                   "send a smaller file")


def _not_regular(path: str, kind: str) -> Failure:
    return Failure("bad-input", f"{shown(path)} is no regular file ({kind}); nothing was sent", "for a stream: -f - --stdin-name NAME")


def _kind(mode: int) -> str:
    known = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
             (stat.S_ISSOCK, "a socket"))
    return next((word for test, word in known if test(mode)), "something else")


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
