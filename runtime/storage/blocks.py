"""Blocks of B+trees: how entries lie in one array, and what happens to them one block at a time.

A block is a header and up to 32 entries; a leaf's entry is a word and its counts, an inner one's a word and a child:
all words in that child are at least it. Blocks come in six sizes, so that a slot with one value takes three words, and
an emptied block goes at once, so that every leaf shows something. Entries are named by their place in the array; 0 is
none.

A tree can be WEIGHED: then a leaf's entry has a weight as its second count, and an inner one the sum of the
weights below it, at the same distance from the word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, compare_bytes, hold, release

USED, LIVE, INNER, STRIDE, WEIGHED, STAMP = range(6)
LARGEST = 5
LIMIT = 1 << LARGEST


class Tree(NamedTuple):
    """`heap`: blocks; by slot `root`: a block; by size `free`: a list of blocks, each naming the next.

    queue: changes that wait (queued_tree.py), which only some trees have; it is empty between kernels.
    """

    heap: Array  # int64[words]
    root: Array  # int64[slots]
    free: Array  # int64[LARGEST + 1]
    meta: Array  # int64[6]
    queue: Array  # int64[1] or int64[QUEUE_LENGTH]

    @property
    def fixed_fields(self) -> tuple[str, ...]:
        """Fields whose length says nothing of the work: they are as long while nothing waits."""
        return ("queue",)


@kernel
def block_size(tree: Tree, block: int) -> int:
    # The header is one number: the size in its lowest byte, the order in the next one, the level above.
    return tree.heap[block] & 0xFF


@kernel
def block_order(tree: Tree, block: int) -> int:
    """The binary logarithm of a block's capacity."""
    return (tree.heap[block] >> 8) & 0xFF


@kernel
def block_level(tree: Tree, block: int) -> int:
    """0 for a leaf."""
    return tree.heap[block] >> 16


@kernel
def block_length(tree: Tree, order: int) -> int:
    return 1 + (tree.meta[STRIDE] << order)


@kernel
def block_weight(tree: Tree, block: int) -> int:
    """The sum of a block's weights, in a weighed tree."""
    stride = tree.meta[STRIDE]
    total = np.int64(0)
    for j in range(block_size(tree, block)):
        # A block's header, then the entry's word and its child or count.
        total += tree.heap[block + 3 + j * stride]
    return total


@kernel
def allocate_block(tree: Tree, order: int, level: int) -> int:
    """An empty block; room was reserved."""
    # Freed blocks are used again for the same size: none is ever split or joined.
    block = tree.free[order]
    if block != 0:
        tree.free[order] = tree.heap[block]
    else:
        block = tree.meta[USED]
        tree.meta[USED] += block_length(tree, order)
    # One row may double or split inner blocks anywhere: TreeView.reserve has to know how much all of them take.
    if level > 0:
        tree.meta[INNER] += block_length(tree, order)
    tree.heap[block] = (order << 8) | (level << 16)
    return block


@kernel
def give_back_block(tree: Tree, block: int) -> None:
    order = block_order(tree, block)
    if block_level(tree, block) > 0:
        tree.meta[INNER] -= block_length(tree, order)
    # The header becomes the link to the next free block of the size.
    tree.heap[block] = tree.free[order]
    tree.free[order] = block


@kernel
def copy_numbers(tree: Tree, source: int, target: int, words: int) -> None:
    for j in range(words):
        tree.heap[target + j] = tree.heap[source + j]


@kernel
def link_block(tree: Tree, slot: int, parent: int, block: int) -> None:
    """Let the parent entry (0: the root) point to a block."""
    if parent == 0:
        tree.root[slot] = block
    else:
        tree.heap[parent + 1] = block


@cold_kernel
def move_block(tree: Tree, slot: int, parent: int, block: int, order: int) -> int:
    """Put a block's entries into a block of another size."""
    new = allocate_block(tree, order, block_level(tree, block))
    size = block_size(tree, block)
    tree.heap[new] |= size
    copy_numbers(tree, block + 1, new + 1, size * tree.meta[STRIDE])
    give_back_block(tree, block)
    link_block(tree, slot, parent, new)
    return new


@kernel
def compare(pool: PoolArrays, by_bytes: bool, a: int, b: int) -> int:
    """-1, 0, 1 as word `a` comes before, with or after word `b`."""
    if by_bytes:
        return compare_bytes(pool, a, b)
    if a == b:
        return 0
    return -1 if a < b else 1


