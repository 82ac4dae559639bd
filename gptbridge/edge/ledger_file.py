"""The ledger on disk: `ledger.jsonl` behind the Ledger port, each transaction under the ledger lock.

Guarantees: what `decide` saw is what the append follows (same lock, same sequence number), each record is durable before `transact`
returns. Refuses to append where an acknowledged record is gone: damage, a gap, an end below the stamp's number (DU-03), or no record at all
in a home that has had some. Clock and pid are added here. Fails closed: state-corrupt (18), state-unwritable (19), bad-config (20) for a
home of another site.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import BrokenHistory, Operation, View
from gptbridge.core.record import Damage, Scan
from gptbridge.edge import checkpoint, traces
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal, NoLock, damaged
from gptbridge.edge.locks import Lock

NAME = "ledger.jsonl"
LIMIT_BYTES = 64 * 2**20
LOSS_S = 300.0
_BROKEN = (BrokenHistory, KeyError, ValueError, TypeError)  # what a fold of records that no writer of ours made may raise
_LEADING = ("operation_id", "state", "epoch")  # a line reads in this order: seq, sum, at, these, pid, actor, reason, what the state adds


class LedgerFile:
    """`site` None for readers that take whatever site the home belongs to. `mark`: the stamp's number, read anew each time."""

    def __init__(self, home: Home, host: Host, *, site: str | None = None, mark: Callable[[], int] = lambda: 0,
                 warn: Callable[[str], None] = lambda text: None) -> None:
        self._home, self._host, self._site, self._mark, self._warn = home, host, site, mark, warn
        self._lock: Lock | None = home.locks.lock("ledger") if home.locks is not None else None
        self._journal = Journal(home.disk, home.fd, NAME, self._lock or NoLock())
        self._view = checkpoint.load(home, self._journal) or View()
        self._beginning = self._journal.beginnings
        self._folded = 0  # records of the journal's present list that are in the view

    def view(self) -> View:
        """Everything committed now; damage is refused, since a view with a hole would lie."""
        view = self._fold(self._journal.read())
        self._refuse_emptied(view.last_seq)
        return view

    def history(self, operation_id: str) -> Operation | None:
        """One operation with all its transitions, from its own lines alone; of a damaged file those that are left, as `readable`."""
        view, failure = self.readable()
        found = self._journal.mentioning(b'"operation_id":' + json.dumps(operation_id).encode("ascii"))
        rows = sorted({r.seq: r.fields for r in found if r.fields.get("operation_id") == operation_id}.items())
        lossy = view.last_seq if failure else view.loss_seq
        return self._checked(lambda: records.fold(rows, with_history=True, lossy_until=lossy)).get(operation_id)

    def readable(self) -> tuple[View, Failure | None]:
        """Whatever can be read, for a person to look at, and why nothing may be decided on it: damage or lost records, where there are
        any. Then an operation may be missing, or have gone further than it shows."""
        try:
            view = self.view()
        except Failure as failure:
            try:
                rows = self._bare().records
                return records.fold(((r.seq, r.fields) for r in rows), lossy_until=rows[-1].seq if rows else 0), failure
            except (Failure, *_BROKEN):
                raise failure from None
        try:
            self._refuse_loss(view)
        except Failure as failure:
            return view, failure
        return view, None

    @property
    def torn_size(self) -> int:
        """Bytes of a record that was never committed, at the file's end; the next writer seals them."""
        return self._journal.read().torn_size

    def transact(self, decide: Callable[[View], Sequence[Mapping[str, Any]]]) -> View:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._read()
            view = self._fold(scan)
            self._refuse_loss(view)
            rows = [dict(row) for row in decide(view)]
            if not rows:
                return view
            if scan.clean_size > LIMIT_BYTES and any(row.get("state") == "queued" and "attempt" in row for row in rows):
                raise Failure("state-unwritable", f"{NAME} is over 64 MB; nothing was sent",
                              "ask-gpt sweep: it forgets what ended more than 7 days ago\nask-gpt ops list: resolve what is open")
            at = records.rfc3339(self._host.wall())
            stamped = [{"at": at, **{key: row[key] for key in _LEADING if key in row}, "pid": self._host.pid,
                        **{key: value for key, value in row.items() if key not in _LEADING}} for row in rows]
            if scan.next_seq == 1:
                stamped.insert(0, records.first_record(self._site or "", at))
            appended = self._journal.append_all(stamped, expect=scan.next_seq, despite_damage=True)  # `_read` refused what counts
            if appended.sealed:
                self._warn(f"{NAME}: sealed a torn end of {appended.sealed} bytes that a dead writer left; nothing acknowledged was lost")
            return self._fold(self._journal.seen)

    def seal(self) -> bool:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._read()
            self._refuse_loss(self._fold(scan))
            if not scan.torn_size or scan.next_seq == 1:  # before the first record there is nothing that a seal could protect
                return False
            return self._journal.append_all([], expect=scan.next_seq, despite_damage=True).sealed > 0

    def begin(self) -> None:
        assert self._lock is not None
        with self._lock.hold():
            scan = self._read()
            self._refuse_loss(self._fold(scan))
            if scan.next_seq == 1:
                first = records.first_record(self._site or "", records.rfc3339(self._host.wall()))
                self._journal.append_all([first], expect=scan.next_seq, despite_damage=True)

    def settle(self) -> None:
        self._journal.settle()

    def reopen(self) -> None:
        self._journal.reopen()

    @property
    def sound(self) -> bool:
        return self._journal.sound

    def accept_loss(self, because: str, *, site: Callable[[], str] = lambda: "") -> View:
        """A person's word that records are gone and that it is known (DU-13). The only way past them: the floor is raised to five
        minutes from now, so that no id of before can ever run, and new work waits until then.

        site: asked where no record is left that names the home's.
        """
        assert self._lock is not None
        with self._lock.hold():
            scan = self._journal.read()
            wall = self._host.wall()
            at = records.rfc3339(wall)
            formats = [record.fields for record in self._bare().records if "format" in record.fields]
            for fields in formats:
                records.check_format(fields, NAME)  # a newer version's damage is not ours to judge
            if not formats:
                self._journal.append_all([records.first_record(self._site or site(), at)], expect=scan.next_seq, despite_damage=True)
                scan = self._journal.read()
            fields = {"at": at, "accepted_loss": True, "pid": self._host.pid, "actor": "person", "reason": because,
                      "floor": wall + LOSS_S}
            self._journal.append(fields, expect=scan.next_seq, despite_damage=True, seq=max(scan.next_seq, self._known_mark() + 1))
            return self._fold(self._journal.read())

    def _known_mark(self) -> int:
        try:
            return self._mark()
        except Failure:
            return 0  # its loss is accepted with the rest

    def check(self) -> None:
        """Failure("state-corrupt") where a record that was acknowledged is gone and nobody has accepted that yet, naming the place."""
        self._refuse_loss(self._fold(self._read()))

    def is_damaged(self) -> bool:
        """Whether a record that was acknowledged is gone, and nobody has accepted that yet."""
        scan = self._journal.read()
        try:
            last = scan.next_seq - 1
            return bool(_open_damage(scan)) or last < self._mark() or self._emptied(last) is not None
        except Failure:
            return True  # a stamp that cannot be read: how far the ledger went is not known any more

    def prune(self, ended_before: float, limit: int) -> list[str]:
        """Forget at most `limit` operations whose turn ended before that time (epoch seconds), oldest first; their ids. What sweeps have
        noted again and again of the others goes with them, or by itself where it has become much.

        One hold of the lock, from reading to the directory's fsync: a record that another process appends meanwhile would be lost.
        """
        assert self._lock is not None
        with self._lock.hold():
            scan = self._read()
            view = self._fold(scan)
            self._refuse_loss(view)
            gone = records.prunable(view, ended_before)[:limit]
            if gone or records.is_crowded(view):
                first = {**records.first_record(view.site or self._site or "", records.rfc3339(self._host.wall())),
                         "floor": records.raised_floor(view, gone)}
                rows = records.after_pruning([r.fields for r in self._whole().records], set(gone))
                self._journal.rewrite(rows, first, expect=scan.next_seq, despite_damage=True)
                self._fold(self._journal.read())
            return gone

    def keep(self, behind: int = checkpoint.BEHIND) -> None:
        """Keep the view, if more than `behind` records lie behind the kept one; outside of every transaction, and never an error."""
        try:
            scan = self._journal.read()
            if len(scan.records) > behind and not scan.damage:
                checkpoint.store(self._home, self._journal, scan, self._fold(scan))
        except Failure:
            return

    def _whole(self) -> Scan:
        """Every record from the file's start, whatever view was kept."""
        scan = self._bare()
        _refuse_damage(scan)
        return scan

    def _bare(self) -> Scan:
        return Journal(self._home.disk, self._home.fd, NAME, self._lock or NoLock()).read()

    def _read(self) -> Scan:
        scan = self._journal.read()
        _refuse_damage(scan)
        return scan

    def _refuse_loss(self, view: View) -> None:
        mark = self._mark()
        if view.last_seq < mark:
            raise Failure("state-corrupt", f"{NAME} ends at record {view.last_seq}, but the dispatch stamp knows of record {mark}: "
                          "acknowledged records are gone; nothing was sent",
                          "restore the file; else ask-gpt ops accept-loss --because TEXT")
        self._refuse_emptied(view.last_seq)

    def _emptied(self, last_seq: int) -> str | None:
        """What tells of records, where an undamaged file holds none."""
        return None if last_seq else traces.of_operations(self._home)

    def _refuse_emptied(self, last_seq: int) -> None:
        if (place := self._emptied(last_seq)) is not None:
            raise Failure("state-corrupt", f"{NAME} holds no record, but {place} tells of operations that were recorded in it: "
                          "acknowledged records are gone; nothing was sent",
                          "restore the file; else ask-gpt ops accept-loss --because TEXT")

    def _fold(self, scan: Scan) -> View:
        _refuse_damage(scan)
        grown = self._journal.beginnings == self._beginning
        rows = [(r.seq, r.fields) for r in scan.records[self._folded if grown else 0:]]
        lossy = next((seq for seq, fields in reversed(rows) if "accepted_loss" in fields), 0)
        self._view = self._checked(lambda: records.fold(rows, self._view if grown else None, lossy_until=lossy))
        self._beginning, self._folded = self._journal.beginnings, len(scan.records)
        if self._site is not None and self._view.site not in (None, self._site):
            raise Failure("bad-config", f"this home belongs to {self._view.site}, not to {self._site}; nothing was sent",
                          "give the other site a home of its own: ASKGPT_HOME")
        return self._view

    def _checked(self, fold: Callable[[], View]) -> View:
        try:
            return fold()
        except _BROKEN as error:
            raise Failure("state-corrupt", f"{NAME}: {error}; nothing was sent", "keep the file and look at that record") from error


