"""Equal rows, by numbers: what `group_by` of Arrow would do, which imports pandas and the data sets of Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.runtime.values.scalars import buffer_of
from aggloom.type_layout import is_variant

Groups = NDArray[np.int64]


def row_groups(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> Groups:
    """The number of each row's group (int64[rows]): equal rows have the same, counted as they first appear.

    columns: of so many rows, not nested. NULLs are equal, as NaNs are.

    Example:
        >>> row_groups([pa.array(["b", "a", "b", None]), pa.array([1, 1, 1, 1])], 4).tolist()
        [0, 1, 0, 2]
    """
    groups = np.zeros(rows, np.int64)
    for place, column in enumerate(columns):
        own, count = _number_values(column)
        # The numbers of both stay below the square of the rows.
        groups = _number_values(pa.array(groups * count + own))[0] if place else own
    return groups


def first_places(groups: Groups) -> Groups:
    """The place of the first row of each group; groups: int64[rows], as `row_groups` counts them.

    Example:
        >>> first_places(np.array([0, 1, 0, 2])).tolist()
        [0, 1, 3]
    """
    # Numbers are given out in order: a row whose number is a new maximum is the first of its group.
    return np.flatnonzero(np.diff(np.maximum.accumulate(groups), prepend=-1))


def _number_values(column: pa.Array | pa.ChunkedArray) -> tuple[Groups, int]:
    """The number of each value, and how many there are."""
    if pa.types.is_dictionary(column.type):
        # The values of a dictionary may repeat: only those of a new one number equal values alike.
        column = column.cast(column.type.value_type)
    if is_variant(column.type):
        # Equal documents are equal texts, which Arrow has kernels for.
        column = column.cast(pa.string())
    encoded = column.dictionary_encode(null_encoding="encode")
    # The chunks of a column have one dictionary.
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    if not chunks:
        return np.empty(0, np.int64), 0
    numbers = np.concatenate([buffer_of(each.indices, np.int32) for each in chunks])
    return numbers.astype(np.int64), len(chunks[-1].dictionary)
