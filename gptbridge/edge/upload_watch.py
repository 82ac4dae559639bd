"""Secret: what the uploads of a page look like on the wire, and when the site has a file.

Guarantees: `found` tells of every upload that the page began, in order, by the site's own answers: an id comes from the answer to the
announcement, `ready` from the answer that says so; nothing is inferred from silence or from looks. Only names, sizes, ids, statuses and
the site's code words are kept. Runs in the gate's reader thread and never waits. Fails towards "not yet": an answer that cannot be read
leaves the upload as it was.

The endpoints and their sources stand in chatgpt.py.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from gptbridge.core.page_request import Upload
from gptbridge.edge.chatgpt_requests import UPLOAD_ANNOUNCED, UPLOAD_PROCESSED, UPLOAD_STORED

_CODE = re.compile(r"[a-z][a-z0-9_.]{1,60}")
_BAD_EVENT = re.compile(r"fail|error|reject")
Post = Callable[..., None]


@dataclass(slots=True)
class _Step:
    """A request of an upload: which one it is (announce, store, finish), of which upload; `status` once the site answered. The page may be
    quicker than we: until the answer to the announcement was read here, `at` is -1 and `key` the URL or the file's id."""

    kind: str
    at: int
    key: str = ""
    status: int | None = None


class UploadWatch:
    """`post(method, params, session, then)`: a DevTools call whose answer comes later, in the same thread. `on_place`: called when the
    answer to an announcement was read, whatever it said."""

    def __init__(self, post: Post, on_place: Callable[[], None] = lambda: None) -> None:
        self._post, self._on_place = post, on_place
        self._lock = threading.Lock()
        self._uploads: list[Upload] = []
        self._urls: dict[str, int] = {}
        self._steps: dict[str, _Step] = {}  # by network request

    def found(self) -> tuple[Upload, ...]:
        with self._lock:
            return tuple(self._uploads)

    def takes(self, url: str) -> bool | None:
        """Whether the site wants a file's bytes at this URL; None while an announcement is not answered yet."""
        with self._lock:
            return True if url in self._urls else None if any(upload.state == "asked" for upload in self._uploads) else False

    def stores(self, network: str, url: str) -> None:
        """Bytes that are let go to such a URL; nobody reads them."""
        with self._lock:
            self._steps[network] = _Step("store", self._urls[url])

    def asked(self, network: str, url: str, body: str | None) -> None:
        """A POST of the page that is let through."""
        with self._lock:
            path, given = urlsplit(url).path.rstrip("/"), _object(body)
            if path == UPLOAD_ANNOUNCED and isinstance(given.get("file_name"), str) and isinstance(given.get("file_size"), int):
                self._uploads.append(Upload(given["file_name"], given["file_size"]))
                self._steps[network] = _Step("announce", len(self._uploads) - 1)
                return
            named = re.fullmatch(UPLOAD_STORED, path)
            file_id = named[1] if named else str(given.get("file_id")) if path == UPLOAD_PROCESSED else ""
            if file_id:
                self._expect(network, "finish", self._of(file_id), file_id)

    def event(self, method: str, params: dict[str, Any], session: str) -> None:
        """A Network event of the window."""
        network = str(params.get("requestId", ""))
        with self._lock:
            step = self._steps.get(network)
            if step is None and method == "Network.requestWillBeSent" and params["request"]["method"] == "PUT":
                url = str(params["request"]["url"])  # to a host that the gate does not look at
                self._expect(network, "store", self._urls.get(url), url)
            if step is None:
                return
            if method == "Network.responseReceived":
                step.status = int(params["response"]["status"])
                self._stored(step)
                return
            failed = method == "Network.loadingFailed"
            # Of bytes that were taken nobody reads the answer's body.
            if failed and step.at >= 0 and (step.kind != "store" or step.status is None):
                self._fail(step.at, 0, None)
        if failed and step.kind == "announce":
            self._on_place()
        elif method == "Network.loadingFinished" and step.status is not None:
            self._post("Network.getResponseBody", {"requestId": network}, session, lambda result, reason: self._read(step, result))

    # The rest runs with what the site said

    def _read(self, step: _Step, result: dict[str, Any] | None) -> None:
        text = str(result.get("body", "")) if result else ""
        if result and result.get("base64Encoded"):
            text = base64.b64decode(text).decode("utf-8", "replace")
        status = step.status or 0
        with self._lock:
            if step.at < 0:
                return
            if status >= 300:
                self._fail(step.at, status, _code(_object(text)))
            elif step.kind == "announce":
                self._announced(step.at, status, _object(text))
            elif step.kind == "finish":
                self._finished(step.at, status, text)
        if step.kind == "announce":
            self._on_place()

    def _announced(self, at: int, status: int, said: dict[str, Any]) -> None:
        ident, url = said.get("file_id"), said.get("upload_url")
        if not isinstance(ident, str) or not isinstance(url, str):
            refused = said.get("status") == "error"
            return self._fail(at, status if refused else None, _code(said) or "answer_not_understood")
        self._urls[url] = at
        self._set(at, state="announced", file_id=ident)
        for step in self._steps.values():
            if step.at < 0 and step.key in (url, ident):
                step.at = at
                self._stored(step)
        return None

    def _finished(self, at: int, status: int, text: str) -> None:
        whole = _object(text)
        events = [whole] if whole else [_object(line.removeprefix("data:")) for line in text.splitlines()]
        for event in events:
            name = str(event.get("event", ""))
            if event.get("status") == "error" or _BAD_EVENT.search(name):
                return self._fail(at, status, _code(event) or name)
            if event.get("status") == "success" or name.endswith("file_ready"):
                return self._set(at, state="ready")
        return None

    def _expect(self, network: str, kind: str, at: int | None, key: str) -> None:
        """One that belongs to an upload, or may turn out to when its announcement's answer is read."""
        if at is not None or any(upload.state == "asked" for upload in self._uploads):
            self._steps[network] = _Step(kind, -1 if at is None else at, key)

    def _stored(self, step: _Step) -> None:
        if step.kind == "store" and step.at >= 0 and step.status is not None and step.status < 300:
            self._set(step.at, state="stored")

    def _of(self, file_id: str) -> int | None:
        return next((at for at, upload in enumerate(self._uploads) if upload.file_id == file_id), None)

    def _set(self, at: int, **facts: Any) -> None:
        upload = self._uploads[at]
        if upload.state not in ("ready", "failed"):
            self._uploads[at] = replace(upload, **facts)

    def _fail(self, at: int, status: int | None, code: str | None) -> None:
        self._set(at, state="failed", status=status, code=code)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _code(said: dict[str, Any]) -> str | None:
    """The site's word for a refusal, wherever it stands; a sentence is none."""
    detail = said.get("detail")
    inner = detail if isinstance(detail, dict) else {}
    for value in (inner.get("code"), said.get("error_code"), said.get("code"), detail):
        if isinstance(value, str) and _CODE.fullmatch(value):
            return value
    return None
