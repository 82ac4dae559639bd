"""The dispatch stamp on disk: `dispatch.stamp`, one entry for each account, replaced whole under the dispatch lock.

Format: {"format":"ask-gpt-stamp/1","accounts":{"user-0000":{"wall":..,"boottime":..,"boot_id":"..","seq":7}}}; seconds, and the ledger's
high-water mark: the sequence number of the account's last `dispatched` record, raised at the operation's end to its last one.
"""

from __future__ import annotations

import json
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.pacing import Stamp
from gptbridge.edge.files import read_bytes, replace
from gptbridge.edge.home import Home

NAME = "dispatch.stamp"
FORMAT = "ask-gpt-stamp/1"


class StampFile:
    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, account: str) -> Stamp | None:
        return self._accounts().get(account)

    def write(self, account: str, stamp: Stamp) -> None:
        """The caller holds the dispatch lock."""
        accounts = self._accounts()
        accounts[account] = stamp
        document: dict[str, Any] = {"format": FORMAT, "accounts": {name: entry.fields() for name, entry in accounts.items()}}
        replace(self._home.disk, self._home.need(), NAME, json.dumps(document).encode("ascii") + b"\n")

    def raise_seq(self, account: str, seq: int) -> None:
        assert self._home.locks is not None
        with self._home.locks.dispatch():
            stamp = self.read(account)
            if stamp is not None and stamp.seq < seq:
                self.write(account, Stamp(stamp.wall, stamp.boottime, stamp.boot_id, seq))

    def mark(self) -> int:
        """The highest number that any account's stamp names."""
        return max((stamp.seq for stamp in self._accounts().values()), default=0)

    def _accounts(self) -> dict[str, Stamp]:
        if self._home.fd is None:
            return {}
        data = read_bytes(self._home.disk, self._home.fd, NAME)
        if data is None:
            return {}
        try:
            document = json.loads(data)
            if document["format"] != FORMAT:
                raise ValueError("format")
            return {str(name): Stamp.read(entry) for name, entry in document["accounts"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # It is replaced whole, so this is no crash of ours; without it neither the gap nor a lost tail could be seen.
            raise Failure("state-corrupt", f"{NAME} cannot be read; nothing was sent",
                          "restore it; else ask-gpt ops accept-loss --because TEXT") from error
