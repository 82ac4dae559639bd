"""Durable writes: the order of the calls, kills and faults at each of them, and what the next process finds."""

from __future__ import annotations

import errno
import os
import resource
import stat

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.record import SEAL, Stale, encode, scan
from gptbridge.edge import files as j
from gptbridge.edge.disk import Disk
from gptbridge.edge.journal import Journal
from tests.edge.crashing import Faulty, Killer, Quick, Recorder, child, ledger, make_home, status

ERRNOS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS]


@pytest.fixture
def home(tmp_path):
    with_home = make_home(tmp_path)
    yield with_home
    with_home.close()


@pytest.fixture
def path(home):
    return os.path.join(home.path, "ledger.jsonl")


def lock(home):
    return home.locks.lock("ledger").hold()


def grow(home, count: int, disk: Disk | None = None) -> Journal:
    book = ledger(home, disk)
    with lock(home):
        for _ in range(count):
            book.append({"x": "y" * 30}, expect=book.read().next_seq)
    return book


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def slug(caught) -> str:
    return caught.value.slug


def names(home) -> list[str]:
    return sorted(name for name in os.listdir(home.path) if name not in ("logs", "spool", "reports", "locks", "browser"))


# --- one append


def test_a_new_journal_is_read_back(home, path) -> None:
    book = ledger(home, Disk())  # with real fsyncs
    assert book.read().next_seq == 1
    with lock(home):
        assert book.append({"format": "x"}, expect=1) == (1, 0)
        assert book.append({"a": 1}, expect=2) == (2, 0)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert [(r.seq, r.fields) for r in ledger(home).read().records] == [(1, {"format": "x"}), (2, {"a": 1})]
    assert [r.seq for r in book.newest()] == [2, 1]


def test_the_record_that_accepts_a_loss_may_jump(home) -> None:
    book = grow(home, 2)
    with lock(home):
        with pytest.raises(ValueError):
            book.append({"accepts": "loss"}, expect=3, seq=2)
        assert book.append({"accepts": "loss"}, expect=3, seq=9) == (9, 0)
        # The gap stands for ever at its own offset; whoever folds the records knows from it how far the damage is accepted.
        found = book.read()
        assert [d.offset for d in found.damage] == [found.records[-1].offset]
        assert book.append({}, expect=10, despite_damage=True) == (10, 0)


def test_the_order_of_calls(home) -> None:
    disk = Recorder()
    book = grow(home, 2, disk)
    new = [("open", "ledger.jsonl"), ("write",), ("fsync",), ("fsync_dir",)]
    assert disk.calls == [*new, ("open", "ledger.jsonl"), ("write",), ("fsync",)]
    disk.calls.clear()
    with lock(home):
        book.append_all([{"a": 1}, {"a": 2}], expect=3)
    assert disk.calls == [("open", "ledger.jsonl"), ("write",), ("fsync",), ("write",), ("fsync",)]
    disk.calls.clear()
    with lock(home):
        book.rewrite([{"a": 2}], {"format": "x"}, expect=5)
        book.append_all([{"n": n} for n in range(40)], expect=7)
    assert disk.calls == 2 * replacing("ledger.jsonl")
    assert book.read().next_seq == 47 and not book.read().damage


def replacing(name: str, writes: int = 1) -> list[tuple]:
    return [("open", "TEMP"), ("fchmod",), *[("write",)] * writes, ("fsync",), ("rename", "TEMP", name), ("fsync_dir",)]


def test_no_write_without_the_lock(home) -> None:
    book = ledger(home)
    with pytest.raises(RuntimeError):
        book.append({}, expect=1)
    with pytest.raises(RuntimeError):
        book.rewrite([], {}, expect=1)
    assert names(home) == []


def test_a_writer_that_has_not_read_everything_is_refused(home) -> None:
    book, other = grow(home, 1), ledger(home)
    other.read()
    grow(home, 1)
    with lock(home):
        for write in (lambda: other.append({}, expect=2), lambda: other.rewrite([], {}, expect=2)):
            with pytest.raises(Stale) as caught:
                write()
            assert (caught.value.expected, caught.value.found) == (2, 3)
        assert other.append({}, expect=other.read().next_seq).seq == 3
    assert book.read().next_seq == 4


