"""RLIMIT_FSIZE at every byte: appends that are torn where no file system block ends, in child processes that live on and must say so.

The kernel lets a write go up to the limit, short, and refuses the next with EFBIG; every file of the home meets the same limit. The child
tells over a pipe what its page did, so that the counting does not depend on the files. The quick set takes a stride, the soak every byte
and prints how many there were.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.lifecycle import State as S
from gptbridge.core.operation import NEW
from gptbridge.flow.custody import Refused
from tests.crash.harness_judge import OTHER, TEXT, Populated
from tests.crash.harness_process import START, Process, Time
from tests.crash.harness_site import Sent, Site
from tests.crash.test_faults_recorder import MORE, SEED, scratch
from tests.edge.crashing import child, status

__all__ = ["scratch"]
POINTS = 16  # of the quick set, for each home


def limited_send(path: Path, time: Time, seed: Any, target: str, size: int) -> tuple[list[dict[str, Any]], int]:
    """What happened in the child's page, and how its command ended, while no file may grow over `size` bytes."""
    reader, writer = os.pipe()

    def work() -> None:
        os.close(reader)
        site = Site(lambda: time.wall)
        seed(site)

        def tell(what: str, *more: Any) -> None:
            sent = more[0] if more and isinstance(more[0], Sent) else None
            fields = [sent.message_id, sent.text, sent.conversation_id, sent.parent] if sent else None
            os.write(writer, json.dumps({"what": what, "sent": fields}).encode("ascii") + b"\n")

        site.tell = tell
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            op = Process(path, site, time, 1).send(TEXT, id=OPERATION, to=target)
            tell(f"ended {op.slug}")
        except Failure as failure:
            tell(f"ended {failure.slug}")
        except Refused as refused:
            tell(f"ended refused {refused}")

    pid = child(work)
    os.close(writer)
    with open(reader, "rb") as said:
        events = [json.loads(line) for line in said]
    return events, status(pid)


OPERATION = "01Q9GD6FEWVXNF3P1G7SGWV1P3"  # its time is the populated home's


def judged(path: Path, time: Time, seed: Any, target: str, events: list[dict[str, Any]]) -> list[str]:
    found = []
    whats = [event["what"] for event in events]
    ended = whats[-1]
    released = [Sent(*event["sent"]) for event in events if event["what"] == "release"]
    failed_after = "record-failed" in ended or "ok" in ended or "uncertain" in ended
    if len(released) > 1 or whats.count("click") > 1:
        found.append(f"clicks and releases: {whats}")
    if bool(released) != failed_after or not ended.startswith("ended ") or "refused" in ended:
        found.append(f"{len(released)} released, {ended}")
    site = Site(lambda: time.wall)
    seed(site)
    site.clicks = [TEXT] * whats.count("click")
    for sent in released:
        site.take(sent)
    time.sleep(5.0)
    process = Process(path, site, time, 5)
    process.recover()
    op = process.view.get(OPERATION)
    fresh = op is None or op.admissible
    again = process.send(TEXT, id=OPERATION, to=target)
    if fresh and again.state is not S.COMPLETED:
        found.append(f"the fault is gone, but the same id ends as {again.state} {again.slug}")
    process.dies()
    process = Process(path, site, time, 6)
    process.sweep()
    op = process.view.operations[OPERATION]
    sends = site.sends_of(TEXT)
    if len(sends) > 1 or (sends and op.sent == "no") or (op.sent == "yes" and not sends):
        found.append(f"{len(sends)} messages, {op.state}")
    if sends and sends[0].message_id in op.message_ids() and op.state is not S.COMPLETED:
        found.append(f"known and taken, but {op.state}")
    if op.state is S.COMPLETED:
        process.send(TEXT, id=OPERATION, to=target)  # its answer is shown: one that nobody has seen holds an equal request
    equal = process.send(TEXT, to=target, again=op.state is S.UNCERTAIN)
    other = process.send(OTHER, to=target)
    counts = len(site.sends_of(TEXT)) - len(sends), len(site.sends_of(OTHER))
    if (equal.state, other.state, counts) != (S.COMPLETED, S.COMPLETED, (1, 1)):
        found.append(f"afterwards: equal {equal.state} {equal.slug}, other {other.state} {other.slug}")
    process.dies()
    return found


def sizes(path: Path) -> Iterator[int]:
    yield from (file.stat().st_size for file in path.rglob("*") if file.is_file() and "locks" not in file.parts)


@pytest.mark.soak
@pytest.mark.timeout(120 if not MORE else 36_000)
@pytest.mark.parametrize("kind", ["fresh", "populated"])
def test_no_byte_at_which_a_write_breaks_off_loses_or_doubles_anything(scratch: Path, kind: str) -> None:
    populated = Populated(scratch) if kind == "populated" else None
    start = Time(wall=populated.time.wall) if populated else Time(wall=START + 1.0)
    seed = populated.seed if populated else (lambda site: None)
    target = populated.target if populated else NEW

    def place(number: int) -> Path:
        path = scratch / f"size-{number}"
        shutil.copytree(populated.path, path) if populated else path.mkdir()
        return path

    whole = place(0)
    events, code = limited_send(whole, start.copy(), seed, target, 1 << 30)
    assert code == 0 and events[-1]["what"] == "ended ok"
    smallest = min(sizes(populated.path), default=1) if populated else 1
    largest = max(sizes(whole))
    shutil.rmtree(whole)
    stride = 1 if MORE else max((largest - smallest) // POINTS, 1)
    found: list[str] = []
    points = range(smallest + SEED % stride, largest + 2, stride)
    print(f"\n{kind}: a limit at {len(points)} of the bytes {smallest} to {largest}")
    for size in points:
        path, time = place(size), start.copy()
        events, code = limited_send(path, time, seed, target, size)
        problems = judged(path, time, seed, target, events) if code == 0 else [f"the child ended with {code}"]
        found += [f"{size} bytes: {problem}" for problem in problems]
        shutil.rmtree(path)
    assert found == []
