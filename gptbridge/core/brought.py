"""What became of each file that the model made: the value, its line in a log's `artifacts` section, and its place in `--json`.

Format: one JSON object a line with the keys of `Brought`. `source` is the artifact's identity, by which a later run knows that it has the
file. A line that is no such object is skipped: an older or a later version wrote it.
Pure; reading raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from gptbridge.core.errors import Failure
from gptbridge.core.transcript import Block, Log

SECTION = "artifacts"
FOLDER = "./ask-gpt"
UNUSABLE = f"{FOLDER} cannot be used"


@dataclass(frozen=True, slots=True)
class Brought:
    """status: saved, present (equal size and bytes were there) or failed. name: as offered, made safe. path: relative to the working
    folder, None unless it is there. size in bytes; sha256: 64 hex digits. error: why it failed, in one clause."""

    status: Literal["saved", "present", "failed"]
    path: str | None
    name: str
    size: int | None
    sha256: str | None
    mime: str | None
    error: str | None
    kind: str
    source: str

    @property
    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def document(self) -> dict[str, Any]:
        """One of `files[]` or `images[]`."""
        return {"name": self.name, "path": self.path, "size": self.size, "sha256": self.sha256, "mime": self.mime, "status": self.status,
                "error": self.error}


_KEYS = {one.name for one in fields(Brought)}


def text(files: Iterable[Brought]) -> str:
    """The section's text."""
    return "\n".join(one.line for one in files)


def parse(section: str | None) -> list[Brought]:
    found = []
    for line in (section or "").split("\n"):
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict) and set(facts) >= _KEYS and facts["status"] in ("saved", "present", "failed"):
            one = Brought(**{key: facts[key] for key in _KEYS})
            if all(isinstance(value, str) for value in (one.name, one.kind, one.source)):
                found.append(one)
    return found


def of_block(block: Block | None) -> list[Brought]:
    return parse(block.section(SECTION)) if block is not None else []


def known(log: Log | None) -> dict[str, Brought]:
    """What any turn or event of the log says was there at last, by source."""
    blocks = log.blocks if log is not None else ()
    return {one.source: one for block in blocks for one in of_block(block) if one.status != "failed" and one.path and one.sha256}


def missing(files: Sequence[Brought], conversation_id: str | None) -> Failure | None:
    """The failure of a command some of whose files are missing (33); None when all are there."""
    lost = [one for one in files if one.status == "failed"]
    if not lost:
        return None
    again = f"ask-gpt download-attachments {conversation_id}"
    here = any((one.error or "").startswith(UNUSABLE) for one in lost)
    return Failure("artifacts-incomplete", f"{len(lost)} of {len(files)} file{'s' if len(files) > 1 else ''} could not be brought back",
                   f"make ./ask-gpt a folder of yours that can be written, or go to another folder, then {again}" if here else
                   f"{again} tries again; what has expired on the site stays lost")


def documents(files: Iterable[Brought]) -> dict[str, list[dict[str, Any]]]:
    """`images` and `files` of the result document."""
    out: dict[str, list[dict[str, Any]]] = {"images": [], "files": []}
    for one in files:
        out["images" if one.kind == "image" else "files"].append(one.document)
    return out
