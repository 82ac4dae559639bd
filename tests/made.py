"""Conversations in which the model made files, put onto a practice site over its switchboard."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import zipfile
from typing import Any

from tests.core.site_json import CONVERSATION, Doc, image, text

Json = dict[str, Any]
TABLE, OTHER_TABLE = b"a,b\n1,2\n", b"a,b\n3,4\n"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 64
BASHRC = b"alias ls=rm\n"
FRENCH = "n\u00e9e;1\n".encode()
NOTES = b"%PDF-1.7 notes"


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(zipfile.ZipInfo("a/b.txt"), "x" * 5000)
    return out.getvalue()


def ask(site: str, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection(site.partition("//")[2], timeout=20)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        data = reply.read()
        assert reply.status == 200, (path, reply.status, data[:300])
        return json.loads(data)
    finally:
        connection.close()


def file(site: str, ident: str, name: str, data: bytes | None, mime: str = "application/octet-stream", **more: Any) -> None:
    given = {} if data is None else {"base64": base64.b64encode(data).decode()}
    ask(site, "PUT", f"/practice/files/{ident}", {"name": name, "mime": mime, **given, **more})


def put(site: str, doc: Doc) -> str:
    ask(site, "PUT", f"/practice/conversations/{CONVERSATION}", doc.data)
    return CONVERSATION


def sandboxed(site: str, ident: str, path: str, data: bytes | None, message_id: str, mime: str = "text/csv", **more: Any) -> None:
    file(site, ident, path, data, mime, conversation_id=CONVERSATION, path=path, message_id=message_id, **more)


NINE = {  # name in the folder -> bytes
    "plot.png": PICTURE, "r.csv": TABLE, "r-2.csv": OTHER_TABLE, "bashrc.file": BASHRC, "donn\u00e9es \u8868.csv": FRENCH,
    "all.zip": archive(), "notes.pdf": NOTES}


def nine(site: str, *, slow: float = 1.0) -> str:
    """Nine artifacts over five turns: two of one name, one whose link has expired, one 410, one that is a path, one in UTF-8, one slow."""
    doc = Doc(title="Nine files")
    doc.user("u1", "Draw and count.")
    doc.add("t1", "tool", image("sediment://file_plot"), name="t2uay3k.sj1i4kz")
    doc.final("a1", "A table: [r.csv](sandbox:/mnt/data/r.csv)")
    doc.user("u2", "Again.")
    doc.final("a2", "Anew: [r.csv](sandbox:/mnt/data/r.csv)")
    doc.user("u3", "Plot it.")
    doc.add("t3", "tool", {"content_type": "execution_output", "text": ""}, name="python",
            aggregate_result={"messages": [{"message_type": "image", "image_url": "file-service://file-expired"}]})
    doc.final("a3", "There it is.")
    doc.user("u4", "More.")
    doc.add("t4", "assistant", image("sediment://file_path"), channel="final")
    doc.final("a4", "[donn\u00e9es](sandbox:/mnt/data/donn%C3%A9es%20%E8%A1%A8.csv) and [big](sandbox:/mnt/data/gone.bin)")
    doc.user("u5", "All in one.")
    doc.final("a5", "[all](sandbox:/mnt/data/all.zip)", attachments=[{"id": "file_notes", "name": "notes.pdf", "size": len(NOTES)}])
    file(site, "file_plot", "user-abc__acct/plot.png", PICTURE, "image/png")
    sandboxed(site, "file_r1", "/mnt/data/r.csv", TABLE, "a1")
    sandboxed(site, "file_r2", "/mnt/data/r.csv", OTHER_TABLE, "a2")
    file(site, "file-expired", "chart.png", PICTURE, "image/png", body="expired")
    file(site, "file_path", "../../.bashrc", BASHRC, "text/plain")
    sandboxed(site, "file_french", "/mnt/data/donn\u00e9es \u8868.csv", FRENCH, "a4")
    sandboxed(site, "file_gone", "/mnt/data/gone.bin", b"x", "a4", link="410")
    sandboxed(site, "file_zip", "/mnt/data/all.zip", archive(), "a5", "application/zip", body="slow", seconds=slow)
    file(site, "file_notes", "notes.pdf", NOTES, "application/pdf")
    return put(site, doc)


def one(site: str, data: bytes | None = b"x", name: str = "one.bin", *, twice: bool = False, **more: Any) -> str:
    """A conversation with one file of the sandbox, or the same again in a second turn."""
    doc = Doc(title="One file")
    for number in (1, 2) if twice else (1,):
        doc.user(f"u{number}", "Make it.")
        doc.final(f"a{number}", f"[it](sandbox:/mnt/data/{name})")
        sandboxed(site, f"file_{number}", f"/mnt/data/{name}", data, f"a{number}", more.get("mime", "application/octet-stream"),
                  **{key: value for key, value in more.items() if key != "mime"})
    return put(site, doc)


def canvas(site: str, *, listed: bool) -> str:
    """A canvas document that was written anew later, and one in code; `listed`: the site gives their texts."""
    doc = Doc(title="Canvas")
    doc.user("u1", "Write it down.")
    doc.add("c1", "assistant", {"content_type": "code", "language": "json", "text": json.dumps(
        {"name": "My plan", "type": "document", "content": "# Plan\n"})}, recipient="canmore.create_textdoc")
    doc.add("t1", "tool", text("Successfully created text document"), name="canmore.create_textdoc",
            canvas={"textdoc_id": "doc1", "textdoc_type": "document", "version": 1, "title": "My plan"})
    doc.final("a1", "Done.")
    doc.user("u2", "Anew, and a program.")
    doc.add("c2", "assistant", {"content_type": "code", "language": "json", "text": json.dumps(
        {"updates": [{"pattern": ".*", "multiple": False, "replacement": "# Better plan\n"}]})[:-1]}, recipient="canmore.update_textdoc")
    doc.add("t2", "tool", text("Successfully updated text document"), name="canmore.update_textdoc",
            canvas={"textdoc_id": "doc1", "textdoc_type": "document", "version": 2, "title": "My plan"})
    doc.add("c3", "assistant", {"content_type": "code", "language": "json", "text": json.dumps(
        {"name": "conftest.py", "type": "code/python", "content": "print(1)\n"})}, recipient="canmore.create_textdoc")
    doc.add("t3", "tool", text("textdoc_id: 'doc2-1234'"), name="canmore.create_textdoc")
    doc.final("a2", "Done.")
    if listed:
        doc.data["practice_textdocs"] = [
            {"id": "doc1", "version": 3, "title": "My plan", "textdoc_type": "document", "content": "# Edited by hand\n"}]
    return put(site, doc)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
