"""What a failure says of the message, and how it reads without that."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure

EDGE = Path(__file__).resolve().parents[2] / "gptbridge" / "edge"


@pytest.mark.parametrize(("message", "cause"), [
    ("nobody is signed in on the site; nothing was sent", "nobody is signed in on the site"),
    ("the site asks for a human check; nothing was sent and nothing was pressed", "the site asks for a human check"),
    ("The site cannot be reached (ERR). Nothing was sent.", "the site cannot be reached (ERR)"),
    ("The request gate could not be armed: x. Nothing was typed or sent.", "the request gate could not be armed: x"),
    ("the request was held too long; it was not released", "the request was held too long"),
    ("HTTP 503. Nothing was sent.", "HTTP 503")])
def test_the_cause_is_the_message_without_its_fate(message: str, cause: str) -> None:
    failure = Failure("browser", message)
    assert (failure.says_unsent, failure.cause) == (True, cause)
    assert not Failure("browser", cause).says_unsent and Failure("browser", cause).cause == cause


def test_every_way_in_which_the_edge_says_it_is_known() -> None:
    """A page's or a file's failure may come after the release, too."""
    texts = [node.value for path in EDGE.glob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 300]
    saying = [text for text in texts if re.search(r"nothing was\b.*\bsent|not released", text, re.IGNORECASE)]
    assert len(saying) > 20
    for text in saying:
        failure = Failure("browser", f"something; {text}")
        assert failure.says_unsent and not re.search(r"\b(sent|released|nothing was)\b", failure.cause), text
