"""Everything known about the site's page and endpoints: the Page port on a Selenium session. The only home of selectors (chatgpt.js).

Guarantees: nothing is pressed but by `press`, once; typed text is read back by blocks, never by looks; a 404 means "not yours or not
signed in" until the session was proved; nothing is solved, dodged or retried. Identity and text come from JSON, the DOM is for the
composer and for the page's refusals. The token stays in the page. Fails towards refusal: what is not recognised is `site-changed`.

Sources: public captures and endpoint notes up to 2026-10; each hook in chatgpt.js carries its date and source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import resources
from typing import Any, Protocol

from gptbridge.core.artifacts import Artifact
from gptbridge.core.conversation import check
from gptbridge.core.errors import Failure
from gptbridge.core.operation import is_conversation_id
from gptbridge.core.ports import Body, Clock, Files, Hooks, Link, PageFacts, Rendered, RenderedTurn, Session, Unavailable, Unread
from gptbridge.edge import chatgpt_files, chatgpt_picker, outline

LOAD_S = 30.0
COVER_S = 1.5  # how long something may lie over the page while it comes up
BARE_S = 3.0  # a page that is there without an editor is asked why after this long
SETTLE_S = 1.0  # an editor without the ready marker counts as hydrated after this long
SEND_CONTROL_S = 5.0
CLEAR_S = 1.0  # for chips to go
POLL_S = 0.05
Fetch = Callable[[Link], AbstractContextManager[Body]]
LARGE = 4000  # code points; above it only pasting is quick enough

MODELS = "/backend-api/models"  # 2023 .. 2026-10: slugs, titles, efforts in order (see chatgpt_picker)


class WebSession(Protocol):
    """What is used of a Selenium driver; a fake session answers by the name in `args[0]`."""

    def get(self, url: str) -> None: ...
    def execute_async_script(self, script: str, *args: Any) -> Any: ...
    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> Any: ...


def no_fetch(link: Link) -> AbstractContextManager[Body]:
    raise Unavailable("this window fetches no files")


class ChatPage:
    """One window on the site. `site` is an origin; `fetch` opens a file's link with what Chrome knows.

    `explain` turns any exception of the driver into a short text, or None if foreign.
    """

    def __init__(self, session: WebSession, site: str, clock: Clock, *, explain: Callable[[BaseException], str | None],
                 fetch: Fetch = no_fetch) -> None:
        self._session, self._site, self._clock, self._explain = session, site, clock, explain
        self.fetch = fetch
        self.touched = False  # whether anything in the composer may be of our making
        self._script = resources.files("gptbridge.edge").joinpath("chatgpt.js").read_text(encoding="utf-8")

    # Opening and looking

    def open(self, conversation_id: str | None) -> None:
        self._driver(lambda: self._session.get(self._site + (f"/c/{conversation_id}" if conversation_id else "/")))
        # A window that is not in front swallows trusted clicks and throttles its timers (seen 2026-07).
        self._driver(lambda: self._session.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True}))
        until, editor_since, bare_since = self._now() + LOAD_S, None, None
        while True:
            state = self._state_while_loading()
            if state is not None:
                self._refusals(state, lasting=False)
                now = self._now()
                if not state["editor"]:
                    editor_since = None
                elif editor_since is None:
                    editor_since = now
                hydrated = editor_since is not None and (state["ready"] or now - editor_since > SETTLE_S)
                if hydrated and self._settled(state, conversation_id):
                    return
                if state["editor"] or state["loaded"] != "complete":
                    bare_since = None
                elif bare_since is None:
                    bare_since = now
                elif now - bare_since > BARE_S:
                    self._refusals(state)
                    self.session()  # a page without a composer is most often somebody's who is not signed in
                    if state["ready"] or state["strange"]:
                        raise self._not_loaded(state, conversation_id)
                    bare_since = until
            if self._now() > until:
                raise self._not_loaded(state, conversation_id)
            self._clock.sleep(POLL_S)

    def _settled(self, state: dict[str, Any], conversation_id: str | None) -> bool:
        if conversation_id is None:
            return True
        if state["named"] is None and state["loaded"] == "complete":
            self.session()
            raise Failure("unknown-conversation",
                          f"the site does not open conversation {conversation_id} for this account; nothing was sent",
                          "open it in a browser: it may be deleted, or belong to another account or workspace")
        return bool(state["named"] == conversation_id and state["turns"] > 0)

    def _not_loaded(self, state: dict[str, Any] | None, conversation_id: str | None) -> Failure:
        if state is not None and state["login"]:
            return signed_out()
        if state is not None and state["editor"] and conversation_id is not None:
            return Failure("site-changed",
                           f"conversation {conversation_id} opened, but none of its turns was found on the page; nothing was sent",
                           "ask-gpt may need an update for the site")
        if state is not None and state["loaded"] == "complete" and not state["editor"]:
            return Failure("site-changed", "the page loaded, but no composer was found on it; nothing was sent",
                           "look at the page: ask-gpt login")
        return Failure("browser", f"the page did not load within {LOAD_S:.0f} s; nothing was sent", "check the network", again=True)

    def _refusals(self, state: dict[str, Any], *, lasting: bool = True) -> None:
        """The page's ways to say no, by structure; nothing on it is pressed. By its words and its title alone only where it shows neither
        editor nor turn, and `lasting`: a page that still loads has a conversation's title before it has either."""
        if state["challenge"] or (lasting and state["barred"] == "challenge"):
            raise challenged()
        if lasting and state["barred"] == "locked":
            raise Failure("needs-human", "the site says that it has seen suspicious activity, and keeps this account out; nothing was sent "
                          "and nothing was pressed", "do what the site asks there: ask-gpt login")
        if state["throttled"]:
            raise Failure("rate-limited", "the page says: Too many requests; nothing was sent", "wait some minutes, then run this again")

    def asks(self) -> bool:
        state = self._call("state")
        return bool(state["covered"] and state["dialog"])

    def facts(self) -> PageFacts:
        state = self._call("state")
        self._refusals(state)
        until = self._now() + COVER_S
        while state["covered"] and self._now() < until:
            self._clock.sleep(POLL_S)
            state = self._call("state")
            self._refusals(state)
        named = state["named"]
        known = named.lower() if named and is_conversation_id(named.lower()) else None
        return PageFacts(known, state["text"], state["chips"], state["newest"], state["generating"], "work" if state["work"] else "chat",
                         state["temporary"], state["tools"], state["covered"], state["choice"], state["toast"][0] if state["toast"] else "")

    def hooks(self) -> Hooks:
        found = self._call("hooks")
        selectors = {str(name): str(selector) for name, selector in found["selectors"].items()}
        return Hooks(int(found["generation"]), {str(name): int(count) for name, count in found["found"].items()},
                     {name: selectors[name] for name in found["missing"]}, {name: selectors[name] for name in found["lacking"]})

    def outline(self) -> dict[str, Any]:
        found, state = self._call("hooks"), self._call("state")
        script, words = outline.script(), ", ".join(found["words"])
        raw = self._driver(lambda: self._session.execute_async_script(script, words, found["told"], outline.MOST))
        facts = {name: value for name, value in state.items() if isinstance(value, bool | int)}
        lengths = {name: len(value) for name, value in state.items() if isinstance(value, str | list)}
        return {"generation": found["generation"], "hooks": found["found"], "missing": found["missing"], "facts": facts, "lengths": lengths,
                "path": re.sub(r"[^/]{6,}", "*", str(state["path"])),
                "outline": outline.reduced(raw.get("value") if isinstance(raw, dict) else None, found["told"])}

    # The JSON that the page itself reads

    def session(self) -> Session:
        found = self._call("session")
        if found["challenge"] or found["status"] in (401, 403):
            raise challenged() if found["challenge"] else signed_out()
        if found["status"] == 429:
            raise Failure("rate-limited", "the site refuses to say who is signed in (HTTP 429); nothing was sent", "wait some minutes")
        if found["status"] != 200:
            raise Failure("browser", f"the site does not say who is signed in (HTTP {found['status']}); nothing was sent", "try again",
                          again=True)
        if not isinstance(found["user"], str) or not found["user"]:
            raise signed_out()
        return Session(found["user"], found["account"] if isinstance(found["account"], str) else None)

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        document = self._json(f"/backend-api/conversation/{conversation_id}", f"conversation {conversation_id}")
        try:
            check(document, conversation_id)
        except ValueError as error:
            raise Unread("site-changed", f"the site's account of conversation {conversation_id} is not understood ({error})",
                         "ask-gpt may need an update") from None
        return document

    def rendered(self) -> Rendered:
        from gptbridge.edge.markdown import markdown_of  # a converter of 20 MB that only this needs

        found = self._call("rendered")
        self._refusals(found["state"])
        turns: list[RenderedTurn] = []
        missing, follows = 0, False
        for place in found["places"]:
            if not place["messages"] and not place["shown"]:
                missing, follows = missing + 1, False  # not in the page now: what follows need not be the answer to what was before
                continue
            for message in place["messages"]:
                if message["role"] == "user":
                    turns.append(RenderedTurn(message["id"], message["text"] or markdown_of(message["html"]), None))
                    follows = True
                elif follows:
                    said = [text for text in (turns[-1].answer, markdown_of(message["html"])) if text]
                    turns[-1] = replace(turns[-1], answer="\n\n".join(said) if said else None)
                else:
                    missing += 1
            if place["thought"] and follows:
                turns[-1] = replace(turns[-1], thought=True)
        return Rendered(tuple(turns), missing, bool(found["state"]["generating"]), bool(found["failed"]))

    def listing(self, offset: int, limit: int) -> dict[str, Any]:
        return self._json(f"/backend-api/conversations?offset={int(offset)}&limit={int(limit)}&order=updated", "the list of conversations")

    def _json(self, path: str, what: str) -> dict[str, Any]:
        reply = self._call("read", path)
        status = reply["status"]
        if status == 200 and reply["json"]:
            try:
                document = json.loads(reply["text"])
            except (ValueError, RecursionError):
                document = None
            if isinstance(document, dict):
                return document
        if status == 404:
            self.session()  # without a live session a 404 says nothing about the conversation
            raise Failure("unknown-conversation", f"the site does not give {what} to this account",
                          "it may be deleted, or belong to another account or workspace")
        if status == 429:
            raise Failure("rate-limited", f"the site refuses to give {what} now (HTTP 429)", f"{_wait(reply)}, then run this again")
        if status in (401, 403):
            if not reply["json"]:
                raise challenged()
            self.session()  # signed out is another thing than refused
            raise Unread("needs-human", f"the site refuses {what} (HTTP {status})", "ask-gpt login")
        if status >= 500:
            raise Unread("browser", f"the site failed to give {what} (HTTP {status})", "try again", again=True)
        raise Unread("site-changed", f"the site's answer for {what} is not understood (HTTP {status})", "ask-gpt may need an update")

    # What the model made

    def link(self, conversation_id: str, artifact: Artifact) -> Link:
        return chatgpt_files.link(lambda path: self._call("read", path), self._clock.sleep, self._site, conversation_id, artifact)

    def documents(self, conversation_id: str) -> dict[str, tuple[str, str]]:
        return chatgpt_files.documents(lambda path: self._call("read", path), conversation_id)

    # Model and effort

    def choose(self, model: str | None, effort: str | None) -> None:
        chatgpt_picker.choose(_Hands(self), model, effort)

    # The composer

    def type(self, text: str) -> None:
        """By pastes; where they do not keep a short text, by inserting it. Nothing here can send: the text holds no key presses."""
        self.touched = True
        chips = self._call("state")["chips"]
        self._call("paste", text)
        state = self._call("state")
        if state["text"] != text and len(text) <= LARGE and (not chips or state["chips"] == chips):
            self.untype() if chips else self.clear()
            self._call("insert", text)
        if self._call("state")["text"] != text:
            return  # the caller compares, and refuses
        until = self._now() + SEND_CONTROL_S
        while not self._call("state")["sendable"]:
            if self._now() > until:
                raise self._unsendable()
            self._clock.sleep(POLL_S)

    def _unsendable(self) -> Failure:
        """A control that is there and off, with a notice on the page: a limit of the account, in whatever language."""
        state = self._call("state")
        said = " ".join(" ".join(state["toast"]).split())[:200]
        if state["heldBack"] and said:
            return Failure("rate-limited", f"the page does not let the text be sent and says: {said} Nothing was sent",
                           "wait until it allows that again, or look at the page: ask-gpt login")
        return Failure("site-changed", "the page offers no way to send the text; nothing was sent", "look at the page: ask-gpt login")

    def clear(self) -> None:
        self._call("clear")
        state, until = self._call("state"), self._now() + CLEAR_S
        while (state["text"] or state["chips"]) and self._now() < until:
            self._clock.sleep(POLL_S)
            state = self._call("state")
        if state["text"] or state["chips"]:
            raise Failure("site-changed", "the composer could not be emptied; nothing was sent", "empty it by hand")

    def untype(self) -> None:
        self._call("untype")
        if self._call("state")["text"]:
            raise Failure("site-changed", "the composer could not be emptied of its text; nothing was sent", "empty it by hand")

    def attach(self, paths: Sequence[str], *, images: bool) -> None:
        """By the page's own file input, as a person's choice of files would; no drop, no key, no click."""
        self.touched = True
        control = self._call("input", images, len(paths) > 1)
        if control is None:
            raise Failure("site-changed", "the page has no input that takes these files; nothing was sent",
                          "look at the page: ask-gpt login")
        if any("\n" in path for path in paths):
            raise Failure("bad-config", "the home's path holds a line break, which the browser's driver cannot take; nothing was sent",
                          "set ASKGPT_HOME to another folder")
        self._driver(lambda: control.send_keys("\n".join(paths)))

    def files(self) -> Files:
        found = self._call("files")
        return Files(found["chips"], tuple(found["labels"]), found["inputs"], found["busy"], found["failed"], found["sendable"],
                     found["notice"])

    def press(self) -> None:
        control = self._call("press")
        if control is None:
            raise Failure("site-changed", "the send control is gone")
        self._driver(control.click)

    def stop(self) -> bool:
        control = self._call("halt")
        if control is None:
            return False
        self._driver(control.click)
        return True

    # The driver

    def _state_while_loading(self) -> dict[str, Any] | None:
        """None while a navigation takes the page away under the script."""
        try:
            state: dict[str, Any] = self._call("state")
        except Failure as failure:
            if not failure.again:
                raise
            return None
        return state

    def _call(self, name: str, *args: Any) -> Any:
        reply = self._driver(lambda: self._session.execute_async_script(self._script, name, *args))
        if not isinstance(reply, dict) or "error" in reply:
            reason = reply.get("error") if isinstance(reply, dict) else None
            if reason == "TypeError" and name in ("session", "read"):
                raise Failure("browser", "the site cannot be reached from the page", "check the network", again=True)
            raise Failure("site-changed", f"the page does not work as known ({name}: {reason})", "look at the page: ask-gpt login")
        return reply.get("value")

    def _driver(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception as error:
            reason = self._explain(error)
            if reason is None:
                raise
            raise Failure("browser", f"the browser does not answer ({reason})", "run it again", again=True) from error

    def _now(self) -> float:
        return self._clock.now().boottime


class _Hands:
    """The picker's `Hands` in one window: a person's clicks and keys, by the driver."""

    def __init__(self, page: ChatPage) -> None:
        self._page = page

    def look(self) -> dict[str, Any]:
        return dict(self._page._call("picker"))

    def press(self, element: Any) -> None:
        try:
            self._page._driver(element.click)
        except Failure:
            self._page._call("state")  # the page lives: then it is the control that cannot be pressed, and no fresh page will mend it
            raise Failure("site-changed", "a control of the page's picker cannot be pressed; nothing was sent",
                          chatgpt_picker.LOOK_AT_PAGE) from None

    def point(self, at: Sequence[float]) -> None:
        self._command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": at[0], "y": at[1]})

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._command("Input.dispatchKeyEvent", {"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": _KEYS[name]})

    def focus(self, element: Any) -> None:
        if not self._page._call("focus", element):
            raise Failure("site-changed", "the page's slider of efforts takes no keys; nothing was sent", chatgpt_picker.LOOK_AT_PAGE)

    def models(self) -> dict[str, Any]:
        try:
            return self._page._json(MODELS, "the list of models")
        except Failure as failure:
            if failure.slug != "unknown-conversation":
                raise
            raise Failure("site-changed", f"{failure.message}; nothing was sent", "ask-gpt may need an update for the site") from None

    def pause(self, seconds: float) -> float:
        if seconds:
            self._page._clock.sleep(seconds)
        return self._page._now()

    def _command(self, name: str, arguments: dict[str, Any]) -> None:
        self._page._driver(lambda: self._page._session.execute_cdp_cmd(name, arguments))


_KEYS = {"Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}


def _wait(reply: dict[str, Any]) -> str:
    """What a person is to do about a 429: as long as the site asks for, where it says that in seconds."""
    asked = str(reply.get("retryAfter") or "")
    return f"wait {asked} s, as the site asks" if re.fullmatch("[1-9][0-9]{0,5}", asked) else "wait some minutes"


def signed_out() -> Failure:
    return Failure("needs-human", "nobody is signed in on the site; nothing was sent", "ask-gpt login, then run this again")


def challenged() -> Failure:
    return Failure("needs-human", "the site asks for a human check; nothing was sent and nothing was pressed",
                   "ask-gpt login, pass the check by hand, then run this again")


def selenium_reason(error: BaseException) -> str | None:
    """A short text for an exception of the driver or its connection; None for anything else (a bug must stay a bug)."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    if isinstance(error, WebDriverException):
        return str(error.msg or type(error).__name__).splitlines()[0][:120]
    return type(error).__name__ if isinstance(error, HTTPError | ConnectionError | TimeoutError) else None
