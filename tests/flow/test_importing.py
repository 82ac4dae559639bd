"""The import of the account's list, whatever breaks it off and however the list changes: all of it, once, in the order of `list`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gptbridge.core import listing, record
from gptbridge.core.errors import Failure
from gptbridge.core.importing import progress
from gptbridge.core.ledger import rfc3339
from gptbridge.core.pacing import READS_S, Gap
from gptbridge.core.registry import Conversation
from gptbridge.flow.importing import OVERLAP, Imported, bootstrap
from gptbridge.practice import world as site
from gptbridge.practice.world import FIRST, SECOND
from gptbridge.shell.reading import list_conversations
from gptbridge.shell.requests import List
from gptbridge.shell.store import Store
from tests.edge.crashing import Tap, child, status
from tests.flow.test_deciding import Killed, slug
from tests.flow.world import Ground, Worker

ACCOUNT = f"{FIRST.user_id}/{FIRST.account_id}"
START = 1_790_000_000.0


class Account:
    """The signed-in account's conversations on the practice site, changed as a person would; `now` goes on with each change."""

    def __init__(self, ground: Ground, count: int) -> None:
        self.held, self.now, self.made = ground.site.world.conversations, START, 0
        self.add(count)

    def add(self, count: int, **facts: Any) -> list[str]:
        return [self._one(**facts) for _ in range(count)]

    def _one(self, *, title: str | None = None, archived: bool = False, owner: str = FIRST.user_id) -> str:
        self.made += 1
        self.now += 10.000001
        ident = f"{self.made:08x}-0000-8000-8000-000000000000"
        self.held[ident] = site.Conversation({"conversation_id": ident, "title": title or f"Title {self.made}", "create_time": self.now,
                                              "update_time": self.now, "is_archived": archived}, owner)
        return ident

    def touch(self, ident: str, **facts: Any) -> None:
        self.now += 10.0
        self.held[ident].data.update(update_time=self.now, **facts)

    def delete(self, idents: list[str]) -> None:
        for ident in idents:
            self.held[ident].visible = False

    @property
    def listed(self) -> list[str]:
        """As the site lists them."""
        mine = [one.data for one in self.held.values() if one.visible and one.owner == FIRST.user_id and not one.data["is_archived"]]
        return [data["conversation_id"] for data in sorted(mine, key=lambda data: -data["update_time"])]


def offsets(worker: Worker) -> list[int]:
    """Where each read of the list begins, from now on."""
    found: list[int] = []

    def prepare(seat: Any) -> None:
        read = seat.session._do_read

        def noted(path: str) -> Any:
            if "/conversations?" in path:
                found.append(int(path.partition("offset=")[2].partition("&")[0]))
            return read(path)

        seat.session._do_read = noted

    worker.browser.prepare = prepare
    return found


def lines(ground: Ground) -> list[dict[str, Any]]:
    """The records of conversations as they lie in the file; no damage."""
    scan = record.scan((ground.path / "home" / "conversations.jsonl").read_bytes())
    assert not scan.damage
    return [fields for _, fields in scan.pairs() if "conversation_id" in fields]


def listed(worker: Worker) -> list[str]:
    """As `list 0 --all-accounts` says it."""
    data = list_conversations(List(0, every_account=True), Store(worker.machine.env), False).data
    return [line.split("\t")[0] for line in data.decode().splitlines()]


def state(worker: Worker) -> str:
    return progress(reversed(list(worker.world.registry.newest_first()))).state


def nth(worker: Worker, number: int, act: Callable[[], None]) -> None:
    """Act right before its n-th read of the site's JSON, from 1."""
    seen = [0]

    def count() -> None:
        seen[0] += 1
        if seen[0] == number:
            act()

    worker.on["read"] = count


def kill() -> None:
    raise Killed


# All of it, once

@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 195, 250])
def test_the_whole_list_in_the_order_of_list(ground: Ground, worker: Worker, count: int) -> None:
    account = Account(ground, count)
    found = bootstrap(worker.world)
    assert (found.imported, found.conversations, found.listed, found.complete, found.warnings, found.failure) == (
        count, count, count, True, [], None)
    assert listed(worker) == account.listed and len(lines(ground)) == count and state(worker) == "finished"
    assert worker.browser.clicks == 0 and worker.seat.gate.state == "closed" and worker.seat.closed
    assert (ground.path / "home" / "logs").exists() is False or not list((ground.path / "home" / "logs").iterdir())


