"""logged_changes: filters below TO_CHANGELOG give whole changes, as the filters of a result do."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.operators import (
    Calc,
    Correlate,
    Node,
    ToChangelog,
    Union,
    WindowTable,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions


def logged_changes(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Mark the filters between TO_CHANGELOG and the operators whose changes it logs."""
    return transform(root, _mark_below)


def _mark_below(node: Node) -> Node:
    return node.over(_mark(node.input)) if isinstance(node, ToChangelog) else node


def _mark(node: Node) -> Node:
    """A node with its filters marked, as far down as changes come from an operator or a table."""
    # An operator with state gives whole changes already.
    if node.appends_only or not isinstance(node, Calc | Correlate | Union | WindowTable):
        return node
    node = node.over(*map(_mark, node.inputs))
    return replace(node, shows=True) if isinstance(node, Calc) and node.where is not None else node
