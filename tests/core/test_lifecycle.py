"""The two tables, typed here a second time from the design, and every pair that is not in them (SM-02, TE-03)."""

from __future__ import annotations

from itertools import product

import pytest

from gptbridge.core import lifecycle
from gptbridge.core.errors import EXITS
from gptbridge.core.lifecycle import Facts, IllegalStep, Role, State, retry_of, step

ROLES: tuple[Role, ...] = ("witness", "recovery")
# What is allowed, and the facts without which it is not.
RECEIPT, EVIDENCE, PERSON = {"dispatched": True, "receipt": True}, {"dispatched": True, "receipt": True, "evidence": True}, {"person": True}
ALLOWED: dict[tuple[Role, str, str], dict[str, bool]] = {
    ("witness", "queued", "claimed"): {}, ("witness", "queued", "rejected"): {}, ("witness", "queued", "stopped"): {},
    ("witness", "claimed", "dispatched"): {}, ("witness", "claimed", "rejected"): {}, ("witness", "claimed", "stopped"): {},
    ("witness", "dispatched", "accepted"): RECEIPT, ("witness", "dispatched", "rejected"): {}, ("witness", "dispatched", "uncertain"): {},
    ("witness", "accepted", "completed"): {},
    ("witness", "rejected", "queued"): {}, ("witness", "stopped", "queued"): {},
    ("witness", "uncertain", "accepted"): EVIDENCE, ("witness", "uncertain", "rejected"): PERSON,
    ("recovery", "queued", "rejected"): {}, ("recovery", "queued", "uncertain"): {"lossy": True},
    ("recovery", "claimed", "uncertain"): {}, ("recovery", "dispatched", "uncertain"): {},
    ("recovery", "accepted", "completed"): {},
    ("recovery", "uncertain", "accepted"): EVIDENCE, ("recovery", "uncertain", "rejected"): PERSON,
}
EVERY = list(product(ROLES, State, State))
GENEROUS = Facts(dispatched=True, receipt=True, evidence=True, person=True)  # nothing that a guard could miss


@pytest.mark.parametrize(("role", "state", "to"), EVERY, ids=str)
def test_every_pair_of_both_tables(role: Role, state: State, to: State) -> None:
    needed = ALLOWED.get((role, state.value, to.value))
    if needed is None:
        with pytest.raises(IllegalStep):
            step(state, to, role, GENEROUS)
    else:
        assert step(state, to, role, Facts(**needed)) is to


@pytest.mark.parametrize(("role", "state", "to"), [k for k, v in ALLOWED.items() if v], ids=str)
def test_each_fact_that_a_move_needs_is_needed(role: Role, state: str, to: str) -> None:
    needed = ALLOWED[(role, state, to)]
    for missing in needed:
        with pytest.raises(IllegalStep):
            step(State(state), State(to), role, Facts(**{**needed, missing: False}))


def test_nothing_stays_where_it_is_and_nothing_leaves_completed() -> None:
    assert all((role, state.value, state.value) not in ALLOWED for role in ROLES for state in State)
    assert all((role, "completed", to.value) not in ALLOWED for role in ROLES for to in State)


@pytest.mark.parametrize("state", [State.REJECTED, State.STOPPED])
@pytest.mark.parametrize("facts", [Facts(claimed=True), Facts(durable=True), Facts(claimed=True, durable=True)])
def test_queued_again_only_what_was_never_claimed_for_a_reason_outside_the_request(state: State, facts: Facts) -> None:
    """SM-03, CR-17."""
    with pytest.raises(IllegalStep):
        step(state, State.QUEUED, "witness", facts)


@pytest.mark.parametrize("role", ROLES)
def test_a_person_cannot_accept_what_never_was_dispatched(role: Role) -> None:
    """RP-10: only a dismissal closes it."""
    with pytest.raises(IllegalStep):
        step(State.UNCERTAIN, State.ACCEPTED, role, Facts(person=True, receipt=True, evidence=True))
    assert step(State.UNCERTAIN, State.REJECTED, role, Facts(person=True)) is State.REJECTED


def test_a_person_may_accept_without_a_receipt() -> None:
    assert step(State.UNCERTAIN, State.ACCEPTED, "witness", Facts(person=True, dispatched=True)) is State.ACCEPTED


def test_the_same_crash_point_ends_in_different_bins() -> None:
    """CR-06, CR-07: the difference is the caller's knowledge."""
    assert lifecycle.RECOVERY[State.CLAIMED] == lifecycle.RECOVERY[State.DISPATCHED] == {State.UNCERTAIN}
    assert State.REJECTED in lifecycle.WITNESS[State.CLAIMED] and State.UNCERTAIN not in lifecycle.WITNESS[State.CLAIMED]


def test_custody_of_each_state() -> None:
    assert {s.value: sent for s, sent in lifecycle.SENT.items()} == {
        "queued": "no", "claimed": "no", "rejected": "no", "stopped": "no", "dispatched": "unknown", "uncertain": "unknown",
        "accepted": "yes", "completed": "yes"}


@pytest.mark.parametrize("state", list(State))
def test_retry_is_never_for_what_left_may_have_left_was_claimed_or_decided_for_ever(state: State) -> None:
    for row in EXITS.values():
        for claimed, durable in product((False, True), repeat=2):
            said = retry_of(state, row.retry, claimed=claimed, durable=durable)
            left = lifecycle.SENT[state] != "no"
            assert said == ("never" if left or claimed or durable else row.retry)
