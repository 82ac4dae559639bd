"""`doctor --browser`: what the site shows a send, looked at in a window of its own: the gate, who is signed in, the composer, the site's
JSON, and every hook of the page by which it is known.

Guarantees: nothing is typed, nothing is pressed, nothing is sent: the gate is armed closed before the page is opened, and a draft in the
composer stays. Two pages are opened, the home page and the newest conversation that the home knows. A Chrome that was started only for
this is closed. What is missing is kept as a report of the page's structure, named in what mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Page, World
from gptbridge.shell.doctor import Check, Look, guarded

NEWEST = 200  # of the home's records: what is older is not in the first page of the site's list
SEAT_S = 60.0  # how long it waits for a window: sends go first
UPDATE = "ask-gpt may need an update for the site"


def looks(env: Mapping[str, str]) -> tuple[tuple[str, Look], ...]:
    return (("page", lambda: _page(env)),)


def _page(env: Mapping[str, str]) -> Iterator[Check]:
    from gptbridge.edge.config import load
    from gptbridge.flow import reading
    from gptbridge.shell.wiring import Nobody, leave_browser, world

    w = world(env, load(env), Nobody(), None, purpose="ask-gpt doctor")
    try:
        with ExitStack() as places:
            page = reading.window(w, places, lambda: None, wait_s=SEAT_S)
            yield Check("gate", True, "armed: whatever this window tries to send is failed")
            yield from _looked_at(w, page)
    finally:
        leave_browser(w, only_read=True)


def _looked_at(w: World, page: Page) -> Iterator[Check]:
    opened: list[Check] = []
    for check in guarded("page", lambda: _opened(w, page, None)):
        opened.append(check)
        yield check
    if not all(check.ok for check in opened):
        return  # of a page that did not open nothing more can be told
    account: list[str] = []
    yield from guarded("session", lambda: _session(w, page, account))
    yield from guarded("composer", lambda: _composer(page))
    yield from guarded("hooks", lambda: _hooks(w, page, "the home page"))
    if account:
        newest: list[str] = []
        yield from guarded("list", lambda: _list(w, page, account[0], newest))
        if newest:
            yield from guarded("conversation", lambda: _conversation(w, page, newest[0]))


def _opened(w: World, page: Page, conversation_id: str | None) -> Iterator[Check]:
    began = w.clock.now().boottime
    page.open(conversation_id)
    yield Check("page", True, f"{w.settings.site} opened in {w.clock.now().boottime - began:.1f} s")


def _session(w: World, page: Page, found: list[str]) -> Iterator[Check]:
    account = page.session().account
    found.append(account)
    yield Check("session", True, f"signed in as {account}")
    newest = next((str(fields["account"]) for _, fields in w.registry.newest_first() if "account" in fields), None)
    for whose, expected in (("the configuration names", w.settings.account), ("the home's newest conversation belongs to", newest)):
        if expected not in (None, account):
            yield Check("account", False, f"{whose} account {expected}, but the page is signed in as {account}",
                        "sign in with the other account: ask-gpt login")
            return
    yield Check("account", True, "the one of this home" if newest or w.settings.account else "the first of this home")


def _composer(page: Page) -> Iterator[Check]:
    facts = page.facts()
    if facts.composer is None:
        yield Check("composer", False, "the page shows no composer", "look at the page: ask-gpt login")
    elif facts.covered:
        yield Check("composer", False, "something lies over the page and waits for a person", "answer it by hand: ask-gpt login")
    elif facts.composer or facts.chips:
        yield Check("composer", False, f"it holds a draft ({len(facts.composer)} characters, {facts.chips} files), which keeps a send away "
                    "unless it is one of its own", "send or delete that draft in the browser: ask-gpt login")
    elif facts.mode != "chat" or facts.temporary:
        yield Check("composer", False, f"the page stands in another mode ({'temporary chat' if facts.temporary else facts.mode})",
                    "switch it back to Chat by hand: ask-gpt login")
    elif facts.tools:
        yield Check("composer", False, "a tool is switched on in it", "switch it off by hand: ask-gpt login")
    else:
        yield Check("composer", True, "empty, in Chat mode")


def _hooks(w: World, page: Page, where: str) -> Iterator[Check]:
    """One line where all is there; where something is missing one for each, and the page's structure is kept."""
    seen = page.hooks()
    there = sum(1 for count in seen.found.values() if count)
    lacking = f"; gone, and not needed: {', '.join(seen.lacking)}" if seen.lacking else ""
    away = ", ".join(name for name, count in seen.found.items() if not count and name not in (*seen.missing, *seen.lacking))
    detail = f"{where}, generation {seen.generation}: {there} there{lacking}; not shown now: {away}"
    if not seen.missing:
        yield Check("hooks", True, detail)
        return
    mend = _report(w, page, f"{where}: {', '.join(seen.missing)} missing")
    for name, selector in seen.missing.items():
        yield Check("hooks", False, f"{where}, generation {seen.generation}: {name} is missing ({selector})", mend)


def _report(w: World, page: Page, what: str) -> str:
    from gptbridge.flow import snapshots

    failure = Failure("site-changed", what, UPDATE)
    snapshots.keep(w, page, failure)
    return failure.hint


def _list(w: World, page: Page, account: str, newest: list[str]) -> Iterator[Check]:
    """The site's list, and the conversation to look at: the home's newest, else the site's."""
    from gptbridge.core import listing

    try:
        listed = listing.read(page.listing(0, listing.USUAL), asked=listing.USUAL).items
    except ValueError as why:
        yield Check("list", False, f"the site's list of conversations is not as known ({why})", UPDATE)
        return
    known = {item.conversation_id for item in listed}
    ours = next((str(fields["conversation_id"]) for _, fields in islice(w.registry.newest_first(), NEWEST)
                 if fields.get("account") == account and fields.get("conversation_id") in known), None)
    newest.extend(filter(None, (ours, *(item.conversation_id for item in listed))))
    yield Check("list", True, f"the {len(listed)} newest conversations are read" if listed else "it is read; there is no conversation yet")


def _conversation(w: World, page: Page, conversation_id: str) -> Iterator[Check]:
    """Its JSON and its page, and that both tell of the same turn."""
    from gptbridge.core.conversation import read

    site = read(page.conversation(conversation_id), conversation_id=conversation_id)
    yield Check("conversation", True, f"{conversation_id}: its {len(site.turns)} turns are read")
    try:
        page.open(conversation_id)
    finally:
        yield from _hooks(w, page, "a conversation")
    shown, newest = page.facts().newest_message_id, site.turns[-1].user_message_id if site.turns else None
    if newest is not None and (shown or "").lower() != newest.lower():
        yield Check("conversation", False, "the page does not show the newest message of its JSON", UPDATE)
