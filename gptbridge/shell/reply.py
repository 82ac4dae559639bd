"""How a reading command answers: its bytes for standard output, or the facts of its `--json` document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptbridge.core.registry import Conversation
    from gptbridge.core.transcript import Block


@dataclass
class Reply:
    """`data` is what is printed without `--json`; `extra` the keys that the command adds to the document. `warnings` go to both."""

    command: str
    data: bytes = b""
    extra: dict[str, Any] = field(default_factory=dict)
    conversation: Conversation | None = None
    block: Block | None = None
    log: str | None = None
    log_canonical: str | None = None
    warnings: list[str] = field(default_factory=list)
    site: str | None = None
