"""Bringing the conversations that were begun elsewhere into the registry: the account's whole list, once.

It only reads: one window, its gate closed; the account is proved before the first read and again after each, before anything of that read
is kept. The list is read newest first, page by page, and each page is on disk before the next is asked for; whatever breaks it off, the
next run goes on from there. The list may change all the while. What is changed or new moves to its top, so at the end the top is read again
down to the change that was the newest at the beginning; what is deleted pulls the rest up, so each page must hold an entry of the one
before, else it is read further up. Ids decide what is known; nothing is kept twice.
Fails with the site's own no (11 to 16); a throttle is never waited out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gptbridge.core import importing as records
from gptbridge.core import listing
from gptbridge.core.errors import Failure
from gptbridge.core.importing import Progress, Records, Row
from gptbridge.core.listing import Listed, ListPage
from gptbridge.core.ports import Page, World
from gptbridge.flow import reading, snapshots

OVERLAP = 5  # entries that a page has in common with the one before
READS = 2000  # in one run
TOPS = 5  # how often the top is read again while it changes under the reading
Heed = Callable[[], None]


@dataclass(slots=True)
class Imported:
    """`imported`: by this run; `conversations`: all that are imported; `listed`: how long the list is, None while its end was not seen;
    `total`: the site's own count, if it says one; `complete`: the end was seen and nothing speaks of more. `failure`: why it broke off."""

    account: str
    imported: int = 0
    conversations: int = 0
    listed: int | None = None
    total: int | None = None
    complete: bool = False
    warnings: list[str] = field(default_factory=list)
    failure: Failure | None = None


def bootstrap(w: World, *, heed: Heed = lambda: None) -> Imported:
    """The account's list into the registry. Raises Failure where nothing was done (21: the registry is not a bootstrap's)."""
    records.refuse(_progress(w))  # before any browser opens; again under the lock, before the first record
    with ExitStack() as places:
        page, account = reading.reader(w, places, heed)
        expect_account(w, account)
        run = _Bootstrap(w, page, account, heed)
        try:
            run.down()
            run.top()
            run.finish()
        except Failure as failure:
            run.breaks_off(failure)
            assert run.found.failure is not None
            snapshots.keep(w, page, run.found.failure)  # here, since no failure leaves the page's stack
        return run.found


