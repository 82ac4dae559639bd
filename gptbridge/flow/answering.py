"""From the released request to the end of its turn: refusal, receipt, final answer, log and registry.

Identity comes from ids alone: the request's own message id, and the one that the site's stream gives it. The stream tells early which
conversation took the message; the conversation JSON decides the text and the end (design 8). Silence, commentary or a stop button prove
nothing, and nothing is pressed. What fails here never unsends: the worst end of this module is an accepted operation whose answer is
read later, or an uncertain one that its recorded id resolves.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gptbridge.core.brought import Brought
from gptbridge.core.conversation import SiteTurn, completed_by, find_message
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.exchange import FILTERED
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import NEW
from gptbridge.core.ports import Gate, Held, Page, Unread, World
from gptbridge.core.stream import ConversationNamed, InputMessage, MessageState, ReplyStream, SiteError, Title
from gptbridge.core.turn import TurnState
from gptbridge.flow import collecting, reconciling, recording, refusals, registering, snapshots
from gptbridge.flow.custody import Custody, Receipt
from gptbridge.flow.questions import Questions

CHUNK_S = 0.5
HEAD_BYTES = 64 * 2**10
ATTEND_S = 0.5
STOP_S = 15.0  # after the press, how long the site's own word is waited for
UNNAMED_S = 60.0  # how long after its end a reply's conversation is looked for before the operation is left uncertain
READS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # pauses between reads of the conversation once the stream is over; the last repeats
UNREAD = 5  # how often the conversation may be refused before its answer is left to a later reading
AFTER_ERROR = 3  # reads that do not show an answer, after which an error of the stream is the turn's end


class Answering:
    """Follows one released request to the end of its turn; `run` returns when the row says all that can be known here."""

    def __init__(self, world: World, custody: Custody, operation: Operation, prompt: str, page: Page, gate: Gate, places: ExitStack,
                 held: Held) -> None:
        self._w, self._custody, self._op, self._prompt = world, custody, operation, prompt
        self._page, self._gate, self._places = page, gate, places
        self._id = operation.operation_id
        self._message_ids = {held.user_message_ids[0].lower()}
        self._stream = ReplyStream()
        self._turn = TurnState()
        self._thought: dict[str, str] = {}  # by message id, in the order of the stream
        self._said: dict[str, str] = {}
        self._conversation_id = None if operation.target == NEW else operation.target
        self._turn_id: str | None = None
        self._title: str | None = None
        self._head = b""  # the beginning of the reply: a refusal of the site is one JSON body, not a stream
        self._give_up = world.clock.now().boottime + world.settings.give_up
        self._ended_at: float | None = None  # boottime of the stream's end
        self._next_read = 0.0
        self._attended_at = 0.0
        self._pressed_at = 0.0
        self._reads = self._unread = 0
        self._error: SiteError | None = None  # what the stream said went wrong
        self._questions = Questions(world, page)

    def run(self) -> None:
        self._turn.submitted()
        try:
            if self._receive():
                self._follow()
        except Failure as failure:
            self._interrupted(failure)

    # 7. The receipt

    def _receive(self) -> bool:
        """Until the message is accepted (True), refused by the site, or cannot be resolved now (False)."""
        while True:
            self._listen()
            status = self._gate.reply_status
            if status is not None and 400 <= status < 500:
                self._refused(status)
                return False
            if self._named_by_stream() or self._named_by_site():
                return True
            if (self._ended_at is not None and self._now() - self._ended_at > UNNAMED_S) or self._now() > self._give_up:
                lost = Failure("uncertain", "the request left, but no conversation shows its message yet; it will not be sent again",
                               f"ask-gpt resume {self._id}")
                self._op = self._custody.fail(self._id, lost, nothing_left=False)
                self._write(None, "interrupted", lost)
                return False

    def _listen(self) -> None:
        """Take what the reply's stream brings; never decides anything by itself."""
        self._attend()
        chunk = self._gate.reply(CHUNK_S)
        if chunk:
            self._questions.heard(self._now())
        self._head = (self._head + (chunk or b""))[:HEAD_BYTES]
        for fact in self._stream.feed(chunk) if chunk else ():
            match fact:
                case ConversationNamed(conversation_id=conversation_id):
                    self._conversation_id = self._conversation_id or conversation_id
                case InputMessage(message_id=message_id, turn_id=turn_id):
                    self._turn_id = self._turn_id or turn_id
                    if message_id.lower() not in self._message_ids:
                        self._message_ids.add(message_id.lower())
                        self._op = self._custody.renamed(self._id, message_id)
                case MessageState() as message:
                    self._watch(message)
                case Title(text=text):
                    self._title = text
                case SiteError() as error:
                    self._error = error
                case _:
                    pass
        if self._ended_at is None and self._gate.reply_ended is not None and not chunk:
            self._ended_at = self._now()

    def _attend(self) -> None:
        """Twice a second: a front that is gone is noted, and a stop that a person asked for is carried out, once."""
        now = self._now()
        if now < self._attended_at + ATTEND_S:
            return
        self._attended_at = now
        self._questions.look(now)
        self._op = op = self._w.ledger.view().operations[self._id]
        if op.front is None and self._w.caller.gone():
            self._op = self._custody.note(self._id, "nobody waits for its answer any more", front="gone")
        if op.stop_at is not None and op.stop_phase == "pending" and op.state is State.ACCEPTED:
            # The phase is on disk before the press: a crash in between must not press a second time.
            self._op = self._custody.note(self._id, "pressing the page's stop", stop_phase="dispatched")
            self._pressed_at = now
            if not self._page.stop():
                self._op = self._custody.note(self._id, "the page shows no stop control", stop_phase="uncertain")
        elif op.stop_phase == "dispatched" and now - self._pressed_at > STOP_S:
            self._op = self._custody.note(self._id, "the page did not confirm the stop", stop_phase="uncertain")

    def _watch(self, message: MessageState) -> None:
        if message.role != "assistant":
            return
        self._turn_id = self._turn_id or message.turn_id
        if message.content_type == "thoughts":
            self._thought[message.message_id] = message.text
        elif message.content_type == "text" and message.recipient in (None, "all") and message.channel != "analysis":
            self._said[message.message_id] = message.text
        else:
            return
        # One turn may say something, think and say more: what was said before stands (case 14).
        thinking, answer = ("\n\n".join(filter(None, texts.values())) for texts in (self._thought, self._said))
        for event in self._turn.observe(thinking, answer):
            self._w.caller.emit(event)

    def _named_by_stream(self) -> bool:
        if self._conversation_id is None or self._turn_id is None:
            return False
        self._accept(self._conversation_id, self._turn_id)
        return True

    def _named_by_site(self) -> bool:
        """A stream that broke or says nothing: the conversation whose JSON holds our very id, as the page or the list name it."""
        if self._ended_at is None or not self._read_is_due():
            return False
        try:
            sighting = reconciling.find(self._w, self._page, self._op, reads=3)
        except Failure:
            return False  # looked for again until UNNAMED_S is over
        if sighting is None:
            return False
        self._conversation_id = sighting.conversation_id
        self._accept(sighting.conversation_id, reconciling.receipt(self._op, sighting).turn_id)
        return True

    def _accept(self, conversation_id: str, turn_id: str) -> None:
        """Lock, `accepted`, registry row, the turn's beginning in the log, and only then is the id shown: whoever sees it has all."""
        w, op = self._w, self._op
        if op.target == NEW:
            self._places.enter_context(w.locks.fresh_conversation(conversation_id))
        self._op = self._custody.accept(self._id, Receipt(conversation_id, op.user_message_id or "", turn_id))
        if op.target == NEW and op.account is not None:
            first = self._prompt or next((str(file["name"]) for file in op.files or ()), "")
            registering.register(w, conversation_id, op.account, first, w.clock.now().wall)
        recording.begin_turn(w, self._op, self._prompt)
        for event in self._turn.named(conversation_id, recording.url_of(w, conversation_id)):
            w.caller.emit(event)

    def _refused(self, status: int) -> None:
        """The site's own 4xx without a stream: it took nothing (GT-17)."""
        while self._gate.reply_ended is None and self._now() < self._give_up:
            self._listen()
        failure, refusal = refusals.read(status, self._head, self._id)
        self._op = self._custody.fail(self._id, failure, nothing_left=True, refusal=refusal)
        recording.write_turn(self._w, self._op, self._prompt, None, state="failed", failure=failure, phase=self._turn.phase)

    # 8 and 9. The final answer, and its records

    def _follow(self) -> None:
        while self._now() <= self._give_up:
            self._listen()
            if self._ended_at is None or not self._read_is_due():
                continue
            try:
                document = self._page.conversation(self._known_conversation)
            except Unread:
                self._unread += 1
                if self._unread > UNREAD:
                    raise
                continue
            title = read_conversation(document, conversation_id=self._known_conversation).title
            for message_id in sorted(self._message_ids):
                turn = completed_by(document, message_id, ended=self._stream.finished)
                if turn is not None:
                    self._completed(turn, title)
                    return
                found = find_message(document, message_id)
                seen = found.answer_turn if found is not None else None
                if seen is not None and seen.state in ("failed", "stopped"):
                    self._ended(seen, seen.state, title)
                    return
                if seen is not None and seen.state in ("empty", "incomplete") and self._error is not None and self._reads >= AFTER_ERROR:
                    self._ended(seen, "failed", title)  # its error is the site's last word: nothing more was stored
                    return
        self._write(None, "interrupted", Failure("answer-lost", "no final answer came in the time given (give_up)",
                                                 f"ask-gpt resume {self._id}"))
        self._op = self._custody.end_turn(self._id, "abandoned", "give_up reached")

    def _completed(self, turn: SiteTurn, title: str | None) -> None:
        self._turn.response_done(turn.thinking or "", turn.answer or "")
        files = self._collect(turn)
        # Log and registry before the record: whoever reads `completed` (a follower, a replay) finds the turn; a crash in between leaves an
        # accepted operation that is completed by the next reading, and its turn, known by its id, is not written twice.
        recording.write_turn(self._w, self._op, self._prompt, turn, state="completed", files=files)
        registering.retitle(self._w, self._known_conversation, title or self._title)
        self._op = self._custody.complete(self._id, title=title or self._title, site_model=turn.model, site_effort=turn.effort)

    def _collect(self, turn: SiteTurn) -> list[Brought]:
        """What the turn made, before its record: a file that cannot be had is in the list and changes nothing else (FA-15, LO-03)."""
        def say(name: str, state: str, path: str | None) -> None:
            for event in self._turn.download(name, state, path):
                self._w.caller.emit(event)
        self._turn.collecting()
        return collecting.of_turn(self._w, self._page, self._known_conversation, turn, say)

    def _ended(self, turn: SiteTurn, state: str, title: str | None) -> None:
        """The site ended the turn without a final answer: failed, or stopped by a person in the page."""
        facts: dict[str, Any] = {"title": title, "site_model": turn.model, "site_effort": turn.effort}
        if self._op.stop_phase == "dispatched" and state == "stopped":
            facts["stop_phase"] = "confirmed"
        blocked = turn.error == FILTERED or (self._error is not None and self._error.code == "moderation_blocked")
        said = "the site's moderation took it away" if blocked else "the site failed to answer"
        failure = Failure("answer-failed", said) if state == "failed" else None
        if failure is not None and blocked:
            self._w.caller.emit({"type": "warning", "message": said})
        if failure is not None and (line := snapshots.keep(self._w, self._page, failure)) is not None:
            self._w.caller.emit({"type": "warning", "message": line})
        self._write(turn, state, failure)
        registering.retitle(self._w, self._known_conversation, title)
        self._op = self._custody.end_turn(self._id, state, f"the site shows the turn as {state}", **facts)

    def _interrupted(self, failure: Failure) -> None:
        """Page or browser went away: what was said so far is kept and marked; the row stays where its last record put it."""
        self._op = self._w.ledger.view().operations[self._id]
        if self._op.state is State.DISPATCHED:
            self._op = self._custody.fail(self._id, Failure("uncertain", failure.message), nothing_left=False)
        if failure.slug in ("state-unwritable", "state-corrupt"):
            raise self._unrecorded(failure) from failure
        try:
            self._write(None, "interrupted", failure)
        except Failure as unwritten:
            raise self._unrecorded(unwritten) from unwritten
        self._w.caller.emit({"type": "warning", "message": failure.message})

    def _unrecorded(self, failure: Failure) -> Failure:
        return Failure("record-failed", f"the message was sent, but {failure.message}", f"ask-gpt resume {self._id}")

    def _write(self, turn: SiteTurn | None, state: str, failure: Failure | None) -> None:
        recording.write_turn(self._w, self._op, self._prompt, turn, state=state, thinking=self._turn.thinking,
                             answer=self._turn.answer or None, failure=failure, phase=self._turn.phase)

    # Small things

    @property
    def _known_conversation(self) -> str:
        assert self._conversation_id is not None
        return self._conversation_id

    def _read_is_due(self) -> bool:
        """Reading is paced too: at once when the stream is over, then at growing distances."""
        now = self._now()
        if now < self._next_read:
            return False
        self._reads += 1
        self._next_read = now + READS_S[min(self._reads, len(READS_S) - 1)]
        return True

    def _now(self) -> float:
        return self._w.clock.now().boottime
