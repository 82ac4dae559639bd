"""The registry on disk: `conversations.jsonl` behind the Registry port; same journal rules as the ledger.

A damaged line inside refuses every write (18, RG-18) until a person accepts the loss: that is a record of its own, `accepted_loss`, and the
damage before it counts no more. Nothing of the file is changed by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gptbridge.core import registry as records
from gptbridge.core.ledger import rfc3339
from gptbridge.core.record import Damage, Scan
from gptbridge.core.registry import Conversation
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Appended, Journal, damaged
from gptbridge.edge.ledger_file import _NoLock

NAME = "conversations.jsonl"
Records = Iterable[tuple[int, Mapping[str, Any]]]
Row = Mapping[str, Any]


class RegistryFile:
    def __init__(self, home: Home, host: Host, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self._host, self._warn = host, warn
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
            self._say(self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True))  # `_check` refused what counts

    def transact(self, decide: Callable[[Records], Sequence[Row]]) -> None:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._journal.read()
            _check(scan)
            rows = self._stamped(decide(self._oldest_first()))
            if rows and scan.next_seq == 1:
                rows.insert(0, records.first_record(rfc3339(self._host.wall())))
            if rows:
                self._say(self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True))

    def rewrite(self, order: Callable[[Records], Sequence[Row] | None]) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._journal.read()
            _check(scan)
            rows = order(self._oldest_first())
            if rows is None:
                return False
            began = next((str(fields["at"]) for _, fields in self._oldest_first() if "format" in fields), rfc3339(self._host.wall()))
            self._say(self._journal.rewrite(self._stamped(rows), records.first_record(began), expect=scan.next_seq))
            return True

    def _oldest_first(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Every record; nothing is read before the first is asked for."""
        yield from reversed(list(self.newest_first()))

    def _stamped(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """A record that has a time keeps it."""
        at = rfc3339(self._host.wall())
        return [{"at": at, **row} for row in rows]

    def _say(self, appended: Appended) -> None:
        """A torn end that was sealed is reported (RG-18)."""
        if appended.sealed:
            self._warn(f"{NAME}: sealed a torn end of {appended.sealed} bytes that a dead writer left; nothing acknowledged was lost")

    def check(self) -> None:
        _check(self._journal.read())

    def accept_loss(self, because: str) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._journal.read()
            _check_version(scan)
            if not _open_damage(scan):
                return False
            at = rfc3339(self._host.wall())
            rows: list[dict[str, Any]] = [{"at": at, "accepted_loss": True, "pid": self._host.pid, "actor": "person", "reason": because}]
            if not any("format" in record.fields for record in scan.records):
                rows.insert(0, records.first_record(at))
            self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True)
            return True

    def newest_first(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for record in self._journal.newest():
            yield record.seq, record.fields


def _check(scan: Scan) -> None:
    """Before any write: a file of a newer version stays as it is, and damage is not written over."""
    _check_version(scan)
    if found := _open_damage(scan):
        raise damaged(NAME, replace(scan, damage=found), "restore the file, or accept the loss: ask-gpt ops accept-loss --because TEXT")


def _check_version(scan: Scan) -> None:
    for record in scan.records:
        if "format" in record.fields:
            records.read(record.fields)


def _open_damage(scan: Scan) -> list[Damage]:
    accepted = next((record.offset for record in reversed(scan.records) if "accepted_loss" in record.fields), -1)
    return [found for found in scan.damage if found.offset > accepted]
