"""How a reply travels: server-sent events in delta encoding v1.

Guarantees: `apply`ing the operations of a frame to the stored message gives what a reader of the stream holds, since both come from the
same operations. Owns the frame format: `p` a JSON pointer, `o` add | append | replace | patch, `v` the value, `c` the counter of the
message; a missing `p` and `o` repeat the previous ones. `append` joins strings, extends lists and merges objects. Pure.
"""

from __future__ import annotations

import json
from typing import Any

Op = dict[str, Any]


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event; `data` is JSON unless it is bytes. ASCII only, so a lone surrogate travels as an escape."""
    body = data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode("ascii")
    head = b"event: " + name.encode("ascii") + b"\n" if name else b""
    return head + b"data: " + body + b"\n\n"


OPENING = event("v1", "delta_encoding")
DONE = event(b"[DONE]")


def op(kind: str, path: str, value: Any) -> Op:
    return {"p": path, "o": kind, "v": value}


def apply(document: Any, change: Op) -> Any:
    """The document after one operation (changed in place where it can be). Raises KeyError, IndexError on a wrong path."""
    if change["o"] == "patch":
        for part in change["v"]:
            document = apply(document, {**part, "p": change["p"] + part["p"]})
        return document
    keys = [key.replace("~1", "/").replace("~0", "~") for key in change["p"].split("/")[1:]]
    if not keys:
        return change["v"]
    target = document
    for key in keys[:-1]:
        target = target[int(key)] if isinstance(target, list) else target[key]
    last: Any = int(keys[-1]) if isinstance(target, list) else keys[-1]
    if change["o"] != "append":
        target[last] = change["v"]
    elif isinstance(target[last], dict):
        target[last].update(change["v"])
    else:
        target[last] = target[last] + change["v"]
    return document


class Encoder:
    """Turns operations into frames and leaves out what repeats."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._count = -1

    def frame(self, change: Op) -> bytes:
        here = (change["p"], change["o"])
        if change["o"] == "add" and not change["p"]:
            self._count += 1
            out: Op = {**change, "c": self._count}
        elif here == self._last and here[1] == "append":
            out = {"v": change["v"]}
        else:
            out = dict(change)
        self._last = here
        return event(out, "delta")
