"""From the click to the end of the request: what the gate saw decides, and nothing else (GT-02 .. GT-16, SM-19, SM-31)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.flow import deciding
from tests.flow.world import Ground, Worker


def test_a_click_that_the_page_swallows(ground: Ground, worker: Worker) -> None:
    """Case 1: nothing left, and the next run begins with an empty composer."""
    ground.on("swallow-click")
    begun = ground.time.boottime
    op = worker.send()
    assert (op.state, op.slug, op.sent, op.retry, op.request, ground.sends) == ("rejected", "site-changed", "no", "never", "refused", [])
    assert 30.0 <= ground.time.boottime - begun < 32.0 and ground.clicks == 1
    assert worker.seat.closed and worker.seat.session.page.text == ""
    assert "a new one may send it" in worker.document()["error"]["hint"]
    ground.off("swallow-click")
    assert worker.send("other words").state == "completed"
    assert worker.send(id=op.operation_id).state == "rejected" and len(ground.sends) == 1  # durable: this id never sends


def test_a_swallowed_click_without_proof_is_uncertain(ground: Ground, worker: Worker) -> None:
    """GT-06: another way out carried the text, or the gate's connection dropped."""
    ground.on("swallow-click")
    worker.on["click"] = lambda: setattr(worker.seat.gate, "traced", 1)
    assert worker.send("one").state == "uncertain"
    worker.on["click"] = lambda: setattr(worker.seat.gate, "connected", False)
    op = worker.send("two")
    assert (op.state, op.sent, op.slug) == ("uncertain", "unknown", "uncertain") and worker.seat.closed


@pytest.mark.parametrize(("scenarios", "ended"), [(["nervous-click"], "completed"), (["page-retries", "send-502"], "completed"),
                                                  (["page-retries", "connection-drops"], "completed")])
def test_one_request_whatever_the_page_does_again(ground: Ground, worker: Worker, scenarios: list[str], ended: str) -> None:
    """Cases 6 and 9, GT-04."""
    for scenario in scenarios:
        ground.on(scenario)
    op = worker.send()
    assert op.state == ended and len(ground.sends) == 1 and ground.sends[0]["message_id"] == op.user_message_id
    assert [note.kind for note in worker.seat.gate.notes()] == ["send"]
    assert worker.document()["answer"] == "You said:\n\n> Hello"


@pytest.mark.parametrize("scenario", ["send-502", "connection-drops"])
@pytest.mark.parametrize("again", [False, True])
def test_the_server_took_it_and_the_page_saw_a_failure(ground: Ground, worker: Worker, scenario: str, again: bool) -> None:
    """GT-14, case 6: found by its id, in a new conversation and in a known one."""
    first = worker.send("first words") if again else None
    ground.on(scenario)
    op = worker.send(to=first.conversation_id or "" if first else "new")
    assert (op.state, op.slug, len(ground.sends)) == ("completed", "ok", 2 if again else 1)
    assert op.conversation_id == ground.sends[-1]["conversation_id"] and worker.document()["answer"] == "You said:\n\n> Hello"


def test_a_cut_stream_that_named_the_conversation(ground: Ground, worker: Worker) -> None:
    ground.on("connection-drops", frames=4)
    ground.on("slow-answer", seconds=0.4)
    op = worker.send()
    assert op.state == "completed" and worker.document()["answer"] == "You said:\n\n> Hello"


def test_what_cannot_be_found_is_uncertain_and_found_later_with_evidence(ground: Ground, worker: Worker) -> None:
    """RP-06: nothing is sent a second time, by this id or by looking."""
    ground.on("connection-drops")
    worker.on["ended"] = lambda: hide(ground, True)
    op = worker.send()
    assert (op.state, op.slug, op.sent, op.retry) == ("uncertain", "uncertain", "unknown", "never")
    assert worker.send(id=op.operation_id).state == "uncertain"  # a replay: no browser
    worker.dies()
    hide(ground, False)
    found = ground.worker()
    assert found.resume(operation=op.operation_id).slug == "ok"
    row = found.view.operations[op.operation_id]
    assert row.state == "completed" and row.conversation_id == ground.sends[0]["conversation_id"]
    history = found.world.ledger.history(op.operation_id)  # type: ignore[attr-defined]
    [step] = [h for h in history.history if (h["from"], h["to"]) == ("uncertain", "accepted")]
    assert step["actor"] == "resume" and step["evidence"]["message_id"] == op.user_message_id and step["evidence"]["document_sha256"]
    assert len(ground.sends) == 1 and found.browser.clicks == 0
    registered = found.world.registry.get(row.conversation_id or "")
    assert registered is not None and registered.account == row.account
    [turn] = found.turns(row.conversation_id or "")
    assert turn.attr("op") == op.operation_id and turn.section("answer") == "You said:\n\n> Hello"


