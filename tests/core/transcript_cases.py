"""Logs and texts that the transcript tests share: hostile fragments, a writer of whole logs, and what a log says."""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gptbridge.core.operation import normalised
from gptbridge.core.transcript import Block, Log, Section, header, tail

EXAMPLES = int(os.environ.get("SOAK_EXAMPLES", "0"))
AT = "2026-11-29T13:00:05Z"
HEADER = header(
    "68c1d2e3-0000-8000-8000-000000000001", "https://chatgpt.com/c/68c1d2e3-0000-8000-8000-000000000001", "2026-11-29T13:00:00Z"
)

# Joined at random these make texts that look like the log's own lines, end code too early, or hide what follows.
FRAGMENTS = (
    "\n", "\n", "\n\n", "\r\n", "\r", "\t", " ", "    ", "x", "word ", "é", "␛", "␛3C;", ";", "\0", "\x1b[31m", "\x85", "\u2028",
    "\u202e", "\ufeff", "\U0001f600", "\U000e0041", "\ud83d", "\ude00", "> ", ">", "## turn 5 · 2026-11-29T13:00:05Z\n",
    "### answer\n", "---\n", "===\n", "<!-- ask-gpt end turn=1 state=completed bytes=1 -->\n", "<!-- ask-gpt torn -->\n",
    "*(interrupted)*\n", "<!--", "-->", "<select>", "</select>", '<div title="', "<textarea>", "<plaintext>", "<script>",
    "<![CDATA[", "<?x", "</blockquote>", "<", "```", "```\n", "````", "~~~", "~~~\n", "`", "`", "``", "`<select>`", "`a`", "\\",
    "\x1b]0;title\x07", "\x1b]8;;http://a.b\x1b\\", "\x9b2J", "\u2066", "\u2069", "\U000e0001", "\U000e007f", "\x0b", "\x0c", "\u2029",
    "\ue200cite\ue202turn0search0\ue201", "\uf8ff", "\U0010fffd", "\u200b", "---\nformat: ask-gpt-log/9\n---\n", "[a]: http://a.b \"t\"\n",
    "# heading\n", "heading\n=======\n", "&lt;", "&#60;b>", "\u0301", "שלום", "👩\u200d👧",
    "|", "|-|\n", "[a](", "](", ")", "[x]: ", "[^1]: ", "http://a.b/`", "<http://", "- ", "1. ", "  ", "   ", "$", '"',
)  # fmt: skip


GRAMMAR = 20  # times as many: at 400 examples all of these held, at 20,000 two holes were found
PAGE = 5  # the same for what goes through a parser of HTML, which takes its time


def profile(examples: int, times: int = 1) -> settings:
    """Hypothesis settings with that many examples; in a soak `times` SOAK_EXAMPLES, if that is more (1,000 in `make soak`)."""
    return settings(max_examples=max(examples, times * EXAMPLES), deadline=None, suppress_health_check=list(HealthCheck))


texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join) | st.text(st.characters(), max_size=40)
names = st.sampled_from(["prompt", "thinking", "answer", "artifacts", "error"])
sections = st.lists(st.builds(Section, names, texts), max_size=3).map(tuple)
plans = st.lists(
    st.tuples(st.sampled_from(["turn", "turn", "event"]), sections, st.sampled_from(["completed", "failed", "stopped"])), max_size=4
)


def write(plan, begin: bytes = HEADER) -> bytes:
    """A log with one block for each (kind, sections, state) of `plan`."""
    log = begin
    for kind, parts, state in plan:
        log += tail(log).block(kind, AT, attrs={"op": "01JDX3V9"}, sections=parts, state=state)
    return log


def said(block: Block) -> tuple:
    """All that a block says, without where it stands."""
    return block.kind, block.number, block.at, block.state, block.sections, block.attrs, block.words


def sound(log: Log) -> bool:
    return not log.problems and not log.torn and all(block.ok for block in log.blocks)


def is_prefix(cut: tuple[Section, ...], whole: tuple[Section, ...]) -> bool:
    """Whether `cut` is what is left of `whole` when it is cut off somewhere: whole sections, then a beginning of the next."""
    if not cut:
        return True
    last = whole[len(cut) - 1] if len(cut) <= len(whole) else None
    return last is not None and cut[:-1] == whole[: len(cut) - 1] and cut[-1].name == last.name and last.text.startswith(cut[-1].text)


def hostile(seed: int) -> str:
    r = random.Random(seed)
    return "".join(r.choice(FRAGMENTS) for _ in range(r.randint(1, 25)))


def sendable(seed: int) -> str:
    """A hostile text as a prompt can be: no U+0000, no lone surrogate, line ends as the newline rule leaves them; every 50th is long."""
    long = seed % 50 == 7
    text = hostile(seed) + ("\n" + "x<y\U0001f600" * 8000 + "\n" if long else "") + hostile(seed + 1_000_000)
    text = "".join(c for c in text if c != "\0" and not "\ud800" <= c <= "\udfff")
    return normalised(text) if text.strip() else "empty"
