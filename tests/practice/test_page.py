"""The practice site's page in a real Chromium: its hooks, its typing, its sends, and every scenario that lives in the page."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from gptbridge.practice import samples
from gptbridge.practice.server import PracticeServer
from gptbridge.practice.world import FIRST, Conversation

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless=new", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
    "--window-size=1280,900",
)
SEND, STOP, VOICE = "[data-testid=send-button]", "[data-testid=stop-button]", "[data-testid=composer-speech-button]"
ANSWERED = "section[data-turn=assistant] [data-testid=copy-turn-action-button]"
PAGE = Path(samples.__file__).parent / "page"

PASTE = """
const editor = document.getElementById('prompt-textarea'); editor.focus();
const escape = (line) => line.replace(/[&<>]/g, (sign) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'})[sign]);
const lines = arguments[0].split('\\n').map((line) => '<p>' + escape(line) + '</p>').join('');
const data = new DataTransfer(); data.setData('text/html', '<div data-pm-slice="1 1 []">' + lines + '</div>');
const began = performance.now();
editor.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
return performance.now() - began;
"""
READ = """
return [...document.getElementById('prompt-textarea').children].map((block) => {
  let text = '';
  const walk = (node) => {
    if (node.nodeType === 3) text += node.data;
    else if (node.nodeName === 'BR') { if (!node.classList.contains('ProseMirror-trailingBreak')) text += '\\n'; }
    else node.childNodes.forEach(walk);
  };
  walk(block);
  return text;
}).join('\\n');
"""

EARLY = """
const watch = new MutationObserver(() => {
  const editor = document.getElementById('prompt-textarea');
  if (!editor) return;
  watch.disconnect();
  editor.textContent = 'too early';
  window.early = editor;
});
watch.observe(document, {childList: true, subtree: true});
"""


class Page:
    """One Chromium on one practice site."""

    def __init__(self, driver: webdriver.Chrome, site: PracticeServer) -> None:
        self.driver, self.site = driver, site

    def scenario(self, name: str, **parameters: Any) -> None:
        self.site.world.switches.start(name, parameters)

    def open(self, path: str = "/", **scenarios: dict[str, Any]) -> Page:
        for name, parameters in scenarios.items():
            self.scenario(name.replace("_", "-"), **parameters)
        self.driver.get(self.site.url + path)
        self.wait("[data-testid=blocking-initial-modals-done]")
        return self

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def until(self, what: Callable[[], Any], seconds: float = 10) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = what()
            except StaleElementReferenceException:
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    def wait(self, css: str, seconds: float = 10) -> WebElement:
        return self.until(lambda: self.all(css), seconds)[0]

    def gone(self, css: str, seconds: float = 10) -> None:
        self.until(lambda: not self.all(css), seconds)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def type(self, text: str) -> float:
        """Milliseconds that the editor took."""
        return self.js(PASTE, text)

    def text(self) -> str:
        return self.js(READ)

    def press(self) -> None:
        self.wait(SEND).click()

    def ask(self, text: str) -> None:
        self.type(text)
        self.press()

    def answered(self, turns: int = 1) -> None:
        self.until(lambda: not self.all(STOP) and len(self.all(ANSWERED)) >= turns, 20)

    @property
    def sends(self) -> list[dict[str, Any]]:
        return self.site.world.state()["sends"]

    def sent(self, count: int) -> list[dict[str, Any]]:
        # A send is on the record before its body is read.
        self.until(lambda: len(self.sends) >= count and all(send["message_id"] for send in self.sends))
        return self.sends

    def quiet(self, seconds: float = 0.5) -> None:
        """Looks that long, so that what must not happen had its time."""
        deadline, before = time.monotonic() + seconds, len(self.sends)
        while time.monotonic() < deadline:
            assert len(self.sends) == before, "another send arrived"
            time.sleep(0.05)

    def path(self) -> str:
        return self.js("return location.pathname")

    def real_url(self) -> str:
        """The conversation's id, once the address tells it."""
        return self.until(lambda: "/c/" in self.path() and ":" not in self.path() and self.path().rpartition("/")[2])


@pytest.fixture(scope="module")
def site() -> Iterator[PracticeServer]:
    with PracticeServer() as server:
        yield server


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    browser, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    assert browser and chromedriver, "needs chromium and chromedriver"
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield made
    made.quit()


@pytest.fixture
def page(driver: webdriver.Chrome, site: PracticeServer) -> Iterator[Page]:
    driver.get("about:blank")
    site.world.reset()
    driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": site.url, "storageTypes": "all"})
    yield Page(driver, site)


def stored(page: Page, turns: int, **more: Any) -> str:
    """A conversation of so many turns on the site; its id."""
    data = samples.conversation(turns, **more)
    page.site.world.conversations[data["conversation_id"]] = Conversation(data, FIRST.user_id)
    return data["conversation_id"]


# The composer


TEXTS = {
    "emoji": "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 e\u0301 é",
    "cjk": "日本語のテキスト、中文文本。한국어",
    "rtl": "שלום עולם, مرحبا بالعالم (abc) 123",
    "tabs and trailing spaces": "\tone\t\ttwo  \n    four  \n \n\t\n  double  inside  ",
    "blank lines at both ends": "\n\n\nmiddle\n\n\n\nend\n\n",
    "markup": "<b>not bold</b> &amp; &nbsp; <script>alert(1)</script> `x` **y** \\n",
    "unusual spaces": "a\u00a0b\u202fc\u2003d\u200be\u2028f",
    "200 lines": "\n".join(f"{'  ' * (i % 5)}line {i} {'' if i % 7 else '  '}" for i in range(200)),
    "one line of 20 kB": "word " * 4000,
    "a lone line feed in spaces": " \n ",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", TEXTS)
def test_pasted_slice_is_exact(page: Page, name: str) -> None:
    page.open().type(TEXTS[name])
    assert page.text() == TEXTS[name]


def test_fifty_kilobytes_in_a_second(page: Page) -> None:
    text = "\n".join(f"{'    ' * (i % 3)}{i:04d} " + "x" * 20 + (" " if i % 5 else "") for i in range(1600))
    assert len(text) > 49_000
    took = []
    for _ in range(3):  # the quickest counts: the machine may be busy with other things
        took.append(page.open().type(text))
        assert page.text() == text
        page.js("document.execCommand('selectAll'); document.execCommand('delete')")
    assert min(took) < 1000


def test_what_was_typed_is_what_arrives(page: Page) -> None:
    text = TEXTS["tabs and trailing spaces"] + "\n" + TEXTS["emoji"] + "\n\n" + TEXTS["rtl"] + "\n\n"
    page.open().ask(text)
    assert [send["text"] for send in page.sent(1)] == [text]
    page.answered()
    assert page.one("[data-message-author-role=user] .whitespace-pre-wrap").get_attribute("textContent") == text


def test_plain_paste_keeps_blank_lines(page: Page) -> None:
    page.open().js(
        "const data = new DataTransfer(); data.setData('text/plain', arguments[0]);"
        "const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});"
        "document.getElementById('prompt-textarea').dispatchEvent(event)",
        "a\r\n\r\n  b",
    )
    assert page.text() == "a\n\n  b"


def test_text_inserted_by_the_browser_is_exact(page: Page) -> None:
    text = "  a\n\n\tb  \n😀 c\n\n"
    page.open().one("#prompt-textarea").click()
    page.driver.execute_cdp_cmd("Input.insertText", {"text": text})
    assert page.text() == text
    page.js("document.execCommand('selectAll'); document.execCommand('delete')")
    page.until(lambda: page.text() == "" and page.all(VOICE))
    page.js("document.execCommand('insertText', false, arguments[0])", text)
    assert page.text() == text


def test_enter_sends_and_shift_enter_does_not(page: Page) -> None:
    editor = page.open().one("#prompt-textarea")
    editor.send_keys("one", Keys.SHIFT, Keys.ENTER)
    editor.send_keys(Keys.NULL)
    editor.send_keys("two")
    assert page.text() == "one\ntwo"
    assert len(page.all("#prompt-textarea > p")) == 2
    assert page.sends == []
    editor.send_keys(Keys.ENTER)
    assert [send["text"] for send in page.sent(1)] == ["one\ntwo"]
    page.answered()
    assert page.text() == ""


def test_the_composer_has_its_hooks(page: Page) -> None:
    page.open()
    editor = page.one("form[data-type=unified-composer] div#prompt-textarea.ProseMirror[contenteditable=true][role=textbox]")
    assert editor.get_attribute("aria-label") == "Chat with ChatGPT"
    assert page.one("#prompt-textarea > p.placeholder[data-placeholder] > br.ProseMirror-trailingBreak")
    assert not page.one("textarea[name=prompt-textarea]").is_displayed()
    first = page.one("input[type=file]")
    assert first.get_attribute("accept") == ""
    once = ("form input[type=file][multiple]", "#upload-photos[accept='image/*']", "#upload-camera[capture]", "button#composer-plus-btn")
    for css in once:
        assert len(page.all(css)) == 1, css
    assert not page.all("form #upload-photos, form #upload-camera")


def test_one_slot_is_voice_send_stop(page: Page) -> None:
    """Case 12."""
    page.open(slow_answer={"seconds": 20})
    assert page.all(VOICE) and not page.all(SEND) and not page.all(STOP)
    page.type("hello")
    assert page.all(SEND) and not page.all(VOICE)
    assert page.one("#composer-submit-button").get_attribute("data-testid") == "send-button"
    page.press()
    page.wait(STOP)
    assert not page.all(SEND)
    page.until(lambda: page.all(".result-streaming") and page.real_url())
    page.one(STOP).click()
    page.wait(VOICE)
    conversation = page.site.world.conversations[page.real_url()].data
    last = conversation["mapping"][conversation["current_node"]]["message"]
    assert last["metadata"]["finish_details"]["type"] == "interrupted"


def test_early_text_is_lost_once(page: Page) -> None:
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": EARLY})
    try:
        page.open()
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})
    assert page.js("return window.early === document.getElementById('prompt-textarea')")
    assert page.text() == ""
    page.type("in time")
    assert page.text() == "in time"


