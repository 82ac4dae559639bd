"""The body of the site's own refusal is the site's: whatever it holds, the refusal is recorded and said (GT-17)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core import record
from gptbridge.flow import refusals
from tests.core.transcript_cases import profile
from tests.flow.test_recovery import reach
from tests.flow.world import Ground, Worker

ODD = ("NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 400, "1" + "0" * 5000, "-1", "true", '"3600"', "[]", "{}", "null", "1e30")


@pytest.mark.parametrize("number", ODD, ids=lambda text: str(text)[:12])
def test_an_odd_number_in_a_refusal_leaves_it_a_refusal(ground: Ground, number: str) -> None:
    worker = ground.worker()
    reach(worker, "released")
    failure, refusal = refusals.read(429, f'{{"detail":{{"code":"cap","clears_in":{number}}}}}'.encode(), worker.id)
    op = worker.custody.fail(worker.id, failure, nothing_left=True, refusal=refusal)
    assert (op.state, op.slug, op.refusal and op.refusal["clears_in"]) == ("rejected", "rate-limited", None)


numbers = st.integers() | st.floats() | st.integers(min_value=10**300) | st.booleans()
keys = st.sampled_from(["code", "type", "clears_in", "detail", "message"])
values = st.recursive(st.none() | numbers | st.text(max_size=20),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=9)
details = st.fixed_dictionaries({"detail": st.fixed_dictionaries({"code": values, "clears_in": values}) | values}) | values


@profile(150)
@given(st.binary(max_size=60) | details.map(lambda value: json.dumps(value).encode()), st.sampled_from([400, 401, 403, 413, 422, 429, 499]))
def test_no_body_is_too_odd_to_be_recorded(body: bytes, status: int) -> None:
    failure, refusal = refusals.read(status, body, "01JDZZZZZZZZZZZZZZZZZZZZZZ")
    assert f"HTTP {status}" in failure.message and "was not taken" in failure.message
    line = record.encode(1, {"refusal": refusal})
    assert record.decode(line.rstrip(b"\n"))[1]["refusal"] == refusal
    assert refusal["clears_in"] is None or 0 <= refusal["clears_in"] <= refusals.LONGEST_S


@pytest.mark.parametrize(("seconds", "said"), [(0, "(HTTP 429)"), (59, "for 1 min more"), (1234, "for 21 min more"), (7200, "2 h more")])
def test_when_it_is_over(seconds: float, said: str) -> None:
    assert said in refusals.read(429, json.dumps({"detail": {"clears_in": seconds}}).encode(), "x")[0].message


def test_a_refusal_that_cannot_be_read_ends_the_operation_all_the_same(ground: Ground, worker: Worker) -> None:
    """From the released request to the row: rejected, and 11."""
    def spoil(seat: Any) -> None:
        real = seat.gate.reply
        seat.gate.reply = lambda timeout: (real(timeout) or b"").replace(b"77777", b"Infinity") or None
    worker.browser.prepare = spoil
    ground.on("site-429", status=429, clears_in=77777)
    op = worker.send()
    assert (op.state, op.slug, worker.document()["exit_code"]) == ("rejected", "rate-limited", 11)
    assert op.refusal == {"status": 429, "code": "model_cap_exceeded", "clears_in": None}
