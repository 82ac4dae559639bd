"""One send, in order: the steps between an admitted operation and the end of its turn, each with its reason.

> At most one send request is released by the page per operation id, across threads, processes, crashes and restarts that share one
> state directory on a local file system with working flock and fsync, and not restored from a backup. Chrome's own network stack may
> repeat that very request, with the same message id, when a connection dies before any answer; nothing above it can see that.

Runs in the worker, which owns locks, gate and log for the whole turn. Everything up to the commit can fail safely; between commit and
release the worker is the witness who knows whether something left; after the release only ids decide. Ends with the operation's row
settled as far as it can be known here; the caller builds the document from ledger and log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from gptbridge.core import attachments, pacing
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, failure_of
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import NEW, choice, draft_digest
from gptbridge.core.pacing import Stamp
from gptbridge.core.page_request import Held, Upload
from gptbridge.core.ports import Gate, Page, PageFacts, Seat, SeatLock, Session, World
from gptbridge.flow import burying, recording, registering, snapshots
from gptbridge.flow.answering import Answering
from gptbridge.flow.attaching import Attaching
from gptbridge.flow.custody import Custody, Refused
from gptbridge.flow.line import Line
from gptbridge.flow.telling import tell

CHAT_MODES = ("primary_assistant", "gizmo_interaction")  # of a request (web client, 2024 .. 2026-11); Work has another
ROOM_BYTES = 64 * 2**20
RETRY_S = 15.0  # between tries of a page that does not load
POLL_S = 0.25
ASIDE_S = 2.0  # after a send that was failed by the open gate: how long one that can be held is still waited for


class Stopped(Exception):
    """Nobody waits any more, and nothing has left."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Sending:
    """One operation's way through the gate. `run` is the order; nothing else calls the steps."""

    def __init__(self, world: World, custody: Custody, operation: Operation, prompt: str) -> None:
        self._w, self._custody, self._op, self._prompt = world, custody, operation, prompt
        self._id = operation.operation_id
        self._deadline = world.clock.now().boottime + world.settings.queue_wait
        self._places = ExitStack()
        self._place: SeatLock
        self._seat: Seat | None = None
        self._session: Session
        self._parent: str | None = None
        self._line: Line
        self._uploads: tuple[Upload, ...] = ()  # of our files, each ready
        self._chips = 0  # that stand for them
        self._choice = ""  # what the page's picker shows once model and effort are chosen
        self._committed = 0.0  # boottime of the durable commit
        self._held: Held | None = None
        self._pressed = False
        self._noted = 0  # sends that the gate had failed before it was opened
        self._released = False

    # The order

    def run(self) -> None:
        try:
            self._prepare()
            while True:
                self._line.wait()
                self._type()
                if self._commit():
                    break
                self._page.untype()  # another one of the account came first: nothing waits in a composer while the line moves
            self._press()
            held = self._pass_gate()
            Answering(self._w, self._custody, self._op, self._prompt, self._page, self._gate, self._places, held).run()
        except Stopped as stopped:
            self._settle_stop(stopped.by)
        except Failure as failure:
            self._settle(failure)
        except Refused as refused:  # the ledger says that this is not ours any more: no click follows, and nothing is written
            self._shut()
            raise Failure("state-corrupt", f"operation {self._id}: {refused}", f"ask-gpt ops show {self._id}") from refused
        except BaseException:
            self._shut()  # a held request must be failed before anything is closed: closing can let it go
            raise
        finally:
            self._leave()

    # 2. Places, page and proof: still queued, all of this can fail safely

    def _prepare(self) -> None:
        w, target = self._w, self._op.target
        self._heed()  # a stop that is on record comes before whatever else keeps it from being sent
        w.logs.prepare()
        w.registry.check()  # a registry that cannot take the new conversation's row is found out before the click, not after it
        self._patiently(lambda: burying.bury_the_dead(w))
        if target != NEW:
            if w.registry.get(target) is None:  # nobody says whose it is: it is not even opened
                raise Failure("unknown-conversation", f"conversation {target} is not in the registry; nothing was sent",
                              f"begun elsewhere? ask-gpt bootstrap-registry --conversation {target}")
            # Before navigating, and held to the end of the turn: two turns in one conversation would take each other's parent.
            self._places.enter_context(w.locks.conversation(target, wait_s=self._left(), heed=self._heed))
        self._place = self._places.enter_context(w.locks.seat(wait_s=self._left(), heed=self._heed))
        self._patiently(self._open)
        self._op = self._custody.ready(self._id, self._session.account)
        self._line = Line(w, self._custody, self._op, self._session.account, self._heed)

    def _patiently(self, prepare: Callable[[], None]) -> None:
        """A page that does not load, a Chrome that does not answer: tried anew while there is time to wait before the send."""
        while True:
            try:
                prepare()
                return
            except Failure as failure:
                if not failure.again or self._left() <= RETRY_S:
                    raise
                self._close_seat()
                self._custody.note(self._id, "the page or an upload failed", blocking_reason=failure.slug)
                self._w.caller.emit({"type": "waiting", "message": f"{failure.message} It is tried again every {RETRY_S:.0f} s, for at "
                                     f"most {self._left():.0f} s more; Ctrl-C sends nothing"})
                self._sleep(RETRY_S)

    def _open(self) -> None:
        w, target = self._w, self._op.target
        burying.bury_the_dead(w, self._place)  # again: an owner may have died while the locks were waited for
        window, self._seat = w.browser.seat(self._place.number)
        self._place.note_window(window)
        # Armed closed before the first navigation: a page that sends by itself while it loads must find a closed gate.
        self._gate.arm()
        self._heed()
        try:
            self._page.open(None if target == NEW else target)
        except Failure as failure:
            if failure.slug == "unknown-conversation":
                self._prove()  # another account is the likelier reason why the site does not open it, and is named
            raise
        self._prove()
        if target != NEW:
            document = self._page.conversation(target)
            site = read_conversation(document, conversation_id=target)
            if not site.turns:
                raise Failure("unknown-conversation", f"conversation {target} holds no turn; nothing was sent", "")
            self._parent = site.newest_node_id
            recording.hydrate(w, site, target, self._session.account, w.ledger.view())
            registering.retitle(w, target, site.title)
            tell(w, w.turn.named(target, recording.url_of(w, target)))
        self._empty_composer()
        if self._op.model or self._op.effort:
            self._page.choose(self._op.model, self._op.effort)
            self._choice = self._page.facts().choice
        if self._op.files:
            self._uploads = Attaching(w, self._op, self._page, self._gate, self._heed).run()
            self._chips = self._page.facts().chips

    def _prove(self) -> None:
        self._session = self._page.session()
        self._check_account()

    def _check_account(self) -> None:
        """As bound: by config, by the registry for a known conversation."""
        w, current = self._w, self._session.account
        registered = w.registry.get(self._op.target) if self._op.target != NEW else None
        for expected, whose in ((registered.account if registered else None, "the conversation belongs to"),
                                (w.settings.account, "the configuration names")):
            if expected is not None and expected != current:
                raise Failure("account-mismatch", f"{whose} account {expected}, but the page is signed in as {current}; nothing was sent",
                              "sign in with the other account: ask-gpt login")

    def _empty_composer(self) -> None:
        """A draft that is one of our own prompts, with the files of one of our operations or none, is cleared; any other is a person's,
        and is never sent with ours (SM-27, CR-19)."""
        facts = self._page.facts()
        self._check_place(facts)
        if facts.composer or facts.chips:
            view = self._w.ledger.view()
            is_our_text = not facts.composer or view.of_prompt(draft_digest(facts.composer))
            files = [sorted(str(row["sent_name"]) for row in attachments.rows(op.files)) for op in view.operations.values() if op.files]
            if not is_our_text or (facts.chips and sorted(self._page.files().labels) not in files):
                raise Failure("needs-human", "the composer holds a draft that is not ours; nothing was sent",
                              "send or delete that draft in the browser, then run this again")
            self._page.clear()

    # 3 and 4. The line, the text, and the commit

    def _type(self) -> None:
        """Typed last and read back whole; text that vanished may be typed once more, but only if the closed gate saw no send."""
        for last in (False, True):
            self._gate.watch(self._prompt)
            self._page.type(self._prompt)
            facts = self._page.facts()
            self._check_place(facts)
            if (self._op.model or self._op.effort) and facts.choice != self._choice:
                raise Failure("site-changed", f"the page did not keep the model and effort that were chosen{_says(facts.notice)}; "
                              "nothing was sent", "look at the page: ask-gpt login")
            if facts.composer == self._prompt and facts.chips == self._chips:
                return
            if facts.chips < self._chips:
                raise Failure("site-changed", f"the page lost {self._chips - facts.chips} of the files; nothing was sent", "try again")
            if last or self._gate.notes():
                break
            self._page.untype() if self._uploads else self._page.clear()
        raise Failure("site-changed", "the composer did not keep the text exactly as given; nothing was sent",
                      "try again; a long text may be too long for the page")

    def _check_place(self, facts: PageFacts) -> None:
        target = self._op.target
        if facts.conversation_id != (None if target == NEW else target):
            # A missing conversation redirects to the home page: typing there would start a new chat.
            raise Failure("unknown-conversation", f"the page left conversation {target}; nothing was sent", "look at it in a browser")
        if facts.composer is None:
            raise Failure("site-changed", "the page shows no composer; nothing was sent", "look at the page: ask-gpt login")
        if facts.covered:
            try:
                self._page.listing(0, 1)  # too many requests, in whatever language the dialog says so: then the list is refused, too
            except Failure as failure:
                message = f"something lies over the page, and {failure.message}; nothing was sent"
                raise Failure(failure.slug, message, failure.hint) from None
            raise Failure("needs-human", "something lies over the page and waits for a person; nothing was sent and nothing was pressed",
                          "answer it by hand: ask-gpt login")
        if facts.mode != "chat":
            raise Failure("site-changed", f"the page stands in another mode ({facts.mode}); nothing was sent",
                          "switch it back to Chat by hand")
        if facts.temporary:
            raise Failure("site-changed", "the page shows a temporary chat; nothing was sent", "leave the temporary chat by hand")
        if facts.tools:
            raise Failure("site-changed", "a tool is switched on in the page's composer; nothing was sent",
                          "switch it off by hand: ask-gpt login")

    def _commit(self) -> bool:
        """`claimed`, `dispatched` and the stamp, durable in this order, before any click: the stamp may then never name a record that a
        crash lost. False when it is not our turn after all."""
        w, account = self._w, self._session.account
        typed = w.clock.now().boottime
        if self._page.session().account != account:
            raise Failure("account-mismatch", "the page changed its account before the click; nothing was sent", "ask-gpt login")
        with w.locks.dispatch():
            self._heed()
            w.locks.probe()
            if w.host.free_bytes() < ROOM_BYTES:
                raise Failure("state-unwritable", "less than 64 MiB are free where the ledger lies; nothing was sent", "make room")
            if w.clock.now().boottime - typed > pacing.TURN_S or self._line.gap_left() > 0.0:
                return False
            claimed = self._custody.claim(self._id, account, first=self._line.may_go)
            if claimed is None:
                return self._lost_turn()
            self._op = claimed
            dispatched = self._custody.dispatch(self._id)
            if dispatched is None:
                raise Refused("its claim is not in the ledger")
            self._op = dispatched
            now = w.clock.now()
            self._committed = now.boottime
            w.stamps.write(account, Stamp(now.wall, now.boottime, now.boot_id, dispatched.seq))
        return True

    def _lost_turn(self) -> bool:
        op = self._w.ledger.view().get(self._id)
        if op is None or op.state is not State.QUEUED or op.epoch != self._w.owner.epoch:
            raise Refused("another process settled it")
        self._heed()  # a stop that came while we waited for the lock
        return False

    # 5. One click

    def _press(self) -> None:
        """No loop stands around the click, and after it nothing is typed again."""
        if self._age() > pacing.COMMIT_TO_CLICK_S:
            raise Failure("browser", "this process was held up between commit and click; nothing was sent", "run it again under a new id")
        self._noted = len(self._gate.notes())
        self._gate.open_once()
        self._pressed = True
        try:
            self._page.press()
        except Failure:
            pass  # a click that reports failure may still have happened: only the gate can tell

    # 6. The gate: the id is on disk before the request may leave

    def _pass_gate(self) -> Held:
        held = self._wait_for_request()
        self._held = held
        difference = self._difference(held)
        if difference is not None:
            raise difference
        # The id first: killed from here on, this process leaves a request that can be found by it, should it have been let go.
        self._op = self._custody.held(self._id, held.user_message_ids[0], held.parent_message_id, self._uploads)
        if self._page.session().account != self._session.account:
            raise Failure("account-mismatch", "the page changed its account at the click; the request was not released", "ask-gpt login")
        # Stop and age last, behind all that takes time: this process may have stood still for an hour in any call before them, and a person
        # may have asked for a stop meanwhile.
        self._heed_stop()
        if self._age() > pacing.HELD_S:
            raise Failure("browser", "the request was held too long; it was not released", "run it again under a new id")
        self._released = True  # from here on only an answer of the gate can say that nothing left
        if not self._gate.release(held):
            self._released = False
            self._held = None
            raise Failure("site-changed", "the page took its request back, or a part of the gate was gone; nothing was sent",
                          "run it again under a new id")
        self._op = self._custody.released(self._id)
        return held

    def _wait_for_request(self) -> Held:
        until = self._w.clock.now().boottime + pacing.CLICK_TO_REQUEST_S
        while self._w.clock.now().boottime < until:
            held = self._gate.wait(POLL_S)
            if held is not None:
                return held
            if self._gate.lost:
                break
            self._heed_stop()
            if len(self._gate.notes()) > self._noted:  # it did answer the click, by a way that cannot be held; nothing else will come
                until = min(until, self._w.clock.now().boottime + ASIDE_S)
        ways = sorted({note.kind for note in self._gate.notes()[self._noted:]})
        if ways:
            raise Failure("site-changed", f"the page's request came by a way that cannot be held ({', '.join(ways)})",
                          "ask-gpt may need an update for the site")
        if self._gate.lost:
            raise Failure("browser", "the window was gone before the page made a request", "run it again under a new id")
        raise Failure("site-changed", "the page made no request within 30 s of the click", "look at the page: ask-gpt login")

    def _difference(self, held: Held) -> Failure | None:
        """What the page was about to send, compared with what was admitted; any difference is named, and nothing else is sent."""
        op, hint = self._op, "ask-gpt ops show " + self._id
        expected = None if op.target == NEW else op.target
        if not held.readable or len(held.user_message_ids) != 1 or held.other_messages:
            return Failure("site-changed", "the page's request does not hold exactly one message of the user", hint)
        if held.user_texts[0] != self._prompt:
            return Failure("bad-input", "the page's request holds another text than was given", hint)
        if held.account_id is not None and self._session.account_id not in (None, held.account_id):
            return Failure("account-mismatch", "the page's request names another account", hint)
        checks = (("action", held.action, "next"), ("conversation", held.conversation_id, expected),
                  ("temporary chat", held.temporary, False), ("tools", held.tools, ()),
                  ("mode", held.mode if held.mode not in CHAT_MODES else None, None))
        for name, found, wanted in checks:
            if found != wanted:
                return Failure("site-changed", f"the page's request differs from what was admitted: {name}", hint)
        files = attachments.difference(self._uploads, held.attachments)
        if files is not None:
            return Failure("site-changed", f"the page's request differs from what was admitted: {files}", hint)
        if expected is not None and held.parent_message_id != self._parent:
            return Failure("site-changed", "the page's request hangs on another message than the newest that was read: parent", hint)
        for name, found, chosen in (("model", held.model, op.model), ("effort", held.effort, op.effort)):
            if chosen not in (None, found):
                return Failure("site-changed", f"the page's request is for {name} {_word(found)}, not {chosen} as asked for and chosen"
                               f"{_says(self._notice())}", hint)
        return None

    def _notice(self) -> str:
        """What the page says beside its request, if it still answers."""
        try:
            return self._page.facts().notice
        except Failure:
            return ""

    # Ends

    def _settle(self, failure: Failure) -> None:
        """The witness's verdict. After the click, `rejected` needs proof: the gate let nothing through, was attached to the end, and no
        request, beacon or socket frame carried the text."""
        nothing_left = self._shut(failure)
        if nothing_left and not failure.says_unsent:
            failure.message = f"{failure.message.rstrip('.')}; nothing was sent"
        elif not nothing_left and failure.says_unsent:
            failure.message = f"{failure.cause}; whether the message was sent is not known"
        op = self._w.ledger.view().get(self._id)
        if op is None or op.ended or op.state in (State.ACCEPTED, State.UNCERTAIN):
            raise failure
        try:
            self._op = self._custody.fail(self._id, failure, nothing_left=nothing_left)
        except Failure:
            self._w.ledger.reopen()  # the failed append was the last word of that descriptor; the witness may open anew, once
            try:
                self._op = self._custody.fail(self._id, failure, nothing_left=nothing_left)
            except Failure as unwritten:
                if nothing_left:
                    raise
                raise self._unrecorded(unwritten) from unwritten
        self._log_failure(failure_of(self._op) or failure)  # a stop on record comes before what the page did

    def _unrecorded(self, failure: Failure) -> Failure:
        """The verdict itself cannot be written: what the exit says of the message must be right all the same (DU-04)."""
        if self._released:
            return Failure("record-failed", f"the message was sent, but {failure.cause}", f"ask-gpt resume {self._id}")
        return Failure("uncertain", f"it is not known whether the message left, and {failure.cause}", f"ask-gpt ops show {self._id}")

    def _settle_stop(self, by: str) -> None:
        """Only before the commit: after it the caller's stop ends its patience, not the operation."""
        self._shut()
        slug = {"interrupt": "interrupted", "person": "stopped"}.get(by, "terminated")
        failure = Failure(slug, "stopped before the message left; nothing was sent", "" if by == "person" else "run it again",
                          durable=by == "person")
        try:
            self._op = self._custody.stop(self._id, by, failure)
        except Refused:
            return  # this process stood still, and its front recorded the stop when it left
        self._log_failure(failure)

    def _shut(self, why: Failure | None = None) -> bool:
        """Close the gate for good, failing what it holds. True: proof that nothing left.

        After the click the proof is complete only when the window is gone: a page may still send while it closes, and the gate, which
        stays attached until then, fails that too (GT-06).
        """
        if self._seat is None:
            return not self._pressed
        gate, refused = self._gate, True
        if self._held is not None and not self._released:
            refused = gate.refuse(self._held)
        gate.shut()
        if why is not None:
            snapshots.keep(self._w, self._page, why)
        if not self._pressed:
            return True
        self._close_seat()
        return refused and not self._released and gate.connected and gate.traces() == 0

    def _log_failure(self, failure: Failure) -> None:
        try:
            recording.write_turn(self._w, self._op, self._prompt, None, state="failed", failure=failure, phase="attaching")
        except Failure as unwritten:
            self._w.caller.emit({"type": "warning", "message": unwritten.message})

    def _leave(self) -> None:
        """Last act: window closed behind a closed gate, the stamp's number raised to the operation's last record, locks free."""
        self._close_seat()
        try:
            if self._op.files:
                self._w.spool.unstage(self._id)
            op = self._w.ledger.view().get(self._id)
            # A stamp that names a record whose fsync failed would have the next power cut look like a loss.
            if op is not None and op.dispatched_at is not None and op.account is not None and self._w.ledger.sound:
                self._w.stamps.raise_seq(op.account, op.seq)
        except Failure as failure:
            self._w.caller.emit({"type": "warning", "message": failure.message})
        finally:
            self._places.close()

    def _close_seat(self) -> None:
        if self._seat is not None:
            burying.close(self._place, self._seat)
            self._seat = None

    # Small things

    @property
    def _page(self) -> Page:
        assert self._seat is not None
        return self._seat.page

    @property
    def _gate(self) -> Gate:
        assert self._seat is not None
        return self._seat.gate

    def _age(self) -> float:
        return self._w.clock.now().boottime - self._committed

    def _left(self) -> float:
        return max(self._deadline - self._w.clock.now().boottime, 0.0)

    def _sleep(self, seconds: float) -> None:
        until = self._w.clock.now().boottime + seconds
        while (left := until - self._w.clock.now().boottime) > 0.0:
            self._heed()
            self._w.clock.sleep(min(left, 1.0))

    def _stop_asked(self) -> bool:
        op = self._w.ledger.view().get(self._id)
        return op is not None and op.stop_at is not None

    def _heed_stop(self) -> None:
        """Between click and release: a stop that was asked for with `ops stop` still keeps the request from leaving."""
        if self._stop_asked():
            raise Failure("stopped", "stopped at the gate; the request was not released", durable=True)

    def _heed(self) -> None:
        """Before the commit: nobody sends what nobody waits for any more."""
        wish = self._w.caller.wants()
        if wish is not None:
            raise Stopped(wish)
        if self._stop_asked():
            raise Stopped("person")
        if self._w.caller.gone():
            raise Stopped("front")
        if self._left() <= 0.0:
            during = " while its files were uploaded" if self._op.files and not self._uploads else ""
            raise Failure("busy", f"the time to wait before sending (--queue-wait) is over{during}; nothing was sent", "run it again later")


def _says(notice: str) -> str:
    return f"; the page says: {notice}" if notice else ""


def _word(found: str | None) -> str:
    """A word of the page's request, for a message: anything else than a plain word is not repeated."""
    try:
        return choice(found or "") or "of its own choice"
    except ValueError:
        return "of another name"
