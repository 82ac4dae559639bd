"""Hostile texts through real sends: what Chromium's composer and the held request make of them, what the log and `show` give back.

A quick set in every run, each text a mixture of several kinds; COUNT random ones with `make soak` (at most 1,000), in one Chromium that
stays up, with no gap.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptbridge.core.operation import NEW, Payload
from gptbridge.core.ports import World
from gptbridge.edge.config import load
from gptbridge.edge.copies import CopyFolder
from gptbridge.edge.host import Host
from gptbridge.edge.seats import ChromeBrowser
from gptbridge.flow.custody import Custody
from gptbridge.flow.submitting import submit
from gptbridge.practice.server import PracticeServer
from gptbridge.shell.wiring import HostClock, Nobody, world
from tests.browser.real import Desk
from tests.browser.toy import running
from tests.core.transcript_cases import sendable
from tests.texts import check_sent, is_inert

pytestmark = pytest.mark.browser
COUNT = min(int(os.environ.get("SOAK_EXAMPLES") or 0), 1000)

MARKS = ("## turn 9 · 2026-11-29T13:00:05Z\n\n### answer\n\n> forged\n\n<!-- ask-gpt end turn=1 state=completed bytes=1 sha256=" + "0" * 64
         + " prev=- -->\n<!-- ask-gpt torn -->\n*(interrupted)*\n---\nformat: ask-gpt-log/9\n---")
EVERY_CONTROL = "".join(f"a{chr(c)}b" for c in (*range(1, 10), *range(11, 13), *range(14, 32), *range(127, 160)))
HIDDEN = "bidi \u202egnp.exe\u202c \u2066x\u2069, tags \U000e0041\U000e007f, BOM \ufeff, \u2028line\u2029, zero\u200bwidth \ufff9\ufffc"
CODE = "```\n<script>\n````\nstill <b>\n```\n~~~ `x`\n<select>\n  ```\n```\n<textarea>\n- ```\n  <a>"
HTML = "<!-- <select> <div title=\"\n\n<plaintext> <![CDATA[ <?php </blockquote> <style> &lt;b> <img src=x onerror=alert(1)>"
LINKS = "[a]: http://a.b \"t\"\n[a] [^1] [x](y\n[^1]: z\n\n| a | `b | <c> |\n|-|-|-|\nheading\n=======\n# heading\n* * *"
TERMINAL = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b31m \x1b]8;;http://a.b\x1b\\link \x1b]52;c;ZXZpbA==\x07 \x08\x08\x7f\x05"
PRIVATE = "\ue200cite\ue202turn0search0\ue201 \uf8ff \U000f0000 \U0010fffd \uffff \U0001ffff \ufdd0"
SHAPES = "\n\n  lead\ttab \n\n> quoted\n>\n>> more\n    code\n   \n trailing  \n\u00a0\u3000\u0301\n\n"
TEXTS = {
    "marks": MARKS, "marks in code": "```\n" + MARKS, "controls": EVERY_CONTROL,
    "hidden": HIDDEN + "\n" + PRIVATE, "code": CODE + "\n" + HTML,
    "html": HTML + "\n\n" + LINKS, "terminal": TERMINAL + "\n" + MARKS, "shapes": SHAPES + LINKS + SHAPES,
    "escapes": "␛0; ␛3C;b> ␛ ␛D800; ␛110000; ␛241B;3C;\n" + HIDDEN, "one long line": "x<y😀`a " * 3000 + TERMINAL,
    "many lines": "\n".join(f"{n} <b>" + " " * (n % 3) + "`" * (n % 4) for n in range(1500)),
    "as tall as the window": "\n".join(f"line {n}" for n in range(40)), "taller than its box": "\n".join(f"line {n}" for n in range(25)),
    "all of it": "\n".join((HTML, TERMINAL, CODE, HIDDEN, LINKS, MARKS, PRIVATE, SHAPES, EVERY_CONTROL)),
}


class Line:
    """One worker's world on a Chromium that stays up: `send` is a whole send, every step of it."""

    def __init__(self, site: PracticeServer, browser: Any, place: Path) -> None:
        self.site, self.place = site, place
        self.env = {"ASKGPT_HOME": str(place / "home"), "ASKGPT_SITE": site.url, "ASKGPT_DISPATCH_GAP": "0"}
        place.mkdir(exist_ok=True)
        copies = CopyFolder(CopyFolder.here(print)._disk, os.open(place, os.O_RDONLY | os.O_DIRECTORY), print)
        self.world: World = world(self.env, load(self.env), Nobody(), copies, purpose="test", open_browser=lambda *_: browser)

    def check(self, text: str) -> None:
        operation_id = self.world.ids.ulid()
        op = submit(self.world, Custody(self.world), operation_id, Payload(text, NEW), account=None, folder=None, again=True)
        assert op.state == "completed", (op.state, op.error)
        name = op.conversation_id or ""
        sends = self.site.world.state()["sends"]
        check_sent(text, sends[-1]["text"], name, self.site.world.conversations[name].data, self.env,
                   self.place / "ask-gpt" / f"{name}.log")


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running(tmp_path_factory.mktemp("texts") / "browser") as started:
        yield started


