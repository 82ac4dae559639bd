"""A browser without Chrome: a fake Selenium session and a fake gate that play the practice page, over HTTP to a practice server.

The server is the real one, so its count of send requests stays the witness of every test, also across processes that are killed. The
contract tests run on this pair and on a real Chromium; what they do not cover the fake must not be trusted for. `clicks` counts presses.

`tell` is called with the name of each thing as it happens ("open", "type", "press", "held", "release", "sending", "sent" ...): a test may
note the order, change something under the page's feet, block there, or kill its process. `pause` stands in for waiting when the clock is a
fake one. `alter` changes the request that the page is about to make.
"""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import queue
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from gptbridge.core.errors import Failure
from gptbridge.core.page_request import Held, Note, SentFile, Upload
from gptbridge.core.ports import Link, Unavailable
from gptbridge.edge.chatgpt import ChatPage
from gptbridge.edge.chatgpt_files import allowed, disposed_name, unfetched
from tests.fake_picker import FakePicker

IDLE_S = 30.0
NAMED = re.compile(rb'"conversation_id": ?"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')
PIECE = 2000  # characters of one paste
MOUNTED = 6  # turns that a long thread has in its page
Tell = Callable[[str], None]
Pause = Callable[[float], None]


def silent(what: str) -> None: ...


class Http:
    """Requests to the site, one connection each, as a page makes them."""

    def __init__(self, site: str) -> None:
        self.host = urlsplit(site).netloc

    def open(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, timeout=IDLE_S)
        connection.request(method, path, body, headers or {})
        return connection.getresponse()

    def json(self, path: str, headers: dict[str, str] | None = None) -> Any:
        with self.open("GET", path, headers=headers) as reply:
            return json.loads(reply.read())


@dataclass
class Document:
    """What the page of one window knows."""

    path: str = "blank"
    text: str = ""
    chips: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)  # id, name, size, ready, failed
    users: list[str] = field(default_factory=list)
    messages: list[tuple[str, str, str]] = field(default_factory=list)  # role, id, text
    leaf: str | None = None
    toast: str | None = None


