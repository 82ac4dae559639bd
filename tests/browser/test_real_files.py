"""Files with a prompt, by the real command line and a real Chromium: the site has the very bytes, and nothing goes without its files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.browser.real import NEWEST, Desk, operation_of, until
from tests.browser.test_real_send import mode, valid

pytestmark = pytest.mark.browser

ODD = {"two words.md": b"a", "naïve 日本語 😀.txt": b"b\n", "-rf": b"c", "line\nbreak.csv": b"1,2\n", "looks like a send.json":
       b'{"messages": [{"id": "x", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["not a message"]}}]}',
       "large.bin": os.urandom(9_000_000)}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def made(desk: Desk, files: dict[str, bytes]) -> list[str]:
    """The files, in the working folder; the words that name them."""
    words = []
    for name, data in files.items():
        path = desk.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        words += ["-f", name if not name.startswith("-") else f"./{name}"]
    return words


THREE = {"alpha/NOTES.md": b"alpha\n", "beta/NOTES.md": b"beta, and more of it\n", "empty.txt": b""}
SENT = ["NOTES.md", "NOTES-2.md", "empty.txt"]


def arrived(desk: Desk) -> list[tuple[str, str]]:
    """(name, digest) of the newest send's files, as the site has them."""
    return [(file["name"], file["sha256"]) for file in desk.site.sends()[-1]["attachments"]]


def leftovers(desk: Desk) -> list[str]:
    return [path.name for path in (desk.home.path / "spool").iterdir() if path.is_dir()]


@pytest.mark.sample(1)
@NEWEST
def test_three_files_up(desk: Desk) -> None:
    ran = desk.json("send", "Look at these", *made(desk, THREE))
    assert ran.code == 0, ran
    doc = valid(ran)
    assert len(desk.site.sends()) == 1 and desk.site.sends()[0]["text"] == "Look at these"
    expected = [(name, sha(data)) for name, data in zip(SENT, THREE.values(), strict=True)]
    assert arrived(desk) == expected
    rows = [{"name": Path(name).name, "sent_name": sent, "size": len(data), "sha256": sha(data)}
            for (name, data), sent in zip(THREE.items(), SENT, strict=True)]
    assert doc["attachments"] == rows and doc["answer"] == "You said:\n\n> Look at these"
    assert [line for line in ran.err.splitlines() if line.startswith("upload: ")] == [
        f"upload: {name} {state}" for state in ("queued", "uploading", "attached") for name in SENT]
    shown = desk.json("show", str(doc["conversation_id"]))
    assert valid(shown)["attachments"] == rows and shown.doc["turns"][0]["attachments"] == rows
    assert b"### attachments" in desk.log(str(doc["conversation_id"])) and not leftovers(desk)
    for path in (desk.home.path / "spool").iterdir():
        assert mode(path) == 0o600

    for name in THREE:  # what was admitted is known: nobody needs the files any more
        (desk.folder / name).unlink()
    replay = desk.json("send", "Look at these", "-f", "alpha/NOTES.md", "-f", "beta/NOTES.md", "-f", "empty.txt", "--operation-id",
                       str(doc["operation_id"]))
    kept = {key: value for key, value in replay.doc.items() if key not in ("log", "warnings", "next")}
    assert kept == {key: doc[key] for key in kept} and len(desk.site.sends()) == 1
    (desk.folder / "alpha/NOTES.md").write_bytes(b"edited")
    other = desk.json("send", "Look at these", "-f", "alpha/NOTES.md", "-f", "beta/NOTES.md", "-f", "empty.txt", "--operation-id",
                      str(doc["operation_id"]))
    assert other.code == 21 and len(desk.site.sends()) == 1


def test_odd_names_a_large_file_and_one_that_looks_like_a_send(desk: Desk) -> None:
    first = desk.json("send", "first")
    ran = desk.json("resume", first.doc["conversation_id"], *made(desk, ODD))
    assert ran.code == 0, ran
    assert [row["sha256"] for row in ran.doc["attachments"]] == [digest for _, digest in arrived(desk)] == [sha(d) for d in ODD.values()]
    assert [name for name, _ in arrived(desk)] == ["two words.md", "naïve 日本語 😀.txt", "_rf", "line_break.csv",
                                                   "looks like a send.json", "large.bin"]
    assert [row["name"] for row in ran.doc["attachments"]] == list(ODD)
    assert desk.site.sends()[-1]["text"] == "" and len(desk.site.sends()) == 2
    assert "line\nbreak" not in ran.err


def test_a_large_file_to_another_host_costs_no_memory(desk: Desk) -> None:
    """The bytes go from Chrome to the site; the process that watches the window never gets them."""
    desk.site.scenarios("upload-elsewhere")
    data = os.urandom(40_000_000)
    running = desk.start("send", "large", *made(desk, {"large.bin": data}), "--json")
    worker = int(desk.home.records(operation_of(running))[-1]["pid"])
    peak = 0
    while running.process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{worker}/status").read_text().splitlines()
            peak = max(peak, int(next(line for line in status if line.startswith("VmHWM:")).split()[1]))
        time.sleep(0.05)
    ran = running.wait()
    assert ran.code == 0 and arrived(desk) == [("large.bin", sha(data))], ran
    assert 0 < peak < 120_000, f"{peak} kB"


