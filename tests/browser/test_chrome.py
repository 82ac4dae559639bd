"""The suite's one Chrome: started, found again, proved ours, closed; and one clear message for each thing that can be wrong."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.common.exceptions import WebDriverException

from gptbridge.core.errors import Failure
from gptbridge.edge import browser_files, processes
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.host import Host
from gptbridge.edge.seats import ChromeBrowser, blank
from gptbridge.edge.webdriver import Session
from gptbridge.shell.wiring import HostClock
from tests.browser.toy import free_port, running, settings, start, until, writer

ROOT = str(Path(__file__).resolve().parents[2])
browser = pytest.mark.browser


def refusal(folder: Path, **other: object) -> Failure:
    with pytest.raises(Failure) as failure:
        start(folder, **other)
    assert not (folder / "browser.json").exists(), "nothing was started"
    return failure.value


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


# -- a running Chrome


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chrome") / "browser"


@pytest.fixture(scope="module")
def chrome(folder: Path) -> Iterator[Chrome]:
    with running(folder) as started:
        yield started


@browser
def test_a_command_starts_it_and_leaves_no_pipe_behind(tmp_path: Path) -> None:
    """`ask-gpt ... | cat` must end when the command ends, while Chrome lives on, in another session than the terminal's."""
    folder = tmp_path / "browser"
    code = ("from pathlib import Path; import sys; from tests.browser.toy import start; c = start(Path(sys.argv[1])); "
            "print(c.started, c.running.pid); c.close()")
    began = time.monotonic()
    told = subprocess.run(f'"{sys.executable}" -c "{code}" "{folder}" | cat', shell=True, cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=True)
    assert told.stdout.split()[0] == "True" and time.monotonic() - began < 50
    chrome = start(folder)
    try:
        assert not chrome.started
        assert chrome.running.pid == int(told.stdout.split()[1])
        assert os.getsid(chrome.running.pid) != os.getsid(0)
        assert {os.readlink(f"/proc/{chrome.running.pid}/fd/{number}") for number in range(3)} == {"/dev/null"}
    finally:
        chrome.quit()
    assert processes.started(chrome.running.pid) is None
    assert not browser_files.lock_is_there(folder / "profile")
    assert Chrome.attach(settings(folder), folder) is None


@browser
def test_how_it_was_started(chrome: Chrome, folder: Path) -> None:
    words = processes.command_line(chrome.running.pid)
    for flag in ("--disable-quic", "--disable-sync", "--disable-renderer-backgrounding", "--headless=new"):
        assert flag in words
    assert f"--user-data-dir={folder}/profile" in words
    assert not any("remote-allow-origins" in word for word in words)
    if os.geteuid() != 0:
        assert "--no-sandbox" not in words
    assert stat.S_IMODE((folder / "profile").stat().st_mode) == 0o700
    keys = {"format", "id", "port", "pid", "started", "driver", "headless", "version"}
    assert set(json.loads((folder / "browser.json").read_text())) == keys
    assert listeners(chrome.running.port) == ["0100007F"], "on loopback alone"


def listeners(port: int) -> list[str]:
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


def value(session: Session, expression: str) -> object:
    return session.execute_async_script(f"arguments[arguments.length - 1]({expression})")


@browser
def test_windows_and_drivers(chrome: Chrome) -> None:
    first, second = chrome.new_window(), chrome.new_window()
    chrome.warm_driver()
    driver = chrome.driver(first)
    driver.execute_cdp_cmd("Page.navigate", {"url": "data:text/html,<p id=a>one</p>"})
    until(lambda: value(driver, "document.body && document.body.innerText") == "one", "the page")
    assert driver.execute_cdp_cmd("Target.getTargetInfo", {})["targetInfo"]["targetId"] == first
    assert value(driver, "navigator.webdriver") is False
    other = chrome.driver(second)
    assert value(other, "location.href") == "about:blank"
    chrome.detach(other)
    assert value(driver, "document.getElementById('a').id") == "a"
    with pytest.raises(WebDriverException, match="is not defined"):
        value(driver, "nothing.of.that.name")
    chrome.detach(driver)
    assert {first, second} <= {target["targetId"] for target in chrome.targets()}
    assert chrome.close_window(first) and chrome.close_window(second)
    until(lambda: not {first, second} & {target["targetId"] for target in chrome.targets()}, "the windows to go")
    assert chrome.close_window(first) is False


