"""Sets, which several DISTINCT calls share where rows are only added. The planner makes them, no entry does."""

from typing import Final

from aggloom.codegen.views.kind import ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry

CALLS: Final = 32
"""The number of calls that may share one: their bits are half of a number (runtime/views/seen.py)."""


def _room(width: int, what: str) -> Room:
    # A value and one number, whatever the number of calls: half of it are their bits (decision 102).
    return Room(WORD, tree_entry(2), f"the distinct values of {what}")


KIND = ViewKind(
    "seen", "every distinct value, with a bit for each call that has met it", _room, by_bytes=False
)
