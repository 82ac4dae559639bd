"""What the machine brings: Python, packages, settings, browser and driver, a display. Reads only; runs `--version` of two programs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gptbridge.core.errors import Failure
from gptbridge.shell.doctor import Check, Look

OLDEST = (3, 11)
SETUP = "make setup"


def looks(env: Mapping[str, str]) -> tuple[tuple[str, Look], ...]:
    return (("python", _python), ("packages", _packages), ("config", lambda: _config(env)), ("browser", lambda: _browser(env)),
            ("display", lambda: _display(env)))


def _python() -> Iterator[Check]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", sys.version_info[:2] >= OLDEST, f"{version}, {sys.executable}", f"Python 3.11 or later, then {SETUP}")


def _packages() -> Iterator[Check]:
    """Everything that the package itself asks for, apart from its extras."""
    from importlib import metadata

    asked = [re.split(r"[\s;<>=!~\[(]", line, maxsplit=1)[0] for line in metadata.requires("gptbridge") or () if "extra ==" not in line]
    found, missing = [], []
    for name in asked:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Check("packages", False, f"missing: {', '.join(missing)}", SETUP)
    else:
        yield Check("packages", True, ", ".join(found))


def _config(env: Mapping[str, str]) -> Iterator[Check]:
    from gptbridge.edge.config import load

    config = load(env)
    gap = config.settings.gap
    yield Check("config", True, f"site {config.settings.site}, gap {gap.shortest:g} to {gap.longest:g} s, seats {config.settings.seats}")


def _browser(env: Mapping[str, str]) -> Iterator[Check]:
    from gptbridge.edge import browser_files
    from gptbridge.edge.config import load

    config = load(env)
    browser = browser_files.find_browser(config.browser)
    version = browser_files.version_of(browser, "browser")
    yield Check("browser", True, f"{version}, {browser}")
    driver = browser_files.find_driver(config.driver, browser)
    if driver is None:
        yield Check("driver", True, "none beside the browser; one is fetched at the first start")
        return
    try:
        browser_files.check_versions(browser, driver)
    except Failure as failure:
        yield Check("driver", False, failure.message, failure.hint)
        return
    yield Check("driver", True, f"{browser_files.version_of(driver, 'driver')}, {driver}")
    yield from _sandbox()


def _sandbox() -> Iterator[Check]:
    if os.geteuid() == 0:
        yield Check("sandbox", True, "off, because this is root; an ordinary user has it")


def _display(env: Mapping[str, str]) -> Iterator[Check]:
    from gptbridge.edge.config import load

    if load(env).headless:
        yield Check("display", True, "none needed: headless")
    elif not sys.platform.startswith("linux"):
        yield Check("display", True, "the desktop's")
    elif shown := env.get("WAYLAND_DISPLAY") or env.get("DISPLAY"):
        yield Check("display", _answers(env), f"{shown}" if _answers(env) else f"{shown}, but nothing answers there",
                    "run it in a desktop session, or set ASKGPT_HEADLESS=1")
    else:
        yield Check("display", False, "none, and headless is off", "run it in a desktop session, or set ASKGPT_HEADLESS=1")


def _answers(env: Mapping[str, str]) -> bool:
    """Whether the socket of a local display is there; a display elsewhere is taken as given."""
    if wayland := env.get("WAYLAND_DISPLAY"):
        return Path(env.get("XDG_RUNTIME_DIR", "/"), wayland).exists()
    local = re.fullmatch(r"(?:unix)?:(\d+)(?:\.\d+)?", env.get("DISPLAY", ""))
    return local is None or Path(f"/tmp/.X11-unix/X{local[1]}").exists()
