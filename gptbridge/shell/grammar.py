"""The commands and their options: typer's declaration of them, from arguments to a request value. Nothing runs here.

Guarantees: what this does not declare is refused, never accepted and ignored. Typer costs every start some 60 ms, so this module is
imported only where its parser is needed; `plain_list` in `cli` covers the one command that prompts and status lines run all the time.
Raises `Failure("usage")`.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal, cast

import typer

from gptbridge.core.errors import Failure
from gptbridge.core.lifecycle import State
from gptbridge.core.operation import choice, is_operation_id
from gptbridge.shell import requests
from gptbridge.shell.arguments import COMMANDS, PROGRAM, duration, moment, named
from gptbridge.shell.requests import Request

# The class of every "the line is wrong" of the parser; typer itself exports only its child.
UsageError = cast("type[Exception]", typer.BadParameter.__base__)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, also on failure.")]
Events = Annotated[bool, typer.Option("--events", help="For programs: every event as a line of JSON on standard output.")]
Live = Annotated[bool, typer.Option(
    "--live", help="For eyes: the text on standard output as it comes. Display only, its form may change; it is no answer to a program.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Nothing on standard error but errors and `operation: ID`.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="[PROMPT...]", show_default=False)]
OperationId = Annotated[str | None, typer.Option(
    "--operation-id", metavar="ULID", help="Name the operation: the same id again gives the first outcome, never a second message.")]
Wait = Annotated[str | None, typer.Option(
    metavar="D", help="Patience after the message left (15m). 0: leave at the receipt. The worker goes on to the end of the turn.")]
Again = Annotated[bool, typer.Option(
    "--again", help="Send it although an equal one may have been sent, or its answer was not seen yet.")]
Files = Annotated[list[str] | None, typer.Option(
    "-f", "--file", metavar="FILE", show_default=False, help="Send this file with it; up to 10 times. `-` is standard input.")]
StdinName = Annotated[str | None, typer.Option("--stdin-name", metavar="NAME", help="What the file of `-f -` is called (stdin.txt).")]
QueueWait = Annotated[str | None, typer.Option(metavar="D", help="Patience before it: locks, line and gap (1h).")]

Model = Annotated[str | None, typer.Option(
    metavar="M", help="The site's word for it, like gpt-5-5-thinking. Verified, or nothing is sent. '': as the page has it.")]
Effort = Annotated[str | None, typer.Option(metavar="L", help="How long it may think, in the site's word, like extended. Likewise.")]

LONGEST_REASON = 1000

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=False,
                  context_settings={"max_content_width": 80, "help_option_names": ["-h", "--help"]})


def parse(line: list[str]) -> Request:
    """The request of a line whose first word is a command's name (see `arguments.command_line`)."""
    try:
        return cast("Request", app(line, prog_name=PROGRAM, standalone_mode=False))
    except UsageError as error:
        said = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
        raise Failure("usage", f"{said[:1].lower()}{said[1:]}; nothing was sent", f"{PROGRAM} {line[0]} --help") from error


def command_of(name: str) -> Any:
    """The parser's own account of a command."""
    return typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]


def command_help(name: str) -> str:
    """What `ask-gpt NAME --help` says."""
    command = command_of(name)
    context = command.make_context(f"{PROGRAM} {name}", [], resilient_parsing=True)
    return str(command.get_help(context)).rstrip("\n") + "\n"


@app.command()
def send(prompt: Words = None, file: Files = None, stdin_name: StdinName = None, model: Model = None, effort: Effort = None,
         operation_id: OperationId = None, again: Again = False, wait: Wait = None, queue_wait: QueueWait = None, live: Live = False,
         events: Events = False, json: Json = False, quiet: Quiet = False) -> Request:
    """Send a message that begins a new conversation, and print the answer.

    PROMPT: the words, joined by one blank, or a sole `-` for all of standard input. With files it may be left away.
    """
    _one_way(live, events, json)
    return requests.Send(tuple(prompt or ()), _operation(operation_id), _seconds(wait, "--wait"), _seconds(queue_wait, "--queue-wait"),
                         again, tuple(file or ()), stdin_name, _choice(model, "--model"), _choice(effort, "--effort"))