def test_drafts_live_through_a_reload_and_belong_to_their_conversation(page: Page) -> None:
    ident = stored(page, 1)
    page.open().type("a draft\n\nof two paragraphs")
    page.open()
    assert page.text() == "a draft\n\nof two paragraphs"
    page.open(f"/c/{ident}")
    page.wait(ANSWERED)
    assert page.text() == ""
    page.open().press()
    page.answered()
    page.open()
    assert page.text() == ""


# A send


def test_one_send_is_one_request_with_the_site_s_body(page: Page) -> None:
    page.open().js(
        "window.bodies = []; const real = fetch; window.fetch = (url, init) => { if (/conversation$/.test(url)) "
        "bodies.push([init.headers, init.body]); return real(url, init); }"
    )
    page.ask("one")
    page.answered()
    page.ask("two")
    page.answered(2)
    page.quiet()
    assert [(send["text"], send["copy_of"], send["answered"]) for send in page.sends] == [("one", None, 200), ("two", None, 200)]
    (headers, first), (_, second) = [(head, json.loads(body)) for head, body in page.js("return bodies")]
    assert headers["Authorization"].startswith("Bearer ") and headers["Chatgpt-Account-Id"]
    assert first["action"] == "next" and first["parent_message_id"] == "client-created-root" and "conversation_id" not in first
    assert first["messages"][0]["id"] == page.sends[0]["message_id"]
    assert first["messages"][0]["author"] == {"role": "user"}
    assert first["messages"][0]["content"] == {"content_type": "text", "parts": ["one"]}
    assert first["supported_encodings"] == ["v1"] and first["history_and_training_disabled"] is False
    assert {"model", "thinking_effort", "timezone_offset_min", "conversation_mode", "supports_buffering", "system_hints",
            "client_contextual_info"} <= set(first)
    conversation = page.site.world.conversations[page.real_url()].data
    node = conversation["mapping"][second["messages"][0]["id"]]
    assert second["conversation_id"] == conversation["conversation_id"]
    assert second["parent_message_id"] == node["parent"]
    assert conversation["mapping"][node["parent"]]["message"]["author"]["role"] == "assistant"


