"""The pairs of Page and Gate: the fake one, and windows of a real Chromium with either generation of the page, on one practice server."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gptbridge.core.page_request import Held
from gptbridge.core.ports import Gate, Page
from gptbridge.edge.host import Host
from gptbridge.practice.server import PracticeServer
from gptbridge.practice.world import World
from gptbridge.shell.wiring import HostClock
from tests.fakes import FakeBrowser


@dataclass
class Window:
    """One window with its gate, on a site whose world the test may change."""

    page: Page
    gate: Gate
    world: World
    seat: Any

    def on(self, scenario: str, **parameters: Any) -> None:
        self.world.switches.start(scenario, parameters)

    def off(self, scenario: str) -> None:
        self.world.switches.end(scenario)

    @property
    def sends(self) -> list[dict[str, Any]]:
        return list(self.world.state()["sends"])

    def at(self, conversation_id: str | None = None) -> Window:
        self.gate.arm()
        self.page.open(conversation_id)
        return self

    def hold(self, text: str = "Hello") -> Held:
        """Typed, pressed, held."""
        self.gate.watch(text)
        self.page.type(text)
        self.gate.open_once()
        self.page.press()
        held = self.gate.wait(10.0)
        assert held is not None, "no request was held"
        return held

    def reply(self) -> bytes:
        """All of the released request's answer."""
        data = b""
        for _ in range(400):
            chunk = self.gate.reply(0.1)
            data += chunk or b""
            if not chunk and self.gate.reply_ended is not None:
                return data
        raise AssertionError("the answer never ended")

    def sent(self, text: str = "Hello") -> str:
        """A whole turn; its conversation."""
        assert self.gate.release(self.hold(text))
        self.reply()
        return str(self.sends[-1]["conversation_id"])


@dataclass
class Pair:
    """`open()` gives a new window; all are closed at the end of the test. generation: of the page that it shows."""

    kind: str
    generation: int
    make: Callable[[], Any]
    world: World
    url: str
    seats: list[Any] = field(default_factory=list)

    def open(self) -> Window:
        seat = self.make()
        self.seats.append(seat)
        return Window(seat.page, seat.gate, self.world, seat)


@pytest.fixture(scope="package")
def practice() -> Iterator[PracticeServer]:
    with PracticeServer() as site:
        yield site


@pytest.fixture(scope="package")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.browser.toy import running

    with running(tmp_path_factory.mktemp("contract") / "browser") as started:
        yield started


PAIRS = [pytest.param(("fake", 1), id="fake"), pytest.param(("chromium", 1), id="chromium", marks=pytest.mark.browser),
         pytest.param(("chromium", 2), id="chromium-gen2", marks=pytest.mark.browser)]
# For what never touches that in which the generations differ.
EITHER_PAGE = PAIRS if os.environ.get("SOAK_EXAMPLES") else PAIRS[:2]


SECOND = "chromium-gen2"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a case that is there for both generations of the real page one runs each time, which one its name says; both under soak."""
    names = {item.nodeid for item in items}
    left = [] if os.environ.get("SOAK_EXAMPLES") else [
        item for item in items for first in [item.nodeid.replace(SECOND, "chromium")]
        if "chromium" in first and {first, first.replace("chromium", SECOND)} <= names
        and (SECOND in item.nodeid) == bool(zlib.crc32(first.encode()) % 2)]
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, practice: PracticeServer) -> Iterator[Pair]:
    practice.world.reset()
    practice.world.switches.start("slow-answer", {"seconds": 0.05})
    kind, generation = request.param
    if generation == 2:
        practice.world.switches.start("gen2", {})
    clock = HostClock(Host({}))
    if kind == "fake":
        browser: Any = FakeBrowser(practice.url, clock)
    else:
        from gptbridge.edge.seats import ChromeBrowser

        chrome = request.getfixturevalue("chrome")
        browser = ChromeBrowser(lambda: chrome, lambda: chrome, practice.url, clock)
    made = Pair(kind, generation, lambda: browser.seat(0)[1], practice.world, practice.url)
    try:
        yield made
    finally:
        practice.world.switches.clear()
        for seat in made.seats:
            seat.close()
        practice.world.reset()


@pytest.fixture
def window(pair: Pair) -> Window:
    return pair.open()
