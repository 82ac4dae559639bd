"""What the site holds is in the log, complete and exact: every sample, and the shared conversation files where they are at hand.

Held against tests/core/visible.py, which reads the JSON by itself.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import transcript
from gptbridge.core.conversation import UNREADABLE
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.registry import Conversation as Row
from gptbridge.core.transcript import Block
from gptbridge.core.turn import fold
from gptbridge.flow import recording, reporting
from gptbridge.practice.world import FIRST, Conversation
from tests.core.documents import differences, document, names
from tests.core.samples import SAMPLES, sample
from tests.core.site_json import CONVERSATION, Doc, text, thoughts
from tests.core.test_conversation_mutations import STEPS, mutated
from tests.core.transcript_cases import profile
from tests.core.visible import visible
from tests.flow.world import Ground, Worker

ACCOUNT = f"{FIRST.user_id}/{FIRST.account_id}"


def put(ground: Ground, worker: Worker, data: dict[str, Any]) -> str:
    """The site has it, and the registry knows it."""
    ident = str(data["conversation_id"])
    ground.site.world.conversations[ident] = Conversation(json.loads(json.dumps(data)), FIRST.user_id)
    worker.world.ledger.begin()  # as before everything of ours: rows of ours without a ledger mean that one was lost
    worker.world.registry.put(Row(ACCOUNT, ident, "seeded", f"{ground.url}/c/{ident}", created_at="2026-11-29T13:00:00.000Z"))
    return ident


@pytest.mark.parametrize("name", names())
def test_the_log_is_what_a_person_sees(ground: Ground, worker: Worker, name: str) -> None:
    data = document(name)
    ident = put(ground, worker, data)
    found = worker.resume(ident)
    assert differences(visible(data), worker.turns(ident)) == [] and worker.log(ident).problems == ()
    assert found.slug == "ok" and worker.turns(ident)[-1].section("answer") is not None
    assert ground.copy(ident) == ground.canonical(ident) and not ground.sends
    text = ground.canonical(ident)
    assert worker.resume(ident).slug == "ok" and ground.canonical(ident) == text, "twice changes nothing"
    # Cut off anywhere, it heals.
    path = ground.path / "home" / "logs" / f"{ident}.log"
    begin = text.index(b"\n---\n", 4) + 5
    for cut in random.Random(name).sample(range(begin, len(text)), 4):
        path.write_bytes(text[:cut])
        worker.resume(ident)
        healed = transcript.parse(path.read_bytes())
        assert differences(visible(data), transcript.turns(healed)) == [] and healed.problems == (), cut


@pytest.mark.parametrize(("name", "step"), [("thinking-chain", 1), ("stopped", 17)])
def test_a_log_cut_at_every_byte_heals(ground: Ground, worker: Worker, name: str, step: int) -> None:
    data = document(name)
    ident = put(ground, worker, data)
    worker.resume(ident)
    text, seen = ground.canonical(ident), visible(data)
    site, path = read_conversation(data), ground.path / "home" / "logs" / f"{ident}.log"
    for cut in range(text.index(b"\n---\n", 4) + 5, len(text), step):
        path.write_bytes(text[:cut])
        recording.hydrate(worker.world, site, ident, ACCOUNT, worker.view)
        healed = path.read_bytes()
        log = transcript.parse(healed)
        assert differences(seen, transcript.turns(log)) == [] and log.problems == (), cut
        assert recording.hydrate(worker.world, site, ident, ACCOUNT, worker.view) == [] and path.read_bytes() == healed, cut


@profile(60)
@given(st.sampled_from(SAMPLES), STEPS)
def test_a_changed_document_is_logged_once(ground: Ground, worker: Worker, name: str, steps: list[tuple[float, str, Any]]) -> None:
    """Odd ids, times and shapes: nothing raises, every turn has its block, and a second reading adds nothing."""
    ident, data = str(sample(name)["conversation_id"]), mutated(name, steps)
    path = ground.path / "home" / "logs" / f"{ident}.log"
    path.unlink(missing_ok=True)
    try:
        site = read_conversation(data, conversation_id=ident)
    except ValueError:
        return
    added = recording.hydrate(worker.world, site, ident, ACCOUNT, worker.view)
    pending = len(site.turns) - len(added)
    assert pending <= 1, "only the newest turn may wait"
    text = path.read_bytes() if path.exists() else b""
    assert recording.hydrate(worker.world, site, ident, ACCOUNT, worker.view) == []
    assert (path.read_bytes() if path.exists() else b"") == text
    told = [(t.section("prompt"), t.section("answer") or "") for t in (transcript.turns(transcript.parse(text)) if text else [])]
    assert told == [(t.user_text, t.answer or "") for t in site.turns[:len(added)]]


def test_what_is_no_prompt_and_no_answer_is_in_the_log_too(ground: Ground, worker: Worker) -> None:
    """Canvas documents, code that was run, pictures, sounds, files: each under a name of its own, none of it in the answer."""
    def of(name: str, turn: int = 0) -> Block:
        ident = put(ground, worker, document(name))
        worker.resume(ident)
        return worker.turns(ident)[turn]
    made = of("canvas-and-writing")
    assert made.section("workings") == "**canvas: letter**\n\n````markdown\nDear ```reader```,\n\nyours.\n````"
    assert '"replacement":"Hi.' in str(of("canvas-and-writing", 1).section("workings"))
    ran = of("code-interpreter")
    assert ran.section("workings") == ("**code**\n\n```python\nimport pandas\nprint(1)\n```\n\n**output**\n\n```\n1\n```\n\n"
                                       "**code**\n\n```python\n1/0\n```\n\n**error**\n\n```\nZeroDivisionError\n```")
    assert ran.section("artifacts") == 'image "file-service://file-plot"\nsandbox "r (1).csv"\nfile "file-abc"'
    drawn, shown = of("pictures"), of("pictures", 1)
    assert drawn.section("artifacts") == 'image "sediment://file_00000000aaaa61f7bbbb0000cccc0001" (7 bytes)'
    assert drawn.section("answer") == "" and drawn.state == "completed"
    assert shown.section("attachments") == 'file "photo (1).png" (7 bytes)'
    assert of("voice").section("artifacts") == 'audio "sediment://file_sound" (9 bytes)'


def test_thinking_that_cannot_be_read_is_said_however_much_of_it_can(ground: Ground, worker: Worker) -> None:
    """HY-08, CL-15."""
    sealed = {"content_type": "thoughts", "thoughts": [{"encrypted": "x"}]}
    doc = Doc()
    for number, nodes in enumerate(([sealed], [thoughts(("A", "one")), sealed, sealed], [thoughts(("A", "one"))], [])):
        doc.user(f"u{number}", "q")
        for at, node in enumerate(nodes):
            doc.add(f"t{number}{at}", "assistant", node, channel="analysis", end_turn=False)
        doc.final(f"a{number}", "x")
    ident = put(ground, worker, doc.data)
    worker.resume(ident)
    turns = worker.turns(ident)
    assert [turn.section("thinking") for turn in turns] == [UNREADABLE, f"**A**\n\none\n\n{UNREADABLE}", "**A**\n\none", None]
    assert [reporting.warnings_of(turn) for turn in turns] == [
        ["the thinking of this turn is there but could not be read"],
        ["some of the thinking of this turn is there but could not be read"], [], []]


def test_old_and_new_states_of_a_turn(ground: Ground, worker: Worker) -> None:
    def states(name: str) -> list[str]:
        ident = put(ground, worker, document(name))
        worker.resume(ident)
        return [turn.state for turn in worker.turns(ident)]
    assert states("stopped") == ["stopped", "stopped", "incomplete", "completed"]
    assert states("failed") == ["failed", "completed"]
    assert states("empty-answer") == ["completed", "completed"]


def test_what_is_cut_off_above_is_said(ground: Ground, worker: Worker) -> None:
    ident = put(ground, worker, document("cut-above"))
    found = worker.resume(ident)
    assert found.warning is not None and "incomplete" in found.warning
    [remark] = [block for block in worker.log(ident).blocks if block.kind == "event"]
    assert "incomplete" in str(remark.section("note")) and remark.attr("source") == "site"
    assert [turn.state for turn in worker.turns(ident)] == ["incomplete", "completed"]
    ground.site.world.conversations[ident].data["mapping"]["u1"] = {
        "id": "u1", "message": {"id": "u1", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["the prompt"]}},
        "parent": "client-created-root", "children": ["a1"]}
    assert worker.resume(ident).warning is None
    assert {turn.section("prompt") for turn in transcript.turns(worker.log(ident))} == {"the prompt", "q2"}
    text = ground.canonical(ident)
    worker.resume(ident)
    assert ground.canonical(ident) == text


def test_more_turns_come_in_their_order(ground: Ground, worker: Worker) -> None:
    """The log grows with the site: each prefix of a conversation, read one after the other, gives what the whole gives at once."""
    data = document("branches")
    ident = put(ground, worker, data)
    for leaf in ("a1", "u3", "a4", "a5"):
        ground.site.world.conversations[ident].data["current_node"] = leaf
        worker.resume(ident)
    assert differences(visible(data), transcript.turns(worker.log(ident))) == []


def regenerated(ground: Ground, ident: str, user: str, words: str, name: str) -> None:
    data = ground.site.world.conversations[ident].data
    made = json.loads(json.dumps(data["mapping"][data["current_node"]]))
    made["id"] = made["message"]["id"] = name
    made["parent"], made["children"] = user, []
    made["message"] |= {"content": {"content_type": "text", "parts": [words]}, "status": "finished_successfully", "end_turn": True,
                        "channel": "final", "metadata": {}}
    data["mapping"][name] = made
    data["current_node"] = name


def test_an_answer_that_was_made_again_by_hand(ground: Ground, worker: Worker) -> None:
    """Regenerate, and Retry after a failure: the new answer is in the log, the operation's own stays its own."""
    op = worker.send("first words")
    talk, user = op.conversation_id or "", worker.op.user_message_id or ""
    before = worker.document(op)
    first_leaf = ground.site.world.conversations[talk].data["current_node"]
    regenerated(ground, talk, user, "another answer", "again-1")
    assert worker.resume(talk).slug == "ok"
    assert [(t.section("answer"), t.attr("op")) for t in worker.turns(talk)] == [
        ("You said:\n\n> first words", op.operation_id), ("another answer", None)]
    assert {k: v for k, v in worker.document(op).items() if k != "log"} == {k: v for k, v in before.items() if k != "log"}
    text = ground.canonical(talk)
    for leaf in (first_leaf, "again-1", first_leaf):  # looked at again in the page, one or the other: nothing is new
        ground.site.world.conversations[talk].data["current_node"] = leaf
        worker.resume(talk)
    assert ground.canonical(talk) == text

    ground.on("failed-turn", partial=False)
    bad = worker.send("second words", to=talk)
    assert bad.turn == "failed"
    ground.off("failed-turn")
    regenerated(ground, talk, worker.op.user_message_id or "", "after Retry", "again-2")
    assert worker.resume(talk).slug == "ok"
    newest = transcript.turns(worker.log(talk))[-1]
    assert (newest.section("answer"), newest.attr("op"), newest.attr("supersedes")) == ("after Retry", None, "3")
    assert worker.document(bad)["exit_code"] == 32 and worker.document(bad)["answer"] in (None, "")


