"""Durations as text, such as "500 ms", in milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from aggloom.errors import OptionError

_UNITS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def milliseconds(what: str, value: Any) -> int:
    """A number of milliseconds, a timedelta or text such as "500 ms", "1 h", "1 hour 30 minutes".

    Raises OptionError naming `what` if the text is none of these or means less than a millisecond's precision.
    """
    if isinstance(value, timedelta):
        # timedelta counts microseconds, and total_seconds() would be a float.
        whole, rest = divmod(value, timedelta(milliseconds=1))
        if rest:
            raise OptionError(f"{what} is {value}; windows and clocks know whole milliseconds.")
        return whole
    text = str(value).strip().lower()
    parts = list(_PART.finditer(text))
    known = all(part[2] in _UNITS for part in parts)
    # The parts together must be the whole text: finditer skips what does not match.
    if isinstance(value, bool) or not parts or not known or "".join(p[0] for p in parts) != text:
        raise OptionError(f"{what} is {value!r}; it must be a duration such as '500 ms' or '1 h'.")
    # Decimal, since 0.1 s as a float is not quite 100 ms, and would be refused below.
    total = sum(Decimal(part[1]) * _UNITS[part[2]] for part in parts)
    if total != int(total):
        raise OptionError(f"{what} is {value!r}; windows and clocks know whole milliseconds.")
    return int(total)


def format_duration(ms: int) -> str:
    """A duration in its largest whole unit: 3600000 is "1 h"."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
