"""A window for a person: no driver on it and no gate, since what is sent there a person's own hands send.

It answers the page scripts of the Page port over DevTools alone (`execute_async_script`), so the one question that `login` asks, who is
signed in, is asked in the same words as everywhere. Touches one window of the suite's own Chrome.
"""

from __future__ import annotations

import json
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.devtools import Refused


class PlainWindow:
    def __init__(self, chrome: Chrome, url: str) -> None:
        self._chrome = chrome
        self.target = chrome.new_window()
        self._session = str(chrome.devtools.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"])
        self.get(url)

    def is_open(self) -> bool:
        return any(target.get("targetId") == self.target for target in self._chrome.targets())

    def location(self) -> str:
        """The origin of what the window shows now."""
        return str(self._evaluate("location.origin"))

    def get(self, url: str) -> None:
        self._chrome.devtools.call("Page.navigate", {"url": url}, self._session, timeout=60)

    def execute_async_script(self, script: str, *args: Any) -> Any:
        given = json.dumps(list(args))
        return self._evaluate(f"new Promise((done) => (function () {{ {script} }})(...{given}, done))")

    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> Any:
        return self._chrome.devtools.call(cmd, cmd_args, self._session)

    def close(self) -> None:
        self._chrome.close_window(self.target)

    def _evaluate(self, expression: str) -> Any:
        try:
            reply = self._chrome.devtools.call(
                "Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True}, self._session, timeout=30)
        except Refused as refused:
            # The page went away under the question: a person navigates while we ask.
            raise Failure("browser", "the window went to another page", "", again=True) from refused
        return reply.get("result", {}).get("value")
