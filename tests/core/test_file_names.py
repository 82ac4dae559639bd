"""Names from the site: one harmless component, whatever was offered (SE-02, SE-13)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.file_names import is_obeyed, numbered, safe, split, with_ending

HOSTILE = st.sampled_from([
    "..", ".", "/", "\\", "\0", "\n", "\u202e", "\u2066", "\ufeff", "\ud800", "~", "-", "CON", "aux", "COM1", "com\u00b9", " ", ":", "*",
    "AGENTS.md", "Makefile", "conftest.py", ".pth", ".log", ".JSONL", ".tar.gz", "\u00e9", "e\u0301", "😀", "名", "a" * 300, "é" * 200,
    "\U000e0041", "\x85", "\u2028", "x" * 60, ".file", "\u200d"])
OFFERED = st.one_of(st.text(max_size=400), st.lists(HOSTILE, max_size=8).map("".join), st.tuples(st.text(max_size=9), HOSTILE).map("".join))


def holds(name: str) -> None:
    """What every name here must be."""
    assert name and "/" not in name and "\\" not in name and name not in (".", "..")
    assert len(name.encode("utf-8")) <= 255  # and it encodes
    assert name[0] not in ".-~ " and name[-1] not in ". "
    kinds = {unicodedata.category(char) for char in name if char not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and not set(name) & set('<>:"|?*')
    stem = name.split(".")[0].rstrip(" ").lower()
    assert stem not in {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in "0123456789¹²³")}
    low = name.lower()
    assert not is_obeyed(name)
    assert not low.endswith((".log", ".jsonl", ".pth", ".desktop")) and low not in ("agents.md", "claude.md", "skill.md", "makefile",
                                                                                   "conftest.py", "package.json", "conversations.jsonl")


@given(OFFERED, st.integers(1, 10**6))
def test_every_name_is_harmless_also_numbered(offered: str, number: int) -> None:
    name = safe(offered)
    holds(name)
    holds(numbered(name, number))
    assert safe(name) == name, "a safe name stays as it is"
    assert number == 1 or numbered(name, number) != name


@given(OFFERED)
def test_different_numbers_give_different_names(offered: str) -> None:
    name = safe(offered)
    assert len({numbered(name, n).casefold() for n in range(1, 30)}) == 29


@pytest.mark.parametrize(("offered", "name"), [
    ("table.csv", "table.csv"),
    ("user-abc__acct/0b1c.png", "0b1c.png"),
    ("/mnt/data/r.csv", "r.csv"),
    ("../../.bashrc", "bashrc.file"),
    ("..\\..\\evil.txt", "evil.txt"),
    ("C:\\Users\\x\\report.pdf", "report.pdf"),
    ("données – 表.csv", "données – 表.csv"),
    ("a\u202efdp.exe", "afdp.exe.file"),
    ("AGENTS.md", "AGENTS.md.file"),
    ("agents.MD", "agents.MD.file"),
    (".AGENTS.md", "AGENTS.md.file"),
    ("CLAUDE\u200b.md", "CLAUDE.md.file"),
    ("GNUmakefile", "GNUmakefile.file"),
    ("vite.config.ts", "vite.config.ts.file"),
    ("evil.pth", "evil.pth.file"),
    ("68c1d2e3-0000-8000-8000-000000000001.log", "68c1d2e3-0000-8000-8000-000000000001.log.file"),
    ("conversations.jsonl", "conversations.jsonl.file"),
    (".gitignore", "gitignore"),
    ("aux.txt", "_aux.txt"),
    ("-rf", "_-rf"),
    ("~root", "_~root"),
    ("what? a*b.txt", "what_ a_b.txt"),
    ("name. ", "name"),
    ("\x00\u202e", "file"),
    ("", "file"),
    ("notes.txt/", "notes.txt"),
    ("line\nbreak.txt", "linebreak.txt")])
def test_known_names(offered: str, name: str) -> None:
    assert safe(offered) == name
    holds(name)


def test_long_names_keep_their_ending_and_their_characters() -> None:
    name = safe("é" * 300 + ".tar.gz")
    assert name.endswith("é.tar.gz") and 250 < len(name.encode()) <= 255
    assert numbered(name, 12).endswith("é-12.tar.gz") and len(numbered(name, 12).encode()) <= 255
    assert safe("x" * 400 + ".log").endswith("x.file")
    assert len(safe("x." + "y" * 400)) == 255


def test_the_number_stands_before_the_ending() -> None:
    assert [numbered("a.csv", n) for n in (1, 2, 3)] == ["a.csv", "a-2.csv", "a-3.csv"]
    assert numbered("a.tar.gz", 2) == "a-2.tar.gz" and numbered("plain", 2) == "plain-2"
    assert numbered("AGENTS.md.file", 2) == "AGENTS.md-2.file"
    assert split("v1.2 draft") == ("v1.2 draft", "")
    assert with_ending("a", "md") == "a.md" and with_ending("a.md", "md") == "a.md" and with_ending("a.py", "md", keep=("py",)) == "a.py"
