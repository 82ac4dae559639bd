"""The front: the process that the user sees. It forks the worker, shows its events, passes on what the user says, and reports the end.

It forks before any lock, thread or browser. What it reports at the end it reads from ledger and log, so it says the same whether the
worker told it, died, or goes on without it. The front holds no lock while the worker lives: killing it frees nothing and loses nothing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

from gptbridge.core import brought
from gptbridge.core.errors import Failure
from gptbridge.core.operation import check_form
from gptbridge.core.result import Outcome
from gptbridge.core.turn import TurnState
from gptbridge.edge.config import Config, load
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.descriptors import readable
from gptbridge.edge.host import Host
from gptbridge.flow import logged, recording
from gptbridge.flow.reporting import outcome_of, warnings_of
from gptbridge.shell import known, worker
from gptbridge.shell.ending import report
from gptbridge.shell.job import Job, Output
from gptbridge.shell.resolve import folder_digest
from gptbridge.shell.terminal import Terminal, line_text
from gptbridge.shell.viewing import viewer_for
from gptbridge.shell.wiring import Files, Nobody, NoBrowser, OpenBrowser, desk, files

RECEIPT_S = 60.0  # --wait 0 leaves at the receipt, at the latest this long after dispatch
STOP_S = 20.0  # how long the front waits for its worker to record a stop, or that its time is over
READ_S = 120.0  # how long reading one conversation back may take at most
CODES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def run(job: Job, output: Output, *, env: Mapping[str, str] | None = None, open_browser: OpenBrowser | None = None) -> int:
    """Every command that a worker does. The exit code; all printing is done here."""
    env = dict(os.environ) if env is None else env
    try:
        config = load(env, wait=job.wait, queue_wait=job.queue_wait)
        host = Host(env)
        operation_id = (job.operation_id or host.ulid()) if job.sends else None
        if operation_id is not None:
            check_form(operation_id)  # its age is judged where it is looked up: of a known one it does not count (AD-34)
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
    for file in job.files:
        file.hand_over()
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
        self._turn = TurnState("response_done" if job.command == "download-attachments" else "attaching")
        watches = job.command in ("send", "resume", "download-attachments")
        self._viewer = viewer_for(output, self._terminal, sends=job.sends, watches=watches, now=time.monotonic)
        self._buffer = b""
        self._end: dict[str, Any] | None = None
        self._admitted = False
        self._dispatched_at: float | None = None
        self._epoch = ""  # of the worker's owner slot
        self._shown: set[str] = set()
        self._warnings: list[str] = []
        self._signal: int | None = None
        self._asked_at: float | None = None
        self._begun = self._heard = time.monotonic()
        self._wake, self._woken = os.pipe()

    def run(self) -> int:
        try:
            with self._signals():
                slug = self._watch()
            if self._end is None:  # from here on its worker has no front
                self._sock.close()
            code = self._report(slug)
            with suppress(OSError):
                self._sock.sendall(b"told\n")  # whoever is killed before this has told nobody
            return code
        finally:
            self._sock.close()
            self._viewer.close()

    # While the worker works

    def _watch(self) -> str | None:
        """Until the worker says its end, dies, or the caller's patience is over; the slug that patience gives, else None."""
        while self._end is None:
            tick = self._viewer.tick(self._turn)
            if self._signal is not None and self._leaves_by_signal():
                return CODES[signal.Signals(self._signal)]
            if self._patience_is_over():
                return ""
            if self._stands_still():
                return "busy"
            ready = readable((self._sock.fileno(), self._wake), self._timeout(tick))
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
        self._heard = time.monotonic()
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._event(json.loads(line))
        return bool(data)

    def _event(self, event: dict[str, Any]) -> None:
        if not self._admitted and self._id is not None and event.get("operation_id") == self._id:
            self._admitted = True  # by the first event that names it, before anything else is said of it
            self._terminal.say(f"operation: {self._id}")
        match event:
            case {"type": "ratelimit", "wait_s": wait}:
                self._say(f"rate-limit: waiting {wait:.0f}s before dispatch")
            case {"type": "meta", "conversation_id": conversation_id}:
                self._say(f"resume: ask-gpt resume {conversation_id}")
            case {"type": "state", "state": "dispatched" | "accepted"} if self._job.sends:
                self._dispatched_at = self._dispatched_at or time.monotonic()
            case {"type": "worker", "epoch": epoch}:
                self._epoch = epoch
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
                pass  # what only a viewer shows
        self._turn.take(event)
        self._viewer.take(event, self._turn)

    def _say(self, text: str) -> None:
        if text not in self._shown:
            self._shown.add(text)
            self._terminal.note(text)

    def _file(self, line: str) -> None:
        self._say(line)

    # Patience and signals

    def _timeout(self, tick: float | None) -> float | None:
        ends = (self._patience_end(), self._standstill_end(), None if self._asked_at is None else self._asked_at + STOP_S)
        left = [*(end - time.monotonic() for end in ends if end is not None), *([tick] if tick is not None else [])]
        return max(min(left), 0.0) if left else None

    def _patience_end(self) -> float | None:
        if self._dispatched_at is None:
            return None
        wait = self._config.settings.wait
        if wait == 0.0:
            accepted = self._turn.row == "accepted" and self._turn.conversation_id is not None  # whoever leaves then can name it
            return self._dispatched_at if accepted else self._dispatched_at + RECEIPT_S
        return self._dispatched_at + wait

    def _standstill_end(self) -> float | None:
        """A worker ends in time by itself. One that is stopped (SIGSTOP) or hangs is not waited for longer than its bound and a moment."""
        settings = self._config.settings
        if self._job.sends:
            return None if self._dispatched_at is not None else self._begun + settings.queue_wait + STOP_S
        if self._job.command == "resume":
            return self._begun + settings.wait + READ_S
        return self._heard + settings.queue_wait + READ_S

    def _stands_still(self) -> bool:
        end = self._standstill_end()
        return end is not None and time.monotonic() >= end

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
            outcome = Outcome(self._job.command, "uncertain", failure, operation_id=self._id) if sent else known.outcome_after(
                self._job, self._env, failure)
        outcome.warnings = [*self._warnings, *(w for w in outcome.warnings if w not in self._warnings)]
        return report(outcome, self._output, site=self._config.settings.site, said=self._shown, terminal=self._terminal, turn=self._turn,
                      viewer=self._viewer, patience=slug is not None)

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
        if slug and self._dispatched_at is None:
            self._abandon(slug)
        view = None if failure is not None and not self._admitted else found.ledger.view()
        op = view.get(self._id) if view is not None else None
        if op is None:
            failure = failure or (self._left(slug) if slug else Failure(
                "browser", "the worker ended before the operation was admitted; nothing was sent", "run it again"))
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
            failure = failure or (self._left(slug) if slug else Failure("browser", "the worker ended before it had read the page",
                                                                        "run it again"))
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

    def _left(self, slug: str) -> Failure:
        """Why a worker that does not answer is left."""
        what = {"interrupted": "interrupted", "terminated": "terminated"}.get(slug, "the time to wait is over")
        return Failure(slug, f"{what}, and the worker (process {self._pid}) does not answer; nothing was sent",
                       f"kill -CONT {self._pid} wakes one that was stopped, kill {self._pid} ends it; then run it again")

    def _abandon(self, slug: str) -> None:
        """A worker that has not said its end may wake up later: it must find that nobody waits, before this process says that nothing left.
        Where even that cannot be recorded (the worker holds the ledger), it is not known."""
        from gptbridge.flow.custody import Custody, Refused

        w, _ = desk(self._env, purpose="ask-gpt (leaving)")
        try:
            Custody(w).abandon(str(self._id), self._epoch, self._left(slug))
        except Refused:
            pass  # not admitted yet: when it is, its first step sees that its front is gone

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
