"""The reading commands on large stores: 100,000 rows against an empty store, and a registry of 1,000,000."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from trial import PROGRAM

from gptbridge.core.registry import Conversation
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.registry_file import RegistryFile

from . import stores
from .measure import cpu_of, processes, saying
from .table import Table

MANY, MOST = 100_000, int(os.environ.get("ROWS") or 1_000_000)
SHARE = 20.0


def measure(table: Table, folder: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="rows-", dir=folder))
    try:
        empty, many, most = (stores.home(place / name) for name in ("empty", "many", "most"))
        now = time.time()
        with saying(f"writing {MANY:,} registry and {MANY:,} ledger rows"):
            stores.write_registry(place / "many" / "conversations.jsonl", MANY, now)
            stores.write_ledger(place / "many" / "ledger.jsonl", MANY, now)
            LedgerFile(many[0], Host(many[1])).keep()
        with saying("list and ops"):
            for words in (["list", "20"], ["ops", "--limit", "20"]):
                line = [str(PROGRAM), *words]
                without, with_ = processes((empty[1], line), (many[1], line))
                share = 100 * (with_.cpu / without.cpu - 1)
                table.add(f"{' '.join(words)} at {MANY:,} rows, processor time", with_.cpu * 1e3, "ms",
                          f"{share:+.0f} % to the empty store ({without.cpu * 1e3:.0f} ms)", SHARE, aim_unit="%", judged=share)
        with saying(f"writing {MOST:,} registry rows"):
            ids = stores.write_registry(place / "most" / "conversations.jsonl", MOST, now)
        with saying("list, search, export"):
            searches(table, empty[1], most[1])
        with saying("one record more"):
            puts(table, empty, most, ids)
    finally:
        shutil.rmtree(place)


def searches(table: Table, empty: dict[str, str], most: dict[str, str]) -> None:
    line = [str(PROGRAM), "list", "20"]
    without, with_ = processes((empty, line), (most, line))
    share = 100 * (with_.cpu / without.cpu - 1)
    table.add(f"list 20 at {MOST:,} rows", with_.cpu * 1e3, "ms", f"{share:+.0f} % to the empty store", SHARE, aim_unit="%",
              judged=share)
    for what, words in {"list --search, the newest hits near the end": ["--search", "flock.*garden"],
                        "list --search, no hit: every row is looked at": ["--search", "no such title"],
                        "list --since a day ago": ["--since", "1d"], "list --export of all": ["--export"]}.items():
        found, = processes((most, ["/bin/sh", "-c", 'cd "$ASKGPT_HOME" && exec "$@"', "sh", str(PROGRAM), "list", *words]), times=1)
        table.add(f"  {what}", found.cpu, "s", f"{1e6 * found.cpu / MOST:.1f} us a row, peak {found.mib:.0f} MiB")


def puts(table: Table, empty: tuple[stores.Home, dict[str, str]], most: tuple[stores.Home, dict[str, str]], ids: list[str]) -> None:
    def put(home: stores.Home, env: dict[str, str], ident: str) -> None:
        RegistryFile(home, Host(env)).put(Conversation(stores.ACCOUNT, ident, "one more", f"{stores.SITE}/c/{ident}"))

    first = cpu_of(lambda: put(*most, ids[0]), 1)
    fresh = iter(f"{number:08x}-0000-8000-8000-000000000000" for number in range(1000))
    new = cpu_of(lambda: put(*most, next(fresh)))
    old = cpu_of(lambda: put(*most, ids[0]))
    least = cpu_of(lambda: put(*empty, next(fresh)))
    table.add(f"one registry record more at {MOST:,}, a new conversation", new * 1e3, "ms", f"in an empty one {least * 1e3:.1f} ms")
    table.add("  a conversation of just now", old * 1e3, "ms")
    table.add("  the first ever, which reads and checks all of it", first, "s")
    book = RegistryFile(most[0], Host(most[1]))
    book.check()
    batch = cpu_of(lambda: book.put(Conversation(stores.ACCOUNT, next(fresh), "one of many", None)), 50)
    table.add("  one of many in one process (bootstrap)", batch * 1e3, "ms")
