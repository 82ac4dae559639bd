"""One send: the order that nothing may change, and every refusal before the click (SM-07, SM-24, GT-03, RL-04)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.pacing import Gap
from gptbridge.practice import samples
from gptbridge.practice.world import FIRST, Conversation
from tests.edge.crashing import Tap
from tests.flow.world import Ground, Worker

# The order


class Witness(Tap):
    """Notes what becomes durable, in one row with what happens in the page."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._names: dict[int, str] = {}
        self._written: dict[int, bytes] = {}
        super().__init__(self._note)

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "write":
            self._written[args[0]] = args[1]
        elif name == "fsync":
            said = self._written.pop(args[0], b"")
            if b'"provisional":true' in said:
                self.rows.append("fsync registry")
            for word in (b'"queued"', b'"claimed"', b'"dispatched"', b'"accepted"', b'"completed"', b"## turn"):
                if word in said:
                    more = "+released" if b'"released"' in said else "+id" if b'"user_message_id"' in said else ""
                    self.rows.append("fsync " + word.decode().strip('"') + more)
        elif name == "rename":
            self.rows.append("rename " + (args[1] if not args[1].endswith((".log", ".prompt")) else args[1].rpartition(".")[2]))
        elif name == "fsync_dir" and self.rows and self.rows[-1].startswith("rename "):
            self.rows.append("dir " + self.rows[-1].removeprefix("rename "))


def test_the_order_of_one_send(ground: Ground) -> None:
    witness = Witness()
    worker = ground.worker(disk=witness)
    told = ("arm", "open", "session", "paste", "open_once", "click", "held", "release", "sending")
    for what in told:
        worker.on[what] = lambda what=what: witness.rows.append("page " + what)  # type: ignore[misc]
    worker.front.says = lambda event: witness.rows.append("say " + event["type"]) if event["type"] == "meta" else None
    op = worker.send("Hello there")
    assert op.state == "completed" and ground.clicks == 1 and len(ground.sends) == 1
    rows = [row for row in witness.rows if row != "page session" and row != "page read"]
    for wanted in (
            # Spooled, admitted, armed before it navigates, prepared; typed last; then the commit, and only then the click.
            ["rename prompt", "fsync queued", "page arm", "page open", "page paste", "fsync claimed", "fsync dispatched",
             "rename dispatch.stamp", "dir dispatch.stamp", "page open_once", "page click", "page held"],
            # The id before the release, the receipt and the registry before anybody is told, the turn in the log before `completed`.
            ["page click", "page held", "fsync dispatched+id", "page release", "fsync dispatched+released", "fsync accepted",
             "fsync registry", "say meta", "rename log", "fsync completed"],
            ["fsync dispatched+id", "page sending"]):
        left = iter(rows)
        assert all(row in left for row in wanted), (wanted, rows)
    assert rows.count("page click") == rows.count("page release") == rows.count("page open_once") == rows.count("fsync dispatched") == 1


def test_the_ledger_says_who_when_and_why_and_the_log_and_its_copy_are_equal(ground: Ground, worker: Worker) -> None:
    op = worker.send("Hello\nthere")
    assert op.conversation_id is not None
    [send] = ground.sends
    assert (send["message_id"], send["conversation_id"], send["text"]) == (op.user_message_id, op.conversation_id, "Hello\nthere")
    [turn] = worker.turns(op.conversation_id)
    assert turn.section("prompt") == "Hello\nthere" and turn.section("answer") == "You said:\n\n> Hello\n> there"
    assert turn.state == "completed"
    assert (turn.attr("op"), turn.attr("user"), turn.attr("turn")) == (op.operation_id, op.user_message_id, op.turn_id)
    assert ground.copy(op.conversation_id) == ground.canonical(op.conversation_id)
    doc = worker.document()
    assert (doc["ok"], doc["sent"], doc["retry"], doc["answer"], doc["title"]) == (True, "yes", "never", turn.section("answer"), "Hello")
    registered = worker.world.registry.get(op.conversation_id)
    assert registered is not None and registered.title == "Hello" and not registered.provisional and registered.account == op.account
    stamp = worker.world.stamps.read(op.account or "")
    assert stamp is not None and stamp.seq == op.seq  # raised to the operation's last record
    assert worker.seat.closed and worker.seat.gate.calls[0] == "arm" and worker.seat.gate.calls[-1] == "shut"
    assert [worker.front.of(kind) != [] for kind in ("operation", "meta", "state")] == [True] * 3
    assert "seat" not in [k for k in worker.files() if k.endswith(".tmp")]


