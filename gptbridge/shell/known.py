"""What is said of an operation whose id was given, when this run itself could do nothing: the band speaks of the operation.

A home that cannot be written, a configuration that cannot be used, a clock that was set back: none of it changes what became of a
message. Where the ledger says it, that is the outcome, with this run's own trouble as a warning; where the ledger cannot be read to look it
up, it is `uncertain`. Reads; changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.operation import Payload, is_expired, is_operation_id
from gptbridge.core.result import Outcome
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.host import Host
from gptbridge.flow import spooling
from gptbridge.flow.custody import conflict
from gptbridge.flow.reporting import outcome_of
from gptbridge.shell.job import Job
from gptbridge.shell.wiring import files

HOME_SLUGS = ("state-corrupt", "state-unwritable", "bad-config")


def outcome_after(job: Job, env: Mapping[str, str], failure: Failure) -> Outcome:
    """The outcome of a command that `failure` kept from doing anything; of a command that names no operation the failure itself."""
    given = job.operation_id or job.operation_ref
    plain = Outcome(job.command, failure.slug, failure)
    if given is None or not is_operation_id(given):
        return plain
    try:
        found = files(env, copies=CopyFolder.here(lambda text: None))
        found.ledger.check()
        view = found.ledger.view()
    except Failure as unreadable:
        return Outcome(job.command, "uncertain", unknown(given, unreadable), operation_id=given)
    op = view.get(given)
    if op is None and job.sends and is_expired(given, Host(env).wall(), view.floor):
        return Outcome(job.command, "uncertain", unknown(given, failure), operation_id=given)
    if op is None or (job.sends and op.sent == "no" and not (op.claimed or op.durable)):
        return plain  # nothing of it is for ever: this run's trouble is what keeps it from being sent
    try:
        if job.sends and op.fingerprint != _asked(job, op).fingerprint():
            raise conflict(given)
    except Failure as other:
        return Outcome(job.command, other.slug, other)
    outcome = outcome_of(job.command, op, found.ledger, found.logs, found.registry)
    outcome.warnings.append(failure.cause)  # its own word on what was sent is about this run, which did nothing
    return outcome


def _asked(job: Job, op: Operation) -> Payload:
    """The request as it would be admitted under that id: what it leaves out was settled then. Raises Failure for a file that cannot be
    read."""
    return replace(job.payload(op.model, op.effort), files=spooling.named(op, job.files, lambda: None))


def unknown(operation_id: str, why: Failure) -> Failure:
    return Failure("uncertain", f"whether operation {operation_id} ran before cannot be read: {why.message}", why.hint)
