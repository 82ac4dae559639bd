"""Finding a message of ours on the site by its recorded native id, and what that proves.

For a conversation that is known its JSON is read once; for a new one the conversations that were created around the dispatch, the nearest
first, at most ten, and none that another operation of ours began. Every node of `mapping` counts, selected or not. Text is never
compared, and absence proves nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from gptbridge.core import listing
from gptbridge.core.conversation import Found, find_message
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, epoch_seconds
from gptbridge.core.operation import NEW
from gptbridge.core.ports import PageFacts, World
from gptbridge.flow.custody import Receipt

READS = 10
BEFORE_S, AFTER_S = 120.0, 600.0
LISTED, PAGES = listing.USUAL, 10  # entries at a time, and how often at most


class Reader(Protocol):
    """What looking for a message takes of a page."""

    def facts(self) -> PageFacts: ...
    def conversation(self, conversation_id: str) -> dict[str, Any]: ...
    def listing(self, offset: int, limit: int) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Sighting:
    """Our message in a conversation of the account. `evidence` is what the ledger keeps of it (RP-06)."""

    conversation_id: str
    found: Found
    document: dict[str, Any]

    def evidence(self, url: str) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps(self.document, sort_keys=True).encode("ascii")).hexdigest()
        return {"message_id": self.found.message_id, "turn_id": self.found.turn_id, "url": url, "document_sha256": digest}


def receipt(op: Operation, sighting: Sighting) -> Receipt:
    """The native tuple: the id that the request carried, and the turn under which the site keeps it."""
    found = sighting.found
    return Receipt(sighting.conversation_id, op.user_message_id or found.message_id, found.turn_id or found.message_id)


def find(w: World, page: Reader, op: Operation, *, reads: int = READS,
         pause_s: float | None = None, heed: Callable[[], None] = lambda: None) -> Sighting | None:
    """The conversation that holds one of the operation's recorded ids, or None: not there now, which is no proof that it never left.
    `pause_s`: between two reads, where the page does not pause by itself."""
    if not op.message_ids():
        return None
    begun = {o.conversation_id for o in w.ledger.view().operations.values()
             if o.kind == NEW and o.sent == "yes" and o.operation_id != op.operation_id}
    for number, candidate in enumerate(_candidates(page, op, begun)):
        if number >= reads:
            break
        heed()
        if number:
            w.clock.sleep(w.settings.gap.between_reads if pause_s is None else pause_s)
        try:
            document = page.conversation(candidate)
        except Failure as failure:
            # One that cannot be understood must not hide the others from a search; of the one that was named it is the answer.
            if failure.slug != "unknown-conversation" and not (op.kind == NEW and failure.slug == "site-changed"):
                raise
            continue
        for message_id in sorted(op.message_ids()):
            found = find_message(document, message_id)
            if found is not None:
                return Sighting(candidate, found, document)
    return None


def _candidates(page: Reader, op: Operation, begun: Container[str | None]) -> Iterator[str]:
    """`begun`: conversations that another operation of ours began, so this one cannot have."""
    if op.kind == "resume":
        yield op.target
        return
    shown = page.facts().conversation_id
    if shown is not None:
        yield shown
    if op.dispatched_at is None:
        return
    sent, at = epoch_seconds(op.dispatched_at), 0
    near: list[tuple[float, str]] = []
    for _ in range(PAGES):
        try:
            found = listing.read(page.listing(at, LISTED), asked=LISTED)
        except ValueError:
            break  # no list: what it would have held was not seen, which proves nothing
        for item in found.items:
            if item.created_at is None or item.conversation_id == shown or item.conversation_id in begun:
                continue
            if -BEFORE_S <= item.created_at - sent <= AFTER_S:
                near.append((abs(item.created_at - sent), item.conversation_id))
        last = found.items[-1].updated_at if found.items else None
        if found.short or not found.size or (last is not None and last < sent - BEFORE_S):
            break  # what follows was touched last before the dispatch
        at += found.size
    yield from (ident for _, ident in sorted(near))
