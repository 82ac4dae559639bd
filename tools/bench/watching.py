"""Watching one turn in a real browser on the practice site: how soon `--live` shows what the page shows, and what a long wait costs.

    page to --live    an observer in the page notes when each word of a slow answer stands there; the same words are awaited on the
                      command's standard output. Both clocks are this machine's. Below zero: the display is ahead of the page.
    waiting           processor time of front, worker, sentry and driver together while the model thinks and the front redraws its
                      status once a second on a terminal; Chrome itself, which does the same without us, is said beside it.
"""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trial import PROGRAM, Trial

from .measure import saying
from .table import Table

WORDS, ANSWER_S = 120, 12.0
WATCHED_S = float(os.environ.get("WATCHED_S") or 30.0)
OBSERVER = """
(() => {
  const words = %s, at = {}; let next = 0;
  const look = () => {
    const text = document.body.textContent;
    while (next < words.length && text.split(words[next]).length > 2) { note(JSON.stringify([words[next], Date.now()])); next += 1; }
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
  look();
})()
"""


def measure(table: Table, folder: Path) -> bool:
    with Trial(folder / "bench") as trial:
        with saying("a first send"):
            if trial.json("send", "Warm up")["exit_code"] != 0:
                raise SystemExit("a send failed")
        with saying(f"an answer of {ANSWER_S:.0f} s in {WORDS} words"):
            late = latencies(trial)
        table.add(f"page text to --live, median of {len(late)} words", statistics.median(late) * 1e3, "ms",
                  f"90 % within {sorted(late)[len(late) * 9 // 10] * 1e3:.0f} ms", 250)
        if not sys.platform.startswith("linux"):
            return trial.left_behind  # no other system says cheaply and finely what a process used
        with saying(f"{WATCHED_S:.0f} s of thinking"):
            ours, chrome = share(trial)
        table.add("waiting while the model thinks, of one core", ours * 100, "%", f"Chrome itself {chrome * 100:.1f} %", 1)
    return trial.left_behind


def scenario(trial: Trial, name: str, **parameters: Any) -> None:
    trial.ask("POST", "/practice/scenario", {"name": name, **parameters})


# Page to --live

def latencies(trial: Trial) -> list[float]:
    """Seconds from a word in the page to the same word on standard output, for each word that both showed."""
    words = [f"w{number:04d}" for number in range(WORDS)]
    scenario(trial, "slow-answer", seconds=ANSWER_S)
    windows = {window["id"] for window in pages(trial)}
    process = subprocess.Popen([str(PROGRAM), "send", "--live", "-q", " ".join(words)], env=trial.env, cwd=trial.folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    shown: dict[str, float] = {}
    watcher = Watcher(next_window(trial, windows), words)
    assert process.stdout is not None
    text = ""
    while data := os.read(process.stdout.fileno(), 65536):
        now, text = time.time(), text + data.decode()
        shown |= {word: now for word in words if word not in shown and word in text}
    process.stdout.close()
    scenario(trial, "slow-answer", on=False)
    if process.wait(30.0) != 0:
        raise SystemExit("the watched send failed")
    seen = watcher.end()
    found = [shown[word] - seen[word] for word in words if word in shown and word in seen]
    if len(found) < WORDS // 2:
        raise SystemExit(f"only {len(found)} of {WORDS} words were seen in the page")
    return found


def pages(trial: Trial) -> list[dict[str, Any]]:
    running = json.loads((trial.home / "browser" / "browser.json").read_bytes())
    connection = http.client.HTTPConnection("127.0.0.1", running["port"], timeout=5)
    try:
        connection.request("GET", "/json/list")
        return [page for page in json.loads(connection.getresponse().read()) if page["type"] == "page"]
    finally:
        connection.close()


def next_window(trial: Trial, before: set[str]) -> str:
    """The DevTools address of the window that the command opens, once the site's page is in it."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        for page in pages(trial):
            if page["id"] not in before and urlsplit(page["url"]).path.startswith("/c/"):
                return str(page["webSocketDebuggerUrl"])
        time.sleep(0.02)
    raise SystemExit("the command opened no window")


class Watcher:
    """Notes when the page shows each word a second time: the first is the prompt."""

    def __init__(self, url: str, words: list[str]) -> None:
        import websocket

        self._seen: dict[str, float] = {}
        self._socket = websocket.create_connection(url, suppress_origin=True, timeout=60)
        steps = (("Runtime.enable", {}), ("Runtime.addBinding", {"name": "note"}),
                 ("Runtime.evaluate", {"expression": OBSERVER % json.dumps(words)}))
        for number, (method, params) in enumerate(steps):
            self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            while said := self._socket.recv():
                message = json.loads(said)
                if message.get("method") == "Runtime.bindingCalled" and message["params"]["name"] == "note":
                    word, at = json.loads(message["params"]["payload"])
                    self._seen[word] = at / 1e3
        except Exception:
            return  # the window is closed with the turn

    def end(self) -> dict[str, float]:
        self._thread.join(10.0)
        self._socket.close()
        return self._seen


# Waiting

def share(trial: Trial) -> tuple[float, float]:
    """(of a core for all processes of the command, and for Chrome) while nothing but thinking goes on."""
    scenario(trial, "thinking", seconds=3600.0)
    main, other = pty.openpty()
    process = subprocess.Popen([str(PROGRAM), "send", "Think about it for an hour"], env={**trial.env, "TERM": "xterm"}, cwd=trial.folder,
                               stdin=subprocess.DEVNULL, stdout=other, stderr=other)
    os.close(other)
    said = Drain(main)
    try:
        said.until(rb"waiting for the answer|thinking")
        time.sleep(2.0)  # what begins a turn is not what waiting costs
        chrome = json.loads((trial.home / "browser" / "browser.json").read_bytes())["pid"]
        before, began = (used(process.pid), used(chrome)), time.monotonic()
        time.sleep(WATCHED_S)
        took = time.monotonic() - began
        after = used(process.pid), used(chrome)
    finally:
        found = re.search(rb"operation: (\w{26})", said.data)
        scenario(trial, "thinking", on=False)
        if found is not None:
            trial.run("ops", "stop", found[1].decode(), "-q", capture=True)
        process.wait(60.0)
        said.end()
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


class Drain:
    """Reads a terminal's other end for as long as it lives."""

    def __init__(self, fd: int) -> None:
        self.data, self._fd = b"", fd
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._fd, 65536):
                self.data += data
        except OSError:
            return

    def until(self, pattern: bytes) -> None:
        deadline = time.monotonic() + 60.0
        while not re.search(pattern, self.data):
            if time.monotonic() > deadline:
                raise SystemExit("the watched send did not get that far")
            time.sleep(0.05)

    def end(self) -> None:
        self._thread.join(5.0)
        os.close(self._fd)


def used(root: int) -> float:
    """Processor seconds of a process and all that descend from it."""
    rows = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            rows[int(entry)] = int(fields[1]), int(fields[11]) + int(fields[12])
    family, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in rows.items() if parent in family} - family
        family, grown = family | more, bool(more)
    return sum(rows[pid][1] for pid in family if pid in rows) / os.sysconf("SC_CLK_TCK")
