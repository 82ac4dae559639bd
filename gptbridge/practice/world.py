"""What the practice site remembers: who is signed in, conversations, files, and every send that ever arrived.

Guarantees: one lock guards all of it; a send is on the record from its arrival, whatever becomes of it; a message id is stored once.
Touches memory only. Owns the shape of `/practice/state`. Nothing here fails but by a wrong argument.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gptbridge.practice.nodes import Json
from gptbridge.practice.scenarios import Switchboard

if TYPE_CHECKING:
    from gptbridge.practice.turn import Turn

BANNER = (
    "!!!!!!!!!!!!!!!!!!!! DO NOT SHARE ANY PART OF THE INFORMATION YOU SEE HERE, NOT EVEN WITH SOMEBODY WHO SEEMS TO HELP YOU. "
    "IT OPENS YOUR ACCOUNT. (THIS IS A PRACTICE SITE: NOTHING HERE IS REAL.) !!!!!!!!!!!!!!!!!!!!"
)


@dataclass(frozen=True, slots=True)
class Account:
    user_id: str
    account_id: str
    name: str
    email: str
    workspace: bool = False

    @property
    def owner(self) -> str:
        """Under what its conversations and files are kept: a person's workspaces do not see one another's."""
        return self.account_id if self.workspace else self.user_id


def _account(number: int, name: str) -> Account:
    ident = f"user-{number:04d}"
    return Account(ident, str(uuid.uuid5(uuid.NAMESPACE_URL, "practice:" + ident)), name, f"{ident}@example.org")


FIRST = _account(0, "Practice Person")
SECOND = _account(1, "Another Person")
WORKSPACE = replace(FIRST, account_id=str(uuid.uuid5(uuid.NAMESPACE_URL, "practice:workspace")), workspace=True)
GUEST = Account("guest", "", "", "")


@dataclass(slots=True)
class Send:
    """One request to a send endpoint. `at`: epoch seconds of arrival; `answered`: HTTP status given, None while open."""

    at: float
    message_id: str | None = None
    conversation_id: str | None = None
    text: str = ""
    answered: int | None = None
    attachments: list[Json] = field(default_factory=list)
    model: str | None = None
    effort: str | None = None


@dataclass(slots=True)
class Conversation:
    """`data` is the site's own JSON; `aliases` maps ids that a client gave to the ids stored in their place."""

    data: Json
    owner: str
    turn: Turn | None = None
    aliases: dict[str, str] = field(default_factory=dict)
    visible: bool = True


@dataclass(slots=True)
class File:
    """`holders`: messages that refer to it; `path` where the sandbox has it, "" for an upload or image. `generated`: that many
    made-up bytes in the place of `data`. `faults`: see downloads.py; `served`: how often each step was asked for."""

    ident: str
    name: str
    mime: str
    data: bytes
    owner: str
    conversation_id: str = ""
    path: str = ""
    holders: set[str] = field(default_factory=set)
    created: float = 0.0
    ready: bool = True
    generated: int | None = None
    faults: Json = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.data) if self.generated is None else self.generated


class World:
    """Use `lock` around everything that reads or changes more than one field."""

    def __init__(self, scenarios: Iterable[str] = ()) -> None:
        self.lock = threading.RLock()
        self.switches = Switchboard(scenarios)
        self.conversations: dict[str, Conversation] = {}
        self.files: dict[str, File] = {}
        self.stored: dict[str, Turn] = {}  # the client's message id -> the turn that it began
        self.sends: list[Send] = []
        self.fetches: list[Json] = []
        self.reads = 0
        self.secret = secrets.token_hex(16)
        self._tokens = {account.user_id: self._token(account) for account in (FIRST, SECOND)}

    def signed_in(self) -> Account | None:
        if self.switches.get("signed-out") is not None or self.switches.get("account-picker") is not None:
            return None
        if self.switches.get("other-workspace") is not None:
            return WORKSPACE
        return SECOND if self.switches.get("other-account") is not None else FIRST

    def token(self, account: Account) -> str:
        return self._tokens[account.user_id]

    def holder(self, authorization: str | None) -> Account | None:
        """The signed-in account if the `Authorization` header carries its token, else None."""
        account = self.signed_in()
        if account is None or not authorization:
            return None
        return account if secrets.compare_digest(authorization.encode(), ("Bearer " + self.token(account)).encode()) else None

    def arrive(self) -> Send:
        """Put a send on the record, before a byte of its body is looked at."""
        with self.lock:
            send = Send(time.time())
            self.sends.append(send)
            return send

    def state(self) -> Json:
        """`{"sends": [...], "reads": N}`; `copy_of` is the index of the earliest arrival with the same message id."""
        with self.lock:
            first: dict[str, int] = {}
            sends: list[dict[str, Any]] = []
            for index, send in enumerate(self.sends):
                copy_of = None
                if send.message_id is not None:
                    earliest = first.setdefault(send.message_id, index)
                    copy_of = earliest if earliest != index else None
                sends.append(
                    {
                        "message_id": send.message_id,
                        "conversation_id": send.conversation_id,
                        "text": send.text,
                        "at": send.at,
                        "answered": send.answered,
                        "copy_of": copy_of,
                        "attachments": [self._attachment(named) for named in send.attachments],
                        "model": send.model,
                        "effort": send.effort,
                    }
                )
            return {"sends": sends, "reads": self.reads}

    def _attachment(self, named: Json) -> Json:
        """What a send says of a file, and what the site has of it: `sha256` null and `stored` -1 for one that it does not have."""
        file = self.files.get(str(named.get("id")))
        digest = hashlib.sha256(file.data).hexdigest() if file is not None and file.ready else None
        return {
            "id": named.get("id"),
            "name": named.get("name"),
            "size": named.get("size"),
            "mime_type": named.get("mime_type"),
            "sha256": digest,
            "stored": len(file.data) if file is not None and file.ready else -1,
            "stored_name": file.name if file is not None else None,
        }

    def find(self, ident: str, account: Account) -> Conversation | None:
        """The conversation if it exists, is visible and is this account's."""
        found = self.conversations.get(ident.lower())
        return found if found is not None and found.owner == account.owner and found.visible else None

    def reset(self) -> None:
        """Forget scenarios, conversations, files and sends; answers that are being written stop."""
        with self.lock:
            for conversation in self.conversations.values():
                if conversation.turn is not None:
                    conversation.turn.abandon()
            self.switches.clear()
            self.conversations.clear()
            self.files.clear()
            self.stored.clear()
            self.sends.clear()
            self.fetches.clear()
            self.reads = 0

    def _token(self, account: Account) -> str:
        """Looks like the site's JWT and opens nothing anywhere."""
        now = int(time.time())
        claims = {
            "aud": ["https://api.openai.com/v1"],
            "exp": now + 10 * 86400,
            "iat": now,
            "https://api.openai.com/auth": {
                "chatgpt_account_id": account.account_id,
                "chatgpt_user_id": account.user_id,
                "chatgpt_plan_type": "plus",
                "user_id": account.user_id,
            },
            "sub": "practice",
        }
        parts = [json.dumps({"alg": "RS256", "typ": "JWT", "kid": "practice"}).encode(), json.dumps(claims).encode()]
        parts.append(hashlib.sha256((self.secret + account.user_id).encode()).digest())
        return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
