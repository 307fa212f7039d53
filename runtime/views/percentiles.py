"""Answers read out of ordered views: percentiles, the only value, a product, and whether there is any."""

from __future__ import annotations

import math

import numpy as np

from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import cold_kernel, kernel, only_compiled
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.storage.tree import tree_start, tree_step
from aggloom.runtime.values.encoded_values import word_to_float
from aggloom.runtime.views.lists import FULL, ListOut
from aggloom.runtime.views.ordered import least
from aggloom.runtime.views.ranked import ranked_at, ranked_total


@kernel
def list_full(out: ListOut) -> bool:
    """Tell whether a list found no room."""
    return out.meta[FULL] != 0


@kernel
def ordered_none(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return not least(view, pool, pooled, slot)[1]


@kernel
def ranked_none(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return ranked_total(view, slot) == 0


@cold_kernel
def percentile(view: Tree, pool: PoolArrays, pooled: bool, slot: int, fraction: float) -> float:
    """The DOUBLE at a fraction of the sorted ones, between its neighbours as Spark and Flink interpolate."""
    last = ranked_total(view, slot) - 1
    # Above 2**53 rows the product may come to be past the last one.
    place = fraction * np.float64(last)
    lower = min(np.int64(math.floor(place)), last)
    a = word_to_float(ranked_at(view, slot, lower))
    upper = min(np.int64(math.ceil(place)), last)
    if upper == lower:
        return a
    b = word_to_float(ranked_at(view, slot, upper))
    if a == b:
        return a
    # In Spark's order of operations, so that the result is the same to the last bit.
    return (np.float64(upper) - place) * a + (place - np.float64(lower)) * b


@cold_kernel
def discrete_percentile(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, fraction: float
) -> int:
    """The first of the sorted words that has at least the fraction of them at or before it."""
    total = ranked_total(view, slot)
    rank = np.int64(math.ceil(fraction * np.float64(total))) - 1
    # A fraction of 0 asks for the first row. Above 2**53 rows the product may be past the last one.
    return ranked_at(view, slot, min(max(rank, np.int64(0)), total - 1))


@cold_kernel
def only(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, int]:
    """(the least value, how many there are, counted up to two values)."""
    word, rows = np.int64(0), np.int64(0)
    leaf, entry = tree_start(view, slot, 0)
    while entry != 0 and rows < 2:
        # A value whose retraction is ahead of its row is not there.
        if view.heap[entry + 1] > 0:
            word = view.heap[entry]
            rows += view.heap[entry + 1]
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1)
    return word, rows


@only_compiled
@kernel
def _power(base: float, exponent: float) -> float:
    return base**exponent


@cold_kernel
def product(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> float:
    """The product of the DOUBLEs in ascending order, each as often as it is there."""
    result = 1.0
    leaf, entry = tree_start(view, slot, 0)
    while entry != 0:
        count = view.heap[entry + 1]
        if count > 0:
            # In the order of the values, not of the rows: rounding does not depend on how they arrived.
            result *= _power(word_to_float(view.heap[entry]), np.float64(count))
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1)
    return result
