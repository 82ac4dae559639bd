"""Model and effort of a send: chosen before the line, verified in the held request, recorded; never a silent fallback (SI-06, AD-10)."""

from __future__ import annotations

from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.shell.job import Job
from tests.flow.world import Ground, Worker

PRO = {"model": "gpt-5-5-pro", "effort": "extended"}


def refused(worker: Worker, prompt: str = "Hello", **chosen: Any) -> Operation:
    worker.send(prompt, **chosen)
    assert worker.ground.sends == [] and worker.op.sent == "no"
    return worker.op


def test_what_was_asked_for_is_sent_and_recorded(ground: Ground, worker: Worker) -> None:
    op = worker.send("Hello", **PRO)
    [send] = ground.sends
    assert op.state == "completed" and (send["model"], send["effort"]) == ("gpt-5-5-pro", "extended")
    doc = worker.document()
    assert (doc["model"], doc["effort"], doc["warnings"]) == ("gpt-5-5-pro", "extended", [])
    [turn] = worker.turns(str(op.conversation_id))
    assert [turn.attr(name) for name in ("asked-model", "asked-effort", "model", "effort")] == ["gpt-5-5-pro", "extended"] * 2


def test_who_asks_for_nothing_opens_no_picker(ground: Ground, worker: Worker) -> None:
    worker.send("Hello")
    assert "picker" not in worker.happened and ground.sends[0]["model"] == "gpt-5-5"


def test_it_goes_along_with_a_resume(ground: Ground, worker: Worker) -> None:
    talk = worker.send("Hello").conversation_id
    worker.send("And now think", to=talk, **PRO)
    assert [(send["model"], send["effort"]) for send in ground.sends] == [("gpt-5-5", "standard"), ("gpt-5-5-pro", "extended")]


def test_what_cannot_be_chosen_is_refused_before_the_click_and_may_be_sent_later_under_the_same_id(ground: Ground, worker: Worker) -> None:
    ground.on("picker-limit", what="gpt-5-5-pro")
    op = refused(worker, **PRO)
    assert (op.state, op.slug, op.claimed, op.retry) == ("rejected", "rate-limited", False, "later") and ground.clicks == 0
    assert op.error is not None and "Limit reached. Try again after 7:30 PM." in op.error["message"]
    ground.off("picker-limit")
    assert worker.send("Hello", id=worker.id, **PRO).attempt == 2 and len(ground.sends) == 1


def test_a_page_that_drops_the_choice_while_it_is_typed_is_not_pressed(ground: Ground, worker: Worker) -> None:
    ground.on("picker-reverts", at="paste")
    op = refused(worker, **PRO)
    assert op.slug == "site-changed" and "did not keep the model" in str(op.error) and ground.clicks == 0


@pytest.mark.parametrize("other", [{"model": "gpt-5-5", "effort": ""}, {"model": "", "effort": "standard"}], ids=["model", "effort"])
def test_another_one_in_the_held_request_is_failed_with_the_pages_notice(ground: Ground, worker: Worker, other: dict[str, str]) -> None:
    ground.on("model-replaced", notice="Another one answers until 7:30 PM.", **other)
    op = refused(worker, **PRO)
    assert (op.state, op.slug, op.request, ground.clicks) == ("rejected", "site-changed", "refused", 1)
    assert op.error is not None and "as asked for and chosen; the page says: Another one answers until 7:30 PM" in op.error["message"]


def test_a_request_with_a_word_that_is_none_is_not_repeated(ground: Ground, worker: Worker) -> None:
    ground.on("model-replaced", model="x\x1b]0;title\x07", effort="", notice="")
    assert "\x1b" not in str(refused(worker, **PRO).error)


def test_another_one_that_the_site_took_is_a_warning(ground: Ground, worker: Worker) -> None:
    ground.on("model-substituted", model="gpt-5-5", effort="standard")
    worker.send("Hello", **PRO)
    doc = worker.document()
    assert (doc["exit_code"], doc["model"], doc["effort"]) == (0, "gpt-5-5", "standard")
    assert doc["warnings"] == ["model gpt-5-5-pro was asked for, and the site says that gpt-5-5 answered",
                               "effort extended was asked for, and the site says that standard answered"]


def test_another_model_under_the_same_id_is_another_request(ground: Ground, worker: Worker) -> None:
    op = worker.send("Hello", **PRO)
    for chosen in ({}, {"model": "gpt-5-5-pro"}, {"model": "gpt-5-5-pro", "effort": "standard"}):
        with pytest.raises(Failure) as why:
            worker.send("Hello", id=op.operation_id, **chosen)
        assert why.value.slug == "conflict"
    assert worker.send("Hello", id=op.operation_id, **PRO) == worker.op and len(ground.sends) == 1


def test_what_is_not_said_is_the_default_and_an_empty_word_is_none() -> None:
    said = Job("send", "Hello", model="gpt-5-5-pro", effort="extended").payload(None, None)
    assert said.fingerprint() == Job("send", "Hello").payload("gpt-5-5-pro", "extended").fingerprint()
    plain = Job("send", "Hello", model="", effort="").payload("gpt-5-5-pro", "extended")
    assert (plain.model, plain.effort) == (None, None) and plain.fingerprint() == Job("send", "Hello").payload(None, None).fingerprint()
