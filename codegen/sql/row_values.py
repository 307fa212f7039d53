"""Rows in a list of rows, `(a, b) IN ((1, 2), (3, 4))`, written out as comparisons of their fields.

In dialect `spark` a row is never NULL, and a NULL field equals a NULL field: the answer is TRUE or FALSE. In dialect
`flink`, as in the SQL standard, the comparison of a NULL field is unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.scope import pretty
from aggloom.errors import SqlError

_MOST = 100
"""The most rows of a list that is written out. The planner would read longer ones too slowly; Spark evaluates them."""


def compare_fields(tree: exp.Expression, dialect: str) -> None:
    """Write out the lists of rows of a tree, up to a hundred rows; raises SqlError for one with other fields."""
    equal_field = exp.EQ if dialect == "flink" else exp.NullSafeEQ
    for node in list(tree.find_all(exp.In)):
        rows = node.expressions
        if not isinstance(node.this, exp.Tuple) or not 0 < len(rows) <= _MOST:
            continue
        # The list of a PIVOT names columns; it is no condition.
        if isinstance(node.parent, exp.Pivot) or not all(isinstance(r, exp.Tuple) for r in rows):
            continue
        equal: exp.Expression = exp.paren(
            _halve([_equal(node.this, row, equal_field) for row in rows], exp.Or), copy=False
        )
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            equal = exp.Alias(this=equal, alias=exp.to_identifier(pretty(node), quoted=True))
        node.replace(equal)


def _equal(left: exp.Tuple, right: exp.Tuple, equal_field: type[exp.Binary]) -> exp.Expression:
    """The condition under which two rows are equal; equal_field: the comparison of two fields."""
    own, other = left.expressions, right.expressions
    if len(own) != len(other):
        message = (
            f"a row of {len(other)} in a list for rows of {len(own)}; write {len(own)} values."
        )
        raise place_error(SqlError(message), right)
    pairs = zip(own, other, strict=True)
    fields: list[exp.Expression] = [
        equal_field(this=exp.paren(a), expression=exp.paren(b)) for a, b in pairs
    ]
    return exp.paren(_halve(fields, exp.And), copy=False)


def _halve(
    conditions: list[exp.Expression], connect: Callable[..., exp.Expression]
) -> exp.Expression:
    """The conditions connected as a balanced tree, so that a long list does not nest deeply."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    left, right = (_halve(part, connect) for part in (conditions[:middle], conditions[middle:]))
    return connect(this=exp.paren(left, copy=False), expression=exp.paren(right, copy=False))