def test_an_answer_is_read_as_the_json_has_it_and_thinking_too(ground: Ground, worker: Worker) -> None:
    ground.on("thinking", seconds=0.05)
    op = worker.send("practice:controls")
    doc = worker.document(op)
    assert doc["answer"].startswith("Words that the page uses too:") and "Something went wrong" in doc["answer"]
    assert "Reading the question" in doc["thinking"]


@pytest.mark.parametrize("prompt", ["😀 👩‍👩‍👧 日本語 שלום\ttab  ", "\n\nblank lines at both ends\n\n", "x\n" * 200])
def test_every_text_reaches_the_server_as_it_is(ground: Ground, worker: Worker, prompt: str) -> None:
    op = worker.send(prompt)
    assert op.state == "completed" and ground.sends[0]["text"] == prompt


@pytest.mark.parametrize(("prompt", "named"), [("nul \0 inside", "character 5 of the prompt is U+0000"),
                                              ("\ud83d alone", "character 1 of the prompt is U+D83D")])
def test_what_no_page_can_be_given_is_refused_before_any_row(ground: Ground, worker: Worker, prompt: str, named: str) -> None:
    with pytest.raises(Failure) as why:
        worker.send(prompt)
    assert why.value.slug == "bad-input" and named in why.value.message and "nothing was sent" in why.value.message
    assert (worker.browser.seats, ground.sends, worker.view.operations) == ([], [], {}) and not worker.files("home/spool")


# Refusals before the click: nothing left, and the same id may send later

REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "signed-out": ({}, "needs-human"), "challenge": ({}, "needs-human"), "throttled": ({}, "rate-limited"),
    "draft": ({"text": "somebody's words"}, "needs-human"), "work-mode": ({}, "site-changed"),
    "truncate-composer": ({"at": 3}, "site-changed"), "tool-pill": ({}, "site-changed"), "dialog": ({}, "needs-human"),
}


@pytest.mark.parametrize("scenario", REFUSALS)
def test_a_refusal_of_the_page_leaves_nothing_and_the_same_id_sends_later(ground: Ground, worker: Worker, scenario: str) -> None:
    """AD-20, cases 2, 10, 32, 33, 35."""
    parameters, slug = REFUSALS[scenario]
    ground.on(scenario, **parameters)
    op = worker.send("Hello there")
    assert (op.state, op.slug, op.sent, op.claimed, ground.sends, ground.clicks) == ("rejected", slug, "no", False, [], 0)
    doc = worker.document()
    assert doc["retry"] in ("after-fix", "later") and doc["error"]["message"] and doc["dispatched_at"] is None
    assert worker.turns(f"failed-{op.operation_id}")[0].section("error") is not None  # TL-07
    assert worker.seat.closed
    ground.off(scenario)
    again = worker.send("Hello there", id=op.operation_id)
    assert (again.state, again.attempt, len(ground.sends)) == ("completed", 2, 1)


def test_a_temporary_chat_is_refused_before_the_click(ground: Ground, worker: Worker) -> None:
    """Case 10: what it answers is kept nowhere."""
    def temporary(seat: Any) -> None:
        real = seat.session._do_state
        seat.session._do_state = lambda: {**real(), "temporary": True}
    worker.browser.prepare = temporary
    op = worker.send("Hello there")
    assert (op.state, op.slug, op.claimed, ground.clicks, ground.sends) == ("rejected", "site-changed", False, 0, [])
    assert "temporary" in worker.document()["error"]["message"] and "paste" not in worker.happened


def test_another_account_than_the_configured_one(ground: Ground) -> None:
    worker = ground.worker(account="user-9999")
    op = worker.send()
    assert (op.state, op.slug, ground.sends) == ("rejected", "account-mismatch", [])
    assert "paste" not in worker.happened


