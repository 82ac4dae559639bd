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

from gptbridge.edge.host import Host
from gptbridge.practice.server import PracticeServer

from .practising import VALID

ROOT = str(Path(__file__).parents[2])
SCRIPT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.fake_cli import main; sys.exit(main(sys.argv[1:]))"


def run(home: Path, site: str, folder: Path, *words: str, given: bytes = b"", **env: str) -> tuple[int, dict[str, Any], str]:
    settings = {**os.environ, "ASKGPT_HOME": str(home), "ASKGPT_SITE": site, "ASKGPT_DISPATCH_GAP": "0", **env}
    ran = subprocess.run([sys.executable, "-P", "-c", SCRIPT, ROOT, *words, "--json"], cwd=folder, env=settings,
                         capture_output=True, timeout=60, input=given, check=False)
    assert ran.stdout.count(b"\n") == 1, (ran.stdout, ran.stderr)
    doc = json.loads(ran.stdout)
    VALID.validate(doc)
    return ran.returncode, doc, ran.stderr.decode()


def send(home: Path, site: str, folder: Path, *words: str, **how: Any) -> tuple[int, dict[str, Any], str]:
    return run(home, site, folder, "send", *words, **how)


def cut_tail(home: Path) -> None:
    lines = (home / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (home / "ledger.jsonl").write_bytes(b"".join(lines[:2]))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_folders(home: Path) -> None:
    for path in (home / "logs").glob("*.log"):
        make_folder(path)


def lose_both(home: Path) -> None:
    (home / "ledger.jsonl").unlink()
    (home / "dispatch.stamp").unlink()


def nest(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


BROKEN: dict[str, tuple[Callable[[Path], object], int]] = {
    "the ledger's tail is gone": (cut_tail, 40),
    "the ledger is empty": (lambda home: (home / "ledger.jsonl").write_bytes(b""), 40),
    "the ledger is gone": (lambda home: (home / "ledger.jsonl").unlink(), 40),
    "ledger and stamp are gone": (lose_both, 40),
    "the ledger is a folder": (lambda home: make_folder(home / "ledger.jsonl"), 40),
    "the stamp is rubbish": (lambda home: nest(home / "dispatch.stamp"), 40),
    "the kept view is rubbish": (lambda home: nest(home / "ledger.check"), 0),
    "its log is a folder": (make_folders, 31),
    "nothing": (lambda home: None, 0),
}


@pytest.mark.sample(5)
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
        assert "Traceback" not in said and doc["operation_id"] == known
        assert wanted != 40 or doc["next"] == [["ask-gpt", "ops", "show", known]]
        if wanted != 40:
            code, doc, _ = send(home, site.url, folder, "other words", "--operation-id", known)
            assert code == 21, doc
            return
        # Commands that only name it say the same, and so does a bare resume.
        for words in (["resume", known], ["ops", "show", known], ["ops", "stop", known], ["show", known],
                      ["ops", "resolve", known, "--not-sent", "--because", "x"]):
            code, doc, said = run(home, site.url, folder, *words)
            if words[0] == "resume" and what == "the stamp is rubbish":
                assert (code, doc["sent"]) == (0, "yes")  # its row and the page say it; only a message needs the stamp
                continue
            assert (code, doc["sent"], doc["retry"], doc["error"]["code"]) == (40, "unknown", "never", "uncertain"), (words, doc)
            assert known in doc["error"]["message"] and "Traceback" not in said
        code, doc, _ = run(home, site.url, folder, "resume", known, "more words")
        assert (code, doc["sent"]) == (18, "no")  # the new message was not sent, whatever became of the old one
        assert len(site.world.state()["sends"]) == 1


@pytest.mark.parametrize("trouble", ["config", "clock", "read-only", "registry"])
def test_trouble_that_has_nothing_to_do_with_the_operation(tmp_path: Path, trouble: str) -> None:
    """Its outcome is what the ledger says; what this run met is a warning."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        ahead = str(Host({}).ulid())
        code, doc, said = send(home, site.url, folder, "first", "--operation-id", ahead)
        assert code == 0, said
        env: dict[str, str] = {}
        if trouble == "config":
            (home / "config.yaml").write_text("no-such-key: 1\n")
        elif trouble == "clock":
            env["FAKE_STEP"] = "-86400"
        elif trouble == "read-only":
            for path in (home, *(p for p in home.iterdir() if p.is_dir())):
                path.chmod(0o500)
        else:
            (home / "conversations.jsonl").write_bytes(b"garbage\n" * 3)
        for words in (["send", "first", "--operation-id", ahead], ["resume", ahead]):
            if words[0] == "resume" and trouble in ("clock", "registry"):
                continue
            code, again, said = run(home, site.url, folder, *words, **env)
            assert (code, again["sent"], again["answer"]) == (0, "yes", doc["answer"]), (words, again, said)
            assert again["warnings"] or trouble in ("clock", "registry")
            assert "nothing was sent" not in said + " ".join(again["warnings"]), "it was, before"
        code, again, _ = run(home, site.url, folder, "send", "other words", "--operation-id", ahead, **env)
        assert code == 21, again
        code, again, _ = run(home, site.url, folder, "ops", "show", ahead)
        assert code == 0
        for path in (home, *(p for p in home.iterdir() if p.is_dir())):
            path.chmod(0o700)


FILES: dict[str, Callable[[Path], object]] = {
    "as it was": lambda path: None, "gone": lambda path: path.unlink(), "a folder": make_folder,
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path)), "too large": lambda path: os.truncate(path, 1 << 31)}


@pytest.mark.parametrize("config", ["good", "bad"])
def test_a_known_id_with_files(tmp_path: Path, config: str) -> None:
    """AD-18: the receipt comes before the files, and before what keeps this run from doing anything."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    path = folder / "a.txt"
    with PracticeServer() as site:
        path.write_bytes(b"some bytes")
        code, doc, said = send(home, site.url, folder, "first", "-f", "a.txt", "-f", "-", given=b"a stream")
        assert code == 0, said
        known = str(doc["operation_id"])
        env = {"ASKGPT_DISPATCH_GAP": "soon" if config == "bad" else "0"}
        words = ["first", "-f", "a.txt", "-f", "-", "--operation-id", known]
        for what in FILES if config == "bad" else ("a folder",):
            path.write_bytes(b"some bytes")
            FILES[what](path)
            code, again, said = send(home, site.url, folder, *words, given=b"a stream", **env)
            assert (code, again["sent"], again["state"], again["answer"]) == (0, "yes", "completed", doc["answer"]), (what, again, said)
            assert ("ASKGPT_DISPATCH_GAP" in " ".join(again["warnings"])) == (config == "bad")
            if what != "gone":
                path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(b"some bytes")
        for other in (["-f", "a.txt"], ["-f", "a.txt", "-f", "-", "--stdin-name", "other.txt"], []):
            code, again, _ = send(home, site.url, folder, "first", *other, "--operation-id", known, given=b"a stream", **env)
            assert (code, again["sent"]) == (21, "no"), other
        assert send(home, site.url, folder, *words, given=b"another stream", **env)[0] == 21
        path.write_bytes(b"other bytes")
        assert send(home, site.url, folder, *words, given=b"a stream", **env)[0] == 21
        path.unlink()
        code, again, _ = send(home, site.url, folder, "first", "-f", "b.txt", "-f", "-", "--operation-id", known, **env)
        assert (code, again["sent"]) == (17, "no")  # neither there nor the one that was sent
        assert len(site.world.state()["sends"]) == 1


def test_what_was_left_out_was_settled_when_it_was_admitted(tmp_path: Path) -> None:
    """AD-16, AD-36: a default that was changed since makes no other request of the same command."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        code, doc, said = send(home, site.url, folder, "first")
        assert code == 0, said
        known = str(doc["operation_id"])
        site.world.switches.start("signed-out", {})
        code, never, _ = send(home, site.url, folder, "second")
        assert (code, never["retry"]) == (12, "after-fix")
        site.world.switches.end("signed-out")
        (home / "config.yaml").write_text("model: no-such-model\neffort: high\n")
        code, again, said = send(home, site.url, folder, "first", "--operation-id", known)
        assert (code, again["answer"]) == (0, doc["answer"]), (again, said)
        for choice in (["--model", "no-such-model"], ["--effort", "high"]):
            assert send(home, site.url, folder, "first", *choice, "--operation-id", known)[0] == 21
        # The next attempt too is what was admitted, not what the default is today.
        code, again, said = send(home, site.url, folder, "second", "--operation-id", str(never["operation_id"]))
        assert (code, again["state"], len(site.world.state()["sends"])) == (0, "completed", 2), (again, said)


@pytest.mark.parametrize("trouble", ["none", "clock", "config"])
def test_what_was_refused_for_ever_stays_refused(tmp_path: Path, trouble: str) -> None:
    """AD-20, AD-34: whatever this run's clock and configuration are."""
    from gptbridge.core.errors import Failure
    from gptbridge.core.operation import Payload
    from gptbridge.flow.custody import Custody
    from gptbridge.shell.wiring import desk

    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        assert send(home, site.url, folder, "before it")[0] == 0
        known, open_one = str(Host({}).ulid()), str(Host({}).ulid())
        w, _ = desk({**os.environ, "ASKGPT_HOME": str(home)}, purpose="test")
        custody = Custody(w)
        for one, durable in ((known, True), (open_one, False)):
            custody.admit(one, Payload("words of " + one), account=None, folder=None)
            custody.stop(one, "person", Failure("stopped", "stopped by a person; nothing was sent", "a new id", durable=durable))
        env = {"none": {}, "clock": {"FAKE_STEP": "-900"}, "config": {"ASKGPT_DISPATCH_GAP": "soon"}}[trouble]
        code, doc, said = send(home, site.url, folder, "words of " + known, "--operation-id", known, **env)
        assert (code, doc["state"], doc["sent"], doc["retry"]) == (24, "stopped", "no", "never"), (doc, said)
        assert send(home, site.url, folder, "other words", "--operation-id", known, **env)[0] == 21
        code, doc, said = send(home, site.url, folder, "words of " + open_one, "--operation-id", open_one, **env)
        assert (code, doc["retry"]) == ((20, "after-fix") if trouble == "config" else (0, "never")), (doc, said)
        # Of an id that nobody knows the clock still counts.
        code, doc, _ = send(home, site.url, folder, "x", "--operation-id", Host({}).ulid(), **env)
        assert code == {"none": 0, "clock": 2, "config": 20}[trouble] and doc["sent"] == ("yes" if code == 0 else "no")


@pytest.mark.parametrize("lost", ["gone", "damaged"])
def test_a_short_id_that_the_home_cannot_tell_any_more(tmp_path: Path, lost: str) -> None:
    """AD-18: for a known operation its own row says which conversation was meant."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    with PracticeServer() as site:
        talk = str(send(home, site.url, folder, "first")[1]["conversation_id"])
        code, doc, said = run(home, site.url, folder, "resume", talk[:8], "second")
        assert code == 0, said
        known = str(doc["operation_id"])
        registry = home / "conversations.jsonl"
        registry.unlink() if lost == "gone" else registry.write_bytes(b"garbage\n" * 3)
        for name in home.glob("conversations.check"):
            name.unlink()
        code, again, said = run(home, site.url, folder, "resume", talk[:8], "second", "--operation-id", known)
        assert (code, again["sent"], again["answer"]) == (0, "yes", doc["answer"]), (again, said)
        other = "0" * 8 if talk[:8] != "0" * 8 else "1" * 8
        assert run(home, site.url, folder, "resume", other, "second", "--operation-id", known)[0] in (17, 18)
        assert run(home, site.url, folder, "resume", talk[:8], "third")[0] in (17, 18)
        assert len(site.world.state()["sends"]) == 2


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
