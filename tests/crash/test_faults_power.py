"""Power cuts on a real ext4 in a loop image: its own journal decides what is left (DU-05). Root only; skipped with the reason elsewhere.

The child cuts the power itself, before its n-th change of the disk (FS_IOC_SHUTDOWN without a flush of the log), and dies there. What
it said to the outside before that came over a pipe.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.operation import NEW
from gptbridge.edge.disk import Disk
from tests.crash.harness_disk import Fault
from tests.crash.harness_judge import TEXT, Populated, Run, Verdict
from tests.crash.harness_process import Parts, Process, Time
from tests.crash.harness_site import Site
from tests.crash.test_faults_recorder import MORE, SEED, scratch
from tests.edge.crashing import CALLS, child, status

__all__ = ["scratch"]
POINTS = 10  # of the quick set, for each home
FS_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
SIZE = 32 * 2**20


class Cutting(Disk):
    """The real disk; before change number `at` (from 1) `cut` is called. `count` is how many there were."""

    def __init__(self, at: int, cut: Callable[[], None]) -> None:
        self.at, self.cut, self.count = at, cut, 0
        for name in CALLS:
            setattr(self, name, self._counted(getattr(super(), name), name))

    def _counted(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if name != "open" or args[1] & os.O_CREAT:
                self.count += 1
                if self.count == self.at:
                    self.cut()
            return real(*args)

        return call


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """An ext4 image on `at`; always unmounted, and its loop device with it."""
    at.mkdir(exist_ok=True)
    done = ran("mount", "-o", "loop", str(image), str(at))
    if done.returncode:
        raise OSError(done.stderr.strip())
    try:
        yield at
    finally:
        if ran("umount", str(at)).returncode:
            ran("umount", "-l", str(at))


def formatted(image: Path) -> None:
    with open(image, "wb") as file:
        file.truncate(SIZE)
    done = ran("mkfs.ext4", "-q", "-F", str(image))
    if done.returncode:
        raise OSError(done.stderr.strip())


def shut_down(place: Path) -> None:
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(fd)


@pytest.fixture
def image(scratch: Path) -> Path:
    """A formatted image, or a skip that says what this machine does not allow."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a power cut of ext4 needs Linux and root")
    if not (shutil.which("mkfs.ext4") and shutil.which("mount")):
        pytest.skip("a power cut of ext4 needs mkfs.ext4 and mount")
    made = scratch / "image"
    try:
        formatted(made)
        with mounted(made, scratch / "mount") as place:
            shut_down(place)
    except OSError as why:
        pytest.skip(f"this machine does not let a loop image be mounted and shut down: {why}")
    return made


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["fresh", "populated"])
def test_the_power_is_cut_before_any_change_of_the_disk(scratch: Path, image: Path, kind: str) -> None:
    populated = Populated(scratch) if kind == "populated" else None
    start = populated.time if populated else Time()
    seed: Callable[[Site], None] = populated.seed if populated else lambda site: None
    target = populated.target if populated else NEW
    operation_id = "01Q9GD6FEWVXNF3P1G7SGWV1P3"
    mount = scratch / "mount"

    def cut_at(number: int) -> tuple[list[tuple[Any, ...]], Path, int]:
        """(what was said to the outside, a copy of the files after the cut and the journal's recovery, how many changes there were)."""
        formatted(image)
        with mounted(image, mount) as place:
            for part in ("home", "work"):
                if populated:
                    shutil.copytree(populated.path / part, place / part)
            (place / "work").mkdir(exist_ok=True)
        reader, writer = os.pipe()
        with mounted(image, mount) as place:
            def work() -> None:
                os.close(reader)
                out = os.fdopen(writer, "wb", buffering=0)

                def tell(*said: Any) -> None:
                    out.write(pickle.dumps(said))

                def cut() -> None:
                    shut_down(place)
                    os.kill(os.getpid(), signal.SIGKILL)

                time = start.copy()
                site = Site(lambda: time.wall)
                seed(site)
                site.tell = tell
                disk = Cutting(number, cut)
                process = Process(place, site, time, 1, disk=disk)
                process.say = tell
                process.send(TEXT, id=operation_id, to=target)
                tell("count", disk.count)

            pid = child(work)
            os.close(writer)
            said: list[tuple[Any, ...]] = []
            with os.fdopen(reader, "rb") as heard:
                while heard.peek(1):
                    said.append(pickle.load(heard))
            ended = status(pid)
        assert ended == (-signal.SIGKILL if number else 0)
        path = scratch / f"after-{number}"
        with mounted(image, mount) as place:  # the journal is recovered here
            shutil.copytree(place, path, ignore=shutil.ignore_patterns("lost+found"))
        return said, path, next((int(one[1]) for one in said if one[0] == "count"), 0)

    _, _, count = cut_at(0)
    assert count > 40
    points = range(1, count + 1)
    found = []
    for number in points if MORE else sorted(random.Random(SEED).sample(points, POINTS)):
        said, path, _ = cut_at(number)
        time = start.copy()
        time.sleep(30.0)
        time.reboot()
        run = Run(kind, [], [], operation_id, target, [], seed, None, Fault(), None, Parts())  # type: ignore[arg-type]
        let_go = [one[0] for one in said if one[0] in ("held", "release", "failed")][-1:] == ["held"] and number % 2 == 0
        problems = Verdict(path, run, said, time, let_go, Parts()).reach(True)
        found += [f"{kind} cut before change {number} of {count}: {what}" for what in problems]
        shutil.rmtree(path)
    assert found == []


@pytest.mark.soak
def test_a_dispatched_record_without_its_fsync_is_seen(scratch: Path, image: Path) -> None:
    """The power cut is one: a product that does not sync its `dispatched` record clicks without one after it."""
    from tests.crash.harness_mutants import DispatchedNotSynced

    with mounted(image, scratch / "mount") as place:
        def work() -> None:
            time = Time()
            site = Site(lambda: time.wall)

            def tell(what: str, *more: Any) -> None:
                if what == "click":
                    shut_down(place)
                    os.kill(os.getpid(), signal.SIGKILL)

            site.tell = tell
            Process(place, site, time, 1, disk=Disk(), parts=Parts("not synced", disk=DispatchedNotSynced)).send(TEXT)

        assert status(child(work)) == -signal.SIGKILL
    with mounted(image, scratch / "mount") as place:
        ledger = place / "home" / "ledger.jsonl"
        assert b'"claimed"' in ledger.read_bytes() and b'"dispatched"' not in ledger.read_bytes()
