"""How `download-attachments` is told: a line for each file, then the document or the exit code.

The work is the worker's (flow/collecting.py); it ends with this front. Lines `saved:` and `present:` go to standard output as they come.
"""

from __future__ import annotations

from typing import Any

from gptbridge.core import brought
from gptbridge.core.errors import Failure
from gptbridge.core.result import Outcome
from gptbridge.edge.copies import CopyFolder
from gptbridge.shell.ending import report
from gptbridge.shell.front import Front
from gptbridge.shell.terminal import exact, line_text
from gptbridge.shell.wiring import files


class DownloadFront(Front):
    """Waits for the worker as every front does; a signal stops the work and keeps what is saved."""

    def _file(self, line: str) -> None:
        if not (self._output.json or self._output.events) and line not in self._shown:
            self._terminal.put(exact(line_text(line, self._terminal.tty) + "\n"))
        self._shown.add(line)

    def _report(self, slug: str | None) -> int:
        end: dict[str, Any] = self._end or {}
        failure = Failure(end["slug"], end["message"], end.get("hint", "")) if "message" in end else None
        if failure is None and "lines" not in end:
            kept = "; what was saved stays"
            failure = Failure("browser", "the worker ended before its end; nothing was sent" + kept, "run it again")
            if slug:
                failure = self._left(slug) if slug == "busy" else Failure(slug, "stopped; nothing was sent" + kept, "run it again")
        conversation_id = self._job.conversation_id
        came = brought.parse("\n".join(end.get("lines", ())))
        failure = failure or brought.missing(came, conversation_id)
        outcome = Outcome("download-attachments", failure.slug if failure is not None else "ok", failure, warnings=list(self._warnings),
                          files=came)
        if end.get("warning"):
            outcome.warnings.append(str(end["warning"]))
        try:
            found = files(self._env, copies=CopyFolder.here(lambda text: None))
            outcome.conversation = found.registry.get(conversation_id or "")
            outcome.log, outcome.log_canonical = found.logs.paths(conversation_id or "")
        except Failure:
            pass  # the end of the work is told all the same
        for one in came:
            if one.path is not None:
                self._file(f"{one.status}: {one.path}")
        if not came and failure is None:
            self._terminal.note("the conversation holds no file that the model made")
        return report(outcome, self._output, site=self._config.settings.site, said=self._shown, answer=False, terminal=self._terminal,
                      turn=self._turn)
