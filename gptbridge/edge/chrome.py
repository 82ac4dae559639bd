"""Secret: how the suite's one Chrome is started, found again, used and closed.

Guarantees: one Chrome per home, which outlives the command that started it; attached only where the browser id that we wrote
answers and the process behind the port is ours and holds our profile (SE-10); a window per seat; drivers that end with their
command, killed or not, and never take Chrome with them. Touches processes, a loopback port and the home's `browser/` folder.
Fails with one `Failure("browser")` that says what is true: nothing was sent by anything here.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptbridge.core.errors import Failure
from gptbridge.edge import browser_files, processes
from gptbridge.edge.browser_files import Running
from gptbridge.edge.devtools import LOOPBACK, DevTools, Refused, version_of
from gptbridge.edge.leash import leashed

if TYPE_CHECKING:
    from gptbridge.edge.webdriver import Session

Write = Callable[[str, bytes], None]  # name below `browser/`, bytes: the home's atomic replace, 0600
Lock = Callable[[], AbstractContextManager[Any]]
Warn = Callable[[str], None]

# Quiet offline, and a window in the background works as fast as one in front (probes: throttling).
FLAGS = (
    "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
    # The address bar's popups are web pages of their own in every window: half of what a new window costs (Chromium 156, measured 2026-11).
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)
# Each of these would undo a promise of this module: who may attach, which profile, which sandbox.
FORBIDDEN_FLAGS = ("--remote-", "--user-data-dir", "--profile-directory", "--no-sandbox", "--disable-web-security", "--load-extension")
START_S = 40.0
DRIVER_S = 15.0  # it takes a tenth of a second; under great load two
QUIT_S = 10.0
AGAIN = "run: ask-gpt login --quit, then the command again"


@dataclass(frozen=True)
class BrowserSettings:
    """What a person may choose. `profile` is the home's `browser/profile`; `site` an origin; `flags` are added to ours."""

    browser: str | None
    driver: str | None
    headless: bool
    flags: tuple[str, ...]
    profile: Path
    site: str


