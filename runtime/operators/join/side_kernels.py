"""Changes of a side, row by row: which of a bundle are about one row, and what there is of it in the end."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_index import BLOCK, row_hash
from aggloom.runtime.state.row_kernels import Encoded, same_row
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.hashing import mix
from aggloom.runtime.storage.jit import kernel


@kernel
def name_groups(
    slots: Array,
    rows: Encoded,
    identity: Array,
    table: Array,
    hashes: Array,
    groups: Array,
    firsts: Array,
) -> int:
    """Write for each change the number of the row that it is about, and by row its first change;
    return how many rows there are.

    table: zeros, a power of two of them that is greater than the number of changes.
    """
    count, mask = np.int64(0), np.int64(len(table) - 1)
    for begin in range(0, len(slots), BLOCK):
        stop = min(begin + BLOCK, len(slots))
        # As `look_ahead` does: what the block will meet is read first. There are no more rows than changes, so that
        # a change's hash lies where no row's is yet.
        for r in range(begin, stop):
            hashes[r] = row_hash(rows, r, slots[r], identity)
        for r in range(begin, stop):
            # Without an identity the hash is the slot, and slots lie side by side.
            groups[r] = table[mix(hashes[r]) & mask]
        for r in range(begin, stop):
            groups[r] = hashes[max(groups[r] - 1, 0)]
        for r in range(begin, stop):
            h = hashes[r]
            at = mix(h) & mask
            while True:
                g = np.int64(table[at]) - 1
                # The first change about this row, whose hash takes the place of one that is not needed any more.
                if g < 0:
                    table[at] = count + 1
                    hashes[count], firsts[count], groups[r] = h, r, count
                    count += 1
                    break
                s = firsts[g]
                # Hashes first, then slots: columns are compared only where both are equal.
                if hashes[g] == h and slots[s] == slots[r] and same_row(identity, rows, r, rows, s):
                    groups[r] = g
                    break
                at = (at + 1) & mask
    return count


@kernel
def follow(
    groups: Array, retracts: Array, replaces: bool, count: Array, last: Array, orphans: Array
) -> int:
    """Take changes one after the other: how often each row is there then, and its last insertion; how many orphans.

    count: how often each row is there before. last: -1 by row. orphans: the retractions of rows that are not there.
    """
    stray = 0
    for r in range(len(groups)):
        g = groups[r]
        if not retracts[r]:
            # With a unique key an insertion replaces the row that is there: there is never more than one.
            count[g] = 1 if replaces else count[g] + 1
            last[g] = r
        # In order, row by row: an insertion after its retraction does not make up for it, as a sum would have it.
        elif count[g] > 0:
            count[g] -= 1
        else:
            orphans[stray] = r
            stray += 1
    return stray


@kernel
def add_distinct(slots: Array, mark: Array, out: Array, marked: int) -> int:
    """Put the slots without a mark behind the first `marked` and mark them; how many there are then."""
    for r in range(len(slots)):
        if mark[slots[r]] == 0:
            mark[slots[r]] = 1
            out[marked] = slots[r]
            marked += 1
    return marked
