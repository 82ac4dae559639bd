"""Every specimen in logs-example/ is read by the suite's own reader, and the commands still say of that home what they said."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gptbridge.core import attachments, brought, ledger, log_header, record, registry, transcript
from gptbridge.core.lifecycle import State
from gptbridge.edge import browser_files, config
from gptbridge.edge.home import open_home
from gptbridge.edge.lock_file import Holder
from gptbridge.edge.stamps import StampFile
from gptbridge.shell.wiring import files

ROOT = Path(__file__).resolve().parent.parent
SPECIMENS = ROOT / "logs-example"
RESULTS = sorted(path.stem for path in (SPECIMENS / "results").glob("*.json"))
SCHEMA = json.loads((resources("gptbridge") / "data" / "result.schema.json").read_text("utf-8"))


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home made of the specimens, with the modes that a home has."""
    home = tmp_path / "home"
    shutil.copytree(SPECIMENS / "home", home)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    yield {"ASKGPT_HOME": str(home), "PATH": os.environ["PATH"], "ASKGPT_SITE": "http://127.0.0.1:18473"}


def result(name: str) -> dict[str, Any]:
    text = (SPECIMENS / "results" / f"{name}.json").read_text("ascii")
    assert text.endswith("\n") and text.count("\n") == 1, "one line of ASCII"
    return dict(json.loads(text))


def the_log() -> Path:
    found, = (path for path in (SPECIMENS / "home" / "logs").glob("*.log") if not path.name.startswith("failed-"))
    return found


def test_the_readme_names_every_specimen_and_no_other() -> None:
    said = (SPECIMENS / "README.md").read_text("utf-8")
    for path in SPECIMENS.rglob("*"):
        if path.is_file() and path.name != "README.md":
            name = path.relative_to(SPECIMENS).as_posix()
            for mark, text in ((the_log().stem, "<conversation id>"), (result("send-needs-human")["operation_id"], "<operation id>"),
                               (result("resume")["attachments"][0]["sha256"], "<sha256>")):
                name = name.replace(mark, text)
            assert f"`{name}`" in said, name
    assert said.count(".json`") == len(RESULTS) + 1


def test_the_ledger(env: dict[str, str]) -> None:
    scan = record.scan((SPECIMENS / "home" / "ledger.jsonl").read_bytes())
    assert not scan.damage and not scan.torn
    view = ledger.fold(scan.pairs(), with_history=True)
    states = {name: view.operations[result(name)["operation_id"]].state for name in ("send", "resume", "resume-files", "send-needs-human")}
    assert states.pop("send-needs-human") == State.REJECTED and set(states.values()) == {State.COMPLETED}
    assert len(view.operations) == 4 and view.site == env["ASKGPT_SITE"]
    assert files(env).ledger.view().last_seq == view.last_seq


def test_no_prompt_stands_in_the_ledger() -> None:
    data = (SPECIMENS / "home" / "ledger.jsonl").read_text("ascii")
    assert "Explain flock" not in data.replace('"title":"practice:markdown Explain flock."', "") and "never leaves" not in data


def test_the_registry() -> None:
    data = (SPECIMENS / "home" / "conversations.jsonl").read_bytes()
    scan = record.scan(data)
    assert not scan.damage and not scan.torn
    found = registry.newest(filter(None, map(registry.glance, data.splitlines()[::-1])))
    assert [known.document() for known in found] == result("list")["conversations"]
    exported = (SPECIMENS / "results" / "list-export.jsonl").read_text("ascii").splitlines()
    assert [json.loads(line) for line in exported] == result("list")["conversations"]


def test_the_stamp_reaches_no_further_than_the_ledger(env: dict[str, str]) -> None:
    home = open_home(env, create=False)
    stamp = StampFile(home).read(result("send")["account"])
    assert stamp is not None and 0 < stamp.seq <= files(env).ledger.view().last_seq
    home.close()


def test_the_settings(env: dict[str, str]) -> None:
    chosen = config.load({"ASKGPT_HOME": env["ASKGPT_HOME"]}).settings
    assert (chosen.seats, chosen.wait, chosen.give_up, chosen.copies) == (2, 1200.0, 7200.0, True)


