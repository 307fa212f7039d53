"""What an operator knows of time when it is called."""

from __future__ import annotations

from typing import NamedTuple

BEFORE_ALL = -(2**62)
AFTER_ALL = 2**62


class Clock(NamedTuple):
    """Milliseconds since 1970. processing: the clock's time. watermark: no row at or before it is expected."""

    processing: int = 0
    watermark: int = BEFORE_ALL


NO_TIME = Clock()
"""What an operator is told that looks at no clock."""
