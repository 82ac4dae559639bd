"""How the site marks citations inside a reply's Markdown, and what stands there for a reader.

Everything that is no mark stays as it is, code point by code point. Two eras of marks (public notes, 2023 to 2026):

* `【5†source】`, `【3:0†source】`, `【12†L3-L9】` with `metadata.citations` (offsets in code points);
* U+E200 kind [U+E202 payload ...] U+E201 with `metadata.content_references`, found by `matched_text`, and
  `search_result_groups` on the tool nodes, found by name (`turn0search3`). `entity` is no citation: its name belongs to the
  sentence. U+E203 and U+E204 stand around ordinary text: the marks go, the text stays.

A span becomes Markdown links, or a name, or goes as a whole; words without the code points around them (a literal
`turn0search0`) are somebody's words and stay. An unfinished span at the end of a text (a stream, a stopped reply) goes too.
Touches nothing; raises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gptbridge.core.nodes import dict_of, list_of, text_of

Link = tuple[str, str]  # title, URL

_OPEN, _CLOSE, _SEP = "\ue200", "\ue201", "\ue202"
_POINTS = "\ue200\ue201\ue202\ue203\ue204"
_NAME = r"turn\d+[A-Za-z_]+\d+"
_SPAN = re.compile(
    rf"{_OPEN}(?P<kind>[A-Za-z_][\w-]*)(?:{_SEP}(?P<payload>[\[{{][^{_OPEN}{_CLOSE}]*|[^{_OPEN}{_CLOSE}\n]*))?{_CLOSE}"
    # Unfinished: at the end of the text everything goes; elsewhere only what is certainly the mark's own.
    rf"|{_OPEN}(?P<tail>[\w-]*(?:{_SEP}[^{_OPEN}{_CLOSE}\n]*)?)\Z"
    rf"|{_OPEN}(?:[A-Za-z_][\w-]*)(?:{_SEP}(?:{_NAME})?)+"
    r"|(?P<old>【(?P<number>\d+)(?::\d+)?†[^【】\n]*】)"
)
_REF = re.compile(_NAME)
_UNSAFE = re.compile(r"[\s()<>|\\\"`\x00-\x1f\x7f\ue200-\ue204\ud800-\udfff]")
_MAX_TITLE = 200


class Sources:
    """Named search results (`turn0search3` -> link), gathered from all nodes of one turn."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    def add(self, metadata: dict[str, Any]) -> None:
        for group in list_of(metadata.get("search_result_groups")):
            for entry in list_of(dict_of(group).get("entries")):
                link = _link(entry)
                for name in _names([dict_of(entry).get("ref_id")]) if link else ():
                    self.links.setdefault(name, link)  # type: ignore[arg-type]


def _names(refs: Iterable[object]) -> list[str]:
    found = []
    for ref in refs:
        if isinstance(ref, str) and _REF.fullmatch(ref):
            found.append(ref)
        elif isinstance(ref, dict):
            found.append(f"turn{ref.get('turn_index')}{ref.get('ref_type')}{ref.get('ref_index')}")
    return found


def _link(item: object) -> Link | None:
    """Title and URL of a web source; None for what has no http(s) address (uploaded files, `javascript:` ...)."""
    facts = dict_of(item)
    url = text_of(facts.get("url")) or text_of(facts.get("cloud_doc_url")) or ""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("http", "https") or not rest:
        return None
    for key in ("title", "attribution", "domain", "name"):
        title = " ".join((text_of(facts.get(key)) or "").split())
        if title:
            return title[:_MAX_TITLE], url
    return re.split(r"[/?#]", rest, maxsplit=1)[0], url


