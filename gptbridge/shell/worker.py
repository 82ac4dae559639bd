"""The worker: the process that does a browser-using command's work and goes on without its front.

A session of its own, working folder `/`, no terminal and no pipe of the caller, whatever their numbers; what it keeps of the caller is one
socket to the front, the descriptor of `./ask-gpt`, and the files to be sent. So killing the command, closing its terminal or ending a
pipeline never loses an answer (FW-01, FW-05).
It never returns: `os._exit` ends it, and a bug ends in a report file.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import World
from gptbridge.edge.config import Config
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.descriptors import readable, writable
from gptbridge.shell.job import Job
from gptbridge.shell.wiring import OpenBrowser, leave_browser, world

BACKLOG = 4 * 2**20  # bytes of events that are kept for a front that reads slowly
UNREAD = 64 * 2**10  # above it text that grows is told later
LAST_S = 2.0


class FrontSocket:
    """The Caller port: NDJSON events to the front, words from it. A front that is gone or slow never holds the worker up."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._gone = False
        self._wish: str | None = None
        self._terminated = False
        self._told = False
        self._unsent = b""
        sock.setblocking(False)

    def emit(self, event: Mapping[str, Any]) -> None:
        if len(self._unsent) < BACKLOG:  # a front that is stopped misses events; what counts it reads from ledger and log
            self._unsent += json.dumps(event).encode("ascii") + b"\n"
        self._flush()

    def last(self, event: Mapping[str, Any]) -> None:
        """The end, for which a front that listens is given a moment to take what came before."""
        self.emit(event)
        until = time.monotonic() + LAST_S
        while self._unsent and not self._gone and (left := until - time.monotonic()) > 0.0:
            writable(self._sock.fileno(), left)
            self._flush()

    def _flush(self) -> None:
        """As much as the socket takes now; a line that went half is finished before the next one begins."""
        try:
            while self._unsent and not self._gone:
                self._unsent = self._unsent[self._sock.send(self._unsent):]
        except BlockingIOError:
            pass
        except OSError:
            self._gone = True

    def keeps_up(self) -> bool:
        self._flush()
        return len(self._unsent) < UNREAD

    def gone(self) -> bool:
        self._listen()
        return self._gone

    def wants(self) -> str | None:
        self._listen()
        return "terminate" if self._terminated else self._wish

    def told(self) -> bool:
        """Whether the front told its own caller what became of the command. Waits as long as the front lives: it may be stopped, or write
        into a pager."""
        while not (self._told or self.gone() or self._terminated):
            if self._unsent:
                writable(self._sock.fileno(), 1.0)
                self._flush()
            else:
                readable((self._sock.fileno(),), 1.0)
        return self._told

    def terminated(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True

    def _listen(self) -> None:
        while not self._gone:
            try:
                data = self._sock.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._gone = True
            for word in data.decode("ascii", "replace").split():
                if word in ("interrupt", "terminate"):
                    self._wish = word
                self._told = self._told or word == "told"


def run(sock: socket.socket, job: Job, config: Config, env: Mapping[str, str], *, operation_id: str | None, folder: str | None,
        open_browser: OpenBrowser | None = None) -> None:
    """Called in the child right after the fork; does not return."""
    code = 1
    try:
        caller = FrontSocket(sock)
        _close_all_but({sock.fileno(), *(file.fileno() for file in job.files)})
        copies = _leave(caller, makes_copies=job.command in ("send", "resume", "download-attachments"))
        afterwards = ExitStack()  # what nobody waits for
        end = _work(caller, job, config, env, copies, operation_id, folder, open_browser, afterwards)
        caller.last({"type": "end", **end})
        code = 0
        afterwards.close()
    finally:
        os._exit(code)


def _close_all_but(kept: Collection[int]) -> None:
    """Of what was inherited. A pipe of the caller's that stays open here keeps whoever reads it waiting until this process ends."""
    try:
        found = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        found = list(range(min(os.sysconf("SC_OPEN_MAX"), 65536)))
    for fd in found:
        if fd > 2 and fd not in kept:
            with suppress(OSError):
                os.close(fd)


def _leave(caller: FrontSocket, *, makes_copies: bool) -> CopyFolder:
    """Out of the caller's session, terminal, pipes and folder, before anything else is opened."""
    os.setsid()
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, caller.terminated)
    copies = CopyFolder.here(lambda text: caller.emit({"type": "warning", "message": text}), makes=makes_copies)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    return copies


