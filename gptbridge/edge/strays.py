"""What lies in the home's folders and is not ours: told by kind and name, and moved aside into `quarantine/`.

Guarantees: nothing is followed, opened or deleted; a link is moved as a link, a folder with all that is in it, and nothing that is there
already is replaced. Moved, and not only left in place and said: an entry that stands at a name of ours keeps that log, prompt or lock from
ever being written, which would be met after a click; moved, it is said once and everything else works again. Left alone: names that begin
with a dot (temporary files, a file manager's), and regular files in `locks/`, since one of a later version may be in use.
The caller holds the sweep's lock: of two that move, the second could take away the lock file that came into the first one's place.

Names: `quarantine/<folder>-<name>`, what is no plain letter, digit or `._-` of it written as `_`, cut, and numbered where that is taken.
Fails open: what cannot be moved stays where it is, and is said.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from itertools import count

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Stray
from gptbridge.edge.files import move, open_dir
from gptbridge.edge.home import Home

FOLDER = "quarantine"
_ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
_LOG = re.compile(rf"([0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|failed-{_ULID})\.log")
_SPOOLED = re.compile(rf"({_ULID}|[0-9a-f]{{64}})([._-].*)?", re.DOTALL)
_REPORT = re.compile(r"[0-9TZ.-]+-[a-z-]+\.json")
# Of each folder: whether a regular file of that name, and whether a folder of that name, is one of ours.
OURS: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
    "logs": (_LOG.fullmatch, lambda name: False),
    "spool": (_SPOOLED.fullmatch, lambda name: _SPOOLED.fullmatch(name) and not name.endswith(".prompt")),
    "reports": (_REPORT.fullmatch, lambda name: False),
    "locks": (lambda name: True, lambda name: False),
}
LONGEST = 100


class HomeStrays:
    def __init__(self, home: Home) -> None:
        self._home = home

    def move_aside(self) -> list[Stray]:
        return [self._moved(folder, name, what) for folder in OURS for name, what in self._found(folder)]

    def set_aside(self, name: str, what: str) -> Stray:
        """One file of the home itself, that a person has given up; the caller holds the lock under which it is written."""
        return self._moved("", name, what)

    def set_aside_foreign(self, name: str) -> Stray | None:
        """Likewise where a link, a folder or a pipe stands at the name of a file of the home; None where it does not."""
        try:
            found = self._home.disk.stat(name, self._home.need())
        except FileNotFoundError:
            return None
        return None if stat.S_ISREG(found.st_mode) else self._moved("", name, "no regular file")

    def _found(self, folder: str) -> Iterator[tuple[str, str]]:
        """(name, what it is) of each entry that is not ours."""
        fd, disk = self._home.folder(folder), self._home.disk
        of_files, of_folders = OURS[folder]
        for name in disk.names(fd) if fd is not None else ():
            if name.startswith("."):
                continue
            try:
                found = disk.stat(name, fd)  # type: ignore[arg-type]
            except FileNotFoundError:
                continue
            if found.st_uid != os.geteuid():
                yield name, "another user's"
            elif stat.S_ISREG(found.st_mode):
                if not of_files(name):
                    yield name, "a file of a strange name"
            elif not stat.S_ISDIR(found.st_mode):
                yield name, "a link" if stat.S_ISLNK(found.st_mode) else "no regular file"
            elif not of_folders(name):
                yield name, "a folder"

    def _moved(self, folder: str, name: str, what: str) -> Stray:
        disk = self._home.disk
        head = f"{folder}-" if folder else ""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", head + name)[:LONGEST]
        shown = f"{folder}/{plain.removeprefix(head)}".removeprefix("/")
        try:
            into = open_dir(disk, self._home.need(), FOLDER, create=True)
            assert into is not None
            try:
                taken = set(disk.names(into))
                target = next(t for n in count() if (t := plain if not n else f"{plain}.{n}") not in taken)
                move(disk, self._home.need(folder), name, target, into=into)
            finally:
                disk.close(into)
        except Failure as why:
            return Stray(shown, what, None, why.message)
        return Stray(shown, what, f"{FOLDER}/{target}")
