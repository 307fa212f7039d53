"""The time in which Python runs kernels itself, before they are loaded or compiled.

This module imports nothing: each command begins with it. `runtime/platform/kernels/interpreting.py` does the rest.
A command has such a time, for it may be over after a few rows. A program that uses aggloom has none: it lives longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SECONDS: Final = 0.5
"""A little more than loading a query's kernels takes, and far less than compiling them."""
_MOST_WORDS: Final = 1 << 11
"""A kernel over a longer array may take long, and is not stopped once it runs."""


class Allowance:
    """The seconds that are left, and how many words an array of a call may have."""

    was_given = False
    seconds = 0.0
    words = 0


ALLOWANCE: Final = Allowance()


@contextmanager
def interpret_few_rows(seconds: float = _SECONDS, words: int = _MOST_WORDS) -> Iterator[None]:
    """Let Python run kernels for so many seconds in all, in calls whose arrays have no more words of 64 bits."""
    ALLOWANCE.was_given, ALLOWANCE.seconds, ALLOWANCE.words = True, seconds, words
    try:
        yield
    finally:
        ALLOWANCE.seconds = 0.0
