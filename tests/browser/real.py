"""The real command line in real processes: a practice site of its own, a home with its Chrome, and what a test asks of all three.

Every command runs in the test's own folder, with a standard input that is open and never says anything, and with a deadline: a command
that hangs fails its test. `Home.check` is what must hold after each test: no driver and no window left over, the site's bearer nowhere.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gptbridge.edge import processes

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-P", "-m", "gptbridge")
PROGRAM = str(ROOT / "bin" / "ask-gpt")
DEADLINE = 60.0
NEWEST = pytest.mark.parametrize("desk", [2, 1], indirect=True, ids=["gen2", "gen1"])  # with `sample(1)`
BOTH = pytest.mark.parametrize("desk", [1, 2], indirect=True, ids=["gen1", "gen2"])  # generations of the page
SECRETS = (b"practice-session-token", b"practice-sentinel-", b"practice-conduit-", b"@example.org")  # SE-04; the last: e-mail addresses


def until(true: Callable[[], Any], what: str, seconds: float = 15.0) -> Any:
    """Poll until it is true; its value."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return value


class Site:
    """`ask-gpt practice` in a process of its own."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen([*COMMAND, "practice", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         env=clean_environment(), start_new_session=True)
        assert self._process.stdout is not None
        self.url = str(json.loads(self._process.stdout.readline())["site"])
        self.secrets = SECRETS
        if self.url.startswith("http:"):
            first = self.token()
            self.scenario("other-account")
            self.secrets = (*SECRETS, first.encode(), self.token().encode())
            self.end("other-account")

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(self.url.partition("//")[2], timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            data = reply.read()
            assert reply.status == 200, (path, reply.status, data[:200])
            return json.loads(data)
        finally:
            connection.close()

    def sends(self) -> list[dict[str, Any]]:
        return list(self.ask("GET", "/practice/state")["sends"])

    def scenario(self, name: str, **parameters: Any) -> None:
        self.ask("POST", "/practice/scenario", {"name": name, **parameters})

    def scenarios(self, *options: str) -> None:
        """As on the command line: NAME[:k=v[,k=v]]."""
        for option in options:
            name, _, rest = option.partition(":")
            self.scenario(name, **{key: json.loads(value) for key, _, value in (pair.partition("=") for pair in rest.split(",") if pair)})

    def end(self, name: str) -> None:
        self.scenario(name, on=False)

    def reset(self) -> None:
        self.ask("POST", "/practice/reset", {})

    def token(self) -> str:
        return str(self.ask("GET", "/api/auth/session")["accessToken"])

    def tells(self, path: Path) -> bool:
        """Whether a file holds one of the secrets that this site gives its page (SE-04)."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return False  # a temporary file of a worker that is still at it
        return any(secret in data for secret in self.secrets)

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/practice/conversations/{conversation_id}"))

    def stop(self) -> None:
        self._process.terminate()
        try:
            assert self._process.wait(10) == 0
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKGPT_") or name == "ASKGPT_BROWSER"}


@dataclass
class Ran:
    """How a command ended. `doc`: its --json document."""

    code: int
    out: bytes
    err: str
    seconds: float

    @property
    def doc(self) -> dict[str, Any]:
        assert self.out.endswith(b"\n") and self.out.count(b"\n") == 1, (self.out[:500], self.err)
        return dict(json.loads(self.out))

    def __str__(self) -> str:
        return f"exit {self.code} after {self.seconds:.1f} s\n{self.out[:2000].decode(errors='replace')}\n{self.err}"


class Running:
    """A command that was started: its front's process, and where its words go."""

    def __init__(self, desk: Desk, words: tuple[str, ...], stdin: Any, env: Mapping[str, str], prefix: tuple[str, ...],
                 **ways: Any) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  closed by `wait`
        self._silence: tuple[int, ...] = ()
        source = stdin
        if stdin is None or isinstance(stdin, bytes):
            reader, writer = os.pipe()
            self._silence, source = (reader, writer), reader
        self._began = time.monotonic()
        ways.setdefault("start_new_session", True)
        self.process = subprocess.Popen([*prefix, *COMMAND, *words], cwd=desk.folder, env=env, stdin=source,
                                        stdout=ways.pop("stdout", self._out), stderr=ways.pop("stderr", self._err), **ways)
        if isinstance(stdin, bytes):
            with contextlib.suppress(BrokenPipeError):
                sent = 0
                while sent < len(stdin):
                    sent += os.write(self._silence[1], stdin[sent:sent + 65536])
            self._hush()

    def wait(self, seconds: float = DEADLINE) -> Ran:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"hangs; it said so far:\n{self.said()}") from None
        finally:
            self._hush()
        took = time.monotonic() - self._began
        out, err = _whole(self._out), self.said()
        self._out.close()
        self._err.close()
        return Ran(code, out, err, took)

    def said(self) -> str:
        return _whole(self._err).decode("utf-8")

    def shown(self) -> bytes:
        """What stands on its standard output so far."""
        return _whole(self._out)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._hush()

    def _hush(self) -> None:
        for fd in self._silence:
            os.close(fd)
        self._silence = ()


def _whole(file: Any) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


