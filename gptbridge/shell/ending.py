"""The end of a command: its answer, document or last event on standard output, everything else on standard error, and the exit code."""

from __future__ import annotations

import errno
from collections.abc import Collection

from gptbridge.core.errors import EXITS
from gptbridge.core.result import Outcome, document
from gptbridge.core.turn import TurnState
from gptbridge.shell.job import Output
from gptbridge.shell.terminal import Terminal
from gptbridge.shell.viewing import Viewer


def report(outcome: Outcome, output: Output, *, site: str = "https://chatgpt.com", said: Collection[str] = (), answer: bool = True,
           terminal: Terminal | None = None, turn: TurnState | None = None, viewer: Viewer | None = None, patience: bool = False) -> int:
    """The exit code. `said`: lines that were printed already. `answer`: the command's answer is text for standard output.

    `turn`, `viewer`: what was shown of it so far, and by whom. `patience`: the command ends because the caller's patience did.
    """
    terminal = terminal or Terminal(quiet=output.quiet)
    doc = document(outcome, site=site)
    if output.json:
        terminal.document(doc)
    elif output.events:
        from gptbridge.shell.event_lines import close

        close(terminal, doc, turn, patience=patience)
    elif doc["ok"] and answer and not (viewer is not None and viewer.shows(doc)):
        terminal.answer(doc["answer"] or "")
    unwritten = terminal.broken is not None and terminal.broken.errno != errno.EPIPE
    if terminal.broken is not None and unwritten:
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
    if unwritten and doc["exit_code"] == 0:  # a cut or empty output must not pass for the answer
        return EXITS["record-failed" if doc["sent"] == "yes" else "state-unwritable"].code
    return int(doc["exit_code"])
