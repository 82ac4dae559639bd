"""How one delta changes a document: JSON pointer paths and the operations that the site uses.

Operations: add, replace (set), append (strings join, lists extend, objects merge), remove, truncate (length), patch (a list of
deltas below the path). Missing objects on the way are made. Changes in place where it can. Touches nothing. Raises `Misfit`,
and nothing else, for a delta that does not fit the document.
"""

from __future__ import annotations

from typing import Any

OPERATIONS = frozenset({"add", "append", "replace", "patch", "remove", "truncate"})
_MAX_DEPTH = 8


class Misfit(Exception):
    """A frame that does not fit what came before it."""


def apply(document: Any, op: str, path: str, value: Any, depth: int = 0) -> tuple[Any, str | None]:
    """The document after one operation, and the path where text was last appended, if any was."""
    appended: str | None = None
    if op == "patch":
        if depth >= _MAX_DEPTH or not isinstance(value, list):
            raise Misfit
        last, last_op = "", "append"
        for part in value:
            if not isinstance(part, dict):
                raise Misfit
            last, last_op = part.get("p", last), part.get("o", last_op)
            if not (isinstance(last, str) and isinstance(last_op, str) and last_op in OPERATIONS):
                raise Misfit
            document, where = apply(document, last_op, path + last, part.get("v"), depth + 1)
            appended = where or appended
        return document, appended
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]
    if not keys:
        return _changed(document, op, value), None
    target = document
    for key in keys[:-1]:
        target = _step(target, key)
    _change_at(target, keys[-1], op, value)
    return document, path if op == "append" and isinstance(value, str) else None


def _index(target: list[Any], key: str) -> int:
    if key == "-":
        return len(target)
    if not (key.isascii() and key.isdigit() and len(key) < 7 and int(key) <= len(target)):
        raise Misfit
    return int(key)


def _step(target: Any, key: str) -> Any:
    if isinstance(target, dict):
        return target.setdefault(key, {})
    if not isinstance(target, list):
        raise Misfit
    at = _index(target, key)
    if at == len(target):
        target.append({})
    return target[at]


def _change_at(target: Any, key: str, op: str, value: Any) -> None:
    if isinstance(target, dict):
        if op == "remove":
            target.pop(key, None)
        else:
            target[key] = _changed(target.get(key), op, value)
    elif isinstance(target, list):
        at = _index(target, key)
        if op == "remove":
            del target[at : at + 1]
        elif at == len(target):
            target.append(_changed(None, op, value))
        else:
            target[at] = _changed(target[at], op, value)
    else:
        raise Misfit


def _changed(old: Any, op: str, value: Any) -> Any:
    if op in ("add", "replace"):
        return value
    if op == "truncate" and isinstance(old, (str, list)) and isinstance(value, int) and value >= 0:
        return old[:value]
    if op != "append":
        raise Misfit
    if old is None:
        return value
    if isinstance(old, str) and isinstance(value, str):
        return old + value
    if isinstance(old, list):
        return [*old, *value] if isinstance(value, list) else [*old, value]
    if isinstance(old, dict) and isinstance(value, dict):
        return {**old, **value}
    raise Misfit
