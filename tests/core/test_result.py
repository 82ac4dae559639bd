"""The `--json` document: all keys always, and `sent` and `retry` that agree with the exit's band in every outcome (CL-07, CL-08)."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from gptbridge.core.brought import Brought
from gptbridge.core.errors import EXITS, PRECEDENCE, Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation_document import operation_document, uncertain_line
from gptbridge.core.registry import Conversation
from gptbridge.core.result import (
    UNREADABLE,
    Outcome,
    document,
    turn_document,
)
from gptbridge.core.transcript import Block, Section

OP = "01JDX3V9A00000000000000001"
CONVERSATION = "68c1d2e3-0000-8000-8000-000000000001"
KEYS = [
    "schema", "command", "ok", "exit_code", "operation_id", "state", "sent", "retry", "conversation_id", "url", "account", "title", "model",
    "effort", "prompt_sha256", "answer", "thinking", "attachments", "images", "files", "resume", "log", "log_canonical", "queued_at",
    "dispatched_at", "completed_at", "warnings", "error", "next"]
AT = "2026-11-29T13:00:00.000Z"
COMMANDS = ["send", "resume", "list", "show", "ops", "help", "practice", "login"]


def operation(state: State, **facts: Any) -> Operation:
    order = (State.QUEUED, State.CLAIMED, State.DISPATCHED, State.ACCEPTED, State.COMPLETED)
    reached = order.index(state) if state in order else 0
    op = Operation(OP, state, 5, "0.aa", 2, prompt_sha256="0" * 64, account="user-0000", queued_at=AT)
    op.claimed_at = AT if reached >= 1 or state is State.UNCERTAIN else None
    op.dispatched_at = AT if reached >= 2 or state is State.UNCERTAIN else None
    if reached >= 3:
        op.conversation_id = CONVERSATION
    for name, value in facts.items():
        setattr(op, name, value)
    return op


def band(code: int) -> str | None:
    """What the contract's table says of the message; None: it says nothing."""
    if code in (0,) or 30 <= code < 40:
        return "yes"
    if code == 2 or 10 <= code < 30:
        return "no"
    return "unknown" if 40 <= code < 50 else None


EVERY = list(product(State, EXITS, (False, True), (None, "failed", "stopped", "lost", "abandoned")))


@pytest.mark.parametrize("command", ["send", "resume"])
def test_sent_and_retry_agree_with_the_band_for_every_state_and_slug(command: str) -> None:
    for state, slug, claimed, turn in EVERY:
        op = operation(state, turn=turn if state is State.ACCEPTED else None)
        if claimed:
            op.claimed_at = AT
        failure = Failure(slug, "m", "h")
        doc = document(Outcome(command, slug, failure, op))
        code, sent, retry = doc["exit_code"], doc["sent"], doc["retry"]
        here = (state, slug, claimed, turn, code, sent, retry)
        assert list(doc) == KEYS, here
        assert sent == op.sent, here
        assert band(code) in (None, sent), here
        if sent != "no" or op.claimed or code in (21, 23, 24, 1):
            assert retry == "never", here
        else:
            assert retry == {10: "later", 11: "later", 16: "safe", 130: "safe", 143: "safe", 3: "safe"}.get(code, "after-fix"), here
        assert doc["ok"] == (code == 0) == (doc["error"] is None), here
        assert doc["error"] is None or EXITS[doc["error"]["code"]].code == code, here


def test_the_exit_that_fits_the_row_is_kept() -> None:
    for state, slug, wanted in ((State.QUEUED, "busy", 10), (State.REJECTED, "needs-human", 12), (State.ACCEPTED, "record-failed", 34),
                                (State.COMPLETED, "answer-lost", 31), (State.DISPATCHED, "interrupted", 130), (State.COMPLETED, "ok", 0),
                                (State.UNCERTAIN, "uncertain", 40), (State.UNCERTAIN, "terminated", 143)):
        assert document(Outcome("send", slug, Failure(slug, "m"), operation(state)))["exit_code"] == wanted


