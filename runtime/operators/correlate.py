"""The step of table functions: each row with the rows that a function makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import load_table_function, type_name
from aggloom.codegen.planner import Correlate, Series, Stack, Unnest, UserRows
from aggloom.errors import DataError
from aggloom.runtime.operators.differences import pair_marks
from aggloom.runtime.operators.steps import Rows, has_values
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values import rows as row_bytes
from aggloom.runtime.values.changelog import UPDATE_AFTER, UPDATE_BEFORE, Kinds, single_kinds
from aggloom.runtime.values.row_groups import row_groups

_MOST = 2**31 - 1
"""Rows that one batch may become: what an Arrow array counts in 32 bits."""


class Answers(NamedTuple):
    """The rows that a function makes of each row of a batch.

    counts: number of rows by row of the batch. column: gives an answer's column by name, for rows of the batch
    (int64[n]) and places among the rows of each (int64[n]); a place that is no row is NULL.
    """

    counts: Array  # int64[rows]
    column: Callable[[str, NumberArray, NumberArray], pa.Array]


def correlate_rows(node: Correlate, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NumberArray]:
    """Return the joined rows, and for each the number of the row that it was made of (int64[n]), in order.

    Raises DataError where they are too many.
    """
    answers = _ANSWER[type(node.call)](node.call, batch)
    counts = answers.counts
    # In an outer join a row without an answer stays, once.
    emitted = np.maximum(counts, 1) if node.outer else counts
    total = int(emitted.sum())
    if total > _MOST:
        raise DataError(
            f"{node.call.text} makes {total:,} rows of {batch.num_rows:,}, and a batch has {_MOST:,} at most; "
            "give smaller batches, or filter before"
        )
    rows = np.repeat(np.arange(batch.num_rows), emitted)
    # Places count anew from 0 for each row.
    places = np.arange(total) - np.repeat(np.cumsum(emitted) - emitted, emitted)
    own, row_numbers = set(batch.schema.names), pa.array(rows)
    columns = []
    for field in node.schema:
        if field.name in own:
            columns.append(batch.column(field.name).take(row_numbers))
        elif node.call.ordinality is not None and field.name == node.call.ordinality[0]:
            numbers = places + node.call.ordinality[1]
            columns.append(pa.array(numbers, field.type, mask=places >= counts[rows]))
        else:
            columns.append(answers.column(field.name, rows, places).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=node.schema), rows


def correlate(node: Correlate, rows: Rows) -> Rows:
    """Each row with the rows that the function makes of it; those of an update are deleted and inserted."""
    batch, kinds = rows
    joined_rows, numbers = correlate_rows(node, batch)
    if not node.nets_updates:
        return joined_rows, single_kinds(kinds)[numbers]
    stay = ~_find_unchanged(joined_rows, kinds, numbers)
    return joined_rows.filter(pa.array(stay)), single_kinds(kinds)[numbers[stay]]


def _find_unchanged(joined_rows: pa.RecordBatch, kinds: Kinds, numbers: NumberArray) -> FlagArray:
    """Return which rows (bool[n]) the -U and the +U right after it both make, each row of one with one of the other.

    kinds: int8[rows], of the changes. numbers: int64[n], the change of each row.
    """
    after = np.zeros(len(kinds), np.bool_)
    after[1:] = (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER)
    # The halves of an update have one number.
    updates = np.arange(len(kinds)) - after
    halves = after.copy()
    halves[:-1] |= after[1:]
    places = np.flatnonzero(halves[numbers])
    part = joined_rows.take(pa.array(places))
    columns = [row_bytes.encode_values(_open_map(column)) for column in part.columns]
    marks = row_groups(columns, len(places))
    partner = pair_marks(updates[numbers[places]], marks, after[numbers[places]])
    unchanged = np.zeros(len(numbers), np.bool_)
    unchanged[places] = partner >= 0
    return unchanged


def _unnest(call: Unnest, batch: pa.RecordBatch) -> Answers:
    """The items of collections, side by side."""
    parts: list[Array] = []
    columns: dict[str, tuple[Array, Array, pa.Array]] = {}
    names = iter(call.values)
    for argument, shape in zip(call.arguments, call.shapes, strict=True):
        counts, values = _open_argument(batch.column(argument), shape)
        starts = np.cumsum(counts) - counts
        parts.append(counts)
        columns |= {next(names): (counts, starts, value) for value in values}

    def column(name: str, rows: NumberArray, places: NumberArray) -> pa.Array:
        counts, starts, value = columns[name]
        # The items of all rows in their order are the column as it is.
        if len(rows) == len(value) and (places < counts[rows]).all():
            return value
        missing = places >= counts[rows]
        return value.take(pa.array(np.where(missing, 0, starts[rows] + places), mask=missing))

    # The longest collection decides: the columns of shorter ones end in NULLs.
    return Answers(np.maximum.reduce(parts), column)


def _open_argument(column: pa.Array, shape: str) -> tuple[Array, list[pa.Array]]:
    """Return how many items each value of a column has (int64[rows]), and the columns of the items of all."""
    column = _open_map(column)
    lengths = pc.list_value_length(column).fill_null(0)
    counts = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    items = column.flatten()
    if shape == "items":
        return counts, [items]
    fields = items.flatten()
    if shape != "counted":
        return counts, fields
    # An entry of a multiset is as many rows as it counts.
    times = np.maximum(fields[1].fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), 0)
    ends = np.concatenate([[0], np.cumsum(times)])
    last = np.cumsum(counts)
    repeated = np.repeat(np.arange(len(times)), times)
    keys = fields[0].take(pa.array(repeated))
    values = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
    return ends[last] - ends[last - counts], values


def _open_map(column: pa.Array) -> pa.Array:
    """The entries of maps as an array of pairs; any other column as it is."""
    if not pa.types.is_map(column.type):
        return column
    key, item = column.type.key_type, column.type.item_type
    return column.cast(pa.list_(pa.struct([("key", key), ("value", item)])))


def _count(call: Series, batch: pa.RecordBatch) -> Answers:
    """Numbers from one to another."""
    known = has_values(batch, call.arguments)
    first, last, step = (
        batch.column(name).fill_null(1).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in call.arguments
    )
    if (known & (step == 0)).any():
        raise DataError(f"{call.text}: the step is 0; give another one, or filter such rows out")
    # Ends of the whole range of BIGINT are further apart than BIGINT holds; as floats, since the least BIGINT has no
    # absolute value there.
    wide = [float(np.abs(end.astype(np.float64)).max(initial=0)) for end in (first, last)]
    if sum(wide) >= 2.0**62:
        raise DataError(f"{call.text}: its ends are further apart than 2^62; give nearer ones")
    # A step of 0 is refused above where all of its arguments are known; elsewhere it must not divide.
    span = (last - first) // np.where(step == 0, 1, step)
    if call.open_end:
        span = np.where((last - first) % np.where(step == 0, 1, step) == 0, span - 1, span)
    counts = np.where(known, np.maximum(span + 1, 0), 0)

    def column(name: str, rows: NumberArray, places: NumberArray) -> pa.Array:
        return pa.array(first[rows] + places * step[rows], mask=places >= counts[rows])

    return Answers(counts, column)


def _stack(call: Stack, batch: pa.RecordBatch) -> Answers:
    """The arguments, row by row."""
    width, height = len(call.values), call.height

    def column(name: str, rows: NumberArray, places: NumberArray) -> pa.Array:
        parts = [batch.column(each) for each in call.arguments[call.values.index(name) :: width]]
        # The columns of one name lie one behind the other, a stretch for each row of the call.
        return pa.concat_arrays(parts).take(pa.array(places * batch.num_rows + rows))

    return Answers(np.full(batch.num_rows, height, np.int64), column)


def _call_function(call: UserRows, batch: pa.RecordBatch) -> Answers:
    """The rows that a user's function gives of the values of each row."""
    function = load_table_function(call.source, call.name)
    known = has_values(batch, call.arguments if call.nulls == "ignore" else ())
    inputs = zip(*(batch.column(name).to_pylist() for name in call.arguments), strict=True)
    arguments = inputs if call.arguments else ((),) * batch.num_rows
    counts = np.zeros(batch.num_rows, np.int64)
    answers: list[tuple[Any, ...]] = []
    for row, values in enumerate(arguments):
        if known[row]:
            rows_of_call = _make_rows(call, function, values)
            counts[row] = len(rows_of_call)
            answers += rows_of_call
    starts = np.cumsum(counts) - counts

    def column(name: str, rows: NumberArray, places: NumberArray) -> pa.Array:
        place, dtype = call.values.index(name), call.answers.field(name).type
        try:
            values = pa.array([each[place] for each in answers], dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{call.name}: a value of its column {name!r} is no {type_name(dtype)}: {error}; correct the "
                "function, or declare another type"
            ) from None
        missing = places >= counts[rows]
        return values.take(pa.array(np.where(missing, 0, starts[rows] + places), mask=missing))

    return Answers(counts, column)


def _make_rows(
    call: UserRows, function: Callable[..., Any], values: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    """The rows of one call as tuples; raises DataError where the function fails, or gives none."""
    width = len(call.values)
    try:
        answers = list(function(*values))
    except Exception as error:
        raise DataError(
            f"{call.name}({', '.join(map(repr, values))}) fails: {type(error).__name__}: {error}; correct the "
            "function, or filter such rows out"
        ) from error
    rows = [each if isinstance(each, tuple) or width > 1 else (each,) for each in answers]
    wrong = next((each for each in rows if not isinstance(each, tuple) or len(each) != width), None)
    if wrong is not None:
        raise DataError(
            f"{call.name}({', '.join(map(repr, values))}) gives {wrong!r} as a row; give tuples of {width} values "
            f"({', '.join(call.values)})"
        )
    return rows


_ANSWER: dict[type[Any], Callable[[Any, pa.RecordBatch], Answers]] = {
    Series: _count,
    Stack: _stack,
    Unnest: _unnest,
    UserRows: _call_function,
}
