"""A machine for flows: real files below a folder, a clock that only sleeping moves, a practice server in a thread, and workers on it.

Each `Worker` is a process as far as the flows can tell: descriptors and locks of its own (flock excludes them from each other), an owner
slot, a fake browser, a front that may leave. `Worker.dies` lets go of its locks as the kernel does for a killed process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gptbridge.core.brought import Brought
from gptbridge.core.ledger import Operation, View
from gptbridge.core.operation import NEW, Payload
from gptbridge.core.pacing import Gap
from gptbridge.core.ports import Settings, World
from gptbridge.core.result import Outcome, document
from gptbridge.core.transcript import Block, Log
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.disk import Disk
from gptbridge.edge.given_files import open_given
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.logs import LogFiles
from gptbridge.edge.owner import own
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.edge.saved_files import SavedFiles
from gptbridge.edge.spool import SpoolFolder
from gptbridge.edge.stamps import StampFile
from gptbridge.edge.strays import HomeStrays
from gptbridge.flow.collecting import of_conversation
from gptbridge.flow.custody import Custody
from gptbridge.flow.reading import ReadBack, read_back
from gptbridge.flow.reporting import note_told, outcome_of
from gptbridge.flow.submitting import submit
from gptbridge.practice.server import PracticeServer
from gptbridge.shell.wiring import HostClock
from tests.edge.crashing import Quick
from tests.fakes import FakeBrowser, FakeSeat, silent

ROOM = 1 << 40


class Time:
    """The machine's clocks, shared by all its processes. `at` acts when the clock reaches a moment, inside somebody's sleep."""

    def __init__(self) -> None:
        self.wall, self.boottime, self.boot_id = time.time(), 5_000.0, "boot-a"  # the site's own times are real ones
        self._due: list[tuple[float, Callable[[], None]]] = []

    def at(self, later: float, act: Callable[[], None]) -> None:
        self._due.append((self.boottime + later, act))
        self._due.sort(key=lambda due: due[0])

    def sleep(self, seconds: float) -> None:
        end = self.boottime + max(seconds, 1e-6)  # no clock stands still
        while self._due and self._due[0][0] <= end:
            moment, act = self._due.pop(0)
            self._move(max(moment - self.boottime, 0.0))
            act()
        self._move(max(end - self.boottime, 0.0))

    def _move(self, seconds: float) -> None:
        self.wall += seconds
        self.boottime += seconds

    def reboot(self) -> None:
        self.boottime, self.boot_id = 12.0, self.boot_id + "'"


class Machine(Host):
    """The real host but for its clocks, and its room where a test says so."""

    def __init__(self, clocks: Time, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.time, self.room = clocks, ROOM

    def wall(self) -> float:
        return self.time.wall

    def boottime(self) -> float:
        return self.time.boottime

    @property
    def boot_id(self) -> str:  # type: ignore[override]
        return self.time.boot_id

    def sleep(self, seconds: float) -> None:
        self.time.sleep(seconds)

    def free_bytes(self, place: str | int) -> int:
        return self.room


class Room:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def free_bytes(self) -> int:
        return self._machine.free_bytes("")

    def remove_stale_temps(self, now: float) -> int:
        return 0


class Front:
    """The Caller port. `says` acts on an event; `wish` and `left` are what the user does."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.wish: str | None = None
        self.left = False
        self.says: Callable[[Mapping[str, Any]], None] = lambda event: None

    def emit(self, event: Mapping[str, Any]) -> None:
        if not self.left:
            self.events.append(dict(event))
            self.says(event)

    def keeps_up(self) -> bool:
        return True

    def gone(self) -> bool:
        return self.left

    def wants(self) -> str | None:
        return self.wish

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