def test_a_prompt_without_an_answer_waits_for_it_and_an_old_one_does_not(ground: Ground, worker: Worker) -> None:
    data = document("plain")
    ident = put(ground, worker, data)
    stored = ground.site.world.conversations[ident].data
    stored["mapping"]["u3"]["message"]["create_time"] = ground.time.wall - 60.0
    stored["current_node"] = "u3"
    found = worker.resume(ident)
    assert (found.slug, len(worker.turns(ident))) == ("answer-lost", 2)
    stored["mapping"]["u3"]["message"]["create_time"] = ground.time.wall - 700.0
    worker.resume(ident)
    assert [t.state for t in worker.turns(ident)] == ["completed", "completed", "incomplete"]
    stored["current_node"] = "a3"
    assert worker.resume(ident).slug == "ok"
    assert differences(visible(data), transcript.turns(worker.log(ident))) == []


def test_a_reply_that_died_and_one_that_was_cut_off(ground: Ground, worker: Worker) -> None:
    """Both are in the log as far as they go; a bare resume gives what there is, with a warning (contract: whoever began it)."""
    died, cut = {"status": "in_progress"}, {"finish_details": {"type": "max_tokens"}}
    for number, (facts, slug) in enumerate([(died, "still-answering"), (cut, "ok")]):
        doc = Doc(conversation_id=f"{CONVERSATION[:-4]}aaa{number}")
        doc.clock = ground.time.wall - 3600.0
        doc.user("u1", "q")
        doc.add("a1", "assistant", text("Once upon"), channel="final", **facts)
        ident = put(ground, worker, doc.data)
        assert worker.resume(ident).slug == slug and (slug == "ok") == (worker.world.logs.read(ident) is not None)
        for message in ("u1", "a1"):
            ground.site.world.conversations[ident].data["mapping"][message]["message"]["create_time"] -= 86400.0
        found = worker.resume(ident)
        assert found.slug == "ok" and "cut off" in str(found.warning)
        [turn] = worker.turns(ident)
        assert (turn.state, turn.section("answer")) == ("incomplete", "Once upon")
        text_now = ground.canonical(ident)
        worker.resume(ident)
        assert ground.canonical(ident) == text_now