def test_standard_input_as_a_file(desk: Desk) -> None:
    ran = desk.json("send", "read it", "-f", "-", "--stdin-name", "notes.md", stdin=b"from a pipe\n")
    assert ran.code == 0 and arrived(desk) == [("notes.md", sha(b"from a pipe\n"))], ran
    quiet = desk.json("send", "again", "-f", "-", stdin=b"")
    assert quiet.code == 0 and arrived(desk) == [("stdin.txt", sha(b""))], quiet


@pytest.mark.sample(2)
@pytest.mark.parametrize(("scenarios", "names"), [
    (("upload-no-chip",), SENT), (("upload-cut-label", "localised:language=\"de\""), SENT),
    (("upload-renames",), ["NOTES(1).md", "NOTES-2(1).md", "empty(1).txt"]),
    (("upload-slow:seconds=2", "upload-early-send"), SENT)], ids=[0, 1, 2, 3])
def test_whatever_the_page_shows_of_a_file(desk: Desk, scenarios: tuple[str, ...], names: list[str]) -> None:
    """Cases 3 and 29."""
    desk.site.scenarios(*scenarios)
    ran = desk.json("send", "Look at these", *made(desk, THREE))
    assert ran.code == 0, ran
    assert arrived(desk) == [(name, sha(data)) for name, data in zip(names, THREE.values(), strict=True)]
    assert [row["sent_name"] for row in ran.doc["attachments"]] == names and len(desk.site.sends()) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize(("scenario", "code", "said"), [
    ("upload-stalls", 10, "uploaded"), ("upload-lost", 15, "1 of 3 missing"), ("upload-extra", 15, "1 more"),
    ('upload-refused:status=413,code="file_too_large"', 17, "This file is too large."),
    ('upload-refused:status=403,code="over_user_quota"', 11, "upload limit"),
    ('upload-not-processed:code="file_corrupted"', 17, "file_corrupted"), ("draft-file", 12, "draft")])
def test_nothing_goes_without_its_files(desk: Desk, scenario: str, code: int, said: str) -> None:
    desk.site.scenarios(scenario)
    ran = desk.json("send", "Look at these", *made(desk, THREE), "--queue-wait", "6")
    assert ran.code == code, ran
    assert said in ran.doc["error"]["message"] and ran.doc["sent"] == "no" and desk.site.sends() == []
    assert [row["sent_name"] for row in ran.doc["attachments"]] == SENT and not leftovers(desk)
    if code != 15:
        desk.site.reset()
        again = desk.json("send", "Look at these", *made(desk, THREE), "--operation-id", ran.doc["operation_id"])
        assert again.code == 0 and len(desk.site.sends()) == 1 and len(arrived(desk)) == 3, again


def test_refused_before_any_browser(desk: Desk) -> None:
    words = made(desk, {"a.txt": b"x"})
    os.mkfifo(desk.folder / "pipe")
    for given, code in ((["-f", "gone.txt"], 17), (["-f", "pipe"], 17), (["-f", "."], 17), (["-f", "/dev/null"], 17),
                        (words * 11, 17), (["-f", "-", "-f", "-"], 2), (["--stdin-name", "x"], 2), (["-f", ""], 2),
                        (["-f", "-", "--stdin-name", "a/b"], 2)):
        ran = desk.json("send", "text", *given)
        assert ran.code == code and ran.doc["operation_id"] is None, (given, ran)
    assert desk.json("send", "-", "-f", "-", stdin=b"x").code == 2
    assert desk.json("send").code == 2 and desk.json("send", "").code == 2 and desk.site.sends() == []




@pytest.mark.sample(1)
@pytest.mark.parametrize("scenario", ["upload-stalls", "upload-slow:seconds=20"])
def test_a_worker_that_is_killed_while_it_uploads(desk: Desk, scenario: str) -> None:
    """CR-19: not sent; its window is buried and what it left is dropped."""
    desk.site.scenarios(scenario)
    words = made(desk, THREE)
    running = desk.start("send", "Look at these", *words, "--json")
    operation = operation_of(running)
    until(lambda: leftovers(desk), "the files to be staged", 30)
    until(lambda: "empty.txt uploading" in running.said(), "the upload to begin", 30)
    os.kill(int(desk.home.records(operation)[-1]["pid"]), signal.SIGKILL)
    ran = running.wait(20)
    assert ran.doc["sent"] == "no" and desk.site.sends() == [], ran
    desk.site.reset()
    again = desk.json("send", "Look at these", *words, "--operation-id", operation)
    assert again.code == 0 and len(desk.site.sends()) == 1 and len(arrived(desk)) == 3, again
    assert desk.json("sweep", "--offline").code in (0, 3) and not leftovers(desk)


def test_ctrl_c_while_standard_input_says_nothing(desk: Desk) -> None:
    """Case 43: an open pipe with nothing in it."""
    running = desk.start("send", "text", "-f", "-")
    time.sleep(1.0)
    running.process.send_signal(signal.SIGINT)
    ran = running.wait(10)
    assert ran.code == 130 and desk.site.sends() == [], ran
    assert not any(line.startswith("operation:") for line in ran.err.splitlines()), ran
