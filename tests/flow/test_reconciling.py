"""Finding a message by its recorded id: which conversations are looked into, in what order, and what a strange list does (GT-08)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gptbridge.core.ledger import Operation, epoch_seconds, rfc3339
from gptbridge.core.ports import PageFacts
from gptbridge.flow import reconciling
from tests.core.site_json import Doc, text
from tests.flow.test_recovery import reach
from tests.flow.world import Ground, Worker


def talk(number: int) -> str:
    return f"68c1d2e3-0000-8000-8000-{number:012x}"


class Site:
    """What looking for a message takes of a page: conversations by id, and the list as it is said to be."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.items: list[Any] = []
        self.read: list[str] = []
        self.shown: str | None = None

    def holds(self, ident: str, created: Any, message_id: str = "another-message") -> None:
        doc = Doc(conversation_id=ident)
        doc.add(message_id, "user", text("Hello"))
        self.documents[ident] = doc.data
        self.items.append({"id": ident, "title": "t", "create_time": created, "update_time": created})

    def facts(self) -> PageFacts:
        return PageFacts(self.shown)

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        self.read.append(conversation_id)
        return self.documents[conversation_id]

    def listing(self, offset: int, limit: int) -> dict[str, Any]:
        return {"items": self.items[offset:offset + limit], "total": None, "limit": limit, "offset": offset}


@pytest.fixture
def op(worker: Worker) -> Operation:
    reach(worker, "released")
    return worker.op


def look(worker: Worker, site: Site, op: Operation) -> str | None:
    found = reconciling.find(worker.world, site, op, pause_s=0.0)
    return found.conversation_id if found else None


@pytest.mark.parametrize(("after", "seen"), [(-119.0, True), (-121.0, False), (0.0, True), (599.0, True), (601.0, False)])
def test_only_what_was_created_around_the_dispatch_is_looked_into(worker: Worker, op: Operation, after: float, seen: bool) -> None:
    """Two minutes before to ten after: a message seen anywhere else would be a conversation that this request cannot have begun."""
    site = Site()
    site.holds(talk(1), rfc3339(epoch_seconds(op.dispatched_at) + after), op.user_message_id or "")
    assert look(worker, site, op) == (talk(1) if seen else None)
    assert site.read == ([talk(1)] if seen else [])


def test_the_nearest_come_first_and_ten_are_enough(worker: Worker, op: Operation) -> None:
    site, sent = Site(), epoch_seconds(op.dispatched_at)
    for number in range(12):
        site.holds(talk(number), sent + 12.0 - number)
    assert look(worker, site, op) is None and site.read == [talk(number) for number in range(11, 1, -1)]


def test_none_that_another_operation_of_ours_began_is_looked_into(ground: Ground, worker: Worker) -> None:
    other = worker.send("first words")
    reach(worker, "released", "second words")
    op, site = worker.op, Site()
    site.holds(other.conversation_id or "", rfc3339(epoch_seconds(op.dispatched_at)), op.user_message_id or "")
    assert look(worker, site, op) is None and site.read == []
    site.shown = talk(2)
    site.holds(talk(2), rfc3339(0.0), op.user_message_id or "")
    assert look(worker, site, op) == talk(2)  # the page itself names it


STRANGE = [10**400, -10**400, math.nan, math.inf, -math.inf, 1e300, -1.0, True, "", "tomorrow", "0001-01-01T00:00:00+23:59", [], {}, None]


@pytest.mark.parametrize("time", STRANGE, ids=lambda time: str(time)[:12])
def test_a_strange_time_in_the_list_hides_no_other_conversation(worker: Worker, op: Operation, time: Any) -> None:
    site = Site()
    site.holds(talk(1), time)
    site.items += [None, "no item", {"id": 7, "create_time": time}, {"id": "../ledger", "create_time": op.dispatched_at}]
    site.holds(talk(2), op.dispatched_at, op.user_message_id or "")
    site.items.append({"id": talk(3), "create_time": time, "update_time": time})
    assert look(worker, site, op) == talk(2) and site.read == [talk(2)]


@pytest.mark.parametrize("items", [None, {}, "x", 7], ids=str)
def test_a_list_that_is_none_proves_nothing(worker: Worker, op: Operation, items: Any) -> None:
    site = Site()
    site.listing = lambda offset, limit: {"items": items}  # type: ignore[method-assign]
    assert look(worker, site, op) is None


def test_a_list_is_read_until_it_lies_behind_the_dispatch(worker: Worker, op: Operation) -> None:
    """Further back than the page itself shows, in pages of its size."""
    site, sent = Site(), epoch_seconds(op.dispatched_at)
    for number in range(60):
        site.holds(talk(number), sent + 5000.0 - number)  # begun later
    site.holds(talk(60), sent + 1.0, op.user_message_id or "")
    for number in range(61, 120):
        site.holds(talk(number), sent - 5000.0 - number)
    asked: list[int] = []
    listing = site.listing

    def told(offset: int, limit: int) -> dict[str, Any]:
        asked.append(offset)
        return listing(offset, limit)

    site.listing = told  # type: ignore[method-assign]
    assert look(worker, site, op) == talk(60) and asked == [0, 28, 56]
