"""The site's own refusal of a released request, a 4xx with one JSON body: what it means, when it is over, what to do (GT-17, RL-13).

Its words are never kept (RP-19), its code and the seconds until a cap clears are. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

from gptbridge.core.errors import Failure

SLUGS = {429: "rate-limited", 413: "bad-input", 422: "bad-input", 401: "needs-human", 403: "needs-human"}
DO = {429: "send it again under a new id when the limit is over", 413: "shorten it, or send the text as a file: -f FILE",
      401: "ask-gpt login, then send it again under a new id"}
LONGEST_S = 366 * 86400  # a cap that lasts longer is none that anybody knows
_CODE = re.compile("[A-Za-z0-9_.-]{1,80}")
LOOK = "look at the page: ask-gpt login"


def read(status: int, body: bytes, operation_id: str) -> tuple[Failure, dict[str, Any]]:
    """The failure, and the record of it: `status`, `code` (a plain word), `clears_in` (seconds); None where the site names none.

    Whatever the body is: the record can be written, else a request that was refused would stay `dispatched`.
    """
    refusal = {"status": status, **_details(body)}
    message = f"the site refused the message (HTTP {status}{_until(refusal['clears_in'])}); it was not taken"
    return Failure(SLUGS.get(status, "site-changed"), message, f"{DO.get(status, LOOK)}\nask-gpt ops show {operation_id}"), refusal


def _until(clears_in: float | None) -> str:
    if clears_in is None or clears_in <= 0:
        return ""
    return f", for {clears_in / 3600:.0f} h more" if clears_in >= 5400 else f", for {max(clears_in / 60, 1):.0f} min more"


def _details(body: bytes) -> dict[str, Any]:
    try:
        detail = json.loads(body)["detail"]
        detail = detail[0] if isinstance(detail, list) else detail
        code, clears_in = detail.get("code") or detail.get("type"), detail.get("clears_in")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        code = clears_in = None
    return {"code": code if isinstance(code, str) and _CODE.fullmatch(code) else None, "clears_in": _seconds(clears_in)}


def _seconds(value: Any) -> int | float | None:
    """A number of seconds that may be one: JSON also has NaN, Infinity and integers that no float holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_S
    return value if known else None
