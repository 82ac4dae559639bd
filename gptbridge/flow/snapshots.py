"""What the page looked like when it was not as known: kept for whoever mends it, and named in the error (SI-04).

Structure alone, never anybody's words: what may be kept is decided by the Page port. Never fails: a report that cannot be made changes
nothing of what is said otherwise.
"""

from __future__ import annotations

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Page, World

SLUGS = ("site-changed", "answer-failed")


def keep(w: World, page: Page, failure: Failure) -> str | None:
    """The line that names the report, which then stands in the failure's hint too; None where there is nothing to keep."""
    if w.reports is None or failure.slug not in SLUGS:
        return None
    try:
        place = w.reports.keep(failure.slug, {"what": failure.message, "page": page.outline()})
    except Failure:
        return None
    line = f"what the page looked like, without anybody's words: {place}"
    failure.hint = f"{failure.hint}\n{line}" if failure.hint else line
    return line
