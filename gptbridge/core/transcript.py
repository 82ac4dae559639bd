"""The Markdown log of a conversation: what it looks like is known here and in the modules that this one gathers, and nowhere else.

    log_header  the YAML header            log_block   how a block is written
    escape      visible escapes            log_read    how a log is read
    rawhtml     which `<` is disarmed      log_repair  how a torn end is closed

Bytes in, bytes out; pure. Reading never raises; writing raises ValueError for a value that could be taken for structure.
To append: `tail_from_end` of the last 1,024 bytes, or of more where those do not tell; truncate to `keep`, append `seal`, append
`Tail.block(...)`. A block that takes long is begun with `Tail.opening(...)`, and closed by what `Tail.block(...)` has behind that.
"""

from __future__ import annotations

from gptbridge.core.escape import unescape, visible
from gptbridge.core.log_block import (
    Block,
    Kind,
    Section,
    close_block,
    is_crlf,
    last_of_other,
    open_block,
    open_section,
    quote,
    render_block,
    render_section,
)
from gptbridge.core.log_header import FORMAT, header, is_newer
from gptbridge.core.log_read import Log, Problem, parse
from gptbridge.core.log_repair import Tail, loses, seal, tail, tail_from_end, told, turns

__all__ = [
    "FORMAT",
    "Block",
    "Kind",
    "Log",
    "Problem",
    "Section",
    "Tail",
    "close_block",
    "header",
    "is_crlf",
    "is_newer",
    "last_of_other",
    "loses",
    "open_block",
    "open_section",
    "parse",
    "quote",
    "render_block",
    "render_section",
    "seal",
    "tail",
    "tail_from_end",
    "told",
    "turns",
    "unescape",
    "visible",
]
