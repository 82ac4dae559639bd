"""A caller's operation id is answered from the ledger whatever else of the home is broken: the band speaks of the operation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gptbridge.practice.server import PracticeServer

ROOT = str(Path(__file__).parents[2])
SCRIPT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.fake_cli import main; sys.exit(main(sys.argv[1:]))"


def send(home: Path, site: str, folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    env = {**os.environ, "ASKGPT_HOME": str(home), "ASKGPT_SITE": site, "ASKGPT_DISPATCH_GAP": "0"}
    ran = subprocess.run([sys.executable, "-P", "-c", SCRIPT, ROOT, "send", "--json", *words], cwd=folder, env=env,
                         capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    assert ran.stdout.count(b"\n") == 1, (ran.stdout, ran.stderr)
    return ran.returncode, json.loads(ran.stdout), ran.stderr.decode()


def cut_tail(home: Path) -> None:
    lines = (home / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (home / "ledger.jsonl").write_bytes(b"".join(lines[:2]))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_folders(home: Path) -> None:
    for path in (home / "logs").glob("*.log"):
        make_folder(path)


def nest(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


BROKEN: dict[str, tuple[Callable[[Path], object], int]] = {
    "the ledger's tail is gone": (cut_tail, 40),
    "the ledger is empty": (lambda home: (home / "ledger.jsonl").write_bytes(b""), 40),
    "the ledger is gone": (lambda home: (home / "ledger.jsonl").unlink(), 40),
    "the ledger is a folder": (lambda home: make_folder(home / "ledger.jsonl"), 40),
    "the stamp is rubbish": (lambda home: nest(home / "dispatch.stamp"), 40),
    "the kept view is rubbish": (lambda home: nest(home / "ledger.check"), 0),
    "its log is a folder": (make_folders, 31),
    "nothing": (lambda home: None, 0),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_known_id_on_a_broken_home(tmp_path: Path, what: str) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        code, doc, said = send(home, site.url, folder, "first")
        assert code == 0, said
        known = str(doc["operation_id"])
        breaks, wanted = BROKEN[what]
        breaks(home)
        code, doc, said = send(home, site.url, folder, "first", "--operation-id", known)
        assert code == doc["exit_code"] == wanted, (what, doc, said)
        assert doc["retry"] == "never" and doc["sent"] == ("unknown" if wanted == 40 else "yes")
        assert "Traceback" not in said


def test_a_folder_that_was_deleted_and_a_registry_that_is_damaged(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        gone = tmp_path / "gone"
        gone.mkdir()
        env = {**os.environ, "ASKGPT_HOME": str(home), "ASKGPT_SITE": site.url, "ASKGPT_DISPATCH_GAP": "0"}
        ran = subprocess.run([sys.executable, "-P", "-c", "import os; os.rmdir(os.getcwd()); " + SCRIPT, ROOT, "send", "from nowhere"],
                             cwd=gone, env=env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        assert ran.returncode == 0 and b"bug" not in ran.stderr, ran.stderr
        with open(home / "conversations.jsonl", "ab") as file:
            file.write(b"garbage\n")
        code, doc, _ = send(home, site.url, folder, "the registry is damaged")
        assert (code, doc["sent"], doc["state"]) == (18, "no", "rejected")
