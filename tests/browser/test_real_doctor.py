"""`doctor --browser`: what it finds on the open page, by name; and that it presses nothing, types nothing and loses nobody's draft."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gptbridge.shell import topics
from tests.browser.real import NEWEST, Desk, Home, Ran

pytestmark = pytest.mark.browser

VALID = jsonschema.Draft202012Validator(json.loads(topics.schema_text()))


def findings(ran: Ran) -> dict[str, list[str]]:
    """What wants mending, by check; each with a way to mend it."""
    VALID.validate(ran.doc)
    wrong = [check for check in ran.doc["checks"] if not check["ok"]]
    assert (ran.code == 3) == bool(wrong) and all(check["mend"] for check in wrong), ran
    return {name: [check["detail"] for check in wrong if check["name"] == name] for name in sorted({check["name"] for check in wrong})}


@pytest.mark.sample(1)
@NEWEST
def test_all_is_well_on_a_page_as_it_is_known(desk: Desk) -> None:
    talk = desk.json("send", f"a conversation for the doctor {desk.generation}").doc["conversation_id"]
    ran = desk.json("doctor", "--browser")
    assert findings(ran) == {}
    detail = {check["name"]: check["detail"] for check in ran.doc["checks"]}
    assert {"gate", "page", "session", "account", "composer", "list", "conversation", "hooks"} <= set(detail)
    assert f"generation {desk.generation}:" in detail["hooks"] and "user-0000/" in detail["session"] and talk in detail["conversation"]
    assert len([check for check in ran.doc["checks"] if check["name"] == "hooks"]) == 2, "the home page and a conversation"
    assert len(desk.site.sends()) == 1


def test_a_hook_that_is_gone_is_named_and_the_pages_structure_kept(desk: Desk) -> None:
    """SI-03, SI-04."""
    secret = "Elderberries for Zacharias, whose telephone is 0190 123 456"
    desk.json("send", secret)
    desk.site.scenario("renamed", what="data-message-author-role blocking-initial-modals-done markdown")
    before = set((desk.home.path / "reports").glob("*-site-changed.json"))
    ran = desk.json("doctor", "--browser")
    found = findings(ran)
    assert set(found) == {"hooks", "conversation"}, ran
    assert [detail.partition(": ")[2].split()[0] for detail in found["hooks"]] == ["message", "body"]
    assert all("generation 1" in detail and "a conversation" in detail for detail in found["hooks"])
    assert "gone, and not needed: ready" in next(c["detail"] for c in ran.doc["checks"] if c["name"] == "hooks")
    [report] = set((desk.home.path / "reports").glob("*-site-changed.json")) - before
    assert report.stat().st_mode & 0o777 == 0o600 and any(str(report) in check["mend"] for check in ran.doc["checks"])
    text = report.read_text()
    page = json.loads(text)["page"]
    assert page["missing"] == ["message", "body"] and page["hooks"]["editor"] == 1 and "prompt-textarea" in text
    assert page["path"] == "/c/*"
    assert not [word for word in secret.split() if len(word) > 3 and word in text] and "@" not in text and not desk.site.tells(report)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("scenario", "checks", "says"), [
    ("signed-out", {"session"}, "nobody is signed in"), ("other-account", {"account"}, "user-0001"),
    ("work-mode", {"composer"}, "another mode"), ("throttled", {"page"}, "Too many requests")])
def test_what_keeps_a_send_away_is_a_finding(desk: Desk, scenario: str, checks: set[str], says: str) -> None:
    desk.json("send", f"before the doctor sees {scenario}")
    desk.site.scenario(scenario)
    found = findings(desk.json("doctor", "--browser"))
    assert set(found) == checks and says in str(found)


def test_a_persons_draft_stays_and_a_chrome_that_was_started_for_this_ends(own_home: Home, tmp_path: Path) -> None:
    """Neither a look nor a refused send takes it away; the site keeps it for its person."""
    desk = Desk(own_home, tmp_path / "work")
    desk.site.scenario("draft", text="half a thought of mine", kept=True)
    found = findings(desk.json("doctor", "--browser"))
    assert set(found) == {"composer"} and "22 characters" in str(found)
    assert not own_home.chrome_lives(), "started only to look"
    for _ in range(2):
        ran = desk.json("send", "something else")
        assert (ran.code, desk.site.sends()) == (12, []) and "draft" in ran.doc["error"]["message"], ran
        desk.site.end("draft")  # from now on it is the page's own
    assert "22 characters" in str(findings(desk.json("doctor", "--browser")))
    desk.check()
