"""What the page asks in the middle of an answer, a tool that wants to be allowed for one: said, and left to a person.

Looked for only while nothing comes; said once. Nothing of it is pressed, the turn goes on when it is answered, and patience ends as always.
"""

from __future__ import annotations

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Page, World

EVERY_S = 5.0


class Questions:
    """Of one turn. Times are of the clock's boottime."""

    def __init__(self, world: World, page: Page) -> None:
        self._w, self._page = world, page
        self._quiet_since = world.clock.now().boottime
        self._said = False

    def heard(self, now: float) -> None:
        """The reply goes on: nobody is waited for."""
        self._quiet_since = now

    def look(self, now: float) -> None:
        if self._said or now < self._quiet_since + EVERY_S:
            return
        self._quiet_since = now
        try:
            self._said = self._page.asks()
        except Failure:
            return  # a page that is gone is the turn's own trouble
        if self._said:
            self._w.caller.emit({"type": "warning", "message": "the page asks something and waits for a person (a tool that wants to be "
                                 "allowed?); answer it in the window: nothing is pressed here"})