class FakeSession:
    """Answers the page scripts of chatgpt.js by name, as the practice page would."""

    def __init__(self, site: str, gate: FakeGate, tell: Tell = silent) -> None:
        self.http, self.gate, self.tell = Http(site), gate, tell
        self.page = Document()
        self.clicks = 0
        self.dead: str | None = None  # a reason: the browser is gone
        self.alter: Callable[[dict[str, Any]], None] = lambda body: None
        self.picker = FakePicker(self._models, self._scenarios)

    # The driver's methods

    def get(self, url: str) -> None:
        self._alive()
        self.tell("open")
        path = urlsplit(url).path
        self.page = Document(path)
        self.picker = FakePicker(self._models, self._scenarios)
        scenarios = self._scenarios()
        if "draft" in scenarios:
            self.page.text = str(scenarios["draft"]["text"])
        if "draft-file" in scenarios:
            self.page.files.append({"id": "file_left", "name": str(scenarios["draft-file"]["name"]), "size": 9, "ready": True})
        if path.startswith("/c/"):
            self._load(path.removeprefix("/c/"))

    def execute_cdp_cmd(self, cmd: str, cmd_args: dict[str, Any]) -> Any:
        self._alive()
        if cmd == "Input.dispatchMouseEvent":
            self.picker.point(cmd_args["y"])
        if cmd == "Input.dispatchKeyEvent" and cmd_args["key"] == "Escape":
            self.picker.escape()
        return {}

    def execute_async_script(self, script: str, *args: Any) -> Any:
        self._alive()
        name, *given = args
        if name != "state":
            self.tell(name)
        try:
            return {"value": getattr(self, f"_do_{name}")(*given)}
        except OSError:
            return {"error": "TypeError"}

    def _alive(self) -> None:
        if self.dead is not None:
            raise ConnectionError(self.dead)

    # The page

    def _scenarios(self) -> dict[str, dict[str, Any]]:
        return dict(self.http.json("/practice/scenario")["scenarios"])

    def _headers(self) -> dict[str, str]:
        body = self._session_body()
        token = body.get("accessToken")
        return {"Authorization": f"Bearer {token}", "Chatgpt-Account-Id": body["account"]["id"]} if token else {}

    def _session_body(self) -> dict[str, Any]:
        with self.http.open("GET", "/api/auth/session") as reply:
            data = reply.read()
            return dict(json.loads(data)) if "json" in (reply.getheader("content-type") or "") else {}

    def _load(self, conversation_id: str) -> None:
        path = "/practice/conversations/" if "json-refused" in self._scenarios() else "/backend-api/conversation/"
        with self.http.open("GET", path + conversation_id, headers=self._headers()) as reply:
            data = reply.read()
            if reply.status != 200:
                self.page = Document("/", toast=f"Unable to load conversation {conversation_id}")
                return
        document = json.loads(data)
        node, chain = document["current_node"], []
        while node is not None:
            entry = document["mapping"][node]
            message = entry.get("message")
            role = message["author"]["role"] if message else ""
            if message and message["content"].get("content_type") == "thoughts":
                chain.append(("thought", message["id"], ""))
            elif role in ("user", "assistant") and not message["metadata"].get("is_visually_hidden_from_conversation"):
                parts = message["content"].get("parts") or []
                chain.append((role, message["id"], "\n\n".join(part for part in parts if isinstance(part, str))))
            node = entry["parent"]
        self.page.messages, self.page.leaf = chain[::-1], document["current_node"]
        self.page.users = [ident for role, ident, _ in self.page.messages if role == "user"]

    def _do_hooks(self) -> Any:
        raise OSError  # there is no page whose structure could be looked at

    def _do_state(self) -> dict[str, Any]:
        page, scenarios = self.page, self._scenarios()
        named = page.path.removeprefix("/c/") if page.path.startswith("/c/") else None
        challenge, signed_out = "challenge" in scenarios, "signed-out" in scenarios
        asks = "tool-approval" in scenarios and self.gate.answering
        return {"path": page.path, "named": named, "title": "Just a moment..." if challenge else "Practice", "loaded": "complete",
                "editor": not challenge and page.path != "blank", "text": None if challenge else page.text,
                "chips": self._chips(), "sendable": self._sendable(),
                "ready": not challenge and page.path != "blank", "strange": False, "turns": 2 * len(page.users),
                "newest": page.users[-1] if page.users else None, "generating": self.gate.answering, "work": "work-mode" in scenarios,
                "temporary": False, "login": signed_out, "challenge": challenge,
                "dialog": ["Too many requests"] if "throttled" in scenarios else ["?"] if asks else [],
                "toast": [page.toast] if page.toast else [], "covered": asks or "throttled" in scenarios or "dialog" in scenarios,
                "tools": int("tool-pill" in scenarios), "barred": "", "throttled": "throttled" in scenarios,
                "heldBack": "cap-notice" in scenarios, "choice": self.picker.label}

    def _do_picker(self) -> dict[str, Any]:
        return self.picker.shown()

    def _models(self) -> list[dict[str, Any]]:
        return list(self.http.json("/backend-api/models", headers=self._headers())["models"])

    def _do_rendered(self) -> dict[str, Any]:
        """One place for a prompt and one for its answer; the last few are mounted. An answer is paragraphs of plain text here."""
        places: list[dict[str, Any]] = []
        before = ""
        for role, ident, words in self.page.messages:
            if role == "user" or before in ("", "user"):
                places.append({"shown": True, "thought": False, "messages": []})
            before = role
            if role == "thought":
                places[-1]["thought"] = True
                continue
            body = "".join(f"<p>{html.escape(piece)}</p>" for piece in words.split("\n\n") if piece)
            said = {"text": words, "html": ""} if role == "user" else {"text": "", "html": body}
            places[-1]["messages"].append({"id": ident, "role": role, **said})
        mounted = [one if at >= len(places) - MOUNTED else {"shown": False, "thought": False, "messages": []}
                   for at, one in enumerate(places)]
        return {"state": self._do_state(), "places": mounted, "failed": False}

    def _chips(self) -> int:
        return self.page.chips + (0 if "upload-no-chip" in self._scenarios() else len(self.page.files))

    def _sendable(self) -> bool:
        waits = any(not file["ready"] for file in self.page.files) and "upload-early-send" not in self._scenarios()
        return bool(self.page.text.strip() or self.page.files) and not waits

    # Files

    def _do_input(self, images: bool, many: bool) -> FakeInput:
        return FakeInput(self)

    def _do_files(self) -> dict[str, Any]:
        files, scenarios = self.page.files, self._scenarios()
        no_chip, early = "upload-no-chip" in scenarios, "upload-early-send" in scenarios
        labels = [f"{name[:3]}…{name[-3:]}" if "upload-cut-label" in scenarios else name for name in (file["name"] for file in files)]
        return {"chips": self._chips(), "labels": [] if no_chip else labels, "inputs": len(files) if no_chip else 0,
                "busy": not no_chip and not early and any(not file["ready"] and not file.get("failed") for file in files),
                "failed": not no_chip and any(file.get("failed") for file in files), "sendable": self._sendable(),
                "notice": self.page.toast or ""}

    def choose(self, paths: list[str]) -> None:
        """The page takes files from its input, and uploads them."""
        for path in paths:
            with open(path, "rb") as file:
                self._upload(path.rpartition("/")[2], file.read())

    def _upload(self, name: str, data: bytes) -> None:
        scenarios, headers = self._scenarios(), {**self._headers(), "Content-Type": "application/json"}
        if "upload-renames" in scenarios:
            stem, dot, suffix = name.rpartition(".")
            name = f"{stem}(1){dot}{suffix}"
        entry: dict[str, Any] = {"id": "", "name": name, "size": len(data), "ready": False}
        self.page.files.append(entry)
        at = self.gate.began(Upload(name, len(data)))
        self.tell("announcing")
        status, said = self._json_post("/backend-api/files", {"file_name": name, "file_size": len(data)}, headers)
        if status >= 300:
            entry["failed"], self.page.toast = True, said["detail"]["message"]
            self.gate.upload(at, state="failed", status=status, code=said["detail"]["code"])
            return
        entry["id"] = said["file_id"]
        self.gate.upload(at, state="announced", file_id=said["file_id"])
        self.tell("announced")
        with self.http.open("PUT", urlsplit(said["upload_url"]).path, data, {"Content-Type": "application/octet-stream"}) as reply:
            assert reply.status == 201
        self.gate.upload(at, state="stored")
        self.tell("stored")
        if "upload-stalls" in scenarios:
            return
        body = json.dumps({"file_id": entry["id"]}).encode("ascii")
        with self.http.open("POST", "/backend-api/files/process_upload_stream", body, headers) as reply:
            text = reply.read().decode()
        if "file_ready" not in text:
            entry["failed"] = True
            code = re.search(r'"error_code": ?"([a-z_]+)"', text)
            self.gate.upload(at, state="failed", status=200, code=code[1] if code else None)
            return
        entry["ready"] = True
        self.gate.upload(at, state="ready")
        self.tell("ready")

    def _json_post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        with self.http.open("POST", path, json.dumps(body).encode("utf-8"), headers) as reply:
            return reply.status, json.loads(reply.read())

    def _do_session(self) -> dict[str, Any]:
        with self.http.open("GET", "/api/auth/session") as reply:
            data, status = reply.read(), reply.status
            if status != 200 or "json" not in (reply.getheader("content-type") or ""):
                return {"status": status, "challenge": "json" not in (reply.getheader("content-type") or ""), "user": None, "account": None}
        body = json.loads(data)
        user = body.get("user")
        return {"status": status, "challenge": False, "user": user and user["id"], "account": user and body["account"]["id"]}

    def _do_read(self, path: str) -> dict[str, Any]:
        with self.http.open("GET", path, headers=self._headers()) as reply:
            data = reply.read()
            return {"status": reply.status, "json": "json" in (reply.getheader("content-type") or ""),
                    "retryAfter": reply.getheader("retry-after"), "text": data.decode("utf-8")}

    def _do_paste(self, text: str) -> bool:
        self.picker.pasted()
        for at in range(0, len(text), PIECE):
            self._insert(text[at:at + PIECE], pasted=True)
        return True

    def _do_insert(self, text: str) -> bool:
        self._insert(text, pasted=False)
        return True

    def _insert(self, text: str, *, pasted: bool) -> None:
        scenarios = self._scenarios()
        becomes_file = scenarios.get("paste-becomes-file")
        if pasted and becomes_file and len(text) > int(becomes_file["at"]):
            self.page.chips += 1
            return
        if "truncate-composer" in scenarios:
            text = text[:max(int(scenarios["truncate-composer"]["at"]) - len(self.page.text), 0)]
        self.page.text += text

    def _do_clear(self) -> bool:
        self.page.text, self.page.chips, self.page.files = "", 0, []
        return True

    def _do_untype(self) -> bool:
        self.page.text = ""
        return True

    def _do_press(self) -> FakeSession | None:
        return self if self._sendable() else None

    def _do_halt(self) -> FakeStop | None:
        return FakeStop(self) if self.gate.answering else None

    def click(self) -> None:
        """The send control: one press, and what the page makes of it."""
        self._alive()
        self.clicks += 1
        self.tell("click")
        scenarios = self._scenarios()
        if "swallow-click" in scenarios:
            return
        presses = 2 if "nervous-click" in scenarios else 1
        text, files = self.page.text, self.page.files
        self.page.text, self.page.files = "", []
        for _ in range(presses):
            self._post(text, files, scenarios)

    def _post(self, text: str, files: list[dict[str, Any]], scenarios: dict[str, Any]) -> None:
        conversation = self.page.path.removeprefix("/c/") if self.page.path.startswith("/c/") else None
        message_id = str(uuid.uuid4())
        attachments = [{"id": file["id"], "name": file["name"], "size": file["size"]} for file in files if file["ready"]]
        if "upload-lost" in scenarios:
            attachments.pop()
        if "upload-extra" in scenarios:
            attachments.append({"id": "file_" + "0" * 32, "name": "left over.txt", "size": 1})
        model, effort, notice = self.picker.asked()
        self.page.toast = notice or self.page.toast
        body: dict[str, Any] = {
            "action": "next", "parent_message_id": self.page.leaf or "client-created-root", "model": model, "thinking_effort": effort,
            "messages": [{"id": message_id, "author": {"role": "user"}, "metadata": {"attachments": attachments} if attachments else {},
                          "content": {"content_type": "text", "parts": [text]}}]}
        if conversation is not None:
            body["conversation_id"] = conversation
        else:
            self.page.path = f"/c/WEB:{uuid.uuid4()}"
        self.page.users.append(message_id)
        self.alter(body)
        headers = {**self._headers(), "Content-Type": "application/json"}

        def send() -> http.client.HTTPResponse:
            self.tell("sending")
            return self.http.open("POST", "/backend-api/f/conversation", json.dumps(body).encode("utf-8"), headers)

        self.gate.request(body, send, retries=int(scenarios.get("page-retries", {}).get("times", 0)), said=self._said)

    def _said(self, chunk: bytes) -> None:
        """The address bar follows what the stream names, as far as this window stands on a new conversation."""
        named = NAMED.search(chunk)
        if named and self.page.path.startswith("/c/WEB:"):
            self.page.path = f"/c/{named[1].decode('ascii')}"


