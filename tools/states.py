"""Draws the states of an operation from core/lifecycle's two tables: writes docs/states.md. Run by `make states`; a test compares the file.

Nothing here knows a transition: what is drawn is what `step` allows. Which facts a move needs is tried out, fact by fact.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations
from pathlib import Path

from gptbridge.core.lifecycle import SENT, TABLES, Facts, IllegalStep, Role, State, step

FILE = Path(__file__).resolve().parents[1] / "docs" / "states.md"
ROLES: dict[Role, str] = {"witness": "The witness: the live process that owns the operation and saw what happened",
                          "recovery": "Recovery: a later process that has only the ledger, and holds the dead owner's lock"}
WORDS = {"claimed": "was claimed", "dispatched": "a recorded dispatch", "durable": "was decided for ever", "receipt": "a receipt",
         "evidence": "evidence", "person": "a person's word", "lossy": "lost records of its time"}
HEAD = """\
# The states of an operation

Made by `make states` from the two tables of `gptbridge/core/lifecycle.py`, the only code that moves an operation. Not to be edited.

A move that is not drawn is refused. On an arrow stands what the move needs, or what forbids it. The same crash point ends in
different states on purpose: the witness knows more than recovery.
"""


def allowed(role: Role, state: State, to: State, facts: Facts) -> bool:
    try:
        return step(state, to, role, facts) is to
    except IllegalStep:
        return False


def needs(role: Role, state: State, to: State) -> str | None:
    """What a move needs, in words ("" for nothing); None where nothing makes it legal."""
    names = [one.name for one in fields(Facts)]
    sets = [set(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]
    good = [chosen for chosen in sets if allowed(role, state, to, Facts(**dict.fromkeys(chosen, True)))]
    if not good:
        return None
    least = [chosen for chosen in good if not any(other < chosen for other in good)]
    ways = [" with ".join(WORDS[name] for name in names if name in chosen) for chosen in least]
    never = [name for name in names if not any(name in chosen for chosen in good)]
    said = [" or ".join(way for way in ways if way)] if all(ways) else []
    if never:
        said.append("never if it " + " or ".join(WORDS[name] for name in never))
    return ", ".join(said)


def diagram(role: Role) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    if role == "witness":
        lines.append(f"    [*] --> {State.QUEUED}: admitted")
    for state in State:
        for to in State:
            if (label := needs(role, state, to)) is not None:
                assert to in TABLES[role][state]
                lines.append(f"    {state} --> {to}" + (f": {label}" if label else ""))
    return "\n".join([*lines, "```"])


def text() -> str:
    rows = "\n".join(f"| {state} | {SENT[state]} |" for state in State)
    parts = [HEAD, *(f"## {title}\n\n{diagram(role)}\n" for role, title in ROLES.items()),
             f"## What each state says of the message\n\n| state | `sent` |\n|---|---|\n{rows}\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), "utf-8")
    print(FILE)
