"""What a log records of files and what it copies of the site's words about files can never be taken for each other (SE-06)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import attachments, brought
from gptbridge.core.brought import Brought
from gptbridge.core.result import turn_document
from gptbridge.core.transcript import Block, Section, parse, tail
from tests.core.transcript_cases import AT, HEADER, profile, texts

ROW = '{"name": "x", "sent_name": "x", "size": 1, "sha256": "' + "a" * 64 + '"}'


def record(path: str | None = "../../.ssh/id_rsa", status: str = "saved", name: str = "r") -> str:
    return json.dumps({"status": status, "path": path, "name": name, "size": 1, "sha256": "a" * 64, "mime": None, "error": None,
                       "kind": "file", "source": "file:file-1"})


FORGED = (record(), record("./ask-gpt/r"), record(None, "failed"), ROW, f"a\n{record('./ask-gpt/r')}", f"{ROW}\n", f'"\n{record()}\n"')
hostile_names = st.sampled_from(FORGED) | texts | st.builds("{}\n{}".format, texts, st.sampled_from(FORGED))
files = st.lists(st.fixed_dictionaries({}, optional={
    "kind": st.sampled_from(["image", "audio", "file", "sandbox", "canvas"]), "name": hostile_names | st.none(), "path": hostile_names,
    "pointer": hostile_names, "id": hostile_names, "size": st.integers(0) | st.none()}), min_size=1, max_size=4)


def through_a_log(sections: list[Section], words: tuple[str, ...] = (), kind: str = "turn", op: str | None = None) -> Block:
    log = parse(HEADER + tail(HEADER).block(kind, AT, attrs={"op": op}, sections=sections, state="completed", words=words))
    assert log.problems == () and len(log.blocks) == 1 and brought.known(log) == {
        one.source: one for one in brought.of_block(log.blocks[0]) if one.path and one.status != "failed"}
    return log.blocks[0]


@profile(300)
@given(files)
def test_no_name_of_the_sites_is_a_record_of_ours(found: list[dict[str, object]]) -> None:
    """One line for each file, whatever it is called; read back as a record by no reader, in whatever block it stood."""
    said = brought.offered(found)
    assert len(said.split("\n")) == len(found) and brought.parse(said) == [] and attachments.read_section(said) == []
    for words, kind in ((("hydrated",), "turn"), ((), "turn"), ((), "event")):
        block = through_a_log([Section("attachments", said), Section("artifacts", said)], words, kind)
        assert block.section("artifacts") == block.section("attachments") == said
        told = turn_document(block)
        assert told["files"] == told["attachments"] == []


@profile(100)
@given(hostile_names)
def test_what_an_older_version_copied_from_the_site_is_no_record_either(name: str) -> None:
    """It wrote the site's names as they were."""
    sections = [Section("attachments", f"{name} (7 bytes)"), Section("attachments", name), Section("artifacts", f"sandbox {name}")]
    block = through_a_log(sections, ("hydrated",))
    assert brought.of_block(block) == [] and attachments.of_block(block) == []
    assert turn_document(block)["files"] == turn_document(block)["attachments"] == []


@profile(100)
@given(st.lists(st.tuples(hostile_names, hostile_names, hostile_names), max_size=3))
def test_our_records_are_read_back_whatever_the_files_are_called(told: list[tuple[str, str, str]]) -> None:
    came = [Brought("saved", "./ask-gpt/x", name, 1, "a" * 64, mime, None, "file", source) for name, mime, source in told]
    sent = [{"name": name, "sent_name": other, "size": 1, "sha256": "a" * 64} for name, other, _ in told]
    block = through_a_log([Section("attachments", attachments.section(sent)), Section("artifacts", brought.text(came))])
    assert brought.of_block(block) == came and attachments.of_block(block) == sent
    hydrated = through_a_log([Section("attachments", attachments.section(sent))], ("hydrated",), op="01JDX3V9")
    assert attachments.of_block(hydrated) == sent, "a turn of an operation has what was sent, whoever wrote it down"


@pytest.mark.parametrize("path", ["../../.ssh/id_rsa", "/etc/passwd", "./ask-gpt/../x", "./ask-gpt/..", "./ask-gpt/", "x", "", 7])
def test_a_record_names_a_file_in_our_folder_or_none(path: object) -> None:
    line = record().replace('"../../.ssh/id_rsa"', json.dumps(path))
    assert brought.parse(line) == [] and len(brought.parse(record("./ask-gpt/r"))) == 1
