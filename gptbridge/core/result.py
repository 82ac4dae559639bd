"""What a command says at its end: the `--json` document, one object with all keys always, from one outcome.

Schema `ask-gpt.result/1` (data/result.schema.json). A sending command's document is rebuilt from its ledger row and its log turn, so
that a replay of the same operation gives the same document in every key but `log`, `warnings` and `next`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gptbridge.core import attachments, brought, lifecycle
from gptbridge.core.brought import Brought
from gptbridge.core.errors import BANDS, EXITS, Failure
from gptbridge.core.ledger import Operation, failure_of
from gptbridge.core.lifecycle import State
from gptbridge.core.registry import Conversation
from gptbridge.core.transcript import Block

SCHEMA = "ask-gpt.result/1"
UNREADABLE = "[thinking present but not harvested]"


@dataclass(slots=True)
class Outcome:
    """How a command ended. `slug` decides code, retry and band; for a sending command the operation's row decides all of it."""

    command: str
    slug: str = "ok"
    failure: Failure | None = None
    operation: Operation | None = None
    block: Block | None = None  # the log turn that is shown
    conversation: Conversation | None = None
    answer: str | None = None  # when no block holds it
    log: str | None = None
    log_canonical: str | None = None
    warnings: list[str] = field(default_factory=list)
    files: list[Brought] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)  # conversations, operations, turns ...
    operation_id: str | None = None  # of an operation whose row cannot be read

    def __post_init__(self) -> None:
        """The band of the exit code and the row must say the same of the message; where they differ the row decides (CL-08). So a
        failed write after the dispatch is `uncertain`, however sure its process was: nobody else can know it."""
        op = self.operation
        if op is not None and self.command in ("send", "resume") and BANDS.get(self.slug, op.sent) != op.sent:
            self.slug, self.failure = op.slug, failure_of(op)


def document(outcome: Outcome, *, site: str = "https://chatgpt.com") -> dict[str, Any]:
    """All keys in the contract's order; times RFC 3339 UTC; nothing here is cut or escaped (that is the writer's task)."""
    op, block, registered = outcome.operation, outcome.block, outcome.conversation
    row = EXITS[outcome.slug]
    conversation_id = (op.conversation_id or (op.target if op.kind == "resume" else None)) if op else None
    conversation_id = conversation_id or (registered.conversation_id if registered else None)
    sending = op is not None and outcome.command in ("send", "resume")
    answer = block.section("answer") if block is not None else outcome.answer
    thinking = _thinking(block) if block is not None else None
    title = op.title if op is not None and op.title is not None else (registered.title if registered else None)
    ok = row.code == 0
    doc: dict[str, Any] = {
        "schema": SCHEMA,
        "command": outcome.command,
        "ok": ok,
        "exit_code": row.code,
        "operation_id": op.operation_id if op else outcome.operation_id,
        "state": op.state.value if op else None,
        "sent": op.sent if sending and op else ("unknown" if outcome.slug in ("uncertain", "expired") else "no"),
        "retry": _retry(outcome, sending),
        "conversation_id": conversation_id,
        "url": f"{site}/c/{conversation_id}" if conversation_id else None,
        "account": (op.account if op else None) or (registered.account if registered else None),
        "title": title,
        "model": (op.site_model if op else None) or (block.attr("model") if block else None),
        "effort": (op.site_effort if op else None) or (block.attr("effort") if block else None),
        "prompt_sha256": op.prompt_sha256 if op else None,
        "answer": answer,
        "thinking": thinking,
        "attachments": _attachments(op, block),
        **brought.documents(outcome.files),
        "resume": f"ask-gpt resume {conversation_id}" if conversation_id and (op is None or op.conversation_id) else None,
        "log": outcome.log,
        "log_canonical": outcome.log_canonical,
        "queued_at": op.queued_at if op else None,
        "dispatched_at": op.dispatched_at if op else None,
        "completed_at": op.completed_at if op else None,
        "warnings": list(outcome.warnings),
        "error": None if ok else error_of(outcome),
        "next": next_steps(outcome),
    }
    doc.update(outcome.extra)
    return doc


def _attachments(op: Operation | None, block: Block | None) -> list[dict[str, Any]]:
    if op is not None:
        return attachments.rows(op.files, op.uploads)
    return attachments.of_block(block)


