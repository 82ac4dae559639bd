"""The practice page's second generation in a real Chromium: its hooks and none of the first one's, its rounds, its menus, its picker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.practice.test_page import TEXTS, Page, driver, page, site, stored

__all__ = ["driver", "page", "site"]
pytestmark = pytest.mark.browser

EDITOR = "form[data-chatgpt-composer] [data-composer-markdown][contenteditable=true][role=textbox]"
SEND, STOP = "form button[type=submit]", "form button[type=button]:has(svg path[d^='M4.5 5.75'])"
ANSWERED = "[data-turn-key] .actions:not(.actions-user)"
SCROLLER = "[data-app-action-timeline-scroll]"
MOUNTED = "return document.querySelectorAll('[data-turn-key]').length"
FIRST = ", ".join((
    "#prompt-textarea", "#thread", "#main", "#history", "#page-header", "#thread-bottom-container", "[data-message-author-role]",
    "[data-message-id]", "[data-turn]", "[data-turn-id]", "[data-turn-id-container]", ".markdown", ".result-streaming", "form[data-type]",
    "[data-testid^=conversation-turn]", "[data-testid=send-button]", "[data-testid=stop-button]", "nav a[href]", "[class*='file-tile']",
    "[data-testid=blocking-initial-modals-done]", ".text-token-text-error"))


class Second(Page):
    def open(self, path: str = "/", **scenarios: dict[str, object]) -> Second:
        self.scenario("gen2")
        for name, parameters in scenarios.items():
            self.scenario(name.replace("_", "-"), **parameters)
        self.driver.get(self.site.url + path)
        self.until(lambda: self.js("return !!(document.querySelector('[data-composer-markdown]') || {}).pmViewDesc"))
        return self

    def type(self, text: str) -> float:
        return float(self.js(
            "const editor = document.querySelector('[data-composer-markdown]'); editor.focus(); const data = new DataTransfer();"
            "data.setData('text/plain', arguments[0]);"
            "editor.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})); return 0", text))

    def press(self) -> None:
        self.wait(SEND).click()

    def answered(self, turns: int = 1) -> None:
        self.until(lambda: not self.all(STOP) and len(self.all(ANSWERED)) >= turns, 20)

    def bare(self) -> None:
        assert [node.get_attribute("outerHTML")[:200] for node in self.all(FIRST)] == []


@pytest.fixture
def second(page: Page) -> Second:
    return Second(page.driver, page.site)


def test_none_of_the_first_generations_names_is_left(second: Second, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    second.open()
    second.one("form input[type=file]:not([accept])").send_keys(str(tmp_path / "a.txt"))
    second.wait("[data-composer-attachments] [class~='group/composer-attachment']")
    second.gone("form [role=progressbar]")
    second.bare()
    second.ask("practice:markdown and a file")
    second.bare()
    second.answered()
    second.bare()
    second.open(failed_turn={}).ask("fail")
    second.wait("[data-turn-key] [role=alert]")
    second.bare()
    kept = {node.get_attribute("data-testid") for node in second.all("[data-testid]")}
    assert kept == {"app-shell-header-context-menu-surface", "thread-disclaimer"}


def test_the_slot_is_voice_send_stop_and_only_stop_is_a_square(second: Second) -> None:
    second.open(slow_answer={"seconds": 20})
    assert not second.all(SEND) and not second.all(STOP)
    second.type("hello there")
    assert second.one(SEND).get_attribute("aria-label") == "Send" and not second.all(STOP)
    second.press()
    assert second.wait(STOP).get_attribute("aria-label") == "Stop" and not second.all(SEND)
    assert second.one("[data-turn-key]").get_attribute("data-talvt-turn-state") == "in_progress"
    second.real_url()
    second.one(STOP).click()
    second.gone(STOP)
    assert second.one("[data-turn-key]").get_attribute("data-talvt-turn-state") == "complete"


def test_a_round_holds_a_prompt_and_its_answer(second: Second) -> None:
    second.open(web_url={"seconds": 1.0}).ask("first *words*\n\n  and more")
    second.wait("[data-turn-key=pending-chatgpt-submit]")
    second.answered()
    [send] = second.sends
    [around] = second.all(f"{SCROLLER} [data-thread-find-target=conversation] > [data-turn-key]")
    assert around.get_attribute("data-turn-key") == send["message_id"]
    user, answer = around.find_elements(By.CSS_SELECTOR, "[data-chatgpt-search-unit-key]")
    assert user.get_attribute("data-chatgpt-search-unit-key") == f"{send['message_id']}:0:user"
    assert user.get_attribute("data-chatgpt-search-message-ids") == f"{send['message_id']} {send['message_id']}"
    said = user.find_element(By.CSS_SELECTOR, "[data-user-message-bubble] .whitespace-pre-wrap")
    assert said.get_attribute("textContent") == send["text"]
    mapping = second.site.world.conversations[second.real_url()].data
    assert re.fullmatch(rf"{send['message_id']}:\d+:assistant", str(answer.get_attribute("data-chatgpt-search-unit-key")))
    assert str(answer.get_attribute("data-chatgpt-search-message-ids")).split()[-1] == mapping["current_node"]
    assert answer.find_elements(By.CSS_SELECTOR, "h4[data-conversation-role=assistant], [data-markdown-text-style=assistant-message]")


def test_thinking_and_an_answer_in_steps(second: Second) -> None:
    second.open().ask("practice:think")
    second.answered()
    header = second.one("[data-turn-key] [class~='group/activity-header']")
    assert header.get_attribute("aria-expanded") == "false" and header.text.startswith("Thought for")
    units = second.all("[data-chatgpt-search-unit-key$=':assistant']")
    assert len(units) == 2 and len(second.all("h4[data-conversation-role=assistant]")) == 1, "a commentary, then the answer"
    ids = [str(unit.get_attribute("data-chatgpt-search-message-ids")).split() for unit in units]
    assert len(ids[0]) > 1 and len({each[-1] for each in ids}) == 2, "what it is made of, and itself last"


def test_code_without_a_pre(second: Second) -> None:
    second.open().ask("practice:markdown")
    second.answered()
    block = second.one("[data-markdown-text-style] [data-markdown-copy=code-block]")
    assert not second.all("[data-markdown-text-style] pre")
    assert block.find_element(By.CSS_SELECTOR, "[data-markdown-copy=exclude] .truncate").text == "Python"
    assert block.find_element(By.CSS_SELECTOR, "code").get_attribute("textContent").startswith("def greet")
    assert second.one("span[data-markdown-copy=inline-code]").get_attribute("textContent") == "inline code"


def test_older_rounds_come_when_somebody_scrolls_up(second: Second) -> None:
    second.open(f"/c/{stored(second, 20)}")
    second.answered(6)
    assert second.js(MOUNTED) == 6 and second.js(f"return document.querySelector('{SCROLLER}').scrollTop") == 0
    assert second.js("return getComputedStyle(document.querySelector(arguments[0])).flexDirection", SCROLLER) == "column-reverse"
    oldest = second.js("return document.querySelector('[data-turn-key]').dataset.turnKey")
    for wanted in (12, 18, 20):
        second.js(f"document.querySelector('{SCROLLER}').scrollTop = -1e6")
        second.until(lambda wanted=wanted: second.js(MOUNTED) == wanted)
    keys = second.js("return [...document.querySelectorAll('[data-turn-key]')].map((node) => node.dataset.turnKey)")
    assert len(set(keys)) == 20 and keys[14] == oldest, "the oldest comes first"
    second.js(f"document.querySelector('{SCROLLER}').scrollTop = 0")
    second.until(lambda: second.js(MOUNTED) == 6)


def test_menus_open_when_the_pointer_goes_down(second: Second) -> None:
    second.open()
    plus = second.one("[data-composer-navigation-target=add-context]")
    second.js("arguments[0].click()", plus)
    assert not second.all("[role=menu]")
    plus.click()
    assert second.wait("[role=menuitem]") == second.driver.switch_to.active_element
    second.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    second.gone("[role=menu]")
    plus.send_keys(Keys.ENTER)
    second.wait("[role=menuitem]")


def test_model_and_effort_by_the_composers_own_picker(second: Second) -> None:
    second.open(localised={"language": "de"}).js(
        "window.bodies = []; const real = fetch;"
        "window.fetch = (url, init) => { if (/f\\/conversation$/.test(url)) bodies.push(init.body); "
        "return real(url, init); }")
    trigger = second.one("form [data-codex-intelligence-trigger][aria-haspopup=menu]")
    trigger.click()
    second.wait("[data-model-picker-view=simple] [data-model-picker-view-toggle]").click()
    assert not second.one("[data-model-picker-view=simple]").is_displayed()
    second.all("[data-model-picker-view=advanced] [role=menuitemradio]")[1].click()
    second.gone("[role=menu]")
    trigger.click()
    second.wait("[data-reasoning-slider]").send_keys(Keys.ARROW_RIGHT)
    slider = second.one("[data-reasoning-slider] [role=slider]")
    assert (slider.get_attribute("aria-valuenow"), slider.get_attribute("aria-valuemax")) == ("1", "1")
    second.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    second.gone("[role=menu]")
    assert "Erweitert" in trigger.text and trigger.get_attribute("data-selected-reasoning-effort") == "extended"
    second.ask("think of it")
    second.answered()
    body = json.loads(second.js("return bodies[0]"))
    assert (body["model"], body["thinking_effort"]) == ("gpt-5-5-thinking", "extended")


def test_the_sidebar_has_rows_instead_of_links(second: Second) -> None:
    ident = stored(second, 1, title="A talk")
    second.open()
    row = second.wait(f"[data-sidebar-chatgpt-conversation-key='chatgpt:conversation:{ident}']")
    assert row.find_element(By.CSS_SELECTOR, "[data-thread-title]").text == "A talk"
    row.click()
    second.until(lambda: second.path() == f"/c/{ident}")
    second.answered()
    assert second.one(f"[data-sidebar-chatgpt-conversation-key$='{ident}'][aria-current=page]")


def test_work_mode_has_another_composer(second: Second) -> None:
    second.open(work_mode={})
    assert not second.all(EDITOR) and second.all("form[data-thread-find-composer] [data-composer-markdown]")
    second.all("[role=tablist] [role=tab]")[0].click()
    second.wait(EDITOR)


@pytest.mark.parametrize("language", ["de", "es"])
def test_other_languages_keep_the_hooks(second: Second, language: str) -> None:
    second.open(localised={"language": language}, slow_answer={"seconds": 20})
    assert second.one(EDITOR).get_attribute("aria-label") in ("ChatGPT fragen", "Pregunta a ChatGPT")
    second.ask("hallo hola")
    assert second.wait(STOP).get_attribute("aria-label") in ("Anhalten", "Detener")
    second.one(STOP).click()
    second.gone(STOP)


def test_every_control_has_a_name(second: Second) -> None:
    second.open().ask("practice:think")
    second.answered()
    tree = second.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = [n for n in tree if n.get("role", {}).get("value") in ("button", "link", "textbox", "tab", "menuitem")]
    assert len(controls) > 15 and [n for n in controls if not n.get("name", {}).get("value")] == []


def test_what_was_typed_is_what_arrives(second: Second) -> None:
    text = TEXTS["tabs and trailing spaces"] + "\n" + TEXTS["emoji"] + "\n\n" + TEXTS["rtl"] + "\n\n"
    second.open().ask(text)
    assert [send["text"] for send in second.sent(1)] == [text]


def test_a_page_of_neither_generation(page: Page) -> None:
    page.scenario("mobile-page")
    page.driver.get(page.site.url)
    page.wait("textarea#mobile-composer-prompt")
    assert not page.all("[contenteditable=true], #prompt-textarea, [data-composer-markdown]")
