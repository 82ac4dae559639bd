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
from datetime import datetime
from typing import Any, Protocol

from gptbridge.core.conversation import Found, find_message
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.operation import NEW
from gptbridge.core.ports import PageFacts, World
from gptbridge.flow.custody import Receipt

READS = 10
BEFORE_S, AFTER_S = 120.0, 600.0
LISTED, PAGES = 28, 10  # what the page itself asks for, and how often at most


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
    sent = _epoch(op.dispatched_at)
    near: list[tuple[float, str]] = []
    for number in range(PAGES if sent is not None else 0):
        items = page.listing(number * LISTED, LISTED).get("items") or []
        for item in items:
            created, ident = _epoch(item.get("create_time")), str(item.get("id"))
            if created is None or sent is None or ident == shown or ident in begun:
                continue
            if -BEFORE_S <= created - sent <= AFTER_S:
                near.append((abs(created - sent), ident))
        updated = _epoch(items[-1].get("update_time")) if items else None
        if len(items) < LISTED or (updated is not None and sent is not None and updated < sent - BEFORE_S):
            break  # what follows was touched last before the dispatch
    yield from (ident for _, ident in sorted(near))


def _epoch(text: Any) -> float | None:
    """Epoch seconds of an ISO time, with or without a zone (UTC then), or of a number."""
    if isinstance(text, int | float):
        return float(text)
    try:
        at = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (at if at.tzinfo else datetime.fromisoformat(f"{at.isoformat()}+00:00")).timestamp()
