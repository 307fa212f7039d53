"""Types of an existing table of files compared with those of the result: which values fit, and which are cast.

Libraries of such tables write rows in the table's own types. A wider type has every value exactly, and needs no
option. Otherwise `cast` decides: with it values are rounded and cut as in a database, and a value out of the range of
the table's type is an error before anything of its batch is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.errors import SinkError
from aggloom.runtime.lakes.types import stored_type

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""The digits of whole numbers, by their bits."""
_FLOATS = {32: (16, 6), 64: (32, 15)}
"""The bits of whole numbers, and the digits of decimals, that a float of so many bits represents exactly."""
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
_AWAY_FROM_ZERO: Any = "half_towards_infinity"
_WIDE = 76
"""The digits of Arrow's widest decimal, in which no value of a narrower one overflows."""
_LENGTH = re.compile(rb"(char|varchar)\((\d+)\)")
_LENGTH_KEY = b"__CHAR_VARCHAR_TYPE_STRING"
"""The key of the metadata in which Spark records CHAR(n) and VARCHAR(n) of a column that a Delta table has as text."""


class Fit(IntEnum):
    """The way in which values of one type become those of another.

    EXACT: all of them, unchanged. CHECKED: those in its range, unchanged. ROUNDED: rounded, cut or padded, so that two
    may become one. UNRELATED: not at all.
    """

    EXACT = 0
    CHECKED = 1
    ROUNDED = 2
    UNRELATED = 3


def fit_columns(
    result: pa.Schema,
    table: pa.Schema,
    key: Sequence[str],
    cast: bool,
    where: str,
    add_column: Callable[[pa.Field], str],
) -> pa.Schema:
    """The columns of the result in the types of a table.

    result: in the types of `stored_type`. key: the columns by which rows are written. cast: let values be cast.
    add_column: returns the statement that adds a column to the table.
    Raises SinkError where the table lacks a column, has it in a type that does not fit, or requires another one.
    """
    for column in table:
        # Checked here, since the table's own check would fail in the first batch with rows.
        if not column.nullable and column.name not in result.names:
            raise SinkError(
                f"{where}: column {column.name!r} of the table is NOT NULL, and the result does not have it. Add it to "
                "the query, or drop NOT NULL"
            )
    fields, differing, options = [], [], set()
    for column in result:
        if column.name not in table.names:
            raise SinkError(f"{where}: there is no column {column.name!r}. {add_column(column)}")
        there = table.field(column.name)
        dtype = stored_type(there.type, there.name, where)
        target = pa.field(there.name, dtype, there.nullable, _length(there))
        fields.append(target)
        fit = fit_of(column, target)
        is_key = column.name in key
        # Two keys that are rounded to one would be one row in the table, and the deletion of either would delete it.
        most = Fit.EXACT if not cast else Fit.CHECKED if is_key else Fit.ROUNDED
        if fit <= most:
            continue
        differing.append(
            f"column {column.name!r} is {_type_name(target)} in the table, and {_type_name(column)} in the result"
        )
        if fit == Fit.ROUNDED and is_key:
            options.add(f"{column.name!r} is of the key, in which two values must not become one")
        elif fit != Fit.UNRELATED:
            options.add("cast=true rounds and cuts values to the table's types")
    if differing:
        more = "".join(f"; {option}" for option in sorted(options))
        raise SinkError(
            f"{where}: {'; '.join(differing)}. CAST it in the query, or write into another table{more}"
        )
    return pa.schema(fields)


def fit_of(source: pa.Field, target: pa.Field) -> Fit:
    """The way in which values of a column become those of another."""
    if (target.metadata or {}).get(_LENGTH_KEY, b"").startswith(b"char"):
        return Fit.ROUNDED if source.type == target.type else Fit.UNRELATED
    return _fit(source.type, target.type)


