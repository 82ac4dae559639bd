"""`doctor`: looks at everything that a send needs, and says of each finding what mends it. Changes nothing but its own probe files.

Guarantees: one line (or one entry of `checks[]`) for each check, whatever the others found; a check that itself breaks is a finding and
never a traceback. Exit 0 when all is well, 3 with findings. Sends nothing, types nothing, and opens a browser only with `--browser`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from gptbridge.core.errors import Failure
from gptbridge.core.result import Outcome
from gptbridge.shell.ending import report
from gptbridge.shell.job import Output
from gptbridge.shell.terminal import Terminal, exact, line_text


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `detail` what is there, `mend` what to type or do, "" where nothing is to be mended."""

    name: str
    ok: bool
    detail: str
    mend: str = ""


Look = Callable[[], Iterator[Check]]


def run(output: Output, *, browser: bool = False, env: Mapping[str, str] | None = None) -> int:
    """The exit code: 0, or 3 when something wants mending. `browser`: look at the site's page too."""
    env = dict(os.environ) if env is None else env
    terminal = Terminal(quiet=output.quiet)
    checks = []
    for check in _all(env, browser):
        checks.append(check)
        if not output.json and not (output.quiet and check.ok):
            terminal.put(exact(_line(check, terminal.tty)))
    wrong = [check for check in checks if not check.ok]
    failure = None
    if wrong:
        names = ", ".join(check.name for check in wrong)
        failure = Failure("findings", f"{len(wrong)} of {len(checks)} checks found something to mend: {names}",
                          "\n".join(dict.fromkeys(check.mend for check in wrong if check.mend)))
    elif not output.json and not output.quiet:
        terminal.put(exact(f"doctor: {len(checks)} checks, all well\n"))
    outcome = Outcome("doctor", "findings" if wrong else "ok", failure, extra={"checks": [asdict(check) for check in checks]})
    return report(outcome, output, answer=False)


def guarded(name: str, look: Look) -> Iterator[Check]:
    """What a check says; what it cannot look at is a finding of its own."""
    try:
        yield from look()
    except Failure as failure:
        yield Check(name, False, failure.cause, failure.hint)
    except Exception as error:
        yield Check(name, False, f"could not be looked at ({type(error).__name__}: {error})"[:300], "")


def _all(env: Mapping[str, str], browser: bool) -> Iterator[Check]:
    from gptbridge.shell import doctor_home, doctor_machine, doctor_page

    for name, look in (*doctor_machine.looks(env), *doctor_home.looks(env), *(doctor_page.looks(env) if browser else ())):
        yield from guarded(name, look)


def _line(check: Check, tty: bool) -> str:
    text = f"{'ok  ' if check.ok else 'MEND'}  {check.name:<12} {line_text(check.detail, tty)}\n"
    return text if check.ok else text + "".join(f"      {'':<12} -> {line_text(row, tty)}\n" for row in check.mend.splitlines())
