"""window_call: a window function as SQL writes it becomes a call over columns, checked."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators.over import INTEGERS, SHARES, SHIFTS, OverCall
from aggloom.codegen.scalar.operand_types import common
from aggloom.codegen.scalar.promotion import is_number
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.calls import constant, lower
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.frames import FrameClause
from aggloom.codegen.sql.numbering_range import MOST_ROWS
from aggloom.codegen.sql.over import OverFunction
from aggloom.codegen.sql.scope import Scope, bare, pretty
from aggloom.errors import SqlError

_ARGUMENTS = {
    **dict.fromkeys((*INTEGERS, *SHARES), (0, 0)),
    "NTILE": (1, 1),
    "NTH_VALUE": (2, 2),
    **dict.fromkeys(SHIFTS, (1, 3)),
}
NAMES = tuple(_ARGUMENTS)
"""The window functions that are no aggregates."""
_KEEP_NULLS = ("FIRST_VALUE", "LAST_VALUE")


def window_call(
    scope: Scope, function: OverFunction, frame: FrameClause, ordered: bool
) -> OverCall:
    """The call of a function, whose expressions are computed columns of the scope from now on."""
    call, name = function.call, function.call.name.upper()
    if name not in _ARGUMENTS:
        resolved = scope.resolve(call)
        assert isinstance(resolved, CallNode)
        aggregate = lower(scope, resolved, function.name)
        if (
            aggregate.function in _KEEP_NULLS
            and aggregate.nulls is None
            and scope.dialect == "spark"
        ):
            # As a window function it has NULLs in Spark and in SQL; in Flink it passes them over, as everywhere.
            aggregate = replace(aggregate, nulls="respect")
        return OverCall(function.name, aggregate.function, frame, call=aggregate)
    items = list(call.expressions)
    least, most = _ARGUMENTS[name]
    if not least <= len(items) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise _error(call, f"takes {expected} arguments, and has {len(items)}")
    for key, words in (("distinct", "DISTINCT"), ("filter", "FILTER"), ("order", "ORDER BY")):
        if call.args.get(key):
            raise _error(call, f"takes no {words}; take it out")
    nulls = call.args.get("nulls")
    if nulls and name not in (*SHIFTS, "NTH_VALUE"):
        raise _error(call, f"takes no {nulls.upper()} NULLS; take it out")
    if not ordered and name not in ("NTILE", "NTH_VALUE"):
        raise _error(call, "needs an order; write OVER (PARTITION BY ... ORDER BY ...)")
    # By where the row stands, whatever the frame.
    frame = frame if name == "NTH_VALUE" else FrameClause(end=0)
    if name in (*INTEGERS, *SHARES):
        number = _whole(call, items[0], 1) if items else 0
        return OverCall(function.name, name, frame, number=number)
    value = scope.column(scope.resolve(items[0]))
    # RESPECT NULLS is what holds without a word.
    ignores = nulls == "ignore"
    if name == "NTH_VALUE":
        return OverCall(function.name, name, frame, (value,), _whole(call, items[1], 1), ignores)
    # LAG(x) is LAG(x, 1).
    offset = _whole(call, items[1], 0) if len(items) > 1 else 1
    columns: tuple[str, ...] = (value,)
    if len(items) > 2 and not isinstance(bare(items[2]), exp.Null):
        columns = (value, _default(scope, call, value, items[2]))
    return OverCall(function.name, name, frame, columns, offset, ignores)


def _default(scope: Scope, call: CallNode, value: str, node: exp.Expression) -> str:
    """The column that stands for a row that is not there, in the type of the value."""
    name = scope.column(scope.resolve(node))
    kinds = scope.columns_of([value, name])
    value_type, default_type = kinds.field(value).type, kinds.field(name).type
    if value_type == default_type:
        return name
    with scope.at(call):
        # The default has to fit the value's type; the other way the type would follow from the default.
        fits = common([value_type, default_type], exp.column(name)) == value_type
    number = _number(node) if is_number(value_type) else None
    if not fits and number is None:
        what = f"has a default of {type_name(default_type)} for a value of {type_name(value_type)}; cast one"
        raise _error(call, what)
    if number is not None and not _holds(value_type, number):
        what = f"has the default {number:f}, which {type_name(value_type)} does not hold; cast the value"
        raise _error(call, what)
    return scope.compute(
        exp.cast(scope.resolve(node), type_name(value_type), dialect="spark"), None
    )


def _number(node: exp.Expression) -> Decimal | None:
    """A number that is written out."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        number = _number(node.this)
        return None if number is None else -number
    return Decimal(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def _holds(dtype: pa.DataType, number: Decimal) -> bool:
    """Tell whether a type of numbers has this one, or its nearest for floats."""
    if pa.types.is_floating(dtype):
        return True
    try:
        pa.scalar(number if pa.types.is_decimal(dtype) else int(number), dtype)
    except (pa.ArrowException, OverflowError):
        return False
    # int() cuts a fraction off: only a whole number stays as it is.
    return pa.types.is_decimal(dtype) or number == int(number)


def _whole(call: CallNode, node: exp.Expression, least: int) -> int:
    number: Any = constant(node)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        what = f"needs a whole number from {least} on that is written out, not {pretty(bare(node))}"
        raise _error(call, what)
    # No partition has more rows, so that any greater number means the same.
    return min(number, MOST_ROWS)


def _error(call: CallNode, what: str) -> SqlError:
    return place_error(SqlError(f"{call.name.upper()} {what}."), call)
