"""Secret: what undetected-chromedriver must be told so that Chrome outlives the command that started it.

A program of its own, `python -m gptbridge.edge.browser_start`: one JSON object on standard input, one on standard output
(`{"pid"}` or `{"error"}`). It runs in a session of its own, so that the Ctrl-C of a terminal does not reach Chrome; Chrome gets
/dev/null for its three streams and no descriptor else; the driver's object, whose finaliser quits Chrome, never gets to run it, and the
driver's process ends with this one.
Touches: makes the private driver copy, starts Chrome. Fails by saying so; a Chrome that it started and could not reach is ended.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gptbridge.edge.leash import leashed

PATCHED = b"undetected chromedriver"  # what undetected-chromedriver 3.5.5 looks for in a driver that it has patched


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    answer = os.dup(1)
    # What a library prints must not be taken for the answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(_places(Path(order["folder"])))

    chromes: list[subprocess.Popen[bytes]] = []

    def end(document: dict[str, Any]) -> None:
        try:
            os.write(answer, json.dumps(document).encode())
        except OSError:
            pass  # who asked is gone
        finally:
            # No interpreter shutdown: undetected-chromedriver's finalisers would quit Chrome. The driver, on its leash, ends with us.
            os._exit(0)

    try:
        end(_start(order, chromes, end))
    except BaseException as error:
        # The driver's complaint about a browser that is not there says less than how the browser ended.
        _watch(chromes, end, 0.5)
        first = str(error).strip().splitlines()
        end({"error": f"{type(error).__name__}: {first[0][:200] if first else ''}"})


def _places(folder: Path) -> dict[str, str]:
    """What Chrome would else keep among the user's own files: its crash handler's database (below ~/.config/chromium; no flag moves it or
    stops it) and caches of its libraries (Chromium 156, measured 2026-11)."""
    return {"BREAKPAD_DUMP_LOCATION": str(folder / "crashes"), "XDG_CACHE_HOME": str(folder / "cache")}


def _start(order: dict[str, Any], chromes: list[subprocess.Popen[bytes]], end: Any) -> dict[str, Any]:
    socket.setdefaulttimeout(30)
    import undetected_chromedriver as uc
    from selenium.webdriver.common.service import Service
    from undetected_chromedriver.options import ChromeOptions
    from undetected_chromedriver.patcher import Patcher

    Patcher.data_path = order["folder"]  # its default is a folder of the user's that is none of our business
    driver = Path(order["folder"]) / order["driver"]
    if not driver.exists():
        _copy_driver(driver, order["source"], order["major"], Patcher)

    class Options(ChromeOptions):  # type: ignore[misc]
        def add_argument(self, argument: str) -> None:
            # 3.5.5 adds --no-sandbox whatever its `no_sandbox` says.
            if argument != "--no-sandbox" or order["no_sandbox"]:
                super().add_argument(argument)

    options = Options()
    options.page_load_strategy = "none"
    options.debugger_address = f"127.0.0.1:{order['port']}"
    for flag in order["flags"]:
        options.add_argument(flag)
    options.ignore_local_proxy_environment_variables()

    def popen(command: list[str], **ways: Any) -> subprocess.Popen[bytes]:
        if os.getppid() != order["asker"]:
            end({"error": "who asked for it is gone"})  # the next command is free to start one, and the profile takes one only
        chromes.append(subprocess.Popen(command, **ways))
        threading.Thread(target=_watch, args=(chromes, end, 60.0), daemon=True).start()
        return chromes[0]

    start_driver = Service._start_process

    def start_leashed(service: Service, path: str) -> None:
        shell, *words = leashed([path, *service.command_line_args()])
        service.command_line_args = lambda: words  # type: ignore[method-assign]
        start_driver(service, shell)

    Service._start_process = start_leashed  # type: ignore[method-assign,assignment]
    # undetected-chromedriver gives Chrome three pipes that nobody reads and that break when this process ends.
    uc.subprocess = SimpleNamespace(Popen=popen, PIPE=subprocess.DEVNULL)
    chrome = uc.Chrome(options=options, user_data_dir=order["profile"], driver_executable_path=str(driver),
                       browser_executable_path=order["browser"], version_main=order["major"], headless=order["headless"],
                       use_subprocess=True, no_sandbox=False)
    return {"pid": chrome.browser_pid}


def _watch(chromes: list[subprocess.Popen[bytes]], end: Any, seconds: float) -> None:
    """A browser that ends by itself is an error at once, not after the driver's minute of trying."""
    until = time.monotonic() + seconds
    while chromes and time.monotonic() < until:
        if chromes[0].poll() is not None:
            end({"error": f"the browser ended at once with status {chromes[0].returncode}", "ended": True})
        time.sleep(0.05)


def _copy_driver(target: Path, source: str | None, major: int, patcher_type: Any) -> None:
    """A patched copy under its final name, or nothing: a crash half way leaves only a name that nobody uses."""
    rough = target.with_name(f"{target.name}.{os.getpid()}.part")
    if source is None:
        fetcher = patcher_type(version_main=major)
        fetcher.auto(version_main=major)
        source = fetcher.executable_path
    shutil.copyfile(source, rough)
    os.chmod(rough, 0o700)
    patcher_type(executable_path=str(rough), version_main=major).auto()
    if PATCHED not in rough.read_bytes():
        # Nothing to patch in this build; without the mark each start would open the file for writing, busy or not.
        with rough.open("ab") as handle:
            handle.write(b"\n" + PATCHED + b": nothing to patch\n")
    if sys.platform == "darwin":
        subprocess.run(["codesign", "--force", "--sign", "-", str(rough)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    os.rename(rough, target)


if __name__ == "__main__":
    main()
