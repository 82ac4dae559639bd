"""Which facts of a page's structure may be kept for whoever mends a changed page (SI-04), and how they are told apart from words.

Guarantees: whatever the page's own script gives, `reduced` lets through tags, roles, test ids and states that look like names that a
program gave, ids of people and things replaced by `*`, and lengths; never a text, a label, an address, a token. Pure; anything else is
left out, and what is no outline at all becomes {}.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from importlib import resources
from typing import Any

MOST = 3000  # elements
_TAG = re.compile(r"[a-z][a-z0-9-]{0,30}")
_ATTRIBUTE = re.compile(r"(?:data|aria)-[a-z0-9-]{1,40}|id|class|role|type|contenteditable|disabled|hidden|multiple|accept")
_VALUE = re.compile(r"[A-Za-z0-9_:/*.-]{0,48}")
_IDENTITY = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{2,}){0,8}|\d{3,}|[A-Za-z0-9_.-]{33,}")  # conversation, file, person; a token
_NAMES = 12  # class names of one element


def script() -> str:
    return resources.files("gptbridge.edge").joinpath("outline.js").read_text(encoding="utf-8")


def reduced(raw: object, told: Container[str], left: int = MOST) -> dict[str, Any]:
    """What may be kept of one element and those in it. told: the attributes whose values a program gave; of others no more than the
    name."""
    return _element(raw, told, [left], 0) or {}


def anonymous(name: str) -> str | None:
    """A name that a program gave, its ids replaced; None for what may be anything else."""
    plain = _IDENTITY.sub("*", name)
    return plain if _VALUE.fullmatch(plain) else None


def _element(raw: object, told: Container[str], left: list[int], depth: int) -> dict[str, Any] | None:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("tag"), str) or not _TAG.fullmatch(raw["tag"]) or left[0] <= 0 or depth > 50:
        return None
    left[0] -= 1
    kept: dict[str, Any] = {"tag": raw["tag"]}
    attributes = raw.get("attributes")
    for name, value in attributes.items() if isinstance(attributes, Mapping) else ():
        if isinstance(name, str) and _ATTRIBUTE.fullmatch(name):
            kept[name] = _value(name, value) if name in told else None
    for name in ("text", "within"):
        if isinstance(raw.get(name), int) and raw[name]:
            kept[name] = int(raw[name])
    if raw.get("shown") is False:
        kept["shown"] = False
    children = raw.get("children")
    inside = [_element(child, told, left, depth + 1) for child in children] if isinstance(children, list) else []
    if found := [child for child in inside if child is not None]:
        kept["children"] = found
    if raw.get("more") is True or len(found) != len(inside):
        kept["more"] = True
    return kept


def _value(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        return None
    if name in ("class", "id"):
        words = [anonymous(word) for word in value.split()[:_NAMES]]
        return " ".join(word for word in words if word) or None
    return anonymous(value)
