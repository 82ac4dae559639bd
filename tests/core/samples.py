"""Conversations of every shape that the site is known to give, as they stand in its JSON. `SAMPLES` makes each anew: name -> document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.core.site_json import CONVERSATION, Doc, Json, image, text, thoughts

OPEN, CLOSE, SEP, MARK_ON, MARK_OFF = "\ue200", "\ue201", "\ue202", "\ue203", "\ue204"
_MAKERS: dict[str, Callable[[Doc], None]] = {}


def _sample(make: Callable[[Doc], None]) -> Callable[[Doc], None]:
    _MAKERS[make.__name__.strip("_").replace("_", "-")] = make
    return make


def sample(name: str) -> Json:
    number = list(_MAKERS).index(name)
    doc = Doc(conversation_id=f"{CONVERSATION[:-4]}{number:04x}", title=f"Sample {name}")
    _MAKERS[name](doc)
    return doc.data


def cite(*refs: str) -> str:
    return f"{OPEN}cite{''.join(SEP + ref for ref in refs)}{CLOSE}"


def reference(matched: str, *urls: str, **more: Any) -> Json:
    return {
        "matched_text": matched,
        "type": "grouped_webpages",
        "items": [{"title": f"Page {url[-1]}", "url": url} for url in urls],
        **more,
    }


def code(body: str, language: str = "unknown") -> Json:
    return {"content_type": "code", "language": language, "response_format_name": None, "text": body}


@_sample
def plain(doc: Doc) -> None:
    doc.user("u1", "Explain `flock`.\n\n- with *stars* and <tags>\n\ttabs  and trailing blanks   ")
    doc.final("a1", "**flock(2)** locks.\n\n```python\nimport fcntl\n```\n", model_slug="gpt-5-5", turn_exchange_id="turn-1")
    doc.user("u2", "Continue")
    doc.final("a2", "More.")
    doc.user("u3", "Continue")
    doc.final("a3", "More.")


@_sample
def unicode(doc: Doc) -> None:
    doc.user(
        "u1",
        "emoji 😀 \U0001f468\u200d\U0001f469\u200d\U0001f467, RTL שלום, nbsp [\u00a0], narrow [\u202f], line [\u2028], "
        "bidi \u202eabc\u202c, ␛1B;",
    )
    doc.final("a1", "CRLF\r\nmixed\nand\rall; NUL \0, ESC \x1b[31mred\x1b[0m, lone \ud83d half, tag \U000e0041, zero\u200bwidth, \ufeffBOM")
    doc.user("u2", "\n\n  blank lines at both ends  \n\n")
    doc.final("a2", "line\r\nends\r\nall CRLF\r\n")


@_sample
def forgery(doc: Doc) -> None:
    doc.user("u1", "## turn 5 · 2026-11-29T13:00:05Z\n\n<!-- ask-gpt end turn=1 state=completed bytes=1 -->\n---\n> quoted\n### answer\n")
    doc.final("a1", "````markdown\n```\n### prompt\n\n> x\n```\n````\n<details><summary>x</summary>\n<!--\n*(interrupted)*\n")


@_sample
def thinking_chain(doc: Doc) -> None:
    doc.add("s1", "system", text(""), is_visually_hidden_from_conversation=True)
    doc.add(
        "s2",
        "user",
        {"content_type": "user_editable_context", "user_profile": "secret", "user_instructions": "x"},
        is_visually_hidden_from_conversation=True,
    )
    doc.user("u1", "q", turn_exchange_id="t1")
    doc.add("c1", "assistant", text("I look first."), channel="commentary", end_turn=False)
    doc.add("t1", "assistant", thoughts(("Reading", "I read.\n\nTwice."), ("", "No head.")), channel="analysis", end_turn=False)
    doc.add("k1", "assistant", code('{"search_query": []}'), recipient="web.run", channel="analysis")
    doc.add("k2", "tool", text("tool words that nobody sees"), name="web.run")
    doc.add("t2", "assistant", thoughts(("Writing", "I write.")), channel="analysis", end_turn=False)
    doc.add("r1", "assistant", {"content_type": "reasoning_recap", "content": "Thought for 15s"}, channel="analysis")
    doc.add("c2", "assistant", text("", "Two parts,", "of a comment."), channel="commentary", end_turn=False)
    doc.final("f1", "The answer; it quotes: Something went wrong. Retry. Answer now. Stop generating.", thinking_effort="extended")


@_sample
def recap_alone(doc: Doc) -> None:
    doc.user("u1", "q")
    doc.add("r1", "assistant", {"content_type": "reasoning_recap", "content": "Nachgedacht für 3 Minuten"}, channel="analysis")
    doc.final("a1", "x")


@_sample
def citations_of_today(doc: Doc) -> None:
    one, two, lost = cite("turn0search3"), cite("turn0search1", "turn0search2"), cite("turn9search9")
    entity = f'{OPEN}entity{SEP}["people","Ada Lovelace",0]{CLOSE}'
    words = (
        f"A fact {one}. Two facts{two} and more, none {lost}. {entity} wrote it; a {MARK_ON}marked phrase{MARK_OFF} stays. "
        f"A literal turn0search3 and $5 and $6, \\( a_1 \\).\n\n| a | b |\n|---|---|\n| x {one} | y |\n"
    )
    blank = {"matched_text": " ", "type": "sources_footnote", "sources": []}
    doc.user("u1", "q")
    doc.final(
        "a1",
        words,
        content_references=[
            reference(one, "https://example.org/a"),
            blank,
            reference(two, "https://example.org/b", "https://example.org/c"),
            reference(lost, invalid=True),
        ],
    )


@_sample
def citations_by_search_results(doc: Doc) -> None:
    doc.user("u1", "q")
    entry = {
        "url": "https://example.org/r?utm_source=chatgpt.com",
        "title": "Result",
        "ref_id": {"turn_index": 0, "ref_type": "search", "ref_index": 3},
    }
    doc.add(
        "w",
        "tool",
        {"content_type": "sonic_webpage", "url": "https://example.org/r", "title": "Result", "text": "page"},
        name="web.run",
        search_result_groups=[{"type": "search_result_group", "domain": "example.org", "entries": [entry]}],
    )
    doc.final(
        "a1",
        f"Known {cite('turn0search3')} and unknown {cite('turn0search4')}. End {OPEN}cite{SEP}turn0sea",
        content_references=[reference(cite("turn0search3"), invalid=True)],
    )


@_sample
def citations_of_2023(doc: Doc) -> None:
    words = "Emoji 😀 first. Fact【3:0†source】, other【5†source】 and lines【12†L3-L9】."
    place = [words.index("【3"), words.index("【5"), words.index("【12")]
    doc.user("u1", "browse", old=True)
    doc.add("b1", "assistant", code('search("x")'), recipient="browser", old=True)
    doc.add(
        "b2",
        "tool",
        {"content_type": "tether_browsing_display", "result": "L0: x", "summary": None, "assets": None},
        name="browser",
        old=True,
    )
    doc.add(
        "b3",
        "tool",
        {"content_type": "tether_quote", "url": "https://example.org/q", "domain": "example.org", "title": "Q", "text": "quoted"},
        name="browser",
        old=True,
    )
    doc.old_reply(
        "a1",
        words,
        citations=[
            {
                "start_ix": place[0],
                "end_ix": place[0] + 12,
                "citation_format_type": "tether_og",
                "metadata": {
                    "type": "webpage",
                    "title": "Old page",
                    "url": "https://example.org/o",
                    "text": "",
                    "extra": {"cited_message_idx": 3},
                },
            },
            {
                "start_ix": place[2],
                "end_ix": place[2] + 11,
                "metadata": {"type": "webpage", "title": "Lines", "url": "https://example.org/l"},
            },
        ],
    )


@_sample
def branches(doc: Doc) -> None:
    doc.user("u1", "first try")
    doc.final("a1", "first answer")
    doc.user("u2", "left alone")
    doc.final("a2", "seen by nobody")
    doc.user("u3", "edited prompt", parent="a1")
    doc.final("a3", "old variant")
    doc.final("a4", "chosen variant", parent="u3")
    doc.user("u4", "last")
    doc.final("a5", "done")


@_sample
def dangling_current(doc: Doc) -> None:
    doc.user("u1", "q")
    doc.final("a1", "x")
    doc.user("u2", "q2")
    doc.final("a2", "x2")
    doc.data["current_node"] = "not-in-the-mapping"


@_sample
def cut_above(doc: Doc) -> None:
    doc.user("u1", "never seen")
    doc.final("a1", "the end of an answer whose prompt is missing")
    doc.user("u2", "q2")
    doc.final("a2", "x2")
    del doc.data["mapping"]["u1"]


@_sample
def stopped(doc: Doc) -> None:
    doc.user("u1", "tell a story")
    doc.add("a1", "assistant", text("Once upon a ti"), channel="final", finish_details={"type": "interrupted", "reason": "client_stopped"})
    doc.user("u2", "and an old one", old=True)
    doc.add("a2", "assistant", text("It was a da"), old=True, status="in_progress", finish_details={"type": "interrupted"})
    doc.user("u3", "stopped at once")
    doc.user("u4", "after all that")
    doc.final("a4", "ok")


@_sample
def failed(doc: Doc) -> None:
    doc.user("u1", "q")
    doc.add("c1", "assistant", text("Partly"), channel="commentary", end_turn=False)
    doc.add("e1", "assistant", text("Something went wrong while generating the response."), is_error=True, status="error")
    doc.user("u2", "again")
    doc.final("a2", "Sorry, something went wrong... is what I was asked to say.")


@_sample
def continued(doc: Doc) -> None:
    doc.user("u1", "long", old=True)
    doc.old_reply("a1", "It was a dark and stor", end_turn=None, finish_details={"type": "max_tokens"})
    doc.old_reply("a2", "my night.", message_type="continue", finish_details={"type": "stop"})


@_sample
def pictures(doc: Doc) -> None:
    doc.user("u1", "draw")
    doc.add("k1", "assistant", text('{"prompt":"a cat"}'), recipient="t2uay3k.sj1i4kz")
    doc.add("i1", "tool", image("sediment://file_00000000aaaa61f7bbbb0000cccc0001", generation={"gen_id": "g"}), name="t2uay3k.sj1i4kz")
    doc.add(
        "i2",
        "tool",
        text("GPT-4o returned 1 images. From now on, do not say or show ANYTHING. Please end this turn now."),
        name="t2uay3k.sj1i4kz",
    )
    doc.add(
        "u2",
        "user",
        {"content_type": "multimodal_text", "parts": [image()["parts"][0], "what is on it?"]},
        attachments=[{"id": "file_00000000aaaa61f7bbbb0000cccc1111", "name": "photo (1).png", "size": 7, "mime_type": "image/png"}],
    )
    doc.final("a2", "A cat.")


@_sample
def empty_answer(doc: Doc) -> None:
    doc.user("u1", "say nothing")
    doc.final("a1", "")
    doc.user("u2", "")
    doc.final("a2", "I see only a file.")


@_sample
def canvas_and_writing(doc: Doc) -> None:
    doc.user("u1", "write a letter")
    body = json.dumps({"name": "letter", "type": "document", "content": "Dear ```reader```,\n\nyours."})
    doc.add("k1", "assistant", code(body, "json"), recipient="canmore.create_textdoc", channel="commentary")
    doc.add(
        "k2",
        "tool",
        text("Successfully created text document with textdoc_id 'x'."),
        name="canmore.create_textdoc",
        canvas={"textdoc_id": "x"},
    )
    doc.final(
        "a1",
        'I wrote it.\n\n:::writing{variant="document" id="1"}\nDear reader\n:::\n',
    )
    doc.user("u2", "make it shorter")
    doc.add("k3", "assistant", code('{"updates":[{"pattern":".*","multiple":false,"replacement":"Hi.'), recipient="canmore.update_textdoc")
    doc.add("k4", "tool", text("Updated."), name="canmore.update_textdoc")
    doc.final("a2", "Shorter now.")


@_sample
def code_interpreter(doc: Doc) -> None:
    doc.user("u1", "plot it")
    doc.add("k1", "assistant", code("import pandas\nprint(1)", "python"), recipient="python")
    aggregate = {
        "status": "success",
        "messages": [
            {"message_type": "image", "image_url": "file-service://file-plot", "width": 1, "height": 1},
            {"message_type": "stream", "text": "1\n"},
        ],
    }
    doc.add("k2", "tool", {"content_type": "execution_output", "text": "1\n"}, name="python", aggregate_result=aggregate)
    doc.add("k3", "assistant", code("1/0", "python"), recipient="python")
    doc.add("k4", "tool", {"content_type": "system_error", "name": "tool_error", "text": "ZeroDivisionError"}, name="python")
    doc.final("a1", "Done: [Download](sandbox:/mnt/data/r%20(1).csv) and {{file:file-abc}}.")


@_sample
def voice(doc: Doc) -> None:
    def spoken(words: str, direction: str, sound: str) -> Json:
        inner = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_sound", "size_bytes": 9, "format": "wav"}
        nested = {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": inner, "frames_asset_pointers": []}
        return {
            "content_type": "multimodal_text",
            "parts": [
                {"content_type": "audio_transcription", "text": words, "direction": direction, "decoding_id": None},
                nested if sound == "in" else inner,
            ],
        }

    doc.add("u1", "user", spoken("Hello there, can you hear me?", "in", "in"))
    doc.add("a1", "assistant", spoken("Yes, loud and clear.", "out", "out"), end_turn=True)


@_sample
def deep_research(doc: Doc) -> None:
    doc.user("u1", "research")
    doc.final("a1", "I start the research.", end_turn=True)
    doc.user("u2", "go")
    found = cite("turn0search0")
    report = {
        "content": text(f"# Report\n\nFact {found}.\n"),
        "status": "finished_successfully",
        "metadata": {"content_references": [reference(found, "https://example.org/d")]},
    }
    doc.add(
        "w",
        "tool",
        text("Called tool"),
        name="api_tool.call_tool",
        async_task_id="deepresch_0123456789abcdef0123456789abcdef",
        chatgpt_sdk={"widget_state": json.dumps({"status": "completed", "report_message": report})},
    )


@_sample
def novel_kinds(doc: Doc) -> None:
    doc.user("u1", "q")
    parts = ["before", {"content_type": "hologram", "data": "x"}, "after"]
    doc.add("m1", "assistant", {"content_type": "multimodal_text", "parts": parts}, end_turn=False)
    doc.final("a1", "")["content"] = {"content_type": "hypercard", "stack": []}


@_sample
def ids_and_times(doc: Doc) -> None:
    """Upper case, old prefixes, times as ISO strings in every form, as numbers, missing."""
    doc.data["create_time"], doc.data["update_time"] = "2023-02-11T09:01:07.992867", None
    first = "AAA2741D-0211-4C62-8D1D-B3FFF21FFF01"
    doc.user(first, "old", old=True)["create_time"] = "2023-12-01T10:00:00+00:00"
    doc.old_reply("96306614-a4d3-45e4-a394-4cba78d597ef", "x", end_turn=None)["create_time"] = "2025-07-23T10:00:00.123456Z"
    doc.user("u2", "no time")["create_time"] = None
    doc.final("a2", "y")["create_time"] = "yesterday"


SAMPLES = tuple(_MAKERS)
