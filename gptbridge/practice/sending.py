"""What a send does: judged, struck by scenarios, stored once, answered by a thread, streamed.

Guarantees: a message id that is already stored is never stored again, its second request follows the first one's turn; a refused send
changes nothing; a send that was stored is answered whatever becomes of its request. Owns the send endpoints, both generations of path.
Fails with the site's own error bodies.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gptbridge.practice import answers, nodes
from gptbridge.practice.exchange import Reply, Request, Route, fault, inaccessible, json_reply, route
from gptbridge.practice.nodes import Json
from gptbridge.practice.turn import Turn
from gptbridge.practice.world import Conversation, Send, World

SEND_PATHS = frozenset(f"/{api}/{path}" for api in ("backend-api", "backend-anon") for path in ("conversation", "f/conversation"))
MESSAGE_LIMIT = 400_000  # code points
SENTINEL = "practice-sentinel-"
STREAM = [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache")]


def note(world: World, send: Send, body: bytes) -> None:
    """Read into the record what the body says, as far as it can be read; never raises."""
    try:
        value = json.loads(body)
        listed = value.get("messages") if isinstance(value, dict) else None
        with world.lock:
            if isinstance(value, dict) and isinstance(value.get("conversation_id"), str):
                send.conversation_id = value["conversation_id"]
            if isinstance(value, dict):
                send.model, send.effort = (value[key] if isinstance(value.get(key), str) else None for key in ("model", "thinking_effort"))
            for item in listed if isinstance(listed, list) else []:
                if isinstance(item, dict) and _role(item) == "user":
                    send.message_id = item["id"] if isinstance(item.get("id"), str) else None
                    send.text = _text(item)
                    send.attachments = _attachments(item)
                    break
    except (ValueError, RecursionError):
        return


def _role(item: Json) -> Any:
    author = item.get("author")
    return author.get("role") if isinstance(author, dict) else None


def _text(item: Json) -> str:
    content = item.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return "".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else ""


def _attachments(item: Json) -> list[Json]:
    metadata = item.get("metadata")
    listed = metadata.get("attachments") if isinstance(metadata, dict) else None
    return [file for file in listed if isinstance(file, dict)] if isinstance(listed, list) else []


def send(req: Request) -> Reply:
    """`POST /backend-api/f/conversation` and `/backend-api/conversation`."""
    switches = req.world.switches
    if req.path.endswith("/f/conversation") and switches.strike("redirect-307") is not None:
        return Reply(307, [("Location", req.path.replace("/f/", "/"))])
    refusal = switches.strike("site-429")
    if refusal is not None:
        return refuse(int(refusal["status"]), int(refusal["clears_in"]))
    token = req.headers.get("OpenAI-Sentinel-Chat-Requirements-Token")
    if token is not None and not token.startswith(SENTINEL):
        return fault(403, {"message": "Unusual activity has been detected from your device.", "code": "sentinel_token_invalid"})
    taken = take(req.world, req.account.owner, req.json_object(), req.send)
    if isinstance(taken, Reply):
        return taken
    dropped = switches.strike("connection-drops")
    if dropped is not None:
        count = int(dropped["frames"])
        return Reply(200, STREAM, frames=islice(taken.follow(), count), drop=True) if count else Reply(0, drop=True)
    if switches.strike("send-502") is not None:
        page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
        return Reply(502, [("Content-Type", "text/html")], page)
    return Reply(200, STREAM, frames=told(req.world, taken))


def refuse(status: int, clears_in: int) -> Reply:
    """A refusal in the site's words for that status."""
    code, words = {
        401: ("token_expired", "Your session has expired. Log in again."),
        403: ("unusual_activity", "Unusual activity has been detected from your device."),
        413: ("message_length_exceeds_limit", "The message you submitted was too long."),
        429: ("model_cap_exceeded", "You've reached the limit. Try again later."),
    }.get(status, ("refused", "The request was refused."))
    if status == 422:
        return fault(422, [{"loc": ["body"], "msg": "refused", "type": "value_error"}])
    detail: Json = {"message": words, "code": code}
    if status == 429:
        detail["clears_in"] = clears_in
    return fault(status, detail)


