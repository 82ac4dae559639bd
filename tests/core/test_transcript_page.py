"""The log as a web page: rendered with raw HTML allowed and read as a browser does, only our headings are headings, and none is lost."""

from __future__ import annotations

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gptbridge.core.rawhtml import disarm
from gptbridge.core.transcript import Section, parse, seal
from tests.core.transcript_cases import AT, FRAGMENTS, PAGE, profile, texts, write

XHTML = "{http://www.w3.org/1999/xhtml}"
RENDERERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"]))
CODE = ("```", "~~~", "`", "``", "<select>", "\n", "\n", "  ", "    ", "- ", " ", "x", "````", "\\", "|", "](", "[a", "<!--", "\t", "\n\n")


def headings_on_the_page(log: bytes, renderer: MarkdownIt) -> list[str]:
    """The headings that stand in the page itself, outside of every quotation; of a log without its YAML header."""
    return headings_of(log[log.index(b"\n---\n", 4) + 5 :].decode(), renderer)


def headings_of(markdown: str, renderer: MarkdownIt) -> list[str]:
    body = html5lib.parse(renderer.render(markdown), treebuilder="etree").find(f"{XHTML}body")
    heads = {f"{XHTML}h{n}" for n in range(1, 7)}
    inside = [e for quote in body.iter(f"{XHTML}blockquote") for e in quote.iter()]
    free = [e for e in body.iter() if e.tag in heads and not any(e is other for other in inside)]
    # A heading below anything else is one that a stray tag has swallowed.
    return ["".join(e.itertext()) if any(e is child for child in body) else "swallowed" for e in free]


def check(*turns: tuple[str, str]) -> None:
    log = write([("turn", (Section("prompt", prompt), Section("answer", answer)), "completed") for prompt, answer in turns])
    ours = [h for n in range(1, len(turns) + 1) for h in (f"turn {n} · {AT}", "prompt", "answer")]
    for renderer in RENDERERS:
        assert headings_on_the_page(log, renderer) == ours


@profile(400, PAGE)
@given(texts, texts)
def test_hostile_texts_hide_and_forge_no_heading(prompt, answer):
    check((prompt, answer), ("q", "a"))


@profile(400, PAGE)
@given(st.lists(st.sampled_from(CODE), max_size=16).map("".join))
def test_nothing_that_looks_like_code_hides_a_heading(text):
    check((text, text), ("q", "a"))


@profile(100, PAGE)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join), st.data())
def test_a_sealed_log_is_a_whole_page_too(text, data):
    log = write(
        [("turn", (Section("prompt", "q"),), "completed"), ("turn", (Section("prompt", "q"), Section("answer", text)), "completed")]
    )
    cut = log[: data.draw(st.integers(log.rindex(b"\n### answer") + 12, len(log)))]
    for renderer in RENDERERS:
        assert headings_on_the_page(seal(cut), renderer) == [f"turn 1 · {AT}", "prompt", f"turn 2 · {AT}", "prompt", "answer"]


def test_the_check_sees_what_it_is_for():
    log = write([("turn", (Section("prompt", "x"), Section("answer", "y")), "completed")])
    for raw in (b"> <!--", b"> <select>", b'> <div title="', b"> <textarea>", b"\n# more\n", b"<div>\n"):
        assert headings_on_the_page(log.replace(b"> x", raw), RENDERERS[0]) != [f"turn 1 · {AT}", "prompt", "answer"]


