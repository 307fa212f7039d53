"""Numbers, times and values as a page words them."""

from __future__ import annotations

import datetime as dt
from typing import Any

NOTHING = "–"
_LONGEST = 300


def count(number: int | None) -> str:
    """A number with its thousands apart."""
    return NOTHING if number is None else f"{number:,}"


def short(value: float) -> str:
    """A number in few letters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            shown = value / (1e3 if name == "k" else unit)
            return f"{shown:,.1f}".removesuffix(".0") + name
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")


def percent(share: float) -> str:
    """A share in per cent."""
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"


def size(number: int | None) -> str:
    """Bytes in a unit that suits them."""
    if number is None:
        return NOTHING
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number} bytes"


def duration(ms: int | None) -> str:
    """Milliseconds in a unit that suits them."""
    if ms is None:
        return NOTHING
    for unit, name in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(ms) >= unit:
            return f"{ms / unit:,.1f} {name}"
    return f"{ms} ms"


def moment(ms: int | None) -> str:
    """A time in UTC."""
    if ms is None:
        return NOTHING
    try:
        at = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def value(given: Any) -> str:
    """A value as a page shows it: one line, cut where it is long; NULL is told from the text by what marks it."""
    if given is None:
        return "NULL"
    if isinstance(given, bytes):
        text = given.hex()
    elif isinstance(given, dt.datetime):
        text = given.isoformat(" ")
    elif isinstance(given, dict):
        text = f"({row(given)})"
    elif isinstance(given, list):
        text = f"[{', '.join(map(value, given))}]"
    elif isinstance(given, str):
        plain = given.isprintable() and given.strip() == given and given
        text = given if plain and given != "NULL" else repr(given)
    else:
        text = str(given)
    return clip_text(text)


def row(values: dict[str, Any] | None) -> str:
    """The columns of a row."""
    if values is None:
        return "not there"
    return ", ".join(f"{clip_text(name)}={value(each)}" for name, each in values.items())


def clip_text(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers in order as (first, last) of those that follow each other."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
