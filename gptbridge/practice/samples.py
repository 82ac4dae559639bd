"""Made-up conversations in the site's own JSON, for tests and for looking at.

Guarantees: the same arguments give the same conversation, ids included. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from gptbridge.practice import answers, nodes
from gptbridge.practice.nodes import Json

START = 1_780_000_000.25


def conversation(
    turns: int,
    *,
    ident: str | None = None,
    title: str = "A long talk",
    thinking: bool = False,
    start: float = START,
    prompts: Sequence[str] | None = None,
    replies: Sequence[str] | None = None,
) -> Json:
    """`turns` questions and answers, one minute apart. `thinking` adds thoughts, recap and commentary to each answer.

    `prompts` and `replies` (used in turn, again from the first when they run out) replace the made-up words.
    """
    seed = f"practice:{turns}:{title}:{thinking}:{start}"

    def made(name: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{seed}:{name}"))

    if ident is None:
        r = uuid.uuid5(uuid.NAMESPACE_URL, seed).hex
        ident = f"{int(start):08x}-{r[:4]}-83{r[4:6]}-8{r[7:10]}-{r[10:22]}"
    data = nodes.conversation(ident, start, title=title, hidden=(made("hidden-1"), made("hidden-2")))
    mapping, parent, at = data["mapping"], data["current_node"], start
    for number in range(1, turns + 1):
        shared = {"request_id": made(f"request-{number}"), "turn_exchange_id": made(f"exchange-{number}")}
        prompt = prompts[(number - 1) % len(prompts)] if prompts else f"Question {number}: what is {number} times {number}?"
        reply = replies[(number - 1) % len(replies)] if replies else f"**{number * number}**.\n\n" + answers.quoted(prompt)

        def add(
            name: str,
            role: str,
            content: Json,
            channel: str | None,
            end: bool | None,
            number: int = number,
            shared: Json = shared,
            **meta: object,
        ) -> None:
            nonlocal parent, at
            at += 5
            more = {**shared, "parent_id": parent, **meta}
            if role == "assistant":
                more |= {
                    "model_slug": nodes.MODEL,
                    "default_model_slug": "auto",
                    "resolved_model_slug": nodes.MODEL,
                    "message_type": "next",
                }
            made_message = nodes.message(made(f"{name}-{number}"), role, content, at, end_turn=end, channel=channel, metadata=more)
            nodes.link(mapping, parent, made_message)
            parent = made_message["id"]

        add("user", "user", nodes.text(prompt), None, None)
        if thinking:
            thought = nodes.thoughts(("Squaring", f"{number} times {number}."), ("Checking", "It is right."))
            add("thoughts", "assistant", thought, "analysis", False, reasoning_status="is_reasoning", thinking_effort="standard")
            add(
                "recap",
                "assistant",
                nodes.recap("Thought for 5s"),
                "analysis",
                False,
                reasoning_status="reasoning_ended",
                finished_duration_sec=5,
            )
            add("commentary", "assistant", nodes.text("I multiply."), "commentary", False)
        finish = {"type": "stop", "stop_tokens": [200002]}
        add("final", "assistant", nodes.text(reply), "final", True, is_complete=True, finish_details=finish)
        at = start + 60 * number
    data["current_node"], data["update_time"] = parent, at
    return data
