"""The clock: all that an operator knows of time when it is called."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

# Far beyond any calendar, and far enough from the ends of 64 bits for windows to be added without overflow.
BEFORE_ALL = -(2**62)
AFTER_ALL = 2**62


class Clock(NamedTuple):
    """Milliseconds since 1970. processing: the clock's time. watermark: no row at or before it is expected."""

    processing: int = 0
    watermark: int = BEFORE_ALL


NO_TIME = Clock()
"""The clock of an operator that looks at none."""


def hold_watermark(ms: int, interval: int) -> int:
    """Return the end of the last whole interval that a watermark has passed, all in milliseconds.

    interval: the length of a mini-batch, by which watermarks wait; 0: none waits.
    """
    if not interval or not BEFORE_ALL < ms < AFTER_ALL:
        return ms
    return (ms + 1) // interval * interval - 1


def find_held_time(due: int, interval: int) -> int:
    """Return the least watermark that, held by an interval, is not before a time; all in milliseconds."""
    return due if not interval else (due + interval) // interval * interval - 1


def instant(ms: int) -> dt.datetime | None:
    """Milliseconds since 1970 as an instant; None where no calendar has it."""
    try:
        return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return None