E = "␛3C;"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        # An indented fence is closed by the second line; who trusts every fence takes the third for code.
        ("  ```\n```\n<select>", f"  ```\n```\n{E}select>"),
        ("   ~~~\n~~~\n<select>", f"   ~~~\n~~~\n{E}select>"),
        ("```\n<a>\n```\n<b>", f"```\n<a>\n```\n{E}b>"),
        ("~~~ c++\n<a>\n```\n~~~~  \n<b>", f"~~~ c++\n<a>\n```\n~~~~  \n{E}b>"),
        ("````\n```\n<a>\n```\n````\n<b>", f"````\n```\n<a>\n```\n````\n{E}b>"),
        ("```\n<a>\n  ```\n<b>", f"```\n<a>\n  ```\n{E}b>"),
        ("```\nunclosed <a>\n\n# <b>", "```\nunclosed <a>\n\n# <b>"),
        ("``` <x>\n<a>\n```", f"``` {E}x>\n<a>\n```"),
        # In doubt about the end: an indented or oddly spaced closing line, an info string with a backtick.
        ("```\n    ```\n```\n<b>", f"```\n    ```\n```\n{E}b>"),
        ("```\n```\u00a0\n```\n<b>", f"```\n```\u00a0\n```\n{E}b>"),
        ("``` a`\n<b>\n```", f"``` a`\n{E}b>\n```"),
        # Fences inside lists: the same end for every reading, or no trust.
        ("1. x\n   ```cpp\n   <a>\n\n   ```\n<b>\n```\n<c>\n```", f"1. x\n   ```cpp\n   <a>\n\n   ```\n{E}b>\n```\n<c>\n```"),
        ("- x\n  ```\n<a>\n  ```\n```\n<c>", f"- x\n  ```\n{E}a>\n  ```\n```\n{E}c>"),
        ("- x\n    - y\n      ```\n      <a>\n      ```\n\n```\n<c>", f"- x\n    - y\n      ```\n      {E}a>\n      ```\n\n```\n<c>"),
        ("- ```\n  <a>\n  ```\n<b>\n```\n<c>", f"- ```\n  {E}a>\n  ```\n{E}b>\n```\n{E}c>"),
        ("> ```\n> <a>\n```\n<b>", f"> ```\n> {E}a>\n```\n{E}b>"),
        ("\t```\n<a>\n```\n<b>", f"\t```\n{E}a>\n```\n{E}b>"),
        ("[^1]: ```\n<a>\n```\n<b>", f"[^1]: ```\n{E}a>\n```\n{E}b>"),
        # Code spans: paired on their line, in a paragraph without a stray backtick, not glued to a link or a word.
        ("a `<b>` and ``<c> ` x`` <d>", f"a `<b>` and ``<c> ` x`` {E}d>"),
        ("(`List<String>`) **`<i>`**", "(`List<String>`) **`<i>`**"),
        ("a ` b\nc `<d>` e\n\n`<f>`", f"a ` b\nc `{E}d>` e\n\n`<f>`"),
        ("a ` b\nc\n`<d>`", f"a ` b\nc\n`{E}d>`"),
        ("\\`<a>`", f"\\`{E}a>`"),
        ("[a](`) ` `<b>`", f"[a](`) ` `{E}b>`"),
        ("http://a.b/`<c>`", f"http://a.b/`{E}c>`"),
        ("| `a | <b>` |", f"| `a | {E}b>` |"),
        ("x\n    ```\n    `\n    ```\n`<b>`", f"x\n    ```\n    `\n    ```\n`{E}b>`"),
        # Only what can open raw HTML.
        ("<b </b <!-- <?x < 3 <3 <- <= a<b", f"{E}b {E}/b {E}!-- {E}?x < 3 <3 <- <= a{E}b"),
    ],
)
def test_which_code_is_sure(text, written):
    assert disarm(text) == written
    assert parse(write([("turn", [Section("answer", text)], "completed")])).blocks[0].section("answer") == text
    check((text, text), ("q", "a"))


def test_a_usual_answer_keeps_its_code_readable():
    answer = (
        "Use `std::vector<int>` like this:\n\n```cpp\nstd::vector<int> v;\nfor (auto i = 0; i<n; ++i) {}\n```\n\nAnd in HTML:\n\n```html\n"
        "<ul>\n  <li>one</li>\n</ul>\n```\n\n1. In a list:\n\n   ```ts\n   let a: Array<string>;\n   ```\n\n"
        "<details>\n<summary>More</summary>\n\nText.\n</details>\n"
    )
    assert disarm(answer).count(E) == 4
    assert disarm(answer).replace(E, "<") == answer