def test_address_is_provisional_first(page: Page) -> None:
    page.open(web_url={"seconds": 0.8}).ask("hello")
    page.until(lambda: page.path().startswith("/c/WEB:"))
    ident = page.real_url()
    assert ident in page.site.world.conversations
    page.answered()
    page.until(lambda: page.driver.title == page.site.world.conversations[ident].data["title"])
    row = f"#history a.__menu-item[href$='/c/{ident}'][data-active] .truncate[title]"
    page.until(lambda: page.one(row).get_attribute("title") == page.driver.title)
    assert page.all("[data-testid=history-item-0-options]")


def test_a_turn_has_the_skeleton(page: Page) -> None:
    page.open().ask("**hello**")
    page.answered()
    assert page.one("main#main > div#thread > div").get_attribute("data-turn-id-container") == "client-created-root"
    user, answer = page.all("#thread > div[data-turn-id-container] > section[data-turn-id][data-testid^=conversation-turn-]")
    assert (user.get_attribute("data-turn"), answer.get_attribute("data-turn")) == ("user", "assistant")
    assert (user.get_attribute("data-testid"), answer.get_attribute("data-testid")) == ("conversation-turn-1", "conversation-turn-2")
    assert user.get_attribute("data-turn-id") == page.sends[0]["message_id"]
    assert answer.get_attribute("data-turn-id").startswith("request-WEB:")
    assert page.one("[data-message-author-role=user]").get_attribute("data-message-id") == page.sends[0]["message_id"]
    message = page.one("[data-message-author-role=assistant][data-message-id][data-turn-start-message=true]")
    assert message.get_attribute("data-message-model-slug") == "gpt-5-5"
    assert message.find_element(By.CSS_SELECTOR, ".markdown.prose blockquote strong").text == "hello"
    assert not page.all(".result-streaming")
    for name in ("copy-turn", "good-response-turn", "bad-response-turn"):
        assert answer.find_elements(By.CSS_SELECTOR, f"[data-testid={name}-action-button]"), name
    for ident in ("page-header", "live-region-polite", "live-region-assertive", "thread-bottom-container", "stage-slideover-sidebar"):
        assert len(page.all("#" + ident)) == 1, ident
    for name in ("create-new-chat", "accounts-profile", "model-switcher-dropdown", "share-chat", "conversation-options"):
        assert len(page.all(f"[data-testid={name}-button]")) == 1, name


