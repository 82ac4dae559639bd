"""Kept results of reading a journal's beginning, so that a long one is not read anew by every command.

They decide nothing: each names how many bytes it covers and their checksum, and counts only while the file still begins with just these
bytes, so damage anywhere in them is seen as ever (the whole file is read then). For what is only shown both ends of these bytes are looked
at, as of a file that was read before: damage between them is told by everything that decides. They may be deleted at any time. Failing to
write one is no error; it is written outside of every transaction.

`ledger.check` holds the fold (core/ledger.py's `dump`) with the facts `size`, `crc`, `ends`, `next_seq`, `lines`. `conversations.check`
holds only these facts: {"format":"ask-gpt-registry-check/1","size":N,"crc":N,"ends":N,"next_seq":N,"lines":N,"sum":"<8 hex>"}, `sum` the
CRC-32 of the rest.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import View
from gptbridge.core.record import Scan
from gptbridge.edge.files import read_bytes, replace
from gptbridge.edge.home import Home
from gptbridge.edge.journal import Journal

LEDGER = "ledger.check"
REGISTRY = "conversations.check"
REGISTRY_FORMAT = "ask-gpt-registry-check/1"
BEHIND = 512  # records; a shorter tail is read quickly enough

_UNREADABLE = (Failure, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def load(home: Home, journal: Journal) -> View | None:
    """The kept view, with `journal` set to go on behind it; None where there is none that holds."""
    if home.fd is None:
        return None
    try:
        facts, view = records.load(read_bytes(home.disk, home.fd, LEDGER) or b"")
        return view if _go_on(journal, facts) else None
    except _UNREADABLE:
        return None  # a checkpoint that cannot be read is none


def glimpse(home: Home, journal: Journal) -> tuple[View, int] | None:
    """What `records.load_head` gives, with `journal` set to go on behind it: for display. None where there is none that fits."""
    if home.fd is None:
        return None
    try:
        found, size = None, 1 << 16
        while found is None and (data := read_bytes(home.disk, home.fd, LEDGER, limit=size)):
            found = records.load_head(data)
            if len(data) < size:
                break
            size *= 4
        if found is None:
            return None
        facts, view, least = found
        return (view, least) if journal.start_between(_known(facts).clean_size, int(facts["ends"]), _known(facts)) else None
    except _UNREADABLE:
        return None


def store(home: Home, journal: Journal, scan: Scan, view: View) -> None:
    """Keep `view`, the fold of all of `scan`, unless the file is damaged or torn."""
    if scan.damage or scan.torn or view.last_seq + 1 != scan.next_seq:
        return
    try:
        replace(home.disk, home.need(), LEDGER, records.dump(view, _facts(journal, scan)))
    except (Failure, OSError, ValueError):
        return


def load_registry(home: Home, journal: Journal) -> int:
    """Let `journal` go on behind what was read once and found whole; how many lines that is."""
    if home.fd is None:
        return 0
    try:
        kept = json.loads(read_bytes(home.disk, home.fd, REGISTRY) or b"")
        if kept.pop("sum") == _sum(kept) and kept["format"] == REGISTRY_FORMAT:
            return int(kept["lines"]) if _go_on(journal, kept) else 0
    except _UNREADABLE:
        pass  # as for the ledger: it is none
    return 0


def store_registry(home: Home, journal: Journal, scan: Scan) -> None:
    if scan.damage or scan.torn:
        return
    try:
        kept = {"format": REGISTRY_FORMAT, **_facts(journal, scan)}
        replace(home.disk, home.need(), REGISTRY, json.dumps({**kept, "sum": _sum(kept)}).encode("ascii") + b"\n")
    except (Failure, OSError):
        return


def _facts(journal: Journal, scan: Scan) -> dict[str, Any]:
    return {"size": scan.clean_size, "crc": journal.checksum, "ends": journal.ends_checksum, "next_seq": scan.next_seq, "lines": scan.lines}


def _go_on(journal: Journal, facts: Mapping[str, Any]) -> bool:
    known = _known(facts)
    return journal.start_at(known.clean_size, int(facts["crc"]), known)


def _known(facts: Mapping[str, Any]) -> Scan:
    return Scan(next_seq=int(facts["next_seq"]), clean_size=int(facts["size"]), lines=int(facts["lines"]))


def _sum(kept: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(kept, sort_keys=True).encode('ascii')):08x}"
