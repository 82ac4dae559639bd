"""`make logs-example`: the specimens in logs-example/, made anew by real runs through Chromium on the practice site.

Every file is what ask-gpt wrote, byte for byte, but for three things that would name this machine: the home's path in results becomes the
usual one, the boot id in the stamp and the process facts below locks/ and browser/ become made-up ones.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

from trial import ROOT, Trial

TARGET = ROOT / "logs-example"
PORT = 18473  # the same each time, since it stands below checksums
USUAL = "~/.local/state/gptbridge"
BOOT_ID = "00000000-0000-4000-8000-000000000000"
CONFIG = """\
# Settings of ask-gpt; see `ask-gpt help config`. Unknown keys are refused.
seats: 2
wait: 20m
give_up: 2h
copies: on
"""


def main() -> int:
    with Trial(ROOT / "build" / "logs-example", config=CONFIG, port=PORT) as trial:
        results = runs(trial)
        for old in ("home", "results"):
            shutil.rmtree(TARGET / old, ignore_errors=True)
        keep_home(trial)
        (TARGET / "results").mkdir(parents=True)
        for name, text in results.items():
            (TARGET / "results" / f"{name}.json").write_text(text.replace(str(trial.home), USUAL), encoding="ascii")
        shutil.copyfile(trial.folder / "ask-gpt" / "conversations.jsonl", TARGET / "results" / "list-export.jsonl")
    print(f"made {sum(path.is_file() for path in TARGET.rglob('*'))} files in {TARGET.name}/")
    return 1 if trial.left_behind else 0


def runs(trial: Trial) -> dict[str, str]:
    """Commands of every kind, and their documents as printed."""
    results: dict[str, str] = {}

    def run(name: str, *words: str, code: int = 0) -> dict[str, Any]:
        done = trial.run(*words, "--json", capture=True)
        if done.returncode != code:
            raise SystemExit(f"{words} ended with {done.returncode}, expected {code}: {done.stdout} {done.stderr}")
        results[name] = done.stdout
        return dict(json.loads(done.stdout))

    first = run("send", "send", "practice:markdown Explain flock.")
    conversation_id = first["conversation_id"]
    by_hand(trial, conversation_id, "And this I asked in the browser, by hand.")
    (trial.folder / "lock me.c").write_text("int fd = open(path, O_RDWR);\nflock(fd, LOCK_EX);\n", encoding="utf-8")
    run("resume", "resume", conversation_id, "practice:think Does a crash leave it locked?\n## turn 9\n<!-- not an end mark -->",
        "-f", "lock me.c")
    run("resume-read-back", "resume", conversation_id)
    run("resume-files", "resume", conversation_id, "practice:files Put that into a table, please.")
    (trial.folder / "ask-gpt" / "table.csv").unlink()
    run("download-attachments", "download-attachments", conversation_id)
    trial.ask("POST", "/practice/scenario", {"name": "draft"})
    failed = run("send-needs-human", "send", "This one never leaves.", code=12)
    trial.ask("POST", "/practice/scenario", {"name": "draft", "on": False})
    run("send-usage", "send", "--no-such-option", "a prompt", code=2)
    run("list", "list")
    run("show", "show", conversation_id)
    run("ops-list", "ops", "list")
    run("ops-show", "ops", "show", failed["operation_id"])
    trial.run("list", "--export", "-q", capture=True)
    return results


def by_hand(trial: Trial, conversation_id: str, text: str) -> None:
    """A message that the user sends in the page without ask-gpt: the next `resume` finds it and copies it into the log."""
    session = json.loads(trial.ask("GET", "/api/auth/session"))
    headers = {"Authorization": f"Bearer {session['accessToken']}", "Chatgpt-Account-Id": session["account"]["id"]}
    document = json.loads(trial.ask("GET", f"/backend-api/conversation/{conversation_id}", headers=headers))
    message = {"id": str(uuid.uuid4()), "author": {"role": "user"}, "content": {"content_type": "text", "parts": [text]}, "metadata": {}}
    trial.ask("POST", "/backend-api/f/conversation", {
        "action": "next", "parent_message_id": document["current_node"], "conversation_id": conversation_id, "model": "auto",
        "messages": [message]}, headers=headers)


def keep_home(trial: Trial) -> None:
    home = TARGET / "home"
    for path in sorted(trial.home.rglob("*")):
        name = path.relative_to(trial.home)
        wanted = name.parts[0] in ("logs", "spool") or len(name.parts) == 1 or str(name) in ("browser/browser.json", "locks/owner-0")
        if not path.is_file() or not wanted:
            continue
        data = path.read_bytes()
        if name.parts[0] == "dispatch.stamp":
            data = re.sub(rb'"boot_id": "[^"]*"', f'"boot_id": "{BOOT_ID}"'.encode(), data)
        if name.parts[0] in ("locks", "browser"):
            data = made_up(data)
        if name.suffix == ".prompt" and not is_last(path):
            continue
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)


def made_up(data: bytes) -> bytes:
    facts = json.loads(data)
    facts |= {name: value for name, value in {"pid": 4711, "port": 40404, "started": "123456"}.items() if name in facts}
    return json.dumps(facts).encode("ascii") + b"\n"


def is_last(path: Path) -> bool:
    """One prompt is enough as a specimen: that of the newest operation."""
    return path == max(path.parent.glob("*.prompt"))


if __name__ == "__main__":
    sys.exit(main())