class Chrome:
    """The running Chrome of one home. Made by `ensure` or `attach`; any number of processes may hold one at a time."""

    def __init__(self, folder: Path, profile: Path, running: Running, *, started: bool) -> None:
        self.folder = folder
        self.profile = profile
        self.running = running
        self.started = started  # whether this very call started it
        self.url = f"ws://{LOOPBACK}:{running.port}/devtools/browser/{running.id}"
        self._devtools: DevTools | None = None
        self._warm: subprocess.Popen[bytes] | None = None
        self._attaching: subprocess.Popen[bytes] | None = None
        self._drivers: dict[int, subprocess.Popen[bytes]] = {}

    # -- finding and starting

    @classmethod
    def ensure(cls, settings: BrowserSettings, folder: Path, *, lock_start: Lock, write: Write, warn: Warn) -> Chrome:
        """Attaches to the home's Chrome, or starts it, under the start lock. `folder` is the home's `browser/`."""
        with lock_start():
            found = cls.attach(settings, folder)
            return found or cls._start(settings, folder, write, warn)

    @classmethod
    def attach(cls, settings: BrowserSettings, folder: Path) -> Chrome | None:
        """The Chrome that this home started, if it runs and is proved ours; else None. Starts nothing, writes nothing."""
        running, _ = browser_files.read_id_file(folder)
        if running is None or not _ours(running, settings.profile):
            return None
        answer = version_of(running.port)
        if answer is None or answer["webSocketDebuggerUrl"].rpartition("/")[2] != running.id:
            return None
        return cls(folder, settings.profile, running, started=False)

    @classmethod
    def runs(cls, folder: Path) -> bool:
        """Whether the process of the Chrome that this home started is there, though it may not answer (any more, or yet)."""
        running, _ = browser_files.read_id_file(folder)
        return running is not None and _lives(running)

    @property
    def lives(self) -> bool:
        """Whether its process is there."""
        return _lives(self.running)

    @classmethod
    def _start(cls, settings: BrowserSettings, folder: Path, write: Write, warn: Warn) -> Chrome:
        browser = browser_files.find_browser(settings.browser)
        driver = browser_files.find_driver(settings.driver, browser)
        bad = [flag for flag in settings.flags if flag.lower().startswith(FORBIDDEN_FLAGS)]
        if bad:
            raise Failure("bad-config", f"browser_flags holds {bad[0].partition('=')[0]}, which the suite does not pass on. "
                          "Nothing was started.", "remove it from config.yaml")
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if sys.platform.startswith("linux") and not settings.headless and not display:
            raise Failure("browser", "There is no display (DISPLAY and WAYLAND_DISPLAY are empty) and headless is off. "
                          "Nothing was started.", "run it in a desktop session, or set ASKGPT_HEADLESS=1 (`headless: true`)")
        browser_files.check_profile(settings.profile)
        folder.chmod(0o700)
        _make_room(settings.profile, folder)
        if driver is None:
            version = browser_files.version_of(browser, "browser")
            warn(f"no chromedriver is installed beside {browser}; one for version {browser_files.major(version)} is fetched")
            name = f"chromedriver-{version}-fetched"
        else:
            version = browser_files.check_versions(browser, driver)
            name = browser_files.driver_name(driver, version)
        root = os.geteuid() == 0
        if root:
            warn("Chrome runs without its sandbox, because this is root; run as an ordinary user to have it")

        port = _free_port()
        # On disk before Chrome starts: a crash from here on leaves a browser that the next start knows as ours.
        _, before = browser_files.read_id_file(folder)
        write(browser_files.ID_FILE, browser_files.starting(port, before))
        pid = _run_starter({
            "folder": str(folder), "driver": name, "source": str(driver) if driver else None, "major": browser_files.major(version),
            "browser": str(browser), "profile": str(settings.profile), "port": port, "asker": os.getpid(),
            "headless": settings.headless, "no_sandbox": root,
            "flags": [*FLAGS, *settings.flags, *(["--no-sandbox"] if root else []), "about:blank"],
        }, (*before, port), had_driver=driver is not None)
        answer = version_of(port)
        pid = _browser_process(answer, pid)
        mark = processes.started(pid)
        if answer is None or mark is None:
            raise Failure("browser", "Chrome was started and ended again. Nothing was sent.",
                          f"try by hand: {browser} --user-data-dir={settings.profile}")
        running = Running(answer["webSocketDebuggerUrl"].rpartition("/")[2], port, pid, mark, name, settings.headless, version)
        if not _ours(running, settings.profile):
            raise Failure("browser", f"Another program answers on port {port}; it was not attached. Nothing was sent.",
                          "run the command again")
        write(browser_files.ID_FILE, running.to_bytes())
        return cls(folder, settings.profile, running, started=True)

    # -- windows

    @property
    def devtools(self) -> DevTools:
        """This process's own browser-level connection, opened when first needed."""
        if self._devtools is None or self._devtools.dropped:
            self._devtools = DevTools(self.url)
        return self._devtools

    def new_window(self, url: str = "about:blank") -> str:
        """A window of its own; its target id, by which any later process finds it."""
        answer = self.devtools.call("Target.createTarget", {"url": url, "newWindow": True, "width": 1280, "height": 900})
        return str(answer["targetId"])

    def close_window(self, target_id: str) -> bool:
        """Closes it; False when it was gone already. A request held in it must have been failed before (closing can release it)."""
        try:
            return bool(self.devtools.call("Target.closeTarget", {"targetId": target_id}).get("success", True))
        except Refused:
            return False

    def targets(self) -> list[dict[str, Any]]:
        """Every page, frame and worker: `targetId`, `type`, `url` ..."""
        return list(self.devtools.call("Target.getTargets")["targetInfos"])

    # -- drivers

    def warm_driver(self) -> None:
        """Starts the driver's process now, and Selenium's import beside it, so that both are ready when `driver` wants them."""
        if self._warm is None:
            self._warm = _run_driver(self.folder / self.running.driver)
            threading.Thread(target=importlib.import_module, args=("gptbridge.edge.webdriver",), daemon=True).start()

    def driver(self, target_id: str) -> Session:
        """A Selenium session on this window, with a driver of its own; it ends with `detach`.

        Page loads are not waited for (strategy "none"): the site never falls quiet; callers wait for what they need.
        """
        try:
            from gptbridge.edge import webdriver

            process, port = self._listening_driver(time.monotonic() + DRIVER_S)
            try:
                driver = webdriver.attached(port, f"{LOOPBACK}:{self.running.port}")
                self._drivers[id(driver)] = process
                driver.switch_to_window(target_id)
                return driver
            except BaseException as error:
                _end_driver(process)
                if not isinstance(error, Exception) or isinstance(error, Failure):
                    raise
                first = str(getattr(error, "msg", "") or type(error).__name__).splitlines()[0][:160]
                raise Failure("browser", f"The driver could not attach to Chrome ({first}).", AGAIN) from error
        finally:
            self._attaching = None

    def _listening_driver(self, until: float, *, successor: bool = True) -> tuple[subprocess.Popen[bytes], int]:
        """A driver and its port. One that ends before it listens has a successor, which is safe, as it has touched nothing: it takes a
        free port of IPv4, and ends when somebody has the same one of IPv6."""
        self.warm_driver()
        process, self._warm = self._warm, None
        assert process is not None
        self._attaching = process
        try:
            return process, _driver_port(process, until)
        except BaseException as error:
            _end_driver(process)
            if successor and isinstance(error, Failure):
                return self._listening_driver(until, successor=False)
            raise

    def give_up_driver(self) -> None:
        """Ends a driver that is still attaching, from another thread: to a Chrome that is gone it would try for a minute."""
        process = self._attaching
        if process is not None:
            _end_driver(process)

    def detach(self, driver: Session) -> None:
        """Ends the driver's process and nothing else."""
        driver.close()
        process = self._drivers.pop(id(driver), None)
        if process is not None:
            _end_driver(process)

    def close(self) -> None:
        """Lets go of Chrome: this process's connection and drivers. Chrome stays."""
        for process in [*self._drivers.values(), *([self._warm] if self._warm else [])]:
            _end_driver(process)
        self._drivers.clear()
        self._warm = None
        if self._devtools is not None:
            self._devtools.close()
            self._devtools = None

    # -- the end of Chrome

    def quit(self) -> None:
        """Closes Chrome with all its windows, and returns when its process is gone and the profile is free."""
        pid, mark = self.running.pid, self.running.started
        try:
            self.devtools.call("Browser.close", timeout=5)
        except Failure:
            pass  # a Chrome that answers no more is ended below
        self.close()
        for blow in (None, signal.SIGTERM, signal.SIGKILL):
            if blow is not None and processes.started(pid) == mark:
                os.kill(pid, blow)
            if _until(lambda: processes.started(pid) != mark, QUIT_S):
                break
        else:
            raise Failure("browser", f"Chrome (process {pid}) does not end.", f"kill -9 {pid}")
        if not _until(lambda: not browser_files.lock_is_there(self.profile), 1.0):
            browser_files.drop_stale_lock(self.profile)


