"""What the practice site says to a prompt: a plan of nodes, their chunks and pauses, decided by the prompt and the scenarios alone.

Guarantees: the same prompt gives the same text for ever; all chunks of a part joined are its text. Pure. Never fails: an unknown
`practice:` word gets the default answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

TOTAL = 0.15  # seconds that an answer takes unless something asks for more
CHUNKS = 6


@dataclass(slots=True)
class Part:
    """One node of the answer: `chunks` as (seconds to wait before it, text). `kind`: text, thoughts, recap, image, or pause (no node)."""

    kind: str
    chunks: list[tuple[float, str]] = field(default_factory=list)
    channel: str | None = "final"
    last: bool = False
    sandbox: dict[str, bytes] = field(default_factory=dict)
    more_parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """`fails`: the last part ends in an error. `blocked`: "prompt" or "answer", what the site's moderation takes away. `waits_for`: a
    scenario that must end first. `lost`: the stream ends in an error, and nothing of the answer is stored."""

    parts: list[Part]
    fails: bool = False
    blocked: str = ""
    waits_for: str = ""
    lost: bool = False

    def fail(self, partial: bool) -> None:
        """Let the turn fail, before the first word or after about half of them."""
        last = self.parts[-1]
        last.chunks = last.chunks[: max(1, len(last.chunks) // 2)] if partial else [(0.05, "")]
        self.fails = True


def quoted(prompt: str) -> str:
    """The default answer."""
    return "You said:\n\n" + "\n".join("> " + line for line in prompt.split("\n"))


def title(prompt: str) -> str:
    """The title that the site gives a conversation that begins so: at most 40 code points of the first line with words."""
    words = next((line.split() for line in prompt.split("\n") if line.split()), ["New", "chat"])
    return " ".join(words)[:40].strip()


def spread(text: str, seconds: float, chunks: int = CHUNKS) -> list[tuple[float, str]]:
    """`text` in up to `chunks` pieces of like length that arrive evenly over `seconds`."""
    count = max(1, min(chunks, len(text)))
    cuts = [len(text) * i // count for i in range(count + 1)]
    return [(seconds / count, text[a:b]) for a, b in pairwise(cuts)]


def plan(prompt: str, on: Mapping[str, Mapping[str, Any]]) -> Plan:
    """The answer to `prompt` while the scenarios `on` are active."""
    word = re.match(r"practice:([a-z]+)", prompt)
    make = CANNED.get(word[1]) if word else None
    seconds = TOTAL
    if word and word[1] == "slow":
        asked = re.search(r"\bseconds=(\d+(?:\.\d+)?)", prompt.split("\n", 1)[0])
        seconds = min(float(asked[1]), 86400.0) if asked else 5.0
    elif "slow-answer" in on:
        seconds = float(on["slow-answer"]["seconds"])
    text = make() if make else quoted(prompt)
    body = Part("text", spread(text, seconds, max(CHUNKS, min(200, int(seconds / 0.1)))), last=True)
    if "pause-mid-word" in on:
        body.chunks = _pause(text, seconds, float(on["pause-mid-word"]["seconds"]))
    parts = [body]
    if word and word[1] == "parts":
        body.more_parts = ["Second part.", "Third part."]
    if word and word[1] == "files":
        body.sandbox = {"/mnt/data/table.csv": TABLE.encode(), "/mnt/data/notes.md": NOTES.encode()}
        parts.insert(0, Part("image", [(0.05, "")], channel=None))
    if word and word[1] == "image":
        parts = [Part("image", [(0.1, "")], channel=None, last=True)]
    if word and word[1] == "think":
        parts = [*_thinking(float(on["thinking"]["seconds"]) if "thinking" in on else 1.0), _commentary(), *parts]
    elif "silence" in on:
        parts = [_commentary(), Part("pause", [(float(on["silence"]["seconds"]), "")]), *_thinking(0.5), *parts]
    elif "thinking" in on:
        parts = [*_thinking(float(on["thinking"]["seconds"])), *parts]
    made = Plan(parts, blocked=str(on["moderated"]["what"]) if "moderated" in on else "",
                waits_for="tool-approval" if "tool-approval" in on else "", lost="stream-error" in on)
    if made.blocked == "answer":
        body.chunks = body.chunks[: max(1, len(body.chunks) // 2)]
    return made


def _commentary() -> Part:
    return Part("text", spread("I looked at the question first; now I write the answer.", 0.05, 2), channel="commentary")


def _thinking(seconds: float) -> list[Part]:
    """Two thoughts over `seconds` and the recap. A thoughts chunk is `summary`, a line feed, then the thought."""
    first = ("Reading the question", "I read the question twice, so that nothing in it is missed.")
    second = ("Choosing the answer", "A practice site has one answer to a question, and I give it.")
    chunks = []
    for summary, content in (first, second):
        chunks += [(seconds / 4, f"{summary}\n{content[:30]}"), (seconds / 4, content[30:])]
    shown = max(1, round(seconds))
    return [
        Part("thoughts", chunks, channel="analysis"),
        Part("recap", [(0.0, f"Thought for {shown}s" if shown < 120 else f"Thought for {shown // 60}m {shown % 60}s")], channel="analysis"),
    ]


def _pause(text: str, seconds: float, pause: float) -> list[tuple[float, str]]:
    words = list(re.finditer(r"[^\W\d_]{4,}", text))
    after = [m for m in words if m.start() >= len(text) // 2] or words[-1:]
    cut = (after[0].start() + after[0].end()) // 2 if after else len(text) // 2
    head, tail = spread(text[:cut], seconds / 2, 3), spread(text[cut:], seconds / 2, 3)
    return [*head, (tail[0][0] + pause, tail[0][1]), *tail[1:]]


TABLE = "year,value\n2023,122000\n2024,123456\n"
NOTES = "# Notes\n\nMade by the practice site. ümlaut, 日本語, 😀\n"

MARKDOWN = r"""# A heading

