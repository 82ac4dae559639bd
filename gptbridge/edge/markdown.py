"""How the page's rendered answers become Markdown again, for the case that their JSON is refused: html-to-markdown, and its settings.

What the page's looks add (buttons, captions, a formula's second form) is taken away in chatgpt.js before. The result is what a reader sees,
not what the model wrote: good enough for a log that says so. Touches nothing; where the converter fails, the plain text stands in.
"""

from __future__ import annotations

import html
import re

from html_to_markdown import ConversionOptions, convert

_OPTIONS = ConversionOptions(bullets="-", extract_metadata=False, autolinks=False, newline_style="backslash", compact_tables=True)
_MATH = re.compile(r"\\\\(?=[()\[\]])")  # the converter doubles the backslash of a formula's \\( and \\[


def markdown_of(markup: str) -> str:
    try:
        text = convert(markup, _OPTIONS).content or ""
    except Exception:  # the converter's own exceptions, and a panic of its native part: a log with plain text is better than none
        text = html.unescape(re.sub(r"<[^>]*>", "", markup))
    return _quotes_apart(_MATH.sub(r"\\", text).strip("\n"))


def _quotes_apart(text: str) -> str:
    """The converter sets a quotation right below a paragraph (3.21); a blank line keeps the two apart."""
    out: list[str] = []
    fence = ""
    for line in text.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
        elif len(ticks) >= 3:
            fence = ticks
        elif line.startswith(">") and out and out[-1] and not out[-1].startswith(">"):
            out.append("")
        out.append(line)
    return "\n".join(out)
