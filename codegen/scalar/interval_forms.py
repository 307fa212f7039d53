"""The calls that make intervals of numbers, which no column can be."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

PLACES: Final = {
    "MAKE_DT_INTERVAL": (3, 4, 5, 6),
    "MAKE_INTERVAL": (0, 1, 2, 3, 4, 5, 6),
    "MAKE_YM_INTERVAL": (0, 1),
    "TRY_MAKE_INTERVAL": (0, 1, 2, 3, 4, 5, 6),
}
"""The makers of intervals, and which of years, months, weeks, days, hours, minutes and seconds each argument is."""
OF_DATES: Final = ("MAKE_INTERVAL", "MAKE_YM_INTERVAL", "TRY_MAKE_INTERVAL")
"""Those by which a date stays one."""


def is_interval(node: exp.Expression) -> bool:
    """Tell whether an expression is a call that makes an interval."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in PLACES
