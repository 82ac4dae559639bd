"""One whole send recorded, and the verdict on every state that a crash of it may leave.

The verdict of a state is a list of violations: of what was promised before the crash (acknowledged records, logs, registry rows; no click
without a readable `dispatched`, no release without its message id), of the tables at recovery, and of what comes after it: the same id
again, its answer read back, another text. Everything is counted by the site.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State as S
from gptbridge.core.operation import KEEP_S, NEW
from gptbridge.flow.custody import Refused
from tests.crash.harness_disk import Event, Fault, Recording, State, Tree, materialise, states
from tests.crash.harness_process import Machine, Parts, Process, Time
from tests.crash.harness_site import Sent, Site

TEXT, OTHER = "the words that are sent once", "other words"
RECOVERED = {S.QUEUED: S.REJECTED, S.CLAIMED: S.UNCERTAIN, S.DISPATCHED: S.UNCERTAIN}
_serial = itertools.count()


@dataclass(slots=True)
class Run:
    """One recorded send. `seed` rebuilds the site as it was before it."""

    name: str
    start: list[Event]
    events: list[Event]
    operation_id: str
    target: str
    times: list[Time]  # at each event
    seed: Callable[[Site], None]
    outcome: Operation | Failure | Refused
    fault: Fault
    row: Operation | None
    parts: Parts
    sends: int = 0
    first: int = 0  # the event from which on it is not as without fault
    calls: int = 0


class Killed(BaseException):
    """In the place of SIGKILL, within this process: nothing that it passes may touch the disk any more."""


class Scratch:
    """Folders below `root`, one for each state, removed when it is judged."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __enter__(self) -> Path:
        self.path = self.root / f"state-{next(_serial)}"
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Populated:
    """A home that has seen things: an old completed conversation, an uncertain operation, one that was rejected, a torn tail, a foreign
    turn that the log lacks; and old enough that a pruning finds something."""

    def __init__(self, root: Path) -> None:
        self.path = root / f"populated-{next(_serial)}"
        self.path.mkdir()
        time = Time()
        time.wall -= 9 * 86400.0
        site = Site(lambda: time.wall)
        old = Process(self.path, site, time, 900)
        for n in range(2):
            old.send(f"old words {n}")
        first = old.view.operations[old.id]
        assert first.conversation_id is not None
        self.target = first.conversation_id
        time.wall += 9 * 86400.0 - 600.0
        recent = old.send("recent words", to=self.target)
        assert recent.state is S.COMPLETED
        old.caller.left = True
        refused = old.send("words that nobody waits for")
        assert refused.state is S.STOPPED
        old.ends()
        dying = Process(self.path, site, time, 901)
        uncertain = dying.world.ids.ulid()
        dying.custody.recover()
        from gptbridge.core.operation import Payload

        dying.custody.admit(uncertain, Payload("words of a dead process"), account=None, folder=None)
        dying.custody.ready(uncertain, "user-0000")
        dying.custody.claim(uncertain, "user-0000", first=lambda view: True)
        dying.custody.dispatch(uncertain)
        dying.dies()
        with open(self.path / "home" / "ledger.jsonl", "ab") as ledger:
            ledger.write(b'{"seq":99,"sum":"01')
        with open(self.path / "home" / "logs" / f"{self.target}.log", "ab") as log:
            log.write(b"\n## turn 99 \xc2\xb7 2030-01-01T00")
        time.wall += 600.0
        site.person("a person's own words", self.target)
        self.time, self._documents = time, site.documents

    def seed(self, site: Site) -> None:
        import copy

        site.documents = copy.deepcopy(self._documents)


