"""A small client of the practice site for its own tests: plain http.client, and a reader of its streams written from the format alone."""

from __future__ import annotations

import copy
import http.client
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from gptbridge.practice.server import PracticeServer


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Talks to one site; one connection per call unless `connection` is given."""

    def __init__(self, site: PracticeServer) -> None:
        self.site = site
        self.host = site.url.split("//")[1]

    def call(self, method: str, path: str, body: Any = None, *, bearer: bool = True, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            response = self.open(connection, method, path, body, bearer=bearer, headers=headers)
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def open(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any = None,
        *,
        bearer: bool = True,
        headers: dict[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        out = dict(headers or {})
        if bearer and path.startswith("/backend-api/"):
            out.setdefault("Authorization", "Bearer " + self.token())
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            out.setdefault("Content-Type", "application/json")
        connection.request(method, path, data, out)
        return connection.getresponse()

    def token(self) -> str:
        return str(self.call("GET", "/api/auth/session").json.get("accessToken"))

    def send(self, prompt: str, **more: Any) -> Answer:
        return self.call("POST", "/backend-api/f/conversation", send_body(prompt, **more))

    def conversation(self, ident: str) -> Any:
        return self.call("GET", f"/backend-api/conversation/{ident}").json

    def newest(self) -> str:
        return str(self.call("GET", "/backend-api/conversations?limit=1").json["items"][0]["id"])

    def state(self) -> Any:
        return self.call("GET", "/practice/state").json

    def scenario(self, name: str, **parameters: Any) -> Answer:
        return self.call("POST", "/practice/scenario", {"name": name, **parameters})


def send_body(
    prompt: str, *, ident: str | None = None, conversation: str | None = None, parent: str = "client-created-root", **more: Any
) -> Any:
    message = {
        "id": ident or str(uuid.uuid4()),
        "author": {"role": "user"},
        "create_time": time.time(),
        "content": {"content_type": "text", "parts": [prompt]},
        "metadata": {},
    }
    body: dict[str, Any] = {"action": "next", "messages": [message], "parent_message_id": parent, "model": "auto", **more}
    if conversation is not None:
        body["conversation_id"] = conversation
    return body


def events(raw: bytes) -> Iterator[tuple[str | None, Any]]:
    """(event name, data) of each server-sent event; data is JSON but for `[DONE]`."""
    for block in raw.decode("ascii").split("\n\n"):
        if not block:
            continue
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        yield fields.get("event"), fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])


def decode(raw: bytes) -> tuple[list[Any], list[Any]]:
    """The messages as a reader of the stream holds them at its end, in order, and the frames that have a type."""
    messages: list[Any] = []
    typed: list[Any] = []
    path, kind = "", ""

    def change(document: Any, pointer: str, how: str, value: Any) -> None:
        keys = pointer.split("/")[1:]
        for key in keys[:-1]:
            document = document[int(key) if isinstance(document, list) else key]
        last: Any = int(keys[-1]) if isinstance(document, list) else keys[-1]
        if how == "append":
            old = document[last]
            document[last] = {**old, **value} if isinstance(old, dict) else old + value
        else:
            assert how in ("replace", "add"), how
            document[last] = value

    for name, data in events(raw):
        if name == "delta":
            path, kind = data.get("p", path), data.get("o", kind)
            if kind == "add" and path == "":
                messages.append(copy.deepcopy(data["v"]))
            elif kind == "patch":
                for part in data["v"]:
                    change(messages[-1], path + part["p"], part["o"], part["v"])
            else:
                change(messages[-1], path, kind, data["v"])
        elif isinstance(data, dict):
            typed.append(data)
    return messages, typed


def branch(conversation: Any) -> list[Any]:
    """The messages from the root to `current_node`."""
    out, ident = [], conversation["current_node"]
    while ident is not None:
        node = conversation["mapping"][ident]
        assert node["id"] == ident
        if node["message"] is not None:
            out.append(node["message"])
        ident = node["parent"]
    return out[::-1]


def until(true: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Poll until it is true; the value."""
    end = time.monotonic() + seconds
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)
