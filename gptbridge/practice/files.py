"""Files of the practice site: what answers made and what was uploaded. downloads.py hands them out.

Keeps bytes in memory. Owns the endpoints that take uploads, below `/backend-api/files`. Fails with the site's own bodies.
"""

from __future__ import annotations

import hashlib
import hmac
import mimetypes
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from gptbridge.practice import stream
from gptbridge.practice.exchange import Reply, Request, Route, fault, json_reply, route
from gptbridge.practice.nodes import Json
from gptbridge.practice.world import File, World

UPLOAD = "/practice/upload/"
FILE = r"(?P<file>file[-_][A-Za-z0-9]+)"
WORDS = {
    "file_too_large": "This file is too large.",
    "file_type_not_supported": "Files of this type cannot be uploaded.",
    "file_zero_bytes": "This file is empty.",
    "file_corrupted": "This file seems to be damaged.",
    "over_user_quota": "You have reached your upload limit. Try again later.",
}
IMAGE_TOOL = "t2uay3k.sj1i4kz"
SIDE = 64


def _picture() -> bytes:
    """A PNG of SIDE x SIDE pixels: a gradient."""
    rows = b"".join(b"\0" + bytes(v for x in range(SIDE) for v in (4 * x, 4 * y, 160)) for y in range(SIDE))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = _picture()


def add(world: World, name: str, mime: str, data: bytes, owner: str, **more: Any) -> File:
    made = File("file_" + uuid.uuid4().hex, name, mime, data, owner, created=time.time(), **more)
    with world.lock:
        world.files[made.ident] = made
    return made


def image(world: World, owner: str, conversation_id: str) -> str:
    """Keep the generated picture; returns its id. Its name is an internal path, as on the site."""
    return add(world, f"user-{owner}__acct/{uuid.uuid4()}.png", "image/png", PICTURE, owner, conversation_id=conversation_id).ident


def keep(world: World, owner: str, conversation_id: str, path: str, data: bytes, holder: str) -> None:
    """Keep a file of the sandbox, named in the message `holder`."""
    mime = {".md": "text/markdown"}.get(path[path.rfind(".") :]) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    add(world, path, mime, data, owner, conversation_id=conversation_id, path=path, holders={holder})


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


def sign(world: World, ident: str, stamp: str) -> str:
    return hmac.new(world.secret.encode(), f"{ident} {stamp}".encode(), hashlib.sha256).hexdigest()


def signed(req: Request, file: File) -> str:
    """An address of the site's own host that opens for a while, without a bearer."""
    stamp = str(int(time.time()))
    query = {"id": file.ident, "ts": stamp, "p": "fs", "cid": "1", "sig": sign(req.world, file.ident, stamp), "v": "0"}
    return req.origin + "/backend-api/estuary/content?" + urlencode(query)


def create(req: Request) -> Reply:
    body = req.json_object()
    name, size = body.get("file_name"), body.get("file_size")
    if not isinstance(name, str) or not isinstance(size, int):
        return fault(422, [{"loc": ["body", "file_name"], "msg": "field required", "type": "value_error.missing"}])
    refusal = req.world.switches.strike("upload-refused")
    if refusal is not None:
        status, code = int(refusal["status"]), str(refusal["code"])
        return fault(status, {"message": WORDS.get(code, "The file could not be uploaded."), "code": code})
    mime = body.get("mime_type") or mimetypes.guess_type(name)[0] or "application/octet-stream"
    file = add(req.world, name, str(mime), b"", req.account.owner, ready=False)
    origin = req.origin
    if req.world.switches.get("upload-elsewhere") is not None:
        origin = origin.replace("127.0.0.1", "localhost")
    return json_reply({"status": "success", "upload_url": f"{origin}/practice/upload/{file.ident}", "file_id": file.ident})


def upload(req: Request) -> Reply:
    file = req.world.files.get(req.captured["file"])
    if file is None or file.ready:
        return fault(404, "Not Found")
    file.data = req.body
    return Reply(201, [("Content-Type", "text/plain"), *_shared(req)], b"")


def may_upload(req: Request) -> Reply:
    """What a browser asks before it sends bytes to another host."""
    allowed = [("Access-Control-Allow-Methods", "PUT"), ("Access-Control-Allow-Headers", "content-type, x-ms-blob-type")]
    return Reply(204, [*_shared(req), *allowed, ("Access-Control-Allow-Private-Network", "true")], b"")


def _shared(req: Request) -> list[tuple[str, str]]:
    origin = req.headers.get("Origin")
    return [("Access-Control-Allow-Origin", origin)] if origin is not None else []


def uploaded(req: Request) -> Reply:
    file = req.world.files.get(req.captured["file"])
    if file is None or file.owner != req.account.owner:
        return fault(404, "Not Found")
    file.ready = True
    return json_reply({"status": "success", "download_url": signed(req, file)})


def process(req: Request) -> Reply:
    body = req.json_object()
    file = req.world.files.get(str(body.get("file_id")))
    if file is None or file.owner != req.account.owner:
        return fault(404, "Not Found")
    return Reply(200, [("Content-Type", "text/event-stream; charset=utf-8")], frames=_processed(req.world, file))


def _processed(world: World, file: File) -> Iterator[bytes]:
    """The processing as events; `upload-slow` and `upload-not-processed` strike here."""
    def frame(name: str, **more: Any) -> bytes:
        return stream.event({"file_id": file.ident, "event": name, "message": "", "progress": 100.0, **more})

    yield frame("file.processing.started", progress=0.0)
    slow, useless = world.switches.get("upload-slow"), world.switches.get("upload-not-processed")
    if slow is not None:
        time.sleep(float(slow["seconds"]))
    if useless is not None:
        code = str(useless["code"])
        yield frame("file.processing.failed", error_code=code, message=WORDS.get(code, "The file could not be processed."))
        return
    file.ready = True
    yield frame("file.processing.file_ready")


ROUTES: list[Route] = [
    route("POST", r"/backend-api/files", create),
    route("POST", rf"/backend-api/files/{FILE}/uploaded", uploaded),
    route("POST", r"/backend-api/files/process_upload_stream", process),
    route("PUT", rf"{UPLOAD}{FILE}", upload, open=True, raw=True),
    route("OPTIONS", rf"{UPLOAD}{FILE}", may_upload, open=True),
]
