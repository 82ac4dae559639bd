"""The log format as it stands in a file: the worked example, headers, chains, and what a reader of a later day may meet."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gptbridge.core.transcript import (
    FORMAT,
    Section,
    close_block,
    header,
    is_newer,
    last_of_other,
    open_block,
    open_section,
    parse,
    quote,
    render_block,
    render_section,
    seal,
    tail,
    tail_from_end,
    turns,
    unescape,
    visible,
)
from tests.core.transcript_cases import AT, HEADER, profile, sound, write

ID = "6f1b6a2e-1111-4222-8333-444455556666"
PROMPT = "Explain flock.\n## turn 5\n<!-- ask-gpt end turn=1 state=completed -->\n---\n"
ANSWER = (
    "**flock(2)** locks the *open file description*.\n\n```python\nfcntl.flock(fd, fcntl.LOCK_EX)\n````\n"
    "unclosed fence above, NUL \0 and RLO \u202e here"
)
EXAMPLE = f"""---
format: ask-gpt-log/1
conversation: {ID}
url: https://chatgpt.com/c/{ID}
created: '2026-11-29T13:00:00Z'
---

## turn 1 · 2026-11-29T13:00:05Z

<!-- ask-gpt turn=1 op=01JDX3V9 effort=high -->

### prompt

> Explain flock.
> ## turn 5
> ␛3C;!-- ask-gpt end turn=1 state=completed -->
> ---
>

### answer

