"""A toy site and a window to drive: the server's own count is the witness of what left the browser."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gptbridge.edge.chrome import BrowserSettings, Chrome
from gptbridge.edge.devtools import DevTools

SEND = "/backend-api/f/conversation"

PAGE = """<!doctype html><title>toy</title><script>
const body = (id, text, extra) => JSON.stringify({action: "next", conversation_id: "c-1", parent_message_id: "p-1", model: "toy",
  thinking_effort: "high", messages: [{id, author: {role: "user"}, content: {content_type: "text", parts: [text || "hello"]},
  metadata: {attachments: [{id: "file-1"}]}}], ...extra});
const url = (way) => "/backend-api/f/conversation?way=" + way;
const post = (way, b, more) => fetch(url(way), {method: "POST", body: b, headers: {"Content-Type": "application/json",
  "Authorization": "Bearer planted-token", "Chatgpt-Account-Id": "acc-1"}, ...more}).catch((e) => { window.failed = String(e); });
const later = (f) => new Promise((r) => setTimeout(r, f));
let dedicated;
const ways = {
  fetch: (id) => post("fetch", body(id)),
  big: (id) => post("big", body(id, "x".repeat(300000))),
  blob: (id) => post("blob", new Blob([body(id)], {type: "application/json"})),
  bytes: (id) => post("bytes", new TextEncoder().encode(body(id))),
  request: (id) => fetch(new Request(url("request"), {method: "POST", body: body(id)})).catch(() => {}),
  keepalive: (id) => post("keepalive", body(id), {keepalive: true}),
  beacon: (id) => { navigator.sendBeacon(url("beacon"), body(id)); },
  beaconBlob: (id) => { navigator.sendBeacon(url("beaconBlob"), new Blob([body(id)], {type: "application/json"})); },
  xhr: (id) => { const x = new XMLHttpRequest(); x.open("POST", url("xhr")); x.onerror = () => { window.failed = "xhr"; };
    x.send(body(id)); },
  xhrBlob: (id) => { const x = new XMLHttpRequest(); x.open("POST", url("xhrBlob")); x.send(new Blob([body(id)])); },
  otherPath: (id) => fetch("/new/path", {method: "POST", body: JSON.stringify({wrapped: JSON.parse(body(id))})}).catch(() => {}),
  worker: (id) => { new Worker("/worker.js").postMessage({url: url("worker"), body: body(id)}); },
  oldWorker: (id) => { dedicated.postMessage({url: url("oldWorker"), body: body(id)}); },
  form: (id) => { const f = document.createElement("form"); Object.assign(f, {method: "POST", enctype: "text/plain", target: "x"});
    f.action = url("form");
    const i = document.createElement("input"); const [a, b] = body(id).split("next"); i.name = a + "next"; i.value = b; f.append(i);
    const w = document.createElement("iframe"); w.name = "x"; document.body.append(w, f); f.submit(); },
  shared: (id) => { const w = new SharedWorker("/shared.js"); w.port.start(); w.port.postMessage({url: url("shared"), body: body(id)}); },
  service: async (id) => { await navigator.serviceWorker.register("/service.js");
    const r = await navigator.serviceWorker.ready; r.active.postMessage({url: url("service"), body: body(id)}); },
  iframe: (id) => { const f = document.createElement("iframe"); f.src = "/frame?" + id; document.body.append(f); },
  popup: (id) => { window.open("/frame?" + id); },
  noopener: (id) => { window.open("/frame?" + id, "_blank", "noopener"); },
  socket: async (id) => { const s = new WebSocket("ws://" + location.host + "/socket"); await new Promise((r) => { s.onopen = r; });
    s.send(JSON.stringify({type: "turn", payload: JSON.parse(body(id))})); s.send("bye"); },
};
async function retrying(id, times) { window.done = false;
  for (let i = 0; i < times; i++) {
    try { if ((await fetch(url("retry") + "&answer=502", {method: "POST", body: body(id)})).ok) break; } catch {}
    await later(150); }
  window.done = true; }
// A page that posts its message again and again, from what it makes anew each time, as soon as the first answer is there.
const again = {
  document: (id) => { void ways.fetch(id); void ways.beacon(id); },
  frame: (id) => ways.iframe(id),
  blank: (id) => { const f = document.createElement("iframe"); document.body.append(f);
    f.contentWindow.fetch(url("blank"), {method: "POST", body: body(id)}).catch(() => {}); },
  worker: (id) => ways.worker(id),
  inline: (id) => { const to = JSON.stringify(location.origin + url("inline"));
    const source = `fetch(${to}, {method: "POST", body: ${JSON.stringify(body(id))}})`;
    new Worker(URL.createObjectURL(new Blob([source + ".catch(() => {})"], {type: "text/javascript"}))); },
  shared: (id) => { const w = new SharedWorker("/shared.js", "s" + Math.random()); w.port.start();
    w.port.postMessage({url: url("shared"), body: body(id)}); },
  popup: (id) => ways.popup(id),
  reload: (id) => { sessionStorage.again = id; location.reload(); },
};
const haunt = async (id, how) => { await ways.fetch(id); for (;;) { again[how](id); await later(10); } };
if (sessionStorage.again) { void ways.fetch(sessionStorage.again); setTimeout(() => location.reload(), 20); }
const telemetry = async (path, text) => { const t = performance.now();
  await fetch(path, {method: "POST", body: JSON.stringify({partial_query: {author: {role: "user"}, content: {parts: [text]}}})});
  return performance.now() - t; };
