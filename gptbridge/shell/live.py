"""`--live`: the turn's text on standard output as it comes, for eyes. What it prints is a display, not data.

Guarantees: nothing of the site's reaches the terminal unescaped; on a terminal whose cursor can move, a rewritten text is drawn anew in
place as far as it is still on the screen, and what scrolled away is said to be old; elsewhere (a pipe, TERM=dumb) it is plain text that
only grows, and a rewritten line comes once more behind a mark. NO_COLOR leaves the dim of the thinking away, its prefix stays.

Thinking is broken into rows here, each with its prefix; an answer's rows are left to the terminal: what is copied from it has whole lines.
Nothing is hidden or switched that a killed process would leave behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptbridge.core.escape import visible
from gptbridge.core.turn import Event, Texts, TurnState
from gptbridge.shell.terminal import Terminal, cells, exact
from gptbridge.shell.viewing import Viewer

PREFIX = "| "
REWRITTEN = "[rewritten by the page:]"
SCROLLED = "live: the page rewrote text that had scrolled away; ask-gpt show ID --answer prints the whole of it"
TAB = 8
NARROWEST = 8
Line = tuple[str, str]  # "thinking" or "answer", its text


class Live:
    """A viewer. `status` is shown until there is text."""

    def __init__(self, terminal: Terminal, status: Viewer) -> None:
        self._terminal, self._status = terminal, status
        self._shown = Texts("", "")
        self._lines: list[Line] = []  # as they stand in the display, the last one open
        self._fixed = 0  # how many of them cannot be drawn over any more
        self._width = terminal.width
        self._scrolled = False
        terminal.on_line = self._make_room

    def take(self, event: Event, turn: TurnState) -> None:
        match event:
            case {"type": "thinking", "delta": str(delta)}:
                self._grow("thinking", delta)
            case {"type": "answer", "delta": str(delta)}:
                self._grow("answer", delta)
            case {"type": "replace" | "response_done"} if turn.texts != self._shown:
                self._become(turn.texts)
            case _ if not self._lines:
                self._status.take(event, turn)
        self._shown = turn.texts

    def tick(self, turn: TurnState) -> float | None:
        return self._status.tick(turn) if not self._lines else None

    def shows(self, doc: Mapping[str, Any]) -> bool:
        texts = Texts(doc["thinking"] or "", doc["answer"] or "")
        if texts.answer != self._shown.answer:  # read back, or heard in part: thinking that the log lacks stays as it was shown
            self._become(Texts(texts.thinking or self._shown.thinking, texts.answer))
            self._shown = texts
        self._make_room()
        if self._scrolled:
            self._terminal.note(SCROLLED)
        return True

    def close(self) -> None:
        self._status.close()
        self._make_room()

    # What the display becomes

    def _grow(self, kind: str, delta: str) -> None:
        self._draw(extended(self._lines, kind, delta), 0)

    def _become(self, texts: Texts) -> None:
        self._draw(extended(extended([], "thinking", texts.thinking), "answer", texts.answer), len(self._lines))

    def _draw(self, lines: list[Line], look_back: int) -> None:
        """Bring the display to `lines`. look_back: how many of the last lines may differ; of growth only the open one does."""
        old, width = self._lines, self._terminal.width
        if width != self._width:  # what stands there was broken anew by the terminal: nobody knows where
            self._width, self._fixed = width, len(old)
        same = max(len(old) - max(look_back, 1), 0)
        while same < min(len(old), len(lines)) and old[same] == lines[same]:
            same += 1
        if same == len(lines) < len(old):
            same = max(same - 1, 0)  # the last one is open again
        out = self._back_to(same, lines)
        self._lines = lines
        self._terminal.draw(exact(out))

    def _back_to(self, same: int, lines: list[Line]) -> str:
        """What is written to come from the display as it is to `lines`, which are equal up to the line `same`."""
        old = self._lines
        if same >= len(old):
            return self._rendered(lines, same, bool(old))
        grows = same == len(old) - 1 and same < len(lines) and lines[same][0] == old[same][0] and lines[same][1].startswith(old[same][1])
        if grows:
            return self._continued(old[same], lines[same]) + self._rendered(lines, same + 1, True)
        if not self._terminal.moves:
            self._fixed = 0
            return f"\n{REWRITTEN}\n" + self._rendered(lines, same, False)
        first, rows = len(old), 0
        while first > max(same, self._fixed) and rows + self._rows(old[first - 1]) < self._terminal.height:
            first -= 1
            rows += self._rows(old[first])
        up = f"\r\x1b[{rows - 1}A" if rows > 1 else "\r" if rows else "\n"
        if first > same:
            self._scrolled = True
            if rows:  # as many of the last lines as there was room for
                same = max(len(lines) - (len(old) - first), same)
        return f"{up}\x1b[J" + self._rendered(lines, same, False)

    def _rows(self, line: Line) -> int:
        return len(broken(line, self._width))

    def _continued(self, old: Line, new: Line) -> str:
        """From an open line to the longer one."""
        if new[0] == "answer" or not self._terminal.moves:
            return self._styled(new[0], new[1][len(old[1]):])
        before, after = broken(old, self._width), broken(new, self._width)
        last = len(before) - 1  # the rows above it are full
        if after[last].startswith(before[last]):
            begun = self._styled("thinking", after[last][len(before[last]):])
        else:  # its last word went on, and to the next row
            begun = "\r" + self._styled("thinking", PREFIX + after[last]) + "\x1b[K"
        return "\n".join([begun, *(self._styled("thinking", PREFIX + row) for row in after[last + 1:])])

    def _rendered(self, lines: list[Line], first: int, under: bool) -> str:
        """Lines from `first` on; `under`: on a row of their own below what stands there."""
        rows: list[str] = []
        for kind, text in lines[first:]:
            if kind == "answer" or not self._terminal.moves:
                rows.append(self._styled(kind, (PREFIX if kind == "thinking" else "") + text))
            else:
                rows += [self._styled(kind, PREFIX + row) for row in broken((kind, text), self._width)]
        return ("\n" if under and rows else "") + "\n".join(rows)

    def _styled(self, kind: str, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if kind == "thinking" and text and self._terminal.colours else text

    def _make_room(self) -> None:
        """Something else is written below: the text so far stays where it is, and goes on under it."""
        if self._lines and self._lines[-1] != ("answer", ""):
            self._terminal.draw(b"\n")
            self._lines.append(("answer", ""))
        self._fixed = len(self._lines)


def extended(lines: list[Line], kind: str, text: str) -> list[Line]:
    """The lines with more text of that kind behind them; a blank line stands between two kinds."""
    if not text:
        return lines
    first, *rest = visible(text, multiline=True).split("\n")
    out = list(lines)
    if out and out[-1][0] == kind:
        out[-1] = (kind, out[-1][1] + first)
    else:
        if out and out[-1] != ("answer", ""):
            out.append(("answer", ""))
        out.append((kind, first))
    out += [(kind, line) for line in rest]
    return out


def broken(line: Line, width: int) -> list[str]:
    """The rows that a line takes: an answer's as the terminal breaks it, of thinking between words, without the prefix of each."""
    kind, text = line
    thinks = kind == "thinking"
    room = max(width - len(PREFIX), NARROWEST) if thinks else width
    if text.isascii() and "\t" not in text and not thinks:
        return [text[at:at + room] for at in range(0, len(text), room)] or [""]
    rows, row, used = [], "", 0
    for char in text:
        wide = _wide(char, used)
        if used + wide > room and row:
            full, blank, word = row.rpartition(" ") if thinks and char != " " else (row, "", "")
            if full.strip():
                rows.append(full + blank)
                row = word
            else:
                rows.append(row)
                row = ""
            used = sum(map(cells, row))
        row, used = row + char, used + wide
    return [*rows, row]


def _wide(char: str, used: int) -> int:
    return TAB - used % TAB if char == "\t" else cells(char)
