"""The logs' files: appended, begun and finished, cut off, spoilt by other hands; and what an append costs (TL-05, HY-05, DU-04)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core import transcript
from gptbridge.core.errors import Failure
from gptbridge.edge.home import Home
from gptbridge.edge.journal import Disk
from gptbridge.edge.logs import LogFiles
from tests.edge.crashing import Faulty, Killer, Quick, child, make_home, status

NAME = "68c1d2e3-0000-8000-8000-000000000001"
HEADER = {"conversation": NAME, "url": f"https://chatgpt.com/c/{NAME}", "created": "2026-11-29T13:00:00Z"}
PROMPT = "Explain flock.\n## turn 9\n\x1b[31mred"


def turn(*more: tuple[str, str], prompt: str = PROMPT, user: str = "m-1", **given: Any) -> dict[str, Any]:
    return {"kind": "turn", "at": "2026-11-29T13:00:05Z", "attrs": [("user", user)], "words": (), "state": "completed",
            "sections": [("prompt", prompt), *more], **given}


BEGUN = {key: value for key, value in turn().items() if key != "state"}
WHOLE = turn(("answer", "It locks.\n\n```\n<b>"), end=[("model", "gpt-9")])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = make_home(tmp_path)
    yield made
    made.close()


def logs_on(home: Home, disk: Disk) -> LogFiles:
    home.disk = disk
    return LogFiles(home)


def file(home: Home) -> Path:
    return Path(home.path) / "logs" / f"{NAME}.log"


def said(logs: LogFiles) -> list[tuple[int, str, str | None, str | None]]:
    log = logs.read(NAME)
    assert log is not None and not log.problems and all(block.ok for block in log.blocks)
    return [(b.number, b.state, b.section("answer"), b.attr("supersedes")) for b in log.blocks]


@pytest.mark.parametrize("older", [0, 2])
def test_a_turn_in_two_goes_is_what_one_append_writes(home: Home, tmp_path: Path, older: int) -> None:
    logs = LogFiles(home)
    for number in range(older):
        logs.append(NAME, header=HEADER, blocks=[turn(user=f"old-{number}")])
    before = file(home).read_bytes() if older else b""
    logs.begin(NAME, header=HEADER, block=BEGUN)
    meanwhile = file(home).read_bytes()
    log = transcript.parse(meanwhile)
    assert log.torn and log.blocks[-1].section("prompt") == PROMPT and meanwhile.startswith(before) and logs.is_torn(NAME)
    logs.finish(NAME, header=HEADER, block=WHOLE)
    assert file(home).read_bytes().startswith(meanwhile) and not logs.is_torn(NAME)
    other = LogFiles(make_home(tmp_path / "other"))
    other.append(NAME, header=HEADER, blocks=[*(turn(user=f"old-{number}") for number in range(older)), WHOLE])
    assert other.raw(NAME) == file(home).read_bytes()
    assert said(logs)[-1] == (older + 1, "completed", "It locks.\n\n```\n<b>", None)


def test_a_writer_that_died_in_between_leaves_its_prompt_and_the_next_one_seals_it(home: Home) -> None:
    LogFiles(home).begin(NAME, header=HEADER, block=BEGUN)
    after = LogFiles(home)
    assert after.is_torn(NAME) and after.seal(NAME) and not after.seal(NAME)
    after.append(NAME, header=HEADER, blocks=[turn(("answer", "full"), attrs=[("user", "m-1"), ("supersedes", "1")])])
    assert said(after) == [(1, "interrupted", None, None), (2, "completed", "full", "1")]
    log = after.read(NAME)
    assert log is not None and log.blocks[0].section("prompt") == PROMPT and b"\n*(interrupted)*\n" in file(home).read_bytes()
    assert [block.number for block in transcript.turns(log)] == [2]


@pytest.mark.parametrize("call", ["write", "fsync", "fsync_dir", "open", "rename"])
@pytest.mark.parametrize("older", [0, 1])
@pytest.mark.parametrize("short", [None, 1, 60])
def test_a_beginning_that_failed_is_written_anew_at_the_end(home: Home, call: str, older: int, short: int | None) -> None:
    """The disk fills while the answer comes and is freed (case 46, 48): one whole turn, and nothing of what may not be on the disk."""
    for number in range(older):
        LogFiles(home).append(NAME, header=HEADER, blocks=[turn(user=f"old-{number}")])
    n = 0
    while True:
        n += 1
        disk = Faulty(call, n, short=short if call == "write" else None)
        logs = logs_on(home, disk)
        try:
            logs.begin(NAME, header=HEADER, block=BEGUN)
        except Failure as failure:
            assert failure.slug == "state-unwritable"
        else:
            break
        logs.finish(NAME, header=HEADER, block=WHOLE)
        assert said(logs)[older:] == [(older + 1, "completed", "It locks.\n\n```\n<b>", None)]
        log = logs.read(NAME)
        assert log is not None
        os.truncate(file(home), log.blocks[older].start)
        if not older:
            file(home).unlink()
    assert n > 1 or (call == "rename" and older), "the fault was never met"


def test_an_end_that_cannot_be_written_can_be_written_later(home: Home) -> None:
    disk = Faulty("write", 2, short=5)
    logs = logs_on(home, disk)
    logs.begin(NAME, header=HEADER, block=BEGUN)
    with pytest.raises(Failure):
        logs.finish(NAME, header=HEADER, block=WHOLE)
    assert logs.is_torn(NAME)
    logs.finish(NAME, header=HEADER, block=WHOLE)
    assert said(logs) == [(1, "interrupted", None, None), (2, "completed", "It locks.\n\n```\n<b>", "1")]


@pytest.mark.parametrize("spoil", ["note", "gone", "cut", "other prompt"])
def test_what_was_begun_and_is_not_there_as_it_was(home: Home, spoil: str) -> None:
    logs = LogFiles(home)
    logs.append(NAME, header=HEADER, blocks=[turn(user="old")])
    logs.begin(NAME, header=HEADER, block=BEGUN)
    whole = WHOLE
    if spoil == "note":
        with file(home).open("ab") as opened:
            opened.write(b"\na person's note\n")
    elif spoil == "gone":
        file(home).unlink()
    elif spoil == "cut":
        os.truncate(file(home), file(home).stat().st_size - 9)
    else:
        whole = turn(("answer", "It locks.\n\n```\n<b>"), prompt="another text")
    logs.finish(NAME, header=HEADER, block=whole)
    full = ({"note": 3, "gone": 1}.get(spoil, 2), "completed", "It locks.\n\n```\n<b>")
    assert said(logs)[-1][:3] == full
    if spoil == "note":
        assert said(logs)[1][1] == "interrupted" and said(logs)[2][3] == "2" and b"a person's note" in file(home).read_bytes()


def test_killed_before_every_call_of_a_turn_in_two_goes(home: Home) -> None:
    """At every system call, and in the middle of every write: the log heals, the turn stands there at most once, its prompt once begun."""
    LogFiles(home).append(NAME, header=HEADER, blocks=[turn(user="old")])
    before = file(home).read_bytes()
    for half in (False, True):
        for n in range(1, 40):
            file(home).write_bytes(before)

            def work(n: int = n, half: bool = half) -> None:
                logs = logs_on(home, Killer(n, half=half))
                logs.begin(NAME, header=HEADER, block=BEGUN)
                logs.finish(NAME, header=HEADER, block=WHOLE)

            ended = status(child(work))
            assert ended in (0, -signal.SIGKILL)
            logs = LogFiles(home)
            logs.seal(NAME)
            assert file(home).read_bytes().startswith(before)
            found = said(logs)
            assert [block[0] for block in found] == list(range(1, len(found) + 1)) and len(found) <= 2
            if ended == 0:
                assert found[1:] == [(2, "completed", "It locks.\n\n```\n<b>", None)]
                break
        else:
            raise AssertionError("it never came to its end")


class Counting(Quick):
    """How many bytes are read."""

    bytes = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read(fd, size, offset)
        self.bytes += len(data)
        return data


def test_an_append_to_ten_megabytes_reads_its_end_alone(home: Home) -> None:
    """Also a torn one, and a turn in two goes: what is read does not depend on the log's size."""
    logs = LogFiles(home)
    line = "A line of usual length, with **bold** and `code`, ends here.\n"
    logs.append(NAME, header=HEADER, blocks=[turn(("answer", line * 2000), user=f"m-{n}") for n in range(80)])
    assert file(home).stat().st_size > 10_000_000
    counting = Counting()
    logs = logs_on(home, counting)
    for act in (lambda: logs.append(NAME, header=HEADER, blocks=[turn()]), lambda: logs.begin(NAME, header=HEADER, block=BEGUN),
                lambda: logs.is_torn(NAME), lambda: logs.finish(NAME, header=HEADER, block=WHOLE),
                lambda: logs.begin(NAME, header=HEADER, block=BEGUN), lambda: logs.seal(NAME)):
        counting.bytes = 0
        act()
        assert counting.bytes < 200_000
    log = logs.read(NAME)
    assert log is not None and len(log.blocks) == 83 and not log.problems and not log.torn


