"""A send with files, killed before each of its calls to the disk: the bytes are there whenever the row is, nothing goes without them, and
what was left is dropped (AD-36, CR-19, RE-12)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.lifecycle import State as S
from tests.crash.harness_process import Process, Time
from tests.crash.harness_site import Site
from tests.crash.test_faults_recorder import MORE, SEED, scratch
from tests.edge.crashing import Killer, Tap, child, status

__all__ = ["scratch"]
STEP = 5  # every fifth call, where not more is asked for
TEXT, CONTENTS = "look at these", (b"alpha\n", b"beta " * 50_000, b"")


def given(path: Path) -> list[Path]:
    """Three files, two of one base name."""
    found = []
    for name, data in zip(("a/NOTES.md", "b/NOTES.md", "empty"), CONTENTS, strict=True):
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_bytes(data)
        found.append(path / name)
    return found


class Counts(Tap):
    def __init__(self) -> None:
        self.count = 0
        super().__init__(self._one)

    def _one(self, name: str, args: object) -> None:
        self.count += 1


def spool(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / "home" / "spool").iterdir())


@pytest.mark.soak
@pytest.mark.parametrize("half", [False, True])
def test_killed_before_every_call(scratch: Path, half: bool) -> None:
    (scratch / "whole").mkdir()
    counts, whole_site = Counts(), Site(lambda: 0.0)
    whole = Process(scratch / "whole", whole_site, Time(), 0, disk=counts)
    operation_id = whole.host.ulid()
    begun = counts.count
    assert whole.send(TEXT, id=operation_id, files=given(scratch / "whole")).state is S.COMPLETED
    assert [data for _, data in whole_site.taken[0].files] == list(CONTENTS)
    whole.dies()
    last = counts.count
    assert last - begun > 40
    seen: set[str] = set()
    for n in range(1, last + 1) if MORE else range(1 + SEED % STEP, last + 1, STEP):
        path = scratch / f"killed-{n}"
        path.mkdir()
        files = given(path)
        said, left = path / "clicked", path / "left"

        def work(path: Path = path, files: list[Path] = files, n: int = n, said: Path = said, left: Path = left) -> None:
            site = Site(lambda: 0.0)
            site.tell = lambda what, *more: (said if what == "click" else left).touch() if what in ("click", "release") else None
            Process(path, site, Time(), 0, disk=Killer(n, half=half)).send(TEXT, id=operation_id, files=files)

        ended = status(child(work))
        assert ended == -9 or (half and ended == 0) or n == last, n
        for file in files:
            file.unlink()  # nobody has them any more
        after = Process(path, Site(lambda: 0.0), Time(), 1)
        row = after.view.get(operation_id)
        if row is not None and row.sent != "yes":
            for one, data in zip(row.files or (), CONTENTS, strict=True):
                assert (path / "home" / "spool" / f"{one['sha256']}.file").read_bytes() == data, n
        after.sweep()
        row = after.view.get(operation_id)
        seen.add("none" if row is None else row.state.value)
        assert not [name for name in spool(path) if name.endswith(".up")], n
        if row is None:
            assert [name for name in spool(path) if not name.endswith(".tmp")] == [] and not said.exists(), n
        elif row.admissible:
            assert not said.exists(), n
            site = Site(lambda: 0.0)
            again = Process(path, site, Time(), 2)
            assert again.send(TEXT, id=operation_id, files=files).state is S.COMPLETED, n
            assert [hashlib.sha256(data).digest() for _, data in site.taken[0].files] == [hashlib.sha256(d).digest() for d in CONTENTS]
            again.dies()
        else:
            assert row.state in (S.UNCERTAIN, S.ACCEPTED, S.COMPLETED), n
            assert not left.exists() or row.user_message_id is not None, n
        after.dies()
    assert {"none", "rejected", "completed"} <= seen


def test_a_file_that_is_replaced_while_it_is_read(scratch: Path) -> None:
    """Another file takes the place of one that is being read: neither is sent (SE-12)."""
    process = Process(scratch, (site := Site(lambda: 0.0)), Time(), 0)
    files = given(scratch)
    free = process.world.host.free_bytes

    def swapped() -> int:
        other = scratch / "other"
        other.write_bytes(b"another file")
        os.replace(other, files[0])
        return free()

    process.world.host.free_bytes = swapped  # type: ignore[method-assign]
    with pytest.raises(Failure) as refused:
        process.send(TEXT, files=files)
    assert refused.value.slug == "bad-input" and process.view.operations == {} and site.taken == []
