"""The digits of seconds that times have when they reach a table, which cuts them to those that it declares."""

from __future__ import annotations

from aggloom.codegen.operators import Calc, Node, Scan
from aggloom.codegen.scalar.expressions import column_name
from aggloom.codegen.spec.dtypes import DIGITS

# Windows begin and end at whole milliseconds.
_OF_BOUNDS = 3
"""Number of digits of a window's start, end and time."""


def digits_of_column(node: Node, name: str) -> int:
    """Return how many digits after the second the values of a column of times have at most; six where it is unknown."""
    if isinstance(node, Scan):
        return dict(node.digits).get(name, DIGITS)
    if isinstance(node, Calc):
        # An expression may add digits, so that only a column as it is keeps its number.
        inner = column_name(dict(node.select).get(name, ""))
        return DIGITS if inner is None else digits_of_column(node.input, inner)
    bounds = getattr(node, "bounds", None)
    if bounds is not None and name in bounds.names:
        return _OF_BOUNDS
    if len(node.inputs) != 1 or name not in node.inputs[0].schema.names:
        return DIGITS
    (below,) = node.inputs
    # A time under its own name is passed on: a key, or a row's.
    same = node.schema.field(name).type == below.schema.field(name).type
    return digits_of_column(below, name) if same and name in _passed_on(node) else DIGITS


def _passed_on(node: Node) -> tuple[str, ...]:
    """The columns of a node that are those of its rows: of aggregates the keys."""
    spec = getattr(node, "spec", None)
    # The value of a call may be any time, also under the name of a column.
    keys: tuple[str, ...] = tuple(node.schema.names) if spec is None else tuple(spec.group_by)
    return keys
