"""A home with known content, written through the suite's own files, and ways to run the command line on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gptbridge.core.registry import Conversation
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.logs import LogFiles
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.edge.spool import SpoolFolder
from gptbridge.shell.resolve import folder_digest

ROOT = Path(__file__).resolve().parents[2]
SITE = "https://chatgpt.com"
EPOCH = "0.5f2c"


class Ticking(Host):
    """A clock that begins at a known second and goes one second on with each look."""

    at = 1_795_957_200.0  # 2026-11-29T13:00:00Z, near enough: what matters is that it is fixed

    def wall(self) -> float:
        self.at += 1.0
        return self.at


def ulid(number: int) -> str:
    return f"01KB7X{number:020d}"


def conversation_id(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012x}"


class Seed:
    def __init__(self, home: Path) -> None:
        self.path = home
        self.env = {"ASKGPT_HOME": str(home), "PATH": os.environ["PATH"], "HOME": str(home.parent)}
        self.host = Ticking(self.env)
        self.home = open_home(self.env, create=True, host=self.host)
        self.ledger = LedgerFile(self.home, self.host, site=SITE)
        self.registry = RegistryFile(self.home, self.host)
        self.logs = LogFiles(self.home)
        self.spool = SpoolFolder(self.home)

    def conversation(self, number: int, title: str, account: str = "user-0000", **more: Any) -> str:
        found = conversation_id(number)
        self.ledger.begin()  # as before everything of ours: a home with such a row and no ledger has lost one
        self.registry.put(Conversation(account, found, title, f"{SITE}/c/{found}", created_at="2026-11-29T13:00:00.000Z", **more))
        return found

    def operation(self, number: int, *states: str, folder: str | None = None, target: str = "new", **last: Any) -> str:
        """`states` after `queued`; `last` goes into the last record."""
        found = ulid(number)
        facts: dict[str, dict[str, Any]] = {
            "queued": {"kind": "new" if target == "new" else "resume", "target": target, "fingerprint": "f" * 64, "prompt_sha256": "a" * 64,
                       "prompt_bytes": 5, "account": "user-0000", "attempt": 1, "folder": folder_digest(folder) if folder else None},
            "dispatched": {"user_message_id": f"aaaaaaaa-0000-4000-8000-{number:012x}"},
            "accepted": {"conversation_id": conversation_id(number), "turn_id": f"turn-{number}"}}
        rows = [{"operation_id": found, "state": state, "epoch": EPOCH, "actor": "recovery" if state == "uncertain" else "worker",
                 "reason": "as it goes", **facts.get(state, {})} for state in ("queued", *states)]
        rows[-1].update(last)
        for row in rows:
            self.ledger.transact(lambda view, row=row: [row])  # type: ignore[misc]
        return found

    def log(self, name: str, *turns: dict[str, Any]) -> None:
        """Each turn: `sections` [(name, text)], and optionally attrs, state, words."""
        header = {"conversation": name, "url": f"{SITE}/c/{name}", "account": "user-0000", "created": "2026-11-29T13:00:00.000Z"}
        for turn in turns:
            self.logs.append(name, header=header, blocks=[{"kind": "turn", "at": "2026-11-29T13:00:05.000Z", "attrs": [],
                                                           "state": "completed", "words": (), **turn}])

    def run(self, *words: str, cwd: Path | None = None, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """The real command in a process of its own; standard input is empty unless given."""
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([sys.executable, "-P", "-m", "gptbridge", *words], cwd=cwd or self.path.parent, env=self.env,
                              capture_output=True, timeout=60, check=False, **more)

    def document(self, *words: str, cwd: Path | None = None) -> dict[str, Any]:
        done = self.run(*words, "--json", cwd=cwd)
        lines = done.stdout.splitlines()
        assert len(lines) == 1 and lines[0].isascii(), done
        found: dict[str, Any] = json.loads(lines[0])
        assert found["exit_code"] == done.returncode
        return found
