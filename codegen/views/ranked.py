"""Values with counts, in order, and the value at any rank at hand."""

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _room(width: int, what: str) -> Room:
    # A word, its count, and the weight by which ranks are found.
    return Room(WORD, tree_entry(3), f"the distinct values of {what}")


KIND = ViewKind(
    "ranked",
    "every distinct value with its count, by rank",
    _room,
    {
        "percentile": ViewFunction("percentile", "float"),
        "discrete_percentile": ViewFunction("discrete_percentile", "word"),
    },
)