def test_markdown_is_shown_and_markup_is_not(page: Page) -> None:
    page.open().ask("practice:markdown")
    page.answered()
    body = ".markdown.prose "
    link = "a.decorated-link[href*='utm_source=chatgpt.com']"
    for css in ("h1", "table td[data-col-size]", "ol > li > ul", "code.language-python", "blockquote", link):
        assert page.all(body + css), css
    assert "<b>not bold</b>" in page.one(body + "code.language-python").text
    assert "\\( p = \\frac{a}{b} \\)" in page.one(".markdown.prose").text
    page.ask("practice:citations")
    page.answered(2)
    assert "Sample City has 123,456 inhabitants" in page.all(".markdown.prose")[1].text
    assert "\ue200" not in page.all(".markdown.prose")[1].text


def test_nothing_that_is_echoed_becomes_markup(page: Page) -> None:
    evil = "<img src=x onerror='window.struck=1'>\n\n[x](javascript:window.struck=1)\n\n<script>window.struck=1</script>"
    page.open().ask(evil)
    page.answered()
    assert page.js("return window.struck === undefined")
    assert not page.all("#thread img, #thread script, #thread a[href^=javascript]")
    assert page.one("[data-message-author-role=user] .whitespace-pre-wrap").get_attribute("textContent") == evil


