"""A B+tree by slot: word -> counts, in order. The multiset and the ordered view are made of it.

All blocks lie in one array. A block is a header and up to 32 entries; a leaf's entry is a word and its counts,
an inner one's a word and a child: all words in that child are at least it. Blocks come in six sizes, so that
a slot with one value takes three words, and an emptied block goes at once, so that every leaf shows something.
Full blocks are split on the way down. Entries are named by their place in the array; 0 is none.

A tree can be WEIGHED: then a leaf's entry has a weight as its second count, and an inner one the sum of the
weights below it, at the same distance from the word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Arena, Array, airy
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays, compare_bytes, hold, release

USED, LIVE, INNER, STRIDE, WEIGHED, STAMP = range(6)
_META = 6
_LARGEST = 5
_LIMIT = 1 << _LARGEST
_FIRST_WORDS = 64
_SPARE_WORDS = 1 << 15


class Tree(NamedTuple):
    """`heap`: blocks; by slot `root`: a block; by size `free`: a list of blocks, each naming the next."""

    heap: Array
    root: Array
    free: Array
    meta: Array


@kernel
def block_size(tree: Tree, block: int) -> int:
    return tree.heap[block] & 0xFF


@kernel
def _order(tree: Tree, block: int) -> int:
    """The binary logarithm of a block's capacity."""
    return (tree.heap[block] >> 8) & 0xFF


@kernel
def block_level(tree: Tree, block: int) -> int:
    """0 for a leaf."""
    return tree.heap[block] >> 16


@kernel
def _words(tree: Tree, order: int) -> int:
    return 1 + (tree.meta[STRIDE] << order)


@kernel
def block_weight(tree: Tree, block: int) -> int:
    """The sum of a block's weights, in a weighed tree."""
    stride = tree.meta[STRIDE]
    total = np.int64(0)
    for j in range(block_size(tree, block)):
        total += tree.heap[block + 3 + j * stride]
    return total


@kernel
def _allocate(tree: Tree, order: int, level: int) -> int:
    """An empty block; room was reserved."""
    block = tree.free[order]
    if block != 0:
        tree.free[order] = tree.heap[block]
    else:
        block = tree.meta[USED]
        tree.meta[USED] += _words(tree, order)
    if level > 0:
        tree.meta[INNER] += _words(tree, order)
    tree.heap[block] = (order << 8) | (level << 16)
    return block


@kernel
def _give_back(tree: Tree, block: int) -> None:
    order = _order(tree, block)
    if block_level(tree, block) > 0:
        tree.meta[INNER] -= _words(tree, order)
    tree.heap[block] = tree.free[order]
    tree.free[order] = block


@kernel
def _copy(tree: Tree, source: int, target: int, words: int) -> None:
    for j in range(words):
        tree.heap[target + j] = tree.heap[source + j]


@kernel
def _link(tree: Tree, slot: int, parent: int, block: int) -> None:
    """Let the parent entry (0: the root) point to a block."""
    if parent == 0:
        tree.root[slot] = block
    else:
        tree.heap[parent + 1] = block


