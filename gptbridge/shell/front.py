"""The front: the process that the user sees. It forks the worker, shows its events, passes on what the user says, and reports the end.

It forks before any lock, thread or browser. What it reports at the end it reads from ledger and log, so it says the same whether the
worker told it, died, or goes on without it. The front holds no lock while the worker lives: killing it frees nothing and loses nothing.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any

from gptbridge.core import brought
from gptbridge.core.errors import Failure
from gptbridge.core.operation import check_id
from gptbridge.core.result import Outcome, document
from gptbridge.edge.config import Config, load
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.host import Host
from gptbridge.flow import logged, recording
from gptbridge.flow.reporting import outcome_of, warnings_of
from gptbridge.shell import known, worker
from gptbridge.shell.job import Job, Output
from gptbridge.shell.resolve import folder_digest
from gptbridge.shell.terminal import Terminal, line_text
from gptbridge.shell.wiring import Files, Nobody, NoBrowser, OpenBrowser, files

RECEIPT_S = 60.0  # --wait 0 leaves at the receipt, at the latest this long after dispatch
STOP_S = 20.0  # how long the front waits for its worker to record a stop
CODES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def run(job: Job, output: Output, *, env: Mapping[str, str] | None = None, open_browser: OpenBrowser | None = None) -> int:
    """Every command that a worker does. The exit code; all printing is done here."""
    env = dict(os.environ) if env is None else env
    try:
        config = load(env, wait=job.wait, queue_wait=job.queue_wait)
        host = Host(env)
        operation_id = (job.operation_id or host.ulid()) if job.sends else None
        if operation_id is not None:
            check_id(operation_id, host.wall())
    except Failure as failure:
        return report(known.outcome_after(job, env, failure), output)
    try:
        folder: str | None = folder_digest()
    except OSError:
        folder = None  # the working folder was deleted: no copy, and no `--last` from it
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        worker.run(theirs, job, config, env, operation_id=operation_id, folder=folder, open_browser=open_browser)
    theirs.close()
    if job.command == "sweep":
        from gptbridge.shell.sweeping import SweepFront

        return SweepFront(job, output, config, env, ours, pid, None).run()
    if job.command == "bootstrap-registry":
        from gptbridge.shell.importing import ImportFront

        return ImportFront(job, output, config, env, ours, pid, None).run()
    if job.command == "download-attachments":
        from gptbridge.shell.downloading import DownloadFront

        return DownloadFront(job, output, config, env, ours, pid, None).run()
    return Front(job, output, config, env, ours, pid, operation_id).run()


class Front:
    def __init__(self, job: Job, output: Output, config: Config, env: Mapping[str, str], sock: socket.socket, pid: int,
                 operation_id: str | None) -> None:
        self._job, self._output, self._config, self._env = job, output, config, env
        self._sock, self._pid, self._id = sock, pid, operation_id
        self._terminal = Terminal(quiet=output.quiet)
        self._buffer = b""
        self._end: dict[str, Any] | None = None
        self._admitted = False
        self._dispatched_at: float | None = None
        self._accepted = False
        self._shown: set[str] = set()
        self._warnings: list[str] = []
        self._signal: int | None = None
        self._asked_at: float | None = None
        self._wake, self._woken = os.pipe()

    def run(self) -> int:
        with self._signals():
            slug = self._watch()
        self._sock.close()
        return self._report(slug)

    # While the worker works

    def _watch(self) -> str | None:
        """Until the worker says its end, dies, or the caller's patience is over; the slug that patience gives, else None."""
        while self._end is None:
            if self._signal is not None and self._leaves_by_signal():
                return CODES[signal.Signals(self._signal)]
            if self._patience_is_over():
                return ""
            ready = select.select([self._sock.fileno(), self._wake], [], [], self._timeout())[0]
            if self._wake in ready:
                os.read(self._wake, 512)
            if self._sock.fileno() in ready and not self._read():
                break
        return None

    def _read(self) -> bool:
        try:
            data = self._sock.recv(65536)
        except ConnectionResetError:
            data = b""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._event(json.loads(line))
        return bool(data)

    def _event(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "operation", "operation_id": operation_id}:
                if not self._admitted:
                    self._terminal.say(f"operation: {operation_id}")
                self._admitted = True
            case {"type": "ratelimit", "wait_s": wait}:
                self._say(f"rate-limit: waiting {wait:.0f}s before dispatch")
            case {"type": "meta", "conversation_id": conversation_id}:
                self._accepted = self._dispatched_at is not None
                self._say(f"resume: ask-gpt resume {conversation_id}")
            case {"type": "state", "state": "dispatched"}:
                self._dispatched_at = time.monotonic()
            case {"type": "warning", "message": message}:
                self._warnings.append(str(message))
                self._say(f"warning: {message}")
            case {"type": "upload", "file": file, "state": state}:
                self._say(f"upload: {line_text(str(file), True)} {state}")
            case {"type": "waiting" | "progress", "message": message}:
                self._say(str(message))
            case {"type": "download", "state": "saved" | "present" as state, "path": path}:
                self._file(f"{state}: {path}")
            case {"type": "progress", "file": name, "done": done, "size": size}:
                self._terminal.progress(progress_text(name, done, size))
            case {"type": "end"}:
                self._end = event
            case _:
                pass  # deltas of the answer: the log holds it whole

    def _say(self, text: str) -> None:
        if text not in self._shown:
            self._shown.add(text)
            self._terminal.note(text)

    def _file(self, line: str) -> None:
        self._say(line)

    # Patience and signals

    def _timeout(self) -> float | None:
        ends = [end - time.monotonic() for end in (self._patience_end(), None if self._asked_at is None else self._asked_at + STOP_S)
                if end is not None]
        return max(min(ends), 0.0) if ends else None

    def _patience_end(self) -> float | None:
        if self._dispatched_at is None:
            return None
        wait = self._config.settings.wait
        if wait == 0.0:
            return self._dispatched_at if self._accepted else self._dispatched_at + RECEIPT_S
        return self._dispatched_at + wait

    def _patience_is_over(self) -> bool:
        end = self._patience_end()
        return end is not None and time.monotonic() >= end

    def _leaves_by_signal(self) -> bool:
        """Before dispatch the worker is asked to stop and its word is awaited; after it the signal ends the caller's patience only."""
        assert self._signal is not None
        if self._dispatched_at is not None:
            return True
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            try:
                self._sock.sendall(b"interrupt\n" if self._signal == signal.SIGINT else b"terminate\n")
            except OSError:
                return False  # the worker is gone: its end is read next
        return time.monotonic() - self._asked_at >= STOP_S

    def _signals(self) -> Any:
        return _Handlers(self._got, self._woken)

    def _got(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or number

    # The end

    def _report(self, slug: str | None) -> int:
        try:
            outcome = self._outcome(slug)
        except Failure as failure:
            # A worker that died may have gone further than it could tell.
            sent = self._admitted and (self._dispatched_at is not None or self._end is None)
            outcome = Outcome(self._job.command, "uncertain", failure) if sent else known.outcome_after(self._job, self._env, failure)
        outcome.warnings = [*self._warnings, *(w for w in outcome.warnings if w not in self._warnings)]
        return report(outcome, self._output, site=self._config.settings.site, said=self._shown)

    def _outcome(self, slug: str | None) -> Outcome:
        end = self._end or {}
        failure = Failure(end["slug"], end["message"], end.get("hint", "")) if "message" in end else None
        died = self._end is None and slug is None
        if died:
            self._bury()
        if failure is not None and not self._admitted and failure.slug in self._elsewhere():
            return known.outcome_after(self._job, self._env, failure)
        found = files(self._env, copies=CopyFolder.here(lambda text: None))
        if self._id is None:
            return self._read_back(found, end, failure, slug)
        view = None if failure is not None and not self._admitted else found.ledger.view()
        op = view.get(self._id) if view is not None else None
        if op is None:
            failure = failure or Failure("browser", "the worker ended before the operation was admitted; nothing was sent", "run it again")
            return Outcome(self._job.command, failure.slug, failure)
        said = slug or (end.get("slug") if failure is not None else None) or None
        if failure is not None and op.error is not None and op.error["slug"] == failure.slug:
            said, failure = None, None
        if self._config.settings.copies and op.ended:
            found.logs.copy(recording.log_name(op))  # a replay from a folder that has no copy, or an old one (contract.md, Files)
        outcome = outcome_of(self._job.command, op, found.ledger, found.logs, found.registry, slug=said, failure=failure)
        if died and not op.ended:
            outcome.warnings.append("the worker process ended unexpectedly")
        return outcome

    def _elsewhere(self) -> Collection[str]:
        """Failures after which the ledger is asked what became of the operation that was named."""
        if self._job.operation_ref is not None:
            return (*known.HOME_SLUGS, "bad-input")  # not in the ledger: or in what the ledger lost
        return known.HOME_SLUGS if self._job.operation_id is not None else ()

    def _read_back(self, found: Files, end: dict[str, Any], failure: Failure | None, slug: str | None) -> Outcome:
        if failure is not None or "slug" not in end:
            said = slug or (failure.slug if failure is not None else "browser")
            failure = failure or (Failure("browser", "the worker ended before it had read the page", "run it again") if not slug else None)
            return Outcome(self._job.command, said, failure)
        view = found.ledger.view()
        op = view.get(end["operation_id"]) if end.get("operation_id") else None
        conversation_id = end.get("conversation_id")
        if conversation_id is None:
            assert op is not None
            return outcome_of(self._job.command, op, found.ledger, found.logs, found.registry)
        log = found.logs.read(conversation_id)
        wanted = (end.get("user_message_id") or "").lower()
        turns = [b for b in (log.blocks if log else ()) if b.kind == "turn" and (b.attr("user") or "").lower() == wanted]
        block = turns[-1] if turns and self._job.operation_ref is None else None
        if block is None and op is not None:
            block = logged.turn_of(log, op)
        copied, canonical = found.logs.paths(conversation_id)
        said = end["slug"]
        if said == "ok" and block is None:
            said = "answer-lost"
        warnings = [str(end["warning"])] if end.get("warning") else []
        warnings += warnings_of(block)
        files = brought.of_block(block)
        lost = brought.missing(files, conversation_id)
        if lost is not None:
            warnings.append(f"{lost.message}; {lost.hint}")
        return Outcome(self._job.command, said, None, op, block, found.registry.get(conversation_id), log=copied,
                       log_canonical=canonical, warnings=warnings, files=files)

    def _bury(self) -> None:
        """The worker died: recover its row now, holding its owner's slot, and say what became of it (FW-04)."""
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass
        from gptbridge.flow.custody import Custody
        from gptbridge.shell.wiring import world

        Custody(world(self._env, self._config, Nobody(), None, purpose="ask-gpt (recovering)",
                      open_browser=lambda *_: NoBrowser())).recover()


def progress_text(name: str, done: int, size: int | None) -> str:
    """How far a download is, for a line on a terminal."""
    part = f"{100 * done // size:3} % of {size / 1e6:.1f} MB" if size else f"{done / 1e6:.1f} MB"
    return f"{part}  {name}"


class _Handlers:
    """SIGINT and SIGTERM wake the loop; what was set before comes back at the end."""

    def __init__(self, got: Callable[[int, FrameType | None], None], wake_fd: int) -> None:
        self._got, self._wake_fd = got, wake_fd

    def __enter__(self) -> None:
        os.set_blocking(self._wake_fd, False)
        self._old_fd = signal.set_wakeup_fd(self._wake_fd, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, self._got) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)


def report(outcome: Outcome, output: Output, *, site: str = "https://chatgpt.com", said: Collection[str] = (),
           answer: bool = True) -> int:
    """Print the end of a command: the answer or the document on standard output, everything else on standard error.

    `said`: lines that were printed already.
    """
    terminal = Terminal(quiet=output.quiet)
    doc = document(outcome, site=site)
    if output.json:
        terminal.document(doc)
    elif doc["ok"] and answer:
        terminal.answer(doc["answer"] or "")
    if terminal.broken is not None and terminal.broken.errno != errno.EPIPE:
        terminal.say(f"ask-gpt: standard output could not be written ({terminal.broken.strerror}); what it was to hold is in the log")
    if doc["error"] is not None:
        terminal.error(doc["error"])
    for one in outcome.files:
        if one.status == "failed":
            terminal.say(f"failed: {one.name}: {one.error}")
        elif f"{one.status}: {one.path}" not in said:
            terminal.note(f"{one.status}: {one.path}")
    for warning in outcome.warnings:
        if f"warning: {warning}" not in said:
            terminal.note(f"warning: {warning}")
    for path in (outcome.log, outcome.log_canonical):
        if path is not None:
            terminal.note(f"Log: {path}")
    return int(doc["exit_code"])
