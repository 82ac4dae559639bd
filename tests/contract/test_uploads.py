"""What flows rely on when files are attached: Page and Gate, the same for the fake pair and for a real Chromium (TE-01)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gptbridge.core.page_request import Upload
from tests.contract.conftest import Window
from tests.contract.test_page_and_gate import until

FILES = {"notes.md": b"alpha\n", "two words ü.txt": b"", "a send.json": b'{"messages": [{"id": "x", "author": {"role": "user"}}]}'}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return [str(tmp_path / name) for name in FILES]


def attached(window: Window, paths: list[str], states: tuple[str, ...] = ("ready", "failed")) -> list[Upload]:
    window.gate.spare(files=True)
    window.page.attach(paths, images=False)
    assert until(lambda: len(window.gate.uploads()) == len(paths) and all(u.state in states for u in window.gate.uploads()), 30.0), (
        window.gate.uploads(), window.page.files())
    window.gate.spare(files=False)
    return sorted(window.gate.uploads(), key=lambda upload: list(FILES).index(upload.name))


def test_the_sites_own_word_for_every_file(window: Window, paths: list[str]) -> None:
    uploads = attached(window.at(), paths)
    assert [(u.name, u.size, u.state) for u in uploads] == [(name, len(data), "ready") for name, data in FILES.items()]
    assert until(lambda: window.page.files().sendable)
    shown = window.page.files()
    assert (shown.chips, shown.busy, shown.failed) == (3, False, False) and sorted(shown.labels) == sorted(FILES)
    assert window.page.facts().chips == 3 and window.page.facts().composer == "" and window.sends == [] and not window.gate.notes()

    held = window.hold("with files")
    assert {file.file_id: (file.name, file.size) for file in held.attachments} == {u.file_id: (u.name, u.size) for u in uploads}
    assert held.user_texts == ("with files",) and window.gate.release(held)
    window.reply()
    assert {file["name"]: file["sha256"] for file in window.sends[0]["attachments"]} == {
        name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    assert window.gate.traces() == 0 and not window.gate.notes()


def test_bytes_that_go_to_another_host(window: Window, paths: list[str]) -> None:
    window.on("upload-elsewhere")
    assert [upload.state for upload in attached(window.at(), paths)] == ["ready"] * 3 and not window.gate.notes()


def test_while_files_are_spared_a_send_is_not(window: Window, paths: list[str]) -> None:
    window.at().gate.spare(files=True)
    window.page.type("Hello")
    window.page.press()
    assert until(window.gate.notes) and window.gate.wait(0.0) is None and window.sends == []


def test_text_goes_and_files_stay_or_all_goes(window: Window, paths: list[str]) -> None:
    attached(window.at(), paths[:2])
    window.page.type("some words")
    window.page.untype()
    facts = window.page.facts()
    assert (facts.composer, facts.chips) == ("", 2)
    window.page.type("others")
    window.page.clear()
    facts = window.page.facts()
    assert (facts.composer, facts.chips, window.page.files().inputs) == ("", 0, 0)
    held = window.hold("no files")
    assert held.attachments == () and window.gate.refuse(held)


def test_files_without_words(window: Window, paths: list[str]) -> None:
    attached(window.at(), paths[:1])
    held = window.hold("")
    assert held.user_texts == ("",) and len(held.attachments) == 1 and window.gate.refuse(held)


def test_an_upload_that_stalls_is_not_ready(window: Window, paths: list[str]) -> None:
    window.on("upload-stalls")
    uploads = attached(window.at(), paths[:2], ("stored",))
    assert all(upload.file_id for upload in uploads)
    shown = window.page.files()
    assert shown.busy and not shown.sendable and not shown.failed


def test_no_chip_and_the_input_holds_the_files(window: Window, paths: list[str]) -> None:
    window.on("upload-no-chip")
    attached(window.at(), paths)
    assert until(lambda: window.page.files().sendable)
    shown = window.page.files()
    assert (shown.chips, shown.inputs, shown.busy) == (0, 3, False)


def test_a_label_that_is_cut_and_a_file_that_is_renamed(window: Window, paths: list[str]) -> None:
    window.on("upload-cut-label")
    attached(window.at(), paths[:1])
    assert window.page.files().labels == ("not….md",) and window.gate.uploads()[0].name == "notes.md"


@pytest.mark.parametrize(("status", "code"), [(413, "file_too_large"), (403, "over_user_quota"), (503, "unavailable")])
def test_a_refused_announcement(window: Window, paths: list[str], status: int, code: str) -> None:
    window.on("upload-refused", status=status, code=code)
    [upload] = attached(window.at(), paths[:1])
    assert (upload.state, upload.status, upload.code, upload.file_id) == ("failed", status, code, None)
    assert until(lambda: window.page.files().failed) and window.page.files().notice


def test_a_file_that_is_found_useless(window: Window, paths: list[str]) -> None:
    window.on("upload-not-processed", code="file_corrupted")
    [upload] = attached(window.at(), paths[:1])
    assert (upload.state, upload.code) == ("failed", "file_corrupted") and until(lambda: window.page.files().failed)


def test_what_a_composer_held_before(window: Window) -> None:
    window.on("draft-file", name="left over.txt")
    window.at()
    assert until(lambda: window.page.facts().chips == 1) and window.page.files().labels == ("left over.txt",)
    window.page.clear()
    assert window.page.facts().chips == 0


def test_what_the_page_does_to_the_list_is_seen(window: Window, paths: list[str]) -> None:
    window.on("upload-extra")
    window.on("upload-lost")
    attached(window.at(), paths[:1])
    held = window.hold("words")
    assert [file.name for file in held.attachments] == ["left over.txt"] and window.gate.refuse(held)
