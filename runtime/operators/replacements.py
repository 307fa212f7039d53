"""Rows that take the places of others: the changes of a bundle, in order, the row before and the row after."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.state.row_kernels import Encoded, same_row
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, RowIdArray
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


@kernel
def _same_inside(columns: Array, rows: Encoded, acting: Array, before: Array, same: Array) -> None:
    """Mark the rows that equal the row of the bundle that they replace."""
    for k in range(len(acting)):
        was = before[acting[k]]
        if 0 <= was < len(rows.words):
            same[k] = same_row(columns, rows, was, rows, acting[k])


@kernel
def _write_changes(
    acting: Array,
    before: Array,
    adds: Array,
    update_before: bool,
    insert: int,
    sources: Array,
    kinds: Array,
) -> int:
    """Write +I, -U and +U, or -D for each row, and return how many there are."""
    n = 0
    for k in range(len(acting)):
        r = acting[k]
        was = before[r]
        # A row that goes is emitted even where no -U is: only it says that the key has no row.
        if was >= 0 and (update_before or not adds[r]):
            sources[n] = was
            kinds[n] = UPDATE_BEFORE if adds[r] else DELETE
            n += 1
        if adds[r]:
            sources[n] = r
            kinds[n] = UPDATE_AFTER if was >= 0 else insert
            n += 1
    return n


def find_unlike(
    store: RowStore, rows: Encoded, acting: NumberArray, before: NumberArray, old: RowIdArray
) -> Array:
    """Find the acting rows that differ from their predecessors; `old`: the ids of those that are stored.

    before: by row a row of the bundle, n + the place of a stored one, or -1.
    """
    n, was = len(rows.words), before[acting]
    same = np.zeros(len(acting), np.bool_)
    _same_inside(store.every_column, rows, acting, before, same)
    stored_places = np.flatnonzero(was >= n)
    same[stored_places] = store.equal(old[was[stored_places] - n], rows, acting[stored_places])
    return acting[~same]


def replace_rows(
    batch: pa.RecordBatch,
    stored: pa.RecordBatch,
    acting: NumberArray,
    before: NumberArray,
    adds: FlagArray,
    *,
    update_before: bool,
    insert: int = INSERT,
) -> Rows:
    """Return the changes of rows in the places of others; one that does not add takes the one before away.

    insert: the kind of a row that replaces none.
    """
    sources = np.empty(2 * len(acting), np.int64)
    kinds = np.empty(2 * len(acting), np.int8)
    n = _write_changes(
        acting,
        before,
        adds,
        update_before=update_before,
        insert=insert,
        sources=sources,
        kinds=kinds,
    )
    both = pa.concat_batches([batch, stored]) if stored.num_rows else batch
    return both.take(pa.array(sources[:n])), kinds[:n]
