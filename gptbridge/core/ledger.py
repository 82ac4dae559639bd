"""What the journal of operations means: records in, the current view out.

A record is one transition, or a note on an operation that keeps its state (`ready_at`; `user_message_id` of the held request; `request`
released or refused; `turn` and `turn_ended_at`). The first record of the file names format, version and site, and after a pruning
`base` and `floor`. A record of its own, `accepted_loss`, is a person's word that records before it are gone. The fold checks what a
writer may not break: who may append (epochs), the tables of `lifecycle`, one receipt per operation and one operation per receipt.
Framing (seq, sum) is `record`'s secret, not ours.

Format `ask-gpt-ledger/1`, for example
{"seq":7,"sum":"0c1f94be","at":"2026-11-29T13:00:05.120Z","operation_id":"01JDX3V9...","state":"claimed","epoch":"0.5f2c","pid":812,
 "actor":"worker","reason":"turn of the line","account":"user-0000"}

Pure. `fold` raises `Failure("state-corrupt")` for a newer format and `BrokenHistory` for a history that no correct writer makes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from typing import Any, Literal

from gptbridge.core import lifecycle
from gptbridge.core.errors import EXITS, Failure, Retry, Sent
from gptbridge.core.lifecycle import Facts, IllegalStep, Role, State
from gptbridge.core.operation import NEW, time_of
from gptbridge.core.snapshot import Deferred, Rows, pack, unpack, unpack_head

FORMAT = "ask-gpt-ledger"
VERSION = 1
LOOKS = 24  # that one operation may have in the ledger before a pruning leaves it the last one
Fields = Mapping[str, Any]
Actor = Literal["worker", "front", "recovery", "resume", "sweep", "person"]


class BrokenHistory(Exception):
    """The ledger holds a move that no correct writer appends; names the operation and the record's sequence number."""


@dataclass  # no slots: its defaults are the class's, so a kept row is loaded as it stands
class Operation:
    """The latest of one operation; times are RFC 3339 strings as recorded. `seq` is its last record (SM-30)."""

    operation_id: str
    state: State
    seq: int
    epoch: str
    order: int  # the sequence number of its admission, of the last attempt: who was first
    kind: str = NEW
    target: str = NEW
    fingerprint: str = ""
    prompt_sha256: str | None = None
    prompt_bytes: int | None = None
    files: list[dict[str, Any]] | None = None  # name, size, sha256 of each
    uploads: list[dict[str, Any]] | None = None  # id and name of each, as the held request has them
    effort: str | None = None
    model: str | None = None
    account: str | None = None
    folder: str | None = None
    attempt: int = 1
    queued_at: str | None = None
    ready_at: str | None = None
    claimed_at: str | None = None
    dispatched_at: str | None = None
    accepted_at: str | None = None
    completed_at: str | None = None
    uncertain_at: str | None = None
    updated_at: str | None = None
    blocking_reason: str | None = None
    user_message_id: str | None = None
    parent_message_id: str | None = None
    site_message_id: str | None = None  # what the site's stream renamed our message to, if it did
    request: str | None = None  # released, refused
    conversation_id: str | None = None
    turn_id: str | None = None
    turn: str | None = None  # how an accepted turn ended without a final answer
    turn_ended_at: str | None = None
    stop: str | None = None  # who stopped it: front, interrupt, terminate, person
    stop_at: str | None = None  # a person's stop, recorded before anything else is admitted
    stop_phase: str | None = None  # of the page's own stop control: pending, dispatched, confirmed, uncertain
    front: str | None = None  # "gone": nobody has seen the answer that its worker went on for
    shown_at: str | None = None  # since then a command has shown it: its own front, or a later one
    looked_at: str | None = None  # when a sweep last looked for an uncertain one
    looks: int = 0  # records of such looks that the ledger holds
    error: dict[str, str] | None = None  # slug, message, hint
    durable: bool = False
    refusal: dict[str, Any] | None = None
    title: str | None = None
    site_model: str | None = None
    site_effort: str | None = None
    history: tuple[dict[str, Any], ...] = ()  # filled only where it was asked for

    @property
    def sent(self) -> Sent:
        return lifecycle.SENT[self.state]

    @property
    def claimed(self) -> bool:
        return self.claimed_at is not None

    @property
    def ended(self) -> bool:
        """Nothing more will happen to it by itself: counts as ended for pruning and for the next one of its conversation."""
        return self.state in (State.COMPLETED, State.STOPPED, State.REJECTED) or (self.state is State.ACCEPTED and self.turn is not None)

    @property
    def waiting(self) -> bool:
        return self.state is State.QUEUED

    @property
    def in_flight(self) -> bool:
        """Between claim and the end of its request: the account is taken while its owner lives (XP-02)."""
        return self.state is State.CLAIMED or (self.state is State.DISPATCHED and self.request is None)

    @property
    def admissible(self) -> bool:
        """It ended before `claimed` for a reason outside the request: the same id may be admitted as the next attempt."""
        return self.state in (State.REJECTED, State.STOPPED) and not self.claimed and not self.durable

    @property
    def slug(self) -> str:
        """The slug of its exit as it stands now (contract.md, Outcomes)."""
        if self.state is State.COMPLETED:
            return "ok"
        if self.state is State.ACCEPTED:
            return {None: "still-answering", "failed": "answer-failed", "stopped": "ok"}.get(self.turn, "answer-lost")
        if self.state in (State.UNCERTAIN, State.DISPATCHED):
            return "uncertain"
        if self.error is not None:
            return self.error["slug"]
        return "stopped" if self.state is State.STOPPED else "busy"

    @property
    def retry(self) -> Retry:
        return lifecycle.retry_of(self.state, EXITS[self.slug].retry, claimed=self.claimed, durable=self.durable)

    def message_ids(self) -> frozenset[str]:
        """Every native id under which our message may be known (a site may rename it)."""
        return frozenset(i.lower() for i in (self.user_message_id, self.site_message_id) if i)


