"""Durations as people type them: a number and s, m, h or d; a bare number is seconds. Pure."""

from __future__ import annotations

import re

LONGEST_S = 36500 * 86400.0
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """`90s` -> 90.0. Raises ValueError for anything else, signs and blanks included, and for more than a century."""
    found = _DURATION.fullmatch(text)
    value = float(found[1]) * _UNITS[found[2]] if found is not None else None
    if value is None or value > LONGEST_S:
        raise ValueError("not a duration")
    return value
