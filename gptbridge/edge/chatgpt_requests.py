"""How requests of the site's page look: where a message and a file go, which header names the workspace, what makes a body a send.

The part of chatgpt.py's knowledge that whoever stops the page's requests needs, which is a process of its own and quick to start. Touches
nothing.
"""

from __future__ import annotations

import re

# Where the page posts a message: `/backend-api/conversation` until mid 2025, then `/backend-api/f/conversation`; `/backend-anon/...` signed
# out (web client, 2022 .. 2026-11). A send is known by its body all the same: the path has changed before.
SEND_PATH = r"^/backend-(?:api|anon)/(?:f/)?conversation/?$"  # read by JavaScript too
# An upload (2023 .. 2026-10): `POST` to the first `{file_name, file_size, ...}` -> `{status, upload_url, file_id}`; `PUT upload_url`; then
# `POST` to the second, or since 2025 `{file_id}` to the third, an event stream whose last event is `file.processing.file_ready`.
UPLOAD_ANNOUNCED = "/backend-api/files"
UPLOAD_STORED = r"/backend-api/files/([A-Za-z0-9_-]+)/uploaded"
UPLOAD_PROCESSED = "/backend-api/files/process_upload_stream"
ACCOUNT_HEADER = "chatgpt-account-id"  # the workspace that a request speaks for (web client, 2023 .. 2026-11)

# core/send_request.sending_part for a page or worker: the user messages of a value, or null. Both must find the same.
SENDING_MESSAGES_JS = r"""((depth) => {
  const parse = JSON.parse;
  const read = (text) => { try { return parse(text); } catch { return undefined; } };
  const roleOf = (m) => (m.author && typeof m.author === "object" ? m.author.role : m.role);
  const isUser = (m) => m !== null && typeof m === "object" && roleOf(m) === "user";
  const find = (value, left) => {
    if (left < 0) return null;
    if (typeof value === "string") return /^\s*[[{]/.test(value) && value.includes("messages") ? find(read(value), left - 1) : null;
    if (value === null || typeof value !== "object") return null;
    if (Array.isArray(value.messages) && value.messages.some(isUser)) return value.messages.filter(isUser);
    for (const inner of Object.values(value)) { const found = find(inner, left - 1); if (found) return found; }
    return null;
  };
  return (text) => find(read(text), depth);
})"""


def is_send_path(path: str) -> bool:
    return re.match(SEND_PATH, path) is not None
