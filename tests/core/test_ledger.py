"""The fold of the ledger: every legal history gives the same view in one go and piece by piece; every illegal one is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gptbridge.core import ledger
from gptbridge.core.errors import EXITS, Failure
from gptbridge.core.ledger import LOOKS, BrokenHistory, Operation, View, after_pruning, first_record, fold, is_crowded, move
from gptbridge.core.lifecycle import IllegalStep, State
from gptbridge.core.operation import Payload

SITE = "http://127.0.0.1:9"
AT = "2026-11-29T13:00:0%d.000Z"
OP, OTHER = "01JDX3V9A00000000000000001", "01JDX3V9A00000000000000002"
CONVERSATION, ANOTHER = "68c1d2e3-0000-8000-8000-000000000001", "68c1d2e3-0000-8000-8000-000000000002"
MESSAGE = "6b1f0000-0000-4000-8000-00000000000a"
RECEIPT = {"conversation_id": CONVERSATION, "user_message_id": MESSAGE, "turn_id": "turn-1"}


class Journal:
    """Records as a writer would append them, numbered; `view` folds them afresh."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = [(1, first_record(SITE, AT % 0))]

    def add(self, operation_id: str, state: str, *, epoch: str = "0.aa", actor: str = "worker", **facts: Any) -> Journal:
        number = self.rows[-1][0] + 1
        self.rows.append((number, {"operation_id": operation_id, "state": state, "epoch": epoch, "actor": actor, "pid": 7, "reason": state,
                                   "at": AT % (number % 10), **facts}))
        return self

    def queued(self, operation_id: str = OP, attempt: int = 1, **facts: Any) -> Journal:
        payload = Payload("Hello")
        return self.add(operation_id, "queued", kind="new", target="new", fingerprint=payload.fingerprint(), attempt=attempt,
                        prompt_sha256=payload.prompt_sha256, prompt_bytes=5, account=None, **facts)

    def dispatched(self, operation_id: str = OP) -> Journal:
        return self.queued(operation_id).add(operation_id, "claimed", account="user-0000").add(operation_id, "dispatched")

    def held(self, message_id: str = MESSAGE) -> Journal:
        return self.dispatched().add(OP, "dispatched", user_message_id=message_id).add(OP, "dispatched", request="released")

    def accepted(self) -> Journal:
        return self.held().add(OP, "accepted", **RECEIPT)

    @property
    def view(self) -> View:
        return fold(self.rows)

    @property
    def op(self) -> Operation:
        return self.view.operations[OP]


def broken(journal: Journal) -> str:
    with pytest.raises(BrokenHistory) as why:
        _ = journal.view
    return str(why.value)


# One life


def test_a_whole_life_and_what_each_step_leaves() -> None:
    journal = Journal().queued()
    op = journal.op
    assert (op.state, op.slug, op.sent, op.waiting, op.ended) == ("queued", "busy", "no", True, False)
    journal.add(OP, "queued", ready_at=AT % 3, account="user-0000", blocking_reason="the gap")
    assert (journal.op.ready_at, journal.op.account, journal.op.blocking_reason) == (AT % 3, "user-0000", "the gap")
    journal.add(OP, "claimed")
    assert (journal.op.claimed, journal.op.in_flight, journal.op.blocking_reason) == (True, True, None)  # SM-26
    journal.add(OP, "dispatched")
    op = journal.op
    assert (op.in_flight, op.sent, op.slug, op.dispatched_at) == (True, "unknown", "uncertain", AT % 5)
    journal.add(OP, "dispatched", user_message_id=MESSAGE.upper(), parent_message_id="p")
    assert journal.op.dispatched_at == AT % 5 and journal.op.message_ids() == {MESSAGE}
    journal.add(OP, "dispatched", request="released")
    assert not journal.op.in_flight
    journal.add(OP, "dispatched", site_message_id=ANOTHER)
    assert journal.op.message_ids() == {MESSAGE, ANOTHER}
    journal.add(OP, "accepted", conversation_id=CONVERSATION, turn_id="turn-1")
    assert (journal.op.slug, journal.op.sent, journal.op.ended) == ("still-answering", "yes", False)
    journal.add(OP, "completed", title="Hello", site_model="gpt-5-5")
    assert (journal.op.slug, journal.op.ended, journal.op.title, journal.op.completed_at) == ("ok", True, "Hello", AT % 0)
    view = journal.view
    assert view.site == SITE and view.last_seq == 10
    assert view.receipts == {(CONVERSATION, MESSAGE): OP, (CONVERSATION, ANOTHER): OP}
    assert view.by_message(ANOTHER.upper()).operation_id == OP and view.by_message("x") is None  # type: ignore[union-attr]
    assert view.of_conversation(CONVERSATION) == [view.get(OP)] and view.unresolved() == []