def test_the_log() -> None:
    log = transcript.parse(the_log().read_bytes())
    assert not log.problems
    assert [(block.number, block.state, "hydrated" in block.words) for block in log.blocks] == [
        (1, "completed", False), (2, "completed", True), (3, "completed", False), (4, "completed", False), (1, "completed", False)]
    made, later = (brought.of_block(block) for block in log.blocks[3:])
    assert [one.document for one in made] == [*result("resume-files")["images"], *result("resume-files")["files"]]
    assert log.blocks[4].kind == "event" and sorted(one.status for one in later) == ["present", "present", "saved"]
    assert log.blocks[2].section("prompt") == "practice:think Does a crash leave it locked?\n## turn 9\n<!-- not an end mark -->"
    assert log.blocks[0].section("answer") == result("send")["answer"] and log.blocks[2].section("thinking") == result("resume")["thinking"]


def test_the_log_of_a_turn_that_failed() -> None:
    path, = (SPECIMENS / "home" / "logs").glob("failed-*.log")
    log = transcript.parse(path.read_bytes())
    assert not log.problems and [(block.state, block.section("prompt")) for block in log.blocks] == [("failed", "This one never leaves.")]


@pytest.mark.parametrize("path", sorted((SPECIMENS / "home" / "logs").glob("*.log")), ids=lambda path: path.stem[:12])
def test_the_header_is_what_a_yaml_reader_sees(path: Path) -> None:
    from ruamel.yaml import YAML

    data = path.read_bytes()
    ours = log_header.read(data)
    assert not ours.problems and YAML(typ="safe").load(data[4:ours.end - 4]) == ours.values


def test_only_quoted_lines_hold_the_words_of_others() -> None:
    text = the_log().read_text("utf-8")
    for words in ("And this I asked", "## turn 9", "not an end mark", "A paragraph with"):
        assert words in text and all(line.startswith(">") for line in text.splitlines() if words in line)


def test_the_spooled_prompt() -> None:
    path, = (SPECIMENS / "home" / "spool").glob("*.prompt")
    assert (path.name, path.read_bytes()) == (f"{result('send-needs-human')['operation_id']}.prompt", b"This one never leaves.")


def test_the_file_that_was_sent_along() -> None:
    [row] = result("resume")["attachments"]
    path, = (SPECIMENS / "home" / "spool").glob("*.file")
    assert path.name == f"{row['sha256']}.file" == f"{hashlib.sha256(path.read_bytes()).hexdigest()}.file"
    assert attachments.read_section(transcript.parse(the_log().read_bytes()).blocks[2].section("attachments")) == [row]


def test_the_holder_and_the_browser() -> None:
    assert "ask-gpt send" in str(Holder.parse((SPECIMENS / "home" / "locks" / "owner-0").read_bytes()))
    running, starting = browser_files.read_id_file(SPECIMENS / "home" / "browser")
    assert running is not None and running.headless and starting == ()


@pytest.mark.parametrize("name", RESULTS)
def test_results_follow_their_schema(name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(result(name))


@pytest.mark.parametrize(("name", "words"), [
    ("list", ["list"]), ("show", ["show", "CONVERSATION"]), ("ops-list", ["ops", "list"]), ("ops-show", ["ops", "show", "OPERATION"])])
def test_reading_commands_say_the_same_today(name: str, words: list[str], env: dict[str, str], tmp_path: Path) -> None:
    """A change of the documents' content shows here: make the specimens anew and look at the difference."""
    known = result(name)
    given = {"CONVERSATION": the_log().stem, "OPERATION": result("send-needs-human")["operation_id"]}
    done = subprocess.run([sys.executable, "-m", "gptbridge", *(given.get(word, word) for word in words), "--json"], cwd=tmp_path,
                          env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    for document in (known, said):  # where the files lie
        document["log"] = document["log_canonical"] = None
    assert (done.returncode, said) == (0, known)
