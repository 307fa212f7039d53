"""The tree view against a dictionary of counters: many words in a slot, strings, clearing, memory."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.blocks import (
    INNER,
    LIMIT,
    USED,
    Tree,
    block_level,
    block_order,
    block_size,
)
from aggloom.runtime.storage.netting import CHANGES, NET, NET_CHANGES, QUEUE_LENGTH, WORDS, net
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.storage.queued_tree import QueuedTreeView
from aggloom.runtime.storage.tree import tree_beside, tree_end
from aggloom.runtime.views.ordered import (
    greatest,
    least,
    ordered_accumulate,
    ordered_clear,
    ordered_flush,
    ordered_merge,
    ordered_retract,
)

SLOTS = 3


class _Subject:
    """An ordered view, with a counter by slot that says what must be in it; so many changes are flushed together."""

    def __init__(self, pooled: bool, together: int = 1) -> None:
        self.pooled, self.arena = pooled, Arena()
        self.together, self.waiting = together, 0
        self.pool, self.view = Pool(self.arena), QueuedTreeView(self.arena, "v", SLOTS, 1)
        self.expected: dict[int, Counter[int]] = defaultdict(Counter)

    def word(self, number: int) -> int:
        if not self.pooled:
            return number
        text = np.frombuffer(str(number).encode(), np.uint8)
        offsets = np.array([0, len(text)], np.int64)
        return int(self.pool.intern_column(text, offsets, np.ones(1, np.bool_))[0])

    def change(self, slot: int, number: int, change: int) -> None:
        word = self.word(number)
        self.view.reserve(1)
        step = ordered_accumulate if change > 0 else ordered_retract
        step(self.view.arrays, self.pool.arrays, self.pooled, slot, word)
        self.waiting += 1
        if self.waiting == self.together:
            self.flush()
        self.expected[slot][number] += change
        if not self.expected[slot][number]:
            del self.expected[slot][number]

    def flush(self) -> None:
        ordered_flush(self.view.arrays, self.pool.arrays, self.pooled)
        self.waiting = 0

    def number(self, word: int) -> int:
        if not self.pooled:
            return word
        p = self.pool.arrays
        return int(bytes(p.heap[p.offset[word] : p.offset[word] + p.length[word]]))

    def entries(self, slot: int, side: int) -> list[tuple[int, int]]:
        tree, found = self.view.arrays, []
        entry = tree_end(tree, slot, side)
        while entry:
            word = int(tree.heap[entry])
            found.append((self.number(word), int(tree.heap[entry + 1])))
            entry = tree_beside(tree, self.pool.arrays, self.pooled, slot, word, 1 - side)
        return found

    def check(self) -> None:
        for slot in range(SLOTS):
            rank = str if self.pooled else int
            wanted = sorted(self.expected[slot].items(), key=lambda item: rank(item[0]))
            assert self.entries(slot, 0) == wanted
            assert self.entries(slot, 1) == wanted[::-1]
            shown = [number for number, count in wanted if count > 0]
            for extreme, end in ((least, 0), (greatest, -1)):
                word, there = extreme(self.view.arrays, self.pool.arrays, self.pooled, slot)
                assert there == bool(shown)
                assert not shown or self.number(int(word)) == shown[end]
        assert self.view.live == sum(map(len, self.expected.values()))


@pytest.mark.parametrize("pooled", [False, True], ids=["numbers", "strings"])
@pytest.mark.parametrize("order", ["random", "rising", "falling"])
def test_a_tree_holds_what_was_added_and_not_taken_back(order: str, pooled: bool) -> None:
    rng = random.Random(order)
    subject = _Subject(pooled)
    numbers = [n for n in range(3000) for _ in range(rng.choice((1, 1, 2)))]
    if order == "random":
        rng.shuffle(numbers)
    elif order == "falling":
        numbers.reverse()
    for number in numbers:
        subject.change(number % 2, number, 1)
        if rng.random() < 0.3:
            subject.change(number % 2, rng.randrange(3000), -1)
    subject.check()
    for slot in range(SLOTS):
        for number, count in list(subject.expected[slot].items()):
            for _ in range(abs(count)):
                subject.change(slot, number, -1 if count > 0 else 1)
            if rng.random() < 0.01:
                subject.pool.sweep()
    subject.check()
    subject.pool.sweep()
    subject.view.shrink()
    assert not subject.view.arrays.root.any() and subject.view.arrays.meta[USED] == 1
    assert not subject.pooled or subject.pool.arrays.refs.sum() == 0


@pytest.mark.parametrize("pooled", [False, True], ids=["numbers", "strings"])
def test_merging_and_clearing(pooled: bool) -> None:
    one, two = _Subject(pooled), _Subject(pooled)
    rng = random.Random(7)
    for subject in (one, two):
        for _ in range(2000):
            subject.change(1, rng.randrange(500), rng.choice((1, 1, -1)))
    one.view.reserve(two.view.live)
    one.pool.reserve(1000, 10_000)
    ordered_merge(one.view.arrays, one.pool.arrays, pooled, 1, two.view.arrays, two.pool.arrays, 1)
    one.flush()
    for number, count in two.expected[1].items():
        one.expected[1][number] += count
    one.expected[1] = Counter({n: c for n, c in one.expected[1].items() if c})
    one.check()
    ordered_clear(one.view.arrays, one.pool.arrays, pooled, 1)
    one.flush()
    one.expected.clear()
    one.check()


def test_a_sliding_window_of_values_does_not_grow_the_tree() -> None:
    subject = _Subject(False)
    for number in range(20_000):
        subject.change(0, number, 1)
        if number >= 100:
            subject.change(0, number - 100, -1)
    subject.check()
    assert subject.view.arrays.meta[USED] < 10_000


def _well_formed(tree: Tree, block: int, least: int, below: int) -> int:
    """The entries below a block, all from `least` on and less than `below`."""
    heap, size, level = tree.heap, int(block_size(tree, block)), int(block_level(tree, block))
    assert 0 < size <= 1 << int(block_order(tree, block)) <= LIMIT
    words = heap[block + 1 : block + 1 + 2 * size : 2].tolist()
    assert words == sorted(set(words)) and least <= words[0] and words[-1] < below
    if level == 0:
        return size
    children = heap[block + 2 : block + 1 + 2 * size : 2].tolist()
    assert all(int(block_level(tree, child)) == level - 1 for child in children)
    ends = [*words[1:], below]
    return sum(map(_well_formed, [tree] * size, children, words, ends))


SHAPES = {
    # How many words there are, and how they come.
    "few": lambda rng: rng.randrange(40),
    "dense": lambda rng: rng.randrange(1000),
    "sparse": lambda rng: rng.randrange(-(1 << 62), 1 << 62),
    "skewed": lambda rng: int(rng.paretovariate(0.3)) & (1 << 62) - 1,
}


@pytest.mark.parametrize("together", [7, 60, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_changes_that_are_flushed_together(shape: str, together: int) -> None:
    rng = random.Random(f"{shape}-{together}")
    subject = _Subject(False, together)
    came: list[list[int]] = [[] for _ in range(SLOTS)]
    for rising in (False, True, False):
        for step in range(3000):
            slot = step // 50 % SLOTS if rng.random() < 0.9 else rng.randrange(SLOTS)
            if came[slot] and rng.random() < 0.4:
                # Now and then of a value that never came.
                number = rng.choice(came[slot]) if rng.random() < 0.9 else SHAPES[shape](rng)
                subject.change(slot, number, -1)
            else:
                came[slot].append(step if rising else SHAPES[shape](rng))
                subject.change(slot, came[slot][-1], 1)
            if rng.random() < 0.001:
                ordered_clear(subject.view.arrays, subject.pool.arrays, False, slot)
                del subject.expected[slot], came[slot][:]
        subject.flush()
        subject.check()
        for slot in range(SLOTS):
            root = int(subject.view.arrays.root[slot])
            found = _well_formed(subject.view.arrays, root, -(1 << 63), 1 << 63) if root else 0
            assert found == len(subject.expected[slot])
    for slot in range(SLOTS):
        for number, count in list(subject.expected[slot].items()):
            for _ in range(abs(count)):
                subject.change(slot, number, -1 if count > 0 else 1)
    subject.flush()
    subject.check()
    assert not subject.view.arrays.root.any() and subject.view.arrays.meta[INNER] == 0
    assert subject.view.arrays.meta[USED] < 60_000


def test_words_in_order_leave_full_blocks() -> None:
    rooms = []
    for numbers in (
        range(20_000),
        range(20_000, 0, -1),
        random.Random(1).sample(range(20_000), 20_000),
    ):
        subject = _Subject(False, 4096)
        for number in numbers:
            subject.change(0, number, 1)
        subject.flush()
        subject.check()
        rooms.append(int(subject.view.arrays.meta[USED]) / 20_000)
    assert rooms[0] < 2.5 and max(rooms) < 4.5, rooms


@pytest.mark.parametrize("count", [12, 13, 40, 700])
@pytest.mark.parametrize("spread", [1, 31, 32, 800, (1 << 14) - 1, 1 << 14, 1 << 63])
def test_netting(count: int, spread: int) -> None:
    rng, queue = random.Random(f"{count}-{spread}"), np.zeros(QUEUE_LENGTH, np.int64)
    for low in (0, -(1 << 63), (1 << 63) - 1 - spread if spread < 1 << 63 else -1, -5):
        # Cells and bits that a round leaves behind would be in the next one.
        drawn = [min(low + rng.randrange(spread + 1), (1 << 63) - 1) for _ in range(count)]
        changes = [rng.choice((-1, 1, 1, 5)) for _ in range(count)]
        expected: Counter[int] = Counter()
        for k, (word, change) in enumerate(zip(drawn, changes, strict=True)):
            queue[WORDS + 3 + k], queue[CHANGES + 3 + k] = word, change
            expected[word] += change
        found = net(queue, np.int64(3), np.int64(count))
        netted = (
            queue[NET : NET + found].tolist(),
            queue[NET_CHANGES : NET_CHANGES + found].tolist(),
        )
        assert list(zip(*netted, strict=True)) == sorted((w, c) for w, c in expected.items() if c)
