"""Files of the practice site: what answers made and what was uploaded, and the two steps that hand them out.

Guarantees: a `download_url` is signed and lives for LIFE seconds; a file goes only to the account that owns it. Keeps bytes in memory.
Owns the endpoints below `/backend-api/files`, `/backend-api/estuary` and `.../interpreter/download`. Fails with the site's own bodies.
"""

from __future__ import annotations

import hashlib
import hmac
import mimetypes
import struct
import time
import uuid
import zlib
from typing import Any
from urllib.parse import quote, urlencode

from gptbridge.practice import stream
from gptbridge.practice.exchange import Reply, Request, Route, fault, json_reply, route
from gptbridge.practice.nodes import Json, iso
from gptbridge.practice.world import File, World

IMAGE_TOOL = "t2uay3k.sj1i4kz"
LIFE = 300
SIDE = 64


def _picture() -> bytes:
    """A PNG of SIDE x SIDE pixels: a gradient."""
    rows = b"".join(b"\0" + bytes(v for x in range(SIDE) for v in (4 * x, 4 * y, 160)) for y in range(SIDE))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = _picture()


def _add(world: World, name: str, mime: str, data: bytes, owner: str, **more: Any) -> File:
    made = File("file_" + uuid.uuid4().hex, name, mime, data, owner, created=time.time(), **more)
    with world.lock:
        world.files[made.ident] = made
    return made


def image(world: World, owner: str, conversation_id: str) -> str:
    """Keep the generated picture; returns its id. Its name is an internal path, as on the site."""
    return _add(world, f"user-{owner}__acct/{uuid.uuid4()}.png", "image/png", PICTURE, owner, conversation_id=conversation_id).ident


def keep(world: World, owner: str, conversation_id: str, path: str, data: bytes, holder: str) -> None:
    """Keep a file of the sandbox, named in the message `holder`."""
    mime = {".md": "text/markdown"}.get(path[path.rfind(".") :]) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    _add(world, path, mime, data, owner, conversation_id=conversation_id, path=path, holders={holder})


def pointer(file: File) -> Json:
    """The `image_asset_pointer` part of a multimodal message."""
    generation = {"gen_id": file.ident[5:], "gen_size": "image", "width": SIDE, "height": SIDE, "transparent_background": False}
    return {
        "content_type": "image_asset_pointer",
        "asset_pointer": "sediment://" + file.ident,
        "size_bytes": len(file.data),
        "width": SIDE,
        "height": SIDE,
        "fovea": None,
        "metadata": {
            "dalle": {"gen_id": file.ident[5:], "prompt": "A gradient"},
            "generation": generation,
            "gizmo": None,
            "sanitized": False,
        },
    }


def _sign(world: World, ident: str, stamp: str) -> str:
    return hmac.new(world.secret.encode(), f"{ident} {stamp}".encode(), hashlib.sha256).hexdigest()


def _signed(req: Request, file: File) -> str:
    stamp = str(int(time.time()))
    query = {"id": file.ident, "ts": stamp, "p": "fs", "cid": "1", "sig": _sign(req.world, file.ident, stamp), "v": "0"}
    return req.origin + "/backend-api/estuary/content?" + urlencode(query)


def _success(req: Request, file: File) -> Reply:
    return json_reply(
        {
            "status": "success",
            "download_url": _signed(req, file),
            "metadata": {"file_id": file.ident},
            "file_name": file.name,
            "creation_time": iso(file.created),
            "file_size_bytes": len(file.data),
            "mime_type": file.mime,
        }
    )


def _missing() -> Reply:
    return json_reply({"status": "error", "error_code": "file_not_found", "error_message": "File not found"})


def download(req: Request) -> Reply:
    found = req.world.files.get(req.captured["file"])
    if found is None:
        return _missing()
    return _success(req, found) if found.owner == req.account.user_id else fault(403, "Forbidden")


def interpreter(req: Request) -> Reply:
    conversation, wanted, holder = req.captured["conversation"], req.query.get("sandbox_path", ""), req.query.get("message_id", "")
    if req.world.find(conversation, req.account) is None:
        return fault(404, "interpreter file not found")
    with req.world.lock:
        for file in req.world.files.values():
            if file.conversation_id == conversation and file.path == wanted and file.path and holder in file.holders:
                return _success(req, file)
    return fault(404, "interpreter file not found")


def content(req: Request) -> Reply:
    """The second step. No bearer, as an `img` cannot send one: the signature opens it."""
    ident, stamp = req.query.get("id", ""), req.query.get("ts", "")
    file = req.world.files.get(ident)
    good = hmac.compare_digest(req.query.get("sig", "").encode(), _sign(req.world, ident, stamp).encode())
    if file is None or not good or not stamp.isdigit() or time.time() - int(stamp) > LIFE:
        return fault(403, "Forbidden")
    name = file.name.rsplit("/", 1)[-1]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    # A sandboxed document: an uploaded page must not run as one of the site's own.
    headers = [("Content-Type", file.mime), ("Content-Disposition", disposition), ("Content-Security-Policy", "sandbox")]
    return Reply(200, headers, file.data)


def create(req: Request) -> Reply:
    body = req.json_object()
    name, size = body.get("file_name"), body.get("file_size")
    if not isinstance(name, str) or not isinstance(size, int):
        return fault(422, [{"loc": ["body", "file_name"], "msg": "field required", "type": "value_error.missing"}])
    mime = body.get("mime_type") or mimetypes.guess_type(name)[0] or "application/octet-stream"
    file = _add(req.world, name, str(mime), b"", req.account.user_id, ready=False)
    return json_reply({"status": "success", "upload_url": f"{req.origin}/practice/upload/{file.ident}", "file_id": file.ident})


def upload(req: Request) -> Reply:
    file = req.world.files.get(req.captured["file"])
    if file is None or file.ready:
        return fault(404, "Not Found")
    file.data = req.body
    return Reply(201, [("Content-Type", "text/plain")], b"")


def uploaded(req: Request) -> Reply:
    file = req.world.files.get(req.captured["file"])
    if file is None or file.owner != req.account.user_id:
        return fault(404, "Not Found")
    file.ready = True
    return json_reply({"status": "success", "download_url": _signed(req, file)})


def process(req: Request) -> Reply:
    body = req.json_object()
    file = req.world.files.get(str(body.get("file_id")))
    if file is None or file.owner != req.account.user_id:
        return fault(404, "Not Found")
    file.ready = True
    names = ("file.processing.started", "file.processing.file_ready")
    frames = [stream.event({"file_id": file.ident, "event": name, "message": "", "progress": 100.0}) for name in names]
    return Reply(200, [("Content-Type", "text/event-stream; charset=utf-8")], frames=iter(frames))


FILE = r"(?P<file>file[-_][A-Za-z0-9]+)"
ROUTES: list[Route] = [
    route("GET", rf"/backend-api/files/{FILE}/download", download),
    route("GET", rf"/backend-api/files/download/{FILE}", download),
    route("GET", r"/backend-api/conversation/(?P<conversation>[^/]+)/interpreter/download", interpreter),
    route("GET", r"/backend-api/estuary/content", content, open=True),
    route("POST", r"/backend-api/files", create),
    route("POST", rf"/backend-api/files/{FILE}/uploaded", uploaded),
    route("POST", r"/backend-api/files/process_upload_stream", process),
    route("PUT", rf"/practice/upload/{FILE}", upload, open=True, raw=True),
]
