"""What the model made: every picture, sound, file and canvas document that the assistant and tool nodes of a conversation offer.

Found in the conversation JSON alone, so the page's looks do not matter. `made` reads the nodes of one turn; `Artifact` is one thing to
bring back, with an identity by which nothing is brought twice; `wanted` lists those of a conversation. What the user attached is not the
model's and is left out, as are page images that a tool derived from somebody's file.

Sources: public captures, 2023 to 2026-10 (asset pointers `file-service://` and `sediment://`, `aggregate_result`, `sandbox:` links,
`{{file:...}}` placeholders, file references, canvas nodes). Touches nothing; raises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gptbridge.core.content import AUDIO, parts, report, size_of
from gptbridge.core.file_names import with_ending
from gptbridge.core.nodes import Node, dict_of, list_of, text_of

_SANDBOX = re.compile(
    r"\]\((?:<sandbox:(?P<angled>/[^<>\n]*)>|sandbox:(?P<plain>/[^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\))"
    r"|(?m:^ {0,3}\[[^\]\n]+\]:[ \t]*<?sandbox:(?P<defined>/[^\s<>]*))"
    r"|<sandbox:(?P<auto>/[^<>\n]*)>|href=[\"']sandbox:(?P<href>/[^\"'<>\n]*)"
)
_PLACEHOLDER = re.compile(r"\{\{file:(file[-_][A-Za-z0-9_-]+)\}\}")
_FILE_ID = re.compile(r"(?:file-service://|sediment://)?(file[-_][A-Za-z0-9_-]+)(?:#.*)?")
_TEXTDOC = re.compile(r"textdoc_id\W{1,4}([A-Za-z0-9-]{8,64})")
_WHOLE = (".*", "^.*$", "[\\s\\S]*", "(?s).*")  # patterns of an update that writes the document anew

ENDINGS = {
    "document": "md", "code/python": "py", "code/javascript": "js", "code/typescript": "ts", "code/react": "jsx", "code/html": "html",
    "code/css": "css", "code/json": "json", "code/java": "java", "code/c": "c", "code/cpp": "cpp", "code/csharp": "cs", "code/go": "go",
    "code/rust": "rs", "code/php": "php", "code/ruby": "rb", "code/swift": "swift", "code/kotlin": "kt", "code/sql": "sql", "code/bash":
    "sh", "code/shell": "sh", "code/yaml": "yaml", "code/xml": "xml", "code/r": "r", "code/lua": "lua", "code/scala": "scala"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """One thing to bring back.

    kind: image, audio, file, sandbox or canvas. identity: the same for the same thing, in whatever turn it is met again. turn: number on
    the selected branch from 1; None for what stands on another branch. message_id: the message to name when asking for it. Exactly one
    says how to fetch: file_id (the site's file), path (in the message's sandbox), url, document (the canvas id, whose last known text is
    `text`). name, size: as offered, or None.
    """

    kind: str
    identity: str
    turn: int | None
    message_id: str
    name: str | None = None
    size: int | None = None
    file_id: str | None = None
    path: str | None = None
    url: str | None = None
    document: str | None = None
    text: str | None = None


def _one(kind: str, node: Node, *, pointer: str | None = None, path: str | None = None, name: str | None = None,
         size: int | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "pointer": pointer, "path": path, "node_id": node.id, "name": name, "size": size, **more}


def made(nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """What these nodes (of one turn, oldest first) brought, each once: `kind` image, audio, file, sandbox, canvas; `pointer` (the
    site's file id, a URL, or the canvas id) or `path` (below /mnt/data, percent signs decoded); `node_id`, the message to name when asking
    for it; `name`, `size` or None; a canvas also `text`, None where only the site knows it."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for one in (*(one for node in nodes for one in _of(node)), *_canvases(nodes)):
        found.setdefault((one["kind"], one["pointer"], one["path"]), one)
    return list(found.values())


def _of(node: Node) -> Iterator[dict[str, Any]]:
    for part in map(dict_of, list_of(node.content.get("parts"))):
        kind, inner = text_of(part.get("content_type")), dict_of(part.get("audio_asset_pointer"))
        pointer = text_of(part.get("asset_pointer")) or text_of(inner.get("asset_pointer"))
        if pointer and "#" not in pointer:  # a suffix means a page image derived from somebody's file
            sort = "image" if kind == "image_asset_pointer" else "audio" if kind in AUDIO else "file"
            yield _one(sort, node, pointer=pointer, size=size_of(part))
    for message in map(dict_of, list_of(dict_of(node.metadata.get("aggregate_result")).get("messages"))):
        pointer = text_of(message.get("image_url"))
        if pointer:
            yield _one("image", node, pointer=pointer)
    if node.role == "assistant":
        for entry in map(dict_of, list_of(node.metadata.get("attachments"))):
            if text_of(entry.get("id")):
                yield _one("file", node, pointer=text_of(entry.get("id")), name=text_of(entry.get("name")), size=size_of(entry))
    if not node.to_all:
        return
    for text in parts((report(node) or node).content):
        for path in sandbox_paths(text):
            yield _one("sandbox", node, path=path, name=path.rpartition("/")[2] or None)
        for match in _PLACEHOLDER.finditer(text) if "{{file:" in text else ():
            yield _one("file", node, pointer=match[1])
    yield from _cited(node)


def _cited(node: Node) -> Iterator[dict[str, Any]]:
    """Files that the answer refers to by the site's own id: a `file` reference, pictures shown in the text."""
    for reference in map(dict_of, list_of(node.metadata.get("content_references"))):
        if reference.get("invalid") is True:
            continue
        picture = (text_of(reference.get("type")) or "").startswith("image")
        if reference.get("type") != "file" and not picture:
            continue
        given = [reference.get(key) for key in ("id", "file_id", "asset_pointer")] + list_of(reference.get("asset_pointer_links"))
        for pointer in given:
            if isinstance(pointer, str) and "#" not in pointer and _FILE_ID.fullmatch(pointer):
                yield _one("image" if picture else "file", node, pointer=pointer, name=text_of(reference.get("name")))
                break


def sandbox_paths(text: str) -> Iterator[str]:
    """Targets of links to `sandbox:/path`, in order; blanks and paired parentheses inside a target are the models' habit."""
    for match in _SANDBOX.finditer(text) if "sandbox:" in text else ():
        plain = match["plain"]
        path = re.sub(r"[ \t]+(\"[^\"]*\"|'[^']*')[ \t]*$", "", plain) if plain else match[match.lastgroup or 0]
        yield _percent_decoded(path.strip())


def _percent_decoded(path: str) -> str:
    """`path` with `%20` and the like decoded as UTF-8; unchanged if that gives none."""
    raw = path.encode("utf-8", "surrogatepass")
    try:
        return re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), raw).decode("utf-8")
    except UnicodeDecodeError:
        return path


