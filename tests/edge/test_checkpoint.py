"""The kept view of the ledger and the kept prefix of the registry: they change no answer, and cover just the bytes they were made of."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import snapshot
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import View
from gptbridge.core.operation import KEEP_S
from gptbridge.core.registry import Conversation
from gptbridge.edge.home import Home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal
from gptbridge.edge.ledger_file import LedgerFile, glimpse
from gptbridge.edge.registry_file import RegistryFile
from tests.edge.crashing import Killer, Quick, child, make_home, status

SITE = "http://127.0.0.1:9"
FIRST = int(os.environ.get("SOAK_SEED") or 0)
SEEDS = range(FIRST, FIRST + max(10, int(os.environ.get("SOAK_EXAMPLES") or 0)))


class Held:
    held = True


class Clock(Host):
    at = 1_795_957_200.0

    def wall(self) -> float:
        self.at += 1.0
        return self.at


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with_home = make_home(tmp_path)
    yield with_home
    with_home.close()


@pytest.fixture
def clock() -> Clock:
    return Clock({})


def ledger(home: Home, clock: Clock) -> LedgerFile:
    """As a new process would open it."""
    return LedgerFile(home, clock, site=SITE)


def ulid(number: int) -> str:
    return f"01KB7X{number:020d}"


def live(book: LedgerFile, rng: random.Random, first: int, count: int, end: bool = True) -> None:
    """Operations of every fate, in one transaction for each."""
    for number in range(first, first + count):
        common = {"operation_id": ulid(number), "epoch": f"{number % 3}.aa", "actor": "worker", "reason": "r"}
        queued = {**common, "state": "queued", "kind": "new", "target": "new", "fingerprint": "f" * 64, "attempt": 1,
                  "prompt_sha256": f"{number % 7:064x}", "folder": f"{number % 5:064x}"}
        states = rng.choice([["claimed", "dispatched", "accepted", "completed"], ["claimed", "dispatched", "accepted"], ["rejected"],
                             ["claimed", "dispatched"], ["claimed", "dispatched", "uncertain"], []]) if end else []
        facts: dict[str, dict[str, Any]] = {"dispatched": {"user_message_id": f"Message-{number}"}, "uncertain": {"actor": "recovery"},
                                            "accepted": {"conversation_id": f"c-{number % 11}", "turn_id": "t"}}
        rows = [queued, *({**common, "state": state, **facts.get(state, {})} for state in states)]
        book.transact(lambda view, rows=rows: rows)  # type: ignore[misc]


def plain(home: Home, clock: Clock) -> View | str:
    """What the ledger says with no kept view at hand."""
    try:
        os.rename(f"{home.path}/ledger.check", f"{home.path}/away")
    except FileNotFoundError:
        return told(home, clock)
    try:
        return told(home, clock)
    finally:
        os.rename(f"{home.path}/away", f"{home.path}/ledger.check")


def told(home: Home, clock: Clock) -> View | str:
    try:
        return ledger(home, clock).view()
    except Failure as failure:
        return failure.message


def keep(home: Home, clock: Clock) -> None:
    ledger(home, clock).keep(behind=5)


def damage(path: str, rng: random.Random) -> None:
    data = bytearray(Path(path).read_bytes())
    if not data:
        return
    at, size = rng.randrange(len(data)), rng.randrange(1, 60)
    kind = rng.randrange(6)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:at + size]
    elif kind == 2:
        data[at:at + size] = bytes(min(size, len(data) - at))
    elif kind == 3:
        data[at:at] = data[at:at + size]
    elif kind == 4:
        del data[at:]
    else:
        lines = bytes(data).splitlines(keepends=True)
        one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[one], lines[two] = lines[two], lines[one]
        data = bytearray(b"".join(lines))
    Path(path).write_bytes(bytes(data))


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kept_view_changes_no_answer(home: Home, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random operations, prunings, kept views old and new, exchanged and damaged ones, damage in the ledger: with it as without it."""
    monkeypatch.setattr(snapshot, "NEWEST", 4)
    rng = random.Random(seed)
    number, old = 0, b""
    file, kept = Path(home.path) / "ledger.jsonl", Path(home.path) / "ledger.check"
    for _ in range(14):
        step = rng.choice(["live", "live", "live", "keep", "keep", "prune", "old", "damage kept", "damage", "torn"])
        before = file.read_bytes() if file.exists() else b""
        if step == "live":
            count = rng.randrange(1, 6)
            live(ledger(home, clock), rng, number, count)
            number += count
        elif step == "keep":
            keep(home, clock)
            old = kept.read_bytes() if kept.exists() and rng.random() < 0.5 else old
        elif step == "prune":
            ledger(home, clock).prune(clock.at + KEEP_S, rng.randrange(1, 4))
        elif step == "old" and old:
            kept.write_bytes(old)
        elif step == "damage kept" and kept.exists():
            damage(str(kept), rng)
        elif step == "damage" and before:
            damage(str(file), rng)
        elif step == "torn" and before:
            file.write_bytes(before + b'{"seq":9,"to')
        assert told(home, clock) == plain(home, clock), step
        if step == "damage" and before:
            file.write_bytes(before)
        check_glimpse(home, clock)


