"""Rows on their way into windows: the column that a window operator places them by, and windows as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import infer_type, is_expression, lower_calc
from aggloom.codegen.planner import Bounds, WindowAssign, WindowTable
from aggloom.codegen.windows import FOREVER, Aligned, to_instants, to_local
from aggloom.errors import DataError
from aggloom.runtime.storage.arena import Array, NumberArray
from aggloom.runtime.values.changelog import Kinds, single_kinds

_INSTANT = pa.timestamp("us", "UTC")


def assign_windows(node: WindowAssign, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the column that the node adds; raises DataError if a row has no event time."""
    assigner = node.windowing.assigner
    times = np.zeros(batch.num_rows, np.int64)
    if assigner.event_time:
        times = event_times(batch, assigner.columns[0])
        if node.windowing.is_sliced:
            assert isinstance(assigner, Aligned)
            times = assigner.slices(to_local(times, assigner.zone))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(times)], schema=node.schema)


def window_rows(
    node: WindowTable, batch: pa.RecordBatch, kinds: Kinds
) -> tuple[pa.RecordBatch, Kinds]:
    """Each row once for each of its windows, with the windows' bounds."""
    assigner = node.assigner
    times = to_local(event_times(batch, assigner.columns[0]), assigner.zone)
    rows, starts, ends = assigner.assign(times)
    bounds = bound_columns(node.bounds, starts, ends, assigner.zone)
    whole = [*batch.take(pa.array(rows)).columns, *bounds]
    if not node.keeps_updates:
        kinds = single_kinds(kinds)
    return pa.RecordBatch.from_arrays(whole, schema=node.schema), kinds[rows]


def event_times(batch: pa.RecordBatch, name: str) -> Array:
    """A column of times in milliseconds since 1970, rounded down; raises DataError if one is NULL."""
    column = batch.column(name)
    if column.null_count:
        raise DataError(
            f"column {name!r}: {column.null_count} of {len(column)} rows have no event time (NULL); "
            f"filter them out with WHERE {name} IS NOT NULL"
        )
    micros = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    # Rounded down, before 1970 too, as `//` does.
    return np.asarray(micros.to_numpy(zero_copy_only=False)) // 1000


def row_times(batch: pa.RecordBatch, time: str) -> Array:
    """The event times of a table's rows in milliseconds, int64[rows]; time: a column, or an expression of columns."""
    if not is_expression(time, batch.schema.names):
        return event_times(batch, time)
    schema = pa.schema([(time, infer_type(time, batch.schema))])
    calc = lower_calc(None, ((time, time),), schema, batch.schema)
    rows, _ = calc.run(batch, np.zeros(batch.num_rows, np.int8))
    return event_times(rows, time)


def watermark_behind(batch: pa.RecordBatch, time: str, delay: int) -> int:
    """The watermark behind rows, of which there are some, in milliseconds. delay: how far they may be out of order."""
    # As in Flink a watermark says that all rows up to its time, that included, are there.
    return int(row_times(batch, time).max()) - delay - 1


def bound_columns(
    bounds: Bounds, starts: NumberArray, ends: NumberArray, zone: str
) -> list[pa.Array]:
    """The columns of windows whose starts and ends are milliseconds of the wall clock; forever is NULL."""
    missing = np.abs(ends) >= FOREVER
    local = (starts, ends, ends - 1)
    return [
        _times(_on_clock(times, field.type, missing, zone), field.type, missing)
        for times, field in zip(local, bounds.fields, strict=True)
    ]


def _on_clock(local: Array, dtype: pa.DataType, missing: Array, zone: str) -> Array:
    """Times of the wall clock in the words of a column: instants, or as they are."""
    return local if dtype != _INSTANT or missing.any() else to_instants(local, zone)


def _times(ms: Array, dtype: pa.DataType, missing: Array) -> pa.Array:
    micros = np.where(missing, 0, ms) * 1000
    return pa.array(micros, pa.int64(), mask=missing if missing.any() else None).cast(dtype)