@cold_kernel
def _move(tree: Tree, slot: int, parent: int, block: int, order: int) -> int:
    """Put a block's entries into a block of another size."""
    new = _allocate(tree, order, block_level(tree, block))
    size = block_size(tree, block)
    tree.heap[new] |= size
    _copy(tree, block + 1, new + 1, size * tree.meta[STRIDE])
    _give_back(tree, block)
    _link(tree, slot, parent, new)
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
    """How many words of a block are not after `word`."""
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
def _insert(
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
    if block_size(tree, block) == 1 << _order(tree, block):
        block = _move(tree, slot, parent, block, _order(tree, block) + 1)
    stride = tree.meta[STRIDE]
    entry = block + 1 + at * stride
    end = block + 1 + block_size(tree, block) * stride
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
def _split(
    tree: Tree, pool: PoolArrays, pooled: bool, slot: int, parent: int, block: int, at: int
) -> int:
    """Give the upper half of a block's full child to a new sibling; the block, which may have moved."""
    stride = tree.meta[STRIDE]
    child = tree.heap[block + 2 + at * stride]
    right = _allocate(tree, _LARGEST, block_level(tree, child))
    half = _LIMIT >> 1
    _copy(tree, child + 1 + half * stride, right + 1, half * stride)
    tree.heap[right] |= half
    tree.heap[child] -= half
    entry = _insert(tree, pool, pooled, slot, parent, block, at + 1, tree.heap[right + 1])
    tree.heap[entry + 1] = right
    if tree.meta[WEIGHED] != 0:
        weight = block_weight(tree, right)
        tree.heap[entry + 2] = weight
        tree.heap[entry - stride + 2] -= weight
    return entry - 1 - (at + 1) * stride


@cold_kernel
def _grow_root(tree: Tree, pool: PoolArrays, pooled: bool, slot: int) -> None:
    """Make sure that the root is there and not full."""
    root = np.int64(tree.root[slot])
    if root == 0:
        tree.root[slot] = _allocate(tree, 0, 0)
    elif block_size(tree, root) == _LIMIT:
        top = _allocate(tree, 1, block_level(tree, root) + 1)
        tree.root[slot] = top
        entry = _insert(tree, pool, pooled, slot, 0, top, 0, tree.heap[root + 1])
        tree.heap[entry + 1] = root
        if tree.meta[WEIGHED] != 0:
            tree.heap[entry + 2] = block_weight(tree, root)


@kernel
def _lower(tree: Tree, pool: PoolArrays, pooled: bool, entry: int, word: int) -> None:
    """Let a smaller word stand for a child that will hold it."""
    if pooled:
        hold(pool, word)
        release(pool, tree.heap[entry])
    tree.heap[entry] = word


@kernel
def tree_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> int:
    """The entry of a word, made with counts of 0 if there is none."""
    block = np.int64(tree.root[slot])
    if block == 0 or block_size(tree, block) == _LIMIT:
        _grow_root(tree, pool, pooled, slot)
        block = np.int64(tree.root[slot])
    stride = tree.meta[STRIDE]
    parent = np.int64(0)
    rank = block_rank(tree, pool, by_bytes, block, word)
    while block_level(tree, block) > 0:
        if rank == 0:
            rank = np.int64(1)
            _lower(tree, pool, pooled, block + 1, word)
        at = rank - 1
        child = tree.heap[block + 2 + at * stride]
        if block_size(tree, child) == _LIMIT:
            block = _split(tree, pool, pooled, slot, parent, block, at)
        else:
            parent = block + 1 + at * stride
            block = child
        rank = block_rank(tree, pool, by_bytes, block, word)
    if rank > 0:
        entry = block + 1 + (rank - 1) * stride
        if tree.heap[entry] == word:
            return entry
    tree.meta[LIVE] += 1
    return _insert(tree, pool, pooled, slot, parent, block, rank, word)


@kernel
def tree_find(tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, word: int) -> int:
    """The entry of a word, or 0."""
    stride = tree.meta[STRIDE]
    block = np.int64(tree.root[slot])
    while block != 0:
        rank = block_rank(tree, pool, by_bytes, block, word)
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
    """As tree_entry, where a word is rarely new."""
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
    while chain != 0:
        below = tree.heap[chain + 2] if block_level(tree, chain) > 0 else np.int64(0)
        if pooled:
            release(pool, tree.heap[chain + 1])
        _give_back(tree, chain)
        chain = below
    tree.meta[LIVE] -= 1
    if keeper == 0:
        tree.root[slot] = 0
    else:
        _erase(tree, pool, pooled, slot, keeper_parent, keeper, keeper_at)


@cold_kernel
def drop_entry(
    tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int, word: int
) -> None:
    """As tree_remove, where a word rarely goes."""
    tree_remove(tree, pool, pooled, by_bytes, slot, word)


@kernel
def _erase(
    tree: Tree, pool: PoolArrays, pooled: bool, slot: int, parent: int, block: int, at: int
) -> None:
    """Take one of several entries out of a block, and shrink what became too large."""
    stride = tree.meta[STRIDE]
    entry = block + 1 + at * stride
    end = block + 1 + block_size(tree, block) * stride
    if pooled:
        release(pool, tree.heap[entry])
    _copy(tree, entry + stride, entry, end - entry - stride)
    tree.heap[block] -= 1
    if block_size(tree, block) << 2 <= 1 << _order(tree, block):
        _move(tree, slot, parent, block, _order(tree, block) - 1)
    root = np.int64(tree.root[slot])
    while block_level(tree, root) > 0 and block_size(tree, root) == 1:
        tree.root[slot] = tree.heap[root + 2]
        if pooled:
            release(pool, tree.heap[root + 1])
        _give_back(tree, root)
        root = np.int64(tree.root[slot])


@kernel
def _edge(tree: Tree, leaf: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry of a leaf."""
    return leaf + 1 + (block_size(tree, leaf) - 1) * tree.meta[STRIDE] * side


@kernel
def _edge_leaf(tree: Tree, block: int, side: int) -> int:
    """The first (side 0) or last (side 1) leaf beneath a block, or 0 beneath none."""
    while block != 0 and block_level(tree, block) > 0:
        block = tree.heap[_edge(tree, block, side) + 1]
    return block


@kernel
def _outermost(tree: Tree, block: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry beneath a block."""
    return _edge(tree, _edge_leaf(tree, block, side), side)


@kernel
def tree_end(tree: Tree, slot: int, side: int) -> int:
    """The first (side 0) or last (side 1) entry of a slot, or 0."""
    root = np.int64(tree.root[slot])
    return _outermost(tree, root, side) if root != 0 else np.int64(0)


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
            return _outermost(tree, neighbour, 1 - side) if neighbour != 0 else np.int64(0)
        if inside:
            neighbour = tree.heap[block + 2 + beside * stride]
        block = tree.heap[block + 2 + at * stride]


@kernel
def tree_start(tree: Tree, slot: int, side: int) -> tuple[int, int]:
    """Where a walk starts: the first (side 0) or last (side 1) leaf and its outer entry, or zeros."""
    leaf = _edge_leaf(tree, np.int64(tree.root[slot]), side)
    return leaf, _edge(tree, leaf, side) if leaf != 0 else np.int64(0)


@kernel
def tree_step(
    tree: Tree, pool: PoolArrays, by_bytes: bool, slot: int, leaf: int, entry: int, side: int
) -> tuple[int, int]:
    """Walk on, before (side 0) or after (side 1) an entry of a leaf: leaf and entry, or zeros at the end.

    Only from one leaf to the next it goes down from the root, so a walk costs a small part of `tree_beside`.
    """
    stride = tree.meta[STRIDE]
    if entry != _edge(tree, leaf, side):
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
    leaf = _edge_leaf(tree, neighbour, 1 - side)
    return leaf, _edge(tree, leaf, 1 - side) if leaf != 0 else np.int64(0)


@cold_kernel
def tree_clear(tree: Tree, pool: PoolArrays, pooled: bool, by_bytes: bool, slot: int) -> None:
    """Forget all words of a slot."""
    while tree.root[slot] != 0:
        last = tree.heap[tree_end(tree, slot, 1)]
        tree_remove(tree, pool, pooled, by_bytes, slot, last)


class TreeView:
    """Owner of a Tree in an arena; `width` counts by word."""

    def __init__(self, arena: Arena, name: str, slots: int, width: int) -> None:
        self.arena, self.name = arena, name
        self._block = 1 + _LIMIT * (1 + width)
        arena.array(f"{name}.heap", _FIRST_WORDS, "i8")
        arena.array(f"{name}.root", slots, "i8")
        arena.array(f"{name}.free", _LARGEST + 1, "i8")
        meta = arena.array(f"{name}.meta", _META, "i8")
        if len(meta) < _META:
            meta = arena.resize(f"{name}.meta", _META)
        meta[STRIDE] = 1 + width
        meta[USED] = max(meta[USED], 1)
        self._reload()

    def _reload(self) -> None:
        self.arrays = Tree(
            *(self.arena.array(f"{self.name}.{array}", 0, "i8") for array in Tree._fields)
        )

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
        """How many of the next rows to prepare for at once: a quarter of the words in use is enough to keep free."""
        return min(rows, max(_SPARE_WORDS, int(self.arrays.meta[USED]) // 4) // self._block)

    def reserve(self, rows: int) -> None:
        """Room for `rows` more words: each may fill a new leaf, and any inner block may double or split."""
        meta = self.arrays.meta
        need = int(meta[USED] + 2 * meta[INNER]) + rows * (self._block + self._block // 4)
        if need > len(self.arrays.heap):
            # By at least half: room is asked for slot by slot where a large state is merged into a small one.
            grown = len(self.arrays.heap) * 3 // 2
            self.arena.resize(f"{self.name}.heap", max(need, 2 * int(meta[USED]), grown))
            self._reload()

    def shrink(self) -> None:
        """Give the memory back when no word is left."""
        if self.live == 0 and len(self.arrays.heap) > _FIRST_WORDS:
            self.arena.replace(f"{self.name}.heap", _FIRST_WORDS)
            self.arrays.free[:] = 0
            self.arrays.meta[USED] = 1
            self._reload()
