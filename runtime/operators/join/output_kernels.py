"""Joined rows compared as they leave: equal ones are one, and those with one key are the halves of an update."""

from __future__ import annotations

import numpy as np

from aggloom.runtime.state.row_store import RowArrays, is_null
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.hashing import combine
from aggloom.runtime.storage.jit import kernel

_LOW = 0xFFFFFFFF


@kernel
def _hash_side(h: int, rows: RowArrays, row: int, columns: Array) -> int:
    for k in range(len(columns)):
        word, null = np.int64(0), True
        if row >= 0:
            word, null = rows.words[row, columns[k]], is_null(rows.flags, row, columns[k])
        h = combine(h, np.int64(0) if null else word) ^ np.int64(null)
    return h


@kernel
def _same_side(rows: RowArrays, one: int, other: int, columns: Array) -> bool:
    if one == other:
        return True
    for k in range(len(columns)):
        c = columns[k]
        null = one < 0 or is_null(rows.flags, max(one, 0), c)
        if null != (other < 0 or is_null(rows.flags, max(other, 0), c)):
            return False
        if not null and rows.words[one, c] != rows.words[other, c]:
            return False
    return True


@kernel
def hash_joined(
    lefts: RowArrays,
    rights: RowArrays,
    left_columns: Array,
    right_columns: Array,
    left: Array,
    right: Array,
    hashes: Array,
) -> None:
    """The hash of joined rows by some columns."""
    for k in range(len(left)):
        h = _hash_side(np.int64(0), lefts, np.int64(left[k]), left_columns)
        hashes[k] = _hash_side(h, rights, np.int64(right[k]), right_columns)


@kernel
def name_rows(
    lefts: RowArrays,
    rights: RowArrays,
    left_columns: Array,
    right_columns: Array,
    left: Array,
    right: Array,
    hashes: Array,
    table: Array,
    firsts: Array,
    groups: Array,
) -> int:
    """By joined row the number of the first that is its equal in some columns; how many different ones there are.

    firsts: by number its first row. table: zeros, a power of two of them that is greater than the number of rows; a
    cell has the upper half of a hash beside the number + 1.
    """
    found, mask = np.int64(0), np.int64(len(table) - 1)
    for k in range(len(left)):
        h = hashes[k]
        at = h & mask
        while True:
            cell = table[at]
            if cell == 0:
                table[at] = (h & ~_LOW) | (found + 1)
                firsts[found], groups[k] = k, found
                found += 1
                break
            if (cell ^ h) >> 32 == 0:
                g = (cell & _LOW) - 1
                s = firsts[g]
                if _same_side(
                    lefts, np.int64(left[k]), np.int64(left[s]), left_columns
                ) and _same_side(rights, np.int64(right[k]), np.int64(right[s]), right_columns):
                    groups[k] = g
                    break
            at = (at + 1) & mask
    return found


@kernel
def same_joined(
    lefts: RowArrays,
    rights: RowArrays,
    left_columns: Array,
    right_columns: Array,
    left: Array,
    right: Array,
    partner: Array,
    same: Array,
) -> None:
    """Whether each joined row that has a partner is its equal in some columns."""
    for k in range(len(left)):
        j = partner[k]
        if j > k:
            same[k] = same[j] = _same_side(
                lefts, np.int64(left[k]), np.int64(left[j]), left_columns
            ) and _same_side(rights, np.int64(right[k]), np.int64(right[j]), right_columns)


@kernel
def add_up(groups: Array, weights: Array, total: Array) -> None:
    """The sum of the weights of each group."""
    for k in range(len(groups)):
        total[groups[k]] += weights[k]


@kernel
def pair_up(groups: Array, weights: Array, gone: Array, come: Array, partner: Array) -> None:
    """By row the one that it replaces or that replaces it: one that goes and one that comes, in one group; else -1.

    gone, come: -1 by group.
    """
    for k in range(len(groups)):
        g = groups[k]
        mine, other = (come, gone) if weights[k] > 0 else (gone, come)
        if weights[k] != 1 and weights[k] != -1:
            continue
        j = other[g]
        if j >= 0:
            partner[k], partner[j] = j, k
            other[g] = -1
        else:
            mine[g] = k
