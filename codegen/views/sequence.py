"""Values in order of arrival."""

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import CELL, TABLE, WORD, Room


def _room(width: int, what: str) -> Room:
    # Arrivals are a list: a word, links and a slot, and a cell in a table for what is retracted.
    return Room(WORD, WORD + 5 * CELL + TABLE, f"the rows, for {what}")


KIND = ViewKind(
    "sequence",
    "every value, in order of arrival",
    _room,
    {
        "oldest": ViewFunction("oldest", "found"),
        "newest": ViewFunction("newest", "found"),
        "elements": ViewFunction("list_sequence", "list"),
    },
    arrival=True,
)