@kernel
def block_rank(tree: Tree, pool: PoolArrays, by_bytes: bool, block: int, word: int) -> int:
    """Return the number of words of a block that are not after `word`."""
    stride = tree.meta[STRIDE]
    low, left = np.int64(0), block_size(tree, block)
    if not by_bytes:
        # One branch to mispredict: a third faster than halving, whatever the size.
        while low < left and tree.heap[block + 1 + low * stride] <= word:
            low += 1
        return low
    while left > 0:
        half = (left + 1) >> 1
        after = compare(pool, by_bytes, tree.heap[block + 1 + (low + half - 1) * stride], word) > 0
        low = low if after else low + half
        left = half - 1 if after else left - half
    return low


@kernel
def insert_entry(
    tree: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    parent: int,
    block: int,
    at: int,
    word: int,
) -> int:
    """A new entry at a place of a block that is below the limit; its counts are 0."""
    if block_size(tree, block) == 1 << block_order(tree, block):
        block = move_block(tree, slot, parent, block, block_order(tree, block) + 1)
    stride = tree.meta[STRIDE]
    entry = block + 1 + at * stride
    end = block + 1 + block_size(tree, block) * stride
    # From the end on, because the places overlap.
    for j in range(end - 1, entry - 1, -1):
        tree.heap[j + stride] = tree.heap[j]
    tree.heap[entry] = word
    for j in range(entry + 1, entry + stride):
        tree.heap[j] = 0
    tree.heap[block] += 1
    if pooled:
        hold(pool, word)
    return entry


@cold_kernel
def grow_root(tree: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Make sure that the root is there and not full."""
    root = np.int64(tree.root[slot])
    if root == 0:
        tree.root[slot] = allocate_block(tree, 0, 0)
    elif block_size(tree, root) == LIMIT:
        top = allocate_block(tree, 1, block_level(tree, root) + 1)
        tree.root[slot] = top
        entry = insert_entry(tree, pool, pooled, slot, 0, top, at=0, word=tree.heap[root + 1])
        tree.heap[entry + 1] = root
        if tree.meta[WEIGHED] != 0:
            tree.heap[entry + 2] = block_weight(tree, root)


@kernel
def lower_entry(tree: Tree, pool: PoolArrays, pooled: bool, entry: int, word: int) -> None:
    """Let a smaller word stand for a child that will hold it."""
    if pooled:
        # First: of a word in place of itself the count must not come to 0 in between.
        hold(pool, word)
        release(pool, tree.heap[entry])
    tree.heap[entry] = word


@kernel
def erase_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, slot: int, parent: int, block: int, at: int
) -> None:
    """Take one of several entries out of a block, and shrink what became too large."""
    stride = tree.meta[STRIDE]
    entry = block + 1 + at * stride
    end = block + 1 + block_size(tree, block) * stride
    if pooled:
        release(pool, tree.heap[entry])
    copy_numbers(tree, entry + stride, entry, end - entry - stride)
    tree.heap[block] -= 1
    # At a quarter, not at half: an entry that comes and goes does not move the block each time.
    if block_size(tree, block) << 2 <= 1 << block_order(tree, block):
        move_block(tree, slot, parent, block, block_order(tree, block) - 1)
    root = np.int64(tree.root[slot])
    # A root with one child only makes every way longer.
    while block_level(tree, root) > 0 and block_size(tree, root) == 1:
        tree.root[slot] = tree.heap[root + 2]
        if pooled:
            release(pool, tree.heap[root + 1])
        give_back_block(tree, root)
        root = np.int64(tree.root[slot])


@kernel
def edge_entry(tree: Tree, leaf: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry of a leaf."""
    return leaf + 1 + (block_size(tree, leaf) - 1) * tree.meta[STRIDE] * side


@kernel
def edge_leaf(tree: Tree, block: int, side: int) -> int:
    """The first (side 0) or last (side 1) leaf beneath a block, or 0 beneath none."""
    while block != 0 and block_level(tree, block) > 0:
        block = tree.heap[edge_entry(tree, block, side) + 1]
    return block


@kernel
def outermost_entry(tree: Tree, block: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry beneath a block."""
    return edge_entry(tree, edge_leaf(tree, block, side), side)