def _lives(running: Running) -> bool:
    return processes.started(running.pid) == running.started


def _ours(running: Running, profile: Path) -> bool:
    """The recorded process still is that process, holds our profile, and is the one that listens on the port."""
    return (_lives(running) and processes.listens(running.pid, running.port)
            and f"--user-data-dir={profile}" in " ".join(processes.command_line(running.pid)))


def _make_room(profile: Path, folder: Path) -> None:
    """Settles who has the profile open: nobody, a lock left by a crash, an unfinished start of ours, or somebody else (refused)."""
    pid = browser_files.holder_of(profile)
    running, starting = browser_files.read_id_file(folder)
    if pid is not None and _starts_on(pid, starting):
        # We died between starting it and writing down its id. An id that we did not write is never attached to (SE-10).
        os.kill(pid, signal.SIGTERM)
        _until(lambda: browser_files.holder_of(profile) is None, QUIT_S)
        pid = browser_files.holder_of(profile)
    if pid is not None:
        whose = "our own Chrome, which answers no more" if running and running.pid == pid else "another browser"
        raise Failure("browser", f"The profile {profile} is in use by {whose} (process {pid}). Nothing was started.",
                      f"close it (kill {pid}), then run the command again")
    browser_files.drop_stale_lock(profile)


def _starts_on(pid: int, ports: Collection[int]) -> bool:
    """Whether that browser was started by us, on one of these ports."""
    line = f" {' '.join(processes.command_line(pid))} "
    return any(f" --remote-debugging-port={port} " in line for port in ports)


