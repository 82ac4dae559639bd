"""`list`, `show`, `ops`: golden output, in a pipe and on a terminal, and the documents of `--json`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.pacing import Stamp
from gptbridge.edge.stamps import StampFile
from gptbridge.shell import operations, reading, topics
from gptbridge.shell.arguments import moment
from gptbridge.shell.cli import main
from gptbridge.shell.requests import List, OpsList, OpsShow, Show
from gptbridge.shell.store import Store

from .seeding import EPOCH, SITE, Seed, conversation_id, ulid

VALID = jsonschema.Draft202012Validator(json.loads(topics.schema_text()))
EVIL = "an\x1b[31mEVIL\ttitle\nwith ␛ and \u202e\u2028"


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seed:
    monkeypatch.chdir(tmp_path)
    return Seed(tmp_path / "home")


@pytest.fixture
def store(seed: Seed) -> Store:
    return Store(seed.env)


def listed(request: List, store: Store, tty: bool = False) -> list[str]:
    return [line.split("\t", 1)[1] for line in reading.list_conversations(request, store, tty).data.decode().splitlines()]


def document(capfd: pytest.CaptureFixture[str], seed: Seed, *words: str) -> dict[str, object]:
    code = main([*words, "--json"], environ=seed.env)
    out = capfd.readouterr().out
    assert out.isascii() and out.count("\n") == 1
    found: dict[str, object] = json.loads(out)
    VALID.validate(found)
    assert found["exit_code"] == code
    return found


# list

def test_list_is_newest_first_and_one_line_each(seed: Seed, store: Store) -> None:
    seed.conversation(1, "one")
    seed.conversation(2, EVIL)
    seed.conversation(3, "grüße 日本", account="user-0001")
    seed.conversation(1, "one again")
    assert reading.list_conversations(List(), store, False).data.decode() == (
        f"{conversation_id(1)}\tone again\n{conversation_id(2)}\tan\x1b[31mEVIL␛9;title␛A;with ␛ and \u202e␛2028;\n")
    assert reading.list_conversations(List(), store, True).data.decode() == (
        f"{conversation_id(1)}\tone again\n{conversation_id(2)}\tan␛1B;[31mEVIL␛9;title␛A;with ␛241B; and ␛202E;␛2028;\n")
    assert listed(List(every_account=True), store) == ["one again", "grüße 日本", "an\x1b[31mEVIL␛9;title␛A;with ␛ and \u202e␛2028;"]
    assert listed(List(limit=1), store) == ["one again"]


def test_list_limits(seed: Seed, store: Store) -> None:
    for number in range(25):
        seed.conversation(number, f"title {number}")
    assert len(listed(List(), store)) == 20
    assert listed(List(limit=3), store) == ["title 24", "title 23", "title 22"]
    assert len(listed(List(limit=0), store)) == 25


@pytest.mark.parametrize(("pattern", "titles"), [
    ("flock", ["About flock", "Flock and fsync"]), ("^about", ["About flock"]), ("fsync$", ["Flock and fsync"]),
    ("*flock*", ["About flock", "Flock and fsync"]), ("*flock", ["About flock"]), ("[[a", []), ("nothing", []),
    ("(?i)ABOUT", ["About flock"])])
def test_list_search(seed: Seed, store: Store, pattern: str, titles: list[str]) -> None:
    for number, title in enumerate(["Flock and fsync", "About flock", "Weather"]):
        seed.conversation(number, title)
    assert listed(List(search=pattern), store) == titles


def test_a_pattern_that_python_cannot_hold_is_refused(store: Store) -> None:
    for pattern in ("a{99999999999999999999}", "(" * 10_000 + ")" * 10_000):
        with pytest.raises(Failure) as caught:
            listed(List(search=pattern), store)
        assert caught.value.slug == "usage"


def test_list_since(seed: Seed, store: Store) -> None:
    for number in range(4):
        seed.conversation(number, f"title {number}")
    third = seed.registry.get(conversation_id(2))
    assert third is not None and third.updated_at is not None
    second = moment(third.updated_at, "--since", 0.0)
    assert listed(List(since=second), store) == ["title 3", "title 2"]
    assert listed(List(since=second, limit=1, search="2"), store) == ["title 2"]


def test_list_export(seed: Seed, store: Store, tmp_path: Path) -> None:
    for number in range(25):
        seed.conversation(number, "日本" if number else EVIL)
    assert reading.list_conversations(List(export=True), store, False).data == b"Log: ./ask-gpt/conversations.jsonl\n"
    data = (tmp_path / "ask-gpt" / "conversations.jsonl").read_bytes()
    rows = [json.loads(line) for line in data.splitlines()]
    assert data.isascii() and [row["conversation_id"] for row in rows] == [conversation_id(n) for n in range(24, -1, -1)]
    assert rows[-1]["title"] == EVIL
    assert list(rows[0]) == ["account", "conversation_id", "title", "url", "created_at", "updated_at", "origin"]
    assert (tmp_path / "ask-gpt").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ask-gpt" / ".gitignore").read_bytes() == b"*\n"
    assert (tmp_path / "ask-gpt" / "conversations.jsonl").stat().st_mode & 0o777 == 0o600
    assert rows == reading.list_conversations(List(limit=0), store, False).more()["conversations"]


@pytest.mark.parametrize("kind", ["folder", "target"])
def test_list_export_follows_no_link(seed: Seed, store: Store, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("kept")
    if kind == "folder":
        (tmp_path / "ask-gpt").symlink_to(other)
    else:
        (tmp_path / "ask-gpt").mkdir()
        (tmp_path / "ask-gpt" / "conversations.jsonl").symlink_to(other / "kept")
    with pytest.raises(Failure) as caught:
        reading.list_conversations(List(export=True), store, False)
    assert caught.value.slug == "state-unwritable" and "link" in caught.value.message
    assert [p.name for p in other.iterdir()] == ["kept"] and (other / "kept").read_text() == "kept"


def test_list_documents(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    seed.conversation(1, EVIL)
    found = document(capfd, seed, "list")
    assert (found["sent"], found["retry"], found["operation_id"], found["state"]) == ("no", "safe", None, None)
    assert found["conversations"][0]["title"] == EVIL  # type: ignore[index]
    assert document(capfd, seed, "list", "--export")["log"] == "./ask-gpt/conversations.jsonl"


def test_an_empty_store_is_read_and_not_made(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"ASKGPT_HOME": str(tmp_path / "none")}
    for words in (["list"], ["ops"], ["ops", "list"]):
        assert main(words, environ=env) == 0
        assert capfd.readouterr() == ("", "")
    assert main(["show", conversation_id(1)], environ=env) == 17
    assert main(["ops", "show", ulid(1)], environ=env) == 17
    assert list(tmp_path.iterdir()) == []


# show

def two_turns(seed: Seed) -> str:
    name = seed.conversation(1, "A title")
    seed.log(name, {"sections": [("prompt", "hello\x1b[31m"), ("answer", "no newline")], "attrs": [("user", "u-1")]},
             {"sections": [("prompt", "again"), ("thinking", "hm"), ("answer", "> quoted\n## turn 7\n\x07")], "words": ("hydrated",)})
    return name


def test_show_is_the_logs_own_text(seed: Seed, store: Store) -> None:
    name = two_turns(seed)
    data = (seed.path / "logs" / f"{name}.log").read_bytes()
    assert reading.show(Show(name), store, False).data == data
    assert reading.show(Show(name), store, True).data == data  # it holds nothing that a terminal would obey
    second = reading.show(Show(name, 2), store, False).data
    assert second.startswith("## turn 2 · ".encode()) and data.endswith(second)
    assert reading.show(Show(name, "last"), store, False).data == second
    assert reading.show(Show(f"{SITE}/c/{name}"), store, False).data == data
    assert reading.show(Show(name[:8]), store, False).data == data


def test_show_parts_are_exact(seed: Seed, store: Store) -> None:
    name = two_turns(seed)
    assert reading.show(Show(name, 1, "answer"), store, False).data == b"no newline\n"
    assert reading.show(Show(name, 1, "prompt"), store, False).data == b"hello\x1b[31m\n"
    assert reading.show(Show(name, 1, "prompt"), store, True).data == "hello␛1B;[31m\n".encode()
    assert reading.show(Show(name, None, "answer"), store, False).data == b"> quoted\n## turn 7\n\x07\n"
    assert reading.show(Show(name, "last", "thinking"), store, False).data == b"hm\n"
    assert reading.show(Show(name, 1, "thinking"), store, False).data == b"\n"  # known to be empty


def test_show_of_an_operation_is_its_own_turn(seed: Seed, store: Store) -> None:
    operation = seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    name = conversation_id(1)
    seed.log(name, {"sections": [("prompt", "mine"), ("answer", "A")], "attrs": [("op", operation)]},
             {"sections": [("prompt", "other"), ("answer", "B")]})
    assert reading.show(Show(operation, None, "answer"), store, False).data == b"A\n"
    assert reading.show(Show(operation, "last", "answer"), store, False).data == b"B\n"
    failed = seed.operation(2, "claimed", "dispatched", "uncertain")
    with pytest.raises(Failure):
        reading.show(Show(failed), store, False)
    seed.log(f"failed-{failed}", {"sections": [("prompt", "lost")], "state": "interrupted", "attrs": [("op", failed)]})
    store = Store(seed.env)
    assert reading.show(Show(failed, None, "prompt"), store, False).data == b"lost\n"
    with pytest.raises(Failure, match="has no answer"):
        reading.show(Show(failed, None, "answer"), store, False)


def test_show_hides_what_a_later_turn_supersedes(seed: Seed, store: Store) -> None:
    name = seed.conversation(1, "t")
    seed.log(name, {"sections": [("prompt", "p"), ("answer", "half")], "state": "interrupted"},
             {"sections": [("prompt", "p"), ("answer", "whole")], "attrs": [("supersedes", "1")]})
    reply = reading.show(Show(name), store, False)
    assert b"half" not in reply.data and b"whole" in reply.data and [turn["number"] for turn in reply.extra["turns"]] == [2]
    with pytest.raises(Failure, match="no turn 1"):
        reading.show(Show(name, 1), store, False)


@pytest.mark.parametrize("request_", [Show(conversation_id(9)), Show(ulid(9)), Show(conversation_id(1), 3), Show("ffffffff")])
def test_show_of_nothing(seed: Seed, store: Store, request_: Show) -> None:
    two_turns(seed)
    with pytest.raises(Failure) as caught:
        reading.show(request_, store, False)
    assert caught.value.slug == "bad-input"


def test_show_documents(seed: Seed, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = two_turns(seed)
    found = document(capfd, seed, "show", name)
    turns = found["turns"]
    assert isinstance(turns, list) and [(t["number"], t["origin"], t["thinking"]) for t in turns] == [(1, "own", ""), (2, "hydrated", "hm")]
    assert turns[0]["user_message_id"] == "u-1" and turns[0]["prompt"] == "hello\x1b[31m"
    assert (found["conversation_id"], found["title"], found["url"]) == (name, "A title", f"{SITE}/c/{name}")
    assert (found["answer"], found["log"]) == ("> quoted\n## turn 7\n\x07", None)
    assert found["log_canonical"] == str(seed.path / "logs" / f"{name}.log")
    (tmp_path / "ask-gpt").mkdir(mode=0o700)
    (tmp_path / "ask-gpt" / f"{name}.log").write_bytes(b"")
    assert document(capfd, seed, "show", name, "--turn", "1")["answer"] == "no newline"
    assert document(capfd, seed, "show", name)["log"] == f"./ask-gpt/{name}.log"


def test_show_of_a_log_that_was_tampered_with_warns(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    name = two_turns(seed)
    path = seed.path / "logs" / f"{name}.log"
    path.write_bytes(path.read_bytes().replace(b"no newline", b"no neWline"))
    assert main(["show", name, "--turn", "1", "--answer"], environ=seed.env) == 0
    out, err = capfd.readouterr()
    assert out == "no neWline\n" and f"warning: {name}.log, line " in err
    assert document(capfd, seed, "show", name)["warnings"]


# ops

def test_ops_list(seed: Seed, store: Store) -> None:
    first = seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    second = seed.operation(2, "claimed", "dispatched", "uncertain")
    third = seed.operation(3, target=conversation_id(7))
    lines = operations.list_operations(OpsList(), store, False).data.decode().splitlines()
    assert [line.split("\t")[:3] for line in lines] == [[third, "queued", "sent=no"], [second, "uncertain", "sent=unknown"],
                                                         [first, "completed", "sent=yes"]]
    assert [line.split("\t")[4] for line in lines] == [conversation_id(7), "new", conversation_id(1)]
    assert [r["operation_id"] for r in operations.list_operations(OpsList(limit=1), store, False).extra["operations"]] == [third]
    only = operations.list_operations(OpsList(state="uncertain"), store, False)
    assert [r["operation_id"] for r in only.extra["operations"]] == [second]


def test_ops_older_than_is_by_admission(seed: Seed) -> None:
    old = seed.operation(1, "rejected")
    seed.host.at += 3600
    seed.operation(2, "rejected")
    store = Store(seed.env)
    store.host = seed.host  # type: ignore[misc]
    found = operations.list_operations(OpsList(older_than=1800), store, False)
    assert [row["operation_id"] for row in found.extra["operations"]] == [old]


def test_ops_show(seed: Seed, store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    operation = seed.operation(1, "claimed", "dispatched", "uncertain")
    text = operations.show_operation(OpsShow(operation), store, False).data.decode()
    assert text.startswith(f"operation: {operation}\nstate: uncertain\nsent: unknown\nretry: never\n")
    assert "  claimed -> dispatched  by worker (as it goes)\n" in text and "aaaaaaaa-0000-4000-8000-000000000001" in text
    found = document(capfd, seed, "ops", "show", operation)
    row = found["operations"][0]  # type: ignore[index]
    assert found["operation_id"] is None and [entry["to"] for entry in row["history"]] == ["queued", "claimed", "dispatched", "uncertain"]
    assert "receipt" in row and row["fingerprint"] == "f" * 64 and document(capfd, seed, "ops", "show", ulid(9))["exit_code"] == 17


def test_ops_show_prompt_is_the_text_as_admitted(seed: Seed, store: Store) -> None:
    operation = seed.operation(1, "claimed", "dispatched", "uncertain")
    with pytest.raises(Failure) as caught:
        operations.show_operation(OpsShow(operation, True), store, False)
    assert caught.value.slug == "bad-input"
    seed.spool.put(operation, b"the \x1b[1mtext")
    assert operations.show_operation(OpsShow(operation, True), store, False).data == b"the \x1b[1mtext\n"
    assert operations.show_operation(OpsShow(operation, True), store, True).data == "the ␛1B;[1mtext\n".encode()


def test_every_reading_command_counts_what_is_uncertain(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    name = two_turns(seed)
    seed.operation(2, "claimed", "dispatched", "uncertain")
    for words in (["list"], ["list", "--json"], ["ops"], ["ops", "show", ulid(2)], ["show", name]):
        assert main(words, environ=seed.env) == 0
        assert capfd.readouterr().err == "ask-gpt: 1 uncertain operation: ask-gpt ops list --state uncertain\n"
        assert main([*words, "-q"], environ=seed.env) == 0
        assert capfd.readouterr().err == ""


def test_of_a_damaged_ledger_what_is_left_is_shown_and_every_command_says_so(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    name = two_turns(seed)
    first, second = seed.operation(1, "claimed", "dispatched", "uncertain"), seed.operation(2, "rejected")
    third = seed.operation(3, "rejected")
    path = seed.path / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"rubbish\n", *lines[6:]]))
    found = document(capfd, seed, "ops")
    assert found["exit_code"] == 18 and "ledger.jsonl, line 6" in found["error"]["message"]  # type: ignore[index]
    rows = {row["operation_id"]: row["state"] for row in found["operations"]}  # type: ignore[attr-defined]
    assert rows == {first: "uncertain", second: "rejected", third: "rejected"}
    assert document(capfd, seed, "ops", "show", first)["operations"][0]["history"][-1]["to"] == "uncertain"  # type: ignore[index]
    assert main(["ops", "-q"], environ=seed.env) == 18
    out, err = capfd.readouterr()
    assert out.count("\n") == 3 and err.startswith("ask-gpt: ledger.jsonl, line 6: no record")
    assert main(["ops", "show", second], environ=seed.env) == 40 and "state: rejected" in capfd.readouterr().out
    for words in (["list"], ["show", name]):
        assert main(words, environ=seed.env) == 0
        said = capfd.readouterr().err.splitlines()
        assert said[0].startswith("warning: ledger.jsonl, line 6: no record") and "sending is refused: restore the file" in said[0]
        assert said[1:] == ["ask-gpt: 1 uncertain operation: ask-gpt ops list --state uncertain"]
        assert main([*words, "-q"], environ=seed.env) == 0 and capfd.readouterr().err == ""
        assert any("sending is refused" in word for word in document(capfd, seed, *words)["warnings"])  # type: ignore[attr-defined]


def test_a_tail_that_is_gone_or_torn_is_said(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    """What the stamp knows of and the ledger does not: a send would refuse it, so a look at it says so."""
    first = seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    StampFile(seed.home).write("user-0000", Stamp(1.0, 1.0, "boot", 6))
    path = seed.path / "ledger.jsonl"
    data = path.read_bytes()
    assert main(["ops"], environ=seed.env) == 0 and capfd.readouterr().err == ""
    path.write_bytes(data.rpartition(b"\n")[0].rpartition(b"\n")[0] + b"\n")
    found = document(capfd, seed, "ops")
    assert found["exit_code"] == 18 and "acknowledged records are gone" in found["error"]["message"]  # type: ignore[index]
    assert [row["operation_id"] for row in found["operations"]] == [first]  # type: ignore[attr-defined]
    assert main(["list"], environ=seed.env) == 0 and "acknowledged records are gone" in capfd.readouterr().err
    path.write_bytes(data + b'{"seq":7,"to')
    for words in (["ops"], ["list"]):
        assert main(words, environ=seed.env) == 0
        assert capfd.readouterr().err == "warning: ledger.jsonl ends in 12 bytes of an unfinished record; the next writer seals them\n"
    path.write_bytes(data)
    (seed.path / "dispatch.stamp").write_bytes(b"{")
    assert main(["list"], environ=seed.env) == 0 and "dispatch.stamp cannot be read" in capfd.readouterr().err
    assert document(capfd, seed, "ops")["exit_code"] == 18


def test_damage_that_list_meets_is_said(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        seed.conversation(number, f"title {number}")
    path = seed.path / "conversations.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"rubbish\n", lines[3], b'{"seq":5,"s\0torn\n', b'{"seq":5']))
    assert main(["list"], environ=seed.env) == 0
    out, err = capfd.readouterr()
    assert out.split("\n") == [f"{conversation_id(2)}\ttitle 2", f"{conversation_id(0)}\ttitle 0", ""]
    assert err.splitlines() == ["warning: conversations.jsonl: 1 damaged line(s) were left out; nothing is written to it",
                                "warning: conversations.jsonl ends in 8 bytes of an unfinished record; the next writer seals them"]
    assert main(["list", "1"], environ=seed.env) == 0  # it reads no further
    assert "damaged" not in capfd.readouterr().err


def test_an_account_conflict_in_the_registry_is_refused(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    seed.conversation(1, "t")
    with seed.home.locks.lock("registry").hold():  # type: ignore[union-attr]
        seed.registry._journal.append({"account": "user-0001", "conversation_id": conversation_id(1), "title": "x"}, expect=3)
    assert document(capfd, seed, "list", "0", "--all-accounts")["exit_code"] == 18
    assert document(capfd, seed, "list", "--export")["exit_code"] == 18 and list((seed.path.parent / "ask-gpt").glob("*.jsonl")) == []


def test_a_newer_ledger_is_refused_and_left_alone(seed: Seed, capfd: pytest.CaptureFixture[str]) -> None:
    with seed.home.locks.lock("ledger").hold():  # type: ignore[union-attr]
        seed.ledger._journal.append({"format": "ask-gpt-ledger", "version": 2, "site": SITE, "epoch": EPOCH}, expect=1)
    before = (seed.path / "ledger.jsonl").read_bytes()
    assert document(capfd, seed, "ops")["exit_code"] == 18
    assert (seed.path / "ledger.jsonl").read_bytes() == before and os.listdir(seed.path / "spool") == []
