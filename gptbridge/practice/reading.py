"""What the site tells of itself: session, account, models, one conversation, and the small changes to one.

Guarantees: shapes of 2026: epoch floats in a conversation; nothing of another account. Fails with the site's own
bodies: 404 `conversation_inaccessible`, 422, 429.
"""

from __future__ import annotations

import time
from typing import Any

from gptbridge.practice import answers
from gptbridge.practice.exchange import Reply, Request, Route, fault, inaccessible, json_reply, route
from gptbridge.practice.listing import listing, right_workspace, throttled
from gptbridge.practice.nodes import Json, iso
from gptbridge.practice.pages import challenge
from gptbridge.practice.world import BANNER, Account, Conversation


def session(req: Request) -> Reply:
    refused = req.world.switches.strike("session-refused")
    if refused is not None:
        return challenge() if int(refused["status"]) == 403 else fault(int(refused["status"]), "Try again later.")
    account = req.world.signed_in()
    if account is None:
        return json_reply({"WARNING_BANNER": BANNER})
    return json_reply(
        {
            "WARNING_BANNER": BANNER,
            "user": {
                "id": account.user_id,
                "name": account.name,
                "email": account.email,
                "idp": "auth0",
                "iat": int(time.time()),
                "mfa": False,
                "amr": ["pwd"],
                "image": None,
                "picture": None,
            },
            "expires": iso(time.time() + 90 * 86400),
            "account": {
                "id": account.account_id,
                "planType": "plus",
                "structure": "personal",
                "workspaceType": None,
                "organizationId": None,
                "isDelinquent": False,
                "gracePeriodId": None,
                "createdTime": "2024-01-01T00:00:00.000000Z",
                "computeResidency": "no_constraint",
                "residencyRegion": "no_constraint",
            },
            "accessToken": req.world.token(account),
            "authProvider": "openai",
            "rumViewTags": {"light_account": {"fetched": False}},
            "sessionToken": "practice-session-token",
        }
    )


def me(req: Request) -> Reply:
    if req.world.switches.get("me-refused") is not None:
        return challenge()
    account = req.account
    return json_reply(
        {
            "object": "user",
            "id": account.user_id,
            "email": account.email,
            "name": account.name,
            "picture": None,
            "created": 1704067200,
            "phone_number": None,
            "mfa_flag_enabled": False,
            "groups": [],
            "orgs": {"object": "list", "data": []},
        }
    )


def check(req: Request) -> Reply:
    account = req.account
    inner = {
        "account_user_role": "account-owner",
        "account_user_id": f"{account.user_id}__{account.account_id}",
        "account_id": account.account_id,
        "structure": "personal",
        "plan_type": "plus",
        "name": None,
        "is_deactivated": False,
        "organization_id": None,
    }
    entry = {
        "account": inner,
        "features": [],
        "entitlement": {
            "subscription_id": "practice",
            "has_active_subscription": True,
            "subscription_plan": "chatgptplusplan",
            "expires_at": iso(time.time() + 30 * 86400),
        },
    }
    return json_reply({"accounts": {account.account_id: entry, "default": entry}, "account_ordering": [account.account_id]})


def models(req: Request) -> Reply:
    def model(slug: str, title: str, efforts: tuple[str, ...]) -> Json:
        return {
            "slug": slug,
            "max_tokens": 200000,
            "title": title,
            "description": "",
            "tags": [],
            "capabilities": {},
            "product_features": {},
            "reasoning_type": "reasoning" if efforts else "none",
            "configurable_thinking_effort": bool(efforts),
            "thinking_efforts": [{"thinking_effort": e, "full_label": e.capitalize(), "short_label": e.capitalize()} for e in efforts],
        }

    listed = [
        model("gpt-5-5", "GPT-5.5", ()),
        model("gpt-5-5-thinking", "GPT-5.5 Thinking", ("standard", "extended")),
        model("gpt-5-5-pro", "GPT-5.5 Pro", ("standard", "extended")),
    ]
    absent = req.world.switches.get("model-absent") or {}
    listed = [one for one in listed if one["slug"] != absent.get("model")]
    return json_reply({"models": listed, "categories": [], "default_model_slug": "auto", "model_picker_version": 2})


