"""The parts of which entries of the table are written: rules that are one text, and arguments of a kind."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.casts import wall_clock
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call, quoted, type_text
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.spark_text import spark_text
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK

_PARTS = frozenset({"this", "expression", "expressions"})
CLOCK = "clock"
"""The kind of an argument that is a date or a timestamp, read as the wall clock shows it."""

Kind: TypeAlias = pa.DataType | str | None


def entry(
    nodes: type[exp.Expression] | str | tuple[type[exp.Expression] | str, ...],
    samples: str | tuple[str, ...],
    lower: Rule,
    *parts: str,
) -> LoweringEntry:
    """An entry; `parts`: names of what a node of it may carry besides the usual."""
    return LoweringEntry(
        nodes if isinstance(nodes, tuple) else (nodes,),
        samples if isinstance(samples, tuple) else (samples,),
        lower,
        _PARTS | set(parts),
    )


def kernel(text: str, result: Kind, *kinds: Kind, raises: bool = False) -> Rule:
    """The rule of a function that is one text: `{0}`, `{1}` its arguments as types, `{sql}` what an error names.

    A kind None takes an argument as it is; a result None is the first argument's type.
    """

    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        operands = arguments(node)
        if len(operands) != len(kinds):
            raise unsupported_error(node, NEEDS_SPARK)
        values = [_as_kind(low, each, kind) for each, kind in zip(operands, kinds, strict=True)]
        dtype = values[0].type if result is None else result
        # The text of the call is there for kernels that may fail; others leave the place out.
        sql = quoted(spark_text(node))
        return call(text, dtype, *values, sql=sql, raises=raises)

    return rule


def by_row(
    function: str,
    result: Kind,
    *kinds: Kind,
    least: int | None = None,
    raises: bool = False,
    nulls: bool = False,
) -> Rule:
    """The rule of a Python function of `aggloom.runtime.scalar`, called for each row without a NULL in it.

    least: how few arguments there may be; all by default. raises: it raises ValueError for some values. nulls: it is
    called for NULLs too. `result` and `kinds` as those of `kernel`.
    """

    def rule(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
        operands = arguments(node)
        if not (len(kinds) if least is None else least) <= len(operands) <= len(kinds):
            raise unsupported_error(node, NEEDS_SPARK)
        pairs = zip(operands, kinds[: len(operands)], strict=True)
        values = [_as_kind(low, each, kind) for each, kind in pairs]
        dtype = values[0].type if result is None else result
        assert isinstance(dtype, pa.DataType)
        return call_by_row(function, dtype, values, node, raises=raises, nulls=nulls)

    return rule


def call_by_row(
    function: str,
    dtype: pa.DataType,
    values: list[LoweredExpression],
    node: exp.Expression,
    *,
    raises: bool = False,
    nulls: bool = False,
) -> LoweredExpression:
    """The call of a Python function of `aggloom.runtime.scalar` for each row; see `by_row`."""
    places = "".join(f", {{{place}}}" for place in range(len(values)))
    word = "by_row_with_nulls" if nulls else "by_row"
    named = ", sql={sql}" if raises else ""
    text = f"scalar.{word}(scalar.{function}, {type_text(dtype)}{places}{named})"
    return call(text, dtype, *values, sql=quoted(spark_text(node)), raises=raises)


def arguments(node: exp.Expression) -> list[exp.Expression]:
    """Return the arguments of a function, in the order of the syntax tree."""
    # A Var is a word, such as the unit of a time, and no value.
    return [each for each in node.iter_expressions() if not isinstance(each, exp.Var)]


def whole_number(node: exp.Expression | None, whole: exp.Expression) -> int:
    """An argument that is an integer literal; raises UnsupportedExpressionError for anything else."""
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdigit():
        raise unsupported_error(whole, NEEDS_SPARK)
    # More than 18 digits may not fit into 64 bits.
    if len(number.this) > 18:
        raise unsupported_error(whole, NEEDS_SPARK)
    return -int(number.this) if isinstance(node, exp.Neg) else int(number.this)


def literal_text(node: exp.Expression | None, whole: exp.Expression) -> str:
    """An argument that is a text literal; raises UnsupportedExpressionError for anything else."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise unsupported_error(whole, NEEDS_SPARK)
    return str(node.this)


def clock(low: ExpressionLowering, node: exp.Expression) -> LoweredExpression:
    """A date, or a timestamp as the wall clock shows it."""
    value = low.lower(node)
    # Spark reads the text as a date or as an instant, by the function.
    if value.type == pa.string():
        raise unsupported_error(node, NEEDS_SPARK)
    if value.type in (INSTANT, WALL_CLOCK):
        return wall_clock(low, value)
    return low.cast(value, pa.date32(), node)


def _as_kind(low: ExpressionLowering, node: exp.Expression, kind: Kind) -> LoweredExpression:
    if kind == CLOCK:
        return clock(low, node)
    return low.lower(node) if kind is None else low.as_type(node, kind)
