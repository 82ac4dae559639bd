"""Which `<` of a Markdown text could start raw HTML, and so must be written as an escape.

`disarm` turns `<` before a letter, `/`, `!` or `?` into `␛3C;` unless it stands in code that is *surely* code in every CommonMark and
GFM renderer. A tag or comment left alone there would hide or move the headings that follow. Only the writer decides; readers undo any
choice. In doubt a `<` is escaped: that costs looks, never a heading. Doubt is sticky. A fence whose opener or end could be read in two ways
ends all trust for the rest of the text, and a line with an unpaired backtick ends trust in code spans up to the next blank line.
Pure; linear time; works on text whose lines break at LF alone (after `escape`).
"""

from __future__ import annotations

import re

_TAG = re.compile("<(?=[A-Za-z/!?])")
_FENCE = re.compile("( *)(`{3,}|~{3,})(.*)")
# A fence behind list bullets, quote marks, tabs, a footnote label or a table bar: some renderer sees a fence there.
_NESTED_FENCE = re.compile(r"(?:[ \t>+*:|#-]|\d{1,9}[.)]|\[[^\]]*\])++(?:```|~~~)")
_TICKS = re.compile("`+")
_BEFORE_SPAN = "([{*_\"'"


def disarm(text: str) -> str:
    """`text` with each `<` that might open a tag, comment, declaration or instruction written as `␛3C;`."""
    if not _TAG.search(text):
        return text
    lines = text.split("\n")
    out: list[str] = []
    paired = True
    while len(out) < len(lines):
        at = len(out)
        line = lines[at]
        if "`" not in line and "~" not in line:
            paired = paired or not line.strip(" \t")
            out.append(_escape(line))
            continue
        fence = _FENCE.match(line)
        if not fence:
            if _NESTED_FENCE.match(line):
                break
            line, paired = _spans(line, paired)
            out.append(line)
            continue
        end = _fence_end(lines, at, fence)
        if end is None:
            break
        indent = len(fence[1])
        out.append(_escape(line))
        # From four blanks on it may be indented code or a paragraph's next line: agreed about where it ends, not about what it is.
        out.extend(lines[at + 1 : end + 1] if indent < 4 else map(_escape, lines[at + 1 : end + 1]))
        paired = indent < 4
    out.extend(map(_escape, lines[len(out) :]))
    return "\n".join(out)


def _escape(line: str) -> str:
    return _TAG.sub("\u241b3C;", line) if "<" in line else line


def _fence_end(lines: list[str], at: int, fence: re.Match[str]) -> int | None:
    """Index of the line that surely ends the fence opened at `at` (the last one, if a fence at column 0 stays open); None = in doubt."""
    indent, run, info = len(fence[1]), fence[2], fence[3]
    if run[0] == "`" and "`" in info:
        return None
    for index in range(at + 1, len(lines)):
        line = lines[index]
        bare = line.strip()
        if len(bare) >= len(run) and bare == run[0] * len(bare):
            ends = line.rstrip(" \t") == " " * indent + bare
            exact = ends or (indent == 0 and line.rstrip(" \t") in (" " + bare, "  " + bare, "   " + bare))
            return index if exact else None
        if indent and bare and not line.startswith(fence[1]):
            # Less indented: inside a list item this ends the fence, at the top level it does not.
            return None
    return len(lines) - 1 if indent == 0 else None


def _spans(line: str, paired: bool) -> tuple[str, bool]:
    """`line` with `<` escaped outside its sure code spans, and whether every backtick of its paragraph so far is paired."""
    if "`" not in line:
        return _escape(line), paired
    if not paired:
        return _escape(line), False
    runs = [(m.start(), m.end()) for m in _TICKS.finditer(line)]
    spans: list[tuple[int, int]] = []
    i = 0
    while i < len(runs):
        start, end = runs[i]
        before = start
        while before and line[before - 1] in _BEFORE_SPAN:
            before -= 1
        # Behind a backslash it is plain; glued to a word or to `](` it may belong to an automatic link or a link's target.
        if before and line[before - 1] not in " \t":
            return _escape(line), False
        close = next((j for j in range(i + 1, len(runs)) if runs[j][1] - runs[j][0] == end - start), None)
        if close is None:
            return _escape(line), False
        spans.append((start, runs[close][1]))
        i = close + 1
    if "|" in line:
        # A table splits its cells before it looks for code.
        return _escape(line), True
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (_escape(line[done:start]), line[start:end])
        done = end
    # A `<` just before a span cannot open a tag: a backtick follows it.
    return "".join(parts) + _escape(line[done:]), True