@pytest.mark.parametrize(("turn", "slug"), [("failed", "answer-failed"), ("lost", "answer-lost"), ("abandoned", "answer-lost"),
                                            ("stopped", "ok")])
def test_an_accepted_turn_that_ended_counts_as_ended(turn: str, slug: str) -> None:
    """CR-16."""
    op = Journal().accepted().add(OP, "accepted", turn=turn, turn_ended_at=AT % 9).op
    assert (op.slug, op.ended, op.retry, op.state) == (slug, True, "never", "accepted")


def test_the_history_has_every_transition_with_who_when_and_why() -> None:
    """RP-12."""
    view = fold(Journal().accepted().rows, with_history=True)
    steps = [(h["from"], h["to"]) for h in view.operations[OP].history]
    assert steps == [(None, "queued"), ("queued", "claimed"), ("claimed", "dispatched"), ("dispatched", "dispatched"),
                     ("dispatched", "dispatched"), ("dispatched", "accepted")]
    assert all(h["at"] and h["actor"] == "worker" and h["epoch"] == "0.aa" and h["pid"] == 7 and h["reason"]
               for h in view.operations[OP].history)
    assert Journal().accepted().op.history == ()


# Attempts


def failed(journal: Journal, **facts: Any) -> Journal:
    return journal.add(OP, "rejected", error={"slug": "needs-human", "message": "m", "hint": "h"}, durable=False, **facts)


def test_a_next_attempt_forgets_the_end_of_the_one_before_and_stands_at_the_end_of_the_line() -> None:
    journal = failed(Journal().queued().add(OP, "queued", ready_at=AT % 3))
    assert journal.op.admissible and journal.op.slug == "needs-human" and journal.op.retry == "after-fix"
    journal.queued(OTHER).queued(OP, attempt=2, epoch="1.bb")
    op = journal.op
    assert (op.attempt, op.state, op.error, op.ready_at, op.epoch, op.durable) == (2, "queued", None, None, "1.bb", False)
    assert op.order == 6 and op.queued_at == AT % 6 and [*journal.view.operations] == [OP, OTHER]


@pytest.mark.parametrize("end", [{"durable": True}, {}])
def test_what_was_claimed_or_decided_for_ever_has_no_next_attempt(end: dict[str, Any]) -> None:
    """CR-17."""
    journal = Journal().queued() if end else Journal().queued().add(OP, "claimed")
    journal.add(OP, "rejected", error={"slug": "busy", "message": "", "hint": ""}, **end)
    assert not journal.op.admissible and journal.op.retry == "never"
    assert OP in broken(journal.queued(OP, attempt=2))


def test_admitting_what_still_waits_is_no_attempt() -> None:
    broken(Journal().queued().queued(OP, attempt=2))


# What no correct writer appends


@pytest.mark.parametrize("state", [s.value for s in State if s is not State.QUEUED])
def test_nothing_begins_but_queued(state: str) -> None:
    assert "begins as" in broken(Journal().add(OP, state))


def test_a_move_outside_the_tables_names_record_and_operation() -> None:
    said = broken(Journal().queued().add(OP, "dispatched"))
    assert "record 3" in said and OP in said


@pytest.mark.parametrize("state", ["claimed", "rejected", "stopped", "queued"])
def test_only_the_epoch_that_admitted_it_may_append(state: str) -> None:
    """XP-03, XP-08."""
    assert "epoch" in broken(Journal().queued().add(OP, state, epoch="1.bb"))


