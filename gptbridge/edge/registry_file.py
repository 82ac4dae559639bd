"""The registry on disk: `conversations.jsonl` behind the Registry port; same journal rules as the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gptbridge.core import registry as records
from gptbridge.core.ledger import rfc3339
from gptbridge.core.record import Scan
from gptbridge.core.registry import Conversation
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal, damaged
from gptbridge.edge.ledger_file import _NoLock

NAME = "conversations.jsonl"


class RegistryFile:
    def __init__(self, home: Home, host: Host) -> None:
        self._host = host
        self._lock = home.locks.lock("registry") if home.locks is not None else None
        self._journal = Journal(home.disk, home.fd, NAME, self._lock or _NoLock())

    def get(self, conversation_id: str) -> Conversation | None:
        """The latest record of an id, read from the end of the file backwards."""
        for _, fields in self.newest_first():
            if fields.get("conversation_id") == conversation_id:
                return records.read(fields)
        return None

    def put(self, conversation: Conversation) -> None:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._journal.read()
            _check(scan)
            known = self.get(conversation.conversation_id)
            if known is not None and known.account != conversation.account:
                raise records.conflict(conversation.conversation_id, scan.next_seq)
            at = rfc3339(self._host.wall())
            rows: list[dict[str, Any]] = [{"at": at, **conversation.fields()}]
            if not scan.records:
                rows.insert(0, records.first_record(at))
            self._journal.append_all(rows, expect=scan.next_seq)

    def check(self) -> None:
        _check(self._journal.read())

    def newest_first(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for record in self._journal.newest():
            yield record.seq, record.fields


def _check(scan: Scan) -> None:
    """Before any write: a file of a newer version stays as it is, and damage is not written over."""
    for record in scan.records[:1]:
        records.read(record.fields)
    if scan.damage:
        raise damaged(NAME, scan)
