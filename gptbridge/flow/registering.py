"""The registry's row of a conversation: begun with a provisional title, then given the site's, and how far its log was read.

Prompt text never replaces a real title (RG-06). A row is only written where it says something new.
"""

from __future__ import annotations

from dataclasses import replace

from gptbridge.core.conversation import SiteConversation
from gptbridge.core.importing import retitled
from gptbridge.core.ledger import rfc3339
from gptbridge.core.listing import real_title
from gptbridge.core.ports import World
from gptbridge.core.registry import Conversation, provisional_title
from gptbridge.flow.logged import is_unfinished, lacking, may_go_on
from gptbridge.flow.recording import url_of


def register(w: World, conversation_id: str, account: str, prompt: str, at: float) -> None:
    """The provisional row of a new conversation, as soon as its id is known (RG-05)."""
    if w.registry.get(conversation_id) is None:
        w.registry.put(Conversation(account, conversation_id, provisional_title(prompt), url_of(w, conversation_id), provisional=True,
                                    created_at=rfc3339(at)))


def retitle(w: World, conversation_id: str, title: str | None) -> None:
    """The site's title replaces a provisional or an older one; prompt text never replaces a real title (RG-06)."""
    known, title = w.registry.get(conversation_id), real_title(title)
    if known is not None and title is not None and (known.provisional or known.title != title):
        w.registry.put(retitled(known, title))


def note_read(w: World, site: SiteConversation, conversation_id: str, listed_at: float | None) -> None:
    """In one row: the site's title, and how far this reading went, so that it need not be done again before the site has more.

    Not while a turn is left out that may still grow. Nothing is written where nothing is new.
    """
    known = w.registry.get(conversation_id)
    if known is None:
        return
    now = w.clock.now().wall
    if site.turns and is_unfinished(site.turns[-1]) and may_go_on(site.turns[-1], now):
        retitle(w, conversation_id, site.title)
        return
    times = [rfc3339(at) for at in (site.updated_at, listed_at) if at is not None]
    read_at = max([*times, *filter(None, [known.read_at])], default=None) or rfc3339(site.created_at or now)
    title = real_title(site.title)
    found = retitled(known, title) if title is not None else known
    found = replace(found, read_at=read_at, lacking=lacking(w.logs.read(conversation_id)))
    if found != known:
        w.registry.put(found)


def note_gone(w: World, conversation_id: str, unfinished: tuple[int, ...]) -> None:
    """The site does not have it: what is unfinished in its log will not get more."""
    known = w.registry.get(conversation_id)
    if known is not None and known.lacking != unfinished:
        w.registry.put(replace(known, lacking=unfinished))
