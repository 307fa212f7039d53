"""The rows of a bundle slot by slot: what is kept of neighbouring slots lies together, and is read in its order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray
from aggloom.runtime.storage.jit import kernel

# Numbers are counted if there may be no more than so many for each one that is there; else they are sorted.
_DENSE = 8

# The changes of at most this many keys are emitted in the order in which the keys arrived.
_FEW = 4096


class RowGroups(NamedTuple):
    """Rows slot by slot, those of a slot in arrival order.

    slots: the distinct ones, rising. firsts: by distinct slot the number of its first row. rows: numbers of rows.
    places: by row of `rows` the number of its slot among the distinct ones.
    """

    slots: Array  # int64[keys]
    firsts: Array  # int64[keys]
    rows: Array  # int64[rows]
    places: Array  # int64[rows]


@kernel
def _count_sort(numbers: Array, ends: Array, order: Array) -> None:
    """The order of small numbers; `ends`, zero before, is used up."""
    for k in range(len(numbers)):
        ends[numbers[k]] += 1
    # From counts to the places at which each number begins.
    at = 0
    for number in range(len(ends)):
        here = ends[number]
        ends[number] = at
        at += here
    for k in range(len(numbers)):
        order[ends[numbers[k]]] = k
        ends[numbers[k]] += 1


def in_order(numbers: NumberArray, limit: int) -> Array:
    """Return the order that sorts numbers from 0 to below a limit, equal ones as they stand."""
    # Counting touches each possible number: sorting is cheaper where few of them are there.
    if limit > _DENSE * len(numbers):
        return np.argsort(numbers, kind="stable")
    order = np.empty(len(numbers), np.int64)
    _count_sort(numbers, np.zeros(limit, np.int64), order)
    return order


def group_rows(slots: SlotArray, capacity: int) -> RowGroups:
    """The rows with these slots, all of which are below the capacity."""
    rows = in_order(slots, capacity)
    sorted_slots = slots[rows]
    opens = np.ones(len(rows), np.bool_)
    opens[1:] = sorted_slots[1:] != sorted_slots[:-1]
    at = np.flatnonzero(opens)
    return RowGroups(sorted_slots[at], rows[at], rows, np.cumsum(opens) - 1)


def order_by_arrival(places: NumberArray, firsts: NumberArray, rows: int) -> Array | slice:
    """The order in which changes, sorted by slot, are emitted: by arrival of their keys. Those of many keys stay.

    places: by change the number of its slot. firsts: by slot its first row, of so many.
    """
    return in_order(firsts[places], rows) if len(firsts) <= _FEW else slice(None)
