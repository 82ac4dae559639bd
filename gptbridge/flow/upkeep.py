"""The sweep: what heals by itself is healed, what needs a person is said. It never sends and never clicks.

Offline work comes first and is kept whatever the site says: rows of dead owners, torn ends of logs, turns and registry rows that a crash
left out, old operations. Then, with a browser and paced, each uncertain or unfinished operation is looked for by its recorded id.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import KEEP_S
from gptbridge.core.ports import Page, World
from gptbridge.flow import reading, reconciling, recording
from gptbridge.flow.custody import Custody

BATCH = 128  # operations pruned in one hold of the ledger lock
READS = 20  # conversations read in one run
PAUSE_S = 1.0
STALE_S = 900.0


@dataclass(slots=True)
class Swept:
    """`counts` and `rows` as `--json` gives them; `failure`: the site said no, the offline work stands."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(
        ("uncertain", "recovered", "reconciled", "hydrated", "interrupted", "sealed", "quarantined", "pruned", "ok"), 0))
    rows: list[dict[str, Any]] = field(default_factory=list)
    oldest_s: float = 0.0
    failure: Failure | None = None

    @property
    def findings(self) -> bool:
        return self.counts["quarantined"] > 0 or any(row["stale"] for row in self.rows)


def sweep(w: World, custody: Custody, *, offline: bool, stale_after: float = STALE_S, heed: Callable[[], None] = lambda: None) -> Swept:
    found = Swept()
    found.counts["recovered"] = len(custody.recover())
    _offline(w, found, heed)
    open_ones = [op for op in w.ledger.view().operations.values() if _is_ours_to_finish(w, op)]
    if open_ones and not offline:
        try:
            _online(w, custody, open_ones, found, heed)
        except Failure as failure:
            found.failure = failure
    _report(w, found, stale_after)
    return found


def _offline(w: World, found: Swept, heed: Callable[[], None]) -> None:
    for name in w.logs.names():
        heed()
        try:
            with w.locks.conversation(name, wait_s=0.0, heed=heed):
                if w.logs.seal(name):
                    found.counts["sealed"] += 1
                    found.counts["interrupted"] += 1
        except Failure as failure:
            if failure.slug != "busy":
                raise  # busy: its worker lives and writes it
    ended_before = w.clock.now().wall - KEEP_S
    while pruned := w.ledger.prune(ended_before, BATCH):
        heed()
        found.counts["pruned"] += len(pruned)
        for operation_id in pruned:
            w.spool.drop(operation_id)
        if len(pruned) < BATCH:
            break


def _is_ours_to_finish(w: World, op: Operation) -> bool:
    """Uncertain with an id to look for; accepted, or completed without its turn in the log; and no live owner."""
    if op.state is State.UNCERTAIN:
        return bool(op.message_ids())
    if op.conversation_id is None:
        return False
    unfinished = op.state is State.ACCEPTED and op.turn is None
    unlogged = op.sent == "yes" and recording.turn_of(w.logs.read(op.conversation_id), op) is None
    unregistered = op.sent == "yes" and w.registry.get(op.conversation_id) is None
    if not (unfinished or unlogged or unregistered):
        return False
    with w.owner.hold_dead(op.epoch) as dead:
        return dead or op.ended


def _online(w: World, custody: Custody, ops: list[Operation], found: Swept, heed: Callable[[], None]) -> None:
    with ExitStack() as places:
        page, account = reading.reader(w, places, heed)
        done: set[str] = set()
        reads = 0
        # Least recently tried first, so that ten that cannot be found do not starve the eleventh for ever.
        for op in sorted(ops, key=lambda one: (one.looked_at or "", one.order)):
            if reads >= READS:
                break
            heed()
            conversation_id, spent = _locate(w, custody, page, op, account, heed)
            reads += spent
            if conversation_id is None or conversation_id in done:
                continue
            done.add(conversation_id)
            reads += 1
            if reads > 1:
                w.clock.sleep(PAUSE_S if w.settings.gap.shortest else 0.0)
            _bring_home(w, custody, page, conversation_id, account, found, heed)


def _locate(w: World, custody: Custody, page: Page, op: Operation, account: str, heed: Callable[[], None]) -> tuple[str | None, int]:
    """(the conversation that holds it, reads spent). An uncertain one of a new conversation is looked for among the newest ones."""
    if op.account not in (None, account):
        return None, 0  # another account's: this session cannot see it, and that proves nothing
    if op.conversation_id is not None or op.kind == "resume":
        return op.conversation_id or op.target, 0
    sighting = reconciling.find(w, page, op, heed=heed)
    custody.note(op.operation_id, "looked for by its id", actor="sweep", looked_at=records.rfc3339(w.clock.now().wall))
    return (sighting.conversation_id if sighting else None), reconciling.READS


def _bring_home(w: World, custody: Custody, page: Page, conversation_id: str, account: str, found: Swept, heed: Callable[[], None]) -> None:
    with ExitStack() as places:
        try:
            # With a seat held, so without waiting: a live worker that holds it would wait for a seat in turn.
            places.enter_context(w.locks.fresh_conversation(conversation_id))
        except Failure as failure:
            if failure.slug == "busy":
                return  # nothing of a live worker's is touched (DU-11)
            raise
        before = {op.operation_id: op.state for op in w.ledger.view().operations.values()}
        try:
            _, added = reading.catch_up(w, custody, page, conversation_id, account, actor="sweep")
        except Failure as failure:
            if failure.slug != "unknown-conversation":
                raise
            added = []  # deleted, or another workspace's: absence proves nothing
        after = w.ledger.view().operations
        found.counts["reconciled"] += sum(1 for i, state in before.items() if i in after and after[i].state is not state)
        found.counts["hydrated"] += len(added)


def _report(w: World, found: Swept, stale_after: float) -> None:
    now = w.clock.now().wall
    for op in w.ledger.view().operations.values():
        if op.state is State.UNCERTAIN:
            age = max(now - records.epoch_seconds(op.updated_at if op.looked_at is None else op.dispatched_at or op.claimed_at), 0.0)
            found.counts["uncertain"] += 1
            found.oldest_s = max(found.oldest_s, age)
            known = "its message id is recorded" if op.message_ids() else "the process ended before its message id was known"
            found.rows.append({"operation_id": op.operation_id, "state": op.state.value, "sent": op.sent, "age_s": round(age, 3),
                               "conversation_id": op.conversation_id or (op.target if op.kind == "resume" else None),
                               "user_message_id": op.user_message_id, "known": known, "stale": age > stale_after,
                               "next": ["ask-gpt", "ops", "show", op.operation_id]})
        elif op.ended:
            found.counts["ok"] += 1


def summary(found: Swept) -> str:
    """`sweep: 2 uncertain (oldest 3d), 1 hydrated, 0 interrupted, 14 ok`."""
    counts = found.counts
    oldest = f" (oldest {_age(found.oldest_s)})" if counts["uncertain"] else ""
    more = "".join(f", {counts[name]} {name}" for name in ("recovered", "reconciled", "pruned") if counts[name])
    return (f"sweep: {counts['uncertain']} uncertain{oldest}, {counts['hydrated']} hydrated, {counts['interrupted']} interrupted, "
            f"{counts['ok']} ok{more}")


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