def test_a_log_of_a_newer_version_is_left_alone(home: Home) -> None:
    logs = LogFiles(home)
    logs.append(NAME, header=HEADER, blocks=[turn()])
    newer = file(home).read_bytes().replace(b"ask-gpt-log/1", b"ask-gpt-log/2") + b"\n## turn 2"
    file(home).write_bytes(newer)
    for act in (lambda: logs.append(NAME, header=HEADER, blocks=[WHOLE]), lambda: logs.begin(NAME, header=HEADER, block=BEGUN),
                lambda: logs.seal(NAME), lambda: logs.is_torn(NAME)):
        with pytest.raises(Failure) as why:
            act()
        assert why.value.slug == "state-corrupt"
    assert file(home).read_bytes() == newer


def test_seven_hundred_nul_bytes_in_the_middle(home: Home) -> None:
    """Case 45: the damage is told, what follows is read, and the next turn is appended."""
    logs = LogFiles(home)
    logs.append(NAME, header=HEADER, blocks=[turn(("answer", "x" * 2000), user=f"m-{n}") for n in range(3)])
    data = file(home).read_bytes()
    at = transcript.parse(data).blocks[1].start + 300
    file(home).write_bytes(data[:at] + b"\0" * 700 + data[at + 700:])
    logs.append(NAME, header=HEADER, blocks=[WHOLE])
    log = logs.read(NAME)
    assert log is not None and [b.ok for b in log.blocks] == [True, False, True, True] and log.problems
    assert log.blocks[3].section("answer") == "It locks.\n\n```\n<b>"
