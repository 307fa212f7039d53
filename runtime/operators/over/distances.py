"""Distances of a frame by value: the sort key that lies so far from a row's, in the order column's own type."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.state.sort_key import SortColumn, SortKeyEncoder
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.pool import Pool


def key_at(
    values: pa.Array, distance: str, column: SortColumn, pool: Pool
) -> tuple[Array, Array, Array]:
    """(word, tier, beyond) of the sort keys that follow those of `values` at a distance; before them if it is negative.

    A key that the type does not reach is its last, and `beyond` it. A NULL has none: what is there means nothing.
    """
    far = Decimal(distance) * (-1 if column.descending else 1)
    moved, beyond = _move_values(values, far)
    batch = pa.RecordBatch.from_arrays([moved], schema=pa.schema([("k", values.type)]))
    alone = SortColumn(0, column.descending, column.nulls_first)
    return *SortKeyEncoder(list(batch.schema), [alone]).words(batch, pool), beyond


def _move_values(values: pa.Array, far: Decimal) -> tuple[pa.Array, Array]:
    """The values so far on, and which of them the type does not reach: none of floats, which have infinities."""
    kind = values.type
    if pa.types.is_floating(kind):
        width = np.float32 if pa.types.is_float32(kind) else np.float64
        numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            shifted = pa.array((numbers + width(far)).astype(width))
        return _mask_nulls(shifted, values), np.zeros(len(values), np.bool_)
    if pa.types.is_decimal(kind):
        return _move_decimals(values, far)
    plain = values
    if pa.types.is_date(kind):
        plain = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        plain = values.cast(pa.int64())
    limits = np.iinfo(plain.type.to_pandas_dtype())
    numbers = pc.fill_null(plain, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    whole = int(far)
    # Beyond 64 bits there is nothing: the sum is kept inside the type's limits before it is made.
    if whole >= 0:
        moved = np.minimum(numbers, limits.max - min(whole, limits.max)) + min(whole, limits.max)
        beyond = numbers > limits.max - whole
        moved = np.where(beyond, limits.max, moved)
    else:
        least = max(whole, limits.min)
        beyond = numbers < limits.min - whole
        moved = np.maximum(numbers, limits.min - least) + least
    shifted = pa.array(moved.astype(np.int64)).cast(plain.type)
    return _mask_nulls(shifted.cast(kind) if plain is not values else shifted, values), beyond


def _move_decimals(values: pa.Array, far: Decimal) -> tuple[pa.Array, Array]:
    kind = values.type
    # With a digit more no sum overflows before it has been compared with the type's limits.
    wide = pa.decimal256(kind.precision + 1, kind.scale)
    greatest = Decimal(10**kind.precision - 1).scaleb(-kind.scale)
    # A step of twice the range leaves it from anywhere, and a greater one does no more.
    step = max(min(far, 2 * greatest), -2 * greatest).quantize(Decimal(1).scaleb(-kind.scale))
    moved = pc.add(
        values.cast(pa.decimal256(kind.precision + 1, kind.scale)), pa.scalar(step, wide)
    )
    top = pa.scalar(greatest, moved.type)
    least = pa.scalar(-greatest, moved.type)
    above, below = pc.greater(moved, top), pc.less(moved, least)
    beyond = pc.fill_null(pc.or_(above, below), False).to_numpy(zero_copy_only=False)
    return pc.if_else(below, least, pc.if_else(above, top, moved)).cast(kind), beyond


def _mask_nulls(moved: pa.Array, values: pa.Array) -> pa.Array:
    """The numbers with the nulls of others."""
    if not values.null_count:
        return moved
    return pc.if_else(values.is_valid(), moved, pa.scalar(None, moved.type))
