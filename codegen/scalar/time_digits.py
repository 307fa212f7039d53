"""Times with fewer digits after the second, as TIMESTAMP(p) and TIME(p) keep them: what is beyond is cut off.

Spark's times have six digits. So a cut time is written as the time less an interval, of which Spark needs no other
type: `t - MAKE_DT_INTERVAL(0, 0, 0, EXTRACT(SECOND FROM t) % 0.001)`. Arrow has a function for the whole of it.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.interval_forms import is_interval
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call
from aggloom.codegen.scalar.lowering import ExpressionLowering
from aggloom.codegen.spec.declared_digits import step_of_digits
from aggloom.codegen.spec.dtypes import DIGITS

_INTERVAL: Final = "MAKE_DT_INTERVAL"


def cut_time(time: exp.Expression, digits: int) -> exp.Expression:
    """Return a timestamp with so many digits after its second, fewer than six."""
    # Values have six digits: nothing is beyond them.
    if digits >= DIGITS:
        return time
    second = exp.Extract(this=exp.var("SECOND"), expression=time.copy())
    rest = exp.Mod(this=second, expression=exp.Literal.number(f"{10 ** -digits:.{digits}f}"))
    zeros = [exp.Literal.number(0) for _ in range(3)]
    interval = exp.Anonymous(this=_INTERVAL, expressions=[*zeros, rest])
    return exp.paren(exp.Sub(this=time.copy(), expression=interval), copy=False)


def cut_column(name: str, dtype: pa.DataType, digits: int) -> str:
    """Return a column of times with so many digits after the second, as Spark SQL."""
    column = exp.column(name, quoted=True)
    # A TIME takes no interval away in Spark, but its own type cuts digits off.
    if pa.types.is_time(dtype):
        return f"CAST(CAST({column.sql('spark')} AS TIME({digits})) AS TIME({DIGITS}))"
    cut: str = cut_time(column, digits).sql("spark")
    return cut


def lower_cut(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression | None:
    """The value of a timestamp that `cut_time` has cut; None for anything else."""
    digits = _digits_of(node)
    if digits is None:
        return None
    value = low.lower(node.this)
    return floor_time(value, digits) if pa.types.is_timestamp(value.type) else None


def floor_time(value: LoweredExpression, digits: int) -> LoweredExpression:
    """A time with so many digits after its second."""
    if digits >= DIGITS:
        return value
    multiple, unit = step_of_digits(digits)
    text = f'pc.floor_temporal({{0}}, multiple={multiple}, unit="{unit}")'
    return call(text, value.type, value)


def digits_of_type(kind: exp.DataType) -> int | None:
    """The digits that TIME(p) keeps; None for another type, and without p."""
    name = kind.args.get("kind")
    match = re.fullmatch(r"TIME\((\d+)\)", name) if isinstance(name, str) else None
    return None if match is None else int(match[1])


def _digits_of(node: exp.Expression) -> int | None:
    """The digits that are left of a time by an expression in the form of `cut_time`."""
    if not isinstance(node, exp.Sub) or not is_interval(node.expression):
        return None
    rest = node.expression.expressions[-1:]
    step = rest[0].expression if rest and isinstance(rest[0], exp.Mod) else None
    if not isinstance(step, exp.Literal) or not re.fullmatch(r"1|0\.0*1", step.name):
        return None
    digits = len(step.name.partition(".")[2])
    # The whole form is compared: a user may have written something alike that is not a cut.
    same = exp.paren(node, copy=True) == cut_time(node.this, digits)
    return digits if same else None