def test_what_a_record_holds(ground: Ground, worker: Worker) -> None:
    """RG-01, RG-06: the site's own times; no title is none, to be replaced later."""
    account = Account(ground, 0)
    ident, = account.add(1, title="A real title")
    untitled, = account.add(1, title=listing.UNTITLED)
    bootstrap(worker.world)
    last = next(fields for fields in lines(ground) if fields["conversation_id"] == ident)
    assert {name: value for name, value in last.items() if name != "at"} == {
        "account": ACCOUNT, "conversation_id": ident, "title": "A real title", "provisional": False, "url": f"{ground.url}/c/{ident}",
        "created_at": rfc3339(account.held[ident].data["create_time"]), "origin": "bootstrap"}
    assert last["at"] == rfc3339(account.held[ident].data["update_time"]), "so --since asks for the site's own time"
    known = worker.world.registry.get(untitled)
    assert known is not None and (known.title, known.provisional) == ("", True)


def test_neither_archived_nor_another_accounts(ground: Ground, worker: Worker) -> None:
    account = Account(ground, 3)
    account.add(2, archived=True)
    account.add(2, owner=SECOND.user_id)
    assert bootstrap(worker.world).imported == 3 and listed(worker) == account.listed


def test_pages_of_at_most_a_hundred_paced(ground: Ground) -> None:
    account = Account(ground, 260)
    worker = ground.worker(gap=Gap(60.0))
    at, moments = offsets(worker), []
    worker.on["read"] = lambda: moments.append(ground.time.boottime)
    bootstrap(worker.world)
    assert at == [0, 95, 190, 0] and listed(worker) == account.listed
    assert all(later - sooner >= READS_S for sooner, later in pairwise(moments))


def test_progress_is_told(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)
    bootstrap(worker.world)
    assert [event["message"] for event in worker.front.of("progress")] == ["imported 100", "imported 195", "imported 250", "imported 250"]
    ground.site.world.conversations.clear()
    other = Ground(ground.path / "other", ground.site)
    other.path.mkdir()
    Account(other, 150)
    ground.on("list-total")
    teller = other.worker()
    bootstrap(teller.world)
    assert [event["message"] for event in teller.front.of("progress")][:2] == ["imported 100 of 150", "imported 150 of 150"]


# Broken off

@pytest.mark.parametrize("retry_after", [0, 30])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_throttle_ends_it_and_the_next_run_goes_on(ground: Ground, after: int, retry_after: int) -> None:
    """Cases 35 and 37."""
    account = Account(ground, 250)
    ground.on("list-throttled", after=after, retry_after=retry_after)
    worker = ground.worker()
    found = bootstrap(worker.world)
    kept = [0, 100, 195, 250][after]
    assert found.failure is not None and (found.failure.slug, found.conversations, found.complete) == ("rate-limited", kept, False)
    assert ("wait 30 s" in found.failure.hint) == bool(retry_after) and (f"{kept} conversations" in found.failure.message) == bool(kept)
    assert listed(worker) == account.listed[:kept] and state(worker) == ("begun" if after else "none")
    ground.off("list-throttled")
    again = ground.worker()
    at = offsets(again)
    assert bootstrap(again.world).complete and at[0] == max(kept - OVERLAP, 0)
    assert listed(again) == account.listed and len(lines(ground)) == 250


def test_the_dialog_over_the_page_ends_it(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)
    ground.on("throttled", after=2)
    found = bootstrap(worker.world)
    assert found.failure is not None and found.failure.slug == "rate-limited" and "the page says" in found.failure.message
    assert found.conversations == 195
    refused = ground.worker()
    assert slug(bootstrap, refused.world) == "rate-limited" and len(lines(ground)) == 195
    ground.off("throttled")
    assert bootstrap(ground.worker().world).complete


@pytest.mark.parametrize("wish", ["interrupt", "terminate"])
def test_a_signal_keeps_what_is_there(ground: Ground, worker: Worker, wish: str) -> None:
    account = Account(ground, 250)
    slugs = {"interrupt": "interrupted", "terminate": "terminated"}

    def heed() -> None:
        if len(worker.front.of("progress")) == 2:
            raise Failure(slugs[wish], "stopped", "run it again")

    found = bootstrap(worker.world, heed=heed)
    assert found.failure is not None and (found.failure.slug, found.conversations) == (slugs[wish], 195)
    assert listed(worker) == account.listed[:195] and bootstrap(ground.worker().world).imported == 55


