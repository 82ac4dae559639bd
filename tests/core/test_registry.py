"""The registry's rules: the latest of an id counts, an id keeps its account, order is newest first (RG-01 .. RG-13)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.errors import Failure
from gptbridge.core.record import BadLine, decode, encode
from gptbridge.core.registry import Conversation, Glance, first_record, glance, newest, provisional_title, read, title_filter

AT = "2026-11-29T13:00:00.000Z"


def ident(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012d}"


def record(number: int, title: str = "t", account: str = "user-0000", **facts: Any) -> dict[str, Any]:
    return {"at": AT, **Conversation(account, ident(number), title, **facts).fields()}


def backwards(*rows: dict[str, Any]) -> Iterator[Glance]:
    lines = [encode(seq, fields)[:-1] for seq, fields in enumerate([first_record(AT), *rows], 1)]
    return (found for line in reversed(lines) if (found := glance(line)) is not None)


def latest(rows: list[dict[str, Any]]) -> list[Conversation]:
    """The plainest way to say what a list holds: forwards, each record decoded; the newest of an id moves it to the end."""
    found: dict[str, Conversation] = {}
    for conversation in filter(None, map(read, rows)):
        found.pop(conversation.conversation_id, None)
        found[conversation.conversation_id] = conversation
    return list(found.values())[::-1]


def test_a_record_is_read_as_it_was_written() -> None:
    one = Conversation("user-0000/acct", ident(1), "Title", "https://chatgpt.com/c/x", True, AT, None, "bootstrap")
    later = "2026-11-30T00:00:00.000Z"
    found = read({"at": later, **one.fields()})
    assert found == Conversation("user-0000/acct", ident(1), "Title", "https://chatgpt.com/c/x", True, AT, later, "bootstrap")
    assert set(found.document()) == {"account", "conversation_id", "title", "url", "created_at", "updated_at", "origin"}


@pytest.mark.parametrize("fields", [{}, {"note": 1}, {"conversation_id": ident(1)}, {"account": "user-0000"}])
def test_records_of_later_kinds_are_passed_over(fields: dict[str, Any]) -> None:
    assert read(fields) is None


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "ask-gpt-ledger"}, {"version": None}])
def test_a_newer_or_foreign_file_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Failure) as why:
        read({**first_record(AT), **change})
    assert why.value.slug == "state-corrupt"


def test_the_latest_record_of_an_id_counts_and_moves_it_to_the_front() -> None:
    found = newest(backwards(record(1, "one"), record(2, "two"), record(1, "one again")))
    assert [(c.conversation_id, c.title) for c in found] == [(ident(1), "one again"), (ident(2), "two")]


def test_an_id_under_another_account_is_refused() -> None:
    with pytest.raises(Failure) as why:
        list(newest(backwards(record(1), record(2), record(1, account="user-0001")), every_account=True))
    assert why.value.slug == "state-corrupt" and ident(1) in why.value.message


def test_newest_reads_no_further_than_it_must() -> None:
    def rows() -> Iterator[Glance]:
        yield from backwards(record(2, "older"), record(3, "newest"))
        raise AssertionError("read too far")
    assert [c.title for c in islice(newest(rows()), 2)] == ["newest", "older"]


def test_the_account_of_the_newest_record_or_all() -> None:
    rows = [record(1, "a"), record(2, "b", account="user-0001"), record(3, "c")]
    assert [c.title for c in newest(backwards(*rows))] == ["c", "a"]
    assert [c.title for c in newest(backwards(*rows), account="user-0001")] == ["b"]
    assert [c.title for c in newest(backwards(*rows), every_account=True)] == ["c", "b", "a"]
    assert list(newest(backwards())) == []


@pytest.mark.parametrize(("pattern", "hits"), [
    ("flock", ["About flock(2)"]), ("^about", ["About flock(2)", "about nothing"]), ("[", []), ("*nothing", ["about nothing"]),
    ("(2", []), ("zzz", [])])
def test_search_is_a_regular_expression_else_a_shell_pattern(pattern: str, hits: list[str]) -> None:
    rows = [record(1, "about nothing"), record(2, "About flock(2)")]
    assert [c.title for c in newest(backwards(*rows), keep=title_filter(pattern))] == hits


@given(st.text(st.characters(), max_size=200))
def test_a_provisional_title_is_the_beginning_of_the_first_line(prompt: str) -> None:
    title = provisional_title(prompt)
    assert len(title) <= 80 and "\n" not in title and prompt.startswith(title)


ROWS = st.builds(lambda number, title, odd: {**record(number, title), **odd}, st.integers(0, 4), st.text(st.characters(), max_size=9),
                 st.fixed_dictionaries({}, optional={"url": st.text(max_size=3), "at": st.sampled_from([AT, "\u00e9", '"\\']),
                                                     "later": st.none(), "conversation_id": st.sampled_from(["", "\u00e9", 'a"b']),
                                                     "provisional": st.booleans()}))


@given(st.lists(ROWS, max_size=20))
def test_what_is_glanced_at_is_what_decoding_everything_gives(rows: list[dict[str, Any]]) -> None:
    rows = [json.loads(json.dumps(row)) for row in rows]  # as a file gives them: two lone surrogates in a row are one character
    assert list(newest(backwards(*rows))) == latest(rows)


@given(ROWS, st.data())
def test_a_glance_takes_no_line_that_decoding_refuses(row: dict[str, Any], data: st.DataObject) -> None:
    line = encode(7, row)[:-1]
    at = data.draw(st.integers(0, len(line) - 1))
    damaged = data.draw(st.sampled_from([line, line[:at], line[:at] + line[at + 1:], line[:at] + b"\0" + line[at + 1:],
                                         line[:at] + bytes([line[at] ^ 1]) + line[at + 1:], line + line]))
    try:
        wanted = read(decode(damaged)[1])
    except BadLine:
        with pytest.raises(BadLine):
            glance(damaged)
    else:
        found = glance(damaged)
        assert (found and found.conversation()) == wanted
        if found is not None and wanted is not None:
            assert (found.account, found.conversation_id, found.title, found.at) == (
                wanted.account, wanted.conversation_id, wanted.title, wanted.updated_at)
