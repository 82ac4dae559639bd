"""One command that sends: admit, then carry the operation or follow whoever carries it.

An identical retry is answered from the ledger, without a browser. One whose first run is still going is followed. One that ended before
`claimed` for a reason outside the request becomes the next attempt, also when that happens while it is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import Payload, check_text
from gptbridge.core.ports import Source, World
from gptbridge.flow import reporting, spooling
from gptbridge.flow.custody import Custody
from gptbridge.flow.sending import Sending
from gptbridge.flow.telling import begin, tell_followed

POLL_S = 0.1
RECEIPT_S = 60.0  # --wait 0 leaves at the receipt, at the latest this long after dispatch


def submit(w: World, custody: Custody, operation_id: str, payload: Payload, *, account: str | None, folder: str | None,
           again: bool = False, sources: Sequence[Source] = ()) -> Operation:
    """The operation's row when this command is done with it. Raises Failure for what left no row, or could not be recorded.

    `again`: a person's word that a request equal to one of unknown fate is meant to be sent once more (`--again`). `sources`: the files.
    """
    begin(w, operation_id)
    check_text(payload.prompt or "")  # before any row: what cannot be typed would only be found out in the page
    custody.recover()
    until = w.clock.now().boottime + w.settings.queue_wait
    try:
        if sources:
            payload = replace(payload, files=spooling.spooled(w, operation_id, sources, lambda: _heed(w)))
        return _carried(w, custody, operation_id, payload, until, account=account, folder=folder, again=again)
    finally:
        if sources:
            _tidy(w, operation_id)


def _tidy(w: World, operation_id: str) -> None:
    """What this command stored and did not admit is not left to a sweep: it may be why the disk is full."""
    try:
        op = w.ledger.view().get(operation_id)
        if op is None or op.epoch != w.owner.epoch:
            spooling.tidy(w)
    except Failure:
        pass  # the next sweep does it


def _heed(w: World) -> None:
    wish = w.caller.wants()
    if wish is not None or w.caller.gone():
        slug = "interrupted" if wish == "interrupt" else "terminated"
        raise Failure(slug, "stopped while the files were read; nothing was admitted or sent")


def _carried(w: World, custody: Custody, operation_id: str, payload: Payload, until: float, *, account: str | None, folder: str | None,
             again: bool) -> Operation:
    while True:
        admission = custody.admit(operation_id, payload, account=account, folder=folder, again=again)
        op = admission.operation
        w.caller.emit({"type": "operation", "operation_id": operation_id, "fresh": admission.fresh})
        if admission.fresh:
            Sending(w, custody, op, payload.prompt or "").run()
            return reporting.note_gone(w, custody, w.ledger.view().operations[operation_id])
        op = _followed(w, custody, op, until)
        if not op.admissible:
            return reporting.note_shown(w, custody, op)


def _followed(w: World, custody: Custody, op: Operation, until: float) -> Operation:
    """Another process carries it: wait for the end of its turn, within --queue-wait before dispatch and --wait after it."""
    left = False
    tell_followed(w, op)
    while not op.ended and op.state is not State.UNCERTAIN:
        now = w.clock.now().boottime
        if op.state in (State.DISPATCHED, State.ACCEPTED) and not left:
            left, until = True, now + (w.settings.wait or RECEIPT_S)
        if op.state is State.ACCEPTED and w.settings.wait == 0.0:
            return op
        if op.state is State.ACCEPTED and w.owner.is_dead(op.epoch):
            return op  # nobody writes its answer any more: read back by resume
        if now >= until:
            return op
        wish = w.caller.wants()
        if wish is not None or w.caller.gone():
            slug = "interrupted" if wish == "interrupt" else "terminated"
            raise Failure(slug, "stopped following an operation that another process carries", f"ask-gpt ops show {op.operation_id}")
        w.clock.sleep(POLL_S)
        custody.recover()
        op = w.ledger.view().operations[op.operation_id]
        tell_followed(w, op)
    return op
