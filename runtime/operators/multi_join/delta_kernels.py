"""Matches in the next input of a chain: walks over its stored rows and over those that a bundle changes."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.bag_kernels import BagArrays
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel

BEFORE, AFTER = 1, 2


@kernel
def meet_rows(
    bag: BagArrays,
    mark: Array,
    slots: Array,
    head: Array,
    chain: Array,
    old: Array,
    before: Array,
    places: Array,
    pads: bool,
    cursor: Array,
    at: Array,
    ids: Array,
    counts: Array,
) -> int:
    """The rows that joined rows meet, from a cursor on; how many there are.

    slots: by place its slot. places: by joined row its place, or -1: it meets nothing. mark: rows that are passed by
    where it has a length. head, chain, old, before: items that are there instead, where `head` has a length. pads: one
    that meets nothing meets -1. cursor: the joined row, the link to continue with or 0, whether links are of items,
    whether the row has met any. at: of each row that is met the number of the joined row.
    """
    count, row, link = np.int64(0), cursor[0], cursor[1]
    items, met = cursor[2] != 0, cursor[3] != 0
    # Unlike a pair of two sides, a joined row meets one row at a time: any room that is left is enough.
    room = len(at)
    while row < len(places) and count < room:
        place = np.int64(places[row])
        if place >= 0:
            if link == 0 and not items:
                link = np.int64(bag.head[slots[place]])
            if not items:
                while link != 0 and count < room:
                    k = link - 1
                    # A row that has changed is passed by: what it was stands among the items.
                    if len(mark) == 0 or mark[k] == 0:
                        at[count], ids[count], counts[count] = row, k, bag.count[k]
                        count += 1
                        met = True
                    link = np.int64(bag.after[k])
                # No room is left within the row: the next call goes on at this link.
                if link != 0:
                    break
                if len(head) != 0:
                    items, link = True, np.int64(head[place])
            if items:
                while link != 0 and count < room:
                    k = link - 1
                    # An item that was not there before the bundle is nothing that could be met.
                    if before[k] > 0:
                        at[count], ids[count], counts[count] = row, old[k], before[k]
                        count += 1
                        met = True
                    link = np.int64(chain[k])
                if link != 0:
                    break
        if pads and not met:
            if count == room:
                # With no rows left to walk: the row is begun anew, and meets none again.
                items, link = False, np.int64(0)
                break
            at[count], ids[count], counts[count] = row, -1, 1
            count += 1
        row, link, items, met = row + 1, np.int64(0), False, False
    cursor[0], cursor[1], cursor[2], cursor[3] = row, link, items, met
    return count


@kernel
def meet_items(
    head: Array,
    chain: Array,
    old: Array,
    new: Array,
    before: Array,
    after: Array,
    places: Array,
    cursor: Array,
    at: Array,
    ids: Array,
    counts: Array,
    when: Array,
) -> int:
    """The changes of an input's rows that joined rows meet, from a cursor on: which, how many more, and when they are.

    when: BEFORE the bundle, AFTER it, or both. See meet_rows.
    """
    count, row, link = np.int64(0), cursor[0], cursor[1]
    # A changed row brings what it was and what it is, and both have to fit.
    room = len(at) - 1
    while row < len(places) and count < room:
        place = np.int64(places[row])
        if link == 0 and place >= 0:
            link = np.int64(head[place])
        while link != 0 and count < room:
            k = link - 1
            # The stored row is the same, and only its count has changed: one entry stands for both times.
            if old[k] == new[k]:
                at[count], ids[count], counts[count] = row, old[k], after[k] - before[k]
                when[count] = BEFORE | AFTER
                count += 1
            else:
                if before[k] > 0:
                    at[count], ids[count], counts[count] = row, old[k], -before[k]
                    when[count] = BEFORE
                    count += 1
                if after[k] > 0:
                    at[count], ids[count], counts[count] = row, new[k], after[k]
                    when[count] = AFTER
                    count += 1
            link = np.int64(chain[k])
        if link == 0:
            row += 1
    cursor[0], cursor[1] = row, link
    return count
