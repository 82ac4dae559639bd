"""Citation marks of both eras: links or nothing, no residue, nobody's words changed (site facts D2; case 23)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import citations
from gptbridge.core.citations import Sources, resolve

A, B, C, D, E = "\ue200", "\ue201", "\ue202", "\ue203", "\ue204"
CITE = f"{A}cite{C}turn0search0{B}"
BOTH = f"{A}cite{C}turn0search0{C}turn0news1{B}"


def ref(matched: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content_references": [{"matched_text": matched, "type": "grouped_webpages", "items": list(items), **more}]}


ONE = {"title": "Figures", "url": "https://example.org/a"}


@pytest.mark.parametrize(
    ("text", "metadata", "expected"),
    [
        (f"x {CITE}.", ref(CITE, ONE), "x ([Figures](https://example.org/a))."),
        (f"x{CITE}", ref(CITE, ONE), "x ([Figures](https://example.org/a))"),
        (f"x {CITE} y", {}, "x y"),
        (f"x {CITE}. y", {}, "x. y"),
        (f"x {CITE} y", ref(CITE, ONE, invalid=True), "x y"),
        (f"x {CITE}\ny", {}, "x \ny"),
        (f"{CITE}{CITE}", ref(CITE, ONE), "([Figures](https://example.org/a)) ([Figures](https://example.org/a))"),
        (f"x {CITE}", ref(CITE, {"title": "no", "url": "javascript:alert(1)"}), "x "),
        (f"x {CITE}", ref(CITE, alt="([example.org](https://example.org/a))"), "x ([example.org](https://example.org/a))"),
        (f"x {CITE}", ref(CITE, ONE, type="hidden"), "x "),
        (
            f"| {CITE} |",
            ref(CITE, {"title": "a|b [c]\nd", "url": "https://example.org/(x) y|z"}),
            "| ([a\\|b \\[c\\] d](https://example.org/%28x%29%20y%7Cz)) |",
        ),
        (
            f"x {BOTH}",
            ref(BOTH, ONE | {"supporting_websites": [{"attribution": "Net", "url": "https://example.net/"}, ONE]}),
            "x ([Figures](https://example.org/a), [Net](https://example.net/))",
        ),
        (f"x {CITE}", ref(CITE, fallback_items=[{"url": "https://example.org/b?q=1"}]), "x ([example.org](https://example.org/b?q=1))"),
        # an entity is a word of the sentence, with or without its reference
        (f"{A}entity{C}[\"people\",\"Ada Lovelace\",0]{B} wrote", {}, "Ada Lovelace wrote"),
        (f"{A}entity{C}broken{B} wrote", ref(f"{A}entity{C}broken{B}", type="entity", name="Ada"), "Ada wrote"),
        (f"a {D}marked{E} phrase", {}, "a marked phrase"),
        # bookkeeping references change nothing
        ("a b c", ref(" ", ONE, type="sources_footnote"), "a b c"),
        (f"a b {CITE}", ref(" ", ONE), "a b "),
        ("literal turn0search0 and citeturn0search3", ref("turn0search0", ONE), "literal turn0search0 and citeturn0search3"),
        # files have no address: the span goes
        (f"notes {A}filecite{C}turn0file1{B}.", ref(f"{A}filecite{C}turn0file1{B}", type="file", name="n.pdf"), "notes."),
        (f"{A}image_group{C}{{\"query\":[\"a\",\"b\"]}}{B}Text", {}, "Text"),
        (f"{A}navlist{C}Title{C}turn0news1,turn0news2{B}", {}, ""),
        # unfinished: at the end all of it, elsewhere what is surely the mark's own
        (f"x {A}cite{C}turn0sea", {}, "x "),
        (f"x {A}", {}, "x "),
        (f"x {A}entity{C}[\"city\",\"Sam", {}, "x "),
        (f"x {A}cite{C}turn0search0 and more\nlines {B}", {}, "x and more\nlines "),
        (f"{A} {B}{C} stray", {}, "  stray"),
        # the old era
        ("x【5†source】.", {}, "x."),
        ("注意【重要】と【5†source】。", {}, "注意【重要】と。"),
        ("keep 【a† b", {}, "keep 【a† b"),
    ],
)
def test_marks(text: str, metadata: dict[str, Any], expected: str) -> None:
    assert resolve(text, metadata) == expected


def test_old_citations_by_offset_then_by_number() -> None:
    text = "😀 First【5†source】 second【3:0†source】 third【12†L3-L9】 fourth【5†source】"

    def one(start: int | None, title: str, number: int | None = None) -> dict[str, Any]:
        facts = {"type": "webpage", "title": title, "url": f"https://example.org/{title}", "extra": {"cited_message_idx": number}}
        return {"start_ix": start, "end_ix": start, "metadata": facts}

    first, last = text.index("【5"), text.rindex("【5")
    metadata = {"citations": [one(first, "A"), one(None, "B", 3), one(last, "D"), one(0, "none"), {"metadata": 7}, 9]}
    assert resolve(text, metadata) == (
        "😀 First ([A](https://example.org/A)) second ([B](https://example.org/B)) third fourth ([D](https://example.org/D))"
    )


def test_named_results_stand_in_for_missing_references() -> None:
    sources = Sources()
    entry = {"url": "https://example.net/", "title": "Net", "ref_id": {"turn_index": 0, "ref_type": "news", "ref_index": 1}}
    sources.add({"search_result_groups": [{"entries": [entry, {"url": 7}, 8]}, 9]})
    assert resolve(f"x {BOTH} y", {}, sources) == "x ([Net](https://example.net/)) y"
    assert resolve(f"x {A}navlist{C}T{C}turn0news1,turn0news7{B}", ref(BOTH, invalid=True), sources) == "x ([Net](https://example.net/))"


def test_surrogates_and_mathematics_pass() -> None:
    text = "\ud83d \\( a_{1} \\) $5 and $6 \\[ x \\] ``` 【x】 \u2028\u202f\u200d"
    assert resolve(text) == text
    assert resolve(text + CITE) == text
    assert resolve(f"x {CITE}", ref(CITE, {"title": "\ud83d", "url": "https://example.org/\ud83d"})) == "x ([\ud83d](https://example.org/%3F))"


@given(st.text(st.one_of(st.sampled_from([A, B, C, D, E, "【", "】", "†", "5", "c", " ", "\n"]), st.characters()), max_size=60))
def test_no_mark_survives_and_nothing_raises(text: str) -> None:
    out = resolve(text, ref(CITE, ONE))
    assert not any(A <= char <= E for char in out)
    if not any(char in text for char in (A, B, C, D, E, "†")):
        assert out == text


@given(st.lists(st.text(st.characters(exclude_characters="†\ue200\ue201\ue202\ue203\ue204 .,;:!?)"), min_size=1), min_size=1, max_size=5))
def test_the_words_between_marks_stay(words: list[str]) -> None:
    assert resolve(CITE.join(words), {}) == "".join(words)


@given(st.text(st.sampled_from("\ue200\ue201\ue202\ue203【】†cite:turn0search1a_-[{ \n15"), max_size=60))
def test_spans_are_found_as_by_the_expression_alone(text: str) -> None:
    assert [match.span() for match in citations._spans(text)] == [match.span() for match in citations._SPAN.finditer(text)]
