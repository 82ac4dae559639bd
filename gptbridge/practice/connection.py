"""One connection of a browser: HTTP/1.1 in, the guards, the routes, replies and streams out.

Guarantees: a send is on the record before its body is read and before any guard; only requests that name a host of this machine, come
from this site's own pages and carry JSON get to a handler. Touches its socket. A fault of a handler is 500 and a traceback on stderr.
"""

from __future__ import annotations

import http
import re
import socket
import ssl
import sys
import traceback
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gptbridge.practice import control, downloads, files, pages, reading, sending, sockets
from gptbridge.practice.exchange import BadBody, Reply, Request, fault
from gptbridge.practice.nodes import new_id
from gptbridge.practice.world import GUEST, Send, World

ROUTES = [*reading.ROUTES, *sending.ROUTES, *downloads.ROUTES, *files.ROUTES, *control.ROUTES, *pages.ROUTES]
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAPPED = frozenset({"chatgpt.com", "chat.openai.com"})  # a browser that maps the real name to loopback, only with TLS
JSON_TYPES = frozenset({"application/json", "text/plain"})
MAX_BODY = 64 * 2**20
SOCKET_PATH = "/backend-api/ws"


class Handler(BaseHTTPRequestHandler):
    """`world` and `tls` are set on a subclass by the server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    world: World
    tls = False

    def handle(self) -> None:
        try:
            if isinstance(self.connection, ssl.SSLSocket):
                self.connection.do_handshake()
            super().handle()
        except OSError:
            self.close_connection = True  # the client went

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        return

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass

    def _dispatch(self) -> None:
        path = urlsplit(self.path).path
        send: Send | None = None
        if self.command == "POST" and unquote(path).rstrip("/") in sending.SEND_PATHS:
            send = self.world.arrive()
        if self.command == "GET" and path.startswith("/backend-api/"):
            with self.world.lock:
                self.world.reads += 1
        body = self._body()
        if send is not None and body is not None:
            sending.note(self.world, send, body)
        if body is None:
            self.close_connection = True
            reply = fault(400, "The body did not arrive whole, or is too long")
        else:
            try:
                reply = self._answer(path, body, send)
            except BadBody:
                reply = fault(422, [{"loc": ["body"], "msg": "not a JSON object", "type": "json_invalid"}])
            except OSError:
                raise
            except Exception:
                traceback.print_exc(file=sys.stderr)
                reply = fault(500, "Internal Server Error")
        self._write(reply, send)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _dispatch

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0").strip()
        if "Transfer-Encoding" in self.headers or not re.fullmatch(r"[0-9]{1,12}", length) or int(length) > MAX_BODY:
            return None
        try:
            body = self.rfile.read(int(length))
        except OSError:
            return None
        return body if len(body) == int(length) else None

    def _answer(self, path: str, body: bytes, send: Send | None) -> Reply:
        refusal = self._foreign(path)
        if refusal is not None:
            return refusal
        api = path.startswith(("/backend-api/", "/backend-anon/", "/api/"))
        if not path.startswith(("/practice/", "/assets/")) and self.world.switches.get("challenge") is not None:
            return pages.challenge()
        account = GUEST if path.startswith("/backend-anon/") else self.world.holder(self.headers.get("Authorization"))
        request = Request(self.world, self.command, path, {}, self.headers, body, self._origin(), account or GUEST, send=send)
        request.query = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if path == SOCKET_PATH and "websocket" in self.headers.get("Upgrade", "").lower():
            return self._socket(request)
        method = "GET" if self.command == "HEAD" else self.command
        for route in ROUTES:
            match = route.pattern.fullmatch(path) if route.method == method else None
            if match is None:
                continue
            if not route.open:
                refusal = reading.guard(account, method, path)
                if refusal is not None:
                    return refusal
            kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if method in ("POST", "PUT", "PATCH") and not route.raw and (body or kind) and kind not in JSON_TYPES:
                return fault(415, "Only JSON")
            request.captured = {key: unquote(value) for key, value in match.groupdict().items()}
            return route.handler(request)
        if path.startswith(("/backend-api/", "/backend-anon/")) and account is None:
            return reading.guard(None, method, path) or fault(404, "Not Found")
        return fault(404, "Not Found") if api or path.startswith("/practice/") else pages.missing(path)

    def _origin(self) -> str:
        return ("https://" if self.tls else "http://") + self.headers.get("Host", "").lower()

    def _foreign(self, path: str) -> Reply | None:
        """Refuse a host that is not this machine (a rebound name) and a page that is not ours; bytes of files come from our page by
        whatever name of this machine."""
        host = self.headers.get("Host", "").lower()
        name = re.fullmatch(r"(\[[0-9a-f:]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", host)
        if name is None or name[1] not in (LOOPBACK | MAPPED if self.tls else LOOPBACK):
            return fault(403, "This site answers to names of this machine only")
        origin = self.headers.get("Origin")
        if origin is not None and path.startswith(files.UPLOAD):
            origin = re.sub(r"(?<=//)(?:127\.0\.0\.1|localhost)(?=:|$)", (name[1] if name else ""), origin.lower())
        if origin is not None and origin.lower() != self._origin():
            return fault(403, "A foreign origin")
        return None

    def _socket(self, request: Request) -> Reply:
        """Upgrade. The origin check stands for the bearer, which a browser cannot send here."""
        account, key = self.world.signed_in(), self.headers.get("Sec-WebSocket-Key")
        if account is None or key is None:
            return fault(401 if account is None else 400, "Unauthorized" if account is None else "No key")
        request.account = account
        head = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", sockets.accept_key(key))]
        self._raw(self._head(101, head))
        self.close_connection = True
        sockets.serve(request, self.rfile.read, self._raw)
        return Reply(0, drop=True)

    def _raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _head(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        phrase = http.HTTPStatus(status).phrase if status in {s.value for s in http.HTTPStatus} else "Status"
        basic = [("Date", formatdate(usegmt=True)), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "same-origin")]
        if "oai-did=" not in self.headers.get("Cookie", "") and status != 101 and not self.path.startswith("/blob/"):
            basic.append(("Set-Cookie", f"oai-did={new_id()}; Path=/; SameSite=Lax"))
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{key}: {value}" for key, value in [*basic, *headers])]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def _write(self, reply: Reply, send: Send | None) -> None:
        if reply.drop and reply.frames is None:
            self._drop()
            return
        if send is not None:
            with self.world.lock:
                send.answered = reply.status
        bare = self.command == "HEAD" or reply.status == 304
        headers = list(reply.headers)
        if self.close_connection:
            headers.append(("Connection", "close"))
        if reply.frames is None:
            headers += [] if reply.status == 304 else [("Content-Length", str(len(reply.body)))]
            self._raw(self._head(reply.status, headers) + (b"" if bare else reply.body))
            return
        whole = reply.length is not None
        headers.append(("Content-Length", str(reply.length)) if whole else ("Transfer-Encoding", "chunked"))
        self._raw(self._head(reply.status, headers))
        for frame in () if bare else reply.frames:
            self._raw(frame if whole else b"%x\r\n%s\r\n" % (len(frame), frame))
        if reply.drop:
            self._drop()
        elif not whole and not bare:
            self._raw(b"0\r\n\r\n")

    def _drop(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