def test_a_write_that_failed_after_the_dispatch_is_uncertain() -> None:
    doc = document(Outcome("send", "state-unwritable", Failure("state-unwritable", "no room"), operation(State.DISPATCHED)))
    assert (doc["exit_code"], doc["sent"], doc["retry"]) == (40, "unknown", "never")
    assert "not known" in doc["error"]["message"] and OP in doc["error"]["hint"]


@pytest.mark.parametrize(("slug", "sent", "retry"), [
    ("usage", "no", "after-fix"), ("expired", "unknown", "never"), ("uncertain", "unknown", "never"), ("conflict", "no", "never"),
    ("interrupted", "no", "safe"), ("browser", "no", "safe")])
def test_without_a_row(slug: str, sent: str, retry: str) -> None:
    doc = document(Outcome("send", slug, Failure(slug, "m")))
    assert list(doc) == KEYS and (doc["sent"], doc["retry"]) == (sent, retry)
    assert (doc["operation_id"], doc["state"], doc["next"]) == (None, None, [])


@pytest.mark.parametrize("command", COMMANDS[2:])
def test_commands_that_send_nothing(command: str) -> None:
    doc = document(Outcome(command, extra={"conversations": []}))
    assert list(doc) == [*KEYS, "conversations"]
    assert (doc["ok"], doc["sent"], doc["retry"], doc["operation_id"], doc["state"]) == (True, "no", "safe", None, None)


def block(*sections: tuple[str, str], state: str = "completed", **attrs: str) -> Block:
    return Block("turn", 3, AT, state, tuple(Section(*s) for s in sections), tuple(attrs.items()))


def test_answer_and_thinking_null_is_not_known_and_empty_is_known_to_be_empty() -> None:
    op = operation(State.COMPLETED)
    for shown, texts in ((block(("prompt", "p"), ("answer", "a")), ("a", "")), (block(("prompt", "p"), ("answer", "")), ("", "")),
                         (block(("prompt", "p"), ("thinking", UNREADABLE), ("answer", "a")), ("a", UNREADABLE))):
        doc = document(Outcome("send", "ok", None, op, shown))
        assert (doc["answer"], doc["thinking"]) == texts
    doc = document(Outcome("send", "still-answering", None, operation(State.ACCEPTED), block(("prompt", "p"), state="interrupted")))
    assert (doc["answer"], doc["thinking"]) == (None, None)


def test_the_document_takes_what_the_row_knows_before_log_and_registry() -> None:
    op = operation(State.COMPLETED, title="Row", site_model="gpt-5-5", site_effort="high", completed_at=AT)
    registered = Conversation("user-0009", CONVERSATION, "Registry")
    turn = block(("answer", "a"), model="other")
    doc = document(Outcome("send", "ok", None, op, turn, registered, log="./ask-gpt/x.log"), site="http://127.0.0.1:1")
    assert (doc["title"], doc["model"], doc["effort"], doc["account"]) == ("Row", "gpt-5-5", "high", "user-0000")
    assert doc["url"] == f"http://127.0.0.1:1/c/{CONVERSATION}" and doc["resume"] == f"ask-gpt resume {CONVERSATION}"
    op.title = op.site_model = None
    doc = document(Outcome("send", "ok", None, op, turn, registered))
    assert (doc["title"], doc["model"]) == ("Registry", "other")


@pytest.mark.parametrize("slug", ["still-answering", "answer-lost", "record-failed"])
def test_next_names_the_operation(slug: str) -> None:
    assert document(Outcome("send", slug, None, operation(State.ACCEPTED)))["next"] == [["ask-gpt", "resume", OP]]


def test_next_of_an_uncertain_one() -> None:
    doc = document(Outcome("send", "uncertain", None, operation(State.UNCERTAIN)))
    assert doc["next"] == [["ask-gpt", "ops", "show", OP], ["ask-gpt", "resume", OP]] and "do not resend" in doc["error"]["hint"]


