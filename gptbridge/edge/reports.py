"""What is kept of a failure for whoever mends it: `reports/<time>-<slug>.json`, and which facts may stand there.

Guarantees: 0600, whole or absent, the newest 20 kept. A bug report holds types, places in the code and names of options: no prompt, no
answer, no title, no message of an exception (it could quote any of them), no environment and no paths. A report of the page holds its
structure alone (edge/outline.py).
Touches the home's `reports` folder. Raises `Failure`.

Format `ask-gpt-report/1`, one object: `format`, `at`, `version`, `python`, `platform`, `slug`, and for a bug `command`, `options`,
`exceptions` (outermost first: `type`, `errno`, `frames` of `module`, `line`, `function`); for a page `what` (the failure, in our own
words), `page` (`generation`, `path`, `hooks` by name and count, `missing`, `facts`, `lengths`, and `outline`: elements with `tag`, some
attributes, `text` and `within` (lengths), `shown`, `children`, `more`).
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import rfc3339
from gptbridge.edge.files import remove, replace
from gptbridge.edge.home import Home, open_home
from gptbridge.edge.host import Host

FORMAT = "ask-gpt-report/1"
KEEP = 20
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-[a-z-]+\.json")
_FRAMES = 50


def write_report(home: Home, host: Host, slug: str, fields: Mapping[str, Any]) -> str:
    """Write one report; returns its path, for people. `fields` must be redacted already."""
    at = rfc3339(host.wall())
    name = f"{at.replace(':', '-')}-{slug}.json"
    body = {"format": FORMAT, "at": at, "version": version(), "python": platform.python_version(), "platform": sys.platform, "slug": slug}
    folder = home.need("reports")
    replace(home.disk, folder, name, json.dumps({**body, **fields}, indent=1).encode("ascii") + b"\n")
    for old in [n for n in home.disk.names(folder) if _NAME.fullmatch(n)][:-KEEP]:
        try:
            remove(home.disk, folder, old)
        except Failure:
            continue
    return home.shown(f"reports/{name}")


class ReportFolder:
    """The Reports port."""

    def __init__(self, home: Home, host: Host) -> None:
        self._home, self._host = home, host

    def keep(self, slug: str, fields: Mapping[str, Any]) -> str:
        return write_report(self._home, self._host, slug, fields)


def write_bug(env: Mapping[str, str], error: BaseException, command: str = "", options: Sequence[str] = ()) -> str:
    """Keep a report of an unexpected exception; the one sentence for the person, which names the file. Never raises."""
    try:
        host = Host(env)
        home = open_home(env, create=True, host=host)
        try:
            path = write_report(home, host, "bug", bug(error, command, options))
        finally:
            home.close()
        return f"this is a bug in ask-gpt ({type(error).__name__}); a report without your texts is in {path}"
    except Exception as why:  # the home itself may be what is broken
        place = bug(error, command, options)["exceptions"][0]["frames"][-1:]
        where = f" at {place[0]['module']}:{place[0]['line']}" if place else ""
        return f"this is a bug in ask-gpt ({type(error).__name__}{where}); no report could be written ({type(why).__name__})"


def bug(error: BaseException, command: str, options: Sequence[str]) -> dict[str, Any]:
    """The redacted facts of an unexpected exception."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    names = [re.match(r"-{1,2}[a-z-]*", option) for option in options]
    return {"command": command, "options": [name[0] for name in names if name],
            "exceptions": [{"type": f"{type(e).__module__}.{type(e).__qualname__}", "errno": getattr(e, "errno", None),
                            "frames": _frames(e)} for e in chain]}


def _frames(error: BaseException) -> list[dict[str, Any]]:
    frames, place = [], error.__traceback__
    while place is not None:
        frame = place.tb_frame
        frames.append({"module": frame.f_globals.get("__name__"), "line": place.tb_lineno, "function": frame.f_code.co_qualname})
        place = place.tb_next
    return frames[-_FRAMES:]


def version() -> str:
    """The installed version of the suite, "unknown" where it is run without being installed."""
    from importlib import metadata

    try:
        return metadata.version("gptbridge")
    except metadata.PackageNotFoundError:
        return "unknown"