@app.command()
def resume(words: Annotated[list[str] | None, typer.Argument(metavar="ID|URL|OPERATION [PROMPT...]", show_default=False)] = None,
           last: Annotated[bool, typer.Option("--last", help="The conversation of the newest operation started from this folder; "
                                                             "all words are prompt.")] = False,
           file: Files = None, stdin_name: StdinName = None, model: Model = None, effort: Effort = None,
           operation_id: OperationId = None, again: Again = False, wait: Wait = None, queue_wait: QueueWait = None, live: Live = False,
           events: Events = False, json: Json = False, quiet: Quiet = False) -> Request:
    """Send another message into a conversation; without a prompt and files, send nothing and read the answer back.

    ID: a conversation's id or at least 8 characters of it. OPERATION without a prompt: the answer to that very message.
    """
    _one_way(live, events, json)
    given = tuple(words or ())
    if not given and not last:
        raise Failure("usage", "resume needs a conversation; nothing was sent", "ask-gpt resume ID|URL|OPERATION|--last [PROMPT...]")
    first = None if last else given[0]
    return requests.Resume(given if last else given[1:], _operation(operation_id), _seconds(wait, "--wait"),
                           _seconds(queue_wait, "--queue-wait"), first, again, tuple(file or ()), stdin_name,
                           _choice(model, "--model"), _choice(effort, "--effort"))


@app.command("download-attachments")
def download_attachments(reference: Annotated[str, typer.Argument(metavar="ID|URL", show_default=False)],
                         queue_wait: Annotated[str | None, typer.Option(metavar="D", help="Patience for locks (1h).")] = None,
                         events: Events = False, json: Json = False, quiet: Quiet = False) -> Request:
    """Bring every file that the model made in a conversation to ./ask-gpt/. Sends nothing.

    Prints `saved: PATH`, or `present: PATH` for a file that is there already. Exit 33: at least one is missing.
    """
    _one_way(False, events, json)
    return requests.Download(reference, _seconds(queue_wait, "--queue-wait"))


@app.command("list")
def list_(n: Annotated[int | None, typer.Argument(metavar="[N]", min=0, help="How many; 0 is all. Default 20.", show_default=False)] = None,
          search: Annotated[str | None, typer.Option(metavar="P", help="A regular expression, anywhere in the title; if it does not "
                                                                       "compile, a shell pattern over the whole title.")] = None,
          since: Annotated[str | None, typer.Option(metavar="D", help="Changed since: a duration (3d), an RFC 3339 date or time.")] = None,
          all_accounts: Annotated[bool, typer.Option("--all-accounts", help="Not only those of the newest record's account.")] = False,
          export: Annotated[bool, typer.Option("--export", help="Write ./ask-gpt/conversations.jsonl (all, unless N is given).")] = False,
          json: Json = False, quiet: Quiet = False) -> Request:
    """List conversations, newest first: id, TAB, title. Reads the registry alone; no browser, no network."""
    return requests.List(n, search, None if since is None else moment(since, "--since", time.time()), all_accounts, export)


@app.command()
def show(reference: Annotated[str, typer.Argument(metavar="ID|URL|OPERATION", show_default=False)],
         turn: Annotated[str | None, typer.Option(metavar="N|last", help="That turn alone; with a part, the last one by default.")] = None,
         prompt: Annotated[bool, typer.Option("--prompt", help="The turn's prompt, plain.")] = False,
         thinking: Annotated[bool, typer.Option("--thinking", help="The turn's thinking, plain.")] = False,
         answer: Annotated[bool, typer.Option("--answer", help="The turn's answer, plain.")] = False,
         json: Json = False, quiet: Quiet = False) -> Request:
    """Print a conversation's log, or one plain text of it. Reads files alone; no browser, no network."""
    parts = [name for name, given in (("prompt", prompt), ("thinking", thinking), ("answer", answer)) if given]
    if len(parts) > 1:
        raise Failure("usage", "--prompt, --thinking and --answer exclude each other; nothing was done", "ask-gpt show --help")
    return requests.Show(reference, _turn(turn), cast("Literal['prompt', 'thinking', 'answer'] | None", parts[0] if parts else None))


# Which options go with which word behind `ops`.
OPS = {"list": {"--state", "--older-than", "--limit"}, "show": {"--prompt"}, "stop": {"--conversation"},
       "resolve": {"--sent", "--not-sent", "--conversation", "--because"}, "accept-loss": {"--because"}}


