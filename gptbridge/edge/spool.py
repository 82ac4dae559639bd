"""Prompts as admitted: `spool/<operation id>.prompt`, so that a person who decides about an uncertain operation can read the text."""

from __future__ import annotations

from gptbridge.edge.files import read_bytes, remove, replace
from gptbridge.edge.home import Home


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
