"""Trees of (word, count) whose changes are queued row by row and flushed many at a time.

A flush goes slot by slot. A slot's changes are netted and in the order of their words, so that each leaf that they
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
    move_block,
)
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.netting import (
    CHANGES,
    MERGED,
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
    """Queue a change of a word's count; a change of 0 removes all words of the slot when it is flushed."""
    # Room was reserved for every row of the bundle, whenever its change is made: a full queue may be flushed in the
    # middle of a kernel.
    if tree.queue[0] == QUEUE:
        _flush_queue(tree, pool, pooled)
    at = tree.queue[0]
    tree.queue[SLOTS + at] = slot
    tree.queue[WORDS + at] = word
    tree.queue[CHANGES + at] = change
    tree.queue[0] = at + 1


@kernel
def flush_changes(tree: Tree, pool: PoolArrays, pooled: bool) -> None:
    """Apply the queued changes."""
    if tree.queue[0] > 0:
        _flush_queue(tree, pool, pooled)


@cold_kernel
def _flush_queue(tree: Tree, pool: PoolArrays, pooled: bool) -> None:
    """Apply the queued changes, slot by slot."""
    queue = tree.queue
    waiting = queue[0]
    queue[0] = 0
    begin = np.int64(0)
    while begin < waiting:
        slot, end = queue[SLOTS + begin], begin
        while end < waiting and queue[SLOTS + end] == slot:
            # The slot is cleared, and with it the changes that were queued for it before.
            if queue[CHANGES + end] == 0:
                _forget(tree, pool, pooled, slot)
                begin = end + 1
            # Texts are in the order of their bytes, and netting knows the order of numbers alone.
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
    # Several blocks, and references to the pool, are given back one by one; a single leaf of numbers as a whole.
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
    """Make the netted changes of a slot, leaf by leaf; from the root only where no leaf beside the last one is next."""
    k = np.int64(0)
    while k < count:
        # The lowest inner block over the next word and the first word after that block; without it the root is a leaf.
        inner, at, bound, last = np.int64(0), np.int64(0), 0, True
        block = np.int64(tree.root[slot])
        if block == 0:
            block = allocate_block(tree, _order_of(min(count - k, LIMIT)), 0)
            tree.root[slot] = block
        while block_level(tree, block) > 0:
            if inner != 0 and at + 1 < block_size(tree, inner):
                bound, last = tree.heap[inner + 1 + (at + 1) * _ENTRY], False
            rank = block_rank(tree, pool, False, block, tree.queue[NET + k])
            if rank == 0:
                # A word that is before all others is new.
                rank = np.int64(1)
                tree.heap[block + 1] = tree.queue[NET + k]
            inner, at = block, rank - 1
            block = tree.heap[block + 2 + at * _ENTRY]
        intact = True
        while intact and k < count and (last or tree.queue[NET + k] < bound):
            parent, to, ends = np.int64(0), bound, last
            if inner != 0:
                while (
                    at + 1 < block_size(tree, inner)
                    and tree.heap[inner + 1 + (at + 1) * _ENTRY] <= tree.queue[NET + k]
                ):
                    at += 1
                parent = inner + 1 + at * _ENTRY
                if at + 1 < block_size(tree, inner):
                    to, ends = tree.heap[parent + _ENTRY], False
            leaf = tree.heap[parent + 1] if parent != 0 else np.int64(tree.root[slot])
            most: int = min(count, k + LIMIT - 1)
            first = k
            while k < most and (ends or tree.queue[NET + k] < to):
                k += 1
            intact = _change_leaf(tree, pool, slot, parent, leaf, first, stop=k, ends=ends)


@kernel
def _order_of(size: int) -> int:
    """The least order of a block with room for so many entries."""
    order = np.int64(0)
    while 1 << order < size:
        order += 1
    return order