class FakeInput:
    """The page's file input."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    def send_keys(self, paths: str) -> None:
        self._session.choose(paths.split("\n"))


class FakeStop:
    """The page's stop control, there while an answer comes."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    def click(self) -> None:
        session = self._session
        deadline = time.monotonic() + IDLE_S
        while not (sends := session.http.json("/practice/state")["sends"]):  # released, and not yet arrived
            assert time.monotonic() < deadline
            time.sleep(0.01)
        conversation = sends[-1]["conversation_id"]
        headers = {**session._headers(), "Content-Type": "application/json"}
        body = json.dumps({"conversation_id": conversation}).encode("ascii")
        session.http.open("POST", "/backend-api/stop_conversation", body, headers).close()


class FakeGate:
    """Closed, open for one, or spent; releases by sending to the server, in a thread that follows the answer."""

    def __init__(self, pause: Pause | None = None, tell: Tell = silent) -> None:
        self.pause, self.tell = pause, tell
        self.state = "unarmed"
        self.connected, self.lost = True, False
        self.reply_status: int | None = None
        self.reply_ended: str | None = None
        self._held: dict[str, tuple[Held, Callable[[], http.client.HTTPResponse], int, Callable[[bytes], None]]] = {}
        self._waiting: queue.Queue[Held] = queue.Queue()
        self._chunks: queue.Queue[bytes] = queue.Queue()
        self._notes: list[Note] = []
        self._uploads: list[Upload] = []
        self.calls: list[str] = []
        self.traced = 0
        self._released = False

    @property
    def answering(self) -> bool:
        return self._released and self.reply_ended is None

    def _called(self, what: str) -> None:
        self.calls.append(what)
        self.tell(what)

    def arm(self) -> None:
        self._called("arm")
        self.state = "closed"

    def open_once(self) -> None:
        self._called("open_once")
        assert self.state == "closed"
        self.state = "open"

    def request(self, body: dict[str, Any], send: Callable[[], http.client.HTTPResponse], retries: int,
                said: Callable[[bytes], None] = lambda chunk: None) -> None:
        """The page posts a send."""
        assert self.state != "unarmed", "a page that is not gated"
        users = [m for m in body.get("messages", []) if m["author"]["role"] == "user"]
        ids = tuple(m["id"] for m in users)
        if self.state != "open":
            self._notes.append(Note("send", "/backend-api/f/conversation", ids))
            return
        self.state = "spent"
        files = tuple(SentFile(a["id"], a.get("name"), a.get("size")) for m in users for a in m["metadata"].get("attachments", []))
        held = Held(f"paused-{len(self._held)}", "/backend-api/f/conversation", body.get("action"), ids,
                    tuple("".join(m["content"]["parts"]) for m in users), len(body.get("messages", [])) - len(users),
                    body.get("conversation_id"), body.get("parent_message_id"), body.get("model"), body.get("thinking_effort"),
                    body.get("history_and_training_disabled") is True, body.get("account_id"), files, readable="messages" in body,
                    mode=body.get("conversation_mode", {}).get("kind"), tools=tuple(body.get("system_hints", ())))
        self._held[held.handle] = (held, send, retries, said)
        self._waiting.put(held)
        self.tell("held")

    def wait(self, timeout: float) -> Held | None:
        return self._next(self._waiting, timeout, timeout if self.pause is None else 0.0)

    def release(self, held: Held) -> bool:
        self._called("release")
        entry = self._held.pop(held.handle, None)
        if entry is None:
            return False
        self._released = True
        threading.Thread(target=self._follow, args=entry, daemon=True).start()
        self.tell("released")
        return True

    def refuse(self, held: Held) -> bool:
        self._called("refuse")
        return self._held.pop(held.handle, None) is not None

    def shut(self) -> None:
        self._called("shut")
        self._held.clear()
        self.state = "closed"

    def watch(self, text: str) -> None: ...

    def traces(self) -> int:
        return self.traced

    def notes(self) -> list[Note]:
        return list(self._notes)

    def spare(self, files: bool) -> None:
        assert self.state == "closed"

    def uploads(self) -> tuple[Upload, ...]:
        return tuple(self._uploads)

    def began(self, upload: Upload) -> int:
        self._uploads.append(upload)
        return len(self._uploads) - 1

    def upload(self, at: int, **facts: Any) -> None:
        self._uploads[at] = replace(self._uploads[at], **facts)

    def reply(self, timeout: float) -> bytes | None:
        if self.reply_ended is not None:
            return self._next(self._chunks, timeout, 0.0)
        return self._next(self._chunks, timeout, timeout if self.pause is None else 0.02)

    def _next(self, items: queue.Queue[Any], timeout: float, real: float) -> Any:
        """The next item, waiting for it `real` seconds; where none came the clock has gone on by `timeout`."""
        try:
            return items.get(timeout=real) if real else items.get_nowait()
        except queue.Empty:
            if self.pause is not None:
                self.pause(timeout)
            elif not real:
                time.sleep(timeout)
            return None

    def _follow(self, held: Held, send: Callable[[], http.client.HTTPResponse], retries: int, said: Callable[[bytes], None]) -> None:
        try:
            with send() as reply:
                self.tell("sent")
                self.reply_status = reply.status
                while chunk := reply.read1(65536):
                    said(chunk)
                    self._chunks.put(chunk)
            ended = "finished"
        except (OSError, http.client.HTTPException) as error:
            ended = f"failed: {type(error).__name__}"
        if retries and (ended != "finished" or (self.reply_status or 0) >= 500):
            self._notes.extend(Note("send", held.path, held.user_message_ids) for _ in range(retries))  # the gate is spent: all failed
        self.reply_ended = ended
        self._chunks.put(b"")  # whoever waits for more wakes up
        self.tell("ended")


