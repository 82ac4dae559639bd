"""The command line in real processes with the fake browser, against a practice server in this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

from gptbridge.practice.server import PracticeServer
from gptbridge.shell import topics

from .seeding import ROOT

VALID = jsonschema.Draft202012Validator(json.loads(topics.schema_text()))


def until(true: Callable[[], Any], seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
    return value


class Desk:
    """A home and a working folder; `env` may be changed between commands."""

    def __init__(self, folder: Path, site: PracticeServer) -> None:
        self.folder, self.site, self.home = folder, site, folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        self.marks = folder / "marks"
        self.env = {"ASKGPT_HOME": str(self.home), "ASKGPT_SITE": site.url, "ASKGPT_DISPATCH_GAP": "0", "PATH": os.environ["PATH"],
                    "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, hold: str | None = None) -> subprocess.Popen[bytes]:
        """`hold`: its worker stands still when that happens in its page."""
        env = self.env if hold is None else {**self.env, "FAKE_MARKS": str(self.marks), "FAKE_HOLD": hold}
        process = subprocess.Popen([sys.executable, "-m", "tests.fake_cli", *words], env=env, cwd=self.work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def document(self, *words: str) -> dict[str, Any]:
        return self.told(self.run(*words, "--json"))

    def told(self, done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
        assert done.stdout.count(b"\n") == 1 and done.stdout.isascii(), done
        found: dict[str, Any] = json.loads(done.stdout)
        VALID.validate(found)
        assert found["exit_code"] == done.returncode
        return found

    def end(self, process: subprocess.Popen[bytes]) -> subprocess.CompletedProcess[bytes]:
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def operations(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.document("ops", *words)["operations"]
        return found

    def reaches(self, state: str) -> str:
        """Wait until the newest record of the ledger names that state; its operation's id."""
        def newest() -> str | None:
            ledger = self.home / "ledger.jsonl"
            last = json.loads(ledger.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2] or b"{}") if ledger.exists() else {}
            return last["operation_id"] if last.get("state") == state else None

        return str(until(newest))

    def wreck(self, prompt: str, at: str) -> str:
        """A send whose worker and front are killed where `at` happens; the operation's id."""
        process = self.start("send", prompt, hold=at)
        pid = int(until(lambda: next((line.split()[0] for line in self.seen() if line.split()[1] == at), None)))
        os.kill(process.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        process.communicate()
        self.marks.unlink()
        return str(self.operations()[0]["operation_id"])

    def seen(self) -> list[str]:
        return self.marks.read_text().splitlines() if self.marks.exists() else []

    @property
    def sends(self) -> list[dict[str, Any]]:
        return list(self.site.world.state()["sends"])

    def tidy(self) -> None:
        (Path(str(self.marks) + ".go")).touch()  # whoever stands still goes on, and ends
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