def test_recovery_appends_under_the_dead_epoch_and_the_row_keeps_it() -> None:
    op = Journal().dispatched().add(OP, "uncertain", actor="recovery").op
    assert (op.state, op.epoch, op.slug) == ("uncertain", "0.aa", "uncertain")


@pytest.mark.parametrize("name", ["conversation_id", "user_message_id", "turn_id"])
@pytest.mark.parametrize("state", ["accepted", "completed"])
def test_native_ids_are_set_once(name: str, state: str) -> None:
    """RP-04, SM-14."""
    assert name in broken(Journal().accepted().add(OP, state, **{name: ANOTHER}))


def test_the_same_ids_again_change_nothing() -> None:
    """SM-13."""
    assert Journal().accepted().add(OP, "accepted", **RECEIPT).op.state == "accepted"


def test_one_receipt_belongs_to_one_operation() -> None:
    """RP-03."""
    journal = Journal().accepted().dispatched(OTHER).add(OTHER, "dispatched", user_message_id=MESSAGE.upper())
    assert OP in broken(journal.add(OTHER, "accepted", conversation_id=CONVERSATION, turn_id="turn-2"))
    # The same message id in another conversation is another message.
    other = Journal().accepted().dispatched(OTHER).add(OTHER, "dispatched", user_message_id=MESSAGE)
    assert len(other.add(OTHER, "accepted", conversation_id=ANOTHER, turn_id="turn-2").view.receipts) == 2


def test_accepted_needs_the_receipt() -> None:
    """SM-12."""
    broken(Journal().dispatched().add(OP, "accepted", conversation_id=CONVERSATION))
    broken(Journal().dispatched().add(OP, "accepted", user_message_id=MESSAGE))


def test_uncertain_leaves_with_evidence_or_by_a_person() -> None:
    """SM-23, RP-07."""
    def uncertain() -> Journal:
        return Journal().held().add(OP, "uncertain", actor="recovery")
    broken(uncertain().add(OP, "accepted", actor="resume", **RECEIPT))
    assert uncertain().add(OP, "accepted", actor="resume", evidence={"url": "u"}, **RECEIPT).op.state == "accepted"
    broken(uncertain().add(OP, "rejected", actor="resume"))
    assert uncertain().add(OP, "rejected", actor="person", epoch="9.ff").op.state == "rejected"


# The first record


def test_a_newer_format_and_another_kind_are_refused() -> None:
    for change in ({"version": 2}, {"format": "ask-gpt-registry"}, {"version": "1"}):
        with pytest.raises(Failure) as why:
            fold([(1, {**first_record(SITE, AT % 0), **change})])
        assert why.value.slug == "state-corrupt"
        assert "newer" in why.value.message or change != {"version": 2}


def test_base_and_floor_of_a_pruned_file_and_the_floor_of_an_accepted_loss() -> None:
    loss = {"accepted_loss": True, "floor": 9.0, "at": AT % 1, "actor": "person"}
    view = fold([(100, {**first_record(SITE, AT % 0), "base": 100, "floor": 5.0}), (101, loss)])
    assert (view.base, view.floor, view.last_seq, view.operations) == (100, 9.0, 101, {})
    assert fold([(102, {**loss, "floor": 3.0})], view).floor == 9.0  # never lowered


def test_a_pruning_leaves_the_last_look_and_whatever_else_is_known() -> None:
    look = {"actor": "sweep", "looked_at": AT % 5}
    journal = Journal().held().add(OP, "uncertain", actor="recovery").add(OP, "uncertain", **look)
    journal.queued(OTHER).add(OTHER, "rejected", error={"slug": "busy", "message": "m", "hint": ""})
    for number in range(LOOKS - 1):
        journal.add(OP, "uncertain", **{**look, "looked_at": AT % (number % 10)})
    journal.add(OP, "accepted", actor="sweep", evidence={"url": "u"}, **RECEIPT).add(OP, "accepted", **look)
    journal.rows.append((journal.rows[-1][0] + 1, {"accepted_loss": True, "floor": 1.0, "at": AT % 1}))
    assert is_crowded(journal.view) and journal.op.looks == LOOKS + 1
    kept = after_pruning([fields for _, fields in journal.rows], {OTHER})
    view = fold(enumerate([first_record(SITE, AT % 0), *kept], 1))
    assert len(kept) == len(journal.rows) - 1 - 2 - LOOKS and not is_crowded(view) and list(view.operations) == [OP]
    assert [fields for fields in kept if "accepted_loss" in fields] and view.loss_at == journal.view.loss_at
    here, there = vars(view.operations[OP]), vars(journal.op)
    assert {name for name in here if here[name] != there[name]} == {"seq", "looks"}


