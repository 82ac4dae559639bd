"""The copies in the working folder: real files, whole, never through a link, never replaced by less (TL-02, TL-03, TL-17, SE-11)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import transcript
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.home import Home
from gptbridge.edge.journal import Disk
from gptbridge.edge.logs import LogFiles
from tests.edge.crashing import Faulty, Quick, Recorder, make_home
from tests.edge.test_logs import HEADER, NAME, turn


@dataclass
class Place:
    """A home, a working folder, and the files that a command started there uses."""

    home: Home
    work: Path
    disk: Disk = field(default_factory=Quick)
    said: list[str] = field(default_factory=list)

    @property
    def logs(self) -> LogFiles:
        """As a new process has them."""
        return LogFiles(self.home, CopyFolder(self.disk, os.open(self.work, os.O_RDONLY | os.O_DIRECTORY), self.said.append))

    @property
    def canonical(self) -> Path:
        return Path(self.home.path) / "logs" / f"{NAME}.log"

    @property
    def copy(self) -> Path:
        return self.work / "ask-gpt" / f"{NAME}.log"

    def write(self, *users: str) -> None:
        self.logs.append(NAME, header=HEADER, blocks=[turn(("answer", f"of {user}"), user=user) for user in users])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = make_home(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    made = Place(home, work)
    made.write("m-1", "m-2", "m-3")
    yield made
    work.chmod(0o755)
    home.close()


def test_a_copy_is_a_real_private_file_equal_to_the_log(place: Place) -> None:
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == place.canonical.read_bytes() and not place.copy.is_symlink()
    assert stat.S_IMODE(place.copy.stat().st_mode) == 0o600 and stat.S_IMODE(place.copy.parent.stat().st_mode) == 0o700
    assert place.copy.stat().st_ino != place.canonical.stat().st_ino and place.copy.stat().st_nlink == 1
    assert sorted(os.listdir(place.copy.parent)) == [".gitignore", f"{NAME}.log"] and place.said == []


def test_the_gitignore_is_made_once_and_then_the_users(place: Place) -> None:
    ignore = place.copy.parent / ".gitignore"
    place.logs.copy(NAME)
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine\n")
    place.write("m-4")
    place.logs.copy(NAME)
    assert ignore.read_text() == "mine\n"


@pytest.mark.parametrize("stale", ["behind", "begun", "torn", "noted", "none", "empty", "linked hard"])
def test_a_stale_copy_is_repaired_by_the_next_run(place: Place, stale: str) -> None:
    """TL-03, TL-04: whatever a kill left in the folder."""
    place.logs.copy(NAME)
    old = place.copy.read_bytes()
    if stale == "begun":
        begun = {key: value for key, value in turn(user="m-4").items() if key != "state"}
        logs = place.logs
        logs.begin(NAME, header=HEADER, block=begun)
        logs.copy(NAME)
        assert place.copy.read_bytes() == place.canonical.read_bytes() != old, "a turn in progress is in the copy"
    elif stale == "torn":
        place.copy.write_bytes(old[:-30])
    elif stale == "noted":
        place.copy.write_bytes(old.replace(b"\n## turn 2", b"\nmy note\n\n## turn 2"))
    elif stale == "none":
        place.copy.unlink()
    elif stale == "empty":
        place.copy.write_bytes(b"")
    elif stale == "linked hard":
        place.copy.unlink()
        os.link(place.canonical, place.copy)
    place.write("m-5")
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == place.canonical.read_bytes() and place.said == []
    assert place.copy.stat().st_ino != place.canonical.stat().st_ino


def test_a_copy_that_is_up_to_date_is_not_written_again(place: Place) -> None:
    place.logs.copy(NAME)
    place.disk = Recorder()
    place.logs.copy(NAME)
    assert place.disk.calls == [("mkdir", "ask-gpt")]


def damage(name: str) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        second = transcript.parse(data).blocks[1]
        return {"empty": b"", "cut in a turn": data[: second.start + 80], "cut between turns": data[: second.start],
                "header gone": data[20:], "header zeroed": b"\0" * 60 + data[60:], "all zero": b"\0" * len(data),
                "a turn zeroed": data[: second.start + 60] + b"\0" * 100 + data[second.start + 160:],
                "a turn out": data[: second.start] + data[second.stop:],
                "a word changed": data.replace(b"of m-2", b"of m-9")}[name]
    return spoil


DAMAGES = ("empty", "cut in a turn", "cut between turns", "header gone", "header zeroed", "all zero", "a turn zeroed", "a turn out",
           "a word changed")


@pytest.mark.parametrize("spoil", DAMAGES)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_damaged_log_never_replaces_a_good_copy(place: Place, spoil: str, goes_on: bool) -> None:
    """Also when the log has had another turn since: the copy may be all that is left."""
    place.logs.copy(NAME)
    good = place.copy.read_bytes()
    place.canonical.write_bytes(damage(spoil)(good))
    if goes_on:
        place.write("m-4")
    place.logs.copy(NAME)
    place.logs.repair_copy(NAME, place.canonical.read_bytes())
    assert place.copy.read_bytes() == good
    assert len(place.said) == (1 if spoil != "empty" or goes_on else 0) * 2
    assert all("left as it is" in line and NAME in line for line in place.said)


def test_a_log_that_cannot_be_read_or_is_gone_changes_no_copy(place: Place) -> None:
    place.logs.copy(NAME)
    good = place.copy.read_bytes()
    place.canonical.unlink()
    place.logs.copy(NAME)
    place.canonical.symlink_to("/etc/passwd")
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == good


def test_a_log_read_anew_from_the_site_may_replace_an_older_copy(place: Place) -> None:
    """Another home's log of the same conversation: other bytes, the same messages."""
    place.logs.copy(NAME)
    place.canonical.unlink()
    hydrated = [turn(("answer", "as hydrated"), user=user, words=("hydrated",)) for user in ("m-1", "m-2", "m-3")]
    place.logs.append(NAME, header=HEADER, blocks=hydrated)
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == place.canonical.read_bytes() and place.said == []


