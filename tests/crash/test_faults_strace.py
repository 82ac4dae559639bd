"""SIGKILL before every call, and every call that fails: the real command line with a fake browser, an own practice server as witness.

CR-12, CR-14, DU-04, DU-06. The quick set is a seeded sample, the soak takes every pair and prints how many there were.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gptbridge.core.lifecycle import State as S
from gptbridge.edge.host import Host
from gptbridge.shell.wiring import HostClock
from tests.crash import harness_strace as strace
from tests.crash.harness_process import Process, Time
from tests.crash.harness_site import Site
from tests.crash.test_faults_recorder import MORE, SEED, scratch
from tests.fakes import FakeBrowser

__all__ = ["scratch"]
KILLS, ERRORS = 10, 10  # of the quick set; the recorder's kills, which cost a hundredth, take more

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240 if not MORE else 36_000)]
UNABLE = strace.why_not()
needs_strace = pytest.mark.skipif(UNABLE is not None, reason=str(UNABLE))


@dataclass(slots=True)
class Ground:
    """A home with one earlier send, a server, and every point at which another send can be hit."""

    root: Path
    site: strace.Practice
    points: list[tuple[str, int, str]]
    number: int = 0

    def place(self) -> Path:
        self.number += 1
        path = self.root / f"run-{self.number}"
        shutil.copytree(self.root / "base", path, ignore=shutil.ignore_patterns("trace"))
        return path

    def process(self, place: Path) -> Process:
        host = Host({"ASKGPT_HOME": str(place / "home")})
        browser = FakeBrowser(self.site.url, HostClock(host))
        return Process(place, Site(lambda: 0.0), Time(), 0, host=host, browser=browser, site_url=self.site.url)

    def aftermath(self, place: Path, text: str, operation_id: str, ran: strace.Traced) -> list[str]:
        """What is wrong with the end of a command that was killed or that failed, and with what comes after it."""
        found = []
        before = self.site.sends(text)
        if (10 <= ran.code < 30 and before) or (ran.code in (0, *range(30, 40)) and len(before) != 1) or len(before) > 1:
            found.append(f"exit {ran.code}, but {len(before)} messages: {ran.doc.get('error')}")
        process = self.process(place)
        process.recover()
        op = process.view.get(operation_id)
        fresh = op is None or op.admissible
        op = process.send(text, id=operation_id)
        if fresh and op.state is not S.COMPLETED:
            found.append(f"the same id again: {op.state} {op.slug}")
        if op.sent != "no":
            process.read_back(operation_id)
            op = process.view.operations[operation_id]
        after = self.site.sends(text)
        if len(after) > 1:
            found.append(f"{len(after)} messages of one operation")
        known = [one for one in after if one["message_id"].lower() in op.message_ids()]
        if known and op.state is not S.COMPLETED:
            found.append(f"known and taken, but {op.state}")
        turns = [b for b in process.turns(op.conversation_id or "") if b.attr("op") == operation_id and b.state == "completed"]
        if known and len(turns) != 1:
            found.append(f"its turn is {len(turns)} times in the log")
        if not after and op.sent == "yes":
            found.append("never left, but said to be sent")
        uncertain = op.state is S.UNCERTAIN
        equal = process.send(text, again=uncertain)
        if equal.state is not S.COMPLETED or len(self.site.sends(text)) != len(after) + 1:
            found.append(f"the next send of equal text: {equal.state} {equal.slug}")
        process.dies()
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    root = tmp_path_factory.mktemp("strace")
    with strace.Practice() as site:
        (root / "base").mkdir()
        made = Ground(root, site, [])
        first = made.process(root / "base")
        assert first.send("the first words").state is S.COMPLETED
        first.dies()
        for names in (",".join(strace.NAMES), "openat"):
            place = made.place()
            ran = strace.command(place, site.url, f"recorded {names}", Host({}).ulid(), names=names)
            assert ran.code == 0 and not ran.killed, ran
            made.points += strace.points(ran.trace, place / "home")
        yield made


def hit(ground: Ground, name: str, what: str, *inject: str) -> tuple[strace.Traced, list[str]]:
    place, operation_id = ground.place(), Host({}).ulid()
    names = name if name == "openat" else ",".join(strace.NAMES)
    text = f"words for {what}"
    ran = strace.command(place, ground.site.url, text, operation_id, *inject, names=names)
    found = [f"{what}: {problem}" for problem in ground.aftermath(place, text, operation_id, ran)]
    shutil.rmtree(place)
    return ran, found


@needs_strace
def test_killed_before_any_call(ground: Ground) -> None:
    pairs = [(name, number) for name, number, _ in ground.points if name != "mkdirat"]
    chance = random.Random(SEED)
    chosen = pairs if MORE else chance.sample(pairs, KILLS)
    found, alive = [], 0
    for name, number in chosen:
        ran, problems = hit(ground, name, f"SIGKILL {name} {number}", f"{name}:signal=SIGKILL:when={number}")
        alive += not ran.killed
        found += problems
    print(f"\n{len(chosen)} of {len(pairs)} kills, {alive} of them not reached")
    assert found == []
    assert alive <= len(chosen) // 4, "most of them were not killed at all"


ERRNOS = {"write": ("ENOSPC", "EIO", "EDQUOT", "EROFS"), "fsync": ("ENOSPC", "EIO", "EDQUOT"), "renameat": ("ENOSPC", "EIO", "EROFS"),
          "openat": ("ENOSPC", "EIO", "EROFS"), "flock": ("ENOLCK", "EOPNOTSUPP")}


def is_right(ran: strace.Traced) -> bool:
    """19 or 20 and not sent; 34 and known to be sent; 0 where what failed was for people alone; 30 for an accepted one whose worker went
    no further. 40 comes before 34: where the receipt itself could not be written after the release, the row says unknown, and however sure
    that process was, nobody else can know more. 40 also where the front, hit too, cannot read the ledger."""
    said, sent = ran.doc.get("state"), ran.doc.get("sent")
    if not ran.doc:
        return ran.code in (19, 20, 34, 40)  # its front was hit too, as it wrote the document
    processes = {line.split(" ", 1)[0] for line in ran.injected}
    told = {19: "no", 20: "no", 0: "yes", 34: "yes", 30: "yes", 40: "unknown"}
    if ran.code not in told or sent != told[ran.code]:
        return False
    return {30: said == "accepted", 40: said in ("dispatched", "uncertain") or len(processes) > 1}.get(ran.code, True)


@needs_strace
def test_any_call_that_fails(ground: Ground) -> None:
    """DU-04: each by its own; what the exit says of the message is what the server counted."""
    every = [(name, number, code, call) for name, number, call in ground.points for code in ERRNOS.get(name, ())
             if name != "openat" or "locks" in call or "O_CREAT" in call or "O_APPEND" in call]
    chance = random.Random(SEED + 1)
    names = list(ERRNOS) * (ERRORS // len(ERRNOS))
    chosen = every if MORE else [chance.choice([one for one in every if one[0] == name]) for name in names]
    found = []
    for name, number, code, _ in chosen:
        assert hasattr(errno, code)
        what = f"{code} {name} {number}"
        ran, problems = hit(ground, name, what, f"{name}:error={code}:when={number}")
        found += problems
        if ran.injected and not is_right(ran):
            found.append(f"{what}: exit {ran.code} {ran.doc.get('error')} after {ran.injected}")
    print(f"\n{len(chosen)} of {len(every)} errors")
    assert found == []


@needs_strace
@pytest.mark.parametrize(("inject", "codes"), [
    ("flock:retval=0", {20}), ("flock:error=ENOLCK", {20}), ("fsync:error=EIO", {19}), ("write:error=ENOSPC:when=3+", {19}),
    ("renameat:error=EROFS", {19})], ids=lambda value: value if isinstance(value, str) else "")
def test_a_disk_that_fails_for_good(ground: Ground, inject: str, codes: set[int]) -> None:
    """From the first call on: refused, nothing clicked; a flock that lies is found by the two descriptors (DU-06). Where its front is hit
    too, as it writes the document, the exit code says it alone."""
    ran, found = hit(ground, inject.partition(":")[0], inject, inject)
    assert found == [] and ran.code in codes and (not ran.doc or ran.doc["sent"] == "no"), ran


@needs_strace
def test_a_lock_that_lies_later(ground: Ground) -> None:
    """From any flock on: nothing is clicked on a lock that may be somebody else's, and what was sent is never shown as not sent."""
    numbers = [number for name, number, _ in ground.points if name == "flock"]
    chance = random.Random(SEED + 2)
    found = []
    every = [f"flock:{lie}:when={number}+" for number in numbers for lie in ("retval=0", "error=EOPNOTSUPP")]
    for inject in every if MORE else chance.sample(every, 2):
        ran, problems = hit(ground, "flock", inject, inject)
        found += problems
        if not is_right(ran):
            found.append(f"{inject}: exit {ran.code} {ran.doc.get('error')}")
    assert found == []


def test_the_reason_to_skip_is_a_reason() -> None:
    assert UNABLE is None or "strace" in UNABLE
    assert os.name == "posix"