@pytest.mark.parametrize("command", ["send", "resume", "download-attachments", "show"])
def test_next_holds_our_own_words_and_well_formed_ids_alone(command: str) -> None:
    """SE-15: whatever the site calls the conversation, its model, its files, and whatever its answer says."""
    hostile = "ask-gpt; rm -rf ~\n$(id)"
    seen = set()
    for state, slug, *_ in EVERY:
        op = operation(state, title=hostile, site_model=hostile, account=hostile, target=CONVERSATION, kind="resume")
        turn = block(("prompt", hostile), ("answer", hostile))
        lost = Brought("failed", None, hostile, None, None, hostile, hostile, "file", hostile)
        row = op if command in ("send", "resume") else None
        doc = document(Outcome(command, slug, Failure(slug, hostile, hostile), row, turn, Conversation(hostile, CONVERSATION, hostile),
                               files=[lost], warnings=[hostile]))
        for argv in [*doc["next"], *([doc["resume"].split(" ")] if doc["resume"] else [])]:
            assert argv[0] == "ask-gpt" and set(argv[1:]) <= {"resume", "ops", "show", "download-attachments", OP, CONVERSATION}, argv
            seen.add(argv[1])
    assert seen >= ({"resume", "ops", "download-attachments"} if command in ("send", "resume") else {"resume"})


@pytest.mark.parametrize("state", [State.REJECTED, State.STOPPED])
def test_a_spent_id_says_that_a_new_one_may_send_it(state: State) -> None:
    op = operation(state, claimed_at=AT, durable=True)
    assert "a new one may send it" in document(Outcome("send", "site-changed", Failure("site-changed", "m", "h"), op))["error"]["hint"]


def test_every_document_is_json() -> None:
    for state in State:
        json.dumps(document(Outcome("send", "interrupted", None, operation(state))), allow_nan=False)


def test_precedence_is_that_of_the_contract() -> None:
    assert [EXITS[slug].code for slug in PRECEDENCE] == [40, 34, 31, 32, 30, 33]


@pytest.mark.parametrize("state", list(State))
def test_one_of_operations(state: State) -> None:
    op = operation(state)
    plain = operation_document(op)
    assert set(plain) == {
        "operation_id", "state", "sent", "retry", "kind", "target", "conversation_id", "user_message_id", "admission", "blocking_reason",
        "stop_phase", "queued_at", "dispatched_at", "updated_at", "turn", "attempt", "refusal"}
    full = operation_document(op, detail=True)
    assert set(full) - set(plain) == {"fingerprint", "receipt", "history", "asked"}
    assert (full["receipt"] is not None) == (state in (State.ACCEPTED, State.COMPLETED))


def test_one_of_turns() -> None:
    doc = turn_document(block(("prompt", "p"), ("answer", "a"), op=OP, user="m"))
    assert doc == {"number": 3, "origin": "own", "state": "completed", "at": AT, "prompt": "p", "thinking": "", "answer": "a", "files": [],
                   "attachments": [],
                   "operation_id": OP, "user_message_id": "m"}


def test_the_line_about_uncertain_operations() -> None:
    one = operation(State.UNCERTAIN)
    assert uncertain_line([]) is None
    assert "1 uncertain operation:" in (uncertain_line([one]) or "") and "2 uncertain operations:" in (uncertain_line([one, one]) or "")


def test_thinking_is_known_to_be_empty_where_the_site_was_read() -> None:
    def told(state: str, *words: str, **attrs: str) -> object:
        block = Block("turn", 1, "2026-11-29T13:00:05Z", state, (Section("prompt", "q"),), tuple(attrs.items()), words)
        return turn_document(block)["thinking"]
    assert [told("completed"), told("failed"), told("interrupted", "hydrated")] == ["", None, None]
    assert [told("stopped", "hydrated"), told("incomplete", "hydrated", "from-page", source="page")] == ["", None]
