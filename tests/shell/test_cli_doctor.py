"""`doctor`: green where all is well, and for each wreck a finding that names it and what mends it; nothing is changed by looking."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gptbridge.edge.browser_files import holder_of
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.owner import own
from gptbridge.shell import doctor_home, topics
from gptbridge.shell.doctor import guarded
from gptbridge.shell.wiring import Files

from .practising import until
from .seeding import Seed, conversation_id

VALID = jsonschema.Draft202012Validator(json.loads(topics.schema_text()))


@pytest.fixture
def seed(tmp_path: Path) -> Seed:
    made = Seed(tmp_path / "home")
    made.host = Host(made.env)  # the real clock: a record from the future is a finding
    made.ledger._host = made.host
    browser, driver = tmp_path / "bin" / "chromium", tmp_path / "bin" / "chromedriver"
    browser.parent.mkdir()
    for program in (browser, driver):
        _program(program, "156.0.1.2")
    made.env |= {"ASKGPT_BROWSER": str(browser), "ASKGPT_HEADLESS": "1"}
    return made


def _program(path: Path, version: str) -> None:
    path.write_text(f"#!/bin/sh\necho it is {version}\n")
    path.chmod(0o755)


def checks(seed: Seed, code: int) -> dict[str, dict[str, Any]]:
    document = seed.document("doctor")
    VALID.validate(document)
    assert document["exit_code"] == code, document["checks"]
    assert (document["error"] is None) == (code == 0)
    return {check["name"]: check for check in document["checks"] if code == 0 or not check["ok"]}


def tree(home: Path) -> dict[str, tuple[int, bytes]]:
    return {str(p.relative_to(home)): (p.lstat().st_mode, p.read_bytes() if p.is_file() and not p.is_symlink() else b"")
            for p in sorted(home.rglob("*")) if "locks" not in p.parts}


def test_all_is_well_in_a_used_home_and_nothing_changes(seed: Seed) -> None:
    seed.conversation(1, "One")
    seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    seed.log(conversation_id(1), {"sections": [("prompt", "hello"), ("answer", "there")]})
    before = tree(seed.path)
    found = checks(seed, 0)
    assert {"python", "packages", "config", "browser", "driver", "display", "home", "locks", "disk", "ledger", "registry", "operations",
            "logs", "clock", "chrome"} <= set(found)
    assert "6 records" in found["ledger"]["detail"] and "1 logs" in found["logs"]["detail"]
    assert tree(seed.path) == before


def test_a_home_that_is_not_there_is_no_finding_and_is_not_made(seed: Seed, tmp_path: Path) -> None:
    seed.env["ASKGPT_HOME"] = str(tmp_path / "none" / "home")
    assert "is not there yet" in checks(seed, 0)["home"]["detail"]
    assert not (tmp_path / "none").exists()


def test_a_new_folder_as_a_home_is_no_finding_and_one_with_files_that_others_may_read_is_named(seed: Seed, tmp_path: Path) -> None:
    home = tmp_path / "made by hand"
    home.mkdir(mode=0o755)
    seed.env["ASKGPT_HOME"] = str(home)
    assert "the first send makes it 0700" in checks(seed, 0)["home"]["detail"]
    (home / "ledger.jsonl").touch(0o644)
    assert f"others may read {home}" in checks(seed, 3)["home"]["detail"] and home.stat().st_mode & 0o777 == 0o755


def test_lines_for_people_name_what_mends_and_quiet_shows_findings_alone(seed: Seed) -> None:
    done = seed.run("doctor")
    assert done.returncode == 0 and done.stdout.decode().splitlines()[-1].endswith("all well") and done.stderr == b""
    assert seed.run("doctor", "-q").stdout == b""
    (seed.path / "ledger.jsonl").write_bytes(b'{"seq":1}\n')
    (seed.path / "ledger.jsonl").chmod(0o600)
    done = seed.run("doctor", "-q")
    assert done.returncode == 3
    assert [line.split()[:2] for line in done.stdout.decode().splitlines() if not line.startswith(" ")] == [
        ["MEND", "ledger"]]
    assert "accept-loss" in done.stdout.decode() and b"found something to mend" in done.stderr


def test_a_driver_of_another_version(seed: Seed) -> None:
    """Case 38."""
    _program(Path(seed.env["ASKGPT_BROWSER"]).parent / "chromedriver", "155.0.1.2")
    found = checks(seed, 3)
    assert set(found) == {"driver"} and found["driver"]["mend"]
    assert "155" in found["driver"]["detail"] and "156" in found["driver"]["detail"]


def test_no_browser_no_display_and_a_bad_config(seed: Seed) -> None:
    seed.env["ASKGPT_BROWSER"] = "/nowhere/chrome"
    del seed.env["ASKGPT_HEADLESS"]
    assert set(checks(seed, 3)) == {"browser", "display"}
    seed.env["DISPLAY"] = ":987"  # set, but nothing answers there
    assert "nothing answers" in checks(seed, 3)["display"]["detail"]
    (seed.path / "config.yaml").write_text("nonsense: 1\n")
    assert {"config"} <= set(checks(seed, 3))


def test_what_others_may_read_and_what_is_not_ours(seed: Seed) -> None:
    seed.conversation(1, "One")
    os.chmod(seed.path / "conversations.jsonl", 0o644)
    os.symlink("/etc", seed.path / "logs" / "link")
    document = seed.document("doctor")
    details = [check["detail"] for check in document["checks"] if check["name"] == "home"]
    assert any("conversations.jsonl" in one for one in details) and any("logs/link" in one for one in details)
    assert os.stat(seed.path / "conversations.jsonl").st_mode & 0o777 == 0o644


def test_uncertain_for_long_a_torn_log_and_a_worker_that_runs(seed: Seed) -> None:
    seed.operation(1, "claimed", "uncertain")
    name = conversation_id(1)
    seed.log(name, {"sections": [("prompt", "hello")]})
    path = seed.path / "logs" / f"{name}.log"
    path.write_bytes(path.read_bytes()[:-30])
    assert seed.home.locks is not None
    seed.home.locks.purpose = "ask-gpt send"
    owner = own(seed.home.locks)
    try:
        found = checks(seed, 3)
        assert set(found) == {"logs"} and name in found["logs"]["detail"] and found["logs"]["mend"] == "ask-gpt sweep"
        operations = next(c for c in seed.document("doctor")["checks"] if c["name"] == "operations")
        assert operations["ok"] and "1 uncertain" in operations["detail"]
        assert f"ask-gpt send in process {os.getpid()}" in operations["detail"]
    finally:
        owner.release()


def test_an_uncertain_operation_that_waits_for_a_person(seed: Seed) -> None:
    seed.host = seed.ledger._host = type("Old", (Host,), {"wall": lambda self: Host.wall(self) - 3600})(seed.env)
    seed.operation(1, "claimed", "uncertain")
    found = checks(seed, 3)
    assert set(found) == {"operations"} and "ask-gpt sweep" in found["operations"]["mend"]


def test_a_clock_that_was_set_back(seed: Seed) -> None:
    seed.host = seed.ledger._host = type("Ahead", (Host,), {"wall": lambda self: Host.wall(self) + 86400})(seed.env)
    seed.operation(1, "rejected")
    assert set(checks(seed, 3)) == {"clock"}


def test_too_little_room(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a home, and of one that is yet to be made."""
    for path in (seed.path, seed.path.parent / "none"):
        env = seed.env | {"ASKGPT_HOME": str(path)}
        looks = dict(doctor_home.looks(env))
        for room, ok in ((0, True), (1 << 62, False)):
            monkeypatch.setattr(doctor_home, "ROOM", room)
            [disk] = [check for check in looks["disk" if path == seed.path else "home"]() if check.name == "disk"]
            assert (disk.ok, disk.mend) == (ok, "" if ok else "make room") and "MiB free" in disk.detail
    assert not (seed.path / "reports" / doctor_home.PROBE).exists()


