"""What Spark makes of several types: promotion, decimal arithmetic, the one type that all fit into."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.spec.dtypes import type_name
from aggloom.errors import TypeMismatchError, UnsupportedExpressionError, UntoldTypeError

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS: Final = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
_FLOATS: Final = (pa.float32(), pa.float64())


def common(types: list[pa.DataType], node: exp.Expression) -> pa.DataType:
    """The one type that all of these become where SQL wants a single type; nulls fit anywhere."""
    known = [dtype for dtype in types if not pa.types.is_null(dtype)]
    if not known:
        return pa.null()
    widest = known[0]
    for dtype in known[1:]:
        widest = _wider(widest, dtype, node)
    return widest


def is_number(dtype: pa.DataType) -> bool:
    """An integer, a float or a decimal."""
    return dtype in _DIGITS or dtype in _FLOATS or pa.types.is_decimal(dtype)


_CAST = "its type cannot be told; write CAST(... AS type) around it."


def unsupported(node: exp.Expression, fix: str) -> UnsupportedExpressionError:
    """The error that names the expression at fault."""
    return UnsupportedExpressionError(f"expression {node.sql('spark')}: {fix}")


def untold(node: exp.Expression, fix: str = _CAST) -> UntoldTypeError:
    """The error of an expression whose type only Spark's analyser may know."""
    return UntoldTypeError(f"expression {node.sql('spark')}: {fix}")


def arithmetic_type(node: exp.Expression, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of + - * / % over two numbers; node tells the digits of literals."""
    if not (pa.types.is_decimal(left) or pa.types.is_decimal(right)):
        if isinstance(node, exp.Div):
            return pa.float64()
        return _wider(left, right, node)
    if left in _FLOATS or right in _FLOATS:
        return pa.float64()
    p1, s1 = _decimal_shape(left, node.left)
    p2, s2 = _decimal_shape(right, node.right)
    if isinstance(node, exp.Mul):
        return _adjusted(p1 + p2 + 1, s1 + s2)
    if isinstance(node, exp.Div):
        scale = max(6, s1 + p2 + 1)
        return _adjusted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if isinstance(node, exp.Mod):
        return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def rounded(node: exp.Round, own: pa.DataType) -> pa.DataType | None:
    """ROUND(x [, digits]): a decimal keeps a digit for the carry, and the digits that are asked for."""
    digits = node.args.get("decimals")
    if not pa.types.is_decimal(own):
        return own if is_number(own) else None
    if digits is not None and not (isinstance(digits, exp.Literal) and digits.this.isdigit()):
        return None
    scale = min(own.scale, int(digits.this) if digits is not None else 0)
    return pa.decimal128(min(38, own.precision - own.scale + 1 + scale), scale)


def _decimal_shape(dtype: pa.DataType, node: exp.Expression) -> tuple[int, int]:
    if pa.types.is_decimal(dtype):
        return dtype.precision, dtype.scale
    if isinstance(node, exp.Literal):
        return len(node.this.lstrip("0")) or 1, 0
    return _DIGITS[dtype], 0


def _adjusted(precision: int, scale: int) -> pa.DataType:
    """Spark's cut to 38 digits, which gives up fraction digits down to six before whole ones."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return pa.decimal128(precision, scale)


def _wider(left: pa.DataType, right: pa.DataType, node: exp.Expression) -> pa.DataType:
    if left == right:
        return left
    pair = {left, right}
    if left in _DIGITS and right in _DIGITS:
        return max(left, right, key=_DIGITS.__getitem__)
    if is_number(left) and is_number(right):
        if pair & set(_FLOATS):
            return pa.float64()
        (p1, s1), (p2, s2) = _decimal_shape(left, node), _decimal_shape(right, node)
        scale = max(s1, s2)
        return pa.decimal128(min(38, max(p1 - s1, p2 - s2) + scale), scale)
    if pa.date32() in pair and any(pa.types.is_timestamp(dtype) for dtype in pair):
        return left if right == pa.date32() else right
    raise TypeMismatchError(
        f"expression {node.sql('spark')}: {type_name(left)} and {type_name(right)} have no common "
        f"type; write CAST(... AS type) around one of them."
    )