def test_another_account_than_the_registrys(ground: Ground, worker: Worker) -> None:
    """RG-09: before the conversation is fetched."""
    first = worker.send()
    ground.on("other-account")
    reads = ground.site.world.reads
    op = worker.send("more", to=first.conversation_id or "")
    assert (op.slug, len(ground.sends)) == ("account-mismatch", 1)
    said = worker.document(op)["error"]["message"]
    assert (first.account or "") in said and "user-0001" in said and ground.site.world.reads <= reads + 1


def test_a_draft_of_our_own_is_cleared(ground: Ground, worker: Worker) -> None:
    worker.send("our own words")
    ground.on("draft", text="our own words")
    op = worker.send("other words")
    assert op.state == "completed" and [s["text"] for s in ground.sends] == ["our own words", "other words"]


def test_text_that_vanished_once_is_typed_again(ground: Ground, worker: Worker) -> None:
    def after_paste() -> None:
        worker.on.pop("paste")
        ground.on("truncate-composer", at=2)
        worker.on["clear"] = lambda: ground.off("truncate-composer")
    worker.on["paste"] = after_paste
    op = worker.send("Hello there")
    assert op.state == "completed" and ground.sends[0]["text"] == "Hello there" and worker.happened.count("click") == 1


@pytest.mark.parametrize("length", [4_000, 6_000, 60_000])
def test_a_page_that_makes_a_file_of_a_long_paste(ground: Ground, worker: Worker, length: int) -> None:
    """Case 8: sent as text, or refused before the click."""
    ground.on("paste-becomes-file", at=3000)
    text = "line of text\n" * (length // 13)
    op = worker.send(text)
    if op.state == "completed":
        assert ground.sends[0]["text"] == text
    else:
        assert (op.slug, op.claimed, ground.sends, ground.clicks) == ("site-changed", False, [], 0)


UNKNOWN = "68c1d2e3-0000-8000-8000-00000000dead"


def test_a_conversation_that_no_registry_knows_is_not_opened(ground: Ground, worker: Worker) -> None:
    """RG-08: also where the site would open it."""
    ground.site.world.conversations[UNKNOWN] = Conversation(samples.conversation(1, ident=UNKNOWN), FIRST.user_id)
    op = worker.send(to=UNKNOWN)
    assert (op.state, op.slug, ground.sends, worker.browser.seats) == ("rejected", "unknown-conversation", [], [])
    assert f"bootstrap-registry --conversation {UNKNOWN}" in worker.document(op)["error"]["hint"]


def test_a_conversation_that_the_site_does_not_open(ground: Ground, worker: Worker) -> None:
    """Case 36: a 404 while signed in."""
    first = worker.send()
    ground.site.world.conversations[first.conversation_id or ""].visible = False
    op = worker.send("more", to=first.conversation_id or "")
    assert (op.state, op.slug, len(ground.sends)) == ("rejected", "unknown-conversation", 1)


def test_json_404_under_an_open_page(ground: Ground, worker: Worker) -> None:
    first = worker.send()

    def vanish() -> None:
        ground.site.world.conversations[first.conversation_id or ""].visible = False
    worker.on["read"] = vanish
    op = worker.send("more", to=first.conversation_id or "")
    assert (op.state, op.slug, len(ground.sends)) == ("rejected", "unknown-conversation", 1)


def test_a_browser_that_does_not_answer_is_tried_again_until_queue_wait_ends(ground: Ground) -> None:
    """SM-25."""
    worker = ground.worker(queue_wait=100.0)

    def broken(seat: Any) -> None:
        seat.session.dead = "gone"
    worker.browser.prepare = broken
    begun = ground.time.boottime
    op = worker.send()
    assert (op.state, op.slug, op.retry, ground.sends) == ("rejected", "browser", "safe", [])
    assert 3 <= len(worker.browser.seats) <= 8 and ground.time.boottime - begun <= 100.0 and all(s.closed for s in worker.browser.seats)


def test_a_browser_that_comes_back_is_used(ground: Ground, worker: Worker) -> None:
    def broken_twice(seat: Any) -> None:
        seat.session.dead = "gone" if len(worker.browser.seats) < 2 else None
    worker.browser.prepare = broken_twice
    begun = ground.time.boottime
    assert worker.send().state == "completed"
    assert ground.time.boottime - begun >= 30.0 and len(worker.browser.seats) == 3


LEAVING = {"front": "terminated", "interrupt": "interrupted", "terminate": "terminated"}


@pytest.mark.parametrize("by", LEAVING)
@pytest.mark.parametrize("stage", ["arm", "read", "paste"])
def test_nobody_waits_any_more(ground: Ground, by: str, stage: str) -> None:
    """FW-02, ST-14: before the dispatch it is stopped and nothing left; the same id may be admitted again."""
    worker = ground.worker()
    first = worker.send("first words")

    def leave() -> None:
        worker.front.left = by == "front"
        worker.front.wish = None if by == "front" else by
    worker.on[stage] = leave
    op = worker.send("Hello there", to=first.conversation_id or "")
    assert (op.state, op.stop, op.slug, op.sent, len(ground.sends)) == ("stopped", by, LEAVING[by], "no", 1)
    assert worker.seat.closed and worker.seat.session.page.text == "" and op.admissible
    worker.front.left, worker.front.wish = False, None
    worker.on.clear()
    assert worker.send("Hello there", id=op.operation_id, to=first.conversation_id or "").state == "completed"


def test_no_room_on_the_disk(ground: Ground, worker: Worker) -> None:
    worker.machine.room = 63 * 2**20
    op = worker.send()
    assert (op.state, op.slug, op.claimed, ground.sends) == ("rejected", "state-unwritable", False, [])


def test_flock_that_fails_at_the_commit(ground: Ground, worker: Worker) -> None:
    """DU-06."""
    locks = worker.home.locks
    assert locks is not None
    good = locks.flock

    def lies(fd: int, how: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("probe"):
            return
        good(fd, how)
    worker.on["paste"] = lambda: setattr(locks, "flock", lies)
    op = worker.send()
    assert (op.state, op.slug, ground.clicks) == ("rejected", "bad-config", 0)


def test_the_account_changes_while_it_waits_in_line(ground: Ground) -> None:
    """RG-11."""
    worker = ground.worker(gap=Gap(60.0))
    worker.send("first words")
    ground.time.at(30.0, lambda: ground.on("other-account"))
    op = worker.send("second words")
    assert (op.state, op.slug, len(ground.sends)) == ("rejected", "account-mismatch", 1)
    assert (ground.clicks, op.dispatched_at, op.claimed) == (1, None, False)


def test_queue_wait_ends_in_the_line(ground: Ground) -> None:
    worker = ground.worker(gap=Gap(60.0), queue_wait=20.0)
    worker.send("first words")
    begun = ground.time.boottime
    op = worker.send("second words")
    assert (op.state, op.slug, op.retry, len(ground.sends)) == ("rejected", "busy", "later", 1)
    assert 20.0 <= ground.time.boottime - begun < 25.0
    # A stamp is not consumed by what never was dispatched (RL-09).
    later = ground.worker(gap=Gap(60.0))
    assert later.send("third words").state == "completed" and ground.time.boottime - begun <= 76.0


def test_queue_wait_ends_at_the_conversations_lock_and_names_the_holder(ground: Ground, worker: Worker) -> None:
    """XP-15."""
    first = worker.send()
    other = ground.worker(queue_wait=5.0)
    assert worker.home.locks is not None and other.home.locks is not None
    worker.home.locks.purpose = "ask-gpt send"
    with worker.home.locks.conversation(first.conversation_id or ""):
        op = other.send("more", to=first.conversation_id or "")
    assert (op.state, op.slug, len(ground.sends)) == ("rejected", "busy", 1)
    said = other.document()["error"]["message"]
    assert f"process {os.getpid()}" in said and (first.conversation_id or "") in said


def test_a_random_source_that_fails_admits_nothing(ground: Ground, worker: Worker) -> None:
    """AD-03."""
    def none(count: int) -> bytes:
        raise Failure("state-unwritable", "no random bytes")
    worker.machine.random_bytes = none  # type: ignore[method-assign]
    with pytest.raises(Failure):
        worker.send()
    assert ground.sends == [] and not (ground.path / "home" / "ledger.jsonl").exists()