@app.command()
def ops(action: Annotated[str, typer.Argument(metavar="[list|show|stop|resolve|accept-loss]", show_default=False)] = "list",
        operation: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None,
        state: Annotated[str | None, typer.Option(metavar="S", help=f"list: only {', '.join(State)}.")] = None,
        older_than: Annotated[str | None, typer.Option(metavar="D", help="list: only those admitted longer ago.")] = None,
        limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="list: the newest N of them.")] = None,
        prompt: Annotated[bool, typer.Option("--prompt", help="show: the text as admitted, while it is kept.")] = False,
        conversation: Annotated[str | None, typer.Option(metavar="ID|URL", help="stop: what waits for it and what runs in it. "
                                                                                "resolve --sent: where it is.")] = None,
        sent: Annotated[bool, typer.Option("--sent", help="resolve: a person saw that it was sent.")] = False,
        not_sent: Annotated[bool, typer.Option("--not-sent", help="resolve: a person saw that it was not sent.")] = False,
        because: Annotated[str | None, typer.Option(metavar="TEXT", help="resolve, accept-loss: why; it is kept.")] = None,
        json: Json = False, quiet: Quiet = False) -> Request:
    """List every send, newest first; show, stop or settle one; or accept that records of the ledger are lost.

    `ops` alone is `ops list`. `ops stop ID` says stopped (nothing left), stop-pressed, stop-unconfirmed or not-running.
    """
    given = {"--state": state, "--older-than": older_than, "--limit": limit, "--prompt": prompt, "--conversation": conversation,
             "--sent": sent, "--not-sent": not_sent, "--because": because}
    if action not in OPS:
        raise Failure("usage", f"ops: {named(action)} is no command; nothing was done", f"it is one of: {', '.join(OPS)}")
    if wrong := [name for name, value in given.items() if value not in (None, False) and name not in OPS[action]]:
        raise Failure("usage", f"ops {action} takes no {wrong[0]}; nothing was done", "ask-gpt ops --help")
    if operation is not None and action in ("list", "accept-loss"):
        raise Failure("usage", f"ops {action} takes no id; nothing was done", "ask-gpt ops show ID")
    if operation is None and (action in ("show", "resolve") or (action == "stop" and conversation is None)):
        raise Failure("usage", f"ops {action} needs an operation id; nothing was done", f"ask-gpt ops {action} ID")
    found = _operation(operation)
    match action:
        case "list":
            if state is not None and state not in list(State):
                raise Failure("usage", f"--state: {named(state)} is no state; nothing was done", f"one of: {', '.join(State)}")
            return requests.OpsList(state, None if older_than is None else duration(older_than, "--older-than"), limit)
        case "show":
            assert found is not None
            return requests.OpsShow(found, prompt)
        case "stop":
            if found is not None and conversation is not None:
                raise Failure("usage", "ops stop takes an operation or --conversation, not both; nothing was done", "ask-gpt ops --help")
            return requests.OpsStop(found, conversation)
        case "resolve":
            assert found is not None
            if sent == not_sent:
                raise Failure("usage", "ops resolve takes one of --sent and --not-sent; nothing was done", "ask-gpt ops --help")
            if not_sent and conversation is not None:
                raise Failure("usage", "--conversation goes with --sent; nothing was done", "ask-gpt ops --help")
            return requests.OpsResolve(found, sent, _because(because), conversation)
        case _:
            return requests.OpsAcceptLoss(_because(because))


@app.command()
def sweep(stale_after: Annotated[str | None, typer.Option("--stale-after", metavar="D",
                                                          help="How long an uncertain operation needs nobody yet (15m).")] = None,
          offline: Annotated[bool, typer.Option("--offline", help="Files alone; no browser.")] = False,
          print_unit: Annotated[str | None, typer.Option("--print-unit", metavar="cron|launchd|systemd",
                                                         help="Print what runs the sweep every hour, and do nothing else.")] = None,
          json: Json = False, quiet: Quiet = False) -> Request:
    """Heal what a crash left and say what needs a person. Sends nothing, presses nothing.

    Exit 3: something needs a person. 10 to 20: the site could not be read, or what is named; what was done without it stands.
    """
    if print_unit is None:
        return requests.Sweep(_seconds(stale_after, "--stale-after"), offline)
    if stale_after is not None or offline:
        raise Failure("usage", "--print-unit goes with no other option of sweep; nothing was done", "ask-gpt sweep --help")
    if print_unit not in ("cron", "launchd", "systemd"):
        raise Failure("usage", f"--print-unit: {named(print_unit)} is none of cron, launchd, systemd; nothing was done",
                      "ask-gpt sweep --help")
    return requests.PrintUnit(cast("Literal['cron', 'launchd', 'systemd']", print_unit))


