"""How far one turn is and what it says so far: the one accumulator that renderer, log and event stream project.

Guarantees (LO-01 .. LO-08): phases only go forward; `meta` once; exactly one terminal event and nothing after it; `done` only
after `response_done`; text that only grew is a delta, any other change one `replace` with the whole state; `fold` of the events
gives exactly the texts of `response_done`, also without that event.

Events are dicts with `type` and `phase`; what belongs to the operation (`operation_id`, `at`, `result`) is added by who sends
them. A viewer in another process holds a state of its own that takes the events (`take`). Touches nothing. Raises `Disorder` for a
call out of order, and leaves the state as it was: that is a defect of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

Event = dict[str, Any]

PHASES: Final = ("attaching", "submitted", "named", "streaming", "response_done", "collecting", "done", "error")
CLASSES: Final = frozenset({"timeout", "capped", "chat", "browser", "protocol", "local"})
TERMINALS: Final = frozenset({"done", "error"})
_UPLOADS: Final = frozenset({"queued", "uploading", "attached"})
_DOWNLOADS: Final = frozenset({"started", "saved", "present", "failed"})


class Disorder(RuntimeError):
    """A call that the order of a turn forbids. The message names the call and the phase, never any text."""


class Texts(NamedTuple):
    thinking: str
    answer: str


class TurnState:
    """The turn that one command is about. Every method returns the events that it caused, oldest first.

    phase: where it begins; "response_done" for a command that only collects. operation_id: of its operation, once that is known.
    """

    def __init__(self, phase: str = "attaching", operation_id: str | None = None) -> None:
        self.phase, self.operation_id = phase, operation_id
        self.row: str | None = None  # the ledger's state, as told last
        self.thinking = ""
        self.answer = ""
        self.conversation_id: str | None = None
        self.url: str | None = None
        self.saved: list[str] = []

    @property
    def ended(self) -> bool:
        return self.phase in TERMINALS

    @property
    def speaks(self) -> bool:
        """Its texts may still change."""
        return self.phase in ("submitted", "named", "streaming")

    @property
    def texts(self) -> Texts:
        return Texts(self.thinking, self.answer)

    def _need(self, call: str, first: str, last: str = "collecting") -> None:
        if not PHASES.index(first) <= PHASES.index(self.phase) <= PHASES.index(last):
            raise Disorder(f"{call} in phase {self.phase}")

    def _advance(self, phase: str) -> None:
        if PHASES.index(phase) > PHASES.index(self.phase):
            self.phase = phase

    def _event(self, kind: str, **facts: Any) -> Event:
        return {"type": kind, "phase": self.phase, **facts}

    def state(self, name: str) -> list[Event]:
        """The ledger's state of the operation (queued, claimed, dispatched, accepted ...); the one that was told last is nothing new."""
        self._need("state", "attaching")
        if name == self.row:
            return []
        self.row = name
        return [self._event("state", state=name)]

    def upload(self, file: str, state: str) -> list[Event]:
        """`state`: queued, uploading, attached. Only before the message left."""
        if state not in _UPLOADS:
            raise ValueError(state)
        self._need("upload", "attaching", "attaching")
        return [self._event("upload", file=file, state=state)]

    def ratelimit(self, wait_s: float) -> list[Event]:
        self._need("ratelimit", "attaching", "attaching")
        return [self._event("ratelimit", wait_s=wait_s)]

    def heartbeat(self, elapsed_s: float) -> list[Event]:
        self._need("heartbeat", "attaching")
        return [self._event("heartbeat", elapsed_s=elapsed_s)]

    def submitted(self) -> list[Event]:
        """The request was released. No event of its own: the ledger's `state` events say it."""
        self._need("submitted", "attaching", "attaching")
        self._advance("submitted")
        return []

    def named(self, conversation_id: str, url: str) -> list[Event]:
        """The conversation's final id is known: `meta`, once. The same id again is nothing; another one raises.

        It may come before the send (a conversation that existed) or in the middle of the answer.
        """
        self._need("named", "attaching")
        if self.conversation_id not in (None, conversation_id):
            raise Disorder(f"named twice, differently, in phase {self.phase}")
        if self.phase == "submitted":
            self._advance("named")
        if self.conversation_id is not None:
            return []
        self.conversation_id, self.url = conversation_id, url
        return [self._event("meta", conversation_id=conversation_id, url=url)]

    def observe(self, thinking: str, answer: str) -> list[Event]:
        """The full texts as they stand now. Growth at the end: `thinking` and `answer` with `delta`; all else: one `replace`."""
        self._need("observe", "submitted", "streaming")
        if (thinking, answer) == (self.thinking, self.answer):
            return []
        self._advance("streaming")
        events: list[Event] = []
        if thinking.startswith(self.thinking) and answer.startswith(self.answer):
            if len(thinking) > len(self.thinking):
                events.append(self._event("thinking", delta=thinking[len(self.thinking) :]))
            if len(answer) > len(self.answer):
                events.append(self._event("answer", delta=answer[len(self.answer) :]))
        else:
            events.append(self._event("replace", thinking=thinking, answer=answer))
        self.thinking, self.answer = thinking, answer
        return events

    def response_done(self, thinking: str, answer: str) -> list[Event]:
        """The reply is complete, and these are its texts. Raises while the conversation has no id: that is a protocol error (LO-05)."""
        self._need("response_done", "submitted", "streaming")
        if self.conversation_id is None:
            raise Disorder("response_done without a conversation id")
        events = self.observe(thinking, answer)
        self._advance("response_done")
        return [*events, self._event("response_done", thinking=thinking, answer=answer)]

    def collecting(self) -> list[Event]:
        self._need("collecting", "response_done")
        self._advance("collecting")
        return []

    def download(self, file: str, state: str, path: str | None = None) -> list[Event]:
        """`state`: started, saved, present, failed. `path`: relative to the working folder, once there is one."""
        if state not in _DOWNLOADS:
            raise ValueError(state)
        self._need("download", "response_done")
        self._advance("collecting")
        if state in ("saved", "present") and path is not None and path not in self.saved:
            self.saved.append(path)
        return [self._event("download", file=file, state=state, path=path)]

    def done(self, reply: Mapping[str, Any]) -> list[Event]:
        """The one successful end. `reply`: text, thinking, images, files, url, conversation_id."""
        self._need("done", "response_done")
        self.phase = "done"
        return [self._event("done", reply=dict(reply))]

    def error(self, klass: str, detail: str) -> list[Event]:
        """The one failed end, with what was there: phase, thinking, answer, saved artifacts. `klass`: one of `CLASSES`."""
        if klass not in CLASSES:
            raise ValueError(klass)
        self._need("error", "attaching")
        partial = {"phase": self.phase, "thinking": self.thinking, "answer": self.answer, "saved_artifacts": list(self.saved)}
        self.phase = "error"
        event = self._event("error", detail=detail, partial=partial)
        event["class"] = klass
        return [event]

    def take(self, event: Mapping[str, Any]) -> None:
        """Come to where the state that made `event` stood after it. Unknown types change nothing."""
        phase = event.get("phase")
        if phase in PHASES:
            self._advance(phase)
        match event:
            case {"type": "state", "state": str(name)}:
                self.row = name
            case {"type": "meta", "conversation_id": str(conversation_id), "url": str(url)}:
                self.conversation_id, self.url = conversation_id, url
            case {"type": "thinking", "delta": str(delta)}:
                self.thinking += delta
            case {"type": "answer", "delta": str(delta)}:
                self.answer += delta
            case {"type": "replace" | "response_done", "thinking": str(thinking), "answer": str(answer)}:
                self.thinking, self.answer = thinking, answer
            case {"type": "download", "state": "saved" | "present", "path": str(path)} if path not in self.saved:
                self.saved.append(path)
        self.operation_id = event.get("operation_id") or self.operation_id


def fold(events: Iterable[Mapping[str, Any]]) -> Texts:
    """The texts that a viewer of these events holds."""
    state = TurnState()
    for event in events:
        state.take(event)
    return state.texts