def test_a_kill_at_every_step_of_the_writing(ground: Ground) -> None:
    """A real process and SIGKILL before each call that changes a file: nothing twice, nothing lost, the file never damaged."""
    account = Account(ground, 108)  # a page that is written whole or not at all, and one that goes record by record
    path, step = ground.path, 0
    while True:
        step += 1
        ground.path = path / str(step)
        ground.path.mkdir()

        def run(step: int = step) -> None:
            seen = [0]

            def tapped(call: str, args: tuple[Any, ...]) -> None:
                if call == "open" and args[1] & os.O_ACCMODE == os.O_RDONLY:
                    return
                seen[0] += armed[0]
                if seen[0] == step:
                    os.kill(os.getpid(), signal.SIGKILL)

            armed = [0]
            worker = Worker(ground, disk=Tap(tapped))
            armed[0] = 1
            assert bootstrap(worker.world).complete

        ended = status(child(run))
        again = ground.worker()
        if ended == 0:
            assert step > 20 and state(again) == "finished"
            break
        assert ended == -signal.SIGKILL, ended
        if state(again) != "finished":
            assert bootstrap(again.world).complete
        assert listed(again) == account.listed and len(lines(ground)) == 108 and state(again) == "finished", step
    ground.path = path


# While the list changes

CHANGES = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 130)), st.tuples(st.just("touch"), st.integers(0, 400)),
    st.tuples(st.just("touch-many"), st.integers(1, 120)), st.tuples(st.just("delete"), st.integers(1, 120)),
    st.tuples(st.just("kill"), st.just(0)), st.tuples(st.just("throttle"), st.just(0)))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(count=st.integers(90, 330), steps=st.lists(st.tuples(st.integers(1, 4), CHANGES), max_size=5), data=st.data())
def test_however_the_list_changes_and_whatever_breaks_it_off(ground: Ground, tmp_path_factory: pytest.TempPathFactory, count: int,
                                                            steps: list[tuple[int, tuple[str, int]]], data: st.DataObject) -> None:
    """Case 37. Each step happens right before the n-th read of a run; a last run has peace."""
    ground.site.world.conversations.clear()
    ground.path = tmp_path_factory.mktemp("import")
    account = Account(ground, count)
    deleted: set[str] = set()

    def change(kind: str, number: int) -> None:
        there = account.listed
        match kind:
            case "add":
                account.add(number)
            case "touch" if there:
                account.touch(there[number % len(there)])
            case "touch-many":
                for ident in there[-number:]:
                    account.touch(ident)
            case "delete":
                at = data.draw(st.integers(0, max(len(there) - number, 0)))
                deleted.update(there[at:at + number])
                account.delete(there[at:at + number])
            case "kill":
                raise Killed
            case "throttle":
                ground.on("list-throttled")

    done = False
    for reads, (kind, number) in steps:
        if done:
            break
        worker = ground.worker()
        nth(worker, reads, lambda kind=kind, number=number: change(kind, number))  # type: ignore[misc]
        try:
            done = bootstrap(worker.world).complete
        except Killed:
            pass
        worker.dies()
        ground.off("list-throttled")
    last = ground.worker()
    if not done:
        assert bootstrap(last.world).complete
    found = listed(last)
    kept = [fields["conversation_id"] for fields in lines(ground)]
    assert sorted(kept) == sorted(set(kept)), "twice"
    assert set(account.listed) <= set(found) <= set(account.listed) | deleted, "lost, or of nowhere"
    assert bootstrap_again(last) == "conflict"
    last.dies()
    ground.workers.clear()


def bootstrap_again(worker: Worker) -> str:
    return slug(bootstrap, worker.world)


def test_what_moves_to_the_top_while_it_is_read_is_not_lost(ground: Ground, worker: Worker) -> None:
    """Unread ones and new ones, more of both than a page holds."""
    account = Account(ground, 400)

    def move() -> None:
        for ident in account.listed[-110:]:
            account.touch(ident)
        account.add(20)

    at = offsets(worker)
    nth(worker, 4, move)
    assert bootstrap(worker.world).complete and set(listed(worker)) == set(account.listed) and len(lines(ground)) == 420
    assert at[-3:] == [0, 95, 0], "the top was read until it stood still"


def test_what_is_deleted_pulls_nothing_past_the_reading(ground: Ground, worker: Worker) -> None:
    account = Account(ground, 400)
    at = offsets(worker)
    nth(worker, 3, lambda: account.delete(account.listed[:60]))
    assert bootstrap(worker.world).complete and set(account.listed) <= set(listed(worker))
    assert at[2] > at[3], "it went back up"