def test_a_file_system_that_lets_another_process_in(seed: Seed) -> None:
    """As one that locks for this machine's process alone: the test with two descriptors holds, the one with two processes does not."""
    parent = os.getpid()

    def flock(fd: int, how: int) -> None:
        if os.getpid() == parent:
            fcntl.flock(fd, how)

    for flocks, ok in ((fcntl.flock, True), (flock, False)):
        home = open_home(seed.env, create=False, host=seed.host, flock=flocks)
        found = Files(home, seed.ledger, seed.registry, seed.logs, seed.spool)
        [check] = guarded("locks", lambda found=found: doctor_home._locks(found))  # type: ignore[misc]
        assert (check.name, check.ok) == ("locks", ok) and ("another process" in check.detail) == (not ok)
        home.close()


def test_a_profile_that_somebody_else_has_open(seed: Seed) -> None:
    profile = seed.path / "browser" / "profile"
    profile.mkdir(mode=0o700)
    assert checks(seed, 0)["chrome"]["ok"]
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", f"--user-data-dir={profile}"])
    try:
        until(lambda: holder_of(profile) == other.pid)
        found = checks(seed, 3)
        assert set(found) == {"chrome"} and found["chrome"]["mend"] == f"close it: kill {other.pid}"
    finally:
        other.kill()
        other.wait()
    assert checks(seed, 0)["chrome"]["ok"]


def test_what_a_send_or_a_sweep_would_refuse_is_found(seed: Seed) -> None:
    """The stamp and the ends of files, a damaged log, a lost registry, strange things at our names."""
    seed.conversation(1, "One")
    seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    seed.log(conversation_id(1), {"sections": [("prompt", "hello"), ("answer", "there")]})
    checks(seed, 0)
    stamp, log, registry = (seed.path / name for name in ("dispatch.stamp", f"logs/{conversation_id(1)}.log", "conversations.jsonl"))
    stamp.write_text('{"format":"ask-gpt-stamp/1","accounts":{"user-0000":{"wall":1.0,"boottime":1.0,"boot_id":"x","seq":99}}}')
    stamp.chmod(0o600)
    assert set(checks(seed, 3)) == {"ledger"}
    stamp.write_bytes(b"\xff\0")
    assert set(checks(seed, 3)) == {"ledger"}
    stamp.unlink()
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"there", b"thore"))
    assert set(checks(seed, 3)) == {"logs"}
    log.write_bytes(whole)
    (seed.path / "logs" / "folder").mkdir(mode=0o700)
    assert set(checks(seed, 3)) == {"home"}
    (seed.path / "logs" / "folder").rmdir()
    registry.unlink()
    found = checks(seed, 3)
    assert set(found) == {"registry"} and conversation_id(1) in found["registry"]["detail"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_configuration_that_is_no_regular_file_is_refused_at_once(seed: Seed, tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(seed.path / "config.yaml")
    else:
        (tmp_path / "elsewhere.yaml").write_text("headless: true\n")
        os.symlink(tmp_path / "elsewhere.yaml", seed.path / "config.yaml")
    assert "config.yaml cannot be read" in checks(seed, 3)["config"]["detail"]
    assert seed.run("sweep", "--offline").returncode == 20
