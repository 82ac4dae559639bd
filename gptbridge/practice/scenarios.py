"""Which scenarios exist, and which are on: the switchboard of the practice site.

Guarantees: a scenario that is on carries every parameter it declares, of the declared type; reading and switching are safe from any
thread. Touches nothing else. Owns the text form `NAME[:k=v[,k=v]]`. Fails towards refusal: unknown names and parameters raise.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Value = bool | int | float | str
MAX_SECONDS = 24 * 3600.0


class UnknownScenario(Exception):
    """No scenario of that name. `name` is what was asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no scenario is called {name!r}")
        self.name = name


class BadParameter(Exception):
    """A parameter that the scenario does not have, or of another type than its default."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`defaults` are the parameters and their types; `where` says who acts on it: "server", "page" or "both"."""

    name: str
    where: str
    meaning: str
    defaults: Mapping[str, Value] = field(default_factory=dict)

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """The defaults with `given` laid over them. Raises BadParameter."""
        out: dict[str, Value] = dict(self.defaults)
        for key, value in given.items():
            if key not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                raise BadParameter(f"{self.name} has no parameter {key!r} (it has: {known})")
            default = self.defaults[key]
            if isinstance(default, bool):
                fits = isinstance(value, bool)
            elif isinstance(default, (int, float)):
                fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
                fits = fits and 0 <= value <= (MAX_SECONDS if key == "seconds" else 1e9)
                fits = fits and (isinstance(default, float) or value == int(value))
            else:
                fits = isinstance(value, str)
            if not fits:
                raise BadParameter(f"{self.name}: {key} must be like {default!r}, not {value!r}")
            out[key] = value
        return out


def _table(*rows: Scenario) -> dict[str, Scenario]:
    return {row.name: row for row in rows}


