"""Large stores for measuring: seeded, in the real formats, in a folder of the caller's. An operation is written as a real send does."""

from __future__ import annotations

import hashlib
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gptbridge.core import ledger, registry
from gptbridge.core.ledger import rfc3339
from gptbridge.core.record import encode
from gptbridge.edge.home import Home, open_home
from gptbridge.edge.host import Host

SITE = "https://chatgpt.com"
ACCOUNT = "user-0000/ba617bc0-627a-5292-87bb-bf2f4c1d54f1"
WEEK_S = 7 * 86400
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
WORDS = ("flock", "durable", "answer", "garden", "übersetzen", "prime", "letter", "recipe", "kernel", "日本", "budget", "poem", "tax")


def home(folder: Path) -> tuple[Home, dict[str, str]]:
    """A home of our own below `folder`, and the environment that names it."""
    env = {"ASKGPT_HOME": str(folder)}
    return open_home(env, create=True, host=Host(env)), env


def ulid(wall: float, rng: random.Random) -> str:
    number = (int(wall * 1000) << 80) | rng.getrandbits(80)
    return "".join(CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def uuid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def title(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(2, 7)))


def write_ledger(path: Path, lines: int, now: float, seed: int = 1) -> None:
    """At least `lines` records within the last week: most operations completed, some refused, few uncertain or accepted alone."""
    rng = random.Random(seed)
    with path.open("wb") as file:
        file.write(encode(1, ledger.first_record(SITE, rfc3339(now - WEEK_S))))
        seq = 2
        while seq <= lines:
            for fields in operation(now - (WEEK_S - 3600) * (1 - seq / lines), rng):
                file.write(encode(seq, fields))
                seq += 1


