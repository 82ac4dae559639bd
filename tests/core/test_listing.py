"""The site's list in every shape that was seen of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.listing import Listed, read, real_title

ID = "68c1d2e3-0000-8000-8000-000000000001"


def entry(**facts: Any) -> dict[str, Any]:
    return {"id": ID, "title": "A title", "create_time": "2025-07-01T09:01:07.992867Z", "update_time": "2025-07-02T00:00:00.000000Z",
            "mapping": None} | facts


def page(*entries: Any, asked: int = 100, **facts: Any) -> Any:
    document = {"items": list(entries), "total": None, "limit": asked, "offset": 0, "has_missing_conversations": False}
    return read(document | facts, asked=asked)


@pytest.mark.parametrize("text", ["2023-02-01T09:01:07.992867", "2023-02-01T09:01:07.992867+00:00", "2023-02-01T09:01:07.992867Z",
                                  1675242067.992867])
def test_times_of_every_year(text: Any) -> None:
    assert page(entry(update_time=text)).items[0].updated_at == pytest.approx(1675242067.992867, abs=1e-5)


@pytest.mark.parametrize(("facts", "found"), [
    ({"id": ID.upper()}, Listed(ID, "A title", 1.0, 2.0)), ({"title": None}, Listed(ID, None, 1.0, 2.0)),
    ({"title": "New chat"}, Listed(ID, None, 1.0, 2.0)), ({"title": "  "}, Listed(ID, None, 1.0, 2.0)),
    ({"update_time": None}, Listed(ID, "A title", 1.0, 1.0)),
    ({"create_time": "soon", "update_time": True}, Listed(ID, "A title", None, None))])
def test_an_entry(facts: dict[str, Any], found: Listed) -> None:
    assert page(entry(create_time=1.0, update_time=2.0) | facts).items == (found,)


@pytest.mark.parametrize("bad", [None, 7, [], {}, {"id": "WEB:68c1d2e3-0000-8000-8000-000000000001"}, {"id": "../../etc"}, {"id": 5}])
def test_what_is_no_entry_is_counted_and_not_guessed(bad: Any) -> None:
    found = page(entry(), bad)
    assert (len(found.items), found.size) == (1, 2)


@pytest.mark.parametrize(("document", "asked", "short"), [
    ({"limit": 100}, 100, True), ({"limit": 2}, 100, False), ({"limit": 2}, 2, False), ({"limit": None}, 100, True), ({}, 2, False),
    ({"limit": 500}, 100, True), ({"limit": 0}, 2, False), ({"limit": True}, 2, False), ({"has_missing_conversations": True}, 100, False)])
def test_whether_more_stands_behind(document: dict[str, Any], asked: int, short: bool) -> None:
    """A site that gives fewer than asked for at a time is taken at its word; one that misses some may go on."""
    assert read({"items": [entry(), entry()]} | document, asked=asked).short is short


@pytest.mark.parametrize(("total", "found"), [(None, None), (1000, 1000), (0, 0), ("1000", None), (True, None), (2.0, None)])
def test_the_total_is_a_number_or_unknown(total: Any, found: int | None) -> None:
    assert page(total=total).total == found


@pytest.mark.parametrize("document", [{}, {"items": None}, {"items": {}}, {"items": "x"}])
def test_what_is_no_list(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no list"):
        read(document, asked=100)


KEYS = st.sampled_from(["id", "title", "create_time", "update_time"])
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab-", max_size=3),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner))


@given(st.dictionaries(st.sampled_from(["items", "total", "limit", "offset", "has_missing_conversations"]), JSON))
def test_nothing_but_valueerror(document: dict[str, Any]) -> None:
    try:
        found = read(document, asked=100)
    except ValueError:
        return
    assert len(found.items) <= found.size and (found.newest is None) == (found.oldest is None)


def test_titles_that_say_something() -> None:
    assert real_title("New chat about bees") == "New chat about bees" and real_title("") is None and real_title(None) is None
