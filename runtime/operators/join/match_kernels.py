"""Matches, row by row: walks over the rows of the other side, and the sums of what each row meets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.state.bag_kernels import BagArrays
from aggloom.runtime.storage.arena import Array, FlagArray
from aggloom.runtime.storage.jit import kernel


class MatchedPairs(NamedTuple):
    """Pairs of stored rows: this side's and the other's, how often each is there, whether after the bundle."""

    mine: Array  # int64[pairs]
    other: Array  # int64[pairs]
    mine_count: Array  # int64[pairs]
    other_count: Array  # int64[pairs]
    after: Array  # bool[pairs]

    @classmethod
    def of(cls, room: int) -> MatchedPairs:
        """Room for so many pairs."""
        mine, other, one, two = (np.empty(room, np.int64) for _ in range(4))
        return cls(mine, other, one, two, np.empty(room, np.bool_))

    def first(self, count: int) -> MatchedPairs:
        """The first of them."""
        return MatchedPairs(*(each[:count] for each in self))

    def select(self, keep: FlagArray) -> MatchedPairs:
        """Those that are marked."""
        return MatchedPairs(*(each[keep] for each in self))

    def swap(self) -> MatchedPairs:
        """The same, seen from the other side."""
        return MatchedPairs(self.other, self.mine, self.other_count, self.mine_count, self.after)


@kernel
def _put(
    pairs: MatchedPairs,
    at: int,
    mine: int,
    other: int,
    mine_count: int,
    other_count: int,
    after: bool,
) -> None:
    pairs.mine[at], pairs.other[at] = mine, other
    pairs.mine_count[at], pairs.other_count[at] = mine_count, other_count
    pairs.after[at] = after


@kernel
def meet_unchanged(
    bag: BagArrays,
    mark: Array,
    slots: Array,
    old: Array,
    new: Array,
    before: Array,
    after: Array,
    cursor: Array,
    pairs: MatchedPairs,
) -> int:
    """The pairs of items with the other side's rows that have not changed, from a cursor on; how many there are.

    cursor: the item, and the link to continue with or 0. An item whose slot is -1 meets nothing.
    """
    total, item, link = np.int64(0), cursor[0], cursor[1]
    # A row brings up to two pairs, and both have to fit: the cursor cannot stop between them.
    room = len(pairs.mine) - 1
    while item < len(slots) and total < room:
        if link == 0 and slots[item] >= 0:
            link = np.int64(bag.head[slots[item]])
        while link != 0 and total < room:
            row = link - 1
            # Above 0 the other side's row changes in this bundle, too: meet_changed pairs it, with what it was and
            # is.
            if mark[row] <= 0:
                count = np.int64(bag.count[row])
                if before[item] > 0:
                    _put(
                        pairs,
                        total,
                        old[item],
                        other=row,
                        mine_count=before[item],
                        other_count=count,
                        after=False,
                    )
                    total += 1
                if after[item] > 0:
                    _put(
                        pairs,
                        total,
                        new[item],
                        other=row,
                        mine_count=after[item],
                        other_count=count,
                        after=True,
                    )
                    total += 1
            link = np.int64(bag.after[row])
        if link == 0:
            item += 1
    cursor[0], cursor[1] = item, link
    return total


@kernel
def chain_items(slots: Array, head: Array, after: Array) -> None:
    """Hang items on their slots; links are an item + 1. head: zeros."""
    for k in range(len(slots)):
        if slots[k] >= 0:
            # At the front, since only the head of a slot's chain is known; sums do not depend on the order.
            after[k] = head[slots[k]]
            head[slots[k]] = k + 1


@kernel
def meet_changed(
    slots: Array,
    old: Array,
    new: Array,
    before: Array,
    after: Array,
    head: Array,
    chain: Array,
    others_old: Array,
    others_new: Array,
    others_before: Array,
    others_after: Array,
    cursor: Array,
    pairs: MatchedPairs,
) -> int:
    """The pairs of items with the items of the other side, as `chain_items` left them; see meet_unchanged."""
    count, item, link = np.int64(0), cursor[0], cursor[1]
    room = len(pairs.mine) - 1
    while item < len(slots) and count < room:
        if link == 0 and slots[item] >= 0:
            link = np.int64(head[slots[item]])
        while link != 0 and count < room:
            k = link - 1
            if before[item] > 0 and others_before[k] > 0:
                _put(
                    pairs,
                    count,
                    old[item],
                    other=others_old[k],
                    mine_count=before[item],
                    other_count=others_before[k],
                    after=False,
                )
                count += 1
            if after[item] > 0 and others_after[k] > 0:
                _put(
                    pairs,
                    count,
                    new[item],
                    other=others_new[k],
                    mine_count=after[item],
                    other_count=others_after[k],
                    after=True,
                )
                count += 1
            link = np.int64(chain[k])
        if link == 0:
            item += 1
    cursor[0], cursor[1] = item, link
    return count


@kernel
def tally(
    ids: Array,
    counts: Array,
    after: Array,
    was: Array,
    now: Array,
    mark: Array,
    touched: Array,
    count: int,
) -> int:
    """Add up what rows met before and after; `touched` gets those without a mark, which get one of -1."""
    for k in range(len(ids)):
        row = ids[k]
        if after[k]:
            now[row] += counts[k]
        else:
            was[row] += counts[k]
        # A row is in several pairs, and is listed once; -1 leaves the marks of changed rows, which are above 0,
        # alone.
        if mark[row] == 0:
            mark[row] = -1
            touched[count] = row
            count += 1
    return count
