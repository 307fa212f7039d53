"""A B+tree by slot: word -> counts, in order. The multiset and the ordered view are made of it.

Blocks are those of blocks.py; full ones are split on the way down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array, airy
from aggloom.runtime.storage.blocks import (
    INNER,
    LARGEST,
    LIMIT,
    LIVE,
    STRIDE,
    USED,
    WEIGHED,
    Tree,
    allocate_block,
    block_level,
    block_rank,
    block_size,
    block_weight,
    copy_numbers,
    edge_entry,
    edge_leaf,
    erase_entry,
    give_back_block,
    grow_root,
    insert_entry,
    lower_entry,
    outermost_entry,
)
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, release
from aggloom.runtime.storage.tree_audit import FRAMES, check_blocks, check_free, heads_are_right

if TYPE_CHECKING:
    from aggloom.runtime.storage.audit import Audit

META_SIZE = 6
_FIRST_WORDS = 64
_SPARE_WORDS = 1 << 15


@cold_kernel
def split_child(
    tree: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    parent: int,
    block: int,
    at: int,
    left_count: int,
) -> int:
    """Give all but the first `left_count` entries of a full child to a new sibling; its block, which may have moved."""
    stride = tree.meta[STRIDE]
    child = tree.heap[block + 2 + at * stride]
    # Room was reserved before the kernel, so that the heap does not move: places in it stay right throughout.
    right = allocate_block(tree, LARGEST, block_level(tree, child))
    moved = LIMIT - left_count
    copy_numbers(tree, child + 1 + left_count * stride, right + 1, moved * stride)
    tree.heap[right] |= moved
    tree.heap[child] -= moved
    # The parent has room for it: full blocks are split on the way down, before their children.
    entry = insert_entry(
        tree, pool, pooled, slot, parent, block, at=at + 1, word=tree.heap[right + 1]
    )
    tree.heap[entry + 1] = right
    if tree.meta[WEIGHED] != 0:
        weight = block_weight(tree, right)
        tree.heap[entry + 2] = weight
        # The child's own entry has counted both halves until now.
        tree.heap[entry - stride + 2] -= weight
    # The insertion may have moved the parent into a larger block.
    return entry - 1 - (at + 1) * stride


@kernel
def tree_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> int:
    """The entry of a word, made with counts of 0 if there is none."""
    block = np.int64(tree.root[slot])
    if block == 0 or block_size(tree, block) == LIMIT:
        grow_root(tree, pool, pooled, slot)
        block = np.int64(tree.root[slot])
    stride = tree.meta[STRIDE]
    parent = np.int64(0)
    rank = block_rank(tree, pool, by_bytes, block, word)
    while block_level(tree, block) > 0:
        if rank == 0:
            # The word is less than all that are here: the first child takes it, and its entry has to say the least
            # word below it.
            rank = np.int64(1)
            lower_entry(tree, pool, pooled, block + 1, word)
        at = rank - 1
        child = tree.heap[block + 2 + at * stride]
        if block_size(tree, child) == LIMIT:
            block = split_child(
                tree, pool, pooled, slot, parent, block, at=at, left_count=LIMIT >> 1
            )
        else:
            parent = block + 1 + at * stride
            block = child
        rank = block_rank(tree, pool, by_bytes, block, word)
    # Of the words that are not after it only the last can be the same.
    if rank > 0:
        entry = block + 1 + (rank - 1) * stride
        if tree.heap[entry] == word:
            return entry
    tree.meta[LIVE] += 1
    return insert_entry(tree, pool, pooled, slot, parent, block, at=rank, word=word)


@kernel
def tree_find(tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int) -> int:
    """The entry of a word, or 0."""
    stride = tree.meta[STRIDE]
    block = np.int64(tree.root[slot])
    while block != 0:
        rank = block_rank(tree, pool, by_bytes, block, word)
        # The first word of a block is the least below it: a lesser one is nowhere.
        if rank == 0:
            return np.int64(0)
        entry = block + 1 + (rank - 1) * stride
        if block_level(tree, block) == 0:
            return entry if tree.heap[entry] == word else np.int64(0)
        block = tree.heap[entry + 1]
    return block


@cold_kernel
def make_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> int:
    """Return the entry like `tree_entry`, where a word is rarely new."""
    return tree_entry(tree, pool, pooled, by_bytes, slot, word)


@kernel
def tree_remove(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> None:
    """Take out the entry of a word that is there, with every block that this empties; its weight is 0."""
    stride = tree.meta[STRIDE]
    parent = np.int64(0)
    block = np.int64(tree.root[slot])
    # The lowest block on the way that keeps an entry, and the head of the chain that goes.
    keeper, keeper_parent, keeper_at, chain = np.int64(0), np.int64(0), np.int64(0), block
    while block != 0:
        at = block_rank(tree, pool, by_bytes, block, word) - 1
        entry = block + 1 + at * stride
        below = tree.heap[entry + 1] if block_level(tree, block) > 0 else np.int64(0)
        if block_size(tree, block) > 1:
            keeper, keeper_parent, keeper_at, chain = block, parent, at, below
        parent, block = entry, below
    # Each block of the chain has one entry, which leads to the word: without it the block would be empty.
    while chain != 0:
        below = tree.heap[chain + 2] if block_level(tree, chain) > 0 else np.int64(0)
        if pooled:
            # Inner entries hold their words, too.
            release(pool, tree.heap[chain + 1])
        give_back_block(tree, chain)
        chain = below
    tree.meta[LIVE] -= 1
    if keeper == 0:
        tree.root[slot] = 0
    else:
        erase_entry(tree, pool, pooled, slot, keeper_parent, keeper, at=keeper_at)


@cold_kernel
def drop_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> None:
    """Remove like `tree_remove`, where a word rarely goes."""
    tree_remove(tree, pool, pooled, by_bytes, slot, word)


@kernel
def tree_end(tree: Tree, slot: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry of a slot, or 0."""
    root = np.int64(tree.root[slot])
    return outermost_entry(tree, root, side) if root != 0 else np.int64(0)