# `times`: how many sends it strikes; 0 = every one.
SCENARIOS: dict[str, Scenario] = _table(
    Scenario("signed-out", "both", "the session names no user; a guest's composer still works"),
    Scenario("other-account", "server", "another person (user-0001) is signed in"),
    Scenario("other-workspace", "server", "the same person, in another workspace"),
    Scenario("account-picker", "both", "nobody is signed in, and the page asks who it is, without a composer"),
    Scenario("session-refused", "server", "who is signed in is not told: that status; 403 is a challenge", {"status": 403, "times": 0}),
    Scenario("me-refused", "server", "/backend-api/me is behind a challenge, all else is well"),
    Scenario("security-block", "page", "the account is locked: a page without a composer says so"),
    Scenario("challenge", "server", "every page and endpoint answers 403 with a challenge page"),
    Scenario(
        "throttled",
        "both",
        "after N reads they answer 429 and the page shows a dialog; retry_after 0 sends no Retry-After",
        {"after": 0, "retry_after": 0},
    ),
    Scenario(
        "list-throttled",
        "server",
        "the list alone answers 429, from that entry on, after N such reads; retry_after 0 sends no Retry-After",
        {"at": 0, "after": 0, "retry_after": 0},
    ),
    Scenario("list-slow", "server", "reading the list takes that long from that entry on", {"seconds": 6.0, "at": 0}),
    Scenario("list-capped", "server", "the list ends after so many entries; with `missing` it says so", {"at": 500, "missing": False}),
    Scenario("list-total", "server", "the list says how many there are, and so many more", {"more": 0}),
    Scenario("list-fails", "server", "the list fails with 500 from that entry on, for a longer page than that", {"at": 800, "above": 0}),
    Scenario("many-conversations", "server", "so many conversations of one turn are there, the newest first", {"count": 1000}),
    Scenario("slow-answer", "server", "the answer takes that many seconds", {"seconds": 5.0}),
    Scenario("rewrites", "server", "the answer is written anew that often before it stands, over that time", {"count": 20, "seconds": 2.0}),
    Scenario("thinking", "server", "every answer thinks first", {"seconds": 1.0}),
    Scenario("silence", "server", "a preamble, that many seconds of silence, thinking, then the real answer", {"seconds": 20.0}),
    Scenario("pause-mid-word", "server", "the answer pauses in the middle of a word", {"seconds": 9.0}),
    Scenario("failed-turn", "both", "the turn fails: error in the stream, Retry in the page", {"partial": False, "times": 0}),
    Scenario("moderated", "server", "the site blocks that: prompt, answer", {"what": "answer"}),
    Scenario("stream-error", "server", "the stream says that something went wrong and ends; nothing of an answer is stored"),
    Scenario("tool-approval", "both", "the answer waits until a person allows a tool; the page asks"),
    Scenario(
        "json-refused",
        "server",
        "reading one conversation is refused with that status; 200: an answer of another shape",
        {"status": 403},
    ),
    Scenario("slow-read", "server", "reading one conversation takes that long", {"seconds": 6.0}),
    Scenario("newest-behind", "server", "reading a conversation shows a turn that many seconds after it was sent", {"seconds": 2.0}),
    Scenario("send-502", "server", "the server takes the message, the page sees 502", {"times": 0}),
    Scenario(
        "connection-drops",
        "server",
        "the server takes the message and closes the connection, after that many stream frames",
        {"frames": 0, "times": 0},
    ),
    Scenario("rewrites-ids", "server", "the server stores the message under an id of its own"),
    Scenario("site-429", "server", "sends are refused with that status and clears_in", {"status": 429, "clears_in": 3600, "times": 0}),
    Scenario("message-limit", "server", "a longer message is refused with 413", {"at": 1000}),
    Scenario("redirect-307", "server", "the send endpoint answers 307 to its older path", {"times": 0}),
    Scenario("web-url", "both", "the stream tells the conversation id that late; until then /c/WEB:<uuid>", {"seconds": 3.0}),
    Scenario("page-retries", "page", "the page posts a send again by itself after a failure", {"times": 1}),
    Scenario(
        "page-haunts",
        "page",
        "from the first answer on the page posts the send over and over, by: document, frame, worker, reload",
        {"by": "document"},
    ),
    Scenario("swallow-click", "page", "the page ignores the click on the send button", {"times": 0}),
    Scenario("nervous-click", "page", "two handlers run for one press: the page posts twice"),
    Scenario("draft", "page", "the composer already holds a draft; kept: and the page keeps it", {"text": "an old draft", "kept": False}),
    Scenario("truncate-composer", "page", "the composer silently cuts the text", {"at": 4000}),
    Scenario("wipes-early-text", "page", "the composer is emptied that long after it appears", {"seconds": 0.5}),
    Scenario("paste-becomes-file", "page", "a long paste turns into an attachment", {"at": 4000}),
    Scenario("send-from-worker", "page", "the send is posted by a web worker"),
    Scenario("send-by-socket", "both", "the send goes over the WebSocket /backend-api/ws"),
    Scenario("send-by-beacon", "page", "the send goes out with navigator.sendBeacon"),
    Scenario("service-worker", "page", "a service worker answers and forwards the page's requests"),
    Scenario("stop-control-elsewhere", "page", "other controls are called Stop too"),
    Scenario("upload-stalls", "page", "an upload never ends"),
    Scenario("upload-no-chip", "page", "no chip shows for an attached file"),
    Scenario(
        "download-trouble",
        "server",
        "a file's link, or its body, goes wrong in that way (see the practice site's README)",
        {"link": "", "body": "", "times": 0},
    ),
    Scenario("upload-renames", "page", "the page calls every file name(1).ext"),
    Scenario("upload-cut-label", "page", "a chip's label is cut in the middle"),
    Scenario("upload-early-send", "page", "the page offers to send while a file is on its way, and sends without it"),
    Scenario("upload-lost", "page", "the page forgets the last file when it sends"),
    Scenario("upload-extra", "page", "the page sends another file along"),
    Scenario("draft-file", "page", "the composer already holds a file", {"name": "left over.txt"}),
    Scenario(
        "upload-refused",
        "server",
        "an upload is refused when it is announced, with that status and code",
        {"status": 413, "code": "file_too_large", "times": 0},
    ),
    Scenario("upload-elsewhere", "server", "the bytes of files go to another host (localhost)"),
    Scenario("upload-slow", "server", "a file is ready that many seconds after its bytes arrived", {"seconds": 3.0}),
    Scenario("upload-not-processed", "server", "the bytes arrive and are then found useless, with that code", {"code": "file_corrupted"}),
    Scenario("model-absent", "server", "the site does not offer that model", {"model": "gpt-5-5-pro"}),
    Scenario("model-replaced", "page", "the page asks for another model or effort than was chosen, and says so",
             {"model": "gpt-5-5", "effort": "", "notice": "You have reached the limit of that model. Another one answers until 7:30 PM."}),
    Scenario("model-substituted", "server", "the site takes another model or effort than the request names",
             {"model": "gpt-5-5", "effort": ""}),
    Scenario("picker-lacks", "page", "the picker does not show a model or effort that the site offers", {"what": "gpt-5-5-pro"}),
    Scenario("picker-limit", "page", "a model or effort is switched off; who points there is told why",
             {"what": "gpt-5-5-pro", "notice": "Limit reached. Try again after 7:30 PM."}),
    Scenario("picker-locked", "page", "pressing a model or effort only opens a dialog",
             {"what": "gpt-5-5-pro", "notice": "Upgrade your plan to use this."}),
    Scenario("picker-reverts", "page", "the picker takes a choice back, at once or when something is pasted", {"at": "choice"}),
    Scenario("renamed", "page", "these words (attributes, classes, whole values) are called x-... in the page", {"what": ""}),
    Scenario("turn-tag", "page", "a turn is another kind of element: article, div", {"tag": "div"}),
    Scenario("nested-messages", "page", "what names a message stands on two elements, one in the other"),
    Scenario("answer-now", "page", "while it thinks the page offers to answer now, where the answer will stand"),
    Scenario("early-bar", "page", "the actions of a finished answer show while it is still written"),
    Scenario("notice-in-turn", "page", "a passing notice stands in the turn of the user"),
    Scenario("stop-lingers", "page", "the stop control stays when the answer is whole"),
    Scenario("stop-flickers", "page", "the stop control comes and goes while the answer is written"),
    Scenario("files-pill", "page", "attached files show as their number alone"),
    Scenario("lazy-input", "page", "no file input is there until a menu is opened"),
    Scenario("cap-notice", "page", "a notice says that the limit is reached, and nothing can be sent"),
    Scenario("dialog", "page", "a dialog lies over the page and waits for a person"),
    Scenario("promo", "page", "a small dialog stands beside the page and is in nobody's way"),
    Scenario("tool-pill", "page", "the composer comes with a tool switched on"),
    Scenario("challenge-script", "page", "a script of the challenge's vendor is on the healthy page"),
    Scenario("leaves", "page", "the page of a conversation goes home by itself after a while", {"seconds": 0.4}),
    Scenario("gen2", "page", "the page's second generation of hooks"),
    Scenario("mobile-page", "server", "a page of neither generation: the one that the site has for phones"),
    Scenario("work-mode", "page", "the page stands in Work mode"),
    Scenario("localised", "page", "labels in another language", {"language": "es"}),
)


