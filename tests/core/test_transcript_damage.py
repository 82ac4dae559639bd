"""A log cut off, zeroed, spoilt or cut off again while it is mended: the older turns stay exact, and nothing spoilt is called sound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.transcript import Section, loses, parse, seal, tail, tail_from_end, told, turns, unescape
from tests.core.transcript_cases import AT, GRAMMAR, HEADER, hostile, is_prefix, names, plans, profile, said, sections, sound, texts, write

GREP = {b"## turn ": "turn", b"## event ": "event"}


@profile(400, GRAMMAR)
@given(plans)
def test_whole_logs_round_trip_and_the_file_is_clean(plan):
    log = write(plan)
    found = parse(log)
    assert sound(found)
    assert [(b.kind, b.sections, b.state) for b in found.blocks] == plan
    text = log.decode("utf-8")
    assert text.splitlines() == text.split("\n")[:-1]
    for prefix, kind in GREP.items():
        assert sum(line.startswith(prefix) for line in log.split(b"\n")) == sum(p[0] == kind for p in plan)
    assert sum(line.startswith(b"### ") for line in log.split(b"\n")) == sum(len(p[1]) for p in plan)
    assert seal(log) == log
    assert tail_from_end(log[-1024:], len(log)) == tail(log)


def check_healed(before, damaged: bytes, kept: int) -> None:
    """`damaged` begins with the first `kept` bytes of the log that holds the blocks `before`; what followed them was lost."""
    healed = seal(damaged)
    assert seal(healed) == healed
    found = parse(healed)
    whole = [said(block) for block in before if block.stop <= kept]
    assert [said(block) for block in found.blocks[: len(whole)]] == whole
    assert all(block.ok for block in found.blocks[: len(whole)])
    rest = found.blocks[len(whole) :]
    assert len(rest) <= 1
    for block in rest:
        lost = before[len(whole)]
        if block.state != lost.state:
            assert block.state == "interrupted" and (block.kind, block.number, block.at) == (lost.kind, lost.number, lost.at)
            assert is_prefix(block.sections, lost.sections)
    # What a reader sees does not depend on whether a writer has mended the end yet.
    assert [b.sections for b in parse(damaged).blocks] == [b.sections for b in found.blocks]
    end = tail(healed)
    longer = healed + end.block("turn", AT, sections=[Section("answer", "new")], state="completed")
    again = parse(longer)
    assert again.blocks[-1].ok and again.blocks[-1].section("answer") == "new"
    for kind in ("turn", "event"):
        numbers = [b.number for b in again.blocks if b.kind == kind]
        assert numbers == list(range(1, len(numbers) + 1))


@profile(400, GRAMMAR)
@given(plans, st.data(), st.sampled_from([0, 0, 1, 7, 512]))
def test_a_cut_anywhere_is_healed(plan, data, nuls):
    log = write(plan)
    cut = data.draw(st.integers(len(HEADER), len(log)))
    check_healed(parse(log).blocks, log[:cut] + b"\0" * nuls, cut)
    assert sound(parse(seal(log[:cut] + b"\0" * nuls)))


@profile(400, GRAMMAR)
@given(plans, st.data())
def test_a_lost_disk_block_near_the_end_is_healed(plan, data):
    log = write(plan)
    start = data.draw(st.integers(len(HEADER), len(log)))
    last = parse(log).blocks[-1].start if plan else len(HEADER)
    start = max(start, last)
    stop = data.draw(st.integers(start, len(log)))
    cut = data.draw(st.integers(stop, len(log)))
    damaged = log[:start] + b"\0" * (stop - start) + log[stop:cut]
    healed = seal(damaged)
    assert seal(healed) == healed
    older = [said(b) for b in parse(log).blocks[:-1]]
    found = parse(healed)
    assert [said(b) for b in found.blocks[: len(older)]] == older and all(b.ok for b in found.blocks[: len(older)])
    for block in found.blocks[len(older) :]:
        assert is_prefix(block.sections, parse(log).blocks[-1].sections) or not block.ok
    longer = healed + tail(healed).block("turn", AT, sections=[Section("answer", "new")], state="completed")
    assert parse(longer).blocks[-1].section("answer") == "new" and parse(longer).blocks[-1].ok


@profile(400, GRAMMAR)
@given(plans, st.data())
def test_a_crash_while_sealing_is_healed(plan, data):
    log = write(plan)
    cut = data.draw(st.integers(len(HEADER), len(log)))
    end = tail(log[:cut])
    mended = log[: end.keep] + end.seal[: data.draw(st.integers(0, len(end.seal)))]
    check_healed(parse(log).blocks, mended, cut)


@profile(400, GRAMMAR)
@given(plans, st.data(), st.sampled_from(["zero", "flip", "delete", "insert", "swap", "double"]))
def test_what_is_called_sound_is_what_was_written(plan, data, how):
    log = write(plan)
    start = data.draw(st.integers(0, len(log)))
    stop = min(len(log), start + data.draw(st.integers(1, 600)))
    middle = log[start:stop]
    if how == "zero":
        middle = b"\0" * len(middle)
    elif how == "flip":
        middle = bytes([byte ^ 1 << data.draw(st.integers(0, 7)) for byte in middle[:1]]) + middle[1:]
    elif how == "delete":
        middle = b""
    elif how == "insert":
        middle = data.draw(st.binary(min_size=1, max_size=20) | texts.map(lambda t: t.encode("utf-8", "replace"))) + middle
    elif how == "double":
        middle *= 2
    damaged = log[:start] + middle + log[stop:]
    if how == "swap":
        damaged = log[:start] + log[stop : stop + 200] + log[start:stop] + log[stop + 200 :]
    written = [said(block) for block in parse(log).blocks]
    assert all(said(block) in written for block in parse(damaged).blocks if block.ok)
    # What was closed by sealing is as it was found then, and says that it was interrupted.
    assert all(said(block) in written for block in parse(seal(damaged)).blocks if block.ok and block.state != "interrupted")


PIECES = (
    b"---\n", b"format: ask-gpt-log/1\n", b"\n", b"\n## turn 1 \xc2\xb7 2026-11-29T13:00:05Z\n", b"\n## tu", b"<!--", b"#", b"\0",
    b"> x\n", b">",
    b"\n## event 2 \xc2\xb7 2026-11-29T13:00:05Z (x)\n", b"\n<!-- ask-gpt turn=1 a=b -->\n", b"\n### prompt\n", b"\xe2", b"\x90", b"text",
    b"\n<!-- ask-gpt torn -->\n", b"*(interrupted)*\n", "␛D800;␛110000;␛3".encode(),
    b"\n<!-- ask-gpt end turn=1 state=x bytes=1 sha256=" + b"0" * 64 + b" prev=- turn=99999999999999999999 -->\n",
    b"\n<!-- ask-gpt end event=2 state=x bytes=1 sha256=" + b"0" * 64 + b" prev=- turn=. -->\n",
)  # fmt: skip


@profile(400, GRAMMAR)
@given(st.binary(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_no_bytes_make_reading_raise(data):
    log = parse(data)
    turns(log)
    healed = seal(data)
    assert seal(healed) == healed
    tail_from_end(data[-512:], len(data) + 1)
    if tail(healed).next_turn < 10**9:
        assert parse(healed + tail(healed).block("turn", AT, state="completed")).blocks[-1].ok


def test_a_cut_at_every_byte_of_two_turns():
    plan = [
        ("turn", (Section("prompt", "a\r\né ␛\r\n"), Section("answer", "x <b>\n\n```\n<i>\n```\n"), Section("artifacts", "")), "completed"),
        ("turn", (Section("prompt", "\ud83d é"), Section("thinking", "\n"), Section("answer", "two\nlines\0")), "completed"),
    ]
    log = write(plan)
    before = parse(log).blocks
    for cut in range(len(HEADER), len(log) + 1):
        check_healed(before, log[:cut], cut)
        end = tail(log[:cut])
        if end.seal:
            check_healed(before, log[: end.keep] + end.seal[: cut % len(end.seal)], cut)


def test_a_crash_at_every_byte_of_the_sealing():
    log = write([("turn", (Section("answer", "naïve\nlines"),), "completed")])
    before = parse(log).blocks
    for cut in (log.index("ï".encode()) + 1, log.index(b"> na") + 1, log.index(b"### ans") + 5, log.index(b" turn=1") + 3, len(log) - 5):
        end = tail(log[:cut])
        for stop in range(len(end.seal) + 1):
            mended = seal(log[: end.keep] + end.seal[:stop])
            check_healed(before, log[: end.keep] + end.seal[:stop], cut)
            assert mended.count(b"\n<!-- ask-gpt torn -->\n") == mended.count(b"\n*(interrupted)*\n") <= 1


@pytest.mark.parametrize(
    ("torn", "kept"),
    [
        ("\n", ""),
        ("\n#", ""),
        ("\n##", ""),
        ("\n## tur", ""),
        (f"\n## turn 2 · {AT}", ""),
        (f"\n## turn 2 · {AT}\n", f"\n## turn 2 · {AT}\n"),
        (f"\n## turn 2 · {AT}\n\n<!-- ask-gpt turn=2 op=0", f"\n## turn 2 · {AT}\n\n"),
        (f"\n## turn 2 · {AT}\n\n### prom", f"\n## turn 2 · {AT}\n\n"),
        (f"\n## turn 2 · {AT}\n\n##", f"\n## turn 2 · {AT}\n\n"),
        (f"\n## turn 2 · {AT}\n\n### prompt\n\n> hal", f"\n## turn 2 · {AT}\n\n### prompt\n\n> hal"),
        (f"\n## turn 2 · {AT}\n\n### prompt\n\n>", f"\n## turn 2 · {AT}\n\n### prompt\n\n>"),
        (f"\n## turn 2 · {AT}\n\n### prompt\n\n> x\n\0\0\0", f"\n## turn 2 · {AT}\n\n### prompt\n\n> x\n"),
        (f"\n## turn 2 · {AT}\n\n### prompt\n\n> x\n\n<!-- ask-gpt end turn=2 state=comp", f"\n## turn 2 · {AT}\n\n### prompt\n\n> x\n\n"),
    ],
)
def test_what_is_cut_of_a_torn_end(torn, kept):
    log = write([("turn", [Section("answer", "x")], "completed")])
    end = tail(log + torn.encode())
    assert not end.clean and (log + torn.encode())[: end.keep] == log + kept.encode()
    healed = seal(log + torn.encode())
    assert [line for line in healed.split(b"\n") if line.startswith(b"#")][2:] == [
        line.encode() for line in kept.split("\n") if line.startswith("#")
    ]
    assert len(parse(healed).blocks) == (2 if kept else 1)
    assert not kept.endswith("> hal") or b"> hal\n\n<!-- ask-gpt torn -->\n" in healed


def test_half_a_character_and_half_an_escape_go():
    log = write([("turn", [Section("answer", "naïve\0")], "completed")])
    at = log.index("ï".encode())
    assert parse(seal(log[: at + 1])).blocks[0].section("answer") == "na"
    at = log.index("␛0;".encode())
    for cut in range(at, at + 5):
        assert parse(seal(log[:cut])).blocks[0].section("answer") == "naïve" == parse(log[:cut]).blocks[0].section("answer")
    assert b"na" in seal(log[: at + 4]) and "␛0" in seal(log[: at + 4]).decode()


def test_an_end_mark_that_lacks_only_its_line_feed_is_whole():
    log = write([("turn", [Section("answer", "x")], "completed"), ("event", [], "completed")])
    end = tail(log[:-1])
    assert (end.keep, end.seal, end.clean) == (len(log) - 1, b"\n", False)
    assert seal(log[:-1]) == log
    for old, new in (
        (b"event=1 state=completed", b"event=1 state=complete_"),
        (b"event=1 op=", b"event=1 no="),
        (b" turn=1 sum", b" turn=2 sum"),
    ):
        spoilt = log[:-1].replace(old, new)
        assert spoilt != log[:-1] and parse(seal(spoilt)).blocks[1].state == "interrupted"


@profile(400, GRAMMAR)
@given(names, texts)
def test_any_text_round_trips(name, text):
    (block,) = parse(write([("turn", (Section(name, text),), "completed")])).blocks
    assert block.sections == (Section(name, text),) and [ord(c) for c in block.section(name)] == [ord(c) for c in text]
    assert unescape(text.replace("␛", "␛241B;")) == text


@profile(100, GRAMMAR)
@given(sections)
def test_sections_with_the_same_name_stay_apart(parts):
    assert parse(write([("event", parts, "completed")])).blocks[0].sections == parts


def test_hostile_texts_by_seed():
    plan = [("turn", (Section("prompt", hostile(seed)), Section("answer", hostile(seed + 1000))), "completed") for seed in range(200)]
    found = parse(write(plan))
    assert sound(found) and [b.sections for b in found.blocks] == [p[1] for p in plan]


# A block that is written in two goes


@profile(400, GRAMMAR)
@given(plans, sections, sections, st.data())
def test_a_block_in_two_goes_is_the_same_block_and_a_crash_between_them_leaves_the_first(plan, first, rest, data):
    """What is begun reads as torn and holds its first sections exactly; closed it is what one append would have written; cut off at any
    byte of either go it is healed, and the full turn can follow."""
    log = write(plan)
    end = tail(log)
    known = {"attrs": {"op": "01JDX3V9", "user": "m-1"}, "words": ["hydrated"] if data.draw(st.booleans()) else []}
    opening = end.opening("turn", AT, sections=first, **known)
    whole = end.block("turn", AT, sections=(*first, *rest), state="completed", end={"model": "gpt-9", "user": "m-2"}, **known)
    assert whole.startswith(opening)
    begun = parse(log + opening)
    assert begun.torn and begun.blocks[-1].sections == first and begun.blocks[-1].attr("user") == "m-1"
    for answering, state in ((True, "answering"), (False, "interrupted")):
        seen = told(begun, answering=answering)
        assert not seen.problems and seen.blocks[:-1] == begun.blocks[:-1] and seen.blocks[-1].state == state
    closed = parse(log + whole)
    assert sound(closed) and closed.blocks[-1].sections == (*first, *rest) and told(closed, answering=True) is closed
    assert (closed.blocks[-1].attr("user"), closed.blocks[-1].attr("model")) == ("m-2", "gpt-9")
    assert end.after("turn", whole) == tail(log + whole)
    cut = len(log) + data.draw(st.integers(0, len(whole)))
    check_healed(closed.blocks, (log + whole)[:cut], cut)
    if cut >= len(log) + len(opening):
        assert parse(seal((log + whole)[:cut])).blocks[-1].sections[: len(first)] == first
    healed = seal(log + opening)
    full = healed + tail(healed).block("turn", AT, attrs={"supersedes": str(end.next_turn)}, sections=(*first, *rest), state="completed")
    assert sound(parse(full)) and [b.number for b in turns(parse(full)) if b.number >= end.next_turn] == [end.next_turn + 1]


@profile(400, GRAMMAR)
@given(plans, st.data(), st.sampled_from([0, 0, 3, 700]))
def test_the_end_of_a_file_tells_what_the_whole_file_says(plan, data, nuls):
    """However little of it is read: it is enough and right, or it says that it is not enough."""
    log = write(plan)
    log = log[: data.draw(st.integers(len(HEADER), len(log)))] + b"\0" * nuls
    length = data.draw(st.integers(0, len(log)))
    assert tail_from_end(log[len(log) - length :], len(log)) in (None, tail(log))
    assert tail_from_end(log, len(log)) == tail(log)


@profile(200, GRAMMAR)
@given(st.lists(sections, max_size=4), st.integers(0, 4), st.data())
def test_nothing_whole_is_lost_by_a_replacement_that_is_allowed(plan, older, data):
    longer, log = HEADER, HEADER
    for number, parts in enumerate(plan):
        longer += tail(longer).block("turn", AT, attrs={"user": f"m-{number}"}, sections=parts, state="completed")
        log = longer if number < older else log
    assert not loses(log, longer) and not loses(b"", log)
    cut = data.draw(st.integers(0, len(longer)))
    assert not loses(longer[:cut], longer) and not loses(longer[:cut], seal(longer[:cut]))
    start = data.draw(st.integers(0, len(longer)))
    spoilt = longer[:start] + b"\0" * min(40, len(longer) - start) + longer[start + 40 :]
    for new in (longer[:cut], spoilt, seal(longer[:cut])):
        kept = [said(b) for b in parse(new).blocks if b.ok]
        assert loses(longer, new) or all(said(b) in kept for b in parse(longer).blocks)