def test_a_torn_end_is_sealed_first_and_reported(home, path) -> None:
    grow(home, 2)
    with open(path, "ab") as file:
        file.write(encode(3, {"x": 1})[:20])
    disk = Recorder()
    book = ledger(home, disk)
    with lock(home):
        assert book.append({"a": 1}, expect=3) == (3, 20)
        assert book.append({"a": 1}, expect=4) == (4, 0)
    assert disk.calls[:6] == [("open", "ledger.jsonl"), ("fsync",), ("write",), ("fsync",), ("write",), ("fsync",)]
    found = ledger(home).read()
    assert (found.next_seq, found.damage, found.torn) == (5, (), False)
    assert content(path).count(SEAL) == 1


def test_damage_refuses_a_writer_that_does_not_know_of_it(home, path) -> None:
    grow(home, 3)
    data = content(path).splitlines(keepends=True)
    put(path, data[0] + data[2])
    book = ledger(home)
    with lock(home), pytest.raises(Failure) as caught:
        book.append({"secret": "prompt"}, expect=4)
    assert slug(caught) == "state-corrupt" and "ledger.jsonl, line 2" in caught.value.message and "prompt" not in caught.value.message
    with lock(home), pytest.raises(Failure):
        book.rewrite([], {}, expect=4)
    with lock(home):
        assert book.append({}, expect=4, despite_damage=True).seq == 4


def test_an_absent_home_reads_as_empty() -> None:
    book = Journal(Disk(), None, "ledger.jsonl", None)
    assert book.read().next_seq == 1 and list(book.newest()) == []


# --- reading on


def test_only_what_is_new_is_read(home) -> None:
    class Counting(Disk):
        count = 0

        def read(self, fd, size, offset):
            data = super().read(fd, size, offset)
            self.count += len(data)
            return data

    grow(home, 200)
    disk = Counting()
    book = ledger(home, disk)
    assert book.read().next_seq == 201
    whole, disk.count = disk.count, 0
    assert status(child(lambda: grow(home, 3))) == 0
    assert book.read().next_seq == 204
    assert disk.count < 3000 < whole
    disk.count = 0
    newest = book.newest()
    assert [next(newest).seq for _ in range(20)] == list(range(203, 183, -1))
    newest.close()
    assert disk.count < whole


def test_a_rewrite_between_two_looks_is_noticed_even_when_the_inode_comes_back(home, path) -> None:
    book = grow(home, 5)
    inodes = {os.stat(path).st_ino}
    for _ in range(6):
        size = os.stat(path).st_size

        def prune(size: int = size) -> None:
            other = ledger(home)
            with lock(home):
                for _ in range(2):  # the second may get the first one's inode
                    at = other.read().next_seq
                    other.rewrite([{"kept": "z" * 30}] * 6, {"format": "x", "at": "t" * 9}, expect=at)
                while os.stat(path).st_size < size:
                    other.append({"x": "y" * 30}, expect=other.read().next_seq)

        assert status(child(prune)) == 0
        inodes.add(os.stat(path).st_ino)
        assert book.read() == scan(content(path))
        with lock(home):
            book.append({"mine": 1}, expect=book.read().next_seq)
    found = ledger(home).read()
    assert not found.damage and found.records[0].fields["base"] == found.records[0].seq


def test_appends_and_prunes_of_several_processes_lose_nothing(home) -> None:
    def work(name: int) -> None:
        book = ledger(home)
        for n in range(25):
            with lock(home):
                found = book.read()
                if name == 0 and n % 5 == 4:
                    book.rewrite([r.fields for r in found.records if "format" not in r.fields], {"format": "x"}, expect=found.next_seq)
                else:
                    book.append({"who": name, "n": n}, expect=found.next_seq)

    pids = [child(lambda name=name: work(name)) for name in range(4)]
    assert [status(pid, 60) for pid in pids] == [0, 0, 0, 0]
    found = ledger(home).read()
    assert not found.damage and not found.torn
    for name in range(4):
        wanted = [n for n in range(25) if not (name == 0 and n % 5 == 4)]
        assert [r.fields["n"] for r in found.records if r.fields.get("who") == name] == wanted


# --- faults


