"""How the site streams a reply, decoded frame by frame: which conversation, which message, what it says so far.

For live display and early identity alone; what is true stands in the conversation JSON. An incomplete or damaged frame is
counted in `malformed` and skipped, never raised: a decoder must not cost an answer that the site is giving.

Format, server-sent events in two eras (public notes, 2023 to 2026):

    data: {"message": {...}, "conversation_id": "...", "error": null}      every frame a whole snapshot (2023)
    event: delta
    data: {"p": "/message/content/parts/0", "o": "append", "v": "text", "c": 1}      delta encoding v1 (2024-12 on)
    data: {"type": "input_message" | "title_generation" | "message_stream_complete" ...}
    data: [DONE]

In a delta a missing `p` or `o` repeats the last one, `patch` holds a list of deltas, `c` counts messages. Chunks may end
anywhere, also inside a character. Touches nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gptbridge.core import content, deltas
from gptbridge.core.citations import resolve
from gptbridge.core.deltas import Misfit
from gptbridge.core.nodes import Node, conversation_id_of, dict_of, list_of, node_of, seconds, text_of
from gptbridge.core.sse import EventLines

_MAX_BODY = 65_536


@dataclass(frozen=True, slots=True)
class ConversationNamed:
    """A final conversation id, lower case; never `WEB:...`. Once for each id."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class InputMessage:
    """The user message as the site took it, with its final id. turn_id: `turn_exchange_id`; parent: id of the node above."""

    message_id: str
    turn_id: str | None
    parent: str | None


@dataclass(frozen=True, slots=True)
class MessageState:
    """A message after a change. text: all of it so far; of the assistant without citation marks, of thoughts as Markdown."""

    message_id: str
    role: str
    channel: str | None
    recipient: str
    content_type: str
    text: str
    status: str | None
    end_turn: bool | None
    turn_id: str | None


@dataclass(frozen=True, slots=True)
class Title:
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """`message_stream_complete`: the site says that this reply is whole."""


@dataclass(frozen=True, slots=True)
class Done:
    """`[DONE]`: nothing follows here; after a hand-over to a web socket the reply goes on elsewhere."""


@dataclass(frozen=True, slots=True)
class SiteError:
    """The site's own error, in the stream or as the plain JSON body of a refusal. clears_in: seconds until a cap ends, if it says so."""

    message: str
    code: str | None
    clears_in: float | None = None


StreamFact = ConversationNamed | InputMessage | MessageState | Title | Completed | Done | SiteError