def record(scratch: Path, *, populated: Populated | None = None, fault: Fault | None = None, parts: Parts | None = None,
           prune_at: str = "held", name: str = "", kill_at: int = 0) -> Run:
    """A send from admission to completion. Populated: it resumes a conversation, and another process prunes while it is held.

    kill_at: the process is killed before that call (from 1), and another one sends the same operation, before the power cut comes.
    """
    with Scratch(scratch) as path:
        if populated is None:
            path.mkdir()
            time, target = Time(), NEW
        else:
            shutil.copytree(populated.path, path)
            time, target = populated.time.copy(), populated.target
        (path / "work").mkdir(exist_ok=True)
        seed: Callable[[Site], None] = populated.seed if populated is not None else lambda site: None
        disk = Recording(path, fault)
        times: list[Time] = []
        site = Site(lambda: time.wall)
        seed(site)
        parts = parts or Parts()

        def note(*said: object) -> None:
            disk.say(*said)

        def happened(what: str, *more: object) -> None:
            note(what, *more)
            if what == prune_at and populated is not None:
                other = Process(path, site, time, 77, disk=disk)
                other.say = note
                pruned = other.world.ledger.prune(time.wall - KEEP_S, 128)
                assert pruned or fault is not None or parts.name != Parts().name
                other.dies()

        site.tell = happened
        dead: list[int] = []
        kill_event = 0
        process: Process | None = None

        def before(number: int) -> None:
            nonlocal kill_event
            times.extend(time.copy() for _ in range(len(disk.events) + 1 - len(times)))
            if number == kill_at:
                dead.append(number)
                kill_event = len(disk.events)
                for sent in process.browser.let_go() if process is not None else ():
                    note("left", sent)  # Chrome lets a held request go when its worker is killed
            if dead:
                raise Killed

        disk.before = before
        outcome: Operation | Failure | Refused
        row: Operation | None = None
        operation_id = Machine(time, {}, 1).ulid()
        for number in (1, 2):
            try:
                process = Process(path, site, time, number, disk=disk, parts=parts)
                process.say = note
                try:
                    outcome = process.send(TEXT, id=operation_id, to=target)
                except (Failure, Refused) as refused:
                    outcome = refused
                if dead:
                    raise Killed
                note("returned", isinstance(outcome, Operation) and outcome.state.value)
                try:
                    row = process.view.get(operation_id)
                except Failure as why:
                    outcome = why
            except Failure as why:  # the home itself
                outcome = why
            except Killed:
                outcome = Failure("browser", "killed")
                if process is not None:
                    process.dies()
                    process = None
                dead.clear()
                kill_at = -1
                continue
            break
        if process is not None:
            process.dies()
        times.extend(time.copy() for _ in range(len(disk.events) + 1 - len(times)))
        run = Run(name or ("fresh" if populated is None else "populated"), disk.start, disk.events, operation_id, target, times, seed,
                  outcome, disk.fault, row, parts, len(site.sends_of(TEXT)))
        run.first = kill_event or max(disk.fault.hit_at, 0)
        run.calls = disk.counts["any"]
        return run


def every_state(run: Run, *, points: Container[int] | None = None, every: bool = True) -> Iterator[State]:
    """From the fault on, if there is one: what was before is as without it."""
    if run.fault.call and run.fault.hit_at < 0:
        return iter(())
    return states(run.start, run.events, first=run.first, points=points, every=every)


class Judge:
    """`deep` False: only what was promised before the crash, which is quick."""

    def __init__(self, scratch: Path, parts: Parts | None = None, *, deep: bool = True) -> None:
        self.scratch, self.parts, self.deep = scratch, parts or Parts(), deep
        self.judged = 0
        self._known: set[int] = set()

    def violations(self, run: Run, states_: Iterable[State], *, limit: int = 0) -> list[str]:
        """Of all states; with `limit` it stops when so many are found."""
        found: list[str] = []
        for state in states_:
            self.judged += 1
            found += [f"{run.name} {run.fault.call}{run.fault.n or ''} {state.label}: {what}" for what in self.judge(run, state)]
            if limit and len(found) >= limit:
                break
        return found

    def judge(self, run: Run, state: State) -> list[str]:
        said = [event.said for event in run.events[:state.upto] if event.kind == "say"]
        reboot = state.upto % 2 == 1
        variants = [False]
        if any(one[0] == "held" for one in said) and not any(one[0] in ("release", "failed", "left") for one in said):
            variants.append(True)  # Chrome lets a held request go when its worker is killed
        found: list[str] = []
        for let_go in variants:
            key = hash((state.digest, let_go))
            if key in self._known:
                continue
            self._known.add(key)
            with Scratch(self.scratch) as path:
                materialise(state.tree, path)
                time = run.times[min(state.upto, len(run.times) - 1)].copy()
                time.sleep(20.0)
                if reboot:
                    time.reboot()
                try:
                    found += Verdict(path, run, said, time, let_go, self.parts).reach(self.deep)
                except Exception as bug:  # a verdict too: whatever comes out of the product here is wrong
                    found.append(f"{type(bug).__name__}: {bug}")
        return found


