"""Bringing one conversation that was begun elsewhere into the registry, at any time.

It only reads: one window, its gate closed. Whose conversation it is, as far as it is known here, is compared with the account that is
signed in, before the conversation is fetched; where the site does not give it to this account it ends with 14. Its turns are left to
`resume`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from gptbridge.core import importing as records
from gptbridge.core import listing
from gptbridge.core.conversation import find_message
from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.errors import Failure
from gptbridge.core.importing import Records, Row
from gptbridge.core.listing import Listed
from gptbridge.core.operation import NEW
from gptbridge.core.ports import World
from gptbridge.core.registry import Conversation
from gptbridge.flow import reading
from gptbridge.flow.importing import Heed, expect_account, still


@dataclass(frozen=True, slots=True)
class Single:
    """`new`: it was not in the registry. `operations`: uncertain ones whose recorded message stands in it; reading it back settles them."""

    conversation: Conversation
    new: bool
    operations: tuple[str, ...] = ()


def adopt(w: World, conversation_id: str, *, heed: Heed = lambda: None) -> Single:
    """One conversation into the registry, whoever began it; its turns are left to `resume`. Failure 14 where the site does not give it to
    this account, 13 where it is registered, or was used by an operation of ours, under another account."""
    w.registry.check()
    with ExitStack() as places:
        expected = _owner(w, conversation_id)
        page, account = reading.reader(w, places, heed)
        expect_account(w, account)
        if expected not in (None, account):
            raise Failure("account-mismatch", f"the conversation belongs to account {expected}, but the page is signed in as {account}; "
                          "nothing was imported", "sign in with the other account: ask-gpt login")
        heed()
        document = page.conversation(conversation_id)
        still(page, account)
        try:
            site = read_conversation(document, conversation_id=conversation_id)
        except ValueError as why:
            raise Failure("site-changed", f"conversation {conversation_id} is not as known ({why}); nothing was imported",
                          "update ask-gpt") from why
    view = w.ledger.view()
    ours = any(op.conversation_id == conversation_id and op.sent == "yes" for op in view.of_conversation(conversation_id))
    origin = "own" if ours else "imported"
    item = Listed(conversation_id, listing.real_title(site.title), site.created_at, site.updated_at)
    new = False

    def decide(found: Records) -> Sequence[Row]:
        nonlocal new
        old = w.registry.get(conversation_id)
        new = old is None
        return records.rows({} if old is None else {conversation_id: old}, [item], account, w.settings.site, origin)

    w.registry.transact(decide)
    seen = tuple(op.operation_id for op in view.uncertain() if op.target in (NEW, conversation_id)
                 and any(find_message(document, message) is not None for message in op.message_ids()))
    known = w.registry.get(conversation_id)
    assert known is not None
    return Single(known, new, seen)


def _owner(w: World, conversation_id: str) -> str | None:
    registered = w.registry.get(conversation_id)
    if registered is not None:
        return registered.account
    return next((op.account for op in w.ledger.view().of_conversation(conversation_id)
                 if op.sent == "yes" and op.account is not None), None)