> **flock(2)** locks the *open file description*.
>
> ```python
> fcntl.flock(fd, fcntl.LOCK_EX)
> ````
> unclosed fence above, NUL ␛0; and RLO ␛202E; here

<!-- ask-gpt end turn=1 state=completed bytes=358 sha256=77272a08ded9db3c8af6be2bb096ddaf60746e3adab94e3526cc1ff4d6638a89 prev=- -->
"""
TORN = """
## turn 2 · 2026-11-29T13:02:10Z

<!-- ask-gpt turn=2 op=01JDX3VA -->

### prompt


<!-- ask-gpt torn -->

*(interrupted)*

<!-- ask-gpt end turn=2 state=interrupted bytes=125 sha256={sha} prev=77272a08ded9db3c cut=25 event=0 sum={sum} -->
"""


def test_worked_example_is_written_and_read_as_documented():
    head = header(ID, f"https://chatgpt.com/c/{ID}", "2026-11-29T13:00:00Z")
    sections = [Section("prompt", PROMPT), Section("answer", ANSWER)]
    block = render_block("turn", 1, AT, attrs={"op": "01JDX3V9", "effort": "high"}, sections=sections, state="completed", prev="-")
    *_, end = block.decode().splitlines()
    assert (head + block).decode() == EXAMPLE.replace(" prev=- -->", " prev=-" + end[-17:])
    for data in (EXAMPLE.encode(), head + block):
        log = parse(data)
        assert sound(log) and not log.newer
        assert log.header == {
            "format": FORMAT, "conversation": ID, "url": f"https://chatgpt.com/c/{ID}", "created": "2026-11-29T13:00:00Z",
        }  # fmt: skip
        (turn,) = log.blocks
        assert (turn.kind, turn.number, turn.at, turn.state, turn.words) == ("turn", 1, AT, "completed", ())
        assert turn.attrs == (("op", "01JDX3V9"), ("effort", "high"))
        assert (turn.section("prompt"), turn.section("answer"), turn.section("error")) == (PROMPT, ANSWER, None)
        assert (turn.attr("op"), turn.attr("user")) == ("01JDX3V9", None)
        assert data[turn.start : turn.stop].startswith(b"\n## turn 1") and turn.stop == len(data)


def test_torn_example_is_sealed_as_documented():
    log = EXAMPLE.encode()
    cut = log + tail(log).block(
        "turn", "2026-11-29T13:02:10Z", attrs={"op": "01JDX3VA"}, sections=[Section("prompt", "a\r\nb")], state="completed"
    )
    cut = cut[: cut.index(b"eol=crlf -->") + len("eol=crlf -->")]
    healed = seal(cut)
    turn = parse(healed).blocks[1]
    mark = healed[-300:].rpartition(b" sum=")[2][:8].decode()
    assert turn.digest.startswith("3b3951d3")
    assert healed.decode() == EXAMPLE + TORN.format(sha=turn.digest, sum=mark)
    assert sound(parse(healed)) and turn.state == "interrupted" and turn.sections == ()
    assert parse(cut).torn and parse(cut).blocks[1].state == "torn"
    assert (tail(healed).next_turn, tail(healed).next_event) == (3, 1)


def test_streamed_block_equals_the_rendered_one():
    parts = [Section("prompt", "a\r\nb\r\n", (("v", "1"),)), Section("answer", "x\n<b>")]
    rendered = render_block(
        "event", 3, AT, attrs={"turn": "1", "op": None}, sections=parts, state="completed", words=["hydrated"], prev="0" * 16, other=7
    )
    body = open_block("event", 3, AT, attrs=[("turn", "1")], words=("hydrated",))
    body += open_section("prompt", {"v": "1", "eol": "crlf"}) + quote("a\r\nb\r\n", crlf=True)
    body += open_section("answer") + quote("x\n<b>")
    assert rendered == body + close_block(body, "event", 3, "completed", "0" * 16, turn="7")
    assert last_of_other("event", 7) == {"turn": "7"} and last_of_other("turn", None) == {}
    (event,) = parse(HEADER + rendered.replace(b"prev=" + b"0" * 16, b"prev=-")).blocks
    assert event.sections == tuple(parts) and event.words == ("hydrated",) and event.attr("turn") == "1"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ">\n"),
        ("\n", ">\n>\n"),
        ("a\n", "> a\n>\n"),
        (" ", ">  \n"),
        ("a> ", "> a> \n"),
        (">", "> >\n"),
        ("\ta", "> \ta\n"),
        ("a\r\nb\n", "> a␛D;\n> b\n>\n"),
        ("\ud83d\ude00", "> ␛D83D;␛DE00;\n"),
        ("␛3C;<b>", "> ␛241B;3C;␛3C;b>\n"),
        ("a < b <- c <3", "> a < b <- c <3\n"),
        ("\U000e0041\ufeff\u2066\x7f\x9b", "> ␛E0041;␛FEFF;␛2066;␛7F;␛9B;\n"),
    ],
)
def test_a_text_is_quoted_like_this_and_comes_back(text, quoted):
    assert quote(text).decode() == quoted
    section = Section("answer", text)
    assert parse(write([("turn", [section], "completed")])).blocks[0].sections == (section,)


def test_crlf_text_keeps_its_look():
    written = render_section(Section("prompt", "a\r\n\r\nb\r\n"))
    assert written == b"\n### prompt\n\n<!-- ask-gpt eol=crlf -->\n\n> a\n>\n> b\n>\n"
    with pytest.raises(ValueError):
        render_section(Section("prompt", "a", (("eol", "crlf"),)))


@pytest.mark.parametrize("value", ["", "a b", "a>", "é", "a\n", "a=b", "'", "\u202e", "-->", 5, True])
def test_no_users_text_becomes_a_value(value):
    with pytest.raises(ValueError):
        open_block("turn", 1, AT, attrs={"model": value})
    with pytest.raises(ValueError):
        open_section("answer", {"v": value})
    for bad in ({"state": value, "prev": "-"}, {"state": "completed", "prev": value}):
        with pytest.raises(ValueError):
            close_block(b"", "turn", 1, **bad)
    with pytest.raises(ValueError):
        open_block("turn", 1, value)
    with pytest.raises(ValueError):
        open_block("turn", 1, AT, words=[value])
    with pytest.raises(ValueError):
        open_section(value)


@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_numbers_stay_readable(number):
    with pytest.raises(ValueError):
        open_block("turn", number, AT)


# Headers


def test_header_is_the_yaml_it_claims_to_be():
    values = {
        "title": "It's: a # 'test' - \ud83d \U0001f600\nNUL \0 ␛41;", "flag": "yes", "number": "12", "when": "2026-01-01", "word": "plain",
        "list": "- a",
        "blank": "", "spaces": "  a  ", "key": "a: b", "colon": "a:", "anchor": "&a", "tag": "!x", "float": "1e5",
        "sexagesimal": "1:30", "tilde": "~",
    }  # fmt: skip
    data = header("01234567-0000-8000-8000-000000000001", "https://chatgpt.com/c/0?x=1&y=#z", AT, "user-1/acct-2", none=None, **values)
    log = parse(data)
    assert {key: log.header[key] for key in values} == values and not log.problems
    assert "none" not in log.header and log.header["account"] == "user-1/acct-2"
    assert b"\naccount: user-1/acct-2\n" in data and b"\nconversation: 01234567-" in data
    for kind in ("safe", "rt"):
        loaded = YAML(typ=kind, pure=True).load(data.decode().split("---\n")[1])
        assert all(isinstance(value, str) for value in loaded.values())
        assert {key: unescape(value) for key, value in loaded.items()} == log.header


@profile(400)
@given(
    st.text(st.characters(), max_size=30) | st.sampled_from(["on", "Null", "0x1", "1_0", "=", "<<", "y", "N", ".inf", "0o7", "a:b", "Yes"])
)
def test_any_title_survives_the_header(title):
    data = header("c", "u", AT, title=title)
    assert parse(data).header["title"] == title
    loaded = YAML(typ="safe", pure=True).load(io.StringIO(data.decode().split("---\n")[1]))
    assert unescape(loaded["title"]) == title


@pytest.mark.parametrize(
    "line", ["a: [1]", "b: &x y", "c: yes", "d: 'open", "e:", "F: x", "format: again", 'g: "x"', "h: a: b", "\0", "é: x"]
)
def test_a_header_line_in_another_style_is_reported(line):
    log = parse(HEADER.replace(b"created", line.encode() + b"\ncreated"))
    assert [(p.line, p.what) for p in log.problems] == [(5, "header line not understood")]
    assert log.header["created"] == "2026-11-29T13:00:00Z"
    assert list(log.header) == ["format", "conversation", "url", "created"]


@pytest.mark.parametrize("key", ["", "A", "a b", "a:b", "é"])
def test_a_header_key_is_a_plain_word(key):
    with pytest.raises(ValueError):
        header("c", "u", AT, **{key: "x"})


def test_a_newer_format_is_left_alone():
    newer = HEADER.replace(b"log/1", b"log/2")
    torn = newer + b"\n## turn 1"
    log = parse(torn)
    assert log.newer and is_newer(torn) and tail(torn).newer and seal(torn) == torn
    minor = write([("turn", [Section("answer", "x")], "completed")], HEADER.replace(b"log/1", b"log/1.7"))
    assert sound(parse(minor)) and not is_newer(minor)
    for other in (b"log/0", b"log/x", b"log/"):
        log = parse(HEADER.replace(b"log/1", other))
        assert not log.newer and log.problems


def test_later_sections_attributes_and_words_are_kept():
    body = (
        f"\n## turn 1 · {AT} (hydrated) (new-word)\n\n<!-- ask-gpt turn=1 colour=red -->\n\n### tools\n\n<!-- ask-gpt lang=de -->\n\n> x\n"
    ).encode()
    log = parse(HEADER + body + close_block(body, "turn", 1, "paused", "-", shape="round"))
    assert sound(log)
    (turn,) = log.blocks
    assert turn.state == "paused" and turn.words == ("hydrated", "new-word") and turn.attr("colour") == "red"
    assert turn.sections == (Section("tools", "x", (("lang", "de"),)),)


# Blocks in a row


def block_of(log, kind, state="completed", **attrs):
    return log + tail(log).block(kind, AT, attrs=attrs, sections=[Section("answer", f"{kind} {attrs}")], state=state)


def unclosed(log):
    return log[: log.rindex(b"\n<!-- ask-gpt end ")]


def test_turns_and_events_are_numbered_apart_and_chained():
    log = HEADER
    for kind in ("turn", "event", "event", "turn"):
        log = block_of(log, kind)
    blocks = parse(log).blocks
    assert [(b.kind, b.number) for b in blocks] == [("turn", 1), ("event", 1), ("event", 2), ("turn", 2)]
    assert [f"prev={b.digest[:16]} ".encode() in log for b in blocks] == [True, True, True, False]
    assert sound(parse(log))
    pieces = [log[b.start : b.stop] for b in blocks]
    for order in ((0, 2, 3), (1, 2, 3), (0, 2, 1, 3), (0, 0, 1, 2, 3), (0, 1, 1, 2, 3)):
        assert not sound(parse(HEADER + b"".join(pieces[i] for i in order)))


def test_supersedes_hides_the_partial_turn():
    log = block_of(block_of(block_of(HEADER, "turn"), "turn", "failed"), "event")
    log = block_of(seal(unclosed(block_of(log, "turn"))), "turn", supersedes="3")
    assert [b.number for b in turns(parse(log))] == [1, 2, 4]
    assert [b.number for b in turns(parse(log), with_superseded=True)] == [1, 2, 3, 4]
    again = seal(block_of(log, "turn", supersedes="4")[:-9])
    assert [(b.number, b.state) for b in turns(parse(again))][-2:] == [(4, "completed"), (5, "interrupted")]
    assert [b.number for b in turns(parse(block_of(HEADER, "turn", supersedes="1")))] == [1]


def test_tail_from_the_end_knows_what_the_whole_file_says():
    log = HEADER
    for kind in ("turn", "event", "event", "turn", "turn"):
        assert tail_from_end(log[-512:], len(log)) == tail(log)
        log = block_of(log, kind)
    assert tail(log).next_turn == 4 and tail(log).next_event == 3
    assert tail_from_end(log[-300:], len(log)) == tail(log)
    for spoiled in (log[:-1], log + b"\n", log + b"\0", log.replace(b" event=2 ", b" event=3 "), log + b"a person's note\n", log + b"> x"):
        assert tail_from_end(spoiled[-1000:], len(spoiled)) == tail(spoiled) == tail_from_end(spoiled, len(spoiled))
        assert tail_from_end(spoiled[-100:], len(spoiled)) is None
    old = render_block("turn", 1, AT, state="completed", prev="-")
    assert tail_from_end(old, len(old) + len(HEADER)) is None
    assert tail_from_end(b"", 0) is not None and tail_from_end(b"", 5) is None


def test_tail_from_the_end_does_not_depend_on_the_size():
    turn = Section("answer", "A line of usual length, with **bold** and `code`, ends here.\n" * 2000)
    small = write([("turn", [turn], "completed")])
    big = HEADER + b"".join([small[len(HEADER) :]] * 80)
    assert len(big) > 10_000_000

    def cost(log: bytes) -> float:
        chunk, best = log[-1024:], 9.0
        for _ in range(5):
            start = time.process_time()
            for _ in range(100):
                tail_from_end(chunk, len(log))
            best = min(best, time.process_time() - start)
        return best

    assert cost(big) < 5 * cost(small)
    start = time.process_time()
    log = parse(big)
    # 30 MB/s and more of processor time; this bound only catches a quadratic reader.
    assert len(big) / (time.process_time() - start) > 10e6
    assert log.blocks[79].sections == (turn,)


@pytest.mark.parametrize(
    "text", ["\n" * 300_000, "\0" * 100_000, "` `` ``` " * 40_000 + "<b>", "  ```\n" * 60_000 + "<b>", "[a]:" * 90_000 + "<b>"]
)
def test_hostile_texts_take_linear_time(text):
    start = time.process_time()
    log = parse(write([("turn", [Section("answer", text)], "completed")]))
    assert sound(log) and log.blocks[0].section("answer") == text
    assert time.process_time() - start < 5


