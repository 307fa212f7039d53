"""The steps of a plan that remember nothing: picking columns, expanding rows, splitting them by bucket."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import (
    Bucket,
    Calc,
    Column,
    Expand,
    Node,
    WindowAssign,
    WindowTable,
)
from aggloom.errors import AggloomError
from aggloom.runtime.operators.windows.assign import assign_windows, window_rows
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.key_hash import bucket_column, key_hashes, sort_by_bucket

Rows = tuple[pa.RecordBatch, Kinds]


def run_steps(steps: tuple[Node, ...], rows: Rows) -> Rows:
    """The rows after Calcs that only pick columns, Expands and assignments to windows, in this order."""
    for step in steps:
        if isinstance(step, Expand):
            rows = expand(step, rows)
        elif isinstance(step, Calc) and step.picked is not None:
            batch, kinds = rows
            rows = _rebuilt([batch.column(n) for n in step.picked], step.schema, batch), kinds
        elif isinstance(step, WindowAssign):
            rows = assign_windows(step, rows[0]), rows[1]
        elif isinstance(step, WindowTable):
            rows = window_rows(step, *rows)
        else:
            raise AggloomError(f"{type(step).__name__} is no step that runs on packed rows")
    return rows


def expand(node: Expand, rows: Rows) -> Rows:
    """Each row once for each projection; the order of rows stays within each."""
    batch, kinds = rows
    parts = [
        _rebuilt(
            [
                _item(item, batch, field.type)
                for item, field in zip(project, node.schema, strict=True)
            ],
            node.schema,
            batch,
        )
        for project in node.projects
    ]
    if len(parts) == 1:
        return parts[0], kinds
    return pa.concat_batches(parts), np.tile(kinds, len(parts))


def no_rows(schema: pa.Schema) -> Rows:
    """Columns of a schema without rows."""
    columns = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema), np.empty(0, np.int8)


def split(rows: Rows, keys: int, buckets: int) -> Iterator[tuple[int, Rows]]:
    """The rows by the bucket of their first `keys` columns; within a bucket their order stays."""
    batch, kinds = rows
    if not batch.num_rows:
        return
    if buckets == 1:
        yield 0, rows
        return
    hashes = key_hashes(batch.columns[:keys], batch.num_rows)
    order, bounds = sort_by_bucket(hashes, buckets)
    batch, kinds = batch.take(pa.array(order)), kinds[order]
    for bucket in range(buckets):
        start, end = int(bounds[bucket]), int(bounds[bucket + 1])
        if end > start:
            yield bucket, (batch.slice(start, end - start), kinds[start:end])


def _item(item: object, batch: pa.RecordBatch, dtype: pa.DataType) -> pa.Array:
    if isinstance(item, Column):
        return batch.column(item.name)
    if isinstance(item, Bucket):
        columns = [batch.column(name) for name in item.columns]
        return bucket_column(columns, batch.num_rows, item.buckets)
    value = getattr(item, "value", None)
    if value is None:
        return pa.nulls(batch.num_rows, dtype)
    return pa.repeat(pa.scalar(value, dtype), batch.num_rows)


def _rebuilt(arrays: list[pa.Array], schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
