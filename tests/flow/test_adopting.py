"""One conversation that was begun elsewhere: into the registry at any time, after the account; then `resume` works on it."""

from __future__ import annotations

from typing import Any

import pytest

from gptbridge.core import listing
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import rfc3339
from gptbridge.core.registry import Conversation
from gptbridge.flow.adopting import Single, adopt
from gptbridge.practice import samples
from gptbridge.practice import world as site
from gptbridge.practice.world import FIRST, SECOND
from tests.flow.test_deciding import killed_at, slug
from tests.flow.test_recovery import reach
from tests.flow.test_upkeep import arrived
from tests.flow.world import Ground, Worker

TALK = "68c1d2e3-0000-8000-8000-00000000beef"
ACCOUNT = f"{FIRST.user_id}/{FIRST.account_id}"
OTHER = f"{SECOND.user_id}/{SECOND.account_id}"


def elsewhere(ground: Ground, owner: str = FIRST.user_id, **facts: Any) -> dict[str, Any]:
    """A conversation of two turns on the site, of which nothing is known here."""
    data = samples.conversation(2, ident=TALK, title="Begun elsewhere") | facts
    ground.site.world.conversations[TALK] = site.Conversation(data, owner)
    return data


def registry_bytes(ground: Ground) -> bytes:
    path = ground.path / "home" / "conversations.jsonl"
    return path.read_bytes() if path.exists() else b""


def test_it_is_registered_and_can_be_resumed(ground: Ground, worker: Worker) -> None:
    data = elsewhere(ground)
    worker.send("mine")  # at any time: also with conversations of our own
    assert slug(worker.resume, TALK) == "unknown-conversation"
    found = adopt(worker.world, TALK)
    known = worker.world.registry.get(TALK)
    assert found == Single(known, True) and known == Conversation(  # type: ignore[arg-type]
        ACCOUNT, TALK, "Begun elsewhere", f"{ground.url}/c/{TALK}", False, rfc3339(data["create_time"]), rfc3339(data["update_time"]),
        "imported")
    assert not (ground.path / "home" / "logs" / f"{TALK}.log").exists(), "its turns are resume's"
    assert worker.resume(TALK).slug == "ok" and len(worker.turns(TALK)) == 2
    op = worker.send("and more", to=TALK)
    assert op.state == "completed" and [s["text"] for s in ground.sends] == ["mine", "and more"]


def test_twice_changes_nothing_but_a_new_title(ground: Ground, worker: Worker) -> None:
    """RG-06."""
    data = elsewhere(ground)
    adopt(worker.world, TALK)
    before = registry_bytes(ground)
    again = adopt(worker.world, TALK)
    assert not again.new and registry_bytes(ground) == before
    data["title"] = listing.UNTITLED
    adopt(worker.world, TALK)
    assert registry_bytes(ground) == before, "a real title gives way to none"
    data["title"] = "Renamed"
    known = adopt(worker.world, TALK).conversation
    assert (known.title, known.origin, known.provisional) == ("Renamed", "imported", False)


def test_one_of_our_own_stays_our_own(ground: Ground, worker: Worker) -> None:
    mine = worker.send("mine").conversation_id or ""
    assert not adopt(worker.world, mine).new
    assert worker.world.registry.get(mine).origin == "own"  # type: ignore[union-attr]
    (ground.path / "home" / "conversations.jsonl").unlink()  # as a crash between receipt and registry row leaves it
    found = adopt(ground.worker().world, mine)
    assert found.new and found.conversation.origin == "own"


@pytest.mark.parametrize("hide", ["absent", "another's", "deleted"])
def test_what_the_site_does_not_give(ground: Ground, worker: Worker, hide: str) -> None:
    if hide != "absent":
        elsewhere(ground, SECOND.user_id if hide == "another's" else FIRST.user_id)
        ground.site.world.conversations[TALK].visible = hide != "deleted"
    assert slug(adopt, worker.world, TALK) == "unknown-conversation"
    assert registry_bytes(ground) == b"" and worker.seat.closed and worker.browser.clicks == 0


def test_one_that_is_registered_under_another_account(ground: Ground, worker: Worker) -> None:
    """RG-03, RG-09: both are named, and it is not fetched."""
    elsewhere(ground)
    worker.world.ledger.begin()
    worker.world.registry.put(Conversation(OTHER, TALK, "theirs"))
    before, reads = registry_bytes(ground), ground.site.world.reads
    with pytest.raises(Failure) as caught:
        adopt(worker.world, TALK)
    assert caught.value.slug == "account-mismatch" and ACCOUNT in caught.value.message and OTHER in caught.value.message
    assert registry_bytes(ground) == before and ground.site.world.reads == reads


