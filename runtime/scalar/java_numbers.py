"""Numbers as Java writes them."""

from __future__ import annotations

import math


def double_to_text(number: float) -> str:
    """Double.toString: the shortest digits that say the number, with an exponent from 10^7 on and below 10^-3."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    digits, _, exponent = f"{float(number)!r}".partition("e")
    if 1e-3 <= abs(number) < 1e7:
        plain = digits if not exponent else f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    sign = "-" if number < 0 else ""
    bare = digits.lstrip("-")
    whole, _, fraction = bare.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    both = whole + fraction
    stripped = both.lstrip("0")
    if whole == "0":
        power = int(exponent or 0) - (len(both) - len(stripped))
    mantissa = stripped.rstrip("0") or "0"
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"
