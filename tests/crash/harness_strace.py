"""The real command line under strace: killed before any of its calls, or told that the call failed. The practice server counts.

What was learnt the hard way: `when=N` counts for each call's number and each thread apart, so pairs (name, N) come from a recording run;
no --seccomp-bpf, which drops `signal=` in silence; a SIGKILLed call is not executed; for openat -P keeps the interpreter's own calls out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes import Http

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("write", "fsync", "renameat", "ftruncate", "flock", "mkdirat", "unlinkat")
FOLDERS = ("", "locks", "logs", "spool", "reports", "browser")
_CALL = re.compile(r"(\d+) +(\w+)\((.*)")


def why_not() -> str | None:
    """The reason why strace cannot be used here, None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(["strace", "-o", os.devnull, "-e", "trace=none", sys.executable, "-c", ""], capture_output=True, check=False)
    return None if done.returncode == 0 else f"strace may not trace here: {done.stderr.decode(errors='replace').strip()[:200]}"


class Practice:
    """A practice server in a process of its own."""

    def __enter__(self) -> Practice:
        self.process = subprocess.Popen([sys.executable, "-P", "-m", "gptbridge.practice", "--scenario", "slow-answer:seconds=0"],
                                        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = str(json.loads(self.process.stdout.readline())["site"])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def sends(self, text: str) -> list[dict[str, Any]]:
        return [one for one in Http(self.url).json("/practice/state")["sends"] if one["text"] == text]


@dataclass(slots=True)
class Traced:
    """How a traced command ended: its exit code (minus a signal), its document, what was killed or injected, in the trace's words."""

    code: int
    doc: dict[str, Any]
    said: str
    trace: str

    @property
    def killed(self) -> bool:
        return "+++ killed by SIGKILL +++" in self.trace

    @property
    def injected(self) -> list[str]:
        return [line for line in self.trace.splitlines() if "(INJECTED" in line]


def command(place: Path, url: str, text: str, operation_id: str, *inject: str, names: str = ",".join(NAMES)) -> Traced:
    """`send` as a user runs it, in `place`/work with the home `place`/home. `inject`: values of strace's -e inject=."""
    work = place / "work"
    work.mkdir(exist_ok=True)
    home, out = place / "home", place / "trace"
    options = ["strace", "-f", "-y", "-o", str(out), "-e", f"trace={names}", *(word for one in inject for word in ("-e", f"inject={one}"))]
    if names == "openat":
        options += [word for folder in FOLDERS for word in ("-P", str(home / folder).rstrip("/"))]
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("ASKGPT_")}, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
           "ASKGPT_HOME": str(home), "ASKGPT_SITE": url, "ASKGPT_DISPATCH_GAP": "0"}
    process = subprocess.Popen([*options, sys.executable, "-P", "-m", "tests.fake_cli", "send", text, "--operation-id", operation_id,
                                "--json", "--wait", "20", "--queue-wait", "20"], cwd=work, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        stdout, stderr = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        for number in {int(found) for found in re.findall(r"^(\d+) ", out.read_text(errors="replace"), re.M)}:
            try:
                os.kill(number, signal.SIGKILL)  # the tracees, by the numbers that our own strace wrote down
            except ProcessLookupError:
                pass
        process.kill()
        process.communicate()
        raise
    trace = out.read_text(errors="replace")
    return Traced(process.returncode, json.loads(stdout) if stdout else {}, stderr.decode(errors="replace"), trace)


def points(trace: str, home: Path) -> list[tuple[str, int, str]]:
    """(name, which one, the call) of every call of the worker that touches the home: what `inject=NAME:...:when=K` can hit."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for line in trace.splitlines():
        call = _CALL.match(line)
        if call is None:
            continue
        thread, name, rest = call.groups()
        counts[thread, name] += 1
        if str(home) in rest:
            found.append((name, counts[thread, name], rest[:160], thread))
    busiest = Counter(thread for *_, thread in found).most_common(1)[0][0]
    return [(name, number, rest) for name, number, rest, thread in found if thread == busiest]
