"""The leash with real processes: who ends with whom."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gptbridge.edge.leash import leashed

ROOT = Path(__file__).resolve().parents[2]


def started(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(leashed(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int) -> None:
    until = time.monotonic() + 20
    while lives(pid):
        assert time.monotonic() < until, "it lives on"
        time.sleep(0.01)


def test_it_ends_when_the_pipe_does() -> None:
    process = started("/bin/sh", "-c", "echo $$; exec sleep 60")
    assert process.stdin is not None and process.stdout is not None
    pid = int(process.stdout.readline())
    process.stdin.close()
    assert process.wait(20) == 128 + 9
    ends(pid)
    process.stdout.close()


def test_it_ends_when_its_starter_is_killed() -> None:
    code = ("import subprocess, sys; from gptbridge.edge.leash import leashed; "
            "p = subprocess.Popen(leashed(['/bin/sh', '-c', 'echo $$; exec sleep 60']), stdin=subprocess.PIPE, stdout=subprocess.PIPE); "
            "print(p.pid, p.stdout.readline().decode(), flush=True); sys.stdin.read()")
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert starter.stdin is not None and starter.stdout is not None
    pids = [int(word) for word in starter.stdout.readline().split()]
    starter.kill()
    starter.wait()
    for pid in pids:
        ends(pid)
    starter.stdin.close()
    starter.stdout.close()


@pytest.mark.parametrize("status", [0, 3])
def test_what_ends_by_itself_says_its_status_and_keeps_nothing_open(status: int) -> None:
    process = started("/bin/sh", "-c", f"read -r line; echo said \"$line\"; exit {status}")
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.read() == b"said \n", "its own standard input is empty"
    assert process.wait(20) == status
    process.stdin.close()
    process.stdout.close()


def test_arguments_are_passed_as_they_are() -> None:
    words = ["a b", "$HOME", "'", "*", ""]
    process = started(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.read().decode().strip() == repr(words)
    assert process.wait(20) == 0
    process.stdin.close()
    process.stdout.close()
