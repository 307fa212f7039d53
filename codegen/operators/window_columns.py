"""The columns of a node that tell the event-time window of a row, traced through projections."""

from __future__ import annotations

from typing import NamedTuple

from aggloom.codegen.operators.base import Node
from aggloom.codegen.operators.calc import Calc
from aggloom.codegen.operators.window import WindowAggregate, WindowTable
from aggloom.codegen.scalar.expressions import column_name


class WindowColumns(NamedTuple):
    """The names of the columns in which a window starts and ends."""

    start: str
    end: str


def window_columns(node: Node) -> WindowColumns | None:
    """The columns of the windows of a node's rows; None: they lie in none, or not in event time, or do not tell."""
    if isinstance(node, WindowTable):
        fixed = node.assigner.event_time
        return WindowColumns(node.bounds.start, node.bounds.end) if fixed else None
    if isinstance(node, WindowAggregate):
        fixed = node.windowing.assigner.event_time and not node.updates
        return WindowColumns(node.bounds.start, node.bounds.end) if fixed else None
    below = window_columns(node.inputs[0]) if isinstance(node, Calc) else None
    if below is None or not isinstance(node, Calc):
        return None
    names = {column_name(sql): name for name, sql in reversed(node.select)}
    if below.start not in names or below.end not in names:
        return None
    return WindowColumns(names[below.start], names[below.end])
