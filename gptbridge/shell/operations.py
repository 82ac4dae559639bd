"""`ops list` and `ops show`: the ledger, for people. Reads it and changes nothing. Of a damaged one they show what is left, and fail.

Listed newest admission first, one line for each: operation id, state, whether the message left, time of admission, conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gptbridge.core.attachments import rows
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, rfc3339
from gptbridge.core.lifecycle import State
from gptbridge.core.operation_document import operation_document
from gptbridge.shell import resolve
from gptbridge.shell.reply import Reply
from gptbridge.shell.requests import OpsList, OpsShow
from gptbridge.shell.store import Store, unsure
from gptbridge.shell.terminal import line_text, whole_text

OPEN = (State.QUEUED, State.CLAIMED, State.DISPATCHED, State.UNCERTAIN)  # operations in these have not ended


def list_operations(request: OpsList, store: Store, tty: bool) -> Reply:
    found = list(islice(_asked_for(request, store), request.limit))
    lines = "".join(row_line(op, tty) for op in found)
    documents = [operation_document(op) for op in found]
    view, failure = store.glimpse.view, store.glimpse.failure
    return Reply("ops", lines.encode("utf-8", "surrogatepass"), {"operations": documents}, site=view.site, failure=failure)


def _asked_for(request: OpsList, store: Store) -> Iterator[Operation]:
    if request.state is not None and State(request.state) in OPEN:
        chosen: Iterable[Operation] = reversed(store.glimpse.view.unresolved())
    else:
        chosen = _newest_first(store)
    if request.state is not None:
        chosen = (op for op in chosen if op.state.value == request.state)
    if request.older_than is not None:
        before = rfc3339(max(0.0, store.host.wall() - request.older_than))
        chosen = (op for op in chosen if (op.queued_at or "") < before)
    return iter(chosen)


def _newest_first(store: Store) -> Iterator[Operation]:
    """No further back than asked for."""
    near, least = store.glimpse.view, store.glimpse.least
    for op in near.newest_first():
        if op.order < least:
            break
        yield op
    if least:
        yield from (op for op in store.readable[0].newest_first() if op.order < least)


def row_line(op: Operation, tty: bool) -> str:
    return "\t".join(line_text(word, tty) for word in _row(op)) + "\n"


def _row(op: Operation) -> tuple[str, ...]:
    state = op.state.value if op.turn is None else f"{op.state.value} ({op.turn})"
    return op.operation_id, state, f"sent={op.sent}", op.queued_at or "-", resolve.conversation_of(op) or "new"


def show_operation(request: OpsShow, store: Store, tty: bool) -> Reply:
    try:
        op = store.ledger.history(request.operation_id)
        view, failure = store.readable
    except Failure as unreadable:
        raise unsure(request.operation_id, unreadable) from unreadable
    failure = failure and unsure(request.operation_id, failure)
    if op is None:
        from gptbridge.flow.deciding import unknown  # costs more than all that is shown

        raise failure or unknown(view, request.operation_id)
    reply = Reply("ops", extra={"operations": [operation_document(op, detail=True)]}, site=view.site, failure=failure)
    if request.prompt:
        text = store.spool.prompt(op.operation_id)
        if text is None:
            raise Failure("bad-input", f"the text of operation {op.operation_id} is not kept any more",
                          f"ask-gpt show {op.operation_id} --prompt" if op.sent == "yes" else "")
        decoded = text.decode("utf-8", "surrogatepass")
        reply.data = whole_text(decoded, tty)
        reply.extra["operations"][0]["prompt"] = decoded
        return reply
    reply.data = "".join(line_text(line, tty) + "\n" for line in _described(op)).encode("utf-8", "surrogatepass")
    return reply


def _refusal(op: Operation) -> str | None:
    if op.refusal is None:
        return None
    code, clears = op.refusal.get("code"), op.refusal.get("clears_in")
    text = f"HTTP {op.refusal.get('status')}" + (f", {code}" if code else "")
    return text + (f", clears in {clears:g} s" if clears is not None else "")


def _described(op: Operation) -> list[str]:
    """`name: value` lines; what is not known is left out."""
    facts = {
        "operation": op.operation_id, "state": op.state.value, "turn": op.turn, "sent": op.sent, "retry": op.retry,
        "attempt": str(op.attempt),
        "waits for": op.blocking_reason, "conversation": resolve.conversation_of(op) or "new", "account": op.account, "title": op.title,
        "message id": op.user_message_id, "site's message id": op.site_message_id, "turn id": op.turn_id, "request": op.request,
        "model asked for": op.model, "model": op.site_model, "effort asked for": op.effort, "effort": op.site_effort,
        "prompt bytes": None if op.prompt_bytes is None else str(op.prompt_bytes), "prompt sha256": op.prompt_sha256,
        "files": ", ".join(f"{row['sent_name']} ({row['size']} bytes, sha256 {row['sha256']})" for row in rows(op.files, op.uploads)),
        "queued": op.queued_at, "dispatched": op.dispatched_at, "completed": op.completed_at,
        "uncertain since": op.uncertain_at if op.state is State.UNCERTAIN else None, "looked for": op.looked_at,
        "stop asked for": op.stop_at, "stop": op.stop_phase, "stopped by": op.stop, "front": op.front, "answer shown": op.shown_at,
        "error": f"{op.error['slug']}: {op.error['message']}" if op.error else None, "refusal": _refusal(op), "fingerprint": op.fingerprint}
    lines = [f"{name}: {value}" for name, value in facts.items() if value]
    for entry in op.history:
        because = f" ({entry['reason']})" if entry["reason"] else ""
        lines.append(f"{entry['at']}  {entry['from'] or '-'} -> {entry['to']}  by {entry['actor']}{because}")
        if entry["evidence"]:
            lines.append(f"  evidence: {entry['evidence']}")
    return lines
