"""A summary of the values' order by slot, after Greenwald and Khanna. It serves APPROX_PERCENTILE.

The rank of a value v is how many rows are at most v. An entry is (v, g, same, spread): v's rank is at least the
sum of g up to here and at most `spread` more, and `same` rows are known to equal v. So between the entry before
and v there may be GAP = g - same + spread ranks that the summary does not tell apart. No gap passes
2 * (n // accuracy), so some entry is within n // accuracy ranks of any rank; below `accuracy` rows nothing is
forgotten. Merging adds gaps as it adds rows: the bound holds for what was merged, in whatever order, too.

A new value is in its successor's gap and has the same. When as many as `accuracy` have come, entries are
dropped where the bound allows, their g going to the successor; the first and the last stay. Frequent values stay
too, for their rows count in g: values that are few are all there, with their exact ranks.

There are fewer than 2 * accuracy entries where rows come in random, rising or falling order. The most that was
found, of rows that close in on a value from both sides, is about accuracy * log2(n / accuracy) / 2. What was merged
leaves less room to drop: it may have as many as its parts had together, until more rows come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.blocks import (
    INNER,
    STRIDE,
    USED,
    Tree,
    block_level,
    block_rank,
    compare,
)
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, import_word
from aggloom.runtime.storage.tree import (
    TreeView,
    tree_beside,
    tree_clear,
    tree_end,
    tree_entry,
    tree_remove,
    tree_start,
    tree_step,
)

_SHORTEST_PERIOD = 32
G, SAME, SPREAD = 1, 2, 3


class Quantiles(NamedTuple):
    """`tree`: the entries; by slot `rows`, and `fresh`: new entries since the last were dropped. `meta`: accuracy."""

    tree: Tree
    rows: Array  # int64[slots]
    fresh: Array  # int64[slots]
    meta: Array  # int64[1]


@kernel
def _gap(tree: Tree, entry: int) -> int:
    """The ranks that are not distinguished before an entry; 0 for no entry."""
    if entry == 0:
        return 0
    return tree.heap[entry + G] - tree.heap[entry + SAME] + tree.heap[entry + SPREAD]


@kernel
def quantiles_accumulate(
    view: Quantiles, pool: PoolArrays, pooled: bool, slot: int, word: int
) -> None:
    tree = view.tree
    entry = tree_entry(tree, pool, pooled, pooled, slot, word)
    if tree.heap[entry + G] == 0:
        # Every rank that its successor's gap has may be the new value's.
        after = tree_beside(tree, pool, pooled, slot, word, 1)
        tree.heap[entry + SPREAD] = _gap(tree, after)
        view.fresh[slot] += 1
    tree.heap[entry + G] += 1
    tree.heap[entry + SAME] += 1
    view.rows[slot] += 1
    _compress(view, pool, pooled, slot)


@kernel
def _compress(view: Quantiles, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Drop entries if a period is over."""
    # A period is never short: dropping walks over all entries.
    if view.fresh[slot] < max(view.meta[0], _SHORTEST_PERIOD):
        return
    view.fresh[slot] = 0
    widest = 2 * (view.rows[slot] // view.meta[0])
    if widest > 0:
        _give_away(view.tree, slot, widest, pool, pooled)
        _drop(view.tree, pool, pooled, slot)


@kernel
def _give_away(tree: Tree, slot: int, widest: int, pool: PoolArrays, pooled: bool) -> None:
    """Give g to the successor, from the last entry on, where that leaves its gap within `widest`."""
    first = tree_end(tree, slot, 0)
    leaf, successor = tree_start(tree, slot, 1)
    leaf, entry = tree_step(tree, pool, pooled, slot, leaf, successor, side=0)
    while entry != 0 and entry != first:
        if tree.heap[entry + G] + _gap(tree, successor) <= widest:
            tree.heap[successor + G] += tree.heap[entry + G]
            # Taken out by _drop: the walk continues from its place.
            tree.heap[entry + G] = 0
        else:
            successor = entry
        leaf, entry = tree_step(tree, pool, pooled, slot, leaf, entry, side=0)


@kernel
def _find(tree: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int) -> tuple[int, int]:
    """The leaf and the entry of a word that is there."""
    stride = tree.meta[STRIDE]
    block = np.int64(tree.root[slot])
    while True:
        entry = block + 1 + (block_rank(tree, pool, pooled, block, word) - 1) * stride
        if block_level(tree, block) == 0:
            return block, entry
        block = tree.heap[entry + 1]


@kernel
def _drop(tree: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Take out the entries that gave their g away; the first is not one of them."""
    leaf, entry = tree_start(tree, slot, 0)
    while entry != 0:
        last_word = tree.heap[entry]
        leaf, entry = tree_step(tree, pool, pooled, slot, leaf, entry, side=1)
        if entry != 0 and tree.heap[entry + G] == 0:
            tree_remove(tree, pool, pooled, pooled, slot, tree.heap[entry])
            # Blocks may have moved: the walk starts again at the last word that stays.
            leaf, entry = _find(tree, pool, pooled, slot, last_word)


@kernel
def _take(
    view: Quantiles,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    next_entry: int,
    word: int,
    counts: tuple[int, int, int],
) -> None:
    """Add another summary's entry; `next_entry` is the first here that is not before it."""
    tree = view.tree
    spread = counts[2]
    if next_entry == 0 or tree.heap[next_entry] != word:
        # Rows of the gap here that it enters may precede or follow it.
        spread += _gap(tree, next_entry)
        view.fresh[slot] += 1
    entry = tree_entry(tree, pool, pooled, pooled, slot, word)
    tree.heap[entry + G] += counts[0]
    tree.heap[entry + SAME] += counts[1]
    tree.heap[entry + SPREAD] += spread


@kernel
def quantiles_merge(
    view: Quantiles,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Quantiles,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    """Add the other's rows; an empty slot becomes a copy, so that copying changes no later result."""
    tree, theirs = view.tree, other.tree
    is_copy = view.rows[slot] == 0
    leaf, entry = tree_start(theirs, other_slot, 0)
    ours = tree_end(tree, slot, 0)
    while entry != 0:
        word = theirs.heap[entry]
        if pooled:
            word = import_word(pool, other_pool, word)
        while ours != 0 and compare(pool, pooled, tree.heap[ours], word) < 0:
            # Rows of the other's gap may precede or follow this entry.
            tree.heap[ours + SPREAD] += _gap(theirs, entry)
            ours = tree_beside(tree, pool, pooled, slot, tree.heap[ours], 1)
        counts = theirs.heap[entry + G], theirs.heap[entry + SAME], theirs.heap[entry + SPREAD]
        _take(view, pool, pooled, slot, ours, word, counts=counts)
        # Looked up again by its word: entering one may have moved blocks.
        ours = tree_beside(tree, pool, pooled, slot, word, 1)
        leaf, entry = tree_step(theirs, other_pool, pooled, other_slot, leaf, entry, side=1)
    view.rows[slot] += other.rows[other_slot]
    # A copy drops its next entries when the original would.
    if is_copy:
        view.fresh[slot] = other.fresh[other_slot]
    _compress(view, pool, pooled, slot)


@kernel
def quantiles_clear(view: Quantiles, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Forget all values of a slot."""
    tree_clear(view.tree, pool, pooled, pooled, slot)
    view.rows[slot] = 0
    view.fresh[slot] = 0


@kernel
def quantiles_none(view: Quantiles, pool: PoolArrays, pooled: bool, slot: int) -> bool:
    return view.rows[slot] == 0


@cold_kernel
def summary_percentile(
    view: Quantiles, pool: PoolArrays, pooled: bool, slot: int, fraction: float
) -> int:
    """The smallest value whose rank is at least `fraction` of the rows, or one near it; 0 without rows.

    It is the first of the entries that can be off by the fewest ranks.
    """
    tree = view.tree
    # The rank that is asked for, from 1 on.
    target = np.int64(max(1.0, np.ceil(fraction * view.rows[slot])))
    best, least = np.int64(0), view.rows[slot] + 1
    below = np.int64(0)
    leaf, entry = tree_start(tree, slot, 0)
    while entry != 0 and least > 0 and below < target + least:
        rank = below + tree.heap[entry + G]
        # The rank may be as low as the first term says and as high as the second: the worse of both counts.
        error = max(target - rank, below + _gap(tree, entry) + 1 - target)
        if error < least:
            best, least = tree.heap[entry], error
        below = rank
        leaf, entry = tree_step(tree, pool, pooled, slot, leaf, entry, side=1)
    return best


class _Entries(TreeView):
    """Owner of the entries' tree, with room for dropping many at once."""

    def reserve(self, rows: int) -> None:
        """Room for `rows` more values, and for the smaller blocks that dropping entries moves the rest to.

        A move takes at most half of what it gives back, so all of them take no more than there is.
        """
        meta = self.arrays.meta
        after = int(meta[USED] + 2 * meta[INNER]) + rows * (self._block + self._block // 4)
        if 2 * after > len(self.arrays.heap):
            self.arena.resize(f"{self.name}.heap", 3 * after)
            self._reload()


class QuantilesView:
    """Owner of Quantiles in an arena, for ranks that are within rows / `width`."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        self._tree = _Entries(arena, f"{name}.tree", slots, 3)
        arena.array(f"{name}.rows", slots, "i8")
        arena.array(f"{name}.fresh", slots, "i8")
        arena.array(f"{name}.meta", 1, "i8")[0] = max(width, 1)

    @property
    def arrays(self) -> Quantiles:
        own = (self.arena.array(f"{self.name}.{a}", 0, "i8") for a in ("rows", "fresh", "meta"))
        return Quantiles(self._tree.arrays, *own)

    def check_restored(self, audit: Audit, slots: int, pooled: bool, by_bytes: bool) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are summaries of so many slots."""
        arrays = self.arrays
        audit.require_length(slots, self.name, arrays.rows, arrays.fresh)
        self._tree.check_restored(audit, slots, pooled, by_bytes)
        empty = arrays.tree.root == 0
        right = bool((arrays.rows[~empty] > 0).all() and (arrays.rows[empty] == 0).all())
        audit.require(right, self.name, "a summary without entries has rows")

    @property
    def live(self) -> int:
        """Entries in all slots."""
        return self._tree.live

    @property
    def is_airy(self) -> bool:
        return self._tree.is_airy

    def trim(self) -> None:
        """Give back the room that nothing has used yet."""
        self._tree.trim()

    def reserve_slots(self, slots: int) -> None:
        self._tree.reserve_slots(slots)
        for array in ("rows", "fresh"):
            self.arena.resize(f"{self.name}.{array}", slots)

    def affordable(self, rows: int) -> int:
        """Return the number of next rows to prepare for at once."""
        return self._tree.affordable(rows)

    def reserve(self, rows: int) -> None:
        """Room for `rows` more values."""
        self._tree.reserve(rows)

    def shrink(self) -> None:
        """Give the memory back when no value is left."""
        self._tree.shrink()
