"""`python tools/bench [--only THEME]`: the themes in turn, then one table and one line of JSON (also in build/bench.json). RUNS=5 sets how
often things are measured, ROWS=1000000 how large the largest registry is."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THEMES = {
    "durable": "a ledger record next to SQLite",
    "start": "an empty store, and 45,000 ledger lines",
    "rows": "list, ops, search, export at 100,000 and 1,000,000 rows",
    "transcript": "logs of 0.1, 1 and 10 MB, and an 18 MB conversation",
    "watching": "page text to --live, and an hour's thinking, in a real browser",
    "sends": "warm, cold and first send, and typing, in a real browser",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="\n".join(f"  {name:<12} {what}" for name, what in THEMES.items()))
    parser.add_argument("--only", choices=THEMES, metavar="THEME", help=" | ".join(THEMES))
    only = parser.parse_args().only
    sys.path[:1] = [str(ROOT / "tools")]
    from bench.measure import RUNS
    from bench.table import Table

    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    table, left_behind = Table(), False
    for theme, what in THEMES.items():
        if only in (None, theme):
            print(f"{theme}: {what}", file=sys.stderr, flush=True)
            table.theme = f"{theme}: {what}"
            left_behind |= bool(importlib.import_module(f"bench.{theme}").measure(table, folder))
    print(table.text())
    cpus, load = os.cpu_count() or 1, round(os.getloadavg()[0], 1)
    if load > cpus:
        print(f"This machine is busy with other things (load {load} on {cpus} processors): trust the relations, not the times.")
    document = json.dumps({"runs": RUNS, "python": sys.version.split()[0], "cpus": cpus, "load": load, "figures": table.facts()})
    (folder / "bench.json").write_text(document + "\n", encoding="utf-8")
    print(document)
    return 1 if left_behind else 0


if __name__ == "__main__":
    sys.exit(main())
