"""Finding a message of ours on the site by its recorded native id, and what that proves.

For a conversation that is known its JSON is read once; for a new one the newest conversations that were created around the dispatch, at
most ten. Every node of `mapping` counts, selected or not. Text is never compared, and absence proves nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gptbridge.core.conversation import Found, find_message
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.ports import PageFacts, World
from gptbridge.flow.custody import Receipt

READS = 10
BEFORE_S, AFTER_S = 120.0, 600.0
PAUSE_S = 1.0
LISTED = 28  # what the page itself asks for


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


def find(w: World, page: Reader, op: Operation, *, reads: int = READS, pause_s: float = PAUSE_S,
         heed: Callable[[], None] = lambda: None) -> Sighting | None:
    """The conversation that holds one of the operation's recorded ids, or None: not there now, which is no proof that it never left."""
    if not op.message_ids():
        return None
    for number, candidate in enumerate(_candidates(page, op)):
        if number >= reads:
            break
        heed()
        if number:
            w.clock.sleep(pause_s if w.settings.gap.shortest else 0.0)
        try:
            document = page.conversation(candidate)
        except Failure as failure:
            if failure.slug != "unknown-conversation":
                raise
            continue
        for message_id in sorted(op.message_ids()):
            found = find_message(document, message_id)
            if found is not None:
                return Sighting(candidate, found, document)
    return None


def _candidates(page: Reader, op: Operation) -> Iterator[str]:
    if op.kind == "resume":
        yield op.target
        return
    shown = page.facts().conversation_id
    if shown is not None:
        yield shown
    sent = _epoch(op.dispatched_at)
    for item in page.listing(0, LISTED).get("items") or []:
        created = _epoch(item.get("create_time"))
        if item.get("id") != shown and sent is not None and created is not None and sent - BEFORE_S <= created <= sent + AFTER_S:
            yield str(item["id"])


def _epoch(text: Any) -> float | None:
    """Epoch seconds of an ISO time, with or without a zone (UTC then), or of a number."""
    if isinstance(text, int | float):
        return float(text)
    try:
        at = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (at if at.tzinfo else datetime.fromisoformat(f"{at.isoformat()}+00:00")).timestamp()
