"""FOR SYSTEM_TIME AS OF and ASOF JOIN in a FROM: which join they are.

This is the one place where that is decided, by the time that is named and by what the right is.
"""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from aggloom.codegen.operators import Node
from aggloom.codegen.sql.as_of import AsOf
from aggloom.codegen.sql.shape import refusal

Way = Literal["nearest", "versions", "now"]
"""ASOF JOIN; the right as it was at the left's row time; the right as it is when the left's row is seen."""


def way_of(as_of: AsOf, left: Node) -> Way:
    """Which rows of the right a join asks for."""
    if as_of.time is None:
        return "nearest"
    by_clock = as_of.by_clock or as_of.time.name in left.clock_columns
    return "now" if by_clock else "versions"


def as_of_join(
    sql: str, as_of: AsOf, left: Node, right: Node, conditions: list[exp.Expression]
) -> Node:
    """The join of two sides whose first columns are the pairs; conditions: what ON says besides them."""
    way = way_of(as_of, left)
    if way == "now":
        fix = "name a row time of the left, or join the table plainly"
        raise refusal(sql, as_of.place, "FOR SYSTEM_TIME AS OF processing time is", fix)
    if way == "versions":
        fix = "join on time bounds instead"
        raise refusal(sql, as_of.place, "FOR SYSTEM_TIME AS OF a row time is", fix)
    raise refusal(sql, as_of.place, "ASOF JOIN is", "join on time bounds instead")