# The page, where the JSON is refused


def long_thread(ground: Ground, worker: Worker, turns: int = 30) -> tuple[str, dict[str, Any]]:
    doc = Doc()
    for number in range(turns):
        doc.user(f"5b1e0000-0000-4000-8000-{number:012x}", f"prompt {number}")
        doc.final(f"5b1e1111-0000-4000-8000-{number:012x}", f"answer **{number}**\n\nin two parts")
    return put(ground, worker, doc.data), doc.data


def test_sixty_messages_of_which_six_are_mounted(ground: Ground, worker: Worker) -> None:
    """Case 21: the JSON has them all."""
    ident, data = long_thread(ground, worker)
    assert worker.resume(ident).slug == "ok" and differences(visible(data), worker.turns(ident)) == []


@pytest.mark.parametrize("status", [403, 500, 503, 200])
def test_the_page_stands_in_for_refused_json_and_the_json_replaces_it(ground: Ground, worker: Worker, status: int) -> None:
    ident, data = long_thread(ground, worker)
    ground.on("json-refused", status=status)
    found = worker.resume(ident)
    assert found.slug == "ok" and found.operation is None
    assert found.warning is not None and "54 of its messages are not in it" in found.warning
    turns = worker.turns(ident)
    expected = [(f"prompt {n}", f"answer **{n}**\n\nin two parts") for n in (27, 28, 29)]
    assert [(t.section("prompt"), t.section("answer")) for t in turns] == expected
    assert all((t.state, t.words, t.attr("source")) == ("incomplete", ("hydrated", "from-page"), "page") for t in turns)
    [remark] = [block for block in worker.log(ident).blocks if block.kind == "event"]
    assert "54 of its messages" in str(remark.section("note")) and remark.attr("source") == "page"
    text = ground.canonical(ident)
    assert worker.resume(ident).slug == "ok" and ground.canonical(ident) == text, "twice changes nothing"
    ground.off("json-refused")
    assert worker.resume(ident).warning is None
    shown = transcript.turns(worker.log(ident))
    assert [t for t in shown if t.attr("source")] == []
    assert sorted(t.section("prompt") or "" for t in shown) == sorted(one.prompt or "" for one in visible(data))
    text = ground.canonical(ident)
    worker.resume(ident)
    assert ground.canonical(ident) == text and not ground.sends


