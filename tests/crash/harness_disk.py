"""A disk that records what becomes durable when, and every state in which a power cut may leave it (strict POSIX, ALICE style).

Data is safe once its file was fsynced, a name once its folder was; all else may be lost, kept, torn or zeroed, each by itself. Data that
was written before an fsync that failed can never become safe, whatever a later one says. What was said to the outside (a click, a release,
an acknowledgement) always stays.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gptbridge.edge.disk import Disk

Tree = dict[str, bytes | None]  # path -> content, None for a folder
WHOLE = 4  # up to so many pending changes every subset is a state


@dataclass(frozen=True, slots=True)
class Event:
    """`kind`: link, rename, unlink (change `folder`); data, trunc (change `node`); sync of `node`, badsync and nosync where it fails
    (for good, for now); say (to the outside)."""

    kind: str
    node: int = 0
    folder: int = 0
    name: str = ""
    old: str = ""
    at: int = 0
    data: bytes = b""
    said: tuple[Any, ...] = ()

    @property
    def changes(self) -> int:
        """The inode whose fsync makes it safe."""
        return self.node if self.kind in ("data", "trunc") else self.folder


@dataclass(slots=True)
class Fault:
    """The n-th call (from 1) of `call` goes wrong: fsync with an error, write short by `keep` (1, -1 or 0 for half)."""

    call: str = ""
    n: int = 0
    keep: int = 0
    number: int = errno.EIO
    hit_at: int = -1  # index of the event at which it went wrong


class Recording(Disk):
    """Works for real below `root`, which may hold files already, and logs `events`."""

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.events: list[Event] = []
        self.fault = fault or Fault()
        self.counts = {"fsync": 0, "write": 0, "any": 0}
        self.before: Callable[[int], None] = lambda number: None  # called with the number of each call that changes something
        self._nodes: dict[tuple[int, int], int] = {}
        self._token = 0
        self.start: list[Event] = []
        self._walk(root, self._new(root.stat()))

    def _new(self, found: os.stat_result) -> int:
        return self._nodes.setdefault((found.st_dev, found.st_ino), len(self._nodes))

    def _walk(self, path: Path, folder: int) -> None:
        for name in sorted(os.listdir(path)):
            below = path / name
            node = self._new(below.stat())
            self.start.append(Event("link", node, folder, name, data=b"d" if below.is_dir() else b""))
            if name == "locks":
                continue  # what lies in lock files decides nothing
            if below.is_dir():
                self._walk(below, node)
            else:
                self.start.append(Event("data", node, data=below.read_bytes()))

    def say(self, *said: Any) -> None:
        self.events.append(Event("say", said=said))

    def _id(self, fd: int) -> int:
        found = os.fstat(fd)
        return self._nodes.get((found.st_dev, found.st_ino), -1)  # -1: outside

    def _step(self) -> None:
        self.counts["any"] += 1
        self.before(self.counts["any"])

    def token(self) -> str:
        self._token += 1
        return f"{self._token:016x}"

    def open(self, name: str, flags: int, dir_fd: int, mode: int = 0o600) -> int:
        if not flags & os.O_CREAT:
            return super().open(name, flags, dir_fd, mode)
        assert flags & os.O_EXCL
        self._step()
        fd = super().open(name, flags, dir_fd, mode)
        found = os.fstat(fd)
        self._nodes.pop((found.st_dev, found.st_ino), None)  # a number that came back
        self._nodes[found.st_dev, found.st_ino] = node = 10_000 + len(self.events)
        self.events.append(Event("link", node, self._id(dir_fd), name))
        return fd

    def mkdir(self, name: str, dir_fd: int, mode: int = 0o700) -> None:
        self._step()
        super().mkdir(name, dir_fd, mode)
        found = os.stat(name, dir_fd=dir_fd)
        self._nodes[found.st_dev, found.st_ino] = node = 10_000 + len(self.events)
        self.events.append(Event("link", node, self._id(dir_fd), name, data=b"d"))

    def write(self, fd: int, data: bytes) -> int:
        self._step()
        self.counts["write"] += 1
        if self.fault.call == "write" and self.counts["write"] == self.fault.n and len(data) > 1:
            data = data[:self.fault.keep or len(data) // 2]
            self.fault.hit_at = len(self.events)
        at = os.lseek(fd, 0, os.SEEK_END)  # all writers append, to a new file or an old one
        done = super().write(fd, data)
        self.events.append(Event("data", self._id(fd), at=at, data=data[:done]))
        return done

    def copy_range(self, source: int, target: int, size: int) -> int:
        raise OSError(errno.EXDEV, "by hand")  # so that it passes through `write`

    def ftruncate(self, fd: int, size: int) -> None:
        self._step()
        super().ftruncate(fd, size)
        self.events.append(Event("trunc", self._id(fd), at=size))

    def fsync(self, fd: int) -> None:
        self._sync(fd, "badsync")

    def fsync_dir(self, fd: int) -> None:
        self._sync(fd, "nosync")  # names stay dirty in the file system's journal: a later fsync that says yes has them

    def _sync(self, fd: int, bad_kind: str) -> None:
        self._step()
        self.counts["fsync"] += 1
        bad = self.fault.call == "fsync" and self.counts["fsync"] == self.fault.n
        if bad:
            self.fault.hit_at = len(self.events)
        self.events.append(Event(bad_kind if bad else "sync", self._id(fd)))
        if bad:
            raise OSError(self.fault.number, os.strerror(self.fault.number))

    def rename(self, source: str, target: str, source_dir_fd: int, target_dir_fd: int) -> None:
        self._step()
        found = os.stat(source, dir_fd=source_dir_fd, follow_symlinks=False)
        super().rename(source, target, source_dir_fd, target_dir_fd)
        assert source_dir_fd == target_dir_fd
        self.events.append(Event("rename", self._nodes[found.st_dev, found.st_ino], self._id(target_dir_fd), target, source))

    def unlink(self, name: str, dir_fd: int) -> None:
        self._step()
        super().unlink(name, dir_fd)
        self.events.append(Event("unlink", 0, self._id(dir_fd), name))


def pending(events: Iterable[Event]) -> tuple[list[Event], list[int]]:
    """(the changes in order, which of them a power cut may still take)."""
    changes: list[Event] = []
    loose: list[int] = []
    doomed: set[int] = set()
    for event in events:
        if event.kind in ("sync", "badsync"):
            mine = [n for n in loose if changes[n].changes == event.node]
            if event.kind == "sync":
                loose = [n for n in loose if n in doomed or n not in mine]
            else:
                doomed.update(mine)
        elif event.kind not in ("say", "nosync"):
            loose.append(len(changes))
            changes.append(event)
    return changes, loose


def choices(changes: list[Event], loose: list[int]) -> Iterator[dict[int, Event | None]]:
    """What becomes of the pending changes: a change for each that is not simply kept (None: lost)."""
    seen: set[frozenset[int]] = set()
    few = len(loose) <= WHOLE
    sizes = range(len(loose) + 1) if few else (0, 1, len(loose) - 1, len(loose))
    for size in sizes:
        for lost in itertools.combinations(loose, size):
            if frozenset(lost) not in seen:
                seen.add(frozenset(lost))
                yield dict.fromkeys(lost)
    for n in loose:
        change = changes[n]
        if change.kind == "data" and len(change.data) > 1:
            length = len(change.data)
            torn = [change.data[:1], change.data[:length // 2], change.data[:-1], bytes(length)]
            for data in torn:
                kept = Event("data", change.node, at=change.at, data=data)
                yield {n: kept}
                if len(loose) > 1:
                    yield {**dict.fromkeys(m for m in loose if m > n), n: kept}


def tree_of(start: list[Event], changes: list[Event], choice: dict[int, Event | None]) -> Tree:
    """The files as they are after the power cut."""
    names: dict[int, dict[str, int]] = {0: {}}
    content: dict[int, bytearray | None] = {}

    def apply(event: Event) -> None:
        match event.kind:
            case "link":
                names.setdefault(event.folder, {})[event.name] = event.node
                content.setdefault(event.node, None if event.data else bytearray())
            case "rename":
                entries = names.setdefault(event.folder, {})
                if entries.get(event.old) == event.node:
                    del entries[event.old]
                entries[event.name] = event.node
                content.setdefault(event.node, bytearray())
            case "unlink":
                names.get(event.folder, {}).pop(event.name, None)
            case "data":
                found = content.setdefault(event.node, bytearray())
                assert found is not None
                found.extend(bytes(max(event.at - len(found), 0)))
                found[event.at:event.at + len(event.data)] = event.data
            case "trunc":
                found = content.setdefault(event.node, bytearray())
                assert found is not None
                del found[event.at:]

    for event in start:
        apply(event)
    for n, event in enumerate(changes):
        kept = choice.get(n, event)
        if kept is not None:
            apply(kept)
    tree: Tree = {}

    def walk(folder: int, path: str) -> None:
        for name, node in sorted(names.get(folder, {}).items()):
            found = content[node]
            tree[path + name] = None if found is None else bytes(found)
            if found is None:
                walk(node, f"{path}{name}/")

    walk(0, "")
    return tree


@dataclass(slots=True)
class State:
    """One way the disk may look after the first `upto` events; `label` says which, for a failure's message."""

    upto: int
    tree: Tree
    label: str
    digest: bytes = field(default=b"")