def test_unknown_kinds_of_records_are_passed_over() -> None:
    assert fold([*Journal().queued().rows, (3, {"note": "of a later version"})]).last_seq == 3


# The writer's side


def test_move_refuses_what_the_fold_would_refuse_and_changes_nothing() -> None:
    op = Journal().dispatched().op
    before = copy.deepcopy(op)
    for to, facts in ((State.COMPLETED, {}), (State.QUEUED, {"attempt": 2}), (State.STOPPED, {}), (State.ACCEPTED, {})):
        with pytest.raises(IllegalStep):
            move(op, to, epoch="0.aa", actor="worker", reason="r", **facts)
    with pytest.raises(IllegalStep):
        move(op, State.REJECTED, epoch="1.bb", actor="worker", reason="r")
    assert op == before
    assert move(op, State.REJECTED, epoch="0.aa", actor="worker", reason="r")["state"] == "rejected"


@pytest.mark.parametrize("slug", EXITS)
def test_a_recorded_failure_comes_back_as_it_was(slug: str) -> None:
    failure = Failure(slug, "what happened", "what to type", durable=slug == "conflict")
    op = Operation(OP, State.REJECTED, 3, "0.aa", 2, **ledger.failure_fields(failure))
    back = ledger.failure_of(op)
    assert back is not None and (back.slug, back.message, back.hint) == (failure.slug, failure.message, failure.hint)
    assert op.slug == slug and op.durable == failure.durable


# Random legal histories


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, dict[str, Any]]]:
    """Records that `move` allowed, of three operations by two owners and a recovery, in any order."""
    journal = Journal()
    ids = [OP, OTHER, "01JDX3V9A00000000000000003"]
    view = journal.view
    for _ in range(draw(st.integers(0, 30))):
        operation_id = draw(st.sampled_from(ids))
        op = view.get(operation_id)
        if op is None:
            journal.queued(operation_id, epoch=draw(st.sampled_from(["0.aa", "1.bb"])))
            fold(journal.rows[-1:], view)
            continue
        actor = draw(st.sampled_from(["worker", "recovery", "resume", "person"]))
        facts = draw(st.fixed_dictionaries({}, optional={
            "user_message_id": st.just(f"message-{operation_id}"), "conversation_id": st.sampled_from([CONVERSATION, ANOTHER]),
            "turn_id": st.sampled_from(["t1", "t2"]), "evidence": st.just({"url": "u"}), "durable": st.booleans(),
            "request": st.sampled_from(["released", "refused"]), "turn": st.sampled_from(["failed", "lost"])}))
        to = draw(st.sampled_from(list(State)))
        epoch = draw(st.sampled_from(["0.aa", "1.bb"]))
        if to is State.QUEUED and op.ended:
            facts["attempt"] = op.attempt + 1
        try:
            fields = move(op, to, epoch=epoch, actor=actor, reason="r", **facts)
        except IllegalStep:
            continue
        journal.rows.append((journal.rows[-1][0] + 1, {**fields, "at": AT % 1}))
        fold(journal.rows[-1:], view)
    return journal.rows


