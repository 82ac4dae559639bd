"""Sends in a real browser on the practice site, next to the page's own part.

    warm send    `ask-gpt send` while Chrome runs: from the start of the process until the send request arrives at the practice site
                 (its own clock, /practice/state). The page's own part is measured with a bare driver on the same Chrome, without
                 gate, ledger and locks: navigation until the page says that it is ready, paste until the send control is there,
                 click until arrival.
                 Overhead = the difference of the medians. The steps between come from the operation's history (`ops show --json`).
    cold send    the same with Chrome not running; `first` also in a new home, where the driver is copied.
    typing       50 kB in 1,600 lines through the suite's own page module, read back and compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from trial import Trial

from gptbridge.edge.chatgpt import ChatPage, selenium_reason
from gptbridge.edge.chrome import Chrome
from gptbridge.edge.config import load
from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.shell.wiring import HostClock, browser_settings

from .measure import RUNS, saying
from .table import Table

LONG = "\n".join(f"{n:04d} a line, and\tits words <b>!" for n in range(1600))

Numbers = dict[str, float]


def measure(table: Table, folder: Path) -> bool:
    """True when something of it may still run."""
    numbers: Numbers = {}
    with Trial(folder / "bench") as trial:
        with saying("the first send"):
            numbers["first_send_s"] = sent(trial)[0]
        with saying(f"{RUNS} warm sends"):
            numbers |= warm(trial)
        with chrome_of(trial) as chrome, saying("the page alone, and typing"):
            numbers |= bare(trial, chrome)
            numbers |= typing(trial, chrome)
        with saying("cold sends"):
            numbers["cold_send_s"] = statistics.median(cold(trial) for _ in range(min(RUNS, 3)))
    fill(table, numbers)
    return trial.left_behind


# Sends

def sent(trial: Trial, text: str = "How long does this take?") -> tuple[float, dict[str, Any]]:
    """(seconds from the start of the process until the request arrived, the document)."""
    began = time.time()
    document = trial.json("send", text)
    if document["exit_code"] != 0:
        raise SystemExit(f"a send failed: {document['error']}")
    return trial.state()["sends"][-1]["at"] - began, {**document, "began": began}


def cold(trial: Trial) -> float:
    trial.run("login", "--quit", "-q")
    return sent(trial)[0]


def warm(trial: Trial) -> Numbers:
    taken, steps = [], []
    for _ in range(RUNS):
        seconds, document = sent(trial)
        taken.append(seconds)
        history = trial.json("ops", "show", document["operation_id"])["operations"][0]["history"]
        steps.append(steps_of(document["began"], document["began"] + seconds, history))
    found = {f"step_{name}_s": statistics.median(step[name] for step in steps) for name in steps[0]}
    return {"warm_send_s": statistics.median(taken), "warm_send_min_s": min(taken), **found}


def steps_of(began: float, arrived: float, history: list[dict[str, Any]]) -> Numbers:
    """How long each step of a send took; the steps are named by what ends them."""
    ends, at = {}, began
    for entry in history:
        name = {"admitted": "admitted", "prepared": "page_ready", "one click is authorised": "typed_and_committed",
                "request held": "clicked_and_held"}.get(entry["reason"])
        if name is not None:
            moment = datetime.fromisoformat(entry["at"]).timestamp()
            ends[name], at = moment - at, moment
    ends["id_on_disk_and_released"] = arrived - at
    return ends


# The page alone

@contextmanager
def chrome_of(trial: Trial) -> Any:
    """The Chrome that the trial's commands started."""
    config = load(trial.env)
    host = Host(trial.env)
    home = open_home(trial.env, create=False, host=host)
    chrome = Chrome.attach(*browser_settings(config, home))
    assert chrome is not None, "Chrome does not run"
    try:
        yield chrome
    finally:
        chrome.close()
        home.close()


@contextmanager
def window(chrome: Chrome) -> Any:
    chrome.warm_driver()
    target = chrome.new_window()
    driver = chrome.driver(target)
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    try:
        yield driver
    finally:
        chrome.close_window(target)
        chrome.detach(driver)


def bare(trial: Trial, chrome: Chrome) -> Numbers:
    """The page's own time: no gate, no ledger, no locks, and no wait but for the page."""
    script = resources.files("gptbridge.edge").joinpath("chatgpt.js").read_text(encoding="utf-8")
    loads, pastes, clicks = [], [], []
    for _ in range(RUNS):
        with window(chrome) as driver:
            def call(name: str, *words: str, driver: Any = driver) -> Any:
                return driver.execute_async_script(script, name, *words)["value"]

            began = time.time()
            driver.execute_cdp_cmd("Page.navigate", {"url": trial.site + "/"})
            until(lambda call=call: ready(call))
            loaded = time.time()
            call("paste", "How long does this take?")
            until(lambda call=call: call("state")["sendable"])
            control = call("press")
            clicked, before = time.time(), len(trial.state()["sends"])
            control.click()
            until(lambda before=before: len(trial.state()["sends"]) > before)
            loads.append(loaded - began)
            pastes.append(clicked - loaded)
            clicks.append(trial.state()["sends"][-1]["at"] - clicked)
    parts = {"page_load_s": statistics.median(loads), "page_paste_s": statistics.median(pastes), "page_click_s": statistics.median(clicks)}
    return {**parts, "page_s": sum(parts.values())}


def ready(call: Callable[..., Any]) -> bool:
    from selenium.common.exceptions import WebDriverException

    try:
        state = call("state")
    except WebDriverException:  # the navigation took the page away under the script
        return False
    return bool(state["editor"] and state["ready"])


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit("the page did not get that far within 30 s")
        time.sleep(0.002)


def typing(trial: Trial, chrome: Chrome) -> Numbers:
    taken = []
    with window(chrome) as driver:
        page = ChatPage(driver, trial.site, HostClock(Host(trial.env)), explain=selenium_reason)
        page.open(None)
        for _ in range(RUNS):
            began = time.perf_counter()
            page.type(LONG)
            exact = page.facts().composer == LONG
            taken.append(time.perf_counter() - began)
            assert exact, "the composer does not hold the text"
            page.clear()
    return {"typing_s": statistics.median(taken), "typing_bytes": len(LONG.encode()), "typing_lines": LONG.count("\n") + 1}


# The table

def fill(table: Table, n: Numbers) -> None:
    page, sent_warm = n["page_s"], n["warm_send_s"]
    overhead = sent_warm - page
    parts = f"load {n['page_load_s']:.2f}, paste {n['page_paste_s']:.2f}, click {n['page_click_s']:.2f}"
    table.add("warm send, start of process to request at the site", sent_warm, "s", f"{sent_warm / page:.1f} x the page's own")
    table.add("  the page's own part (bare driver)", page, "s", parts)
    table.add("  overhead", overhead, "s", "", 0.4)
    for name in [name for name in n if name.startswith("step_")]:
        table.add("    until " + name.removeprefix("step_").removesuffix("_s").replace("_", " "), n[name], "s")
    table.add("cold send (Chrome not running)", n["cold_send_s"], "s", f"{n['cold_send_s'] / sent_warm:.1f} x warm")
    table.add("first send (new home, driver copied)", n["first_send_s"], "s", f"{n['first_send_s'] / sent_warm:.1f} x warm")
    table.add(f"typing {n['typing_bytes'] / 1000:.0f} kB in {n['typing_lines']:.0f} lines, read back", n["typing_s"], "s", "", 1.0)