</script><body>toy"""

RELAY = 'const relay = (e) => fetch(e.data.url, {method: "POST", body: e.data.body}).catch(() => {});'
WORKER = f"{RELAY} onmessage = relay;"
SHARED = f"{RELAY} onconnect = (e) => {{ e.ports[0].onmessage = relay; e.ports[0].start(); }};"
SERVICE = (f"{RELAY} oninstall = () => skipWaiting(); onactivate = (e) => e.waitUntil(clients.claim());"
           "onfetch = (e) => e.respondWith(fetch(e.request)); onmessage = (e) => e.waitUntil(relay(e));")
FRAME = PAGE.replace("<body>toy", '<body>frame<script>ways.fetch(location.search.slice(1))</script>')
FILES = {"/": PAGE, "/worker.js": WORKER, "/shared.js": SHARED, "/service.js": SERVICE, "/frame": FRAME}


class Toy:
    """The server: `sends` are (way, message id or "") of every request with a messages list, `frames` what came by socket."""

    def __init__(self) -> None:
        self.sends: list[tuple[str, str]] = []
        self.posts: list[str] = []
        self.frames: list[str] = []
        toy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None: ...

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/socket":
                    toy._socket(self)
                    return
                self._answer(200, FILES.get(path, "").encode(), "text/javascript" if path.endswith(".js") else "text/html")

            def do_POST(self) -> None:
                path, _, query = self.path.partition("?")
                asked = dict(pair.partition("=")[::2] for pair in query.split("&"))
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace")
                toy.posts.append(path)
                if '"messages"' in text:
                    toy.sends.append((asked.get("way", path), text.partition('"id":"')[2].partition('"')[0]))
                answer = asked.get("answer", "")
                if answer == "307":
                    self.send_response(307)
                    self.send_header("Location", "/elsewhere?way=redirected")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif answer == "stream":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Connection", "close")
                    self.end_headers()
                    for number in range(5):
                        self.wfile.write(f"data: chunk {number}\n\n".encode())
                        self.wfile.flush()
                        time.sleep(0.2)
                    self.close_connection = True
                else:
                    self._answer(int(answer or 200), b"{}", "application/json")

            def _answer(self, status: int, data: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _socket(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        token = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(token.encode()).digest()).decode()
        handler.wfile.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        handler.close_connection = True
        while head := handler.rfile.read(2):
            size = head[1] & 0x7F
            if size == 126:
                size = int.from_bytes(handler.rfile.read(2), "big")
            mask, data = handler.rfile.read(4), handler.rfile.read(size)
            self.frames.append(bytes(byte ^ mask[place % 4] for place, byte in enumerate(data)).decode("utf-8", "replace"))

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Window:
    """One window of the toy's Chrome, driven through a DevTools session of the test's own."""

    def __init__(self, chrome: Chrome) -> None:
        self.chrome = chrome
        self.target = chrome.new_window()
        self.session = chrome.devtools.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]

    def go(self, url: str) -> None:
        self.chrome.devtools.call("Page.navigate", {"url": url}, self.session)
        until(lambda: self.js("document.readyState === 'complete' && typeof ways === 'object'") is True, "the toy page")

    def js(self, expression: str, wait: bool = False) -> Any:
        answer = self.chrome.devtools.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "userGesture": True,
                                                                "awaitPromise": wait}, self.session)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def send(self, way: str, identity: str = "m-1") -> None:
        self.js(f"void ways.{way}({json.dumps(identity)})")

    def close(self) -> None:
        self.chrome.close_window(self.target)


def until(true: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def settings(folder: Path, **other: Any) -> BrowserSettings:
    chosen: dict[str, Any] = {"browser": None, "driver": None, "headless": True, "flags": (), "profile": folder / "profile",
                              "site": "http://127.0.0.1:9"}
    return BrowserSettings(**{**chosen, **other})


def writer(folder: Path) -> Callable[[str, bytes], None]:
    def write(name: str, data: bytes) -> None:
        rough = folder / f"{name}.new"
        rough.write_bytes(data)
        rough.chmod(0o600)
        rough.replace(folder / name)

    return write


def start(folder: Path, warnings: list[str] | None = None, **other: Any) -> Chrome:
    folder.mkdir(mode=0o700, exist_ok=True)
    return Chrome.ensure(settings(folder, **other), folder, lock_start=contextlib.nullcontext, write=writer(folder),
                         warn=(warnings if warnings is not None else []).append)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Chrome]:
    chrome = start(folder)
    try:
        yield chrome
    finally:
        chrome.quit()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


__all__ = ["SEND", "DevTools", "Toy", "Window", "free_port", "running", "settings", "start", "until", "writer"]