def hide(ground: Ground, hidden: bool) -> None:
    for conversation in ground.site.world.conversations.values():
        conversation.visible = not hidden


def test_the_same_text_sent_by_a_person_is_never_taken_for_ours(ground: Ground, worker: Worker) -> None:
    """GT-09."""
    ground.on("connection-drops")
    worker.on["ended"] = lambda: hide(ground, True)
    op = worker.send("Continue")
    ground.off("connection-drops")
    ground.person("Continue")
    assert ground.worker().resume(operation=op.operation_id).slug == "uncertain"
    assert worker.op.state == "uncertain" and len(ground.sends) == 2


def test_an_id_that_the_site_rewrites_is_recorded_beside_ours(ground: Ground, worker: Worker) -> None:
    """GT-13."""
    ground.on("rewrites-ids")
    op = worker.send()
    assert op.state == "completed" and op.user_message_id == ground.sends[0]["message_id"]
    assert op.site_message_id is not None and op.site_message_id != op.user_message_id
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.attr("user") == op.site_message_id
    ground.worker().resume(op.conversation_id)
    assert len(worker.turns(op.conversation_id or "")) == 1


REFUSED = [(429, "rate-limited", 11), (413, "bad-input", 17), (422, "bad-input", 17), (401, "needs-human", 12), (403, "needs-human", 12),
           (418, "site-changed", 15)]


@pytest.mark.parametrize(("status", "slug", "code"), REFUSED)
def test_the_sites_own_refusal(ground: Ground, worker: Worker, status: int, slug: str, code: int) -> None:
    """GT-17."""
    ground.on("site-429", status=status, clears_in=1234)
    op = worker.send()
    assert (op.state, op.slug, op.sent, op.retry, len(ground.sends)) == ("rejected", slug, "no", "never", 1)
    assert op.refusal is not None and op.refusal["status"] == status
    if status == 429:
        assert op.refusal == {"status": 429, "code": "model_cap_exceeded", "clears_in": 1234}
    doc = worker.document()
    assert doc["exit_code"] == code and "Unusual" not in doc["error"]["message"] and ground.clicks == 1
    assert worker.send(id=op.operation_id).state == "rejected" and len(ground.sends) == 1


# The held request is not what was admitted


DIFFERENT: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "text": (lambda b: b["messages"][0]["content"].update(parts=["Hello!"]), "bad-input", "text"),
    "a blank more": (lambda b: b["messages"][0]["content"].update(parts=["Hello there "]), "bad-input", "text"),
    "two messages": (lambda b: b["messages"].append({**b["messages"][0], "id": "second"}), "site-changed", "one message"),
    "a system message": (lambda b: b["messages"].append({"id": "s", "author": {"role": "system"}, "content": {}, "metadata": {}}),
                         "site-changed", "one message"),
    "action": (lambda b: b.update(action="variant"), "site-changed", "action"),
    "conversation": (lambda b: b.update(conversation_id="68c1d2e3-0000-8000-8000-00000000dead"), "site-changed", "conversation"),
    "temporary": (lambda b: b.update(history_and_training_disabled=True), "site-changed", "temporary"),
    "attachment": (lambda b: b["messages"][0]["metadata"].update(attachments=[{"id": "file-1"}]), "site-changed", "attachments"),
    "mode": (lambda b: b.update(conversation_mode={"kind": "work_assistant"}), "site-changed", "mode"),
    "a tool": (lambda b: b.update(system_hints=["search"]), "site-changed", "tools"),
    "account": (lambda b: b.update(account_id="another"), "account-mismatch", "account"),
    "unreadable": (lambda b: b.pop("messages"), "site-changed", "one message"),
}


@pytest.mark.parametrize("field", DIFFERENT)
def test_a_held_request_that_differs_is_failed_and_the_difference_named(ground: Ground, worker: Worker, field: str) -> None:
    alter, slug, named = DIFFERENT[field]
    worker.browser.prepare = lambda seat: setattr(seat.session, "alter", alter)
    op = worker.send("Hello there")
    assert (op.state, op.slug, op.sent, op.request, ground.sends) == ("rejected", slug, "no", "refused", [])
    assert named in worker.document()["error"]["message"] and "refuse" in worker.seat.gate.calls and "release" not in worker.seat.gate.calls
    assert worker.document()["retry"] == "never"


