"""Checks of the values in a restored pool: texts are UTF-8, decimals have 16 bytes, nested values can be decoded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.audit import Audit, corrupt_snapshot
from aggloom.runtime.values.columns import from_words

_BYTES = 1 << 26
"""The number of bytes, roughly, that are checked together; offsets of Arrow end at 2 GB."""


def check_pooled_values(audit: Audit) -> None:
    """Raise StateCorruptError unless the strings of the pool are values of the types that were noted for them."""
    for dtype, marks in audit.typed.items():
        if pa.types.is_binary(dtype):
            continue
        for ids in _pieces(np.flatnonzero(marks), audit.pool.arrays.length):
            try:
                # Arrow's full validation reads every value: what it accepts, no later query can stumble over.
                from_words(ids, np.ones(len(ids), np.bool_), dtype, audit.pool).validate(full=True)
            except (ValueError, IndexError) as error:
                raise corrupt_snapshot(
                    f"pool: a string is no value of {dtype} ({error})"
                ) from error


def _pieces(ids: Array, lengths: Array) -> Iterator[Array]:
    """Ids in pieces whose strings have about `_BYTES` bytes; id 0 stands for none."""
    ids = ids[ids > 0]
    # One more than its bytes for each string, so that pieces of empty ones end, too.
    ends = np.cumsum(lengths[ids].astype(np.int64) + 1)
    cuts = np.flatnonzero(np.diff(ends // _BYTES)) + 1
    yield from np.split(ids, cuts)
