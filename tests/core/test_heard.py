"""From the bytes of a reply to what every viewer holds: stream, accumulator and fold together (LO-06, LO-07, cases 14, 22)."""

from __future__ import annotations

import random

from gptbridge.core.heard import Heard
from gptbridge.core.stream import MessageState, ReplyStream
from gptbridge.core.turn import Event, Texts, TurnState, fold
from tests.core.test_stream import frame, message

WORDS = ["flock", "locks", "the", "**open**", "file\n\n", "日本", "😀", "`x`", " ", "\n> "]


def watched(data: bytes, cuts: list[int]) -> tuple[list[Event], Texts]:
    """The events that a front gets of it, whatever the pieces in which the bytes come; and what was heard."""
    stream, heard, turn = ReplyStream(), Heard(), TurnState()
    turn.submitted()
    events: list[Event] = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        for fact in stream.feed(data[begin:end]):
            if isinstance(fact, MessageState) and heard.take(fact):
                events += turn.observe(*heard.texts)
    return events, heard.texts


def test_a_thousand_rewrites_fold_to_the_final_text() -> None:
    for seed in range(5):
        rng = random.Random(seed)
        frames = [frame({"p": "", "o": "add", "v": {"message": message(), "error": None}, "c": 1}, "delta")]
        text = ""
        for _ in range(1000):
            how, more = rng.choice(("append", "append", "replace", "truncate")), " ".join(rng.choices(WORDS, k=rng.randrange(1, 6)))
            keep = rng.randrange(len(text) + 1)
            text = {"append": text + more, "replace": more if rng.random() < 0.2 else text[:keep] + more, "truncate": text[:keep]}[how]
            value = {"append": more, "replace": text, "truncate": keep}[how]
            frames.append(frame({"p": "/message/content/parts/0", "o": how, "v": value}, "delta"))
        data = b"".join(frames)
        cuts = sorted(rng.sample(range(len(data)), 400))
        events, heard = watched(data, cuts)
        assert fold(events) == heard == Texts("", text)
        assert {event["type"] for event in events} == {"answer", "replace"}


def test_what_was_said_before_stands() -> None:
    data = b"".join(frame({"message": one, "error": None}) for one in (
        message("Looking", "m-1", channel="commentary"),
        message("no", "m-2", channel="analysis"), message("q", "m-3", "user"), message("call", "m-4", recipient="python"),
        message("The answer", "m-5")))
    events, heard = watched(data, [])
    assert fold(events) == heard == Texts("", "Looking\n\nThe answer")


def test_the_sites_account_overtakes_a_stream_that_ended_early() -> None:
    heard = Heard()
    stream = ReplyStream()
    for fact in stream.feed(frame({"message": message("The be"), "error": None})):
        assert isinstance(fact, MessageState) and heard.take(fact)
    assert not heard.overtake("", "The") and heard.texts.answer == "The be"  # a reading that is behind takes nothing back
    assert heard.overtake("thought", "The beginning") and heard.texts == Texts("thought", "The beginning")
