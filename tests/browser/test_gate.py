"""The request gate on a real Chromium: what the toy server counts is what left."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.errors import Failure
from gptbridge.core.page_request import SentFile
from gptbridge.core.send_request import DEPTH, sending_part
from gptbridge.edge import processes
from gptbridge.edge.chatgpt_requests import SENDING_MESSAGES_JS
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.gate import Gate
from gptbridge.edge.sentry import Sentry
from tests.browser.toy import Toy, Window, running, until

pytestmark = pytest.mark.browser

HELD = ("fetch", "big", "keepalive", "beacon", "xhr", "otherPath", "worker", "oldWorker",
        "blob", "bytes", "request", "beaconBlob", "xhrBlob")
SOAK = int(os.environ.get("SOAK_EXAMPLES") or 0)
REFUSED = ("shared", "service", "iframe", "popup", "noopener", "form", "socket")


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with running(tmp_path_factory.mktemp("gate") / "browser") as started:
        yield started


@pytest.fixture
def toy() -> Iterator[Toy]:
    server = Toy()
    yield server
    server.stop()


class Seat:
    def __init__(self, chrome: Chrome, toy: Toy) -> None:
        self.window = Window(chrome)
        self.sentry = Sentry()
        self.gate = Gate(chrome.url, self.window.target, toy.origin, self.sentry)
        self.gate.arm()
        self.window.go(f"{toy.origin}/")
        self.window.js("dedicated = new Worker('/worker.js'); 1")

    def close(self) -> None:
        self.gate.shut()
        self.gate.still()
        self.window.close()
        assert self.gate.gone(20)
        self.gate.detach()
        self.sentry.end()


@pytest.fixture
def seat(chrome: Chrome, toy: Toy) -> Iterator[Seat]:
    one = Seat(chrome, toy)
    yield one
    one.close()


def quiet(toy: Toy, seconds: float = 0.3) -> int:
    """The server's count after a while in which something could have come."""
    time.sleep(seconds)
    return len(toy.sends)


def test_closed_nothing_leaves(seat: Seat, toy: Toy) -> None:
    for way in HELD + REFUSED:
        before = len(seat.gate.notes())
        seat.window.send(way, f"m-{way}")
        until(lambda before=before: len(seat.gate.notes()) > before, f"the note of {way}: {seat.gate.notes()} {toy.sends}")
    assert quiet(toy) == 0, toy.sends
    assert not any("messages" in frame for frame in toy.frames)
    assert {f"m-{way}" for way in HELD} <= {identity for note in seat.gate.notes() for identity in note.message_ids}
    assert seat.gate.state == "closed"


@pytest.mark.sample(8)
@pytest.mark.parametrize("way", HELD)
def test_one_is_held_and_let_go(seat: Seat, toy: Toy, way: str) -> None:
    seat.gate.open_once()
    seat.window.send(way)
    held = seat.gate.wait(5)
    assert held is not None, seat.gate.notes()
    assert held.user_message_ids == ("m-1",) and held.readable
    assert quiet(toy, 0.1) == 0
    assert seat.gate.release(held)
    until(lambda: len(toy.sends) == 1, "the request")
    assert toy.sends[0][1] == "m-1"
    until(lambda: seat.gate.reply_ended is not None, "the end of the answer")
    assert seat.gate.reply_status == 200
    if not way.startswith("beacon"):  # nobody reads the answer to a beacon, and Chrome may drop it
        assert seat.gate.reply_ended == "finished"
        assert seat.gate.reply(0) == b"{}"
    seat.window.send("fetch", "m-2")
    until(lambda: len(seat.gate.notes()) == 1, "the note")
    assert quiet(toy, 0.1) == 1


@pytest.mark.parametrize("way", REFUSED)
def test_what_cannot_be_held_is_refused(seat: Seat, toy: Toy, way: str) -> None:
    seat.gate.open_once()
    seat.window.send(way)
    until(lambda: len(seat.gate.notes()) > 0, "the note")
    assert quiet(toy, 0.2) == 0
    assert not any("messages" in frame for frame in toy.frames)
    assert seat.gate.wait(0) is None


