"""A kept view of the ledger's beginning, `ledger.check`, so that a long ledger is not parsed anew by every command.

It decides nothing: it names how many bytes it covers and their checksum, and counts only while the file still begins with just these
bytes, so damage anywhere in them is seen as ever (the whole file is parsed then). It may be deleted at any time. Failing to write it is no
error; it is written outside of every transaction.

Format, one JSON object: {"format":"ask-gpt-ledger-check/1","size":N,"crc":N,"next_seq":N,"lines":N,"view":{...}}
"""

from __future__ import annotations

import json

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import View
from gptbridge.core.record import Scan
from gptbridge.edge.files import read_bytes, replace
from gptbridge.edge.home import Home
from gptbridge.edge.journal import Journal

NAME = "ledger.check"
FORMAT = "ask-gpt-ledger-check/1"
BEHIND = 512  # records; a shorter tail is parsed quickly enough


def load(home: Home, journal: Journal) -> View | None:
    """The kept view, with `journal` set to go on behind it; None where there is none that holds."""
    if home.fd is None:
        return None
    try:
        data = read_bytes(home.disk, home.fd, NAME)
        kept = json.loads(data) if data else {}
        if kept.get("format") != FORMAT:
            return None
        view = records.load(kept["view"])
        known = Scan(next_seq=int(kept["next_seq"]), clean_size=int(kept["size"]), lines=int(kept["lines"]))
        return view if journal.start_at(known.clean_size, int(kept["crc"]), known) else None
    except (Failure, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # a checkpoint that cannot be read is none


def store(home: Home, journal: Journal, scan: Scan, view: View) -> None:
    """Keep `view`, the fold of all of `scan`, unless the file is damaged or torn."""
    if scan.damage or scan.torn or view.last_seq + 1 != scan.next_seq:
        return
    try:
        kept = {"format": FORMAT, "size": scan.clean_size, "crc": journal.checksum(scan.clean_size), "next_seq": scan.next_seq,
                "lines": scan.lines, "view": records.dump(view)}
        replace(home.disk, home.need(), NAME, json.dumps(kept, separators=(",", ":")).encode("ascii"))
    except (Failure, OSError):
        return
