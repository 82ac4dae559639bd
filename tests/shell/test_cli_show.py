"""`show` while a turn is in progress and after a kill, on a terminal and into a pipe; and the copy that it mends."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.escape import unescape
from gptbridge.shell import reading
from gptbridge.shell.requests import Show
from gptbridge.shell.store import Store
from tests.texts import is_inert

from .seeding import Seed

EVIL = "an\x1b]0;title\x07 \x1b[2J\x9b31m \u202egnp.exe \r over\n## turn 9\n<!-- ask-gpt torn -->\n\U000e0041 ␛ tab\there\n"


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seed:
    monkeypatch.chdir(tmp_path)
    return Seed(tmp_path / "home")


def begun(seed: Seed) -> str:
    """A log with a whole turn and one that was only begun."""
    name = seed.conversation(1, "A title")
    seed.log(name, {"sections": [("prompt", "one"), ("answer", "first")], "attrs": [("user", "u-1")]})
    seed.logs.begin(name, header={}, block={"kind": "turn", "at": "2026-11-29T13:00:05.000Z", "attrs": [("user", "u-2")], "words": (),
                                            "sections": [("prompt", EVIL)]})
    return name


def test_a_turn_of_a_live_worker_is_in_progress_and_nothing_is_damaged(seed: Seed) -> None:
    name = begun(seed)
    data = (seed.path / "logs" / f"{name}.log").read_bytes()
    assert seed.home.locks is not None
    with seed.home.locks.conversation(name):
        reply = reading.show(Show(name), Store(seed.env), False)
        assert reply.data == data and [turn["state"] for turn in reply.extra["turns"]] == ["completed", "answering"]
        assert reply.warnings == [f"turn 2 is still being answered; ask-gpt resume {name} follows it"]
        assert reading.show(Show(name, None, "prompt"), Store(seed.env), False).data == EVIL.encode()
        for part in ("answer", "thinking"):
            with pytest.raises(Failure, match="turn 2 is still being answered") as why:
                reading.show(Show(name, "last", part), Store(seed.env), False)  # type: ignore[arg-type]
            assert why.value.slug == "bad-input"
        assert reading.show(Show(name, 1, "answer"), Store(seed.env), False).data == b"first\n"
        seen = seed.run("show", name, "--json")
        assert seen.returncode == 0 and b'"state":"answering"' in seen.stdout, "another process sees the lock too"
    assert (seed.path / "logs" / f"{name}.log").read_bytes() == data, "it was not sealed"


def test_a_turn_whose_worker_is_gone_was_interrupted(seed: Seed) -> None:
    name = begun(seed)
    found = seed.document("show", name)
    assert [turn["state"] for turn in found["turns"]] == ["completed", "interrupted"] and found["warnings"] == []
    assert (found["turns"][1]["prompt"], found["turns"][1]["answer"], found["turns"][1]["thinking"]) == (EVIL, None, None)
    assert seed.logs.is_torn(name), "reading heals nothing"


@pytest.mark.parametrize("held", [False, True])
def test_show_mends_a_stale_copy_but_not_beside_a_live_worker(seed: Seed, tmp_path: Path, held: bool) -> None:
    name = begun(seed)
    copy = tmp_path / "ask-gpt" / f"{name}.log"
    copy.parent.mkdir(mode=0o700)
    copy.write_bytes(b"")
    assert seed.home.locks is not None
    if held:
        with seed.home.locks.conversation(name):
            reading.show(Show(name), Store(seed.env), False)
        assert copy.read_bytes() == b""
    else:
        assert seed.run("show", name, "-q", cwd=tmp_path).returncode == 0
        assert copy.read_bytes() == (seed.path / "logs" / f"{name}.log").read_bytes() and stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert os.listdir(copy.parent) == [copy.name]


def test_show_makes_no_folder_and_a_copy_in_the_way_is_a_warning(seed: Seed, tmp_path: Path) -> None:
    name = begun(seed)
    seed.run("show", name, cwd=tmp_path)
    assert not (tmp_path / "ask-gpt").exists()
    (tmp_path / "ask-gpt").symlink_to(tmp_path)
    done = seed.run("show", name, "--turn", "1", "--answer", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"first\n") and b"warning: no copy in ./ask-gpt/" in done.stderr


def on_a_terminal(seed: Seed, *words: str) -> bytes:
    """What a command writes to a real terminal, which adds nothing of its own."""
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    process = subprocess.Popen([sys.executable, "-P", "-m", "gptbridge", *words], cwd=seed.path.parent, env=seed.env,
                               stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    out = b""
    try:
        while chunk := os.read(master, 65536):
            out += chunk
    except OSError:  # Linux says so when the last writer is gone
        pass
    os.close(master)
    process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def test_on_a_terminal_nothing_is_obeyed_and_into_a_pipe_everything_is_exact(seed: Seed) -> None:
    """SE-01, case 57."""
    name = seed.conversation(1, "A title")
    seed.log(name, {"sections": [("prompt", EVIL), ("thinking", EVIL + "\ud83d"), ("answer", EVIL * 300)]})
    for part, text in (("prompt", EVIL), ("thinking", EVIL + "\ud83d"), ("answer", EVIL * 300)):
        whole = (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogatepass")
        assert seed.run("show", name, f"--{part}").stdout == whole
        shown = on_a_terminal(seed, "show", name, f"--{part}")
        assert is_inert(shown) and unescape(shown.decode()).encode("utf-8", "surrogatepass") == whole
    data = (seed.path / "logs" / f"{name}.log").read_bytes()
    assert on_a_terminal(seed, "show", name) == data == seed.run("show", name).stdout and is_inert(data)
    spoilt = data.replace(b"tab\there", b"\x1b[31m\x00\xff\xc2", 1)
    (seed.path / "logs" / f"{name}.log").write_bytes(spoilt)
    assert is_inert(on_a_terminal(seed, "show", name)) and seed.run("show", name).stdout == spoilt