class Worker:
    """One process: its ports, and what a test asks of it."""

    def __init__(self, ground: Ground, *, disk: Disk | None = None, folder: str = "work", **settings: Any) -> None:
        self.ground, self.site = ground, ground.site
        self.machine = Machine(ground.time, {"ASKGPT_HOME": str(ground.path / "home")})
        clock = HostClock(self.machine)
        self.disk = disk or Quick()
        self.home = open_home(self.machine.env, host=self.machine, disk=self.disk)
        locks = self.home.locks
        assert locks is not None
        self.settings = replace(Settings(site=ground.url, gap=Gap(0.0)), **settings)
        locks.seats = self.settings.seats
        self.front = Front()
        self.browser = FakeBrowser(ground.url, clock, pause=ground.time.sleep, tell=self.happens)
        self.happened: list[str] = []
        self.on: dict[str, Callable[[], None]] = {}
        stamps = StampFile(self.home)
        work = ground.path / folder
        work.mkdir(exist_ok=True)
        copies = CopyFolder(self.disk, os.open(work, os.O_RDONLY | os.O_DIRECTORY), self.warn)
        self.warnings: list[str] = []
        ledger = LedgerFile(self.home, self.machine, site=ground.url, mark=stamps.mark, warn=self.warn)
        registry = RegistryFile(self.home, self.machine, warn=self.warn)
        self.world = World(clock, self.machine, own(locks), ledger, registry, stamps, SpoolFolder(self.home),
                           LogFiles(self.home, copies), HomeStrays(self.home), locks, Room(self.machine), self.browser, self.front,
                           self.settings, SavedFiles(copies, self.disk))
        self.custody = Custody(self.world)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def happens(self, what: str) -> None:
        self.happened.append(what)
        self.on.get(what, lambda: silent(what))()

    # What it does

    def send(self, prompt: str | None = "Hello", *, id: str | None = None, to: str = NEW, files: Sequence[Path] = (),
             model: str | None = None, effort: str | None = None, **options: Any) -> Operation:
        """The row when the command is done; `id` is made from the clock where none is given. `files` are opened now."""
        self.id = id or self.machine.ulid()
        op = submit(self.world, self.custody, self.id, Payload(prompt, to, model=model, effort=effort),
                    account=self.settings.account, folder=None, sources=[open_given(str(path)) for path in files], **options)
        self.on.get("end", lambda: None)()
        note_told(self.world, self.custody, self.id, told=not self.front.left)
        return self.view.get(self.id) or op

    def admit(self, prompt: str = "Hello", *, id: str | None = None, to: str = NEW, account: str | None = None) -> Operation:
        self.id = id or self.machine.ulid()
        return self.custody.admit(self.id, Payload(prompt, to), account=account, folder=None, again=True).operation

    def resume(self, conversation_id: str | None = None, *, operation: str | None = None) -> ReadBack:
        return read_back(self.world, self.custody, conversation_id=conversation_id, operation_id=operation)

    def download(self, conversation_id: str) -> list[Brought]:
        return of_conversation(self.world, self.custody, conversation_id).files

    def dies(self) -> None:
        """As SIGKILL: every descriptor is closed and nothing is tidied."""
        assert self.home.locks is not None
        self.home.locks.close_in_child()
        self.home.close()

    # What is there afterwards

    @property
    def view(self) -> View:
        return self.world.ledger.view()

    @property
    def op(self) -> Operation:
        return self.view.operations[self.id]

    @property
    def seat(self) -> FakeSeat:
        return self.browser.seats[-1]

    def log(self, name: str) -> Log:
        found = self.world.logs.read(name)
        assert found is not None, f"no log {name}"
        return found

    def turns(self, conversation_id: str) -> list[Block]:
        return [block for block in self.log(conversation_id).blocks if block.kind == "turn"]

    def document(self, op: Operation | None = None, *, command: str = "send", slug: str | None = None) -> dict[str, Any]:
        row = op or self.op
        outcome: Outcome = outcome_of(command, row, self.world.ledger, self.world.logs, self.world.registry, slug=slug)
        return document(outcome, site=self.ground.url)

    def files(self, folder: str = "home") -> list[str]:
        base = self.ground.path / folder
        return sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.is_file() and p.relative_to(base).parts[0] != "locks")


class Ground:
    """A folder, a clock and a practice site; makes the workers and takes them down."""

    def __init__(self, path: Path, site: PracticeServer) -> None:
        self.path, self.site, self.url, self.time = path, site, site.url, Time()
        self.workers: list[Worker] = []
        self.by_hand: list[str] = []  # message ids

    def worker(self, **options: Any) -> Worker:
        made = Worker(self, **options)
        self.workers.append(made)
        return made

    def on(self, scenario: str, **parameters: Any) -> None:
        self.site.world.switches.start(scenario, parameters)

    def off(self, scenario: str) -> None:
        self.site.world.switches.end(scenario)

    def person(self, text: str, to: str | None = None) -> str:
        """Somebody sends by hand, in a window of their own; the message id. `to`: the conversation, else a new one."""
        _, seat = FakeBrowser(self.url, HostClock(Machine(self.time, {}))).seat(0)
        seat.gate.arm()
        seat.page.open(to)
        seat.page.type(text)
        seat.gate.open_once()
        seat.page.press()
        held = seat.gate.wait(0.0)
        assert held is not None and seat.gate.release(held)
        while seat.gate.reply_ended is None:
            seat.gate.reply(0.02)
        self.by_hand.append(held.user_message_ids[0])
        return self.by_hand[-1]

    @property
    def sends(self) -> list[dict[str, Any]]:
        return list(self.site.world.state()["sends"])

    @property
    def clicks(self) -> int:
        return sum(worker.browser.clicks for worker in self.workers)

    def copy(self, name: str, folder: str = "work") -> bytes:
        return (self.path / folder / "ask-gpt" / f"{name}.log").read_bytes()

    def canonical(self, name: str) -> bytes:
        return (self.path / "home" / "logs" / f"{name}.log").read_bytes()

    def ledger_lines(self) -> list[str]:
        return (self.path / "home" / "ledger.jsonl").read_text().splitlines()
