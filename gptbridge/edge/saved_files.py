"""How a file that the model made comes into `./ask-gpt/`: whole or not at all, under a free name, overwriting nothing.

Guarantees: bytes go to a hidden part through the folder's descriptor, are fsynced, and only then get a name by which nothing can be
replaced (case does not tell names apart). Equal bytes that are there already are found by size and digest, and kept. No link is followed;
files are 0600. Memory: one chunk. A part that a killed process left is deleted by the next run; one that another process writes is not.
Fails by `Failure`, naming the file; a full disk takes that one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NoReturn

from gptbridge.core.brought import FOLDER, UNUSABLE
from gptbridge.core.errors import Failure
from gptbridge.core.file_names import numbered
from gptbridge.core.ports import Saved
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.disk import Disk, unwritable
from gptbridge.edge.parts import Arriving, digest_of, remove_dead_parts

_OURS = ("conversations.jsonl", ".gitignore")


class SavedFiles:
    """The Downloads port on the folder of the copies; the folder is made when it is first needed."""

    def __init__(self, folder: CopyFolder, disk: Disk) -> None:
        self._folder, self._disk = folder, disk

    def save(self, name: str, chunks: Iterable[bytes]) -> Saved:
        fd, digest, size = self._fd(), hashlib.sha256(), 0
        try:
            part = Arriving(self._disk, fd)
        except OSError as why:
            _refuse(name, why)
        try:
            try:
                for chunk in chunks:
                    part.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                return self._placed(part, fd, name, size, digest.hexdigest())
            except Failure as failure:
                raise Failure(failure.slug, failure.message.replace("a download", name), failure.hint) from failure
        finally:
            part.close()

    def _placed(self, part: Arriving, fd: int, name: str, size: int, sha256: str) -> Saved:
        synced = False
        taken = {other.casefold(): other for other in (*self._disk.names(fd), *_OURS)}
        for number in range(1, len(taken) + 1000):
            tried = numbered(name, number)
            other = taken.get(tried.casefold())
            if other is None:
                if not synced:
                    part.whole()
                    synced = True
                if part.place(tried):
                    return Saved(f"{FOLDER}/{tried}", size, sha256, present=False)
                other = tried  # somebody was quicker
            if digest_of(self._disk, fd, other, size) == sha256:
                return Saved(f"{FOLDER}/{other}", size, sha256, present=True)
        raise Failure("state-unwritable", f"no name is free for {name}", f"look into {FOLDER}")

    def holds(self, path: str, size: int, sha256: str) -> bool:
        folder, _, name = path.rpartition("/")
        fd = self._folder.open(create=False)
        return folder == FOLDER and fd is not None and digest_of(self._disk, fd, name, size) == sha256

    def tidy(self) -> int:
        return remove_dead_parts(self._disk, self._fd())

    def _fd(self) -> int:
        fd = self._folder.open(create=True)
        if fd is None:
            raise Failure("state-unwritable", f"{UNUSABLE} ({self._folder.reason or 'it cannot be opened'})",
                          f"mend {FOLDER}, or run this in another folder")
        return fd


def _refuse(name: str, why: OSError) -> NoReturn:
    raise unwritable(name, why) from why
