"""The registry on disk: `conversations.jsonl` behind the Registry port; same journal rules as the ledger.

Guarantees: before a write the whole file is known to be sound (damage inside fails closed, with its line), but only what lies behind the
prefix that was verified once is read for it; an id never changes its account. Reading for display goes from the end backwards, decodes
only what is asked for, and counts in `skipped` the damaged lines that it met.
A damaged line inside refuses every write (18, RG-18) until a person accepts the loss: that is a record of its own, `accepted_loss`, and the
damage before it counts no more. Nothing of the file is changed by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gptbridge.core import registry as records
from gptbridge.core.ledger import rfc3339
from gptbridge.core.record import BadLine, Damage, Scan, decode, is_sealed
from gptbridge.core.registry import Conversation, Glance
from gptbridge.edge import checkpoint
from gptbridge.edge.files import read_bytes
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import AWAY, Appended, Journal, NoLock, damaged

NAME = "conversations.jsonl"
BEHIND = 4096  # records
Records = Iterable[tuple[int, Mapping[str, Any]]]
Row = Mapping[str, Any]


class RegistryFile:
    def __init__(self, home: Home, host: Host, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self._home, self._host, self._warn = home, host, warn
        self._lock = home.locks.lock("registry") if home.locks is not None else None
        self._journal = Journal(home.disk, home.fd, NAME, self._lock or NoLock(), keep=False)
        self._kept: int | None = None  # how many lines the kept prefix covers, once it was looked at
        self.skipped = 0

    def get(self, conversation_id: str) -> Conversation | None:
        """The latest record of an id: its own line alone is decoded."""
        for found in self._of(b'"conversation_id":' + json.dumps(conversation_id).encode("ascii")):
            if found.conversation_id == conversation_id:
                return found
        return None

    def beginning_with(self, text: str) -> set[str]:
        """The ids that begin so."""
        found = self._of(b'"conversation_id":' + json.dumps(text).encode("ascii")[:-1])
        return {one.conversation_id for one in found if one.conversation_id.startswith(text)}

    def put(self, conversation: Conversation, behind: int = BEHIND) -> None:
        """`behind`: after how many records the verified prefix is kept anew."""
        assert self._lock is not None
        with self._lock.hold():
            scan = self._sound()
            known = self.get(conversation.conversation_id)
            if known is not None and known.account != conversation.account:
                raise records.conflict(conversation.conversation_id, scan.next_seq)
            at = rfc3339(self._host.wall())
            rows: list[dict[str, Any]] = [{"at": at, **conversation.fields()}]
            if scan.next_seq == 1:
                rows.insert(0, records.first_record(at))
            self._say(self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True))  # `_sound` refused what counts
        self._keep(behind)

    def transact(self, decide: Callable[[Records], Sequence[Row]]) -> None:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._sound()
            rows = self._stamped(decide(self._oldest_first()))
            if rows and scan.next_seq == 1:
                rows.insert(0, records.first_record(rfc3339(self._host.wall())))
            if rows:
                self._say(self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True))
        self._keep()

    def rewrite(self, order: Callable[[Records], Sequence[Row] | None]) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._sound()
            rows = order(self._oldest_first())
            if rows is None or scan.damage:  # of what was given up nothing may vanish from the file
                return False
            began = next((str(fields["at"]) for _, fields in self._oldest_first() if "format" in fields), rfc3339(self._host.wall()))
            self._say(self._journal.rewrite(self._stamped(rows), records.first_record(began), expect=scan.next_seq))
        self._keep()
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
        self._sound()

    def seal(self) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._sound()
            if not scan.torn_size or scan.next_seq == 1:
                return False
            return self._journal.append_all([], expect=scan.next_seq, despite_damage=True).sealed > 0

    def accept_loss(self, because: str) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            self._check_format()
            scan = self._journal.read()
            if not self._open_damage(scan):
                return False
            at = rfc3339(self._host.wall())
            rows: list[dict[str, Any]] = [{"at": at, "accepted_loss": True, "pid": self._host.pid, "actor": "person", "reason": because}]
            if not any("format" in fields for _, fields in self.newest_first()):
                rows.insert(0, records.first_record(at))
            self._journal.append_all(rows, expect=scan.next_seq, despite_damage=True)
            return True

    def newest_first(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for record in self._journal.newest():
            yield record.seq, record.fields

    def glances(self) -> Iterator[Glance]:
        """Every valid record from the end of the file, read no further than asked and decoded no more than a list needs."""
        for line, _ in self._journal.newest_lines():
            try:
                found = records.glance(line)
            except BadLine:
                self.skipped += not is_sealed(line)
                continue
            if found is not None:
                yield found

    def torn_size(self) -> int:
        """Bytes behind the last whole line: what a killed writer left, and the next one will seal."""
        if self._home.fd is None:
            return 0
        end = read_bytes(self._home.disk, self._home.fd, NAME, start=-(1 << 16)) or b""
        return len(end) - (end.rfind(b"\n") + 1)

    def _of(self, text: bytes) -> Iterator[Conversation]:
        for record in self._journal.mentioning(text):
            found = records.read(record.fields)
            if found is not None:
                yield found

    def _sound(self) -> Scan:
        """The file as it is now, if it may be written to: a newer version's stays as it is, and damage is not written over."""
        if self._kept is None:
            self._check_format()
            self._kept = checkpoint.load_registry(self._home, self._journal)
        scan = self._journal.read()
        if found := self._open_damage(scan):
            raise damaged(NAME, replace(scan, damage=found), "restore the file, or accept the loss: ask-gpt ops accept-loss --because TEXT")
        return scan

    def _open_damage(self, scan: Scan) -> list[Damage]:
        """The damage that nobody has accepted: it lies behind the last record that accepts one."""
        if not scan.damage:
            return []
        whole = Journal(self._home.disk, self._home.fd, NAME, self._lock or NoLock()).read()
        accepted = next((record.offset for record in reversed(whole.records) if "accepted_loss" in record.fields), -1)
        return [found for found in whole.damage if found.offset > accepted]

    def _check_format(self) -> None:
        data = read_bytes(self._home.disk, self._home.fd, NAME, limit=4096, away=AWAY) if self._home.fd is not None else None
        line, end, _ = (data or b"").partition(b"\n")
        try:
            if end:
                records.read(decode(line)[1])
        except BadLine:
            return  # damage, which reading all of it finds and names

    def _keep(self, behind: int = BEHIND) -> None:
        """Outside of the lock: what is known to be sound need not be read again by the next process."""
        scan = self._journal.read()
        if scan.lines - (self._kept or 0) > behind:
            checkpoint.store_registry(self._home, self._journal, scan)
            self._kept = scan.lines