@pytest.mark.parametrize("number", ERRNOS)
@pytest.mark.parametrize(("call", "count"), [(call, count) for call in ("open", "write", "fsync", "fsync_dir") for count in (0, 2)][:-1])
def test_after_a_fault_nothing_is_tried_again_until_reopened(home, path, call, count, number) -> None:
    if count:
        grow(home, count)
    acknowledged = count
    disk = Faulty(call, 1, number)
    book = ledger(home, disk)
    with lock(home):
        with pytest.raises(Failure) as caught:
            book.append({"secret": "prompt"}, expect=count + 1)
        assert slug(caught) == "state-unwritable" and "ledger.jsonl" in caught.value.message and "prompt" not in caught.value.message
        calls = dict(disk.seen)
        at = book.read().next_seq
        writes = (book.append, lambda row, **at: book.append_all([row], **at), lambda row, **at: book.rewrite([], row, **at))
        for write in writes:
            with pytest.raises(Failure):
                write({}, expect=at)
        assert disk.seen == calls
        book.reopen()
        found = book.read()
        assert found.next_seq > acknowledged and not found.damage
        before = os.stat(path).st_ino if os.path.exists(path) else 0
        book.append({"state": "rejected"}, expect=found.next_seq)
        if before:
            # After a failed fsync the old file's pages may never reach the disk: the record goes to a new one.
            assert (os.stat(path).st_ino != before) == call.startswith("fsync")
    found = ledger(home).read()
    assert not found.damage and found.records[-1].fields == {"state": "rejected"}


@pytest.mark.parametrize("short", [0, 1, 20, 60])
def test_a_short_write_is_a_fault_and_the_witness_may_seal_it(home, short) -> None:
    grow(home, 1)
    disk = Faulty("write", 1, short=short)
    book = ledger(home, disk)
    with lock(home):
        with pytest.raises(Failure):
            book.append({"x": "y" * 60}, expect=2)
        assert disk.seen["write"] == 1 and disk.seen["fsync"] == 1  # that of what was there before
        book.reopen()
        assert book.append({"state": "rejected"}, expect=book.read().next_seq) == (2, short)
    assert not ledger(home).read().damage


@pytest.mark.parametrize("call", ["open", "fchmod", "write", "fsync", "rename", "fsync_dir"])
def test_a_rewrite_that_fails_leaves_old_or_new(home, call) -> None:
    grow(home, 3)
    book = ledger(home, Faulty(call))
    with lock(home):
        with pytest.raises(Failure) as caught:
            book.rewrite([{"kept": 1}], {"format": "x"}, expect=4)
        assert slug(caught) == "state-unwritable"
        book.reopen()
        found = book.read()
        assert (found.damage, found.next_seq) == ((), 6 if call == "fsync_dir" else 4)
        book.append({}, expect=found.next_seq)
    assert names(home) == ["ledger.jsonl"] and not ledger(home).read().damage


def test_a_full_disk_at_every_byte_of_one_append(home, path) -> None:
    grow(home, 40)  # larger than what a lock file holds: the limit is per file, for all files
    whole, fields = content(path), {"operation_id": "01JDX3V9", "state": "dispatched", "more": "z" * 40}
    size, line = len(whole), encode(41, fields)
    for room in range(len(line)):
        put(path, whole)

        def append(room: int = room) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, size + room))
            book = ledger(home)
            with lock(home):
                for _ in range(2):
                    try:
                        book.append(fields, expect=41)
                    except Failure as failure:
                        assert failure.slug == "state-unwritable"
                    else:
                        raise AssertionError("acknowledged")

        assert status(child(append)) == 0, room
        assert os.stat(path).st_size == size + room
        book = ledger(home, Quick())
        assert (book.read().next_seq, book.read().torn_size, book.read().damage) == (41, room, ())
        with lock(home):
            assert book.append(fields, expect=41) == (41, room)
        assert not ledger(home).read().damage


# --- kills


def test_killed_at_every_call_the_journal_is_old_or_new(home, path) -> None:
    def works(book: Journal, act: str) -> None:
        at = book.read().next_seq
        if act == "append":
            book.append({"new": 1}, expect=at)
        elif act == "many":
            book.append_all([{"new": n} for n in range(20)], expect=at)
        else:
            book.rewrite([{"kept": 1}], {"format": "x"}, expect=at)

    killed = 0
    for before in (0, 2):
        for torn in (b"", b'{"seq":3,"su'):
            for act in ("append", "many", "rewrite"):
                for half in (False, True):
                    for n in range(1, 20):
                        if os.path.exists(path):
                            os.unlink(path)
                        if before or torn:
                            put(path, b"".join(encode(k, {}) for k in range(1, before + 1)) + torn)

                        def run(n: int = n, half: bool = half, act: str = act) -> None:
                            with lock(home):
                                works(ledger(home, Killer(n, half=half)), act)

                        ended = status(child(run))
                        found = ledger(home).read()
                        new = {"append": (before + 2,), "many": (before + 21,), "rewrite": (before + 3,)}[act]
                        assert found.next_seq in (before + 1, *new) and not found.damage, (before, torn, act, half, n)
                        if ended == 0:
                            assert found.next_seq in new
                        book = ledger(home, Quick())
                        with lock(home):  # the kill has freed the lock
                            book.append({}, expect=found.next_seq)
                        assert not book.read().damage and not book.read().torn
                        if ended == 0:
                            break
                        killed += 1
    assert killed > 80
    assert j.remove_stale_temps(home.disk, home.fd, now=0.0) == 0
    assert j.remove_stale_temps(home.disk, home.fd, now=os.stat(path).st_mtime + 100_000) > 0
    assert names(home) == ["ledger.jsonl"]


