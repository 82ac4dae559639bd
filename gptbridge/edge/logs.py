"""The Markdown logs on disk: `logs/<name>.log`, append-only, and their copies in the folder the command was started in.

An append reads only the end of a clean file, so it costs what the turn costs, whatever the log's size; a torn end is sealed first. A log
of a newer version is left untouched (18). A canonical log that is empty or damaged never replaces a good copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptbridge.core import transcript
from gptbridge.core.errors import Failure
from gptbridge.core.transcript import Log, Section
from gptbridge.edge.copies import FOLDER, CopyFolder
from gptbridge.edge.files import append_bytes, read_bytes
from gptbridge.edge.home import Home

TAIL_BYTES = 4096
HEAD_BYTES = 4096


class LogFiles:
    """`copies` None: no copies are made (readers)."""

    def __init__(self, home: Home, copies: CopyFolder | None = None) -> None:
        self._home, self._copies = home, copies

    def raw(self, name: str) -> bytes | None:
        folder = self._home.folder("logs")
        return None if folder is None else read_bytes(self._home.disk, folder, f"{name}.log")

    def read(self, name: str) -> Log | None:
        data = self.raw(name)
        return None if data is None else transcript.parse(data)

    def append(self, name: str, *, header: Mapping[str, str], blocks: Sequence[Mapping[str, Any]]) -> None:
        disk, folder, file = self._home.disk, self._home.need("logs"), f"{name}.log"
        ending = read_bytes(disk, folder, file, start=-TAIL_BYTES)
        if not ending:
            first = transcript.header(header.get("conversation", "-"), header.get("url", "-"), header["created"], header.get("account"),
                                      **{k: v for k, v in header.items() if k not in ("conversation", "url", "created", "account")})
            append_bytes(disk, folder, file, first + self._rendered(transcript.tail(first), blocks))
            return
        size = disk.stat(file, folder).st_size
        tail = transcript.tail_from_end(ending, size)
        if tail is None:
            tail = transcript.tail(read_bytes(disk, folder, file) or b"")
        elif transcript.is_newer((ending if size <= TAIL_BYTES else read_bytes(disk, folder, file) or b"")[:HEAD_BYTES]):
            tail.newer = True
        if tail.newer:
            raise _newer(file)
        append_bytes(disk, folder, file, tail.seal + self._rendered(tail, blocks), truncate_to=tail.keep if tail.keep != size else None)

    def names(self) -> list[str]:
        folder = self._home.folder("logs")
        found = [] if folder is None else self._home.disk.names(folder)
        return sorted(name.removesuffix(".log") for name in found if name.endswith(".log") and not name.startswith("."))

    def is_torn(self, name: str) -> bool:
        disk, folder, file = self._home.disk, self._home.need("logs"), f"{name}.log"
        ending = read_bytes(disk, folder, file, start=-TAIL_BYTES)
        if not ending:
            return False
        if transcript.is_newer(read_bytes(disk, folder, file, limit=HEAD_BYTES) or b""):
            raise _newer(file)
        size = disk.stat(file, folder).st_size
        return transcript.tail_from_end(ending, size) is None and not transcript.tail(read_bytes(disk, folder, file) or b"").clean

    def seal(self, name: str) -> bool:
        disk, folder, file = self._home.disk, self._home.need("logs"), f"{name}.log"
        data = read_bytes(disk, folder, file)
        if not data:
            return False
        tail = transcript.tail(data)
        if tail.newer:
            raise _newer(file)
        if tail.clean:
            return False
        append_bytes(disk, folder, file, tail.seal, truncate_to=tail.keep)
        return True

    def damage(self, name: str) -> str | None:
        data = self.raw(name)
        log = None if data is None else transcript.parse(data)
        if log is None or log.newer or not log.problems or (log.torn and len(log.problems) == 1):
            return None
        first, more = log.problems[0], len(log.problems) - 1 - log.torn
        return f"line {first.line}: {first.what}" + (f" (and {more} more)" if more > 0 else "")

    def copy(self, name: str) -> None:
        try:
            data = self.raw(name)
        except Failure:
            return  # a canonical log that cannot be read never replaces a good copy
        if self._copies is None or not data or not transcript.parse(data).blocks:
            return
        self._copies.copy_from(self._home.need("logs"), f"{name}.log")

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

    @staticmethod
    def _rendered(tail: transcript.Tail, blocks: Sequence[Mapping[str, Any]]) -> bytes:
        out = b""
        for block in blocks:
            sections = [Section(name, text) for name, text in block["sections"]]
            piece = tail.block(block["kind"], block["at"], attrs=block["attrs"], sections=sections, state=block["state"],
                               words=block["words"])
            after = transcript.tail(transcript.header("-", "-", "-") + piece)
            tail.prev = after.prev
            if block["kind"] == "turn":
                tail.next_turn += 1
            else:
                tail.next_event += 1
            out += piece
        return out


def _newer(file: str) -> Failure:
    return Failure("state-corrupt", f"logs/{file} was written by a newer version; it was left untouched", "update gptbridge")
