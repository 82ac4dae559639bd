"""Reading back: a bare `resume` sends nothing, brings the log up to date and says what the newest turn is.

For an operation it gives the answer to that very message, found by its recorded id; for a conversation its last turn, whoever began it.
An uncertain operation whose message is seen becomes accepted here, with its evidence. Hydration never changes a state by itself.

Pace: a bare `resume` of a conversation reads its JSON once, nothing else; looking for a new conversation's message reads at most 10
(reconciling.py); a sweep reads at most 20 a run (hydrating.py); two reads are apart as core/pacing.py says. A refusal for too many requests
ends it, and nothing is read again because it was refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from gptbridge.core.conversation import SiteConversation, SiteTurn, completed_by, find_message
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Actor, Operation
from gptbridge.core.lifecycle import State
from gptbridge.core.ports import Page, Unread, World
from gptbridge.flow import belonging, burying, logged, reconciling, recording, registering, reporting, snapshots
from gptbridge.flow.custody import Custody
from gptbridge.flow.telling import begin, tell, tell_followed

FOLLOW_S = 0.2


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was found: `slug` ok, still-answering, answer-failed, answer-lost, uncertain or the row's own; `warning` for a person."""

    slug: str
    conversation_id: str | None
    operation: Operation | None
    user_message_id: str | None = None
    warning: str | None = None


def read_back(w: World, custody: Custody, *, conversation_id: str | None = None, operation_id: str | None = None) -> ReadBack:
    """`resume ID|OPERATION` without a prompt. Exactly one of the two is given."""
    begin(w, operation_id)
    custody.recover()
    until = w.clock.now().boottime + w.settings.wait
    heed = heeding(w)
    op = w.ledger.view().get(operation_id) if operation_id is not None else None
    if operation_id is not None:
        if op is None:
            raise Failure("bad-input", f"operation {operation_id} is not in the ledger", "ask-gpt ops list")
        op = _followed(w, custody, op, until, heed)
        if op.sent == "no" or _runs(w, op):
            return ReadBack(op.slug, op.conversation_id, op)
        conversation_id = op.conversation_id or (op.target if op.kind == "resume" else None)
    else:
        assert conversation_id is not None
        holder = _holder(w, conversation_id)
        if holder is not None and w.locks.is_held(conversation_id):
            # A worker of ours holds the conversation: follow it without the lock, at most `--wait`.
            begin(w, holder.operation_id)
            now = _followed(w, custody, holder, until, heed)
            if now.sent != "no" and _runs(w, now):
                return ReadBack(now.slug, conversation_id, now)
    return _look(w, custody, op, conversation_id, until, heed)


def _followed(w: World, custody: Custody, op: Operation, until: float, heed: Callable[[], None]) -> Operation:
    """The row when its live worker is done with it, or as it stands when patience ends."""
    while True:
        custody.recover()
        now = w.ledger.view().operations[op.operation_id]
        tell_followed(w, now)
        if now.ended or now.state is State.UNCERTAIN or w.owner.is_dead(now.epoch) or w.clock.now().boottime >= until:
            return now
        heed()
        w.clock.sleep(FOLLOW_S)


def _holder(w: World, conversation_id: str) -> Operation | None:
    """The operation of a live worker that holds the conversation; while none says so the first of those that wait for it."""
    live = [op for op in w.ledger.view().of_conversation(conversation_id) if _runs(w, op)]
    return min(live, key=lambda op: (op.waiting, op.order), default=None)


def _runs(w: World, op: Operation) -> bool:
    """Its worker lives and goes on: it sees more than a look at the page would show, and must not be disturbed."""
    if op.ended or op.state is State.UNCERTAIN:
        return False
    return op.epoch != w.owner.epoch and not w.owner.is_dead(op.epoch)


def _look(w: World, custody: Custody, op: Operation | None, conversation_id: str | None, until: float,
          heed: Callable[[], None]) -> ReadBack:
    with ExitStack() as places:
        left = max(until - w.clock.now().boottime, 0.0)
        expected = op.account if op is not None else None
        if conversation_id is not None:
            expected = belonging.bound_account(w, conversation_id)
            burying.bury_the_dead(w)
            try:
                places.enter_context(w.locks.conversation(conversation_id, wait_s=left, heed=heed))
            except Failure as failure:
                going = op or _holder(w, conversation_id)  # the next of the conversation may have taken it meanwhile
                if failure.slug == "busy" and going is not None and (going is op or going.sent != "no"):
                    return ReadBack(going.slug, conversation_id, going)
                if failure.slug == "busy" and going is not None:
                    raise Failure("busy", f"operation {going.operation_id} has the conversation and still waits to be sent; nothing was "
                                  "sent yet", f"ask-gpt resume {going.operation_id} follows it, ask-gpt ops stop "
                                  f"{going.operation_id} gives it up") from failure
                raise
        page, account = reader(w, places, heed, wait_s=left)
        _check_account(expected, account)
        if conversation_id is None:
            assert op is not None
            sighting = reconciling.find(w, page, op, heed=heed) if not op.ended else None
            if sighting is None:
                return ReadBack(op.slug, None, op)
            conversation_id = sighting.conversation_id
            places.enter_context(w.locks.fresh_conversation(conversation_id))
        found = _read(w, custody, page, op, conversation_id, account)
        if found.slug == "answer-failed":
            snapshots.tell(w, page, Failure(found.slug, "the site failed to answer"))
        return found


