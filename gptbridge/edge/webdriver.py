"""Secret: how a Selenium session is bound to a chromedriver and a Chrome that already run.

Guarantees: starts, fetches and stops nothing; Selenium's own connection, commands and exceptions. Not its `WebDriver` class: that loads
all of Selenium's BiDi, 0.2 s of processor time in every command that opens a window, for methods that nothing here calls.
Fails as Selenium does: `WebDriverException`, or what urllib3 raises where the driver is gone. Import it late: it costs 0.15 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.errorhandler import ErrorHandler

TIMEOUT_S = 60  # for one command of the driver


_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the WebDriver recommendation's key of a reference to an element


@dataclass(frozen=True)
class Element:
    """A reference that a script gave; may be given to another."""

    session: Session
    reference: str

    def click(self) -> None:
        self.session.run(Command.CLICK_ELEMENT, id=self.reference)

    def send_keys(self, text: str) -> None:
        """Of a file input: the paths of its files, a line each."""
        self.session.run(Command.SEND_KEYS_TO_ELEMENT, id=self.reference, text=text, value=list(text))


class Session:
    """A WebDriver session on one window at a time."""

    def __init__(self, connection: ChromiumRemoteConnection, options: Options) -> None:
        self._connection, self._errors = connection, ErrorHandler()
        self._id: dict[str, str] = {}
        self._id = {"sessionId": self.run(Command.NEW_SESSION, capabilities={"alwaysMatch": options.to_capabilities()})["sessionId"]}

    def switch_to_window(self, handle: str) -> None:
        self.run(Command.SWITCH_TO_WINDOW, handle=handle)

    def execute_async_script(self, script: str, *args: Any) -> Any:
        """What `script` gives to its last argument, which it calls. `args`: JSON, and elements."""
        return self.run(Command.W3C_EXECUTE_SCRIPT_ASYNC, script=script, args=_references(list(args)))

    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> Any:
        return self.run("executeCdpCommand", cmd=cmd, params=cmd_args)

    def close(self) -> None:
        """Lets go of the driver, which is told nothing."""
        self._connection.close()  # type: ignore[no-untyped-call]

    def run(self, command: str, **params: Any) -> Any:
        """One of Selenium's commands; the value of its answer."""
        response: dict[str, Any] = self._connection.execute(command, {**params, **self._id})  # type: ignore[no-untyped-call]
        self._errors.check_response(response)
        return self._elements(response["value"])

    def _elements(self, value: Any) -> Any:
        if isinstance(value, dict):
            return Element(self, value[_ELEMENT]) if _ELEMENT in value else {key: self._elements(one) for key, one in value.items()}
        return [self._elements(one) for one in value] if isinstance(value, list) else value


def _references(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _references(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_references(one) for one in value]
    return {_ELEMENT: value.reference} if isinstance(value, Element) else value


def attached(driver_port: int, debugger_address: str) -> Session:
    """A session on the chromedriver at `driver_port` for the Chrome at `debugger_address` (host:port)."""
    options = Options()
    options.debugger_address = debugger_address
    options.page_load_strategy = "none"
    options.unhandled_prompt_behavior = "ignore"
    config = ClientConfig(f"http://127.0.0.1:{driver_port}", keep_alive=True, timeout=TIMEOUT_S)
    return Session(ChromiumRemoteConnection(config.remote_server_addr, "goog", "chrome", ignore_proxy=True, client_config=config), options)