class Verdict:
    def __init__(self, path: Path, run: Run, said: list[tuple[object, ...]], time: Time, let_go: bool, parts: Parts) -> None:
        self.path, self.run, self.said, self.time, self.parts = path, run, said, time, parts
        self.found: list[str] = []
        self.site = Site(lambda: time.wall, seed=1)
        run.seed(self.site)
        self.site.seed = 0
        self.clicks = sum(1 for one in said if one[0] == "click")
        self.site.clicks = [TEXT] * self.clicks
        held: list[Sent] = [one[1] for one in said if one[0] == "held"]  # type: ignore[misc]
        released: list[Sent] = [one[1] for one in said if one[0] == "release"]  # type: ignore[misc]
        left: list[Sent] = [one[1] for one in said if one[0] == "left"]  # type: ignore[misc]
        self.left = left + released or (held if let_go else [])
        self.released = released
        for sent in self.left:
            self.site.take(sent)
        self._number = 10

    def process(self) -> Process:
        self._number += 1
        return Process(self.path, self.site, self.time, self._number, parts=self.parts)

    def say(self, what: str) -> None:
        self.found.append(what)

    def reach(self, deep: bool) -> list[str]:
        try:
            self._promises()
            if deep:
                self._recovery()
                self._afterwards()
        except (Failure, Refused) as refused:
            self.say(f"refused: {refused}")
        return self.found

    def _promises(self) -> None:
        """What was acknowledged before the crash is there after it."""
        run, process = self.run, self.process()
        view = process.view
        process.world.ledger.transact(lambda view: [])  # raises where the stamp cannot be read, or knows of more
        op = view.get(run.operation_id)
        acked = max((int(one[1]) for one in self.said if one[0] == "acked"), default=0)  # type: ignore[call-overload]
        if view.last_seq < acked:
            self.say(f"acknowledged record {acked} is gone (ends at {view.last_seq})")
        if self.clicks > 1 or len(self.released) > 1:
            self.say(f"{self.clicks} clicks, {len(self.released)} releases")
        if self.clicks and (op is None or op.dispatched_at is None):
            self.say("a click without a readable dispatched record")
        for sent in self.released:
            if op is None or op.user_message_id != sent.message_id:
                self.say("a release without its message id on the disk")
        logged = {str(one[1]): one[2] for one in self.said if one[0] == "logged"}
        for name, data in logged.items():
            if not (process.world.logs.raw(name) or b"").startswith(bytes(data)):  # type: ignore[call-overload]
                self.say(f"log {name[:8]} lost what was acknowledged")
        for one in self.said:
            if one[0] == "registered" and process.world.registry.get(str(one[1])) is None:
                self.say("an acknowledged registry row is gone")
        process.dies()

    def _recovery(self) -> None:
        process = self.process()
        before = {op.operation_id: op for op in process.view.operations.values()}
        clicks = len(self.site.clicks)
        process.recover()
        after = process.view
        for operation_id, op in before.items():
            now = after.operations[operation_id]
            if now.state is not RECOVERED.get(op.state, op.state):
                self.say(f"{op.state} was recovered as {now.state}")
            if op.state is S.QUEUED and not now.admissible:
                self.say("a queued one cannot be admitted again")
        ledger = self._ledger()
        process.recover()
        other = self.process()
        other.recover()
        if self._ledger() != ledger:
            self.say("a second recovery changed something")
        if len(self.site.clicks) != clicks:
            self.say("recovery clicked")
        process.dies()
        other.dies()

    def _ledger(self) -> bytes:
        file = self.path / "home" / "ledger.jsonl"
        return file.read_bytes() if file.exists() else b""

    def _afterwards(self) -> None:
        """The same id again, its answer read back, another text to the same place."""
        run, process = self.run, self.process()
        op = process.view.get(run.operation_id) if run.operation_id else None
        fresh = op is None or op.admissible
        now = process.send(TEXT, id=run.operation_id, to=run.target)
        if fresh and now.state is not S.COMPLETED:
            self.say(f"the same id could not be sent after all: {now.state} {now.slug}")
        if not fresh and op is not None and now.state is not op.state:
            self.say(f"the same id again moved it from {op.state} to {now.state}")
        process.dies()
        process = self.process()
        self.time.sleep(1.0)
        if now.sent != "no":
            process.read_back(run.operation_id)
            now = process.view.operations[run.operation_id]
        process.sweep()
        sends = self.site.sends_of(TEXT)
        if len(sends) > 1 or self.site.clicks.count(TEXT) > 1:
            self.say(f"{len(sends)} messages of one operation, {self.site.clicks.count(TEXT)} clicks")
        known = [sent for sent in sends if sent.message_id.lower() in now.message_ids()]
        if known:
            if now.state is not S.COMPLETED:
                self.say(f"a message that the site took and whose id is known ends as {now.state}")
            else:
                turns = [b for b in process.turns(now.conversation_id or "") if (b.attr("user") or "") in now.message_ids()]
                whole = [b for b in turns if b.state == "completed"]
                if len(whole) != 1 or whole[0].section("answer") != f"You said: {TEXT}":
                    self.say(f"{len(whole)} whole turns of a completed operation in the log")
                if process.world.registry.get(now.conversation_id or "") is None:
                    self.say("a conversation of ours is not in the registry")
        elif now.sent == "yes" or (sends and now.sent != "unknown"):
            self.say(f"{len(sends)} messages left, the row says {now.state}")
        process.dies()
        process = self.process()
        other = process.send(OTHER, to=run.target)
        if other.state is not S.COMPLETED or len(self.site.sends_of(OTHER)) != 1:
            self.say(f"the next send of another text: {other.state} {other.slug}, {len(self.site.sends_of(OTHER))} messages")
        elif run.target != NEW or known:
            log = process.world.logs.read(now.conversation_id or run.target)
            if log is None or log.torn or [p for p in log.problems if "torn" not in p.what and "closed" not in p.what]:
                self.say(f"the log has problems: {log.problems if log else 'gone'}")
        process.dies()


def faults(run: Run) -> tuple[list[Fault], list[Fault]]:
    """(every fsync that may fail, every write that may be short) in a run without fault."""
    syncs = sum(1 for event in run.events if event.kind == "sync")
    writes = sum(1 for event in run.events if event.kind == "data")
    return ([Fault("fsync", n) for n in range(1, syncs + 1)],
            [Fault("write", n, keep) for n in range(1, writes + 1) for keep in (1, 0, -1)])


def in_home(tree: Tree) -> Tree:
    return {path: data for path, data in tree.items() if path.startswith("home/")}
