"""How a sweep is told: the uncertain operations, a line for each, then one line of counts; or the document of `--json`.

The work is the worker's; this front shows its end. Exit 0; 3 when something needs a person; the site's or a file's own no before that,
since then not everything was looked at. With `-q` standard output stays empty when there is nothing to say.
"""

from __future__ import annotations

from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.result import Outcome
from gptbridge.flow.upkeep import age_text
from gptbridge.shell.ending import report
from gptbridge.shell.front import Front
from gptbridge.shell.terminal import exact, line_text

FEW = 5
ELSEWHERE = "another sweep is running; nothing was done here"


class SweepFront(Front):
    """Waits for the worker as every front does; a signal stops the sweep and keeps what it did."""

    def _report(self, slug: str | None) -> int:
        end = self._end or {}
        if "counts" not in end:
            failure = Failure(end["slug"], end["message"], end.get("hint", "")) if "message" in end else None
            if failure is None and slug:
                failure = Failure(slug, "the sweep was stopped; what it did stands", "run it again")
            failure = failure or Failure("browser", "the sweep's process ended before its end; what it did stands", "run it again")
            return report(Outcome("sweep", failure.slug, failure, warnings=self._warnings), self._output, said=self._shown)
        return self._tell(end)

    def _tell(self, end: dict[str, Any]) -> int:
        failure = Failure(end["slug"], end["message"], end.get("hint", "")) if "message" in end else None
        if end["slug"] == "findings":
            shows = [f"ask-gpt ops show {operation_id}" for operation_id in end["stale"][:FEW]]
            if shows:
                shows.append(f"what you saw settles it: ask-gpt ops resolve {end['stale'][0]} --sent (or --not-sent) --because TEXT")
            failure = Failure("findings", _findings(len(end["stale"]), len(end["strange"])), "\n".join([*end["strange"][:FEW], *shows]))
        # The first few stand in the error's hint, where `-q` leaves them; with another failure before it, nothing else says them.
        strange = end["strange"][FEW:] if end["slug"] == "findings" else end["strange"]
        warnings = [*self._warnings, *([ELSEWHERE] if end["elsewhere"] else []), *([end["busy"]] if end["busy"] else []), *strange]
        outcome = Outcome("sweep", end["slug"], failure, warnings=warnings,
                          extra={"sweep": {"counts": end["counts"], "rows": end["rows"]}})
        if not self._output.json and not end["elsewhere"] and (end["something"] or not self._output.quiet):
            lines = ["\t".join(self._row(row)) for row in end["rows"]] + [end["summary"]]
            self._terminal.put(exact("".join(line + "\n" for line in lines)))
        return report(outcome, self._output, said=self._shown, answer=False)

    def _row(self, row: dict[str, Any]) -> tuple[str, ...]:
        where = line_text(row["conversation_id"] or "new", self._terminal.tty)
        return row["operation_id"], row["state"], age_text(row["age_s"]), where, row["known"]


def _findings(stale: int, strange: int) -> str:
    said = []
    if stale:
        said.append(f"{stale} uncertain operation{'s' if stale > 1 else ''}")
    if strange:
        said.append(f"{strange} strange or damaged file{'s' if strange > 1 else ''} in the home")
    return f"{' and '.join(said)} need{'s' if stale + strange == 1 else ''} a person"
