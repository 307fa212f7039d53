"""Processing time in a plan: PROCTIME() is a mark, until a rule makes a column of it."""

from __future__ import annotations

from aggloom.codegen.operators import Calc, Node, walk
from aggloom.codegen.scalar.expressions import parse_scalar
from aggloom.codegen.sql.shape import is_clock


def reads_clock(node: Calc) -> bool:
    """Tell whether a Calc computes with PROCTIME()."""
    texts = (*(sql for _, sql in node.select), node.where or "TRUE")
    return any(is_clock(part) for sql in texts for part in parse_scalar(sql).walk())


def clock_value(root: Node) -> str | None:
    """A column whose value would be PROCTIME(), or None."""
    for node in walk(root):
        if not isinstance(node, Calc):
            continue
        for name, sql in (*node.select, ("WHERE", node.where or "TRUE")):
            if any(map(is_clock, parse_scalar(sql).walk())):
                return name
    return None