def check_glimpse(home: Home, clock: Clock) -> None:
    """What is shown without reading the middle of a ledger is what all of it says."""
    found, whole = glimpse(home, lambda: 0), plain(home, clock)
    if found is None:
        return
    view, least, torn = found
    assert isinstance(whole, View) and view.unsettled() == whole.unsettled() and torn == ledger(home, clock).torn_size
    newest = [op for op in view.newest_first() if op.order >= least]
    assert newest == list(whole.newest_first())[:len(newest)] and (least or len(newest) == len(whole.operations))


def test_a_glimpse_needs_no_middle_and_sees_both_ends(home: Home, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "NEWEST", 4)
    live(ledger(home, clock), random.Random(1), 0, 20)
    keep(home, clock)
    live(ledger(home, clock), random.Random(2), 20, 1)
    check_glimpse(home, clock)
    path = Path(home.path) / "ledger.jsonl"
    data = path.read_bytes()
    for at, seen in ((9, False), (len(data) // 2, True), (len(data) - 9, False)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        assert (glimpse(home, lambda: 0) is not None) is seen, at
    path.write_bytes(data)
    assert glimpse(home, lambda: 10**6) is None  # the stamp knows of more
    path.write_bytes(data[:len(data) // 2])
    assert glimpse(home, lambda: 0) is None


def test_it_is_used(home: Home, clock: Clock) -> None:
    live(ledger(home, clock), random.Random(1), 0, 20)
    keep(home, clock)
    live(ledger(home, clock), random.Random(2), 20, 1)
    book = ledger(home, clock)
    assert len(book._journal.read().records) <= 5 and book.view() == plain(home, clock)


def test_what_was_asked_before_is_still_right_after_more_was_written(home: Home, clock: Clock) -> None:
    live(ledger(home, clock), random.Random(1), 0, 9, end=False)
    keep(home, clock)
    book, other = ledger(home, clock), ledger(home, clock)
    held = book.view().operations[ulid(3)]
    stop = {"operation_id": ulid(3), "state": "rejected", "epoch": "0.aa", "actor": "worker", "reason": "r"}
    other.transact(lambda view: [stop])
    assert book.view() == plain(home, clock) and book.view().operations[ulid(3)].state == "rejected" and held.state == "queued"
    found = book.history(ulid(3))
    assert found is not None and [entry["to"] for entry in found.history] == ["queued", "rejected"] and book.history(ulid(99)) is None


def test_damage_below_a_kept_view_is_found(home: Home, clock: Clock) -> None:
    """A flipped bit in what the kept view covers: refused, as without it."""
    live(ledger(home, clock), random.Random(3), 0, 3)
    keep(home, clock)
    path = Path(home.path) / "ledger.jsonl"
    data = path.read_bytes()
    for at in range(0, len(data), 17):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        assert isinstance(told(home, clock), str), at
    path.write_bytes(data)
    assert isinstance(told(home, clock), View)


def killed_while_keeping(home: Home, n: int, half: bool) -> int:
    def work() -> None:
        home.disk = Killer(n, half=half)
        ledger(home, Clock({})).keep(behind=5)

    return status(child(work))


@pytest.mark.parametrize("half", [False, True])
def test_a_kill_while_it_is_written_leaves_the_old_one_or_the_new_one(home: Home, clock: Clock, half: bool) -> None:
    live(ledger(home, clock), random.Random(1), 0, 9)
    keep(home, clock)
    live(ledger(home, clock), random.Random(2), 9, 9)
    kept = Path(home.path) / "ledger.check"
    old = kept.read_bytes()
    for n in range(1, 20):
        ended = killed_while_keeping(home, n, half)
        assert told(home, clock) == plain(home, clock)
        if ended == 0:
            break
        kept.write_bytes(old)
    assert ended == 0 and n > 4 and kept.read_bytes() != old


@pytest.mark.parametrize("broken", [lambda home: os.mkdir(f"{home.path}/ledger.check"),
                                    lambda home: os.symlink("/dev/null", f"{home.path}/ledger.check"),
                                    lambda home: Path(home.path, "ledger.check").write_bytes(b"[" * 100_000)])
def test_what_cannot_be_kept_is_no_error(home: Home, clock: Clock, broken: Callable[[Home], None]) -> None:
    live(ledger(home, clock), random.Random(1), 0, 9)
    broken(home)
    keep(home, clock)
    assert isinstance(told(home, clock), View)
    home.disk = Quick()


# The registry

def entry(number: int, account: str = "user-0000") -> Conversation:
    return Conversation(account, f"68c1d2e3-0000-8000-8000-{number:012x}", f"title {number} \u00e9", f"{SITE}/c/{number}")


def verdict(home: Home, clock: Clock, number: int, account: str = "user-0000") -> str:
    """What a new process says to one more record; the file is as before afterwards."""
    path = Path(home.path) / "conversations.jsonl"
    before = path.read_bytes()
    try:
        RegistryFile(home, clock).put(entry(number, account), behind=10**9)
        return path.read_bytes()[len(before):].decode()
    except Failure as failure:
        assert path.read_bytes() == before
        return failure.message
    finally:
        path.write_bytes(before)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kept_prefix_changes_no_verdict(home: Home, clock: Clock, seed: int) -> None:
    rng = random.Random(seed)
    file, kept = Path(home.path) / "conversations.jsonl", Path(home.path) / "conversations.check"
    RegistryFile(home, clock).put(entry(0))
    old = b""
    for _ in range(14):
        step = rng.choice(["put", "put", "put", "one by one", "old", "damage kept", "damage", "torn"])
        before = file.read_bytes()
        if step == "put":
            book = RegistryFile(home, clock)
            for _ in range(rng.randrange(1, 6)):
                book.put(entry(rng.randrange(20)), behind=3)
        elif step == "one by one":
            RegistryFile(home, clock).put(entry(rng.randrange(20)), behind=3)
            old = kept.read_bytes() if kept.exists() and rng.random() < 0.5 else old
        elif step == "old" and old:
            kept.write_bytes(old)
        elif step == "damage kept" and kept.exists():
            damage(str(kept), rng)
        elif step == "damage":
            damage(str(file), rng)
        elif step == "torn":
            file.write_bytes(before + b'{"seq":9,"to')
        clock.at = float(int(clock.at))
        for number, account in ((rng.randrange(25), "user-0000"), (rng.randrange(25), "user-0001")):
            at = clock.at
            with_it = verdict(home, clock, number, account)
            clock.at, away = at, kept.read_bytes() if kept.exists() else None
            kept.unlink(missing_ok=True)
            assert verdict(home, clock, number, account) == with_it, step
            if away is not None:
                kept.write_bytes(away)
        if step == "damage":
            file.write_bytes(before)


def test_a_put_reads_no_more_than_the_end_and_one_line(home: Home, clock: Clock) -> None:
    book = RegistryFile(home, clock)
    for number in range(30):
        book.put(entry(number), behind=20)
    fresh = RegistryFile(home, clock)
    fresh.put(entry(5), behind=10**9)
    scan = fresh._journal.read()
    assert (scan.next_seq, scan.lines, len(scan.records)) == (33, 32, 1) and fresh._kept == 21
    for number in (5, 29):
        found = fresh.get(entry(number).conversation_id)
        assert found is not None and found.title == entry(number).title
    assert fresh.get(entry(77).conversation_id) is None and len(fresh.beginning_with("68c1d2e3-0000")) == 30
    assert fresh.beginning_with("68c1d2e3-0000-8000-8000-00000000000") == {entry(n).conversation_id for n in range(16)}


def test_a_large_registry_is_checked_in_pieces_as_in_one(home: Home, clock: Clock) -> None:
    for number in range(40):
        RegistryFile(home, clock).put(entry(number), behind=10**9)
    path = Path(home.path) / "conversations.jsonl"
    data, rng = path.read_bytes(), random.Random(4)
    for _ in range(40):
        damage(str(path), rng)
        for tail in (b"", b'{"seq":'):
            path.write_bytes(path.read_bytes() + tail)
            whole = Journal(home.disk, home.fd, path.name, Held()).read()
            pieces = Journal(home.disk, home.fd, path.name, Held(), keep=False, piece=rng.randrange(1, 900)).read()
            assert replace(whole, records=whole.records[-1:]) == pieces
        path.write_bytes(data)
