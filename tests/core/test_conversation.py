"""The conversation JSON as turns: branch, identity, completion (SM-15 .. SM-17, RP-01, RP-02, HY-08; cases 13 to 27)."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gptbridge.core.conversation import UNREADABLE, SiteTurn, completed_by, find_message, read
from gptbridge.core.nodes import conversation_id_of, seconds
from tests.core.documents import SHARED
from tests.core.site_json import CONVERSATION, ROOT, Doc, Json, image, text, thoughts

USER, REPLY = "7f0c1f62-8d57-83e9-9c0e-000000000001", "7f0c1f62-8d57-83e9-9c0e-000000000002"


def simple(**more: Any) -> Doc:
    doc = Doc()
    doc.user(USER, "Explain flock.", turn_exchange_id="turn-1")
    doc.final(REPLY, "**flock** locks.", turn_exchange_id="turn-1", model_slug="m-1", thinking_effort="high", **more)
    return doc


def only(doc: Doc) -> SiteTurn:
    (turn,) = read(doc.data).turns
    return turn


def test_a_simple_turn_has_all_its_facts() -> None:
    doc = simple()
    found = read(doc.data, conversation_id=CONVERSATION.upper())
    assert (found.conversation_id, found.title, found.complete, found.newest_node_id) == (CONVERSATION, "Sample", True, REPLY)
    assert (found.created_at, found.model, found.current_node) == (1763466768.1, "m-1", REPLY)
    turn = only(doc)
    assert (turn.user_message_id, turn.user_text, turn.answer, turn.thinking) == (USER, "Explain flock.", "**flock** locks.", "")
    assert (turn.state, turn.final_node_id, turn.model, turn.effort, turn.turn_id) == ("completed", REPLY, "m-1", "high", "turn-1")
    assert (turn.node_ids, turn.parent_id, turn.at, turn.error) == ((USER, REPLY), ROOT, 1763466771.0, None)


# Completion: each fact missing alone


@pytest.mark.parametrize(
    "change",
    [
        {"author": {"role": "tool", "name": "web.run"}},
        {"author": {"role": "user"}},
        {"channel": "commentary"},
        {"channel": "analysis"},
        {"channel": None},
        {"end_turn": False},
        {"end_turn": None},
        {"status": "in_progress"},
        {"status": "finished_partial_completion"},
        {"status": "error"},
        {"recipient": "python"},
        {"metadata": {"finish_details": {"type": "interrupted", "reason": "client_stopped"}}},
        {"metadata": {"is_error": True}},
    ],
)
def test_one_missing_fact_does_not_complete(change: Json) -> None:
    doc = simple()
    assert completed_by(doc.data, USER) == only(doc)
    doc.data["mapping"][REPLY]["message"] |= change
    assert completed_by(doc.data, USER) is None


def test_the_nearest_user_message_owns_the_answer() -> None:
    doc = simple()
    doc.user("u2", "Continue")
    assert completed_by(doc.data, "u2") is None
    doc.user("u3", "Continue")
    doc.final("a3", "the third")
    assert completed_by(doc.data, "u2") is None
    done = completed_by(doc.data, "u3")
    assert done is not None and done.answer == "the third"
    first = completed_by(doc.data, USER)
    assert first is not None and first.answer == "**flock** locks."
    assert completed_by(doc.data, REPLY) is None and completed_by(doc.data, "absent") is None


def test_commentary_then_silence_then_the_real_answer() -> None:
    doc = Doc()
    doc.user(USER, "q")
    doc.add("c1", "assistant", text("I look first."), channel="commentary", end_turn=False)
    assert completed_by(doc.data, USER) is None and only(doc).state == "answering"
    doc.add("t1", "assistant", thoughts(("Plan", "Read it.")), channel="analysis", end_turn=False)
    doc.add("k1", "assistant", {"content_type": "code", "language": "unknown", "text": "{}"}, recipient="web.run", channel="analysis")
    doc.add("k2", "tool", text("secret tool words"), name="web.run")
    doc.add("r1", "assistant", {"content_type": "reasoning_recap", "content": "Thought for 15s"}, channel="analysis")
    assert completed_by(doc.data, USER) is None and only(doc).state == "answering"
    partial = doc.final("f1", "The real", status="in_progress", end_turn=None)
    assert completed_by(doc.data, USER) is None and only(doc).answer == "I look first.\n\nThe real"
    partial |= {"status": "finished_successfully", "end_turn": True, "content": text("The real answer.")}
    done = completed_by(doc.data, USER)
    assert done is not None and done == only(doc)
    assert done.answer == "I look first.\n\nThe real answer." and done.thinking == "**Plan**\n\nRead it."
    assert done.turn_id == "c1" and done.final_node_id == "f1"


def test_an_empty_final_is_an_answer_known_to_be_empty() -> None:
    doc = Doc()
    doc.user(USER, "q")
    assert only(doc).answer is None and only(doc).state == "empty"
    doc.final(REPLY, "")
    done = completed_by(doc.data, USER)
    assert done is not None and (done.answer, done.state, done.final_node_id) == ("", "completed", REPLY)


def test_something_in_progress_after_the_final_holds_it_back() -> None:
    doc = simple()
    doc.final("more", "And", status="in_progress", end_turn=None)
    assert completed_by(doc.data, USER) is None


# An image or a report as the last node


def test_a_picture_completes_only_a_finished_exchange() -> None:
    doc = Doc()
    doc.user(USER, "draw")
    doc.add("k", "assistant", {"content_type": "code", "text": "{}"}, recipient="t2uay3k.sj1i4kz", end_turn=False)
    picture = doc.add("i", "tool", image(generation={"gen_id": "g"}), name="t2uay3k.sj1i4kz", image_gen_title="A")
    assert completed_by(doc.data, USER) is None  # words may follow
    done = completed_by(doc.data, USER, ended=True)
    assert done is not None and (done.answer, done.final_node_id) == ("", "i")
    assert [a["kind"] for a in done.artifacts] == ["image"] and done.artifacts[0]["node_id"] == "i"
    picture["end_turn"] = True
    assert completed_by(doc.data, USER) is not None
    doc.data["async_status"] = 4
    assert completed_by(doc.data, USER, ended=True) is None
    doc.data["async_status"] = None
    picture["end_turn"] = False
    assert completed_by(doc.data, USER, ended=True) is None
    picture |= {"end_turn": None, "status": "in_progress"}
    assert completed_by(doc.data, USER, ended=True) is None


def test_the_image_tools_closing_words_or_the_next_prompt_end_it() -> None:
    doc = Doc()
    doc.user(USER, "draw")
    doc.add("i", "tool", image(dalle={"gen_id": "g"}), name="dalle.text2im")
    nxt = copy.deepcopy(doc)
    doc.add("w", "tool", text("One image. Say nothing more and end the turn."), name="t2uay3k.sj1i4kz")
    done = completed_by(doc.data, USER)
    assert done is not None and done.answer == "" and done.final_node_id == "i"
    nxt.user("u2", "thanks")
    assert completed_by(nxt.data, USER) is not None


@pytest.mark.parametrize(
    ("role", "name", "content"),
    [
        ("tool", "myfiles_browser", image()),
        ("tool", "t2uay3k.x", image("sediment://file_1#page_2")),
        ("user", None, image(dalle={"gen_id": "x"})),
        ("tool", "python", {"content_type": "execution_output", "text": ""}),
    ],
)
def test_a_picture_that_nobody_made_completes_nothing(role: str, name: str | None, content: Json) -> None:
    doc = Doc()
    doc.user(USER, "look")
    doc.add("i", role, content, name=name)
    assert completed_by(doc.data, USER, ended=True) is None


def test_a_research_report_is_the_answer() -> None:
    doc = Doc()
    doc.user(USER, "research")
    cite = "\ue200cite\ue202turn0search0\ue201"
    report = {
        "content": text(f"# Report\n\nFact {cite}."),
        "status": "finished_successfully",
        "metadata": {"content_references": [{"matched_text": cite, "items": [{"title": "T", "url": "https://example.org/"}]}]},
    }
    widget = doc.add("w", "tool", text("Called tool"), name="api_tool", chatgpt_sdk={"widget_state": json.dumps({"status": "planning"})})
    assert completed_by(doc.data, USER) is None
    widget["metadata"]["chatgpt_sdk"]["widget_state"] = json.dumps({"report_message": report})
    done = completed_by(doc.data, USER)
    assert done is not None and done.answer == "# Report\n\nFact ([T](https://example.org/))." and done.final_node_id == "w"
    widget["metadata"]["chatgpt_sdk"]["widget_state"] = json.dumps({"report_message": report | {"status": "in_progress"}})
    assert completed_by(doc.data, USER) is None


# Old formats and ends that are no completion


def test_old_replies_are_complete_for_a_reader_but_never_for_an_operation() -> None:
    for end_turn in (True, None):
        doc = Doc()
        doc.user("aaa2741d-0211-4c62-8d1d-b3fff21fff01", "hi", old=True)
        doc.old_reply("a", "Hello.", end_turn=end_turn)
        assert (only(doc).state, only(doc).answer) == ("completed", "Hello.")
        assert completed_by(doc.data, "aaa2741d-0211-4c62-8d1d-b3fff21fff01") is None


def test_stopped_failed_cut_and_for_ever_in_progress() -> None:
    def state(**reply: Any) -> tuple[str, str | None]:
        doc = Doc()
        doc.user("u", "q", old=reply.get("old", False))
        doc.add("a", "assistant", text("Once upon"), **reply)
        return only(doc).state, only(doc).answer

    stop = {"finish_details": {"type": "interrupted", "reason": "client_stopped"}}
    assert state(channel="final", **stop) == ("stopped", "Once upon")
    assert state(old=True, status="in_progress", finish_details={"type": "interrupted"}) == ("stopped", "Once upon")
    assert state(old=True, status="in_progress") == ("stopped", "Once upon")
    assert state(status="in_progress") == ("answering", "Once upon")
    assert state(old=True, finish_details={"type": "max_tokens"}, end_turn=False) == ("incomplete", "Once upon")
    assert state(channel="final", is_error=True) == ("failed", None)
    assert state(channel="final", status="error") == ("failed", None)


def test_a_failed_turn_says_why_and_keeps_what_came_before() -> None:
    doc = Doc()
    doc.user("u", "q")
    doc.add("c", "assistant", text("Partly"), channel="commentary", end_turn=False)
    doc.add("e", "assistant", text("Something went wrong."), is_error=True)
    assert (only(doc).state, only(doc).error, only(doc).answer) == ("failed", "Something went wrong.", "Partly")
    doc.user("u2", "again")
    doc.final("a2", "Something went wrong. Retry. Answer now. Stop")
    last = read(doc.data).turns[-1]
    assert (last.state, last.error, last.answer) == ("completed", None, "Something went wrong. Retry. Answer now. Stop")


def test_a_tools_error_fails_an_old_turn_and_not_a_living_one() -> None:
    error = {"content_type": "system_error", "name": "tool_error", "text": "no such page"}
    doc = Doc()
    doc.user("u", "q")
    doc.add("e", "tool", error, name="web.run")
    assert only(doc).state == "answering"
    old = Doc()
    old.user("u", "q", old=True)
    old.add("e", "tool", error, name="browser", old=True)
    assert (only(old).state, only(old).error) == ("failed", "no such page")
    doc.user("u2", "next")
    assert read(doc.data).turns[0].state == "failed"


def test_continue_joins_what_was_cut() -> None:
    doc = Doc()
    doc.user("u", "q", old=True)
    doc.old_reply("a", "It was a dark and stor", end_turn=None, finish_details={"type": "max_tokens"})
    doc.old_reply("b", "my night.", message_type="continue", finish_details={"type": "stop"})
    turn = only(doc)
    assert (turn.answer, turn.state, turn.final_node_id) == ("It was a dark and stormy night.", "completed", "b")


def test_parts_placeholders_sound_and_calls() -> None:
    doc = Doc()
    doc.user("u", "q")
    doc.add("call", "assistant", text('{"a": 1}'), recipient="show_me.get", channel="commentary")
    doc.add("res", "tool", text("tool words"), name="show_me.get")
    doc.add("hid", "assistant", text("hidden words"), is_visually_hidden_from_conversation=True)
    said, sound = {"content_type": "audio_transcription", "text": "spoken"}, {"content_type": "audio_asset_pointer"}
    parts = ["one", "", said, sound | {"asset_pointer": "sediment://f"}, {"content_type": "hologram"}, "two"]
    doc.add("m", "assistant", {"content_type": "multimodal_text", "parts": parts}, end_turn=False)
    doc.add("n", "assistant", {"content_type": "hypercard", "stack": []}, channel="final", end_turn=True)
    turn = only(doc)
    expected = "one\n\nspoken\n\n[unsupported content: hologram]\n\ntwo\n\n[unsupported content: hypercard]"
    assert turn.answer == expected and turn.state == "completed"
    assert [(a["kind"], a["pointer"]) for a in turn.artifacts] == [("audio", "sediment://f")]


# Thinking (HY-08)

SEALED = {"content_type": "thoughts", "thoughts": [{"encrypted": "x"}]}

@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], ""),
        ([thoughts(("A", "one"), ("B", "two"))], "**A**\n\none\n\n**B**\n\ntwo"),
        ([thoughts(("A", "one")), thoughts(("", "two"))], "**A**\n\none\n\ntwo"),
        ([{"content_type": "thoughts", "thoughts": [{"chunks": ["x", "y"]}]}], "xy"),
        ([{"content_type": "thoughts"}], UNREADABLE),
        ([SEALED], UNREADABLE),
        ([{"content_type": "thoughts", "thoughts": []}], ""),
        ([{"content_type": "thoughts", "thoughts": 7}, thoughts(("A", "one"))], f"**A**\n\none\n\n{UNREADABLE}"),
        ([{"content_type": "thoughts"}, thoughts(("A", "one")), SEALED, thoughts(("B", "two"))],
         f"**A**\n\none\n\n**B**\n\ntwo\n\n{UNREADABLE}"),
        ([{"content_type": "thoughts", "thoughts": [*thoughts(("A", "one"))["thoughts"], {"encrypted": "x"}]}],
         f"**A**\n\none\n\n{UNREADABLE}"),
        ([SEALED, SEALED, {"content_type": "reasoning_recap", "content": "Thought for 15s"}], UNREADABLE),
        ([{"content_type": "thoughts"}, {"content_type": "reasoning_recap", "content": "Thought for 15s"}], UNREADABLE),
        ([{"content_type": "reasoning_recap", "content": "Thought for 15s"}], "Thought for 15s"),
        ([thoughts(("A", "one")), {"content_type": "reasoning_recap", "content": "Thought for 15s"}], "**A**\n\none"),
    ],
)
def test_thinking(nodes: list[Json], expected: str) -> None:
    doc = Doc()
    doc.user(USER, "q")
    for number, content in enumerate(nodes):
        doc.add(f"n{number}", "assistant", content, channel="analysis", end_turn=False)
    doc.final(REPLY, "x")
    assert only(doc).thinking == expected and only(doc).answer == "x"


# Branches and identity


def test_the_selected_branch_is_read_and_the_others_are_found() -> None:
    doc = Doc()
    doc.user("u1", "one")
    doc.final("a1", "first")
    doc.final("a1b", "first again", parent="u1")
    doc.user("u2", "Continue", parent="a1")
    doc.final("a2", "old branch")
    doc.user("u2b", "Continue", parent="a1b")
    doc.final("a2b", "new branch")
    assert [(t.user_message_id, t.answer) for t in read(doc.data).turns] == [("u1", "first again"), ("u2b", "new branch")]
    lost = find_message(doc.data, "U2")
    assert lost is not None and lost.on_selected_branch is False and lost.message_id == "u2"
    assert lost.answer_turn is not None and lost.answer_turn.answer == "old branch" and lost.turn_id == "a2"
    both = find_message(doc.data, "u1")
    assert both is not None and both.on_selected_branch and both.answer_turn is not None and both.answer_turn.answer == "first again"
    reply = find_message(doc.data, "a2")
    assert reply is not None and reply.answer_turn == lost.answer_turn
    assert find_message(doc.data, "no such id") is None and find_message(doc.data, ROOT) is None


def test_of_several_answers_the_newest_complete_one() -> None:
    doc = Doc()
    doc.user("u", "q")
    doc.final("a", "complete, older")
    doc.final("b", "complete, newer", parent="u")
    doc.final("c", "cut off", parent="u", status="in_progress", end_turn=None)
    found = find_message(doc.data, "u")
    assert found is not None and found.answer_turn is not None and found.answer_turn.answer == "complete, newer"
    assert completed_by(doc.data, "u") == found.answer_turn
    assert only(doc).state == "answering" and only(doc).answer == "cut off"
    old = Doc()
    old.user("u", "q", old=True)
    old.old_reply("a", "done")
    old.old_reply("b", "cut", parent="u", status="in_progress", end_turn=None)
    found = find_message(old.data, "u")
    assert found is not None and found.answer_turn is not None and found.answer_turn.answer == "done"


def test_equal_prompts_are_two_turns() -> None:
    doc = Doc()
    for number in (1, 2):
        doc.user(f"u{number}", "Continue")
        doc.final(f"a{number}", "Yes")
    assert [t.user_message_id for t in read(doc.data).turns] == ["u1", "u2"]


def test_ids_differ_in_case_or_stand_in_the_message_alone() -> None:
    doc = simple()
    assert find_message(doc.data, USER.upper()) is not None and completed_by(doc.data, USER.upper()) is not None
    doc.data["current_node"] = REPLY.upper()
    assert read(doc.data).complete and read(doc.data).newest_node_id == REPLY
    doc.data["mapping"][USER]["message"]["id"] = "AAA2741d-0211-4c62-8d1d-b3fff21fff01"
    found = find_message(doc.data, "aaa2741d-0211-4c62-8d1d-b3fff21fff01")
    assert found is not None and found.message_id.startswith("AAA2") and found.answer_turn is not None
    assert found.answer_turn.answer == "**flock** locks."


def test_dangling_and_missing_nodes() -> None:
    doc = simple()
    doc.data["current_node"] = "gone"
    found = read(doc.data)
    assert (found.complete, found.newest_node_id, found.turns[0].answer) == (False, REPLY, "**flock** locks.")
    del doc.data["current_node"]
    assert read(doc.data).turns[0].answer == "**flock** locks." and not read(doc.data).complete
    doc.data["current_node"] = REPLY
    del doc.data["mapping"][USER]
    found = read(doc.data)
    assert not found.complete and found.turns[0].user_text is None and found.turns[0].user_message_id is None
    assert found.turns[0].answer == "**flock** locks." and found.turns[0].parent_id == USER
    lone = find_message(doc.data, REPLY)
    assert lone is not None and lone.answer_turn is None


def test_circles_end() -> None:
    doc = simple()
    doc.data["mapping"][USER]["parent"] = REPLY
    assert read(doc.data).complete is False
    assert find_message(doc.data, USER) is not None
    completed_by(doc.data, USER)


def test_a_conversation_without_turns() -> None:
    doc = Doc()
    doc.add("s", "system", text(""), is_visually_hidden_from_conversation=True)
    doc.add("x", "user", {"content_type": "user_editable_context", "user_profile": "p"})
    found = read(doc.data)
    assert (found.turns, found.newest_node_id, found.complete) == ((), "x", True)


def test_what_is_no_conversation() -> None:
    empty = ({"mapping": None}, {"mapping": []}, {"mapping": {}}, {"mapping": {"a": 1}})
    for bad in (None, [], {}, {"detail": "Conversation not found"}, *empty):
        with pytest.raises(ValueError, match=r"JSON object|no mapping|no messages"):
            read(bad, conversation_id=CONVERSATION)  # type: ignore[arg-type]
    doc = simple()
    with pytest.raises(ValueError, match="another conversation"):
        read(doc.data, conversation_id="691c5e10-7a44-8330-b2d1-4c5d6e7f8092")
    doc.data["conversation_id"] = "WEB:691c5e10-7a44-8330-b2d1-4c5d6e7f8091"
    with pytest.raises(ValueError, match="no conversation id"):
        read(doc.data)
    assert read(doc.data, conversation_id=CONVERSATION).conversation_id == CONVERSATION
    with pytest.raises(ValueError, match="not a conversation id"):
        read(doc.data, conversation_id="WEB:1")


def test_a_flat_list_of_messages_is_read_in_its_order() -> None:
    doc = simple()
    messages = [node["message"] for node in doc.data["mapping"].values() if node["message"]]
    found = read({"conversation_id": CONVERSATION, "messages": messages})
    assert [t.answer for t in found.turns] == ["**flock** locks."] and not found.complete


def test_conversation_ids_and_times() -> None:
    assert conversation_id_of("6925E174-6714-832F-a1b2-c3d4e5f60718") == "6925e174-6714-832f-a1b2-c3d4e5f60718"
    real = "6925e174-6714-832f-a1b2-c3d4e5f60718"
    for bad in ("WEB:" + real, "local-1", "../6925e174", real + "\n", "", 7, None):
        assert conversation_id_of(bad) is None
    assert seconds("2023-02-01T09:01:07.992867") == pytest.approx(1675242067.992867)
    assert seconds("2023-02-01T09:01:07+00:00") == seconds("2023-02-01T09:01:07.000000Z") == 1675242067.0
    for nothing in (None, True, "yesterday", float("nan"), float("inf"), 10**400, [], "0001-01-01T00:00:00+23:59"):
        assert seconds(nothing) is None or isinstance(seconds(nothing), float)
    doc = Doc(create_time="2025-07-23T10:00:00.5Z", update_time=None)
    assert read(doc.data).created_at == 1753264800.5 and read(doc.data).updated_at is None


# Files


def test_attachments_and_artifacts() -> None:
    doc = Doc()
    content = image("file-service://file-abcdefghijklmnopqrstuvwx")
    content["parts"].append("Look.")
    files = [{"id": "file_1", "name": "notes (1).pdf", "size": 5, "mime_type": "application/pdf"}]
    doc.add("u", "user", content, attachments=files)
    plot = {"messages": [{"message_type": "image", "image_url": "file-service://file-plot"}, {"message_type": "stream", "image_url": None}]}
    doc.add("x", "tool", {"content_type": "execution_output", "text": ""}, name="python", aggregate_result=plot)
    words = (
        "[a](sandbox:/mnt/data/result.csv) [b](sandbox:/mnt/data/my%20result.csv \"title\") [c](sandbox:/mnt/data/r (1).csv) "
        "[again](sandbox:/mnt/data/result.csv) [d](<sandbox:/mnt/data/d e.txt>) [bad](sandbox:/mnt/data/%FF.bin) [open](sandbox:/mnt/x"
    )
    doc.final("a", words)
    turn = only(doc)
    assert turn.user_text == "Look." and [(a["name"], a["id"], a["size"]) for a in turn.attachments] == [
        ("notes (1).pdf", "file_1", 5),
        (None, "file-abcdefghijklmnopqrstuvwx", 7),
    ]
    assert [(a["kind"], a["pointer"] or a["path"], a["node_id"]) for a in turn.artifacts] == [
        ("image", "file-service://file-plot", "x"),
        ("sandbox", "/mnt/data/result.csv", "a"),
        ("sandbox", "/mnt/data/my result.csv", "a"),
        ("sandbox", "/mnt/data/r (1).csv", "a"),
        ("sandbox", "/mnt/data/d e.txt", "a"),
        ("sandbox", "/mnt/data/%FF.bin", "a"),
    ]
    assert turn.answer == words and turn.artifacts[3]["name"] == "r (1).csv"


# Anything at all

JSON_TEXT = st.text(st.characters(), max_size=8)  # lone surrogates too
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), JSON_TEXT)
ANY = st.recursive(LEAVES, lambda kids: st.one_of(st.lists(kids, max_size=3), st.dictionaries(JSON_TEXT, kids, max_size=3)), max_leaves=12)
NAMES = st.sampled_from(["a", "b", "c", "d", "A"])
KINDS = st.sampled_from(["text", "multimodal_text", "thoughts", "code", "reasoning_recap", "system_error", "novel"])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.one_of(NAMES, ANY),
        "author": st.one_of(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "system"])}), ANY),
        "content": st.one_of(ANY, st.fixed_dictionaries({"content_type": KINDS}, optional={"parts": ANY, "thoughts": ANY, "text": ANY})),
        "metadata": st.one_of(
            ANY,
            st.fixed_dictionaries(
                {},
                optional=dict.fromkeys(
                    ("content_references", "citations", "attachments", "finish_details", "chatgpt_sdk", "aggregate_result"), ANY
                ),
            ),
        ),
        "status": st.one_of(st.sampled_from(["in_progress", "finished_successfully"]), ANY),
        "end_turn": ANY,
        "channel": st.one_of(st.sampled_from(["final", "analysis"]), ANY),
        "create_time": ANY,
        "recipient": st.one_of(st.just("all"), ANY),
    },
)
NODES = st.fixed_dictionaries({}, optional={"message": st.one_of(MESSAGES, ANY), "parent": st.one_of(NAMES, ANY), "children": ANY})
DOCUMENTS = st.one_of(
    ANY,
    st.fixed_dictionaries(
        {"mapping": st.dictionaries(NAMES, st.one_of(NODES, ANY), max_size=5), "conversation_id": st.just(CONVERSATION)},
        optional={"current_node": st.one_of(NAMES, ANY), "title": ANY, "create_time": ANY, "async_status": ANY},
    ),
    st.fixed_dictionaries({"messages": st.lists(MESSAGES, max_size=4)}),
)


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, NAMES)
def test_any_json_is_read_or_is_no_conversation(document: Any, name: str) -> None:
    for call in (lambda: read(document), lambda: find_message(document, name), lambda: completed_by(document, name)):
        try:
            call()
        except ValueError as refused:
            assert 0 < len(str(refused)) < 60


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), JSON_TEXT), max_size=12), st.randoms())
def test_key_order_means_nothing_and_every_turn_is_found_again(steps: list[tuple[bool, str]], random: Any) -> None:
    doc = Doc()
    for number, (asks, words) in enumerate(steps):
        if asks or number == 0:
            doc.user(f"n{number}", words)
        else:
            doc.final(f"n{number}", words)
    keys = list(doc.data["mapping"])
    random.shuffle(keys)
    shuffled = doc.data | {"mapping": {key: doc.data["mapping"][key] for key in keys}}
    found = read(shuffled)
    assert found == read(doc.data) and found.complete
    for turn in found.turns:
        again = find_message(shuffled, str(turn.user_message_id))
        assert again is not None and again.on_selected_branch and again.answer_turn == turn


# Size


def test_a_deep_and_large_conversation_is_read_fast() -> None:
    doc = Doc()
    for number in range(1500):
        doc.user(f"u{number}", f"question {number} " + "x" * 200)
        doc.add(f"t{number}", "assistant", thoughts(("S", "y" * 1500)), channel="analysis", end_turn=False)
        doc.final(f"a{number}", ("**words** and \\( x \\) " * 150) + "\ue200cite\ue202turn0search0\ue201 end")
    raw = json.dumps(doc.data, ensure_ascii=False)
    assert len(raw) > 8_000_000
    began = time.process_time()
    document = json.loads(raw)
    loads = time.process_time() - began
    began = time.process_time()
    found = read(document)
    took = time.process_time() - began
    assert len(found.turns) == 1500 and found.turns[-1].answer is not None and found.turns[-1].answer.endswith(" end")
    assert took < 3 * loads + 0.5, (took, loads)
    began = time.process_time()
    assert completed_by(document, "u0") is not None and find_message(document, "A1499") is not None
    assert time.process_time() - began < 3 * loads + 0.5


def test_long_runs_of_pictures_answers_and_marks_stay_linear() -> None:
    began = time.process_time()
    doc = Doc()
    doc.user("u", "draw")
    for number in range(3000):
        doc.add(f"i{number}", "tool", image(f"sediment://f{number}", dalle={"gen_id": "g"}))
    done = completed_by(doc.data, "u", ended=True)
    assert done is not None and len(done.artifacts) == 3000
    wide = Doc()
    wide.user("u", "q")
    for number in range(10_000):
        wide.final(f"a{number}", "x", parent="u", end_turn=number % 2 == 0)
    done = completed_by(wide.data, "u")
    assert done is not None and done.final_node_id == "a9998"
    wide.final("marks", "\ue200a\ue202[x\n" * 20_000 + "[](sandbox:/(" * 20_000 + "【1†" * 20_000, parent="u")
    assert completed_by(wide.data, "u") is not None
    assert time.process_time() - began < 10.0


# The shared conversation files, where they are at hand

def case(prefix: str) -> Json:
    found = sorted(SHARED.glob(prefix + "*.json")) if SHARED.is_dir() else []
    if not found:
        pytest.skip("the shared conversation files are not here")
    return dict(json.loads(found[0].read_text(encoding="utf-8")))


def message_text(document: Json, ident: str) -> str:
    return str(document["mapping"][ident]["message"]["content"]["parts"][0])


@pytest.mark.parametrize(
    ("prefix", "turns"),
    [
        ("01", [("aaa2741d-0211-4c62-8d1d-b3fff21fff01", "96306614-a4d3-45e4-a394-4cba78d597ef")]),
        (
            "03",
            [
                ("aaa2abab-c779-4494-b2e6-acba0d0fb1a8", "4966dd2a-8e43-41d0-8e94-380dd1cc69dd"),
                ("aaa2a283-4952-4298-bd41-8f0a1bb4753a", "6be93cb6-48af-47ee-b346-2c0d6e8d7854"),
            ],
        ),
        (
            "06",
            [
                ("aaa297ba-e2da-440e-84f4-e62e7be8b003", "bda8a275-886d-4f59-b38c-d7037144f0d5"),
                ("aaa236a3-cdfc-4eb1-b5c5-790c6641f880", "db88eddf-3622-4246-8527-b6eaf0e9e8cd"),
                ("aaa20127-b9e3-44f6-afbe-a2475838625a", "f63b8e17-aa5c-4ca6-a1bf-d4d285e269b8"),
            ],
        ),
        ("08", [("aaa2f7f8-c882-4722-ae00-898229ca865c", "2be42a39-8630-478e-adff-97b48aa75b57")]),
    ],
)
def test_real_exports_show_exactly_their_visible_texts(prefix: str, turns: list[tuple[str, str]]) -> None:
    document = case(prefix)
    found = read(document)
    assert found.complete and [(t.user_message_id, t.final_node_id) for t in found.turns] == turns
    for turn, (asked, answered) in zip(found.turns, turns, strict=True):
        assert (turn.user_text, turn.answer) == (message_text(document, asked), message_text(document, answered))
        assert (turn.state, turn.thinking, turn.artifacts) == ("completed", "", ()) and completed_by(document, asked) is None


def test_the_interrupted_branch_of_06_is_stopped() -> None:
    lost = find_message(case("06"), "aaa292cc-1842-4dbf-bd79-13cf7150366a")
    assert lost is not None and not lost.on_selected_branch and lost.answer_turn is not None
    assert lost.answer_turn.state == "stopped" and str(lost.answer_turn.answer).endswith("nestled between rolling")


def test_reasoning_search_and_files_of_11() -> None:
    document = case("11")
    first, second = read(document).turns
    assert first.thinking.startswith("**Reading the files**\n\nI check the picture and the notes first.\n\n**Planning a search**\n\n")
    assert str(first.answer).startswith("I checked both files; here is the comparison.\n\n## Result\n\nSample City has these figures:")
    assert "**123,456** inhabitants ([Sample City - figures](https://example.org/city?utm_source=chatgpt.com)) and" in str(first.answer)
    assert "Your notes say the same.\n\nFormula: \\( p = \\frac{a}{b} \\) and\n\n\\[\n" in str(first.answer)
    assert "A literal marker word: `turn0search0`. Emoji 😀, RTL שלום, price $5 and $6." in str(first.answer)
    assert not any("\ue200" <= char <= "\ue204" for char in str(first.answer))
    assert [a["name"] for a in first.attachments] == ["chart.png", "notes (1).pdf"] and first.effort == "standard"
    assert str(second.answer).startswith("I made the file.\n\nDone. [Download the CSV](sandbox:/mnt/data/result.csv)")
    assert [a["path"] for a in second.artifacts] == ["/mnt/data/result.csv", "/mnt/data/my result.csv"]
    assert [completed_by(document, str(t.user_message_id)) for t in (first, second)] == [first, second]
