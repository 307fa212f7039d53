"""join_state: the rows that each side of a join stores follow from its unique keys."""

from __future__ import annotations

from aggloom.codegen.operators import Join, MultiJoin, Node, walk
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions

_WORDS = {
    "JoinKeyContainsUniqueKey": "one row a key",
    "HasUniqueKey": "rows by {key}",
    "NoUniqueKey": "rows with their counts, since {why}",
}


def join_state(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Note how each Join stores its sides, and where its rows cannot be spread."""
    for node in walk(root):
        if isinstance(node, MultiJoin):
            _say_of_many(node, notes)
        if not isinstance(node, Join):
            continue
        known = (node.left_key, node.right_key)
        sides = []
        for place in node.stored_sides:
            side, key = ("left", "right")[place], ", ".join(known[place] or ())
            why = _why(node.inputs[place])
            sides.append(f"{side}: {_WORDS[node.input_spec(place)].format(key=key, why=why)}")
        unknown = any(known[place] is None for place in node.stored_sides)
        notes.add("join_state", node.subject, not unknown, "; ".join(sides))
        # The state goes by no column, so that one task has all rows.
        if not node.pairs:
            why = "no equality between the sides: all rows are in one bucket, and every pair is compared"
            notes.add("join_spread", node.subject, False, why)
    return root


def _say_of_many(node: MultiJoin, notes: Notes) -> None:
    sides = []
    for which, (known, below) in enumerate(zip(node.row_keys, node.tables, strict=True)):
        strategy = node.input_spec(which)
        words = _WORDS[strategy].format(key=", ".join(known or ()), why=_why(below))
        sides.append(f"input {which + 1}: {words}")
    notes.add("join_state", node.subject, None not in node.row_keys, "; ".join(sides))


def _why(side: Node) -> str:
    """The reason why no unique key distinguishes the rows of a side."""
    if side.unique_key is None:
        return "no unique key is known"
    return f"rows of one {', '.join(side.unique_key)} come from several tasks, in any order"
