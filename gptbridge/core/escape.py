"""Visible escapes: how a code point that a reader could not see, or must not obey, is written down as plain text.

`␛HEX;` (U+241B, upper-case hex without leading zeros) stands for one code point. Escaped are C0 except TAB and LF, DEL, C1, the
line and paragraph separators, bidi overrides and isolates, BOM, interlinear marks, U+FFFE and U+FFFF, tag characters, lone surrogates, and
U+241B itself. What comes out encodes to UTF-8, breaks lines at LF alone, moves no terminal's cursor and hides no text.
Every str round-trips code point by code point; two lone surrogates side by side stay two. Pure; never raises on any str.
"""

from __future__ import annotations

import re

MARK = "\u241b"
_HIDDEN_SET = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff\\ud800-\\udfff\\u241b"
    "\\U000e0000-\\U000e007f"
)
_HIDDEN = re.compile(f"[{_HIDDEN_SET}]")
_HIDDEN_OR_BREAK = re.compile(f"[{_HIDDEN_SET}\\t\\n]")
_ESCAPE = re.compile(MARK + "([1-9A-F][0-9A-F]{0,5}|0);")
_CUT_ESCAPE = re.compile(MARK + "[0-9A-F]{0,6}\\Z")


def _one(match: re.Match[str]) -> str:
    return f"{MARK}{ord(match[0]):X};"


def _back(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def escape(text: str) -> str:
    """`text` with every hidden code point as `␛HEX;`; TAB and LF stay. `unescape` gives `text` again."""
    return _HIDDEN.sub(_one, text)


def unescape(text: str) -> str:
    """The inverse of `escape`, for any choice of escaped code points; what is no whole escape stays as it stands."""
    # `<` is by far the most frequent one; no escape can arise from putting it back.
    text = text.replace(MARK + "3C;", "<")
    return _ESCAPE.sub(_back, text) if MARK in text else text


def drop_cut_escape(text: str) -> str:
    """`text` without a last escape that was cut off in the middle (a writer always ends one with `;`)."""
    return text[:-8] + _CUT_ESCAPE.sub("", text[-8:])


def visible(text: str, *, multiline: bool) -> str:
    """`text` made safe for a terminal by the same escapes; with `multiline` false (titles) TAB and LF are escaped as well."""
    return _HIDDEN.sub(_one, text) if multiline else _HIDDEN_OR_BREAK.sub(_one, text)
