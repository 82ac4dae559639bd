"""How the practice site hands files out, and every way in which that goes wrong.

Two steps, as on the site: a JSON endpoint gives a signed `download_url` that lives for LIFE seconds, and behind it lie the bytes; a file
goes only to the account that owns it. A file may have faults (PUT /practice/files/ID, or the scenario `download-trouble`): `link` for the
first step, `body` for the second, each for the first `link_times` or `body_times` requests only (0 = always). Owns the endpoints of
downloads, `/blob/` (the site's other file host, by the name `localhost`: signed, without cookies), and `/practice/files`. Fails with the
site's own bodies.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterator
from urllib.parse import quote, urlencode, urlsplit

from gptbridge.practice.exchange import Reply, Request, Route, fault, json_reply, route
from gptbridge.practice.files import FILE, sign, signed
from gptbridge.practice.nodes import Json, iso
from gptbridge.practice.world import FIRST, File

LIFE = 300
BLOCK = 1 << 16
FOREIGN = "https://files.example.org/stolen"
# What `link` may be, beside an `error_code` of the site and an HTTP status; and what `body` may be, beside a status.
LINKS = ("retry", "foreign", "blob")
BODIES = ("expired", "redirect-foreign", "redirect-blob", "redirect-loop", "drop", "drop-chunked", "wrong-length", "slow", "stall", "page")
CODES = ("file_not_found", "file_expired", "file_timed_out", "ace_pod_expired", "permission_error")


def generated(size: int) -> Iterator[bytes]:
    """The made-up bytes of a file of that size, in blocks: no two blocks alike, so that a lost or doubled one shows."""
    for number in range(0, size, BLOCK):
        block = hashlib.sha256(b"%d" % number).digest() * (BLOCK // 32)
        yield block[: min(BLOCK, size - number)]


def content_of(file: File) -> Iterator[bytes]:
    if file.generated is not None:
        yield from generated(file.generated)
    else:
        yield from (file.data[at : at + BLOCK] for at in range(0, len(file.data), BLOCK))


def _blob(req: Request, file: File) -> str:
    """The address of the other file host."""
    stamp = str(int(time.time()))
    port = urlsplit(req.origin).port
    scheme = urlsplit(req.origin).scheme
    query = urlencode({"se": stamp, "sig": sign(req.world, file.ident, stamp)})
    return f"{scheme}://localhost:{port}/blob/{file.ident}?{query}"


def _fault(req: Request, file: File, step: str) -> str:
    """The fault that strikes this request, "" for none."""
    with req.world.lock:
        file.served[step] = count = file.served.get(step, 0) + 1
    kind, times = str(file.faults.get(step, "")), int(file.faults.get(f"{step}_times", 0))
    if kind:
        return kind if not times or count <= times else ""
    on = req.world.switches.get("download-trouble")
    if on is None or not on[step]:
        return ""
    struck = req.world.switches.strike("download-trouble")
    return str(struck[step]) if struck is not None else ""


def _success(req: Request, file: File) -> Reply:
    kind = _fault(req, file, "link")
    if kind.isdigit():
        return fault(int(kind), {"403": "Forbidden", "422": "Invalid file_id"}.get(kind, "Library file not found"))
    if kind == "retry":
        return json_reply({"status": "retry"})
    if kind in CODES:
        return json_reply({"status": "error", "error_code": kind, "error_message": "The file cannot be downloaded"})
    url = FOREIGN if kind == "foreign" else _blob(req, file) if kind == "blob" else signed(req, file)
    return json_reply(
        {
            "status": "success",
            "download_url": url,
            "metadata": {"file_id": file.ident},
            "file_name": file.name,
            "creation_time": iso(file.created),
            "file_size_bytes": file.size,
            "mime_type": file.mime,
        }
    )


def _missing() -> Reply:
    return json_reply({"status": "error", "error_code": "file_not_found", "error_message": "File not found"})


def download(req: Request) -> Reply:
    found = req.world.files.get(req.captured["file"])
    if found is None:
        return _missing()
    return _success(req, found) if found.owner == req.account.owner else fault(403, "Forbidden")


def interpreter(req: Request) -> Reply:
    conversation, wanted, holder = req.captured["conversation"], req.query.get("sandbox_path", ""), req.query.get("message_id", "")
    if req.world.find(conversation, req.account) is None:
        return fault(404, "interpreter file not found")
    with req.world.lock:
        for file in req.world.files.values():
            if file.conversation_id == conversation and file.path == wanted and file.path and holder in file.holders:
                return _success(req, file)
    return fault(404, "interpreter file not found")


def textdocs(req: Request) -> Reply:
    """The canvas documents of a conversation, as it keeps them beside its mapping (`practice_textdocs`)."""
    found = req.world.find(req.captured["conversation"], req.account)
    return json_reply(found.data.get("practice_textdocs") or []) if found is not None else fault(404, "Not Found")


def content(req: Request) -> Reply:
    """The second step. No bearer, as an `img` cannot send one: the signature opens it."""
    return _handed(req, req.query.get("id", ""), req.query.get("ts", ""))


def blob(req: Request) -> Reply:
    if not req.headers.get("Host", "").lower().startswith("localhost"):
        return fault(404, "Not Found")
    return _handed(req, req.captured["file"], req.query.get("se", ""))


def _handed(req: Request, ident: str, stamp: str) -> Reply:
    file = req.world.files.get(ident)
    came = {"cookie": "Cookie" in req.headers, "bearer": "Authorization" in req.headers}
    fetch = {"file": ident, "host": req.headers.get("Host", ""), **came}
    with req.world.lock:
        req.world.fetches.append(fetch)
    good = hmac.compare_digest(req.query.get("sig", "").encode(), sign(req.world, ident, stamp).encode())
    if file is None or not good or not stamp.isdigit() or time.time() - int(stamp) > LIFE:
        return fault(403, "Forbidden")
    kind = "" if req.path.startswith("/blob/") else _fault(req, file, "body")
    if kind == "expired" or kind.isdigit():
        return fault(403 if kind == "expired" else int(kind), "Forbidden")
    if kind.startswith("redirect-"):
        to = {"foreign": FOREIGN, "blob": _blob(req, file), "loop": signed(req, file)}[kind.removeprefix("redirect-")]
        return Reply(302, [("Location", to)])
    if kind == "page":
        return Reply(200, [("Content-Type", "text/html; charset=utf-8")], b"<!doctype html><title>Log in</title>")
    name = file.name.rsplit("/", 1)[-1]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"
    # A sandboxed document: an uploaded page must not run as one of the site's own.
    headers = [("Content-Type", file.mime), ("Content-Disposition", disposition), ("Content-Security-Policy", "sandbox")]
    return Reply(200, headers, frames=_body(file, kind), length=None if kind == "drop-chunked" else file.size + (kind == "wrong-length"),
                 drop=kind in ("drop", "drop-chunked", "wrong-length"))  # fmt: skip


def _body(file: File, kind: str) -> Iterator[bytes]:
    pause = float(file.faults.get("seconds", 1.0))
    left = file.size // 2 if kind.startswith("drop") else file.size
    for block in content_of(file):
        if left <= 0:
            return
        if kind in ("slow", "stall"):
            # In eight pieces with pauses between them; or half of the block and then nothing for that long.
            step = max(1, len(block) // (8 if kind == "slow" else 2))
            for at in range(0, len(block), step):
                yield block[at : at + step]
                time.sleep(pause / 8 if kind == "slow" else pause)
        else:
            yield block[:left]
        left -= len(block)


def put(req: Request) -> Reply:
    """`PUT /practice/files/ID`: a file. `name`, `mime`, its bytes as `text`, `base64` or `size` (made up); `conversation_id`, `path` and
    `message_id` for one of the sandbox; `link`, `body`, `link_times`, `body_times`, `seconds`: its faults."""
    body, ident = req.json_object(), req.captured["file"]
    try:
        data = base64.b64decode(body["base64"], validate=True) if "base64" in body else str(body.get("text", "")).encode()
        size = int(body["size"]) if "size" in body else None
        faults: Json = {
            "link": str(body.get("link", "")),
            "body": str(body.get("body", "")),
            **{key: int(body.get(key, 0)) for key in ("link_times", "body_times")},
            "seconds": float(body.get("seconds", 1.0)),
        }
    except (TypeError, ValueError, binascii.Error):
        return fault(422, "a file's fields have the wrong form")
    if not (faults["link"] in ("", *LINKS, *CODES) or re.fullmatch("[45][0-9][0-9]", faults["link"])):
        return fault(422, f'"link" is one of {", ".join((*LINKS, *CODES))}, or a status')
    if not (faults["body"] in ("", *BODIES) or re.fullmatch("[45][0-9][0-9]", faults["body"])):
        return fault(422, f'"body" is one of {", ".join(BODIES)}, or a status')
    account = req.world.signed_in() or FIRST
    holder = body.get("message_id")
    made = File(
        ident,
        str(body.get("name", ident)),
        str(body.get("mime", "application/octet-stream")),
        data,
        account.owner,
        conversation_id=str(body.get("conversation_id", "")).lower(),
        path=str(body.get("path", "")),
        holders={str(holder)} if holder is not None else set(),
        created=time.time(),
        generated=size,
        faults=faults,
    )
    with req.world.lock:
        req.world.files[ident] = made
    return json_reply({"success": True, "file_id": ident, "size": made.size})


def listed(req: Request) -> Reply:
    """Every file with its size and sha256, and every request for bytes: which host, and whether a cookie or the bearer came with it."""
    with req.world.lock:
        known, fetches = list(req.world.files.values()), list(req.world.fetches)
    out = []
    for file in known:
        digest = hashlib.sha256()
        for block in content_of(file):
            digest.update(block)
        out.append({"id": file.ident, "name": file.name, "path": file.path, "size": file.size, "sha256": digest.hexdigest()})
    return json_reply({"files": out, "fetches": fetches})


ONE = r"/backend-api/conversation/(?P<conversation>[^/]+)"
ROUTES: list[Route] = [
    route("GET", rf"/backend-api/files/{FILE}/download", download),
    route("GET", rf"/backend-api/files/download/{FILE}", download),
    route("GET", ONE + "/interpreter/download", interpreter),
    route("GET", ONE + "/textdocs", textdocs),
    route("GET", r"/backend-api/estuary/content", content, open=True),
    route("GET", rf"/blob/{FILE}", blob, open=True),
    route("PUT", rf"/practice/files/{FILE}", put, open=True),
    route("GET", r"/practice/files", listed, open=True),
]