def _run_starter(order: dict[str, Any], ports: Collection[int], *, had_driver: bool) -> int:
    """The browser's process id. `ports`: of this start, and of those before it that never finished."""
    package = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
    starter = subprocess.Popen([sys.executable, "-m", "gptbridge.edge.browser_start"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, cwd="/", env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)
    try:
        said, _ = starter.communicate(json.dumps(order).encode(), timeout=START_S)
        answer = json.loads(said or b"{}")
    except (subprocess.TimeoutExpired, ValueError):
        answer = {"error": f"no answer within {START_S:g} s"}
    finally:
        if starter.poll() is None:
            starter.kill()
            starter.wait()
    if "pid" in answer:
        return int(answer["pid"])
    # What was started and cannot be used must not hold the profile.
    pid = browser_files.holder_of(Path(order["profile"]))
    if pid is not None and _starts_on(pid, ports):
        os.kill(pid, signal.SIGTERM)
    error = answer.get("error", "it ended without a word")
    copied = (Path(order["folder"]) / order["driver"]).exists()
    if not had_driver and not copied:
        raise Failure("browser", f"There is no chromedriver, and none could be fetched ({error}). Nothing was started.",
                      "install your browser's driver (Debian, Ubuntu: apt install chromium-driver), or name it as `driver` in config.yaml")
    raise Failure("browser", f"Chrome could not be started: {error}. Nothing was sent.",
                  f"try by hand: {order['browser']} --user-data-dir={order['profile']}")


def _browser_process(answer: dict[str, str] | None, guess: int) -> int:
    """The browser's own process id as it says it (a wrapper script may have started it); proved by `_ours` afterwards."""
    if answer is None:
        return guess
    devtools = DevTools(answer["webSocketDebuggerUrl"])
    try:
        infos = devtools.call("SystemInfo.getProcessInfo")["processInfo"]
        return next((int(info["id"]) for info in infos if info["type"] == "browser"), guess)
    except Failure:
        return guess
    finally:
        devtools.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _run_driver(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(leashed([str(path), "--port=0"]), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True)


def _driver_port(process: subprocess.Popen[bytes], until: float) -> int:
    """Bounded, by the monotonic clock: of a driver that dies, or hangs, before it says its port the next one may know more."""
    assert process.stdout is not None
    fd, said = process.stdout.fileno(), b""
    there = select.poll()
    there.register(fd, select.POLLIN)
    while (left := until - time.monotonic()) > 0 and there.poll(1000 * left) and (data := os.read(fd, 65536)):
        said += data
        if match := re.search(rb"started successfully on port (\d+)", said):
            return int(match[1])
    raise Failure("browser", "The driver ended before it was ready.", AGAIN, again=True)


def _end_driver(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
