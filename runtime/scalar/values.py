"""Values: arrays and scalars brought to one length, functions of whole arrays and of single rows, named errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggloom.errors import ArithmeticOverflowError, InvalidCastError

Value: TypeAlias = pa.Array | pa.Scalar
_OfDoubles: TypeAlias = Callable[..., NDArray[np.float64]]
_BLOCK: Final = 16384
"""Rows of doubles that are computed at once: the dozens of intermediate arrays then stay in the cache."""


def array(value: Value, length: int) -> pa.Array:
    """The value in so many rows."""
    if isinstance(value, pa.Scalar):
        # pa.repeat refuses to repeat a list no times.
        return pa.repeat(value, length) if length else pa.nulls(0, value.type)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def column(value: Value, rows: pa.RecordBatch) -> pa.Array:
    """The value for every row of a batch."""
    return array(value, rows.num_rows)


def predicate(value: Value, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return a mask of the rows of a batch for which a condition is true; unknown counts as false."""
    return pc.fill_null(column(value, rows), False)


def apply_to_arrays(function: Callable[..., pa.Array], *values: Value) -> Value:
    """Apply a function of arrays to values of any form; of scalars alone the result is a scalar."""
    lengths = [len(value) for value in values if not isinstance(value, pa.Scalar)]
    result = function(*(array(value, lengths[0] if lengths else 1) for value in values))
    return result if lengths else result[0]


def row_by_row(function: Callable[..., Any], dtype: pa.DataType, *values: Value) -> Value:
    """A function of Python values, applied to each row without a NULL."""

    def apply_by_row(*arrays: pa.Array) -> pa.Array:
        rows = zip(*(each.to_pylist() for each in arrays), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], dtype)

    return apply_to_arrays(apply_by_row, *values)


def of_doubles(function: _OfDoubles, *values: Value) -> Value:
    """A function of arrays of doubles, applied to the rows without a NULL."""

    def compute(*arrays: pa.Array) -> pa.Array:
        nulls = np.logical_or.reduce(
            [each.is_null().to_numpy(zero_copy_only=False) for each in arrays]
        )
        doubles = [each.fill_null(0.0).to_numpy(zero_copy_only=False) for each in arrays]
        result = np.empty(len(nulls))
        with np.errstate(all="ignore"):
            for start in range(0, len(nulls), _BLOCK):
                rows = slice(start, start + _BLOCK)
                result[rows] = function(*(each[rows] for each in doubles))
        return pa.array(result, mask=nulls)

    return apply_to_arrays(compute, *values)


def above(value: Value, bound: float) -> Value:
    """The doubles that are not at or below a bound, NULL for those; NaN is above all."""
    outside = pc.less_equal(value, pa.scalar(bound))
    return pc.if_else(outside, pa.scalar(None, pa.float64()), value)


def by_row(
    function: Callable[..., Any], dtype: pa.DataType, *values: Value, sql: str = ""
) -> Value:
    """A function applied to each row without a NULL; its ValueError becomes an error that names the row's values."""
    return row_by_row(_name_fields(function, sql), dtype, *values)


def by_row_with_nulls(
    function: Callable[..., Any], dtype: pa.DataType, *values: Value, sql: str = ""
) -> Value:
    """A function applied to each row, with None for NULL."""
    named = _name_fields(function, sql)

    def apply_by_row(*arrays: pa.Array) -> pa.Array:
        rows = zip(*(each.to_pylist() for each in arrays), strict=True)
        return pa.array([named(*row) for row in rows], dtype)

    return apply_to_arrays(apply_by_row, *values)


def _name_fields(function: Callable[..., Any], sql: str) -> Callable[..., Any]:
    """The function with its ValueError as the error of an expression."""

    def call(*row: Any) -> Any:
        try:
            return function(*row)
        except ValueError as error:
            raise failure(InvalidCastError, sql, row, f"{error}; filter such rows.") from None

    return call


def any_true(mask: Value) -> bool:
    """Tell whether a condition holds anywhere."""
    return pc.any(mask).as_py() is True


def where_valid(mask: Value, *values: Value) -> tuple[Any, ...]:
    """The values of the first row in which a condition holds."""

    def first(condition: pa.Array, *arrays: pa.Array) -> pa.Array:
        at = pc.index(condition, True).as_py()
        operands.extend(each[at].as_py() for each in arrays)
        return condition

    operands: list[Any] = []
    apply_to_arrays(first, mask, *values)
    return tuple(operands)


def run_checked(
    kernel: Callable[..., Value],
    values: tuple[Value, ...],
    sql: str | None,
    error: type[ArithmeticOverflowError] = ArithmeticOverflowError,
    what: str = "overflow: the result does not fit its type; cast to a wider type or filter such rows.",
) -> Value:
    """Return a kernel's result; its refusal becomes an error that names the values of the first row at fault.

    sql: the expression that the error names; None if such rows are to be NULL.
    """
    try:
        return kernel(*values)
    except pa.ArrowInvalid:
        if sql is None:
            return apply_to_arrays(lambda *v: _or_nulls(kernel, v, pa.ArrowInvalid), *values)
        failed = _first_failure(kernel, values)
    raise failure(error, sql, failed, what)


def try_rows(
    body: Callable[..., Value], names: Sequence[str], rows: pa.RecordBatch, *values: Value
) -> pa.Array:
    """A function of a batch of these values, with NULL for the rows that it refuses."""
    arrays = tuple(array(value, rows.num_rows) for value in values)

    def compute(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), names=list(names))
        return array(body(batch), batch.num_rows)

    try:
        return compute(*arrays)
    except ArithmeticOverflowError:
        return _or_nulls(compute, arrays, ArithmeticOverflowError)


def failure(
    error: type[ArithmeticOverflowError], sql: str, values: tuple[Any, ...], what: str
) -> ArithmeticOverflowError:
    """The error of a row: expression, values, cause and what to do."""
    operand_texts = ", ".join(
        repr(value) if isinstance(value, str) else str(value) for value in values
    )
    return error(f"expression {sql}: at {operand_texts}: {what}")


def _or_nulls(
    function: Callable[..., Value], arrays: tuple[pa.Array, ...], error: type[Exception]
) -> pa.Array:
    """A function of arrays, with NULL for the rows that it refuses, which are found by halving."""
    count = len(arrays[0])
    try:
        return array(function(*arrays), count)
    except error:
        if count == 1:
            nothing = function(*(pa.nulls(1, each.type) for each in arrays))
            return array(nothing, 1)
    halves = [
        _or_nulls(function, tuple(each.slice(at, size) for each in arrays), error)
        for at, size in ((0, count // 2), (count // 2, count - count // 2))
    ]
    return pa.concat_arrays(halves)


def _first_failure(kernel: Callable[..., Value], values: tuple[Value, ...]) -> tuple[Any, ...]:
    """The values of the first row that a kernel refuses, found by halving."""
    lengths = [len(value) for value in values if not isinstance(value, pa.Scalar)]
    arrays = [array(value, lengths[0] if lengths else 1) for value in values]
    low, high = 0, len(arrays[0])
    while high - low > 1:
        middle = (low + high) // 2
        try:
            kernel(*(each.slice(low, middle - low) for each in arrays))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return tuple(each[low].as_py() for each in arrays)