def conversation(req: Request) -> Reply:
    """`GET /backend-api/conversation/{id}`: the whole mapping, also while an answer is being written."""
    ident, switches = req.captured["conversation"], req.world.switches
    refusal = throttled(req.world)
    if refusal is not None:
        return refusal
    refused = switches.get("json-refused")
    if refused is not None:
        status = int(refused["status"])
        return json_reply({"conversation_id": ident, "items": []}) if status == 200 else fault(status, "Forbidden")
    slow = switches.get("slow-read")
    if slow is not None:
        time.sleep(float(slow["seconds"]))
    with req.world.lock:
        found = req.world.find(ident, req.account)
        if found is None or not right_workspace(req):
            return inaccessible(ident)
        behind = switches.get("newest-behind")
        if behind is not None and found.turn is not None and time.time() < found.turn.began + float(behind["seconds"]):
            return json_reply(_before(found))
        return json_reply(found.data)


def _before(found: Conversation) -> Json:
    """The conversation without its newest turn."""
    assert found.turn is not None
    gone = set(found.turn.node_ids)
    mapping = found.data["mapping"]
    kept = {
        key: {**node, "children": [child for child in node.get("children", []) if child not in gone]}
        for key, node in mapping.items()
        if key not in gone
    }
    return {**found.data, "mapping": kept, "current_node": mapping[found.turn.user_id]["parent"]}


def change(req: Request) -> Reply:
    """`PATCH /backend-api/conversation/{id}` with title, is_visible or is_archived."""
    body = req.json_object()
    kinds: dict[str, Any] = {"title": str, "is_visible": bool, "is_archived": bool}
    for key, value in body.items():
        if key not in kinds or not isinstance(value, kinds[key]):
            return fault(422, [{"loc": ["body", key], "msg": "invalid", "type": "value_error"}])
    with req.world.lock:
        found = req.world.find(req.captured["conversation"], req.account)
        if found is None:
            return inaccessible(req.captured["conversation"])
        for key, value in body.items():
            if key == "is_visible":
                found.visible = value
            else:
                found.data[key] = value
    return json_reply({"success": True})


def gen_title(req: Request) -> Reply:
    """`POST /backend-api/conversation/gen_title/{id}`: a title for one that has none, else a message."""
    ident = req.captured["conversation"]
    with req.world.lock:
        found = req.world.find(ident, req.account)
        if found is None:
            return inaccessible(ident)
        if found.data.get("title") not in (None, "", "New chat"):
            return json_reply({"message": f"Conversation {ident} already has title"})
        users = [n["message"] for n in found.data["mapping"].values() if _author(n) == "user"]
        parts = users[0]["content"].get("parts", []) if users else []
        found.data["title"] = answers.title("".join(part for part in parts if isinstance(part, str)))
        return json_reply({"title": found.data["title"]})


def _author(node: Json) -> str | None:
    return ((node.get("message") or {}).get("author") or {}).get("role")


def projects(req: Request) -> Reply:
    return json_reply({"items": [], "cursor": None})


def guard(account: Account | None, method: str, path: str) -> Reply | None:
    """The answer to a request without a good bearer: 404 for reading a conversation, 401 for all else; None if it may pass."""
    if account is not None:
        return None
    parts = path.split("/")
    if method == "GET" and len(parts) == 4 and parts[2] == "conversation":
        return inaccessible(parts[3])
    return fault(401, {"message": "Unauthorized - Access token is missing"})


API = r"/backend-(?:api|anon)"
ONE = r"/conversation/(?P<conversation>[^/]+)"
ROUTES: list[Route] = [
    route("GET", r"/api/auth/session", session, open=True),
    route("GET", API + r"/conversations", listing),
    route("GET", API + ONE, conversation),
    route("PATCH", API + ONE, change),
    route("POST", API + r"/conversation/gen_title/(?P<conversation>[^/]+)", gen_title),
    route("GET", API + r"/models", models),
    route("GET", API + r"/me", me),
    route("GET", API + r"/accounts/check/v4-2023-04-27", check),
    route("GET", API + r"/gizmos/snorlax/sidebar", projects),
]
