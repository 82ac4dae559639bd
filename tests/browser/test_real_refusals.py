"""A page or a site that is not as it should be: what the table of refusals (test_refusals_table.py) does not say."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.browser.real import NEWEST, Desk, Home, Running, Site, operation_of, until

pytestmark = pytest.mark.browser


def test_what_the_site_refused_is_on_record(desk: Desk) -> None:
    """GT-17, RL-13: the status, the site's code and when it clears; never sent again by itself."""
    desk.site.scenarios("site-429:status=429,clears_in=120")
    ran = desk.json("send", "one too many")
    assert (ran.code, ran.doc["sent"], ran.doc["state"], ran.doc["retry"]) == (11, "no", "rejected", "never"), ran
    refusal = desk.operation(ran.doc["operation_id"])["refusal"]
    assert refusal == {"status": 429, "code": "model_cap_exceeded", "clears_in": 120} and "2 min more" in ran.doc["error"]["message"]
    assert [one["answered"] for one in desk.site.sends()] == [429]


GOES_ON = (
    ("nervous-click",), ("service-worker",), ("page-retries:times=3", "send-502"), ("connection-drops",), ('page-haunts:by="worker"',),
    ("thinking:seconds=1", "newest-behind:seconds=1", 'localised:language="es"', "stop-control-elsewhere"),
    ("gen2", "thinking:seconds=1", "web-url:seconds=0.5", 'localised:language="de"', "stop-control-elsewhere"),
    ("web-url:seconds=1.5",), ("rewrites-ids",), ("page-retries:times=3", "connection-drops:frames=1"), ('page-haunts:by="frame"',),
)


@pytest.mark.sample(7)
@pytest.mark.parametrize("scenarios", GOES_ON, ids=" ".join)
def test_sent_once_and_answered(desk: Desk, scenarios: tuple[str, ...]) -> None:
    desk.site.scenarios(*scenarios)
    text = f"ask me once {' '.join(scenarios)}"
    ran = desk.json("send", text)
    assert ran.code == 0, ran
    doc = ran.doc
    assert (doc["sent"], doc["state"]) == ("yes", "completed") and text in doc["answer"]
    sends = desk.site.sends()
    assert len({one["message_id"] for one in sends}) == 1
    assert len(sends) == 1 or scenarios == ("connection-drops",), "copies come from Chrome's network stack alone"
    conversation = doc["conversation_id"]
    messages = [node["message"] for node in desk.site.conversation(conversation)["mapping"].values() if node["message"]]
    mine = [message for message in messages if message["author"]["role"] == "user"
            and not message["metadata"].get("is_visually_hidden_from_conversation")]
    assert len(mine) == 1, "the conversation holds it once"
    receipt = desk.operation(doc["operation_id"])["receipt"]
    assert receipt["user_message_id"] == sends[0]["message_id"]
    assert (receipt["site_message_id"] or receipt["user_message_id"]) == mine[0]["id"]
    assert "WEB:" not in ran.out.decode() + ran.err + desk.log(conversation).decode()
    if "thinking" in scenarios[0]:
        assert doc["thinking"] and "## thinking" not in doc["answer"]


@pytest.mark.sample(1)
@NEWEST
def test_an_answer_that_somebody_stops(desk: Desk) -> None:
    """The page's own control, pressed once by the worker; whatever its language."""
    desk.site.scenarios("slow-answer:seconds=30", 'localised:language="es"', "stop-control-elsewhere")
    running = desk.start("send", f"a question with many words in it, stopped {desk.generation}", "--json")
    operation = operation_of(running)
    until(lambda: desk.home.records(operation)[-1]["state"] == "accepted", "the answer to come")
    assert desk.json("ops", "stop", operation).doc["stop"] == "stop-pressed"
    ran = running.wait()
    assert ran.code in (0, 31) and ran.doc["sent"] == "yes" and desk.operation(operation)["turn"] == "stopped", ran
    assert ran.seconds < 25 and len(desk.site.sends()) == 1


@pytest.mark.sample(1)
@NEWEST
def test_a_turn_that_fails(desk: Desk) -> None:
    desk.site.scenarios("failed-turn:partial=true")
    ran = desk.json("send", "fail, please")
    assert (ran.code, ran.doc["sent"], ran.doc["state"]) == (32, "yes", "accepted"), ran
    assert len(desk.site.sends()) == 1, "Retry is not pressed"
    desk.site.end("failed-turn")
    again = desk.json("resume", ran.doc["conversation_id"], "another one")
    assert again.code == 0 and len(desk.site.sends()) == 2, again


