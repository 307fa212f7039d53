"""Checks of restored trees: blocks that lie beside each other, entries in order, sums that add up."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.blocks import (
    INNER,
    LARGEST,
    LIVE,
    STAMP,
    STRIDE,
    USED,
    WEIGHED,
    Tree,
    block_length,
    block_level,
    block_order,
    block_size,
    compare,
)
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays

LEVELS = 24
"""No tree that fits into memory is higher; what walks over one has room for somewhat more."""
MOST = 1 << 48
"""Counts that are added up are smaller."""
_TIER = 60
_START = 1 << 32
FRAMES = 2 * LEVELS + 2
"""Blocks on the way down, and the entry of each that is next; then the sums below them."""


@kernel
def _is_block(tree: Tree, block: int, marks: Array) -> bool:
    """Tell whether a block begins at a place, in which no other does."""
    if block < 1 or block >= tree.meta[USED] or tree.heap[block] < 0 or marks[block] != 0:
        return False
    order, size = block_order(tree, block), block_size(tree, block)
    if order > LARGEST or block_level(tree, block) >= LEVELS:
        return False
    fits = block + block_length(tree, order) <= tree.meta[USED]
    return fits and 1 <= size <= 1 << order


@kernel
def _leaf_weight(tree: Tree, entry: int, last: int, by_arrival: bool) -> int:
    """Return the weight a leaf's entry must have; `last`: the entry before it, or 0. -1 where its count is none."""
    if by_arrival:
        begins = (
            last == 0
            or tree.heap[last] != tree.heap[entry]
            or tree.heap[last + 3] >> _TIER != tree.heap[entry + 3] >> _TIER
        )
        return 1 + _START if begins else 1
    count = tree.heap[entry + 1]
    return max(count, 0) if abs(count) < MOST else -1


@kernel
def check_blocks(
    tree: Tree,
    pool: PoolArrays,
    flags: tuple[bool, bool, bool],
    references: Array,
    marks: Array,
    path: Array,
    owners: Array,
) -> bool:
    """Tell whether all trees are sound: each block in one place, each word after the one before, each weight a sum.

    flags: words are ids of the pool; they are in the order of their bytes; those alike in that of their arrivals.
    marks: uint8[heap], zeros; set to the order + 1 of the block that begins there. path: int64[FRAMES, 2].
    owners: int64[words or 0, 2]; slot and entry of every word, in order.
    """
    pooled, by_bytes, by_arrival = flags
    stride, weighed = tree.meta[STRIDE], tree.meta[WEIGHED] != 0
    live, inner = np.int64(0), np.int64(0)
    for slot in range(len(tree.root)):
        root = np.int64(tree.root[slot])
        if root == 0:
            continue
        if not _is_block(tree, root, marks):
            return False
        depth, last, before = 0, np.int64(0), np.int64(0)
        path[0, 0], path[0, 1], path[LEVELS, 0] = root, 0, 0
        marks[root] = block_order(tree, root) + 1
        if block_level(tree, root) > 0:
            inner += block_length(tree, block_order(tree, root))
        while depth >= 0:
            block, at = path[depth, 0], path[depth, 1]
            level = block_level(tree, block)
            if at == block_size(tree, block):
                depth -= 1
                if depth >= 0:
                    total = path[LEVELS + depth + 1, 0]
                    entry = path[depth, 0] + 1 + (path[depth, 1] - 1) * stride
                    if weighed and tree.heap[entry + 2] != total:
                        return False
                    path[LEVELS + depth, 0] += total
                continue
            path[depth, 1] = at + 1
            entry = block + 1 + at * stride
            word = tree.heap[entry]
            if pooled:
                if word < 0 or word >= len(references) or pool.length[word] < 0:
                    return False
                references[word] += 1
            if before != 0:
                order = compare(pool, by_bytes, tree.heap[before], word)
                if by_arrival and order == 0:
                    order = np.int64(np.sign(tree.heap[before + 3] - tree.heap[entry + 3]))
                # What an inner entry says is the least below it, and may be there.
                if order > 0 or (order == 0 and before == last):
                    return False
            before = entry
            if level > 0:
                child = tree.heap[entry + 1]
                if not _is_block(tree, child, marks) or block_level(tree, child) != level - 1:
                    return False
                marks[child] = block_order(tree, child) + 1
                if level > 1:
                    inner += block_length(tree, block_order(tree, child))
                depth += 1
                path[depth, 0], path[depth, 1], path[LEVELS + depth, 0] = child, 0, 0
                continue
            if weighed:
                weight = _leaf_weight(tree, entry, last, by_arrival)
                if weight < 0 or tree.heap[entry + 2] != weight:
                    return False
                path[LEVELS + depth, 0] += weight
            if len(owners) > 0:
                if live == len(owners):
                    return False
                owners[live, 0], owners[live, 1] = slot, entry
            live += 1
            last = entry
    return live == tree.meta[LIVE] and inner == tree.meta[INNER]


@kernel
def check_free(tree: Tree, marks: Array) -> bool:
    """Tell whether free blocks, listed by size, and those of trees lie side by side; marks: of check_blocks."""
    for order in range(LARGEST + 1):
        length = block_length(tree, order)
        block = tree.free[order]
        while block != 0:
            if block < 1 or block > tree.meta[USED] - length or marks[block] != 0:
                return False
            marks[block] = order + 1
            block = tree.heap[block]
    end = np.int64(1)
    for at in range(1, tree.meta[USED]):
        if marks[at] != 0:
            if at < end:
                return False
            end = at + block_length(tree, np.int64(marks[at]) - 1)
    return True


def heads_are_right(tree: Tree, weighed: bool) -> bool:
    """Tell whether the numbers about a heap, which the checks go by, are in its bounds."""
    meta = tree.meta
    inside = 1 <= meta[USED] <= len(tree.heap) and 0 <= meta[LIVE] <= meta[USED]
    return bool(inside and meta[WEIGHED] == weighed and 0 <= meta[STAMP] < 1 << _TIER - 1)
