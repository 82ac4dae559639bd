"""`resume ID` in real processes and a real Chromium: the log of every sample is what its JSON shows; the page stands in for refused JSON.

The page is real here: what it mounts, how it renders, what is on it when its conversation is continued by hand.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gptbridge.core import transcript
from gptbridge.core.registry import Conversation
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.practice.world import FIRST
from tests.browser.real import NEWEST, Desk
from tests.browser.test_real_send import valid
from tests.core.documents import differences, document, joined, names
from tests.core.site_json import Doc
from tests.core.visible import visible

pytestmark = pytest.mark.browser


def put(desk: Desk, data: dict[str, Any]) -> str:
    """The site has it, and the registry knows it."""
    ident = str(data["conversation_id"])
    assert not (desk.home.path / "logs" / f"{ident}.log").exists(), "another test's conversation, in the same home"
    desk.site.ask("PUT", f"/practice/conversations/{ident}", data)
    home = open_home(desk.home.env, create=True, host=Host(desk.home.env))
    try:
        RegistryFile(home, Host(desk.home.env)).put(Conversation(
            f"{FIRST.user_id}/{FIRST.account_id}", ident, "seeded", f"{desk.site.url}/c/{ident}", created_at="2026-11-29T13:00:00.000Z",
            origin="imported"))
    finally:
        assert home.locks is not None
        home.locks.close_in_child()
        home.close()
    return ident


def shown(desk: Desk, ident: str) -> list[transcript.Block]:
    log = transcript.parse(desk.log(ident))
    assert log.problems == ()
    return transcript.turns(log)


def test_every_document_is_in_its_log(desk: Desk) -> None:
    """Must hold for each: text, roles, order, thinking, citations as links; `show` gives the same; twice changes nothing."""
    assert desk.run("send", "so that Chrome stays: one that was started only to read is closed").code == 0
    alone = [name for name in names() if name.endswith(".json") or name in ("dangling-current", "cut-above")]
    for number, data in enumerate([joined(), *map(document, alone)]):
        ident, seen, name = put(desk, data), visible(data), data["title"]
        ran = desk.json("resume", ident)
        assert ran.code == 0, (name, ran)
        doc = valid(ran)
        assert differences(seen, shown(desk, ident)) == [], name
        assert seen[-1].says(str(doc["answer"])) and doc["thinking"] == seen[-1].thinking, name
        if number == 0:
            turns = valid(desk.json("show", ident))["turns"]
            assert isinstance(turns, list) and [turn["prompt"] for turn in turns] == [one.prompt for one in seen]
            assert all(one.says(turn["answer"]) for turn, one in zip(turns, seen, strict=True)), name
            assert {turn["origin"] for turn in turns} == {"hydrated"} and not any(turn["operation_id"] for turn in turns)
            text = desk.log(ident)
            path = desk.home.path / "logs" / f"{ident}.log"
            assert desk.run("resume", ident).code == 0 and desk.log(ident) == text, name
            path.write_bytes(text[: len(text) * 2 // 3])
            assert desk.run("resume", ident).code == 0 and differences(seen, shown(desk, ident)) == [], name
    assert len(desk.site.sends()) == 1


def long_thread(desk: Desk, turns: int = 60) -> tuple[str, dict[str, Any]]:
    doc = Doc(conversation_id=f"5b1e2222-0000-8000-8000-00000000006{desk.generation}")
    for number in range(turns):
        doc.user(f"5b1e0000-0000-4000-8000-{number:012x}", f"prompt {number} with *stars* and <tags>\n\n  and a second paragraph")
        doc.final(f"5b1e1111-0000-4000-8000-{number:012x}", RICH.format(number=number))
    return put(desk, doc.data), doc.data


RICH = """Answer **{number}** with `code *x*`, a [link](https://example.org/a) and \\( x_1^2 \\).

## Head

- one
  - two
- [x] task

3. three

| a | b |
| --- | --- |
| 1 | 2 \\| 3 |

```python
def f(x):

    return "<b>" + x  # \\n
```

> quoted

Last line: 1 < 2 & snake_case, $5 and $6."""


@pytest.mark.sample(1)
@NEWEST
def test_sixty_turns_of_which_few_are_mounted_and_the_page_where_the_json_is_refused(desk: Desk) -> None:
    ident, data = long_thread(desk)
    desk.site.scenario("json-refused", status=403)
    ran = desk.json("resume", ident)
    assert ran.code == 0, ran
    doc = valid(ran)
    [said] = [warning for warning in doc["warnings"] if "read from the page" in warning]  # type: ignore[attr-defined]
    # The second generation has no place for what it did not bring yet.
    lacking = "of its messages are not in it" if desk.generation == 1 else "what else the site has of it is not known"
    assert lacking in said and "403" in said
    turns = shown(desk, ident)
    assert 0 < len(turns) < 15 and all((turn.attr("source"), turn.state) == ("page", "incomplete") for turn in turns)
    whole = {turn.attr("user"): turn for turn in turns}
    for one, number in zip(visible(data)[-len(turns):], range(60 - len(turns), 60), strict=True):
        turn = whole[one.user]
        assert turn.section("prompt") == one.prompt
        # What a reader sees, written anew: equal for this text, but for the mark that the site puts on links.
        assert turn.section("answer") == RICH.format(number=number).replace("example.org/a", "example.org/a?utm_source=chatgpt.com")
    text = desk.log(ident)
    assert desk.run("resume", ident).code == 0 and desk.log(ident) == text
    desk.site.scenario("json-refused", status=429)
    assert desk.run("resume", ident).code == 11 and desk.log(ident) == text
    desk.site.scenario("json-refused", status=200)
    assert desk.run("resume", ident, "a prompt").code == 15 and desk.site.sends() == []
    desk.site.end("json-refused")
    ran = desk.json("resume", ident)
    assert ran.code == 0 and ran.doc["warnings"] == [], ran
    turns = shown(desk, ident)
    assert len(turns) == 60 and not any(turn.attr("source") for turn in turns)
    in_order = sorted(turns, key=lambda turn: str(turn.attr("user")))
    assert differences(visible(data), in_order) == []


def test_continued_by_hand_between_two_of_ours(desk: Desk) -> None:
    """Hydrated once, in place, and our own turns stay linked to their operations; equal prompts are two turns."""
    first = desk.json("send", "Continue")
    ident = str(first.doc["conversation_id"])
    by_hand = [continued(desk, ident, "Continue"), continued(desk, ident, "Something else")]
    second = desk.json("resume", ident, "Continue")
    assert (first.code, second.code) == (0, 0), second
    ours = [first.doc["operation_id"], second.doc["operation_id"]]
    expected = [("Continue", ours[0]), ("Continue", None), ("Something else", None), ("Continue", ours[1])]
    turns = shown(desk, ident)
    assert [(turn.section("prompt"), turn.attr("op")) for turn in turns] == expected
    assert [turn.attr("user") for turn in turns[1:3]] == by_hand and len({turn.attr("user") for turn in turns}) == 4
    assert differences(visible(desk.site.conversation(ident)), turns) == []
    text = desk.log(ident)
    assert desk.run("resume", ident).code == 0 and desk.log(ident) == text
    told = valid(desk.json("show", ident))["turns"]
    assert [(turn["origin"], turn["operation_id"]) for turn in told] == [  # type: ignore[attr-defined]
        ("own", ours[0]), ("hydrated", None), ("hydrated", None), ("own", ours[1])]


def continued(desk: Desk, ident: str, text: str) -> str:
    """Another client of the same person goes on; its message id."""
    import http.client
    import uuid

    data, message_id = desk.site.conversation(ident), str(uuid.uuid4())
    message = {"id": message_id, "author": {"role": "user"}, "metadata": {}, "content": {"content_type": "text", "parts": [text]}}
    body = {"action": "next", "conversation_id": ident, "parent_message_id": data["current_node"], "model": "auto", "messages": [message]}
    connection = http.client.HTTPConnection(desk.site.url.partition("//")[2], timeout=30)
    try:
        connection.request("POST", "/backend-api/f/conversation", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {desk.site.token()}"})
        reply = connection.getresponse()
        assert reply.status == 200
        reply.read()
    finally:
        connection.close()
    return message_id
