"""What is seen of a turn while it goes on: a line of status, a line for each phase, NDJSON, or the text itself. One viewer for each way.

All of them see the same events (core/turn.py) and keep nothing that the turn does not say. Which one it is depends on the output that was
asked for and on what standard error is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gptbridge.core.turn import Event, TurnState
from gptbridge.shell.job import Output
from gptbridge.shell.terminal import Terminal

STATUS_S = 1.0
AT_ONCE_S = 0.1  # what changes more often than that is drawn later
Clock = Callable[[], float]  # seconds that only go on


class Viewer(Protocol):
    def take(self, event: Event, turn: TurnState) -> None:
        """`turn` as it stands after that event."""
        ...

    def tick(self, turn: TurnState) -> float | None:
        """What changes by time alone; seconds until it wants to be called again, None for never."""
        ...

    def shows(self, doc: Mapping[str, Any]) -> bool:
        """True when the document's answer stands on standard output already (now at the latest)."""
        ...

    def close(self) -> None:
        """Nothing of it is left on the terminal but text."""
        ...


def viewer_for(output: Output, terminal: Terminal, *, sends: bool, watches: bool, now: Clock) -> Viewer:
    """`watches`: the command is about one turn; else there is nothing to see."""
    if not watches:
        return Unseen()
    if output.events:
        from gptbridge.shell.event_lines import EventLines

        return EventLines(terminal, now)
    status: Viewer = Unseen()
    if not output.quiet and terminal.redraws:
        status = StatusLine(terminal, now)
    elif not output.quiet and sends:
        status = PhaseLines(terminal)
    if output.live:
        from gptbridge.shell.live import Live

        return Live(terminal, status)
    return status


class Unseen:
    """Nothing."""

    def take(self, event: Event, turn: TurnState) -> None: ...

    def tick(self, turn: TurnState) -> float | None:
        return None

    def shows(self, doc: Mapping[str, Any]) -> bool:
        return False

    def close(self) -> None: ...


class PhaseLines(Unseen):
    """A line on standard error for each phase that is entered."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._phase = terminal, ""

    def take(self, event: Event, turn: TurnState) -> None:
        if "phase" in event and turn.phase != self._phase:
            self._phase = turn.phase
            self._terminal.note(f"phase: {turn.phase}")


class StatusLine(Unseen):
    """One line on standard error that the next one replaces: what is going on, for how long, and what the model thinks about."""

    def __init__(self, terminal: Terminal, now: Clock) -> None:
        self._terminal, self._now = terminal, now
        self._begun, self._drawn = now(), 0.0
        self._wait_until = 0.0
        self._upload = ""

    def take(self, event: Event, turn: TurnState) -> None:
        match event:
            case {"type": "ratelimit", "wait_s": int() | float() as wait_s}:
                self._wait_until = self._now() + wait_s
            case {"type": "upload", "file": str(name), "state": str(state)}:
                self._upload = "" if state == "attached" else name
            case {"type": "progress", "file": _}:
                self._drawn = self._now()  # a file's own line stands there
                return
        if self._now() >= self._drawn + AT_ONCE_S:
            self._draw(turn)

    def tick(self, turn: TurnState) -> float | None:
        left = self._drawn + STATUS_S - self._now()
        if left <= 0.0:
            self._draw(turn)
            left = STATUS_S
        return left

    def close(self) -> None:
        self._terminal.wipe()

    def _draw(self, turn: TurnState) -> None:
        self._drawn = self._now()
        self._terminal.progress(f"{elapsed(self._drawn - self._begun)}  {self._what(turn)}")

    def _what(self, turn: TurnState) -> str:
        match turn.phase:
            case "attaching":
                left = self._wait_until - self._drawn
                if left > 0.0:
                    return f"waiting {left:.0f} s before it is sent"
                return f"uploading {self._upload}" if self._upload else "preparing the page"
            case "response_done" | "collecting":
                return "bringing its files"
        if turn.answer:
            return f"answering, {len(turn.answer):,} characters"
        summary = summary_of(turn.thinking)
        return "thinking" + (f": {summary}" if summary else "") if turn.thinking else "sent, waiting for the answer"


def elapsed(seconds: float) -> str:
    """m:ss, or h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary_of(thinking: str) -> str:
    """The newest heading of the thinking, else the newest line that says something."""
    lines = [line.strip() for line in thinking[-4000:].splitlines()]
    headings = [line for line in lines if line.startswith(("**", "#")) and line.strip("*# ")]
    spoken = [line for line in lines if line.strip("*#>- ")]
    newest = headings[-1] if headings else spoken[-1] if spoken else ""
    return newest.strip("*# ")
