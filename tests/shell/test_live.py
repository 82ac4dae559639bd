"""The display of `--live`, judged on a model of a terminal: what stands on the screen is the text as it is now (LO-14)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.turn import TurnState
from gptbridge.shell.live import PREFIX, REWRITTEN, Live, broken
from gptbridge.shell.terminal import Terminal, cells, clipped
from gptbridge.shell.viewing import StatusLine, Unseen, elapsed, summary_of


@dataclass
class Screen:
    """Rows of a terminal as xterm keeps them, with those that scrolled away: a full row waits with its break for the next character."""

    width: int
    height: int
    rows: list[str] = field(default_factory=lambda: [""])
    at: int = 0  # row of the cursor
    column: int = 0

    def write(self, data: bytes) -> None:
        for code, char in re.findall(r"\x1b\[([0-9]*[A-Za-z])|(.)", data.decode(), re.DOTALL):
            if code.endswith("A"):
                self.at = max(self.at - int(code[:-1] or 1), len(self.rows) - self.height, 0)
            elif code == "J":
                self.rows[self.at] = self.rows[self.at][: self.column]
                del self.rows[self.at + 1:]
            elif code == "K":
                self.rows[self.at] = self.rows[self.at][: self.column]
            elif char == "\n":
                self._down()
            elif char == "\r":
                self.column = 0
            elif char:
                if self.column >= self.width:
                    self._down()
                row = self.rows[self.at]
                self.rows[self.at] = row[: self.column] + char + row[self.column + 1:]
                self.column += 1
            else:
                assert code in ("2m", "0m"), code

    def _down(self) -> None:
        self.at, self.column = self.at + 1, 0
        if self.at == len(self.rows):
            self.rows.append("")

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip()


class Shown(Terminal):
    """A terminal of which the test is the other end."""

    def __init__(self, screen: Screen | None, *, colours: bool = True) -> None:
        super().__init__()
        self.tty, self.screen, self.data, self.said = screen is not None, screen, b"", list[str]()
        self._colours = colours

    moves = property(lambda self: self.screen is not None)  # type: ignore[assignment]
    colours = property(lambda self: self.moves and self._colours)  # type: ignore[assignment]
    width = property(lambda self: self.screen.width if self.screen else 80)  # type: ignore[assignment]
    height = property(lambda self: self.screen.height if self.screen else 24)  # type: ignore[assignment]

    def draw(self, data: bytes) -> None:
        self.data += data
        if self.screen is not None:
            self.screen.write(data)

    def say(self, text: str) -> None:
        self.on_line()
        self.said.append(text)


def shown(texts: list[tuple[str, str]], screen: Screen | None, **ways: Any) -> Shown:
    terminal, turn, seen = Shown(screen, **ways), TurnState(), TurnState()
    live = Live(terminal, Unseen())
    turn.submitted()
    for thinking, answer in texts:
        for event in turn.observe(thinking, answer):
            seen.take(event)
            live.take(event, seen)
    assert live.shows({"thinking": turn.thinking, "answer": turn.answer})
    return terminal


def expected(thinking: str, answer: str, width: int) -> str:
    rows = [PREFIX + row for line in thinking.split("\n") for row in broken(("thinking", line), width)] if thinking else []
    if thinking and answer:
        rows.append("")
    rows += [row for line in answer.split("\n") for row in broken(("answer", line), width)] if answer else []
    return "\n".join(row.rstrip() for row in rows).rstrip()


PIECE = st.text(st.sampled_from("ab cd\n"), max_size=14)
EDIT = st.tuples(st.sampled_from(["think", "say", "cut", "middle", "set", "forget"]), PIECE, st.integers(0, 60))


# Thinking that comes behind words of the answer stands where it came; here it comes before them, so that the display has one order.
def edited(edits: list[tuple[str, str, int]]) -> Iterator[tuple[str, str]]:
    thinking = answer = ""
    for how, piece, place in edits:
        match how:
            case "think" if not answer:
                thinking += piece
            case "say":
                answer += piece
            case "cut":
                answer = answer[: max(len(answer) - place, 0)]
            case "middle":
                answer = answer[: place % (len(answer) + 1)] + piece + answer[place % (len(answer) + 1):]
            case "set":
                answer = piece
            case "forget":
                thinking = thinking[:-1 - place]
        yield thinking, answer


@given(st.lists(EDIT, max_size=12), st.integers(11, 30))
def test_whatever_is_rewritten_the_screen_shows_the_text_as_it_is(edits: list[tuple[str, str, int]], width: int) -> None:
    texts = list(edited(edits)) or [("", "")]
    screen = Screen(width, 1000)
    terminal = shown(texts, screen)
    assert screen.text == expected(*texts[-1], width) and not terminal.said


@given(st.lists(EDIT, min_size=1, max_size=12), st.integers(11, 30), st.integers(3, 6))
def test_what_scrolled_away_is_said_to_be_old(edits: list[tuple[str, str, int]], width: int, height: int) -> None:
    texts = list(edited(edits))
    screen = Screen(width, height)
    terminal = shown(texts, screen)
    assert screen.text == expected(*texts[-1], width) or any("scrolled away" in said for said in terminal.said)


@given(st.lists(EDIT, max_size=12))
def test_a_pipe_gets_plain_text_that_only_grows(edits: list[tuple[str, str, int]]) -> None:
    texts = list(edited(edits)) or [("", "")]
    terminal = shown(texts, None)
    assert b"\x1b" not in terminal.data and b"\r" not in terminal.data
    if REWRITTEN.encode() not in terminal.data:
        assert "\n".join(line.rstrip() for line in terminal.data.decode().split("\n")).rstrip() == expected(*texts[-1], 1000)


def test_thinking_is_dim_and_prefixed_and_the_answer_is_not() -> None:
    terminal = shown([("Plan it", ""), ("Plan it\nwell", ""), ("Plan it\nwell", "Hello")], Screen(40, 24))
    assert terminal.data == b"\x1b[2m| Plan it\x1b[0m\n\x1b[2m| well\x1b[0m\n\nHello\n"
    plain = shown([("Plan it", "Hello")], Screen(40, 24), colours=False)
    assert plain.data == b"| Plan it\n\nHello\n"


def test_a_word_that_goes_on_moves_to_the_next_row() -> None:
    screen = Screen(12, 24)
    shown([("ab cd effo", ""), ("ab cd effort is", "")], screen)
    assert screen.text == "| ab cd\n| effort is"


def test_an_answer_is_not_printed_twice_and_one_that_was_read_back_is_printed() -> None:
    assert shown([("", "Hello")], None).data == b"Hello\n"
    terminal = Shown(None)
    assert Live(terminal, Unseen()).shows({"thinking": "T", "answer": "Hello\n"}) and terminal.data == b"| T\n\nHello\n"


def test_nothing_of_the_site_reaches_the_terminal_unescaped() -> None:
    evil = "a\x1b[2Jb\x07c\u202ed\re"
    for screen in (Screen(60, 24), None):
        data = shown([(evil, ""), (evil, evil), (evil, evil + "!")], screen, colours=False).data.decode()
        assert not set(data) & set("\x1b\x07\u202e\r") and "␛1B;[2J" in data


def test_a_line_on_standard_error_stands_below_the_text_and_the_text_goes_on_under_it() -> None:
    screen = Screen(40, 24)
    terminal, turn = Shown(screen), TurnState()
    live = Live(terminal, Unseen())
    turn.submitted()
    live.take(turn.observe("", "Hello")[0], turn)
    terminal.note("warning: x")
    assert terminal.data == b"Hello\n"
    live.take(turn.observe("", "Hello there")[0], turn)
    live.close()
    assert terminal.data == b"Hello\n there\n"


def test_the_status_says_what_goes_on() -> None:
    now = [0.0]
    said: list[str] = []

    class Said(Shown):
        def progress(self, text: str) -> None:
            said.append(text)

    turn, status = TurnState(), StatusLine(Said(Screen(60, 24)), lambda: now[0])

    def after(seconds: float, events: list[Any]) -> str:
        now[0] += seconds
        for event in events or [{"type": "state"}]:
            status.take(event, turn)
        return said[-1]

    assert after(1, turn.state("queued")) == "0:01  preparing the page"
    assert after(1, turn.upload("a.txt", "uploading")) == "0:02  uploading a.txt"
    assert after(1, turn.upload("a.txt", "attached")) == "0:03  preparing the page"
    assert after(1, turn.ratelimit(61.0)) == "0:04  waiting 61 s before it is sent"
    now[0] += 30
    assert status.tick(turn) == 1.0 and said[-1] == "0:34  waiting 31 s before it is sent"
    assert status.tick(turn) == 1.0 and len(said) == 5
    turn.submitted()
    assert after(60, []) == "1:34  sent, waiting for the answer"
    assert after(1, turn.observe("**Weighing it**\n\nlong words", "")) == "1:35  thinking: Weighing it"
    assert after(3600, turn.observe("**Weighing it**\n\nlong words", "x" * 1234)) == "1:01:35  answering, 1,234 characters"
    turn.named("68c1d2e3-0000-8000-8000-000000000001", "u")
    assert after(1, turn.response_done("", "x")) == "1:01:36  bringing its files"


@pytest.mark.parametrize(("thinking", "summary"), [
    ("", ""), ("plain words", "plain words"), ("**One**\n\ntext\n\n**Two**\n\nmore text", "Two"), ("# Head\ntext", "Head"), ("**\n\n", "")])
def test_the_summary_of_thinking(thinking: str, summary: str) -> None:
    assert summary_of(thinking) == summary


def test_widths() -> None:
    assert (cells("ab"), cells("日本"), cells("e\u0301")) == (2, 4, 1)
    assert clipped("abcdef", 6) == "abcdef" and clipped("abcdefg", 6) == "abcde…" and cells(clipped("日本語日本語", 7)) <= 7
    assert clipped("abc", 0) == "" and broken(("answer", "日本語"), 4) == ["日本", "語"]
    assert broken(("thinking", "a" * 25), 12) == ["a" * 10, "a" * 10, "a" * 5]
    assert elapsed(59.9) == "0:59" and elapsed(3600) == "1:00:00"


def test_no_colour_and_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    main, other = os.openpty()
    try:
        for term, no_colour, moves, colours in (("xterm", "", True, True), ("xterm", "1", True, False), ("dumb", "", False, False)):
            monkeypatch.setenv("TERM", term)
            monkeypatch.setenv("NO_COLOR", no_colour)
            terminal = Terminal(out=other, err=other)
            assert (terminal.moves, terminal.redraws, terminal.colours) == (moves, moves, colours)
    finally:
        os.close(main)
        os.close(other)