def states(start: list[Event], events: list[Event], *, first: int = 0, points: Container[int] | None = None,
           every: bool = True) -> Iterator[State]:
    """Each different state once, at every prefix or at those `points`; `every` False: only all lost and all kept."""
    seen: set[bytes] = set()
    said = 0
    for upto in range(len(events) + 1):
        said = upto if upto and events[upto - 1].kind == "say" else said
        if upto < first or (points is not None and upto not in points):
            continue
        changes, loose = pending(events[:upto])
        for choice in choices(changes, loose):
            if not every and len(loose) > 1 and len(choice) not in (0, len(loose)):
                continue
            tree = tree_of(start, changes, choice)
            digest = hashlib.sha256(repr((said, sorted(tree.items(), key=lambda item: item[0]))).encode()).digest()
            if digest not in seen:
                seen.add(digest)
                what = ",".join(f"{changes[n].kind} {'lost' if kept is None else f'torn {len(kept.data)}'}" for n, kept in choice.items())
                yield State(upto, tree, f"event {upto} ({what or 'all kept'})", digest)


def materialise(tree: Tree, root: Path) -> None:
    """Put it on a real disk; folders come before what lies in them."""
    root.mkdir(mode=0o700)
    for path, data in tree.items():
        target = root / path
        if data is None:
            target.mkdir(mode=0o700)
        else:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(fd, data)
            os.close(fd)
