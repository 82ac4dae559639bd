"""argv -> command -> exit code: prompts, ids, what stands on standard output and standard error. The browser's part is injected."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gptbridge.core.errors import EXITS, Failure
from gptbridge.core.result import Outcome, document
from gptbridge.shell import topics
from gptbridge.shell.arguments import COMMANDS
from gptbridge.shell.cli import main
from gptbridge.shell.job import Job, Output
from gptbridge.shell.terminal import Terminal

from .seeding import Seed, conversation_id, ulid

SCHEMA = json.loads(topics.schema_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
ID = conversation_id(1)
OPERATION = "01KB7X00000000000000000001"


class Line:
    """Runs `main` in this process; `jobs` is what the browser's part was asked to do."""

    def __init__(self, capfd: pytest.CaptureFixture[str], home: Path) -> None:
        self.capfd, self.env = capfd, {"ASKGPT_HOME": str(home)}
        self.jobs: list[tuple[Job, Output]] = []
        self.logins: list[bool] = []
        self.code = 0

    def run_job(self, job: Job, output: Output) -> int:
        self.jobs.append((job, output))
        return self.code

    def run_login(self, quit: bool, output: Output) -> int:
        self.logins.append(quit)
        return self.code

    def __call__(self, *words: str, run_job: Callable[[Job, Output], int] | None = None) -> tuple[int, str, str]:
        code = main(list(words), run_job=run_job or self.run_job, run_login=self.run_login, environ=self.env)
        out, err = self.capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    def job(self, *words: str) -> Job:
        code, out, _ = self(*words)
        assert (code, out) == (0, ""), words
        return self.jobs.pop()[0]

    def document(self, *words: str, **more: Any) -> dict[str, Any]:
        code, out, _ = self(*words, "--json", **more)
        assert out.isascii() and out.count("\n") == 1 and out.endswith("\n")
        found: dict[str, Any] = json.loads(out)
        VALID.validate(found)
        assert found["exit_code"] == code and list(found)[:29] == SCHEMA["required"]
        return found


@pytest.fixture
def line(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.chdir(tmp_path)
    return Line(capfd, tmp_path / "home")


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[[bytes], None]]:
    """Put bytes on standard input (descriptor 0)."""
    kept = os.dup(0)

    def put(data: bytes) -> None:
        (tmp_path / "typed").write_bytes(data)
        fd = os.open(tmp_path / "typed", os.O_RDONLY)
        os.dup2(fd, 0)
        os.close(fd)

    yield put
    os.dup2(kept, 0)
    os.close(kept)


# Prompts

@pytest.mark.parametrize(("words", "prompt"), [
    (["send", "two", "words"], "two words"),
    (["send", "a  b", "", "c"], "a  b  c"),
    (["two words"], "two words"),
    (["send", "--", "--wait", "5"], "--wait 5"),
    (["send", "a\r\nb\rc\n"], "a\nb\nc\n"),
    (["send", " 👩‍👩‍👧 שלום\t日本 "], " 👩‍👩‍👧 שלום\t日本 "),
    (["send", "-", "x"], "- x"),
    (["send", "list"], "list"),
    (["--", "--json is an option"], "--json is an option"),
])
def test_prompts_from_words(line: Line, words: list[str], prompt: str) -> None:
    assert line.job(*words) == Job("send", prompt)


@pytest.mark.parametrize(("data", "prompt"), [
    (b"a\r\nb\n\n", "a\nb\n"), (b"a", "a"), (b"\xef\xbb\xbfx\n", "\ufeffx"), (b"\0\n", "\0"),
    ("é\n".encode() * 50_000, "é\n" * 49_999 + "é")])
def test_prompts_from_standard_input(line: Line, typed: Callable[[bytes], None], data: bytes, prompt: str) -> None:
    typed(data)
    assert line.job("-").prompt == prompt
    typed(data)
    assert line.job("resume", ID, "-").prompt == prompt
    typed(data)
    assert line.job("send", "--", "-").prompt == prompt


@pytest.mark.parametrize(("data", "slug"), [
    (b"", "usage"), (b"\n", "usage"), (b"\r\n", "usage"), (b"\xff", "bad-input"), (b"a\xc3", "bad-input"), (b"\xed\xa0\x80", "bad-input")])
def test_standard_input_that_is_no_prompt(line: Line, typed: Callable[[bytes], None], data: bytes, slug: str) -> None:
    typed(data)
    assert line.document("send", "-")["error"]["code"] == slug
    assert not line.jobs


@pytest.mark.parametrize("words", [["send"], ["send", ""], ["send", "", ""], ["resume", ID, ""], ["resume", "--last", ""], ["resume"],
                                   ["send", "--operation-id", OPERATION], ["resume", ID, "--operation-id", OPERATION], [""]])