def test_thinking_opens(page: Page) -> None:
    page.open(thinking={"seconds": 2}).ask("practice:think")
    page.wait("section[data-turn=assistant] button[aria-expanded] .loading-shimmer")
    assert not page.all(ANSWERED)
    page.answered()
    toggle = page.one("section[data-turn=assistant] button[aria-expanded=false]")
    assert toggle.text.startswith("Thought for")
    toggle.click()
    assert "I read the question twice" in page.wait(".thoughts").text
    assert len(page.all("section[data-turn=assistant] [data-message-author-role=assistant]")) == 2  # commentary, then the answer


def test_every_control_has_a_name(page: Page) -> None:
    page.open().ask("practice:think")
    page.answered()
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = [n for n in tree if n.get("role", {}).get("value") in ("button", "link", "textbox", "radio", "menuitem")]
    assert len(controls) > 15
    assert [n for n in controls if not n.get("name", {}).get("value")] == []


# Reading


def test_sixty_turns_are_virtual(page: Page) -> None:
    ident = stored(page, 30)
    page.open(f"/c/{ident}")
    page.wait(ANSWERED)
    mounted = "return document.querySelectorAll('#thread section[data-turn]').length"
    assert len(page.all("#thread > div[data-turn-id-container]")) == 61
    page.until(lambda: 4 <= page.js(mounted) <= 8)
    assert page.all("[data-testid=conversation-turn-60]")
    assert "--last-known-height" in page.one("#thread > div:nth-child(9)").get_attribute("style")
    most = 0
    for _ in range(80):
        page.js("document.getElementById('main').scrollBy(0, -500)")
        most = max(most, page.js(mounted))
        if page.js("return document.getElementById('main').scrollTop") == 0:
            break
    page.wait("[data-testid=conversation-turn-1]")
    assert 6 < most <= 14
    page.until(lambda: page.js(mounted) <= 8)
    assert not page.all("[data-testid=conversation-turn-60]")
    page.ask("one more")
    page.until(lambda: page.all("[data-testid=conversation-turn-62] [data-testid=copy-turn-action-button]"))
    assert page.js(mounted) <= 14


def test_a_thinking_conversation_reads_back(page: Page) -> None:
    ident = stored(page, 2, thinking=True, title="Thoughts")
    page.open(f"/c/{ident}")
    page.wait(ANSWERED)
    assert page.driver.title == "Thoughts"
    assert len(page.all("section[data-turn=assistant] button[aria-expanded]")) == 2


def test_a_conversation_that_is_not_there_leads_home(page: Page) -> None:
    page.driver.get(f"{page.site.url}/c/6a9ddcb5-37f8-83e9-8000-000000000000")
    toast = page.wait(".toast-root [role=alert]")
    assert toast.text == "Unable to load conversation 6a9ddcb5-37f8-83e9-8000-000000000000"
    page.until(lambda: page.path() == "/")


def test_a_page_opened_in_mid_answer_shows_the_end(page: Page) -> None:
    page.open(slow_answer={"seconds": 4}).ask("patience")
    ident = page.real_url()
    page.until(lambda: page.all("[data-message-author-role=assistant]"))
    page.open(f"/c/{ident}")
    page.wait(STOP)
    assert not page.all(ANSWERED)
    page.answered()
    assert "patience" in page.one(".markdown.prose blockquote").text


