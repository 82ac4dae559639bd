"""From the released request to the end of its turn: refusal, receipt, final answer, log and registry.

Identity comes from ids alone: the request's own message id, and the one that the site's stream gives it. The stream tells early which
conversation took the message; the conversation JSON decides the text and the end (design 8). Silence, commentary or a stop button prove
nothing, and nothing is pressed. What fails here never unsends: the worst end of this module is an accepted operation whose answer is
read later, or an uncertain one that its recorded id resolves.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

from gptbridge.core.brought import Brought
from gptbridge.core.conversation import SiteTurn, completed_by, find_message
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.exchange import FILTERED
from gptbridge.core.heard import Heard
from gptbridge.core.ledger import Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import NEW
from gptbridge.core.page_request import Held
from gptbridge.core.ports import Gate, Page, World
from gptbridge.core.stream import ConversationNamed, InputMessage, MessageState, ReplyStream, SiteError, Title
from gptbridge.flow import collecting, reconciling, recording, refusals, registering, snapshots
from gptbridge.flow.belonging import LATE_S
from gptbridge.flow.custody import Custody, Receipt
from gptbridge.flow.questions import Questions
from gptbridge.flow.telling import tell

CHUNK_S = 0.5
HEAD_BYTES = 64 * 2**10
ATTEND_S = 0.5
ASLEEP_S = 120.0  # longer than anything that this module waits for at a time
STOP_S = 15.0  # after the press, how long the site's own word is waited for
UNNAMED_S = 60.0  # how long after its end a reply's conversation is looked for before the operation is left uncertain
READS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # pauses between reads of the conversation once the stream is over; the last repeats
# How long the conversation may be refused, one read after another, before its answer is left to a later reading; others: UNREAD_S.
PATIENCE_S = {"unknown-conversation": LATE_S, "rate-limited": math.inf, "browser": 120.0}
UNREAD_S = 15.0
THROTTLED_S, THROTTLED_MOST_S = 60.0, 300.0  # pause after a read that was one too many, doubled each time up to the second
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
        self._heard = Heard()
        self._conversation_id = None if operation.target == NEW else operation.target
        self._turn_id: str | None = None
        self._title: str | None = None
        self._head = b""  # the beginning of the reply: a refusal of the site is one JSON body, not a stream
        self._give_up = world.clock.now().boottime + world.settings.give_up
        self._awake_at = world.clock.now().boottime
        self._ended_at: float | None = None  # boottime of the stream's end
        self._next_read = 0.0
        self._attended_at = 0.0
        self._pressed_at = 0.0
        self._reads = self._throttled = 0
        self._refused_since: float | None = None  # boottime of the first of the reads that were refused, up to now
        self._refusal: Failure | None = None  # of the last of them
        self._error: SiteError | None = None  # what the stream said went wrong
        self._questions = Questions(world, page)

    def run(self) -> None:
        self._w.turn.submitted()
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
        self._wake()
        if self._ended_at is None and self._gate.reply_ended is not None and not chunk:
            self._ended_at = self._now()

    def _wake(self) -> None:
        """Time in which this process did not run (a laptop's sleep, SIGSTOP) does not count: what came meanwhile is looked at first."""
        now = self._now()
        if now - self._awake_at > ASLEEP_S:
            self._give_up += now - self._awake_at
            self._ended_at = self._ended_at and now
            self._refused_since = self._refused_since and now
        self._awake_at = now

    def _attend(self) -> None:
        """Twice a second: a front that is gone is noted, and a stop that a person asked for is carried out, once."""
        now = self._now()
        if now < self._attended_at + ATTEND_S:
            return
        self._attended_at = now
        if self._refusal is None:  # what lies over a page that is refused its reads is no question of a tool
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
        if message.role == "assistant":
            self._turn_id = self._turn_id or message.turn_id
        if self._heard.take(message) and self._w.caller.keeps_up():
            self._observe()

    def _observe(self) -> None:
        if self._w.turn.speaks:
            tell(self._w, self._w.turn.observe(*self._heard.texts))

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
        tell(w, w.turn.named(conversation_id, recording.url_of(w, conversation_id)))

    def _refused(self, status: int) -> None:
        """The site's own 4xx without a stream: it took nothing (GT-17)."""
        while self._gate.reply_ended is None and self._now() < self._give_up:
            self._listen()
        failure, refusal = refusals.read(status, self._head, self._id)
        snapshots.keep(self._w, self._page, failure)
        self._op = self._custody.fail(self._id, failure, nothing_left=True, refusal=refusal)
        recording.write_turn(self._w, self._op, self._prompt, None, state="failed", failure=failure, phase=self._w.turn.phase)

    # 8 and 9. The final answer, and its records

    def _follow(self) -> None:
        while True:
            self._listen()
            over = self._now() > self._give_up  # then one last look: a stream may have missed the end
            if (over or (self._ended_at is not None and self._read_is_due())) and self._is_ended_by_site():
                return
            if over:
                break
        why = f"; the last time it was looked for, {self._refusal.cause}" if self._refusal is not None else ""
        self._write(None, "interrupted", Failure("answer-lost", f"no final answer came in the time given (give_up){why}",
                                                 f"ask-gpt resume {self._id}"))
        self._op = self._custody.end_turn(self._id, "abandoned", "give_up reached")

    def _is_ended_by_site(self) -> bool:
        """Read the conversation; True when its account ended the turn, which is recorded then."""
        try:
            document = self._page.conversation(self._known_conversation)
        except Failure as failure:
            self._bear(failure)
            return False
        self._refused_since, self._refusal, self._throttled = None, None, 0
        title = read_conversation(document, conversation_id=self._known_conversation).title
        for message_id in sorted(self._message_ids):
            turn = completed_by(document, message_id, ended=self._stream.finished)
            if turn is not None:
                self._completed(turn, title)
                return True
            found = find_message(document, message_id)
            seen = found.answer_turn if found is not None else None
            if seen is None:
                continue
            if seen.state in ("failed", "stopped"):
                self._ended(seen, seen.state, title)
                return True
            if seen.state in ("empty", "incomplete") and self._error is not None and self._reads >= AFTER_ERROR:
                self._ended(seen, "failed", title)  # its error is the site's last word: nothing more was stored
                return True
            if self._ended_at is not None and self._heard.overtake(seen.thinking or "", seen.answer or ""):
                self._observe()
        return False

    def _bear(self, failure: Failure) -> None:
        """A read that was refused: raised when it was refused for too long, else it is read again. The site may know of a conversation
        late, throttle, ask who this is, or be out of reach for a moment; the answer is there all the same."""
        now = self._now()
        if self._refused_since is None:
            self._refused_since = now
        self._refusal = failure
        if self._gate.lost or now - self._refused_since > PATIENCE_S.get(failure.slug, UNREAD_S):
            raise failure
        if failure.slug == "rate-limited":
            pause = min(THROTTLED_S * 2 ** self._throttled, THROTTLED_MOST_S)
            self._next_read = now + pause
            if not self._throttled:
                self._w.caller.emit({"type": "warning", "message": f"the message was sent, and {failure.cause}; its answer is looked for "
                                     f"again after {pause:.0f} s, then at growing distances"})
            self._throttled += 1

    def _completed(self, turn: SiteTurn, title: str | None) -> None:
        tell(self._w, self._w.turn.response_done(turn.thinking or "", turn.answer or ""))
        files = self._collect(turn)
        # Log and registry before the record: whoever reads `completed` (a follower, a replay) finds the turn; a crash in between leaves an
        # accepted operation that is completed by the next reading, and its turn, known by its id, is not written twice.
        recording.write_turn(self._w, self._op, self._prompt, turn, state="completed", files=files)
        registering.retitle(self._w, self._known_conversation, title or self._title)
        self._op = self._custody.complete(self._id, title=title or self._title, site_model=turn.model, site_effort=turn.effort)

    def _collect(self, turn: SiteTurn) -> list[Brought]:
        """What the turn made, before its record: a file that cannot be had is in the list and changes nothing else (FA-15, LO-03)."""
        self._w.turn.collecting()
        return collecting.of_turn(self._w, self._page, self._known_conversation, turn)

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
        if failure is not None:
            snapshots.tell(self._w, self._page, failure)
        self._write(turn, state, failure)
        registering.retitle(self._w, self._known_conversation, title)
        self._op = self._custody.end_turn(self._id, state, f"the site shows the turn as {state}", **facts)

    def _interrupted(self, failure: Failure) -> None:
        """Page or browser went away, or the site gives nothing any more: what was said so far is kept and marked; the row stays where its
        last record put it. Whoever failed does not know that the message had left, so it is said anew."""
        self._op = self._w.ledger.view().operations[self._id]
        if self._op.state is State.DISPATCHED:
            lost = Failure("uncertain", f"the request left, but {failure.cause}; whether the site took it is not known")
            self._op = self._custody.fail(self._id, lost, nothing_left=False)
        if failure.slug in ("state-unwritable", "state-corrupt"):
            raise self._unrecorded(failure) from failure
        what = "was sent" if self._op.state is not State.UNCERTAIN else "may have been sent"
        said = Failure(failure.slug, f"the message {what}, but {failure.cause}; no worker follows it any more",
                       f"{'ask-gpt login, then ' if failure.slug == 'needs-human' else ''}ask-gpt resume {self._id}")
        snapshots.tell(self._w, self._page, failure)
        try:
            self._write(None, "interrupted", said)
        except Failure as unwritten:
            raise self._unrecorded(unwritten) from unwritten
        self._w.caller.emit({"type": "warning", "message": f"{said.message}. To read it: {said.hint}"})

    def _unrecorded(self, failure: Failure) -> Failure:
        return Failure("record-failed", f"the message was sent, but {failure.cause}", f"ask-gpt resume {self._id}")

    def _write(self, turn: SiteTurn | None, state: str, failure: Failure | None) -> None:
        self._observe()
        said = self._w.turn
        recording.write_turn(self._w, self._op, self._prompt, turn, state=state, thinking=said.thinking, answer=said.answer or None,
                             failure=failure, phase=said.phase)

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