@app.command()
def doctor(browser: Annotated[bool, typer.Option("--browser", help="Also look at the site in a window: who is signed in, and whether the "
                                                                    "page is as known. Types and presses nothing.")] = False,
           json: Json = False, quiet: Quiet = False) -> Request:
    """Look at everything that a send needs, and say what mends what is wrong. Without --browser it opens none, and changes nothing.

    Exit 3: something wants mending.
    """
    return requests.Doctor(browser)


@app.command("bootstrap-registry")
def bootstrap_registry(conversation: Annotated[str | None, typer.Option(metavar="ID|URL", help="That one alone, at any time.")] = None,
                       json: Json = False, quiet: Quiet = False) -> Request:
    """Bring the account's conversations that were begun elsewhere into the registry, once. Reads only.

    It needs an empty registry. Broken off (Ctrl-C, a kill, "too many requests"), it goes on where it stopped when it is run again.
    The site's list holds neither archived conversations nor those of projects: they come one at a time, with --conversation.
    """
    return requests.Bootstrap(conversation)


@app.command()
def login(quit: Annotated[bool, typer.Option("--quit", help="Close the suite's own Chrome and nothing else.")] = False,
          json: Json = False, quiet: Quiet = False) -> Request:
    """Open the suite's own Chrome for a person to sign in, and wait until somebody is."""
    return requests.Login(quit)


@app.command()
def practice(port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
             scenario: Annotated[list[str] | None, typer.Option(metavar="NAME[:k=v,...]", help="Switch a scenario on; repeatable.")] = None,
             tls: Annotated[bool, typer.Option("--tls", help="https with a throwaway certificate.")] = False,
             scenarios: Annotated[bool, typer.Option("--scenarios", help="List the scenarios and end.")] = False,
             json: Json = False, quiet: Quiet = False) -> Request:
    """Serve a stand-in of the site on this machine, until Ctrl-C or SIGTERM. Prints one line when it is ready."""
    return requests.Practice(port, tuple(scenario or ()), tls, scenarios)


@app.command("help")
def help_(topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", show_default=False)] = None,
          json: Json = False, quiet: Quiet = False) -> Request:
    """Explain a command or a topic."""
    return requests.Help(topic)


def _operation(text: str | None) -> str | None:
    if text is not None and not is_operation_id(text):
        raise Failure("usage", f"{named(text)} is no operation id (a canonical 26-character upper-case ULID); nothing was sent",
                      f"those of before: ask-gpt ops list; for a new one: {PROGRAM} help safety says how one is made")
    return text


def _one_way(live: bool, events: bool, json: bool) -> None:
    given = [name for name, there in (("--live", live), ("--events", events), ("--json", json)) if there]
    if len(given) > 1:
        raise Failure("usage", f"{' and '.join(given)} exclude each other; nothing was sent",
                      "--live is for eyes, --json and --events for programs")


def _because(text: str | None) -> str:
    if text is None or not text.strip():
        raise Failure("usage", "a decision needs its reason; nothing was done", "--because TEXT")
    if len(text) > LONGEST_REASON:
        raise Failure("usage", f"--because: more than {LONGEST_REASON} characters; nothing was done", "give a shorter reason")
    return text.strip()


def _choice(text: str | None, option: str) -> str | None:
    try:
        return None if text is None else choice(text)
    except ValueError:
        raise Failure("usage", f"{option}: {named(text or '')} is no word as the site writes it; nothing was sent",
                      f"{option} {'gpt-5-5-thinking' if option == '--model' else 'extended'}") from None


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else duration(text, option)


def _turn(text: str | None) -> int | Literal["last"] | None:
    if text is None:
        return None
    if text == "last":
        return "last"
    if text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0:
        return int(text)
    raise Failure("usage", f"--turn: {named(text)} is neither a number from 1 nor `last`; nothing was done", "--turn last")


assert {info.name or info.callback.__name__ for info in app.registered_commands if info.callback} == set(COMMANDS)
