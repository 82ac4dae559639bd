"""The page as a bounded reader sees it: each conversation and each part of the list once, a pause between two reads, no more than it may.

The pause is the one of every reader (core/pacing.py). Before each read the page is looked at: a dialog or a challenge over it ends the
reading there, with nothing more asked for. What a read raises passes through; that a conversation is not there is remembered like one that
is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Page, PageFacts, Session, World

if TYPE_CHECKING:
    from collections.abc import Iterator


class Enough(Exception):
    """As many conversations were read as this run may."""


class PacedReader:
    """`reads`: conversations in all; `searches`: those of them that are read only to look for a message (`searching`)."""

    def __init__(self, w: World, page: Page, heed: Callable[[], None], *, reads: int, searches: int) -> None:
        self._w, self._page, self._heed = w, page, heed
        self._known: dict[str, dict[str, Any] | Failure] = {}
        self._listed: dict[tuple[int, int], dict[str, Any]] = {}
        self._reads, self._searches = reads, searches
        self._searching = self._begun = False
        self._spared = 0

    @property
    def left(self) -> int:
        return self._reads - len(self._known)

    @contextmanager
    def sparing(self, reads: int) -> Iterator[None]:
        """Meanwhile so many are kept for what comes later."""
        self._spared = reads
        try:
            yield
        finally:
            self._spared = 0

    @contextmanager
    def searching(self) -> Iterator[None]:
        self._searching = True
        try:
            yield
        finally:
            self._searching = False

    def session(self) -> Session:
        return self._page.session()

    def facts(self) -> PageFacts:
        return self._page.facts()

    def listing(self, offset: int, limit: int) -> dict[str, Any]:
        at = offset, limit
        if at not in self._listed:
            self._turn()
            self._listed[at] = self._page.listing(offset, limit)
        return self._listed[at]

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        if conversation_id not in self._known:
            if self.left <= self._spared or (self._searching and self._searches <= 0):
                raise Enough
            self._searches -= self._searching
            self._turn()
            try:
                self._known[conversation_id] = self._page.conversation(conversation_id)
            except Failure as failure:
                if failure.slug != "unknown-conversation":
                    raise
                self._known[conversation_id] = failure
        found = self._known[conversation_id]
        if isinstance(found, Failure):
            raise found
        return found

    def _turn(self) -> None:
        self._heed()
        if self._begun:
            self._w.clock.sleep(self._w.settings.gap.between_reads)
        self._begun = True
        self._page.facts()