def test_held_fields_and_no_bearer(seat: Seat, toy: Toy) -> None:
    seat.gate.watch("hello world, this is long")
    seat.gate.open_once()
    seat.window.js("void post('x', body('m-9', 'hello world, this is long', {history_and_training_disabled: true}))")
    held = seat.gate.wait(5)
    assert held is not None
    assert (held.path, held.action, held.user_message_ids) == ("/backend-api/f/conversation", "next", ("m-9",))
    assert held.user_texts == ("hello world, this is long",) and held.other_messages == 0
    assert (held.conversation_id, held.parent_message_id, held.model, held.effort) == ("c-1", "p-1", "toy", "high")
    assert (held.temporary, held.account_id, held.attachments) == (True, "acc-1", (SentFile("file-1"),))
    assert seat.gate.traces() == 0
    gc.collect()
    kept = [thing for thing in gc.get_objects() if isinstance(thing, dict | list | tuple)
            and any(isinstance(inner, str) and inner == "Bearer planted-token"
                    for inner in (thing.values() if isinstance(thing, dict) else thing))]
    assert kept == []
    assert seat.gate.refuse(held)
    assert quiet(toy) == 0
    until(lambda: seat.window.js("window.failed") is not None, "the page's own error")


def test_double_click(seat: Seat, toy: Toy) -> None:
    seat.gate.open_once()
    seat.window.js("void ways.fetch('m-1'); void ways.fetch('m-2'); void ways.worker('m-3')")
    held = seat.gate.wait(5)
    assert held is not None and seat.gate.release(held)
    until(lambda: len(seat.gate.notes()) == 2, "two notes")
    assert quiet(toy) == 1


def test_shut_while_held_then_close(chrome: Chrome, toy: Toy) -> None:
    for way in ("fetch", "keepalive", "beacon"):
        seat = Seat(chrome, toy)
        seat.gate.open_once()
        seat.window.send(way)
        assert seat.gate.wait(5) is not None
        seat.close()
    assert quiet(toy) == 0


def test_page_gives_up_while_held(seat: Seat, toy: Toy) -> None:
    seat.gate.open_once()
    seat.window.js("window.stop_ = new AbortController(); void post('x', body('m-1'), {signal: stop_.signal})")
    held = seat.gate.wait(5)
    assert held is not None
    seat.window.js("stop_.abort()")
    until(lambda: seat.window.js("window.failed") is not None, "the abort")
    assert seat.gate.release(held) is False
    assert quiet(toy) == 0