def _fit(source: pa.DataType, target: pa.DataType) -> Fit:
    if source == target:
        return Fit.EXACT
    if pt.is_nested(source) or pt.is_nested(target):
        return _fit_nested(source, target)
    if _is_number(source) and _is_number(target):
        return _fit_numbers(source, target)
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return Fit.CHECKED
    if pt.is_date(source) and pt.is_timestamp(target):
        return Fit.CHECKED
    if pt.is_timestamp(source) and pt.is_date(target):
        return Fit.ROUNDED
    return Fit.UNRELATED


def _fit_nested(source: pa.DataType, target: pa.DataType) -> Fit:
    """Return EXACT for nested types with parts that are all EXACT, else UNRELATED: values inside are not rounded."""
    if source.id != target.id or source.num_fields != target.num_fields:
        return Fit.UNRELATED
    pairs = [(source.field(at), target.field(at)) for at in range(source.num_fields)]
    names_match = not pt.is_struct(source) or all(one.name == other.name for one, other in pairs)
    is_exact = all(_fit(one.type, other.type) == Fit.EXACT for one, other in pairs)
    return Fit.EXACT if names_match and is_exact else Fit.UNRELATED


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_decimal(dtype))


def _fit_numbers(source: pa.DataType, target: pa.DataType) -> Fit:
    if pt.is_floating(target):
        bits, digits = _FLOATS[target.bit_width]
        if pt.is_floating(source):
            is_exact = source.bit_width <= target.bit_width
        elif pt.is_integer(source):
            is_exact = source.bit_width <= bits
        else:
            is_exact = source.precision <= digits
        return Fit.EXACT if is_exact else Fit.ROUNDED
    if pt.is_floating(source):
        return Fit.ROUNDED
    whole, scale = _digits(source)
    if pt.is_integer(target):
        fits = source.bit_width <= target.bit_width if pt.is_integer(source) else False
        # Less, not equal: an integer type has only some of the values with its largest number of digits.
        fits = fits or (pt.is_decimal(source) and whole < _DIGITS[target.bit_width])
        target_scale = 0
    else:
        target_whole, target_scale = _digits(target)
        fits = whole <= target_whole
    if scale > target_scale:
        return Fit.ROUNDED
    return Fit.EXACT if fits else Fit.CHECKED


def _digits(dtype: pa.DataType) -> tuple[int, int]:
    """The digits of a number type before and after the point."""
    if pt.is_integer(dtype):
        return _DIGITS[dtype.bit_width], 0
    return dtype.precision - dtype.scale, dtype.scale


def _length(column: pa.Field) -> dict[bytes, bytes] | None:
    """The metadata of a column with the length of its texts; None without one."""
    declared = (column.metadata or {}).get(_LENGTH_KEY, b"")
    return {_LENGTH_KEY: declared} if _LENGTH.fullmatch(declared) else None


def _type_name(column: pa.Field) -> str:
    declared = (column.metadata or {}).get(_LENGTH_KEY)
    return declared.decode().upper() if declared else str(column.type)


def cast_rows(rows: pa.Table, columns: pa.Schema, where: str) -> pa.Table:
    """The rows in a table's types, those of `fit_columns`.

    Numbers are rounded half away from zero, instants without a time zone are in UTC.
    Raises SinkError for a value out of the range of the table's type.
    """
    cast_columns = [
        _cast_column(rows.column(name).combine_chunks(), columns.field(name), where)
        for name in rows.column_names
    ]
    if not cast_columns:
        return rows
    return pa.table(cast_columns, names=rows.column_names)


def check_nulls(rows: pa.Table, columns: pa.Schema, where: str) -> None:
    """Raise SinkError for a NULL in a column that is NOT NULL in the table."""
    for name in rows.column_names:
        if not columns.field(name).nullable and rows.column(name).null_count:
            raise SinkError(
                f"{where}: column {name!r} has NULL, and is NOT NULL in the table. Nothing of the batch was written. "
                f"Leave such rows out in the query, write COALESCE({name}, ..), or drop NOT NULL"
            )