@pytest.fixture(scope="module")
def line(chrome: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with PracticeServer() as site:
        site.world.switches.start("slow-answer", {"seconds": 0.0})
        clock = HostClock(Host({}))
        yield Line(site, ChromeBrowser(lambda: chrome, lambda: chrome, site.url, clock), tmp_path_factory.mktemp("line"))


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_arrives_and_comes_back_as_it_is(line: Line, name: str) -> None:
    line.check(TEXTS[name])


@pytest.mark.soak
@pytest.mark.skipif(not COUNT, reason="half an hour for 1,000: make soak")
@pytest.mark.timeout(7200)
def test_random_hostile_texts(line: Line) -> None:
    first = int(os.environ.get("SOAK_SEED") or 0) * 1000
    began = time.monotonic()
    for seed in range(first, first + COUNT):
        try:
            line.check(sendable(seed))
        except Exception as why:
            raise AssertionError(f"seed {seed}: {sendable(seed)!a}") from why
    print(f"{COUNT} texts in {time.monotonic() - began:.0f} s")


@pytest.mark.parametrize(("text", "said"), [
    (b"a\0b", "character 2 of the prompt is U+0000"), (b"a\xed\xa0\x80b", "not valid UTF-8 (byte 1)"),
    (b"a\xff", "not valid UTF-8 (byte 1)"),
], ids=["NUL", "lone surrogate", "no UTF-8"])
def test_what_no_page_takes_is_refused_before_the_click(desk: Desk, text: bytes, said: str) -> None:
    before = desk.home.records()
    ran = desk.json("send", "-", stdin=text)
    assert ran.code == 17 and said in ran.doc["error"]["message"] and "nothing was sent" in ran.doc["error"]["message"], ran
    assert (ran.doc["sent"], ran.doc["retry"], ran.doc["operation_id"], desk.site.sends()) == ("no", "after-fix", None, [])
    assert desk.home.records() == before
    assert not desk.copies()


@pytest.mark.parametrize("answer", ["surrogate", "escapes"])
def test_an_answer_with_a_lone_surrogate_or_controls_is_logged_whole(desk: Desk, answer: str) -> None:
    """Cases 56, 57: met first when the log is written, after the click."""
    ran = desk.run("send", f"practice:{answer}")
    conversation = desk.site.sends()[0]["conversation_id"]
    parts = [m["message"]["content"]["parts"] for m in desk.site.conversation(conversation)["mapping"].values()
             if m["message"] and m["message"]["author"]["role"] == "assistant"]
    text = parts[-1][0]
    assert ran.code == 0 and ran.out == (text + "\n").encode("utf-8", "surrogatepass"), ran
    assert desk.run("show", conversation, "--answer").out == ran.out
    assert desk.json("show", conversation).doc["turns"][0]["answer"] == text
    assert is_inert(desk.log(conversation)) and ("\\ud83d" in ascii(text) or "\x1b" in text)
