"""How a reading command answers: its bytes for standard output, or the facts of its `--json` document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptbridge.core.errors import Failure
    from gptbridge.core.registry import Conversation
    from gptbridge.core.transcript import Block


@dataclass
class Reply:
    """`data` is what is printed without `--json`; `extra` the keys that the command adds to the document, `more` those that are made only
    where a document is asked for. `warnings` go to both. `failure`: what is shown is not all, and why; its exit code is the command's."""

    command: str
    data: bytes = b""
    extra: dict[str, Any] = field(default_factory=dict)
    conversation: Conversation | None = None
    block: Block | None = None
    log: str | None = None
    log_canonical: str | None = None
    warnings: list[str] = field(default_factory=list)
    site: str | None = None
    more: Callable[[], dict[str, Any]] = dict
    failure: Failure | None = None
