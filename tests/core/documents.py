"""Conversations to put into the practice site: our own samples, and the shared files where they are at hand; how a log differs from one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gptbridge.core.transcript import Block
from tests.core.samples import SAMPLES, sample
from tests.core.site_json import CONVERSATION, ROOT, Doc
from tests.core.visible import Seen

SHARED = Path(os.environ.get("GPTBRIDGE_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "conversations"


def names() -> list[str]:
    return [*SAMPLES, *(sorted(path.name for path in SHARED.glob("*.json")) if SHARED.is_dir() else [])]


def document(name: str) -> dict[str, Any]:
    """With an id of its own: exports have rewritten ones."""
    if name in SAMPLES:
        return sample(name)
    data = dict(json.loads((SHARED / name).read_text(encoding="utf-8")))
    return data | {"conversation_id": f"68c1d2e3-0000-8000-8000-{int(name[:2]):012x}"}


def joined() -> dict[str, Any]:
    """One conversation of all samples, one below the other."""
    whole = Doc(conversation_id=f"{CONVERSATION[:-4]}ffff", title="All samples")
    mapping, leaf = whole.data["mapping"], ROOT
    for name in SAMPLES:
        data = sample(name)
        if name in ("dangling-current", "cut-above"):
            continue  # what is wrong with them is the whole document's
        for key, node in data["mapping"].items():
            if key == ROOT:
                continue
            message = {**node["message"], "id": f"{name}-{node['message']['id']}"}
            above = leaf if node["parent"] == ROOT else f"{name}-{node['parent']}"
            mapping[f"{name}-{key}"] = {**node, "id": f"{name}-{key}", "message": message, "parent": above, "children": []}
        leaf = f"{name}-{data['current_node']}"
    whole.data["current_node"] = leaf
    return whole.data


def differences(seen: list[Seen], blocks: list[Block]) -> list[str]:
    found = [] if len(seen) == len(blocks) else [f"{len(blocks)} turns, {len(seen)} are seen"]
    for number, (one, block) in enumerate(zip(seen, blocks, strict=False), 1):
        if one.user is not None and block.attr("user") != one.user and one.user.isascii():
            found.append(f"{number}: user {block.attr('user')}, not {one.user}")
        if block.section("prompt") != one.prompt:
            found.append(f"{number}: prompt {block.section('prompt')!r}, not {one.prompt!r}")
        if (block.section("thinking") or "") != one.thinking:
            found.append(f"{number}: thinking {block.section('thinking')!r}, not {one.thinking!r}")
        if not one.says(block.section("answer")):
            found.append(f"{number}: answer {block.section('answer')!r} is not {one.answer}")
    return found