def test_one_that_another_account_used_before_its_row_was_lost(ground: Ground, worker: Worker) -> None:
    mine = worker.send("mine").conversation_id or ""
    (ground.path / "home" / "conversations.jsonl").unlink()
    ground.on("other-account")
    assert slug(adopt, ground.worker().world, mine) == "account-mismatch" and registry_bytes(ground) == b""


def test_two_accounts_race_for_an_id(ground: Ground, worker: Worker) -> None:
    """RG-03: whoever comes second is told that the registry is in conflict, and writes nothing."""
    elsewhere(ground)
    rival = ground.worker()
    worker.on["read"] = lambda: rival.world.registry.put(Conversation(OTHER, TALK, "theirs"))
    assert slug(adopt, worker.world, TALK) == "state-corrupt"
    known = rival.world.registry.get(TALK)
    assert known is not None and known.account == OTHER


def test_an_account_that_changes_while_it_is_read(ground: Ground, worker: Worker) -> None:
    elsewhere(ground)

    def prepare(seat: Any) -> None:
        fetch = seat.page.conversation

        def fetched(conversation_id: str) -> Any:
            try:
                return fetch(conversation_id)
            finally:
                ground.on("other-account")

        seat.page.conversation = fetched

    worker.browser.prepare = prepare
    assert slug(adopt, worker.world, TALK) == "account-mismatch" and registry_bytes(ground) == b""


def test_the_account_of_the_settings(ground: Ground) -> None:
    elsewhere(ground)
    assert slug(adopt, ground.worker(account="user-9999").world, TALK) == "account-mismatch" and registry_bytes(ground) == b""


def test_an_answer_that_is_of_another_conversation(ground: Ground, worker: Worker) -> None:
    elsewhere(ground, conversation_id="68c1d2e3-0000-8000-8000-00000000aaaa")
    assert slug(adopt, worker.world, TALK) == "site-changed" and registry_bytes(ground) == b""


@pytest.mark.parametrize(("scenario", "no"), [("signed-out", "needs-human"), ("throttled", "rate-limited"), ("challenge", "needs-human"),
                                              ("json-refused", "needs-human")])
def test_a_site_that_refuses(ground: Ground, worker: Worker, scenario: str, no: str) -> None:
    elsewhere(ground)
    ground.on(scenario)
    assert slug(adopt, worker.world, TALK) == no and registry_bytes(ground) == b""


def test_the_conversation_of_an_uncertain_operation(ground: Ground, worker: Worker) -> None:
    """RG-19: it can be imported, says where it came from and whose message it holds; reading it back settles the operation."""
    killed_at(worker, "released")
    arrived(ground)
    desk = ground.worker()
    desk.custody.recover()
    assert desk.view.operations[worker.id].state == "uncertain"
    talk = ground.sends[0]["conversation_id"]
    found = adopt(desk.world, talk)
    assert (found.new, found.conversation.origin, found.operations) == (True, "imported", (worker.id,))
    assert desk.view.operations[worker.id].state == "uncertain", "an import changes no operation"
    assert desk.resume(talk).slug == "ok" and desk.view.operations[worker.id].state == "completed" and len(ground.sends) == 1


@pytest.mark.parametrize("target", [TALK, "68c1d2e3-0000-8000-8000-00000000aaaa"])
def test_an_uncertain_message_to_a_known_conversation(ground: Ground, worker: Worker, target: str) -> None:
    """RG-19: it is told of the conversation that it was for, and of no other that shows the same id (a branch of it)."""
    data = elsewhere(ground)
    message = next(key for key, node in data["mapping"].items() if (node["message"] or {}).get("author", {}).get("role") == "user")
    reach(worker, "dispatched", to=target)
    worker.custody.held(worker.id, message, None)
    worker.dies()
    desk = ground.worker()
    desk.custody.recover()
    assert adopt(desk.world, TALK).operations == ((worker.id,) if target == TALK else ())


def test_a_damaged_registry_is_left_alone(ground: Ground, worker: Worker) -> None:
    elsewhere(ground)
    worker.send("mine")
    path = ground.path / "home" / "conversations.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"origin":"own"', b'"origin":"0wn"'))
    before = path.read_bytes()
    desk = ground.worker()
    assert slug(adopt, desk.world, TALK) == "state-corrupt" and path.read_bytes() == before and desk.browser.seats == []
