"""The practice site's files: put there, handed out whole, and going wrong as asked."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gptbridge.practice.downloads import BLOCK, generated
from gptbridge.practice.server import PracticeServer


@pytest.fixture
def site() -> Iterator[PracticeServer]:
    with PracticeServer() as made:
        yield made


def ask(site: PracticeServer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection(site.url.partition("//")[2], timeout=10)
    connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers})
    reply = connection.getresponse()
    return reply.status, reply.headers, reply.read()


def link(site: PracticeServer, ident: str) -> dict[str, Any]:
    token = json.loads(ask(site, "GET", "/api/auth/session")[2])["accessToken"]
    status, _, data = ask(site, "GET", f"/backend-api/files/download/{ident}", Authorization=f"Bearer {token}")
    assert status == 200
    return dict(json.loads(data))


def test_made_up_bytes_are_always_the_same_and_never_repeat() -> None:
    data = b"".join(generated(3 * BLOCK + 5))
    assert len(data) == 3 * BLOCK + 5 and data[:BLOCK] != data[BLOCK:2 * BLOCK] and data[:100] == b"".join(generated(100))


def test_a_file_that_was_put_is_handed_out(site: PracticeServer) -> None:
    assert ask(site, "PUT", "/practice/files/file_a", {"name": "x/é.bin", "size": 200_000})[0] == 200
    found = link(site, "file_a")
    assert (found["file_name"], found["file_size_bytes"]) == ("x/é.bin", 200_000)
    status, headers, data = ask(site, "GET", found["download_url"].removeprefix(site.url))
    assert status == 200 and headers["Content-Length"] == "200000" and "filename*=UTF-8''%C3%A9.bin" in headers["Content-Disposition"]
    told = json.loads(ask(site, "GET", "/practice/files")[2])
    assert told["files"][0]["sha256"] == hashlib.sha256(data).hexdigest() == hashlib.sha256(b"".join(generated(200_000))).hexdigest()
    assert told["fetches"] == [{"file": "file_a", "host": site.url.partition("//")[2], "cookie": False, "bearer": False}]
    assert ask(site, "GET", found["download_url"].removeprefix(site.url).replace("sig=", "sig=0"))[0] == 403


@pytest.mark.parametrize("fields", [{"link": "nonsense"}, {"body": "200"}, {"base64": "!"}, {"size": "x"}, {"seconds": []}])
def test_a_file_of_a_wrong_form_is_refused(site: PracticeServer, fields: dict[str, Any]) -> None:
    assert ask(site, "PUT", "/practice/files/file_a", fields)[0] == 422


def test_faults_strike_as_often_as_asked(site: PracticeServer) -> None:
    ask(site, "PUT", "/practice/files/file_a", {"text": "x", "link": "ace_pod_expired", "link_times": 1})
    assert link(site, "file_a")["error_code"] == "ace_pod_expired" and link(site, "file_a")["status"] == "success"
    ask(site, "POST", "/practice/scenario", {"name": "download-trouble", "body": "expired", "times": 2})
    path = link(site, "file_a")["download_url"].removeprefix(site.url)
    assert [ask(site, "GET", path)[0] for _ in range(3)] == [403, 403, 200]