def test_a_broken_stream_is_followed_to_its_end(page: Page) -> None:
    page.open(connection_drops={"frames": 6}).ask("cut")
    page.answered()
    assert "cut" in page.one(".markdown.prose blockquote").text
    assert len(page.sends) == 1


def test_the_thread_shows_while_the_json_is_refused(page: Page) -> None:
    ident = stored(page, 1)
    page.open(f"/c/{ident}", json_refused={})
    page.wait(ANSWERED)


# What lives in the page


def test_swallow_click(page: Page) -> None:
    page.open(swallow_click={}).type("still here")
    page.press()
    page.quiet()
    assert page.text() == "still here" and page.path() == "/"


def test_page_retries(page: Page) -> None:
    page.open(page_retries={"times": 3}, send_502={}).ask("again")
    sends = page.sent(4)
    page.wait("[data-testid=regenerate-thread-error-button]")
    page.quiet()
    assert len(sends) == 4 and len({send["message_id"] for send in sends}) == 1
    assert [send["copy_of"] for send in sends] == [None, 0, 0, 0]


def test_a_502_is_not_posted_again_without_the_scenario(page: Page) -> None:
    page.open(send_502={}).ask("once")
    page.wait("[data-testid=regenerate-thread-error-button]")
    page.quiet()
    assert len(page.sends) == 1


def test_nervous_click(page: Page) -> None:
    page.open(nervous_click={}).ask("twice")
    page.sent(2)
    page.answered()
    page.quiet()
    assert len(page.sends) == 2 and len({send["message_id"] for send in page.sends}) == 2
    assert {send["text"] for send in page.sends} == {"twice"}


def test_truncate_composer(page: Page) -> None:
    page.open(truncate_composer={"at": 10}).type("12345\n7890123")
    assert page.text() == "12345\n7890"


def test_paste_becomes_file(page: Page) -> None:
    page.open(paste_becomes_file={"at": 100}).type("short")
    assert page.text() == "short"
    page.type("long " * 100)
    chip = page.wait("form [role=group][aria-label='Pasted text.txt'][data-state=ready]")
    assert page.text() == ""
    page.press()
    page.sent(1)
    page.answered()
    assert page.all("section[data-turn=user] [data-message-author-role=user] [role=group][aria-label='Pasted text.txt']")
    mapping = page.site.world.conversations[page.real_url()].data["mapping"]
    attachment = mapping[page.sends[0]["message_id"]]["message"]["metadata"]["attachments"][0]
    assert attachment["is_big_paste"] is True
    assert page.site.world.files[attachment["id"]].data == b"long " * 100
    assert not page.all("form [role=group]"), chip


def test_files_get_names_of_their_own_and_can_be_removed(page: Page, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "NOTES.md").write_text(folder)
        page.open() if folder == "a" else None
        page.one("form input[type=file]").send_keys(str(tmp_path / folder / "NOTES.md"))
        page.wait(f"form [role=group][aria-label='{'NOTES.md' if folder == 'a' else 'NOTES(1).md'}'][data-state=ready]")
    assert page.one(SEND).is_enabled()
    page.one("button[aria-label='Remove file 1: NOTES.md']").click()
    assert len(page.all("form [role=group]")) == 1


