"""The real command line, front and worker with a fake browser: `python -m tests.fake_cli send ...`, for tests with real processes."""

from __future__ import annotations

import sys
from typing import Any

from gptbridge.shell import cli, front
from tests.fakes import FakeBrowser


def open_browser(config: Any, home: Any, clock: Any, warn: Any) -> FakeBrowser:
    return FakeBrowser(config.settings.site, clock)


def main(argv: list[str] | None = None) -> int:
    return cli.main(argv, run_job=lambda job, output: front.run(job, output, open_browser=open_browser))


if __name__ == "__main__":
    sys.exit(main())
