"""The rows of a bundle slot by slot, and rows that go beside those that come: each against a model in plain Python."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggloom.runtime.operators.differences import pair_marks
from aggloom.runtime.operators.grouping import group_rows, in_order, order_by_arrival

NUMBERS = st.lists(st.integers(0, 9), max_size=40)


@settings(deadline=None)
@given(NUMBERS, st.sampled_from([10, 10_000]))
def test_numbers_are_put_in_order_as_they_stand(numbers: list[int], limit: int) -> None:
    found = in_order(np.array(numbers, np.int64), limit)
    assert found.tolist() == sorted(range(len(numbers)), key=lambda at: (numbers[at], at))


@settings(deadline=None)
@given(NUMBERS, st.sampled_from([10, 10_000]))
def test_rows_are_grouped_by_slot(slots: list[int], capacity: int) -> None:
    found = group_rows(np.array(slots, np.int64), capacity)
    assert found.slots.tolist() == sorted(set(slots))
    assert found.firsts.tolist() == [slots.index(slot) for slot in sorted(set(slots))]
    assert found.rows.tolist() == sorted(range(len(slots)), key=lambda row: (slots[row], row))
    assert found.slots[found.places].tolist() == sorted(slots)


def test_messages_of_few_keys_leave_as_the_keys_came_and_those_of_many_as_they_stand() -> None:
    places, firsts = np.array([0, 0, 1, 2]), np.array([7, 3, 5])
    assert places[order_by_arrival(places, firsts, 8)].tolist() == [1, 2, 0, 0]
    many = np.arange(5000)
    assert many[order_by_arrival(many, many[::-1].copy(), 5000)].tolist() == many.tolist()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60))
def test_the_first_that_goes_is_beside_the_first_that_comes(
    rows: list[tuple[int, int, bool]],
) -> None:
    model = [-1] * len(rows)
    waiting: dict[tuple[int, int, bool], deque[int]] = defaultdict(deque)
    for at, (place, mark, comes) in enumerate(rows):
        others = waiting[place, mark, not comes]
        if others:
            model[at] = others.popleft()
            model[model[at]] = at
        else:
            waiting[place, mark, comes].append(at)
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    places, marks, comes = (np.array(list(each)) for each in columns)
    found = pair_marks(places.astype(np.int64), marks.astype(np.int64), comes.astype(np.bool_))
    assert found.tolist() == model


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_and_one_row(n: int) -> None:
    found = group_rows(np.zeros(n, np.int64), 16)
    assert len(found.slots) == len(found.rows) == n
