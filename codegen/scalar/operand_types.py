"""Types of operations over expressions: those of promotion.py, with errors that name the expression."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.promotion import (
    FLOATS,
    INTEGERS,
    as_decimal,
    decimal_result,
    is_decimal,
    is_number,
    wider,
)
from aggloom.codegen.spec.dtypes import type_name
from aggloom.errors import TypeMismatchError, UnknownTypeError, UnsupportedExpressionError


def common(types: list[pa.DataType], node: exp.Expression) -> pa.DataType:
    """The one type that all of these become where SQL wants a single type; nulls fit anywhere."""
    widest = pa.null()
    for dtype in types:
        common_type = wider(widest, dtype, texts=False)
        if common_type is None:
            raise TypeMismatchError(
                f"expression {node.sql('spark')}: {type_name(widest)} and {type_name(dtype)} have no common "
                f"type; write CAST(... AS type) around one of them."
            )
        widest = common_type
    return widest


_CAST = "its type is known to Spark alone; make a Spark session first, or write CAST(... AS type) around it."


def unsupported_error(node: exp.Expression, fix: str) -> UnsupportedExpressionError:
    """The error that names the expression at fault."""
    return UnsupportedExpressionError(f"expression {node.sql('spark')}: {fix}")


def untold(node: exp.Expression, fix: str = _CAST) -> UnknownTypeError:
    """The error of an expression whose type only Spark's analyser may know."""
    return UnknownTypeError(f"expression {node.sql('spark')}: {fix}")


def arithmetic_type(node: exp.Expression, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of + - * / % over two numbers; node has the digits of literals."""
    if not (is_decimal(left) or is_decimal(right)):
        # Spark divides integers as DOUBLEs; DIV is another node.
        return pa.float64() if isinstance(node, exp.Div) else common([left, right], node)
    if left in FLOATS or right in FLOATS:
        return pa.float64()
    one, other = _decimal(left, node.left), _decimal(right, node.right)
    operator = {exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}.get(type(node), "+")
    return decimal_result(operator, one, other)


def number_type(dtype: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type a text counts as in arithmetic with a number.

    BIGINT beside integers, else DOUBLE; other types stay as they are.
    """
    if dtype != pa.string() or not is_number(other):
        return dtype
    return pa.int64() if other in INTEGERS else pa.float64()


def round_type(node: exp.Round, argument: pa.DataType) -> pa.DataType | None:
    """ROUND(x [, digits]): a decimal keeps a digit for the carry, and the digits that are asked for."""
    digits = node.args.get("decimals")
    if not is_decimal(argument):
        return argument if is_number(argument) else None
    number = digits.this if isinstance(digits, exp.Neg) else digits
    if number is None:
        return decimal_rounded(argument, 0)
    # The scale of the result follows from the number of digits, which has to be known before the rows.
    if not (isinstance(number, exp.Literal) and number.this.isdigit()):
        return None
    return decimal_rounded(argument, int(number.this) * (-1 if number is not digits else 1))


def decimal_rounded(argument: pa.DataType, digits: int) -> pa.DataType:
    """The type of a decimal that is rounded to so many digits after the point, or before it where they are negative."""
    # One more whole digit for the carry: 9.9 rounds to 10.
    whole = max(argument.precision - argument.scale + 1, 1 - digits)
    scale = max(0, min(argument.scale, digits))
    return pa.decimal128(min(38, whole + scale), scale)


def _decimal(dtype: pa.DataType, node: exp.Expression) -> pa.DataType:
    """A number's type as a decimal's; a whole literal has as many digits as are written."""
    if isinstance(node, exp.Literal) and not is_decimal(dtype):
        # 2 is DECIMAL(1, 0) beside a decimal, where an INT column would count ten digits.
        return pa.decimal128(len(node.this.lstrip("0")) or 1, 0)
    return as_decimal(dtype)