def test_thinking_that_is_folded_on_the_page(ground: Ground, worker: Worker) -> None:
    """HY-08, HY-09: nothing opens it; it is said that it is there."""
    ident = put(ground, worker, document("thinking-chain"))
    ground.on("json-refused")
    worker.resume(ident)
    [turn] = worker.turns(ident)
    assert turn.section("thinking") == "[thinking present but not harvested]"
    ground.off("json-refused")
    worker.resume(ident)
    assert differences(visible(document("thinking-chain")), transcript.turns(worker.log(ident))) == []


def test_too_many_requests_is_no_reason_to_read_the_page(ground: Ground, worker: Worker) -> None:
    from gptbridge.core.errors import Failure

    ident, _ = long_thread(ground, worker)
    for scenario, parameters in (("json-refused", {"status": 429}), ("throttled", {})):
        ground.on(scenario, **parameters)
        with pytest.raises(Failure) as why:
            worker.resume(ident)
        assert why.value.slug == "rate-limited" and worker.world.logs.read(ident) is None
        ground.off(scenario)


def test_looks_complete_nothing(ground: Ground, worker: Worker) -> None:
    """SM-15, GT-09: an accepted operation and an uncertain one, both answered on the page, with the JSON refused."""
    first = worker.send("first words")
    talk = first.conversation_id or ""
    worker.on["ended"] = lambda: setattr(worker.seat.session, "dead", "gone")
    op = worker.send("second words", to=talk)
    assert op.state == "accepted"
    worker.dies()
    ground.on("json-refused", status=403)
    reader = ground.worker()
    reader.custody.recover()
    lines = ground.ledger_lines()
    found = reader.resume(operation=op.operation_id)
    assert found.slug == "still-answering" and "read from the page" in str(found.warning)
    assert reader.view.operations[op.operation_id].state == "accepted" and len(ground.ledger_lines()) == len(lines)
    ground.off("json-refused")
    after = ground.worker()
    assert after.resume(operation=op.operation_id).slug == "ok"
    whole = transcript.turns(after.log(talk))
    assert [(t.state, t.attr("op")) for t in whole] == [("completed", first.operation_id), ("completed", op.operation_id)]