@kernel
def tree_beside(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int, side: int
) -> int:
    """The nearest entry before (side 0) or after (side 1) a word that is there, or 0."""
    stride = tree.meta[STRIDE]
    block = np.int64(tree.root[slot])
    neighbour = np.int64(0)
    while True:
        at = block_rank(tree, pool, by_bytes, block, word) - 1
        beside = at + 2 * side - 1
        inside = 0 <= beside < block_size(tree, block)
        if block_level(tree, block) == 0:
            if inside:
                return block + 1 + beside * stride
            return outermost_entry(tree, neighbour, 1 - side) if neighbour != 0 else np.int64(0)
        if inside:
            # Deeper blocks are nearer: the last one on the way down that has a neighbour has the nearest.
            neighbour = tree.heap[block + 2 + beside * stride]
        block = tree.heap[block + 2 + at * stride]


@kernel
def tree_start(tree: Tree, slot: int, side: int) -> tuple[int, int]:
    """Return the start of a walk: the first (side 0) or last (side 1) leaf and its outer entry, or zeros."""
    leaf = edge_leaf(tree, np.int64(tree.root[slot]), side)
    return leaf, edge_entry(tree, leaf, side) if leaf != 0 else np.int64(0)


@kernel
def tree_step(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, leaf: int, entry: int, side: int
) -> tuple[int, int]:
    """Walk on, before (side 0) or after (side 1) an entry of a leaf: leaf and entry, or zeros at the end.

    Only from one leaf to the next it goes down from the root, so a walk costs a small part of `tree_beside`.
    """
    stride = tree.meta[STRIDE]
    if entry != edge_entry(tree, leaf, side):
        return leaf, entry + (2 * side - 1) * stride
    word = tree.heap[entry]
    block = np.int64(tree.root[slot])
    neighbour = np.int64(0)
    while block != leaf:
        at = block_rank(tree, pool, by_bytes, block, word) - 1
        beside = at + 2 * side - 1
        if 0 <= beside < block_size(tree, block):
            neighbour = tree.heap[block + 2 + beside * stride]
        block = tree.heap[block + 2 + at * stride]
    leaf = edge_leaf(tree, neighbour, 1 - side)
    return leaf, edge_entry(tree, leaf, 1 - side) if leaf != 0 else np.int64(0)


@cold_kernel
def tree_clear(tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int) -> None:
    """Forget all words of a slot."""
    while tree.root[slot] != 0:
        # From the end, where taking out an entry moves no other one.
        last = tree.heap[tree_end(tree, slot, 1)]
        tree_remove(tree, pool, pooled, by_bytes, slot, last)