class ReplyStream:
    """Feed it bytes as they come; it gives facts in order. finished: `Completed` or `Done` was seen; the mere end of the bytes
    is no finish. malformed: frames skipped so far."""

    def __init__(self) -> None:
        self.finished = False
        self.malformed = 0
        self._events = EventLines()
        self._body: bytes | None = b""
        self._closed = False
        self._facts: list[StreamFact] = []
        self._messages: dict[object, Any] = {}
        self._current: object = None
        self._op, self._path, self._text_path = "add", "", "/message/content/parts/0"
        self._dirty: dict[object, None] = {}
        self._told: dict[str, MessageState] = {}
        self._ids: set[str] = set()
        self._inputs: set[str] = set()
        self._title: str | None = None

    def feed(self, data: bytes) -> list[StreamFact]:
        """The facts in `data` and what was held back before; a message that changed often is told once, as it stands at the end."""
        for lines in self._events.feed(data):
            self._body = None
            self._dispatch(lines)
        if self._body is not None:
            self._refusal(data)
        return self._take()

    def close(self) -> list[StreamFact]:
        """The bytes are over: the last line and frame count although nothing ended them."""
        for lines in self._events.close():
            self._dispatch(lines)
        return self._take()

    def _refusal(self, data: bytes) -> None:
        """No event so far: the bytes may be one JSON object that says why there is no stream."""
        self._body = (self._body or b"") + data
        body = self._body.strip()
        if (body and not body.startswith(b"{")) or len(body) > _MAX_BODY:
            self._body = None
        elif body.endswith(b"}"):
            facts = dict_of(_parse(body.decode("utf-8", "replace")))
            error = facts.get("detail") or facts.get("error") or (facts if "message" in facts else None)
            if error:
                self._error(error)
                self._body = None

    def _dispatch(self, lines: list[str]) -> None:
        if self._closed:
            return
        whole = "\n".join(lines)
        for frame in [whole] if len(lines) == 1 or _parse(whole) is not Misfit else lines:
            if frame.strip() == "[DONE]":
                self._flush()
                self._facts.append(Done())
                self.finished = self._closed = True
                return
            value = _parse(frame)
            try:
                if value is Misfit:
                    raise Misfit
                self._frame(value)
            except (Misfit, RecursionError):
                self.malformed += 1

    def _frame(self, frame: Any) -> None:
        if not isinstance(frame, dict):
            if not isinstance(frame, str):  # "v1" announces the encoding
                raise Misfit
            return
        kind = frame.get("type")
        if isinstance(kind, str):
            self._typed(kind, frame)
        elif "v" in frame or "o" in frame:
            self._delta(frame)
        elif "message" in frame or "conversation_id" in frame or "error" in frame or "detail" in frame:
            self._snapshot(frame)
        else:
            raise Misfit

    def _typed(self, kind: str, frame: dict[str, Any]) -> None:
        self._name(frame.get("conversation_id"))
        if kind == "input_message":
            message = frame.get("input_message", frame.get("message"))
            if not isinstance(message, dict):
                raise Misfit
            self._input(node_of("", None, message))
        elif kind == "title_generation":
            title = text_of(frame.get("title"))
            if title and title != self._title:
                self._title = title
                self._tell(Title(title))
        elif kind == "message_stream_complete":
            self.finished = True
            self._tell(Completed())
        elif kind == "moderation" and dict_of(frame.get("moderation_response")).get("blocked") is True:
            self._tell(SiteError("the site's moderation took it away", "moderation_blocked"))
        elif kind == "error" or frame.get("error"):
            self._error(frame.get("error") or frame)

    def _snapshot(self, frame: dict[str, Any]) -> None:
        self._name(frame.get("conversation_id"))
        error = frame.get("error") or frame.get("detail")
        if error:
            self._error(error)
        message = frame.get("message")
        if isinstance(message, dict):
            key = ("snapshot", text_of(message.get("id")))
            self._messages[key] = frame
            self._dirty[key] = None
        elif message is not None and not error:
            raise Misfit

    def _delta(self, frame: dict[str, Any]) -> None:
        value, count = frame.get("v"), frame.get("c")
        if count is not None and not isinstance(count, int):
            raise Misfit
        path = frame.get("p", self._path)
        starts = isinstance(value, dict) and isinstance(value.get("message"), dict) and frame.get("p", "") == ""
        op = "add" if starts and "o" not in frame else frame.get("o", self._op)
        if not (isinstance(path, str) and isinstance(op, str) and op in deltas.OPERATIONS):
            raise Misfit
        if starts and op in ("add", "replace"):
            path = ""
            self._current = count if count is not None else ("message", text_of(dict_of(dict_of(value).get("message")).get("id")))
        elif count is not None:
            self._current = count
        if isinstance(value, str) and path == "" and "p" not in frame:
            op, path = "append", self._text_path  # after a patch a bare text goes on where text went last
        elif isinstance(value, list) and path == "" and "o" not in frame:
            op = "patch"
        self._op, self._path = op, path
        key = self._current
        self._dirty[key] = None
        self._messages[key], appended = deltas.apply(self._messages.get(key, {}), op, path, value)
        self._text_path = appended or self._text_path
        if path == "":
            self._name(dict_of(self._messages[key]).get("conversation_id"))
            error = dict_of(self._messages[key]).get("error")
            if error and starts:
                self._error(error)

    def _name(self, value: object) -> None:
        ident = conversation_id_of(value)
        if ident and ident not in self._ids:
            self._ids.add(ident)
            self._tell(ConversationNamed(ident))

    def _input(self, node: Node) -> None:
        if node.id and node.opens_turn and node.id not in self._inputs:
            self._inputs.add(node.id)
            self._tell(InputMessage(node.id, node.turn_id, text_of(node.metadata.get("parent_id"))))

    def _error(self, error: Any) -> None:
        facts = dict_of(error)
        inner = dict_of(list_of(error)[0]) if list_of(error) else facts
        message = text_of(error) or next((v for k in ("message", "detail", "msg", "error") if (v := text_of(inner.get(k)))), None)
        code = text_of(inner.get("code")) or text_of(inner.get("error_code"))
        clears_in = inner.get("clears_in")
        self._tell(SiteError(message or "the site reported an error", code, seconds(clears_in) if not isinstance(clears_in, str) else None))

    def _tell(self, fact: StreamFact) -> None:
        self._flush()
        self._facts.append(fact)

    def _flush(self) -> None:
        """Tell the messages that changed since the last fact, in the order in which they first changed."""
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            document = dict_of(self._messages.get(key))
            message = dict_of(document.get("message"))
            node = node_of("", None, message)
            if not node.id:
                continue
            self._name(document.get("conversation_id"))
            if node.role == "user":
                self._input(node)
            state = MessageState(
                node.id, node.role, node.channel, node.recipient, node.kind, _text(node), node.status, node.end_turn, node.turn_id
            )
            if self._told.get(node.id) != state:
                self._told[node.id] = state
                self._facts.append(state)

    def _take(self) -> list[StreamFact]:
        self._flush()
        facts, self._facts = self._facts, []
        return facts


def _parse(frame: str) -> Any:
    try:
        return json.loads(frame)
    except (ValueError, RecursionError):
        return Misfit


def _text(node: Node) -> str:
    if node.kind == "thoughts":
        return content.thoughts(node)[0]
    if node.kind == "reasoning_recap":
        return content.recap(node)
    text = content.plain(node)
    return resolve(text, node.metadata) if node.role == "assistant" else text
