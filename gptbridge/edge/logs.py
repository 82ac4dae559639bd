"""The Markdown logs on disk: `logs/<name>.log`, append-only, and their copies in the folder the command was started in.

An append reads only the end of the file, back to the last end mark, so it costs what the turn costs, whatever the log's size; a torn end
is sealed first. A turn of our own is begun when the site has taken its message, and finished when it ends: a power cut in between leaves
the prompt, which the next writer closes as interrupted. Writers hold the conversation's lock from `begin` to `finish`. A log of a newer
version is left untouched (18). A canonical log that is empty or damaged never replaces a good copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gptbridge.core import transcript
from gptbridge.core.errors import Failure
from gptbridge.core.transcript import Log, Section, Tail
from gptbridge.edge.copies import FOLDER, CopyFolder
from gptbridge.edge.files import append_bytes, read_bytes
from gptbridge.edge.home import Home

TAIL_BYTES = 4096
HEAD_BYTES = 65536


@dataclass(slots=True)
class _Begun:
    """A block that this process began: the end of the log before it, and its first bytes. `sound`: they are on the disk."""

    tail: Tail
    opening: bytes
    sound: bool = False

    @property
    def written(self) -> bytes:
        """What stands behind `tail.keep` then."""
        return self.tail.seal + self.opening


class LogFiles:
    """`copies` None: no copies are made (readers)."""

    def __init__(self, home: Home, copies: CopyFolder | None = None) -> None:
        self._home, self._copies = home, copies
        self._begun: dict[str, _Begun] = {}

    def raw(self, name: str) -> bytes | None:
        folder = self._home.folder("logs")
        return None if folder is None else read_bytes(self._home.disk, folder, f"{name}.log")

    def read(self, name: str) -> Log | None:
        data = self.raw(name)
        return None if data is None else transcript.parse(data)

    # Writing

    def append(self, name: str, *, header: Mapping[str, str], blocks: Sequence[Mapping[str, Any]]) -> None:
        first, size, tail = self._end(name, header)
        keep, data = tail.keep, tail.seal
        for block in blocks:
            piece = tail.block(**_arguments(block))
            data += piece
            tail = tail.after(block["kind"], piece)
        self._write(name, first, size, keep, data)

    def begin(self, name: str, *, header: Mapping[str, str], block: Mapping[str, Any]) -> None:
        first, size, tail = self._end(name, header)
        opening = tail.opening(**{key: value for key, value in _arguments(block).items() if key not in ("state", "end")})
        begun = self._begun[name] = _Begun(tail, opening)
        self._write(name, first, size, tail.keep, begun.written)
        begun.sound = True

    def finish(self, name: str, *, header: Mapping[str, str], block: Mapping[str, Any]) -> None:
        begun = self._begun.get(name)
        if begun is None:
            self.append(name, header=header, blocks=[block])
            return
        whole = begun.tail.block(**_arguments(block))
        there = read_bytes(self._home.disk, self._home.need("logs"), f"{name}.log", start=begun.tail.keep)
        if begun.sound and there == begun.written and whole.startswith(begun.opening):
            begun.sound = False  # whatever comes of this write: what is there then is no longer what was begun
            self._write(name, b"", 0, 0, whole[len(begun.opening):])
        elif there and begun.written.startswith(there):
            # Its own write failed. A second fsync would prove nothing of those bytes: they go, and all is written anew.
            self._write(name, b"", begun.tail.keep + len(there), begun.tail.keep, begun.tail.seal + whole)
        else:
            # Somebody else's hand was in it: it is sealed like any torn end, and the whole turn names what it replaces.
            _, _, tail = self._end(name, header)
            if tail.next_turn > begun.tail.next_turn:
                block = {**block, "attrs": [*block["attrs"], ("supersedes", str(begun.tail.next_turn))]}
            self.append(name, header=header, blocks=[block])
        del self._begun[name]

    def _end(self, name: str, header: Mapping[str, str]) -> tuple[bytes, int, Tail]:
        """(the header, where the log has none yet; the file's size; its end, counted from the file's beginning)."""
        found, size = self._tail(f"{name}.log")
        if found is not None:
            return b"", size, found
        more = {key: value for key, value in header.items() if key not in ("conversation", "url", "created", "account")}
        first = transcript.header(header.get("conversation"), header.get("url"), header["created"], header.get("account"), **more)
        return first, 0, transcript.tail(first)

    def _tail(self, file: str) -> tuple[Tail | None, int]:
        """The end of a log, read back to its last whole end mark; None where there is no byte. Raises for a newer version."""
        disk, folder = self._home.disk, self._home.need("logs")
        head = read_bytes(disk, folder, file, limit=HEAD_BYTES)
        if not head:
            return None, 0
        if transcript.is_newer(head):
            raise _newer(file)
        length = TAIL_BYTES
        while True:
            ending = read_bytes(disk, folder, file, start=-length) or b""
            size = len(ending) if len(ending) < length else disk.stat(file, folder).st_size
            tail = transcript.tail_from_end(ending, size)
            if tail is not None:
                return tail, size
            length *= 16

    def _write(self, name: str, first: bytes, size: int, keep: int, data: bytes) -> None:
        """`keep` of `size` bytes stay; with `first` the file is new."""
        cut = keep if not first and keep != size else None
        append_bytes(self._home.disk, self._home.need("logs"), f"{name}.log", first + data, truncate_to=cut)

    # Healing

    def names(self) -> list[str]:
        folder = self._home.folder("logs")
        found = [] if folder is None else self._home.disk.names(folder)
        return sorted(name.removesuffix(".log") for name in found if name.endswith(".log") and not name.startswith("."))

    def is_torn(self, name: str) -> bool:
        tail, _ = self._tail(f"{name}.log")
        return tail is not None and not tail.clean

    def seal(self, name: str) -> bool:
        tail, size = self._tail(f"{name}.log")
        if tail is None or tail.clean:
            return False
        self._write(name, b"", size, tail.keep, tail.seal)
        return True

    # Copies

    def copy(self, name: str) -> None:
        try:
            data = self.raw(name)
        except Failure:
            return  # a canonical log that cannot be read never replaces a good copy
        if self._copies is not None and self._copies.makes and data:
            self._copies.follow(self._home.need("logs"), f"{name}.log", data, transcript.loses)
        elif data:
            self.repair_copy(name, data)

    def repair_copy(self, name: str, data: bytes) -> None:
        """For readers: the copy that lies in the working folder, if one does, is brought up to the log's bytes `data`."""
        file = f"{name}.log"
        if self._copies is not None and data and self._copies.holds(file):
            self._copies.follow(self._home.need("logs"), file, data, transcript.loses)

    def prepare(self) -> None:
        """Open the folder of the copies now: a worker leaves the working folder and keeps only this descriptor."""
        if self._copies is not None:
            self._copies.open(create=True)

    def paths(self, name: str, *, expected: bool = False) -> tuple[str | None, str | None]:
        """`expected`: a worker is still to write it, and this is where it will be."""
        file = f"{name}.log"
        if expected and self._copies is not None:
            return f"./{FOLDER}/{file}", self._home.shown(f"logs/{file}")
        folder = self._home.folder("logs")
        canonical = self._home.shown(f"logs/{file}") if folder is not None and read_bytes(self._home.disk, folder, file, start=-1) else None
        copied = self._copies is not None and canonical is not None and self._copies.holds(file)
        return (f"./{FOLDER}/{file}" if copied else None, canonical)


def _arguments(block: Mapping[str, Any]) -> dict[str, Any]:
    return {**block, "sections": [Section(*section) for section in block["sections"]]}


def _newer(file: str) -> Failure:
    return Failure("state-corrupt", f"logs/{file} was written by a newer version; it was left untouched", "update gptbridge")
