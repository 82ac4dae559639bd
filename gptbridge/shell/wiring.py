"""The one place that knows which edge stands behind which port."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gptbridge.core.pacing import Now
from gptbridge.core.ports import Browser, Caller, Seat, Settings, World
from gptbridge.edge.config import Config
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.files import remove_stale_temps, replace
from gptbridge.edge.home import Home, open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.locks import Locks
from gptbridge.edge.logs import LogFiles
from gptbridge.edge.owner import own
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.edge.reports import ReportFolder
from gptbridge.edge.saved_files import SavedFiles
from gptbridge.edge.spool import SpoolFolder
from gptbridge.edge.stamps import StampFile
from gptbridge.edge.strays import HomeStrays

Warn = Callable[[str], None]
OpenBrowser = Callable[[Config, Home, "HostClock", Warn], Browser]


class HostClock:
    """The Clock port on the real machine."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now(self) -> Now:
        return Now(self._host.wall(), self._host.boottime(), self._host.boot_id)

    def sleep(self, seconds: float) -> None:
        self._host.sleep(seconds)


class Nobody:
    """The Caller of a process that waits for nothing."""

    def keeps_up(self) -> bool:
        return True

    def emit(self, event: Mapping[str, Any]) -> None: ...

    def gone(self) -> bool:
        return False

    def wants(self) -> str | None:
        return None


class NoBrowser:
    """The Browser of a process that may not open one."""

    def seat(self, number: int) -> tuple[str, Seat]:
        raise AssertionError("this command opens no browser")

    def bury(self, window: str) -> None: ...
    def bury_blank(self, seats: Sequence[int]) -> None: ...


class Room:
    """The Host port: room where the home lies, free and to be freed."""

    def __init__(self, host: Host, home: Home) -> None:
        self._host, self._home = host, home

    def free_bytes(self) -> int:
        return self._host.free_bytes(self._home.need())

    def remove_stale_temps(self, now: float) -> int:
        places = [self._home.need(), *(self._home.need(name) for name in ("logs", "spool", "reports", "browser"))]
        return sum(remove_stale_temps(self._home.disk, place, now=now) for place in places)


@dataclass(slots=True)
class Files:
    """What a reader needs: ledger, registry, logs of a home that may not exist."""

    home: Home
    ledger: LedgerFile
    registry: RegistryFile
    logs: LogFiles
    spool: SpoolFolder


def files(env: Mapping[str, str], *, create: bool = False, copies: CopyFolder | None = None, warn: Warn = lambda text: None) -> Files:
    """For reading commands and the front. With `create=False` nothing is made and nothing is changed."""
    host = Host(env)
    home = open_home(env, create=create, host=host)
    ledger = LedgerFile(home, host, mark=StampFile(home).mark, warn=warn)
    return Files(home, ledger, RegistryFile(home, host), LogFiles(home, copies), SpoolFolder(home))


def world(env: Mapping[str, str], config: Config, caller: Caller, copies: CopyFolder | None, *, purpose: str,
          open_browser: OpenBrowser | None = None) -> World:
    """Everything a worker acts through; takes this process's owner slot for its whole life."""
    host = Host(env)
    clock = HostClock(host)

    def warn(text: str) -> None:
        caller.emit({"type": "warning", "message": text})

    home = open_home(env, create=True, host=host)
    assert home.locks is not None
    home.locks.purpose, home.locks.seats = purpose, config.settings.seats
    owner = own(home.locks)
    home.locks.on_wait = Waiting(caller)
    stamps = StampFile(home)
    ledger = LedgerFile(home, host, site=config.settings.site, mark=stamps.mark, warn=warn)
    browser = (open_browser or chrome_browser)(config, home, clock, warn)
    logs = LogFiles(home, copies if config.settings.copies else None)
    return World(clock, host, owner, ledger, RegistryFile(home, host, warn=warn), stamps, SpoolFolder(home), logs, HomeStrays(home),
                 home.locks, Room(host, home), browser, caller, config.settings, None if copies is None else SavedFiles(copies, home.disk),
                 ReportFolder(home, host))


def leave_browser(w: World, *, only_read: bool) -> None:
    """A Chrome that was started only to read is closed, unless somebody else works in it: while every seat is held here, nobody does."""
    leave = getattr(w.browser, "leave", None)
    if leave is not None:
        with w.locks.dead_seats() as free:
            leave(quit_started=only_read and len(free) == w.settings.seats)


def desk(env: Mapping[str, str], *, purpose: str) -> tuple[World, LedgerFile]:
    """What a person's decision about operations takes: an owner slot and the ledger, for writing. No browser, no config: the home's own
    site is taken as it stands. Its owner slot is this process's until it ends."""
    host = Host(env)
    home = open_home(env, create=True, host=host)
    assert home.locks is not None
    home.locks.purpose = purpose
    owner = own(home.locks)
    stamps = StampFile(home)
    ledger = LedgerFile(home, host, mark=stamps.mark)
    return World(HostClock(host), host, owner, ledger, RegistryFile(home, host), stamps, SpoolFolder(home), LogFiles(home),
                 HomeStrays(home), home.locks, Room(host, home), NoBrowser(), Nobody(), Settings()), ledger


class Waiting:
    """Says once for each lock who holds it, when a wait has lasted a second."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._said: set[str] = set()

    def __call__(self, lock: str, holder: object, waited: float) -> None:
        if waited >= 1.0 and lock not in self._said:
            self._said.add(lock)
            self._caller.emit({"type": "waiting", "message": f"waiting for {lock}, held by {holder}"})


def chrome_browser(config: Config, home: Home, clock: HostClock, warn: Warn) -> Browser:
    from gptbridge.edge.chrome import Chrome
    from gptbridge.edge.seats import ChromeBrowser

    settings, folder = browser_settings(config, home)
    assert isinstance(home.locks, Locks)
    start = home.locks.lock("chrome")

    def lock_start() -> AbstractContextManager[object]:
        return start.hold(90.0)

    def write(name: str, data: bytes) -> None:
        replace(home.disk, home.need("browser"), name, data)

    return ChromeBrowser(lambda: Chrome.ensure(settings, folder, lock_start=lock_start, write=write, warn=warn),
                         lambda: Chrome.attach(settings, folder), config.settings.site, clock, runs=lambda: Chrome.runs(folder))


def browser_settings(config: Config, home: Home):  # type: ignore[no-untyped-def]
    """(BrowserSettings, the home's `browser/` as a path)."""
    from gptbridge.edge.chrome import BrowserSettings

    folder = Path(home.shown("browser"))
    return BrowserSettings(config.browser, config.driver, config.headless, config.browser_flags, folder / "profile",
                           config.settings.site), folder
