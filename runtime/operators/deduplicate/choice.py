"""The choice between the rows of a key: by arrival, or by a time column."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen.windows import to_instants
from aggloom.errors import DataError
from aggloom.runtime.operators.windows.assign import event_times
from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray
from aggloom.runtime.storage.jit import kernel

Keep = Literal["first", "last"]
BEFORE_NUMBERS = -(2**63)
"""The place in the order of rows without a time."""


class Choice(NamedTuple):
    """The fate of a bundle's rows, key by key.

    slots: the keys that have rows in the bundle. stored: by key whether it had one before. before: by row its
    predecessor: a row of the bundle, n + the place of its key, or -1. acts: by row whether it replaced that one.
    winners: by key the row that it has now, numbered as predecessors are.
    """

    slots: Array  # int64[keys]
    stored: Array  # bool[keys]
    before: Array  # int64[rows]
    acts: Array  # bool[rows]
    winners: Array  # int64[keys]


@kernel
def _choose(
    groups: Array,
    times: Array,
    timed: bool,
    last: bool,
    best: Array,
    best_time: Array,
    before: Array,
    acts: Array,
) -> None:
    """Take rows one after the other; `best` and `best_time` are what each key has so far (-1: nothing)."""
    for r in range(len(groups)):
        g = groups[r]
        takes = best[g] < 0
        if not takes and timed:
            # An equal time goes to the later arrival of the last rows, and to the earlier of the first.
            takes = times[r] >= best_time[g] if last else times[r] < best_time[g]
        elif not takes:
            takes = last
        before[r] = best[g]
        acts[r] = takes
        if takes:
            best[g] = r
            if timed:
                best_time[g] = times[r]


def choose(
    touched: SlotArray,
    groups: NumberArray,
    times: NumberArray | None,
    keep: Keep,
    row: NumberArray,
    time: NumberArray | None,
) -> Choice:
    """Choose which rows of a bundle replace which; row, time: what each slot has (see DeduplicateState)."""
    n = len(groups)
    stored = row[touched] != 0
    # The row that a key had is numbered behind those of the bundle.
    best = np.where(stored, n + np.arange(len(touched)), -1)
    timed = times is not None and time is not None
    best_time = time[touched] if time is not None else np.empty(0, np.int64)
    row_times = times if times is not None else np.empty(0, np.int64)
    before, acts = np.empty(n, np.int64), np.empty(n, np.bool_)
    _choose(
        groups,
        row_times,
        timed,
        last=keep == "last",
        best=best,
        best_time=best_time,
        before=before,
        acts=acts,
    )
    return Choice(touched, stored, before, acts, best)


def order_numbers(batch: pa.RecordBatch, name: str) -> Array:
    """A column of times as numbers in its own unit; NULL comes before all of them, as in Spark's ascending order."""
    column = batch.column(name)
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    numbers = pc.fill_null(pc.cast(column, pa.int64()), BEFORE_NUMBERS)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def event_numbers(batch: pa.RecordBatch, name: str) -> Array:
    """Return the order numbers of an event time; raises DataError if one is NULL."""
    column = batch.column(name)
    if column.null_count:
        raise DataError(
            f"column {name!r}: {column.null_count} of {len(column)} rows have no event time (NULL) to wait for; "
            f"filter them out with WHERE {name} IS NOT NULL"
        )
    return order_numbers(batch, name)


def milliseconds_of(batch: pa.RecordBatch, name: str, zone: str = "UTC") -> Array:
    """A column of times in milliseconds since 1970, rounded down; numbers are such already.

    zone: on whose clocks times without one lie.
    """
    kind = batch.schema.field(name).type
    if pa.types.is_integer(kind):
        return event_numbers(batch, name)
    times = event_times(batch, name)
    return times if kind.tz else to_instants(times, zone)