@kernel
def _change_leaf(
    tree: Tree,
    pool: PoolArrays,
    slot: int,
    parent: int,
    leaf: int,
    first: int,
    stop: int,
    ends: bool,
) -> bool:
    """Make the netted changes from first to stop in the leaf of their words; whether it is the only block to change.

    ends: it is the last leaf.
    """
    queue, heap = tree.queue, tree.heap
    size = block_size(tree, leaf)
    start, end = leaf + 1, leaf + 1 + size * _ENTRY
    # Entries before the first change stay where they are.
    while start < end and heap[start] < queue[NET + first]:
        start += _ENTRY
    # From there on merged aside; each step writes, and keeps what is no 0: there is no branch to mispredict.
    entry, k, to = start, first, np.int64(MERGED)
    while entry < end and k < stop:
        ours, theirs = heap[entry], queue[NET + k]
        old, new = np.int64(ours <= theirs), np.int64(theirs <= ours)
        count = heap[entry + 1] * old + queue[NET_CHANGES + k] * new
        queue[to] = min(ours, theirs)
        queue[to + 1] = count
        to += (count != 0) * _ENTRY
        entry += old * _ENTRY
        k += new
    for rest in range(entry, end):
        queue[to] = heap[rest]
        to += 1
    for rest in range(k, stop):
        queue[to] = queue[NET + rest]
        queue[to + 1] = queue[NET_CHANGES + rest]
        to += _ENTRY
    before: int = (start - leaf) >> 1
    left: int = before + ((to - MERGED) >> 1)
    if left == 0:
        # One stays to be found by, and goes with every block that this empties.
        tree.meta[LIVE] -= size - 1
        heap[leaf] -= size - 1
        drop_entry(tree, pool, False, False, slot, heap[leaf + 1])
        return False
    tree.meta[LIVE] += left - size
    left_count: int = min(left, LIMIT)
    order = block_order(tree, leaf)
    fitting = order
    while 1 << fitting < left_count:
        fitting += 1
    # As erase_entry has it: a block is halved once a quarter of it is in use, so that it does not grow and shrink in
    # turn.
    while left < size and left << 2 <= 1 << fitting:
        fitting -= 1
    heap[leaf] += before - size
    if fitting != order:
        leaf = move_block(tree, slot, parent, leaf, fitting)
    heap[leaf] += left_count - before
    _put_merged(tree, leaf + 1 + before * _ENTRY, 0, left_count - before)
    if left <= LIMIT:
        return True
    # Words that come in their order are appended to the last leaf, and nothing is inserted into those before it any
    # more.
    in_order = ends and before == size
    right = _split_leaf(tree, pool, slot, queue[NET + first], left, in_order)
    _put_merged(
        tree, right + 1 + block_size(tree, right) * _ENTRY, left_count - before, left - LIMIT
    )
    heap[right] += left - LIMIT
    return False


@kernel
def _put_merged(tree: Tree, to: int, first: int, count: int) -> None:
    """Write so many of the merged entries, from `first` on, to a place of the heap."""
    for k in range(count * _ENTRY):
        tree.heap[to + k] = tree.queue[MERGED + first * _ENTRY + k]


@cold_kernel
def _split_leaf(
    tree: Tree, pool: PoolArrays, slot: int, word: int, left: int, in_order: bool
) -> int:
    """Split the full leaf of a word, that is to have so many entries, and the full blocks above; the leaf after it.

    Blocks are split in halves, but where words come in order at the end of the tree, and where two full leaves will
    be left: there they leave full blocks behind.
    """
    grow_root(tree, pool, False, slot)
    parent, block, right = np.int64(0), np.int64(tree.root[slot]), np.int64(0)
    while block_level(tree, block) > 0:
        # A word that is before all others goes to the first child.
        rank: int = max(block_rank(tree, pool, False, block, word), 1)
        at = rank - 1
        child = tree.heap[block + 2 + at * _ENTRY]
        if block_size(tree, child) == LIMIT:
            two_full = block_level(tree, child) == 0 and left >= LIMIT + _HALF
            left_count = np.int64(LIMIT - 1 if in_order or two_full else _HALF)
            block = split_child(
                tree, pool, False, slot, parent, block, at=at, left_count=left_count
            )
            right = tree.heap[block + 2 + (at + 1) * _ENTRY]
        else:
            parent, block = block + 1 + at * _ENTRY, child
    return right


class QueuedTreeView(TreeView):
    """Owner of a tree of words with a count each, whose changes wait."""

    queue_length = QUEUE_LENGTH
