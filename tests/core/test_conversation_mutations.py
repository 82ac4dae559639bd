"""Documents that were damaged or changed in one place or several: the reader never raises, and drops nothing that a person would see."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.conversation import check, completed_by, find_message, read
from tests.core.samples import SAMPLES, sample
from tests.core.site_json import Doc, Json, text
from tests.core.transcript_cases import profile
from tests.core.visible import HIDDEN, MARK, UNSEEN

DEEP: Any = []
for _ in range(3000):
    DEEP = [DEEP]
WEIRD = st.sampled_from([None, True, False, 0, -1, 7, 1e308, math.nan, math.inf, "", "x", "all", "user", "assistant", "final", "\ud800",
                         "\ue200cite", [], {}, [None], [[]], {"": None}, "2025-07-23T10:00:00Z",
                         "AAA2", "client-created-root", "u1", "a1", "deep",
                         {"content_type": "text", "parts": ["other words"]}, ["list of", "words"]])
STEPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["put", "put", "drop", "copy"]), WEIRD), max_size=4)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    found = [path] if path else []
    if value is DEEP:
        return found
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


def mutated(name: str, steps: list[tuple[float, str, Any]]) -> Json:
    data = sample(name)
    for where, what, value in steps:
        all_places = places(data)
        path = all_places[int(where * len(all_places))]
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        if what == "put":
            holder[path[-1]] = DEEP if value == "deep" else copy.deepcopy(value)  # by name: a failure must be printable
        elif what == "drop":
            del holder[path[-1]]
        else:
            other = all_places[int(where * 7919 * len(all_places)) % len(all_places)]
            source: Any = data
            for key in other:
                source = source[key]
            try:
                holder[path[-1]] = json.loads(json.dumps(source))
            except RecursionError:
                holder[path[-1]] = None
    return data


def words_seen(data: Json) -> list[str]:
    """The words that stand in the messages of the selected branch, as far as it is beyond doubt that they are seen."""
    mapping, here = data.get("mapping"), data.get("current_node")
    if not isinstance(mapping, dict) or not isinstance(here, str):
        return []
    found: list[str] = []
    met: set[str] = set()
    opened = False
    path: list[Any] = []
    while isinstance(here, str) and isinstance(mapping.get(here), dict) and here not in met:
        met.add(here)
        path.insert(0, mapping[here].get("message"))
        here = mapping[here].get("parent")
    for message in path:
        if not isinstance(message, dict):
            continue
        author, content = message.get("author"), message.get("content")
        metadata = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
        if not isinstance(author, dict) or not isinstance(content, dict) or any(metadata.get(flag) for flag in HIDDEN):  # type: ignore[union-attr]
            continue
        role, kind, parts = author.get("role"), content.get("content_type"), content.get("parts")
        if role not in ("user", "assistant") or kind not in ("text", "multimodal_text") or not isinstance(parts, list) or kind in UNSEEN:
            continue
        opened = opened or role == "user"
        if role == "assistant" and (message.get("recipient") not in ("all", None) or message.get("channel") == "analysis"
                                    or message.get("status") == "error" or metadata.get("is_error")):  # type: ignore[union-attr]
            continue
        for part in parts:
            if isinstance(part, str):
                found += [part] if role == "user" else [word.strip() for word in MARK.split(part)[::2]]
    return [word for word in found if word.strip()]


@profile(300)
@given(st.sampled_from(SAMPLES), STEPS)
def test_a_changed_document_is_read_without_loss(name: str, steps: list[tuple[float, str, Any]]) -> None:
    data = mutated(name, steps)
    ident = str(sample(name)["conversation_id"])
    try:
        check(data, ident)
    except ValueError as refused:
        assert 0 < len(str(refused)) < 60
        return
    turns = read(data, conversation_id=ident).turns
    told = "\0".join(f"{turn.user_text or ''}\0{turn.answer or ''}\0{turn.error or ''}" for turn in turns)
    for word in words_seen(data):
        assert word in told, (word, [turn.state for turn in turns])
    for key in list(data["mapping"])[:6]:
        completed_by(data, key)
        find_message(data, key)


def test_words_without_a_known_author_or_shape_are_kept_and_named() -> None:
    doc = Doc()
    doc.user("u", "q")
    doc.add("x", "oracle", text("strange words"))
    doc.add("y", "assistant", {"content_type": "text", "parts": "a bare string"}, end_turn=False)
    doc.add("z", "assistant", text("one", 7, None, ["two"]), end_turn=False)
    doc.final("a", "last")
    doc.data["mapping"]["a"]["message"]["content"] = "the whole content"
    del doc.data["mapping"]["x"]["message"]["author"]["role"]
    [turn] = read(doc.data).turns
    assert turn.answer == ("[unsupported author: none]\n\nstrange words\n\na bare string\n\none\n\n[unsupported content: int]\n\n"
                           "[unsupported content: list]\n\nthe whole content")
    assert turn.state == "completed"


def test_a_flat_answer_names_its_authors_otherwise() -> None:
    messages = [{"id": "1", "role": "user", "content": "q"}, {"id": "2", "author": "assistant", "content": ["x", "y"], "end_turn": True}]
    [turn] = read({"conversation_id": "68c1d2e3-0000-8000-8000-000000000001", "messages": messages}).turns
    assert (turn.user_text, turn.answer) == ("q", "x\n\ny")
