"""From a parsed `send` or `resume` to what the worker is asked to do: the prompt read, the conversation known, nothing forked or locked.

Guarantees: standard input is read for a prompt `-` and never otherwise; what cannot be sent is refused here, before any row.
"""

from __future__ import annotations

import os

from gptbridge.core.errors import Failure
from gptbridge.shell import requests
from gptbridge.shell.job import Job
from gptbridge.shell.store import Store
from gptbridge.shell.terminal import Terminal

LONGEST_INPUT = 64 << 20


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
        conversation_id, operation_ref = _target(request, store, terminal)
    prompt = _prompt(request.words) if request.words else None
    return Job(kind, prompt, conversation_id, operation_ref, request.operation_id, request.wait, request.queue_wait,  # type: ignore[arg-type]
               request.again)
