"""The key index against a dictionary: looked up, found, removed, in blocks that hold a key more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.storage.key_index import KeyIndex
from aggloom.runtime.storage.pool import Pool

Key = tuple[int, ...]


class Model:
    """The key index in plain Python, one key at a time."""

    def __init__(self) -> None:
        self.slots: dict[Key, int] = {}
        self._free: list[int] = []
        self._high = 0

    def enter(self, key: Key) -> int:
        if key not in self.slots:
            self.slots[key] = self._free.pop() if self._free else self._high
            self._high = max(self._high, self.slots[key] + 1)
        return self.slots[key]

    def remove(self, slots: list[int]) -> None:
        keys = {slot: key for key, slot in self.slots.items()}
        for slot in slots:
            del self.slots[keys[slot]]
            self._free.append(slot)


def keys_of(words: Any, nulls: Any) -> list[Key]:
    return [(int(mask), *map(int, row)) for row, mask in zip(words, nulls, strict=True)]


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("rows", [7, 5_000])
def test_slots_are_those_of_a_dictionary(width: int, rows: int) -> None:
    rng = np.random.default_rng(width * 10 + rows)
    arena, model = Arena(), Model()
    index = KeyIndex(arena, Pool(arena), [False] * width)
    for _ in range(12):
        # Few words, of which some differ in their upper bits alone.
        words = rng.integers(0, max(2, rows // 2), (rows, width)) << rng.integers(0, 2) * 40
        nulls = rng.integers(0, 1 << width, rows).astype(np.uint8)
        keys = keys_of(words, nulls)
        there = [model.slots.get(key, -1) for key in keys]
        assert index.find(words, nulls).tolist() == there
        slots = index.lookup(words, nulls)
        assert slots.tolist() == [model.enter(key) for key in keys]
        assert len(index) == len(model.slots)
        assert sorted(model.slots.values()) == index.used_slots().tolist()
        gone = np.unique(slots)[:: rng.integers(1, 4)]
        index.remove(gone)
        model.remove(gone.tolist())
        assert (index.find(words[np.isin(slots, gone)], nulls[np.isin(slots, gone)]) == -1).all()


def test_keys_whose_hashes_share_a_cell_are_told_apart() -> None:
    """Every key of a full table, and as many that are not there."""
    index = KeyIndex(Arena(), Pool(Arena()), [False])
    words = np.arange(100_000, dtype=np.int64).reshape(-1, 1)
    nulls = np.zeros(len(words), np.uint8)
    assert index.lookup(words, nulls).tolist() == list(range(len(words)))
    assert index.lookup(words[::-1], nulls).tolist() == list(range(len(words)))[::-1]
    assert (index.find(words + len(words), nulls) == -1).all()
    assert len(index.arrays.table) * 3 >= 4 * len(words)


def test_a_table_is_no_larger_than_its_keys_need() -> None:
    """A bundle of many rows with few keys asks for few cells."""
    index = KeyIndex(Arena(), Pool(Arena()), [False])
    words = (np.arange(200_000, dtype=np.int64) % 1_000).reshape(-1, 1)
    index.lookup(words, np.zeros(len(words), np.uint8))
    assert len(index) == 1_000
    assert len(index.arrays.table) <= 4_096
    assert index.capacity <= 4_096
