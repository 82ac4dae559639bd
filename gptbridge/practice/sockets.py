"""The WebSocket `/backend-api/ws`: a send as a text frame, the answer's stream as text frames.

Guarantees: a frame that holds a send is on the record on arrival like any other. Owns RFC 6455 framing as far as a browser needs it.
Fails by closing the socket. A frame to us: the body of a send. Frames from us: `{"type": "status", "status": N}`, then either
`{"type": "error", "body": ...}` or `{"type": "item", "encoded_item": "<a server-sent event>"}`..., then `{"type": "end"}`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

from gptbridge.practice import sending
from gptbridge.practice.exchange import BadBody, Reply, Request, fault

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_FRAME = 32 * 2**20


def accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()


def read_frame(read: Callable[[int], bytes]) -> tuple[int, bytes] | None:
    """(opcode, payload) of one message, fragments joined; None at the end or on nonsense. Control frames come by themselves."""
    opcode, payload = 0, b""
    while True:
        head = read(2)
        if len(head) < 2:
            return None
        final, code, masked, length = head[0] & 0x80, head[0] & 0x0F, head[1] & 0x80, head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(read(2 if length == 126 else 8), "big")
        if not masked or length + len(payload) > MAX_FRAME:
            return None
        mask = read(4)
        data = read(length)
        if len(mask) < 4 or len(data) < length:
            return None
        if length:
            # One big-integer xor: a byte loop takes a second for a megabyte.
            pad = (mask * (length // 4 + 1))[:length]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(length, "big")
        if code >= 8:
            return code, data
        opcode, payload = code or opcode, payload + data
        if final:
            return opcode, payload


def frame(payload: bytes, opcode: int = 1) -> bytes:
    length = len(payload)
    size = (
        bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big") if length < 65536 else b"\x7f" + length.to_bytes(8, "big")
    )
    return bytes([0x80 | opcode]) + size + payload


def serve(req: Request, read: Callable[[int], bytes], write: Callable[[bytes], Any]) -> None:
    """Answer frames until the other side closes. `req` is the handshake; its account is the signed-in one."""

    def say(value: Any) -> None:
        write(frame(json.dumps(value).encode("ascii")))

    while True:
        got = read_frame(read)
        if got is None or got[0] == 8:
            write(frame(got[1][:2] if got else b"", 8))
            return
        if got[0] == 9:
            write(frame(got[1], 10))
        elif got[0] in (1, 2):
            record = req.world.arrive()
            sending.note(req.world, record, got[1])
            req.body, req.send = got[1], record
            try:
                reply = sending.send(req) if req.world.signed_in() == req.account else fault(401, {"message": "Unauthorized"})
            except BadBody:
                reply = fault(422, [{"loc": ["body"], "msg": "invalid", "type": "value_error"}])
            if reply.drop and reply.frames is None:
                return
            record.answered = reply.status
            say({"type": "status", "status": reply.status})
            _tell(reply, say)
            if reply.drop:
                return


def _tell(reply: Reply, say: Callable[[Any], None]) -> None:
    if reply.frames is None:
        say({"type": "error", "body": reply.body.decode("utf-8", "replace")})
    for item in reply.frames or ():
        say({"type": "item", "encoded_item": item.decode("ascii")})
    say({"type": "end"})
