"""`sweep --print-unit`: what cron, systemd or launchd need to run the sweep of this very installation, as text for a person to install.

Guarantees: the real paths of this program, home and browser, whatever folder they were named from, quoted as each of the three wants it;
a minute of its own for each printing, so that not every machine asks at once; quiet while all is well; a finding (exit 3) does not mark the
unit as failed. Writes nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Literal
from xml.sax.saxutils import escape

from gptbridge.core.errors import Failure
from gptbridge.edge.browser_files import BROWSERS
from gptbridge.edge.home import home_path

Kind = Literal["cron", "launchd", "systemd"]
TEMPLATES: dict[Kind, str] = {"cron": "sweep.cron", "launchd": "sweep.plist", "systemd": "sweep.systemd"}
# What decides which home, settings and browser a command uses. A timer has no desktop, hence headless unless the user chose otherwise.
PASSED_ON = ("ASKGPT_HOME", "ASKGPT_SITE", "ASKGPT_DISPATCH_GAP", "ASKGPT_BROWSER", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
HEADLESS = "ASKGPT_HEADLESS"


def text(kind: Kind, env: Mapping[str, str], *, unit: float) -> str:
    """The unit. `unit` in [0, 1) chooses the minute."""
    chosen = _passed_on(env) | {"PATH": _path(env), HEADLESS: env.get(HEADLESS) or "1"}
    command = program()
    for name, value in (*chosen.items(), *(("the program's path", word) for word in command)):
        if not value.isprintable():
            raise Failure("usage", f"{name} holds a character that no {kind} file can say; nothing was done", "use another path")
    template = Template(resources.files("gptbridge.data").joinpath(TEMPLATES[kind]).read_text(encoding="utf-8"))
    fill = {"cron": _cron, "systemd": _systemd, "launchd": _launchd}[kind]
    environment, line = fill(chosen, command)
    return template.substitute(environment=environment, command=line, minute=int(unit * 60),
                               log=escape(str(Path(env.get("HOME") or "/", "Library", "Logs", "ask-gpt-sweep.log"))))


def _passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """As they are meant here and now: a timer runs in another folder, where a relative path would lead to another home."""
    found = {name: env[name] for name in PASSED_ON if env.get(name)}
    if "ASKGPT_HOME" in found:
        found["ASKGPT_HOME"] = home_path(env)
    if "ASKGPT_BROWSER" in found:
        asked = os.path.expanduser(found["ASKGPT_BROWSER"])
        program = shutil.which(asked, path=env.get("PATH"))
        if program or "/" in asked:
            found["ASKGPT_BROWSER"] = os.path.abspath(program or asked)
    return {name: value for name, value in found.items() if not name.startswith("XDG_") or os.path.isabs(value)}  # others do not count


def _path(env: Mapping[str, str]) -> str:
    """The folders of the path that hold a browser or its driver, and the usual two: a timer's own path may lack the first."""
    programs = (*BROWSERS, "chromedriver")
    folders = map(os.path.abspath, env.get("PATH", "").split(":"))
    holding = [folder for folder in folders if any(Path(folder, name).is_file() for name in programs)]
    return ":".join(dict.fromkeys([*holding, "/usr/bin", "/bin"]))


def program() -> list[str]:
    """How to run the quiet sweep: the checkout's own script, else the package with this Python."""
    script = Path(__file__).resolve().parents[2] / "bin" / "ask-gpt-sweep"
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "gptbridge", "sweep", "--quiet"]


def _cron(env: Mapping[str, str], command: Sequence[str]) -> tuple[str, str]:
    """All in the command, since a line `NAME=` of its own would change every job below it; there `%` means a line break."""
    return "", shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *command]).replace("%", r"\%")


def _systemd(env: Mapping[str, str], command: Sequence[str]) -> tuple[str, str]:
    def quoted(value: str, dollar: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar) + '"'

    return ("\n".join("Environment=" + quoted(f"{name}={value}", "$") for name, value in env.items()),
            " ".join(quoted(word, "$$") for word in command))


def _launchd(env: Mapping[str, str], command: Sequence[str]) -> tuple[str, str]:
    return ("\n".join(f"    <key>{name}</key>\n    <string>{escape(value)}</string>" for name, value in env.items()),
            "\n".join(f"    <string>{escape(word)}</string>" for word in command))
