"""Every end with 15 or 32 keeps what the page looked like, once, and in our own words (SI-04)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gptbridge.flow.importing import bootstrap
from gptbridge.flow.snapshots import own_words
from tests.flow.test_upkeep import arrived, swept
from tests.flow.world import Ground, Worker


class Kept:
    """The Reports port."""

    def __init__(self, worker: Worker) -> None:
        self.reports: list[tuple[str, Mapping[str, Any]]] = []
        worker.world.reports = self
        worker.browser.prepare = lambda seat: setattr(seat.page, "outline", lambda: {"path": "*"})

    def keep(self, slug: str, fields: Mapping[str, Any]) -> str:
        self.reports.append((slug, fields))
        return f"reports/{len(self.reports)}-{slug}.json"

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.reports]


def test_a_send(ground: Ground, worker: Worker) -> None:
    kept = Kept(worker)
    ground.on("work-mode")
    assert worker.send("one").slug == "site-changed" and kept.slugs == ["site-changed"]
    assert "reports/1-" in worker.document()["error"]["hint"]
    ground.off("work-mode")
    ground.on("failed-turn")
    assert worker.send("two").slug == "answer-failed" and kept.slugs == ["site-changed", "answer-failed"]
    assert any("reports/2-" in str(event["message"]) for event in worker.front.of("warning"))


def test_an_answer_whose_conversation_cannot_be_understood(ground: Ground, worker: Worker) -> None:
    kept = Kept(worker)
    ground.on("json-refused", status=200)
    op = worker.send("one")
    assert (op.slug, kept.slugs) == ("still-answering", ["site-changed"])
    assert op.conversation_id not in str(kept.reports) and kept.reports[0][1]["what"].startswith("the site's")


@pytest.mark.parametrize("by", ["conversation", "operation"])
def test_a_bare_resume_of_a_failed_turn(ground: Ground, worker: Worker, by: str) -> None:
    ground.on("failed-turn")
    op = worker.send("one")
    reader = ground.worker()
    kept = Kept(reader)
    found = reader.resume(op.conversation_id) if by == "conversation" else reader.resume(operation=op.operation_id)
    assert (found.slug, kept.slugs) == ("answer-failed", ["answer-failed"])
    assert any("reports/1-" in str(event["message"]) for event in reader.front.of("warning"))


def test_a_bare_resume_that_is_no_failure_keeps_nothing(ground: Ground, worker: Worker) -> None:
    op = worker.send("one")
    kept = Kept(worker)
    assert worker.resume(op.conversation_id).slug == "ok" and not kept.reports


def test_an_import_whose_list_is_not_as_known(ground: Ground, worker: Worker) -> None:
    kept = Kept(worker)
    prepare = worker.browser.prepare

    def spoil(seat: Any) -> None:
        prepare(seat)
        seat.page.listing = lambda offset, limit: {"what": "is this"}
    worker.browser.prepare = spoil
    found = bootstrap(worker.world)
    assert found.failure is not None and found.failure.slug == "site-changed" and kept.slugs == ["site-changed"]
    assert "reports/1-" in found.failure.hint


def test_a_sweep_that_cannot_understand_two_conversations_keeps_one(ground: Ground, worker: Worker) -> None:
    talks = [worker.send(f"words {number}").conversation_id or "" for number in range(2)]
    arrived(ground)
    swept(worker)
    for talk in talks:
        ground.person("said on a phone", to=talk)
    arrived(ground)
    kept = Kept(worker)
    ground.on("json-refused", status=200)
    found = swept(worker)
    assert found.failure is not None and found.failure.slug == "site-changed" and kept.slugs == ["site-changed"]
    assert "reports/1-" in found.failure.hint and not any(talk in str(kept.reports) for talk in talks)


def test_what_the_page_says_stays_out_of_a_report(ground: Ground, worker: Worker) -> None:
    kept = Kept(worker)
    ground.on("model-replaced", notice="You wrote: my secret words")
    op = worker.send("one", model="gpt-5-5-pro")
    assert op.slug == "site-changed" and "my secret words" in worker.document()["error"]["message"]
    assert kept.slugs == ["site-changed"] and "secret" not in str(kept.reports)


def test_our_own_words_of_a_message() -> None:
    assert own_words("the page did not keep it; the page says: A\nB; nothing was sent") == "the page did not keep it; the page says: ..."
    assert own_words("conversation 68c1d2e3-0000-8000-8000-00000000dead of 01JDZZZZZZZZZZZZZZZZZZZZZZ") == "conversation * of *"
