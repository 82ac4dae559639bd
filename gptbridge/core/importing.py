"""Which records an import of the site's list writes, and what the registry says of how far it came.

Format, in `conversations.jsonl`: a conversation's record has `origin` "bootstrap" (or "imported"), and its `at` is the site's own time of
the last change, where it says one. Before the first of them stands `{"bootstrap": "begun", "account", "mark"}`, behind the last
`{"bootstrap": "finished", "account", "listed", "total", "complete"}`. These two carry no `conversation_id`, so every other reader passes
over them. `mark`: the newest `update_time` of the list when it was first read; what was changed since stands above it in the list.
A bootstrap is unfinished from `begun` until a `finished` that is complete. Pure; raises `Failure` for an account conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gptbridge.core import registry
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import epoch_seconds, rfc3339
from gptbridge.core.listing import Listed
from gptbridge.core.registry import Conversation

ORIGIN = "bootstrap"
MARKER = "bootstrap"
Records = Iterable[tuple[int, Mapping[str, Any]]]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """What the registry says. `state`: of the newest bootstrap; `partial`: finished, and the site had not listed all. `account` and `mark`
    are of the newest `begun`; `known`: every conversation, the latest record of each."""

    state: Literal["none", "begun", "partial", "finished"] = "none"
    account: str | None = None
    mark: float | None = None
    known: Mapping[str, Conversation] = field(default_factory=dict)

    @property
    def imported(self) -> frozenset[str]:
        return frozenset(ident for ident, conversation in self.known.items() if conversation.origin == ORIGIN)

    @property
    def foreign(self) -> int:
        """Conversations that no bootstrap wrote."""
        return len(self.known) - len(self.imported)

    @property
    def unfinished(self) -> bool:
        return self.state in ("begun", "partial")


def progress(records: Records) -> Progress:
    state: Literal["none", "begun", "partial", "finished"] = "none"
    account: str | None = None
    mark: float | None = None
    kept = list(records)
    for _, fields in kept:
        match fields.get(MARKER):
            case "begun":
                state, account = "begun", str(fields.get("account"))
                given = fields.get("mark")
                mark = epoch_seconds(given) if isinstance(given, str) else None
            case "finished":
                state = "finished" if fields.get("complete") is True else "partial"
            case _:
                pass
    return Progress(state, account, mark, _latest(kept))


def _latest(records: Records) -> dict[str, Conversation]:
    """The latest record of each id, from all of them in order."""
    found: dict[str, Conversation] = {}
    for seq, fields in records:
        conversation = registry.read(fields)
        if conversation is None:
            continue
        if found.setdefault(conversation.conversation_id, conversation).account != conversation.account:
            raise registry.conflict(conversation.conversation_id, seq)
        found[conversation.conversation_id] = conversation
    return found


def refuse(found: Progress) -> None:
    """A registry that holds what no unfinished bootstrap wrote is left alone (RG-15)."""
    if found.foreign or (found.known and not found.unfinished):
        count = found.foreign or len(found.known)
        what = (f"{count} conversation{'s' if count > 1 else ''} that no bootstrap wrote" if found.foreign
                else f"the {count} conversation{'s' if count > 1 else ''} of a bootstrap that is finished")
        raise Failure("conflict", f"the registry holds {what}; nothing was imported",
                      "one at a time, at any time: ask-gpt bootstrap-registry --conversation ID|URL")


def begun(account: str, mark: float | None) -> dict[str, Any]:
    return {MARKER: "begun", "account": account, "mark": None if mark is None else rfc3339(mark)}


def finished(account: str, *, listed: int | None, total: int | None, complete: bool) -> dict[str, Any]:
    return {MARKER: "finished", "account": account, "listed": listed, "total": total, "complete": complete}


def rows(known: Mapping[str, Conversation], items: Sequence[Listed], account: str, site: str, origin: str = ORIGIN) -> list[dict[str, Any]]:
    """The records that these items add: of those that are not known, and of those whose title the site has changed.

    In the list's order: of a few records a crash may leave the first alone, and what is known must stay one piece of the list.
    A real title is never replaced by none (RG-06); an id of another account fails closed (RG-03).
    """
    out: dict[str, dict[str, Any]] = {}
    for item in items:
        old = known.get(item.conversation_id)
        if old is not None and old.account != account:
            raise Failure("state-corrupt", f"conversations.jsonl gives conversation {item.conversation_id} to account {old.account}, and "
                          f"the site lists it for {account}; nothing was written",
                          "look at that record; ask-gpt refuses to guess whose it is")
        if old is None:
            new = Conversation(account, item.conversation_id, item.title or "", f"{site}/c/{item.conversation_id}", item.title is None,
                               _time(item.created_at), origin=origin)
            changed = _time(item.updated_at)
            out[item.conversation_id] = new.fields() if changed is None else {"at": changed, **new.fields()}
        elif item.title is not None and (old.provisional or old.title != item.title):
            out[item.conversation_id] = retitled(old, item.title).fields()
    return list(out.values())


def retitled(old: Conversation, title: str) -> Conversation:
    return replace(old, title=title, provisional=False)


def arranged(records: Records) -> list[Row] | None:
    """The same records with those of the bootstrap in the order of `list`, the newest change last; None where they stand so already.

    A list is read newest first and its pages are kept as they come, so they stand upside down until the end. Nothing is left out but older
    records of the same imported conversation. What others wrote meanwhile stands behind, in its order.
    """
    kept = [(seq, fields) for seq, fields in records if "format" not in fields]
    latest = {str(fields["conversation_id"]): seq for seq, fields in kept if fields.get("origin") == ORIGIN and "conversation_id" in fields}
    block = [fields for seq, fields in kept if latest.get(str(fields.get("conversation_id"))) == seq]
    block.sort(key=lambda fields: epoch_seconds(fields.get("at")))
    heads = [fields for _, fields in kept if MARKER in fields]
    others = [fields for _, fields in kept if fields.get("origin") != ORIGIN and MARKER not in fields]
    order: list[Row] = [*heads, *block, *others]
    return None if order == [fields for _, fields in kept] else order


def _time(at: float | None) -> str | None:
    try:
        return None if at is None else rfc3339(at)
    except (ValueError, OverflowError, OSError):
        return None
