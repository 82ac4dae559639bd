"""What one intended send is: its id, its immutable payload, and the fingerprint that tells a retry from another request.

An operation id is a canonical upper-case ULID; its time part is the fence: older than 7 days and unknown is expired (it may have
run and been pruned), more than 5 minutes ahead is refused (it could outlive its own receipt). The fingerprint holds a version, the
kind, the target and the normalised fields, never facts of an execution (seat, pid, epoch, account), so a retry after a restart is no
conflict. Pure; raises `Failure` for what a caller gave.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Literal

from gptbridge.core.errors import Failure

Kind = Literal["new", "resume"]
KEEP_S = 7 * 86400
AHEAD_S = 5 * 60
NEW = "new"

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_CROCKFORD = {c: i for i, c in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
_CHOICE = re.compile("[a-z0-9][a-z0-9._-]{0,63}")
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")
_CONVERSATION = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class File:
    """An attachment as admitted: the original name, its size in bytes and the digest of what was read."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Payload:
    """What is to be sent, as admitted. `prompt` None is no text at all, "" is empty text; they are distinct requests.

    effort, model: words of the site, defaults already in place; None = whatever the page has, which nobody asked for."""

    prompt: str | None
    target: str = NEW
    files: tuple[File, ...] = ()
    effort: str | None = None
    model: str | None = None

    @property
    def kind(self) -> Kind:
        return "new" if self.target == NEW else "resume"

    @property
    def prompt_sha256(self) -> str | None:
        return None if self.prompt is None else hashlib.sha256(encoded(self.prompt)).hexdigest()

    def fingerprint(self) -> str:
        """64 hex digits over the normalised request, version 1."""
        body = {
            "v": 1, "kind": self.kind, "target": self.target, "prompt": self.prompt_sha256,
            "files": [[f.name, f.size, f.sha256] for f in self.files], "effort": self.effort, "model": self.model,
        }
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def choice(text: str) -> str:
    """The site's word for a model (its slug) or an effort, in lower case; "" is none: whatever the page has. Else ValueError."""
    word = text.lower()
    if word and not _CHOICE.fullmatch(word):
        raise ValueError("no word of the site")
    return word


def encoded(text: str) -> bytes:
    """UTF-8 of a text; a lone surrogate (which UTF-8 cannot hold) keeps its own three bytes, so every text has a digest."""
    return text.encode("utf-8", "surrogatepass")


def check_text(text: str) -> None:
    """Refuse (17) a prompt with a code point that no page can be given: its composer drops U+0000, and a lone surrogate has no place in
    the driver's UTF-8. All others arrive (measured in Chromium 156: every code point of the basic plane and samples beyond)."""
    found = _UNSENDABLE.search(text)
    if found:
        raise Failure("bad-input", f"character {found.start() + 1} of the prompt is U+{ord(found[0]):04X}, which no page takes as "
                      "text; nothing was sent", "leave it out, or write it in words")


def normalised(text: str, *, drop_final_newline: bool = False) -> str:
    """The newline rule of the contract: CRLF and CR become LF; of standard input one final LF is dropped; nothing else changes."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if drop_final_newline and text.endswith("\n") else text


def is_operation_id(text: str) -> bool:
    return _ULID.fullmatch(text) is not None


def is_conversation_id(text: str) -> bool:
    """8-4-4-4-12 lower-case hex, any version nibble: ids made since 2024 are no UUIDv4."""
    return _CONVERSATION.fullmatch(text) is not None


def time_of(operation_id: str) -> float:
    """Epoch seconds in the ULID's first 48 bits."""
    ms = 0
    for char in operation_id[:10]:
        ms = ms * 32 + _CROCKFORD[char]
    return ms / 1000


def check_form(operation_id: str) -> None:
    """Refuse (2) what is no canonical ULID."""
    if not is_operation_id(operation_id):
        raise Failure("usage", "the operation id is not a canonical 26-character upper-case ULID; nothing was sent",
                      "leave --operation-id away, or give a ULID")


def check_id(operation_id: str, now: float) -> None:
    """Refuse (2) for an unknown id what is no canonical ULID and what lies more than 5 minutes ahead of `now` (epoch seconds); exactly 5
    is allowed."""
    check_form(operation_id)
    if time_of(operation_id) > now + AHEAD_S:
        raise Failure("usage", "the operation id lies more than 5 minutes ahead of this clock; nothing was sent",
                      "check the clock, or make a new ULID")


def is_expired(operation_id: str, now: float, floor: float) -> bool:
    """An unknown id at or below the floor (epoch seconds of the newest id ever pruned) or older than 7 days (exactly 7 is allowed)."""
    at = time_of(operation_id)
    return at <= floor or at < now - KEEP_S


def draft_digest(text: str) -> str:
    """The digest by which a draft left in the composer is known as one of our own prompts."""
    return hashlib.sha256(encoded(text)).hexdigest()