class TreeView:
    """Owner of a Tree in an arena; `width` counts by word."""

    queue_length = 1
    weighed = False

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        self._queue = np.zeros(self.queue_length, np.int64)
        self._block = 1 + LIMIT * (1 + width)
        self._words_of_row = self._block + self._block // 4
        arena.array(f"{name}.heap", _FIRST_WORDS, "i8")
        arena.array(f"{name}.root", slots, "i8")
        arena.array(f"{name}.free", LARGEST + 1, "i8")
        meta = arena.array(f"{name}.meta", META_SIZE, "i8")
        if len(meta) < META_SIZE:
            meta = arena.resize(f"{name}.meta", META_SIZE)
        meta[STRIDE] = 1 + width
        # Place 0 means none, so that the first block is at 1.
        meta[USED] = max(meta[USED], 1)
        self._reload()

    def _reload(self) -> None:
        saved_arrays = Tree._fields[:-1]
        arrays = [self.arena.array(f"{self.name}.{array}", 0, "i8") for array in saved_arrays]
        self.arrays = Tree(*[*arrays, self._queue])

    def check_restored(
        self, audit: Audit, slots: int, pooled: bool, by_bytes: bool, by_arrival: bool = False
    ) -> Array:
        """Raise StateCorruptError unless the arrays of a snapshot are trees of so many slots.

        pooled, by_bytes: whether words are ids of the pool, and in the order of their bytes. by_arrival: those alike
        are in the order of their arrivals; then slot and entry of every word are returned (int64[n, 2]).
        """
        tree, name = self.arrays, self.name
        audit.require_length(slots, name, tree.root)
        audit.require(len(tree.free) == LARGEST + 1, name, "its lists of free blocks are others")
        audit.require(heads_are_right(tree, self.weighed), name, "its numbers are out of bounds")
        owners = np.zeros((int(tree.meta[LIVE]) if by_arrival else 0, 2), np.int64)
        marks, path = np.zeros(len(tree.heap), np.uint8), np.zeros((FRAMES, 2), np.int64)
        flags = pooled, by_bytes, by_arrival
        right = check_blocks(
            tree, audit.pool.arrays, flags, audit.references, marks, path, owners=owners
        )
        audit.require(right, name, "its blocks are no trees")
        audit.require(check_free(tree, marks), name, "its blocks lie in one another")
        return owners

    @property
    def live(self) -> int:
        """Words in all slots."""
        return int(self.arrays.meta[LIVE])

    @property
    def is_airy(self) -> bool:
        return airy(self.live * int(self.arrays.meta[STRIDE]), int(self.arrays.meta[USED]))

    def trim(self) -> None:
        """Give back the room that nothing has used yet."""
        self.arena.resize(f"{self.name}.heap", max(_FIRST_WORDS, int(self.arrays.meta[USED])))
        self._reload()

    def reserve_slots(self, slots: int) -> None:
        self.arena.resize(f"{self.name}.root", slots)
        self._reload()

    def affordable(self, rows: int) -> int:
        """Return the number of next rows to prepare for at once: those with room, or a quarter of the used words."""
        spare = max(_SPARE_WORDS, int(self.arrays.meta[USED]) // 4) // self._block
        room = (len(self.arrays.heap) - self._needed_words()) // self._words_of_row
        return min(rows, max(spare, room))

    def reserve(self, rows: int) -> None:
        """Room for `rows` more words: each may fill a new leaf, and any inner block may double or split."""
        need = self._needed_words() + rows * self._words_of_row
        if need > len(self.arrays.heap):
            # By at least half: room is asked for slot by slot where a large state is merged into a small one.
            grown = len(self.arrays.heap) * 3 // 2
            used = int(self.arrays.meta[USED])
            self.arena.resize(f"{self.name}.heap", max(need, 2 * used, grown))
            self._reload()

    def _needed_words(self) -> int:
        """The words that are taken before any row comes: those in use, for inner blocks, and for rows that wait."""
        meta = self.arrays.meta
        # What waits there still was left by a kernel that failed.
        return int(meta[USED] + 2 * meta[INNER]) + int(self._queue[0]) * self._words_of_row

    def shrink(self) -> None:
        """Give the memory back when no word is left."""
        if self.live == 0 and len(self.arrays.heap) > _FIRST_WORDS:
            self.arena.replace(f"{self.name}.heap", _FIRST_WORDS)
            self.arrays.free[:] = 0
            self.arrays.meta[USED] = 1
            self._reload()