def _work(caller: FrontSocket, job: Job, config: Config, env: Mapping[str, str], copies: CopyFolder, operation_id: str | None,
          folder: str | None, open_browser: OpenBrowser | None, afterwards: ExitStack) -> dict[str, Any]:
    w: World | None = None
    try:
        w = world(env, config, caller, copies, purpose=f"ask-gpt {job.command}", open_browser=open_browser)
        afterwards.callback(w.ledger.keep)
        caller.emit({"type": "worker", "epoch": w.owner.epoch})
        if job.command == "sweep":
            return _sweep(w, job)
        if job.command == "bootstrap-registry":
            from gptbridge.shell import importing

            return importing.work(w, job)
        if job.command == "download-attachments":
            return _collect(w, job)
        if not job.sends:
            return _read_back(w, job)
        assert operation_id is not None
        afterwards.callback(_note_told, w, caller, operation_id)
        return _send(w, job, operation_id, folder)
    except Failure as failure:
        return {"slug": failure.slug, "message": failure.message, "hint": failure.hint}
    except Exception as error:
        from gptbridge.edge.reports import write_bug

        return {"slug": "bug", "message": write_bug(env, error), "hint": "please report it with that file"}
    finally:
        if w is not None:
            leave_browser(w, only_read=not job.sends)


def _send(w: World, job: Job, operation_id: str, folder: str | None) -> dict[str, Any]:
    from gptbridge.flow.custody import Custody
    from gptbridge.flow.submitting import submit

    op = w.ledger.view().get(operation_id)
    # Defaults were settled when it was admitted first: one that was changed since makes no other request of it (AD-16, AD-36).
    payload = job.payload(w.settings.model, w.settings.effort) if op is None else job.payload(op.model, op.effort)
    account = w.settings.account
    if account is None:
        known = w.registry.get(job.conversation_id) if job.conversation_id else None
        newest = next((fields.get("account") for _, fields in w.registry.newest_first() if "account" in fields), None)
        account = known.account if known is not None else newest
    submit(w, Custody(w), operation_id, payload, account=account, folder=folder, again=job.again, sources=job.files)
    return {}


def _note_told(w: World, caller: FrontSocket, operation_id: str) -> None:
    from gptbridge.flow.custody import Custody
    from gptbridge.flow.reporting import note_told

    note_told(w, Custody(w), operation_id, told=caller.told())


def _read_back(w: World, job: Job) -> dict[str, Any]:
    from gptbridge.flow.custody import Custody
    from gptbridge.flow.reading import read_back

    w.logs.prepare()
    found = read_back(w, Custody(w), conversation_id=job.conversation_id, operation_id=job.operation_ref)
    return {"slug": found.slug, "conversation_id": found.conversation_id, "user_message_id": found.user_message_id,
            "operation_id": found.operation.operation_id if found.operation else None, "warning": found.warning}


def _collect(w: World, job: Job) -> dict[str, Any]:
    from gptbridge.flow.collecting import of_conversation
    from gptbridge.flow.custody import Custody

    w.logs.prepare()
    assert job.conversation_id is not None
    found = of_conversation(w, Custody(w), job.conversation_id)
    return {"slug": "ok", "conversation_id": job.conversation_id, "lines": [one.line for one in found.files], "warning": found.warning}


def _sweep(w: World, job: Job) -> dict[str, Any]:
    from gptbridge.flow.custody import Custody
    from gptbridge.flow.upkeep import STALE_S, summary, sweep

    def heed() -> None:
        wish = w.caller.wants()
        if wish is not None or w.caller.gone():
            slug = "interrupted" if wish == "interrupt" else "terminated"
            raise Failure(slug, "the sweep was stopped; what it did stands", "run it again")

    stale_after = STALE_S if job.stale_after is None else job.stale_after
    found = sweep(w, Custody(w), offline=job.offline, stale_after=stale_after, heed=heed)
    end: dict[str, Any] = {"slug": "findings" if found.findings else "ok", "counts": found.counts, "rows": found.rows, "stale": found.stale,
                           "strange": found.strange, "summary": summary(found), "something": found.something, "elsewhere": found.elsewhere,
                           "busy": found.busy}
    if found.failure is not None:
        end |= {"slug": found.failure.slug, "message": found.failure.message, "hint": found.failure.hint}
    return end
