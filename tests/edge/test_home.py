"""The home: where it is, what is made, what is refused; and what the machine says."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import uuid

import pytest

from gptbridge.core.errors import Failure
from gptbridge.edge import processes
from gptbridge.edge.disk import Disk
from gptbridge.edge.home import FOLDERS, home_path, open_home
from gptbridge.edge.host import Host
from tests.edge.crashing import Faulty, Recorder, child, status


def slug(call) -> str:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.slug


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_where_it_is(tmp_path) -> None:
    base = os.path.realpath(tmp_path)
    assert home_path({"ASKGPT_HOME": f"{base}/a", "XDG_STATE_HOME": "/x"}) == f"{base}/a"
    assert home_path({"ASKGPT_HOME": "", "XDG_STATE_HOME": f"{base}/state", "HOME": "/h"}) == f"{base}/state/gptbridge"
    assert home_path({"XDG_STATE_HOME": "relative", "HOME": base}) == f"{base}/.local/state/gptbridge"
    assert home_path({"HOME": base}) == f"{base}/.local/state/gptbridge"
    assert home_path({"ASKGPT_HOME": "sub"}) == os.path.realpath("sub")
    assert os.path.isabs(home_path({}))
    assert slug(lambda: home_path({"ASKGPT_HOME": "a\0b"})) == "bad-config"
    assert slug(lambda: home_path({"HOME": "relative"})) == "bad-config"


def test_a_new_home_is_made_with_its_parents(tmp_path) -> None:
    disk = Recorder()
    home = open_home({"ASKGPT_HOME": str(tmp_path / "a" / "b")}, disk=disk)
    assert home.exists and home.path == str((tmp_path / "a" / "b").resolve()) and home.locks is not None
    made = [tmp_path / "a", tmp_path / "a" / "b", *(tmp_path / "a" / "b" / name for name in FOLDERS)]
    assert [mode(path) for path in made] == [0o700] * 7
    # Each folder's name is on the disk before anything is put in it.
    assert [call[0] for call in disk.calls] == ["fsync_dir"] + ["mkdir", "fsync_dir"] * 7
    for fd in (home.fd, *(home.need(name) for name in FOLDERS)):
        assert not os.get_inheritable(fd)
    os.close(home.ensure("spool", "01JDX3V9"))
    assert mode(tmp_path / "a" / "b" / "spool" / "01JDX3V9") == 0o700
    home.close()
    assert not home.exists and slug(lambda: home.need("logs")) == "state-unwritable"
    again = open_home({"ASKGPT_HOME": str(tmp_path / "a" / "b")})
    assert again.exists
    again.close()


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o022])
def test_modes_whatever_the_umask(tmp_path, mask) -> None:
    def work() -> None:
        os.umask(mask)
        open_home({"HOME": str(tmp_path)})

    assert status(child(work)) == 0
    for path in (".local", ".local/state", ".local/state/gptbridge", *(f".local/state/gptbridge/{name}" for name in FOLDERS)):
        assert mode(tmp_path / path) == 0o700


def test_modes_are_mended_by_a_writer_and_left_by_a_reader(tmp_path) -> None:
    env = {"ASKGPT_HOME": str(tmp_path / "home")}
    open_home(env).close()
    for path in (tmp_path / "home", tmp_path / "home" / "logs"):
        os.chmod(path, 0o755)
    open_home(env, create=False).close()
    assert mode(tmp_path / "home") == mode(tmp_path / "home" / "logs") == 0o755
    open_home(env).close()
    assert mode(tmp_path / "home") == mode(tmp_path / "home" / "logs") == 0o700


def test_a_reader_makes_nothing(tmp_path) -> None:
    home = open_home({"ASKGPT_HOME": str(tmp_path / "home")}, create=False)
    assert not home.exists and home.fd is None and home.folder("logs") is None and home.locks is None
    assert os.listdir(tmp_path) == []
    (tmp_path / "home").mkdir()
    home = open_home({"ASKGPT_HOME": str(tmp_path / "home")}, create=False)
    assert home.exists and home.folder("logs") is None
    assert os.listdir(tmp_path / "home") == []
    home.close()


def test_links_up_to_the_home_but_not_below(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    home = open_home({"ASKGPT_HOME": str(tmp_path / "link" / "home")})
    assert home.path == str((tmp_path / "real" / "home").resolve())
    home.close()
    (tmp_path / "other").mkdir()
    os.rmdir(tmp_path / "real" / "home" / "logs")
    os.symlink(tmp_path / "other", tmp_path / "real" / "home" / "logs")
    for create in (True, False):
        assert slug(lambda create=create: open_home({"ASKGPT_HOME": home.path}, create=create)) == "bad-config"
    assert os.listdir(tmp_path / "other") == []


def test_a_file_in_its_place(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/home"):
        for create in (True, False):
            assert slug(lambda path=path, create=create: open_home({"ASKGPT_HOME": str(tmp_path / path)}, create=create)) == "bad-config"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("name", ["", "locks"])
def test_a_folder_of_another_user_is_refused(tmp_path, name) -> None:
    env = {"ASKGPT_HOME": str(tmp_path / "home")}
    open_home(env).close()
    os.chown(tmp_path / "home" / name, 12345, -1)
    for create in (True, False):
        assert slug(lambda create=create: open_home(env, create=create)) == "bad-config"


@pytest.mark.skipif(os.geteuid() != 0, reason="the test itself becomes another user")
def test_a_home_that_cannot_be_made(tmp_path) -> None:
    def work() -> None:
        os.chmod(tmp_path, 0o755)
        for parent in tmp_path.parents:
            if parent.name.startswith("pytest-"):
                os.chmod(parent, 0o755)
        os.setuid(12345)
        assert slug(lambda: open_home({"ASKGPT_HOME": str(tmp_path / "home")})) == "state-unwritable"

    assert status(child(work)) == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkdir", "fsync_dir"])
def test_a_home_that_cannot_be_written(tmp_path, call, number) -> None:
    with pytest.raises(Failure, match=re.escape(str(tmp_path))) as why:  # the whole path is named
        open_home({"ASKGPT_HOME": str(tmp_path / "home")}, disk=Faulty(call, 1, number))
    assert why.value.slug == "state-unwritable"
    open_home({"ASKGPT_HOME": str(tmp_path / "home")}).close()


def test_no_descriptor_is_left_after_a_failure(tmp_path) -> None:
    before = len(os.listdir("/dev/fd"))
    for call in ("mkdir", "fsync_dir"):
        for n in range(1, 8):
            with pytest.raises(Failure):
                open_home({"ASKGPT_HOME": str(tmp_path / f"{call}{n}" / "home")}, disk=Faulty(call, n))
    with pytest.raises(Failure):
        open_home({"ASKGPT_HOME": str(tmp_path / "lies")}, flock=lambda fd, how: None)
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_system_that_lies_about_flock_is_refused(tmp_path) -> None:
    def fails(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    for flock in (fails, lambda fd, how: None):
        env = {"ASKGPT_HOME": str(tmp_path / "home")}
        assert slug(lambda env=env, flock=flock: open_home(env, flock=flock)) == "bad-config"
        open_home(env, create=False).close()  # a reader needs no lock


def test_a_new_home_is_tested_with_a_second_process(tmp_path) -> None:
    parent = os.getpid()

    def local(fd: int, how: int) -> None:
        if os.getpid() == parent:
            fcntl.flock(fd, how)

    assert slug(lambda: open_home({"ASKGPT_HOME": str(tmp_path / "home")}, flock=local)) == "bad-config"


def test_many_at_once(tmp_path) -> None:
    env = {"ASKGPT_HOME": str(tmp_path / "a" / "home")}
    assert [status(pid) for pid in [child(lambda: open_home(env, disk=Disk())) for _ in range(6)]] == [0] * 6


# --- the machine


def test_what_the_machine_says() -> None:
    host = Host({"A": "b"})
    assert host.env == {"A": "b"} and host.pid == os.getpid()
    one, two = host.ulid(), host.ulid()
    assert len(one) == 26 and one != two and one[:6] == two[:6]
    assert uuid.UUID(host.uuid4()).version == 4
    assert host.boottime() <= host.boottime() and host.boot_id == Host().boot_id != ""
    assert 0.0 <= host.unit() < 1.0
    start = processes.started(os.getpid())
    assert start and start == processes.started(os.getpid()) and processes.started(2**22 + 1) is None
    assert host.free_bytes("/") > 0 and host.free_bytes("/no/such/place") == 0


def test_no_random_bytes_is_nineteen(monkeypatch) -> None:
    def none(count: int) -> bytes:
        raise OSError(errno.ENOSYS, "no source")

    monkeypatch.setattr(os, "urandom", none)
    for ask in (Host({}).ulid, Host({}).uuid4, Host({}).unit):
        with pytest.raises(Failure) as caught:
            ask()
        assert caught.value.exit.code == 19


def test_a_process_name_may_hold_anything(tmp_path) -> None:
    def work() -> None:
        with open("/proc/self/comm", "w") as file:
            file.write("a) b (c 1 2")
        assert (processes.started(os.getpid()) or "x").isdigit()

    if not os.path.exists("/proc/self/comm"):
        pytest.skip("no /proc")
    assert status(child(work)) == 0