class FakeFetch:
    """Opens links over HTTP as the courier does through Chrome: hop by hop allowed, cookies for the site's own host alone."""

    def __init__(self, site: str) -> None:
        self.site = site

    @contextlib.contextmanager
    def __call__(self, link: Link) -> Iterator[FakeBody]:
        url = link.url
        for _ in range(6):
            if not allowed(url, self.site):
                raise Unavailable("its link leads to a host that is none of the site's; it was not followed")
            place = urlsplit(url)
            connection = http.client.HTTPConnection(place.netloc, timeout=IDLE_S)
            try:
                cookie = {"Cookie": "oai-did=fake"} if place.netloc == urlsplit(self.site).netloc else {}
                connection.request("GET", f"{place.path}?{place.query}", headers=cookie)
                reply = connection.getresponse()
                if reply.status == 200:
                    if reply.getheader("content-type", "").startswith("text/html") and not reply.getheader("content-disposition"):
                        raise Unavailable("the site answered with a page instead of the file")
                    yield FakeBody(reply)
                    return
                if reply.status != 302:
                    raise unfetched(reply.status)
                url = str(reply.getheader("location"))
            finally:
                connection.close()
        raise Unavailable("its link leads from address to address")


class FakeBody:
    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self._reply = reply
        self.name = disposed_name(reply.getheader("content-disposition"))
        self.mime = (reply.getheader("content-type") or "").partition(";")[0] or None
        length = reply.getheader("content-length")
        self.size = int(length) if length else None

    def chunks(self) -> Iterator[bytes]:
        try:
            while data := self._reply.read1(1 << 16):
                yield data
        except http.client.HTTPException:
            return  # cut short, and as silent about it as Chrome


