"""What a browser sees: the page, its assets, the login page, the challenge.

Guarantees: everything echoed into HTML is escaped; assets come from the built folder alone, no path leaves it; the page can load nothing
from any other host. Reads `page/dist`. Without a built page it says so in a plain one.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from pathlib import Path

from gptbridge.practice.exchange import Reply, Request, Route, fault, route

DIST = Path(__file__).with_name("page") / "dist"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
# The page may talk to this site only: a link or image of an answer reaches no other host.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' blob:; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "worker-src 'self' blob:; connect-src 'self' http://localhost:* blob: data:; font-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PLAIN = (
    '<!doctype html><meta charset="utf-8"><title>Practice site</title><p>The page is not built: page/dist/index.html is missing.'
    '<script type="application/json" id="bootstrap">__BOOTSTRAP__</script>'
)
BUTTON = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body><h1>{title}</h1><p>{words}</p>'
    '<form id="{form}"><button type="submit" id="go">{button}</button></form><script>'
    'document.getElementById("{form}").onsubmit = async (e) => {{'
    'e.preventDefault(); await fetch("/practice/scenario", {{method: "POST", headers: {{"Content-Type": "application/json"}},'
    'body: JSON.stringify({{name: "{scenario}", on: false}})}}); location.href = {next}; }};</script></body></html>'
)


def embed(value: object) -> str:
    """JSON that may stand inside a script element: no `<`, `>`, `&`."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _page(body: str, status: int = 200, headers: list[tuple[str, str]] | None = None) -> Reply:
    basic = [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), ("Content-Security-Policy", POLICY)]
    return Reply(status, [*basic, *(headers or [])], body.encode("utf-8", "replace"))


def _template(name: str, otherwise: str) -> str:
    try:
        return (DIST / name).read_text("utf-8")
    except FileNotFoundError:
        return otherwise


def index(req: Request) -> Reply:
    """The page; `__BOOTSTRAP__` becomes `{"conversation": id or null}`."""
    name = "mobile.html" if req.world.switches.get("mobile-page") is not None else "index.html"
    return _page(_template(name, PLAIN).replace("__BOOTSTRAP__", embed({"conversation": req.captured.get("conversation")})))


def login(req: Request) -> Reply:
    words = "Nobody is signed in. This is a practice site: one press signs you in again."
    plain = BUTTON.format(title="Log in", words=words, form="login", button="Log in", scenario="signed-out", next='"/"')
    return _page(_template("login.html", plain).replace("__BOOTSTRAP__", embed({"conversation": None})))


def challenge() -> Reply:
    """403 and the page that stops a browser; its button ends the scenario, for a person."""
    body = BUTTON.format(
        title="Just a moment...",
        words="Verify you are human by completing the action below.",
        form="challenge-form",
        button="I am human",
        scenario="challenge",
        next="location.href",
    )
    return _page(body, 403, [("cf-mitigated", "challenge")])


def asset(req: Request) -> Reply:
    """A file of the built folder, with an ETag."""
    name = req.captured["asset"]
    path = DIST / name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*", name) or not path.is_file():
        return fault(404, "Not Found")
    data = path.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = [("ETag", tag), ("Cache-Control", "no-cache"), ("Service-Worker-Allowed", "/")]
    if req.headers.get("If-None-Match") == tag:
        return Reply(304, headers)
    return Reply(200, [("Content-Type", TYPES.get(path.suffix, "application/octet-stream")), *headers], data)


def missing(path: str) -> Reply:
    """404 for a person."""
    return _page(f"<!doctype html><meta charset=utf-8><title>Not found</title><h1>Not found</h1><p>{html.escape(path)}", 404)


ID = r"(?P<conversation>[^/]+)"
ROUTES: list[Route] = [
    route("GET", r"/", index, open=True),
    route("GET", rf"/c/{ID}", index, open=True),
    route("GET", rf"/g/[^/]+/c/{ID}", index, open=True),
    route("GET", r"/g/[^/]+(?:/project)?", index, open=True),
    route("GET", r"/auth/login", login, open=True),
    route("GET", r"/assets/(?P<asset>.+)", asset, open=True),
    route("GET", r"/(?P<asset>sw\.js|favicon\.(?:ico|svg))", asset, open=True),
]
