"""Branches that are computed only on the rows that reach them, so that an error elsewhere in them does not come up.

A branch is a function of the same batches as the expression; it gets those rows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.scalar.values import Value, array
from aggloom.type_layout import is_variant

Branch = Callable[..., Value]


def and_then(left: Value, right: Branch, *inputs: pa.RecordBatch) -> pa.Array:
    """left AND right, the right side where the left one is not false."""
    known = array(left, inputs[0].num_rows)
    # NULL AND false is false, so the right side counts where the left one is NULL.
    rest = _on(right, pc.fill_null(known, True), pa.bool_(), inputs)
    return pc.and_kleene(known, rest)


def or_else(left: Value, right: Branch, *inputs: pa.RecordBatch) -> pa.Array:
    """left OR right, the right side where the left one is not true."""
    known = array(left, inputs[0].num_rows)
    # NULL OR true is true, so the right side counts where the left one is NULL.
    rest = _on(right, pc.invert(pc.fill_null(known, False)), pa.bool_(), inputs)
    return pc.or_kleene(known, rest)


def case(
    arms: Sequence[tuple[Branch, Branch]],
    default: Branch,
    dtype: pa.DataType,
    *inputs: pa.RecordBatch,
) -> pa.Array:
    """The value of the first arm whose condition is true, else the default's."""
    rows = np.arange(inputs[0].num_rows)
    places: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    parts: list[pa.Array] = []
    reached = list(inputs)
    for condition, value in arms:
        holds = pc.fill_null(array(condition(*reached), len(rows)), False)
        rows_of_branch = [each.filter(holds) for each in reached]
        parts.append(array(value(*rows_of_branch), rows_of_branch[0].num_rows))
        known = holds.to_numpy(zero_copy_only=False)
        places.append(rows[known])
        rows = rows[~known]
        reached = [each.filter(pc.invert(holds)) for each in reached]
    parts.append(array(default(*reached), len(rows)))
    # Parts are in the order of arms; sorting the rows they are of leads back to the order of rows.
    order = np.argsort(np.concatenate([*places, rows]), kind="stable")
    parts = [part if part.type == dtype else part.cast(dtype) for part in parts]
    return pa.chunked_array(parts, dtype).combine_chunks().take(pa.array(order))


def first_valid(
    branches: Sequence[Branch], dtype: pa.DataType, *inputs: pa.RecordBatch
) -> pa.Array:
    """COALESCE: the first value that is not NULL."""
    values = array(branches[0](*inputs), inputs[0].num_rows)
    for branch in branches[1:]:
        missing = pc.is_null(values)
        values = _fill(values, _on(branch, missing, dtype, inputs))
    return values


def _fill(values: pa.Array, others: pa.Array) -> pa.Array:
    """The values, those of the other array where they are NULL."""
    if pa.types.is_nested(values.type):
        return _fill_nested(values, others)
    if not is_variant(values.type):
        return pc.coalesce(values, others)
    # Arrow has no kernel for JSON's type, but for the texts below it.
    filled = pc.coalesce(values.storage, others.storage)
    return pa.ExtensionArray.from_storage(values.type, filled)


def _fill_nested(values: pa.Array, others: pa.Array) -> pa.Array:
    """The same for arrays, maps and rows, which Arrow's kernel does not take."""
    count = len(values)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    places = np.arange(count) + count * missing
    others = others if others.type == values.type else others.cast(values.type)
    both = pa.chunked_array([values, others], values.type).combine_chunks()
    return both.take(pa.array(places))


def _on(
    branch: Branch, mask: pa.Array, dtype: pa.DataType, inputs: Sequence[pa.RecordBatch]
) -> pa.Array:
    """A branch's value where a condition holds, NULL elsewhere."""
    if mask.true_count == len(mask):
        return array(branch(*inputs), len(mask))
    rows_of_branch = [each.filter(mask) for each in inputs]
    value = array(branch(*rows_of_branch), rows_of_branch[0].num_rows)
    holds = mask.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(holds) - 1, mask=~holds)
    return value.take(places) if len(value) else pa.nulls(len(mask), dtype)
