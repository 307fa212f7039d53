"""The spill of exact sums of DOUBLEs, once for all of a key. The planner adds it, no entry does."""

from aggloom.codegen.views.kind import ViewKind
from aggloom.codegen.views.room import CELL, Room


def _room(width: int, what: str) -> Room:
    return Room(CELL * width)


KIND = ViewKind("spill", "what exact sums spill", _room, sketch=True)