# Canvas documents: the text stands in the call that made them, the id in the tool's answer.


def _canvases(nodes: Sequence[Node]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    call: dict[str, Any] = {}
    for node in nodes:
        if node.recipient.startswith("canmore."):
            call = _call(node)
            continue
        facts = dict_of(node.metadata.get("canvas"))
        if not (facts or (node.role == "tool" and node.name.startswith("canmore."))) or node.role == "user":
            continue
        ident = text_of(facts.get("textdoc_id"))
        if ident is None:
            match = next((m for text in parts(node.content) if (m := _TEXTDOC.search(text))), None)
            ident = match[1] if match else None
        if not ident:
            continue
        old = found.get(ident, {})
        sort = text_of(facts.get("textdoc_type")) or text_of(call.get("type")) or old.get("type") or "document"
        title = text_of(facts.get("title")) or text_of(call.get("name")) or old.get("title")
        text = _after(call, old.get("text")) if node.role == "tool" else old.get("text")
        found[ident] = _one("canvas", node, pointer=ident, name=canvas_name(title, sort), text=text, type=sort, title=title)
        if node.role == "tool":
            call = {}
    return [{key: value for key, value in one.items() if key not in ("type", "title")} for one in found.values()]


def canvas_name(title: str | None, sort: str) -> str:
    """A name with the ending of the document's type (`document`, `code/<language>`)."""
    return with_ending(title or "canvas", ENDINGS.get(sort, "txt"), keep=(*ENDINGS.values(), "txt"))


def _call(node: Node) -> dict[str, Any]:
    text = text_of(node.content.get("text")) or "".join(parts(node.content))
    for end in ("", "}", "]}", "}]}", "\"}]}"):  # an update is stored with its end cut off
        try:
            return dict_of(json.loads(text + end))
        except (ValueError, RecursionError):
            continue
    return {}


def _after(call: Mapping[str, Any], before: str | None) -> str | None:
    """The document's text after this call; None where it cannot be told without the site."""
    content, updates = text_of(call.get("content")), list_of(call.get("updates"))
    if content is not None:
        return content
    if not call or "comments" in call:
        return before
    last = dict_of(updates[-1]) if updates else {}
    return text_of(last.get("replacement")) if last.get("pattern") in _WHOLE else None


# What is to be fetched


def wanted(turns: Sequence[Any], elsewhere: Iterable[Mapping[str, Any]] = ()) -> list[Artifact]:
    """Everything that these turns (`SiteTurn`s, numbered from 1) and other branches offer, each identity once, in order.

    A canvas document has one text now, so its newest mention counts.
    """
    theirs = {entry["id"] for turn in turns for entry in turn.attachments if entry.get("id")}
    found: dict[str, Artifact] = {}
    numbered = [(number, one) for number, turn in enumerate(turns, 1) for one in turn.artifacts]
    for number, one in (*numbered, *((None, one) for one in elsewhere)):
        artifact = _artifact(one, number)
        if artifact.file_id in theirs:
            continue
        if artifact.kind == "canvas" and artifact.turn is not None:
            found[artifact.identity] = artifact
        else:
            found.setdefault(artifact.identity, artifact)
    return list(found.values())


def _artifact(one: Mapping[str, Any], turn: int | None) -> Artifact:
    pointer, path = one["pointer"], one["path"]
    facts: dict[str, Any] = {"turn": turn, "message_id": one["node_id"], "name": one["name"], "size": one["size"]}
    if one["kind"] == "canvas":
        return Artifact("canvas", f"canvas:{pointer}", document=pointer, text=one.get("text"), **facts)
    if path is not None:
        return Artifact("sandbox", f"sandbox:{one['node_id']}:{path}", path=path, **facts)
    ident = _FILE_ID.fullmatch(pointer)
    if ident:
        return Artifact(one["kind"], f"file:{ident[1]}", file_id=ident[1], **facts)
    return Artifact(one["kind"], f"url:{pointer}", url=pointer, **facts)
