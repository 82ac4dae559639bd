"""What flows need from the world, as Protocols and the plain values that pass through them.

Nothing here does anything. Every method may raise `Failure`; what else it promises stands in its docstring. The real
implementations live in `edge`, the fakes in tests/fakes.py, and both pass the same contract tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gptbridge.core.artifacts import Artifact
from gptbridge.core.errors import Failure
from gptbridge.core.ledger import View
from gptbridge.core.pacing import Gap, Now, Stamp
from gptbridge.core.page_request import Held, Note, Upload
from gptbridge.core.registry import Conversation
from gptbridge.core.transcript import Log
from gptbridge.core.turn import TurnState


@dataclass(frozen=True, slots=True)
class Settings:
    """Flag beats environment beats config; durations in seconds."""

    site: str = "https://chatgpt.com"
    account: str | None = None
    gap: Gap = field(default_factory=Gap)
    seats: int = 3
    queue_wait: float = 3600.0
    wait: float = 900.0
    give_up: float = 5400.0
    copies: bool = True
    model: str | None = None
    effort: str | None = None


class Clock(Protocol):
    def now(self) -> Now: ...
    def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    def ulid(self) -> str:
        """A new canonical ULID; Failure("state-unwritable") when the random source fails (AD-03)."""
        ...

    def unit(self) -> float:
        """Uniform in [0, 1)."""
        ...


class Owner(Protocol):
    """This process's owner slot, held for its whole life."""

    @property
    def epoch(self) -> str: ...

    def hold_dead(self, epoch: str) -> AbstractContextManager[bool]:
        """Holds the slot of another epoch while inside, if its owner is dead (yields True); False while it lives. Never waits."""
        ...

    def is_dead(self, epoch: str) -> bool:
        """Whether that epoch's owner is gone, also where its slot has another owner by now."""
        ...


class Ledger(Protocol):
    def view(self) -> View:
        """The fold of everything committed now. Damage: Failure("state-corrupt")."""
        ...

    def transact(self, decide: Callable[[View], Sequence[Mapping[str, Any]]]) -> View:
        """Under the ledger lock: read, decide, append each record durably, and give the view after it.

        `decide` must not touch page or clock. What it raises leaves the file untouched. A failed write or sync raises
        Failure("state-unwritable"); nothing is retried, and this object refuses to append until `reopen`.
        """
        ...

    def begin(self) -> None:
        """Make sure that the file has its first record: nothing of an operation is on the disk before it, so that a home with such things
        and no record is known to have lost some. Failure("state-corrupt") where that is so."""
        ...

    def settle(self) -> None:
        """Inside `transact`: every record that it saw, and the ledger's name, are on the disk, whoever wrote them; for what must not
        outlive them. Failure("state-unwritable")."""
        ...

    def seal(self) -> bool:
        """Close a torn end that a dead writer left, as the next append would; True when there was one."""
        ...

    def prune(self, ended_before: float, limit: int) -> Sequence[str]:
        """Forget at most `limit` operations whose turn ended before that time, oldest first, in one hold of the lock; their ids."""
        ...

    def reopen(self) -> None:
        """After a failed append: the live witness may open the file anew; the next append seals the torn tail first."""
        ...

    def keep(self) -> None:
        """Make the next start quick, where much was appended since the last time; between transactions, and never an error."""
        ...

    @property
    def sound(self) -> bool:
        """False after a failed append that no later one made good: what `view` shows may never reach the disk."""
        ...