def test_an_empty_prompt_is_no_prompt(line: Line, words: list[str]) -> None:
    found = line.document(*words)
    assert (found["exit_code"], found["sent"], found["retry"]) == (2, "no", "after-fix")
    assert ("leave the prompt away" in found["error"]["hint"]) == (words[0] == "resume" and words[-1] == "")
    assert not line.jobs


@pytest.mark.parametrize("text", [" ", "   \n\t", "\u00a0\u3000", "\r\n \r\n"])
def test_blanks_alone_are_refused_before_anything_is_opened(line: Line, typed: Callable[[bytes], None], text: str) -> None:
    """The page's send button stays dead for them; nothing of a text that holds more is cut."""
    for words in (["send", text], ["resume", ID, text], ["send", "-"]):
        typed(text.encode())
        found = line.document(*words)
        assert (found["exit_code"], found["sent"], found["retry"], found["operation_id"]) == (17, "no", "after-fix", None)
        assert "blanks" in found["error"]["message"]
    assert not line.jobs
    assert line.job("send", f"{text}x{text}").prompt == f"{text}x{text}".replace("\r\n", "\n")
    assert line.job("send", "\u200b").prompt == "\u200b"  # no blank for a page, though nothing can be seen of it


def test_options_of_send(line: Line) -> None:
    job = line.job("--wait", "0", "send", "hello", "--queue-wait", "2m", "you", "--operation-id", OPERATION)
    assert job == Job("send", "hello you", operation_id=OPERATION, wait=0.0, queue_wait=120.0)
    line("-q", "hello you", "--json")
    assert line.jobs.pop()[1] == Output(json=True, quiet=True)


def test_the_exit_code_is_that_of_the_job(line: Line) -> None:
    for line.code in (0, 11, 31, 40, 143):
        assert line("hello you")[0] == line.code


# Which conversation

def test_resume_by_id_url_and_operation(line: Line) -> None:
    assert line.job("resume", ID) == Job("resume", None, ID)
    assert line.job("resume", ID, "and", "now") == Job("resume", "and now", ID)
    assert line.job("resume", f"https://chatgpt.com/g/g-p-1/c/{ID}?x=y", "more") == Job("resume", "more", ID)
    assert line.job("resume", OPERATION) == Job("resume", operation_ref=OPERATION)
    line.env["ASKGPT_SITE"] = "http://127.0.0.1:8123"
    assert line.job("resume", f"http://127.0.0.1:8123/c/{ID}") == Job("resume", None, ID)


def test_resume_by_a_beginning(line: Line, tmp_path: Path) -> None:
    seed = Seed(tmp_path / "home")
    seed.conversation(1, "one")
    assert line.job("resume", "68c1d2e3", "more").conversation_id == ID
    assert line.job("resume", ID[:13]).conversation_id == ID
    seed.conversation(2, "two")
    assert line.document("resume", "68c1d2e3", "more")["error"]["code"] == "bad-input"
    assert line.document("resume", "00000000", "more")["error"]["code"] == "bad-input"
    assert line.document("resume", "68c1d2e", "more")["error"]["code"] == "usage"
    assert line.job("resume", ID, "more").conversation_id == ID
    assert not line.jobs


@pytest.mark.parametrize("word", ["hello", "https://example.com/c/" + ID, ID.upper().replace("6", "A"), OPERATION.lower(), "../x",
                                  f"http://chatgpt.com/c/{ID}"])
def test_a_word_that_names_no_conversation(line: Line, word: str) -> None:
    found = line.document("resume", word, "more")
    assert found["exit_code"] == 2 and "more" not in found["error"]["message"].split("(")[0]
    assert not line.jobs


def test_a_prompt_goes_into_the_conversation_of_an_operation(line: Line, tmp_path: Path) -> None:
    seed = Seed(tmp_path / "home")
    done = seed.operation(1, "claimed", "dispatched", "accepted", "completed")
    lost = seed.operation(2, "claimed", "dispatched", "uncertain")
    into = seed.operation(3, "rejected", target=conversation_id(9))
    assert line.job("resume", done, "more") == Job("resume", "more", conversation_id(1))
    assert line.job("resume", into, "more") == Job("resume", "more", conversation_id(9))
    assert line.document("resume", lost, "more")["error"]["code"] == "bad-input"
    assert line.document("resume", ulid(4), "more")["error"]["code"] == "bad-input"
    assert line.job("resume", lost) == Job("resume", operation_ref=lost)
    assert not line.jobs


