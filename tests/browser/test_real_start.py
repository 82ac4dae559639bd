"""Before there is a page: no browser, no display, a profile in use, a read-only home; signing in; and the site by its own name.

Each command ends by itself with one message, also with a standard input that is open and silent (case 43); nothing is started or sent.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.real import ROOT, Desk, Home, Ran, Site, until

pytestmark = pytest.mark.browser


def refused(desk: Desk, code: int, *says: str, **how: object) -> Ran:
    ran = desk.json("send", "hello", **how)
    assert (ran.code, ran.doc["sent"]) == (code, "no"), ran
    assert all(word in ran.doc["error"]["message"] for word in says) and ran.doc["error"]["hint"], ran
    assert not desk.site.sends()
    return ran


@pytest.fixture
def bare(own_home: Home, tmp_path: Path) -> Desk:
    return Desk(own_home, tmp_path / "work")


def not_started(desk: Desk) -> bool:
    return not (desk.home.path / "browser" / "browser.json").exists()


def test_no_browser(bare: Desk, tmp_path: Path) -> None:
    ran = refused(bare, 16, "/nowhere/chrome", ASKGPT_BROWSER="/nowhere/chrome")
    assert ran.doc["retry"] == "safe" and ran.doc["state"] == "rejected"
    refused(bare, 16, "No Chrome or Chromium", PATH=str(tmp_path), drop=("ASKGPT_BROWSER",))
    assert not_started(bare)
    said = bare.run("send", "hello once more", PATH=str(tmp_path), drop=("ASKGPT_BROWSER",))
    assert said.code == 16 and said.out == b"" and "install Chromium" in said.err, said


def test_no_display(bare: Desk) -> None:
    ran = refused(bare, 16, "no display", drop=("ASKGPT_HEADLESS", "DISPLAY", "WAYLAND_DISPLAY"))
    assert "ASKGPT_HEADLESS" in ran.doc["error"]["hint"] and not_started(bare)


def test_a_driver_of_another_version(bare: Desk, tmp_path: Path) -> None:
    """Case 38: one message that names both, and the mend."""
    driver = tmp_path / "chromedriver"
    driver.write_text("#!/bin/sh\necho 'ChromeDriver 9.1.2.3 (0)'\n")
    driver.chmod(0o755)
    bare.home.path.mkdir(mode=0o700)
    (bare.home.path / "config.yaml").write_text(f"driver: {driver}\n")
    ran = refused(bare, 16, "version 9", str(driver))
    assert not_started(bare) and ran.doc["error"]["message"].count("version ") == 2 and "driver" in ran.doc["error"]["hint"]


def test_a_profile_in_use_and_a_dead_browser_file(bare: Desk) -> None:
    """Somebody's browser on our profile is left alone and named; a file that speaks of a browser long gone is not believed."""
    profile = bare.home.path / "browser" / "profile"
    program = [sys.executable, "-c", "import sys; sys.stdin.read()", f"--user-data-dir={profile}"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as other:
        try:
            refused(bare, 16, "in use", str(other.pid))
            assert other.poll() is None and not_started(bare)
        finally:
            other.kill()
    dead = {"format": 1, "id": "0", "port": 9, "pid": other.pid, "started": "1", "driver": "none", "headless": True, "version": "1.0"}
    (bare.home.path / "browser" / "browser.json").write_text(json.dumps(dead))
    ran = bare.json("send", "hello at last")
    assert ran.code == 0 and len(bare.site.sends()) == 1, ran


def test_a_home_that_cannot_be_written(bare: Desk) -> None:
    bare.home.path.mkdir(mode=0o500)
    refused(bare, 19, "read-only")
    assert list(bare.home.path.iterdir()) == [] and not bare.copies()


def test_login_waits_for_a_person_and_quit_closes_its_own_chrome_alone(bare: Desk, desk: Desk) -> None:
    assert desk.run("send", "a Chrome that stays").code == 0
    bare.site.scenarios("signed-out")
    waiting = bare.start("login", "--json")
    until(lambda: "sign in by hand" in waiting.said(), "login to wait", 30)
    windows = until(bare.home.windows, "its window")
    assert len(windows) == 1 and windows[0]["url"].startswith(bare.site.url)
    assert not bare.home.drivers(), "no driver on a person's window"
    assert waiting.process.poll() is None
    bare.site.end("signed-out")
    ran = waiting.wait(15)
    assert ran.code == 0 and ran.doc["ok"], ran
    until(lambda: not bare.home.windows(), "the window to be closed")
    assert [one["text"] for one in bare.site.sends()] == ["a Chrome that stays"]

    assert bare.run("login", "--quit").code == 0
    assert not bare.home.chrome_lives() and desk.home.chrome_lives()
    again = bare.run("login", "--quit")
    assert again.code == 0 and "does not run" in again.err, again


@pytest.mark.skipif(shutil.which("openssl") is None, reason="--tls needs openssl")
def test_the_site_under_its_own_name(tmp_path: Path) -> None:
    """https://chatgpt.com, mapped to a practice site in a Chrome of its own home; every other name leads nowhere."""
    site = Site("--tls")
    home = Home(tmp_path, site)
    del home.env["ASKGPT_SITE"], home.env["ASKGPT_DISPATCH_GAP"]
    home.path.mkdir(mode=0o700)
    port = site.url.rpartition(":")[2]
    (home.path / "config.yaml").write_text(
        "browser_flags:\n"
        f"  - '--host-resolver-rules=MAP chatgpt.com 127.0.0.1:{port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'\n"
        "  - '--ignore-certificate-errors'\n")
    desk = Desk(home, tmp_path / "work")
    try:
        ran = desk.json("send", "hello by name")
        assert ran.code == 0 and ran.doc["answer"] == "You said:\n\n> hello by name", ran
        assert ran.doc["url"] == f"https://chatgpt.com/c/{ran.doc['conversation_id']}"
        read = desk.json("resume", ran.doc["url"])
        assert read.code == 0 and read.doc["answer"] == ran.doc["answer"], read
        desk.check()
    finally:
        home.quit()
        site.stop()


def test_the_program_from_any_folder(desk: Desk) -> None:
    """bin/ask-gpt becomes the command itself: the pid that was started is the front."""
    ran = subprocess.run([str(ROOT / "bin" / "ask-gpt"), "list", "--json"], cwd=desk.folder, env=desk.home.env, stdin=subprocess.DEVNULL,
                         capture_output=True, timeout=20, check=False)
    if ran.returncode == 20 and b"virtual environment" in ran.stderr:
        pytest.skip("this checkout has no .venv")
    assert ran.returncode == 0 and ran.stdout.startswith(b'{"schema":')


def test_nothing_of_the_persons_own_is_read_or_written(bare: Desk, tmp_path: Path) -> None:
    """SE-08: in a user's home folder a first send leaves nothing outside ASKGPT_HOME, and what lay there is not even opened."""
    person = tmp_path / "person"
    own = [person / ".config" / browser / "Default" / "Cookies" for browser in ("chromium", "google-chrome")]
    for file in own:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"a session of the person's own")
        os.utime(file, (1_000_000_000, 1_000_000_000))
    before = sorted(person.rglob("*"))
    others = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
    ran = bare.run("send", "hello", drop=others, HOME=str(person))
    assert ran.code == 0, ran
    bare.home.quit()
    assert sorted(person.rglob("*")) == before
    assert {file.stat().st_atime for file in own} == {1_000_000_000}
    assert (bare.home.path / "browser" / "crashes").is_dir(), "where Chrome's crash handler writes, measured here"
