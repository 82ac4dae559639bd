"""The sweep: what heals by itself is healed, what needs a person is said. It never sends and never clicks.

Offline work comes first and is kept whatever the site says (healing.py). Then, with a browser, what the site has and the home lacks is
brought home (hydrating.py). What a live worker owns is left alone (DU-11).
"""

from __future__ import annotations

from typing import Any

from gptbridge.core import ledger as records
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import AHEAD_S
from gptbridge.core.ports import World
from gptbridge.flow import hydrating, logged, reconciling
from gptbridge.flow.custody import Custody
from gptbridge.flow.healing import Heed, Swept, heal

STALE_S = 900.0


def sweep(w: World, custody: Custody, *, offline: bool, stale_after: float = STALE_S, heed: Heed = lambda: None) -> Swept:
    """Raises Failure where the ledger itself cannot be trusted, or the caller left; everything else is in what it gives."""
    found = Swept()
    with w.locks.sweep() as alone:
        if not alone:
            found.elsewhere = True
            return found
        healed = heal(w, custody, found, heed)
        if healed.registry and not offline:
            hydrating.bring_home(w, custody, healed, found, heed)
        _report(w, found, stale_after)
    return found


# What is said

def _report(w: World, found: Swept, stale_after: float) -> None:
    now = w.clock.now().wall
    for op in w.ledger.view().operations.values():
        if op.state is State.UNCERTAIN:
            passed = now - records.epoch_seconds(op.uncertain_at)
            age = max(passed, 0.0)
            found.counts["uncertain"] += 1
            found.oldest_s = max(found.oldest_s, age)
            if age > stale_after or passed < -AHEAD_S:  # by a clock that was set back since, it would never grow old
                found.stale.append(op.operation_id)
            found.rows.append(_row(w, op, age))
        elif op.ended:
            found.counts["ok"] += 1


def _row(w: World, op: Operation, age: float) -> dict[str, Any]:
    conversation_id = op.conversation_id or (op.target if op.kind == "resume" else None)
    known = "its message id is recorded" if op.message_ids() else "the process ended before its message id was known"
    steps = [["ask-gpt", "ops", "show", op.operation_id]]
    if conversation_id is not None:
        since = records.epoch_seconds(op.queued_at) - reconciling.BEFORE_S
        alike = logged.look_alikes(w.logs.read(conversation_id), op, w.ledger.view(), since)
        if alike:
            numbers = ", ".join(map(str, alike))
            known += f"; the same text stands in turn {numbers} of its conversation, which proves nothing"
            steps += [["ask-gpt", "show", conversation_id, "--turn", str(number)] for number in alike]
    return {"operation_id": op.operation_id, "state": op.state.value, "sent": op.sent, "age_s": round(age, 3),
            "conversation_id": conversation_id, "user_message_id": op.user_message_id, "known": known, "next": steps}


def summary(found: Swept) -> str:
    """`sweep: 2 uncertain (oldest 3d), 1 hydrated, 0 interrupted, 14 ok`."""
    counts = found.counts
    oldest = f" (oldest {age_text(found.oldest_s)})" if counts["uncertain"] else ""
    names = ("recovered", "reconciled", *(("sealed",) if counts["sealed"] > counts["interrupted"] else ()), "pruned", "quarantined")
    more = "".join(f", {counts[name]} {name}" for name in names if counts[name])
    return (f"sweep: {counts['uncertain']} uncertain{oldest}, {counts['hydrated']} hydrated, {counts['interrupted']} interrupted, "
            f"{counts['ok']} ok{more}")


def age_text(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