@browser
@pytest.mark.parametrize("times", [1, 2])
def test_a_driver_that_ends_before_it_listens_has_one_successor(chrome: Chrome, folder: Path, times: int) -> None:
    """Its port of IPv6 was taken: it says so and ends."""
    driver, tries = folder / chrome.running.driver, folder / f"tries-{times}"
    real = driver.rename(folder / "the-real-driver")
    driver.write_text(f'#!/bin/sh\necho >>"{tries}"\n[ $(wc -l <"{tries}") -gt {times} ] && exec "{real}" "$@"\n'
                      'echo "IPv6 port not available. Exiting..."\nexit 1\n')
    driver.chmod(0o755)
    window = chrome.new_window()
    try:
        if times == 1:
            chrome.detach(chrome.driver(window))
        else:
            with pytest.raises(Failure) as caught:
                chrome.driver(window)
            assert caught.value.slug == "browser" and caught.value.again
        assert len(tries.read_text().splitlines()) == 2
    finally:
        real.replace(driver)
        assert chrome.close_window(window)


@browser
def test_a_killed_command_takes_its_driver_along_and_not_chrome(chrome: Chrome, folder: Path) -> None:
    code = ("from pathlib import Path; import sys; from tests.browser.toy import start; c = start(Path(sys.argv[1])); "
            "w = c.new_window(); d = c.driver(w); print(w, flush=True); sys.stdin.read()")
    command = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    assert command.stdout is not None and command.stdin is not None
    window = command.stdout.readline().strip()
    driver = str(folder / chrome.running.driver)
    assert processes.having_argument(driver)
    command.kill()
    command.wait()
    command.stdin.close()
    command.stdout.close()
    until(lambda: not processes.having_argument(driver), "the driver to end")
    assert chrome.close_window(window)