# Other hands


def test_notes_between_blocks_are_skipped_and_stay():
    log = block_of(HEADER, "turn") + b"\nA note.\n\n## my heading\n> quoted\n<!-- mine -->\n"
    assert seal(log) == log
    log = block_of(log, "turn") + b"end without line feed"
    assert seal(log) == log + b"\n" and seal(log + b"\0\0") == log + b"\n" and seal(log + b"\n\n\n") == log + b"\n\n\n"
    log = block_of(seal(log), "turn")
    assert sound(parse(log)) and [b.number for b in parse(log).blocks] == [1, 2, 3]
    assert b"A note." in log and b"end without line feed\n" in log


def test_a_note_inside_a_block_is_reported_and_spoils_no_other():
    log = block_of(block_of(block_of(HEADER, "turn"), "turn"), "turn")
    at = log.index(b"\n> turn", parse(log).blocks[1].start) + 1
    found = parse(log[:at] + b"note\n" + log[at:])
    assert [b.ok for b in found.blocks] == [True, False, True]
    assert [p.what for p in found.problems] == ["turn 2 is not what was written"]
    line = found.problems[0].line
    assert (log[:at] + b"note\n" + log[at:]).decode().split("\n")[line - 1].startswith("## turn 2")


def test_nul_bytes_in_the_middle_are_reported_and_later_turns_read():
    log = block_of(block_of(block_of(HEADER, "turn"), "turn"), "turn")
    second = parse(log).blocks[1]
    for start, size in (
        (second.start + 60, 40),
        (second.start, second.stop - second.start),
        (second.start + 120, 200),
        (second.start + 5, 3),
    ):
        bad = log[:start] + b"\0" * size + log[start + size :]
        found = parse(bad)
        assert found.problems and found.blocks[0].ok and not found.torn
        assert said_texts(found)[-1] == said_texts(parse(log))[-1]
        assert tail(bad).next_turn == 4 and tail(bad).clean


