"""Values with counts, in order, and when each arrived."""

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _room(width: int, what: str) -> Room:
    return Room(WORD, tree_entry(3), f"the distinct values of {what}")


KIND = ViewKind(
    "stamped",
    "every distinct row with its count and its arrival, by sort key",
    _room,
    {
        "earliest": ViewFunction("earliest", "found", more=("widths",)),
        "latest": ViewFunction("latest", "found", more=("widths",)),
    },
    # An entry has the stamp of its arrival, which decides between equal sort keys.
    stamps=True,
)
