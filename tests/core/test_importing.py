"""What the registry says of an import: from its records alone, whoever reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import importing, registry
from gptbridge.core.errors import Failure
from gptbridge.core.listing import Listed
from gptbridge.core.registry import Conversation

AT = "2026-11-29T13:00:00.000Z"
ME = "user-0000/a"
SITE = "https://chatgpt.com"


def ident(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012d}"


def item(number: int, title: str | None = "t", at: float | None = None) -> Listed:
    return Listed(ident(number), title, 1.0, float(number) if at is None else at)


def file(*rows: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate([registry.first_record(AT), *({"at": AT, **row} for row in rows)], 1))


def brought(*items: Listed) -> list[dict[str, Any]]:
    return importing.rows({}, items, ME, SITE)


def own(number: int, title: str = "mine", account: str = ME, origin: str = "own") -> dict[str, Any]:
    return Conversation(account, ident(number), title, origin=origin).fields()


BEGUN = importing.begun(ME, 2.5)
DONE, PARTLY = (importing.finished(ME, listed=2, total=3, complete=complete) for complete in (True, False))


@pytest.mark.parametrize(("rows", "state", "imported", "refused"), [
    ([], "none", 0, False), ([BEGUN], "begun", 0, False), ([BEGUN, *brought(item(1))], "begun", 1, False),
    ([BEGUN, *brought(item(1)), PARTLY], "partial", 1, False), ([BEGUN, *brought(item(1)), DONE], "finished", 1, True),
    ([BEGUN, DONE], "finished", 0, False), ([own(1)], "none", 0, True), ([BEGUN, *brought(item(1)), own(2)], "begun", 1, True),
    ([BEGUN, *brought(item(1)), own(2, origin="imported")], "begun", 1, True), ([*brought(item(1))], "none", 1, True),
    ([BEGUN, *brought(item(1)), PARTLY, BEGUN], "begun", 1, False), ([BEGUN, *brought(item(1)), own(1, "new title", origin="bootstrap")],
                                                                   "begun", 1, False)])
def test_how_far_it_came_and_whether_it_may_go_on(rows: list[dict[str, Any]], state: str, imported: int, refused: bool) -> None:
    """RG-15."""
    found = importing.progress(file(*rows))
    assert (found.state, len(found.imported)) == (state, imported)
    if refused:
        with pytest.raises(Failure) as caught:
            importing.refuse(found)
        assert caught.value.slug == "conflict" and "--conversation" in caught.value.hint
    else:
        importing.refuse(found)


def test_account_and_mark_are_read_back() -> None:
    found = importing.progress(file(BEGUN))
    assert (found.account, found.mark) == (ME, 2.5)
    assert importing.progress(file(importing.begun(ME, None))).mark is None


def test_other_readers_pass_over_its_marks() -> None:
    rows = file(BEGUN, *brought(item(1)), DONE)
    assert [registry.read(fields) is None for _, fields in rows] == [True, True, False, True]


def test_what_is_known_is_not_written_again() -> None:
    known = importing.progress(file(*brought(item(1), item(2, None)))).known
    assert importing.rows(known, [item(1), item(2, None)], ME, SITE) == []
    new = importing.rows(known, [item(3), item(1, "other"), item(2, "at last"), item(3)], ME, SITE)
    assert [(row["conversation_id"], row["title"], row["provisional"]) for row in new] == [
        (ident(3), "t", False), (ident(1), "other", False), (ident(2), "at last", False)]


def test_a_real_title_is_replaced_by_a_real_one_alone() -> None:
    """RG-06."""
    known = {ident(1): Conversation(ME, ident(1), "a prompt's words", provisional=True), ident(2): Conversation(ME, ident(2), "real")}
    assert importing.rows(known, [item(1, None), item(2, None)], ME, SITE) == []
    [row] = importing.rows(known, [item(1, "real"), item(2, "real")], ME, SITE)
    assert (row["title"], row["provisional"], row["origin"]) == ("real", False, "own")


def test_an_id_of_another_account_fails_closed() -> None:
    """RG-03."""
    with pytest.raises(Failure) as caught:
        importing.rows({ident(1): Conversation("user-0001", ident(1), "t")}, [item(2), item(1)], ME, SITE)
    assert caught.value.slug == "state-corrupt" and ident(1) in caught.value.message


def plain(rows: Sequence[Any]) -> list[str]:
    return [str(row.get("conversation_id") or row.get("bootstrap")) for row in rows]


def test_the_newest_stands_last_and_what_others_wrote_behind_it() -> None:
    rows = file(BEGUN, *brought(item(3), item(2)), own(9), *brought(item(1)), own(9, "again"))
    found = importing.arranged(rows)
    assert found is not None and plain(found) == ["begun", ident(1), ident(2), ident(3), ident(9), ident(9)]
    assert importing.arranged(file(*found)) is None, "once is enough"
    assert importing.arranged(file(BEGUN, *brought(item(1)))) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["bootstrap", "own", "imported"]), st.one_of(st.none(), st.integers(0, 9)))))
def test_in_another_order_it_says_the_same(given_rows: list[tuple[int, str, int | None]]) -> None:
    rows = []
    origins: dict[int, str] = {}
    for number, origin, at in given_rows:
        origin = origins.setdefault(number, origin)
        rows += importing.rows({}, [Listed(ident(number), f"t{at}", 1.0, None if at is None else float(at))], ME, SITE, origin)
    before = file(BEGUN, *rows)
    found = importing.arranged(before)
    after = before if found is None else file(*found)
    assert importing.progress(after) == importing.progress(before)