def test_last_is_by_folder_and_says_so_before_anything(line: Line, tmp_path: Path) -> None:
    seed = Seed(tmp_path / "home")
    assert line.document("resume", "--last", "more")["error"]["code"] == "bad-input"
    seed.conversation(1, "an\x1b[31m evil\ntitle")
    seed.operation(1, "claimed", "dispatched", "accepted", "completed", folder=str(tmp_path))
    seed.operation(2, "claimed", "dispatched", "accepted", "completed", folder="/elsewhere")
    said: list[str] = []

    def run_job(job: Job, output: Output) -> int:
        said.append(line.capfd.readouterr().err)
        line.jobs.append((job, output))
        return 0

    assert line("resume", "--last", ID, "is prompt", run_job=run_job)[0] == 0
    assert line.jobs.pop()[0] == Job("resume", f"{ID} is prompt", ID)
    assert said == [f"last: {ID}  an␛1B;[31m evil␛A;title\n"]
    assert line.job("resume", "--last", "-q") == Job("resume", None, ID)
    seed.operation(3, "rejected", folder=str(tmp_path))  # newer, and it has no conversation: never guessed
    assert line.document("resume", "--last", "more")["error"]["code"] == "bad-input"
    assert not line.jobs


# The document and standard error

@pytest.mark.parametrize("words", [["list", "--bogus"], ["--bogus"], ["lst"], ["send", "-f", "x"], ["show"], ["ops", "sweep"],
                                   ["send", "--again"], ["resume", ID, "--again"],
                                   ["ops", "show", ulid(7)], ["show", ID], ["resume", "x"], ["list", "x"], ["help", "nothing"],
                                   ["practice", "--scenario", "nothing"],
                                   ["practice", "--scenario", "slow-answer:seconds=x"], ["practice", "--port", "x"], ["send", "\udcff"]])
def test_a_failure_is_one_document_and_one_message(line: Line, words: list[str]) -> None:
    found = line.document(*words)
    assert found["exit_code"] in (2, 17) and not found["ok"] and found["sent"] == "no"
    assert found["error"]["code"] == ("usage" if found["exit_code"] == 2 else "bad-input")
    code, out, err = line(*words)
    assert (code, out) == (found["exit_code"], "") and err.startswith(f"ask-gpt: {found['error']['message']}\n")
    assert line(*words, "-q") == (code, out, err)  # errors are never silenced
    assert not line.jobs


def test_words_of_the_site_begin_no_line_of_standard_error() -> None:
    """SE-06: programs read `operation:`, `saved:`, `Log:` and `resume:` there."""
    reader, writer = os.pipe()
    terminal = Terminal(err=writer)
    forged = "x\nsaved: ./ask-gpt/a\r\noperation: 01KB7X00000000000000000001\u2028Log: /etc\x85resume: y\x0bz"
    terminal.note(f"warning: {forged}")
    terminal.say(f"failed: {forged}")
    terminal.error(Failure("browser", forged, "one thing\nanother"))
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", newline="") as said:
        lines = said.read().splitlines()
    assert [line.split(": ")[0] for line in lines] == ["warning", "failed", "ask-gpt", "  one thing", "  another"]
    assert lines[0].startswith("warning: x\u241bA;saved: ./ask-gpt/a\u241bD;\u241bA;operation")


def test_json_is_found_wherever_it_stands(line: Line) -> None:
    for words in (["--json", "lst"], ["lst", "--json"], ["--json", "--bogus", "send", "x"]):
        assert json.loads(line(*words)[1])["exit_code"] == 2
    assert line("lst", "--", "--json")[1] == ""


def test_the_commands_of_a_document(line: Line) -> None:
    for words, command in ((["list", "--bogus"], "list"), (["lst"], "ask-gpt"), (["hello you", "--bogus"], "send"), (["ops", "x"], "ops")):
        assert line.document(*words)["command"] == command


def test_login_and_its_options(line: Line) -> None:
    assert line("login")[0] == 0 and line("--quit", "login")[0] == 0
    assert line.logins == [False, True]


def test_a_failure_of_the_job_is_told_once(line: Line) -> None:
    def broken(job: Job, output: Output) -> int:
        raise Failure("bad-config", "the configuration is wrong; nothing was sent", "mend it")

    assert line("hello you", run_job=broken) == (20, "", "ask-gpt: the configuration is wrong; nothing was sent\n  mend it\n")
    assert line.document("hello you", run_job=broken)["error"]["code"] == "bad-config"


