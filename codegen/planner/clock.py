"""Processing time in a plan: PROCTIME() is a mark that a window goes by the clock, and never a value of a row."""

from __future__ import annotations

from aggloom.codegen.planner.nodes import (
    Aggregate,
    Calc,
    Node,
    Union,
    WindowAggregate,
    WindowTable,
    column_name,
    walk,
)
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.sql.shape import is_clock


def clock_columns(node: Node) -> set[str]:
    """The columns that stand for the time at which a row is seen."""
    below = [clock_columns(each) for each in node.inputs]
    if isinstance(node, Calc):
        found = {name for name, sql in node.select if column_name(sql) in below[0]}
        return found | {name for name, sql in node.select if is_clock(parse_scalar(sql))}
    if isinstance(node, Union):
        places = [
            {part.schema.names.index(name) for name in names}
            for part, names in zip(node.parts, below, strict=True)
        ]
        return {node.schema.names[place] for place in set.intersection(*places)}
    if isinstance(node, WindowTable):
        by_clock = set() if node.assigner.event_time else {node.bounds.time}
        return below[0] | by_clock
    if isinstance(node, WindowAggregate):
        return set() if node.windowing.assigner.event_time else {node.bounds.time}
    if isinstance(node, Aggregate):
        return below[0] & set(node.spec.group_by)
    return set()


def clock_value(root: Node) -> str | None:
    """A column whose value would be PROCTIME(), or None."""
    for node in walk(root):
        if not isinstance(node, Calc):
            continue
        for name, sql in (*node.select, ("WHERE", node.where or "TRUE")):
            if any(map(is_clock, parse_scalar(sql).walk())):
                return name
    return None