def explain(error: BaseException) -> str | None:
    return str(error) if isinstance(error, ConnectionError) else None


class FakeSeat:
    def __init__(self, site: str, clock: Any, pause: Pause | None = None, tell: Tell = silent) -> None:
        self.gate = FakeGate(pause, tell)
        self.session = FakeSession(site, self.gate, tell)
        self.page = ChatPage(self.session, site, clock, explain=explain, fetch=FakeFetch(site))
        self.closed = False
        self.stuck = False  # Chrome does not answer when it is to close

    def close(self) -> bool:
        self.gate.shut()
        self.session.page.text = ""
        self.closed = self.gate.lost = True
        return not self.stuck


class FakeBrowser:
    """The Browser port. `seats`: every window that was opened; `buried`: windows of dead owners; `looked_for_blank`: the seats that were
    asked about; `mute`: Chrome runs and does not answer who wants to bury one."""

    def __init__(self, site: str, clock: Any, *, pause: Pause | None = None, tell: Tell = silent) -> None:
        self.site, self.clock, self.pause, self.tell = site, clock, pause, tell
        self.seats: list[FakeSeat] = []
        self.buried: list[str] = []
        self.looked_for_blank: list[list[int]] = []
        self.mute = False
        self.prepare: Callable[[FakeSeat], None] = lambda seat: None

    @property
    def clicks(self) -> int:
        return sum(seat.session.clicks for seat in self.seats)

    def seat(self, number: int) -> tuple[str, FakeSeat]:
        self.tell("seat")
        seat = FakeSeat(self.site, self.clock, self.pause, self.tell)
        self.prepare(seat)
        self.seats.append(seat)
        return f"window-{len(self.seats)}", seat

    def bury(self, window: str) -> None:
        self.tell("bury")
        if self.mute:
            raise Failure("browser", "a command that died left a window open, and Chrome does not answer; nothing was sent", again=True)
        self.buried.append(window)

    def bury_blank(self, seats: Sequence[int]) -> None:
        self.looked_for_blank.append(list(seats))
