"""What a browser-using command was asked to do, parsed and checked, before any process is forked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gptbridge.core.operation import NEW, Payload

if TYPE_CHECKING:
    from gptbridge.edge.given_files import GivenFile


@dataclass(frozen=True, slots=True)
class Job:
    """What one command that uses a browser is to do. Durations in seconds, None = configured default. Exactly as resolved: ids are whole,
    lower case.

    prompt None without files: `resume` reads back. `files` are open, and the worker's to read. `conversation_id` and `operation_ref`
    exclude each other; both None means a new conversation, and of `bootstrap-registry` the whole list.
    model, effort: the site's words; "" = whatever the page has, None = configured default. again: also what equals an operation of
    unknown fate. offline, stale_after: of `sweep` alone.
    """

    command: Literal["send", "resume", "sweep", "bootstrap-registry", "download-attachments"]
    prompt: str | None = None
    conversation_id: str | None = None
    operation_ref: str | None = None
    operation_id: str | None = None
    wait: float | None = None
    queue_wait: float | None = None
    again: bool = False
    offline: bool = False
    stale_after: float | None = None
    files: tuple[GivenFile, ...] = ()
    model: str | None = None
    effort: str | None = None

    def payload(self, model: str | None, effort: str | None) -> Payload:
        """What is to be sent; `model` and `effort` stand in for what was not said."""
        chosen = [given if said is None else said for said, given in ((self.model, model), (self.effort, effort))]
        return Payload(self.prompt, self.conversation_id or NEW, model=chosen[0] or None, effort=chosen[1] or None)

    @property
    def sends(self) -> bool:
        return self.prompt is not None or bool(self.files)


@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks. On standard output: the answer, or one JSON line, or events (NDJSON), or the text as it comes (`live`); at most
    one of them is given. `quiet`: nothing on standard error but errors and the operation's id."""

    json: bool = False
    quiet: bool = False
    events: bool = False
    live: bool = False
