"""Bringing back what the model made: after a turn of our own, and for a whole conversation by `download-attachments`.

One file's failure is that file's alone, and nothing here unsends or unanswers: the worst end is a list with failed entries (exit 33).
Nothing is typed or pressed. A file that the log says is there, and that is there byte for byte, is not asked for again: its container may
be gone by now. Links are signed and short-lived: each is opened at once, and asked for anew once where it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from gptbridge.core import brought, file_names
from gptbridge.core.artifacts import Artifact, wanted
from gptbridge.core.brought import Brought
from gptbridge.core.conversation import SiteTurn
from gptbridge.core.errors import Failure
from gptbridge.core.ports import Body, Downloads, Page, Unavailable, World
from gptbridge.flow import reading, recording
from gptbridge.flow.custody import Custody
from gptbridge.flow.telling import begin, tell

PROGRESS_S = 0.25
MIMES = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif", "image/svg+xml": "svg", "audio/wav": "wav",
         "audio/mpeg": "mp3", "audio/aac": "aac", "video/mp4": "mp4", "application/pdf": "pdf", "text/csv": "csv"}


@dataclass(slots=True)
class Collector:
    """Brings artifacts of one conversation through one page. heed: called between pieces; may raise Failure to give up."""

    w: World
    folder: Downloads
    page: Page
    conversation_id: str
    heed: Callable[[], None]
    _known: dict[str, Brought] | None = None
    _documents: dict[str, tuple[str, str]] | None = None
    _refused: str | None = None
    _told_at: float = 0.0

    def bring(self, artifact: Artifact) -> Brought:
        name = file_names.safe(artifact.name, _fallback(artifact))
        self.heed()
        try:
            if self._known is None:
                self._known = self._begin()
            if self._refused is not None:
                raise Unavailable(self._refused)
            known = self._known.get(artifact.identity)
            if known is not None and artifact.kind != "canvas" and self._is_there(known):
                self.say(known.name, "present", known.path)
                return replace(known, status="present")
            self.say(name, "started", None)
            if artifact.kind == "canvas":
                return self._canvas(artifact)
            try:
                return self._fetched(artifact)
            except Unavailable as why:
                if not why.again:
                    raise
                return self._fetched(artifact)
        except Unavailable as why:
            if why.everything:
                self._refused = why.reason
            reason = why.reason
        except Failure as failure:
            if failure.slug in ("interrupted", "terminated"):
                raise
            reason = failure.message
        self.say(name, "failed", None)
        return Brought("failed", None, name, artifact.size, None, None, reason, artifact.kind, artifact.identity)

    def say(self, name: str, state: str, path: str | None) -> None:
        tell(self.w, self.w.turn.download(name, state, path))

    def _begin(self) -> dict[str, Brought]:
        """Once, before anything is asked of the site: a folder that cannot be used is every file's failure, a log that cannot be read is
        none."""
        try:
            self.folder.tidy()
        except Failure as failure:
            self._refused = failure.message
        try:
            return brought.known(self.w.logs.read(self.conversation_id))
        except Failure:
            return {}

    def _is_there(self, known: Brought) -> bool:
        if known.path is None or known.size is None or known.sha256 is None:
            return False
        return self.folder.holds(known.path, known.size, known.sha256)

    def _fetched(self, artifact: Artifact) -> Brought:
        link = self.page.link(self.conversation_id, artifact)
        with self.page.fetch(link) as body:
            offered = artifact.name or link.name or body.name
            mime = link.mime or body.mime
            name = file_names.safe(offered, _fallback(artifact))
            ending = MIMES.get((mime or "").partition(";")[0].strip().lower())
            if ending is not None and not file_names.split(name)[1]:
                name = file_names.safe(f"{name}.{ending}")
            size = link.size if body.size is None else body.size
            return self._saved(artifact, name, mime, self._watched(name, body, size))

    def _canvas(self, artifact: Artifact) -> Brought:
        """A document's text is in JSON: where the site does not give it, as the calls that made it left it."""
        if self._documents is None:
            try:
                self._documents = self.page.documents(self.conversation_id)
            except (Unavailable, Failure):
                self._documents = {}
        named, text = self._documents.get(artifact.document or "", (artifact.name, artifact.text))
        if text is None:
            raise Unavailable("the site does not give the document's text")
        name = file_names.safe(named or artifact.name, _fallback(artifact))
        return self._saved(artifact, name, "text/markdown" if name.endswith(".md") else "text/plain", [text.encode("utf-8", "replace")])

    def _saved(self, artifact: Artifact, name: str, mime: str | None, chunks: Iterable[bytes]) -> Brought:
        saved = self.folder.save(name, chunks)
        status: Literal["present", "saved"] = "present" if saved.present else "saved"
        self.say(name, status, saved.path)
        return Brought(status, saved.path, name, saved.size, saved.sha256, mime, None, artifact.kind,
                       artifact.identity)

    def _watched(self, name: str, body: Body, size: int | None) -> Iterator[bytes]:
        done = 0
        for chunk in body.chunks():
            self.heed()
            yield chunk
            done += len(chunk)
            now = self.w.clock.now().boottime
            if now >= self._told_at + PROGRESS_S:
                self._told_at = now
                self.w.caller.emit({"type": "progress", "file": name, "done": done, "size": size})
        if size is not None and done != size:
            raise Unavailable(f"it came incomplete ({done} of {size} bytes)", again=True)


def _fallback(artifact: Artifact) -> str:
    return {"image": "image", "audio": "audio", "canvas": "canvas.txt"}.get(artifact.kind, "file")


def of_turn(w: World, page: Page, conversation_id: str, turn: SiteTurn) -> list[Brought]:
    """Everything that one turn of our own made. Never raises: what could not be brought is in the list, as failed."""
    if w.downloads is None:
        return []
    collector = Collector(w, w.downloads, page, conversation_id, lambda: None)
    return [collector.bring(artifact) for artifact in wanted([turn])]


@dataclass(frozen=True, slots=True)
class Collected:
    """What `download-attachments` found, in the conversation's order; `warning` for a person."""

    files: list[Brought]
    warning: str | None = None


def of_conversation(w: World, custody: Custody, conversation_id: str) -> Collected:
    """`download-attachments`: every file of every assistant turn. The log is brought up to date, and an event records what came."""
    begin(w, phase="response_done")
    custody.recover()
    heed = reading.heeding(w)
    until = w.clock.now().boottime + w.settings.queue_wait
    with ExitStack() as places:
        page, account = reading.entered(w, places, conversation_id, heed, until)
        site, _ = reading.catch_up(w, custody, page, conversation_id, account, actor="resume")
        tell(w, w.turn.named(conversation_id, recording.url_of(w, conversation_id)))

        came: list[Brought] = []
        assert w.downloads is not None
        collector = Collector(w, w.downloads, page, conversation_id, heed)
        try:
            for artifact in wanted(site.turns, site.elsewhere):
                came.append(collector.bring(artifact))
        finally:
            # Also when it was stopped half-way: what is on disk stands in the log, and the next run need not ask for it.
            if any(one.status != "present" for one in came):
                recording.write_event(w, conversation_id, account, came)
        return Collected(came, None if site.complete else "the site's account of this conversation is incomplete; files may be missing")