def said_texts(log):
    return [b.section("answer") for b in log.blocks]


def test_a_flipped_state_is_noticed():
    log = block_of(HEADER, "turn")
    found = parse(log.replace(b"state=completed", b"state=completeb"))
    assert [p.what for p in found.problems] == ["turn 1 has a damaged end mark"] and not found.blocks[0].ok


def test_a_damaged_digest_spoils_only_its_own_block():
    log = block_of(block_of(block_of(HEADER, "turn"), "turn"), "turn")
    digest = parse(log).blocks[1].digest.encode()
    spoilt = log.replace(b"sha256=" + digest, b"sha256=" + digest[::-1])
    assert [b.ok for b in parse(spoilt).blocks] == [True, False, True]


def test_a_sealed_block_with_nul_bytes_is_not_called_sound():
    log = block_of(HEADER, "event")
    log = seal(unclosed(block_of(log, "turn")).replace(b"turn {}", b"tu\0\0\0\0{}"))
    assert parse(log).blocks[1].section("answer") == "tu"
    assert parse(log).blocks[1].state == "interrupted" and not parse(log).blocks[1].ok and parse(log).problems


# Terminals


def test_visible_text_carries_no_control():
    hostile = "a\x1b]0;title\x07\x1b[2J\r\u202eb\u2066\u200b\U000e0041␛\tc\nd\ud800\x9b31m"
    assert visible(hostile, multiline=True) == "a␛1B;]0;title␛7;␛1B;[2J␛D;␛202E;b␛2066;\u200b␛E0041;␛241B;\tc\nd␛D800;␛9B;31m"
    assert visible(hostile, multiline=False) == visible(hostile, multiline=True).replace("\t", "␛9;").replace("\n", "␛A;")
    assert unescape(visible(hostile, multiline=False)) == hostile
    assert visible("plain <b> é", multiline=False) == "plain <b> é"


def test_reading_needs_no_yaml():
    code = "import sys, gptbridge.core.transcript; print(sorted(m for m in sys.modules if 'yaml' in m))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_digest_is_the_sha256_of_the_blocks_bytes():
    log = block_of(HEADER, "turn")
    (turn,) = parse(log).blocks
    assert hashlib.sha256(unclosed(log)[turn.start :]).hexdigest() == turn.digest
