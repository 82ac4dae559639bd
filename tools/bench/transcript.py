"""The log of a conversation at 0.1, 1 and 10 MB, and reading a large conversation of the site."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gptbridge.core import conversation
from gptbridge.core import transcript as log
from gptbridge.edge.logs import LogFiles

from . import stores
from .measure import RUNS, cpu_of, saying
from .table import Table

SIZES_MB = (0.1, 1, 10)
ANSWER = "".join(f"Line {n} of the answer, with `code` and <b> and **bold**.\n" for n in range(100))
BYTES, MESSAGES = 18 * 10**6, 1243


def measure(table: Table, folder: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="logs-", dir=folder))
    try:
        with saying("logs of 0.1, 1 and 10 MB"):
            logs(table, LogFiles(stores.home(place / "home")[0]))
    finally:
        shutil.rmtree(place)
    with saying(f"a conversation of {MESSAGES:,} messages"):
        site(table)


def logs(table: Table, files: LogFiles) -> None:
    header = {"conversation": "-", "url": "-", "created": "2026-11-29T13:00:00.000Z"}
    turn: dict[str, Any] = {"kind": "turn", "at": "2026-11-29T13:00:05.000Z", "attrs": [], "state": "completed", "words": (),
                            "sections": [("prompt", "A question?"), ("answer", ANSWER)]}
    appends: list[float] = []
    for size in SIZES_MB:
        name = f"log-{size}"
        while len(files.raw(name) or b"") < size * 1e6:
            files.append(name, header=header, blocks=[turn] * max(1, int(size * 10)))
        data = files.raw(name) or b""
        parsed = cpu_of(lambda data=data: log.parse(data))  # type: ignore[misc]
        appends.append(cpu_of(lambda name=name: files.append(name, header=header, blocks=[turn]), 6 * RUNS))  # type: ignore[misc]
        table.add(f"parse a log of {size} MB", parsed * 1e3, "ms", f"{len(data) / 1e6 / parsed:.0f} MB/s")
    for size, taken in zip(SIZES_MB, appends, strict=True):
        judged = {"aim": 1.5, "aim_unit": "x", "judged": taken / appends[0]} if size == SIZES_MB[-1] else {}
        table.add(f"append a turn of {len(ANSWER) / 1e3:.1f} kB to a log of {size} MB", taken * 1e3, "ms",
                  f"{taken / appends[0]:.2f} x the append at {SIZES_MB[0]} MB", **judged)  # type: ignore[arg-type]


def site(table: Table) -> None:
    text = json.dumps(stores.conversation(BYTES, MESSAGES))
    loads = cpu_of(lambda: json.loads(text))
    both = cpu_of(lambda: conversation.read(json.loads(text)))
    found = conversation.read(json.loads(text))
    table.add(f"a conversation of {len(text) / 1e6:.0f} MB, {MESSAGES:,} messages: JSON and turns", both * 1e3, "ms",
              f"{both / loads:.2f} x json.loads alone ({loads * 1e3:.0f} ms)", 3, aim_unit="x", judged=both / loads)
    assert len(found.turns) > MESSAGES / 10 and found.complete
