"""What is kept of a page's structure: names that a program gave, and never what anybody wrote, whatever the page's own script says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.edge.outline import anonymous, reduced

TOLD = ("id", "class", "data-testid")
SECRETS = ("ada@example.org", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwcmFjdGljZSJ9.c2lnbmF0dXJl", "68c1d2e3-0000-8000-8000-000000000001",
           "user-AbCdEfGhIjKlMnOpQrStUvWx0123456789", "+49 170 1234567")


def test_an_element_is_its_names_and_lengths() -> None:
    attributes = {"id": "prompt-textarea", "class": "composer group/file-tile", "aria-label": "x", "data-testid": "conversation-turn-7",
                  "href": "https://example.org/", "data-turn-key": None}
    raw = {"tag": "div", "text": 12, "shown": True, "attributes": attributes, "children": [{"tag": "b", "shown": False}]}
    assert reduced(raw, TOLD) == {"tag": "div", "id": "prompt-textarea", "class": "composer group/file-tile", "aria-label": None,
                            "data-testid": "conversation-turn-7", "data-turn-key": None, "text": 12,
                            "children": [{"tag": "b", "shown": False}]}


@pytest.mark.parametrize("name", SECRETS)
def test_identities_and_words_do_not_pass(name: str) -> None:
    assert name not in str(anonymous(name)) and name not in str(anonymous(f"item-{name}"))


KEYS = ("tag", "attributes", "text", "within", "shown", "children", "more", "id", "class", "data-x", "title")
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=80) | st.sampled_from(SECRETS),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6))


@given(JSON)
def test_nothing_that_a_page_says_breaks_it_or_gets_through(raw: Any) -> None:
    kept = json.dumps(reduced(raw, TOLD))
    assert not [secret for secret in SECRETS if secret in kept]


def test_a_page_without_end_is_cut() -> None:
    deep: dict[str, Any] = {"tag": "i"}
    for _ in range(500):
        deep = {"tag": "div", "children": [deep, {"tag": "p"}]}
    assert json.dumps(reduced(deep, TOLD, left=100)).count('"tag"') <= 100
