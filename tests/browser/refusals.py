"""Every way in which the page says no, and every way in which it was found changed, as one table: what a command then does.

A row is right when the exit code is the stated one, the practice server got as many messages as stated, each once and with the very text,
and the answer is the site's own or none: never another one. `run` does one row on a generation of the page; `line` prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gptbridge.core import transcript
from tests.browser.real import Desk, Ran, until
from tests.core.site_json import Doc

# What is said of the message, by what the row says of it.
FATES = {"no": "nothing was sent|was not taken|not released", "yes": "(?<!nothing )was sent", "unknown": "is not known"}
LONG = 30  # turns of a long conversation
GENERATIONS = (1, 2)


@dataclass(frozen=True)
class Row:
    """scenarios: as on the command line. code: the exit. sent: messages at the site. how: send, files (two go along), resume, read (a bare
    resume), gone (a resume of a conversation that was deleted), long (a resume of a long one). before: on while that one was begun.
    after: on from when the message is at the site. options: of the command. says: words of the message. incident: its number in the
    history of changes. slow: over 15 s."""

    name: str
    scenarios: tuple[str, ...]
    code: int
    sent: int
    says: str = ""
    how: str = "send"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    incident: int | None = None
    slow: bool = False
    text: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seen:
    """wrong: an answer that is neither the site's own nor a beginning of it."""

    code: int
    sent: int
    answered: bool
    wrong: bool
    ran: Ran


