"""A process on the shared home, as far as the flows can tell: own descriptors, own locks, own owner slot; and what makes it defective.

`Parts` names what stands where in it, so that a seeded defect is a part of the test tree and never an edit of the product.
"""

from __future__ import annotations

import os
import random
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gptbridge.core.ledger import Operation, View
from gptbridge.core.operation import NEW, Payload
from gptbridge.core.pacing import Gap
from gptbridge.core.ports import Settings, World
from gptbridge.core.transcript import Block
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.disk import Disk
from gptbridge.edge.given_files import open_given
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.logs import LogFiles
from gptbridge.edge.owner import own
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.edge.spool import SpoolFolder
from gptbridge.edge.stamps import StampFile
from gptbridge.edge.strays import HomeStrays
from gptbridge.flow import reading, submitting, upkeep
from gptbridge.flow.custody import Custody
from gptbridge.flow.reading import ReadBack
from gptbridge.flow.reporting import note_told
from gptbridge.flow.sending import Sending
from gptbridge.shell.wiring import HostClock
from tests.crash.harness_site import MemoryBrowser, Site
from tests.edge.crashing import Quick

SITE = "http://127.0.0.1:1"
START = 1_900_000_000.0


class Time:
    """The machine's clocks, which only sleeping moves."""

    def __init__(self, wall: float = START, boottime: float = 5_000.0, boot_id: str = "boot-a") -> None:
        self.wall, self.boottime, self.boot_id = wall, boottime, boot_id

    def sleep(self, seconds: float) -> None:
        self.wall += max(seconds, 1e-6)
        self.boottime += max(seconds, 1e-6)

    def reboot(self) -> None:
        self.boottime, self.boot_id = 12.0, self.boot_id + "'"

    def copy(self) -> Time:
        return Time(self.wall, self.boottime, self.boot_id)


class Machine(Host):
    """Clocks and random bytes of the test's own; `number` tells the processes of one run apart."""

    def __init__(self, time: Time, env: Mapping[str, str], number: int) -> None:
        super().__init__(env)
        self.time, self._random = time, random.Random(number)

    def wall(self) -> float:
        return self.time.wall

    def boottime(self) -> float:
        return self.time.boottime

    @property
    def boot_id(self) -> str:  # type: ignore[override]
        return self.time.boot_id

    def sleep(self, seconds: float) -> None:
        self.time.sleep(seconds)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Roomy:
    def free_bytes(self) -> int:
        return 1 << 40

    def remove_stale_temps(self, now: float) -> int:
        return 0  # these clocks are not the disk's


class Silent:
    """The Caller port of one who waits and says nothing."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.wish: str | None = None
        self.left = False

    def emit(self, event: Mapping[str, Any]) -> None:
        self.events.append(dict(event))

    def keeps_up(self) -> bool:
        return True

    def gone(self) -> bool:
        return self.left

    def wants(self) -> str | None:
        return self.wish


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands where; `disk` wraps the disk that the process is given."""

    name: str = "the product"
    custody: type[Custody] = Custody
    sending: type[Sending] = Sending
    ledger: type[LedgerFile] = LedgerFile
    stamps: type[StampFile] = StampFile
    disk: Callable[[Disk], Disk] = lambda disk: disk


