"""What a request and a reply are to the handlers, and how a route is told.

Guarantees: a handler sees a request only after the guards (host, origin, content type, bearer) let it through. Pure data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gptbridge.practice.nodes import Json
from gptbridge.practice.world import Account, Send, World


class BadBody(Exception):
    """The body is not a JSON object."""


@dataclass(slots=True)
class Request:
    """`origin` is the site's own as the client names it; `captured` the named groups of the route; `send` the record of a send."""

    world: World
    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes
    origin: str
    account: Account
    captured: dict[str, str] = field(default_factory=dict)
    send: Send | None = None

    def json_object(self) -> Json:
        """Raises BadBody."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadBody from None
        if not isinstance(value, dict):
            raise BadBody
        return value


@dataclass(slots=True)
class Reply:
    """`frames`: sent as they come, in chunks, or as a body of `length` bytes (there may come fewer).
    `drop`: close the connection, unanswered or after the frames."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    frames: Iterator[bytes] | None = None
    length: int | None = None
    drop: bool = False


Handler = Callable[[Request], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """`open`: no bearer needed; `raw`: the body need not be JSON."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler
    open: bool = False
    raw: bool = False


def route(method: str, pattern: str, handler: Handler, *, open: bool = False, raw: bool = False) -> Route:
    return Route(method, re.compile(pattern), handler, open, raw)


def json_reply(value: Any, status: int = 200, headers: list[tuple[str, str]] | None = None) -> Reply:
    """ASCII JSON, so that a lone surrogate travels as an escape."""
    body = json.dumps(value, separators=(",", ":")).encode("ascii")
    return Reply(status, [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *(headers or [])], body)


def fault(status: int, detail: Any, headers: list[tuple[str, str]] | None = None) -> Reply:
    """The site's error shape."""
    return json_reply({"detail": detail}, status, headers)


def inaccessible(ident: str) -> Reply:
    """404 for a conversation that is not yours, is gone, or was asked for without a bearer: one body for all."""
    detail = {
        "code": "conversation_inaccessible",
        "message": "This conversation is not accessible. Log in to view it, or check the link.",
        "can_retry": False,
        "conversation_id": ident,
    }
    return fault(404, detail)
