"""exchanges: every operator with keyed state reads rows that are distributed by its keys."""

from __future__ import annotations

from aggloom.codegen.operators import Node, transform
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions


def exchanges(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Put an exchange below every operator with keyed state; the result is the physical plan in one phase."""
    # Each node knows by which columns its rows have to lie; nodes without keyed state answer with themselves.
    return transform(root, lambda node: node.insert_exchange())
