"""Files into the composer of one page, until the site itself says of each that it has it; before the line, so nothing is at risk yet.

Evidence is the site's own answers, by id, count, name and size, and then what the page shows, by count: a chip's label may be cut or
renamed, or no chip may come at all, and the input holds the files. What still shows progress is waited for, however ready the send control
looks. An upload that comes to a standstill is given up for a fresh page, which is the one thing here that is tried again; a refusal of the
site is final. Whatever the page makes of it afterwards: the held request must name exactly these uploads (GT-02).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gptbridge.core import attachments
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import Operation
from gptbridge.core.page_request import Upload
from gptbridge.core.ports import Files, Gate, Page, World
from gptbridge.flow.telling import tell

POLL_S = 0.25
BEGIN_S = 30.0  # from choosing the files until the page announces them
STALL_S = 60.0  # without any change, on top of what the bytes may take
SLOW_BPS = 64 * 1024  # bytes per second of a line on which an upload still counts as going on
SETTLE_S = 1.0  # what the page shows must stay the same for so long
REASON_S = 3.0  # for the site's answer that explains a failure which the page shows
MISMATCH_S = 10.0  # for the page to show what the site has
Heed = Callable[[], None]


class Attaching:
    """One operation's files into one page. `run` once for each page."""

    def __init__(self, w: World, op: Operation, page: Page, gate: Gate, heed: Heed) -> None:
        self._w, self._op, self._page, self._gate, self._heed = w, op, page, gate, heed
        self._rows = attachments.rows(op.files)
        self._names = [str(row["sent_name"]) for row in self._rows]
        self._sizes = [int(row["size"]) for row in self._rows]
        self._told: dict[str, str] = {}
        self._broken_since: float | None = None

    def run(self) -> tuple[Upload, ...]:
        """The uploads, in the order of the files, each ready."""
        for name in self._names:
            self._tell(name, "queued")
        digests = [str(row["sha256"]) for row in self._rows]
        paths = self._w.spool.stage(self._op.operation_id, list(zip(digests, self._names, strict=True)))
        self._gate.spare(files=True)
        self._page.attach(paths, images=all(map(attachments.is_image, self._names)))
        uploads = self._uploaded()
        self._gate.spare(files=False)  # where it fails instead, the window is closed
        self._settled(uploads)
        return uploads

    def _uploaded(self) -> tuple[Upload, ...]:
        """Every file has the site's word for it."""
        began = changed = self._now()
        allowed = STALL_S + sum(self._sizes) / SLOW_BPS
        before: Sequence[Upload] = ()
        while True:
            self._heed()
            found = tuple(self._gate.uploads())
            if found != before:
                before, changed = found, self._now()
            shown = self._page.files()
            self._refused(found, shown)
            ours = attachments.matched(self._names, self._sizes, found)
            self._progress(ours, found)
            if ours is not None and all(upload.state == "ready" for upload in ours):
                return ours
            if len(found) > len(self._names):
                raise Failure("site-changed", "the page uploads more files than were given; nothing was sent",
                              "look at the page: ask-gpt login")
            if len(found) < len(self._names) and self._now() - began > BEGIN_S + sum(self._sizes) / SLOW_BPS:
                raise Failure("site-changed", f"the page began to upload {len(found)} of {len(self._names)} files; nothing was sent",
                              "ask-gpt may need an update for the site")
            if self._now() - changed > allowed:
                raise Failure("browser", f"an upload did not end within {allowed:.0f} s; nothing was sent.", "check the network",
                              again=True)
            self._w.clock.sleep(POLL_S)

    def _settled(self, uploads: tuple[Upload, ...]) -> None:
        """And the page shows it: as many chips as files, or none and the files in its input; nothing busy, nothing failed."""
        until, good_since = self._now() + MISMATCH_S, None
        while True:
            self._heed()
            shown = self._page.files()
            self._refused(self._gate.uploads(), shown)
            if not _is_complete(shown, len(uploads)):
                good_since = None
            elif good_since is None:
                good_since = self._now()
            elif self._now() - good_since >= SETTLE_S:
                break
            if shown.busy and shown.chips == len(uploads):
                until = self._now() + MISMATCH_S  # it is at it still; how long that may take is the caller's patience
            if self._now() > until and good_since is None:
                raise Failure("site-changed", f"the page shows {shown.chips} of {len(uploads)} files; nothing was sent",
                              "look at the page: ask-gpt login")
            self._w.clock.sleep(POLL_S)
        for name in self._names:
            self._tell(name, "attached")

    def _refused(self, found: Sequence[Upload], shown: Files) -> None:
        for upload in found:
            if upload.state == "failed":
                raise refusal(upload, shown.notice)
        if not shown.failed:
            self._broken_since = None
        elif self._broken_since is None:
            self._broken_since = self._now()  # the page may know it a moment before the answer that says why is read
        elif self._now() - self._broken_since > REASON_S:
            raise refusal(Upload("", 0, "failed"), shown.notice)

    def _progress(self, ours: Sequence[Upload] | None, found: Sequence[Upload]) -> None:
        names = [upload.name for upload in found]
        for name in self._names:
            if ours is not None or name in names:
                self._tell(name, "uploading")

    def _tell(self, name: str, state: str) -> None:
        if self._told.get(name) not in (state, "attached"):
            self._told[name] = state
            tell(self._w, self._w.turn.upload(name, state))

    def _now(self) -> float:
        return self._w.clock.now().boottime


def _is_complete(shown: Files, count: int) -> bool:
    return not shown.busy and not shown.failed and shown.sendable and (shown.chips == count or (shown.chips == 0 and shown.inputs == count))


# The site's words for a refusal (public notes of 2024-04): about the file, or about what the account may still do.
_QUOTA = ("quota", "rate_limit", "cap_exceeded", "too_many_requests")


def refusal(upload: Upload, notice: str = "") -> Failure:
    """What a failed upload means: 17 about the file, 11 quota, 12 the session, 16 (tried again) the network, else 15."""
    code, status = upload.code or "", upload.status
    said = (f" ({code})" if code else f" (HTTP {status})" if status else "") + (f"; the page says: {notice}" if notice else "")
    if status == 429 or any(word in code for word in _QUOTA):
        return Failure("rate-limited", f"the site takes no more files now{said}; nothing was sent", "wait, then run this again")
    if status in (401, 403) and not code.startswith("file"):
        return Failure("needs-human", f"the site refuses the upload{said}; nothing was sent", "ask-gpt login")
    if status in (413, 415, 422) or code.startswith(("file", "too_many_tokens")) or (status is not None and 200 <= status < 300):
        return Failure("bad-input", f"the site does not take one of the files{said}; nothing was sent",
                       "send another file, or a smaller one")
    if status == 0 or (status is not None and status >= 500):
        return Failure("browser", f"an upload failed on its way{said}; nothing was sent.", "check the network", again=True)
    return Failure("site-changed", f"the site refuses an upload{said}; nothing was sent", "look at the page: ask-gpt login")
