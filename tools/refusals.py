"""`make refusals`: what ask-gpt does when the page says no or has changed, measured: one line for each way and generation of the page.

Real commands in a real Chromium, on a practice site of their own. Exit 1 when a row is not as its table states. Words on the command line
choose rows by a part of their name.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser import refusals
from tests.browser.real import Desk, Home, Site


def main(words: list[str]) -> int:
    wrong = answers = 0
    with tempfile.TemporaryDirectory(prefix="ask-gpt-refusals-") as place:
        site = Site()
        home = Home(Path(place), site)
        try:
            print(refusals.HEAD, flush=True)
            for generation in refusals.GENERATIONS:
                for row in refusals.ROWS:
                    if words and not any(word in row.name for word in words):
                        continue
                    seen = refusals.run(Desk(home, Path(place) / "work"), row, generation)
                    found = refusals.faults(row, seen)
                    wrong, answers = wrong + bool(found), answers + seen.wrong
                    print(refusals.line(row, generation, seen) + (f"  NOT AS STATED: {'; '.join(found)}" if found else ""), flush=True)
        finally:
            home.quit()
            site.stop()
    print(f"{wrong} rows not as stated, {answers} wrong answers")
    return 1 if wrong or answers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
