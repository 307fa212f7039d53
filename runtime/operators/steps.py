"""Rows between operators: none, split by bucket, and joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aggloom.runtime.operators.workers import ALONE, Workers
from aggloom.runtime.values import scalars
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.key_hash import key_hashes, sort_by_bucket

Rows = tuple[pa.RecordBatch, Kinds]
MANY_ROWS = 10_000
"""The number of rows from which on a thread is worth its price."""


def no_rows(schema: pa.Schema) -> Rows:
    """Columns of a schema without rows."""
    columns = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema), np.empty(0, np.int8)


def has_values(batch: pa.RecordBatch, columns: Iterable[int | str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that have a value in each of these columns, by number or name (bool[n]).

    Example:
        >>> has_values(pa.record_batch({"a": [1, None], "b": [2, 2]}), ["b", 0]).tolist()
        [True, False]
    """
    has_all = np.ones(batch.num_rows, np.bool_)
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            has_all &= scalars.validity(column)
    return has_all


def split(
    rows: Rows, keys: Sequence[int], buckets: int, workers: Workers = ALONE
) -> Iterator[tuple[int, Rows]]:
    """The rows by the bucket of the columns at these places; within a bucket their order stays.

    workers: gather the rows of the buckets.
    """
    batch, kinds = rows
    if not batch.num_rows:
        return
    if buckets == 1:
        yield 0, rows
        return
    hashes = key_hashes([batch.column(place) for place in keys], batch.num_rows)
    order, bounds = sort_by_bucket(hashes, buckets)
    kinds = kinds[order]
    spans = [(n, int(bounds[n]), int(bounds[n + 1])) for n in range(buckets)]
    # A bucket without rows is not listed: whoever runs it would wake it for nothing.
    spans = [span for span in spans if span[2] > span[1]]
    if workers.threads == 1 or batch.num_rows < MANY_ROWS:
        batch = batch.take(scalars.from_places(order))
        parts = [batch.slice(start, end - start) for _, start, end in spans]
    else:
        parts = workers.run(
            [partial(batch.take, scalars.from_places(order[start:end])) for _, start, end in spans]
        )
    for (bucket, start, end), part in zip(spans, parts, strict=True):
        yield bucket, (part, kinds[start:end])


def cut_evenly(rows: Rows, workers: Workers) -> list[Rows]:
    """The rows in runs of neighbours, one for each worker; few rows in one."""
    count = len(rows[1])
    if workers.threads == 1 or count < MANY_ROWS:
        return [rows]
    # Rounded up, so that there are no more runs than threads.
    return cut_runs(rows, -(-count // workers.threads))


def cut_runs(rows: Rows, size: int) -> list[Rows]:
    """The rows in runs of neighbours of about so many, one run at least."""
    batch, kinds = rows
    runs = max(1, round(batch.num_rows / size))
    size = -(-batch.num_rows // runs)
    starts = range(0, batch.num_rows, size or 1)
    return [(batch.slice(at, size), kinds[at : at + size]) for at in starts] or [rows]


def fill_columns(rows: Rows, schema: pa.Schema) -> Rows:
    """The changes in more columns, NULL in those that they lack."""
    batch, kinds = rows
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema), kinds


def concat_changes(parts: Sequence[Rows], schema: pa.Schema) -> Rows:
    """All parts as one batch."""
    parts = [part for part in parts if part[0].num_rows]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_rows(schema)
    kinds = np.concatenate([kinds for _, kinds in parts])
    if not schema.names:
        return empty_columns(len(kinds)), kinds
    return pa.concat_batches([batch for batch, _ in parts]), kinds


def table_of_changes(parts: Sequence[Rows], schema: pa.Schema) -> tuple[pa.Table, Kinds]:
    """All parts as one table, whose columns stay in pieces: to join wide rows costs as much as to compute them."""
    parts = [part for part in parts if part[0].num_rows]
    # Without columns a table would not know its number of rows.
    if not parts or not schema.names:
        batch, kinds = concat_changes(parts, schema)
        return pa.Table.from_batches([batch]), kinds
    kinds = np.concatenate([each for _, each in parts])
    return pa.Table.from_batches([batch for batch, _ in parts]), kinds
