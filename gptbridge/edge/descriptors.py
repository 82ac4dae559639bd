"""Waiting for descriptors by `poll`: a caller may leave this process more than `select` can name (1,024).

Touches nothing; a descriptor whose other end is gone counts as ready: reading or writing then says so.
"""

from __future__ import annotations

import select
from collections.abc import Iterable


def readable(fds: Iterable[int], seconds: float | None = None) -> set[int]:
    """Those of them that can be read now or within that time; None: without end."""
    return _ready(fds, select.POLLIN, seconds)


def writable(fd: int, seconds: float | None = None) -> bool:
    return bool(_ready((fd,), select.POLLOUT, seconds))


def _ready(fds: Iterable[int], what: int, seconds: float | None) -> set[int]:
    there = select.poll()
    for fd in fds:
        there.register(fd, what)
    return {fd for fd, _ in there.poll(None if seconds is None else 1000 * seconds)}