def parse(option: str) -> tuple[str, dict[str, Value]]:
    """`NAME[:k=v[,k=v]]` to name and full parameters. Raises UnknownScenario, BadParameter."""
    name, _, rest = option.partition(":")
    if name not in SCENARIOS:
        raise UnknownScenario(name)
    given: dict[str, Value] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadParameter(f"{name}: {pair!r} is not k=v")
        given[key] = _value(value) if not isinstance(SCENARIOS[name].defaults.get(key), str) else value
    return name, SCENARIOS[name].parameters(given)


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Switchboard:
    """The scenarios that are on. They stay until ended and add up."""

    def __init__(self, options: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._on: dict[str, dict[str, Value]] = {}
        self._used: dict[str, int] = {}
        for option in options:
            name, parameters = parse(option)
            self.start(name, parameters)

    def start(self, name: str, given: Mapping[str, Any]) -> dict[str, Value]:
        """Switch on, or replace its parameters. Raises UnknownScenario, BadParameter."""
        if name not in SCENARIOS:
            raise UnknownScenario(name)
        parameters = SCENARIOS[name].parameters(given)
        with self._lock:
            self._on[name] = parameters
            self._used.pop(name, None)
        return parameters

    def end(self, name: str) -> None:
        """Switch off; no matter if it is off. Raises UnknownScenario."""
        if name not in SCENARIOS:
            raise UnknownScenario(name)
        with self._lock:
            self._on.pop(name, None)

    def clear(self) -> None:
        with self._lock:
            self._on.clear()
            self._used.clear()

    def active(self) -> dict[str, dict[str, Value]]:
        with self._lock:
            return {name: dict(parameters) for name, parameters in self._on.items()}

    def get(self, name: str) -> dict[str, Any] | None:
        """The parameters if it is on, else None."""
        with self._lock:
            found = self._on.get(name)
            return dict(found) if found is not None else None

    def strike(self, name: str) -> dict[str, Any] | None:
        """As `get`, but a scenario with `times` N strikes N times only."""
        with self._lock:
            found = self._on.get(name)
            if found is None:
                return None
            times = int(found.get("times", 0))
            self._used[name] = self._used.get(name, 0) + 1
            return dict(found) if not times or self._used[name] <= times else None

    def used(self, name: str) -> int:
        """How often it was counted since it was switched on."""
        with self._lock:
            return self._used.get(name, 0)

    def count(self, name: str) -> int:
        """Count one use since it was switched on, and say which it was (1 = first)."""
        with self._lock:
            self._used[name] = self._used.get(name, 0) + 1
            return self._used[name]
