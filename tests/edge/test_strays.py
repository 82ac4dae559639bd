"""What is not ours in the home's folders: moved aside as it is, once, and nothing that is ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gptbridge.edge.home import Home, open_home
from gptbridge.edge.strays import OURS, HomeStrays
from tests.edge.crashing import Quick

TALK, ULID = "68c1d2e3-0000-8000-8000-000000000001", "01KB7X00000000000000000001"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = open_home({"ASKGPT_HOME": str(tmp_path / "home")}, disk=Quick())
    yield made
    made.close()


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "elsewhere")


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("a person's")


KINDS: dict[str, Callable[[Path], None]] = {"link": link, "folder": folder, "fifo": os.mkfifo}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("place", "name"), [("logs", f"{TALK}.log"), ("logs", "a b.log"), ("spool", f"{ULID}.prompt"), ("spool", "x"),
                                             ("reports", "x"), ("locks", "owner-0"), ("locks", "ledger"), ("locks", "conversation-x")])
def test_what_is_no_file_is_moved_as_it_is(home: Home, tmp_path: Path, place: str, name: str, kind: str) -> None:
    (tmp_path / "elsewhere").write_text("not ours to touch")
    at = tmp_path / "home" / place / name
    if at.exists():
        at.unlink()
    KINDS[kind](at)
    before = os.lstat(at).st_ino
    [stray] = HomeStrays(home).move_aside()
    assert not os.path.lexists(at) and stray.now is not None and stray.now.isprintable() and stray.place.isprintable()
    now = tmp_path / "home" / stray.now
    assert os.lstat(now).st_ino == before and now.parent.name == "quarantine" and (now.parent.stat().st_mode & 0o777) == 0o700
    assert (tmp_path / "elsewhere").read_text() == "not ours to touch" and HomeStrays(home).move_aside() == []
    if kind == "folder":
        assert (now / "inside").read_text() == "a person's"


def test_names_that_no_terminal_should_see_and_names_that_are_taken(home: Home, tmp_path: Path) -> None:
    logs = tmp_path / "home" / "logs"
    names = [os.fsdecode(b"\xff\xfe.log"), "\x1b[31mred.log", "a\nb.log", "x" * 200, "..log..", "notes.txt", f"{TALK} copy.log"]
    for name in names:
        (logs / name).write_text("words")
    moved = HomeStrays(home).move_aside()
    kept = [stray.now or "" for stray in moved]
    assert len(set(kept)) == len(names) - 1  # one begins with a dot
    assert all(now.isascii() and now.isprintable() and len(now) < 130 for now in kept)
    for name in names:
        (logs / name).write_text("other words")
    again = [stray.now or "" for stray in HomeStrays(home).move_aside()]
    assert not set(again) & set(kept)
    assert {(tmp_path / "home" / now).read_text() for now in kept} == {"words"}
    assert {(tmp_path / "home" / now).read_text() for now in again} == {"other words"}


def test_nothing_of_ours_is_moved(home: Home, tmp_path: Path) -> None:
    base = tmp_path / "home"
    for name in (f"logs/{TALK}.log", f"logs/failed-{ULID}.log", f"logs/.{TALK}.log.0123456789abcdef.tmp", "logs/.DS_Store",
                 f"spool/{ULID}.prompt", f"spool/{'a' * 64}", f"spool/{ULID}.notes.md", "reports/2026-11-29T13-00-00.120Z-bug.json",
                 "locks/of-a-later-version"):
        (base / name).write_text("ours")
    (base / "spool" / ULID).mkdir()
    assert set(OURS) == {"logs", "spool", "reports", "locks"}
    assert HomeStrays(home).move_aside() == [] and not (base / "quarantine").exists()


def test_what_cannot_be_moved_is_said_and_stays(home: Home, tmp_path: Path) -> None:
    (tmp_path / "home" / "quarantine").write_text("a file stands where the folder would be")
    link(tmp_path / "home" / "logs" / "a.log")
    [stray] = HomeStrays(home).move_aside()
    assert stray.now is None and stray.why and os.path.islink(tmp_path / "home" / "logs" / "a.log")