def glimpse(home: Home, mark: Callable[[], int]) -> tuple[View, int, int] | None:
    """For display, of a long ledger that looks sound: (a view that has the operations which have not settled and the newest, the order from
    which on it has every one, bytes of a torn end), read without most of the file. None where only the whole file can tell."""
    journal = Journal(home.disk, home.fd, NAME, NoLock())
    found = checkpoint.glimpse(home, journal)
    if found is None:
        return None
    try:
        scan, beginnings = journal.read(), journal.beginnings
        if beginnings or scan.damage or any("accepted_loss" in record.fields for record in scan.records):
            return None
        view = records.fold([(record.seq, record.fields) for record in scan.records], found[0])
        return (view, found[1], scan.torn_size) if view.last_seq >= mark() else None
    except (Failure, *_BROKEN):
        return None


def _accepted_loss(scan: Scan) -> tuple[int, int]:
    """(number, offset) of the last record by which a person accepted a loss; (0, -1) where there is none."""
    return next(((r.seq, r.offset) for r in reversed(scan.records) if "accepted_loss" in r.fields), (0, -1))


def _refuse_damage(scan: Scan) -> None:
    if found := _open_damage(scan):
        raise damaged(NAME, replace(scan, damage=found), "restore the file, or accept the loss: ask-gpt ops accept-loss --because TEXT")


def _open_damage(scan: Scan) -> list[Damage]:
    """The damage that nobody has accepted: it lies behind the last such record (whose own jump in number is part of it)."""
    return [found for found in scan.damage if found.offset > _accepted_loss(scan)[1]] if scan.damage else []