@pytest.mark.parametrize("parent", ["client-created-root", "another"])
def test_another_parent_than_the_newest_that_was_read(ground: Ground, worker: Worker, parent: str) -> None:
    first = worker.send("first words")
    worker.browser.prepare = lambda seat: setattr(seat.session, "alter", lambda body: body.update(parent_message_id=parent))
    op = worker.send("Hello there", to=first.conversation_id or "")
    assert (op.state, op.slug, len(ground.sends)) == ("rejected", "site-changed", 1) and "parent" in worker.document()["error"]["message"]


def chrome_forgets(worker: Worker) -> Callable[[], None]:
    def forget() -> None:
        worker.seat.gate._held.clear()
    return forget


def test_the_request_that_chrome_says_is_gone(ground: Ground, worker: Worker) -> None:
    worker.on["release"] = chrome_forgets(worker)
    op = worker.send()
    assert (op.state, op.slug, ground.sends) == ("rejected", "site-changed", [])


def test_a_failing_that_is_not_confirmed_is_no_proof(ground: Ground, worker: Worker) -> None:
    worker.browser.prepare = lambda seat: setattr(seat.session, "alter", DIFFERENT["text"][0])
    worker.on["refuse"] = chrome_forgets(worker)
    assert worker.send("Hello there").state == "uncertain"


# Too late


def test_held_up_between_commit_and_click(ground: Ground, worker: Worker) -> None:
    """DU-07: more than 30 s of boottime, no click."""
    stamps = worker.world.stamps
    real = stamps.write

    def slow(account: str, stamp: Any) -> None:
        real(account, stamp)
        ground.time.sleep(30.5)
    stamps.write = slow  # type: ignore[method-assign]
    op = worker.send()
    assert (op.state, op.slug, op.claimed, ground.clicks, ground.sends) == ("rejected", "browser", True, 0, [])
    assert "open_once" not in worker.seat.gate.calls and op.retry == "never"


def test_suspended_for_an_hour_between_commit_and_click_with_the_wall_clock_set_back(ground: Ground, worker: Worker) -> None:
    """Case 55."""
    stamps, real = worker.world.stamps, worker.world.stamps.write

    def suspended(account: str, stamp: Any) -> None:
        real(account, stamp)
        ground.time.boottime += 3600.0
        ground.time.wall -= 86400.0
    stamps.write = suspended  # type: ignore[method-assign]
    assert worker.send().state == "rejected" and ground.clicks == 0


def test_29_s_are_not_too_late(ground: Ground, worker: Worker) -> None:
    stamps, real = worker.world.stamps, worker.world.stamps.write

    def slow(account: str, stamp: Any) -> None:
        real(account, stamp)
        ground.time.sleep(29.0)
    stamps.write = slow  # type: ignore[method-assign]
    assert worker.send().state == "completed"


def test_a_request_held_for_more_than_a_minute_is_not_released(ground: Ground, worker: Worker) -> None:
    """GT-16."""
    worker.on["held"] = lambda: ground.time.sleep(60.5)
    op = worker.send()
    assert (op.state, op.slug, ground.sends, op.user_message_id is not None) == ("rejected", "browser", [], True)
    assert "refuse" in worker.seat.gate.calls


class Told:
    """A port whose every call is told, before and after."""

    def __init__(self, port: Any, name: str, tell: Callable[[str], None]) -> None:
        self._port, self._name, self._tell = port, name, tell

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            self._tell(f"before {self._name}.{name}")
            try:
                return found(*args, **more)
            finally:
                self._tell(f"after {self._name}.{name}")
        return call


class Between:
    """From the click to the release: every call of a port in its order, and what happens at one of them."""

    def __init__(self, worker: Worker, at: str = "", act: Callable[[], None] = lambda: None) -> None:
        self.calls: list[str] = []
        self._at, self._act, self._open = at, act, False
        worker.world.ledger = Told(worker.world.ledger, "ledger", self._told)
        worker.world.caller = Told(worker.world.caller, "caller", self._told)
        worker.browser.prepare = self._seat

    def _seat(self, seat: Any) -> None:
        seat.page, seat.gate = Told(seat.page, "page", self._told), Told(seat.gate, "gate", self._told)

    def _told(self, what: str) -> None:
        if what == "before page.press":
            self._open = True
        if what in ("before gate.release", "before gate.shut"):
            self._open = False
        if self._open:
            self.calls.append(f"{what} {self.calls.count(what) + 1}" if what in self.calls else what)
            if self.calls[-1] == self._at:
                self._act()


