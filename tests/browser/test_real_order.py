"""The order that makes a message leave at most once, as the kernel saw it: what was on the disk before the click and before the request."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.real import Desk

pytestmark = pytest.mark.browser
CALLS = "fsync,fdatasync,write,pwrite64,sendto,sendmsg,rename,renameat,renameat2"
LINE = re.compile(r"(\d+) +(\d+\.\d+) (?:<\.\.\. )?(\w+)(.*)")


@dataclass
class Call:
    """One system call that has returned: when, its name, the path of its first descriptor, the strings that it was given."""

    at: float
    name: str
    path: str
    strings: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.strings)


def calls(trace: Path) -> Iterator[Call]:
    """In the order of their return: another process may have come between the two halves of one, and only a finished fsync counts."""
    begun: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        pid, at, name, rest = match.groups()
        if rest.endswith("<unfinished ...>"):
            begun[pid] = rest.removesuffix("<unfinished ...>")
            continue
        if rest.startswith(" resumed>"):
            rest = begun.pop(pid, "") + rest.removeprefix(" resumed>")
        path = re.match(r"\(\d+<([^>]*)>", rest)
        if " = -1 " not in rest:
            yield Call(float(at), name, _bytes(path[1]).decode() if path else "", [_bytes(text) for text in re.findall(r'"([^"]*)"', rest)])


def _bytes(text: str) -> bytes:
    """strace -xx writes every byte of a string in hexadecimal; some versions leave paths as they are."""
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


def frames(data: bytes) -> Iterator[str]:
    """The text frames of a WebSocket client in one write, unmasked (RFC 6455, 5.2)."""
    while len(data) > 6 and data[0] == 0x81 and data[1] & 0x80:
        size, place = data[1] & 0x7F, 2
        if size > 125:
            width = 2 if size == 126 else 8
            size, place = int.from_bytes(data[2:2 + width], "big"), 2 + width
        mask, body = data[place:place + 4], data[place + 4:place + 4 + size]
        yield bytes(byte ^ mask[number % 4] for number, byte in enumerate(body)).decode("utf-8", "replace")
        data = data[place + 4 + size:]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (make setup brings it)")
def test_the_disk_comes_before_the_click_and_before_the_request(desk: Desk, tmp_path: Path) -> None:
    assert desk.run("send", "warm").code == 0  # Chrome runs already: it is not traced
    before = len(desk.site.sends())
    trace = tmp_path / "trace"
    traced = ("strace", "-f", "-y", "-ttt", "-xx", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(trace))
    ran = desk.json("send", "in order", prefix=traced, seconds=100)
    assert ran.code == 0, ran
    sends = desk.site.sends()[before:]
    assert len(sends) == 1

    home, ledger = str(desk.home.path), str(desk.home.path / "ledger.jsonl")
    seen = list(calls(trace))

    def first(what: str, true: Callable[[Call], object], after: int) -> int:
        found = next((place for place, call in enumerate(seen) if place > after and true(call)), None)
        assert found is not None, f"not in the trace, or too early: {what}"
        return found

    def sync(path: str, after: int) -> int:
        return first(f"fsync of {path}", lambda c: c.name in ("fsync", "fdatasync") and c.path == path, after)

    def record(words: str, after: int) -> int:
        return first(f"the record with {words}", lambda c: c.name == "write" and c.path == ledger and words.encode() in c.data, after)

    # Each step is looked for behind the one before, so finding them all is the order.
    durable = sync(ledger, record('"state":"dispatched"', -1))
    stamp = first("rename of the stamp", lambda c: c.name.startswith("rename") and c.strings[-1] == b"dispatch.stamp", durable)
    click = first("the click", is_click, sync(home, stamp))
    assert sum(map(is_click, seen)) == 1
    on_disk = sync(ledger, record(f'"user_message_id":"{sends[0]["message_id"]}"', click))
    released = first("the release", lambda c: any(map(lets_go, frames(c.data))), on_disk)
    record('"request":"released"', released)
    # The server is the witness that nothing which was let go earlier was the send.
    assert seen[released].at < sends[0]["at"]


def is_click(call: Call) -> bool:
    return re.match(rb"POST /session/[^ ]+/element/[^ ]+/click ", call.data) is not None


def lets_go(frame: str) -> bool:
    return '"Fetch.continueRequest"' in frame
