"""`make demo`: a real send and a real resume through Chromium on the practice site, and what they leave on disk.

Prints each command as a person would type it, then what it says and how long it took. Exit 0 only if both answers came and the site saw
exactly one request for each. Leaves one folder, build/demo, with the copy of the log; no process and no other file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from trial import ROOT, Trial, as_typed, seconds

FOLDER = ROOT / "build" / "demo"
FIRST = "Explain flock in one sentence."
SECOND = "practice:think And why does a crash not leave it locked?"


class Broken(Exception):
    """The demo did not show what it is there to show."""


def main() -> int:
    began = time.monotonic()
    trial = Trial(FOLDER)
    try:
        with trial:
            log = _show(trial)
    except Broken as why:
        print(f"\nThe demo failed: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted." + ("" if trial.left_behind else " Chrome and the practice site are closed."), file=sys.stderr)
        return 130
    if trial.left_behind:
        return 1
    _say(f"\nDone in {seconds(began)}. Chrome and the practice site are closed and their home is removed; nothing is left running.")
    _say(f"The conversation's log: {log.relative_to(ROOT)}")
    return 0


def _show(trial: Trial) -> Path:
    _say("A home, a Chrome and a site of their own; no account, and no traffic beyond this machine.\n")
    _command(f"ask-gpt practice &     # serves {trial.site}")
    _command(f"cd {FOLDER.relative_to(ROOT)}")
    for name in ("ASKGPT_HOME", "ASKGPT_SITE", "ASKGPT_DISPATCH_GAP", "ASKGPT_HEADLESS"):
        _command(f"export {name}={trial.env[name]}")
    _run(trial, "send", FIRST)
    listed = trial.run("list", "1", capture=True).stdout
    conversation_id = listed.partition("\t")[0]
    _run(trial, "resume", conversation_id, SECOND)
    _run(trial, "list")
    _run(trial, "show", conversation_id)
    sends = trial.state()["sends"]
    if [sent["text"] for sent in sends] != [FIRST, SECOND]:
        raise Broken(f"the practice site saw {len(sends)} requests, expected one for each of two messages")
    log = FOLDER / "ask-gpt" / f"{conversation_id}.log"
    if log.read_bytes() != (trial.home / "logs" / log.name).read_bytes():
        raise Broken("the copy of the log differs from the log")
    _say("\nThe practice site saw exactly one send request for each of the two messages; the copy of the log equals the log.")
    return log


def _run(trial: Trial, *words: str) -> None:
    _say("")
    _command(as_typed(*words))
    began = time.monotonic()
    code = trial.run(*words).returncode
    _say(f"  ({seconds(began)})")
    if code == 130:
        raise KeyboardInterrupt  # it came to the command as well, and there it was quicker
    if code:
        raise Broken(f"`{as_typed(*words)}` ended with exit code {code}")


def _command(text: str) -> None:
    _say(f"\033[1m$ {text}\033[0m" if sys.stdout.isatty() else f"$ {text}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