# What the site does not list

def test_a_list_that_ends_early_is_said(ground: Ground, worker: Worker) -> None:
    account = Account(ground, 250)
    ground.on("list-total")
    ground.on("list-capped", at=120)
    found = bootstrap(worker.world)
    assert (found.imported, found.listed, found.total, found.complete, found.failure) == (120, 120, 250, False, None)
    assert "250 conversations and listed 120" in found.warnings[0] and "--conversation" in found.warnings[-1]
    ground.off("list-capped")
    again = ground.worker()
    assert bootstrap(again.world).imported == 130 and listed(again) == account.listed and len(lines(ground)) == 250
    assert slug(bootstrap, ground.worker().world) == "conflict"


def test_a_site_that_says_that_it_could_not_list_all(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)
    ground.on("list-capped", at=250, missing=True)
    found = bootstrap(worker.world)
    assert (found.imported, found.complete) == (250, False) and "could not list all" in found.warnings[0]


def test_what_fails_deep_in_the_list_is_read_in_short_pages(ground: Ground, worker: Worker) -> None:
    account = Account(ground, 250)
    ground.on("list-fails", at=100, above=listing.USUAL)
    assert bootstrap(worker.world).complete and listed(worker) == account.listed
    other = Ground(ground.path / "other", ground.site)
    other.path.mkdir()
    ground.on("list-fails", at=100)
    broken = other.worker()
    found = bootstrap(broken.world)
    assert found.failure is not None and (found.failure.slug, found.conversations) == ("browser", 100)


@pytest.mark.parametrize(("answer", "failure", "kept"), [
    ({"items": None}, "site-changed", 0), ({}, "site-changed", 0), ({"items": [{"id": "WEB:1"}, 7, {}]}, None, 0)])
def test_answers_of_another_shape(ground: Ground, worker: Worker, answer: dict[str, Any], failure: str | None, kept: int) -> None:
    def prepare(seat: Any) -> None:
        seat.page.listing = lambda offset, limit: answer

    worker.browser.prepare = prepare
    found = bootstrap(worker.world)
    assert (found.failure.slug if found.failure else None, found.conversations, found.complete) == (failure, kept, False)


def test_a_site_that_gives_the_same_page_again_and_again(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)

    def prepare(seat: Any) -> None:
        listed_ = seat.page.listing
        seat.page.listing = lambda offset, limit: listed_(0, limit)

    worker.browser.prepare = prepare
    found = bootstrap(worker.world)
    assert (found.imported, found.complete) == (100, False) and "again and again" in found.warnings[0]


# Whose registry, whose account

def refused(worker: Worker) -> None:
    before = len(worker.browser.seats)
    assert slug(bootstrap, worker.world) == "conflict" and len(worker.browser.seats) == before, "no browser is opened for it"


def test_a_registry_with_conversations_of_ours_is_left_alone(ground: Ground, worker: Worker) -> None:
    """RG-15."""
    Account(ground, 10)
    worker.send("mine")
    before = (ground.path / "home" / "conversations.jsonl").read_bytes()
    refused(worker)
    assert (ground.path / "home" / "conversations.jsonl").read_bytes() == before


def test_an_unfinished_one_is_left_alone_once_others_wrote(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)
    ground.on("list-throttled", after=1)
    assert bootstrap(worker.world).conversations == 100
    ground.off("list-throttled")
    worker.world.registry.put(Conversation(ACCOUNT, "ffffffff-0000-8000-8000-000000000000", "mine"))
    refused(ground.worker())


def test_one_of_ours_that_comes_right_before_the_first_page(ground: Ground, worker: Worker) -> None:
    Account(ground, 10)
    mine = Conversation(ACCOUNT, "ffffffff-0000-8000-8000-000000000000", "mine")
    nth(worker, 1, lambda: ground.worker().world.registry.put(mine))
    found = bootstrap(worker.world)
    assert found.failure is not None and found.failure.slug == "conflict" and len(lines(ground)) == 1


def test_two_at_once_bring_nothing_twice(ground: Ground, worker: Worker) -> None:
    """The second goes on with the unfinished import of the first, and ends it; the first says so."""
    account = Account(ground, 250)
    nth(worker, 3, lambda: ended.append(bootstrap(ground.worker().world)))
    ended: list[Imported] = []
    found = bootstrap(worker.world)
    assert ended[0].complete and found.failure is not None and found.failure.slug == "conflict"
    assert listed(worker) == account.listed and len(lines(ground)) == 250 and state(worker) == "finished"


