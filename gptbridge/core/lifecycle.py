"""The states of an operation and who may move it: two tables and one step function.

    queued -> claimed -> dispatched -> accepted -> completed        exits: stopped, rejected, uncertain

`WITNESS` is what the live owner may do, who saw what happened; `RECOVERY` is what a later process may do that has only the
ledger and holds the dead owner's lock. The same crash point ends in different bins on purpose: the difference is exactly the
caller's knowledge, so the tables must never be made equal (a claimed row is `rejected` by its witness, `uncertain` by recovery).

Pure. `step` raises `IllegalStep` and changes nothing; when in doubt a move is illegal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from gptbridge.core.errors import Retry, Sent

Role = Literal["witness", "recovery"]


class State(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    DISPATCHED = "dispatched"
    ACCEPTED = "accepted"
    COMPLETED = "completed"
    STOPPED = "stopped"
    REJECTED = "rejected"
    UNCERTAIN = "uncertain"


Q, C, D, A = State.QUEUED, State.CLAIMED, State.DISPATCHED, State.ACCEPTED
OK, S, R, U = State.COMPLETED, State.STOPPED, State.REJECTED, State.UNCERTAIN

WITNESS: MappingProxyType[State, frozenset[State]] = MappingProxyType({
    Q: frozenset({C, R, S}),
    C: frozenset({D, R, S}),
    D: frozenset({A, R, U}),
    A: frozenset({OK}),
    OK: frozenset(),
    S: frozenset({Q}),  # guarded: only as the next attempt of what never was claimed
    R: frozenset({Q}),  # guarded likewise
    U: frozenset({A, R}),  # guarded: evidence or a person
})

RECOVERY: MappingProxyType[State, frozenset[State]] = MappingProxyType({
    Q: frozenset({R, U}),  # U guarded: only where records of it may be lost
    C: frozenset({U}),
    D: frozenset({U}),
    A: frozenset({OK}),  # the turn is read again; nothing else moves
    OK: frozenset(),
    S: frozenset(),
    R: frozenset(),
    U: frozenset({A, R}),  # guarded: evidence or a person
})

TABLES: MappingProxyType[str, MappingProxyType[State, frozenset[State]]] = MappingProxyType(
    {"witness": WITNESS, "recovery": RECOVERY})

SENT: MappingProxyType[State, Sent] = MappingProxyType({
    Q: "no", C: "no", R: "no", S: "no", D: "unknown", U: "unknown", A: "yes", OK: "yes"})


class IllegalStep(Exception):
    """A move that the tables or their guards do not hold. The row stays as it was."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guards look at: facts of the row (`claimed`, `dispatched` ever; `durable` end) and of the move itself. `lossy`: a person
    accepted that records of its time are gone, so that its last record proves no more that it went no further."""

    claimed: bool = False
    dispatched: bool = False
    durable: bool = False
    receipt: bool = False
    evidence: bool = False
    person: bool = False
    lossy: bool = False


def step(state: State, to: State, role: Role, facts: Facts) -> State:
    """The state after the move, or `IllegalStep`. The one function that moves an operation; it knows no caller."""
    if to not in TABLES[role][state]:
        raise IllegalStep(f"{state} -> {to} is not in the {role} table")
    if to is Q and (facts.claimed or facts.durable):
        raise IllegalStep(f"{state} -> queued: it was claimed once, or the decision was about the request itself")
    if state is Q and to is U and not facts.lossy:
        raise IllegalStep("queued -> uncertain: nothing of it is lost, so it never left the host")
    if to is A and not facts.dispatched:
        raise IllegalStep(f"{state} -> accepted: a receipt cannot precede the dispatch")
    if to is A and not (facts.receipt or facts.person):
        raise IllegalStep(f"{state} -> accepted: no receipt")
    if state is U and not (facts.person or (to is A and facts.evidence)):
        raise IllegalStep(f"uncertain -> {to}: needs {'evidence or a person' if to is A else 'a person'}")
    return to


def retry_of(state: State, code_retry: Retry, *, claimed: bool, durable: bool) -> Retry:
    """What `retry` says of an ended operation: "never" for whatever left, may have left, was claimed, or was decided for ever."""
    if state in (A, OK, U, D) or claimed or durable:
        return "never"
    return code_retry
