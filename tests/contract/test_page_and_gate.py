"""What flows rely on of Page and Gate, the same for the fake pair and for a real Chromium on the practice site (TE-01)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from gptbridge.core.conversation import completed_by, find_message
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.page_request import Held
from gptbridge.core.ports import Unread
from gptbridge.core.stream import ConversationNamed, Done, InputMessage, MessageState, ReplyStream
from gptbridge.practice.world import FIRST, SECOND, Conversation
from tests.contract.conftest import PAIRS, Pair, Window
from tests.core.site_json import CONVERSATION, Doc

UNKNOWN = "68c1d2e3-0000-8000-8000-00000000dead"


def fails(act: object, *args: object) -> Failure:
    with pytest.raises(Failure) as why:
        act(*args)  # type: ignore[operator]
    return why.value


def goes(act: Callable[[Held], bool], held: Held) -> bool:
    """What a request that is not held any more answers: no, or that it was a mistake to ask."""
    try:
        return act(held)
    except ValueError:
        return False


def until(what: Callable[[], object], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# Opening, session, facts


def test_the_home_page_has_an_empty_composer_and_no_conversation(window: Window) -> None:
    window.at()
    facts = window.page.facts()
    assert (facts.conversation_id, facts.composer, facts.chips, facts.newest_message_id) == (None, "", 0, None)
    assert (facts.generating, facts.mode, facts.temporary) == (False, "chat", False) and window.sends == []


def test_a_conversation_shows_its_newest_message(pair: Pair) -> None:
    talk = pair.open().at().sent("first words")
    window = pair.open().at(talk)
    facts = window.page.facts()
    assert (facts.conversation_id, facts.composer, facts.newest_message_id) == (talk, "", window.sends[0]["message_id"])


def test_an_unknown_conversation_is_refused(window: Window) -> None:
    assert fails(window.at, UNKNOWN).slug == "unknown-conversation"
    assert fails(window.page.conversation, UNKNOWN).slug == "unknown-conversation"


def test_the_session_names_user_and_account_and_no_more(window: Window) -> None:
    session = window.at().page.session()
    assert (session.user_id, session.account_id) == (FIRST.user_id, FIRST.account_id)
    assert session.account == f"{FIRST.user_id}/{FIRST.account_id}" and FIRST.email not in repr(session)
    window.on("other-account")
    assert window.page.session().account == f"{SECOND.user_id}/{SECOND.account_id}"
    window.on("signed-out")
    assert fails(window.page.session).slug == "needs-human"
    window.on("challenge")
    assert fails(window.page.session).slug == "needs-human"


def test_a_challenge_stops_the_opening(window: Window) -> None:
    window.on("challenge")
    assert fails(window.at).slug == "needs-human" and window.sends == []


def test_a_guests_composer_is_no_session(window: Window) -> None:
    """Case 32."""
    window.on("signed-out")
    window.at()
    assert window.page.facts().composer == "" and fails(window.page.session).slug == "needs-human"


def test_a_throttle_dialog_and_throttled_reads(pair: Pair) -> None:
    talk = pair.open().at().sent()
    window = pair.open().at()
    window.on("throttled")
    assert fails(window.page.conversation, talk).slug == "rate-limited"
    assert fails(pair.open().at).slug == "rate-limited"


# What a page says for itself when it keeps somebody out; here people and the model say it.
SAID = ("Just a moment... Attention Required! | Cloudflare. Suspicious activity detected: unusual activity. "
        "Secure your account to regain access. Too many requests. Verify you are human. Something went wrong. Answer now, Stop, Retry.")
TITLES = ("Just a moment...", "Attention Required! | Cloudflare", "Attention required: the budget",
          "Suspicious activity detected, secure your account to regain access", "Too many requests")


def talk_of(pair: Pair, title: str, number: int = 0) -> str:
    """A conversation with such a title and such turns."""
    ident = f"68c1d2e3-0000-8000-8000-00000000c{number:03x}"
    doc = Doc(title=title, conversation_id=ident)
    doc.user("u1", SAID)
    doc.final("a1", f"# {SAID}\n\n> {SAID}")
    pair.world.conversations[ident] = Conversation(doc.data, FIRST.user_id)
    return ident


def test_a_script_of_the_challenges_vendor_is_no_challenge(window: Window) -> None:
    """Case 34."""
    window.on("challenge-script")
    assert window.at().page.facts().composer == "" and window.page.session().account_id == FIRST.account_id
    assert window.gate.refuse(window.hold("Hello"))


def test_what_titles_and_turns_say_is_not_said_by_the_page(pair: Pair) -> None:
    """Case 16."""
    talks = [talk_of(pair, title, number) for number, title in enumerate(TITLES)]
    for talk in talks if pair.kind == "fake" else talks[:2]:
        window = pair.open().at(talk)
        facts = window.page.facts()
        assert (facts.conversation_id, facts.composer, facts.newest_message_id, facts.notice) == (talk, "", "u1", "")
        assert window.page.rendered().turns[0].prompt == SAID
    assert window.gate.refuse(window.hold("Hello"))


STRANGE = """const [html, hide, done] = arguments;
    const turn = document.querySelector('[data-turn], [data-turn-key]');
    turn.insertAdjacentHTML('beforeend', html);
    if (hide) document.querySelectorAll('form, [contenteditable]').forEach((one) => { one.style.display = 'none'; });
    if (hide === 'all') document.querySelectorAll('[data-turn], [data-turn-key]').forEach((one) => one.remove());
    if (hide === 'all') document.title = 'ChatGPT';
    done(document.body.innerText)"""


@pytest.mark.parametrize("pair", PAIRS[1:], indirect=True)
def test_only_what_stands_apart_from_the_turns_counts(pair: Pair) -> None:
    """Also while the editor is not there yet, and where the list of conversations is all that is there."""
    for number, title in enumerate(TITLES):
        talk = talk_of(pair, title, number)
    window = pair.open().at(talk)
    session, page = window.page._session, window.page  # type: ignore[attr-defined]
    inside = (f'<div role="alert">{SAID}</div><div class="toast-root">{SAID}</div><div role="dialog"><h2>Too many requests</h2></div>'
              '<div id="challenge-form">x</div>')
    session.execute_async_script(STRANGE, inside, "")
    facts = page.facts()
    assert (facts.composer, facts.notice) == ("", "") and not page.asks()
    session.execute_async_script("document.title = 'Just a moment...'; arguments[0]()")
    session.execute_async_script(STRANGE, "", "editor")
    assert page.facts().composer is None, "there is a turn"
    text = session.execute_async_script(STRANGE, "", "all")
    assert TITLES[3] in text and page.facts().composer is None, "titles in the list of conversations"
    named = '<div role="dialog" style="position: fixed; inset: 0"><h2>Delete it?</h2><p>Too many requests</p></div>'
    add = "document.body.insertAdjacentHTML('beforeend', arguments[0]); arguments[1]()"
    session.execute_async_script(add, named)
    assert page.facts().composer is None, "a dialog that names a conversation"
    session.execute_async_script(add, '<div role="dialog"><h2>Too many requests</h2></div>')
    assert fails(page.facts).slug == "rate-limited"
    session.execute_async_script("document.title = 'Just a moment...'; arguments[0]()")
    assert fails(page.facts).slug == "needs-human", "neither editor nor turn: a challenge"


def test_work_mode_is_told(window: Window) -> None:
    window.on("work-mode")
    assert window.at().page.facts().mode == "work"


def test_a_draft_is_seen_and_cleared(window: Window) -> None:
    window.on("draft", text="an old\ndraft")
    window.at()
    assert window.page.facts().composer == "an old\ndraft"
    window.page.clear()
    assert window.page.facts().composer == ""


# Typing


TEXTS = {
    "plain": "Hello", "emoji": "😀 🏳️‍🌈 👩‍👩‍👧", "cjk and rtl": "日本語 שלום مرحبا", "tabs and blanks": "\ta\t b  c   \n  d ",
    "blank ends": "\n\nx\n\n",
    "200 lines": "\n".join(f"line {n}" for n in range(200)), "markup": "<b>&amp;</b> <script>alert(1)</script> `x` **y** # z",
    "list-like": "- a\n- b\n1. c\n> d\n```\ncode\n```", "nbsp": "a\u00a0b\u2003c", "bidi": "a\u202etxt\u202c",
    "4 kB": "word " * 800, "6 kB": "line of words\n" * 430, "50 kB": "thirty characters of some text\n" * 1600,
}


def test_every_text_is_typed_exactly_and_nothing_is_sent(window: Window) -> None:
    """Cases 7 and 8."""
    window.at()
    for name, text in TEXTS.items():
        window.page.type(text)
        facts = window.page.facts()
        assert facts.composer == text and facts.chips == 0, name
        window.page.clear()
        assert window.page.facts().composer == "", name
    assert window.sends == [] and not window.gate.notes()


@pytest.mark.parametrize("name", ["emoji", "blank ends", "6 kB"])
def test_the_held_request_and_the_server_have_the_very_text(window: Window, name: str) -> None:
    text = TEXTS[name]
    held = window.at().hold(text)
    assert held.user_texts == (text,)
    assert window.gate.release(held)
    window.reply()
    assert window.sends[0]["text"] == text


def test_the_send_control_is_there_only_while_there_is_text(window: Window) -> None:
    """Case 12: in an empty composer another control has its place, and is never pressed."""
    page = window.at().page
    assert not page.files().sendable and fails(page.press).slug == "site-changed"
    page.type("Hello")
    assert page.files().sendable
    page.clear()
    assert fails(page.press).slug == "site-changed" and page.facts().composer == "" and window.sends == [] and not window.gate.notes()
    assert window.gate.refuse(window.hold("Hello"))


def test_a_text_of_blanks_alone_has_no_send_control(window: Window) -> None:
    window.at()
    for text in ("\n\n\n", "   "):
        window.page._call("paste", text)  # type: ignore[attr-defined]  # `type` would wait for the control for seconds
        assert window.page._call("state")["sendable"] is False  # type: ignore[attr-defined]
        window.page.clear()


def test_a_composer_that_cuts_is_read_back_as_it_is(window: Window) -> None:
    window.on("truncate-composer", at=5)
    window.at().page.type("Hello there")
    assert window.page.facts().composer != "Hello there"


EDITORS = {"first": '<div id="prompt-textarea" class="ProseMirror" contenteditable="true">x</div>',
           "second": '<form><div data-composer-markdown contenteditable="true" role="textbox">x</div></form>'}


@pytest.mark.parametrize("pair", PAIRS[1:], indirect=True)
@pytest.mark.parametrize("other", EDITORS)
def test_a_page_with_two_composers_has_none(pair: Pair, other: str) -> None:
    """Of one generation or of both: where the text would go is not known, so nothing is pressed."""
    window = pair.open().at()
    window.page.type("Hello")
    added = "document.body.insertAdjacentHTML('beforeend', arguments[0]); arguments[1]()"
    window.page._session.execute_async_script(added, EDITORS[other])  # type: ignore[attr-defined]
    assert window.page.facts().composer is None
    assert fails(window.page.press).slug == "site-changed" and window.sends == [] and not window.gate.notes()


@pytest.mark.parametrize("pair", PAIRS[1:], indirect=True)
def test_two_controls_that_might_send_are_none(pair: Pair) -> None:
    window = pair.open().at()
    window.page.type("Hello")
    doubled = """const one = document.querySelector('button[data-testid="send-button"], form button[type="submit"]');
        one.after(one.cloneNode(true)); arguments[0]()"""
    window.page._session.execute_async_script(doubled)  # type: ignore[attr-defined]
    assert not window.page.files().sendable
    assert fails(window.page.press).slug == "site-changed" and window.sends == [] and not window.gate.notes()


# The gate


def test_a_closed_gate_fails_what_the_page_sends_and_notes_it(window: Window) -> None:
    window.at().page.type("Hello")
    window.page.press()
    assert window.gate.wait(1.0) is None
    assert [note.kind != "" for note in window.gate.notes()] == [True] and window.sends == []
    assert window.gate.connected


def test_the_fields_of_a_held_request(window: Window) -> None:
    held = window.at().hold("Hello there")
    assert (held.action, held.user_texts, held.other_messages, held.conversation_id) == ("next", ("Hello there",), 0, None)
    [message_id] = held.user_message_ids
    assert str(uuid.UUID(message_id)) == message_id.lower() and held.parent_message_id and held.path.endswith("/conversation")
    assert held.temporary is False and held.attachments == () and held.readable
    assert held.account_id in (None, FIRST.account_id) and window.sends == []
    assert window.gate.refuse(held)


def test_a_request_of_a_known_conversation_hangs_on_its_newest_node(pair: Pair) -> None:
    talk = pair.open().at().sent("first words")
    window = pair.open().at(talk)
    site = read_conversation(window.page.conversation(talk), conversation_id=talk)
    held = window.hold("second words")
    assert (held.conversation_id, held.parent_message_id) == (talk, site.newest_node_id)
    assert window.gate.refuse(held)


def test_refused_is_failed_in_the_browser(window: Window) -> None:
    held = window.at().hold()
    assert window.gate.refuse(held) and window.sends == []
    assert not goes(window.gate.release, held) and window.sends == []


def test_released_reaches_the_server_once_with_its_id(window: Window) -> None:
    held = window.at().hold()
    assert window.gate.release(held)
    window.reply()
    assert [(s["message_id"], s["text"]) for s in window.sends] == [(held.user_message_ids[0], "Hello")]
    assert window.gate.reply_status == 200 and window.gate.reply_ended == "finished" and window.gate.traces() == 0
    assert not goes(window.gate.refuse, held) and len(window.sends) == 1


def test_the_first_send_spends_the_gate_whatever_becomes_of_it(window: Window) -> None:
    """GT-04."""
    held = window.at().hold("one")
    assert window.gate.refuse(held)
    window.page.clear()
    window.page.type("two")
    window.page.press()
    assert until(window.gate.notes) and window.gate.wait(0.0) in (None, held) and window.sends == []


@pytest.mark.parametrize("scenario", ["nervous-click", "page-retries"])
def test_a_second_request_of_the_page_is_failed_and_noted(window: Window, scenario: str) -> None:
    window.on(scenario)
    if scenario == "page-retries":
        window.on("send-502", times=1)
    held = window.at().hold()
    assert window.gate.release(held)
    window.reply()
    assert until(window.gate.notes)
    assert [s["message_id"] for s in window.sends] == [held.user_message_ids[0]]


def test_shut_fails_what_is_held_and_everything_after_and_is_safe_twice(window: Window) -> None:
    held = window.at().hold()
    window.gate.shut()
    window.gate.shut()
    assert not goes(window.gate.release, held) and window.sends == []
    window.page.clear()
    window.page.type("two")
    window.page.press()
    assert until(window.gate.notes) and window.gate.wait(0.0) in (None, held) and window.sends == []


def test_a_swallowed_click_makes_no_request_and_leaves_no_trace(window: Window) -> None:
    window.on("swallow-click")
    window.at().page.type("Hello")
    window.gate.watch("Hello")
    window.gate.open_once()
    window.page.press()
    assert window.gate.wait(1.0) is None and window.sends == [] and window.gate.traces() == 0 and window.gate.connected


def test_closing_a_window_never_lets_a_held_request_out(window: Window) -> None:
    window.at().hold()
    assert not window.gate.lost
    window.seat.close()
    assert window.gate.lost and window.sends == []


# The answer


def test_the_bytes_of_the_reply_are_the_sites_stream(window: Window) -> None:
    assert window.gate.release(window.at().hold("practice:markdown"))
    stream = ReplyStream()
    facts = stream.feed(window.reply())
    facts += stream.close()
    named = [f.conversation_id for f in facts if isinstance(f, ConversationNamed)]
    taken = [f.message_id for f in facts if isinstance(f, InputMessage)]
    assert named == [window.sends[0]["conversation_id"]] and taken == [window.sends[0]["message_id"]] and stream.malformed == 0
    final = [f for f in facts if isinstance(f, MessageState) and f.role == "assistant"][-1]
    assert final.text.startswith("# A heading") and "שלום" in final.text and any(isinstance(f, Done) for f in facts)


@pytest.mark.parametrize("status", [429, 403])
def test_the_sites_refusal_is_a_status_and_a_body(window: Window, status: int) -> None:
    window.on("site-429", status=status)
    assert window.gate.release(window.at().hold())
    body = window.reply()
    assert window.gate.reply_status == status and b'"detail"' in body and len(window.sends) == 1


def test_a_502_after_the_server_took_it(window: Window) -> None:
    window.on("send-502")
    assert window.gate.release(window.at().hold())
    window.reply()
    assert window.gate.reply_status == 502 and len(window.sends) == 1


def test_a_dropped_connection_is_a_failed_end(window: Window) -> None:
    window.on("connection-drops", frames=3)
    assert window.gate.release(window.at().hold())
    window.reply()
    assert (window.gate.reply_ended or "").startswith(("failed", "finished"))
    assert len({s["message_id"] for s in window.sends}) == 1


def test_conversation_and_listing_as_the_page_itself_reads_them(pair: Pair) -> None:
    window = pair.open().at()
    talk = window.sent("Hello there")
    document = window.page.conversation(talk)
    message = window.sends[0]["message_id"]
    turn = completed_by(document, message)
    assert turn is not None and turn.answer == "You said:\n\n> Hello there" and find_message(document, message.upper()) is not None
    listed = window.page.listing(0, 28)["items"]
    assert [item["id"] for item in listed] == [talk] and isinstance(listed[0]["create_time"], str)
    assert fails(window.page.conversation, UNKNOWN).slug == "unknown-conversation"
    for status, slug in ((403, "needs-human"), (500, "browser"), (200, "site-changed"), (429, "rate-limited")):
        window.on("json-refused", status=status)
        refused = fails(window.page.conversation, talk)
        assert (refused.slug, isinstance(refused, Unread)) == (slug, status != 429)
    window.off("json-refused")
    window.on("other-account")
    assert fails(window.page.conversation, talk).slug == "unknown-conversation" and window.page.listing(0, 28)["items"] == []


def test_the_page_after_a_send_shows_the_conversation_and_an_empty_composer(window: Window) -> None:
    talk = window.at().sent()
    assert until(lambda: window.page.facts().conversation_id == talk)
    facts = window.page.facts()
    assert facts.composer == "" and facts.newest_message_id == window.sends[0]["message_id"]


def test_while_an_answer_comes_the_page_is_generating_and_its_stop_control_stops_it(window: Window) -> None:
    window.on("slow-answer", seconds=20.0)
    assert window.gate.release(window.at().hold("a question with many words in it"))
    assert until(lambda: window.page.facts().generating) and window.page.stop()
    window.reply()
    assert until(lambda: not window.page.facts().generating)


# The rendered turns


def test_what_the_page_shows_of_a_conversation(pair: Pair) -> None:
    talk = pair.open().at().sent("first words, with *stars*:\n\n```\na block\n\n  of code\n```")
    pair.open().at(talk).sent("practice:think second\n\n  words <b>")
    window = pair.open().at(talk)
    seen = window.page.rendered()
    assert [(turn.user_message_id, turn.prompt) for turn in seen.turns] == [
        (send["message_id"], send["text"]) for send in window.sends]
    assert [turn.thought for turn in seen.turns] == [False, True]
    assert "first words, with" in str(seen.turns[0].answer) and (seen.missing, seen.generating, seen.failed) == (0, False, False)


def test_of_a_long_thread_the_page_shows_its_end_and_says_how_much_is_missing(pair: Pair) -> None:
    doc = Doc()
    for number in range(40):
        doc.user(f"u{number:02}", f"prompt {number}\n\n  indented")
        doc.final(f"a{number:02}", f"answer {number}")
    pair.world.conversations[CONVERSATION] = Conversation(doc.data, FIRST.user_id)
    seen = pair.open().at(CONVERSATION).page.rendered()
    shown = len(seen.turns)
    # The second generation has no place for what it did not bring yet.
    lacking = 0 if pair.generation == 2 else 80 - 2 * shown
    assert 0 < shown < 15 and lacking - 1 <= seen.missing <= lacking + 1
    expected = [(f"u{n:02}", f"prompt {n}\n\n  indented", f"answer {n}") for n in range(40 - shown, 40)]
    assert [(turn.user_message_id, turn.prompt, turn.answer) for turn in seen.turns] == expected
