"""Locks between real processes: stopped, killed and forked ones; the order; and file systems that lie."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure
from gptbridge.edge.host import Host
from gptbridge.edge.lock_file import Holder
from gptbridge.edge.locks import RANKS, LockOrder, Locks
from gptbridge.edge.owner import own
from tests.edge.crashing import child, holding, status


class FakeHost(Host):
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        super().__init__({})
        self.now, self.sleeps = 1000.0, 0

    def boottime(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def locks(folder):
    return Locks(folder, FakeHost(), purpose="send")


def take(locks, kind, key=""):
    lock = locks.lock(kind, key)
    lock.acquire(0)
    return lock


def refused(locks, kind, key="", wait_s=0.0) -> str:
    with pytest.raises(Failure) as caught:
        locks.lock(kind, key).acquire(wait_s)
    assert caught.value.slug == "busy"
    return caught.value.message


# --- one holder


def test_taken_and_given_back(locks, tmp_path) -> None:
    lock = locks.lock("ledger")
    assert not lock.held and not lock.is_taken()
    with lock.hold() as same:
        assert same is lock is locks.lock("ledger") and lock.held and lock.is_taken()
        assert os.stat(tmp_path / "ledger").st_mode & 0o777 == 0o600
        assert Holder.parse((tmp_path / "ledger").read_bytes()).pid == os.getpid()
    assert not lock.held and not lock.is_taken()
    assert (tmp_path / "ledger").read_bytes() == b""  # the file stays, the words do not


def test_a_second_set_of_descriptors_is_another_owner(locks, folder) -> None:
    with locks.lock("ledger").hold():
        other = Locks(folder, FakeHost())
        assert not other.lock("ledger").try_acquire() and not other.lock("ledger").held
    assert other.lock("ledger").try_acquire()


def test_two_threads_exclude_each_other(folder) -> None:
    locks, inside, most = Locks(folder, Host({})), [], []

    def work() -> None:
        for _ in range(20):
            with locks.lock("ledger").hold(20):
                assert locks.lock("ledger").held
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    with locks.lock("ledger").hold(20):
        assert locks.lock("ledger").held
    for thread in threads:
        thread.join(30)
    assert most == [1] * 60 and not locks.held


def test_held_is_of_the_thread_that_took_it(locks) -> None:
    seen: list[bool] = []
    with locks.lock("ledger").hold():
        thread = threading.Thread(target=lambda: seen.extend([locks.lock("ledger").held, locks.lock("ledger").try_acquire()]))
        thread.start()
        thread.join()
    assert seen == [False, False]


def test_processes_exclude_each_other(folder, tmp_path) -> None:
    """A counter that is read and written under the lock loses nothing."""
    counter = tmp_path / "counter"
    counter.write_text("0")

    def work() -> None:
        lock = Locks(folder, Host({})).lock("dispatch", "user/account")
        for _ in range(50):
            with lock.hold(30):
                counter.write_text(str(int(counter.read_text()) + 1))

    assert [status(pid, 60) for pid in [child(work) for _ in range(4)]] == [0] * 4
    assert counter.read_text() == "200"


def test_a_key_that_is_no_file_name(locks, tmp_path) -> None:
    for key in ("user-1/account-2", "../up", "ü" * 300, "a\nb"):
        with locks.lock("dispatch", key).hold():
            pass
    found = sorted(os.listdir(tmp_path))
    assert len(found) == 4 and all(name.startswith("dispatch-~") for name in found)


# --- waiting


def test_a_killed_holder_frees_its_lock_and_its_file_blocks_nobody(folder, locks) -> None:
    with holding(lambda ready: (Locks(folder, Host({})).lock("ledger").acquire(), ready())) as pid:
        refused(locks, "ledger")
        os.kill(pid, signal.SIGKILL)
        Locks(folder, Host({})).lock("ledger").acquire(10)


def test_a_stopped_holder_is_named_by_a_waiter_that_gives_up(folder, locks, tmp_path) -> None:
    def hold(ready) -> None:
        theirs = Locks(folder, Host({}), purpose="resume")
        theirs.epoch = "4.00aa"
        theirs.lock("conversation", "6f1b6a2e").acquire()
        ready()

    waits: list[tuple[str, Holder, float]] = []
    locks.on_wait = lambda *words: waits.append(words)
    with holding(hold) as pid:
        os.kill(pid, signal.SIGSTOP)
        message = refused(locks, "conversation", "6f1b6a2e", wait_s=30.0)
        assert "conversation 6f1b6a2e" in message and f"process {pid} (resume, since " in message and "30 s" in message
        assert 30.0 <= locks.host.now - 1000.0 < 30.1 and 100 < locks.host.sleeps == len(waits)
        what, holder, waited = waits[-1]
        assert (what, holder.pid, holder.epoch, holder.purpose) == ("conversation 6f1b6a2e", pid, "4.00aa", "resume") and waited > 29
        assert abs(holder.since - time.time()) < 60


def test_what_heed_raises_ends_the_wait(folder, locks) -> None:
    class Enough(Exception):
        pass

    def heed() -> None:
        if locks.host.sleeps >= 3:
            raise Enough

    with Locks(folder, FakeHost()).lock("ledger").hold():
        with pytest.raises(Enough):
            locks.lock("ledger").acquire(1e9, heed=heed)
        assert locks.host.sleeps == 3 and not locks.lock("ledger").held


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"null", b"\0" * 50, b"\xff\xfe", b'{"pid":"x"}', b"[" * 9000])
def test_words_of_a_holder_that_cannot_be_read(folder, locks, tmp_path, junk) -> None:
    with Locks(folder, FakeHost()).lock("ledger").hold():
        (tmp_path / "ledger").write_bytes(junk)
        assert "another process" in refused(locks, "ledger")


def test_words_of_a_holder_cannot_write_to_a_terminal() -> None:
    holder = Holder.parse(Holder(7, "0.a", "\x1b[2J" + "x" * 500, 0.0).line())
    assert "\x1b" not in str(holder) and len(str(holder)) < 260


# --- children


def test_a_child_program_does_not_keep_a_lock(folder, locks) -> None:
    started: list[int] = []
    reader, writer = os.pipe()

    def hold(ready) -> None:
        theirs = Locks(folder, Host({}))
        theirs.lock("seat", "0").acquire()
        program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
        os.write(writer, b"%d\n" % program.pid)
        ready()

    with holding(hold) as pid:
        started.append(int(os.read(reader, 20)))
        refused(locks, "seat", "0")
        os.kill(pid, signal.SIGKILL)
        Locks(folder, Host({})).lock("seat", "0").acquire(10)
        os.kill(started[0], 0)  # it still lives
        os.kill(started[0], signal.SIGKILL)
    os.close(reader)
    os.close(writer)


def test_a_forked_child_holds_no_lock_and_cannot_free_one(folder, locks) -> None:
    def hold(ready) -> None:
        theirs = Locks(folder, Host({}))
        lock = theirs.lock("ledger")
        lock.acquire()

        def grandchild() -> None:
            assert not lock.held and lock.file.fd == -1 and not theirs.held
            lock.release()
            ready()

        os.write(writer, b"%d\n" % child(grandchild))
        while True:
            time.sleep(60)

    reader, writer = os.pipe()
    with holding(hold) as pid:
        grandchild = int(os.read(reader, 20))
        refused(locks, "ledger")
        os.kill(pid, signal.SIGKILL)
        Locks(folder, Host({})).lock("ledger").acquire(10)
        os.kill(grandchild, 0)
        os.kill(grandchild, signal.SIGKILL)
    os.close(reader)
    os.close(writer)


# --- the order


def test_the_one_order(locks) -> None:
    kinds = sorted(RANKS, key=RANKS.__getitem__)
    assert kinds == ["conversation", "seat", "chrome", "dispatch", "ledger", "registry"]
    for high, kind in enumerate(kinds):
        with locks.lock(kind, "1").hold():
            for low, other in enumerate(kinds):
                lock = locks.lock(other, "2" if other != kind else "1")
                if low > high:
                    with lock.hold():
                        pass
                else:
                    with pytest.raises(LockOrder):
                        lock.acquire()
                    if other != "seat" or kind == "seat":
                        with pytest.raises(LockOrder):
                            lock.try_acquire()
                assert len(locks.held) == 1


def test_the_whole_ladder(locks) -> None:
    for kind in RANKS:
        take(locks, kind, "x")
    assert len(locks.held) == 6
    for lock in list(locks.held):
        lock.release()


def test_a_conversation_that_did_not_exist_is_the_one_exception(locks, folder) -> None:
    with locks.seat() as seat:
        assert seat.number == 0
        with pytest.raises(LockOrder):
            locks.lock("conversation", "new").acquire()
        with locks.fresh_conversation("new"):
            assert locks.is_held("new")
            with locks.dispatch(), locks.lock("ledger").hold(), pytest.raises(LockOrder):
                locks.lock("conversation", "other").acquire(fresh=True)
        with Locks(folder, FakeHost()).conversation("new"):
            before = locks.host.sleeps
            with pytest.raises(Failure) as caught, locks.fresh_conversation("new"):
                pass
            assert caught.value.slug == "busy" and locks.host.sleeps == before
    assert not locks.is_held("new") and not locks.held


def test_a_lock_without_a_place_or_with_a_wait_it_may_not_have(locks) -> None:
    with pytest.raises(LockOrder):
        locks.lock("coffee")
    with pytest.raises(LockOrder):
        locks.lock("owner", "0").acquire()


# --- seats


def test_seats(locks, folder) -> None:
    other = Locks(folder, FakeHost(), purpose="resume")
    with locks.seat() as first, other.seat() as second:
        assert (first.number, second.number) == (0, 1)
        with other.dead_seats() as dead:
            assert [seat.number for seat in dead] == [2]
            third = Locks(folder, FakeHost())
            with pytest.raises(Failure) as caught, third.seat(wait_s=5.0):
                pass
            assert caught.value.slug == "busy" and "every one of 3 seats" in caught.value.message
    with locks.dead_seats() as dead:
        assert [seat.number for seat in dead] == [0, 1, 2]
    assert not locks.held and not other.held


def test_a_window_outlives_its_dead_owner(locks, folder) -> None:
    def hold(ready) -> None:
        with Locks(folder, Host({})).seat() as seat:
            seat.note_window("browser-id/target-id")
            ready()

    with holding(hold) as pid:
        os.kill(pid, signal.SIGKILL)
        with Locks(folder, Host({}), seats=1).seat(wait_s=10):
            pass
    with locks.dead_seats() as dead:
        assert [seat.window() for seat in dead] == ["browser-id/target-id", None, None]
        dead[0].note_window(None)
    with locks.seat() as seat:
        assert seat.window() is None


# --- owners


def test_owners_take_slots_and_fresh_epochs(locks, folder) -> None:
    first, second = own(locks), own(Locks(folder, FakeHost()))
    assert first.epoch.startswith("0.") and second.epoch.startswith("1.") and locks.epoch == first.epoch
    old = first.epoch
    first.release()
    again = own(Locks(folder, FakeHost()))
    assert again.epoch.startswith("0.") and again.epoch != old


def test_only_the_slot_of_a_dead_owner_can_be_held(locks, folder) -> None:
    reader, writer = os.pipe()

    def hold(ready) -> None:
        os.write(writer, own(Locks(folder, Host({}))).epoch.encode())
        ready()

    with holding(hold) as pid:
        theirs = os.read(reader, 99).decode()
        mine = own(locks)
        with mine.hold_dead(theirs) as dead:
            assert not dead
        with mine.hold_dead(mine.epoch) as dead:
            assert not dead
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while locks.lock("owner", theirs[0]).is_taken() and time.monotonic() < deadline:
            time.sleep(0.001)
        with mine.hold_dead(theirs) as dead, mine.hold_dead("0.ffff") as same_slot:
            assert dead and same_slot
            # While it is held nobody else can recover it, and a new owner takes another slot.
            late = own(Locks(folder, FakeHost()))
            assert late.epoch.startswith("2.")
            with late.hold_dead(theirs) as also:
                assert not also
        with late.hold_dead(theirs) as dead:
            assert dead
    os.close(reader)
    os.close(writer)


def test_an_earlier_epoch_of_ones_own_slot_is_dead(locks, folder) -> None:
    mine = own(locks)
    with locks.lock("ledger").hold(), mine.hold_dead("0.aaaa") as dead:
        assert dead
    with own(Locks(folder, FakeHost())).hold_dead("0.aaaa") as dead:
        assert not dead  # it is for the slot's owner to deal with
    for epoch in ("", "0", "x.aa", "-1.aa", "00.aa", "99999.aa", "0.AA", "../x.aa"):
        with mine.hold_dead(epoch) as dead:
            assert not dead


# --- file systems


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL])
def test_a_flock_that_fails_is_bad_config(folder, number) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    locks = Locks(folder, FakeHost(), flock=flock)
    for attempt in (locks.probe, locks.probe_across, locks.lock("ledger").acquire, locks.lock("ledger").try_acquire, lambda: own(locks)):
        with pytest.raises(Failure) as caught:
            attempt()
        assert caught.value.slug == "bad-config" and caught.value.exit.code == 20
    assert not locks.held


def test_a_flock_that_lies_is_found_at_every_lock(folder) -> None:
    locks = Locks(folder, FakeHost(), flock=lambda fd, how: None)
    for attempt in (locks.probe, locks.probe_across, locks.lock("ledger").acquire, locks.lock("ledger").try_acquire, lambda: own(locks)):
        with pytest.raises(Failure) as caught:
            attempt()
        assert caught.value.slug == "bad-config" and "lets two holders in" in caught.value.message
    assert not locks.held


def test_a_flock_that_knows_only_its_own_process_is_found_by_the_second_process(folder) -> None:
    parent, inside = os.getpid(), set()

    def flock(fd: int, how: int) -> None:
        if os.getpid() == parent:
            fcntl.flock(fd, how)
        elif how & fcntl.LOCK_NB:
            inside.add(fd)

    locks = Locks(folder, FakeHost(), flock=flock)
    locks.probe()
    with pytest.raises(Failure) as caught:
        locks.probe_across()
    assert caught.value.slug == "bad-config" and "another process" in caught.value.message


def test_the_self_tests_pass_here_also_side_by_side(folder, locks) -> None:
    def work() -> None:
        mine = Locks(folder, Host({}))
        for _ in range(100):
            mine.probe()
        mine.probe_across()

    assert [status(pid) for pid in [child(work) for _ in range(3)]] == [0, 0, 0]
    locks.probe()
    locks.probe_across()
    assert not locks.held


@pytest.mark.parametrize("again", [False, True])
def test_a_deleted_lock_file_has_no_two_holders(folder, locks, tmp_path, again) -> None:
    """Its old holder keeps an unlinked file; the new one must hold what the name leads to."""
    real = fcntl.flock
    left = [1]

    def flock(fd: int, how: int) -> None:
        real(fd, how)
        if left and left.pop():
            os.unlink(tmp_path / "ledger")
            if again:
                (tmp_path / "ledger").write_bytes(b"")

    with Locks(folder, FakeHost(), flock=flock).lock("ledger").hold() as lock:
        assert os.fstat(lock.file.fd).st_ino == os.stat(tmp_path / "ledger").st_ino
        refused(locks, "ledger")


def test_no_link_is_followed(locks, tmp_path) -> None:
    (tmp_path / "theirs").write_bytes(b"x")
    os.symlink("theirs", tmp_path / "ledger")
    os.mkfifo(tmp_path / "registry")
    with pytest.raises(Failure) as caught:
        locks.lock("ledger").acquire()
    assert caught.value.slug == "bad-config" and (tmp_path / "theirs").read_bytes() == b"x"


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_modes_whatever_the_umask(folder, tmp_path, mask) -> None:
    def work() -> None:
        os.umask(mask)
        own(Locks(folder, Host({})))

    assert status(child(work)) == 0
    assert os.stat(tmp_path / "owner-0").st_mode & 0o777 == 0o600


def test_a_slot_with_a_later_owner_proves_the_earlier_one_dead(locks: Locks) -> None:
    """A slot is taken again at once; the rows of its dead owner must not wait for the end of the new one."""
    first = own(locks)
    dead = first.epoch
    first.release()
    later = own(locks)
    mine = own(Locks(locks.dir_fd, locks.host))
    assert later.epoch.partition(".")[0] == dead.partition(".")[0] != mine.epoch.partition(".")[0]
    assert mine.is_dead(dead) and not mine.is_dead(later.epoch) and not mine.is_dead(mine.epoch)
    with mine.hold_dead(dead) as held:
        assert not held


def test_an_owner_whose_name_cannot_be_written_is_not_taken_for_dead(locks: Locks, tmp_path: Path) -> None:
    """No room for a line, and a killed owner's epoch in the slot's file: it is no proof of the new owner's death."""
    killed = own(locks)
    locks.close_in_child()  # as the kernel does: the file keeps its line
    assert killed.epoch in (tmp_path / "owner-0").read_text()

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        new = own(Locks(locks.dir_fd, locks.host))
        other = own(Locks(locks.dir_fd, locks.host))
        assert new.epoch.startswith("0.") and other.epoch.startswith("1.")
        assert not other.is_dead(new.epoch)

    assert status(child(work)) == 0
