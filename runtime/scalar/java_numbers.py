"""Numbers as Java writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
"""Java writes numbers of these sizes without an exponent."""


def double_to_text(number: float) -> str:
    """A DOUBLE as Double.toString writes it since Java 19: with the fewest digits that no other DOUBLE has.

    Java 17 writes a digit more for one in 400 numbers with random bits, and none for numbers with few digits.

    Example:
        >>> double_to_text(0.1), double_to_text(1e7)
        ('0.1', '1.0E7')
    """
    return _write(repr(float(number)), number, float)


def float_to_text(number: float) -> str:
    """A FLOAT as Float.toString writes it since Java 19; Java 17 has another last digit beyond 10^7 and below 10^-3.

    Example:
        >>> float_to_text(0.1)
        '0.1'
    """
    single = np.float32(number)
    # str() begins with exponents at other sizes than repr of a DOUBLE does.
    if _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        return np.format_float_positional(single, trim="0")
    return _write(np.format_float_scientific(single, trim="0"), number, np.float32)


def _write(text: str, number: float, read: Callable[[str], Any]) -> str:
    """Python's digits of a number in Java's form, which has an exponent from 10^7 on and below 10^-3.

    read: makes a number of its type of a text.
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    if _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        return text
    digits, _, exponent = text.partition("e")
    sign = "-" if number < 0 else ""
    bare = digits.lstrip("-")
    whole, _, fraction = bare.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    both = whole + fraction
    stripped = both.lstrip("0")
    if whole == "0":
        power = int(exponent or 0) - (len(both) - len(stripped))
    mantissa = stripped.rstrip("0") or "0"
    if len(mantissa) == 1:
        # Java writes two digits at least, and takes those nearest to the number: 4.9E-324, not 5.0E-324.
        nearest, _, moved = f"{abs(number):.1e}".partition("e")
        if read(f"{nearest}e{moved}") == abs(number):
            mantissa, power = nearest.replace(".", "").rstrip("0"), int(moved)
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"
