"""Joined rows compared as they leave: equal ones are one, and those with one key are the halves of an update."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_kernels import RowArrays, hash_value, is_null, same_value
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import kernel

_LOW = 0xFFFFFFFF


@kernel
def hash_joined(rows: RowArrays, columns: Array, ids: Array, hashes: Array) -> None:
    """Go on with the hashes of joined rows by some columns of one input's rows; -1 is padded."""
    for k in range(len(ids)):
        h, row = hashes[k], np.int64(ids[k])
        for n in range(len(columns)):
            value, null = np.int64(0), True
            if row >= 0 and not is_null(rows.flags, row, columns[n]):
                value, null = hash_value(rows, row, columns[n]), False
            # The mark of a NULL makes its hash another than that of the value 0.
            h = combine(h, value) ^ np.int64(null)
        hashes[k] = h


@kernel
def name_hashes(hashes: Array, table: Array, firsts: Array, groups: Array) -> int:
    """Write for each joined row the number of the first with its hash; return how many different ones there are.

    firsts: by number its first row. table: zeros, a power of two of them that is greater than the number of rows; a
    cell has the upper half of a hash beside the number + 1.
    """
    count, mask = np.int64(0), np.int64(len(table) - 1)
    for k in range(len(hashes)):
        h = hashes[k]
        at = h & mask
        # It ends, as the table has more cells than there are rows.
        while True:
            cell = table[at]
            if cell == 0:
                table[at] = (h & ~_LOW) | (count + 1)
                firsts[count], groups[k] = k, count
                count += 1
                break
            # Half of the hash is in the cell: the whole one, which is elsewhere in memory, is read where the half
            # fits.
            if (cell ^ h) >> 32 == 0:
                g = (cell & _LOW) - 1
                if hashes[firsts[g]] == h:
                    groups[k] = g
                    break
            at = (at + 1) & mask
    return count


@kernel
def differ(rows: RowArrays, columns: Array, ids: Array, others: Array, out: Array) -> None:
    """Mark the joined rows whose row of one input differs from that of another joined row; others: its number or -1."""
    for k in range(len(ids)):
        if others[k] < 0:
            continue
        one, other = np.int64(ids[k]), np.int64(ids[others[k]])
        # One stored row, or both are padded.
        if one == other:
            continue
        for n in range(len(columns)):
            c = columns[n]
            null = one < 0 or is_null(rows.flags, max(one, 0), c)
            differs = null != (other < 0 or is_null(rows.flags, max(other, 0), c))
            if differs or (not null and not same_value(rows, one, rows, other, c)):
                out[k] = True
                break


@kernel
def add_up(groups: Array, weights: Array, total: Array) -> None:
    """The sum of the weights of each group."""
    for k in range(len(groups)):
        total[groups[k]] += weights[k]


@kernel
def pair_up(groups: Array, weights: Array, gone: Array, come: Array, partner: Array) -> None:
    """Write for each row the one that it replaces or that replaces it: one that goes and one that comes, in one group;
    else -1.

    gone, come: -1 by group.
    """
    for k in range(len(groups)):
        g = groups[k]
        mine, other = (come, gone) if weights[k] > 0 else (gone, come)
        # Of several equal rows it cannot be said which one is replaced.
        if weights[k] != 1 and weights[k] != -1:
            continue
        j = other[g]
        if j >= 0:
            partner[k], partner[j] = j, k
            # A third row of the key has to find another partner.
            other[g] = -1
        else:
            mine[g] = k
