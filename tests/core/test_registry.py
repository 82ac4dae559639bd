"""The registry's rules: the latest of an id counts, an id keeps its account, order is newest first (RG-01 .. RG-13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.errors import Failure
from gptbridge.core.registry import Conversation, first_record, fold, newest, provisional_title, read, title_filter

AT = "2026-11-29T13:00:00.000Z"


def ident(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012d}"


def record(number: int, title: str = "t", account: str = "user-0000", **facts: Any) -> dict[str, Any]:
    return {"at": AT, **Conversation(account, ident(number), title, **facts).fields()}


def numbered(*rows: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate([first_record(AT), *rows], 1))


def backwards(*rows: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    return reversed(numbered(*rows))


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
        fold([(1, {**first_record(AT), **change})])
    assert why.value.slug == "state-corrupt"


def test_the_latest_record_of_an_id_counts_and_moves_it_to_the_end() -> None:
    found = fold(numbered(record(1, "one"), record(2, "two"), record(1, "one again")))
    assert [(c.conversation_id, c.title) for c in found.values()] == [(ident(2), "two"), (ident(1), "one again")]


def test_an_id_under_another_account_is_refused_by_both_readers() -> None:
    rows = [record(1), record(2), record(1, account="user-0001")]
    for attempt in (lambda: fold(numbered(*rows)), lambda: newest(backwards(*rows), None, every_account=True)):
        with pytest.raises(Failure) as why:
            attempt()
        assert why.value.slug == "state-corrupt" and ident(1) in why.value.message


def test_newest_reads_no_further_than_it_must() -> None:
    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        yield 9, record(3, "newest")
        yield 8, record(2, "older")
        raise AssertionError("read too far")
    assert [c.title for c in newest(rows(), 2)] == ["newest", "older"]


def test_the_account_of_the_newest_record_or_all() -> None:
    rows = [record(1, "a"), record(2, "b", account="user-0001"), record(3, "c")]
    assert [c.title for c in newest(backwards(*rows), None)] == ["c", "a"]
    assert [c.title for c in newest(backwards(*rows), None, account="user-0001")] == ["b"]
    assert [c.title for c in newest(backwards(*rows), None, every_account=True)] == ["c", "b", "a"]
    assert newest(backwards(), None) == []


@pytest.mark.parametrize(("pattern", "hits"), [
    ("flock", ["About flock(2)"]), ("^about", ["About flock(2)", "about nothing"]), ("[", []), ("*nothing", ["about nothing"]),
    ("(2", []), ("zzz", [])])
def test_search_is_a_regular_expression_else_a_shell_pattern(pattern: str, hits: list[str]) -> None:
    rows = [record(1, "about nothing"), record(2, "About flock(2)")]
    assert [c.title for c in newest(backwards(*rows), None, keep=title_filter(pattern))] == hits


@given(st.text(st.characters(), max_size=200))
def test_a_provisional_title_is_the_beginning_of_the_first_line(prompt: str) -> None:
    title = provisional_title(prompt)
    assert len(title) <= 80 and "\n" not in title and prompt.startswith(title)


@given(st.lists(st.tuples(st.integers(0, 4), st.text(max_size=3)), max_size=20))
def test_both_readers_agree(rows: list[tuple[int, str]]) -> None:
    records = [record(number, title) for number, title in rows]
    assert newest(backwards(*records), None) == list(fold(numbered(*records)).values())[::-1]