def _quote(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace"))


def _markdown(links: Iterable[Link]) -> str:
    """`([Title](url), [Other](url))`, each URL once; safe inside a table cell; "" without links."""
    unique: dict[str, str] = {}
    for title, url in links:
        unique.setdefault(_UNSAFE.sub(_quote, url), re.sub(r"([\\\[\]|`*_<])", r"\\\1", _unmarked(title)))
    return "(" + ", ".join(f"[{title}]({url})" for url, title in unique.items()) + ")" if unique else ""


def _items(reference: dict[str, Any]) -> list[Link]:
    """Every source of a reference in reading order: itself, items, and the supporting ones below each."""
    found: list[Link] = []
    heap = [reference, *(list_of(reference.get("items")) or list_of(reference.get("fallback_items")))]
    for item in heap:
        for one in (item, *list_of(dict_of(item).get("supporting_websites"))):
            link = _link(one)
            if link:
                found.append(link)
    return found


def _unmarked(text: str) -> str:
    for point in _POINTS:
        text = text.replace(point, "")
    return text


def _spans(text: str) -> Iterator[re.Match[str]]:
    """As `_SPAN.finditer`, which would try every alternative at every code point of a text that may have a million."""
    places = {first: text.find(first) for first in (_OPEN, "【")}
    while (start := min((place for place in places.values() if place >= 0), default=-1)) >= 0:
        match = _SPAN.match(text, start)
        if match is not None:
            yield match
        at = match.end() if match is not None else start + 1
        places = {first: place if place < 0 or place >= at else text.find(first, at) for first, place in places.items()}


def _entity(payload: str) -> str:
    try:
        parts = json.loads(payload)
    except (ValueError, RecursionError):
        return ""
    return parts[1] if isinstance(parts, list) and len(parts) > 1 and isinstance(parts[1], str) else ""


class _Resolver:
    """What one message knows about its own marks."""

    def __init__(self, text: str, metadata: dict[str, Any], sources: Sources | None) -> None:
        self.by_text: dict[str, dict[str, Any]] = {}
        self.by_name: dict[str, Link] = dict(sources.links) if sources else {}
        self.by_number: dict[str, Link] = {}
        self.by_offset: dict[int, Link] = {}
        for reference in map(dict_of, list_of(metadata.get("content_references"))):
            matched = text_of(reference.get("matched_text")) or ""
            # A blank matched_text is bookkeeping; replacing it would eat every blank of the reply.
            if reference.get("invalid") is True or not (_OPEN in matched or "【" in matched):
                continue
            self.by_text.setdefault(matched, reference)
        for citation in map(dict_of, list_of(metadata.get("citations"))):
            facts = dict_of(citation.get("metadata"))
            link, start, end = _link(facts), citation.get("start_ix"), citation.get("end_ix")
            if not link:
                continue
            number = dict_of(facts.get("extra")).get("cited_message_idx")
            if isinstance(number, int):
                self.by_number.setdefault(str(number), link)
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < len(text) and text[start] == "【":
                self.by_offset[start] = link

    def __call__(self, match: re.Match[str]) -> str:
        reference = self.by_text.get(match[0], {})
        if match["old"]:
            links = _items(reference)
            own = self.by_offset.get(match.start()) or (None if links else self.by_number.get(match["number"]))
            return _markdown([own] if own else links)
        payload = match["payload"] or ""
        if match["kind"] == "entity":
            return _entity(payload) or text_of(reference.get("name")) or text_of(reference.get("alt")) or ""
        if reference.get("type") == "hidden":
            return ""
        links = _items(reference) or [self.by_name[name] for name in _REF.findall(payload) if name in self.by_name]
        alt = text_of(reference.get("alt")) or ""
        if not links and ("](http" in alt or reference.get("type") == "alt_text"):
            return _unmarked(alt)
        return _markdown(links)


def resolve(text: str, metadata: dict[str, Any] | None = None, sources: Sources | None = None) -> str:
    """`text` with every mark resolved or removed. `metadata`: the message's own; `sources`: of its whole turn.

    Around a removed span one blank goes, so that none is doubled or left before a full stop; a link that touches a word gets
    one before it.
    """
    if "†" not in text and not any(point in text for point in _POINTS):
        return text
    answer = _Resolver(text, metadata or {}, sources)
    out: list[str] = []
    at = 0
    for match in _spans(text):
        before, after = text[at : match.start()], text[match.end() : match.end() + 1]
        out.append(before)
        at = match.end()
        new = answer(match)
        last = before[-1:] or (out[-2][-1:] if len(out) > 1 else "")
        if new.startswith("([") and last and not last.isspace() and last not in "([{":
            new = " " + new
        elif not new and last == " ":
            if after == " ":
                at += 1
            elif after and after in ".,;:!?)" and before.endswith(" ") and not before.endswith("  "):
                out[-1] = before[:-1]
        if new:
            out.append(new)
    out.append(text[at:])
    return _unmarked("".join(out))
