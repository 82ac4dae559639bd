"""Secret: how one looks at other processes of this host; Linux by /proc, elsewhere by ps and lsof.

Guarantees: facts, or None and False where a fact cannot be had; never raises for a process that is gone. Reads only.
Fails closed: what cannot be proved is not claimed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_LINUX = sys.platform.startswith("linux")


def command_line(pid: int) -> list[str]:
    """The arguments of a process; off Linux the words of its line (a path with blanks comes in pieces). [] when it is gone."""
    if _LINUX:
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return [part.decode("utf-8", "surrogateescape") for part in raw.split(b"\0") if part]
    return _output("ps", "-ww", "-o", "command=", "-p", str(pid)).split()


def started(pid: int) -> str | None:
    """A mark that tells two processes of one pid apart: start time as the system writes it. None when gone or a zombie."""
    if _LINUX:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    state, _, mark = _output("ps", "-o", "state=,lstart=", "-p", str(pid)).strip().partition(" ")
    return mark.strip() if mark and not state.startswith("Z") else None


def listens(pid: int, port: int) -> bool:
    """Whether this process holds the listening TCP socket of a loopback port."""
    if not _LINUX:
        return _output("lsof", "-nP", "-a", "-t", "-p", str(pid), f"-iTCP:{port}", "-sTCP:LISTEN").strip() == str(pid)
    wanted = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(table, port)}
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}") in wanted:
                return True
        except OSError:
            continue
    return False


def having_argument(argument: str) -> list[int]:
    """The processes whose command line carries exactly this argument; main processes, not Chrome's own children."""
    if _LINUX:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = ((pid, command_line(pid)) for pid in pids)
        return [pid for pid, words in lines if argument in words and not any(word.startswith("--type=") for word in words)]
    found = []
    for line in _output("ps", "-axww", "-o", "pid=,command=").splitlines():
        pid, _, command = line.strip().partition(" ")
        if f"{argument} " in f"{command} " and " --type=" not in command and pid.isdigit():
            found.append(int(pid))
    return found


def _listening(table: str, port: int) -> list[str]:
    try:
        rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    except OSError:
        return []
    columns = [row.split() for row in rows]
    return [row[9] for row in columns if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
