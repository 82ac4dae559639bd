"""Seats: windows of the suite's own Chrome, each with its gate, behind the Browser port.

A seat is opened on about:blank and armed before it first navigates; it is closed in one order only: gate shut, composer emptied, window
closed, gate detached, driver ended. A gate that lets go while the window lives could let a held request out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Clock, Gate, Page
from gptbridge.edge.chatgpt import ChatPage, selenium_reason
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.gate import Gate as ChromeGate

GONE_S = 3.0  # how long a closing window may take; the gate stays attached meanwhile


class ChromeSeat:
    page: Page
    gate: Gate

    def __init__(self, chrome: Chrome, target: str, site: str, clock: Clock) -> None:
        self._chrome, self._target = chrome, target
        self._gate = ChromeGate(chrome.url, target, site)
        try:
            self._driver: Any = chrome.driver(target)
        except BaseException:
            chrome.close_window(target)
            self._gate.detach()
            raise
        self.gate = self._gate
        self.page = ChatPage(self._driver, site, clock, explain=selenium_reason)

    def close(self) -> None:
        for act in (self._gate.shut, self.page.clear, lambda: self._chrome.close_window(self._target),
                    lambda: self._gate.gone(GONE_S), self._gate.detach, lambda: self._chrome.detach(self._driver)):
            try:
                act()
            except Failure:
                continue  # a window that is gone needs nothing more; the next step is tried in any case


class ChromeBrowser:
    """`chrome`: attaches or starts; called when the first window is needed. `attached`: the running one or None, starts nothing."""

    def __init__(self, chrome: Callable[[], Chrome], attached: Callable[[], Chrome | None], site: str, clock: Clock) -> None:
        self._ensure, self._attached, self._site, self._clock = chrome, attached, site, clock
        self._chrome: Chrome | None = None

    def seat(self) -> tuple[str, ChromeSeat]:
        chrome = self._chrome = self._chrome or self._ensure()
        chrome.warm_driver()
        window = chrome.new_window()
        return window, ChromeSeat(chrome, window, self._site, self._clock)

    def bury(self, window: str) -> None:
        chrome = self._chrome or self._attached()
        if chrome is None:
            return  # its Chrome is gone, and with it the page
        self._chrome = chrome
        if not any(target.get("targetId") == window for target in chrome.targets()):
            return
        seat = ChromeSeat(chrome, window, self._site, self._clock)
        try:
            seat.gate.arm()  # closed: whatever that page still wants to send is failed
        finally:
            seat.close()

    def leave(self, *, quit_started: bool) -> None:
        """Let go of Chrome. `quit_started`: a command that started it only to read closes it."""
        if self._chrome is None:
            return
        if quit_started and self._chrome.started:
            self._chrome.quit()
        else:
            self._chrome.close()