MESSAGE = "data-message-id data-message-author-role data-chatgpt-search-unit-key data-chatgpt-search-message-ids"
SIGNING_IN = (
    Row("signed out, a guest's composer", ("signed-out",), 12, 0, "signed in"),
    Row("an account is to be picked", ("account-picker",), 12, 0, "signed in"),
    Row("challenge page", ("challenge",), 12, 0, "human check"),
    Row("challenge for the session alone", ("session-refused:status=403",), 12, 0, "human check"),
    Row("session throttled", ("session-refused:status=429",), 11, 0, "429"),
    Row("session down", ("session-refused:status=503",), 16, 0, "503", options=("--queue-wait", "3")),
    Row("another account", ("other-account",), 13, 0, "user-0001", how="resume"),
    Row("another workspace", ("other-workspace",), 13, 0, "belongs to account", how="resume"),
    Row("another workspace, reading", ("other-workspace",), 13, 0, "belongs to account", how="read"),
    Row("account locked", ("security-block",), 12, 0, "suspicious"),
)
LIMITS = (
    Row("throttle dialog", ("throttled",), 11, 0, "Too many requests"),
    Row("throttle dialog in Spanish", ("throttled", 'localised:language="es"'), 11, 0, "429"),
    Row("throttle dialog, resume", ("throttled",), 11, 0, how="resume"),
    Row("throttle dialog, reading", ("throttled",), 11, 0, how="read"),
    Row("cap with its time", ("site-429:status=429,clears_in=7200",), 11, 1, "2 h more"),
    Row("cap notice in the page", ("cap-notice",), 11, 0, "Try again after 5:00 PM"),
    Row("cap notice in German", ("cap-notice", 'localised:language="de"'), 11, 0, "17:00"),
    Row("prompt too long", ("message-limit:at=20",), 17, 1, "413"),
    Row("sign-in ran out at the send", ("site-429:status=401",), 12, 1, "401"),
    Row("refused at the send", ("site-429:status=403",), 12, 1, "403"),
    Row("unknown refusal", ("site-429:status=418",), 15, 1, "418"),
)
FAILING = (
    Row("failed turn with Retry", ("failed-turn",), 32, 1, "nothing was pressed"),
    Row("failed in the middle", ("failed-turn:partial=true",), 32, 1, "nothing was pressed"),
    Row("an old failed turn above", (), 0, 1, how="resume", before=("failed-turn",)),
    Row("error in the stream, nothing stored", ("stream-error",), 32, 1, "nothing was pressed"),
    Row("prompt taken away by moderation", ('moderated:what="prompt"',), 32, 1),
    Row("answer taken away by moderation", ('moderated:what="answer"',), 32, 1),
    Row("502 after the site took it", ("send-502",), 0, 1),
    Row("connection cut in the stream", ("connection-drops:frames=2",), 0, 1),
    Row("a tool wants to be allowed", ("tool-approval",), 30, 1, options=("--wait", "9")),
)
SLOW = ("slow-answer:seconds=3",)
AFTER = (
    Row("signed out after the send", SLOW, 30, 1, "no worker follows it", after=("signed-out",), slow=True),
    Row("challenge after the send", SLOW, 30, 1, "no worker follows it", after=("challenge",), slow=True),
    Row("conversation is not known yet", SLOW, 30, 1, after=("json-refused:status=404",), options=("--wait", "9")),
    Row("conversations throttled after the send", SLOW, 30, 1, after=("throttled",), options=("--wait", "9"), slow=True),
)
STANDING = (
    Row("dialog over the page", ("dialog",), 12, 0, "lies over the page"),
    Row("dialog beside the page", ("promo",), 0, 1),
    Row("Work mode", ("work-mode",), 15, 0, "mode"),
    Row("page for telephones", ("mobile-page",), 15, 0, "no composer"),
    Row("tool left switched on", ("tool-pill",), 15, 0, "tool"),
    Row("somebody's draft", ("draft:text=\"somebody's own words\"",), 12, 0, "draft"),
    Row("somebody's file", ("draft-file",), 12, 0, "draft"),
    Row("conversation deleted", (), 14, 0, "does not open", how="gone"),
    Row("conversation goes home by itself", ("leaves:seconds=0.4",), 14, 0, how="resume"),
    Row("text cut by the composer", ("truncate-composer:at=10",), 15, 0, "did not keep the text"),
    Row("paste becomes a file", ("paste-becomes-file:at=10",), 15, 0, "did not keep the text", text="words, " * 1000),
    Row("click swallowed", ("swallow-click",), 15, 0, "no request within 30 s", slow=True),
    Row("sent from a worker", ("send-from-worker",), 15, 0, "cannot be held"),
    Row("sent over a socket", ("send-by-socket",), 15, 0, "socket"),
    Row("sent as a beacon", ("send-by-beacon",), 12, 1, "401"),
)
DRIFT = (
    Row("stop control stays", ("stop-lingers",), 0, 1, incident=1),
    Row("stop control flickers", ("stop-flickers", "slow-answer:seconds=2"), 0, 1, incident=1),
    Row("actions show early", ("early-bar", "pause-mid-word:seconds=2"), 0, 1, incident=1),
    Row("Spanish page", ('localised:language="es"',), 0, 1, incident=2),
    Row("Spanish page, files", ('localised:language="es"',), 0, 1, how="files", incident=2),
    Row("German page, resume", ('localised:language="de"',), 0, 1, how="resume", incident=2),
    Row("files as their number", ("files-pill",), 15, 0, "files", how="files", incident=2),
    Row("Answer now", ("answer-now", "thinking:seconds=2"), 0, 1, incident=3),
    Row("turns are articles", ('turn-tag:tag="article"',), 0, 1, how="resume", incident=4),
    Row("turns are divs", ('turn-tag:tag="div"',), 0, 1, how="resume", incident=4),
    Row("no file input yet", ("lazy-input",), 15, 0, "no input", how="files", incident=5),
    Row("no file input, none needed", ("lazy-input",), 0, 1, incident=5),
    Row("chip's label is cut", ("upload-cut-label",), 0, 1, how="files", incident=8),
    Row("files are renamed", ("upload-renames",), 0, 1, how="files", incident=8),
    Row("/me behind a challenge", ("me-refused",), 0, 1, incident=9),
    Row("no chips", ("upload-no-chip",), 0, 1, how="files", incident=11),
    Row("nested messages", ("nested-messages",), 0, 1, how="resume", incident=13),
    Row("challenge script on a healthy page", ("challenge-script",), 0, 1, incident=14),
    Row("Work mode in Spanish", ("work-mode", 'localised:language="es"'), 15, 0, "mode", incident=14),
    Row("/c/WEB: for a while", ("web-url:seconds=2",), 0, 1, incident=15),
    Row("long thread, few turns mounted", (), 0, 1, how="long"),
    Row("notice in the prompt's turn", ("notice-in-turn",), 0, 1, how="resume"),
    Row("composer renamed", ('renamed:what="prompt-textarea data-composer-markdown"',), 15, 0, "no composer"),
    Row("send control renamed", ('renamed:what="send-button submit"',), 15, 0, "no way to send"),
    Row("stop control renamed", ('renamed:what="stop-button composer-submit-button"',), 0, 1),
    Row("ready mark renamed", ('renamed:what="blocking-initial-modals-done"',), 0, 1),
    Row("turns renamed", ('renamed:what="data-turn data-turn-key"',), 15, 0, "none of its turns", how="resume", slow=True),
    Row("messages renamed", (f'renamed:what="{MESSAGE}"',), 0, 1, how="resume"),
    Row("answer's body renamed", ('renamed:what="markdown data-markdown-text-style"',), 0, 1, how="resume"),
)
PRO, DEEPER = ("--model", "gpt-5-5-pro"), ("--model", "gpt-5-5-thinking", "--effort", "extended")
PICKERS = (
    Row("model by the page's picker", (), 0, 1, options=PRO, incident=6),
    Row("model in a German picker", ('localised:language="de"',), 0, 1, options=PRO, incident=7),
    Row("model and effort", (), 0, 1, options=DEEPER, incident=10),
    Row("model and effort in a Spanish picker", ('localised:language="es"',), 0, 1, options=DEEPER, incident=16),
    Row("model that the account has not", ("model-absent",), 17, 0, "gpt-5-5-pro", options=PRO),
    Row("picker lacks the model", ("picker-lacks",), 15, 0, options=PRO, incident=16),
    Row("picker lacks the effort", ('picker-lacks:what="extended"',), 15, 0, options=DEEPER, incident=16),
    Row("model used up", ("picker-limit",), 11, 0, "7:30 PM", options=PRO),
    Row("model locked", ("picker-locked",), 12, 0, "Upgrade", options=PRO),
    Row("picker takes it back", ("picker-reverts",), 15, 0, options=PRO, incident=6),
    Row("picker takes it back at the paste", ('picker-reverts:at="paste"',), 15, 0, options=PRO, incident=6),
    Row("page asks for another model", ("model-replaced",), 15, 0, "limit of that model", options=PRO),
    Row("site answers with another model", ("model-substituted",), 0, 1, options=PRO),
)
ROWS = (*SIGNING_IN, *LIMITS, *FAILING, *AFTER, *STANDING, *DRIFT, *PICKERS)
# Of each kind one or two: what the normal run does. The whole is `make refusals`, and under soak.
SAMPLE = (
    "challenge page", "sent from a worker", "another workspace", "throttle dialog in Spanish", "cap with its time",
    "answer taken away by moderation", "somebody's draft", "nested messages", "picker lacks the effort")


