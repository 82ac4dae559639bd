"""Secret: how a Selenium driver is bound to a chromedriver and a Chrome that already run.

Guarantees: Selenium starts, fetches and stops nothing. Importing this module costs Selenium's 0.2 s; import it late.
"""

from __future__ import annotations

from typing import Any

from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.file_detector import UselessFileDetector
from selenium.webdriver.remote.webdriver import WebDriver as Remote


class Attached(WebDriver):
    """A `webdriver.Chrome` without a service of its own: `quit` ends the WebDriver session, never Chrome or the driver's process."""

    service: Any = None

    def __init__(self, executor: ChromiumRemoteConnection, options: Options) -> None:
        self.options = options
        Remote.__init__(self, command_executor=executor, options=options)
        self.file_detector = UselessFileDetector()  # Chrome is on this machine: a path is a path, and needs no upload to a remote end

    def quit(self) -> None:
        Remote.quit(self)


def attached(driver_port: int, debugger_address: str) -> WebDriver:
    """A driver session on the chromedriver at `driver_port` for the Chrome at `debugger_address` (host:port)."""
    options = Options()
    options.debugger_address = debugger_address
    options.page_load_strategy = "none"
    options.unhandled_prompt_behavior = "ignore"
    url = f"http://127.0.0.1:{driver_port}"
    config = ClientConfig(url, keep_alive=True, timeout=60)
    executor = ChromiumRemoteConnection(remote_server_addr=url, browser_name="chrome", vendor_prefix="goog", keep_alive=True,
                                        ignore_proxy=True, client_config=config)
    return Attached(executor, options)
