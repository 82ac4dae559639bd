"""How an import of conversations that were begun elsewhere is run by its worker and told by its front.

The whole list: progress on standard error (`imported 300 of 1000`), one line on standard output at the end. A single conversation: its id,
TAB, title, as `list` says it. What ended early says what is kept; running the same command again goes on there.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import World
from gptbridge.core.registry import Conversation
from gptbridge.core.result import Outcome
from gptbridge.shell.ending import report
from gptbridge.shell.front import Front
from gptbridge.shell.job import Job
from gptbridge.shell.terminal import exact, line_text

STOPPED = "the import was stopped; what is imported stays"
AGAIN = "run it again: it goes on where it stopped"


def work(w: World, job: Job) -> dict[str, Any]:
    """By the worker: what its front is to tell."""
    def heed() -> None:
        wish = w.caller.wants()
        if wish is not None or w.caller.gone():
            raise Failure("interrupted" if wish == "interrupt" else "terminated", STOPPED, AGAIN)

    if job.conversation_id is not None:
        from gptbridge.flow.adopting import adopt

        single = adopt(w, job.conversation_id, heed=heed)
        return {"slug": "ok", "conversation": asdict(single.conversation), "new": single.new, "operations": list(single.operations)}
    from gptbridge.flow.importing import bootstrap

    found = bootstrap(w, heed=heed)
    end: dict[str, Any] = {"slug": "ok", "account": found.account, "warnings": found.warnings, "bootstrap": {
        "imported": found.imported, "conversations": found.conversations, "listed": found.listed, "total": found.total,
        "complete": found.complete}}
    if found.failure is not None:
        end |= {"slug": found.failure.slug, "message": found.failure.message, "hint": found.failure.hint}
    return end


class ImportFront(Front):
    """Waits for the worker as every front does; a signal stops the import and keeps what it did."""

    def _report(self, slug: str | None) -> int:
        end = self._end or {}
        failure = Failure(end["slug"], end["message"], end.get("hint", "")) if "message" in end else None
        if failure is None and slug:
            failure = Failure(slug, STOPPED, AGAIN)
        if failure is None and not end:
            failure = Failure("browser", "the process that imports ended before its end; what is imported stays", AGAIN)
        outcome = Outcome("bootstrap-registry", failure.slug if failure is not None else "ok", failure,
                          warnings=[*self._warnings, *end.get("warnings", [])])
        if "bootstrap" in end:
            outcome.extra |= {"account": end["account"], "bootstrap": end["bootstrap"]}
        if "conversation" in end:
            self._single(outcome, end)
        elif failure is None and not self._output.json:
            self._terminal.put(f"{end['bootstrap']['imported']} conversations imported\n".encode())
        return report(outcome, self._output, site=self._config.settings.site, said=self._shown, answer=False)

    def _single(self, outcome: Outcome, end: dict[str, Any]) -> None:
        known = Conversation(**end["conversation"])
        outcome.conversation, outcome.extra["conversations"] = known, [known.document()]
        outcome.extra["next"] = [["ask-gpt", "resume", operation] for operation in end["operations"]] or [
            ["ask-gpt", "resume", known.conversation_id]]
        if not self._output.json:
            self._terminal.put(exact(f"{known.conversation_id}\t{line_text(known.title, self._terminal.tty)}\n"))
        if not end["new"]:
            self._say("it was in the registry already")
        for operation in end["operations"]:
            self._say(f"it holds the message of an uncertain operation: ask-gpt resume {operation}")