class _Bootstrap:
    def __init__(self, w: World, page: Page, account: str, heed: Heed) -> None:
        self._w, self._page, self._account, self._heed = w, page, account, heed
        self._reads, self._limit = 0, listing.LIMIT
        self._mark: float | None = None
        self._one_look = False  # the whole list came in one answer
        self._missing, self._unread = False, 0
        self.found = Imported(account)

    def down(self) -> None:
        """From the top, or from where an earlier run stopped, to the end."""
        known = _progress(self._w)
        if known.unfinished and known.known and known.account != self._account:
            raise Failure("account-mismatch", f"the unfinished import is of account {known.account}, but the page is signed in as "
                          f"{self._account}; nothing was imported", "sign in with the other account: ask-gpt login")
        self.found.conversations = len(known.imported)
        begun = known.state == "begun" and known.account == self._account
        self._mark = known.mark if begun else None
        anchor = known.imported if begun else frozenset()
        at = max(len(anchor) - OVERLAP, 0)
        before: ListPage | None = None
        while True:
            page = self._read(at)
            ids = frozenset(item.conversation_id for item in page.items)
            if at and not ids & anchor:
                # The list is shorter than it was. A known entry here would say that all which is unread and unchanged stands below it.
                at, before = max(at - self._limit + OVERLAP, 0), None
                continue
            if before is not None and page.items and page.items == before.items:
                self.found.warnings.append("the site gives the same part of its list again and again")
                return
            if begun:
                self._keep(page.items)
            else:
                self._begin(page)
                begun = True
            if page.short or page.size <= (OVERLAP if at else 0):
                self.found.listed, self._one_look = at + page.size, at == 0
                return
            before, anchor, at = page, ids, max(at + page.size - OVERLAP, 0)

    def top(self) -> None:
        """What was made or changed while the list was read, also by an earlier run that was broken off."""
        if self._one_look:
            return
        for _ in range(TOPS):
            at, newest = 0, None
            while True:
                page = self._read(at)
                fresh = self._keep(page.items)
                newest = page.newest if at == 0 else newest
                if page.short or page.size <= (OVERLAP if at else 0) or self._is_below(page.oldest, fresh):
                    break
                at += page.size - OVERLAP
            if at == 0:
                return
            self._mark = newest
        self.found.warnings.append("the list changes faster than it can be read; newer conversations may be missing")

    def finish(self) -> None:
        found = self.found
        if found.total is not None and found.listed is not None and found.total > found.listed:
            found.warnings.append(f"the site counts {found.total} conversations and listed {found.listed}")
        if self._missing:
            found.warnings.append("the site says that it could not list all conversations")
        if self._unread:
            found.warnings.append(f"{self._unread} entries of the site's list could not be read")
        found.complete = not found.warnings
        if not found.complete:
            found.warnings.append("the import is not complete: run it again later, or import one with --conversation ID|URL")
        self._arrange([records.finished(self._account, listed=found.listed, total=found.total, complete=found.complete)])

    def breaks_off(self, failure: Failure) -> None:
        """What is kept stays; where files can be written it is put in order, so that `list` is right meanwhile."""
        found = self.found
        if failure.slug not in ("state-corrupt", "state-unwritable", "conflict") and found.conversations:
            self._arrange([])
        hint = "run it again: it goes on where it stopped" if found.conversations else failure.hint
        if found.conversations and failure.hint and failure.slug not in ("interrupted", "terminated"):
            hint = f"{failure.hint}; it goes on where it stopped"
        kept = f"; {found.conversations} conversations are imported so far" if found.conversations else ""
        found.failure = Failure(failure.slug, failure.message + kept, hint)

    # Reading

    def _read(self, at: int) -> ListPage:
        """One page. Where a long one fails deep in the list, this and all further ones are asked for in the size the page itself uses."""
        try:
            return self._ask(at)
        except Failure as failure:
            if failure.slug != "browser" or not at or self._limit == listing.USUAL:
                raise
            self._limit = listing.USUAL
            return self._ask(at)

    def _ask(self, at: int) -> ListPage:
        self._heed()
        if self._reads:
            self._w.clock.sleep(self._w.settings.gap.between_reads)
        if self._reads >= READS:
            raise Failure("site-changed", f"the site's list of conversations has no end after {READS} reads", "run it again later")
        self._reads += 1
        self._page.facts()  # a dialog or a challenge over the page ends it here
        document = self._page.listing(at, self._limit)
        still(self._page, self._account)
        try:
            page = listing.read(document, asked=self._limit)
        except ValueError as why:
            raise Failure("site-changed", f"the site's list of conversations is not as known ({why})", "update ask-gpt") from why
        self.found.total = page.total if page.total is not None else self.found.total
        self._missing = self._missing or page.missing
        self._unread += page.size - len(page.items)
        return page

    def _is_below(self, oldest: float | None, fresh: int) -> bool:
        if self._mark is None or oldest is None:
            return fresh == 0
        return oldest <= self._mark

    # Keeping

    def _begin(self, page: ListPage) -> None:
        self._mark = page.newest

        def decide(found: Records) -> Sequence[Row]:
            known = records.progress(found)
            records.refuse(known)
            return [records.begun(self._account, self._mark), *self._new(known, page.items)]

        self._w.registry.transact(decide)
        self._tell()

    def _keep(self, items: Sequence[Listed]) -> int:
        """How many of them were new."""
        before = self.found.imported

        def decide(found: Records) -> Sequence[Row]:
            known = records.progress(found)
            if known.state == "finished":
                raise Failure("conflict", "another process finished this bootstrap meanwhile", "ask-gpt list")
            return self._new(known, items)

        self._w.registry.transact(decide)
        self._tell()
        return self.found.imported - before

    def _new(self, known: Progress, items: Sequence[Listed]) -> list[dict[str, Any]]:
        rows = records.rows(known.known, items, self._account, self._w.settings.site)
        added = sum(1 for row in rows if row["conversation_id"] not in known.known)
        self.found.imported += added
        self.found.conversations = len(known.imported) + added
        return rows

    def _arrange(self, end: Sequence[Row]) -> None:
        """In the order of `list`, with `end` behind; the file is written anew only where it stands in another."""
        def order(found: Records) -> Sequence[Row] | None:
            kept = records.arranged(found)
            return None if kept is None else [*kept, *end]

        if not self._w.registry.rewrite(order):
            self._w.registry.transact(lambda found: end)

    def _tell(self) -> None:
        of = f" of {self.found.total}" if self.found.total is not None else ""
        self._w.caller.emit({"type": "progress", "message": f"imported {self.found.conversations}{of}"})


def _progress(w: World) -> Progress:
    w.registry.check()
    return records.progress(reversed(list(w.registry.newest_first())))


def expect_account(w: World, account: str) -> None:
    """Before the first read: the settings may name the only account that is meant."""
    if w.settings.account not in (None, account):
        raise Failure("account-mismatch", f"the settings name account {w.settings.account}, but the page is signed in as {account}; "
                      "nothing was imported", "sign in with that account: ask-gpt login")


def still(page: Page, account: str) -> None:
    """After a read: whoever was signed in before it still is, so what was read is theirs."""
    now = page.session().account
    if now != account:
        raise Failure("account-mismatch", f"the page was signed in as {account}, now as {now}; nothing of this read was kept",
                      "sign in with the account that is to be read: ask-gpt login")