def test_a_redirected_send_is_never_silently_sent(desk: Desk) -> None:
    """The released request is answered with a 307: its second half never leaves, and nobody claims to know what became of the first."""
    desk.site.scenarios("redirect-307")
    ran = desk.json("send", "go elsewhere", "--wait", "2")
    assert (ran.code, ran.doc["sent"]) == (40, "unknown"), ran
    operation = ran.doc["operation_id"]
    # Its worker would look for the message for a minute; the next command is told as much by a dead one.
    os.kill(desk.home.records(operation)[-1]["pid"], signal.SIGKILL)
    ran = until(lambda: said if (said := desk.json("resume", operation)).doc["state"] == "uncertain" else None, "the recovery")
    assert (ran.code, ran.doc["sent"]) == (40, "unknown") and not desk.home.windows(), ran
    assert [one["answered"] for one in desk.site.sends()] == [307]


def test_a_draft_of_our_own_is_cleared(desk: Desk) -> None:
    assert desk.run("send", "left behind by ourselves").code == 0
    desk.site.scenarios('draft:text="left behind by ourselves"')
    ran = desk.json("send", "something else")
    assert ran.code == 0, ran
    assert [one["text"] for one in desk.site.sends()] == ["left behind by ourselves", "something else"]


def test_another_account(desk: Desk, tmp_path: Path) -> None:
    """A conversation of one account is not continued under another; a new one is started where nothing names an account."""
    mine = desk.json("send", "mine").doc
    desk.site.scenarios("other-account")
    for words in (("resume", mine["conversation_id"], "from another"), ("resume", mine["conversation_id"])):
        ran = desk.json(*words)
        assert (ran.code, ran.doc["sent"]) == (13, "no"), ran
        assert ran.doc["retry"] == "after-fix" and mine["account"] in ran.doc["error"]["message"]
    assert len(desk.site.sends()) == 1
    other = desk.json("send", "theirs")
    assert other.code == 0 and other.doc["account"].startswith("user-0001/"), other
    config = desk.home.path / "config.yaml"
    config.write_text(f"account: {mine['account']}\n")
    try:
        ran = desk.json("send", "for the first account alone")
    finally:
        config.unlink()
    assert (ran.code, ran.doc["sent"]) == (13, "no") and len(desk.site.sends()) == 2, ran


def test_a_conversation_that_is_not_there_any_more(desk: Desk) -> None:
    gone = desk.json("send", "soon gone").doc["conversation_id"]
    desk.site.scenarios("throttled")
    ran = desk.json("resume", gone)
    assert (ran.code, ran.doc["sent"]) == (11, "no"), ran  # case 35: it also blocks reading what is old
    desk.site.reset()
    ran = desk.json("resume", gone, "anybody there?")
    assert (ran.code, ran.doc["sent"]) == (14, "no") and not desk.site.sends(), ran


SWALLOWS = "test_a_click_that_the_page_swallows"


@pytest.fixture(scope="module", autouse=True)
def swallowed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Running] | None]:
    """A send whose click is swallowed, on a site and in a Chrome of its own: its 30 s pass beside the other tests."""
    if not any(item.name == SWALLOWS for item in request.session.items):
        yield None
        return
    place = tmp_path_factory.mktemp("swallowed")
    site = Site("--scenario", "swallow-click")
    desk = Desk(Home(place, site), place / "work")
    running = desk.start("send", "swallowed", "--json")
    try:
        yield desk, running
        desk.check()
    finally:
        if running.process.poll() is None:
            running.kill()
        desk.home.quit()
        site.stop()


def test_a_click_that_the_page_swallows(swallowed: tuple[Desk, Running]) -> None:
    """Case 1: 30 s later nothing has left, the composer is empty again, and the next message goes out alone."""
    desk, running = swallowed
    ran = running.wait(90)
    assert (ran.code, ran.doc["sent"], ran.doc["state"], ran.doc["retry"]) == (15, "no", "rejected", "never"), ran
    at = {one["to"]: datetime.fromisoformat(one["at"]) for one in desk.operation(ran.doc["operation_id"])["history"]}
    assert 30 <= (at["rejected"] - at["dispatched"]).total_seconds() < 60 and not desk.site.sends()
    desk.site.end("swallow-click")
    after = desk.json("send", "not swallowed")
    assert after.code == 0 and [one["text"] for one in desk.site.sends()] == ["not swallowed"], after
