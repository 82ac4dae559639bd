"""Links and bytes of files: the fake's fetch and the courier through a real Chromium say the same of every answer of the site."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest

from gptbridge.core.artifacts import Artifact
from gptbridge.core.ports import Link, Unavailable
from gptbridge.practice.downloads import generated
from tests import made
from tests.contract.conftest import EITHER_PAGE, Pair, Window

pytestmark = pytest.mark.parametrize("pair", EITHER_PAGE, indirect=True)
ARTIFACT = Artifact("sandbox", "sandbox:a1", 1, "a1", path="/mnt/data/one.bin")


@pytest.fixture
def at(window: Window) -> Window:
    return window.at()


def brought(window: Window, conversation_id: str) -> tuple[bytes, Any]:
    """The bytes, and the body that they came from; never anything of the site's own words or addresses in a refusal."""
    link = window.page.link(conversation_id, ARTIFACT)
    assert "http" not in repr(link)
    with window.page.fetch(link) as body:
        return b"".join(body.chunks()), body


def test_bytes_arrive_unchanged(pair: Pair, at: Window) -> None:
    """Case 31: an archive, its name in UTF-8, its length known."""
    data = made.archive() + os.urandom(3 << 20)
    conversation_id = made.one(pair.url, data, "one.bin", mime="application/zip")
    got, body = brought(at, conversation_id)
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    assert (body.name, body.mime, body.size) == ("one.bin", "application/zip", len(data))
    assert not at.sends


@pytest.mark.parametrize(("mime", "data"), [("text/html", b"<script>document.title='ran'</script>"), ("image/svg+xml", b"<svg/>"),
                                            ("text/plain", "é\u2028".encode()), ("application/json", b"{}"), ("text/csv", b"")])
def test_nothing_is_shown_run_or_decoded(pair: Pair, at: Window, mime: str, data: bytes) -> None:
    conversation_id = made.one(pair.url, data, mime=mime)
    assert brought(at, conversation_id)[0] == data


def test_a_name_in_utf8(pair: Pair, at: Window) -> None:
    made.file(pair.url, "file_name", "x/données \u8868 \"q\";.csv", b"1")
    link = at.page.link(made.CONVERSATION, Artifact("file", "file:file_name", 1, "a1", file_id="file_name"))
    assert link.name == "x/données \u8868 \"q\";.csv" and link.size == 1
    with at.page.fetch(link) as body:
        assert body.name == "données \u8868 \"q\";.csv" and b"".join(body.chunks()) == b"1"


@pytest.mark.parametrize(("fault", "again"), [("expired", True), ("410", True), ("404", True), ("500", True), ("redirect-foreign", False),
                                              ("redirect-loop", False), ("page", False)])
def test_answers_that_are_no_file(pair: Pair, at: Window, fault: str, again: bool) -> None:
    conversation_id = made.one(pair.url, b"x" * 1000, body=fault)
    with pytest.raises(Unavailable) as why:
        brought(at, conversation_id)
    assert why.value.again == again and not why.value.everything, why.value.reason


@pytest.mark.parametrize("fault", ["drop", "drop-chunked", "wrong-length"])
def test_a_body_that_is_cut_short(pair: Pair, at: Window, fault: str) -> None:
    """It ends; that it is not whole shows in its size, or in that of the link."""
    conversation_id = made.one(pair.url, b"x" * 500_000, body=fault)
    link = at.page.link(conversation_id, ARTIFACT)
    with at.page.fetch(link) as body:
        got = b"".join(body.chunks())
        assert len(got) != (link.size if body.size is None else body.size)


def test_a_slow_body_comes_bit_by_bit(pair: Pair, at: Window) -> None:
    data = os.urandom(100_000)
    conversation_id = made.one(pair.url, data, body="slow", seconds=1.0)
    with at.page.fetch(at.page.link(conversation_id, ARTIFACT)) as body:
        pieces = [piece for piece in body.chunks() if piece]
    assert b"".join(pieces) == data and len(pieces) > 1


def test_cookies_go_to_the_site_alone(pair: Pair, at: Window) -> None:
    """SE-03: the file host of another name gets the signature and nothing else; the site's own gets no bearer."""
    ways = (({}, "127.0.0.1", True), ({"link": "blob"}, "localhost", False), ({"body": "redirect-blob"}, "localhost", False))
    for way, host, cookie in ways:
        conversation_id = made.one(pair.url, b"data", **way)
        assert brought(at, conversation_id)[0] == b"data"
        last = pair.world.fetches[-1]
        assert (last["host"].partition(":")[0], last["cookie"], last["bearer"]) == (host, cookie, False), way


@pytest.mark.parametrize("url", ["https://files.example.org/x", "http://files.example.org/x", "file:///etc/passwd", "https://u:p@127.0.0.1/x",
                                 "data:text/plain,x", "javascript:1", "https://chatgpt.com/x"])
def test_links_that_lead_elsewhere(at: Window, url: str) -> None:
    with pytest.raises(Unavailable), at.page.fetch(Link(url)):
        pass


def test_a_host_that_does_not_answer(at: Window) -> None:
    with pytest.raises((Unavailable, OSError)), at.page.fetch(Link("http://127.0.0.1:9/x")):
        pass


def test_leaving_in_the_middle_ends_the_transfer(pair: Pair, at: Window) -> None:
    conversation_id = made.one(pair.url, None, size=300 << 20)
    with at.page.fetch(at.page.link(conversation_id, ARTIFACT)) as body:
        chunks = body.chunks()
        first = next(chunk for chunk in chunks if chunk)
    assert next(generated(1 << 16))[:1000] == first[:1000]
    conversation_id = made.one(pair.url, b"next")
    assert brought(at, conversation_id)[0] == b"next"


def test_canvas_documents(pair: Pair, at: Window) -> None:
    assert at.page.documents(made.canvas(pair.url, listed=True)) == {"doc1": ("My plan.md", "# Edited by hand\n")}
    assert at.page.documents(made.canvas(pair.url, listed=False)) == {}
