"""What was admitted and is still to be sent: prompts, and the bytes of files.

    spool/<operation id>.prompt    the text, so that a person who decides about an uncertain operation can read it
    spool/<sha256>.file            bytes of a file, once, whatever operations send it
    spool/<operation id>.up/       while a page uploads them: the files under the names that the site gets (links)

Guarantees: a file's bytes are durable, under the digest of what was read, before an operation that names them is. A crash in between
leaves bytes that no operation names; `tidy` drops those. Fails closed: state-unwritable, and nothing half-stored stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from gptbridge.edge.files import exists, link, open_dir, read_bytes, remove, remove_folder, replace, store
from gptbridge.edge.home import Home

_FILE = re.compile(r"([0-9a-f]{64})\.file")
_OF_OPERATION = re.compile(r"([0-9A-Z]{26})\.(prompt|up)")


class SpoolFolder:
    def __init__(self, home: Home) -> None:
        self._home = home

    def put(self, operation_id: str, prompt: bytes) -> None:
        replace(self._home.disk, self._home.need("spool"), f"{operation_id}.prompt", prompt)

    def prompt(self, operation_id: str) -> bytes | None:
        folder = self._home.folder("spool")
        return None if folder is None else read_bytes(self._home.disk, folder, f"{operation_id}.prompt")

    def drop(self, operation_id: str) -> None:
        remove(self._home.disk, self._home.need("spool"), f"{operation_id}.prompt")

    def keep(self, chunks: Iterable[bytes]) -> tuple[int, str]:
        return store(self._home.disk, self._home.need("spool"), chunks, lambda digest: f"{digest}.file")

    def holds(self, sha256: str) -> bool:
        return exists(self._home.disk, self._home.need("spool"), f"{sha256}.file")

    def stage(self, operation_id: str, files: Sequence[tuple[str, str]]) -> list[str]:
        self.unstage(operation_id)
        folder, name = self._home.need("spool"), f"{operation_id}.up"
        fd = open_dir(self._home.disk, folder, name, create=True)
        assert fd is not None
        try:
            for sha256, sent_name in files:
                link(self._home.disk, folder, f"{sha256}.file", fd, sent_name)
        finally:
            self._home.disk.close(fd)
        return [self._home.shown(os.path.join("spool", name, sent_name)) for _, sent_name in files]

    def unstage(self, operation_id: str) -> None:
        remove_folder(self._home.disk, self._home.need("spool"), f"{operation_id}.up")

    def tidy(self, *, digests: Callable[[str], bool], operations: Callable[[str], bool], prompts: Callable[[str], bool]) -> int:
        disk, folder, count = self._home.disk, self._home.need("spool"), 0
        for name in disk.names(folder):
            if (file := _FILE.fullmatch(name)) is not None:
                count += not digests(file[1]) and remove(disk, folder, name)
            elif (own := _OF_OPERATION.fullmatch(name)) is not None:
                if own[2] == "up":
                    count += not operations(own[1]) and remove_folder(disk, folder, name)
                else:
                    count += not prompts(own[1]) and remove(disk, folder, name)
        return count
