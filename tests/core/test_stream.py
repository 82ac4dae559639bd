"""The reply stream decoded: both eras, any chunk boundary, damage counted and never raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gptbridge.core.stream import (
    Completed,
    ConversationNamed,
    Done,
    InputMessage,
    MessageState,
    ReplyStream,
    SiteError,
    StreamFact,
    Title,
)
from tests.core.site_json import CONVERSATION, Json, text, thoughts

REPLY = "7f0c1f62-8d57-83e9-9c0e-000000000002"


def frame(value: Any, event: str | None = None, end: str = "\n") -> bytes:
    body = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    head = f"event: {event}{end}" if event else ""
    return f"{head}data: {body}{end}{end}".encode()


def message(words: str = "", ident: str = REPLY, role: str = "assistant", **more: Any) -> Json:
    facts: Json = {"id": ident, "author": {"role": role}, "content": text(words), "status": "in_progress", "end_turn": None}
    return facts | {"metadata": {"turn_exchange_id": "t-1"}, "recipient": "all", "channel": "final"} | more


def read(data: bytes) -> tuple[list[StreamFact], ReplyStream]:
    stream = ReplyStream()
    return stream.feed(data) + stream.close(), stream


def last_text(facts: list[StreamFact], ident: str = REPLY) -> str:
    return [fact.text for fact in facts if isinstance(fact, MessageState) and fact.message_id == ident][-1]


ASKED = message("q", "u-1", "user") | {"metadata": {"turn_exchange_id": "t-1", "parent_id": "p-1"}}
DELTAS = [
    frame('"v1"', "delta_encoding"),
    frame({"type": "resume_conversation_token", "token": "x", "conversation_id": CONVERSATION}),
    frame({"type": "input_message", "input_message": ASKED}),
    frame({"p": "", "o": "add", "v": {"message": message(), "conversation_id": CONVERSATION, "error": None}, "c": 3}, "delta"),
    frame({"type": "message_marker", "marker": "final_channel_token", "event": "first"}),
    frame({"p": "/message/content/parts/0", "o": "append", "v": "Grüße, "}, "delta"),
    frame({"v": "日本"}, "delta"),
    frame({"v": "語 😀"}, "delta"),
    frame({"type": "title_generation", "title": "A title", "conversation_id": CONVERSATION}),
    frame({"type": "title_generation", "title": "A title", "conversation_id": CONVERSATION}),
    frame(
        {
            "p": "",
            "o": "patch",
            "v": [
                {"p": "/message/content/parts/0", "o": "append", "v": "!"},
                {"p": "", "o": "patch", "v": [{"p": "/message/end_turn", "o": "replace", "v": True}]},
                {"p": "/message/status", "o": "replace", "v": "finished_successfully"},
                {"p": "/message/metadata", "o": "append", "v": {"is_complete": True}},
            ],
        },
        "delta",
    ),
    frame({"type": "message_stream_complete", "conversation_id": CONVERSATION}),
    frame("[DONE]"),
]
STATES = ["", "Grüße, 日本語 😀", "Grüße, 日本語 😀!"]


def test_delta_encoding_fact_by_fact() -> None:
    stream = ReplyStream()
    facts = [fact for piece in DELTAS for fact in stream.feed(piece)]
    kinds = [fact for fact in facts if not isinstance(fact, MessageState)]
    assert kinds == [ConversationNamed(CONVERSATION), InputMessage("u-1", "t-1", "p-1"), Title("A title"), Completed(), Done()]
    states = [fact for fact in facts if isinstance(fact, MessageState)]
    assert [s.text for s in states] == ["", "Grüße, ", "Grüße, 日本", "Grüße, 日本語 😀", "Grüße, 日本語 😀!"]
    last = MessageState(REPLY, "assistant", "final", "all", "text", STATES[-1], "finished_successfully", True, "t-1")
    assert states[-1] == last and stream.finished and stream.malformed == 0


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.sampled_from(["\n", "\r\n", "\r"]))
def test_chunk_boundaries_and_line_ends_mean_nothing(sizes: list[int], end: str) -> None:
    data = b"".join(DELTAS).replace(b"\n", end.encode())
    whole, _ = read(data)
    stream, facts, at, turn = ReplyStream(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        facts += stream.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    facts += stream.close()
    assert [f for f in facts if not isinstance(f, MessageState)] == [f for f in whole if not isinstance(f, MessageState)]
    assert last_text(facts) == last_text(whole) == STATES[-1] and stream.finished and stream.malformed == 0


def test_snapshots_of_2023() -> None:
    snapshots = [{"message": message(words), "conversation_id": CONVERSATION, "error": None} for words in ("", "He", "Hello", "Hello")]
    frames = [frame(snapshot) for snapshot in snapshots]
    stream = ReplyStream()
    facts = [fact for piece in [*frames, frame("[DONE]")] for fact in stream.feed(piece)]
    assert isinstance(facts[0], ConversationNamed) and facts[-1] == Done()
    assert [f.text for f in facts if isinstance(f, MessageState)] == ["", "He", "Hello"]


def test_the_end_of_bytes_is_no_finish_and_the_last_frame_needs_no_blank_line() -> None:
    facts, stream = read(b"".join(DELTAS[:7]))
    assert not stream.finished and last_text(facts) == "Grüße, 日本"
    facts, stream = read(b"".join(DELTAS[:-1]) + b"data: [DONE]")
    assert facts[-1] == Done() and stream.finished
    stream = ReplyStream()
    assert stream.feed(b"data: [DONE]\n") == [Done()] and stream.feed(DELTAS[3]) == []


def test_omitted_paths_new_messages_and_counters() -> None:
    frames = [
        frame({"p": "", "o": "add", "v": {"message": message(ident="one", channel="commentary")}, "c": 0}),
        frame({"v": {"message": message(ident="two")}, "c": 1}),
        frame({"p": "/message/content/parts/0", "o": "append", "v": "second"}),
        frame({"v": "first", "c": 0}),
        frame({"v": " more", "c": 1}),
        frame({"p": "", "o": "patch", "v": [{"p": "/message/status", "o": "replace", "v": "finished_successfully"}]}),
        frame({"v": [{"p": "/message/end_turn", "o": "replace", "v": True}]}),
        frame({"v": "!"}),
        frame({"p": "/message/content/parts/1", "o": "add", "v": "part two"}),
        frame({"p": "/message/content/parts/0", "o": "truncate", "v": 6}),
    ]
    facts, stream = read(b"".join(frames))
    assert last_text(facts, "one") == "first" and last_text(facts, "two") == "second\n\npart two" and stream.malformed == 0
    assert [f for f in facts if isinstance(f, MessageState)][-1].end_turn is True


def test_thoughts_and_recap_grow() -> None:
    start = message(channel="analysis", content={"content_type": "thoughts", "thoughts": []})
    frames = [
        frame({"p": "", "o": "add", "v": {"message": start}, "c": 0}),
        frame({"p": "/message/content/thoughts", "o": "append", "v": thoughts(("Plan", "Rea"))["thoughts"]}),
        frame({"p": "/message/content/thoughts/0/content", "o": "append", "v": "d it."}),
    ]
    facts, _ = read(b"".join(frames))
    assert last_text(facts) == "**Plan**\n\nRead it."


def test_a_mark_that_straddles_two_chunks_never_shows() -> None:
    stream = ReplyStream()
    stream.feed(frame({"p": "", "o": "add", "v": {"message": message()}, "c": 0}))
    facts = stream.feed(frame({"p": "/message/content/parts/0", "o": "append", "v": "so it is \ue200ci"}))
    assert last_text(facts) == "so it is " and stream.feed(frame({"v": "te\ue202turn0sea"})) == []
    facts = stream.feed(frame({"v": "rch0\ue201 and \ue200entity\ue202[\"city\",\"Oslo\",0]\ue201"}))
    assert last_text(facts) == "so it is and Oslo"


def test_provisional_ids_are_no_conversation() -> None:
    names = ["WEB:7f0c1f62-8d57-83e9-9c0e-000000000002", "local-1", "", 7, None, "../../x", CONVERSATION.upper(), CONVERSATION]
    facts, _ = read(b"".join(frame({"message": message(), "conversation_id": name}) for name in names))
    assert [f for f in facts if isinstance(f, ConversationNamed)] == [ConversationNamed(CONVERSATION)]


def test_the_users_own_message_in_the_stream_names_its_final_id_once() -> None:
    user = message("q", "aaa2741d-0211-4c62-8d1d-b3fff21fff01", "user")
    hidden = message("", "h", "user", metadata={"is_visually_hidden_from_conversation": True})
    facts, _ = read(frame({"p": "", "o": "add", "v": {"message": hidden}, "c": 0}) + frame({"v": {"message": user}, "c": 1}) * 2)
    assert [f for f in facts if isinstance(f, InputMessage)] == [InputMessage("aaa2741d-0211-4c62-8d1d-b3fff21fff01", "t-1", None)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"message": None, "conversation_id": CONVERSATION, "error": "Something went wrong"}, SiteError("Something went wrong", None)),
        ({"message": None, "error": {"message": "cap", "code": "cap_exceeded", "clears_in": 60}}, SiteError("cap", "cap_exceeded", 60.0)),
        ({"detail": "Too many requests"}, SiteError("Too many requests", None)),
        ({"detail": [{"loc": [], "msg": "bad id", "type": "x"}]}, SiteError("bad id", None)),
        ({"type": "error", "error": {"message": "m", "code": 7}}, SiteError("m", None)),
        ({"type": "error"}, SiteError("the site reported an error", None)),
    ],
)
def test_errors_of_the_site(value: Json, expected: SiteError) -> None:
    facts, stream = read(frame(value))
    assert [f for f in facts if isinstance(f, SiteError)] == [expected] and not stream.finished


def test_a_refusals_json_body_is_an_error_too() -> None:
    body = json.dumps({"detail": {"message": "Grüße", "code": "cap", "clears_in": 12}}, ensure_ascii=False).encode()
    for size in (1, 7, len(body)):
        stream = ReplyStream()
        facts = [fact for at in range(0, len(body), size) for fact in stream.feed(body[at : at + size])]
        assert facts == [SiteError("Grüße", "cap", 12.0)] and stream.feed(b"\n") == []
    stream = ReplyStream()
    assert stream.feed(b"<html>{}") == [] and stream.feed(b'{"detail": "x"}') == []


@pytest.mark.parametrize(
    "bad",
    [
        frame("{broken"),
        frame("[" * 5000),
        frame("7"),
        frame({"p": 7, "o": "append", "v": "x"}),
        frame({"p": "/message/content/parts/9", "o": "append", "v": "x"}),
        frame({"p": "/message/content/parts/-5", "o": "append", "v": "x"}),
        frame({"p": "/message/status/x/y", "o": "append", "v": "x"}),
        frame({"p": "", "o": "patch", "v": [7]}),
        frame({"p": "", "o": "patch", "v": "x"}),
        frame({"p": "/message", "o": "explode", "v": 1}),
        frame({"p": "", "o": ["x"], "v": 1}),
        frame({"v": "x", "c": "one"}),
        frame({"message": 7}),
        frame({"unknown": 1}),
        frame({"type": "input_message"}),
        b"data: \xff\xfe\n\n",
    ],
)
def test_damage_is_counted_and_the_rest_goes_on(bad: bytes) -> None:
    rest = frame({"p": "/message/content/parts/0", "o": "append", "v": "語"}) + frame("[DONE]")
    facts, stream = read(b"".join(DELTAS[:7]) + bad + rest)
    assert stream.malformed == 1 and last_text(facts) == "Grüße, 日本語" and facts[-1] == Done()


def test_comments_other_fields_unknown_types_and_missing_blank_lines() -> None:
    noise = b"\xef\xbb\xbf: ping\nid: 7\nretry: 10\n\ndata: " + json.dumps({"type": "novel", "x": 1}).encode() + b"\n\n"
    glued = b"".join(piece[:-1] for piece in DELTAS[3:7]) + b"\n"
    facts, stream = read(noise + glued)
    assert last_text(facts) == "Grüße, 日本" and stream.malformed == 0
    split = b'data: {"message":\ndata: ' + json.dumps(message("two lines")).encode() + b"}\n\n"
    assert last_text(read(split)[0]) == "two lines"


def test_surrogates_travel() -> None:
    facts, _ = read(b"data: " + json.dumps({"message": message("lone \ud83d")}).encode("ascii") + b"\n\n")
    assert last_text(facts) == "lone \ud83d"


BITS = [b"\n", b"\r", b"data: ", b"data: {", b"event: delta\n"]
KEYS = ["p", "o", "v", "c", "type", "message", "id", "content", "parts", "author", "error"]
PIECES = st.one_of(st.sampled_from(DELTAS), st.binary(max_size=20), st.sampled_from(BITS))
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=4), st.sampled_from(["add", "append", "patch", "replace", ""])),
    lambda kids: st.one_of(
        st.lists(kids, max_size=3),
        st.dictionaries(st.sampled_from(KEYS), kids, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PIECES, VALUES.map(lambda value: frame(json.dumps(value)))), max_size=12))
def test_any_bytes_are_survived(pieces: list[bytes]) -> None:
    stream = ReplyStream()
    for piece in pieces:
        stream.feed(piece)
    stream.close()


def test_many_small_pieces_stay_cheap() -> None:
    stream = ReplyStream()
    big = frame({"message": message("x" * 300_000)}) + DELTAS[3] + frame({"p": "/message/content/parts/0", "o": "append", "v": ""})
    data = big + b"".join(frame({"v": "word "}) for _ in range(4000))
    facts = [fact for at in range(0, len(data), 7) for fact in stream.feed(data[at : at + 7])]
    assert last_text(facts) == "word " * 4000
