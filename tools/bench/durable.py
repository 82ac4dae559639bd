"""A record of the ledger through the suite's own edge code (lock, look, decide, append, fsync) next to SQLite's commit, round by round."""

from __future__ import annotations

import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile

from . import stores
from .measure import saying
from .table import Table

ROUNDS, RECORDS = 9, 100


def measure(table: Table, folder: Path) -> None:
    with saying(f"durable records: {ROUNDS} rounds of {RECORDS} each"):
        place = Path(tempfile.mkdtemp(prefix="durable-", dir=folder))  # on the disk of the project, not in memory
        try:
            ledger = Ledger(place)
            opened = Database(place / "open.db")
            reopened = Database(place / "reopened.db", reopen=True)
            rounds = [[per_record(one) for one in (ledger.record, opened.record, reopened.record)] for _ in range(ROUNDS + 1)][1:]
        finally:
            shutil.rmtree(place)
    ours, kept_open, anew = (statistics.median(column) for column in zip(*rounds, strict=True))
    to_open, to_anew = (statistics.median(row[0] / row[number] for row in rounds) for number in (1, 2))
    table.add("one ledger record, a whole transaction, fsync", ours * 1e6, "us", f"{to_anew:.2f} x SQLite opened for each record", 1.2,
              aim_unit="x", judged=to_anew)
    table.add("  SQLite, WAL, synchronous=FULL, connection open", kept_open * 1e6, "us", f"ours is {to_open:.2f} x this")
    table.add("  SQLite, the same, opened for each record", anew * 1e6, "us", f"ours is {to_anew:.2f} x this")


def per_record(record: Callable[[], None]) -> float:
    """Median wall seconds of one: what waits for a disk has no processor time."""
    taken = []
    for _ in range(RECORDS):
        began = time.perf_counter()
        record()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


class Ledger:
    """Sends that are recorded step by step, one transaction for each step."""

    def __init__(self, place: Path) -> None:
        home, env = stores.home(place / "home")
        self._file = LedgerFile(home, Host(env), site=stores.SITE)
        self._rng, self._steps = random.Random(1), list[dict[str, Any]]()

    def record(self) -> None:
        if not self._steps:
            self._steps = [{key: value for key, value in row.items() if key not in ("at", "pid")}
                           for row in stores.operation(time.time(), self._rng)]
        step = self._steps.pop(0)
        self._file.transact(lambda view: [step])


class Database:
    """The least that SQLite could do instead: one row of the same size, committed."""

    def __init__(self, path: Path, reopen: bool = False) -> None:
        self._path, self._reopen = path, reopen
        self._connection = self._open()
        self._connection.execute("create table records (seq integer primary key, line text)")
        if reopen:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        return connection

    def record(self) -> None:
        if self._reopen:
            self._connection = self._open()
        self._connection.execute("insert into records (line) values (?)", ("x" * 300,))
        if self._reopen:
            self._connection.close()