@dataclass(slots=True)
class View:
    """The fold of a whole ledger. `operations` in order of first admission; `floor` epoch seconds (0.0 = nothing pruned).

    `loss_seq`, `loss_at`, `loss_until`: the last record that accepts a loss, when it was accepted, and until when new work waits for it.
    `open`: the ids of those that are not settled. Of a kept view most rows are still text: ask for one, for what is open, for those that
    mention a word, or for the newest, rather than for all.
    """

    site: str | None = None
    floor: float = 0.0
    base: int = 0
    last_seq: int = 0
    loss_seq: int = 0
    loss_at: float = 0.0
    loss_until: float = 0.0
    operations: Rows[Operation] = field(default_factory=Rows)
    open: dict[str, None] = field(default_factory=dict)
    receipts: MutableMapping[tuple[str, str], str] = field(default_factory=dict)

    def get(self, operation_id: str) -> Operation | None:
        return self.operations.get(operation_id)

    def is_lossy(self, op: Operation) -> bool:
        """Its admission lies before an accepted loss: records that show how far it went may be among the lost ones."""
        return op.order <= self.loss_seq

    def unsettled(self) -> list[Operation]:
        """Those that have not ended, or whose stop has not; the first admitted first."""
        return sorted((self.operations[operation_id] for operation_id in self.open), key=admission)

    def unresolved(self) -> list[Operation]:
        return [op for op in self.unsettled() if not op.ended]

    def uncertain(self) -> list[Operation]:
        return [op for op in self.unresolved() if op.state is State.UNCERTAIN]

    def newest_first(self) -> Iterator[Operation]:
        """By admission."""
        return self.operations.highest_first(admission)

    def of_conversation(self, conversation_id: str) -> list[Operation]:
        return [op for op in self.operations.mentioning(conversation_id) if conversation_id in (op.conversation_id, op.target)]

    def of_prompt(self, prompt_sha256: str | None) -> list[Operation]:
        rows = self.operations.values() if prompt_sha256 is None else self.operations.mentioning(prompt_sha256)
        return [op for op in rows if op.prompt_sha256 == prompt_sha256]

    def of_folder(self, folder: str) -> list[Operation]:
        """Those that were started in that working folder (its digest)."""
        return [op for op in self.operations.mentioning(folder) if op.folder == folder]

    def by_message(self, message_id: str) -> Operation | None:
        """The operation to which a receipt or a recorded message id binds this native id; never by text."""
        wanted = message_id.lower()
        return next((op for op in self.operations.mentioning(wanted) if wanted in op.message_ids()), None)


