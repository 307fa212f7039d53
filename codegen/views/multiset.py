"""Multisets, which DISTINCT calls share: values with a count for each FILTER. The planner makes them, no entry does."""

from aggloom.codegen.views.kind import ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _room(width: int, what: str) -> Room:
    return Room(WORD, tree_entry(1 + width), f"the distinct values of {what}")


KIND = ViewKind(
    "multiset", "every distinct value with its counts", _room, shared=True, by_bytes=False
)
