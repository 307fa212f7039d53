"""The types that Spark makes of two in ANSI mode: the common one, and those of arithmetic on decimals."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa

from aggloom.codegen.spec.dtypes import INSTANT, VARIANT

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
FLOATS: Final = (pa.float32(), pa.float64())
# The digits of each by Spark, which gives BIGINT 20, though it has 19.
_DIGITS: Final = dict(zip(INTEGERS, (3, 5, 10, 20), strict=True))


def is_decimal(dtype: pa.DataType) -> bool:
    """DECIMAL of any size."""
    return bool(pa.types.is_decimal128(dtype))


def is_number(dtype: pa.DataType) -> bool:
    """An integer, a float or a decimal."""
    return dtype in INTEGERS or dtype in FLOATS or is_decimal(dtype)


def is_inexact(dtype: pa.DataType) -> bool:
    """Tell whether a type has numbers with a fraction: FLOAT, DOUBLE, DECIMAL."""
    return bool(pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def common_type(types: list[pa.DataType], texts: bool = True) -> pa.DataType | None:
    """The one type that values of all these become; None if there is none.

    texts: whether a text beside another type becomes that type, as in comparisons and branches.
    """
    # From NULL on, which every type is wider than. Without a common type the rest is passed over.
    return reduce(lambda widest, each: widest and wider(widest, each, texts), types, pa.null())


def as_decimal(dtype: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer type, or the decimal type itself."""
    return dtype if is_decimal(dtype) else pa.decimal128(_DIGITS[dtype], 0)


def decimal_result(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of an operation on two decimals: `+ - * / %`."""
    (p1, s1), (p2, s2) = (left.precision, left.scale), (right.precision, right.scale)
    if operator == "*":
        return _adjust_digits(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        # The formulas are those of Spark's DecimalPrecision, which follow SQL Server: six digits at least, so that 1 /
        # 3 is not 0.
        scale = max(6, s1 + p2 + 1)
        return _adjust_digits(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return _adjust_digits(min(p1 - s1, p2 - s2) + scale, scale)
    return _adjust_digits(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _adjust_digits(precision: int, scale: int) -> pa.DataType:
    """The cut to 38 digits, which gives up digits of the fraction, down to six, before whole ones."""
    # As Spark does by default (spark.sql.decimalOperations.allowPrecisionLoss).
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return pa.decimal128(precision, scale)


def wider(left: pa.DataType, right: pa.DataType, texts: bool) -> pa.DataType | None:
    """The common type of two; None if there is none."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _wider_number(left, right)
    if VARIANT in (left, right):
        return None
    if pa.types.is_nested(left) and pa.types.is_nested(right):
        return _wider_nested(left, right)
    for text, other in ((left, right), (right, left)):
        if texts and text == pa.string() and not pa.types.is_nested(other):
            # As ANSI mode of Spark: a text beside an INT becomes a BIGINT, so that '3000000000' beside 1 does not fail.
            if other in INTEGERS:
                return pa.int64()
            return pa.float64() if is_number(other) else other
        # A day is the midnight that begins it.
        if text == pa.date32() and pa.types.is_timestamp(other):
            return other
    # An instant beside a wall clock: the wall clock is read in the session's zone.
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return INSTANT
    return None


def _wider_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The array, map or row whose elements are of the common types; rows have fields of the same names."""
    if left.id != right.id or left.num_fields != right.num_fields:
        return None
    pairs = [(left.field(place), right.field(place)) for place in range(left.num_fields)]
    if pa.types.is_map(left):
        pairs = [(left.key_field, right.key_field), (left.item_field, right.item_field)]
    types = [wider(one.type, other.type, texts=False) for one, other in pairs]
    if None in types:
        return None
    if pa.types.is_list(left):
        return pa.list_(*types)
    if pa.types.is_map(left):
        return pa.map_(*types)
    # Spark compares names of fields without case, and keeps those of the first.
    if any(one.name.casefold() != other.name.casefold() for one, other in pairs):
        return None
    names = [one.name for one, _ in pairs]
    return pa.struct(list(zip(names, types, strict=True)))


def _wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    # INTEGERS is in the order of width.
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    # Two FLOATs were equal above and stay FLOAT. FLOAT beside an INT or a DECIMAL becomes DOUBLE, as FLOAT cannot hold
    # every INT.
    if left in FLOATS or right in FLOATS:
        return pa.float64()
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    # Past 38 digits Spark keeps the whole ones.
    return pa.decimal128(min(38, whole + scale), max(0, min(scale, 38 - whole)))


def lacks_type(dtype: pa.DataType) -> bool:
    """Tell whether an array, map or row has an element that is only NULL."""
    fields = [dtype.field(place) for place in range(dtype.num_fields)]
    return any(pa.types.is_null(field.type) or lacks_type(field.type) for field in fields)