def first_record(site: str, at: str) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "site": site, "at": at}


def check_format(fields: Fields, name: str, fmt: str = FORMAT, version: int = VERSION) -> None:
    """Refuse (18, file untouched) a file of another kind or of a newer version than this code knows."""
    found = fields.get("format")
    number = fields.get("version")
    if found != fmt or not isinstance(number, int):
        raise Failure("state-corrupt", f"{name}: the first record does not name the format {fmt}", "restore the file or move it away")
    if number > version:
        raise Failure("state-corrupt", f"{name} was written by a newer version ({fmt}/{number}, known is {version}); it was left untouched",
                      "update gptbridge")


def fold(records: Iterable[tuple[int, Fields]], view: View | None = None, *, with_history: bool = False, lossy_until: int = 0) -> View:
    """Records (seq, fields) in order -> the view; `view` continues an earlier fold (it is changed and returned, its rows are not).

    `lossy_until`: a person accepted that records before this number are gone, so the histories of before may have holes.
    """
    fresh: set[str] | None = None if view is None else set()
    view = View() if view is None else view
    for seq, fields in records:
        if "format" in fields:
            check_format(fields, "ledger.jsonl")
            view.site = fields.get("site")
            view.base = int(fields.get("base", 0))
            view.floor = max(view.floor, float(fields.get("floor", 0.0)))
        elif "operation_id" in fields:
            _apply(view, seq, fields, with_history, fresh, strict=seq > lossy_until)
        if "accepted_loss" in fields:
            view.floor = max(view.floor, float(fields["floor"]))
            view.loss_seq, view.loss_at, view.loss_until = seq, epoch_seconds(fields.get("at")), float(fields["floor"])
        view.last_seq = seq
    return view


# Notes and facts copied as they stand when a record names them.
_COPIED = frozenset({
    "kind", "target", "fingerprint", "prompt_sha256", "prompt_bytes", "files", "uploads", "effort", "model", "account", "folder",
    "attempt", "ready_at", "blocking_reason", "user_message_id", "parent_message_id", "site_message_id", "request", "conversation_id",
    "turn_id", "turn", "turn_ended_at", "stop", "stop_at", "stop_phase", "front", "shown_at", "looked_at", "error", "durable", "refusal",
    "title", "site_model", "site_effort"})
_ATTEMPT = ("ready_at", "blocking_reason", "error", "stop", "stop_at", "stop_phase", "front", "refusal", "request", "completed_at",
            "uploads")


def _apply(view: View, seq: int, fields: Fields, with_history: bool, fresh: set[str] | None, *, strict: bool) -> None:
    """`fresh`: ids whose row this fold may change in place; None means all. A row that a caller may hold is replaced by a copy."""
    operation_id = str(fields["operation_id"])
    to = State(fields["state"])
    at = fields.get("at")
    op = view.operations.get(operation_id)
    before = op.state if op is not None else None
    if op is not None and fresh is not None and operation_id not in fresh:
        op = view.operations[operation_id] = copy(op)
    if fresh is not None:
        fresh.add(operation_id)
    if op is None:
        if to is not State.QUEUED and strict:
            raise BrokenHistory(f"record {seq}: {operation_id} begins as {to}")
        op = Operation(operation_id, to, seq, str(fields.get("epoch", "")), seq, queued_at=at)
        view.operations[operation_id] = op
    else:
        try:
            _check(op, to, fields)
        except IllegalStep as error:
            if strict:
                raise BrokenHistory(f"record {seq}: {error}") from None
        if to is State.QUEUED and "attempt" in fields:
            for name in _ATTEMPT:
                setattr(op, name, None)
            op.durable, op.queued_at, op.order = False, at, seq
    if to is not State.QUEUED:
        op.blocking_reason = None  # exists only while queued
    for name, value in fields.items():
        if name in _COPIED:
            setattr(op, name, value)
    op.looks += "looked_at" in fields
    if before is not to:
        stamp = f"{to.value}_at"
        if stamp in ("claimed_at", "dispatched_at", "accepted_at", "completed_at", "uncertain_at"):
            setattr(op, stamp, at)
    op.state, op.seq, op.updated_at = to, seq, at
    op.epoch = str(fields.get("epoch", op.epoch))
    if op.ended and op.stop_phase != "dispatched":
        view.open.pop(operation_id, None)
    else:
        view.open[operation_id] = None
    if op.conversation_id and to in (State.ACCEPTED, State.COMPLETED):
        for message_id in op.message_ids():
            owner = view.receipts.setdefault((op.conversation_id, message_id), operation_id)
            if owner != operation_id and strict:
                raise BrokenHistory(f"record {seq}: the receipt of {operation_id} belongs to {owner}")
    if with_history:
        op.history = (*op.history, {"at": at, "from": before.value if before else None, "to": to.value, "actor": fields.get("actor"),
                           "epoch": fields.get("epoch"), "pid": fields.get("pid"), "reason": fields.get("reason"),
                           "evidence": fields.get("evidence")},)


def _check(op: Operation, to: State, fields: Fields) -> None:
    """What writer and reader both hold a further record of an operation to: owner, table, guards, and ids that are set once (RP-04)."""
    try:
        if to is not op.state or "attempt" in fields:
            lifecycle.step(op.state, to, role_of(fields), facts_of(op, fields))
        if to is not State.QUEUED or "attempt" not in fields:
            if role_of(fields) == "witness" and fields.get("actor") != "person" and fields.get("epoch") != op.epoch:
                raise IllegalStep("only the epoch that admitted it may append to it")
            for name in ("conversation_id", "user_message_id", "turn_id"):
                old, new = getattr(op, name), fields.get(name)
                if old is not None and new is not None and old != new:
                    raise IllegalStep(f"{name} was set once and cannot change")
    except IllegalStep as error:
        raise IllegalStep(f"{op.operation_id}: {error}") from None


def role_of(fields: Fields) -> Role:
    return "recovery" if fields.get("actor") in ("recovery", "resume", "sweep") else "witness"


def facts_of(op: Operation, fields: Fields) -> Facts:
    """What the guards of a move may know: the row so far and the record that is proposed."""
    receipt = bool(fields.get("conversation_id", op.conversation_id) and fields.get("user_message_id", op.user_message_id))
    return Facts(claimed=op.claimed, dispatched=op.dispatched_at is not None, durable=op.durable, receipt=receipt,
                 evidence=bool(fields.get("evidence")), person=fields.get("actor") == "person", lossy=bool(fields.get("lossy")))


