"""Durations as people type them: a number and s, m, h or d; a bare number is seconds. Pure."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """`90s` -> 90.0. Raises ValueError for anything else, signs and blanks included."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("not a duration")
    return float(found[1]) * _UNITS[found[2]]