def run(desk: Desk, row: Row, generation: int) -> Seen:
    """One row on a site that has forgotten everything; the next one finds no window of this."""
    site = desk.site
    site.reset()
    if generation == 2:
        site.scenario("gen2")
    prompt = f"{row.name}, generation {generation} {row.text}".strip()
    words = ["send", prompt]
    if row.how == "files":
        for name in ("notes.md", "table.csv"):
            (desk.folder / name).write_text(f"{name} of {prompt}\n")
            words += ["-f", name]
    elif row.how != "send":
        words = ["resume", _begun(desk, row, generation), *([] if row.how == "read" else [prompt])]
    known = len(site.sends())
    site.scenarios(*row.scenarios)

    def after() -> None:
        if row.after:
            until(lambda: len(site.sends()) > known, "the message to be at the site", 40)
            site.scenarios(*row.after)
    ran = desk.json(*words, *row.options, meanwhile=after)
    sends = site.sends()[known:]
    assert {send["text"] for send in sends} <= {prompt}, "the very text, or nothing"
    messages = {send["message_id"] for send in sends}
    answer = ran.doc["answer"]
    expected = "You said:\n\n" + "\n".join(f"> {part}" for part in prompt.split("\n"))
    for name in site.ask("GET", "/practice/scenario")["scenarios"]:
        site.end(name)
    until(lambda: not desk.home.windows(), "the windows to be closed", 60)
    return Seen(ran.code, len(messages), answer == expected, answer is not None and not expected.startswith(answer), ran)


