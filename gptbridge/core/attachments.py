"""Files that go with a prompt: the names under which the site gets them, how log and document tell of them, whether the request has them.

A sent name is safe wherever it may end up (one line, no path, no option, no hidden direction of writing) and differs from every other
name of the message, also where letter case does not count: the page and the site's tools know a file by its name alone.
A log's `attachments` section holds one JSON object for each file, in order: `name`, `sent_name`, `size`, `sha256`. A turn that was copied
from the site and is no operation's has the site's names there (`brought.offered`), and none of our rows. Pure; raises nothing.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gptbridge.core.operation import File

if TYPE_CHECKING:
    from gptbridge.core.page_request import SentFile, Upload
    from gptbridge.core.transcript import Block

MOST = 10  # files of one message (the site's own limit, 2025-11)
LARGEST = 512 * 2**20  # bytes of one file (the site's own limit)
LONGEST_NAME = 200  # bytes: room below a file system's 255 for a number and whatever the site adds

SECTION = "attachments"
Row = dict[str, Any]

_JOINERS = "\u200c\u200d"  # between letters of some scripts, and inside emoji
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def sent_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names that the site gets, in order: `NOTES.md` and `NOTES.md` go out as `NOTES.md` and `NOTES-2.md`."""
    plain = [safe_name(name) for name in names]
    taken = {_key(name) for name in plain}
    seen: set[str] = set()
    out = []
    for name in plain:
        stem, suffix = _split(name)
        number, tried = 2, name
        while _key(tried) in seen or (tried != name and _key(tried) in taken):
            tried = f"{stem}-{number}{suffix}"
            number += 1
        seen.add(_key(tried))
        out.append(tried)
    return tuple(out)


def safe_name(name: str) -> str:
    """One path component of one line, without characters that hide or reverse others, that does not look like an option."""
    text = "".join("_" if _is_unsafe(char) else char for char in unicodedata.normalize("NFC", name)).strip()
    if text.startswith("-"):
        text = "_" + text[1:]
    if text in ("", ".", ".."):
        text = "file"
    stem, suffix = _split(text)
    while len(f"{stem}{suffix}".encode()) > LONGEST_NAME:
        stem, suffix = (stem[:-1], suffix) if stem else ("file", "")
    return stem + suffix


def is_image(name: str) -> bool:
    return name.lower().endswith(_IMAGES)


def _is_unsafe(char: str) -> bool:
    return char in "/\\" or (unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char not in _JOINERS)


def _split(name: str) -> tuple[str, str]:
    """(stem, suffix with its dot); `.tar.gz` is one suffix, a leading dot is none."""
    dot = name.rfind(".")
    if dot > 4 and name[:dot].endswith(".tar"):
        dot -= 4
    return (name[:dot], name[dot:]) if dot > 0 else (name, "")


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


# What ledger, log and document say

def rows(files: Sequence[Mapping[str, Any]] | None, uploads: Sequence[Mapping[str, Any]] | None = None) -> list[Row]:
    """`attachments[]` of an operation: its files as recorded, each with the name that the held request gave it, else the one we gave it."""
    known = list(files or ())
    sent = [str(one["name"]) for one in uploads or ()]
    if len(sent) != len(known):
        sent = list(sent_names([str(one["name"]) for one in known]))
    return [{"name": one["name"], "sent_name": name, "size": one["size"], "sha256": one["sha256"]}
            for one, name in zip(known, sent, strict=True)]


def recorded(files: Sequence[File]) -> list[Row]:
    """As the ledger keeps them: name, size and digest only."""
    return [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files]


def section(found: Sequence[Row]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in found)


def read_section(text: str | None) -> list[Row]:
    """The rows of a log's section; what cannot be read is left out."""
    found: list[Row] = []
    for line in (text or "").split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("name"), str) and type(row.get("size")) is int and all(
                row.get(key) is None or isinstance(row[key], str) for key in ("sent_name", "sha256")):
            found.append({key: row.get(key) for key in ("name", "sent_name", "size", "sha256")})
    return found


def of_block(block: Block | None) -> list[Row]:
    """What a turn of an operation says that was sent with it; who else's files these are only the site knows."""
    ours = block is not None and (not block.hydrated or block.attr("op") is not None)
    return read_section(block.section(SECTION)) if block is not None and ours else []


# Whether what happens in the page is what was admitted

def matched(names: Sequence[str], sizes: Sequence[int], uploads: Sequence[Upload]) -> tuple[Upload, ...] | None:
    """The page's uploads in the order of our files; None while they are not exactly ours.

    By name and size; where the page gave a file another name, by its size: of two such files of one size either is right, both are ours.
    """
    left = list(uploads)
    found: dict[int, Upload] = {}
    for by_name in (True, False):
        for at, (name, size) in enumerate(zip(names, sizes, strict=True)):
            match = next((u for u in left if u.size == size and (u.name == name or not by_name)), None) if at not in found else None
            if match is not None:
                found[at] = match
                left.remove(match)
    return tuple(found[at] for at in range(len(names))) if len(found) == len(names) and not left else None


def difference(uploads: Sequence[Upload], held: Sequence[SentFile]) -> str | None:
    """What sets the files of the request that is about to leave apart from those that were uploaded for it; None: nothing (GT-02)."""
    expected = {upload.file_id: upload for upload in uploads}
    ids = [file.file_id for file in held]
    if len(set(ids)) != len(ids):
        return "attachments: one is there twice"
    if missing := len(expected.keys() - set(ids)):
        return f"attachments: {missing} of {len(expected)} missing"
    if more := len(set(ids) - expected.keys()):
        return f"attachments: {more} more than were given"
    for file in held:
        if file.size is not None and file.size != expected[file.file_id].size:
            return "attachments: the size of one"
        if file.name is not None and file.name != expected[file.file_id].name:
            return "attachments: the name of one"
    return None