def _cast_column(values: pa.Array, target: pa.Field, where: str) -> pa.Array:
    if values.type != target.type:
        try:
            values = _cast(values, target.type)
        except (pa.ArrowInvalid, _Unfit):
            worst = _first_unfit(values, target.type)
            raise SinkError(
                f"{where}: column {target.name!r} has {worst}, which {target.type} of the table does not hold. "
                "Nothing of the batch was written. Leave such rows out in the query, or give the column a wider type"
            ) from None
    declared = _LENGTH.fullmatch((target.metadata or {}).get(_LENGTH_KEY, b""))
    return values if declared is None else _fit_texts(values, target, declared, where)


def _fit_texts(
    values: pa.Array, target: pa.Field, declared: re.Match[bytes], where: str
) -> pa.Array:
    """Texts of a CHAR(n), padded, or of a VARCHAR(n); raises SinkError for one that is longer."""
    length = int(declared[2])
    too_long = values.filter(pc.greater(pc.utf8_length(values), length))
    if len(too_long):
        raise SinkError(
            f"{where}: column {target.name!r} has {too_long[0].as_py()!r}, which {declared[0].decode().upper()} of "
            "the table does not hold. Nothing of the batch was written. CAST it in the query, which cuts texts"
        )
    return pc.utf8_rpad(values, length) if declared[1] == b"char" else values


class _Unfit(Exception):
    """Raised for a value out of the range of a type."""


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in another type; raises ArrowInvalid or _Unfit for one out of its range."""
    source = values.type
    if pt.is_floating(source) and pt.is_decimal(target):
        return _decimals(values, target)
    if pt.is_floating(target):
        # Unsafe, since Arrow's safe cast refuses what it would round; only a new infinity is out of range.
        result = values.cast(target, safe=False)
        if (
            pt.is_floating(source)
            and pc.any(pc.and_(pc.is_inf(result), pc.invert(pc.is_inf(values)))).as_py()
        ):
            raise _Unfit
        return result
    if pt.is_floating(source) and pt.is_integer(target):
        return pc.round(values, 0, _AWAY_FROM_ZERO).cast(target)
    if pt.is_decimal(target):
        if pt.is_integer(source):
            # By way of a wider decimal: Arrow refuses to cast whole numbers to a decimal that is too narrow for some
            # value of their type, even where these values fit.
            return values.cast(pa.decimal256(_WIDE, target.scale)).cast(target)
        return _round_decimals(values, target.scale).cast(target)
    if pt.is_decimal(source):
        return _round_decimals(values, 0).cast(target)
    return values.cast(target)


def _round_decimals(values: pa.Array, scale: int) -> pa.Array:
    """Decimals of 76 digits, rounded to a scale; Arrow casts them to a narrower type."""
    wide = values.cast(pa.decimal256(_WIDE, values.type.scale))
    return wide if values.type.scale <= scale else pc.round(wide, scale, _AWAY_FROM_ZERO)


def _decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals of floats, rounded from the shortest text of each: 0.285 becomes 0.29, as if it were exact."""
    last = Decimal(1).scaleb(-target.scale)
    decimals: list[Decimal | None] = []
    for text in values.cast(pa.string()).to_pylist():
        value = None if text is None else Decimal(text)
        if value is not None and not (value.is_finite() and value.adjusted() < _WIDE // 2):
            raise _Unfit
        decimals.append(value if value is None else value.quantize(last, context=_EXACT))
    return pa.array(decimals, target)


def _first_unfit(values: pa.Array, target: pa.DataType) -> str:
    """The text of the first value out of the range of a type; there must be one. Found by bisection."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        try:
            _cast(half, target)
        except (pa.ArrowInvalid, _Unfit):
            values = half
        else:
            values = values.slice(len(half))
    return str(values[0].as_py())
