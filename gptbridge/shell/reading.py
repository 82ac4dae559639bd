"""`list` and `show`: what the registry and the logs say. No browser, no network, no config; nothing is changed but a copy that is stale.

A title is somebody else's text: it stands in one line, whatever it holds. Fails closed where a file of ours is damaged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from gptbridge.core import registry
from gptbridge.core.errors import Failure
from gptbridge.core.registry import Conversation, Glance
from gptbridge.shell.reply import Reply
from gptbridge.shell.requests import List, Show
from gptbridge.shell.store import Store
from gptbridge.shell.terminal import json_line, line_text, log_text, whole_text

if TYPE_CHECKING:
    from gptbridge.core.ledger import Operation
    from gptbridge.core.transcript import Block, Log

DEFAULT_LIMIT = 20
EXPORT = "conversations.jsonl"


def list_conversations(request: List, store: Store, tty: bool) -> Reply:
    """The newest N by their newest record, read from the end of the registry; `--export` means all of them unless N is given."""
    limit = request.limit if request.limit is not None else (0 if request.export else DEFAULT_LIMIT)

    def chosen() -> Iterator[Conversation]:
        found = registry.newest(store.registry.glances(), every_account=request.every_account, keep=_filter(request))
        return islice(found, limit or None)

    if not request.export:
        found = list(chosen())
        lines = "".join(f"{c.conversation_id}\t{line_text(c.title, tty)}\n" for c in found)
        reply = Reply("list", lines.encode("utf-8", "surrogatepass"), more=lambda: _documents(found))
    else:
        path = _export(chosen())
        reply = Reply("list", f"Log: {path}\n".encode(), log=path, more=lambda: _documents(chosen()))
    reply.warnings = _registry_remarks(store)
    return reply


def _documents(found: Iterable[Conversation]) -> dict[str, Any]:
    return {"conversations": [conversation.document() for conversation in found]}


def _registry_remarks(store: Store) -> list[str]:
    """What was seen of damage while reading; the file as a whole is checked before it is written to."""
    said = []
    if store.registry.skipped:
        said.append(f"conversations.jsonl: {store.registry.skipped} damaged line(s) were left out; nothing is written to it")
    if store.registry.torn_size():
        said.append(f"conversations.jsonl ends in {store.registry.torn_size()} bytes of an unfinished record; the next writer seals them")
    return said


def _filter(request: List) -> Callable[[Glance], bool] | None:
    tests: list[Callable[[Glance], bool]] = []
    if request.search is not None:
        try:
            with warnings.catch_warnings():  # Python's own remarks on a pattern are no output of ours
                warnings.simplefilter("ignore")
                tests.append(registry.title_filter(request.search))
        except (OverflowError, RecursionError, ValueError):
            raise Failure("usage", "--search: that pattern is too large; nothing was done", "give a shorter pattern") from None
    if request.since is not None:
        since = request.since
        tests.append(lambda found: _changed(found) >= since)
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda found: all(test(found) for test in tests)


def _changed(found: Glance) -> float:
    """Epoch seconds of the newest record; a time that cannot be read counts as now, so that nothing is hidden."""
    try:
        at = datetime.fromisoformat(found.at or "")
        return at.timestamp() if at.tzinfo is not None else float("inf")
    except ValueError:
        return float("inf")


def _export(conversations: Iterator[Conversation]) -> str:
    """Written as it is read: the file may be larger than memory."""
    from gptbridge.edge.copies import FOLDER, CopyFolder

    said: list[str] = []
    unread: list[Failure] = []

    def chunks() -> Iterator[bytes]:
        try:
            while part := list(islice(conversations, 4096)):
                yield b"".join(json_line(conversation.document()) for conversation in part)
        except Failure as failure:
            unread.append(failure)
            raise

    if not CopyFolder.here(said.append).replace(EXPORT, chunks()):
        if unread:
            raise unread[0]
        why = "; ".join(said) or "it cannot be written"
        raise Failure("state-unwritable", f"./{FOLDER}/{EXPORT} was not written: {why}", f"look at ./{FOLDER}, or run it in another folder")
    return f"./{FOLDER}/{EXPORT}"


def show(request: Show, store: Store, tty: bool) -> Reply:
    """The log's own text, one turn of it, or one plain text of a turn (of the last one, where none is named)."""
    from gptbridge.core import transcript
    from gptbridge.core.result import turn_document

    name, operation = _log_of(request.reference, store)
    data = store.logs.raw(name)
    if data is None:
        registered = store.registry.get(name)
        what = "has no log yet" if registered is not None else "is not known here"
        raise Failure("bad-input", f"conversation {name} {what}; nothing was done",
                      f"ask-gpt resume {name} reads it" if registered is not None else
                      f"begun elsewhere? ask-gpt bootstrap-registry --conversation {name}")
    log = transcript.parse(data)
    answering = log.torn and _is_held(name, store)
    log = transcript.told(log, answering=answering)
    turns = transcript.turns(log)
    block = _turn(request, turns, log, operation)
    if request.part is not None:
        out = whole_text(_part(request.part, block), tty)
    elif request.turn is not None and block is not None:
        out = log_text(data[block.start:block.stop].removeprefix(b"\n"), tty)
    else:
        out = log_text(_without_hidden(data, log, turns), tty)
    reply = Reply("show", out, block=block, site=_site(name, log))
    reply.extra["turns"] = [turn_document(turn) for turn in (turns if request.turn is None else [block] if block else [])]
    reply.conversation = store.registry.get(name) or _from_header(name, log)
    reply.warnings = [f"{name}.log, line {problem.line}: {problem.what}" for problem in log.problems[:5]]
    if answering:
        reply.warnings.append(f"turn {log.blocks[-1].number} is still being answered; ask-gpt resume {name} follows it")
    else:
        _mend_copy(name, data, store, reply.warnings)
    reply.log, reply.log_canonical = store.copy_path(name), store.home.shown(f"logs/{name}.log")
    return reply


