"""What may stand next on a command line, for a shell's Tab: commands, options, topics, and conversations by id with their title.

Guarantees: quick (the parser is imported for options alone), reads the registry's end and nothing else, never config, browser or standard
input, makes nothing, and never fails: where it knows nothing it says nothing. Format: a line for each candidate, VALUE or VALUE TAB
DESCRIPTION; a value is one of our own words or a well-formed id, a description is one line in which nothing hidden is left. The scripts in
`data/` (`ask-gpt help completion-bash` prints one) ask for it with `_ASKGPT_COMPLETE=1` and the words of the line, the unfinished one last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gptbridge.core import registry
from gptbridge.shell import arguments
from gptbridge.shell.store import Store

MOST = 50
LONGEST = 60  # of a title, code points
CONVERSATION = ("resume", "show", "download-attachments")  # what takes one first
OPS = ("list", "show", "stop", "resolve", "accept-loss")
VALUES = {"--print-unit": ("cron", "launchd", "systemd"), "--turn": ("last",)}


def lines(words: list[str], store: Store) -> Iterator[str]:
    """The candidates for the last of `words`, which stand behind the program's name."""
    *before, unfinished = words or [""]
    for value, description in _candidates(before, unfinished, store):
        if value.startswith(unfinished):
            yield f"{value}\t{description}" if description else value


def _candidates(before: list[str], unfinished: str, store: Store) -> Iterable[tuple[str, str]]:
    found = arguments.scan(before)
    if "--" in before:
        return []
    if before and before[-1] in arguments.VALUED:
        return _conversations(store) if before[-1] == "--conversation" else _plain(VALUES.get(before[-1], _values(before[-1])))
    if unfinished.startswith("-"):
        return _options(found.command)
    given = [word for _, word in found.words[1:]]
    if not found.words:
        return _plain(arguments.COMMANDS)
    if found.command in CONVERSATION and not given and "--last" not in found.options:
        return _conversations(store)
    if found.command == "ops" and not given:
        return _plain(OPS)
    if found.command == "help" and not given:
        from gptbridge.shell import topics

        return _plain(dict.fromkeys((*topics.TOPICS, *arguments.COMMANDS)))  # some commands have a topic of their name
    return []


def _plain(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    return ((word, "") for word in words)


def _values(option: str) -> tuple[str, ...]:
    if option == "--state":
        from gptbridge.core.lifecycle import State

        return tuple(State)
    if option == "--scenario":
        from gptbridge.practice.scenarios import SCENARIOS

        return tuple(SCENARIOS)
    return ()


def _options(command: str | None) -> Iterable[tuple[str, str]]:
    if command is None:
        return _plain(("--help", "--json", "--version"))
    from gptbridge.shell import grammar

    params = grammar.command_of(command).params
    found = [(option, (param.help or "").partition(". ")[0]) for param in params if param.param_type_name == "option"
             for option in param.opts if option.startswith("--")]
    return [*found, ("--help", "")]


def _conversations(store: Store) -> Iterable[tuple[str, str]]:
    from gptbridge.shell.terminal import line_text

    newest = registry.newest(store.registry.glances(), every_account=True)
    return ((one.conversation_id, line_text(one.title[:LONGEST], True)) for one in islice(newest, MOST))


def run(words: list[str], store: Store) -> bytes:
    """All of it, in one piece; whatever goes wrong, a person who pressed Tab is told nothing."""
    try:
        return "".join(f"{line}\n" for line in lines(words, store)).encode("utf-8", "replace")
    except Exception:
        return b""
