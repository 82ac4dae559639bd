"""Whether a home whose ledger is empty or gone has had one: what else in it was only ever written after a record of the ledger.

A spooled prompt, the log of a turn of ours, a registry row of our own conversation: each stands behind a record that was durable before it
(the ledger has its first record before a prompt is spooled). So such a home is not a fresh one: acknowledged records are gone.
Conversations that were imported, and turns that were copied from the site, need no ledger and tell nothing. Reads; changes nothing.
"""

from __future__ import annotations

import re

from gptbridge.core.errors import Failure
from gptbridge.edge.files import read_bytes
from gptbridge.edge.home import Home
from gptbridge.edge.journal import Journal, NoLock

REGISTRY = "conversations.jsonl"
_OWN_TURN = re.compile(rb"^<!-- ask-gpt turn=\d+ (?:[^ >]+ )*?op=", re.MULTILINE)


def of_operations(home: Home) -> str | None:
    """The place below the home (of our own naming) that tells of an operation; None where nothing does."""
    if home.fd is None:
        return None
    try:
        if any(Journal(home.disk, home.fd, REGISTRY, NoLock()).mentioning(b'"origin":"own"')):  # from its end: the first one is enough
            return REGISTRY
        spool, logs = home.folder("spool"), home.folder("logs")
        if spool is not None and any(name.endswith(".prompt") and not name.startswith(".") for name in home.disk.names(spool)):
            return "spool/"
        if logs is not None:
            names = [name for name in home.disk.names(logs) if name.endswith(".log") and not name.startswith(".")]
            if any(name.startswith("failed-") or _OWN_TURN.search(read_bytes(home.disk, logs, name) or b"") for name in names):
                return "logs/"
    except Failure:
        return None  # what cannot be read tells nothing; its own reader says so
    return None
