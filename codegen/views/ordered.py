"""Values with counts, in order."""

from aggloom.codegen.views.kind import ViewFunction, ViewKind
from aggloom.codegen.views.room import WORD, Room, tree_entry


def _room(width: int, what: str) -> Room:
    return Room(WORD, tree_entry(2), f"the distinct values of {what}")


KIND = ViewKind(
    "ordered",
    "every distinct value with its count, in order",
    _room,
    {
        "least": ViewFunction("least", "found"),
        "greatest": ViewFunction("greatest", "found"),
        "mode": ViewFunction("mode", "found"),
        "only": ViewFunction("only", "single"),
        "product": ViewFunction("product", "float"),
        "sorted_elements": ViewFunction("list_ordered", "list", more=("True", "backwards")),
        "distinct_elements": ViewFunction("list_ordered", "list", more=("False", "False")),
        "counted_elements": ViewFunction("list_ordered", "list", more=("False", "False")),
        "top_elements": ViewFunction("list_top", "list"),
    },
    # Changes are noted first and made together: a tree is walked once for several of them (decision 005).
    queued=True,
)