def operation(wall: float, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Its records, 5 on an average."""
    ident, message, conversation = ulid(wall, rng), uuid(rng), uuid(rng)
    epoch, pid = f"{rng.randrange(8)}.{rng.getrandbits(64):016x}", rng.randrange(1000, 60000)
    at = wall

    def line(state: str, reason: str, actor: str = "worker", **facts: Any) -> dict[str, Any]:
        nonlocal at
        at += rng.random() * 3
        return {"at": rfc3339(at), "operation_id": ident, "state": state, "epoch": epoch, "pid": pid, "actor": actor, "reason": reason,
                **facts}

    digest = hashlib.sha256(ident.encode()).hexdigest()
    yield line("queued", "admitted", kind="new", target="new", fingerprint=digest, prompt_sha256=digest[::-1],
               prompt_bytes=rng.randrange(4000), effort=None, model=None, account=None, folder=digest[32:] * 2, attempt=1)
    fate = rng.random()
    if fate < 0.3:
        yield line("rejected", "busy", error={"slug": "busy", "message": "it waited too long; nothing was sent", "hint": "run it again"},
                   durable=False)
        return
    yield line("queued", "prepared", account=ACCOUNT, ready_at=rfc3339(at))
    yield line("claimed", "turn of the line", account=ACCOUNT)
    yield line("dispatched", "one click is authorised")
    yield line("dispatched", "request held", user_message_id=message, parent_message_id="client-created-root")
    if fate < 0.302:
        yield line("uncertain", "owner gone", actor="recovery")
        return
    yield line("accepted", "receipt", request="released", conversation_id=conversation, turn_id=uuid(rng))
    if fate > 0.31:
        yield line("completed", "final answer", title=title(rng), site_model="gpt-5-5", site_effort="standard")


def write_registry(path: Path, rows: int, now: float, seed: int = 1) -> list[str]:
    """`rows` records, a tenth of them of a conversation that was there before. A few of its ids."""
    rng = random.Random(seed)
    slot, ids = uuid(rng), list[str]()
    # A million rows in seconds: a hundred lines are written as the suite writes them, and each is used again with another id and time.
    made = [encode(1, {"at": rfc3339(now), **registry.Conversation(ACCOUNT, slot, title(rng), f"{SITE}/c/{slot}",
                                                                  created_at=rfc3339(now)).fields()}) for _ in range(100)]
    bodies = [line[line.index(b'","at":'):-1].decode("ascii").replace(slot, "{0}").replace(rfc3339(now), "{1}") for line in made]
    bodies = [re.sub(r"^(.*)}$", r"\1}}", body) for body in bodies]
    with path.open("wb") as file:
        file.write(encode(1, registry.first_record(rfc3339(now))))
        for seq in range(2, rows + 2):
            again = ids and rng.random() < 0.1
            ident = rng.choice(ids) if again else uuid(rng)
            if not again and (len(ids) < 1000 or rng.random() < 0.01):
                ids.append(ident)
            if seq % 100 == 2:
                at = rfc3339(now - (rows + 2 - seq) * 60)
            before = b'{"seq":%d,"sum":"' % seq
            behind = bodies[seq % 100].format(ident, at).encode("ascii")
            file.write(b"%s%08x%s\n" % (before, zlib.crc32(behind, zlib.crc32(before)), behind))
    return ids


def conversation(size: int, messages: int, seed: int = 1) -> dict[str, Any]:
    """A document as the site gives it, about `size` bytes of JSON: questions, thinking, tools, answers with sources and code."""
    rng = random.Random(seed)
    ident, at = uuid(rng), 1763466768.0
    mapping: dict[str, Any] = {"client-created-root": {"id": "client-created-root", "message": None, "parent": None, "children": []}}
    above, exchange = "client-created-root", ""
    share = size * 9 // 8 // messages

    def text(length: int) -> str:
        out: list[str] = []
        while (left := length - sum(map(len, out))) > 0:
            out.append(rng.choice([title(rng) + ". ", "\n\n## " + title(rng) + "\n\n", "* **" + title(rng) + "**: `x < y`\n",
                                   "\n```python\nfor x in range(10):\n    print(x)  # " + title(rng) + "\n```\n"])[:max(1, left)])
        return "".join(out)

    for number in range(messages):
        kind = ("user", "thoughts", "code", "tool", "answer")[number % 5] if rng.random() < 0.9 else "answer"
        at += rng.random() * 20
        content: dict[str, Any] = {"content_type": "text", "parts": [text(int(share * rng.uniform(0.3, 1.2)))]}
        role, channel, recipient, metadata = "assistant", None, "all", {}
        if kind == "user":
            role, exchange = "user", uuid(rng)
            content = {"content_type": "text", "parts": [text(rng.randrange(20, 2000))]}
        elif kind == "thoughts":
            content = {"content_type": "thoughts", "thoughts": [
                {"summary": title(rng), "content": text(share // 8), "chunks": [], "finished": True} for _ in range(8)]}
        elif kind == "code":
            content, recipient = {"content_type": "code", "language": "python", "text": text(share // 2)}, "python"
        elif kind == "tool":
            role, content = "tool", {"content_type": "execution_output", "text": text(share)}
        else:
            channel = "final"
            said = content["parts"][0]
            marks = []
            for place in range(6):
                mark = f"\ue200cite\ue202turn{place}search{place}\ue201"
                start = len(said)
                said += mark + " and more. "
                marks.append({"matched_text": mark, "start_idx": start, "end_idx": start + len(mark), "type": "grouped_webpages",
                              "alt": f"([site](https://example.org/{place}))",
                              "items": [{"title": title(rng), "url": f"https://example.org/{place}", "attribution": "example.org"}]})
            content["parts"][0] = said
            metadata = {"content_references": marks, "finish_details": {"type": "stop"}, "model_slug": "gpt-5-5"}
        key = uuid(rng)
        mapping[above]["children"].append(key)
        mapping[key] = {"id": key, "parent": above, "children": [], "message": {
            "id": key, "author": {"role": role, "name": "python" if role == "tool" else None, "metadata": {}},
            "create_time": at, "update_time": None,
            "content": content, "status": "finished_successfully", "end_turn": True if channel else None, "weight": 1.0,
            "metadata": {**metadata, "turn_exchange_id": exchange}, "recipient": recipient, "channel": channel}}
        above = key
    return {"title": title(rng), "create_time": 1763466768.0, "update_time": at, "mapping": mapping, "current_node": above,
            "conversation_id": ident, "default_model_slug": "auto", "async_status": None}
