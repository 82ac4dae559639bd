"""What the page looked like when it was not as known: kept for whoever mends it, and named in the error (SI-04).

Structure alone, never anybody's words: what may be kept of the page is decided by the Page port; of the failure's sentence, what the page
says and every id are left out. Never fails: a report that cannot be made changes nothing of what is said otherwise.
"""

from __future__ import annotations

import re

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Page, World

SLUGS = ("site-changed", "answer-failed")
_SAID = re.compile(r"\bsays: .*", re.DOTALL)  # how every failure quotes the page; nothing of ours behind it is missed
_ID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|\b[0-9A-HJKMNP-TV-Z]{26}\b")


def keep(w: World, page: Page, failure: Failure) -> str | None:
    """The line that names the report, which then stands in the failure's hint too; None where there is nothing to keep."""
    if w.reports is None or failure.slug not in SLUGS:
        return None
    try:
        place = w.reports.keep(failure.slug, {"what": own_words(failure.message), "page": page.outline()})
    except Failure:
        return None
    line = f"what the page looked like, without anybody's words: {place}"
    failure.hint = f"{failure.hint}\n{line}" if failure.hint else line
    return line


def tell(w: World, page: Page, failure: Failure) -> None:
    """The same for what ends otherwise than by this failure being raised: a warning names the report."""
    if (line := keep(w, page, failure)) is not None:
        w.caller.emit({"type": "warning", "message": line})


def own_words(message: str) -> str:
    """What of a failure's message is ours."""
    return _ID.sub("*", _SAID.sub("says: ...", message))
