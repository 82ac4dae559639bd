"""What a command line asked for, parsed: one plain value for each command. Nothing is looked up or read yet.

Tuples, not dataclasses: ten of those would cost every start more than `list` itself does.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Send(NamedTuple):
    """`words` as typed; durations in seconds, None = the configured default. `files`: paths as typed, `-` is standard input.
    `model`, `effort`: the site's words, "" = whatever the page has."""

    words: tuple[str, ...]
    operation_id: str | None = None
    wait: float | None = None
    queue_wait: float | None = None
    again: bool = False
    files: tuple[str, ...] = ()
    stdin_name: str | None = None
    model: str | None = None
    effort: str | None = None


class Resume(NamedTuple):
    """As `Send`. `reference`: an id, its beginning, a URL or an operation id; None with `--last`."""

    words: tuple[str, ...]
    operation_id: str | None = None
    wait: float | None = None
    queue_wait: float | None = None
    reference: str | None = None
    again: bool = False
    files: tuple[str, ...] = ()
    stdin_name: str | None = None
    model: str | None = None
    effort: str | None = None


class Download(NamedTuple):
    """`reference`: an id, its beginning, a URL or an operation id, as typed; `queue_wait` in seconds, None = the configured default."""

    reference: str
    queue_wait: float | None = None


class List(NamedTuple):
    """`limit` 0 = all, None = not given; `since` in epoch seconds."""

    limit: int | None = None
    search: str | None = None
    since: float | None = None
    every_account: bool = False
    export: bool = False


class Show(NamedTuple):
    """`turn` None = not given, "last", or a number from 1."""

    reference: str
    turn: int | Literal["last"] | None = None
    part: Literal["prompt", "thinking", "answer"] | None = None


class OpsList(NamedTuple):
    """`older_than` in seconds since admission; `limit` None = all."""

    state: str | None = None
    older_than: float | None = None
    limit: int | None = None


class OpsShow(NamedTuple):
    operation_id: str
    prompt: bool = False


class OpsStop(NamedTuple):
    """Exactly one is set; `conversation`: an id, its beginning or a URL, as typed."""

    operation_id: str | None = None
    conversation: str | None = None


class OpsResolve(NamedTuple):
    operation_id: str
    sent: bool
    because: str
    conversation: str | None = None


class OpsAcceptLoss(NamedTuple):
    because: str


class Sweep(NamedTuple):
    """`stale_after` in seconds, None = the default."""

    stale_after: float | None = None
    offline: bool = False


class PrintUnit(NamedTuple):
    kind: Literal["cron", "launchd", "systemd"]


class Doctor(NamedTuple):
    browser: bool = False


class Bootstrap(NamedTuple):
    """`conversation`: an id, its beginning or a URL, as typed; None = the whole list."""

    conversation: str | None = None


class Practice(NamedTuple):
    port: int = 0
    scenarios: tuple[str, ...] = ()
    tls: bool = False
    names: bool = False


class Login(NamedTuple):
    quit: bool = False


class Help(NamedTuple):
    """`usage`: a command's options alone, as its `--help` gives them."""

    topic: str | None = None
    usage: bool = False


class Version(NamedTuple):
    pass


Request = (Send | Resume | Download | List | Show | OpsList | OpsShow | OpsStop | OpsResolve | OpsAcceptLoss | Sweep | PrintUnit
           | Bootstrap | Doctor | Practice | Login | Help | Version)