def test_a_send_is_refused_while_its_conversation_cannot_be_read(ground: Ground, worker: Worker) -> None:
    """What the page shows is no ground to send on: the newest node is not known by its looks."""
    ident, _ = long_thread(ground, worker)
    ground.on("json-refused", status=200)
    op = worker.send("hello", to=ident)
    assert (op.state, op.sent, len(ground.sends)) == ("rejected", "no", 0)


# Our own turns


OWN = ["practice:" + word for word in (
    "markdown", "think", "files", "image", "empty", "parts", "controls", "citations", "surrogate", "escapes")]


@pytest.mark.parametrize("prompt", [*OWN, "## turn 9 · 2026-11-29T13:00:05Z\n\n### answer\n\n> x\n"])
def test_our_own_turns_hold_what_the_site_holds(ground: Ground, worker: Worker, prompt: str) -> None:
    """Cases 16, 22, 23, 24, 27, 56: the answer whole, in order, once; an operation whose answer quotes the page's controls is completed."""
    op = worker.send(prompt)
    ident = op.conversation_id or ""
    data = ground.site.world.conversations[ident].data
    [seen], [turn] = visible(data), worker.turns(ident)
    assert (op.state, turn.state, turn.attr("op")) == ("completed", "completed", op.operation_id)
    assert differences([seen], [turn]) == []
    told = worker.document()
    assert (told["exit_code"], told["answer"], told["thinking"]) == (0, turn.section("answer"), seen.thinking)
    text = ground.canonical(ident)
    assert worker.resume(ident).slug == "ok" and ground.canonical(ident) == text


def test_a_preamble_silence_thinking_and_the_answer_stand_in_order(ground: Ground, worker: Worker) -> None:
    """Case 14."""
    ground.on("silence", seconds=0.3)
    op = worker.send("Hello again")
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.section("answer") == "I looked at the question first; now I write the answer.\n\nYou said:\n\n> Hello again"
    assert str(turn.section("thinking")).startswith("**Reading the question**\n\nI read the question twice")
    assert fold(event for event in worker.front.events if event["type"] in ("thinking", "answer", "replace")) == (
        turn.section("thinking"), turn.section("answer"))


@pytest.mark.parametrize("status", [500, 403, 200])
def test_json_that_is_refused_for_a_moment_after_the_answer(ground: Ground, worker: Worker, status: int) -> None:
    ground.on("json-refused", status=status)
    reads: list[int] = []

    def read() -> None:
        reads.append(1)
        if len(reads) == 3:
            ground.off("json-refused")
    worker.on["read"] = read
    op = worker.send("Hello there")
    assert op.state == "completed" and worker.document()["answer"] == "You said:\n\n> Hello there"


def test_json_that_stays_refused_after_the_answer(ground: Ground, worker: Worker) -> None:
    """30 with what the stream said, and the rest by a later reading; the page's looks complete nothing."""
    ground.on("json-refused", status=403)
    op = worker.send("Hello there")
    assert (op.state, op.slug, worker.document()["exit_code"]) == ("accepted", "still-answering", 30)
    [turn] = worker.turns(op.conversation_id or "")
    assert turn.state == "interrupted" and turn.section("answer") == "You said:\n\n> Hello there" and "403" in str(turn.section("error"))
    ground.off("json-refused")
    worker.dies()
    assert ground.worker().resume(operation=op.operation_id).slug == "ok"
