"""`make demo` as its user meets it: what it prints, and that it leaves nothing running, also when it is interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 60.0


class Demo:
    """The demo in a session of its own, with a folder of its own for temporary files."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        env = {name: value for name, value in os.environ.items() if not name.startswith("ASKGPT_")} | {"TMPDIR": str(temporary)}
        self.process = subprocess.Popen([sys.executable, "tools/demo.py"], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.said = ""

    def until(self, words: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if words in line:
                return
        raise AssertionError(f"it ended without saying {words!r}:\n{self.said}")

    def end(self) -> int:
        self.said += self.process.communicate(timeout=DEADLINE_S)[0]
        return self.process.returncode

    def left_behind(self) -> list[str]:
        """Files of the trial's home, and processes that name it or the checkout's practice site."""
        files = [path.name for path in self.temporary.iterdir() if path.name.startswith("ask-gpt-")]
        return files + [line for line in command_lines() if str(self.temporary) in line]


def command_lines() -> list[str]:
    if Path("/proc/self/cmdline").exists():  # a small system may have no ps
        return [text.replace("\0", " ") for path in Path("/proc").glob("[0-9]*/cmdline") if (text := read(path))]
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()


def read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # it ended meanwhile
        return ""


@pytest.fixture
def demo() -> Iterator[Demo]:
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as folder:
        running = Demo(Path(folder).resolve())
        yield running
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(DEADLINE_S)


def test_the_demo_shows_two_answers_and_leaves_a_log(demo: Demo) -> None:
    began = time.monotonic()
    assert demo.end() == 0, demo.said
    assert time.monotonic() - began < DEADLINE_S
    for words in ('$ ask-gpt send "Explain flock in one sentence."', "> Explain flock in one sentence.", "$ ask-gpt resume ",
                  "$ ask-gpt list", "$ ask-gpt show ", "format: ask-gpt-log/1", "exactly one send request for each",
                  "nothing is left running"):
        assert words in demo.said
    log = re.search(r"The conversation's log: (build/demo/ask-gpt/[0-9a-f-]+\.log)$", demo.said.strip())
    assert log and (ROOT / log[1]).read_text("utf-8").count("state=completed") == 2
    assert demo.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(demo: Demo, number: signal.Signals) -> None:
    demo.until("operation: ")
    if number is signal.SIGINT:
        os.killpg(demo.process.pid, number)  # as a terminal does: the demo and the command that it runs
    else:
        demo.until("$ ask-gpt resume")
        demo.process.send_signal(number)
    assert demo.end() == 130, demo.said
    assert demo.said.rstrip().endswith("Interrupted. Chrome and the practice site are closed.")
    assert demo.left_behind() == []
