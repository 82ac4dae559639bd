"""What the model made, found in the conversation JSON alone (case 30; site notes A6, A7)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.artifacts import Artifact, made, sandbox_paths, wanted
from gptbridge.core.conversation import read
from gptbridge.core.nodes import node_of
from tests.core.site_json import Doc, image, text


def all_of(doc: Doc) -> list[Artifact]:
    site = read(doc.data)
    return wanted(site.turns, site.elsewhere)


def test_each_kind_with_its_way_to_be_fetched() -> None:
    doc = Doc()
    doc.user("u1", "Draw.")
    doc.add("t1", "tool", image("sediment://file_plot"), name="t2uay3k.sj1i4kz")
    doc.add("x1", "tool", {"content_type": "execution_output", "text": ""}, name="python",
            aggregate_result={"messages": [{"message_type": "image", "image_url": "file-service://file-chart"}]})
    doc.final("a1", "[r](sandbox:/mnt/data/r.csv) and {{file:file-abc123}}", attachments=[{"id": "file_n", "name": "n.pdf", "size": 3}],
              content_references=[{"type": "file", "id": "file_cited", "name": "c.docx"},
                                  {"type": "file", "id": "file_bad", "invalid": True},
                                  {"type": "image_inline", "asset_pointer_links": ["sediment://file_inline"]},
                                  {"type": "webpage", "id": "file_no"}, {"type": "file", "id": "https://evil.example/x"}])
    assert [(a.kind, a.identity, a.turn, a.message_id, a.name) for a in all_of(doc)] == [
        ("image", "file:file_plot", 1, "t1", None), ("image", "file:file-chart", 1, "x1", None),
        ("file", "file:file_n", 1, "a1", "n.pdf"), ("sandbox", "sandbox:a1:/mnt/data/r.csv", 1, "a1", "r.csv"),
        ("file", "file:file-abc123", 1, "a1", None), ("file", "file:file_cited", 1, "a1", "c.docx"),
        ("image", "file:file_inline", 1, "a1", None)]


def test_nothing_is_wanted_twice_and_the_user_s_own_never() -> None:
    doc = Doc()
    doc.add("u1", "user", image("sediment://file_mine"), attachments=[{"id": "file_mine", "name": "mine.png"}])
    doc.add("t1", "tool", image("sediment://file_mine"), name="myfiles_browser")  # looked at, not made
    doc.add("t2", "tool", image("sediment://file_page#p1"), name="file_search")  # a page of somebody's document
    doc.add("t3", "tool", image("sediment://file_a"), name="dalle.text2im")
    doc.final("a1", "[r](sandbox:/mnt/data/r.csv) [again](sandbox:/mnt/data/r.csv)")
    doc.user("u2", "More.")
    doc.add("t4", "tool", image("sediment://file_a"), name="dalle.text2im")
    doc.final("a2", "[r](sandbox:/mnt/data/r.csv)")
    assert [(a.identity, a.turn) for a in all_of(doc)] == [
        ("file:file_a", 1), ("sandbox:a1:/mnt/data/r.csv", 1), ("sandbox:a2:/mnt/data/r.csv", 2)]


def test_other_branches_count_too() -> None:
    """A picture that was made anew: both are there to be had."""
    doc = Doc()
    doc.user("u1", "Draw.")
    doc.add("t1", "tool", image("sediment://file_first"), name="dalle.text2im")
    doc.add("t2", "tool", image("sediment://file_second"), name="dalle.text2im", parent="u1")
    assert [(a.identity, a.turn) for a in all_of(doc)] == [("file:file_second", 1), ("file:file_first", None)]


def canvas_call(ident: str, tool: str, body: Any, doc: Doc, cut: int = 0) -> None:
    words = json.dumps(body)
    doc.add(ident, "assistant", {"content_type": "code", "language": "json", "text": words[:len(words) - cut]}, recipient=f"canmore.{tool}")


def test_canvas_documents_and_their_last_text() -> None:
    doc = Doc()
    doc.user("u1", "Write.")
    canvas_call("c1", "create_textdoc", {"name": "plan", "type": "document", "content": "one"}, doc)
    doc.add("t1", "tool", text("ok"), name="canmore.create_textdoc", canvas={"textdoc_id": "d1"})
    canvas_call("c2", "create_textdoc", {"name": "main", "type": "code/python", "content": "x"}, doc)
    doc.add("t2", "tool", text("created, textdoc_id: `d2345678`"), name="canmore.create_textdoc")
    canvas_call("c3", "comment_textdoc", {"comments": [{"pattern": "x", "comment": "good"}]}, doc)
    doc.add("t3", "tool", text("ok"), name="canmore.comment_textdoc", canvas={"textdoc_id": "d1"})
    canvas_call("c4", "update_textdoc", {"updates": [{"pattern": "x", "multiple": True, "replacement": "y"}]}, doc)
    doc.add("t4", "tool", text("ok"), name="canmore.update_textdoc", canvas={"textdoc_id": "d2345678", "textdoc_type": "code/python"})
    doc.final("a1", "Done.")
    doc.user("u2", "Anew.")
    canvas_call("c5", "update_textdoc", {"updates": [{"pattern": ".*", "replacement": "two"}]}, doc, cut=3)
    doc.add("t5", "tool", text("ok"), name="canmore.update_textdoc", canvas={"textdoc_id": "d1", "title": "plan"})
    doc.final("a2", "Done.")
    assert [(a.identity, a.turn, a.name, a.text) for a in all_of(doc)] == [
        ("canvas:d1", 2, "plan.md", "two"), ("canvas:d2345678", 1, "main.py", None)]
    canvas_call("c6", "update_textdoc", {"updates": [{"pattern": ".*", "replacement": "three"}]}, doc, cut=1)
    doc.add("t6", "tool", text("ok"), name="canmore.update_textdoc", canvas={"textdoc_id": "d1", "title": "plan"})
    assert all_of(doc)[0].text == "three"


def test_links_in_other_clothes() -> None:
    words = ('<a href="sandbox:/mnt/data/a.txt">a</a> <sandbox:/mnt/data/b.txt>\n[1]: sandbox:/mnt/data/c.txt "title"\n'
             "![plot](sandbox:/mnt/data/d.png) sandbox:/not/a/link [web](https://x/sandbox:/y)")
    assert sorted(sandbox_paths(words)) == [f"/mnt/data/{name}" for name in ("a.txt", "b.txt", "c.txt", "d.png")]


KEYS = st.sampled_from([
    "id", "type", "asset_pointer", "content_type", "parts", "canvas", "textdoc_id", "attachments", "aggregate_result", "messages",
    "image_url", "updates", "content_references", "asset_pointer_links", "text", "name"])
json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                           lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)
AUTHORS = st.fixed_dictionaries({"role": st.sampled_from(["assistant", "tool"]), "name": st.sampled_from(["canmore.x", "python", None])})


@given(st.lists(st.fixed_dictionaries({
    "author": AUTHORS,
    "recipient": st.sampled_from(["all", "canmore.create_textdoc"]), "content": json_values, "metadata": json_values}), max_size=4))
def test_no_shape_of_a_message_breaks_it(messages: list[dict[str, Any]]) -> None:
    for one in made([node_of(f"n{at}", None, message) for at, message in enumerate(messages)]):
        assert one["kind"] in ("image", "audio", "file", "sandbox", "canvas") and (one["pointer"] or one["path"])
