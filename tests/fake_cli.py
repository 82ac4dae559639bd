"""The real command line, front and worker with a fake browser: `python -m tests.fake_cli send ...`, for tests with real processes.

FAKE_MARKS names a file to which the worker appends what happens in its page, a line for each, and its own pid before; with FAKE_HOLD it
stands still at that happening (`open`, `paste`, `click`, `held`, `release`, `sent` ...; `read:5`: at the fifth) until the file
FAKE_MARKS.go is there. FAKE_STEP: its wall clock is so many seconds off.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from gptbridge.shell import cli

_seen: Counter[str] = Counter()


def stand(what: str) -> None:
    marks = os.environ["FAKE_MARKS"]
    fd = os.open(marks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{os.getpid()} {what}\n".encode("ascii"))
    os.close(fd)
    _seen[what] += 1
    if os.environ.get("FAKE_HOLD") in (what, f"{what}:{_seen[what]}"):
        while not os.path.exists(marks + ".go"):
            time.sleep(0.005)


def run_job(job: Any, output: Any) -> int:
    from gptbridge.shell import front  # as the real one: a command without a worker imports none of it
    from tests.fakes import FakeBrowser, silent

    def open_browser(config: Any, home: Any, clock: Any, warn: Any) -> FakeBrowser:
        return FakeBrowser(config.settings.site, clock, tell=stand if "FAKE_MARKS" in os.environ else silent)

    return front.run(job, output, open_browser=open_browser)


def main(argv: list[str] | None = None) -> int:
    def run() -> int:
        return cli.main(argv, run_job=run_job)

    step = float(os.environ.get("FAKE_STEP", "0"))
    if not step:
        return run()
    from freezegun import freeze_time

    with freeze_time(datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=step), tick=True):
        return run()


if __name__ == "__main__":
    sys.exit(main())
