"""window_ranks: a rank by key and window over rows of windows waits for the windows' end, and forgets them."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.operators import Calc, Node, Rank, WindowAggregate, WindowTable, transform
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import column_name

Windows = WindowAggregate | WindowTable


def window_ranks(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Tell every Rank whose key has the start and the end of windows below it which column is the end."""
    return transform(root, lambda node: _set_window(node) if isinstance(node, Rank) else node)


def _set_window(node: Rank) -> Rank:
    origins = {name: _origin(node.input, name) for name in node.partition}
    below = {
        id(node_below): node_below for node_below, _ in origins.values() if node_below is not None
    }
    # Rows of two windows in one rank have no end in common, after which its state could be dropped.
    if len(below) != 1 or node.bounds.is_open or node.bounds.end_column is not None:
        return node
    (windows,) = below.values()
    assigner = windows.assigner if isinstance(windows, WindowTable) else windows.windowing.assigner
    if not assigner.event_time or not windows.appends_only:
        return node
    named = {
        column: name for name, (node_below, column) in origins.items() if node_below is not None
    }
    bounds = windows.bounds
    # Both: of cumulating windows many have one start, and one of a day ends with one of an hour.
    if bounds.start not in named or bounds.end not in named:
        return node
    return replace(node, window=named[bounds.end], zone=assigner.zone)


def _origin(node: Node, name: str) -> tuple[Windows | None, str]:
    """The windows that a column comes from, and its name there."""
    while isinstance(node, Calc):
        column = column_name(dict(node.select)[name])
        if column is None:
            return None, name
        node, name = node.input, column
    return (node if isinstance(node, Windows) else None), name
