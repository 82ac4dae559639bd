"""Seats: windows of the suite's own Chrome, each with its gate, behind the Browser port.

A seat is opened on about:blank, with its number behind it, and armed before it first navigates; it is closed in one order only: gate shut,
composer emptied, window closed, gate detached, driver and sentry ended. A gate that lets go while the window lives could let a held
request out.

The driver attaches in a thread of its own while the gate is armed and the page loads: its import and its session cost as much as the page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Clock, Gate, Page
from gptbridge.edge.chatgpt import ChatPage, selenium_reason
from gptbridge.edge.chatgpt_files import allowed
from gptbridge.edge.chrome import AGAIN, Chrome
from gptbridge.edge.downloads import Courier
from gptbridge.edge.gate import Gate as ChromeGate
from gptbridge.edge.sentry import Sentry

GONE_S = 3.0  # how long a closing window may take; the gate stays attached meanwhile


class Attaching:
    """A Selenium session on a window, as the page scripts use it; whoever uses it first waits for it. Navigation goes by the gate's own
    connection, so that the page loads while the driver attaches."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome
        self._named = threading.Event()
        self._target: str | None = None
        self._driver: Any = None
        self._error: BaseException | None = None
        self._navigate: Callable[[str], None] = lambda url: None
        self._lost: Callable[[], bool] = lambda: False
        chrome.warm_driver()
        self._thread = threading.Thread(target=self._attach, name="driver-attach", daemon=True)
        self._thread.start()

    def begin(self, target: str, navigate: Callable[[str], None], lost: Callable[[], bool]) -> None:
        """`lost`: whether Chrome is gone, as far as the window's own connection knows."""
        self._target, self._navigate, self._lost = target, navigate, lost
        self._named.set()

    def _attach(self) -> None:
        try:
            from gptbridge.edge import webdriver  # noqa: F401  (the import is the slow part; the window is opened meanwhile)

            self._named.wait()
            if self._target is not None:
                self._driver = self._chrome.driver(self._target)
        except BaseException as error:
            self._error = error

    def _session(self) -> Any:
        self._join()
        if self._error is not None:
            raise self._error
        return self._driver

    def _join(self) -> None:
        while self._thread.is_alive():
            self._thread.join(0.1)
            if self._lost():
                self._chrome.give_up_driver()

    def get(self, url: str) -> None:
        self._navigate(url)

    def execute_async_script(self, script: str, *args: Any) -> Any:
        return self._session().execute_async_script(script, *args)

    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> Any:
        return self._session().execute_cdp_cmd(cmd, cmd_args)

    def end(self) -> None:
        """Ends the driver's process and nothing else."""
        self._named.set()
        self._join()
        if self._driver is not None:
            self._chrome.detach(self._driver)


class ChromeSeat:
    page: Page
    gate: Gate

    def __init__(self, chrome: Chrome, target: str, site: str, clock: Clock, session: Attaching, sentry: Sentry | None, *,
                 left: bool = False) -> None:
        """left: a dead owner's window, of which nobody knows how far it came."""
        self._chrome, self._target = chrome, target
        self._session, self._sentry = session, sentry
        self._gate = ChromeGate(chrome.url, target, site, sentry)
        self._session.begin(target, self._gate.navigate, lambda: not self._gate.connected)
        self.gate = self._gate
        self._courier = Courier(chrome.url, lambda url: allowed(url, site))
        self.page = self._chat = ChatPage(self._session, site, clock, explain=selenium_reason, fetch=self._courier.fetch)
        self._chat.touched = left
        self._closed = False  # Chrome said that it closes, or that it is gone

    def close(self) -> bool:
        """A composer that nothing of ours was put into is left as it is: a draft in it is a person's, and the site keeps it for them."""
        empty = (self.page.clear,) if self._chat.touched else ()
        for act in (self._gate.shut, *empty, self._gate.still, self._close_window, lambda: self._gate.gone(GONE_S), self._gate.detach,
                    self._courier.close, self._session.end):
            try:
                act()
            except Failure:
                continue  # a window that is gone needs nothing more; the next step is tried in any case
        if self._sentry is not None:
            self._sentry.end()
        return self._closed

    def _close_window(self) -> None:
        self._chrome.close_window(self._target)
        self._closed = True


class ChromeBrowser:
    """`chrome`: attaches or starts; called when the first window is needed. `attached`: the running one or None, starts nothing. `runs`:
    whether its process is there."""

    def __init__(self, chrome: Callable[[], Chrome], attached: Callable[[], Chrome | None], site: str, clock: Clock, *,
                 runs: Callable[[], bool] = lambda: False) -> None:
        self._ensure, self._attached, self._runs, self._site, self._clock = chrome, attached, runs, site, clock
        self._chrome: Chrome | None = None

    def seat(self, number: int) -> tuple[str, ChromeSeat]:
        chrome = self._chrome = self._living() or self._ensure()
        session, sentry = Attaching(chrome), Sentry()
        try:
            window = chrome.new_window(blank(number))
        except BaseException:
            session.end()
            sentry.end()
            raise
        return window, ChromeSeat(chrome, window, self._site, self._clock, session, sentry)

    def bury(self, window: str) -> None:
        chrome = self._living() or self._attached()
        if chrome is None:
            if self._runs():
                raise _unburied("does not answer")
            return  # its Chrome is gone, and with it the page
        self._chrome = chrome
        if not any(target.get("targetId") == window for target in chrome.targets()):
            return
        # No sentry: should we die here too, the guard of the page's own process and the next command stand for it.
        seat = ChromeSeat(chrome, window, self._site, self._clock, Attaching(chrome), None, left=True)
        try:
            seat.gate.arm()  # closed: whatever that page still wants to send is failed
        finally:
            closed = seat.close()
        if not closed:
            raise _unburied("does not close it")

    def bury_blank(self, seats: Sequence[int]) -> None:
        chrome = self._living() or self._attached()
        if chrome is None:
            return
        self._chrome = chrome
        blanks = {blank(number) for number in seats}
        for target in chrome.targets():
            if target.get("url") in blanks:
                chrome.close_window(target["targetId"])

    def _living(self) -> Chrome | None:
        """The one that is used already; where it died meanwhile, the next one is started."""
        if self._chrome is not None and not self._chrome.lives:
            self._chrome.close()
            self._chrome = None
        return self._chrome

    def leave(self, *, quit_started: bool) -> None:
        """Let go of Chrome. `quit_started`: a command that started it only to read closes it."""
        if self._chrome is None:
            return
        if quit_started and self._chrome.started:
            self._chrome.quit()
        else:
            self._chrome.close()


def blank(seat: int) -> str:
    """What a window shows before it first navigates. A command killed before it has noted the window leaves one that tells its seat."""
    return f"about:blank#ask-gpt-seat-{seat}"


def _unburied(what: str) -> Failure:
    return Failure("browser", f"a command that died left a window open, and Chrome {what}; nothing was sent", AGAIN, again=True)