@settings(max_examples=40, deadline=None)
@given(histories(), st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_any_legal_history_folds_and_folds_the_same_piece_by_piece(rows: list[tuple[int, dict[str, Any]]], cuts: list[int]) -> None:
    whole = fold(rows)
    view, at, kept = View(), 0, list[tuple[Operation, Operation]]()
    for index in range(len(rows)):
        size = cuts[index % len(cuts)]
        view = fold(rows[at:at + size], view)
        at += size
        kept += [(op, copy.deepcopy(op)) for op in view.operations.values()]
    assert view == whole
    assert all(op == before for op, before in kept), "a row that a caller may hold was changed under it"


@settings(max_examples=40, deadline=None)
@given(histories())
def test_what_holds_in_every_legal_history(rows: list[tuple[int, dict[str, Any]]]) -> None:
    view = fold(rows, with_history=True)
    for op in view.operations.values():
        states = [h["to"] for h in op.history]
        released = [h for h in op.history if h["from"] == "claimed" and h["to"] == "dispatched"]
        assert len(released) <= 1, "two authorised clicks for one id"
        assert states.count("claimed") == 0 or states.index("claimed") > 0
        if "dispatched" in states:
            assert "queued" not in states[states.index("dispatched"):], "admitted again after it may have left"
        if op.state in (State.ACCEPTED, State.COMPLETED):
            assert op.dispatched_at is not None and op.sent == "yes"
        assert op.retry == "never" or op.sent == "no"
    assert len(set(view.receipts.values())) <= len(view.operations)


# The kept view

def kept(view: View) -> View:
    facts, again = ledger.load(ledger.dump(view, {"size": 7}))
    assert facts["size"] == 7
    return again


WORDS = [OP, CONVERSATION, ANOTHER, MESSAGE.upper(), "new", f"message-{OP}", "\u00e9\ud800", str(Payload("Hello").prompt_sha256)]
QUESTIONS: list[Callable[[View], Any]] = [
    View.unresolved, View.uncertain, lambda view: list(view.newest_first()), lambda view: next(view.newest_first(), None),
    lambda view: len(view.operations), lambda view: list(view.operations.items()), lambda view: dict(view.receipts),
    *(lambda view, ask=ask, word=word: ask(view, word) for ask in (View.get, View.of_conversation, View.of_prompt, View.of_folder,
                                                                   View.by_message) for word in WORDS)]


@settings(max_examples=60, deadline=None)
@given(histories(), st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, len(QUESTIONS) - 1), min_size=1, max_size=8))
def test_a_kept_view_is_the_view_whatever_is_asked_and_however_it_goes_on(rows: list[tuple[int, dict[str, Any]]], cuts: list[int],
                                                                          questions: list[int]) -> None:
    whole, view, at = View(), View(), 0
    for size in [*cuts, len(rows)]:
        part = rows[at:at + size]
        at += size
        whole, view = fold(part, whole), fold(part, kept(view))
        fresh = kept(view)
        for index in questions:  # an answer must not depend on what was asked before
            assert QUESTIONS[index](fresh) == QUESTIONS[index](whole)
        assert view == whole and kept(view) == whole and list(view.operations) == list(whole.operations)


@pytest.mark.parametrize("odd", [{"attempt": None}, {"kind": None}, {"durable": None}, {"error": {"slug": "\ud800", "message": "\u00e9"}},
                                 {"user_message_id": "ABC-\u212a"}, {"folder": "a b\n\"c"}])
def test_odd_facts_are_kept_as_they_are(odd: dict[str, Any]) -> None:
    journal = Journal().queued().add(OP, "claimed", **odd)
    view, again = journal.view, kept(journal.view)
    assert again == view and vars(again.operations[OP]) | vars(view.operations[OP]) == vars(view.operations[OP])
    for message_id in journal.op.message_ids():
        assert kept(view).by_message(message_id.upper()) == view.by_message(message_id.upper()) == journal.op


def test_a_view_that_no_line_can_hold_is_not_kept() -> None:
    with pytest.raises(ValueError):
        ledger.dump(Journal().queued("an id of another length").view, {})


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_a_damaged_kept_view_is_none(rows: list[tuple[int, dict[str, Any]]], data: st.DataObject) -> None:
    text = ledger.dump(fold(rows), {"size": 7})
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = data.draw(st.sampled_from([
        text[:at], text[:at] + text[at + 1:], text[:at] + bytes([text[at] ^ (1 << data.draw(st.integers(0, 7)))]) + text[at + 1:],
        text[:at] + b"\0" * 9 + text[at:], text + b"\n", text[:at] + text[at:].swapcase(), b"", text.replace(b"check/2", b"check/3"),
        text[:at] + bytes(len(text) - at)]))
    if damaged != text:
        with pytest.raises((ValueError, KeyError, TypeError)):
            ledger.load(damaged)
