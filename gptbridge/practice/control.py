"""The switchboard's own endpoints, below `/practice/`: what a test or a person uses, and the real site does not have.

Guarantees: they answer whatever scenario is on, and need no bearer. Fails with JSON that says what would have been right.
"""

from __future__ import annotations

import re
import time

from gptbridge.practice import samples
from gptbridge.practice.exchange import Reply, Request, Route, fault, json_reply, route
from gptbridge.practice.scenarios import SCENARIOS, BadParameter, UnknownScenario
from gptbridge.practice.world import FIRST, Conversation, World


def state(req: Request) -> Reply:
    return json_reply(req.world.state())


def scenarios(req: Request) -> Reply:
    """What is on: `{"scenarios": {name: {parameters}}}`. The page asks this too, so `throttled` is told when it strikes, not before."""
    on = req.world.switches.active()
    if "throttled" in on and req.world.switches.used("throttled") < int(on["throttled"]["after"]):
        del on["throttled"]
    return json_reply({"scenarios": on})


def switch(req: Request) -> Reply:
    """`{"name", ...parameters}` switches on, `{"name", "on": false}` off. An unknown name is 404 with the list."""
    body = req.json_object()
    name = body.pop("name", None)
    on = body.pop("on", True)
    if not isinstance(name, str) or not isinstance(on, bool):
        return fault(422, '"name" must be a string and "on" true or false')
    try:
        if on:
            parameters = req.world.switches.start(name, body)
            if name == "many-conversations":
                many(req.world, int(parameters["count"]))
        else:
            req.world.switches.end(name)
    except UnknownScenario as unknown:
        return json_reply({"detail": str(unknown), "scenarios": sorted(SCENARIOS)}, 404)
    except BadParameter as bad:
        return fault(422, str(bad))
    return json_reply({"scenarios": req.world.switches.active()})


def reset(req: Request) -> Reply:
    req.world.reset()
    return json_reply({"success": True})


def put(req: Request) -> Reply:
    """`PUT /practice/conversations/ID`: a conversation in the site's own JSON, listed for the signed-in account."""
    ident, data = req.captured["conversation"], req.json_object()
    mapping = data.get("mapping")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,128}", ident):
        return fault(422, "the id may hold letters, digits and -")
    if not isinstance(mapping, dict) or not all(_is_node(node) for node in mapping.values()):
        return fault(422, '"mapping" must be an object of nodes {"id", "message", "parent", "children"}')
    data.setdefault("title", None)
    data.setdefault("create_time", time.time())
    data["conversation_id"] = ident = ident.lower()
    data.setdefault("current_node", None)
    account = req.world.signed_in() or FIRST
    with req.world.lock:
        old = req.world.conversations.get(ident)
        if old is not None and old.turn is not None:
            old.turn.abandon()
        req.world.conversations[ident] = Conversation(data, account.owner)
    return json_reply({"success": True, "conversation_id": ident})


def many(world: World, count: int) -> list[str]:
    """That many conversations of one turn for the signed-in account, a minute apart, the last of them now; their ids, newest first."""
    account, now = world.signed_in() or FIRST, time.time()
    made = [samples.conversation(1, title=f"Conversation {number}", start=now - 60.0 * (count - number)) for number in range(1, count + 1)]
    with world.lock:
        world.conversations.update({data["conversation_id"]: Conversation(data, account.owner) for data in made})
    return [data["conversation_id"] for data in reversed(made)]


def _is_node(node: object) -> bool:
    if not isinstance(node, dict) or not isinstance(node.get("message"), (dict, type(None))):
        return False
    return isinstance(node.get("children", []), list)


def get(req: Request) -> Reply:
    """The same JSON without bearer, throttle or refusal: for tests, and for the page while `json-refused` is on."""
    with req.world.lock:
        found = req.world.conversations.get(req.captured["conversation"].lower())
        return json_reply(found.data) if found is not None else fault(404, "Not Found")


ID = r"(?P<conversation>[^/]+)"
ROUTES: list[Route] = [
    route("GET", r"/practice/state", state, open=True),
    route("GET", r"/practice/scenario", scenarios, open=True),
    route("POST", r"/practice/scenario", switch, open=True),
    route("POST", r"/practice/reset", reset, open=True),
    route("PUT", rf"/practice/conversations/{ID}", put, open=True),
    route("GET", rf"/practice/conversations/{ID}", get, open=True),
]
