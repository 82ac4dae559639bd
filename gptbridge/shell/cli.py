"""argv -> command -> exit code: the way in, and the one place where every way out ends.

Guarantees: with `--json` standard output holds one JSON object whatever happens, a wrong command line included; never a traceback; a bug
is exit 1 and a report file. Standard input is read for a prompt `-` and never otherwise.
Imports nothing heavy: each command brings what it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gptbridge.core.errors import EXITS, Failure
from gptbridge.shell import arguments, requests
from gptbridge.shell.reply import Reply
from gptbridge.shell.requests import Request
from gptbridge.shell.store import Store
from gptbridge.shell.terminal import Terminal, hold_descriptors

if TYPE_CHECKING:
    from gptbridge.shell.job import Job, Output

    RunJob = Callable[[Job, Output], int]
    RunLogin = Callable[[bool, Output], int]
COMPLETE = "_ASKGPT_COMPLETE"  # set by the scripts of `help completion` alone: the words of a line come in, what may stand next goes out
SPEECH = ("--json", "-q", "--quiet")
NO_HOME = (type(None), requests.Help, requests.Version, requests.Practice, requests.PrintUnit)  # what says nothing about any home
READING = (requests.List, requests.Show, requests.OpsList, requests.OpsShow)


def main(argv: list[str] | None = None, *, run_job: RunJob | None = None, run_login: RunLogin | None = None,
         environ: Mapping[str, str] | None = None) -> int:
    """One command. `argv` without the program's name; the runners are given by tests alone."""
    hold_descriptors()
    args = list(sys.argv[1:] if argv is None else argv)
    env = os.environ if environ is None else environ
    if COMPLETE in env:
        from gptbridge.shell import completing

        Terminal(quiet=True).put(completing.run(args, Store(env)))
        return 0
    look = arguments.scan(args)
    terminal = Terminal(quiet=look.quiet)
    store = Store(env)
    code, request = _ended(args, look, terminal, store, run_job, run_login)
    if not look.quiet and not isinstance(request, NO_HOME):
        # What a reading command has read is read once; all others may have changed it meanwhile.
        _remind(store if isinstance(request, READING) else Store(env), terminal)
    return code


def _ended(args: list[str], look: arguments.Scan, terminal: Terminal, store: Store, run_job: RunJob | None,
           run_login: RunLogin | None) -> tuple[int, Request | None]:
    """The exit code, and what was asked for; None where the line says nothing that could be asked."""
    command = look.command or "ask-gpt"
    started = False
    request: Request | None = None
    try:
        if sys.platform == "win32":
            raise Failure("bad-config", "ask-gpt runs on Linux and macOS, not on Windows; nothing was sent")
        line = arguments.command_line(arguments.decoded(args))
        command = line[0].lstrip("-")
        request = parse(line)
        if isinstance(request, requests.Send | requests.Resume):
            from gptbridge.shell import asking

            job = asking.job(request, store, terminal)
            started = job.sends
            return _worked(job, _output(look), run_job), request
        if isinstance(request, requests.Sweep | requests.Bootstrap | requests.Download):
            return _worked(_job(request, store), _output(look), run_job), request
        if isinstance(request, requests.Doctor):
            from gptbridge.shell import doctor

            return doctor.run(_output(look), browser=request.browser, env=store.environ), request
        if isinstance(request, requests.Login):
            if run_login is None:
                from gptbridge.shell import login

                run_login = login.run
            return run_login(request.quit, _output(look)), request
        if isinstance(request, requests.Practice) and not request.names:
            return _practice(request, look, terminal), request
        reply = _reply(request, store, terminal.tty)
        return _said(reply, store, look.json, terminal), request
    except Failure as failure:
        return _failed(command, failure, look, terminal), request
    except KeyboardInterrupt:
        interrupted = Failure("interrupted", "interrupted" if started else "interrupted; nothing was sent")
        return _failed(command, interrupted, look, terminal, started), request
    except Exception as error:
        from gptbridge.edge.reports import write_bug

        sentence = write_bug(store.environ, error, command, look.options)
        hint = "ask-gpt ops list says what became of the message" if started else ""
        return _failed(command, Failure("bug", sentence, hint), look, terminal, started), request


def parse(line: list[str]) -> Request:
    """What the line asks for. The overview, the version and a plain `list` are known here, all else by typer's parser."""
    options = arguments.scan(line[1:]).options
    if "--help" in options or "-h" in options:
        return requests.Help(line[0], usage=True)
    if line[0] == "--version" and all(option in SPEECH for option in options):
        return requests.Version()
    if line[0] == "help" and all(word in SPEECH for word in line[1:]):
        return requests.Help()
    plain = plain_list(line)
    if plain is not None:
        return plain
    from gptbridge.shell import grammar

    return grammar.parse(line)


def plain_list(line: list[str]) -> requests.List | None:
    """`list`, `list N`, with --json and -q at most: what typer's parser would say of it, without its start-up time."""
    words = [word for word in line[1:] if word not in SPEECH]
    if line[0] != "list" or len(words) > 1 or not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        return None
    return requests.List(int(words[0]) if words else None)


# The commands that a worker does

def _output(look: arguments.Scan) -> Output:
    from gptbridge.shell.job import Output

    return Output(look.json, look.quiet, look.events, look.live and not look.events)


