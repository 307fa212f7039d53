"""The order tree: a B+tree by slot whose entries are rows, by sort key and then by arrival.

Blocks are those of blocks.py, weighed. An entry is (word, row or child, weight, arrival). A weight counts rows in its
lower half and, in its upper half, those that begin a sort key: the first of their equals. So every block knows how
many rows and how many distinct sort keys are below it. The upper bits of an arrival are the tier of a null
(sort_key.py): two rows have the same sort key if their words and tiers are the same.

A full block is split where the new row goes if that is an edge of it, or the end of equals that fill it up to there. So
rows that come in their order, in the opposite one, or with few sort keys leave full blocks behind.
"""

from __future__ import annotations

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.blocks import (
    LARGEST,
    LIMIT,
    LIVE,
    Tree,
    allocate_block,
    block_level,
    block_size,
    block_weight,
    copy_numbers,
    erase_entry,
    give_back_block,
    grow_root,
    insert_entry,
    lower_entry,
    move_block,
    outermost_entry,
)
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, compare_bytes, release

ENTRY = 4
START = 1 << 32
TIER = 60
DEPTH = 64
"""Levels that a path has room for."""


@kernel
def rows_in(weight: int) -> int:
    """The rows that a weight counts."""
    return weight & 0xFFFFFFFF


@kernel
def keys_in(weight: int) -> int:
    """The distinct sort keys that a weight counts."""
    return weight >> 32


@kernel
def before_key(arrival: int) -> int:
    """The arrival that comes before all those with the same sort key."""
    # Arrivals of a tier are stamps above its first number: one below that number is the last of the tier before.
    return (arrival >> TIER << TIER) - 1


@kernel
def _same_key(tree: Tree, entry: int, word: int, arrival: int) -> bool:
    # The lower 60 bits distinguish equals, so they are shifted out. `>>` keeps the sign: a tier may be -1.
    return tree.heap[entry] == word and tree.heap[entry + 3] >> TIER == arrival >> TIER


@kernel
def _rank(tree: Tree, pool: PoolArrays, by_bytes: bool, block: int, word: int, arrival: int) -> int:
    """Return the number of entries of a block that are not after (word, arrival)."""
    low, left = np.int64(0), block_size(tree, block)
    # Entries of a block, at most 32, lie side by side: reading them in order is cheap while words are compared as
    # numbers.
    if not by_bytes:
        at = block + 1
        while low < left and (
            tree.heap[at] < word or (tree.heap[at] == word and tree.heap[at + 3] <= arrival)
        ):
            low += 1
            at += ENTRY
        return low
    # As few comparisons as can be: each of them reads the bytes of two texts.
    # The first `low` entries are not after the key; of the next `left` it is not known.
    while left > 0:
        half = (left + 1) >> 1
        entry = block + 1 + (low + half - 1) * ENTRY
        # The words are ids of the pool, in the order in which texts arrived: only their bytes can be compared.
        order = compare_bytes(pool, tree.heap[entry], word)
        after = order > 0 or (order == 0 and tree.heap[entry + 3] > arrival)
        low = low if after else low + half
        left = half - 1 if after else left - half
    return low


@cold_kernel
def _split(
    tree: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    parent: int,
    block: int,
    at: int,
    keep: int,
) -> int:
    """Give all but `keep` entries of a block's full child to a new sibling; the block, which may have moved."""
    child = tree.heap[block + 2 + at * ENTRY]
    moved = LIMIT - keep
    # A sibling of one entry begins with the smallest block: it grows when it gets a second one.
    right = allocate_block(tree, 0 if moved == 1 else LARGEST, block_level(tree, child))
    copy_numbers(tree, child + 1 + keep * ENTRY, right + 1, moved * ENTRY)
    # The lowest byte of a header is the number of entries: adding to the header changes it alone.
    tree.heap[right] |= moved
    tree.heap[child] -= moved
    # Its answer says where entries are now: a parent whose block was full of its size has moved to a larger one.
    entry = insert_entry(
        tree, pool, pooled, slot, parent, block, at=at + 1, word=tree.heap[right + 1]
    )
    weight = block_weight(tree, right)
    tree.heap[entry + 1] = right
    tree.heap[entry + 2] = weight
    tree.heap[entry + 3] = tree.heap[right + 4]
    # The parent's entry of the child said the weight of both halves.
    tree.heap[entry - ENTRY + 2] -= weight
    # A single entry needs no block for 32.
    if keep == 1:
        move_block(tree, slot, entry - ENTRY, child, 0)
    # Entries lie behind the header of their block: the place of the new one tells where the block is.
    return entry - 1 - (at + 1) * ENTRY