def rebound(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """A copy of a function that sees other things under these names of its module."""
    assert isinstance(function, types.FunctionType)
    copy = types.FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class Process:
    """`say` is told what was acknowledged: ("acked", number), ("logged", name, size), ("registered", id)."""

    def __init__(self, path: Path, site: Site, time: Time, number: int, *, disk: Disk | None = None, parts: Parts | None = None,
                 host: Host | None = None, browser: Any = None, site_url: str = SITE, **settings: Any) -> None:
        self.parts = parts or Parts()
        self.path, self.site, self.time = path, site, time
        self.host = host or Machine(time, {"ASKGPT_HOME": str(path / "home")}, number)
        self.clock = HostClock(self.host)
        self.disk = self.parts.disk(disk or Quick())
        self.home = open_home(self.host.env, host=self.host, disk=self.disk)
        assert self.home.locks is not None
        self.settings = replace(Settings(site=site_url, gap=Gap(0.0), queue_wait=30.0, wait=30.0, give_up=600.0), **settings)
        self.caller = Silent()
        self.browser = browser or MemoryBrowser(site, self.clock)
        self.say: Callable[..., None] = lambda *said: None
        self.warnings: list[str] = []
        work = path / "work"
        work.mkdir(exist_ok=True)
        self.cwd = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        self.copies = CopyFolder(self.disk, self.cwd, self.warnings.append)
        stamps = self.parts.stamps(self.home)
        ledger = self.parts.ledger(self.home, self.host, site=site_url, mark=stamps.mark, warn=self.warnings.append)
        registry, logs = RegistryFile(self.home, self.host), LogFiles(self.home, self.copies)
        self.world = World(self.clock, self.host, own(self.home.locks), ledger, registry, stamps, SpoolFolder(self.home), logs,
                           HomeStrays(self.home), self.home.locks, Roomy(), self.browser, self.caller, self.settings)
        self.custody = self.parts.custody(self.world)
        self._listen(ledger, registry, logs)

    def _listen(self, ledger: LedgerFile, registry: RegistryFile, logs: LogFiles) -> None:
        transact, put = ledger.transact, registry.put

        def told_transact(decide: Any) -> View:
            wrote = False

            def told(view: View) -> Any:
                nonlocal wrote
                rows = decide(view)
                wrote = bool(rows)
                return rows

            view = transact(told)
            if wrote:
                self.say("acked", view.last_seq)
            return view

        def told_put(conversation: Any) -> None:
            put(conversation)
            self.say("registered", conversation.conversation_id)

        def told(write: Any) -> Any:
            def told_write(name: str, **what: Any) -> None:
                write(name, **what)
                self.say("logged", name, logs.raw(name))
            return told_write

        ledger.transact, registry.put = told_transact, told_put  # type: ignore[method-assign]
        logs.append, logs.begin, logs.finish = told(logs.append), told(logs.begin), told(logs.finish)  # type: ignore[method-assign]

    # What it does

    def send(self, text: str, *, id: str | None = None, to: str = NEW, again: bool = False, files: Sequence[Path] = ()) -> Operation:
        self.id = id or self.host.ulid()
        submit = rebound(submitting.submit, _carried=rebound(submitting._carried, Sending=self.parts.sending))
        op = submit(self.world, self.custody, self.id, Payload(text, to), account=None, folder=None,
                    sources=[open_given(str(path)) for path in files], **({"again": True} if again else {}))
        note_told(self.world, self.custody, self.id, told=True)
        return op

    def recover(self) -> list[Operation]:
        self.browser.barred = True
        try:
            return self.custody.recover()
        finally:
            self.browser.barred = False

    def read_back(self, operation_id: str) -> ReadBack:
        return reading.read_back(self.world, self.custody, operation_id=operation_id)

    def sweep(self) -> upkeep.Swept:
        return upkeep.sweep(self.world, self.custody, offline=False)

    def ends(self) -> None:
        """In order: the process leaves, its descriptors with it."""
        self.dies()

    def dies(self) -> None:
        """As SIGKILL: the kernel frees the locks, nothing is tidied."""
        assert self.home.locks is not None
        self.home.locks.close_in_child()
        self.home.close()
        for fd in (self.copies._fd, self.copies._cwd):
            if fd is not None:
                os.close(fd)
        self.copies._fd = self.copies._cwd = None

    # What is there

    @property
    def view(self) -> View:
        return self.world.ledger.view()

    def turns(self, conversation_id: str) -> list[Block]:
        log = self.world.logs.read(conversation_id)
        return [] if log is None else [block for block in log.blocks if block.kind == "turn"]
