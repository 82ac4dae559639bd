"""From a parsed `send` or `resume` to what the worker is asked to do: the prompt read, the conversation known, nothing forked or locked.

Guarantees: standard input is read for a prompt `-` and never otherwise; what cannot be sent is refused here, before any row.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gptbridge.core.attachments import MOST
from gptbridge.core.errors import Failure
from gptbridge.core.operation import is_operation_id
from gptbridge.shell import requests
from gptbridge.shell.arguments import is_short_id, is_url
from gptbridge.shell.job import Job
from gptbridge.shell.store import Store
from gptbridge.shell.terminal import Terminal

if TYPE_CHECKING:
    from gptbridge.edge.given_files import GivenFile

STDIN_NAME = "stdin.txt"
LONGEST_INPUT = 64 << 20
# What a page's `trim` takes for blank: white space and line ends of ECMAScript.
BLANKS = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def job(request: requests.Send | requests.Resume, store: Store, terminal: Terminal) -> Job:
    """The request with its prompt read and its conversation known, or the Failure that says why not; nothing is forked or locked yet."""
    kind = "resume" if isinstance(request, requests.Resume) else "send"
    sends = bool(request.words or request.files)
    if kind == "send" and not sends:
        raise Failure("usage", "send needs a prompt; nothing was sent", "ask-gpt send PROMPT..., or `-` for standard input")
    if request.operation_id is not None and not sends:
        raise Failure("usage", "--operation-id names a message, and there is none; nothing was sent", "give a prompt, or leave it away")
    if request.again and not sends:
        raise Failure("usage", "--again goes with a message, and there is none; nothing was sent", "give a prompt, or leave it away")
    if (request.model is not None or request.effort is not None) and not sends:
        raise Failure("usage", "--model and --effort go with a message, and there is none; nothing was sent",
                      "give a prompt, or leave them away")
    if request.words and not request.files and all(not word for word in request.words):
        raise _empty(kind)
    _check_files(request)
    conversation_id: str | None = None
    operation_ref: str | None = None
    if isinstance(request, requests.Resume):
        try:
            conversation_id, operation_ref = _target(request, store, terminal)
        except Failure as failure:
            conversation_id = _admitted_target(request, store)
            if conversation_id is None or failure.slug == "usage":
                raise failure from None
    files = _opened(request)
    prompt = _prompt(kind, request.words, empty=bool(files)) if request.words else None
    return Job(kind, prompt, conversation_id, operation_ref, request.operation_id, request.wait, request.queue_wait,  # type: ignore[arg-type]
               request.again, files=files, model=request.model, effort=request.effort)


def _check_files(request: requests.Send | requests.Resume) -> None:
    """What the words alone say of the files; none is looked at."""
    streams = request.files.count("-")
    if request.stdin_name is not None and not streams:
        raise Failure("usage", "--stdin-name names the file of `-f -`, and there is none; nothing was sent", "-f - --stdin-name NAME")
    name = request.stdin_name
    if name is not None and (not name.strip() or "/" in name or name in (".", "..")):
        raise Failure("usage", "--stdin-name takes the name of a file, not a path; nothing was sent", "--stdin-name notes.txt")
    if streams > 1 or (streams and request.words == ("-",)):
        raise Failure("usage", "standard input can be read once: as the prompt or as one file; nothing was sent",
                      "ask-gpt send PROMPT... -f - < FILE")
    if "" in request.files:
        raise Failure("usage", "-f takes the path of a file; nothing was sent", "-f FILE")
    if len(request.files) > MOST:
        raise Failure("bad-input", f"{len(request.files)} files were given, and a message takes {MOST} at most; nothing was sent",
                      "send fewer, or one archive")


def _opened(request: requests.Send | requests.Resume) -> tuple[GivenFile, ...]:
    """The files, each open. One that is not there is an error, unless the operation may be a known one, which has its bytes."""
    if not request.files:
        return ()
    from gptbridge.edge.given_files import open_given, standard_input

    files = tuple(standard_input(request.stdin_name or STDIN_NAME) if path == "-" else open_given(path) for path in request.files)
    for file in files:
        if file.missing is not None and request.operation_id is None:
            raise file.missing
    return files


def _target(request: requests.Resume, store: Store, terminal: Terminal) -> tuple[str | None, str | None]:
    from gptbridge.shell import resolve

    if request.reference is None:
        conversation_id, title = resolve.last(store)
        from gptbridge.shell.terminal import line_text

        terminal.note(f"last: {conversation_id}  {line_text(title, True)}".rstrip())
        return conversation_id, None
    found = resolve.reference(request.reference, store, config=True)
    if found.operation_id is None or not (request.words or request.files):
        return found.conversation_id, found.operation_id
    try:
        return resolve.to_continue(resolve.known_operation(found.operation_id, store)), None
    except Failure as failure:
        if failure.slug != "uncertain":
            raise
        # What is not known is where to go on; of the new message it is known that it was not sent.
        raise Failure("state-corrupt", f"{failure.message}; nothing was sent", failure.hint) from failure


def _admitted_target(request: requests.Resume, store: Store) -> str | None:
    """Where a known operation went, if what was said names that place, though the home cannot tell any more what is meant (AD-18).
    `uncertain` where what became of it cannot be read."""
    if request.operation_id is None or not is_operation_id(request.operation_id):
        return None
    op = store.operation(request.operation_id)
    said = request.reference or ""
    if op is None or op.kind != "resume":
        return None
    same = op.target.startswith(said) if is_short_id(said) else is_url(said) and said.endswith(f"/c/{op.target}")
    return op.target if same else None


def _prompt(kind: str, words: tuple[str, ...], *, empty: bool) -> str:
    from gptbridge.core.operation import normalised

    text = normalised(_standard_input(), drop_final_newline=True) if words == ("-",) else normalised(" ".join(words))
    if not text and not empty:
        raise _empty(kind)
    if not text.strip(BLANKS):
        # It is neither cut nor sent: the page's send button stays dead for such a text, which a run would find out after its click.
        raise Failure("bad-input", "the prompt holds nothing but blanks, which the page does not send; nothing was sent", "give a text")
    return text


def _empty(kind: str) -> Failure:
    return Failure("usage", "the prompt is empty; nothing was sent",
                   "give a text" + ("; to read an answer back, leave the prompt away" if kind == "resume" else ""))


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
