"""Plain rows: blocks of flat objects with columns of the table and no other field, which are insertions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from aggloom.runtime.formats.base import Message, values_of
from aggloom.runtime.formats.blocks import Block, has_names, is_whole, read_block, token, words
from aggloom.runtime.values.changelog import INSERT


def is_plain(columns: pa.Schema) -> bool:
    """Whether a table's columns are all of types that Arrow reads as strictly as we do."""
    types = [field.type for field in columns]
    return bool(types) and all(
        pt.is_signed_integer(t) or pt.is_string(t) or pt.is_boolean(t) for t in types
    )


def plain_rows(messages: Sequence[Message], columns: pa.Schema) -> Block | None:
    """The rows of messages, one each; None if one of them is not plain."""
    values = [value for value in values_of(messages) if value is not None and is_whole(value)]
    if not values or len(values) != len(messages):
        return None
    table = read_block(values, columns, "error")
    if table is None:
        return None
    found = [table.column(name).combine_chunks() for name in columns.names]
    left = np.zeros(len(values), np.bool_)
    for name, column in zip(columns.names, found, strict=True):
        if column.null_count:
            own = token(name)
            for place in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                # Or else it may not be there, which is no NULL.
                left[place] |= not has_names(values[place], own, 1)
    owners = np.flatnonzero(~left)
    if left.any():
        found = [column.take(pa.array(owners)) for column in found]
    return Block(owners, pa.repeat(words()[INSERT], len(owners)), found, left)
