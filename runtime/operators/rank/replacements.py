"""Rows of a batch that are deleted and inserted again: for a reader of whole batches these are updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import DELETE, Kinds, is_retraction
from aggloom.runtime.values.type_fit import without_extension


def find_replaced(batch: pa.RecordBatch, kinds: Kinds, key: Sequence[int]) -> Array:
    """Mark each -D behind which a row of the same key is inserted: bool[n].

    kinds: int8[n]. key: the columns by which a row is known; none: no row is replaced. An aggregate that goes record
    by record sends such a -D where the -U of an update empties its group before the +U fills it again.

    Example:
        >>> batch = pa.record_batch({"k": [1, 2, 1], "v": [5, 6, 7]})
        >>> find_replaced(batch, np.array([3, 3, 0], np.int8), [0]).tolist()
        [True, False, False]
    """
    gone = kinds == DELETE
    columns = [without_extension(batch.column(place)) for place in key]
    if not gone.any() or not columns or any(pa.types.is_nested(c.type) for c in columns):
        return np.zeros(len(kinds), np.bool_)
    codes = [
        pc.fill_null(column.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        for column in columns
    ]
    # One number for each different key.
    _, rows = np.unique(np.stack(codes), axis=1, return_inverse=True)
    rows = rows.reshape(-1)
    added = np.flatnonzero(~is_retraction(kinds))
    last = np.full(int(rows.max()) + 1, -1)
    # A deletion that comes before the last row of its key was the old half of an update.
    np.maximum.at(last, rows[added], added)
    return gone & (last[rows] > np.arange(len(kinds)))
