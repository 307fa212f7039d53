"""A histogram with logarithmic bins by slot (DDSketch). It serves percentiles within a relative error.

Bin i > 0 holds the doubles above g**(i-1-o) up to g**(i-o), where g = (1 + a) / (1 - a) for an error of `a`, and o
lets the smallest double have a positive number; -i holds their negatives, 0 zeros, and infinities and NaN have
bins of their own. Every finite double is within `a` of its bin's value (and half a unit in the last place, which
counts among subnormal numbers). The bins that are in use are in a ranked tree.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import cold_kernel, kernel, only_compiled
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.storage.tree import META_SIZE
from aggloom.runtime.views.ranked import (
    RankedView,
    ranked_add,
    ranked_at,
    ranked_clear,
    ranked_merge,
    ranked_total,
)

_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_INFINITE = np.int64(1) << np.int64(62)
# Of the smallest double, and a little more.
_LEAST_LOGARITHM = -745.0
_GREATEST = 1.7976931348623157e308

_WIDTH = META_SIZE
"""Index in `meta` of the width, behind what it keeps of every tree."""


@only_compiled
@kernel
def _step(width: int) -> float:
    """The logarithm of g, for an error of 1 / width."""
    # log((1 + a) / (1 - a)) with a = 1 / width, written so that small errors keep their digits.
    return np.log1p(2.0 / (width - 1))


@kernel
def _offset(step: float) -> float:
    return np.ceil(-_LEAST_LOGARITHM / step) + 1.0


@only_compiled
@kernel
def bin_of(word: int, width: int) -> int:
    """The bin of a double in its word form."""
    # The word of a negative double has all bits but the sign turned over. Turned back, they are the double's own.
    x = np.int64(word ^ ((word >> 63) & _SIGN)).view(np.float64)
    if x == 0.0:
        return np.int64(0)
    if np.isnan(x):
        return _INFINITE + 1
    if np.isinf(x):
        return _INFINITE if x > 0.0 else -_INFINITE
    step = _step(width)
    # Rounded up: a bin holds its upper bound and not its lower one.
    number = np.int64(np.ceil(np.log(abs(x)) / step) + _offset(step))
    return number if x > 0.0 else -number


@only_compiled
@kernel
def bin_value(number: int, width: int) -> float:
    """The double that stands for all in a bin: as far from its least as from its greatest, in proportion."""
    if number == 0:
        return 0.0
    if number > _INFINITE:
        return np.nan
    if abs(number) == _INFINITE:
        return np.inf if number > 0 else -np.inf
    step = _step(width)
    logarithm = (abs(number) - _offset(step)) * step + np.log1p(-1.0 / width)
    # Rounding may go past the greatest double.
    value = min(np.exp(logarithm), _GREATEST)
    return value if number > 0 else -value


@kernel
def ddsketch_accumulate(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    # Bins are numbers, whatever the argument: none is an id of the pool.
    ranked_add(view, pool, False, slot, bin_of(word, view.meta[_WIDTH]), 1)


@kernel
def ddsketch_retract(view: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    ranked_add(view, pool, False, slot, bin_of(word, view.meta[_WIDTH]), -1)


@kernel
def ddsketch_merge(
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Tree,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    ranked_merge(view, pool, False, slot, other, other_pool, other_slot=other_slot)


@kernel
def ddsketch_clear(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    ranked_clear(view, pool, False, slot)


@kernel
def ddsketch_none(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return ranked_total(view, slot) == 0


@cold_kernel
def binned_percentile(
    view: Tree, pool: PoolArrays, pooled: bool, slot: int, fraction: float
) -> float:
    """The value of the bin with the row of the nearest rank; NaN without rows."""
    rows = ranked_total(view, slot)
    if rows == 0:
        return np.nan
    # The nearest rank, halves upwards: ranks count from 0.
    rank = np.int64(np.floor(fraction * (rows - 1) + 0.5))
    return bin_value(ranked_at(view, slot, rank), view.meta[_WIDTH])


class DDSketchView(RankedView):
    """Owner of a weighed Tree whose words are bins, for an error of 1 / width (at most a half)."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        super().__init__(arena, name, slots)
        # A tree that was made for another kind of view has no place for the width.
        if len(self.arrays.meta) == _WIDTH:
            arena.resize(f"{name}.meta", _WIDTH + 1)
            self._reload()
        self.arrays.meta[_WIDTH] = max(width, 2)