@browser
def test_attach_is_quick_and_runs_no_program(chrome: Chrome, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    began = time.monotonic()
    again = start(folder)
    assert not again.started and again.running == chrome.running
    assert time.monotonic() - began < 1
    again.close()


@browser
def test_profile_of_a_live_chrome_without_its_id_file(chrome: Chrome, folder: Path) -> None:
    kept = (folder / "browser.json").read_bytes()
    (folder / "browser.json").unlink()
    try:
        failure = refusal(folder)
    finally:
        writer(folder)("browser.json", kept)
    assert failure.slug == "browser"
    assert "in use by another browser" in failure.message and str(chrome.running.pid) in failure.message


@browser
@pytest.mark.parametrize("change", [{"id": "00000000-0000-0000-0000-000000000000"}, {"started": "1"}, {"pid": os.getpid()}, {"format": 2}])
def test_an_id_file_that_does_not_fit_is_not_believed(chrome: Chrome, folder: Path, change: dict[str, object]) -> None:
    kept = (folder / "browser.json").read_bytes()
    writer(folder)("browser.json", json.dumps({**json.loads(kept), **change}).encode())
    try:
        assert Chrome.attach(settings(folder), folder) is None
    finally:
        writer(folder)("browser.json", kept)
    assert Chrome.attach(settings(folder), folder) is not None


@browser
def test_a_crash_is_followed_by_a_new_start(tmp_path: Path) -> None:
    """SIGKILL leaves the profile's lock and a dead port file; a start that never wrote its id leaves a browser of ours."""
    folder = tmp_path / "browser"
    first = start(folder)
    os.kill(first.running.pid, signal.SIGKILL)
    until(lambda: processes.started(first.running.pid) is None, "the kill")
    assert not first.lives and not Chrome.runs(folder)
    assert browser_files.lock_is_there(folder / "profile")
    second = start(folder)
    try:
        assert second.started and second.running.id != first.running.id and second.lives and Chrome.runs(folder)
        # Its browser came up late: another start was under way by then, which was not finished either.
        writer(folder)("browser.json", browser_files.starting(free_port(), (second.running.port,)))
        third = start(folder)
    except BaseException:
        second.quit()
        raise
    try:
        assert third.started and processes.started(second.running.pid) is None
    finally:
        third.quit()


@browser
def test_a_foreign_server_on_our_port_is_not_attached(tmp_path: Path) -> None:
    """SE-10: another program that answers like Chrome, under the very id that the file names."""
    folder = tmp_path / "browser"
    folder.mkdir()
    asked: list[str] = []

    class Impostor(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps({"Browser": "Chrome/156", "webSocketDebuggerUrl": f"ws://127.0.0.1:{port}/devtools/browser/abc"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Impostor) as server:
        port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mark = processes.started(os.getpid())
        assert mark is not None
        writer(folder)("browser.json", browser_files.Running("abc", port, os.getpid(), mark, "chromedriver", True, "156.0").to_bytes())
        assert Chrome.attach(settings(folder), folder) is None
        assert asked == []
        server.shutdown()


# -- what can be wrong before anything starts


def test_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = refusal(tmp_path / "browser", browser="/nonexistent/chrome")
    assert failure.slug == "browser" and "/nonexistent/chrome" in failure.message and failure.hint
    monkeypatch.setenv("PATH", str(tmp_path))
    failure = refusal(tmp_path / "browser")
    assert failure.slug == "browser" and "No Chrome or Chromium was found" in failure.message


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lone = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    failure = refusal(tmp_path / "browser", browser=str(lone), driver="/nonexistent/driver")
    assert failure.slug == "browser" and "/nonexistent/driver" in failure.message


def test_no_driver_and_none_to_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lone = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    # `findmnt` and the like are not needed; only chromedriver must be out of reach. The proxy is a closed port: nothing goes out.
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    warnings: list[str] = []
    with pytest.raises(Failure) as failure:
        start(tmp_path / "browser", warnings, browser=str(lone))
    assert failure.value.slug == "browser" and "no chromedriver" in failure.value.message and "fetched" in failure.value.message
    assert "is fetched" in warnings[0]


def test_versions_that_do_not_fit(tmp_path: Path) -> None:
    chrome = program(tmp_path / "bin" / "chrome", "Google Chrome 157.0.1.2 ")
    program(tmp_path / "bin" / "chromedriver", "ChromeDriver 156.0.8078.108 (abc)")
    failure = refusal(tmp_path / "browser", browser=str(chrome))
    assert failure.slug == "browser" and "156" in failure.message and "157" in failure.message


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays are named by the environment on Linux alone")
def test_no_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chrome = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    failure = refusal(tmp_path / "browser", browser=str(chrome), headless=False)
    assert failure.slug == "browser" and "no display" in failure.message and "ASKGPT_HEADLESS" in failure.hint


@pytest.mark.parametrize("place", ["Default", "x/default", "~/.config/chromium", "~/.config/google-chrome/Profile 1", "link"])
def test_a_profile_of_the_persons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    chrome = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    program(tmp_path / "bin" / "chromedriver", "ChromeDriver 156.0.1.2")
    (tmp_path / "home" / ".config" / "chromium").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home" / ".config" / "chromium")
    profile = Path(os.path.expanduser(place)) if place.startswith("~") else tmp_path / place
    failure = refusal(tmp_path / "browser", browser=str(chrome), profile=profile)
    assert failure.slug == "browser" and "profile of your own" in failure.message
    assert not (profile / "SingletonLock").exists()


@pytest.mark.parametrize("flag", ["--remote-allow-origins=*", "--user-data-dir=/tmp/x", "--no-sandbox"])
def test_flags_that_would_undo_a_promise(tmp_path: Path, flag: str) -> None:
    chrome = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    failure = refusal(tmp_path / "browser", browser=str(chrome), flags=("--lang=de", flag))
    assert failure.slug == "bad-config" and flag.partition("=")[0] in failure.message


def test_profile_locks(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.mkdir()
    lock = profile / "SingletonLock"
    assert browser_files.holder_of(profile) is None
    foreign = subprocess.Popen([shutil.copy("/bin/sleep", tmp_path / "chromium"), "60"])
    try:
        lock.symlink_to(f"{socket.gethostname()}-{foreign.pid}")
        assert browser_files.holder_of(profile) == foreign.pid
    finally:
        foreign.kill()
        foreign.wait()
    assert browser_files.holder_of(profile) is None, "its process is gone"
    lock.unlink()
    lock.symlink_to(f"{socket.gethostname()}-{os.getpid()}")
    assert browser_files.holder_of(profile) is None, "the number belongs to another program now"
    lock.unlink()
    lock.symlink_to(f"another-host-name-{os.getpid()}")
    assert browser_files.holder_of(profile) is None
    browser_files.drop_stale_lock(profile)
    assert not browser_files.lock_is_there(profile)


@browser
def test_a_killed_starter_takes_its_driver_along(tmp_path: Path) -> None:
    """Whoever kills all processes of a command that starts Chrome kills this one too."""
    driver = browser_files.find_driver(None, browser_files.find_browser(None))
    assert driver is not None
    chrome = tmp_path / "chrome"
    chrome.write_text("#!/bin/sh\nexec sleep 50\n")
    chrome.chmod(0o755)
    order = {"folder": str(tmp_path), "driver": "copy", "source": str(driver), "major": 156, "browser": str(chrome), "headless": True,
             "profile": str(tmp_path / "profile"), "port": free_port(), "asker": os.getpid(), "no_sandbox": False, "flags": []}
    starter = subprocess.Popen([sys.executable, "-m", "gptbridge.edge.browser_start"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               cwd=ROOT, start_new_session=True, text=True)
    assert starter.stdin is not None and starter.stdout is not None
    starter.stdin.write(json.dumps(order))
    starter.stdin.close()
    copy = str(tmp_path / "copy")
    until(lambda: any(processes.started(pid) for pid in processes.having_argument(copy)), "the driver to begin")
    starter.kill()
    starter.wait()
    starter.stdout.close()
    until(lambda: not processes.having_argument(copy), "the driver to end")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(starter.pid, signal.SIGKILL)  # the browser


@pytest.mark.parametrize("without", [False, True])
def test_the_sandbox_goes_only_when_told(tmp_path: Path, without: bool) -> None:
    """undetected-chromedriver 3.5.5 adds --no-sandbox whatever its own argument says; the starter drops it again."""
    chrome = tmp_path / "chrome"
    chrome.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n')
    chrome.chmod(0o755)
    driver = program(tmp_path / "chromedriver", "ChromeDriver 156.0.1.2")
    order = {"folder": str(tmp_path), "driver": "copy", "source": str(driver), "major": 156, "browser": str(chrome), "headless": True,
             "profile": str(tmp_path / "profile"), "port": free_port(), "asker": os.getpid(), "no_sandbox": without,
             "flags": ["--disable-quic", *(["--no-sandbox"] if without else [])]}
    said = subprocess.run([sys.executable, "-m", "gptbridge.edge.browser_start"], input=json.dumps(order), cwd=ROOT, capture_output=True,
                          text=True, timeout=50, check=True)
    assert "ended at once" in json.loads(said.stdout)["error"]
    arguments = (tmp_path / "arguments").read_text().split()
    assert ("--no-sandbox" in arguments) is without
    assert "--disable-quic" in arguments and not any("allow-origins" in argument for argument in arguments)


def test_a_starter_that_nobody_waits_for_starts_no_browser(tmp_path: Path) -> None:
    """Its command was killed: the next one may be starting a browser by now, and two cannot have the profile."""
    chrome = tmp_path / "chrome"
    chrome.write_text(f"#!/bin/sh\n: > {tmp_path}/began\n")
    chrome.chmod(0o755)
    driver = program(tmp_path / "chromedriver", "ChromeDriver 156.0.1.2")
    order = {"folder": str(tmp_path), "driver": "copy", "source": str(driver), "major": 156, "browser": str(chrome), "headless": True,
             "profile": str(tmp_path / "profile"), "port": free_port(), "asker": 1, "no_sandbox": False, "flags": []}
    said = subprocess.run([sys.executable, "-m", "gptbridge.edge.browser_start"], input=json.dumps(order), cwd=ROOT, capture_output=True,
                          text=True, timeout=50, check=True)
    assert "is gone" in json.loads(said.stdout)["error"] and not (tmp_path / "began").exists()


def test_a_browser_that_ends_at_once(tmp_path: Path) -> None:
    chrome = program(tmp_path / "bin" / "chrome", "Chromium 156.0.1.2")
    program(tmp_path / "bin" / "chromedriver", "ChromeDriver 156.0.1.2")
    began = time.monotonic()
    with pytest.raises(Failure) as failure:
        start(tmp_path / "browser", browser=str(chrome))
    assert failure.value.slug == "browser" and "ended at once" in failure.value.message
    assert time.monotonic() - began < 20
    with contextlib.suppress(FileNotFoundError):
        assert "starting" in json.loads((tmp_path / "browser" / "browser.json").read_text())


@browser
def test_a_window_that_was_not_noted_is_closed_by_whoever_holds_its_seat(chrome: Chrome) -> None:
    """A command was killed as soon as it had made it."""
    def browser(attached: Chrome | None) -> ChromeBrowser:
        return ChromeBrowser(lambda: chrome, lambda: attached, "http://127.0.0.1:9", HostClock(Host({})))

    def left() -> list[str]:
        return [window for window in made if window in {target["targetId"] for target in chrome.targets()}]

    first, seat = browser(None).seat(0)
    made = [first, *(chrome.new_window(url) for url in (blank(1), blank(2), blank(11), "about:blank"))]
    browser(None).bury_blank([0, 1, 2])  # as far as it knows no Chrome runs
    assert left() == made
    browser(chrome).bury_blank([0, 2])
    until(lambda: left() == [made[1], *made[3:]], "those two to go")
    seat.close()
    for window in left():
        chrome.close_window(window)


@browser
def test_a_chrome_that_dies_while_the_driver_attaches(tmp_path: Path) -> None:
    """A driver would try for a minute to reach it, and hold up the command's end."""
    chrome = start(tmp_path / "browser")
    browser = ChromeBrowser(lambda: chrome, lambda: None, "http://127.0.0.1:9", HostClock(Host({})))
    _, seat = browser.seat(0)
    os.kill(chrome.running.pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(Failure) as failure:
        seat.gate.arm()
    assert failure.value.slug == "site-changed"
    seat.close()
    assert time.monotonic() - began < 25
    browser.leave(quit_started=False)
    assert not processes.having_argument(str(tmp_path / "browser" / chrome.running.driver))


def test_a_window_is_buried_or_gone_or_it_is_said(tmp_path: Path) -> None:
    """GT-18: a Chrome that runs and does not answer may still hold it."""
    for runs in (True, False):
        browser = ChromeBrowser(lambda: pytest.fail("nothing is started"), lambda: None, "http://127.0.0.1:9", HostClock(Host({})),
                                runs=lambda runs=runs: runs)  # type: ignore[misc]
        if runs:
            with pytest.raises(Failure) as failure:
                browser.bury("window")
            assert failure.value.slug == "browser" and failure.value.again
        else:
            browser.bury("window")


@browser
def test_a_browser_that_ends_at_once_leaves_no_driver(tmp_path: Path) -> None:
    """The driver that was to start it has nobody else who would end it."""
    driver = browser_files.find_driver(None, browser_files.find_browser(None))
    assert driver is not None
    version = browser_files.version_of(driver, "driver")
    chrome = program(tmp_path / "bin" / "chrome", f"Chromium {version}")
    with pytest.raises(Failure) as failure:
        start(tmp_path / "browser", browser=str(chrome), driver=str(driver))
    assert "ended at once" in failure.value.message
    copies = [path for path in (tmp_path / "browser").iterdir() if path.name.startswith("chromedriver")]
    assert len(copies) == 1
    until(lambda: not processes.having_argument(str(copies[0])), "the driver to end")
