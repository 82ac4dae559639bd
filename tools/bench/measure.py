"""How long and how much: whole processes in turns, and calls in this process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

PYTHON = str(Path(sys.prefix) / "bin" / "python")
RUNS = int(os.environ.get("RUNS") or 5)
# A process of its own, small: the peak memory of a child also counts what its parent held at the fork.
CHILD = """
import json, os, sys, time
null = os.open(os.devnull, os.O_RDWR)
times, commands = int(sys.argv[1]), json.loads(sys.argv[2])
rows = [[] for _ in commands]
for _ in range(times):
    for row, (env, words) in zip(rows, commands):
        began = time.perf_counter()
        pid = os.posix_spawn(words[0], words, {**os.environ, **env},
                             file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)])
        _, status, used = os.wait4(pid, 0)
        row.append((time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss, status))
print(json.dumps(rows))
"""
T = TypeVar("T")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is measured has its modules compiled, as everybody's second start has


class Run(NamedTuple):
    """Medians of a command: wall and processor seconds, peak MiB."""

    wall: float
    cpu: float
    mib: float


def processes(*commands: tuple[dict[str, str], Sequence[str]], times: int = 0) -> list[Run]:
    """Each command is (environment, words), run in turns with the others after one round that warms the caches."""
    given = [str((times or 4 * RUNS) + 1), json.dumps([(env, list(words)) for env, words in commands])]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", CHILD, *given], stdout=subprocess.PIPE, check=True)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    found = []
    for (_, words), rows in zip(commands, json.loads(done.stdout), strict=True):
        assert not any(status for *_, status in rows), f"{' '.join(words)} failed"
        wall, cpu, memory, _ = (statistics.median(column) for column in zip(*rows[1:], strict=True))
        found.append(Run(wall, cpu, memory / unit))
    return found


def cpu_of(work: Callable[[], object], times: int = 0) -> float:
    """Processor seconds of one call: the median."""
    taken = []
    for _ in range(times or RUNS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


@contextmanager
def saying(what: str) -> Iterator[None]:
    """For what takes long: a line on standard error when it begins and when it ends."""
    began = time.monotonic()
    print(f"  {what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f" {time.monotonic() - began:.1f} s", file=sys.stderr)
