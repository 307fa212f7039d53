"""Rows of a source in the table's types: a value of another one is an error that names table, key and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.errors import LookupAnswerError
from aggloom.runtime.formats.time_digits import cut_digits
from aggloom.runtime.lookup.request import Key, Request, Row


def fit_rows(request: Request, rows: Sequence[Sequence[Any]], key: Key | None) -> list[Row]:
    """Values of the columns that are read as Arrow gives them back; raises LookupAnswerError.

    key: to which they answer, for messages; None: they are rows of several.
    """
    if not len(rows):
        return []
    columns = [
        _cut_column(request, field, _column(request, field, [row[place] for row in rows], key))
        for place, field in enumerate(request.read)
    ]
    return list(zip(*columns, strict=True))


def shaped_row(request: Request, row: Any, key: Key | None) -> Sequence[Any]:
    """The values of the columns that are read, of a row as a source has it; raises LookupAnswerError.

    key: to which it answers; a mapping may leave it out. None: it is one of all rows.
    """
    names = request.read.names
    if isinstance(row, Mapping):
        # The key is known from the question; what the row says of it wins, and is compared later.
        values_by_name = dict(zip(request.key_columns, key, strict=True)) if key is not None else {}
        values_by_name |= row
        missing = [name for name in names if name not in values_by_name]
        if missing:
            raise LookupAnswerError(
                f"{_place(request, key)}: a row has no {', '.join(map(repr, missing))}; give every column of the table"
            )
        return [values_by_name[name] for name in names]
    if not isinstance(row, tuple | list):
        raise LookupAnswerError(
            f"{_place(request, key)}: the answer is a {type(row).__name__}; give None, a row (a tuple or a dict), or a "
            "list of rows"
        )
    every = request.table.columns.names
    if len(row) == len(every):
        return row if names == every else [row[every.index(name)] for name in names]
    raise LookupAnswerError(
        f"{_place(request, key)}: a row has {len(row)} values, and the table {len(every)} columns: {', '.join(every)}"
    )


def _column(request: Request, field: pa.Field, values: list[Any], key: Key | None) -> list[Any]:
    """Values as the column's type has them."""
    try:
        cast_values: list[Any] = pa.array(values, field.type).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _mismatch(request, field, str(error), key) from None
    if pa.types.is_nested(field.type):
        return cast_values
    for answer, value in zip(values, cast_values, strict=True):
        # Equal values may be of two types, such as 1 and 1.0, and NaN is of the same type as NaN.
        if answer is None or value == answer or type(answer) is type(value):
            continue
        # A decimal or an integer may be rounded to a double, as in a cast.
        if pa.types.is_floating(field.type) and not isinstance(answer, str | bytes):
            continue
        # Arrow cuts fractions off, and takes numbers for dates.
        raise _mismatch(request, field, f"{answer!r:.80} would be {value!r:.80}", key)
    return cast_values


def _cut_column(request: Request, field: pa.Field, values: list[Any]) -> list[Any]:
    """Values of a time with the digits that the table declares."""
    digits = dict(request.table.digits).get(field.name)
    if digits is None:
        return values
    cut: list[Any] = cut_digits(pa.array(values, field.type), digits).to_pylist()
    return cut


def _mismatch(request: Request, field: pa.Field, why: str, key: Key | None) -> LookupAnswerError:
    return LookupAnswerError(
        f"{_place(request, key)}: column {field.name!r} is {type_name(field.type)}: {why}; declare the type that the "
        "table has, or convert the value"
    )


def _place(request: Request, key: Key | None) -> str:
    where = "" if key is None else f", key {request.format_key(key)}"
    return f"lookup table {request.name}{where}"
