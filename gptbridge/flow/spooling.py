"""From the files that a caller gave to bytes in the spool, before anything is admitted; and what of the spool nobody needs any more.

A file is read once, and what was read is what is sent: its bytes are durable under their digest before the operation that names them is,
so later edits of the file, or its end, change nothing, and a retry of a known operation needs it no more: it stores nothing, and needs
no room for it. What a crash left between the two, no operation names, and the sweep drops it (RE-12, FA-05).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from gptbridge.core.attachments import MOST
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation, View
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import File, time_of
from gptbridge.core.ports import Source, World

ROOM_BYTES = 64 * 2**20  # what must be left where the ledger lies
Heed = Callable[[], None]


def spooled(w: World, operation_id: str, sources: Sequence[Source], heed: Heed) -> tuple[File, ...]:
    """The files, read; and stored, unless the operation has its own bytes or needs none any more. One that is not there any more is the one
    that the operation was admitted with, if it was.

    Raises Failure: bad-input (nothing there, no regular file, too large, changed while it was read), state-unwritable.
    """
    if len(sources) > MOST:
        raise Failure("bad-input", f"{len(sources)} files were given, and a message takes {MOST} at most; nothing was sent",
                      "send fewer, or one archive")
    known = w.ledger.view().get(operation_id)
    if known is None:
        return tuple(_stored(w, source, heed) for source in sources)
    may_be_sent = known.waiting or known.admissible
    if not may_be_sent or all(w.spool.holds(file["sha256"]) for file in known.files or ()):
        return named(known, sources, heed)
    return tuple(_stored(w, source, heed) if source.missing is None else _as_admitted(known, sources, at, source.missing)
                 for at, source in enumerate(sources))


def named(known: Operation, sources: Sequence[Source], heed: Heed) -> tuple[File, ...]:
    """What the files are, to compare them with those of a known operation; nothing is stored. One that cannot be read any more is the one
    that the operation was admitted with: its receipt does not depend on it (AD-18). Raises Failure("bad-input") if there is no such one."""
    return tuple(_digested(known, sources, at, heed) for at in range(len(sources)))


def _digested(known: Operation, sources: Sequence[Source], at: int, heed: Heed) -> File:
    size, digest = 0, hashlib.sha256()
    try:
        for chunk in sources[at].chunks(heed):
            size += len(chunk)
            digest.update(chunk)
    except Failure as failure:
        if failure.slug != "bad-input":
            raise  # nobody waits any more
        return _as_admitted(known, sources, at, failure)
    return File(sources[at].name, size, digest.hexdigest())


def _stored(w: World, source: Source, heed: Heed) -> File:
    def with_room() -> None:
        heed()
        if w.host.free_bytes() < ROOM_BYTES:
            raise Failure("state-unwritable", "less than 64 MiB are free where files are kept until they are sent; nothing was sent",
                          "make room")

    size, digest = w.spool.keep(source.chunks(with_room))
    return File(source.name, size, digest)


def _as_admitted(known: Operation, sources: Sequence[Source], at: int, why: Failure) -> File:
    """`why` it cannot be read itself."""
    files, name = known.files or [], sources[at].name
    if len(files) != len(sources) or files[at]["name"] != name:
        raise why
    return File(name, files[at]["size"], files[at]["sha256"])


def tidy(w: World) -> int:
    """Drop what no operation needs: bytes without an operation that may still be sent, folders of uploads that are over, prompts that were
    stored and never admitted. Under the ledger lock, where every admission looks once more for the bytes that it has stored."""
    count = 0

    def decide(view: View) -> list[dict[str, object]]:
        nonlocal count
        needed = {file["sha256"] for op in view.operations.values() if op.sent != "yes" and (not op.ended or op.admissible)
                  for file in op.files or ()}

        def uploading(operation_id: str) -> bool:
            op = view.get(operation_id)
            return op is not None and not op.ended and op.state is not State.UNCERTAIN and not w.owner.is_dead(op.epoch)

        def admitted(operation_id: str) -> bool:
            # A prompt at or below the floor may be of an operation that was pruned before its turn was in a log: that one is kept.
            return view.get(operation_id) is not None or time_of(operation_id) <= view.floor

        count = w.spool.tidy(digests=lambda digest: digest in needed, operations=uploading, prompts=admitted)
        return []

    w.ledger.transact(decide)
    return count
