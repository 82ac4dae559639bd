"""What a command line asked for, parsed: one plain value for each command. Nothing is looked up or read yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Send:
    """`words` as typed; durations in seconds, None = the configured default."""

    words: tuple[str, ...]
    operation_id: str | None = None
    wait: float | None = None
    queue_wait: float | None = None


@dataclass(frozen=True, slots=True)
class Resume(Send):
    """`reference`: an id, its beginning, a URL or an operation id; None with `--last`."""

    reference: str | None = None


@dataclass(frozen=True, slots=True)
class List:
    """`limit` 0 = all, None = not given; `since` in epoch seconds."""

    limit: int | None = None
    search: str | None = None
    since: float | None = None
    every_account: bool = False
    export: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """`turn` None = not given, "last", or a number from 1."""

    reference: str
    turn: int | Literal["last"] | None = None
    part: Literal["prompt", "thinking", "answer"] | None = None


@dataclass(frozen=True, slots=True)
class OpsList:
    """`older_than` in seconds since admission; `limit` None = all."""

    state: str | None = None
    older_than: float | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class OpsShow:
    operation_id: str
    prompt: bool = False


@dataclass(frozen=True, slots=True)
class Practice:
    port: int = 0
    scenarios: tuple[str, ...] = ()
    tls: bool = False
    names: bool = False


@dataclass(frozen=True, slots=True)
class Login:
    quit: bool = False


@dataclass(frozen=True, slots=True)
class Help:
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Version:
    pass


Request = Send | Resume | List | Show | OpsList | OpsShow | Practice | Login | Help | Version
