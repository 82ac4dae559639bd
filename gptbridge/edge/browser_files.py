"""Secret: where browser and driver lie, and what the suite keeps below `browser/`.

Guarantees: the profile is the suite's own and 0700; the driver that runs is a private copy; `browser.json` names only what we
started. Touches the home's `browser/` folder; runs `--version` of browser and driver. Owns the format of `browser.json`:
`{"format": 1, "id", "port", "pid", "started", "driver", "headless", "version"}`, no token; while a start is under way only
`format`, `port`, `starting` and `before`. Fails closed: a file that cannot be read as that names no browser.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.edge import processes

ID_FILE = "browser.json"
STARTS = 20  # so many unfinished ones are remembered
BROWSERS = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser")
MAC_BROWSERS = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium")
# Where a person's own profiles live (SE-08): Chromium's documentation, "User Data Directory", read 2026-11.
OWN_PROFILES = (
    "~/.config/google-chrome", "~/.config/google-chrome-beta", "~/.config/google-chrome-unstable", "~/.config/chromium",
    "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/snap/chromium", "~/.var/app/com.google.Chrome",
    "~/.var/app/org.chromium.Chromium", "~/Library/Application Support/Google", "~/Library/Application Support/Chromium",
    "~/Library/Application Support/BraveSoftware", "~/Library/Application Support/Microsoft Edge",
)


@dataclass(frozen=True, slots=True)
class Running:
    """The browser that we started: DevTools `id` and `port`, process and its start mark, the driver copy's name, its look."""

    id: str
    port: int
    pid: int
    started: str
    driver: str
    headless: bool
    version: str

    def to_bytes(self) -> bytes:
        return json.dumps({"format": 1, **asdict(self)}).encode() + b"\n"


def read_id_file(folder: Path) -> tuple[Running | None, tuple[int, ...]]:
    """(the browser that was started, or None; the ports of starts that never finished, oldest first)."""
    try:
        data: Any = json.loads((folder / ID_FILE).read_bytes())
        if data["format"] != 1:
            return None, ()
        if "starting" in data:
            return None, (*map(int, data.get("before", ())), int(data["port"]))
        return Running(str(data["id"]), int(data["port"]), int(data["pid"]), str(data["started"]), str(data["driver"]),
                       bool(data["headless"]), str(data["version"])), ()
    except (OSError, ValueError, KeyError, TypeError):
        return None, ()


def starting(port: int, before: tuple[int, ...] = ()) -> bytes:
    """What the id file says while a start is under way: a crash then leaves a browser that the next start recognises.

    before: the ports of earlier ones that never finished. The browser of one may come up only when the next start is under way.
    """
    return json.dumps({"format": 1, "port": port, "starting": True, "before": before[-STARTS:]}).encode() + b"\n"


def find_browser(asked: str | None) -> Path:
    """The browser's program: the configured one, else the first that is installed. Failure("browser") when there is none."""
    if asked:
        found = shutil.which(os.path.expanduser(asked))
        if found:
            return Path(found)
        raise Failure("browser", f"The configured browser {asked} is not there or cannot be run. Nothing was started.",
                      "correct `browser` in config.yaml, or remove it to use an installed Chrome or Chromium")
    for name in (*BROWSERS, *(MAC_BROWSERS if sys.platform == "darwin" else ())):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise Failure("browser", "No Chrome or Chromium was found. Nothing was started.",
                  "install Chromium (Debian, Ubuntu: apt install chromium chromium-driver), or name yours as `browser` in config.yaml")


def find_driver(asked: str | None, browser: Path) -> Path | None:
    """The system's chromedriver: the configured one, the one beside the browser, one on the path; None when there is none."""
    if asked:
        found = shutil.which(os.path.expanduser(asked))
        if found:
            return Path(found)
        raise Failure("browser", f"The configured driver {asked} is not there or cannot be run. Nothing was started.",
                      "correct `driver` in config.yaml, or remove it to use the one beside the browser")
    beside = [folder / "chromedriver" for folder in (browser.parent, browser.resolve().parent)]
    for candidate in beside:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return candidate
    found = shutil.which("chromedriver")
    return Path(found) if found else None


def version_of(program: Path, what: str) -> str:
    """`156.0.8078.108` as the program itself says it."""
    try:
        said = subprocess.run([str(program), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                              check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failure("browser", f"The {what} {program} does not run ({type(error).__name__}). Nothing was started.") from error
    match = re.search(r"\b(\d+(?:\.\d+){1,3})\b", said.stdout)
    if not match:
        raise Failure("browser", f"The {what} {program} does not tell its version. Nothing was started.")
    return match[1]


def major(version: str) -> int:
    return int(version.partition(".")[0])


def check_versions(browser: Path, driver: Path) -> str:
    """The browser's version; Failure("browser") naming both when the driver is for another major version."""
    chrome, chromedriver = version_of(browser, "browser"), version_of(driver, "driver")
    if major(chrome) != major(chromedriver):
        raise Failure("browser", f"The driver {driver} is for version {major(chromedriver)}, the browser {browser} is version "
                      f"{major(chrome)}. Nothing was started.",
                      "install both from one source, or name a matching pair as `browser` and `driver` in config.yaml")
    return chrome


def driver_name(source: Path, version: str) -> str:
    """The copy's name below `browser/`; another source or a new build gives another name, so a running copy is never touched."""
    facts = source.stat()
    return f"chromedriver-{version}-{facts.st_size:x}-{facts.st_mtime_ns:x}"


def check_profile(profile: Path) -> None:
    """Makes the profile folder, 0700. Refuses a person's own profile (SE-08)."""
    real = Path(os.path.realpath(profile))
    config = os.environ.get("XDG_CONFIG_HOME")
    own = [Path(os.path.realpath(os.path.expanduser(place))) for place in OWN_PROFILES]
    own += [Path(os.path.realpath(config)) / name for name in ("google-chrome", "chromium")] if config else []
    taken = any(real == place or place in real.parents for place in own)
    if taken or "default" in (profile.name.lower(), real.name.lower()):
        raise Failure("browser", f"{profile} is, or looks like, a browser profile of your own; the suite only opens its own. "
                      "Nothing was started.", "use another home (ASKGPT_HOME)")
    try:
        profile.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(profile, 0o700)
    except OSError as error:
        raise Failure("state-unwritable", f"The browser profile {profile} cannot be made ({error.strerror}). "
                      "Nothing was started.") from error


def holder_of(profile: Path) -> int | None:
    """The process that has this profile open, by Chrome's own lock and by command lines; None when nobody has."""
    for pid in processes.having_argument(f"--user-data-dir={profile}"):
        if processes.started(pid):
            return pid
    try:
        host, _, number = os.readlink(profile / "SingletonLock").rpartition("-")
    except OSError:
        return None
    if host != socket.gethostname() or not number.isdigit() or not processes.command_line(int(number)):
        return None
    # The number may belong to another program by now: Chrome calls that lock stale too.
    words = processes.command_line(int(number))
    is_chrome = "chrom" in os.path.basename(words[0]).lower() or any(word.startswith("--user-data-dir") for word in words)
    return int(number) if is_chrome else None


def drop_stale_lock(profile: Path) -> None:
    """Removes the lock links of a Chrome that crashed, also under a host name that has changed since."""
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
        try:
            os.unlink(profile / name)
        except OSError:
            pass


def lock_is_there(profile: Path) -> bool:
    return os.path.lexists(profile / "SingletonLock")
