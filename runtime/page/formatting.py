"""Numbers, times and values as a page words them."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

NOTHING = "–"
_LONGEST = 300


def count(number: int | None) -> str:
    """A number with commas between its thousands."""
    return NOTHING if number is None else f"{number:,}"


def amount(number: int | None, unit: str) -> str:
    """An amount of input, which is counted in bytes or in another unit, such as rows."""
    return size(number) if unit == "bytes" else count(number)


def short(value: float) -> str:
    """A number with at most one decimal, in thousands, millions or billions where it is large."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            scaled = value / (1e3 if name == "k" else unit)
            return f"{scaled:,.1f}".removesuffix(".0") + name
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")


def percent(share: float) -> str:
    """A share in per cent."""
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"


def size(number: int | None) -> str:
    """A number of bytes, in the largest unit of which there is one."""
    if number is None:
        return NOTHING
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number} bytes"


def duration(ms: int | None) -> str:
    """A number of milliseconds, in the largest unit of which there is one."""
    if ms is None:
        return NOTHING
    for unit, name in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(ms) >= unit:
            return f"{ms / unit:,.1f} {name}"
    return f"{ms} ms"


def now_ms() -> int:
    """The time of the machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def age(ms: int | None) -> str:
    """The time that has passed since a moment."""
    return duration(None if ms is None else max(0, now_ms() - ms))


def moment(ms: int | None) -> str:
    """A moment, in milliseconds since 1970, as a time in UTC."""
    if ms is None:
        return NOTHING
    try:
        at = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def value(item: Any) -> str:
    """A value as a page shows it: one line, cut where it is long; NULL is distinguished from the text by its markup."""
    if item is None:
        return "NULL"
    if isinstance(item, bytes):
        text = item.hex()
    elif isinstance(item, dt.datetime):
        text = item.isoformat(" ")
    elif isinstance(item, dict):
        text = f"({row(item)})"
    elif isinstance(item, list):
        text = f"[{', '.join(map(value, item))}]"
    elif isinstance(item, str):
        plain = item.isprintable() and item.strip() == item and item
        # In quotes: blanks at the ends and control characters are invisible, and the text NULL would look like a NULL.
        text = item if plain and item != "NULL" else repr(item)
    else:
        text = str(item)
    return clip_text(text)


def row(values: dict[str, Any] | None) -> str:
    """A row as NAME=VALUE, with commas between; None: there is no row."""
    if values is None:
        return "not there"
    return ", ".join(f"{clip_text(name)}={value(each)}" for name, each in values.items())


def clip_text(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """The runs of consecutive numbers among ascending ones, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs
