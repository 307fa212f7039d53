"""Counts of live values by bit and slot. They serve BIT_AND and BIT_OR under retraction.

Counts may be negative while a retraction is ahead of its row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays


class Bits(NamedTuple):
    """`counts` by slot and bit; the column after the last bit counts the values themselves."""

    counts: Array  # int64[slots, bits + 1]


@kernel
def _add(view: Bits, slot: int, word: int, change: int) -> None:
    bits = view.counts.shape[1] - 1
    # A shift of a negative word brings its sign along: these are the bits of its two's complement.
    for b in range(bits):
        view.counts[slot, b] += change * ((word >> b) & 1)
    view.counts[slot, bits] += change


@kernel
def bits_accumulate(view: Bits, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    _add(view, slot, word, 1)


@kernel
def bits_retract(view: Bits, pool: PoolArrays, pooled: bool, slot: int, word: int) -> None:
    _add(view, slot, word, -1)


@kernel
def bits_merge(
    view: Bits,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Bits,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    for b in range(view.counts.shape[1]):
        view.counts[slot, b] += other.counts[other_slot, b]


@kernel
def bits_clear(view: Bits, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    for b in range(view.counts.shape[1]):
        view.counts[slot, b] = 0


@kernel
def bits_none(view: Bits, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    """Tell whether no value is there; those without a bit count."""
    # Below 0 while retractions are ahead of their rows.
    return view.counts[slot, view.counts.shape[1] - 1] <= 0


@kernel
def _add_sign(bits: int, width: int) -> int:
    """The number whose two's complement in `width` bits this is."""
    # To the left end and back: the sign bit fills what is left of it.
    return (bits << (64 - width)) >> (64 - width)


@kernel
def all_bits(view: Bits, slot: int, count: int) -> int:
    """The bits that `count` values have: all of them, where `count` is how many are there."""
    width = view.counts.shape[1] - 1
    bits = np.int64(0)
    for b in range(width):
        bits |= np.int64(view.counts[slot, b] == count) << b
    return _add_sign(bits, width)


@kernel
def any_bits(view: Bits, slot: int) -> int:
    """The bits that some value has."""
    width = view.counts.shape[1] - 1
    bits = np.int64(0)
    for b in range(width):
        bits |= np.int64(view.counts[slot, b] > 0) << b
    return _add_sign(bits, width)


class FixedView:
    """Owner of arrays with one row a slot, which do not grow with the values.

    arrays_type: the tuple that kernels take, of the arrays called `by_slot` and of `scratch`, which is no state.
    """

    live = 0
    is_airy = False

    def __init__(
        self, arena: Arena, name: str, arrays_type: Any, by_slot: tuple[str, ...], *scratch: Array
    ) -> None:
        self.arena, self.name = arena, name
        self._arrays_type, self._by_slot, self._scratch = arrays_type, by_slot, scratch
        self._reload()

    def _reload(self) -> None:
        by_slot = (self.arena.array(f"{self.name}.{array}", 0, "i8") for array in self._by_slot)
        self.arrays = self._arrays_type(*by_slot, *self._scratch)

    def check_restored(self, audit: Audit, slots: int, pooled: bool, by_bytes: bool) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot have a row for each slot."""
        arrays = (getattr(self.arrays, array) for array in self._by_slot)
        audit.require_length(slots, self.name, *arrays)

    def reserve_slots(self, slots: int) -> None:
        for array in self._by_slot:
            self.arena.resize(f"{self.name}.{array}", slots)
        self._reload()

    def affordable(self, rows: int) -> int:
        """Return the number of next rows to prepare for at once."""
        return rows

    def reserve(self, rows: int) -> None:
        """Values need no room."""

    def trim(self) -> None:
        """Nothing was reserved."""

    def shrink(self) -> None:
        """Slots keep their rows."""


class BitsView(FixedView):
    """Owner of Bits in an arena; `width` bits a value."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        arena.array(f"{name}.counts", slots, "i8", width + 1)
        super().__init__(arena, name, Bits, ("counts",))
