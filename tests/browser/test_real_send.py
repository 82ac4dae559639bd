"""send and resume as a person or a script runs them: what they print, what lies on disk, what the site got, code point for code point."""

from __future__ import annotations

import json
import random
import stat
from pathlib import Path

import jsonschema
import pytest

from tests.browser.real import BOTH, ROOT, Desk, Ran

pytestmark = pytest.mark.browser
SCHEMA = json.loads((ROOT / "gptbridge" / "data" / "result.schema.json").read_text())


def valid(ran: Ran) -> dict[str, object]:
    doc = ran.doc
    jsonschema.validate(doc, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert set(SCHEMA["required"]) <= set(doc), "all keys, always"
    assert doc["exit_code"] == ran.code
    return doc


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@BOTH
def test_send_then_resume_in_a_second_process(desk: Desk) -> None:
    first = desk.json("send", "hello", "there")
    assert first.code == 0, first
    doc = valid(first)
    assert (doc["sent"], doc["state"], doc["answer"], doc["thinking"]) == ("yes", "completed", "You said:\n\n> hello there", "")
    conversation = str(doc["conversation_id"])
    assert len(desk.site.sends()) == 1
    second = desk.json("resume", conversation, "and again")
    assert second.code == 0, second
    again = valid(second)
    assert (again["sent"], again["conversation_id"], again["answer"]) == ("yes", conversation, "You said:\n\n> and again")
    assert again["operation_id"] != doc["operation_id"]

    sends = desk.site.sends()
    assert [(one["text"], one["conversation_id"], one["answered"], one["copy_of"]) for one in sends] == [
        ("hello there", conversation, 200, None), ("and again", conversation, 200, None)]
    for one, told in zip(sends, (doc, again), strict=True):
        assert desk.operation(str(told["operation_id"]))["user_message_id"] == one["message_id"]
    log = desk.log(conversation).decode()
    assert (again["log"], again["log_canonical"]) == (f"./ask-gpt/{conversation}.log", str(desk.home.path / "logs" / f"{conversation}.log"))
    assert log.count("hello there") >= 1 and log.index("hello there") < log.index("and again")

    replay = desk.json("send", "hello there", "--operation-id", str(doc["operation_id"]))
    kept = {key: value for key, value in replay.doc.items() if key not in ("log", "warnings", "next")}
    assert kept == {key: doc[key] for key in kept} and len(desk.site.sends()) == 2


def test_what_is_printed_and_what_lies_on_disk(desk: Desk) -> None:
    ran = desk.run("send", "practice:markdown please")
    assert ran.code == 0, ran
    conversation = desk.newest("conversation_id") if "conversation_id" in desk.home.records()[-1] else next(iter(desk.copies()))[:-4]
    shown = desk.run("show", conversation, "--answer")
    assert ran.out == shown.out and ran.out.endswith(b"\n") and not ran.out.startswith(b"\n")
    lines = ran.err.splitlines()
    assert lines[0].startswith("operation: ") and f"resume: ask-gpt resume {conversation}" in lines
    lines = [line for line in lines if "uncertain operation" not in line]  # of an earlier test in this home
    assert lines[-2:] == [f"Log: ./ask-gpt/{conversation}.log", f"Log: {desk.home.path}/logs/{conversation}.log"]
    quiet = desk.run("resume", conversation, "-q", "once", "more")
    assert (quiet.code, quiet.out) == (0, b"You said:\n\n> once more\n"), quiet
    assert [line.partition(" ")[0] for line in quiet.err.splitlines()] == ["operation:"]

    folder = desk.folder / "ask-gpt"
    assert mode(folder) == 0o700 and (folder / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", f"{conversation}.log"]
    assert [path.name for path in desk.folder.iterdir()] == ["ask-gpt"]
    assert mode(desk.home.path / "browser" / "profile") == 0o700
    for path in [*desk.home.files(), *folder.iterdir(), desk.home.path / "browser" / "browser.json"]:
        assert mode(path) == 0o600 and mode(path.parent) == 0o700, path


CHARACTERS = "\n".join([
    "", "", "two blank lines above, blanks at the end   ", "\ttab first, tab\tinside, tab last\t", "    four blanks first,  two  inside",
    "emoji 😀🎉, joined \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308, skin 👍🏽",
    "flag 🇩🇪, keycap 1\ufe0f\u20e3",
    "漢字かな交じり文 한국어 中文，标点。", "עברית שלום RTL العربية مرحبا", "\u202eoverride\u202c \u2066isolate\u2069",
    "combining e\u0301 a\u0308\u0323, nbsp [\u00a0\u00a0], thin [\u2009], zero width [\u200b\u200d\ufeff], soft [\u00ad]",
    "line [\u2028] paragraph [\u2029], beyond the plane: 𝔘𝔫𝔦 𒀀 \U0010fffd, private \ue000\uf8ff",
    "<p>markup</p> &amp; &lt; <script>x</script> <!-- c --> ]]>", "\"quoted\" 'single' `code`", "# heading", "- list", "1. one", "> quote",
    "```py", "def f():\n    return 1", "```", "**bold** _it_ ~~no~~ [a](b) $x$ \\[y\\] @ / :smile:",
    *(f"line {number} of 200" + " " * (number % 3) for number in range(200)), "", "", ""])


def big(size: int, lines: int, seed: int = 1) -> str:
    """About `size` characters in that many lines, blank ones among them."""
    draw = random.Random(seed)
    words = ["lorem", "ipsum", "  dolor", "sit\t", "amet,", "漢字", "naïve", "x = {1: 2}", "<b>", "&"]
    out = []
    for number in range(lines):
        line = "" if number % 17 == 3 else f"{number}: "
        while line and len(line) < size // lines:
            line += draw.choice(words) + " "
        out.append(line)
    return "\n".join(out)


@pytest.mark.parametrize("text", [CHARACTERS, "\n\n \n\t\n one\rtwo\r\nthree\n\rfour\r\r\n five \n", big(50_000, 1600)],
                         ids=["characters", "blank first, line ends", "50 kB in 1600 lines"])
def test_typed_exactly(desk: Desk, text: str) -> None:
    ran = desk.json("send", "-", stdin=text.encode())
    assert ran.code == 0, ran
    expected = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    assert [one["text"] for one in desk.site.sends()] == [expected]
    prompt = desk.run("show", ran.doc["conversation_id"], "--turn", "last", "--prompt").out.decode()
    assert prompt == expected + ("" if expected.endswith("\n") else "\n")


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [4_096, 6_000, 60_000])
def test_a_page_that_makes_a_file_of_a_long_paste(desk: Desk, size: int) -> None:
    """Half of it in one line, which has no place where it would be natural to cut it."""
    desk.site.scenarios("paste-becomes-file")
    text = big(size // 2, size // 80) + "\n" + "漢y😀" * (size // 6)
    ran = desk.json("send", text)
    assert ran.code == 0, ran
    assert [one["text"] for one in desk.site.sends()] == [text], "sent as text, or not at all"