class Registry(Protocol):
    def get(self, conversation_id: str) -> Conversation | None: ...
    def put(self, conversation: Conversation) -> None:
        """Append durably; Failure("state-corrupt") when the id belongs to another account."""
        ...

    def transact(self, decide: Callable[[Iterable[tuple[int, Mapping[str, Any]]]], Sequence[Mapping[str, Any]]]) -> None:
        """Under the registry lock: `decide` sees every record (number, fields) in order, and gives those to append, durably.

        More than 16 come all or not at all; of fewer a crash may leave the first. What `decide` raises leaves the file untouched.
        """
        ...

    def rewrite(self, order: Callable[[Iterable[tuple[int, Mapping[str, Any]]]], Sequence[Mapping[str, Any]] | None]) -> bool:
        """Likewise, but `order` gives every record that the file shall hold, in its order, or None to leave it; whole or not at all."""
        ...

    def check(self) -> None:
        """Failure("state-corrupt") where the file is damaged or of a newer version."""
        ...

    def seal(self) -> bool:
        """Close a torn end that a dead writer left, as the next append would; True when there was one. Failures as of `check`."""
        ...

    def accept_loss(self, because: str) -> bool:
        """A person's word that rows are gone and that it is known; False, and nothing written, where none is. What is damaged stays in the
        file. Failure("state-corrupt") for a newer version."""
        ...

    def newest_first(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Records from the end of the file, read no further than asked."""
        ...


class Stamps(Protocol):
    def read(self, account: str) -> Stamp | None: ...
    def write(self, account: str, stamp: Stamp) -> None:
        """Atomic replace, fsynced, directory too; under the dispatch lock."""
        ...

    def raise_seq(self, account: str, seq: int) -> None:
        """Raise the high-water mark of the account's stamp, its time unchanged; never lowers. Takes the dispatch lock."""
        ...


class Spool(Protocol):
    """Prompts by operation; the bytes of files by their digest, each once, whoever sends them."""

    def put(self, operation_id: str, prompt: bytes) -> None: ...
    def prompt(self, operation_id: str) -> bytes | None: ...
    def drop(self, operation_id: str) -> None: ...
    def keep(self, chunks: Iterable[bytes]) -> tuple[int, str]:
        """Durable before it returns: (size in bytes, 64 hex digits of the sha256). What `chunks` raises leaves nothing behind."""
        ...

    def holds(self, sha256: str) -> bool: ...
    def stage(self, operation_id: str, files: Sequence[tuple[str, str]]) -> Sequence[str]:
        """A private folder that holds (sha256, name) each under its name; the paths, in order. One that was there is replaced."""
        ...

    def unstage(self, operation_id: str) -> None: ...
    def tidy(self, *, digests: Callable[[str], bool], operations: Callable[[str], bool], prompts: Callable[[str], bool]) -> int:
        """Drop the files, staged folders and prompts for which the predicate (of a digest, of an operation id) is False; how many. Called
        under the ledger lock: an admission that has stored its bytes and has no row yet looks for them once more under that lock."""
        ...


class Source(Protocol):
    """A file that the caller gave: `name` is its base name."""

    @property
    def name(self) -> str: ...

    def chunks(self, heed: Callable[[], None]) -> Iterator[bytes]:
        """Its bytes, once, from one descriptor. Failure("bad-input") for what is no regular file, too large, or changes meanwhile."""
        ...

    @property
    def missing(self) -> Failure | None:
        """Why there is nothing to read; a known operation may do without it."""
        ...


class Logs(Protocol):
    """Canonical logs and their copies in the folder the command was started in. A name is a conversation id or `failed-<operation>`."""

    def read(self, name: str) -> Log | None: ...

    def append(self, name: str, *, header: Mapping[str, str], blocks: Sequence[Mapping[str, Any]]) -> None:
        """Seal a torn tail, append `blocks` (arguments of `Tail.block`; sections as tuples) and fsync. Costs what the blocks cost."""
        ...

    def begin(self, name: str, *, header: Mapping[str, str], block: Mapping[str, Any]) -> None:
        """Seal a torn tail, append the beginning of `block` (as for `append`, with the sections known so far) and fsync. Until `finish` the
        log is torn to every reader; the caller holds the conversation's lock all the time."""
        ...

    def finish(self, name: str, *, header: Mapping[str, str], block: Mapping[str, Any]) -> None:
        """Close the block that this object began, with all its sections; one that was not begun, or is not there as it was, is appended
        whole, naming what it replaces (`supersedes`)."""
        ...

    def names(self) -> Sequence[str]:
        """Of every canonical log."""
        ...

    def is_torn(self, name: str) -> bool:
        """Whether its end wants healing; Failure("state-corrupt") for a log of a newer version."""
        ...

    def seal(self, name: str) -> bool:
        """Heal a torn end, under the conversation's lock; True when there was one."""
        ...

    def copy(self, name: str) -> None:
        """Replace the copy by the canonical bytes; a folder that cannot be written, or a copy that holds turns which the log lacks or has
        damaged, is a warning, never an error."""
        ...

    def prepare(self) -> None:
        """Open the folder of the copies now, before the worker leaves the working folder."""
        ...

    def paths(self, name: str, *, expected: bool = False) -> tuple[str | None, str | None]:
        """(the copy relative to the folder or None, the canonical path or None): what the `Log:` lines name."""
        ...


@dataclass(frozen=True, slots=True)
class Stray:
    """An entry of the home that is not ours: `place` it had below the home (made printable), what it is, where it lies `now`; None where
    it could not be moved, and `why`."""

    place: str
    what: str
    now: str | None
    why: str = ""


class Strays(Protocol):
    """What lies in the home's folders and is not ours."""

    def move_aside(self) -> Sequence[Stray]:
        """Into the home's quarantine, never followed, never deleted; under the sweep's lock. What cannot be moved stays, and is named."""
        ...

    def set_aside(self, name: str, what: str) -> Stray:
        """One file of the home itself that a person has given up; under the lock under which it is written."""
        ...

    def set_aside_foreign(self, name: str) -> Stray | None:
        """Likewise where a link, a folder or a pipe stands at the name of a file of the home; None where it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """path: relative to the working folder. present: these very bytes were there already, and nothing was written."""

    path: str
    size: int
    sha256: str
    present: bool


class Downloads(Protocol):
    """The folder for what the model made: `./ask-gpt` of the folder that the command was started in. Failures: `state-unwritable`,
    `bad-config`, naming the folder or the file."""

    def save(self, name: str, chunks: Iterable[bytes]) -> Saved:
        """Bring `chunks` to disk under `name`, or `name-2` and so on where that is taken by other bytes. Nothing is ever overwritten, and
        the name appears only with the last byte on the disk. What `chunks` raises passes through, and leaves nothing."""
        ...

    def holds(self, path: str, size: int, sha256: str) -> bool:
        """Whether these very bytes lie there as a regular file."""
        ...

    def tidy(self) -> int:
        """Delete what killed downloads left, never what a live one writes; how many."""
        ...


class SeatLock(Protocol):
    """A taken seat: `number`, and what its last holder wrote about its window."""

    @property
    def number(self) -> int: ...
    def window(self) -> str | None: ...
    def note_window(self, window: str | None) -> None: ...


class Locks(Protocol):
    """Bounded waits; `heed` is called before each sleep and may raise to give up waiting. Order asserted at run time."""

    def conversation(self, conversation_id: str, *, wait_s: float, heed: Callable[[], None]) -> AbstractContextManager[None]: ...
    def fresh_conversation(self, conversation_id: str) -> AbstractContextManager[None]:
        """The lock of a conversation that did not exist before: taken with the seat held, without waiting."""
        ...

    def seat(self, *, wait_s: float, heed: Callable[[], None]) -> AbstractContextManager[SeatLock]: ...
    def dead_seats(self) -> AbstractContextManager[Sequence[SeatLock]]:
        """Every seat whose lock is free now, held while inside: its owner is dead or has left."""
        ...

    def dispatch(self) -> AbstractContextManager[None]:
        """One for the whole home: the stamp file holds every account."""
        ...

    def probe(self) -> None:
        """Two-descriptor self-test; Failure("bad-config") when flock fails or lies (DU-06)."""
        ...

    def is_held(self, conversation_id: str) -> bool: ...

    def sweep(self) -> AbstractContextManager[bool]:
        """One sweep at a time: held while inside (True); False while another one runs. Never waits."""
        ...


class Reports(Protocol):
    def keep(self, slug: str, fields: Mapping[str, Any]) -> str:
        """One report for whoever mends it, its place for people; the newest 20 stay. `fields` hold nobody's words."""
        ...


class Host(Protocol):
    def free_bytes(self) -> int:
        """Room on the file system of the home."""
        ...

    def remove_stale_temps(self, now: float) -> int:
        """Delete temporary files that killed writers left in the home more than a day before the wall clock `now`; how many."""
        ...


class Caller(Protocol):
    """The front: who waits for this worker."""

    def keeps_up(self) -> bool:
        """False while much of what was told is still unread: text that grows is better told later then, in one piece."""
        ...

    def emit(self, event: Mapping[str, Any]) -> None:
        """Never blocks the worker and never raises: a front that is gone misses events, nothing more."""
        ...

    def gone(self) -> bool: ...
    def wants(self) -> str | None:
        """None, or what the user asked for: "interrupt", "terminate"."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """The session endpoint's answer: who is signed in. No e-mail, no token."""

    user_id: str
    account_id: str | None = None

    @property
    def account(self) -> str:
        """`user/account`, or the user alone where the session names no account: one person can own several workspaces."""
        return f"{self.user_id}/{self.account_id}" if self.account_id else self.user_id


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What the page shows at one moment. `composer` None: no composer there. `conversation_id` None on the home page, never `WEB:`.
    choice: what it writes on its picker of model and effort, in any language: good to see that it changed. notice: what a toast says."""

    conversation_id: str | None = None
    composer: str | None = None
    chips: int = 0
    newest_message_id: str | None = None
    generating: bool = False
    mode: str = "chat"
    temporary: bool = False
    tools: int = 0  # switched on in the composer
    covered: bool = False  # something lies over the composer, and stays there
    choice: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What of the page this suite goes by is there now. found: how often, by name. missing, lacking: the selectors of those that must be
    there and are not, and of those that are gone and can be done without."""

    generation: int
    found: Mapping[str, int]
    missing: Mapping[str, str]
    lacking: Mapping[str, str]


class Unread(Failure):
    """The signed-in page is not given a conversation's JSON, or none that can be read, though it may well show the conversation."""


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A prompt and its answer as they stand on the page. user_message_id: the native id in the page's markup, the only thing that binds.
    answer: Markdown made from the markup, None where none is seen. thought: thinking is there, folded; nothing opens it."""

    user_message_id: str
    prompt: str
    answer: str | None
    thought: bool = False


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the page shows of the open conversation, oldest first. missing: prompts and answers that have a place on the page but are not in
    it now, or whose prompt is not; the page may know of older ones that it does not even have a place for. failed: the newest turn shows
    an error."""

    turns: tuple[RenderedTurn, ...]
    missing: int
    generating: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Files:
    """What the composer shows of files: `chips` that stand there, the `labels` of those that have one, `inputs`: how many the file inputs
    hold, `busy`: one shows progress, `failed`: one shows a failure, `sendable`: the page offers to send, `notice`: what a toast says."""

    chips: int = 0
    labels: tuple[str, ...] = ()
    inputs: int = 0
    busy: bool = False
    failed: bool = False
    sendable: bool = False
    notice: str = ""


class Unavailable(Exception):
    """One file cannot be had; the others may. `reason`: one clause, without any address. again: a second try with a new link may help.
    everything: the site refuses more than this file (a throttle), so nothing more is asked for."""

    def __init__(self, reason: str, *, again: bool = False, everything: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.again, self.everything = reason, again, everything


@dataclass(frozen=True, slots=True)
class Link:
    """Where a file's bytes are for a short while. The address is signed: it goes into no log, no message, no argv."""

    url: str = field(repr=False)
    name: str | None = None
    size: int | None = None
    mime: str | None = None


class Body(Protocol):
    """A file on its way. name, mime, size: as its own headers say, or None."""

    name: str | None
    mime: str | None
    size: int | None

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, of bounded size each. Unavailable where they end too early or stop coming."""
        ...


class Page(Protocol):
    """The site in one window. All knowledge of its looks is behind this."""

    def open(self, conversation_id: str | None) -> None:
        """Navigate to the home page or a conversation and wait for a live composer; typed `Failure` for each no of the page."""
        ...

    def session(self) -> Session:
        """Failure("needs-human") when nobody is signed in or a challenge stands there."""
        ...

    def facts(self) -> PageFacts: ...
    def asks(self) -> bool:
        """Whether a dialog lies over the page and waits for a person; nothing of it is pressed."""
        ...

    def hooks(self) -> Hooks:
        """Read alone: nothing is typed or pressed."""
        ...

    def outline(self) -> dict[str, Any]:
        """The page's structure, fit to be kept: no text, no label, no id of a person or conversation, no token (SI-04)."""
        ...

    def choose(self, model: str | None, effort: str | None) -> None:
        """Choose them in the page's own picker, by the site's words, and read back that it shows them as chosen. Failures, with what
        the page says: "bad-input" for what is not offered, "rate-limited" for what is switched off now, "needs-human" for what asks for
        something else first, "site-changed" for a picker that is not as known or does not keep the choice."""
        ...

    def clear(self) -> None:
        """Empty the composer and read back that it is; Failure("site-changed") when text stays."""
        ...

    def untype(self) -> None:
        """Empty the composer of its text alone, files stay; Failure("site-changed") when text stays."""
        ...

    def attach(self, paths: Sequence[str], *, images: bool) -> None:
        """Give the page these files, through its file input; nothing is pressed. `images`: all of them are images. Once for each page:
        a second time would upload them twice."""
        ...

    def files(self) -> Files: ...

    def type(self, text: str) -> None:
        """Put exactly `text` into the empty composer; nothing is pressed. Verified by the caller through `facts`."""
        ...

    def press(self) -> None:
        """The one click on the send control. Never retried, by nobody."""
        ...

    def stop(self) -> bool:
        """Press the page's own stop control, once; False when there is none."""
        ...

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        """The conversation JSON through the page's own session, readable by core.conversation. 404 is Failure("unknown-conversation")
        after the session was proved; refused to a live session, or no conversation: `Unread`."""
        ...

    def rendered(self) -> Rendered:
        """The turns that the open conversation's page shows. Its looks prove nothing: text for a log, never for the ledger."""
        ...

    def listing(self, offset: int, limit: int) -> dict[str, Any]: ...

    def link(self, conversation_id: str, artifact: Artifact) -> Link:
        """Ask the site where an artifact's bytes are. Unavailable when it does not say."""
        ...

    def documents(self, conversation_id: str) -> dict[str, tuple[str, str]]:
        """The conversation's canvas documents: id -> (name with an ending, text)."""
        ...

    def fetch(self, link: Link) -> AbstractContextManager[Body]:
        """Open a link, following redirects to the site's file hosts alone. Unavailable for any other answer than its bytes."""
        ...


class Gate(Protocol):
    """Holds the send request of one window: closed, open for one, spent."""

    def arm(self) -> None: ...
    def open_once(self) -> None: ...
    def wait(self, timeout: float) -> Held | None: ...
    def release(self, held: Held) -> bool:
        """Let it go; False when Chrome says that it no longer exists (nothing left)."""
        ...

    def refuse(self, held: Held) -> bool:
        """Fail it in the browser; False when that could not be confirmed."""
        ...

    def shut(self) -> None:
        """Fail what is held, then let nothing through any more. Safe at any time, also twice."""
        ...

    def watch(self, text: str) -> None:
        """Look for this text in every request, beacon and socket frame from now on."""
        ...

    def traces(self) -> int:
        """How often the watched text was seen in anything but the held request."""
        ...

    def notes(self) -> Sequence[Note]: ...
    def spare(self, files: bool) -> None:
        """While files are uploaded: what goes to hosts that are none of the site's is not looked at, since whoever looks gets the bytes."""
        ...

    def uploads(self) -> Sequence[Upload]:
        """Every upload that the page began since the gate was armed, in order."""
        ...

    @property
    def connected(self) -> bool:
        """Its connection never dropped since it was armed."""
        ...

    @property
    def lost(self) -> bool:
        """Chrome or the window is gone: nothing comes any more, and `wait` returns at once."""
        ...

    def reply(self, timeout: float) -> bytes | None:
        """The next bytes of the released request's answer; None when none came in time."""
        ...

    @property
    def reply_status(self) -> int | None: ...

    @property
    def reply_ended(self) -> str | None:
        """None while open; "finished", or "failed: <reason>"."""
        ...


class Seat(Protocol):
    """One window with its gate, for one turn."""

    page: Page
    gate: Gate

    def close(self) -> bool:
        """Gate closed, composer emptied, window closed, then detached: in that order, each step tried. Never raises. Whether Chrome said
        that the window closes or is gone: where it did not, its note stays for whoever buries it."""
        ...


class Browser(Protocol):
    def seat(self, number: int) -> tuple[str, Seat]:
        """A new blank window for the held seat of that number, its gate not yet armed, and the name by which a later process finds it."""
        ...

    def bury(self, window: str) -> None:
        """A dead owner's window: gate closed on it, composer emptied, closed (GT-18). A window that is gone is no error. Returns only when
        it is gone; Failure("browser") while nobody can tell, since its Chrome runs and does not answer."""
        ...

    def bury_blank(self, seats: Sequence[int]) -> None:
        """Closes blank windows of these seats, all of them held: their owners were killed before they had noted them. Starts no Chrome."""
        ...


@dataclass(slots=True)
class World:
    """Everything a flow acts through. turn: the one accumulator of what the command is about (flow/telling.py)."""

    clock: Clock
    ids: Ids
    owner: Owner
    ledger: Ledger
    registry: Registry
    stamps: Stamps
    spool: Spool
    logs: Logs
    strays: Strays
    locks: Locks
    host: Host
    browser: Browser
    caller: Caller
    settings: Settings
    downloads: Downloads | None = None
    reports: Reports | None = None
    turn: TurnState = field(default_factory=TurnState)
