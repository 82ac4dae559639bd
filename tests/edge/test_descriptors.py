"""Waiting for descriptors that `select` could not name."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from gptbridge.edge.descriptors import readable, writable

HIGH = 1200  # above FD_SETSIZE


@pytest.fixture
def pipe() -> tuple[int, int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < HIGH + 10:
        pytest.skip("this machine gives no process so many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 10), hard))
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, HIGH) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


def test_high_numbers(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    assert readable((reader,), 0.0) == set() and writable(writer, 0.0)
    os.write(writer, b"x")
    assert readable((reader,)) == {reader}
    os.read(reader, 1)
    os.close(writer)
    assert readable((reader,), 0.0) == {reader}, "its end can be read"
    os.close(reader)
