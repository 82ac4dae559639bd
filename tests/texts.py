"""What must hold of a text that went through a send: at the site, in the log, on the rendered page, in `show` and its copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from gptbridge.core.conversation import read as read_conversation
from gptbridge.core.escape import unescape
from gptbridge.core.transcript import parse
from gptbridge.shell.reading import show
from gptbridge.shell.requests import Show
from gptbridge.shell.store import Store
from tests.core.test_transcript_page import headings_on_the_page

RENDERERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"]))
QUIET = {chr(c) for c in range(0x20, 0x7f)} | {"\n", "\t"}


def is_inert(data: bytes) -> bool:
    """Whether a terminal that is given this only shows it: no control but TAB and LF, nothing that reorders or hides text."""
    return all(c in QUIET or (c >= "\xa0" and c not in "\u2028\u2029\ufeff" and not "\u202a" <= c <= "\u202e"
                              and not "\u2066" <= c <= "\u2069" and not "\U000e0000" <= c <= "\U000e007f") for c in data.decode("utf-8"))


def check_sent(text: str, seen: str, conversation_id: str, document: dict[str, Any], env: Mapping[str, str], copy: Path) -> None:
    """`seen`: what the server got. `document`: the site's conversation JSON, of one turn. `env` names the home, `copy` the copy."""
    assert seen == text
    name = f"{conversation_id}.log"
    data = (Path(env["ASKGPT_HOME"]) / "logs" / name).read_bytes()
    assert copy.read_bytes() == data
    log = parse(data)
    block, = log.blocks
    site, = read_conversation(document, conversation_id=conversation_id).turns
    assert not log.problems and block.ok
    assert (block.section("prompt"), block.section("answer")) == (text, site.answer)
    if "\ue200" not in text:
        assert site.answer == "You said:\n\n" + "\n".join("> " + line for line in text.split("\n"))
    assert is_inert(data) and data.decode("utf-8").splitlines() == data.decode("utf-8").split("\n")[:-1]
    ours = [f"turn 1 · {block.at}", *(section.name for section in block.sections)]
    for renderer in RENDERERS:
        assert headings_on_the_page(data, renderer) == ours
    store = Store(env)
    try:
        for part, whole in (("prompt", text), ("answer", site.answer or "")):
            piped = show(Show(conversation_id, "last", part), store, False).data
            assert piped == (whole + ("" if whole.endswith("\n") else "\n")).encode("utf-8", "surrogatepass")
            shown = show(Show(conversation_id, "last", part), store, True).data
            assert is_inert(shown) and unescape(shown.decode()) == piped.decode("utf-8", "surrogatepass")
    finally:
        store.home.close()