def test_a_bug_is_a_report_and_one_sentence(line: Line, tmp_path: Path) -> None:
    def broken(job: Job, output: Output) -> int:
        raise ValueError(job.prompt)

    code, out, err = line("hello secret", "--wait", "5", run_job=broken)
    reports = sorted((tmp_path / "home" / "reports").iterdir())
    assert (code, out, len(reports)) == (1, "", 1) and str(reports[0]) in err and "secret" not in err
    text = reports[0].read_text("ascii")
    assert reports[0].stat().st_mode & 0o777 == 0o600 and "secret" not in text and str(tmp_path) not in text
    report = json.loads(text)
    assert report["command"] == "send" and report["options"] == ["--wait"] and report["exceptions"][0]["type"] == "builtins.ValueError"
    found = line.document("hello secret", run_job=broken)
    assert (found["exit_code"], found["sent"], found["retry"], found["error"]["code"]) == (1, "unknown", "never", "bug")


def test_twenty_reports_are_kept_and_other_files_left_alone(line: Line, tmp_path: Path) -> None:
    from gptbridge.edge.reports import write_report

    seed = Seed(tmp_path / "home")
    (tmp_path / "home" / "reports" / "mine.txt").write_text("x")
    for _ in range(25):
        write_report(seed.home, seed.host, "bug", {})
    names = sorted(p.name for p in (tmp_path / "home" / "reports").iterdir())
    assert len(names) == 21 and "mine.txt" in names and names[0] > "2026-11-29T13-00-05"


def test_a_bug_without_a_home_is_still_one_sentence(line: Line, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    def broken(job: Job, output: Output) -> int:
        raise ValueError("secret")

    code, _, err = line("hello you", run_job=broken)
    assert code == 1 and err.startswith("ask-gpt: this is a bug in ask-gpt (ValueError at ") and "secret" not in err


def test_ctrl_c(line: Line) -> None:
    def pressed(job: Job, output: Output) -> int:
        raise KeyboardInterrupt

    found = line.document("hello you", run_job=pressed)
    assert (found["exit_code"], found["sent"]) == (130, "unknown")
    assert line.document("resume", ID, run_job=pressed)["sent"] == "no"


# Help

def test_help_is_plain_and_says_what_is_promised(line: Line) -> None:
    code, text, err = line("--help")
    assert (code, err) == (0, "") and text == line()[1] == line("help")[1]
    flat = " ".join(text.split())
    assert " ".join(topics.GUARANTEE.split()) in flat
    assert flat.index("share one state directory") < flat.index("not restored from a backup")
    for command in COMMANDS:
        assert f"  {command}" in text


@pytest.mark.parametrize("topic", [*topics.TOPICS, *COMMANDS])
def test_topics(line: Line, topic: str) -> None:
    code, text, err = line("help", topic)
    assert (code, err) == (0, "") and text.endswith("\n") and text.strip()
    if topic not in ("schema", "skill"):
        assert max(map(len, text.splitlines())) <= 80
        assert text.isascii() and "\x1b" not in text
    assert line.document("help", topic)["help"] == {"topic": topic, "text": text}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_a_command(line: Line, command: str) -> None:
    code, text, _ = line(command, "--help")
    assert code == 0 and text.startswith(f"Usage: ask-gpt {command} ") and "--json" in text
    assert not line.jobs


def test_the_short_form_of_help(line: Line) -> None:
    assert line("-h")[:2] == line("--help")[:2] and line("list", "-h")[:2] == line("list", "--help")[:2]


def test_what_is_not_there_yet_is_not_listed(line: Line) -> None:
    pages = [line("--help")[1], *(line(command, "--help")[1] for command in COMMANDS)]
    for word in ("mcp", "--install-completion"):
        assert not any(word in page for page in pages), word


def test_the_exit_table_is_whole(line: Line) -> None:
    text = line("help", "exits")[1]
    for row in EXITS.values():
        assert f"{row.code:>3}  {row.slug} " in text
    assert set(topics.EXIT_MEANINGS) == set(EXITS)


def test_version(line: Line) -> None:
    assert line("--version")[1].startswith("ask-gpt 0.")
    assert line.document("--version")["version"] == line("--version")[1].split()[1]


# The schema

def test_the_schema_is_a_schema_and_knows_every_slug() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["slug"]["enum"]) == set(EXITS) - {"ok"}
    assert list(document(Outcome("send"))) == SCHEMA["required"]


@pytest.mark.parametrize("slug", EXITS)
def test_every_outcome_of_a_send_is_valid(slug: str, tmp_path: Path) -> None:
    seed = Seed(tmp_path / "home")
    states = {"queued": (), "rejected": ("rejected",), "uncertain": ("claimed", "dispatched", "uncertain"),
              "completed": ("claimed", "dispatched", "accepted", "completed")}
    for number, steps in enumerate(states.values(), 1):
        seed.operation(number, *steps)
    for operation in seed.ledger.view().operations.values():
        VALID.validate(document(Outcome("send", slug, None if slug == "ok" else Failure(slug, "it is so"), operation)))
    with pytest.raises(jsonschema.ValidationError):
        VALID.validate({**document(Outcome("send")), "sent": "maybe"})
