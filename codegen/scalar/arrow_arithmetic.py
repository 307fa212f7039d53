"""Arithmetic and casts on Arrow arrays as Spark does them: rounded half up, never wrapped."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from aggloom.codegen.scalar.result_types import is_number, unsupported
from aggloom.codegen.spec.dtypes import type_name
from aggloom.errors import ArithmeticOverflowError

_NEEDS_SPARK: Final = "is outside what runs without Spark; give the harness a Spark session."
_EXACT: Final = decimal.Context(prec=120)
_OPERATORS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    exp.Add: _EXACT.add,
    exp.Sub: _EXACT.subtract,
    exp.Mul: _EXACT.multiply,
    exp.Div: _EXACT.divide,
    exp.Mod: _EXACT.remainder,
    exp.IntDiv: _EXACT.divide_int,
}
_KERNELS: Final[dict[type, str]] = {
    exp.Add: "add_checked",
    exp.Sub: "subtract_checked",
    exp.Mul: "multiply_checked",
}


def arithmetic(node: exp.Binary, left: pa.Array, right: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The result of one operator, as `dtype`; overflow and division by zero are errors."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), dtype)
    if not (is_number(left.type) and is_number(right.type)):
        raise unsupported(node, _NEEDS_SPARK)
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        _refuse_zero(node, left, right)
    if pa.types.is_decimal(dtype) or (
        isinstance(node, exp.IntDiv) and (_is_decimal(left) or _is_decimal(right))
    ):
        return _by_decimal(node, left, right, dtype)
    if isinstance(node, exp.IntDiv):
        return pc.divide_checked(cast(left, pa.int64(), node), cast(right, pa.int64(), node))
    left, right = cast(left, dtype, node), cast(right, dtype, node)
    if isinstance(node, exp.Div):
        return pc.divide(left, right)
    if isinstance(node, exp.Mod):
        return _remainder(left, right, dtype)
    return pc.call_function(_KERNELS[type(node)], [left, right])


def negate(value: pa.Array) -> pa.Array:
    """The value with its sign turned."""
    return pc.negate(value) if _is_decimal(value) else pc.negate_checked(value)


def cast(value: pa.Array, dtype: pa.DataType, node: exp.Expression) -> pa.Array:
    """A cast as in ANSI mode; pairs that Arrow spells differently are refused."""
    source = value.type
    if source == dtype:
        return value
    if pa.types.is_null(source):
        return pa.nulls(len(value), dtype)
    if is_number(source) and is_number(dtype):
        return _number(value, dtype, node)
    if source == pa.bool_() and is_number(dtype):
        return _number(value.cast(pa.int8()), dtype, node)
    if dtype == pa.bool_() and is_number(source):
        return pc.not_equal(value, pa.scalar(0).cast(source))
    if source == pa.string():
        return _from_text(value, dtype, node)
    if dtype == pa.string() and (pa.types.is_integer(source) or source in _PLAIN_TEXT):
        return value.cast(pa.string())
    if dtype == pa.string() and pa.types.is_decimal(source):
        texts = [None if v is None else f"{v:f}" for v in value.to_pylist()]
        return pa.array(texts, pa.string())
    if (source, dtype) in _EXACT_PAIRS:
        return value.cast(dtype)
    raise unsupported(
        node, f"casts {type_name(source)} to {type_name(dtype)}, which {_NEEDS_SPARK}"
    )


_PLAIN_TEXT: Final = (pa.bool_(), pa.date32())
_EXACT_PAIRS: Final = (
    (pa.date32(), pa.timestamp("us")),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
)


def _number(value: pa.Array, dtype: pa.DataType, node: exp.Expression) -> pa.Array:
    if pa.types.is_decimal(dtype):
        numbers = [None if v is None else decimal.Decimal(str(v)) for v in value.to_pylist()]
        return _decimals(numbers, dtype, node)
    if pa.types.is_floating(dtype) and _is_decimal(value):
        # Arrow scales in floating point, which is off by a last bit.
        return pa.array([None if v is None else float(v) for v in value.to_pylist()], dtype)
    if pa.types.is_integer(dtype) and not pa.types.is_integer(value.type):
        if pa.types.is_floating(value.type):
            value = pc.trunc(value)
        else:
            value = pc.round(value, 0, round_mode="towards_zero")
            return pa.array([None if v is None else int(v) for v in value.to_pylist()], dtype)
    return value.cast(dtype, safe=not pa.types.is_floating(dtype))


def _from_text(value: pa.Array, dtype: pa.DataType, node: exp.Expression) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(value)
    if dtype == pa.binary():
        return value.cast(dtype)
    if pa.types.is_integer(dtype) or dtype == pa.date32():
        return trimmed.cast(dtype)
    if pa.types.is_floating(dtype):
        return trimmed.cast(dtype)
    if dtype == pa.timestamp("us"):
        return trimmed.cast(dtype)
    if pa.types.is_decimal(dtype):
        try:
            numbers = [None if v is None else decimal.Decimal(v) for v in trimmed.to_pylist()]
        except decimal.InvalidOperation:
            message = f"expression {node.sql('spark')}: a text is not a number; filter such rows."
            raise ArithmeticOverflowError(message) from None
        return _decimals(numbers, dtype, node)
    raise unsupported(node, f"casts STRING to {type_name(dtype)}, which {_NEEDS_SPARK}")


def _decimals(numbers: list[Any], dtype: pa.DataType, node: exp.Expression) -> pa.Array:
    """Decimals rounded half up to the scale; one that needs more digits is an error."""
    quantum = decimal.Decimal(1).scaleb(-dtype.scale)
    limit = decimal.Decimal(10) ** (dtype.precision - dtype.scale)
    rounded: list[decimal.Decimal | None] = []
    for number in numbers:
        if number is None:
            rounded.append(None)
            continue
        fits = number.is_finite() and abs(number) < limit
        exact = number.quantize(quantum, decimal.ROUND_HALF_UP, _EXACT) if fits else limit
        if abs(exact) >= limit:
            raise ArithmeticOverflowError(
                f"expression {node.sql('spark')}: {number} does not fit {type_name(dtype)}; "
                f"cast to a wider type."
            )
        rounded.append(exact)
    return pa.array(rounded, dtype)


def _by_decimal(node: exp.Binary, left: pa.Array, right: pa.Array, dtype: pa.DataType) -> pa.Array:
    operator = _OPERATORS[type(node)]
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    numbers = [
        None if a is None or b is None else operator(decimal.Decimal(a), decimal.Decimal(b))
        for a, b in pairs
    ]
    if pa.types.is_integer(dtype):
        return pa.array([None if n is None else int(n) for n in numbers], dtype)
    return _decimals(numbers, dtype, node)


def _remainder(left: pa.Array, right: pa.Array, dtype: pa.DataType) -> pa.Array:
    nulls = pc.or_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
    a = left.fill_null(0).to_numpy(zero_copy_only=False)
    b = right.fill_null(1).to_numpy(zero_copy_only=False)
    return pa.array(np.fmod(a, np.where(nulls, 1, b)), dtype, mask=nulls.astype(bool))


def _refuse_zero(node: exp.Binary, left: pa.Array, right: pa.Array) -> None:
    zero = pc.and_(pc.equal(right, pa.scalar(0).cast(right.type)), pc.is_valid(left))
    if pc.any(zero).as_py():
        raise ArithmeticOverflowError(
            f"expression {node.sql('spark')}: division by zero; guard it with NULLIF(..., 0)."
        )


def _is_decimal(value: pa.Array) -> bool:
    return bool(pa.types.is_decimal(value.type))