# --- whole files


def test_replace_in_that_order(home) -> None:
    disk = Recorder()
    j.replace(disk, home.fd, "dispatch.stamp", b"one")
    assert disk.calls == replacing("dispatch.stamp")
    disk.calls.clear()
    j.replace(disk, home.fd, "dispatch.stamp", (part for part in (b"t", b"wo")))
    assert disk.calls == replacing("dispatch.stamp", writes=2)
    assert j.read_bytes(disk, home.fd, "dispatch.stamp") == b"two"
    assert j.read_bytes(disk, home.fd, "dispatch.stamp", start=-2) == b"wo"
    assert j.read_bytes(disk, home.fd, "absent") is None


@pytest.mark.parametrize("number", ERRNOS)
@pytest.mark.parametrize("call", ["open", "fchmod", "write", "fsync", "rename", "fsync_dir"])
def test_replace_that_fails_leaves_old_or_new_and_no_temp(home, call, number) -> None:
    j.replace(home.disk, home.fd, "dispatch.stamp", b"old")
    with pytest.raises(Failure) as caught:
        j.replace(Faulty(call, 1, number), home.fd, "dispatch.stamp", b"new")
    assert slug(caught) == "state-unwritable" and "dispatch.stamp" in caught.value.message
    assert j.read_bytes(home.disk, home.fd, "dispatch.stamp") == (b"new" if call == "fsync_dir" else b"old")
    assert names(home) == ["dispatch.stamp"]


def test_killed_at_every_call_a_file_is_old_or_new(home) -> None:
    for n in range(1, 9):
        j.replace(home.disk, home.fd, "file", b"old")
        ended = status(child(lambda n=n: j.replace(Killer(n), home.fd, "file", b"new")))
        assert j.read_bytes(home.disk, home.fd, "file") in ((b"new",) if ended == 0 else (b"old", b"new"))
    assert ended == 0


def test_append_to_a_log(home) -> None:
    disk, logs = Recorder(), home.need("logs")
    j.append_bytes(disk, logs, "c.log", b"head\n")
    assert disk.calls == [("open", "c.log"), *replacing("c.log")]
    disk.calls.clear()
    j.append_bytes(disk, logs, "c.log", b"turn")
    assert disk.calls == [("open", "c.log"), ("fsync",), ("write",), ("fsync",), ("fsync_dir",)]
    disk.calls.clear()
    j.append_bytes(disk, logs, "c.log", b"sealed\n", truncate_to=5)
    assert disk.calls == [("open", "c.log"), ("ftruncate",), ("fsync",), ("write",), ("fsync",), ("fsync_dir",)]
    assert j.read_bytes(disk, logs, "c.log") == b"head\nsealed\n"
    for name, size in (("c.log", 100), ("gone.log", 5)):
        with pytest.raises(Failure) as caught:
            j.append_bytes(disk, logs, name, b"x", truncate_to=size)
        assert slug(caught) == "state-corrupt"
    for call in ("open", "write", "fsync"):
        with pytest.raises(Failure) as caught:
            j.append_bytes(Faulty(call), logs, "c.log", b"x")
        assert slug(caught) == "state-unwritable"


@pytest.mark.parametrize("fallback", [False, True])
def test_copy(home, tmp_path, fallback) -> None:
    data = os.urandom(3_000_000)
    logs = home.need("logs")
    j.replace(home.disk, logs, "c.log", data)
    target = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    disk = Faulty("copy_range", 1, errno.EXDEV) if fallback else Recorder()
    for content in (data, b""):
        j.replace(home.disk, logs, "c.log", content)
        j.copy(disk, logs, "c.log", target, "copy.log")
        assert (tmp_path / "copy.log").read_bytes() == content
    if isinstance(disk, Recorder):
        kinds = [call[0] for call in disk.calls[: disk.calls.index(("fsync_dir",)) + 1]]
        assert [k for k in kinds if k != "copy_range"] == ["open", "fchmod", "fsync", "rename", "fsync_dir"]
    assert stat.S_IMODE((tmp_path / "copy.log").stat().st_mode) == 0o600
    with pytest.raises(Failure):
        j.copy(Faulty("copy_range", 1, errno.ENOSPC), logs, "c.log", target, "copy.log")
    assert sorted(os.listdir(tmp_path)) == ["copy.log", "home"]
    os.close(target)


