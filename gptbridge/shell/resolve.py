"""Which conversation or operation a person means: whole ids, their beginnings, URLs, operation ids, `--last`.

Guarantees: a beginning stands for an id only where exactly one fits; nothing is ever guessed and nothing made. Reads the registry and
the ledger, and only when the word alone does not say it. Fails closed: a word of no known form is `usage`, one that fits nothing, or
more than one, is `bad-input`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.operation import is_conversation_id, is_operation_id
from gptbridge.shell.arguments import SHORTEST, is_short_id, is_url, named, url_conversation
from gptbridge.shell.store import Store


@dataclass(frozen=True, slots=True)
class Reference:
    """Exactly one is set."""

    conversation_id: str | None = None
    operation_id: str | None = None


def reference(text: str, store: Store, *, config: bool = False) -> Reference:
    """What `ID|URL|OPERATION` names. With `config` the configured site's own URLs count too; else that of ASKGPT_SITE alone."""
    if is_operation_id(text):
        return Reference(operation_id=text)
    if is_conversation_id(text):
        return Reference(text)
    if is_url(text):
        found = url_conversation(text) or url_conversation(text, sites(store, config))
        if found is None:
            raise Failure("usage", "that is no URL of a conversation (https://chatgpt.com/c/ID); nothing was done", "ask-gpt list")
        return Reference(found)
    if is_short_id(text):
        return Reference(_only(text, store))
    if is_conversation_id(text.lower()) or is_short_id(text.lower()) or is_operation_id(text.upper()):
        raise Failure("usage", "that id is in the wrong case; nothing was done",
                      "conversation ids are lower case, operation ids upper case")
    raise Failure("usage", f"{named(text)} is no conversation id, no beginning of one ({SHORTEST} characters or more), no URL of one, and "
                  "no operation id; nothing was done", "ask-gpt list shows the ids; a new conversation: ask-gpt send PROMPT")


def conversation(text: str, store: Store, *, config: bool = False) -> str:
    """The value of --conversation."""
    found = reference(text, store, config=config)
    if found.conversation_id is None:
        raise Failure("usage", "--conversation takes a conversation, not an operation; nothing changed", "ask-gpt list shows the ids")
    return found.conversation_id


def sites(store: Store, config: bool) -> tuple[str, ...]:
    given = store.environ.get("ASKGPT_SITE")
    if given:
        return (given,)
    if not config:
        return ()
    from gptbridge.edge.config import load

    return (load(store.environ).settings.site,)


def _only(text: str, store: Store) -> str:
    fits = store.registry.beginning_with(text)
    if len(fits) == 1:
        return fits.pop()
    if not fits:
        raise Failure("bad-input", f"no known conversation begins with {text}; nothing was done",
                      "ask-gpt list 0 shows those that are known; give the whole id, or the URL, of another")
    raise Failure("bad-input", f"{len(fits)} conversations begin with {text}; nothing was done", "give more of the id")


def known_operation(operation_id: str, store: Store) -> Operation:
    found = store.operation(operation_id)
    if found is None:
        raise Failure("bad-input", f"operation {operation_id} is not in the ledger; nothing was done", "ask-gpt ops list")
    return found


def conversation_of(operation: Operation) -> str | None:
    """The conversation that an operation belongs to: where its turn is, or where it was to go."""
    return operation.conversation_id or (operation.target if operation.kind == "resume" else None)


def of_reference(text: str, store: Store) -> str:
    """The conversation that `ID|URL|OPERATION` names; for an operation the one that it belongs to."""
    found = reference(text, store, config=True)
    if found.conversation_id is not None:
        return found.conversation_id
    assert found.operation_id is not None
    return to_continue(known_operation(found.operation_id, store))


def to_continue(operation: Operation) -> str:
    """The conversation into which another message of a person goes, who named an operation of it."""
    found = conversation_of(operation)
    if found is None:
        if operation.sent == "no" and operation.ended:
            raise Failure("bad-input", f"operation {operation.operation_id} never left ({operation.state.value}) and has no conversation; "
                          "nothing was sent", "name the conversation (ask-gpt list shows the ids), or begin one: ask-gpt send PROMPT")
        raise Failure("bad-input", f"operation {operation.operation_id} has no conversation yet; nothing was sent",
                      f"ask-gpt resume {operation.operation_id}")
    return found


def folder_digest(path: str | None = None) -> str:
    """The name under which the ledger knows a working folder: a digest, since paths say who somebody is. Raises OSError."""
    return hashlib.sha256(os.fsencode(os.getcwd() if path is None else path)).hexdigest()


def last(store: Store) -> tuple[str, str]:
    """Conversation id and title of the newest operation that was started from this folder.

    The newest decides even where it has no conversation: going back to an older one would put the message where nobody meant it.
    """
    try:
        here = folder_digest()
    except OSError:
        raise Failure("bad-input", "the working folder is gone; nothing was done", "give the id instead of --last") from None
    mine = store.view.of_folder(here)
    if not mine:
        raise Failure("bad-input", "no operation was started from this folder; nothing was done", "ask-gpt list")
    conversation_id = to_continue(max(mine, key=lambda op: op.order))
    registered = store.registry.get(conversation_id)
    return conversation_id, registered.title if registered is not None else ""