class Home:
    """A home of the suite, and the Chrome that its commands start."""

    def __init__(self, place: Path, site: Site, **env: str) -> None:
        self.path, self.site = place / "home", site
        self.env = {**clean_environment(), "ASKGPT_HOME": str(self.path), "ASKGPT_SITE": site.url, "ASKGPT_DISPATCH_GAP": "0",
                    "ASKGPT_HEADLESS": "1", **env}

    def records(self, operation_id: str | None = None) -> list[dict[str, Any]]:
        """The ledger's whole lines now, or those of one operation; what is still being written is not looked at."""
        try:
            lines = (self.path / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if operation_id is None or operation_id.encode() in line]

    def browser(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "browser" / "browser.json").read_bytes()))

    def windows(self) -> list[dict[str, Any]]:
        """Chrome's pages but the blank one that it started with."""
        connection = http.client.HTTPConnection("127.0.0.1", self.browser()["port"], timeout=5)
        try:
            connection.request("GET", "/json/list")
            pages = [one for one in json.loads(connection.getresponse().read()) if one["type"] == "page"]
        finally:
            connection.close()
        blank = [one for one in pages if one["url"] == "about:blank"]
        return [one for one in pages if one not in blank[:1]]

    def drivers(self) -> list[int]:
        return processes.having_argument(str(self.path / "browser" / self.browser()["driver"]))

    def chrome_lives(self) -> bool:
        running = self.browser()
        return processes.started(running["pid"]) == running["started"]

    def files(self) -> Iterator[Path]:
        """Every file of the home but Chrome's own."""
        for folder, folders, names in os.walk(self.path):
            if Path(folder) == self.path:
                folders[:] = [name for name in folders if name != "browser"]
            yield from (Path(folder) / name for name in names)

    def check(self) -> None:
        if (self.path / "browser" / "browser.json").exists() and "starting" not in self.browser() and self.chrome_lives():
            until(lambda: not self.drivers(), "the drivers to end")
            until(lambda: not self.windows(), "the windows to be closed")
        assert not [path for path in self.files() if self.site.tells(path)], "a secret of the site's is on disk"

    def quit(self) -> None:
        """The certain end of this home's Chrome: asked first, then by its process."""
        if not (self.path / "browser" / "browser.json").exists():
            return
        subprocess.run([*COMMAND, "login", "--quit", "-q"], env=self.env, stdin=subprocess.DEVNULL, timeout=30, check=False)
        running = self.browser()
        if processes.started(running.get("pid", 0)) == running.get("started", ""):
            os.kill(running["pid"], signal.SIGKILL)


class Desk:
    """A working folder from which commands of one home are run; the site shows that generation of its page, until it is reset."""

    def __init__(self, home: Home, folder: Path, generation: int = 1) -> None:
        self.home, self.site, self.folder, self.generation = home, home.site, folder, generation
        if generation == 2:
            self.site.scenario("gen2")
        folder.mkdir(parents=True, exist_ok=True)
        self._ran: list[Ran] = []

    def start(self, *words: str, stdin: Any = None, prefix: tuple[str, ...] = (), drop: tuple[str, ...] = (), ways: Any = None,
              **env: str) -> Running:
        """`env`: variables to add; `drop`: variables to leave out; `ways`: options of Popen."""
        given = {name: value for name, value in {**self.home.env, **env}.items() if name not in drop}
        return Running(self, words, stdin, given, prefix, **(ways or {}))

    def run(self, *words: str, seconds: float = DEADLINE, meanwhile: Callable[[], None] = lambda: None, **how: Any) -> Ran:
        running = self.start(*words, **how)
        meanwhile()
        ran = running.wait(seconds)
        self._ran.append(ran)
        return ran

    def json(self, *words: str, **how: Any) -> Ran:
        return self.run(*words, "--json", **how)

    def log(self, conversation_id: str) -> bytes:
        """The copy in the folder, which must be the canonical log byte for byte."""
        copy = (self.folder / "ask-gpt" / f"{conversation_id}.log").read_bytes()
        assert copy == (self.home.path / "logs" / f"{conversation_id}.log").read_bytes()
        return copy

    def copies(self) -> dict[str, bytes]:
        """The logs that lie in the folder, by name."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / "ask-gpt").glob("*.log"))}

    def operation(self, operation_id: str) -> dict[str, Any]:
        return dict(self.json("ops", "show", operation_id).doc["operations"][0])

    def newest(self, kind: str = "operation_id") -> str:
        return str(self.home.records()[-1][kind])

    def check(self) -> None:
        self.home.check()
        said = [ran.out + ran.err.encode() for ran in self._ran]
        assert not any(secret in text for text in said for secret in self.site.secrets), "a secret of the site's was shown"
        assert not [path for path in self.folder.rglob("*") if path.is_file() and self.site.tells(path)]


def operation_of(running: Running, seconds: float = 30.0) -> str:
    """The id that a started command names on standard error."""
    def said() -> str | None:
        return next((line.removeprefix("operation: ") for line in running.said().splitlines() if line.startswith("operation: ")), None)

    return str(until(said, "the operation's id", seconds))
