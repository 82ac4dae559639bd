"""What a log has of a conversation's turns: which stand there whole, which do not, and whose they are.

A turn is known by its native user message id, never by its place or its words; equal words are at most a hint to a person. Pure.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from gptbridge.core.conversation import SiteTurn
from gptbridge.core.ledger import Operation, View, epoch_seconds
from gptbridge.core.transcript import Block, Log

PLAIN = re.compile(r"[A-Za-z0-9._:-]{1,200}")
UNFINISHED = frozenset({"answering", "incomplete", "interrupted", "torn"})
REPLACED = frozenset({"failed", "stopped"})  # whole, but a person may have the page answer once more: the new answer takes their place
GONE_S = 86400.0  # no answer is written for a day
UNANSWERED_S = 600.0  # as the page itself: a prompt that is older than this and has no answer gets none


@dataclass(slots=True)
class Known:
    """What a log has of one prompt: its newest block, or its newest whole one, and how much it says; the native ids of the answers that
    stand there."""

    number: int
    state: str
    size: int
    replies: set[str]

    def lacks(self, turn: SiteTurn, unfinished: bool) -> bool:
        if self.state in UNFINISHED:
            said = (turn.user_text or "", turn.thinking, turn.answer or "")
            return not unfinished or (self.state in ("torn", "interrupted") and sum(map(len, said)) > self.size)
        if unfinished or turn.state == "answering" or turn.final_node_id is None or key_of(turn.final_node_id) in self.replies:
            return False
        return bool(self.replies) or (self.state in REPLACED and turn.state == "completed")


def known_turns(log: Log | None) -> dict[str, Known]:
    """By native id of the prompt, in lower case."""
    known: dict[str, Known] = {}
    for block in log.blocks if log is not None else ():
        key = (block.attr("user") or "").lower()
        if block.kind != "turn" or not key:
            continue
        size = sum(len(block.section(name) or "") for name in ("prompt", "thinking", "answer"))
        seen = known.setdefault(key, Known(block.number, block.state, size, set()))
        if block.state not in UNFINISHED or seen.state in UNFINISHED:
            seen.number, seen.state, seen.size = block.number, block.state, size
        if (reply := block.attr("reply")) is not None and block.state not in UNFINISHED:
            seen.replies.add(reply)
    return known


def is_unfinished(turn: SiteTurn) -> bool:
    """An answer whose prompt the site does not give now is no whole turn either."""
    return turn.state in UNFINISHED or turn.user_message_id is None or (turn.answer is None and turn.state == "empty")


def may_go_on(turn: SiteTurn, now: float) -> bool:
    """Whether more may come to the newest turn: its answer is being written, or a young prompt has none yet. The site keeps some replies
    that died as if they were being written for ever."""
    patience = GONE_S if turn.state == "answering" else UNANSWERED_S if turn.state == "empty" and turn.answer is None else 0.0
    return patience > 0.0 and (turn.at is None or now - turn.at < patience)


def replaced(log: Log) -> frozenset[str]:
    """The numbers of turns whose place a later one takes."""
    return frozenset(number for block in log.blocks if (number := block.attr("supersedes")) is not None)


def lacking(log: Log | None) -> tuple[int, ...]:
    """The numbers of the turns that stand there unfinished and have no whole one beside them."""
    if log is None:
        return ()
    known, gone = known_turns(log), replaced(log)
    open_ones = (b for b in log.blocks if b.kind == "turn" and b.state in UNFINISHED and str(b.number) not in gone)
    keyed = ((block.number, known.get((block.attr("user") or "").lower())) for block in open_ones)
    return tuple(number for number, seen in keyed if seen is None or seen.state in UNFINISHED)


def look_alikes(log: Log | None, op: Operation, view: View, since: float) -> tuple[int, ...]:
    """The numbers of turns with an operation's very text that nothing binds to any operation, from `since` (epoch seconds) on: hints for
    a person, and no proof of anything (HY-12)."""
    if log is None:
        return ()
    gone = replaced(log)
    free = (block for block in log.blocks if block.kind == "turn" and block.attr("op") is None and str(block.number) not in gone
            and epoch_seconds(block.at) >= since and view.by_message(block.attr("user") or "") is None)
    return tuple(block.number for block in free if (text := block.section("prompt")) is not None
                 and hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() == op.prompt_sha256)


def turn_of(log: Log | None, op: Operation) -> Block | None:
    """The block that holds an operation's turn: by its own id, else by its receipt; a whole one before an interrupted one."""
    turns = [block for block in (log.blocks if log is not None else ()) if block.kind == "turn"]
    own = [block for block in turns if block.attr("op") == op.operation_id]
    # Another answer to the same prompt, made by hand, is not what the operation was answered.
    found = own or [block for block in turns if (block.attr("user") or "").lower() in op.message_ids()]
    return next((block for block in reversed(found) if block.state not in UNFINISHED), found[-1] if found else None)


def plain(ident: str | None) -> str | None:
    return ident if ident and PLAIN.fullmatch(ident) else None


def key_of(ident: str) -> str:
    """How a native id is known in a log: lower case; one that is no plain word (the site gives none such) by its digest."""
    return ident.lower() if plain(ident) else "sha256." + hashlib.sha256(ident.encode("utf-8", "surrogatepass")).hexdigest()[:32]
