"""What the words of a command line mean: which one is the command, durations, moments, ids, URLs and prompts.

Guarantees: a mistyped command is never taken for a prompt; options stand anywhere before `--`; durations are finite and in seconds.
Touches nothing: text in, values out. Fails closed: `Failure("usage")` for a word of the wrong form, `bad-input` for bytes that are no text.
"""

from __future__ import annotations

import os
import re

from gptbridge.core.durations import seconds
from gptbridge.core.errors import Failure

COMMANDS = (
    "send", "resume", "download-attachments", "list", "show", "ops", "sweep", "bootstrap-registry", "doctor", "practice", "login", "help")
PROGRAM = "ask-gpt"
# Options that take the next word as their value: to find the first word, nothing else of an option has to be known.
VALUED = frozenset(("-f", "--file", "--stdin-name", "--operation-id", "--wait", "--queue-wait", "--search", "--since", "--turn", "--state",
                    "--older-than", "--limit", "--conversation", "--because", "--stale-after", "--print-unit", "--port", "--scenario",
                    "--model", "--effort"))
CONVERSATION = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SHORTEST = 8

# Patterns are compiled when they are needed: few lines hold a URL or a date.
_MOMENT = r"(?a:(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d)))?)"
_PATH = f"(?s:(?:/g/[A-Za-z0-9._~%-]+(?:/[A-Za-z0-9._~%-]+)*)?/c/({CONVERSATION})/?(?:[?#].*)?)"
_OWN_HOSTS = r"(?i:https://(?:chatgpt|chat\.openai)\.com)(?=/)"
_SHORT = "[0-9a-f]{8}(?:-[0-9a-f]{4}){0,2}(?:-[0-9a-f]{0,4})?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{0,12}"


class Scan:
    """A command line by looks alone: `words` as (index, text), `options` without their values, `tail` the words behind `--`."""

    def __init__(self) -> None:
        self.words: list[tuple[int, str]] = []
        self.options: list[str] = []
        self.tail: list[str] = []

    @property
    def json(self) -> bool:
        return "--json" in self.options

    @property
    def events(self) -> bool:
        """`--events`, of a command that has it; `--json` beside it is wrong, and is what answers then."""
        return "--events" in self.options and not self.json and self.command in (None, "send", "resume", "download-attachments")

    @property
    def live(self) -> bool:
        return "--live" in self.options

    @property
    def quiet(self) -> bool:
        return "-q" in self.options or "--quiet" in self.options

    @property
    def command(self) -> str | None:
        """The command, if the first word is exactly the name of one."""
        return self.words[0][1] if self.words and self.words[0][1] in COMMANDS else None


def scan(args: list[str]) -> Scan:
    """Never raises: also a wrong line has a `--json` in it or not."""
    found = Scan()
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--":
            found.tail = args[at + 1:]
            break
        if word.startswith("-") and word != "-":
            found.options.append(word)
            at += word in VALUED
        else:
            found.words.append((at, word))
        at += 1
    return found


def decoded(args: list[str]) -> list[str]:
    """The words as UTF-8 whatever the locale made of their bytes; Failure("bad-input") for bytes that are no UTF-8."""
    try:
        return [os.fsencode(word).decode("utf-8") for word in args]
    except UnicodeDecodeError:
        raise Failure("bad-input", "an argument is not valid UTF-8; nothing was sent", "give the prompt as UTF-8") from None
    except UnicodeEncodeError:  # a lone surrogate that no byte stands behind: a caller in Python, not a shell
        raise Failure("bad-input", "an argument is no text; nothing was sent") from None


def command_line(args: list[str]) -> list[str]:
    """The command first, then its arguments in their order. The bare form becomes `send`, no word at all `help`.

    The bare form is exactly one argument that contains white space, or `-`: any other word might be a mistyped command.
    """
    found = scan(args)
    if found.command is not None:
        at = found.words[0][0]
        return [args[at], *args[:at], *args[at + 1:]]
    words = [text for _, text in found.words] + found.tail
    if not words:
        if "--version" in found.options:
            return ["--version", *(o for o in found.options if o != "--version")]
        if all(option in ("--json", "-q", "--quiet", "--help", "-h") for option in found.options):
            return ["help", *(o for o in found.options if o not in ("--help", "-h"))]
        raise Failure("usage", "there is no command; nothing was done", f"{PROGRAM} --help")
    if len(words) == 1 and (words[0] == "-" or any(char.isspace() for char in words[0])):
        return ["send", *args]
    if any(char.isspace() for char in words[0]):
        raise Failure("usage", "a prompt without `send` is exactly one argument; nothing was sent", f"{PROGRAM} send PROMPT...")
    raise Failure("usage", f"{named(words[0])} is no command; nothing was sent",
                  f"the nearest: {PROGRAM} {nearest(words[0], COMMANDS)}; a prompt of one word: {PROGRAM} send WORD")


def named(word: str) -> str:
    """A word in a message: a long one could be a prompt, and prompts stand in no message."""
    return f'"{word}"' if 0 < len(word) <= 30 else "that word"


def nearest(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    return get_close_matches(word.lower(), known, n=1, cutoff=0.0)[0]


def duration(text: str, option: str) -> float:
    """Seconds of `90s`, `1.5h`, `3d`; a bare number is seconds."""
    try:
        return seconds(text)
    except ValueError:
        raise Failure("usage", f"{option}: {named(text)} is no duration; nothing was done",
                      "a number and s, m, h or d, like 90s or 3d") from None


def moment(text: str, option: str, now: float) -> float:
    """Epoch seconds of a duration before `now`, or of an RFC 3339 date (its midnight, UTC) or time."""
    match = re.fullmatch(_MOMENT, text)
    if match is None:
        try:
            return now - duration(text, option)
        except Failure as failure:
            raise _no_moment(text, option) from failure
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
    from datetime import UTC, datetime, timedelta, timezone

    offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
    try:
        zone = UTC if match[9] is None else timezone(-offset if match[9] == "-" else offset)
        at = datetime(year, month, day, hour, minute, min(second, 59) if second <= 60 else second, tzinfo=zone)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() + (second == 60) + float(f"0.{match[7] or 0}")
    except (ValueError, OverflowError):
        raise _no_moment(text, option) from None


def _no_moment(text: str, option: str) -> Failure:
    return Failure("usage", f"{option}: {named(text)} is neither a duration nor an RFC 3339 date or time; nothing was done",
                   "3d, 2026-11-29 or 2026-11-29T13:00:00Z")


def url_conversation(text: str, sites: tuple[str, ...] = ()) -> str | None:
    """The conversation id of an accepted URL: https of the site's two hosts, or one of `sites`, with `/c/ID`, also below `/g/...`."""
    known = re.match(_OWN_HOSTS, text)
    starts = [text[known.end():]] if known else [text[len(s):] for site in sites if (s := site.rstrip("/")) and text.startswith(s + "/")]
    for path in starts:
        if match := re.fullmatch(_PATH, path):
            return match[1]
    return None


def is_url(text: str) -> bool:
    return "://" in text


def is_short_id(text: str) -> bool:
    """The beginning of a conversation id, 8 characters or more."""
    return SHORTEST <= len(text) <= 36 and re.fullmatch(_SHORT, text) is not None