def told(world: World, turn: Turn) -> Iterator[bytes]:
    """The turn's frames; with `web-url` what names the conversation comes late."""
    late = world.switches.get("web-url")
    for index, frame in enumerate(turn.follow()):
        if index == 1 and late is not None:
            time.sleep(max(0.0, turn.began + float(late["seconds"]) - time.time()))
        yield frame


def take(world: World, owner: str, body: Json, record: Send | None) -> Turn | Reply:
    """Store the message and begin its answer, or find the turn that a copy of it began; a Reply is the refusal."""
    wrong = _wrong(body)
    if wrong is not None:
        return fault(422, [{"loc": ["body", wrong], "msg": "invalid", "type": "value_error"}])
    message = next(item for item in body["messages"] if _role(item) == "user")
    limit = world.switches.get("message-limit")
    if len(_text(message)) > (int(limit["at"]) if limit else MESSAGE_LIMIT):
        return refuse(413, 0)
    with world.lock:
        turn = world.stored.get(message["id"])
        if turn is not None and turn.conversation.owner != owner:
            return fault(409, "This message id is taken")
        if body["action"] == "variant":
            again = _again(world, owner, body, message)
            if isinstance(again, Reply):
                return again
            turn = again
        elif turn is None:
            found = _place(world, owner, body)
            if isinstance(found, Reply):
                return found
            turn = _store(world, found, body, message)
            turn.start()
        if record is not None:
            record.conversation_id = turn.conversation_id
        return turn


def _wrong(body: Json) -> str | None:
    """The first field that the site would not take."""
    if body.get("action") not in ("next", "variant"):
        return "action"
    listed = body.get("messages")
    every = listed if isinstance(listed, list) and all(isinstance(m, dict) and isinstance(m.get("id"), str) for m in listed) else []
    mine = [m for m in every if _role(m) == "user"]
    if len(mine) != 1 or not mine[0]["id"]:
        return "messages"
    content = mine[0].get("content")
    if not isinstance(content, dict) or content.get("content_type") not in ("text", "multimodal_text"):
        return "messages"
    if not isinstance(content.get("parts"), list):
        return "messages"
    if not isinstance(body.get("parent_message_id"), str):
        return "parent_message_id"
    if not isinstance(body.get("model", "auto"), str):
        return "model"
    return None if isinstance(body.get("conversation_id"), (str, type(None))) else "conversation_id"


def _place(world: World, owner: str, body: Json) -> Conversation | Reply:
    """The conversation that the body names, or a new one."""
    ident = body.get("conversation_id")
    if ident is None:
        now = time.time()
        data = nodes.conversation(nodes.conversation_id(now), now, model=str(body.get("model") or "auto"))
        made = Conversation(data, owner)
        if body.get("history_and_training_disabled"):
            data["is_temporary_chat"] = True
        world.conversations[data["conversation_id"]] = made
        return made
    conversation = world.conversations.get(ident.lower())
    if conversation is None or conversation.owner != owner or not conversation.visible:
        return inaccessible(ident)
    parent = conversation.aliases.get(body["parent_message_id"], body["parent_message_id"])
    if parent not in conversation.data["mapping"]:
        return fault(404, {"code": "parent_not_found", "message": "The message to answer is not in this conversation."})
    if any(item["id"] in conversation.data["mapping"] for item in body["messages"]):
        return fault(409, {"code": "message_exists", "message": "This message is already in the conversation."})
    return conversation


def _store(world: World, conversation: Conversation, body: Json, message: Json) -> Turn:
    data = conversation.data
    if body.get("conversation_id") is None:
        parent = data["current_node"]  # below the hidden messages that a new conversation begins with
    else:
        parent = conversation.aliases.get(body["parent_message_id"], body["parent_message_id"])
    ident = message["id"]
    if world.switches.get("rewrites-ids") is not None:
        ident = nodes.new_id()
        conversation.aliases[message["id"]] = ident
    given = message.get("metadata")
    meta = {**(given if isinstance(given, dict) else {}), "request_id": nodes.new_id(), "turn_exchange_id": nodes.new_id()}
    meta |= {"can_save": True, "message_source": None, "parent_id": body["parent_message_id"]}
    stored = nodes.message(ident, "user", message["content"], time.time(), metadata=meta)
    nodes.link(data["mapping"], parent, stored)
    data["current_node"], data["update_time"] = ident, time.time()
    return _answer(world, conversation, stored, body, message["id"])