def _retry(outcome: Outcome, sending: bool) -> str:
    """For a sending command what the row allows, whatever slug its exit has: after a claim no exit makes a second try safe."""
    row, op = EXITS[outcome.slug], outcome.operation
    if sending and op is not None:
        return lifecycle.retry_of(op.state, row.retry, claimed=op.claimed, durable=op.durable)
    return "safe" if outcome.command not in ("send", "resume") and outcome.slug in ("ok", "artifacts-incomplete") else row.retry


def error_of(outcome: Outcome) -> dict[str, str]:
    op = outcome.operation
    failure = outcome.failure or SENTENCES.get(outcome.slug) or Failure(outcome.slug, outcome.slug)
    if op is not None and _left_behind(outcome):
        left = "was sent" if op.sent == "yes" else "may have been sent"
        failure = Failure(outcome.slug, f"stopped waiting; the message {left}, its worker goes on and writes the answer to the log",
                          "ask-gpt resume OPERATION reads it; never send it again")
    hint = failure.hint.replace("OPERATION", op.operation_id) if op is not None else failure.hint
    if op is not None and op.claimed and op.state in (State.REJECTED, State.STOPPED):
        hint = (hint + "; " if hint else "") + "this operation id is spent, a new one may send it"
    return {"code": outcome.slug, "message": failure.message, "hint": hint}


def _left_behind(outcome: Outcome) -> bool:
    """The caller went (130, 143) after the message did: the operation goes on without it."""
    return outcome.slug in ("interrupted", "terminated") and outcome.operation is not None and outcome.operation.sent != "no"


SENTENCES: dict[str, Failure] = {f.slug: f for f in (
    Failure("still-answering", "the message was sent and the answer is not complete yet", "ask-gpt resume OPERATION reads it"),
    Failure("answer-lost", "the message was sent, but its answer cannot be read", "open the conversation in a browser"),
    Failure("answer-failed", "the message was sent and the site failed to answer it; nothing was pressed",
            "look at the conversation before asking again"),
    Failure("record-failed", "the message was sent, but a file of ours could not be written", "make room, then ask-gpt resume OPERATION"),
    Failure("uncertain", "whether the message left is not known; it was not and will not be sent again",
            "look at the conversation and at ask-gpt ops show OPERATION; do not resend"),
    Failure("interrupted", "interrupted", ""),
    Failure("terminated", "terminated", ""),
    Failure("busy", "it still waits to be sent by another process; nothing was sent yet", "run the same command again to follow it"),
)}


def next_steps(outcome: Outcome) -> list[list[str]]:
    """argv arrays of our own words and well-formed ids only (SE-15)."""
    op = outcome.operation
    if outcome.slug == "artifacts-incomplete":
        registered = outcome.conversation
        conversation_id = (op.conversation_id if op is not None else None) or (registered.conversation_id if registered else None)
        return [["ask-gpt", "download-attachments", conversation_id]] if conversation_id else []
    if op is None:
        return [["ask-gpt", "ops", "show", outcome.operation_id]] if outcome.operation_id and outcome.slug == "uncertain" else []
    if outcome.slug in ("still-answering", "answer-lost", "record-failed") or _left_behind(outcome):
        return [["ask-gpt", "resume", op.operation_id]]
    if outcome.slug == "uncertain":
        return [["ask-gpt", "ops", "show", op.operation_id], ["ask-gpt", "resume", op.operation_id]]
    return []


def _thinking(block: Block) -> str | None:
    """"" where it is known that there was none: the turn is whole, or it was read from the site's own account, whatever its end."""
    from_site = block.hydrated and block.attr("source") != "page" and block.state not in ("torn", "interrupted")
    return block.section("thinking") or ("" if block.state == "completed" or from_site else block.section("thinking"))


def turn_document(block: Block) -> dict[str, Any]:
    """One of `turns[]` of `show`."""
    return {"number": block.number, "origin": "hydrated" if block.hydrated else "own", "state": block.state, "at": block.at,
            "prompt": block.section("prompt"),
            "thinking": _thinking(block), "answer": block.section("answer"), "files": [one.document for one in brought.of_block(block)],
            "attachments": attachments.of_block(block),
            "operation_id": block.attr("op"), "user_message_id": block.attr("user")}
