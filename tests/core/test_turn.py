"""One accumulator per turn (LO-01 .. LO-09, LO-16)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.turn import CLASSES, PHASES, TERMINALS, Disorder, Event, Texts, TurnState, fold

CONVERSATION = "68c1d2e3-0000-8000-8000-000000000001"
URL = "https://chatgpt.com/c/" + CONVERSATION


def begun() -> TurnState:
    turn = TurnState()
    turn.submitted()
    turn.named(CONVERSATION, URL)
    return turn


def test_a_whole_turn_event_by_event() -> None:
    turn, events = TurnState(), list[Event]()
    events += turn.state("queued")
    events += turn.upload("a.txt", "attached")
    events += turn.ratelimit(61.5)
    events += turn.submitted()
    events += turn.heartbeat(1.0)
    events += turn.named(CONVERSATION, URL)
    events += turn.named(CONVERSATION, URL)
    events += turn.observe("", "")
    events += turn.observe("Plan", "")
    events += turn.observe("Plan it", "He")
    events += turn.observe("Plan it", "Hello")
    events += turn.observe("Plan it", "Hallo")
    events += turn.response_done("Plan it", "Hallo!")
    events += turn.collecting()
    events += turn.download("r.csv", "started")
    events += turn.download("r.csv", "saved", "ask-gpt/r.csv")
    events += turn.done({"text": "Hallo!", "url": URL})
    assert events == [
        {"type": "state", "phase": "attaching", "state": "queued"},
        {"type": "upload", "phase": "attaching", "file": "a.txt", "state": "attached"},
        {"type": "ratelimit", "phase": "attaching", "wait_s": 61.5},
        {"type": "heartbeat", "phase": "submitted", "elapsed_s": 1.0},
        {"type": "meta", "phase": "named", "conversation_id": CONVERSATION, "url": URL},
        {"type": "thinking", "phase": "streaming", "delta": "Plan"},
        {"type": "thinking", "phase": "streaming", "delta": " it"},
        {"type": "answer", "phase": "streaming", "delta": "He"},
        {"type": "answer", "phase": "streaming", "delta": "llo"},
        {"type": "replace", "phase": "streaming", "thinking": "Plan it", "answer": "Hallo"},
        {"type": "answer", "phase": "streaming", "delta": "!"},
        {"type": "response_done", "phase": "response_done", "thinking": "Plan it", "answer": "Hallo!"},
        {"type": "download", "phase": "collecting", "file": "r.csv", "state": "started", "path": None},
        {"type": "download", "phase": "collecting", "file": "r.csv", "state": "saved", "path": "ask-gpt/r.csv"},
        {"type": "done", "phase": "done", "reply": {"text": "Hallo!", "url": URL}},
    ]
    assert turn.ended and fold(events) == turn.texts == Texts("Plan it", "Hallo!")


def test_an_error_carries_what_there_was() -> None:
    turn = begun()
    turn.observe("t", "partly")
    assert turn.error("browser", "the browser went away") == [
        {
            "type": "error",
            "phase": "error",
            "class": "browser",
            "detail": "the browser went away",
            "partial": {"phase": "streaming", "thinking": "t", "answer": "partly", "saved_artifacts": []},
        }
    ]
    turn = begun()
    turn.response_done("", "x")
    turn.download("a", "saved", "ask-gpt/a")
    turn.download("b", "failed")
    (event,) = turn.error("local", "disk full")
    assert event["partial"] == {"phase": "collecting", "thinking": "", "answer": "x", "saved_artifacts": ["ask-gpt/a"]}
    with pytest.raises(ValueError, match="surprise"):
        TurnState().error("surprise", "x")
    for klass in CLASSES:
        assert TurnState().error(klass, "x")[0]["class"] == klass


CALLS: dict[str, Any] = {
    "state": lambda t: t.state("queued"),
    "upload": lambda t: t.upload("f", "queued"),
    "ratelimit": lambda t: t.ratelimit(1.0),
    "heartbeat": lambda t: t.heartbeat(1.0),
    "submitted": lambda t: t.submitted(),
    "named": lambda t: t.named(CONVERSATION, URL),
    "observe": lambda t: t.observe("", "x"),
    "response_done": lambda t: t.response_done("", "x"),
    "collecting": lambda t: t.collecting(),
    "download": lambda t: t.download("f", "started"),
    "done": lambda t: t.done({}),
    "error": lambda t: t.error("chat", "x"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("end", ["done", "error"])
def test_nothing_after_the_end(call: str, end: str) -> None:
    turn = begun()
    turn.response_done("", "x")
    CALLS[end](turn)
    with pytest.raises(Disorder):
        CALLS[call](turn)


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ([], "observe"),
        ([], "response_done"),
        ([], "done"),
        ([], "collecting"),
        ([], "download"),
        (["submitted"], "submitted"),
        (["submitted"], "upload"),
        (["submitted"], "response_done"),  # no conversation id yet: LO-05
        (["submitted", "named", "observe"], "done"),
        (["submitted", "named", "observe"], "download"),
        (["submitted", "named", "response_done"], "response_done"),
        (["submitted", "named", "response_done"], "observe"),
        (["submitted", "named", "response_done"], "submitted"),
    ],
)
def test_out_of_order(before: list[str], call: str) -> None:
    turn = TurnState()
    for step in before:
        CALLS[step](turn)
    was = (turn.phase, turn.texts)
    with pytest.raises(Disorder):
        CALLS[call](turn)
    assert (turn.phase, turn.texts) == was


def test_the_name_may_come_first_or_late_but_never_change() -> None:
    turn = TurnState()
    assert turn.named(CONVERSATION, URL)[0]["phase"] == "attaching"
    turn.submitted()
    assert turn.phase == "submitted" and turn.observe("", "x")[0]["phase"] == "streaming"
    late = TurnState()
    late.submitted()
    late.observe("", "x")
    assert late.named(CONVERSATION, URL)[0]["phase"] == "streaming"
    with pytest.raises(Disorder):
        late.named(CONVERSATION[:-1] + "2", URL)
    with pytest.raises(ValueError, match="gone"):
        late.download("f", "gone")
    with pytest.raises(ValueError, match="gone"):
        TurnState().upload("f", "gone")


WORDS = st.text(st.characters(), max_size=6)
REWRITE = st.one_of(
    st.tuples(st.just("grow"), WORDS, WORDS),
    st.tuples(st.just("set"), WORDS, WORDS),
    st.tuples(st.just("cut"), st.just(""), st.just("")),
)


@given(st.lists(REWRITE, max_size=20), st.integers(0, 20))
def test_folding_gives_the_texts_of_response_done(rewrites: list[tuple[str, str, str]], named_at: int) -> None:
    turn, thinking, answer = TurnState(), "", ""
    events = turn.submitted()
    for number, (how, one, two) in enumerate(rewrites):
        if number == named_at:
            events += turn.named(CONVERSATION, URL)
        if how == "grow":
            thinking, answer = thinking + one, answer + two
        elif how == "set":
            thinking, answer = one, two
        else:
            thinking, answer = thinking[:-1], answer[:-2]
        new = turn.observe(thinking, answer)
        assert sum(e["type"] == "replace" for e in new) <= 1
        events += new
        assert fold(events) == (thinking, answer)
    events += turn.named(CONVERSATION, URL)
    events += turn.response_done(thinking + "t", answer)
    events += turn.done({})
    assert fold(events) == (thinking + "t", answer)
    assert fold(e for e in events if e["type"] != "response_done") == (thinking + "t", answer)


@given(st.lists(st.sampled_from(sorted(CALLS)), max_size=25))
def test_any_order_of_calls_keeps_the_grammar(calls: list[str]) -> None:
    turn, events = TurnState(), list[Event]()
    for call in calls:
        try:
            events += CALLS[call](turn)
        except Disorder:
            pass
    kinds = [event["type"] for event in events]
    ends = [number for number, kind in enumerate(kinds) if kind in TERMINALS]
    assert len(ends) <= 1 and (not ends or ends[0] == len(kinds) - 1) and kinds.count("meta") <= 1
    if "done" in kinds:
        assert "response_done" in kinds and "meta" in kinds
    order = [PHASES.index(event["phase"]) for event in events]
    assert order == sorted(order)


@given(st.lists(REWRITE, max_size=20))
def test_a_viewer_that_takes_the_events_stands_where_their_maker_stands(rewrites: list[tuple[str, str, str]]) -> None:
    turn, seen = begun(), TurnState()
    seen.take({"type": "meta", "phase": "named", "conversation_id": CONVERSATION, "url": URL})
    texts = Texts("", "")
    for how, one, two in rewrites:
        texts = Texts(texts.thinking + one, texts.answer + two) if how == "grow" else Texts(one, two)
        for event in turn.observe(*texts):
            seen.take(event)
        assert (seen.texts, seen.conversation_id) == (turn.texts, turn.conversation_id)
    for event in [*turn.response_done(*texts), *turn.download("a", "saved", "ask-gpt/a"), *turn.download("a", "present", "ask-gpt/a")]:
        seen.take(event)
    assert (seen.phase, seen.texts, seen.saved, seen.url) == (turn.phase, turn.texts, turn.saved, turn.url)
    for event in turn.error("chat", "no"):
        seen.take(event)
    assert seen.ended


def test_the_same_row_is_told_once_and_a_next_attempt_again() -> None:
    turn = TurnState()
    told = [event["state"] for name in ("queued", "queued", "rejected", "queued", "claimed") for event in turn.state(name)]
    assert told == ["queued", "rejected", "queued", "claimed"]


def test_a_conversation_that_was_known_before_is_a_phase_of_its_own_after_the_send() -> None:
    turn = TurnState()
    [event] = turn.named(CONVERSATION, URL)
    assert event["phase"] == "attaching"
    turn.submitted()
    assert turn.named(CONVERSATION, URL) == [] and turn.phase == "named"