def test_upload_stalls(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    page.open(upload_stalls={}).one("form input[type=file]").send_keys(str(tmp_path / "a.txt"))
    page.wait("form [role=progressbar]")
    page.type("text")
    assert not page.one(SEND).is_enabled()


def test_upload_without_a_chip(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    page.open(upload_no_chip={}).one("form input[type=file]").send_keys(str(tmp_path / "a.txt"))
    page.until(lambda: page.all(SEND) and page.one(SEND).is_enabled())
    assert not page.all("form [role=group]")
    assert page.js("return document.querySelector('form input[type=file]').files[0].name") == "a.txt"


def test_draft(page: Page) -> None:
    page.open(draft={})
    assert page.text() == "an old draft"
    page.site.world.switches.end("draft")
    page.open()
    assert page.text() == ""


def test_wipes_early_text(page: Page) -> None:
    page.open(wipes_early_text={"seconds": 0.6}).type("gone soon")
    page.until(lambda: page.text() == "")
    page.type("stays")
    assert page.text() == "stays"


def test_work_mode(page: Page) -> None:
    page.open()
    chosen = "[role=radiogroup] button[role=radio][aria-checked=true]"
    assert page.one(chosen).text == "Chat"
    page.open(work_mode={})
    assert page.one(chosen).text == "Work"


@pytest.mark.parametrize("name", ["send-from-worker", "send-by-socket", "service-worker"])
def test_detours_of_a_send(page: Page, name: str) -> None:
    page.scenario(name)
    page.open()
    if name == "service-worker":
        assert page.js("return navigator.serviceWorker.controller !== null")
    page.js(
        "window.own = 0; const real = fetch;"
        "window.fetch = (url, init) => { if (/f\\/conversation$/.test(url)) own++; return real(url, init); }"
    )
    page.ask("around")
    page.answered()
    page.quiet()
    assert [(send["text"], send["answered"]) for send in page.sends] == [("around", 200)]
    assert page.js("return own") == (1 if name == "service-worker" else 0)
    assert "around" in page.one(".markdown.prose blockquote").text


def test_a_bypassed_service_worker_does_not_delay_the_page(page: Page) -> None:
    page.open(service_worker={})
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBypassServiceWorker", {"bypass": True})
    try:
        began = time.monotonic()
        page.open().ask("past it")
        page.sent(1)
        assert time.monotonic() - began < 4
    finally:
        page.driver.execute_cdp_cmd("Network.setBypassServiceWorker", {"bypass": False})
        page.driver.execute_cdp_cmd("Network.disable", {})


def test_service_worker_goes_with_its_scenario(page: Page) -> None:
    page.open(service_worker={})
    page.site.world.switches.end("service-worker")
    page.open()
    page.open()
    assert page.js("return navigator.serviceWorker.controller === null")


def test_send_by_beacon(page: Page) -> None:
    page.open(send_by_beacon={}).ask("no bearer")
    assert [send["text"] for send in page.sent(1)] == ["no bearer"]


def test_scenarios_are_read_again_before_a_send(page: Page) -> None:
    page.open()
    page.scenario("swallow-click")
    page.type("text")
    page.press()
    page.quiet()
    assert page.text() == "text"
    page.site.world.switches.end("swallow-click")
    page.press()
    page.sent(1)


def test_throttled(page: Page) -> None:
    page.open(throttled={})
    dialog = page.wait("[role=dialog][aria-modal=true]")
    assert "Too many requests" in dialog.text
    assert page.js("return document.elementFromPoint(innerWidth / 2, innerHeight - 20).closest('.fixed.inset-0.z-50') !== null")
    button = dialog.find_element(By.CSS_SELECTOR, "button")
    assert button.text == "Got it"
    button.click()
    page.gone("[role=dialog]")
    page.wait("[role=dialog]")


def test_failed_turn_and_retry(page: Page) -> None:
    page.open(failed_turn={}).ask("fail")
    button = page.wait("section[data-turn=assistant] [data-testid=regenerate-thread-error-button]")
    assert button.text == "Retry"
    assert "Something went wrong" in page.one(".text-token-text-error").text
    assert page.all("#thread-bottom-container[data-has-thread-error]") and not page.all(ANSWERED)
    page.quiet()
    page.site.world.switches.end("failed-turn")
    button.click()
    page.answered()
    assert not page.all("[data-testid=regenerate-thread-error-button]")
    assert len(page.sends) == 2


def test_failed_turn_still_shows_after_a_reload(page: Page) -> None:
    page.open(failed_turn={}).ask("fail")
    page.wait("[data-testid=regenerate-thread-error-button]")
    page.open("/c/" + page.real_url())
    page.wait("[data-testid=regenerate-thread-error-button]")


def test_the_words_of_controls_in_an_answer_are_no_controls(page: Page) -> None:
    page.open().ask("practice:controls")
    page.answered()
    assert not page.all("[data-testid=regenerate-thread-error-button], .text-token-text-error, [role=dialog]")


def test_stop_control_elsewhere(page: Page) -> None:
    page.open(stop_control_elsewhere={}).ask("hello")
    page.answered()
    assert page.all("section button[aria-label*='Stop']") and page.all("#page-header button[aria-label*='Stop']")
    assert not page.all(STOP)


def test_a_refusal_is_told(page: Page) -> None:
    page.open(site_429={}).ask("too much")
    page.wait("[data-testid=regenerate-thread-error-button]")
    assert "reached the limit" in page.one("section[data-turn=assistant]").text
    assert [send["answered"] for send in page.sends] == [429]


def test_rewritten_ids_are_taken_over(page: Page) -> None:
    page.open(rewrites_ids={}).ask("hello")
    page.answered()
    shown = page.one("[data-message-author-role=user]").get_attribute("data-message-id")
    assert shown != page.sends[0]["message_id"] and shown in page.site.world.conversations[page.real_url()].data["mapping"]


@pytest.mark.parametrize(
    ("path", "language", "placeholder"), [("/?hl=de", None, "Stelle irgendeine Frage"), ("/", "es", "Pregunta lo que quieras")]
)
def test_other_languages_keep_the_hooks(page: Page, path: str, language: str | None, placeholder: str) -> None:
    if language:
        page.scenario("localised", language=language)
    page.open(path)
    assert page.one("#prompt-textarea > p").get_attribute("data-placeholder") == placeholder
    page.ask("hallo")
    page.answered()
    assert page.one("section[data-turn=user] h4").get_attribute("textContent") in ("Du hast gesagt:", "Tú dijiste:")


def test_signed_out_and_in_again(page: Page) -> None:
    page.open(signed_out={})
    assert page.all("[data-testid=signup-button]") and not page.all("[data-testid=accounts-profile-button]")
    page.ask("as a guest")
    page.answered()
    assert [send["text"] for send in page.sends] == ["as a guest"]
    page.one("[data-testid=login-button]").click()
    page.until(lambda: page.path() == "/auth/login")
    page.one("#sign-in").click()
    page.until(lambda: page.path() == "/")
    page.wait("[data-testid=accounts-profile-button]")


def test_a_person_can_edit_regenerate_and_switch(page: Page) -> None:
    page.open().ask("first")
    page.answered()
    page.one("button[aria-label='Switch model']").click()
    page.wait("[role=menuitem]").click()
    page.sent(2)
    page.answered()
    assert page.wait("section[data-turn=assistant] .tabular-nums").text == "2/2"
    page.js("document.querySelector('button[aria-label=\"Edit message\"]').click()")
    field = page.wait(".edit-box textarea")
    field.clear()
    field.send_keys("second")
    page.all(".edit-box button")[1].click()
    page.sent(3)
    page.answered()
    assert page.wait("section[data-turn=user] .tabular-nums").text == "2/2"
    page.js("document.querySelector('button[aria-label=\"Previous response\"]').click()")
    page.until(lambda: page.one("[data-message-author-role=user]").text == "first")


# What is shipped


def test_the_lock_file_names_no_registry() -> None:
    lock = (PAGE / "package-lock.json").read_text()
    assert "resolved" not in lock and "registry" not in lock


def test_the_notice_names_every_bundled_editor_package() -> None:
    notice = (PAGE / "NOTICE").read_text()
    for name in ("model", "state", "view", "keymap", "commands", "history", "transform"):
        assert f"prosemirror-{name} " in notice
    assert "Permission is hereby granted" in notice