def test_neither_an_hour_nor_a_stop_between_click_and_release_lets_it_go(ground: Ground) -> None:
    """GT-16, DU-07, case 55: whatever call of a port it comes in."""
    plain = ground.worker()
    between = Between(plain)
    assert plain.send("words").state == "completed" and len(ground.sends) == 1
    seen = between.calls
    assert {"after page.press", "before ledger.transact", "after ledger.transact", "before page.session", "after page.session"} <= set(seen)
    plain.dies()
    desk = ground.worker()
    looked = max(at for at, call in enumerate(seen) if call.startswith("before ledger."))  # for a stop, the last time
    for number, call in enumerate(seen):
        for what in ("hour", "stop"):
            if what == "stop" and number > looked:
                continue
            worker = ground.worker()

            def act(what: str = what, worker: Worker = worker) -> None:
                if what == "hour":
                    ground.time.boottime += 3600.0
                else:
                    deciding._request(desk.world, lambda view: [view.operations[worker.id]])
            Between(worker, call, act)
            op = worker.send(f"{what} {call}")
            slugs = ("browser", "site-changed") if what == "hour" else ("stopped",)
            assert (op.state, op.sent, len(ground.sends)) == ("rejected", "no", 1) and op.slug in slugs, (what, call, op.slug)
            assert worker.browser.clicks == 1 and (what == "hour" or op.durable), (what, call)
            worker.dies()


def test_another_account_at_the_moment_of_release(ground: Ground, worker: Worker) -> None:
    """GT-16."""
    worker.on["held"] = lambda: ground.on("other-account")
    op = worker.send()
    assert (op.state, op.slug, ground.sends) == ("rejected", "account-mismatch", [])


def test_the_browser_is_lost_at_the_click(ground: Ground, worker: Worker) -> None:
    """Case 41: a click that reports failure may have happened; only the gate tells."""
    def lost() -> None:
        worker.seat.session.dead = "disconnected"
    worker.on["held"] = lost
    op = worker.send()
    assert op.state == "rejected" and ground.sends == []
    worker.on.clear()
    worker.on["click"] = lost
    assert worker.send("other words").state in ("rejected", "uncertain") and ground.sends == []


@pytest.mark.parametrize(("connected", "ended"), [(True, ("rejected", "browser", "no")), (False, ("uncertain", "uncertain", "unknown"))])
def test_a_window_that_is_gone_at_the_click_is_not_waited_for(ground: Ground, worker: Worker, connected: bool, ended: Any) -> None:
    """Its gate says so at once, for as long as it is asked; only with its connection whole is that a proof."""
    def lost() -> None:
        worker.on.pop("click")
        ground.on("swallow-click")
        worker.seat.gate.lost, worker.seat.gate.connected = True, connected
    worker.on["click"] = lost
    begun = ground.time.boottime
    op = worker.send()
    assert (op.state, op.slug, op.sent) == ended and op.retry == "never" and ground.sends == []
    assert ground.time.boottime - begun < 5.0


def test_a_failure_before_the_release_without_a_proof_does_not_say_that_nothing_was_sent(ground: Ground, worker: Worker) -> None:
    def signed_out() -> None:
        ground.on("signed-out")
        worker.seat.gate.connected = False
    worker.on["held"] = signed_out
    op = worker.send()
    assert (op.state, op.sent, ground.sends) == ("uncertain", "unknown", [])
    reason = str(worker.world.ledger.history(op.operation_id).history[-1]["reason"])  # type: ignore[attr-defined]
    assert "signed in" in reason and "nothing was sent" not in reason and "is not known" in reason


def test_every_way_out_fails_the_held_request_first(ground: Ground, worker: Worker) -> None:
    """GT-10: also a bug, a signal's exception."""
    class Surprise(BaseException):
        pass

    def surprise() -> None:
        raise Surprise
    worker.on["held"] = surprise
    with pytest.raises(Surprise):
        worker.send()
    assert ground.sends == [] and worker.seat.gate.calls.index("shut") >= 0 and worker.seat.closed
    assert worker.seat.gate._held == {}


def test_refused_when_another_process_settled_it(ground: Ground, worker: Worker) -> None:
    """XP-03, XP-04: the loser finds out before its click, and writes nothing more."""
    def usurped() -> None:
        row = ground.worker()
        epoch = worker.op.epoch
        row.world.ledger.transact(lambda view: [{"operation_id": worker.id, "state": "rejected", "epoch": epoch, "actor": "recovery",
                                                 "reason": "believed dead"}])
    worker.on["paste"] = usurped
    with pytest.raises(Failure) as why:
        worker.send()
    assert why.value.slug == "state-corrupt" and ground.clicks == 0 and worker.op.state == "rejected"
