"""rank_strategy: the rows that a Rank stores follow from its input; its number is removed where nobody reads it."""

from __future__ import annotations

from aggloom.codegen.operators import Node, Rank, walk
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions


def rank_strategy(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Say of each Rank which strategy it has, and why."""
    for node in walk(root):
        if not isinstance(node, Rank):
            continue
        notes.add("rank_strategy", node.subject, node.strategy != "retract", node.why)
        if "table.exec.rank.topn-cache-size" in options.changed_options:
            why = "there is no cache to size: the state is arrays in memory-mapped files"
            notes.add("rank_cache", node.subject, False, why)
        if node.number is None:
            why = (
                "nothing reads the number: if only the number of a row changes, nothing is emitted"
            )
            notes.add("rank_number", node.subject, True, why)
        else:
            notes.add("rank_number", node.subject, False, f"{node.number} is read")
    return root