def window(w: World, places: ExitStack, heed: Callable[[], None], *, wait_s: float = 3600.0) -> Page:
    """A window that only reads: its gate armed closed, nothing opened in it yet. It closes, and its seat is free, when `places` ends."""
    place = places.enter_context(w.locks.seat(wait_s=wait_s, heed=heed))
    burying.bury_the_dead(w, place)
    name, seat = w.browser.seat(place.number)
    place.note_window(name)
    places.callback(burying.close, place, seat)
    seat.gate.arm()  # reading needs no send: whatever this page tries is failed
    return seat.page


def reader(w: World, places: ExitStack, heed: Callable[[], None], *, wait_s: float = 3600.0) -> tuple[Page, str]:
    """A page that only reads, and the account that is signed in there. Its window closes, and its seat is free, when `places` ends."""
    page = window(w, places, heed, wait_s=wait_s)

    def note(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Failure):
            snapshots.keep(w, page, error)

    places.push(note)
    page.open(None)
    return page, page.session().account


def entered(w: World, places: ExitStack, conversation_id: str, heed: Callable[[], None], until: float) -> tuple[Page, str]:
    """The conversation's lock, then a page that only reads, signed in as the account that the conversation belongs to; both are waited for
    until that moment (boottime). Unknown to registry and ledger: refused before any browser."""
    expected = belonging.bound_account(w, conversation_id)
    burying.bury_the_dead(w)
    places.enter_context(w.locks.conversation(conversation_id, wait_s=max(until - w.clock.now().boottime, 0.0), heed=heed))
    page, account = reader(w, places, heed, wait_s=max(until - w.clock.now().boottime, 0.0))
    _check_account(expected, account)
    return page, account


def _check_account(expected: str | None, account: str) -> None:
    if expected is not None and expected != account:
        raise Failure("account-mismatch", f"the conversation belongs to account {expected}, but the page is signed in as {account}",
                      "sign in with the other account: ask-gpt login")


def catch_up(w: World, custody: Custody, page: reconciling.Reader, conversation_id: str, account: str, *,
             actor: Actor, listed_at: float | None = None) -> tuple[SiteConversation, list[str]]:
    """Read one conversation and bring everything of ours up to it: rows, log, registry, copy; the ids of the turns that were added.
    `listed_at`: the time of its last change in the site's list, for which it is read.

    The caller holds the conversation's lock. Rows of live workers are left alone: they see more than this.
    """
    document = page.conversation(conversation_id)
    site = read_conversation(document, conversation_id=conversation_id)
    for op in list(w.ledger.view().operations.values()):
        if conversation_id in (op.conversation_id, op.target) or op.conversation_id is None:
            _settle_by_site(w, custody, document, site, op, conversation_id, actor)
    view = w.ledger.view()
    if any(op.conversation_id == conversation_id and op.sent == "yes" for op in view.of_conversation(conversation_id)):
        # A crash between the receipt and the registry row must not leave a conversation of ours unknown.
        registering.register(w, conversation_id, account, site.title or "", site.created_at or w.clock.now().wall)
    added = recording.hydrate(w, site, conversation_id, account, view)
    registering.note_read(w, site, conversation_id, listed_at)
    w.logs.copy(conversation_id)
    return site, added


def _read(w: World, custody: Custody, page: Page, op: Operation | None, conversation_id: str, account: str) -> ReadBack:
    try:
        site, _ = catch_up(w, custody, page, conversation_id, account, actor="resume")
    except Unread as refused:
        return _read_page(w, custody, page, op, conversation_id, account, refused)
    except Failure as failure:
        if failure.slug != "unknown-conversation":
            raise
        belonging.note_lost(w, custody, page, conversation_id, account, actor="resume")
        if op is None:
            raise
        op = w.ledger.view().operations[op.operation_id]  # the exit speaks of the operation, of which the log may hold all
        return ReadBack(op.slug, conversation_id, op, op.site_message_id or op.user_message_id, failure.message)
    tell(w, w.turn.named(conversation_id, recording.url_of(w, conversation_id)))
    view = w.ledger.view()
    warning = None if site.complete else "the site's account of this conversation is incomplete; so is the log"
    if op is not None:
        op = reporting.note_shown(w, custody, view.operations[op.operation_id])
        return ReadBack(op.slug, conversation_id, op, op.site_message_id or op.user_message_id, warning)
    if not site.turns:
        return ReadBack("answer-lost", conversation_id, None, None, warning)
    newest = site.turns[-1]
    slug, said = _verdict(newest, w.clock.now().wall)
    ours = recording.receipt_of(view, (newest.user_message_id or "").lower())
    if ours is not None:
        ours = reporting.note_shown(w, custody, ours)
    return ReadBack(slug, conversation_id, ours, newest.user_message_id or newest.node_ids[0], said or warning)


