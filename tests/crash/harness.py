"""Real processes on a real practice server: commands that are started, held at a point, killed, and what is left of them.

Every wait has a deadline and polls; nothing sleeps for luck. `Place.end` kills what a failed test left behind, by pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gptbridge.core.ledger import View
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.practice.server import PracticeServer

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0


def until(what: Callable[[], Any], seconds: float = DEADLINE, said: str = "did not happen") -> Any:
    """The first truthy answer."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, said
        time.sleep(0.005)
    return found


class Command:
    """One started command: the front's process, and the worker's pid once the page saw it."""

    def __init__(self, process: subprocess.Popen[str], marks: Path) -> None:
        self.process, self.marks = process, marks

    def happened(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self._lines()]

    def _lines(self) -> list[str]:
        return self.marks.read_text().splitlines() if self.marks.exists() else []

    def stands_at(self, what: str) -> int:
        """Waits until the worker stands there; its pid."""
        until(lambda: what in self.happened(), said=f"never came to {what}: {self.happened()}")
        return int(self._lines()[0].split(" ", 1)[0])

    @property
    def worker(self) -> int:
        return int(until(self._lines)[0].split(" ", 1)[0])

    def go(self) -> None:
        self.marks.with_name(self.marks.name + ".go").touch()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self, seconds: float = DEADLINE) -> tuple[int, dict[str, Any], str]:
        """Exit code, the document, standard error."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, json.loads(out) if out.strip() else {}, err


class Place:
    """A home and a working folder on a practice server."""

    def __init__(self, path: Path, site: PracticeServer) -> None:
        self.path, self.site = path, site
        self.home, self.work = path / "home", path / "work"
        self.work.mkdir(exist_ok=True)
        self.commands: list[Command] = []
        self.env = {**os.environ, "ASKGPT_HOME": str(self.home), "ASKGPT_SITE": site.url, "ASKGPT_DISPATCH_GAP": "0",
                    "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *argv: str, hold: str = "", env: Mapping[str, str] | None = None, wrap: tuple[str, ...] = (),
              stdin: Any = subprocess.DEVNULL) -> Command:
        marks = self.path / f"marks{len(self.commands)}"
        process = subprocess.Popen(
            [*wrap, sys.executable, "-m", "tests.fake_cli", *argv, "--json"],
            env={**self.env, "FAKE_MARKS": str(marks), "FAKE_HOLD": hold, **(env or {})},
            cwd=self.work, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.commands.append(Command(process, marks))
        return self.commands[-1]

    def run(self, *argv: str, **options: Any) -> tuple[int, dict[str, Any], str]:
        return self.start(*argv, **options).end()

    def id(self) -> str:
        return Host({}).ulid()

    @property
    def sends(self) -> list[dict[str, Any]]:
        return list(self.site.world.state()["sends"])

    def view(self) -> View:
        home = open_home(self.env, create=False)
        try:
            return LedgerFile(home, Host(self.env)).view()
        finally:
            home.close()

    def state(self, operation_id: str) -> str | None:
        op = self.view().get(operation_id)
        return op.state.value if op is not None else None

    def copies(self) -> list[Path]:
        return sorted((self.work / "ask-gpt").glob("*.log"))

    def end(self) -> None:
        """Nothing of a test stays behind."""
        for command in self.commands:
            pids = {int(line.split(" ", 1)[0]) for line in command._lines()} if command.marks.exists() else set()
            command.go()
            if command.process.poll() is None:
                command.process.kill()
            command.process.wait()
            for stream in (command.process.stdout, command.process.stderr):
                if stream is not None:
                    stream.close()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                    if "fake_cli" in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
