"""The registry on disk: what it keeps is durable and whole, what it refuses it leaves untouched (RG-01 .. RG-04, RG-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import record
from gptbridge.core.errors import Failure
from gptbridge.core.registry import Conversation
from gptbridge.edge.disk import Disk
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.registry_file import RegistryFile
from tests.edge.crashing import Faulty, Killer, Quick, Recorder, child, status


def ident(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012d}"


def one(number: int, title: str = "t", account: str = "user-0000", **more: Any) -> Conversation:
    return Conversation(account, ident(number), title, **more)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., RegistryFile]]:
    """A registry as another process has it: descriptors and locks of its own."""
    def made(disk: Disk | None = None) -> RegistryFile:
        host = Host({"ASKGPT_HOME": str(tmp_path / "home")})
        return RegistryFile(open_home(host.env, create=True, host=host, disk=disk or Quick()), host, warn=said.append)

    said: list[str] = []
    made.said = said  # type: ignore[attr-defined]

    yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "conversations.jsonl"


def titles(file: RegistryFile) -> dict[str, str]:
    """The latest of each id, the oldest record first."""
    found: dict[str, str] = {}
    for _, fields in reversed(list(file.newest_first())):
        if "conversation_id" in fields:
            found.pop(fields["conversation_id"], None)
            found[fields["conversation_id"]] = fields["title"]
    return found


def test_one_object_per_line_and_only_more_of_them(make: Callable[..., RegistryFile], path: Path) -> None:
    """RG-01, RG-02."""
    file, before = make(), b""
    for number, title in ((1, "one"), (2, "two"), (1, "one again")):
        file.put(one(number, title))
        assert path.read_bytes().startswith(before)
        before = path.read_bytes()
    assert [set(fields) >= {"account", "conversation_id", "title"} for _, fields in record.scan(before).pairs()][1:] == [True] * 3
    known = make().get(ident(1))
    assert known is not None and known.title == "one again" and titles(make()) == {ident(1): "one again", ident(2): "two"}


def test_an_id_of_another_account_is_refused(make: Callable[..., RegistryFile], path: Path) -> None:
    """RG-03."""
    make().put(one(1))
    before = path.read_bytes()
    with pytest.raises(Failure) as caught:
        make().put(one(1, account="user-0001"))
    assert caught.value.slug == "state-corrupt" and ident(1) in caught.value.message and path.read_bytes() == before


def test_it_is_on_the_disk_when_it_returns(make: Callable[..., RegistryFile]) -> None:
    """RG-04: one write for each record, each followed by its fsync; the folder's too, where the file is new."""
    disk = Recorder()
    file = make(disk)
    for number, act in ((1, lambda: file.put(one(1))), (2, lambda: file.transact(lambda found: [one(2).fields(), one(3).fields()]))):
        disk.calls.clear()
        act()
        done = [call[0] for call in disk.calls if call[0] in ("write", "fsync", "fsync_dir")]
        assert done.count("write") == 2 and all(later == "fsync" for now, later in pairwise(done) if now == "write"), done
        assert done[-1] in ("fsync", "fsync_dir") and ("fsync_dir" in done) == (number == 1)


def test_writers_wait_for_each_other(make: Callable[..., RegistryFile]) -> None:
    """RG-04: under the lock from reading to the last byte."""
    def write(first: int) -> None:
        mine = make()
        for number in range(20):
            mine.put(one(first + number))

    children = [child(lambda first=first: write(first)) for first in (100, 200)]
    write(300)
    assert [status(pid) for pid in children] == [0, 0]
    assert len(titles(make())) == 60
    make().check()


