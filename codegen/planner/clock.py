"""Processing time in a plan: PROCTIME() is a mark that a window goes by the clock, and never a value of a row."""

from __future__ import annotations

from aggloom.codegen.operators import Calc, Node, walk
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.sql.shape import is_clock


def clock_value(root: Node) -> str | None:
    """A column whose value would be PROCTIME(), or None."""
    for node in walk(root):
        if not isinstance(node, Calc):
            continue
        for name, sql in (*node.select, ("WHERE", node.where or "TRUE")):
            if any(map(is_clock, parse_scalar(sql).walk())):
                return name
    return None