def test_records_that_came_meanwhile_stay_behind_the_imported(ground: Ground, worker: Worker) -> None:
    account = Account(ground, 250)
    mine = "ffffffff-0000-8000-8000-000000000000"
    nth(worker, 3, lambda: ground.worker().world.registry.put(Conversation(ACCOUNT, mine, "mine")))
    assert bootstrap(worker.world).complete
    assert listed(worker) == [mine, *account.listed] and len(lines(ground)) == 251


def test_another_account_cannot_go_on(ground: Ground, worker: Worker) -> None:
    Account(ground, 250)
    ground.on("list-throttled", after=1)
    bootstrap(worker.world)
    ground.off("list-throttled")
    ground.on("other-account")
    before = (ground.path / "home" / "conversations.jsonl").read_bytes()
    found = bootstrap(ground.worker().world)
    assert found.failure is not None and found.failure.slug == "account-mismatch"
    assert FIRST.user_id in found.failure.message and SECOND.user_id in found.failure.message
    assert (ground.path / "home" / "conversations.jsonl").read_bytes() == before


def test_an_account_that_changes_while_it_is_read(ground: Ground, worker: Worker) -> None:
    """What was read under another account is not kept."""
    account = Account(ground, 250)
    account.add(3, owner=SECOND.user_id)
    nth(worker, 2, lambda: ground.on("other-account"))
    found = bootstrap(worker.world)
    assert found.failure is not None and (found.failure.slug, found.conversations) == ("account-mismatch", 100)
    assert {fields["account"] for fields in lines(ground)} == {ACCOUNT}


def test_the_account_of_the_settings(ground: Ground) -> None:
    Account(ground, 5)
    assert slug(bootstrap, ground.worker(account="user-9999").world) == "account-mismatch"
    assert bootstrap(ground.worker(account=ACCOUNT).world).imported == 5


@pytest.mark.parametrize(("scenario", "no"), [("signed-out", "needs-human"), ("challenge", "needs-human"), ("throttled", "rate-limited")])
def test_a_site_that_refuses_from_the_start(ground: Ground, worker: Worker, scenario: str, no: str) -> None:
    Account(ground, 5)
    ground.on(scenario)
    assert slug(bootstrap, worker.world) == no and worker.seat.closed


@pytest.mark.parametrize("user", ["", None, 5, {"id": "user-0000"}])
def test_a_session_that_names_nobody_is_no_account(ground: Ground, worker: Worker, user: Any) -> None:
    """RG-07: whose list it is comes from the page's own session, and is never guessed."""
    Account(ground, 5)

    def prepare(seat: Any) -> None:
        seat.session._do_session = lambda: {"status": 200, "challenge": False, "user": user, "account": FIRST.account_id}

    worker.browser.prepare = prepare
    assert slug(bootstrap, worker.world) == "needs-human" and not (ground.path / "home" / "conversations.jsonl").exists()


def test_a_title_of_the_site_replaces_an_older_one_and_no_title_replaces_none(ground: Ground, worker: Worker) -> None:
    """RG-06."""
    account = Account(ground, 3)
    ground.on("list-capped", at=3, missing=True)
    bootstrap(worker.world)
    old, newer, _ = account.listed
    account.held[old].data["title"] = listing.UNTITLED
    account.held[newer].data["title"] = "Renamed"
    ground.off("list-capped")
    assert bootstrap(ground.worker().world).complete
    titles = {fields["conversation_id"]: fields["title"] for fields in lines(ground)}
    assert titles[newer] == "Renamed" and titles[old] == "Title 3"


def test_a_damaged_registry_is_left_alone(ground: Ground, worker: Worker) -> None:
    """RG-18: refused with its line before any browser opens; a torn end is no damage."""
    Account(ground, 250)
    ground.on("list-throttled", after=1)
    bootstrap(worker.world)
    ground.off("list-throttled")
    path = ground.path / "home" / "conversations.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"Title 200"', b'"Title 2x0"'))
    with pytest.raises(Failure) as caught:
        bootstrap(ground.worker().world)
    assert caught.value.slug == "state-corrupt" and "line 52:" in caught.value.message
    path.write_bytes(whole[:-30])
    found: Imported = bootstrap(ground.worker().world)
    assert found.complete and len(lines(ground)) == 250
