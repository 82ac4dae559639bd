"""The YAML header of a conversation log, without a YAML library: one scalar per line, in the two styles that need no parser.

Format, version 1 (`created` is quoted, since YAML would read it as a time):

    ---
    format: ask-gpt-log/1
    conversation: 68c1d2e3-0000-8000-8000-000000000001
    created: '2026-11-29T13:00:00Z'
    ---

A value is plain where no YAML reader could take it for anything but that string, else single-quoted on one line; hidden code points, TAB
and LF are visible escapes first, so a YAML library reads the escaped form and `read` gives the text itself. A line in any other style is
reported, not guessed at. A format of a higher major version is `newer`: nothing may be written into such a file. Pure; `read` never raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gptbridge.core.escape import unescape, visible

FORMAT = "ask-gpt-log/1"
_LIMIT = 65536
_KEY = re.compile("[a-z][a-z0-9_-]{0,63}")
_PLAIN = re.compile("(?:[A-Za-z]|[0-9a-f]{8}-[0-9a-f]{4}-)[A-Za-z0-9._/:@-]*(?<!:)")
_RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"))
_QUOTED = re.compile("'((?:[^']|'')*)'")
_FORMAT = re.compile(r"ask-gpt-log/(\d{1,6})(?:\.\d{1,6})?")


@dataclass(slots=True)
class Header:
    """What stands before the first block. `end`: offset of the first byte behind it, 0 when there is no whole header."""

    values: dict[str, str] = field(default_factory=dict)
    end: int = 0
    newer: bool = False
    problems: list[tuple[int, str]] = field(default_factory=list)


def header(conversation: str | None, url: str | None, created: str, account: str | None = None, **more: str | None) -> bytes:
    """The header as bytes, up to and including its last LF; None leaves a key out. Raises ValueError for a key that is no plain word."""
    values: dict[str, str | None] = {"format": FORMAT, "conversation": conversation, "url": url, "account": account, "created": created}
    lines = ["---"]
    for key, value in (values | more).items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"not a header key: {key!r}")
        if value is not None:
            lines.append(f"{key}: {_scalar(value)}")
    return ("\n".join([*lines, "---"]) + "\n").encode()


def read(data: bytes) -> Header:
    """The header at the start of `data` (the whole file, or at least its first 64 KiB)."""
    found = Header()
    stop = data.find(b"\n---\n", 3, _LIMIT)
    if not data.startswith(b"---\n") or stop < 0:
        found.problems.append((0, "no header"))
        return found
    found.end = stop + 5
    offset = 4
    for raw in data[4:stop].split(b"\n"):
        key, sep, text = raw.decode("utf-8", "replace").partition(": ")
        value = _value(text)
        if not sep or not _KEY.fullmatch(key) or value is None or key in found.values:
            found.problems.append((offset, "header line not understood"))
        else:
            found.values[key] = value
        offset += len(raw) + 1
    version = _FORMAT.fullmatch(found.values.get("format", ""))
    found.newer = bool(version) and int(version[1]) > 1 if version else False
    if found.newer:
        found.problems.append((4, "format of a newer version: " + found.values["format"]))
    elif not version or version[1] != "1":
        found.problems.append((4, "format is not " + FORMAT))
    return found


def is_newer(head: bytes) -> bool:
    """Whether a file that begins with `head` (up to 64 KiB) has a format that this version must not write into."""
    return read(head).newer


def _plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text)) and text.lower() not in _RESERVED


def _scalar(value: str) -> str:
    text = visible(value, multiline=False)
    return text if _plain(text) else "'" + text.replace("'", "''") + "'"


def _value(text: str) -> str | None:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return unescape(quoted[1].replace("''", "'"))
    return unescape(text) if _plain(text) else None
