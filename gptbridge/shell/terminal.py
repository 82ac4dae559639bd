"""How bytes reach standard output and standard error: the only writer of both.

Guarantees: into a pipe or file an answer arrives exactly as it is; on a terminal, and on standard error always, nothing can move the
cursor, change colours or hide text (control characters become visible escapes). A closed pipe never ends in a traceback: `broken` says
so, and the command keeps its exit code. Unbuffered, so that a fork repeats nothing.
Touches descriptors 1 and 2. Fails silently: there is nobody left to tell.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.escape import MARK, visible


def hold_descriptors() -> None:
    """Give 0, 1 and 2 to /dev/null where the caller closed them: else the next file opened takes the number, and an answer meant for
    standard output would be written into the ledger."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def line_text(text: str, tty: bool) -> str:
    """Somebody's words as part of one line: on a terminal every control character is made visible, else only TAB and line breaks."""
    if tty:
        return visible(text, multiline=False)
    return text if text.isprintable() else "".join(visible(c, multiline=False) if c == "\t" or c.splitlines() == [""] else c for c in text)


def whole_text(text: str, tty: bool) -> bytes:
    """Somebody's words of many lines, and one LF if they lack one."""
    return exact((visible(text, multiline=True) if tty else text) + ("" if text.endswith("\n") else "\n"))


def log_text(data: bytes, tty: bool) -> bytes:
    """A log's own text. It carries visible escapes already; on a terminal those stay as they are, all else is made safe."""
    return exact(_safe(data.decode("utf-8", "replace"))) if tty else data


def _safe(text: str, *, multiline: bool = True) -> str:
    """`visible`, but for text that may hold visible escapes already: those stay."""
    return MARK.join(visible(part, multiline=multiline) for part in text.split(MARK))


def exact(text: str) -> bytes:
    """UTF-8; lone surrogates keep their own three bytes."""
    return text.encode("utf-8", "surrogatepass")


def json_line(value: Any) -> bytes:
    """One line of ASCII with `\\u` escapes."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


class Terminal:
    """`tty`: standard output is a terminal. `broken`: the error that standard output gave, after which nothing more is written to it."""

    def __init__(self, *, quiet: bool = False, out: int = 1, err: int = 2) -> None:
        self.quiet = quiet
        self._out, self._err = out, err
        self.tty = _is_terminal(out)
        self._progress = False  # a line that the next one replaces stands there
        self.broken: OSError | None = None
        self.on_line: Callable[[], None] = lambda: None  # before a line on standard error, where both are one terminal

    @property
    def moves(self) -> bool:
        """Standard output is a terminal whose cursor can be moved."""
        return self.tty and _can_move()

    @property
    def redraws(self) -> bool:
        """Likewise standard error."""
        return _can_move() and _is_terminal(self._err)

    @property
    def colours(self) -> bool:
        return self.moves and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        return _size(self._out).columns

    @property
    def height(self) -> int:
        return _size(self._out).lines

    def put(self, data: bytes) -> None:
        """Bytes as they are, for standard output."""
        self.on_line()
        self.draw(data)

    def draw(self, data: bytes) -> None:
        """Likewise, of a display that goes on where it ended."""
        self.wipe()
        if self.broken is None:
            self.broken = _write(self._out, data)

    def answer(self, text: str) -> None:
        """The answer, and one LF if it lacks one."""
        self.put(whole_text(text, self.tty))

    def document(self, document: Mapping[str, Any]) -> None:
        self.put(json_line(document))

    def note(self, text: str) -> None:
        """A line on standard error that `-q` silences."""
        if not self.quiet:
            self.say(text)

    def say(self, *lines: str) -> None:
        """Lines on standard error, also with `-q`. Programs read them (`operation:`, `saved:`, `Log:`): words of the site within one, such
        as a notice of the page, begin no other."""
        if self.tty and _is_terminal(self._err):
            self.on_line()
        self.wipe()
        _write(self._err, exact("".join(_safe(line, multiline=False) + "\n" for line in lines)))

    def progress(self, text: str) -> None:
        """A line that the next one replaces, for a person at a terminal; nothing elsewhere, nor with `-q`."""
        if self.quiet or not self.redraws:
            return
        _write(self._err, exact("\r" + clipped(visible(text, multiline=False), _size(self._err).columns - 1) + "\x1b[K"))
        self._progress = True

    def wipe(self) -> None:
        """Take such a line away."""
        if self._progress:
            self._progress = False
            _write(self._err, b"\r\x1b[K")

    def error(self, error: Failure | Mapping[str, str]) -> None:
        """The one error printer: what happened and what is true now, then what to type. Takes a Failure or the document's `error`."""
        message, hint = (error.message, error.hint) if isinstance(error, Failure) else (error["message"], error["hint"])
        self.say(f"ask-gpt: {message}", *(f"  {line}" for line in hint.splitlines()))


def cells(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 30 ms: only for text that needs it

    return cell_len(text)


def clipped(text: str, width: int) -> str:
    """As much of one line as fits into that many columns."""
    width = max(width, 0)
    if cells(text) <= width:
        return text
    while cells(text) >= width and text:
        text = text[:-max((cells(text) - width) // 2, 1)]
    return text + "\N{HORIZONTAL ELLIPSIS}" if width else ""


def _can_move() -> bool:
    return os.environ.get("TERM", "dumb") != "dumb"


def _size(fd: int) -> os.terminal_size:
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or 80, size.lines or 24))


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _write(fd: int, data: bytes) -> OSError | None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view):]
        except BlockingIOError:  # the other end made the pipe non-blocking
            from gptbridge.edge.descriptors import writable

            writable(fd)
        except OSError as why:
            return why
    return None