def rfc3339(wall: float) -> str:
    """Epoch seconds -> UTC with milliseconds and `Z`, as every time of ours is written."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch_seconds(at: str | None) -> float:
    """The reverse, for times that we wrote ourselves; 0.0 for none."""
    return datetime.fromisoformat(at).timestamp() if at else 0.0


Decide = Callable[[View], list[dict[str, Any]]]


def move(op: Operation, to: State, *, epoch: str, actor: Actor, reason: str, **facts: Any) -> dict[str, Any]:
    """A checked record for `op` -> `to` (time, pid, seq and sum are added by the writer); raises `IllegalStep` and changes nothing.

    A record that keeps the state is a note. The epoch must be the operation's own unless the role is recovery's.
    """
    fields: dict[str, Any] = {"operation_id": op.operation_id, "state": to.value, "epoch": epoch, "actor": actor, "reason": reason, **facts}
    _check(op, to, fields)
    return fields


def failure_fields(failure: Failure, *, durable: bool | None = None) -> dict[str, Any]:
    """How a `Failure` is kept in a record: code and sentences of ours, never a raw body (RP-19)."""
    return {"error": {"slug": failure.slug, "message": failure.message, "hint": failure.hint},
            "durable": failure.durable if durable is None else durable}


def failure_of(op: Operation) -> Failure | None:
    """The recorded failure again, for a replay."""
    return Failure(op.error["slug"], op.error["message"], op.error["hint"]) if op.error else None


def ended_at(op: Operation) -> float | None:
    """Epoch seconds of the end of its turn, None while it has not ended: retention counts from here (RE-02)."""
    if not op.ended:
        return None
    return epoch_seconds(op.completed_at or op.turn_ended_at or op.updated_at)


def prunable(view: View, ended_before: float) -> list[str]:
    """Ids of operations whose turn ended before that time, the earliest end first. Unresolved ones are never among them (RE-03)."""
    ends = [(at, op.operation_id) for op in view.operations.values() if (at := ended_at(op)) is not None and at < ended_before]
    return [operation_id for _, operation_id in sorted(ends)]


def is_crowded(view: View) -> bool:
    """Whether looks for what nobody finds take room that a pruning gives back: what is unresolved is never pruned, and is looked for again
    and again."""
    return any(op.looks >= LOOKS for op in view.unsettled())


def after_pruning(rows: Sequence[Fields], gone: Container[str]) -> list[dict[str, Any]]:
    """The records that stay, in their order: none of those that are `gone`, and of the looks for an operation the last, which says all that
    the fold takes from the earlier ones. An accepted loss stays in its place: what was admitted before it may have holes for ever."""
    last = {str(fields["operation_id"]): number for number, fields in enumerate(rows) if _is_look(fields)}
    return [dict(fields) for number, fields in enumerate(rows)
            if "format" not in fields and (operation_id := fields.get("operation_id")) not in gone
            and (not _is_look(fields) or last[str(operation_id)] == number)]


def _is_look(fields: Fields) -> bool:
    return _COPIED.intersection(fields) == {"looked_at"}


def raised_floor(view: View, gone: Iterable[str]) -> float:
    """The greatest ULID time ever pruned: an unknown id at or below it may have run, so it never runs (RE-05, RE-06)."""
    return max([view.floor, *(time_of(operation_id) for operation_id in gone)])


def admission(op: Operation) -> int:
    return op.order


def dump(view: View, facts: Mapping[str, Any]) -> bytes:
    """The view for a checkpoint, with what the keeper has to say of it; `load` gives both back. ValueError for what cannot be kept."""
    head = {**facts, "names": _NAMES, "view": {name: getattr(view, name) for name in _FACTS}}
    receipts = [[*receipt, operation_id] for receipt, operation_id in view.receipts.items()]
    return pack(KEPT, head, receipts, view.operations.lines(admission, _kept), view.open.__contains__)


def load(data: bytes) -> tuple[dict[str, Any], View]:
    """(facts, view) of a checkpoint; KeyError, TypeError or ValueError for what `dump` of this version does not give."""
    facts, receipts, rows = unpack(KEPT, data)
    return facts, _view(facts, Rows(rows, _loaded, facts["open"]),
                        Deferred(lambda: {(place, message): owner for place, message, owner in json.loads(receipts)}))


def load_head(data: bytes) -> tuple[dict[str, Any], View, int] | None:
    """As `load`, from the beginning of a checkpoint (None: of a longer one), with those operations alone that have not settled and the
    newest, of which every one from the returned order on is there. For display: it knows no receipt."""
    found = unpack_head(KEPT, data)
    if found is None:
        return None
    facts, near = found
    return facts, _view(facts, Rows(near, _loaded), {}), int(facts["least"])


def _view(facts: Mapping[str, Any], operations: Rows[Operation], receipts: MutableMapping[tuple[str, str], str]) -> View:
    if facts["names"] != _NAMES:
        raise ValueError("another version's view")
    return View(**{name: facts["view"][name] for name in _FACTS}, operations=operations, open=dict.fromkeys(facts["open"]),
                receipts=receipts)


def _kept(op: Operation) -> dict[str, Any]:
    """What differs from the defaults; `ids`: message ids as they are looked for, where they are written in another case."""
    row = {name: value for name, value in vars(op).items() if name != "history" and (value is not None or name in _NEVER_NONE)}
    ids = sorted(op.message_ids() - {op.user_message_id, op.site_message_id})
    return {**row, "ids": ids} if ids else row


def _loaded(text: bytes) -> Operation:
    row = json.loads(text)
    row.pop("ids", None)
    row["state"] = State(row["state"])
    op = object.__new__(Operation)
    op.__dict__ = row
    return op


KEPT = "ask-gpt-ledger-check/3"
_NEVER_NONE = {one.name for one in dataclass_fields(Operation) if one.default is not None}
_FACTS = [one.name for one in dataclass_fields(View) if one.name not in ("operations", "open", "receipts")]
_NAMES = [*_FACTS, *(one.name for one in dataclass_fields(Operation))]
