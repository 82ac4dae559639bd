"""What became of each file that the model made: the value, its line in a log's `artifacts` section, and its place in `--json`.

Format: one JSON object a line with the keys of `Brought`. `source` is the artifact's identity, by which a later run knows that it has the
file. A line that is no such object is skipped: an older or a later version wrote it. In a turn that was copied from the site the section
lists what the site names (`offered`): there no line is a record, whatever it looks like, and none that is written now looks like one.
Pure; reading raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    """The records in lines of our own."""
    found = []
    for line in (section or "").split("\n"):
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict) and set(facts) >= _KEYS and _is_sound(facts):
            found.append(Brought(**{key: facts[key] for key in _KEYS}))
    return found


def _is_sound(facts: Mapping[str, Any]) -> bool:
    """As we write it: a file of ours lies in our folder, and in none below it."""
    if facts["status"] not in ("saved", "present", "failed") or not all(isinstance(facts[key], str) for key in ("name", "kind", "source")):
        return False
    if not all(facts[key] is None or isinstance(facts[key], str) for key in ("path", "sha256", "mime", "error")):
        return False
    if facts["path"] is not None:
        folder, _, name = facts["path"].rpartition("/")
        if folder != FOLDER or name in ("", ".", ".."):
            return False
    return facts["size"] is None or type(facts["size"]) is int


def offered(files: Iterable[Mapping[str, Any]]) -> str:
    """A section's text: what the site calls files that nobody fetched, one a line. `image "sediment://file_..." (7 bytes)`: the site's
    own words stand in a JSON string, so that they end no line and begin none."""
    return "\n".join(map(_offered_line, files))


def _offered_line(file: Mapping[str, Any]) -> str:
    """Of what `artifacts.made` or `content.attachments` gives; the latter says no kind."""
    named = file.get("name") or file.get("path") or file.get("pointer") or file.get("id") or ""
    size = file.get("size")
    return f"{file.get('kind') or 'file'} {json.dumps(named, ensure_ascii=False)}" + (f" ({size} bytes)" if size is not None else "")


def of_block(block: Block | None) -> list[Brought]:
    """What a turn or event of our own records; a turn that was copied from the site records nothing."""
    return parse(block.section(SECTION)) if block is not None and not block.hydrated else []


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
