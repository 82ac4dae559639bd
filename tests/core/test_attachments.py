"""Names under which files are sent, what log and document say of them, and whether a held request has exactly ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import attachments
from gptbridge.core.attachments import difference, matched, read_section, rows, safe_name, section, sent_names
from gptbridge.core.operation import File, Payload
from gptbridge.core.page_request import SentFile, Upload


@pytest.mark.parametrize(("names", "sent"), [
    (["NOTES.md", "NOTES.md"], ("NOTES.md", "NOTES-2.md")),
    (["a.md", "a.md", "a-2.md"], ("a.md", "a-3.md", "a-2.md")),
    (["a.md", "A.MD"], ("a.md", "A-2.MD")),
    (["x.tar.gz", "x.tar.gz", "x.tar.gz"], ("x.tar.gz", "x-2.tar.gz", "x-3.tar.gz")),
    ([".env", ".env"], (".env", ".env-2")),
    (["Makefile", "Makefile"], ("Makefile", "Makefile-2")),
    (["e\u0301.txt", "\u00e9.txt"], ("\u00e9.txt", "\u00e9-2.txt")),
])
def test_names_that_can_be_told_apart(names: list[str], sent: tuple[str, ...]) -> None:
    """Case 28."""
    assert sent_names(names) == sent


@pytest.mark.parametrize(("name", "safe"), [
    ("two words.md", "two words.md"), ("日本語 שלום.txt", "日本語 שלום.txt"), ("👩\u200d👩\u200d👧.png", "👩\u200d👩\u200d👧.png"),
    ("-rf", "_rf"), ("--help.md", "_-help.md"), ("a\nb.txt", "a_b.txt"), ("a\u202egpj.exe", "a_gpj.exe"), ("a\x1b[31m.txt", "a_[31m.txt"),
    ("a\\b.txt", "a_b.txt"), (" ", "file"), ("..", "file"), ("\u2028", "_"), ("a" * 300 + ".md", "a" * 197 + ".md"),
    ("é" * 200 + ".md", "é" * 98 + ".md"), ("x." + "y" * 300, "file")])
def test_odd_names_are_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe and len(safe.encode()) <= attachments.LONGEST_NAME


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8).filter(lambda s: "/" not in s), max_size=10))
def test_every_sent_name_is_one_safe_component_of_its_own(names: list[str]) -> None:
    sent = sent_names(names)
    assert len(sent) == len(names) == len({name.casefold() for name in sent})
    for name in sent:
        assert name and name not in (".", "..") and not name.startswith("-") and "/" not in name and len(name.encode()) <= 255
        assert name.splitlines() == [name] and name.strip() == name


@given(st.lists(st.text(max_size=12), max_size=5))
def test_a_logs_section_gives_back_what_was_sent(names: list[str]) -> None:
    files = [{"name": name, "size": at, "sha256": "a" * 64} for at, name in enumerate(names)]
    assert read_section(section(rows(files))) == rows(files)


def test_the_held_request_gives_the_sent_names() -> None:
    files = [{"name": "n.md", "size": 1, "sha256": "a" * 64}]
    assert rows(files)[0]["sent_name"] == "n.md" and rows(files, [{"id": "f", "name": "n(1).md"}])[0]["sent_name"] == "n(1).md"
    assert rows(None) == [] and read_section(None) == [] and read_section("nonsense\n{}\n[") == []


def upload(name: str, size: int, ident: str) -> Upload:
    return Upload(name, size, "ready", ident)


def test_uploads_are_matched_by_name_and_size_then_by_size() -> None:
    a, b, c = upload("a", 1, "f1"), upload("b", 1, "f2"), upload("c(1)", 3, "f3")
    assert matched(["b", "a", "c"], [1, 1, 3], [a, b, c]) == (b, a, c)
    assert matched(["a", "b"], [1, 1], [a]) is None and matched(["a"], [1], [a, b]) is None and matched(["a"], [2], [a]) is None
    assert matched([], [], []) == ()


@pytest.mark.parametrize(("held", "said"), [
    ([SentFile("f1", "a", 1), SentFile("f2", "b", 2)], None),
    ([SentFile("f2", "b", 2), SentFile("f1")], None),
    ([SentFile("f1", "a", 1)], "1 of 2 missing"),
    ([], "2 of 2 missing"),
    ([SentFile("f1", "a", 1), SentFile("f3", "b", 2)], "missing"),
    ([SentFile("f1", "a", 1), SentFile("f2", "b", 2), SentFile("f3", "c", 2)], "1 more"),
    ([SentFile("f1", "a", 1), SentFile("f1", "a", 1)], "twice"),
    ([SentFile("f1", "a", 1), SentFile("f2", "b", 3)], "size"),
    ([SentFile("f1", "a", 1), SentFile("f2", "x", 2)], "name"),
])
def test_what_the_request_differs_in_is_named(held: list[SentFile], said: str | None) -> None:
    """GT-02."""
    found = difference([upload("a", 1, "f1"), upload("b", 2, "f2")], held)
    assert found is None if said is None else found is not None and said in found
    assert difference([], [SentFile("f1")]) is not None and difference([], []) is None


def test_the_fingerprint_is_of_bytes_and_names_and_of_text_or_none() -> None:
    """AD-05, AD-09."""
    one = File("a.md", 1, "a" * 64)
    prints = [Payload(prompt, files=files).fingerprint() for prompt in ("", None, "x")
              for files in ((), (one,), (File("a.md", 1, "b" * 64),), (File("b.md", 1, "a" * 64),), (one, one))]
    assert len(set(prints)) == len(prints) and Payload("x", files=(one,)).fingerprint() == Payload("x", files=(one,)).fingerprint()