@pytest.mark.parametrize("obstacle", ["folder is a link", "folder is a file", "target is a link", "target is a folder", "dangling link"])
def test_no_copy_goes_through_a_link(place: Place, tmp_path: Path, obstacle: str) -> None:
    """SE-11: no copy, one warning."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "target"
    target.write_bytes(b"somebody's")
    folder = place.work / "ask-gpt"
    if obstacle == "folder is a link":
        folder.symlink_to(elsewhere)
    elif obstacle == "folder is a file":
        folder.write_bytes(b"")
    else:
        folder.mkdir(0o700)
        if obstacle == "target is a folder":
            place.copy.mkdir()
        else:
            place.copy.symlink_to(target if obstacle == "target is a link" else elsewhere / "none")
    logs = place.logs
    logs.prepare()
    logs.copy(NAME)
    logs.copy(NAME)
    assert len(place.said) == 1 and place.said[0].startswith("no copy in ./ask-gpt/")
    assert target.read_bytes() == b"somebody's" and os.listdir(elsewhere) == ["target"]
    assert logs.paths(NAME) == (None, str(place.canonical))


class Foreign(Quick):
    """A disk on which the folder `ask-gpt` belongs to somebody else."""

    def fstat(self, fd: int) -> os.stat_result:
        found = super().fstat(fd)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:])) if stat.S_ISDIR(found.st_mode) else found


def test_a_folder_of_somebody_else_is_left_alone(place: Place) -> None:
    (place.work / "ask-gpt").mkdir(0o700)
    place.disk = Foreign()
    place.logs.copy(NAME)
    assert len(place.said) == 1 and "another user" in place.said[0] and os.listdir(place.work / "ask-gpt") == []


@pytest.mark.parametrize(("call", "number"), [("mkdir", errno.EROFS), ("mkdir", errno.EACCES), ("open", errno.EACCES),
                                              ("write", errno.ENOSPC), ("copy_range", errno.ENOSPC), ("fsync", errno.EIO),
                                              ("rename", errno.EACCES)])
def test_a_folder_that_cannot_be_written_is_a_warning(place: Place, call: str, number: int) -> None:
    """TL-17: the canonical log is there, the old copy stays whole, nothing is raised."""
    if call != "mkdir":
        place.logs.copy(NAME)
    old = place.copy.read_bytes() if call != "mkdir" else None
    place.write("m-4")
    place.disk = Faulty(call, 1, number)
    if call == "write":
        place.disk.copy_range = lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSYS, "no"))  # type: ignore[method-assign]
    place.logs.copy(NAME)
    assert len(place.said) == 1 and place.said[0].startswith("no copy in ./ask-gpt/")
    assert (place.copy.read_bytes() if place.copy.exists() else None) == old
    assert not list(place.work.glob("ask-gpt/.*.tmp"))
    place.disk = Quick()
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == place.canonical.read_bytes()


class Ranges(Quick):
    """copy_file_range as some systems have it: `how` is an error number, or how many bytes it does before it says that it is done."""

    def __init__(self, how: int, error: bool) -> None:
        self.how, self.error, self.calls, self.written = how, error, 0, 0

    def copy_range(self, source: int, target: int, size: int) -> int:
        self.calls += 1
        if self.error:
            raise OSError(self.how, os.strerror(self.how))
        return super().copy_range(source, target, self.how) if self.calls == 1 and self.how else 0

    def write(self, fd: int, data: bytes) -> int:
        self.written += len(data)
        return super().write(fd, data)


@pytest.mark.parametrize(("how", "error"), [(errno.ENOSYS, True), (errno.EXDEV, True), (errno.EOPNOTSUPP, True), (errno.EINVAL, True),
                                            (errno.EPERM, True), (0, False), (100, False)])
def test_a_file_system_without_copy_file_range(place: Place, how: int, error: bool) -> None:
    place.logs.prepare()
    place.disk = Ranges(how, error)
    place.logs.copy(NAME)
    assert place.copy.read_bytes() == place.canonical.read_bytes() and place.disk.calls
    assert place.disk.written == place.canonical.stat().st_size - (0 if error else how)


def test_the_kernel_copies_where_it_can(place: Place) -> None:
    place.logs.prepare()
    place.disk = Recorder()
    place.logs.copy(NAME)
    names = [call[0] for call in place.disk.calls]
    assert "copy_range" in names and "write" not in names
    assert names[-4:] == ["copy_range", "fsync", "rename", "fsync_dir"]


def test_a_reader_repairs_what_lies_there_and_makes_nothing(place: Place) -> None:
    data = place.canonical.read_bytes()
    place.logs.repair_copy(NAME, data)
    assert os.listdir(place.work) == []
    place.logs.prepare()
    place.logs.repair_copy(NAME, data)
    assert os.listdir(place.work / "ask-gpt") == [".gitignore"]
    place.copy.write_bytes(data[:300])
    place.logs.repair_copy(NAME, data)
    assert place.copy.read_bytes() == data and place.said == []


def test_copies_of_failed_turns_too(place: Place) -> None:
    name = "failed-01KB7X00000000000000000001"
    block: dict[str, Any] = turn(("error", "browser: gone", [("class", "browser"), ("phase", "attaching")]), state="failed")  # type: ignore[arg-type]
    place.logs.append(name, header={"operation": name[7:], "created": HEADER["created"]}, blocks=[block])
    place.logs.copy(name)
    found = transcript.parse((place.work / "ask-gpt" / f"{name}.log").read_bytes())
    assert not found.problems and found.header["operation"] == name[7:]
    assert found.blocks[0].sections[1].attrs == (("class", "browser"), ("phase", "attaching"))
