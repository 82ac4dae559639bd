"""From a parsed `send` or `resume` to what the worker is asked to do: the prompt read, the conversation known, nothing forked or locked.

Guarantees: standard input is read for a prompt `-` and never otherwise; what cannot be sent is refused here, before any row.
"""

from __future__ import annotations

import os

from gptbridge.core.errors import Failure
from gptbridge.core.operation import is_operation_id
from gptbridge.shell import requests
from gptbridge.shell.job import Job
from gptbridge.shell.store import Store
from gptbridge.shell.terminal import Terminal

LONGEST_INPUT = 64 << 20
# What a page's `trim` takes for blank: white space and line ends of ECMAScript.
BLANKS = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def job(request: requests.Send | requests.Resume, store: Store, terminal: Terminal) -> Job:
    """The request with its prompt read and its conversation known, or the Failure that says why not; nothing is forked or locked yet."""
    kind = "resume" if isinstance(request, requests.Resume) else "send"
    if kind == "send" and not request.words:
        raise Failure("usage", "send needs a prompt; nothing was sent", "ask-gpt send PROMPT..., or `-` for standard input")
    if request.operation_id is not None and not request.words:
        raise Failure("usage", "--operation-id names a message, and there is none; nothing was sent", "give a prompt, or leave it away")
    if request.again and not request.words:
        raise Failure("usage", "--again goes with a message, and there is none; nothing was sent", "give a prompt, or leave it away")
    if request.words and all(not word for word in request.words):
        raise _empty()
    conversation_id: str | None = None
    operation_ref: str | None = None
    if isinstance(request, requests.Resume):
        try:
            conversation_id, operation_ref = _target(request, store, terminal)
        except Failure as failure:
            if request.operation_id is not None and is_operation_id(request.operation_id):
                store.operation(request.operation_id)  # `uncertain` where what became of it cannot be read
            raise failure from None
    prompt = _prompt(request.words) if request.words else None
    return Job(kind, prompt, conversation_id, operation_ref, request.operation_id, request.wait, request.queue_wait,  # type: ignore[arg-type]
               request.again)


def _target(request: requests.Resume, store: Store, terminal: Terminal) -> tuple[str | None, str | None]:
    from gptbridge.shell import resolve

    if request.reference is None:
        conversation_id, title = resolve.last(store)
        from gptbridge.shell.terminal import line_text

        terminal.note(f"last: {conversation_id}  {line_text(title, True)}".rstrip())
        return conversation_id, None
    found = resolve.reference(request.reference, store, config=True)
    if found.operation_id is None or not request.words:
        return found.conversation_id, found.operation_id
    try:
        return resolve.to_continue(resolve.known_operation(found.operation_id, store)), None
    except Failure as failure:
        if failure.slug != "uncertain":
            raise
        # What is not known is where to go on; of the new message it is known that it was not sent.
        raise Failure("state-corrupt", f"{failure.message}; nothing was sent", failure.hint) from failure


def _prompt(words: tuple[str, ...]) -> str:
    from gptbridge.core.operation import normalised

    text = normalised(_standard_input(), drop_final_newline=True) if words == ("-",) else normalised(" ".join(words))
    if not text:
        raise _empty()
    if not text.strip(BLANKS):
        # It is neither cut nor sent: the page's send button stays dead for such a text, which a run would find out after its click.
        raise Failure("bad-input", "the prompt holds nothing but blanks, which the page does not send; nothing was sent", "give a text")
    return text


def _empty() -> Failure:
    return Failure("usage", "the prompt is empty; nothing was sent", "give a text; to read an answer back, leave the prompt away")


def _standard_input() -> str:
    """All of it, strictly UTF-8."""
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := os.read(0, 1 << 20):
            chunks.append(chunk)
            size += len(chunk)
            if size > LONGEST_INPUT:
                raise Failure("bad-input", "standard input holds more than 64 MiB; nothing was sent", "give a shorter prompt")
        return b"".join(chunks).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure("bad-input", f"standard input is not valid UTF-8 (byte {error.start}); nothing was sent",
                      "give the prompt as UTF-8") from None
    except OSError as why:
        raise Failure("bad-input", f"standard input cannot be read: {why.strerror}; nothing was sent") from why