def _begun(desk: Desk, row: Row, generation: int) -> str:
    """The conversation that the row goes on with."""
    desk.site.scenarios(*row.before)
    conversation = str(desk.json("send", f"before {row.name}, generation {generation}").doc["conversation_id"])
    for option in row.before:
        desk.site.end(option.partition(":")[0])
    if row.how == "gone":
        desk.site.reset()
        if generation == 2:
            desk.site.scenario("gen2")
    if row.how == "long":
        data = desk.site.conversation(conversation)
        doc = Doc()
        for number in range(LONG):
            doc.user(f"u{number:02}", f"prompt {number}")
            doc.final(f"a{number:02}", f"answer {number}")
        desk.site.ask("PUT", f"/practice/conversations/{conversation}", {**data, **doc.data, "conversation_id": conversation})
    return conversation


STATES = {0: "completed", 30: "accepted", 32: "accepted"}


def faults(row: Row, seen: Seen) -> list[str]:
    """What is not as the row states; none where it is right."""
    doc: dict[str, Any] = seen.ran.doc
    error = doc["error"] or {"message": "", "hint": "-"}
    said = [error["message"], *doc["warnings"], *_logged(seen)]
    others = "|".join(words for sent, words in FATES.items() if sent != doc["sent"])
    checks = {
        f"exit {seen.code}, not {row.code}": seen.code == row.code,
        f"{seen.sent} messages at the site, not {row.sent}": seen.sent == row.sent,
        "a wrong answer": not seen.wrong, "no answer": seen.answered or row.code != 0,
        "an answer": not seen.answered or row.code in (0, 30),
        "no report of the page is named": row.code not in (15, 32) or "/reports/" in f"{error['hint']} {doc['warnings']}",
        f"the message does not say {row.says!r}": row.says in error["message"], "nothing is said to do": bool(error["hint"])}
    if row.how != "read":
        state = STATES.get(row.code, "rejected")
        checks |= {
            f"it is {doc['state']}": doc["state"] == state,
            f"sent is {doc['sent']}": doc["sent"] == ("no" if state == "rejected" else "yes"),
            f"retry is {doc['retry']}": doc["retry"] == _retry(row, doc),
            "it is not said whether it left": not doc["error"] or re.search(FATES[doc["sent"]], error["message"], re.I) is not None,
            "something else is said of whether it left": not any(re.search(others, one, re.I) for one in said)}
    return [what for what, right in checks.items() if not right]


def _logged(seen: Seen) -> list[str]:
    """What the error section of the operation's turn says."""
    log = seen.ran.doc["log_canonical"]
    blocks = transcript.parse(Path(log).read_bytes()).blocks if log else ()
    return [text for block in blocks if block.attr("op") == seen.ran.doc["operation_id"] and (text := block.section("error"))]


def _retry(row: Row, doc: dict[str, Any]) -> str:
    """Before the click the same command again, once the reason is gone; after it never under this id."""
    if doc["sent"] != "no" or doc["dispatched_at"] is not None:
        return "never"
    return {11: "later", 16: "safe"}.get(row.code, "after-fix")


def line(row: Row, generation: int, seen: Seen) -> str:
    number = "" if row.incident is None else f"#{row.incident}"
    return (f"{row.name:36} {number:>4} {generation:>4} {seen.code:>5} {seen.sent:>9}   {'right' if seen.answered else 'none':7}"
            f"{int(seen.wrong):>6}  {seen.ran.seconds:5.1f} s")


HEAD = f"{'what the page does':36} {'':>4} {'gen.':>4} {'exit':>5} {'requests':>9}   {'answer':7}{'wrong':>6}"