def test_a_torn_end_is_sealed_and_harms_nobody(make: Callable[..., RegistryFile], path: Path) -> None:
    """RG-18."""
    make().put(one(1))
    make().put(one(2))
    whole = path.read_bytes()
    for cut in (1, 20, len(whole) - whole[:-1].rindex(b"\n") - 2):
        path.write_bytes(whole[:-cut])
        assert titles(make()) == {ident(1): "t"}
        make.said.clear()  # type: ignore[attr-defined]
        make().put(one(3, "after"))
        assert len(make.said) == 1 and "conversations.jsonl: sealed a torn end of" in make.said[0]  # type: ignore[attr-defined]
        make().check()
        assert titles(make()) == {ident(1): "t", ident(3): "after"}


def test_a_bad_line_inside_fails_closed_with_its_number(make: Callable[..., RegistryFile], path: Path) -> None:
    """RG-18."""
    for number in range(3):
        make().put(one(number, f"title {number}"))
    before = path.read_bytes().replace(b"title 1", b"titel 1")
    path.write_bytes(before)
    for act in (lambda f: f.check(), lambda f: f.put(one(9)), lambda f: f.transact(lambda found: [one(9).fields()]),
                lambda f: f.rewrite(lambda found: [one(9).fields()])):
        with pytest.raises(Failure) as caught:
            act(make())
        assert caught.value.slug == "state-corrupt" and "conversations.jsonl, line 3" in caught.value.message
        assert path.read_bytes() == before


def test_what_the_deciding_raises_leaves_the_file_untouched(make: Callable[..., RegistryFile], path: Path) -> None:
    make().put(one(1))
    before = path.read_bytes()

    def refuse(found: Any) -> Any:
        raise Failure("conflict", "no")

    for act in (lambda f: f.transact(refuse), lambda f: f.rewrite(refuse)):
        with pytest.raises(Failure):
            act(make())
    assert make().rewrite(lambda found: None) is False and path.read_bytes() == before
    make().transact(lambda found: [])
    assert path.read_bytes() == before


def test_another_order_keeps_every_record_and_the_numbers_go_on(make: Callable[..., RegistryFile], path: Path) -> None:
    file, other = make(), make()
    for number in range(5):
        file.put(one(number))
    other.get(ident(0))
    assert file.rewrite(lambda found: [fields for _, fields in reversed(list(found)) if "format" not in fields])
    assert list(titles(other)) == [ident(n) for n in (4, 3, 2, 1, 0)]
    other.put(one(5))
    scan = record.scan(path.read_bytes())
    assert not scan.damage and scan.records[0].fields["base"] == 7 and scan.records[-1].seq == 13 and len(titles(make())) == 6
    assert path.stat().st_mode & 0o777 == 0o600
    assert file.rewrite(lambda found: [fields for _, fields in reversed(list(found)) if "format" not in fields])  # and once more
    assert next(iter(titles(make()))) == ident(5) and make().check() is None


@pytest.mark.parametrize("act", ["transact", "rewrite"])
def test_many_records_come_whole_or_not_at_all(make: Callable[..., RegistryFile], path: Path, act: str) -> None:
    """Killed before each call that changes a file, and with a disk that is full at each: the old content or the new one."""
    def start() -> bytes:
        path.unlink(missing_ok=True)
        for number in range(3):
            make().put(one(number))
        return path.read_bytes()

    def run(file: RegistryFile) -> None:
        rows = [one(number, "new").fields() for number in range(10, 30)]
        if act == "transact":
            file.transact(lambda found: rows)
        else:
            file.rewrite(lambda found: rows)

    for step in range(1, 40):
        before = start()

        def killed(step: int = step) -> None:
            disk = Killer(0)
            file = make(disk)
            disk.left = step
            run(file)

        ended = status(child(killed))
        found = titles(make())
        new = {ident(number) for number in range(10, 30)}
        if path.read_bytes() == before:
            assert ended != 0
        else:
            assert set(found) == (new | {ident(n) for n in range(3)} if act == "transact" else new)
        make().check()
        if ended == 0:
            break
    assert 4 < step < 39
    before = start()
    with pytest.raises(Failure) as caught:
        run(make(Faulty("write")))
    assert caught.value.slug == "state-unwritable" and path.read_bytes() == before
