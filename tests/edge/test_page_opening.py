"""When a page counts as open: a composer and, in a conversation, at least one of its turns (CL-06); else it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.pacing import Now
from gptbridge.edge.chatgpt import BARE_S, LOAD_S, ChatPage

TALK = "68c1d2e3-0000-8000-8000-000000000001"
STATE: dict[str, Any] = {
    "named": TALK, "loaded": "complete", "editor": True, "ready": True, "strange": False, "turns": 2, "login": False, "challenge": False,
    "barred": "", "throttled": False}


class Site:
    """A window whose page shows what `shows` says for each second; its clock moves by sleeping alone."""

    def __init__(self, *shows: dict[str, Any]) -> None:
        self.shows, self.time = [STATE | show for show in shows], 0.0
        self.asked: list[str] = []

    def get(self, url: str) -> None:
        self.url = url

    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> None: ...

    def execute_async_script(self, script: str, name: str, *args: Any) -> dict[str, Any]:
        self.asked.append(name)
        if name == "session":
            return {"value": {"status": 200, "challenge": False, "user": "user-0000", "account": None}}
        return {"value": self.shows[min(int(self.time), len(self.shows) - 1)]}

    def now(self) -> Now:
        return Now(self.time, self.time, "boot")

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def open(self, talk: str | None = TALK) -> str:
        """How it ends, and when the window says nothing more about it."""
        try:
            ChatPage(self, "http://127.0.0.1:1", self, explain=lambda error: None).open(talk)  # type: ignore[arg-type]
        except Failure as failure:
            return failure.slug
        return "open"


NO_TURN, NO_EDITOR = {"turns": 0}, {"editor": False, "ready": False}


def test_a_conversation_opens_with_its_composer_and_a_turn() -> None:
    assert Site({}).open() == "open"
    late = Site(NO_TURN | NO_EDITOR, NO_EDITOR, NO_TURN, NO_TURN, {})
    assert late.open() == "open" and late.time >= 4.0
    assert Site(NO_TURN | {"named": None}).open(None) == "open", "a new one has none"
    assert Site({"named": TALK[:-1] + "2"}).open() == "site-changed", "another conversation's turns do not count"


@pytest.mark.parametrize(("show", "slug", "least"), [
    (NO_TURN, "site-changed", LOAD_S), (NO_EDITOR, "site-changed", LOAD_S), (NO_EDITOR | {"strange": True}, "site-changed", BARE_S),
    ({"named": None, "turns": 0}, "unknown-conversation", 0.0), (NO_EDITOR | {"loaded": "loading"}, "browser", LOAD_S),
    (NO_EDITOR | {"login": True}, "needs-human", LOAD_S)])
def test_what_lacks_one_of_them_is_refused(show: dict[str, Any], slug: str, least: float) -> None:
    site = Site(show)
    assert site.open() == slug and site.time >= least


@pytest.mark.parametrize("barred", ["challenge", "locked"])
def test_a_title_and_words_count_once_the_page_stays_bare(barred: str) -> None:
    """While it loads they may be a conversation's."""
    bare = NO_EDITOR | NO_TURN | {"barred": barred}
    assert Site(bare, bare, {}).open() == "open"
    site = Site(bare)
    assert site.open() == "needs-human" and BARE_S <= site.time < LOAD_S
    assert Site({"challenge": True}).open() == "needs-human" and Site({"throttled": True}).open() == "rate-limited"
