"""`login`: a window for a person to sign in by hand, and `login --quit`, which closes the suite's own Chrome and nothing else.

Nothing is typed or pressed here. The wait ends when the site's session endpoint names a user, when the window is closed, or with Ctrl-C.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from gptbridge.core.errors import Failure
from gptbridge.core.ports import Session
from gptbridge.core.result import Outcome
from gptbridge.edge.chatgpt import ChatPage, selenium_reason
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.config import Config, is_loopback, load
from gptbridge.edge.files import replace
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.plain_window import PlainWindow
from gptbridge.shell.ending import report
from gptbridge.shell.job import Output
from gptbridge.shell.terminal import Terminal
from gptbridge.shell.wiring import HostClock, browser_settings

POLL_S = 1.0


def run(quit: bool, output: Output, *, env: Mapping[str, str] | None = None) -> int:
    """The exit code; 0 when somebody is signed in (or Chrome is closed), 12 when the window was closed before, 16 without a browser."""
    env = dict(os.environ) if env is None else env
    outcome = Outcome("login")
    try:
        # To close it nobody needs a site or a gap that would do for a send.
        config = load({name: value for name, value in env.items() if not quit or name not in ("ASKGPT_SITE", "ASKGPT_DISPATCH_GAP")})
        if quit:
            _quit(env, config, Terminal(quiet=output.quiet))
        else:
            session = _sign_in(env, config, Terminal(quiet=output.quiet))
            outcome.extra = {"account": session.account}
    except Failure as failure:
        outcome = Outcome("login", failure.slug, failure)
    except KeyboardInterrupt:
        outcome = Outcome("login", "interrupted", Failure("interrupted", "stopped waiting; the window stays open", "ask-gpt login"))
    return report(outcome, output, answer=False)


def _sign_in(env: Mapping[str, str], config: Config, terminal: Terminal) -> Session:
    host = Host(env)
    home = open_home(env, create=True, host=host)
    assert home.locks is not None
    home.locks.purpose = "ask-gpt login"
    settings, folder = browser_settings(config, home)
    start = home.locks.lock("chrome")
    chrome = Chrome.ensure(settings, folder, lock_start=lambda: start.hold(90.0),
                           write=lambda name, data: replace(home.disk, home.need("browser"), name, data), warn=terminal.note)
    try:
        window = PlainWindow(chrome, config.settings.site + "/")
        page = ChatPage(window, config.settings.site, HostClock(host), explain=selenium_reason)
        session = _wait(chrome, window, page, config, terminal)
        terminal.note(f"signed in as {session.account}")
        window.close()
        return session
    finally:
        chrome.close()


def _wait(chrome: Chrome, window: PlainWindow, page: ChatPage, config: Config, terminal: Terminal) -> Session:
    said = False
    while True:
        try:
            if window.location() == config.settings.site:
                return page.session()
        except Failure as failure:
            if failure.slug not in ("needs-human", "rate-limited") and not failure.again:
                raise
        if not window.is_open():
            raise Failure("needs-human", "the window was closed before anybody was signed in", "ask-gpt login")
        if chrome.running.headless and not is_loopback(config.settings.site):
            window.close()
            raise Failure("browser", "Chrome runs without a window, so nobody can sign in there",
                          "ask-gpt login --quit, then ask-gpt login without ASKGPT_HEADLESS")
        if not said:
            said = True
            terminal.note(f"sign in by hand in the window that shows {config.settings.site}; waiting (Ctrl-C stops waiting)")
        time.sleep(POLL_S)


def _quit(env: Mapping[str, str], config: Config, terminal: Terminal) -> None:
    home = open_home(env, create=False)
    chrome = None
    if home.exists:
        settings, folder = browser_settings(config, home)
        chrome = Chrome.attach(settings, folder)
    if chrome is None:
        terminal.note("the suite's own Chrome does not run")
        return
    chrome.quit()
    terminal.note("closed the suite's own Chrome")