def test_move_and_remove(home) -> None:
    disk, logs = Recorder(), home.need("logs")
    j.replace(home.disk, logs, "a", b"a")
    j.replace(home.disk, logs, "b", b"b")
    with pytest.raises(Failure):
        j.move(disk, logs, "a", "b")
    j.move(disk, logs, "a", "c")
    assert j.remove(disk, logs, "b") and not j.remove(disk, logs, "b")
    assert disk.calls == [("rename", "a", "c"), ("fsync_dir",), ("unlink", "b"), ("fsync_dir",), ("unlink", "b")]
    assert os.listdir(logs) == ["c"]


# --- links, names and modes


def test_no_link_is_followed_and_none_replaced(home, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    os.symlink(outside, os.path.join(home.path, "ledger.jsonl"))
    os.mkfifo(os.path.join(home.path, "fifo"))
    book = ledger(home)
    j.replace(home.disk, home.fd, "good", b"ours")
    tries = [
        book.read,
        lambda: list(book.newest()),
        lambda: book.append({}, expect=1),
        lambda: book.rewrite([], {}, expect=1),
        lambda: j.replace(home.disk, home.fd, "ledger.jsonl", b"x"),
        lambda: j.append_bytes(home.disk, home.fd, "ledger.jsonl", b"x"),
        lambda: j.append_bytes(home.disk, home.fd, "fifo", b"x"),
        lambda: j.read_bytes(home.disk, home.fd, "ledger.jsonl"),
        lambda: j.read_bytes(home.disk, home.fd, "fifo"),
        lambda: j.copy(home.disk, home.fd, "ledger.jsonl", home.fd, "copy"),
        lambda: j.copy(home.disk, home.fd, "good", home.fd, "ledger.jsonl"),
        lambda: j.open_dir(home.disk, home.fd, "ledger.jsonl", create=True),
        lambda: j.replace(home.disk, home.fd, "logs", b"x"),
    ]
    with lock(home):
        for number, attempt in enumerate(tries):
            with pytest.raises(Failure) as caught:
                attempt()
            assert slug(caught) == "bad-config", number
    assert outside.read_bytes() == b"theirs" and names(home) == ["fifo", "good", "ledger.jsonl"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/x", "../x", "a\0b"])
def test_a_name_stays_in_its_folder(home, name) -> None:
    for attempt in (
        lambda: j.replace(home.disk, home.fd, name, b""),
        lambda: j.append_bytes(home.disk, home.fd, name, b""),
        lambda: j.read_bytes(home.disk, home.fd, name),
        lambda: j.copy(home.disk, home.fd, name, home.fd, "x"),
        lambda: j.copy(home.disk, home.fd, "x", home.fd, name),
        lambda: j.remove(home.disk, home.fd, name),
        lambda: j.move(home.disk, home.fd, name, "x"),
        lambda: Journal(home.disk, home.fd, name, home.locks.lock("ledger")),
        lambda: j.open_dir(home.disk, home.fd, name, create=True),
    ):
        with pytest.raises((ValueError, Failure)):
            attempt()
    assert names(home) == []


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o277])
def test_modes_whatever_the_umask(home, path, mask) -> None:
    def work() -> None:
        os.umask(mask)
        grow(home, 1)
        logs = home.need("logs")
        j.replace(home.disk, logs, "a", b"x")
        j.append_bytes(home.disk, logs, "b", b"x")
        j.copy(home.disk, logs, "a", logs, "c")
        os.close(j.open_dir(home.disk, home.need("spool"), "d", create=True))

        os.chmod(home.need("reports"), 0o755)
        os.close(j.open_dir(home.disk, home.fd, "reports", create=True, mend=False))

    assert status(child(work)) == 0
    wanted = {"ledger.jsonl": 0o600, "logs/a": 0o600, "logs/b": 0o600, "logs/c": 0o600, "spool/d": 0o700, "reports": 0o755}
    assert {name: stat.S_IMODE(os.stat(os.path.join(home.path, name)).st_mode) for name in wanted} == wanted
    os.chmod(path, 0o666)
    grow(home, 1)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_written(home, path) -> None:
    grow(home, 1)
    os.chown(path, 12345, -1)
    book = ledger(home)
    with lock(home), pytest.raises(Failure) as caught:
        book.append({}, expect=2)
    assert slug(caught) == "state-unwritable"
