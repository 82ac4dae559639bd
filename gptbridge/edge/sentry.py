"""The sentry: a process that keeps a window's sends stopped when the worker and its gate are gone (GT-11).

It attaches to the window before the gate does, so Chrome asks it last, after the gate, about every POST. It lets pass what is no send, and
once each request that the worker named just before it released it; every other send it fails: a retry from a document, frame or worker
that was made after the worker's death, and the very request that the gate held when it died. Then it closes the window and ends.

Guarantees: it releases nothing by itself, holds no lock, reads and writes no file, and ends with its worker. Killed, it leaves the gate as
it was before, the gate then releases nothing more, and another takes its place. Touches one DevTools connection and the socket to its
worker; a line each way: `{"browser_url", "target", "origin"}` -> `ready` or `failed REASON`; `ask`, `expect NETWORK`, `spare files` or
`spare nothing` -> `ok`; end of file: the worker is gone. Fails closed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.edge.interception import Interception, Part, Realm, Step, Stopped

READY_S = 20.0
ANSWER_S = 5.0
END_S = 5.0
CLOSE_AGAIN_S = 0.5
RELIEFS = 10  # somebody who kills one after the other is let have his way


class Leashed:
    """One such process, and the lines to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        package = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        with theirs:
            # In a session of its own: what kills the worker's group must not reach it.
            self.process = subprocess.Popen([sys.executable, "-P", "-m", "gptbridge.edge.sentry"], stdin=theirs.fileno(),
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                            env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)
        self._socket = ours
        self._said = ours.makefile("rb")

    def exchange(self, words: str, timeout: float) -> str:
        """What it says to that; empty when it is gone."""
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(words.encode("ascii") + b"\n")
            return self._said.readline().decode("ascii", "replace").strip()
        except (OSError, ValueError):
            return ""

    def let_go(self) -> None:
        self._said.close()
        self._socket.close()


class Sentry:
    """The worker's end. The process starts at once, and is there by the time that `watch` asks for it.

    One that dies before its worker is followed by another, which fails every send: it was not told of any. So a send that is not released
    yet is given up (`ask`, `expect`), and a page whose send has left cannot repeat it when the worker dies too.
    """

    def __init__(self) -> None:
        self._first = self._standing = Leashed()
        self.reliefs = 0  # how many followed a dead one and stand, or stood, in its place
        self._ending = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._standing.process.pid

    def watch(self, browser_url: str, target: str, origin: str) -> None:
        """Returns when every request of the window stops at it. Failure("browser")."""
        order = json.dumps({"browser_url": browser_url, "target": target, "origin": origin})
        answer = self._first.exchange(order, READY_S)
        if answer != "ready":
            raise Failure("browser", f"The gate's sentry could not attach ({answer.removeprefix('failed ') or 'it ended'}).")
        threading.Thread(target=self._relieve, args=(order,), daemon=True).start()

    def _relieve(self, order: str) -> None:
        for _ in range(RELIEFS):
            self._standing.process.wait()
            with self._lock:
                if self._ending:
                    return
                if self._standing is not self._first:
                    self._standing.let_go()
                self._standing = Leashed()
            if self._standing.exchange(order, READY_S) == "ready":  # one that cannot attach waits for its worker's end like any other
                self.reliefs += 1

    def ask(self) -> None:
        """Failure("browser") when it does not stand there any more."""
        self._need_ok("ask")

    def expect(self, network: str) -> None:
        """The request that is let go next; it may pass once. Failure("browser") when the sentry does not say that it knows."""
        self._need_ok(f"expect {network}")

    def spare(self, files: bool) -> None:
        """See Interception.spare. Failure("browser")."""
        self._need_ok(f"spare {'files' if files else 'nothing'}")

    def end(self) -> None:
        """For a window that is gone. What is left of it is closed by the sentry, which may take longer than we wait."""
        with self._lock:
            self._ending = True
            standing = self._standing
        for one in {self._first, standing}:
            one.let_go()
        try:
            standing.process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass  # it goes on until the window is closed

    def _need_ok(self, words: str) -> None:
        if self._first.exchange(words, ANSWER_S) != "ok":
            raise Failure("browser", "The gate's sentry is gone. Nothing was sent.", "run the command again", again=True)


class Watch:
    """The sentry's own end: what it decides about each send."""

    def __init__(self, browser_url: str, target: str, origin: str) -> None:
        # A dedicated worker's requests stop on its page: attaching to it would only hold it up twice.
        self.wire = Interception(browser_url, target, origin, self, workers=False)
        self._expected: set[str] = set()

    def expect(self, network: str) -> None:
        self._expected.add(network)

    def realm_steps(self, realm: Realm) -> list[Step]:
        return []

    def send_stopped(self, stopped: Stopped, part: Part) -> None:
        if stopped.network in self._expected and not stopped.redirected:
            self._expected.remove(stopped.network)
            self.wire.go_on(stopped)
        else:
            self.wire.fail(stopped)

    def other_passes(self, stopped: Stopped, body: str | None) -> None: ...
    def unjudged(self, stopped: Stopped) -> None: ...
    def event(self, method: str, params: dict[str, Any], session: str) -> None: ...
    def left(self, session: str) -> None: ...
    def dropped(self) -> None: ...

    def close_window(self) -> None:
        """The window and its popups; attached, and failing what they send, until they or Chrome are gone."""
        self.wire.still(more=True)  # what the dead gate held comes to us when Chrome, too, has seen the end of the worker's connection
        while self.wire.whole:
            try:
                there = {info["targetId"] for info in self.wire.call("Target.getTargets", {})["targetInfos"]} & self.wire.pages
                if not there:
                    return
                for target in there:
                    self.wire.post("Target.closeTarget", {"targetId": target})
            except Failure:
                pass  # Chrome is slow to answer; it is asked again
            self.wire.gone.wait(CLOSE_AGAIN_S)
            time.sleep(0.01)


def main() -> None:
    leash = socket.socket(fileno=os.dup(0))
    lines = leash.makefile("rb")
    order = lines.readline()
    if not order:
        return
    watch = Watch(**json.loads(order))
    try:
        watch.wire.begin()
        _say(leash, "ready")
    except Failure as failure:
        _say(leash, f"failed {failure.message}")
    for line in lines:
        word, _, network = line.decode("ascii").strip().partition(" ")
        if word == "expect":
            watch.expect(network)
        if word == "spare":
            try:
                watch.wire.spare(network == "files")
            except Failure as failure:
                _say(leash, f"failed {failure.message}")
                continue
        _say(leash, "ok")
    watch.close_window()
    watch.wire.end()


def _say(leash: socket.socket, words: str) -> None:
    try:
        leash.sendall(words.encode("ascii", "replace") + b"\n")
    except OSError:
        pass  # the worker is gone: the end of its lines says so too


if __name__ == "__main__":
    main()