@cold_kernel
def _grow(tree: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Make sure that the root is there and not full."""
    root = np.int64(tree.root[slot])
    grow_root(tree, pool, pooled, slot)
    if root != 0:
        # Entries of this tree have an arrival beside their word, of which grow_root knows nothing.
        tree.heap[np.int64(tree.root[slot]) + 4] = tree.heap[root + 4]


@kernel
def order_insert(
    tree: Tree,
    pool: PoolArrays,
    by_bytes: bool,
    slot: int,
    word: int,
    arrival: int,
    row: int,
    path: Array,
) -> None:
    """Enter a row, which arrives after all those with the same sort key. `path`: room for the way down."""
    block = np.int64(tree.root[slot])
    # Full blocks are split on the way down, so that a parent has room for the entry of a new sibling.
    if block == 0 or block_size(tree, block) == LIMIT:
        _grow(tree, pool, by_bytes, slot)
        block = np.int64(tree.root[slot])
    depth, parent, beside = 0, np.int64(0), np.int64(0)
    rank = _rank(tree, pool, by_bytes, block, word, arrival)
    while block_level(tree, block) > 0:
        if rank == 0:
            rank = np.int64(1)
            # The row comes before all others here: the entry of its block says the least key below it.
            lower_entry(tree, pool, by_bytes, block + 1, word)
            tree.heap[block + 4] = arrival
        child = tree.heap[block + 2 + (rank - 1) * ENTRY]
        inside = _rank(tree, pool, by_bytes, child, word, arrival)
        if block_size(tree, child) == LIMIT:
            keep = LIMIT >> 1
            # Rows that come in the opposite order go to this edge alone: all others stay in a full block.
            if inside == 0:
                keep = 1
            # Rows that come in their order leave full blocks behind, not half full ones.
            elif inside == LIMIT:
                keep = LIMIT - 1
            elif _same_key(tree, child + 1, word, arrival):
                # Equals that fill the block up to here: all later ones go to the right half, and this one stays full.
                keep = inside
            block = _split(tree, pool, by_bytes, slot, parent, block, at=rank - 1, keep=keep)
            if inside > keep:
                rank += 1
                inside -= keep
            child = tree.heap[block + 2 + (rank - 1) * ENTRY]
        entry = block + 1 + (rank - 1) * ENTRY
        if rank > 1:
            # The block to the left of the path: its last row comes before a row that becomes the first of its leaf.
            beside = tree.heap[entry - ENTRY + 1]
        # Counted on the way down: room is reserved, so that the row will surely be entered.
        tree.heap[entry + 2] += 1
        path[depth] = entry
        depth, parent, block, rank = depth + 1, entry, child, inside
    entry = insert_entry(tree, pool, by_bytes, slot, parent, block, at=rank, word=word)
    tree.meta[LIVE] += 1
    tree.heap[entry + 1], tree.heap[entry + 2], tree.heap[entry + 3] = row, 1, arrival
    last = np.int64(0)
    if rank > 0:
        last = entry - ENTRY
    elif beside != 0:
        last = outermost_entry(tree, beside, 1)
    # The row is the last of its equals: it begins their sort key if the row before it is none of them.
    if last == 0 or not _same_key(tree, last, word, arrival):
        tree.heap[entry + 2] += START
        # The same blocks count distinct sort keys, too. Their entries have not moved: only a leaf did.
        for d in range(depth):
            tree.heap[path[d] + 2] += START


@kernel
def order_replace(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int, arrival: int, row: int
) -> None:
    """Let another row stand where one is that has the same sort key and arrival."""
    block = np.int64(tree.root[slot])
    entry = block + 1 + (_rank(tree, pool, by_bytes, block, word, arrival) - 1) * ENTRY
    while block_level(tree, block) > 0:
        block = tree.heap[entry + 1]
        entry = block + 1 + (_rank(tree, pool, by_bytes, block, word, arrival) - 1) * ENTRY
    tree.heap[entry + 1] = row


@kernel
def _begin_key(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int, arrival: int
) -> None:
    """Let a row that is there begin its sort key."""
    # A second way down: some blocks of the first one may have been given back since.
    block = np.int64(tree.root[slot])
    while block != 0:
        entry = block + 1 + (_rank(tree, pool, by_bytes, block, word, arrival) - 1) * ENTRY
        tree.heap[entry + 2] += START
        block = tree.heap[entry + 1] if block_level(tree, block) > 0 else np.int64(0)


@kernel
def order_remove(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int, arrival: int, path: Array
) -> None:
    """Take out a row that is there, with every block that this empties. `path`: room for the way down."""
    depth, behind = 0, np.int64(0)
    block = np.int64(tree.root[slot])
    while True:
        at = _rank(tree, pool, by_bytes, block, word, arrival) - 1
        entry = block + 1 + at * ENTRY
        # Block and place, not the entry: of them a parent's entry can be computed when its block is erased from.
        path[2 * depth], path[2 * depth + 1] = block, at
        if block_level(tree, block) == 0:
            break
        if at + 1 < block_size(tree, block):
            behind = tree.heap[entry + ENTRY + 1]
        depth, block = depth + 1, tree.heap[entry + 1]
    weight, follower = tree.heap[entry + 2], np.int64(0)
    # Only the row that begins a sort key leaves it to another.
    if keys_in(weight) > 0:
        if at + 1 < block_size(tree, block):
            follower = entry + ENTRY
        elif behind != 0:
            follower = outermost_entry(tree, behind, 0)
    # The next of its equals begins their sort key from now on.
    has_heir = follower != 0 and _same_key(tree, follower, word, arrival)
    # The arrival of the heir, not its entry, since erasing moves entries.
    heir = tree.heap[follower + 3] if has_heir else np.int64(0)
    for d in range(depth):
        tree.heap[path[2 * d] + 1 + path[2 * d + 1] * ENTRY + 2] -= weight
    # A block without entries could not say which keys are below it, so it goes with its last one.
    while depth > 0 and block_size(tree, block) == 1:
        # An inner entry holds a reference to the text of its least key, which goes with the entry.
        if by_bytes:
            release(pool, tree.heap[block + 1])
        give_back_block(tree, block)
        depth -= 1
        block = path[2 * depth]
    tree.meta[LIVE] -= 1
    if block_size(tree, block) == 1:
        if by_bytes:
            release(pool, tree.heap[block + 1])
        give_back_block(tree, block)
        tree.root[slot] = 0
    else:
        above = np.int64(0)
        if depth > 0:
            above = path[2 * depth - 2] + 1 + path[2 * depth - 1] * ENTRY
        erase_entry(tree, pool, by_bytes, slot, above, block, at=path[2 * depth + 1])
    if has_heir:
        _begin_key(tree, pool, by_bytes, slot, word, heir)


@kernel
def weight_upto(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int, arrival: int
) -> int:
    """The weight of all rows that are not after (word, arrival), be it there or not."""
    block, total = np.int64(tree.root[slot]), np.int64(0)
    while block != 0:
        rank = _rank(tree, pool, by_bytes, block, word, arrival)
        inner = block_level(tree, block) > 0
        # The last child that begins early enough may reach beyond: it is not added whole, but entered below.
        for j in range(rank - 1 if inner and rank > 0 else rank):
            total += tree.heap[block + 3 + j * ENTRY]
        block = tree.heap[block + 2 + (rank - 1) * ENTRY] if inner and rank > 0 else np.int64(0)
    return total


@kernel
def weight_of(tree: Tree, slot: int) -> int:
    """The weight of all rows of a slot."""
    root = np.int64(tree.root[slot])
    return block_weight(tree, root) if root != 0 else np.int64(0)


@kernel
def order_at(tree: Tree, slot: int, position: int) -> tuple[int, int]:
    """(entry of the row at a position that is there, how many entries of its leaf begin there)."""
    block = np.int64(tree.root[slot])
    while block_level(tree, block) > 0:
        entry = block + 1
        # Without a bound: the position is there, so that one of the entries has it.
        while position >= rows_in(tree.heap[entry + 2]):
            position -= rows_in(tree.heap[entry + 2])
            entry += ENTRY
        block = tree.heap[entry + 1]
    return block + 1 + position * ENTRY, block_size(tree, block) - position


@kernel
def key_start(tree: Tree, slot: int, key: int) -> int:
    """The position of the first row of distinct sort key number `key`, from 0 on; that of the end if there is none."""
    block, position = np.int64(tree.root[slot]), np.int64(0)
    left = key
    while block != 0:
        entry, end = block + 1, block + 1 + block_size(tree, block) * ENTRY
        # Whole children are skipped by their weights, so that as many blocks are read as the tree has levels.
        while entry < end and left >= keys_in(tree.heap[entry + 2]):
            left -= keys_in(tree.heap[entry + 2])
            position += rows_in(tree.heap[entry + 2])
            entry += ENTRY
        inner = entry < end and block_level(tree, block) > 0
        block = tree.heap[entry + 1] if inner else np.int64(0)
    return position