def _read_page(w: World, custody: Custody, page: Page, op: Operation | None, conversation_id: str, account: str,
               refused: Unread) -> ReadBack:
    """The JSON is refused to a session that lives: what the page shows goes into the log, marked so. It proves nothing, so no row changes:
    an operation of ours is completed by its JSON alone (SM-15)."""
    page.open(conversation_id)  # a throttle dialog, a challenge or another's conversation ends it here
    seen = page.rendered()
    if not seen.turns:
        raise refused
    lacking = f"{seen.missing} of its messages are not in it" if seen.missing else "what else the site has of it is not known"
    warning = f"{refused.message}; its turns were read from the page as it looks, marked so in the log: {lacking}"
    recording.hydrate_rendered(w, seen, conversation_id, account, w.ledger.view(), warning)
    w.logs.copy(conversation_id)
    tell(w, w.turn.named(conversation_id, recording.url_of(w, conversation_id)))
    view = w.ledger.view()
    if op is not None:
        op = view.operations[op.operation_id]
        return ReadBack(op.slug, conversation_id, op, op.site_message_id or op.user_message_id, warning)
    newest = seen.turns[-1]
    said = "ok" if newest.answer is not None else "answer-lost"
    slug = "still-answering" if seen.generating else "answer-failed" if seen.failed else said
    ours = recording.receipt_of(view, newest.user_message_id.lower())
    return ReadBack(slug, conversation_id, ours, newest.user_message_id, warning)


def _settle_by_site(w: World, custody: Custody, document: dict[str, object], site: SiteConversation, op: Operation,
                    conversation_id: str, actor: Actor) -> None:
    """What the conversation itself proves about an operation of ours whose worker is gone: seen, answered, failed, stopped."""
    if op.state not in (State.UNCERTAIN, State.ACCEPTED) or op.ended or not op.message_ids():
        return
    if op.epoch != w.owner.epoch and not w.owner.is_dead(op.epoch):
        return  # its worker lives and sees more than we do
    turn = next((t for t in site.turns if (t.user_message_id or "").lower() in op.message_ids()), None)
    if op.turn_id is None:  # nobody has seen it on the site yet, though a person may say that it is there
        sighted = next((s for m in sorted(op.message_ids()) if (s := find_message(document, m)) is not None), None)
        if sighted is None:
            return
        seen = reconciling.Sighting(conversation_id, sighted, document)
        op = custody.accept(op.operation_id, reconciling.receipt(op, seen), actor=actor,
                            evidence=seen.evidence(recording.url_of(w, conversation_id)))
        turn = turn or sighted.answer_turn
    final = next((t for m in sorted(op.message_ids()) if (t := completed_by(document, m)) is not None), None)
    if final is not None:
        custody.complete(op.operation_id, actor=actor, title=site.title, site_model=final.model, site_effort=final.effort)
    elif turn is not None and turn.state in ("failed", "stopped"):
        custody.end_turn(op.operation_id, turn.state, f"the site shows the turn as {turn.state}", actor=actor)


def _verdict(turn: SiteTurn, now: float) -> tuple[str, str | None]:
    """The newest turn of a conversation, whoever began it and in whatever old format (contract.md)."""
    match turn.state:
        case "completed" | "empty" if turn.answer is not None:
            return "ok", None
        case "stopped":
            return "ok", "the newest answer was stopped before its end"
        case "answering" if logged.may_go_on(turn, now):
            return "still-answering", None
        case "answering" | "incomplete" if turn.answer:
            return "ok", "the newest answer is cut off: the site holds no end of it"
        case "failed":
            return "answer-failed", None
        case _:
            return "answer-lost", None


def heeding(w: World) -> Callable[[], None]:
    """For a command that sends nothing: it ends when its user wants that, or is gone."""
    def look() -> None:
        wish = w.caller.wants()
        if wish is not None or w.caller.gone():
            raise Failure("interrupted" if wish == "interrupt" else "terminated", "stopped; nothing was sent", "run it again")
    return look