def _again(world: World, owner: str, body: Json, message: Json) -> Turn | Reply:
    """A person pressed "Try again": another answer below the same message, which is not stored a second time."""
    conversation = world.conversations.get(str(body.get("conversation_id")).lower())
    if conversation is None or conversation.owner != owner or not conversation.visible:
        return inaccessible(str(body.get("conversation_id")))
    node = conversation.data["mapping"].get(conversation.aliases.get(message["id"], message["id"])) or {}
    stored = node.get("message")
    if not isinstance(stored, dict) or _role(stored) != "user":
        return fault(404, {"code": "parent_not_found", "message": "The message to answer is not in this conversation."})
    conversation.data["current_node"] = stored["id"]
    turn = _answer(world, conversation, stored, body, message["id"])
    turn.start()
    return turn


def _answer(world: World, conversation: Conversation, stored: Json, body: Json, client_id: str) -> Turn:
    """The turn that will answer the stored message; not started."""
    prompt = _text(stored)
    plan = answers.plan(prompt, world.switches.active())
    failing = world.switches.strike("failed-turn")
    if failing is not None:
        plan.fail(bool(failing["partial"]))
    asked, effort = body.get("model") or "auto", body.get("thinking_effort")
    other = world.switches.get("model-substituted") or {}
    asked, effort = other.get("model") or asked, other.get("effort") or effort
    title = answers.title(prompt) if conversation.data["title"] == "New chat" else None
    model = nodes.MODEL if asked == "auto" else str(asked)
    turn = Turn(world, conversation, stored, plan, model, effort if isinstance(effort, str) else None, title)
    conversation.turn = world.stored[client_id] = turn
    return turn


def requirements(req: Request) -> Reply:
    """`POST /backend-api/sentinel/chat-requirements`, `/prepare`, `/finalize`: a token, no puzzle."""
    token = SENTINEL + nodes.new_id()
    return json_reply(
        {
            "persona": "chatgpt-paid",
            "token": token,
            "prepare_token": token,
            "expire_after": 540,
            "expire_at": int(time.time()) + 540,
            "turnstile": {"required": False},
            "proofofwork": {"required": False},
            "arkose": {"required": False},
        }
    )


def prepare(req: Request) -> Reply:
    return json_reply({"status": "ok", "conduit_token": "practice-conduit-" + nodes.new_id()})


def stop(req: Request) -> Reply:
    """`POST /backend-api/stop_conversation {"conversation_id"}`."""
    ident = req.json_object().get("conversation_id")
    with req.world.lock:
        found = req.world.find(ident, req.account) if isinstance(ident, str) else None
        if found is None:
            return inaccessible(str(ident))
        if found.turn is not None:
            found.turn.stop()
    return json_reply({"success": True})


def resume(req: Request) -> Reply:
    """`POST /backend-api/f/conversation/resume {"conversation_id", "offset"}`: the newest turn's frames again, from that one on."""
    body = req.json_object()
    ident, offset = body.get("conversation_id"), body.get("offset", 0)
    found = req.world.find(ident, req.account) if isinstance(ident, str) else None
    if found is None or found.turn is None or not isinstance(offset, int) or offset < 0:
        return inaccessible(str(ident))
    return Reply(200, STREAM, frames=found.turn.follow(offset))


API = r"/backend-(?:api|anon)"
ROUTES: list[Route] = [
    route("POST", API + r"/(?:f/)?conversation", send),
    route("POST", API + r"/f/conversation/prepare", prepare),
    route("POST", API + r"/f/conversation/resume", resume),
    route("POST", API + r"/stop_conversation", stop),
    route("POST", API + r"/sentinel/chat-requirements(?:/prepare|/finalize)?", requirements),
]