def test_other_posts_pass_at_once(seat: Seat, toy: Toy) -> None:
    seat.gate.watch("a draft of some length")
    paths = ("/backend-api/f/conversation/prepare", "/backend-api/sentinel/chat-requirements", "/ces/v1/t")
    times = sorted(seat.window.js(f"telemetry('{path}', 'nothing of note')", wait=True) for path in paths * 4)
    assert times[len(times) // 2] < 250
    assert toy.posts == list(paths * 4)
    assert seat.gate.traces() == 0 and seat.gate.notes() == ()
    seat.window.js("telemetry('/ces/v1/t', 'with a draft of some length in it')", wait=True)
    assert seat.gate.traces() == 1
    seat.window.js("void (window.s = new WebSocket('ws://' + location.host + '/socket')).addEventListener('open', "
                   "() => s.send('raw: a draft of some length'))")
    until(lambda: seat.gate.traces() == 2 and len(toy.frames) == 1, "the frame")


def test_redirect_is_not_followed(seat: Seat, toy: Toy) -> None:
    seat.gate.open_once()
    seat.window.js("void fetch('/backend-api/f/conversation?answer=307&way=first', {method: 'POST', body: body('m-1')}).catch(() => {})")
    held = seat.gate.wait(5)
    assert held is not None and seat.gate.release(held)
    until(lambda: any(note.kind == "redirect" for note in seat.gate.notes()), "the note")
    assert quiet(toy) == 1 and toy.sends[0][0] == "first"
    until(lambda: (seat.gate.reply_ended or "").startswith("failed"), "the end")
    assert seat.gate.reply_status == 307


def test_chunks_arrive_in_time(seat: Seat, toy: Toy) -> None:
    seat.gate.open_once()
    seat.window.js("void fetch('/backend-api/f/conversation?answer=stream', {method: 'POST', body: body('m-1')})")
    held = seat.gate.wait(5)
    assert held is not None and seat.gate.release(held)
    arrived: list[float] = []
    text = b""
    while (chunk := seat.gate.reply(3)) is not None:
        text += chunk
        arrived.append(time.monotonic())
    assert seat.gate.reply_ended == "finished" and seat.gate.reply_status == 200
    assert text == b"".join(b"data: chunk %d\n\n" % number for number in range(5))
    assert len(arrived) >= 4 and arrived[-1] - arrived[0] > 0.5


def test_open_needs_a_whole_gate(seat: Seat) -> None:
    seat.gate.open_once()
    with pytest.raises(Failure) as failure:
        seat.gate.open_once()
    assert failure.value.slug == "site-changed"


def test_cannot_be_armed_on_a_window_that_is_gone(chrome: Chrome, toy: Toy) -> None:
    window = Window(chrome)
    window.close()
    gate = Gate(chrome.url, window.target, toy.origin)
    until(lambda: all(target["targetId"] != window.target for target in chrome.targets()), "the window to go")
    with pytest.raises(Failure) as failure:
        gate.arm()
    assert failure.value.slug == "site-changed"


def test_other_windows_are_left_alone(seat: Seat, chrome: Chrome, toy: Toy) -> None:
    """A person's own window of the same Chrome opens, and sends, while a gate is closed elsewhere."""
    started = time.monotonic()
    other = Window(chrome)
    other.go(f"{toy.origin}/")
    other.send("fetch", "m-person")
    until(lambda: toy.sends == [("fetch", "m-person")], "the person's send")
    assert time.monotonic() - started < 5 and seat.gate.notes() == ()
    other.close()


def test_two_gates_on_one_chrome(chrome: Chrome, toy: Toy) -> None:
    first, second = Seat(chrome, toy), Seat(chrome, toy)
    first.gate.open_once()
    second.window.send("fetch", "m-second")
    second.window.send("shared", "m-shared")
    first.window.send("fetch", "m-first")
    held = first.gate.wait(5)
    assert held is not None and held.user_message_ids == ("m-first",) and first.gate.release(held)
    until(lambda: len(toy.sends) == 1, "the request")
    until(lambda: len(second.gate.notes()) >= 2, "two notes")
    assert quiet(toy) == 1
    first.close()
    second.close()


def test_guard_looks_native_and_leaves_no_names(seat: Seat) -> None:
    assert seat.window.js("fetch.toString() + navigator.sendBeacon + WebSocket.prototype.send").count("[native code]") == 3
    assert seat.window.js("fetch.name + fetch.length") == "fetch1"
    fresh = seat.window.js("(() => { const f = document.createElement('iframe'); f.sandbox = ''; return Object.getOwnPropertyNames(window)"
                           ".filter((n) => /^b[0-9a-f]{24}$/.test(n)).length })()")
    assert fresh == 0


def test_the_guard_and_the_gate_know_a_send_by_the_same_shape(seat: Seat) -> None:
    """The same bodies to both recognisers: what only one of them knew could leave after our death, or be failed for nothing."""
    rng = random.Random(11)
    bodies = [json.dumps(wrapped(rng)) for _ in range(1500)]
    ours = [sending_part(json.loads(body)) is not None for body in bodies]
    page = seat.window.js(f"JSON.stringify({json.dumps(bodies)}.map((body) => {SENDING_MESSAGES_JS}({DEPTH})(body) !== null))")
    differing = [body for body, one, other in zip(bodies, ours, json.loads(page), strict=True) if one is not other]
    assert differing == [] and 150 < sum(ours) < 1350


def wrapped(rng: random.Random) -> Any:
    """Something like a send, in up to seven wrappers of every kind, or something that just fails to be one."""
    role = rng.choice(["user"] * 6 + ["system", None, ["user"]])
    author = rng.choice([{"role": role}] * 5 + ["user", None, 0, {}])
    message = rng.choice([{"author": author}, {"author": author, "role": "user"}, {"role": role}] * 3 + [None, "user"])
    name = rng.choice(["messages"] * 6 + ["message"])
    value: Any = {name: rng.choice([[message]] * 4 + [[None, message], message, []])}
    for _ in range(min(rng.randrange(8), rng.randrange(8))):
        value = rng.choice([lambda v: {"a": 1, "b": v}, lambda v: [None, "messages", v], lambda v: {"messages": v},
                            lambda v: " " * rng.choice([0, 3, 100]) + json.dumps(v), lambda v: "x" + json.dumps(v)])(value)
    return value


# -- the process of the gate dies


class Helper:
    """A gate in a process of its own, with its sentry or `alone`."""

    def __init__(self, chrome: Chrome, toy: Toy, *alone: str) -> None:
        self.window = Window(chrome)
        root = str(Path(__file__).resolve().parents[2])
        self.process = subprocess.Popen([sys.executable, "-m", "tests.browser.gate_helper", chrome.url, self.window.target, toy.origin,
                                         *alone], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        word, pid = self.process.stdout.readline().split()
        assert word == "armed"
        self.sentry = int(pid)
        self.window.go(f"{toy.origin}/")
        self.window.js("dedicated = new Worker('/worker.js'); dedicated.postMessage({url: '/ces', body: 'x'})")
        until(lambda: toy.posts == ["/ces"], "the worker")
        toy.posts.clear()

    def tell(self, *words: str) -> str:
        """The last answer; "" when it died of it."""
        said = ""
        assert self.process.stdin is not None and self.process.stdout is not None
        for word in words:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline().strip()
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def is_there(self) -> bool:
        return any(target["targetId"] == self.window.target for target in self.window.chrome.targets())

    def end(self) -> None:
        self.kill()
        self.window.close()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        until(lambda: processes.started(self.sentry) is None, "the end of the sentry")


@pytest.fixture
def helper(chrome: Chrome, toy: Toy) -> Iterator[Helper]:
    one = Helper(chrome, toy)
    yield one
    one.end()


@pytest.fixture
def alone(chrome: Chrome, toy: Toy) -> Iterator[Helper]:
    one = Helper(chrome, toy, "alone")
    yield one
    one.end()


AGAIN = ("inline", "worker", "popup", "frame", "reload", "document", "blank", "shared")


@pytest.mark.sample(4)
@pytest.mark.parametrize("how", AGAIN)
def test_killed_after_release_the_page_reaches_the_site_no_more(helper: Helper, toy: Toy, how: str) -> None:
    """GT-11: also from what the page makes after the worker's death; then its window is closed, and the sentry ends."""
    helper.tell("open")
    helper.window.js(f"void haunt('m-1', '{how}')")
    helper.tell("wait", "release-and-die")
    assert helper.process.wait(5) == -signal.SIGKILL
    until(lambda: not helper.is_there(), "the window to be closed")
    until(lambda: processes.started(helper.sentry) is None, "the end of the sentry")
    assert quiet(toy) == 1, toy.sends


def haunted(chrome: Chrome, toy: Toy, how: str) -> None:
    """Released, haunted, closed."""
    one = Seat(chrome, toy)
    one.gate.open_once()
    one.window.js(f"void haunt('m-1', '{how}')")
    held = one.gate.wait(10)
    assert held is not None and one.gate.release(held)
    until(lambda: len(one.gate.notes()) > 0, "more sends")
    one.close()


@pytest.mark.sample(2)
@pytest.mark.soak
@pytest.mark.parametrize("how", ["inline", "popup", "worker", "document", "frame", "reload"])
def test_a_window_that_is_closed_lets_nothing_go(chrome: Chrome, toy: Toy, how: str) -> None:
    """Chrome lets go what is stopped, and what waits to begin, when a window closes; the soak has a machine that is busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 if SOAK else 0)]
    try:
        for number in range(1, 1 + (max(20, SOAK // 20) if SOAK else 1)):
            haunted(chrome, toy, how)
            assert quiet(toy) == number, toy.sends[number - 1:]
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["worker", "frame", "reload"])
def test_a_sentry_that_died_first_has_a_successor(helper: Helper, toy: Toy, how: str) -> None:
    helper.tell("open")
    helper.window.js(f"void haunt('m-1', '{how}')")
    helper.tell("wait", "release")
    os.kill(helper.sentry, signal.SIGKILL)
    until(lambda: helper.tell("sentry") != "0", "the successor")
    helper.sentry = int(helper.tell("sentry"))
    helper.kill()
    until(lambda: not helper.is_there(), "the window to be closed")
    until(lambda: processes.started(helper.sentry) is None, "the end of the successor")
    assert quiet(toy) == 1, toy.sends


def test_a_page_like_that_would_reach_it_without_the_sentry(alone: Helper, toy: Toy) -> None:
    """What the test above is worth: with the guard alone a new frame sends again."""
    alone.tell("open")
    alone.window.js("void haunt('m-1', 'blank')")
    alone.tell("wait", "release-and-die")
    until(lambda: len(toy.sends) > 1, "the second send")


def test_without_the_sentry_the_guard_stands(alone: Helper, toy: Toy) -> None:
    alone.tell("open")
    alone.window.js("void retrying('m-1', 6)")
    alone.tell("wait", "release-and-die")
    assert alone.process.wait(5) == -signal.SIGKILL
    until(lambda: alone.window.js("window.done") is True, "the page to give up")
    for way in ("xhr", "beacon", "oldWorker", "blob"):
        alone.window.send(way, "m-1")
    assert quiet(toy) == 1, toy.sends


@pytest.mark.sample(2)
@pytest.mark.parametrize("way", ["fetch", "beacon", "keepalive", "oldWorker"])
def test_killed_while_held_nothing_leaves(helper: Helper, toy: Toy, way: str) -> None:
    helper.tell("open")
    helper.window.js(f"void ways.{way}('m-1'); void retrying('m-1', 4)")
    helper.tell("wait")
    helper.kill()
    until(lambda: not helper.is_there(), "the window to be closed")
    assert quiet(toy) == 0, toy.sends


def test_killed_while_held_and_without_a_sentry_at_most_one_leaves(alone: Helper, toy: Toy) -> None:
    alone.tell("open")
    alone.window.js("void retrying('m-1', 4)")
    alone.tell("wait")
    alone.kill()
    until(lambda: alone.window.js("window.done") is True, "the page to give up")
    assert quiet(toy) <= 1


def test_killed_while_closed_nothing_leaves(alone: Helper, toy: Toy) -> None:
    alone.window.js("window.port_ = new SharedWorker('/shared.js').port; port_.start(); port_.postMessage({url: '/ces', body: 'x'})")
    until(lambda: toy.posts == ["/ces"], "the shared worker")
    alone.kill()
    for way in ("fetch", "xhr", "beacon", "oldWorker", "blob", "shared"):
        alone.window.send(way)
    assert quiet(toy) == 0, toy.sends


def test_signal_while_held_fails_it_first(helper: Helper, toy: Toy) -> None:
    """GT-10, by the gate itself: the window is still there to tell."""
    helper.tell("open")
    helper.window.send("keepalive")
    helper.tell("wait")
    os.kill(helper.process.pid, signal.SIGTERM)
    assert helper.process.wait(5) == 0
    assert quiet(toy) == 0


@pytest.mark.parametrize("when", ["before the click", "while held"])
def test_a_sentry_that_is_gone_costs_a_send_and_nothing_else(helper: Helper, toy: Toy, when: str) -> None:
    """Killed, it lets nothing go; the gate releases nothing without it."""
    if when == "before the click":
        os.kill(helper.sentry, signal.SIGKILL)
        assert helper.tell("open") == "", "the gate refuses to open"
        return
    helper.tell("open")
    helper.window.send("fetch")
    helper.tell("wait")
    os.kill(helper.sentry, signal.SIGKILL)
    assert quiet(toy) == 0, "what the gate holds stays held"
    assert helper.tell("release") == "False"
    until(lambda: helper.window.js("window.failed") is not None, "the page's own error")
    assert quiet(toy) == 0 and helper.is_there()


def test_a_dead_owners_window_is_armed_again(chrome: Chrome, toy: Toy, alone: Helper) -> None:
    alone.kill()
    window = alone.window
    gate = Gate(chrome.url, window.target, toy.origin)
    gate.arm()
    window.send("fetch")
    until(lambda: len(gate.notes()) == 1 or json.dumps(window.js("window.failed")) != "null", "the refusal")
    assert quiet(toy) == 0
    window.close()
    assert gate.gone(5)
    gate.detach()
