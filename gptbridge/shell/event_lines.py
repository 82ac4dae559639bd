"""`--events`: NDJSON on standard output, one event in a line, for programs.

Guarantees: every line has `type`, `phase`, `operation_id` (null where there is none) and `at`; exactly one terminal event, `done` or
`error`, is the last line, also for a command that could not begin, and its `result` is the document that `--json` would print; before a
`done` stands a `response_done` with the texts of that document.
Owns the format (contract.md, Events). A line comes at the latest every HEARTBEAT_S seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gptbridge.core.errors import EXITS
from gptbridge.core.ledger import rfc3339
from gptbridge.core.turn import Event, TurnState
from gptbridge.shell.terminal import Terminal
from gptbridge.shell.viewing import Clock, Unseen

HEARTBEAT_S = 15.0
TYPES = frozenset(("state", "meta", "upload", "ratelimit", "thinking", "answer", "replace", "response_done", "download", "heartbeat"))
REPLY = ("images", "files", "url", "conversation_id")


class EventLines(Unseen):
    def __init__(self, terminal: Terminal, now: Clock) -> None:
        self._terminal, self._now = terminal, now
        self._begun = now()
        self._beaten = self._begun

    def take(self, event: Event, turn: TurnState) -> None:
        if event["type"] in TYPES:
            _line(self._terminal, event, turn)

    def tick(self, turn: TurnState) -> float | None:
        left = self._beaten + HEARTBEAT_S - self._now()
        if left <= 0.0:
            self._beaten = self._now()
            _write(self._terminal, turn.heartbeat(round(self._beaten - self._begun, 1)), turn)
            left = HEARTBEAT_S
        return left


def close(terminal: Terminal, doc: Mapping[str, Any], turn: TurnState | None = None, *, patience: bool = False) -> None:
    """What is missing of the turn, then its one end. `patience`: the caller's is over, whatever is known of the message."""
    turn = turn or TurnState()
    turn.operation_id = doc["operation_id"] or turn.operation_id
    if doc["state"] is not None:  # one that this process recorded itself, for a worker that could not or did not tell
        _write(terminal, turn.state(doc["state"]), turn)
    if doc["ok"]:
        if turn.phase not in ("response_done", "collecting"):
            _write(terminal, _caught_up(turn, doc), turn)
        reply = {"text": doc["answer"], "thinking": doc["thinking"], **{key: doc[key] for key in REPLY}}
        events = turn.done(reply)
    else:
        slug = doc["error"]["code"]
        lost = slug == "uncertain" and not patience  # contract.md: 40 is the browser's or the worker's end, or the caller's patience
        events = turn.error("browser" if lost else EXITS[slug].event_class, doc["error"]["message"])
    events[-1]["result"] = dict(doc)
    _write(terminal, events, turn)


def _caught_up(turn: TurnState, doc: Mapping[str, Any]) -> list[Event]:
    """An answer that was read back, or that a worker brought which this command could not hear to the end."""
    if doc["conversation_id"] is None:
        return []
    if turn.phase == "attaching":
        turn.submitted()
    named = turn.named(doc["conversation_id"], doc["url"])
    return [*named, *turn.response_done(doc["thinking"] or "", doc["answer"] or "")]


def _write(terminal: Terminal, events: list[Event], turn: TurnState) -> None:
    for event in events:
        _line(terminal, event, turn)


def _line(terminal: Terminal, event: Event, turn: TurnState) -> None:
    rest = {key: value for key, value in event.items() if key not in ("type", "phase", "operation_id", "at")}
    at = event.get("at") or rfc3339(time.time())
    terminal.document({"type": event["type"], "phase": event["phase"], "operation_id": event.get("operation_id") or turn.operation_id,
                       "at": at, **rest})
