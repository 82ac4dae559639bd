"""A site and a browser in memory, quick enough for thousands of sends: behind the Page, Gate, Seat and Browser ports.

`Site` is the witness: `clicks` and `taken` (every request that left, with its message id) are what every test counts. `tell` is called at
the moment of a click, of a held request and of its release. A message that is let go after its worker's death is `let_go`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.page_request import Held, Note, SentFile, Upload
from gptbridge.core.ports import Clock, Files, PageFacts, Session

ACCOUNT = "user-0000"
Tell = Callable[..., None]


def nothing(what: str, *more: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as the page makes it."""

    message_id: str
    text: str
    conversation_id: str | None
    parent: str
    files: tuple[tuple[str, bytes], ...] = ()  # name, bytes


class Site:
    """Conversations in the site's own JSON, and every request that left a page."""

    def __init__(self, wall: Callable[[], float], seed: int = 0) -> None:
        self.wall, self.seed = wall, seed
        self.documents: dict[str, dict[str, Any]] = {}
        self.taken: list[Sent] = []
        self.clicks: list[str] = []  # texts
        self.tell: Tell = nothing

    def ident(self, what: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed} {what}"))

    def take(self, sent: Sent) -> str:
        """The message arrives and is answered at once; the id of its conversation."""
        self.taken.append(sent)
        conversation_id = sent.conversation_id or self.ident(f"conversation of {sent.message_id}")
        at = self.wall()
        document = self.documents.setdefault(conversation_id, {
            "title": f"About {sent.text[:20]}", "create_time": at, "update_time": at, "current_node": "root", "async_status": None,
            "conversation_id": conversation_id, "default_model_slug": "auto",
            "mapping": {"root": {"id": "root", "message": None, "parent": None, "children": []}}})
        parent = document["current_node"] if sent.conversation_id is None else sent.parent
        turn = {"turn_exchange_id": "turn-" + sent.message_id}
        self._add(document, sent.message_id, "user", sent.text, parent, at, turn)
        self._add(document, self.ident("answer to " + sent.message_id), "assistant", f"You said: {sent.text}", sent.message_id, at, turn)
        return conversation_id

    @staticmethod
    def _add(document: dict[str, Any], ident: str, role: str, words: str, parent: str, at: float, metadata: dict[str, Any]) -> None:
        final = {"channel": "final", "end_turn": True} if role == "assistant" else {"channel": None, "end_turn": None}
        document["mapping"][ident] = {"id": ident, "parent": parent, "children": [], "message": {
            "id": ident, "author": {"role": role, "name": None, "metadata": {}}, "create_time": at, "update_time": None, "weight": 1.0,
            "content": {"content_type": "text", "parts": [words]}, "status": "finished_successfully", "recipient": "all",
            "metadata": metadata, **final}}
        document["mapping"][parent]["children"].append(ident)
        document["current_node"], document["update_time"] = ident, at

    def person(self, text: str, conversation_id: str) -> None:
        """Somebody writes by hand."""
        self.take(Sent(self.ident("by hand " + text), text, conversation_id, self.documents[conversation_id]["current_node"]))
        self.taken.pop()

    def sends_of(self, text: str) -> list[Sent]:
        return [sent for sent in self.taken if sent.text == text]


class MemoryPage:
    def __init__(self, site: Site, gate: MemoryGate) -> None:
        self._site, self._gate = site, gate
        self._conversation: str | None = None
        self._text: str | None = None
        self._files: list[tuple[str, bytes]] = []

    def open(self, conversation_id: str | None) -> None:
        if conversation_id is not None and conversation_id not in self._site.documents:
            raise Failure("unknown-conversation", "there is no such conversation")
        self._conversation, self._text, self._files = conversation_id, "", []

    def session(self) -> Session:
        return Session(ACCOUNT)

    def asks(self) -> bool:
        return False

    def facts(self) -> PageFacts:
        return PageFacts(self._conversation, self._text, len(self._files))

    def clear(self) -> None:
        self._text, self._files = "", []

    def untype(self) -> None:
        self._text = ""

    def attach(self, paths: Sequence[str], *, images: bool) -> None:
        for path in paths:
            with open(path, "rb") as file:
                self._files.append((path.rpartition("/")[2], file.read()))
        self._gate.uploaded = [Upload(name, len(data), "ready", f"file_{at}") for at, (name, data) in enumerate(self._files)]
        self._site.tell("uploaded")

    def files(self) -> Files:
        return Files(len(self._files), tuple(name for name, _ in self._files), sendable=bool(self._files or self._text))

    def type(self, text: str) -> None:
        self._text = text

    def press(self) -> None:
        text, self._text = self._text or "", ""
        self._site.clicks.append(text)
        self._site.tell("click", text)
        known = self._site.documents.get(self._conversation or "")
        parent = known["current_node"] if known else "client-created-root"
        ident, files = self._site.ident(f"message {len(self._site.clicks)} {text}"), tuple(self._files)
        self._files = []
        self._gate.request(Sent(ident, text, self._conversation, parent, files))

    def stop(self) -> bool:
        return False

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        if conversation_id not in self._site.documents:
            raise Failure("unknown-conversation", "there is no such conversation")
        return self._site.documents[conversation_id]

    def listing(self, offset: int, limit: int) -> dict[str, Any]:
        newest = sorted(self._site.documents.items(), key=lambda item: -float(item[1]["update_time"]))
        return {"items": [{"id": i, "title": d["title"], "create_time": d["create_time"]} for i, d in newest[offset:offset + limit]]}


