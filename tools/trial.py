"""A place to try ask-gpt in: a home, a practice site and a Chrome of its own, and the certain end of all three.

Guarantees: when the `with` block is left, however that happens (an exception, Ctrl-C, SIGTERM, SIGHUP), the workers have ended, Chrome
is closed, the practice site is gone and the home is removed; what could not be ended is said and makes `left_behind` true. Nothing of
the user's own home, settings or browser is read. Touches a temporary folder, processes and loopback.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "bin" / "ask-gpt"
KEPT = ("ASKGPT_BROWSER", "ASKGPT_HEADLESS")  # of the caller's own settings; no other reaches a trial
ENDS = (signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP: the same way out as Ctrl-C."""


class Trial:
    """`with Trial(folder) as trial:`; `folder` is the working folder of every command, made anew."""

    def __init__(self, folder: Path, *, config: str | None = None, port: int = 0) -> None:
        self.folder = folder
        self.site = ""
        self.left_behind = False
        self._config, self._port = config, port
        self._server: subprocess.Popen[bytes] | None = None
        self._signals: dict[int, Any] = {}

    def __enter__(self) -> Trial:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for number in ENDS:
            self._signals[number] = signal.signal(number, _interrupt)
        self.home = Path(os.path.realpath(tempfile.mkdtemp(prefix="ask-gpt-trial-")))
        # Every command and the workers they fork hold its write end, Chrome and the site do not: its end of file says that all have ended.
        self._pulse, self._held = os.pipe()
        try:
            if self._config is not None:
                (self.home / "config.yaml").write_text(self._config, encoding="utf-8")
            self.env = {name: value for name, value in os.environ.items() if not name.startswith("ASKGPT_") or name in KEPT}
            self.env |= {"ASKGPT_HOME": str(self.home), "ASKGPT_DISPATCH_GAP": "0",
                         "ASKGPT_HEADLESS": self.env.get("ASKGPT_HEADLESS") or "1"}
            self._serve()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not stop the cleaning up half-way.
        for number in (signal.SIGINT, *ENDS):
            self._signals.setdefault(number, signal.getsignal(number))
            signal.signal(number, signal.SIG_IGN)
        try:
            self._end()
        finally:
            for number, handler in self._signals.items():
                signal.signal(number, handler)

    def _serve(self) -> None:
        # In a session of its own: Ctrl-C must not take the site away from a turn that is under way.
        self._server = subprocess.Popen([str(PROGRAM), "practice", "--port", str(self._port)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, env=self.env, cwd=self.folder, start_new_session=True)
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise SystemExit("the practice site did not start")
        self.site = str(json.loads(line)["site"])
        self.env["ASKGPT_SITE"] = self.site

    def _end(self) -> None:
        os.close(self._held)
        if self.site:
            # A worker whose command was interrupted finishes its turn while site and Chrome are there; else it ends with Chrome.
            self._all_ended(5.0)
            quit_ = self.run("login", "--quit", "-q", wait=30.0)
            self.left_behind |= quit_.returncode != 0 or not self._all_ended(20.0)
        os.close(self._pulse)
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(10.0)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            assert self._server.stdout is not None
            self._server.stdout.close()
        if self.left_behind:
            print(f"something may still run; its home is {self.home}", file=sys.stderr)
        else:
            shutil.rmtree(self.home, ignore_errors=True)

    def _all_ended(self, seconds: float) -> bool:
        return bool(select.select([self._pulse], [], [], seconds)[0])

    # Commands

    def run(self, *words: str, capture: bool = False, wait: float = 120.0) -> subprocess.CompletedProcess[str]:
        """`ask-gpt WORDS` in the folder; its output is shown, or with `capture` kept (exact text: UTF-8, no newline translation)."""
        pipe = subprocess.PIPE if capture else None
        held = () if _is_closed(self._held) else (self._held,)
        with subprocess.Popen([str(PROGRAM), *words], env=self.env, cwd=self.folder, pass_fds=held, stdin=subprocess.DEVNULL,
                              stdout=pipe, stderr=pipe, start_new_session=not held) as process:
            try:
                out, err = process.communicate(timeout=wait)
            except BaseException:
                # After Ctrl-C the command has had its signal too: it says its last words and ends.
                process.terminate()
                try:
                    process.wait(25.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, (out or b"").decode("utf-8", "surrogateescape"),
                                           (err or b"").decode("utf-8", "surrogateescape"))

    def json(self, *words: str) -> dict[str, Any]:
        """The one document of `ask-gpt WORDS --json`."""
        return dict(json.loads(self.run(*words, "--json", capture=True).stdout))

    # The site

    def state(self) -> dict[str, Any]:
        """What the practice site saw."""
        return dict(json.loads(self.ask("GET", "/practice/state")))

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.site + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10.0) as reply:
            return bytes(reply.read())


def as_typed(*words: str) -> str:
    """A command line as a person would type it."""
    return " ".join(["ask-gpt", *(f'"{word}"' if " " in word and not set(word) & set('"$`\\!') else shlex.quote(word) for word in words)])


def seconds(since: float) -> str:
    return f"{time.monotonic() - since:.1f} s"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(signal.Signals(number).name)


def _is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False
