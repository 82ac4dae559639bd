"""Everything known about the site's file endpoints: where a file's link is, how each answer is to be read, which hosts serve bytes.

A download has two steps: a JSON endpoint gives a signed address that lives for minutes; behind it lie the bytes. Failures come as HTTP
codes or as `status: "error"` with 200. Nothing of a signed address or of the site's own words gets into a message. Touches nothing: what
reads an endpoint is given. Fails by `Unavailable`, for one file; by `Failure` where the page itself is lost.

Sources: public client code and captures, 2023 to 2026-10.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from gptbridge.core.artifacts import Artifact, canvas_name
from gptbridge.core.ports import Link, Unavailable

Read = Callable[[str], dict[str, Any]]  # path -> {"status", "json", "text"}

HOSTS = ("chatgpt.com", "chat.openai.com")
HOST_SUFFIX = ".oaiusercontent.com"
PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # while the site answers `status: "retry"`
REASONS = {
    "file_not_found": "the site does not have it any more", "file_expired": "it has expired on the site",
    "ace_pod_expired": "its container is gone", "file_timed_out": "the site took too long to give it",
    "permission_error": "the site does not give it to this account"}
_CODE = re.compile(r"[a-z_]{1,40}")


def allowed(url: str, site: str) -> bool:
    """Whether bytes may come from there: https on the site's hosts and its file hosts, default port; for a practice site loopback names."""
    try:
        place, own = urlsplit(url), urlsplit(site)
        host, port = (place.hostname or "").lower(), place.port
    except ValueError:
        return False
    if place.username is not None or place.password is not None:
        return False
    if _is_loopback(own.hostname or ""):
        return place.scheme in ("http", "https") and _is_loopback(host)
    return place.scheme == "https" and port in (None, 443) and (host in HOSTS or host == own.hostname or host.endswith(HOST_SUFFIX))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def link(read: Read, sleep: Callable[[float], None], site: str, conversation_id: str, artifact: Artifact) -> Link:
    """Where the bytes of one artifact are now."""
    if artifact.url is not None:
        return _checked(Link(artifact.url, artifact.name), site)
    reply = _settled(read, sleep, _paths(conversation_id, artifact))
    url = reply.get("download_url")
    if not isinstance(url, str) or not url:
        raise Unavailable(_reason(reply.get("error_code")))
    size = reply.get("file_size_bytes")
    return _checked(Link(urljoin(site + "/", url), _text(reply.get("file_name")),
                         size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
                         _text(reply.get("mime_type"))), site)


def _paths(conversation_id: str, artifact: Artifact) -> list[str]:
    if artifact.path is not None:
        where = f"message_id={quote(artifact.message_id, safe='')}&sandbox_path={quote(artifact.path.encode('utf-8', 'replace'), safe='')}"
        return [f"/backend-api/conversation/{conversation_id}/interpreter/download?{where}"]
    ident = quote(artifact.file_id or "", safe="")
    return [f"/backend-api/files/download/{ident}?conversation_id={conversation_id}&inline=false",  # 2025 on
            f"/backend-api/files/{ident}/download"]  # 2023, 2024


def _settled(read: Read, sleep: Callable[[float], None], paths: list[str]) -> dict[str, Any]:
    """The JSON object of the first address that has one, asked again while it says `retry`."""
    for number, path in enumerate(paths, 1):
        for pause in (*PAUSES_S, None):
            found = read(path)
            body, status = _object(found), found["status"]
            if status == 404 and number < len(paths):
                break  # an older site has another address
            if status != 200 or body is None:
                raise _refused(status, body, bool(found["json"]))
            if body.get("status") != "retry":
                return body
            if pause is None:
                raise Unavailable("the site was not ready to give it")
            sleep(pause)
    raise AssertionError("the last address answers or raises")


def _refused(status: int, body: dict[str, Any] | None, is_json: bool) -> Unavailable:
    if status == 429:
        return Unavailable("the site says: too many requests (HTTP 429)", everything=True)
    if status == 401 or (status == 403 and not is_json):
        return Unavailable(f"the site wants a person to sign in or to pass a check (HTTP {status})", everything=True)
    if status == 410:
        return Unavailable("its container is gone (HTTP 410)")
    if status in (403, 404, 422):
        return Unavailable(f"the site does not give it (HTTP {status})")
    detail = (body or {}).get("detail")
    code = detail.get("code") if isinstance(detail, dict) else None
    return Unavailable(_reason(code) if code else f"the site failed to say where it is (HTTP {status})", again=status >= 500)


def documents(read: Read, conversation_id: str) -> dict[str, tuple[str, str]]:
    """The conversation's canvas documents: id -> (name with an ending, text)."""
    found = read(f"/backend-api/conversation/{conversation_id}/textdocs")
    try:
        listed = json.loads(found["text"]) if found["status"] == 200 and found["json"] else None
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, dict):
        listed = listed.get("textdocs") or listed.get("items")
    out: dict[str, tuple[str, str]] = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            ident, text = _text(one.get("id")) or _text(one.get("textdoc_id")), _text(one.get("content"))
            if ident and text is not None:
                sort = _text(one.get("textdoc_type")) or _text(one.get("type")) or "document"
                out[ident] = canvas_name(_text(one.get("title")) or _text(one.get("name")), sort), text
    return out


def unfetched(status: int) -> Unavailable:
    """The second step's no. A link that lived too long is worth asking for once more."""
    if status == 429:
        return Unavailable("the site says: too many requests (HTTP 429)", everything=True)
    said = {401: "its link has expired", 403: "its link has expired", 404: "it is gone", 410: "it is gone"}.get(status, "it was not given")
    return Unavailable(f"{said} (HTTP {status})", again=status in (401, 403, 404, 408, 410) or status >= 500)


def disposed_name(header: str | None) -> str | None:
    """The file name of a Content-Disposition: `filename*` (RFC 5987) before `filename`, quoted or not."""
    from email.message import Message
    from urllib.parse import unquote_to_bytes

    if not header:
        return None
    extended = re.search(r"(?i)filename\*\s*=\s*\"?([A-Za-z0-9_-]*)'[^']*'([^;\"\s]+)", header)
    if extended:
        try:
            return unquote_to_bytes(extended[2]).decode(extended[1] or "utf-8")
        except (LookupError, UnicodeDecodeError):
            pass
    message = Message()
    message["Content-Disposition"] = re.sub(r"(?i);\s*filename\*\s*=[^;]*", "", header)
    name = message.get_filename()
    return name or None


def _checked(found: Link, site: str) -> Link:
    if not allowed(found.url, site):
        raise Unavailable("its link leads to a host that is none of the site's; it was not followed")
    return found


def _reason(code: object) -> str:
    if isinstance(code, str) and _CODE.fullmatch(code):
        return REASONS.get(code, f"the site does not give it ({code})")
    return "the site does not give it"


def _object(reply: dict[str, Any]) -> dict[str, Any] | None:
    try:
        body = json.loads(reply["text"]) if reply["json"] else None
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
