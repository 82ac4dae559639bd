"""What is known of an upload, in whatever order Chrome tells it: the page may be at its next request before we have read an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from gptbridge.edge.chatgpt_requests import UPLOAD_ANNOUNCED, UPLOAD_PROCESSED
from gptbridge.edge.upload_watch import UploadWatch

SITE, BYTES = "https://chatgpt.com", "https://files.example/put/1"
BODIES = {"a": {"file_id": "file-1", "upload_url": BYTES}, "c": {"status": "success"}}


class Wire:
    """Chrome's side: answers to `Network.getResponseBody` come when the test says so."""

    def __init__(self) -> None:
        self.asked: dict[str, Callable[..., None]] = {}
        self.watch = UploadWatch(self.post)

    def post(self, method: str, params: dict[str, Any], session: str, then: Callable[..., None]) -> None:
        self.asked[params["requestId"]] = then

    def answer(self, network: str) -> None:
        self.asked.pop(network)({"body": json.dumps(BODIES[network])}, None)

    def event(self, name: str, network: str, **params: Any) -> None:
        self.watch.event(f"Network.{name}", {"requestId": network, **params}, "s")

    def answered(self, network: str) -> None:
        self.event("responseReceived", network, response={"status": 200})
        self.event("loadingFinished", network)


STEPS: dict[str, Callable[[Wire], None]] = {
    "read": lambda wire: wire.answer("a"),
    "put": lambda wire: wire.event("requestWillBeSent", "b", request={"method": "PUT", "url": BYTES}),
    "stored": lambda wire: wire.answered("b"),
    "finish": lambda wire: wire.watch.asked("c", SITE + UPLOAD_PROCESSED, json.dumps({"file_id": "file-1"})),
}
# The page's own order stands; our reading of the first answer may come at any time in it.
ORDERS = [order for order in permutations(STEPS) if [step for step in order if step != "read"] == ["put", "stored", "finish"]]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_the_page_may_be_quicker_than_we(order: tuple[str, ...]) -> None:
    wire = Wire()
    wire.watch.asked("a", SITE + UPLOAD_ANNOUNCED, json.dumps({"file_name": "a.txt", "file_size": 3}))
    wire.answered("a")
    for step in order:
        STEPS[step](wire)
    [upload] = wire.watch.found()
    assert (upload.state, upload.file_id) == ("stored", "file-1")
    wire.answered("c")
    wire.answer("c")
    assert wire.watch.found()[0].state == "ready"


def test_what_belongs_to_no_upload_is_not_followed() -> None:
    wire = Wire()
    STEPS["put"](wire)
    STEPS["stored"](wire)
    STEPS["finish"](wire)
    wire.answered("c")
    assert wire.watch.found() == () and wire.asked == {}
