"""Settings: `config.yaml`, the environment, and which of them wins (flag beats environment beats config).

Guarantees: an unknown key, a wrong type or a value outside its range is refused (20) and named; nothing is accepted and ignored. The
site is the real one or a loopback literal; only a loopback site may have a gap under 60 s. Reads one file; writes nothing. YAML is
imported only when there is a file.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gptbridge.core.durations import seconds
from gptbridge.core.errors import Failure
from gptbridge.core.operation import choice
from gptbridge.core.pacing import GAP_S, Gap
from gptbridge.core.ports import Settings

REAL_SITE = "https://chatgpt.com"
NAME = "config.yaml"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that may be chosen; paths as given, None where nothing was."""

    settings: Settings
    browser: str | None = None
    driver: str | None = None
    browser_flags: tuple[str, ...] = ()
    headless: bool = False


def load(env: Mapping[str, str], *, wait: float | None = None, queue_wait: float | None = None) -> Config:
    """Raises Failure("bad-config") naming file or variable and key."""
    path, found = _path(env), {}
    if path is not None:
        found = _read(path, in_home=bool(env.get("ASKGPT_HOME")))
    chosen: dict[str, Any] = {key: KEYS[key](key, value) for key, value in found.items()}
    for variable, key, parse in _VARIABLES:
        text = env.get(variable)
        if text:
            chosen[key] = parse(variable, text)
    site = chosen.get("site", REAL_SITE)
    gap = chosen.get("gap", GAP_S)
    if gap < GAP_S and not is_loopback(site):
        raise _bad("gap (ASKGPT_DISPATCH_GAP)", "is under 60 s, which only a loopback site may have")
    default = Settings()
    settings = Settings(
        site=site, account=chosen.get("account"), gap=Gap(gap), seats=chosen.get("seats", default.seats),
        queue_wait=default.queue_wait if queue_wait is None else queue_wait,
        wait=chosen.get("wait", default.wait) if wait is None else wait,
        give_up=chosen.get("give_up", default.give_up), copies=chosen.get("copies", True),
        model=chosen.get("model") or None, effort=chosen.get("effort") or None)
    return Config(settings, chosen.get("browser"), chosen.get("driver"), chosen.get("browser_flags", ()), chosen.get("headless", False))


def is_loopback(site: str) -> bool:
    host = urlsplit(site).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _path(env: Mapping[str, str]) -> str | None:
    if home := env.get("ASKGPT_HOME"):
        path = os.path.join(home, NAME)
    else:
        base = env.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(base):
            base = os.path.join(env.get("HOME", "") or os.path.expanduser("~"), ".config")
        path = os.path.join(base, "gptbridge", NAME)
    return path if os.path.lexists(path) else None


def _read(path: str, *, in_home: bool) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with open(path, encoding="utf-8", opener=_opener(in_home)) as file:
            document = YAML(typ="safe").load(file)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise Failure("bad-config", f"{NAME} is no valid YAML{where}; nothing was sent", f"mend {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Failure("bad-config", f"{NAME} cannot be read; nothing was sent", f"make {path} a readable regular file") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise Failure("bad-config", f"{NAME} holds no mapping of keys; nothing was sent", f"mend {path}")
    unknown = [str(key) for key in document if key not in KEYS]
    if unknown:
        raise Failure("bad-config", f"{NAME}: unknown key {unknown[0]!r}; nothing was sent", f"known keys: {', '.join(sorted(KEYS))}")
    return dict(document)


def _opener(in_home: bool) -> Callable[[str, int], int]:
    """A pipe or device is not waited for; below a home no link is followed (the user's own configuration folder may hold some)."""
    def opener(name: str, flags: int) -> int:
        if in_home and os.path.islink(name):
            raise OSError("a link")
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError("no regular file")
        return fd

    return opener


def _bad(name: str, what: str) -> Failure:
    return Failure("bad-config", f"{name} {what}; nothing was sent", "see ask-gpt help config")


def _site(name: str, value: Any) -> str:
    text = str(value).rstrip("/")
    parts = urlsplit(text)
    plain = parts.scheme in ("http", "https") and not parts.path and not parts.query and not parts.username
    if text == REAL_SITE or (plain and is_loopback(text)):
        return text
    raise _bad(name, f"must be {REAL_SITE} or a loopback address such as http://127.0.0.1:8000")


def _duration(name: str, value: Any) -> float:
    try:
        return seconds(value if isinstance(value, str) else _number(name, value))
    except ValueError:
        raise _bad(name, "is no duration (90s, 15m, 1h, 3d)") from None


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(name, "is no number")
    return str(value)


def _gap(name: str, value: Any) -> float:
    gap = _duration(name, value)
    if gap > 86400:
        raise _bad(name, "is over a day")
    return gap


def _bool(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        return value.lower() in ("1", "true", "yes", "on")
    raise _bad(name, "is neither true nor false")


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise _bad(name, "is no text")


def _account(name: str, value: Any) -> str:
    text = _text(name, value)
    if re.fullmatch(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)?", text):
        return text
    raise _bad(name, "is no account as ask-gpt shows it (user id, or user id/account id)")


def _choice(name: str, value: Any) -> str:
    try:
        return choice(value if isinstance(value, str) else _number(name, value))
    except ValueError:
        raise _bad(name, "is no model or effort as the site writes it (gpt-5-5-thinking, extended)") from None


def _seats(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 16:
        return value
    raise _bad(name, "is no whole number from 1 to 16")


def _flags(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(flag, str) and flag.startswith("--") for flag in value):
        return tuple(value)
    raise _bad(name, "is no list of flags that begin with --")


KEYS: dict[str, Callable[[str, Any], Any]] = {
    "site": _site, "browser": _text, "driver": _text, "browser_flags": _flags, "headless": _bool, "seats": _seats, "gap": _gap,
    "wait": _duration, "account": _account, "give_up": _duration, "copies": _bool, "model": _choice, "effort": _choice,
}
_VARIABLES: tuple[tuple[str, str, Callable[[str, Any], Any]], ...] = (
    ("ASKGPT_SITE", "site", _site), ("ASKGPT_DISPATCH_GAP", "gap", _gap), ("ASKGPT_BROWSER", "browser", _text),
    ("ASKGPT_HEADLESS", "headless", _bool), ("ASKGPT_WAIT", "wait", _duration), ("ASKGPT_MODEL", "model", _choice),
    ("ASKGPT_EFFORT", "effort", _choice),
)
