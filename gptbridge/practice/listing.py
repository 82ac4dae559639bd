"""The list of the account's conversations, as the page's sidebar reads it, and every way in which the site refuses or cuts it.

Guarantees: newest change first, ISO times, at most 100 at a time; neither archived ones nor another account's. Fails with the site's own
bodies: 422, 429, 500.
"""

from __future__ import annotations

import time

from gptbridge.practice.exchange import Reply, Request, fault, json_reply
from gptbridge.practice.nodes import Json, iso
from gptbridge.practice.world import World


def throttled(world: World, name: str = "throttled") -> Reply | None:
    """The refusal while that scenario is on and its allowance is used up."""
    on = world.switches.get(name)
    if on is None or world.switches.count(name) <= int(on["after"]):
        return None
    wait = int(on["retry_after"])
    return fault(429, "Too many requests in 1 minute. Try again later.", [("Retry-After", str(wait))] if wait else None)


def _number(req: Request, name: str, default: int, top: int) -> int | None:
    given = req.query.get(name, str(default))
    return int(given) if given.isascii() and given.isdigit() and int(given) <= top else None


def listing(req: Request) -> Reply:
    """`GET /backend-api/conversations?offset&limit&order`: newest first; `total` is null unless `list-total` is on."""
    switches, tops = req.world.switches, {"offset": 10**9, "limit": 100}
    given = {"offset": _number(req, "offset", 0, tops["offset"]), "limit": _number(req, "limit", 28, tops["limit"])}
    for name, value in given.items():
        if value is None:
            detail: Json = {"type": "less_than_equal", "loc": ["query", name], "msg": f"Input should be less than or equal to {tops[name]}"}
            return fault(422, [detail | {"input": req.query.get(name), "ctx": {"le": tops[name]}}])
    offset, limit = given["offset"] or 0, given["limit"] or 0
    refusal = throttled(req.world)
    at = switches.get("list-throttled")
    if refusal is None and at is not None and offset + limit > int(at["at"]):
        refusal = throttled(req.world, "list-throttled")
    fails = switches.get("list-fails")
    if refusal is None and fails is not None and offset + limit > int(fails["at"]) and limit > int(fails["above"]):
        refusal = fault(500, "Internal Server Error")
    if refusal is not None:
        return refusal
    slow = switches.get("list-slow")
    if slow is not None and offset + limit > int(slow["at"]):
        time.sleep(float(slow["seconds"]))
    key = "create_time" if req.query.get("order") == "created" else "update_time"
    archived = req.query.get("is_archived") == "true"
    with req.world.lock:
        mine = [
            c.data
            for c in req.world.conversations.values()
            if c.owner == req.account.owner
            and c.visible
            and not c.data.get("is_temporary_chat")
            and bool(c.data.get("is_archived")) == archived
        ]
        if not right_workspace(req):
            mine = []
        mine.sort(key=lambda data: (_time(data, key), _time(data, "create_time")), reverse=True)
        capped = switches.get("list-capped")
        shown = mine if capped is None else mine[: int(capped["at"])]
        items = [_item(data) for data in shown[offset : offset + limit]]
    counted = switches.get("list-total")
    body = {"items": items, "total": None if counted is None else len(mine) + int(counted["more"]), "limit": limit, "offset": offset}
    return json_reply(body | {"has_missing_conversations": capped is not None and bool(capped["missing"]), "cursor": None})


def _time(data: Json, key: str) -> float:
    value = data.get(key)
    value = data.get("create_time") if value is None else value
    return float(value) if isinstance(value, (int, float)) else 0.0


def _item(data: Json) -> Json:
    return {
        "id": data["conversation_id"],
        "title": data.get("title"),
        "create_time": iso(_time(data, "create_time")),
        "update_time": iso(_time(data, "update_time")),
        "mapping": None,
        "current_node": None,
        "conversation_template_id": data.get("conversation_template_id"),
        "gizmo_id": data.get("gizmo_id"),
        "is_archived": bool(data.get("is_archived")),
        "is_starred": data.get("is_starred"),
        "is_temporary_chat": False,
        "is_do_not_remember": bool(data.get("is_do_not_remember")),
        "memory_scope": data.get("memory_scope", "global_enabled"),
        "workspace_id": None,
        "async_status": data.get("async_status"),
        "safe_urls": data.get("safe_urls") or [],
        "blocked_urls": data.get("blocked_urls") or [],
        "conversation_origin": data.get("conversation_origin"),
        "pinned_time": data.get("pinned_time"),
        "snippet": None,
    }


def right_workspace(req: Request) -> bool:
    return req.headers.get("Chatgpt-Account-Id") in (None, "", "default", req.account.account_id)
