"""One practice site and one Chrome for most tests of the real command line; both end with the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.real import Desk, Home, Site


@pytest.fixture(scope="session")
def practice() -> Iterator[Site]:
    site = Site()
    try:
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="session")
def home(practice: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("real"), practice)
    try:
        yield made
    finally:
        made.quit()


@pytest.fixture
def desk(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Desk]:
    """A folder of its own on the shared home; the site has forgotten everything. Afterwards nothing may be left over."""
    home.site.reset()
    made = Desk(home, tmp_path / "work", getattr(request, "param", 1))
    yield made
    home.site.reset()
    made.check()


@pytest.fixture
def own_home(practice: Site, tmp_path: Path) -> Iterator[Home]:
    """A home that no other test has seen, for what needs a first start or breaks its Chrome."""
    practice.reset()
    made = Home(tmp_path, practice)
    try:
        yield made
        made.check()
    finally:
        made.quit()
        practice.reset()