class MemoryGate:
    def __init__(self, site: Site, clock: Clock) -> None:
        self._site, self._clock = site, clock
        self._state = "unarmed"
        self.held: Sent | None = None
        self._waiting: Held | None = None
        self._reply: bytes | None = None
        self.notes_seen: list[Note] = []
        self.uploaded: list[Upload] = []
        self.connected, self.lost = True, False
        self.reply_status: int | None = None
        self.reply_ended: str | None = None

    def arm(self) -> None:
        self._state = "closed"

    def open_once(self) -> None:
        assert self._state == "closed"
        self._state = "open"

    def request(self, sent: Sent) -> None:
        assert self._state != "unarmed", "a page that is not gated"
        if self._state != "open":
            self.notes_seen.append(Note("send", "/backend-api/f/conversation", (sent.message_id,)))
            return
        self._state, self.held = "spent", sent
        self._waiting = Held("paused", "/backend-api/f/conversation", "next", (sent.message_id,), (sent.text,), 0, sent.conversation_id,
                             sent.parent, "auto", None, False, None,
                             tuple(SentFile(f"file_{at}", name, len(data)) for at, (name, data) in enumerate(sent.files)))
        self._site.tell("held", sent)

    def wait(self, timeout: float) -> Held | None:
        held, self._waiting = self._waiting, None
        if held is None:
            self._clock.sleep(timeout)
        return held

    def release(self, held: Held) -> bool:
        sent, self.held = self.held, None
        if sent is None:
            return False
        self._site.tell("release", sent)
        conversation_id = self._site.take(sent)
        node = self._site.documents[conversation_id]["mapping"][sent.message_id]["message"]
        frames = [{"type": "input_message", "input_message": node, "conversation_id": conversation_id},
                  {"type": "message_stream_complete", "conversation_id": conversation_id}]
        self._reply = b"".join(b"data: " + json.dumps(frame).encode("ascii") + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
        self.reply_status = 200
        return True

    def refuse(self, held: Held) -> bool:
        return self._fail()

    def shut(self) -> None:
        self._state = "closed"
        self._fail()

    def _fail(self) -> bool:
        gone, self.held = self.held, None
        if gone is not None:
            self._site.tell("failed", gone)
        return gone is not None

    def watch(self, text: str) -> None: ...

    def traces(self) -> int:
        return 0

    def notes(self) -> Sequence[Note]:
        return self.notes_seen

    def spare(self, files: bool) -> None:
        assert self._state == "closed"

    def uploads(self) -> Sequence[Upload]:
        return self.uploaded

    def reply(self, timeout: float) -> bytes | None:
        chunk, self._reply = self._reply, None
        if chunk is None:
            self._clock.sleep(timeout)
        elif self.reply_status is not None:
            self.reply_ended = "finished"
        return chunk


class MemorySeat:
    def __init__(self, site: Site, clock: Clock) -> None:
        self.gate = MemoryGate(site, clock)
        self.page = MemoryPage(site, self.gate)

    def close(self) -> bool:
        self.gate.shut()
        return True


class MemoryBrowser:
    """The Browser port. `barred`: nobody may touch the page now (recovery never does)."""

    def __init__(self, site: Site, clock: Clock) -> None:
        self._site, self._clock = site, clock
        self.seats: list[MemorySeat] = []
        self.barred = False

    def seat(self, number: int) -> tuple[str, MemorySeat]:
        assert not self.barred, "recovery touched the page"
        self.seats.append(MemorySeat(self._site, self._clock))
        return f"window-{len(self.seats)}", self.seats[-1]

    def bury(self, window: str) -> None: ...
    def bury_blank(self, seats: Sequence[int]) -> None: ...

    def let_go(self) -> list[Sent]:
        """What Chrome does with held requests when the worker is killed (measured): they leave."""
        gone = [seat.gate.held for seat in self.seats if seat.gate.held is not None]
        for seat in self.seats:
            seat.gate.held = None
        for sent in gone:
            self._site.take(sent)
        return gone