def _job(request: requests.Sweep | requests.Bootstrap | requests.Download, store: Store) -> Job:
    from gptbridge.shell.job import Job

    if isinstance(request, requests.Sweep):
        return Job("sweep", offline=request.offline, stale_after=request.stale_after)
    from gptbridge.shell import resolve

    if isinstance(request, requests.Download):
        return Job("download-attachments", conversation_id=resolve.of_reference(request.reference, store), queue_wait=request.queue_wait)
    named = None if request.conversation is None else resolve.conversation(request.conversation, store, config=True)
    return Job("bootstrap-registry", conversation_id=named)


def _worked(job: Job, output: Output, run_job: RunJob | None) -> int:
    if run_job is None:
        from gptbridge.shell import front

        run_job = front.run
    return run_job(job, output)


# The commands that read

def _reply(request: Request, store: Store, tty: bool) -> Reply:
    match request:
        case requests.List():
            from gptbridge.shell import reading

            return reading.list_conversations(request, store, tty)
        case requests.Show():
            from gptbridge.shell import reading

            return reading.show(request, store, tty)
        case requests.OpsList():
            from gptbridge.shell import operations

            return operations.list_operations(request, store, tty)
        case requests.OpsShow():
            from gptbridge.shell import operations

            return operations.show_operation(request, store, tty)
        case requests.OpsStop():
            from gptbridge.shell import decisions

            return decisions.stop(request, store)
        case requests.OpsResolve():
            from gptbridge.shell import decisions

            return decisions.resolve(request, store, tty)
        case requests.OpsAcceptLoss():
            from gptbridge.shell import decisions

            return decisions.accept_loss(request, store)
        case requests.PrintUnit(kind=kind):
            from gptbridge.shell import units

            unit = units.text(kind, store.environ, unit=store.host.unit())
            return Reply("sweep", unit.encode(), {"unit": unit})
        case requests.Practice():
            from gptbridge.practice.server import scenario_lines

            lines = scenario_lines()
            return Reply("practice", "".join(line + "\n" for line in lines).encode(), {"scenarios": lines})
        case requests.Version():
            from gptbridge.edge.reports import version

            return Reply("version", f"ask-gpt {version()}\n".encode(), {"version": version()})
        case requests.Help(topic=topic):
            from gptbridge.shell import topics

            text = topics.explained(topic, usage=request.usage)
            return Reply("help", text.encode(), {"help": {"topic": topic, "text": text}})
        case _:
            raise TypeError(type(request).__name__)


def _said(reply: Reply, store: Store, as_json: bool, terminal: Terminal) -> int:
    reads = reply.command in ("list", "show", "ops")
    if reads and reply.failure is None and (as_json or not terminal.quiet):
        reply.warnings += store.trouble()
    if as_json:
        from gptbridge.core.result import Outcome, document

        slug = reply.failure.slug if reply.failure is not None else "ok"
        outcome = Outcome(reply.command, slug, reply.failure, conversation=reply.conversation, block=reply.block, log=reply.log,
                          log_canonical=reply.log_canonical, warnings=reply.warnings, extra={**reply.extra, **reply.more()})
        doc = document(outcome, **({"site": reply.site} if reply.site else {}))
        doc["account"], doc["title"] = doc["account"] or None, doc["title"] or None
        terminal.document(doc)
    else:
        terminal.put(reply.data)
    for warning in reply.warnings:
        terminal.note(f"warning: {warning}")
    if reply.failure is not None:
        terminal.error(reply.failure)
        return reply.failure.exit.code
    if terminal.broken is not None and not isinstance(terminal.broken, BrokenPipeError):
        terminal.say(f"ask-gpt: standard output cannot be written: {terminal.broken.strerror}")
        return EXITS["state-unwritable"].code
    return 0


def _remind(store: Store, terminal: Terminal) -> None:
    """The one line about operations of which nobody knows whether they left, as they are now (RP-14): the last of every command that has to
    do with a home, however it ended."""
    try:
        uncertain = store.glimpse.view.uncertain()
    except (Failure, OSError):
        return  # a ledger that cannot be read takes nothing from what was done, and is told by what needs it
    if uncertain:
        from gptbridge.core.operation_document import uncertain_line

        terminal.note(uncertain_line(uncertain) or "")


# practice, and every failure

def _practice(request: requests.Practice, look: arguments.Scan, terminal: Terminal) -> int:
    from gptbridge.practice import server
    from gptbridge.practice.scenarios import BadParameter, UnknownScenario
    from gptbridge.practice.scenarios import parse as scenario

    for name in request.scenarios:
        try:
            scenario(name)
        except (UnknownScenario, BadParameter) as error:
            raise Failure("usage", f"{error}; nothing is served", "ask-gpt practice --scenarios") from None
    code = server.run(request.port, list(request.scenarios), request.tls)
    if code:
        # The site has said why on standard error; the document must still come.
        return _failed("practice", Failure("bad-config", "the practice site cannot serve"), look, terminal) if look.json else code
    return _said(Reply("practice"), Store({}), True, terminal) if look.json else 0


def _failed(command: str, failure: Failure, look: arguments.Scan, terminal: Terminal, started: bool = False) -> int:
    """`started`: the message may be on its way; then nothing is claimed about it."""
    if look.json or look.events:
        from gptbridge.core.result import Outcome, document

        doc: dict[str, Any] = document(Outcome(command, failure.slug, failure))
        if started:
            doc["sent"], doc["retry"] = "unknown", "never"
        if look.json:
            terminal.document(doc)
        else:
            from gptbridge.shell import event_lines

            event_lines.close(terminal, doc)
    terminal.error(failure)
    return failure.exit.code
