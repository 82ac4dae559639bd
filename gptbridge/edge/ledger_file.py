"""The ledger on disk: `ledger.jsonl` behind the Ledger port, each transaction under the ledger lock.

Guarantees: what `decide` saw is what the append follows (same lock, same sequence number), each record is durable before `transact`
returns. Refuses to append where an acknowledged record is gone: damage, a gap, or an end below the stamp's number (DU-03). Clock and pid
are added here. Fails closed: state-corrupt (18), state-unwritable (19), bad-config (20) for a home of another site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import BrokenHistory, Operation, View
from gptbridge.core.record import Record, Scan
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal, damaged
from gptbridge.edge.locks import Lock

NAME = "ledger.jsonl"
LIMIT_BYTES = 64 * 2**20
_LEADING = ("operation_id", "state", "epoch")  # a line reads in this order: seq, sum, at, these, pid, actor, reason, what the state adds


class _NoLock:
    """For readers of an absent home: nothing is ever held."""

    held = False


class LedgerFile:
    """`site` None for readers that take whatever site the home belongs to. `mark`: the stamp's number, read anew each time."""

    def __init__(self, home: Home, host: Host, *, site: str | None = None, mark: Callable[[], int] = lambda: 0,
                 warn: Callable[[str], None] = lambda text: None) -> None:
        self._host, self._site, self._mark, self._warn = host, site, mark, warn
        self._lock: Lock | None = home.locks.lock("ledger") if home.locks is not None else None
        self._journal = Journal(home.disk, home.fd, NAME, self._lock or _NoLock())
        self._view = View()
        self._ends: tuple[Record, ...] = ()
        self._folded = 0

    def view(self) -> View:
        """Everything committed now; damage is refused, since a view with a hole would lie."""
        return self._fold(self._journal.read())

    def history(self, operation_id: str) -> Operation | None:
        """One operation with all its transitions."""
        rows = [(r.seq, r.fields) for r in self._read().records if r.fields.get("operation_id") == operation_id]
        return self._checked(lambda: records.fold(rows, with_history=True)).get(operation_id)

    def transact(self, decide: Callable[[View], Sequence[Mapping[str, Any]]]) -> View:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._read()
            view = self._fold(scan)
            self._refuse_loss(scan, view)
            rows = [dict(row) for row in decide(view)]
            if not rows:
                return view
            if scan.clean_size > LIMIT_BYTES and any(row.get("state") == "queued" and "attempt" in row for row in rows):
                raise Failure("state-unwritable", f"{NAME} is over 64 MB; nothing was sent", "ask-gpt ops list: resolve what is open")
            at = records.rfc3339(self._host.wall())
            stamped = [{"at": at, **{key: row[key] for key in _LEADING if key in row}, "pid": self._host.pid,
                        **{key: value for key, value in row.items() if key not in _LEADING}} for row in rows]
            if not scan.records:
                stamped.insert(0, records.first_record(self._site or "", at))
            appended = self._journal.append_all(stamped, expect=scan.next_seq)
            if appended.sealed:
                self._warn(f"{NAME}: sealed a torn end of {appended.sealed} bytes that a dead writer left; nothing acknowledged was lost")
            return self._fold(self._journal.read())

    def reopen(self) -> None:
        self._journal.reopen()

    def _read(self) -> Scan:
        scan = self._journal.read()
        if scan.damage:
            raise damaged(NAME, scan)
        return scan

    def _refuse_loss(self, scan: Scan, view: View) -> None:
        mark = self._mark()
        if view.last_seq < mark:
            raise Failure("state-corrupt", f"{NAME} ends at record {view.last_seq}, but the dispatch stamp knows of record {mark}: "
                          "acknowledged records are gone; nothing was sent", "restore the file")

    def _fold(self, scan: Scan) -> View:
        if scan.damage:
            raise damaged(NAME, scan)
        # The same file gone on: its first and its last folded record are the known ones (a pruning renumbers the first).
        known = self._ends
        grown = bool(known) and len(scan.records) >= self._folded and known == (scan.records[0], scan.records[self._folded - 1])
        rows = [(r.seq, r.fields) for r in scan.records[self._folded if grown else 0:]]
        self._view = self._checked(lambda: records.fold(rows, self._view if grown else None))
        self._folded = len(scan.records)
        self._ends = (scan.records[0], scan.records[-1]) if scan.records else ()
        if self._site is not None and self._view.site not in (None, self._site):
            raise Failure("bad-config", f"this home belongs to {self._view.site}, not to {self._site}; nothing was sent",
                          "give the other site a home of its own: ASKGPT_HOME")
        return self._view

    def _checked(self, fold: Callable[[], View]) -> View:
        try:
            return fold()
        except (BrokenHistory, KeyError, ValueError, TypeError) as error:
            raise Failure("state-corrupt", f"{NAME}: {error}; nothing was sent", "keep the file and look at that record") from error
