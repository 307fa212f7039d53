"""Trees of (word, count) whose changes wait: noted row by row, settled many at a time.

Settling goes slot by slot. A slot's changes are netted and in the order of their words, so that each leaf that they
concern is looked up once and written once.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.blocks import (
    LIMIT,
    LIVE,
    Tree,
    allocate_block,
    block_level,
    block_order,
    block_rank,
    block_size,
    give_back_block,
    grow_root,
    lower_entry,
    move_block,
)
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.netting import (
    CHANGES,
    NET,
    NET_CHANGES,
    QUEUE,
    QUEUE_LENGTH,
    SLOTS,
    WORDS,
    net,
)
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.storage.tree import (
    TreeView,
    drop_entry,
    make_entry,
    split_child,
    tree_clear,
    tree_find,
)

_ENTRY = 2
_HALF = LIMIT >> 1


@kernel
def queue_change(
    tree: Tree, pool: PoolArrays, pooled: bool, slot: int, word: int, change: int
) -> None:
    """Add to the count of a word, or forget all words of the slot if the change is 0, when it is settled."""
    if tree.queue[0] == QUEUE:
        _settle(tree, pool, pooled)
    at = tree.queue[0]
    tree.queue[SLOTS + at] = slot
    tree.queue[WORDS + at] = word
    tree.queue[CHANGES + at] = change
    tree.queue[0] = at + 1


@kernel
def settle(tree: Tree, pool: PoolArrays, pooled: bool) -> None:
    """Make the changes that wait."""
    if tree.queue[0] > 0:
        _settle(tree, pool, pooled)


@cold_kernel
def _settle(tree: Tree, pool: PoolArrays, pooled: bool) -> None:
    """Make them slot by slot."""
    queue = tree.queue
    waiting = queue[0]
    queue[0] = 0
    begin = np.int64(0)
    while begin < waiting:
        slot, end = queue[SLOTS + begin], begin
        while end < waiting and queue[SLOTS + end] == slot:
            if queue[CHANGES + end] == 0:
                _forget(tree, pool, pooled, slot)
                begin = end + 1
            elif pooled:
                _change(tree, pool, slot, queue[WORDS + end], queue[CHANGES + end])
            end += 1
        if not pooled:
            _apply(tree, pool, slot, net(queue, begin, end - begin))
        begin = end


@kernel
def _forget(tree: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    root = np.int64(tree.root[slot])
    if root == 0:
        return
    if pooled or block_level(tree, root) > 0:
        tree_clear(tree, pool, pooled, pooled, slot)
        return
    tree.meta[LIVE] -= block_size(tree, root)
    give_back_block(tree, root)
    tree.root[slot] = 0


@cold_kernel
def _change(tree: Tree, pool: PoolArrays, slot: int, word: int, change: int) -> None:
    """Change the count of a pooled word; an entry whose count becomes 0 goes."""
    entry = tree_find(tree, pool, True, slot, word)
    if entry == 0:
        entry = make_entry(tree, pool, True, True, slot, word)
    tree.heap[entry + 1] += change
    if tree.heap[entry + 1] == 0:
        drop_entry(tree, pool, True, True, slot, word)


@kernel
def _apply(tree: Tree, pool: PoolArrays, slot: int, count: int) -> None:
    """Make the netted changes of a slot."""
    k = np.int64(0)
    while k < count:
        # The leaf of the next word: where it hangs, the first word of the leaf after it, whether there is none.
        parent, leaf, bound, last, below = np.int64(0), np.int64(tree.root[slot]), 0, True, False
        if leaf == 0:
            leaf = allocate_block(tree, _order_of(min(count - k, LIMIT)), 0)
            tree.root[slot] = leaf
        while block_level(tree, leaf) > 0:
            rank = block_rank(tree, pool, False, leaf, tree.queue[NET + k])
            below = below or rank == 0
            rank = max(rank, 1)
            if rank < block_size(tree, leaf):
                bound, last = tree.heap[leaf + 1 + rank * _ENTRY], False
            parent = leaf + 1 + (rank - 1) * _ENTRY
            leaf = tree.heap[parent + 1]
        size = block_size(tree, leaf)
        room = 0 if below else LIMIT - size
        first, at, fresh, gone = k, np.int64(0), np.int64(0), np.int64(0)
        while k < count:
            word, change = tree.queue[NET + k], tree.queue[NET_CHANGES + k]
            if not last and word >= bound:
                break
            while at < size and tree.heap[leaf + 1 + at * _ENTRY] < word:
                at += 1
            if at < size and tree.heap[leaf + 1 + at * _ENTRY] == word:
                entry = leaf + 1 + at * _ENTRY
                tree.heap[entry + 1] += change
                gone += tree.heap[entry + 1] == 0
            else:
                if fresh == room:
                    break
                # New words move together.
                tree.queue[NET + first + fresh] = word
                tree.queue[NET_CHANGES + first + fresh] = change
                fresh += 1
            k += 1
        if gone + fresh > 0:
            _rewrite(tree, pool, slot, parent, leaf, first, fresh, gone)
        if k < count and (last or tree.queue[NET + k] < bound):
            more = k + _HALF < count and (last or tree.queue[NET + k + _HALF] < bound)
            _make_room(tree, pool, slot, tree.queue[NET + k], more)


@kernel
def _order_of(size: int) -> int:
    """The least order of a block with room for so many entries."""
    order = np.int64(0)
    while 1 << order < size:
        order += 1
    return order


@kernel
def _rewrite(
    tree: Tree,
    pool: PoolArrays,
    slot: int,
    parent: int,
    leaf: int,
    first: int,
    fresh: int,
    gone: int,
) -> None:
    """Take the entries of a leaf without a count out of it, and put in the netted words from `first` on."""
    size = block_size(tree, leaf)
    left = size - gone + fresh
    if left == 0:
        # One stays to be found by, and goes with every block that this empties.
        tree.meta[LIVE] -= gone - 1
        tree.heap[leaf] -= gone - 1
        drop_entry(tree, pool, False, False, slot, tree.heap[leaf + 1])
        return
    if gone > 0:
        to = leaf + 1
        for entry in range(leaf + 1, leaf + 1 + size * _ENTRY, _ENTRY):
            tree.heap[to] = tree.heap[entry]
            tree.heap[to + 1] = tree.heap[entry + 1]
            to += _ENTRY * (tree.heap[entry + 1] != 0)
    tree.meta[LIVE] += fresh - gone
    tree.heap[leaf] -= gone
    order = block_order(tree, leaf)
    fitting = max(order, _order_of(left))
    while gone > 0 and left << 2 <= 1 << fitting:
        fitting -= 1
    if fitting != order:
        leaf = move_block(tree, slot, parent, leaf, fitting)
    tree.heap[leaf] += fresh
    old = leaf + 1 + (size - gone - 1) * _ENTRY
    to = leaf + 1 + (left - 1) * _ENTRY
    for k in range(first + fresh - 1, first - 1, -1):
        word = tree.queue[NET + k]
        while old > leaf and tree.heap[old] > word:
            tree.heap[to] = tree.heap[old]
            tree.heap[to + 1] = tree.heap[old + 1]
            old -= _ENTRY
            to -= _ENTRY
        tree.heap[to] = word
        tree.heap[to + 1] = tree.queue[NET_CHANGES + k]
        to -= _ENTRY


@cold_kernel
def _make_room(tree: Tree, pool: PoolArrays, slot: int, word: int, more: bool) -> None:
    """Split the full blocks on the way to a new word, and let it stand for the blocks that will hold it.

    Blocks are split in halves, but where half a block of words and `more` come, or words come in order at the end of
    the tree: there where they go, so that they leave full blocks behind.
    """
    grow_root(tree, pool, False, slot)
    parent, block, edge = np.int64(0), np.int64(tree.root[slot]), True
    while block_level(tree, block) > 0:
        rank = block_rank(tree, pool, False, block, word)
        if rank == 0:
            rank = np.int64(1)
            lower_entry(tree, pool, False, block + 1, word)
        at = rank - 1
        child = tree.heap[block + 2 + at * _ENTRY]
        last = edge and rank == block_size(tree, block)
        if block_size(tree, child) == LIMIT:
            kept = block_rank(tree, pool, False, child, word)
            ends = last and kept == LIMIT
            if not ends and not (more and block_level(tree, child) == 0):
                kept = np.int64(_HALF)
            kept = min(max(kept, 1), LIMIT - 1)
            block = split_child(tree, pool, False, slot, parent, block, at, kept)
        else:
            parent, block, edge = block + 1 + at * _ENTRY, child, last


class QueuedTreeView(TreeView):
    """Owner of a tree of words with a count each, whose changes wait."""

    queue_length = QUEUE_LENGTH
