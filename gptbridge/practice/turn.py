"""How an answer comes to be: a thread of the server writes it node by node, whether or not anybody listens.

Guarantees: the stored conversation and the frames change in one step under the world's lock; a reader who comes late gets every frame
from the first; a client that goes does not stop it. Ends in every case with `[DONE]`, but for `abandon` (reset), which ends the frames.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from gptbridge.practice import files, nodes, stream
from gptbridge.practice.answers import Part, Plan
from gptbridge.practice.nodes import Json
from gptbridge.practice.world import Conversation, World

FAILED = "Something went wrong while generating the response."


class Turn:
    """One user message and its answer. `user_id`: the id under which the message is stored; `node_ids`: it and what
    was added below it."""

    def __init__(
        self, world: World, conversation: Conversation, user: Json, plan: Plan, model: str, effort: str | None, title: str | None
    ) -> None:
        self.world, self.conversation, self.plan = world, conversation, plan
        self.user_id: str = user["id"]
        self.conversation_id: str = conversation.data["conversation_id"]
        self.began = time.time()
        self.node_ids = [self.user_id]
        self.done = False
        metadata = user.get("metadata") or {}
        self._exchange = metadata.get("turn_exchange_id") or nodes.new_id()
        self._request = metadata.get("request_id") or nodes.new_id()
        self._model, self._effort, self._title = model, effort, title
        self._frames: list[bytes] = []
        self._changed = threading.Condition(world.lock)
        self._stop = threading.Event()
        self._abandoned = False
        self._encoder = stream.Encoder()
        self._open: Json | None = None
        cid = self.conversation_id
        self._emit(stream.OPENING)
        token = {"type": "resume_conversation_token", "token": "practice-" + self._exchange, "conversation_id": cid}
        self._emit(stream.event(token))
        self._emit(stream.event({"type": "input_message", "input_message": user, "conversation_id": cid}))

    def start(self) -> None:
        threading.Thread(target=self._run, name="practice-answer", daemon=True).start()

    def stop(self) -> None:
        """The user pressed stop: the open node ends where it is."""
        self._stop.set()

    def abandon(self) -> None:
        """The world was reset: write nothing more."""
        with self.world.lock:
            self._abandoned = True
            self._stop.set()
            self.done = True
            self._changed.notify_all()

    def follow(self, offset: int = 0) -> Iterator[bytes]:
        """Every frame from number `offset` on; waits for those to come; ends with the turn."""
        while True:
            with self._changed:
                while len(self._frames) <= offset and not self.done:
                    self._changed.wait()
                batch = self._frames[offset:]
                if not batch:
                    return
            offset += len(batch)
            yield from batch

    def _run(self) -> None:
        try:
            while self.plan.waits_for and self.world.switches.get(self.plan.waits_for) is not None and self._wait(0.1):
                pass
            for part in [] if self.plan.lost or self.plan.blocked == "prompt" else self.plan.parts:
                if part.kind == "pause":
                    self._wait(part.chunks[0][0])
                else:
                    self._write(part)
                if self._stop.is_set():
                    break
        finally:
            with self.world.lock:
                if not self._abandoned:
                    self._finish()

    def _wait(self, seconds: float) -> bool:
        """True when nothing ended the turn meanwhile."""
        return not self._stop.wait(seconds) if seconds else not self._stop.is_set()

    def _write(self, part: Part) -> None:
        with self.world.lock:
            if self._abandoned:
                return
            self._begin(part)
        for seconds, chunk in part.chunks:
            if not self._wait(seconds):
                break
            with self.world.lock:
                if self._abandoned:
                    return
                if self._title and part.kind == "text":
                    self._name()
                for change in _growth(part, self._open, chunk):
                    self._change(change)
        with self.world.lock:
            if self._abandoned:
                return
            if self._stop.is_set():
                self._close([], {"finish_details": {"type": "interrupted", "reason": "client_stopped"}}, None)
            elif self.plan.blocked == "answer" and part.last:
                self._close([], {"finish_details": {"type": "content_filter"}}, None, status="finished_partial_completion")
            elif self.plan.fails and part.last:
                self._close([], {"is_error": True}, None, status="error")
            else:
                ending = [stream.op("append", "/content/parts", list(part.more_parts))] if part.more_parts else []
                meta: Json = {"is_complete": True}
                if part.last:
                    meta["finish_details"] = {"type": "stop", "stop_tokens": [200002]}
                self._keep_sandbox(part)
                self._close(ending, meta, True if part.last else None if part.kind == "image" else False)

    def _begin(self, part: Part) -> None:
        parent = self.node_ids[-1]
        meta: Json = {
            "request_id": self._request,
            "turn_exchange_id": self._exchange,
            "model_slug": self._model,
            "default_model_slug": self.conversation.data.get("default_model_slug") or "auto",
            "resolved_model_slug": self._model,
            "parent_id": parent,
            "message_type": "next",
        }
        if self._effort:
            meta["thinking_effort"] = self._effort
        role, name, status = "assistant", None, "in_progress"
        if part.kind == "thoughts":
            content: Json = {"content_type": "thoughts", "thoughts": [], "source_analysis_msg_id": nodes.new_id()}
            meta["reasoning_status"] = "is_reasoning"
        elif part.kind == "recap":
            content = nodes.recap("")
            seconds = sum(wait for p in self.plan.parts if p.kind == "thoughts" for wait, _ in p.chunks)
            meta |= {"reasoning_status": "reasoning_ended", "finished_duration_sec": max(1, round(seconds))}
        elif part.kind == "image":
            ident = files.image(self.world, self.conversation.owner, self.conversation_id)
            content = {"content_type": "multimodal_text", "parts": [files.pointer(self.world.files[ident])]}
            role, name = "tool", files.IMAGE_TOOL
            meta["image_gen_title"] = "A gradient"
        else:
            content = nodes.text("")
        made = nodes.message(nodes.new_id(), role, content, time.time(), name=name, status=status, channel=part.channel, metadata=meta)
        if part.kind == "image":
            self.world.files[ident].holders.add(made["id"])
        nodes.link(self.conversation.data["mapping"], parent, made)
        self.conversation.data["current_node"] = made["id"]
        self.node_ids.append(made["id"])
        self._open = made
        value = {"message": made, "conversation_id": self.conversation_id, "error": None}
        self._emit(self._encoder.frame(stream.op("add", "", value)))
        if part.kind != "image":
            thinking = part.kind in ("thoughts", "recap")
            marker = "cot_token" if thinking else "final_channel_token" if part.last else "user_visible_token"
            mark = {
                "type": "message_marker",
                "conversation_id": self.conversation_id,
                "message_id": made["id"],
                "marker": marker,
                "event": "first",
            }
            self._emit(stream.event(mark))

    def _change(self, change: stream.Op) -> None:
        """Into the stored message and into the stream, in one step."""
        stream.apply(self._open, change)
        self.conversation.data["update_time"] = time.time()
        shifted = {**change, "p": "/message" + change["p"]} if change["o"] != "patch" else change
        if change["o"] == "patch":
            shifted = {**change, "v": [{**part, "p": "/message" + part["p"]} for part in change["v"]]}
        self._emit(self._encoder.frame(shifted))

    def _close(self, ending: list[stream.Op], meta: Json, end_turn: bool | None, status: str = "finished_successfully") -> None:
        changes = [*ending, stream.op("replace", "/status", status), stream.op("replace", "/end_turn", end_turn)]
        self._change(stream.op("patch", "", [*changes, stream.op("append", "/metadata", meta)]))
        if end_turn and self._open is not None:
            mark = {
                "type": "message_marker",
                "conversation_id": self.conversation_id,
                "message_id": self._open["id"],
                "marker": "last_token",
                "event": "last",
            }
            self._emit(stream.event(mark))
        self._open = None

    def _name(self) -> None:
        self.conversation.data["title"] = self._title
        self._emit(stream.event({"type": "title_generation", "title": self._title, "conversation_id": self.conversation_id}))
        self._title = None

    def _keep_sandbox(self, part: Part) -> None:
        for path, data in part.sandbox.items():
            files.keep(self.world, self.conversation.owner, self.conversation_id, path, data, self.node_ids[-1])

    def _finish(self) -> None:
        cid = self.conversation_id
        if self._title:
            self._name()
        if self.plan.blocked:
            verdict = {"flagged": True, "blocked": True, "moderation_id": "practice"}
            about = {"message_id": self.node_ids[-1], "is_completion": self.plan.blocked == "answer", "conversation_id": cid}
            self._emit(stream.event({"type": "moderation", "moderation_response": verdict, **about}))
        if (self.plan.fails or self.plan.lost) and not self._stop.is_set():
            failure = {"message": None, "conversation_id": cid, "error": FAILED}
            self._emit(stream.event(failure))
        if not self.plan.lost:
            self._emit(stream.event({"type": "message_stream_complete", "conversation_id": cid}))
        self._emit(stream.DONE)
        self.done = True
        self._changed.notify_all()

    def _emit(self, frame: bytes) -> None:
        with self._changed:
            self._frames.append(frame)
            self._changed.notify_all()


def _growth(part: Part, message: Json | None, chunk: str) -> list[stream.Op]:
    """The operations that add `chunk` to the open message."""
    if part.kind == "text":
        return [stream.op("append", "/content/parts/0", chunk)] if chunk else []
    if part.kind == "recap":
        return [stream.op("append", "/content/content", chunk)]
    if part.kind != "thoughts" or message is None:
        return []
    index = len(message["content"]["thoughts"])
    if "\n" in chunk:
        summary, _, begin = chunk.partition("\n")
        thought = {"summary": summary, "content": begin, "chunks": [begin], "finished": False}
        return [stream.op("append", "/content/thoughts", [thought])]
    here = f"/content/thoughts/{index - 1}"
    changes = [stream.op("append", here + "/content", chunk), stream.op("append", here + "/chunks", [chunk])]
    return [stream.op("patch", "", [*changes, stream.op("replace", here + "/finished", True)])]