A paragraph with **bold**, *italic*, `inline code` and a [link](https://example.org/page?a=1&b=2).

## Lists

1. First
   - nested *item*
   - another
2. Second

- [x] done
- [ ] open

## A table

| Year | Value | Note |
|---:|:---:|---|
| 2023 | 122 000 | a \| b |
| 2024 | 123 456 | `x` |

## Code

```python
def greet(name: str) -> str:
    return f"Hello, {name}"  # <b>not bold</b>
```

````markdown
# Inner
```sh
echo "nested fence"
```
````

> A quotation
> of two lines.

Inline \( p = \frac{a}{b} \) and

\[
s = \sum_{i=1}^{n} x_i
\]

---

The end, with $5 and $6, emoji 😀 and RTL שלום."""

FILES = "I made two files: [table.csv](sandbox:/mnt/data/table.csv) and [the notes](sandbox:/mnt/data/notes.md)."

CONTROLS = "\n\n".join(
    [
        "Words that the page uses too:",
        "Answer now",
        "Something went wrong",
        "Retry",
        "Stop",
        "Too many requests",
        "They are part of this answer.",
    ]
)

CITATIONS = (
    '\ue200entity\ue202["city","Sample City",0]\ue201 has **123,456** inhabitants '
    "\ue200cite\ue202turn0search0\ue201. A \ue203marked phrase\ue204 stays; so does the literal turn0search0."
)

ESCAPES = "An escape \x1b[31mred\x1b[0m, a title \x1b]0;title\x07, a bidi override \u202etxt.exe\u202c, a no-break\u00a0space."

CANNED: dict[str, Callable[[], str]] = {
    "markdown": lambda: MARKDOWN,
    "files": lambda: FILES,
    "controls": lambda: CONTROLS,
    "citations": lambda: CITATIONS,
    "escapes": lambda: ESCAPES,
    "surrogate": lambda: "A lone surrogate \ud83d stands here.",
    "empty": lambda: "",
    "parts": lambda: "First part.",
}
