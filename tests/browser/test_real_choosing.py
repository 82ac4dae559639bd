"""Model and effort through a real Chromium: the site's own record of the request is the judge (SI-06, CL-17, case 11)."""

from __future__ import annotations

import pytest

from tests.browser.real import Desk

pytestmark = pytest.mark.browser


def test_flags_and_configuration_choose_what_the_site_gets(desk: Desk) -> None:
    """A flag beats the environment; '' is whatever the page has. The answer's document and log hold the site's own words."""
    default = {"ASKGPT_MODEL": "gpt-5-5-thinking", "ASKGPT_EFFORT": "extended"}
    first = desk.json("send", "with the defaults", **default)
    assert first.code == 0 and (first.doc["model"], first.doc["effort"]) == ("gpt-5-5-thinking", "extended"), first
    talk, operation = str(first.doc["conversation_id"]), str(first.doc["operation_id"])
    again = desk.json("send", "with the defaults", "--model", "gpt-5-5-thinking", "--effort", "extended", "--operation-id", operation)
    assert (again.code, again.doc["answer"]) == (0, first.doc["answer"])  # omitted is the default, said or not
    omitted = desk.json("send", "with the defaults", "--operation-id", operation)
    assert (omitted.code, omitted.doc["answer"]) == (0, first.doc["answer"])  # the default of its admission, whatever today's is
    other = desk.json("send", "with the defaults", "--effort", "light", "--operation-id", operation)
    assert (other.code, other.doc["error"]["code"]) == (21, "conflict")
    second = desk.json("resume", talk, "with another one", "--model", "gpt-5-5-pro", "--effort", "", **default)
    assert second.code == 0, second
    assert [(one["model"], one["effort"]) for one in desk.site.sends()] == [("gpt-5-5-thinking", "extended"), ("gpt-5-5-pro", "standard")]
    log = desk.log(talk).decode()
    assert "asked-model=gpt-5-5-thinking asked-effort=extended" in log and "asked-model=gpt-5-5-pro -->" in log
    assert desk.operation(operation)["asked"] == {"model": "gpt-5-5-thinking", "effort": "extended"}


def test_another_model_than_chosen_never_leaves(desk: Desk) -> None:
    desk.site.scenario("model-replaced", notice="Another one answers.")
    ran = desk.json("send", "replaced", "--model", "gpt-5-5-pro")
    assert (ran.code, ran.doc["sent"], ran.doc["retry"], desk.site.sends()) == (15, "no", "never", []), ran
    assert "the page says: Another one answers" in ran.doc["error"]["message"]


def test_no_quota_left_is_said_with_the_pages_words_and_nothing_is_sent(desk: Desk) -> None:
    desk.site.scenario("picker-limit", what="gpt-5-5-pro")
    ran = desk.json("send", "no quota", "--model", "gpt-5-5-pro")
    assert (ran.code, ran.doc["sent"], ran.doc["retry"], desk.site.sends()) == (11, "no", "later", []), ran
    assert "Try again after 7:30 PM" in ran.doc["error"]["message"]
    desk.site.end("picker-limit")
    same = desk.json("send", "no quota", "--model", "gpt-5-5-pro", "--operation-id", str(ran.doc["operation_id"]))
    assert same.code == 0 and [one["model"] for one in desk.site.sends()] == ["gpt-5-5-pro"], same
