"""The order of a send as the kernel sees it: what is durable before the click, and before the server gets a byte (GT-03, RL-04);
and the turn before a word of its answer is printed (TL-13)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Place

TRACED = "write,pwrite64,sendto,rename,renameat,renameat2,fsync,fdatasync"


def calls(trace: Path) -> Iterator[tuple[str, str, str]]:
    """(call, first argument's path, rest) of each call that succeeded, in order of its end; unfinished ones are joined."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        pid, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text = begun.pop(pid, "") + resumed[1]
        found = re.match(r"(\w+)\((?:\d+<([^>]*)>)?(.*)\)\s+= (-?\d+)", text)
        if found and not found[4].startswith("-"):
            yield found[1], found[2] or "", found[3]


def test_strace_of_one_send(place: Place) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = place.path / "trace"
    code, _, err = place.run("send", "Hello", wrap=("strace", "-f", "-y", "-s", "700", "-o", str(trace), "-e", f"trace={TRACED}"))
    assert code == 0, err
    home = str(place.home)
    rows: list[str] = []
    written: dict[str, str] = {}
    for call, path, rest in calls(trace):
        said = rest.replace("\\", "")
        if call == "write" and path.startswith(f"{home}/logs/"):
            written[path] = "answer in log" if "You said" in said else "log"
        elif call == "write" and "ask-gpt.result/1" in said:
            rows.append("answer printed")
        elif call in ("write", "pwrite64") and path == f"{home}/ledger.jsonl":
            state = re.search(r'"state":"(\w+)"', said)
            more = "+released" if '"released"' in said else "+id" if '"user_message_id"' in said else ""
            written[path] = (state[1] if state else "?") + more
        elif call in ("fsync", "fdatasync"):
            if path in written:
                rows.append("fsync " + written.pop(path))
            elif path == home:
                rows.append("fsync home")
            elif path.startswith(f"{home}/.dispatch.stamp"):
                rows.append("fsync stamp")
        elif call.startswith("rename") and '"dispatch.stamp"' in said:
            rows.append("rename stamp")
        elif call == "write" and path.endswith("marks0") and " click" in said:
            rows.append("click")
        elif call in ("write", "sendto") and path.startswith("socket") and "POST /backend-api/f/conversation" in said:
            rows.append("request")
    wanted = iter(rows)
    order = ["fsync queued", "fsync claimed", "fsync dispatched", "fsync stamp", "rename stamp", "fsync home", "click",
             "fsync dispatched+id", "request"]
    assert all(row in wanted for row in order), rows
    assert rows.count("click") == rows.count("request") == 1 and len(place.sends) == 1
    released = rows.index("fsync dispatched+released")
    assert rows.index("click") < released < rows.index("fsync accepted")
    assert rows.index("fsync answer in log") < rows.index("answer printed") and rows.count("answer printed") == 1
