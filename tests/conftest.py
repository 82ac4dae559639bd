"""What holds for every test: nobody's own home is in reach, a required browser is not skipped, and the soak takes more examples."""

from __future__ import annotations

import os
import shutil
from collections import Counter

import pytest
from hypothesis import settings

# A path that can neither be made nor opened: a test that forgets to name a home of its own fails instead of using the developer's.
for _name in [name for name in os.environ if name.startswith("ASKGPT_") and name not in ("ASKGPT_BROWSER", "ASKGPT_TEST_BROWSER")]:
    del os.environ[_name]
os.environ["ASKGPT_HOME"] = os.devnull + "/home"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process of every test compiles all of its modules anew

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_REQUIRED = os.environ.get("ASKGPT_TEST_BROWSER") == "required" or os.environ.get("CI") == "true"
_EXAMPLES = int(os.environ.get("SOAK_EXAMPLES") or 0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") is None or (any(map(shutil.which, _BROWSERS)) and shutil.which("chromedriver")):
        return
    said = "Chromium and chromedriver are needed: make setup"
    if _REQUIRED:
        pytest.fail(said, pytrace=False)
    pytest.skip(said)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _take_samples(config, items)
    for item in items:
        test = getattr(item, "obj", None)
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if test is not None and chosen is not None and chosen.max_examples < _EXAMPLES:
            test._hypothesis_internal_use_settings = settings(chosen, max_examples=_EXAMPLES, deadline=None)


def _take_samples(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked `sample(n)` its first n cases run each time, and all of them in the soak."""
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        mark = item.get_closest_marker("sample")
        name = item.nodeid.partition("[")[0]
        seen[name] += 1
        if mark is None or seen[name] <= mark.args[0]:
            kept.append(item)
        elif _EXAMPLES:
            item.add_marker(pytest.mark.soak)
            kept.append(item)
        else:
            left.append(item)
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)