def _is_held(name: str, store: Store) -> bool:
    """Whether a worker of ours holds that conversation; where its lock cannot be looked at, nobody is known to."""
    try:
        return store.home.locks is not None and store.home.locks.is_held(name)
    except (Failure, OSError):
        return False


def _mend_copy(name: str, data: bytes, store: Store, warnings: list[str]) -> None:
    """A copy of that log which lies in this folder and is behind is brought up to it (its worker does that itself while it lives)."""
    from gptbridge.edge.copies import CopyFolder
    from gptbridge.edge.logs import LogFiles

    LogFiles(store.home, CopyFolder.here(warnings.append)).repair_copy(name, data)


def _log_of(text: str, store: Store) -> tuple[str, Operation | None]:
    """The log's name, and the operation that was named, if one was."""
    from gptbridge.flow.recording import log_name
    from gptbridge.shell import resolve

    found = resolve.reference(text, store)
    if found.operation_id is not None:
        operation = resolve.known_operation(found.operation_id, store)
        name = log_name(operation)
        if store.logs.raw(name) is None:
            raise Failure("bad-input", f"operation {operation.operation_id} has no log; nothing was done",
                          f"ask-gpt ops show {operation.operation_id}")
        return name, operation
    assert found.conversation_id is not None
    return found.conversation_id, None


def _turn(request: Show, turns: list[Block], log: Log, operation: Operation | None) -> Block | None:
    from gptbridge.flow.logged import turn_of

    if isinstance(request.turn, int):
        block = next((turn for turn in reversed(turns) if turn.number == request.turn), None)
        if block is None:
            last = f"its last turn is {turns[-1].number}" if turns else "it holds no turn"
            raise Failure("bad-input", f"the log has no turn {request.turn} to show; {last}", "--turn last")
        return block
    if operation is not None and request.turn is None:
        return turn_of(log, operation)
    if not turns and (request.turn is not None or request.part is not None):
        raise Failure("bad-input", "the log holds no turn", "without --turn and a part the whole log is shown")
    return turns[-1] if turns else None


def _part(part: str, block: Block | None) -> str:
    text = block.section(part) if block is not None else None
    if text is None and part == "thinking" and block is not None and block.state == "completed":
        return ""  # known to be empty
    if text is None and block is not None and block.state == "answering":
        raise Failure("bad-input", f"turn {block.number} is still being answered; it has no {part} yet", "ask-gpt resume ID follows it")
    if text is None:
        raise Failure("bad-input", f"turn {block.number} has no {part}" if block is not None else f"there is no {part}",
                      "without a part the turn's whole block is shown")
    return text


def _without_hidden(data: bytes, log: Log, turns: list[Block]) -> bytes:
    """The file as it is, but for turns that a later one supersedes."""
    kept = {turn.start for turn in turns}
    out, at = [], 0
    for block in log.blocks:
        if block.kind == "turn" and block.start not in kept:
            out.append(data[at:block.start])
            at = block.stop
    return b"".join([*out, data[at:]])


def _site(name: str, log: Log) -> str | None:
    """The site that the log's header names; the ledger is not asked, since a damaged one must not hide a log."""
    url, end = log.header.get("url", ""), f"/c/{name}"
    return url.removesuffix(end) if url.endswith(end) else None


def _from_header(name: str, log: Log) -> Conversation | None:
    """A conversation that only its log knows."""
    from gptbridge.core.operation import is_conversation_id

    if not is_conversation_id(name):
        return None
    return Conversation(log.header.get("account", ""), name, "", log.header.get("url"))
