"""`ops stop`, `ops resolve`, `ops accept-loss`: what a person decides, written into the ledger. No browser is opened, no config is read
(but for the site of a home whose ledger names none any more), and a home that is not there is not made.

Fails closed: what the ledger does not hold is `bad-input`, what cannot be decided `conflict`; nothing is changed then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import rfc3339
from gptbridge.core.operation_document import operation_document
from gptbridge.core.ports import World
from gptbridge.flow import deciding
from gptbridge.flow.custody import Custody
from gptbridge.shell import resolve as references
from gptbridge.shell.operations import row_line
from gptbridge.shell.reply import Reply
from gptbridge.shell.requests import OpsAcceptLoss, OpsResolve, OpsStop
from gptbridge.shell.store import Store
from gptbridge.shell.wiring import desk

T = TypeVar("T")
# Of several operations of one conversation the word that leaves most to look at comes first.
LEDGER, REGISTRY = "ledger.jsonl", "conversations.jsonl"
WORDS = ("stop-unconfirmed", "stop-pressed", "stopped", "not-running")


def stop(request: OpsStop, store: Store) -> Reply:
    """Says one word; of a conversation a line for each operation, and as `stop` the first of `WORDS` that one of them has."""
    if request.operation_id is not None:
        operation_id = request.operation_id
        _known(store, operation_id)
        world, _ = desk(store.environ, purpose="ask-gpt ops stop")
        word, op = _waited(lambda: deciding.stop(world, Custody(world), operation_id))
        return Reply("ops", f"{word}\n".encode(), {"stop": word, "operations": [operation_document(op)]}, site=store.view.site)
    conversation_id = references.conversation(request.conversation or "", store)
    if not store.view.of_conversation(conversation_id):
        raise Failure("bad-input", f"no operation of conversation {conversation_id} is in the ledger; nothing changed", "ask-gpt ops list")
    world, _ = desk(store.environ, purpose="ask-gpt ops stop")
    stopped = _waited(lambda: deciding.stop_conversation(world, Custody(world), conversation_id))
    said = {word for word, _ in stopped}
    lines = "".join(f"{op.operation_id}\t{word}\n" for word, op in stopped) or "not-running\n"
    documents = [{**operation_document(op), "stop": word} for word, op in stopped]
    overall = next((word for word in WORDS if word in said), "not-running")
    return Reply("ops", lines.encode(), {"stop": overall, "operations": documents}, site=store.view.site)


def _waited(work: Callable[[], T]) -> T:
    try:
        return work()
    except KeyboardInterrupt:
        raise Failure("interrupted", "stopped waiting; a stop that was asked for stays asked for", "ask-gpt ops list") from None


def resolve(request: OpsResolve, store: Store, tty: bool) -> Reply:
    _known(store, request.operation_id)
    conversation_id = None if request.conversation is None else references.conversation(request.conversation, store)
    world, ledger = desk(store.environ, purpose="ask-gpt ops resolve")
    deciding.resolve(world, Custody(world), request.operation_id, sent=request.sent, because=request.because,
                     conversation_id=conversation_id)
    op = ledger.history(request.operation_id)
    assert op is not None
    return Reply("ops", row_line(op, tty).encode("utf-8", "surrogatepass"), {"operations": [operation_document(op, detail=True)]},
                 site=store.view.site)


def accept_loss(request: OpsAcceptLoss, store: Store) -> Reply:
    """Of ledger and stamp, which is what may have been sent; and of the registry, which is what the conversations are called."""
    nothing = Failure("conflict", "no record of ledger or registry is lost; nothing changed", "ask-gpt ops list")
    if not store.home.exists:
        raise nothing
    world, ledger = desk(store.environ, purpose="ask-gpt ops accept-loss")
    with world.locks.dispatch():  # no writer opens what is no regular file; of two who move, the second finds nothing
        moved = {name: aside for name in (LEDGER, REGISTRY) if (aside := world.strays.set_aside_foreign(name)) is not None}
    if stuck := [aside for aside in moved.values() if aside.now is None]:
        raise Failure("state-unwritable", f"{stuck[0].place} cannot be moved aside: {stuck[0].why}", f"move {stuck[0].place} away by hand")
    lost_rows = world.registry.accept_loss(request.because)
    lost_records = LEDGER in moved or ledger.is_damaged()
    if not lost_records and not lost_rows and not moved:
        raise nothing
    text = "".join(f"{name} was no regular file; it is now {aside.now} in {store.home.path}\n" for name, aside in moved.items())
    if lost_records:
        view = ledger.accept_loss(request.because, site=lambda: references.sites(store, config=True)[0])
        _give_up_stamp(world)
        Custody(world).recover()
        text += (f"the loss is accepted; new work waits until {rfc3339(view.loss_until)}\n"
                 "no operation id of before will be sent; look at what is uncertain: ask-gpt ops list --state uncertain\n")
    if REGISTRY in moved:
        text += "conversations that operations or logs name come back by ask-gpt sweep and ask-gpt resume ID\n"
    if lost_rows:
        text += ("the loss in conversations.jsonl is accepted; what is damaged stays in the file and is passed over\n"
                 "conversations that operations or logs name come back by ask-gpt sweep and ask-gpt resume ID\n")
    view = world.ledger.view()
    documents = [operation_document(op) for op in view.unresolved()] if lost_records else []
    return Reply("ops", text.encode(), {"operations": documents}, site=view.site)


def _give_up_stamp(world: World) -> None:
    """One that cannot be read goes with what was accepted; until the next dispatch the gap is kept by the ledger's own times."""
    with world.locks.dispatch():
        try:
            world.stamps.read("")
        except Failure:
            world.strays.set_aside("dispatch.stamp", "not readable")


def _known(store: Store, operation_id: str) -> None:
    if store.operation(operation_id) is None:
        raise deciding.unknown(store.view, operation_id)
