"""What a command costs before it does anything: on an empty store, and with a ledger of 45,000 lines."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from trial import PROGRAM

from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile

from . import stores
from .measure import PYTHON, cpu_of, processes, saying
from .table import Table

LINES = 45_000


def measure(table: Table, folder: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="start-", dir=folder))
    try:
        empty, long = stores.home(place / "empty")[1], stores.home(place / "long")
        with saying(f"writing {LINES:,} ledger lines"):
            stores.write_ledger(place / "long" / "ledger.jsonl", LINES, time.time())
        list_, bare = processes((empty, [str(PROGRAM), "list"]), ({}, [PYTHON, "-I", "-c", "pass"]))
        table.add("list on an empty store, whole process", list_.wall * 1e3, "ms",
                  f"{list_.wall / bare.wall:.1f} x a bare interpreter", 110)
        table.add("  peak memory", list_.mib, "MiB", f"{list_.mib / bare.mib:.1f} x a bare interpreter", 30)
        with saying("reading it"):
            home, env = long
            view(table, lambda: LedgerFile(home, Host(env)))
            words = [str(PROGRAM), "ops", "--limit", "20"]
            without, with_ = processes((empty, words), (env, words))
            list_empty, list_long = processes((empty, [str(PROGRAM), "list"]), (env, [str(PROGRAM), "list"]))
        more, also = (with_.cpu - without.cpu) * 1e3, (list_long.cpu - list_empty.cpu) * 1e3
        table.add("ops --limit 20 on it, whole process, processor time", with_.cpu * 1e3, "ms",
                  f"+{more:.0f} ms to the empty ledger ({without.cpu * 1e3:.0f} ms)", 60, judged=more)
        table.add("list on it (it counts what is uncertain)", list_long.cpu * 1e3, "ms",
                  f"+{also:.0f} ms to the empty ledger ({list_empty.cpu * 1e3:.0f} ms)", 60, judged=also)
    finally:
        shutil.rmtree(place)


def view(table: Table, opened: Callable[[], LedgerFile]) -> None:
    """The whole fold once, then from the kept view; what is asked: the uncertain ones, and one operation that is not there."""
    def look() -> None:
        found = opened().view()
        found.uncertain()
        found.get("01M8M0A8YV4PP48FVXSP20J3S4")

    whole = cpu_of(look, 1)
    opened().keep()
    kept = cpu_of(look)
    table.add(f"the view of {LINES:,} ledger lines, kept, processor time", kept * 1e3, "ms",
              f"{whole / kept:.0f} x quicker than the whole fold", 60)
    table.add("  the whole fold, where no kept view is at hand", whole * 1e3, "ms")
