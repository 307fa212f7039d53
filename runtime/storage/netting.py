"""Changes to ordered words, netted: each word once, in order, with the sum of its changes.

All of it happens in one array, a queue: how many changes wait, then columns of QUEUE numbers each; changes are in the
column after that of their words. What is netted lies in NET and NET_CHANGES, without sums of 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel

QUEUE: Final = 1 << 12
SLOTS, WORDS, CHANGES, NET, NET_CHANGES, _CELLS = (1 + column * QUEUE for column in range(6))
_MOST_CELLS: Final = 1 << 14
_SPREAD: Final = 64
"""Words are counted in a cell each if at most so many times as many cells as changes hold them."""
_BITS: Final = _CELLS + _MOST_CELLS
"""A bit for each cell that has been used, 32 in a number. Cells and bits are 0 between calls."""
_GROUP: Final = 5
_UNIQUE: Final = 0x077CB531
"""Shifted by 0 to 31 it begins with 32 different groups of five bits, of which each says by how much: a bit's place."""
_PLACES: Final = np.argsort([(_UNIQUE << shift & 0xFFFFFFFF) >> 27 for shift in range(32)])
_DIGIT: Final = 8
_DIGITS: Final = _BITS + (_MOST_CELLS >> _GROUP)
MERGED: Final = _DIGITS + (1 << _DIGIT)
QUEUE_LENGTH: Final = MERGED + 128
_FEW: Final = 12


@kernel
def net(queue: Array, first: int, count: int) -> int:
    """Net so many changes from `first` on, which may be used up; how many words there are."""
    if count <= _FEW:
        return _net_few(queue, first, count)
    least = most = queue[WORDS + first]
    for k in range(first + 1, first + count):
        least = min(least, queue[WORDS + k])
        most = max(most, queue[WORDS + k])
    # Without a sign: the distance of two words of 64 bits need not fit 63.
    spread = np.uint64(most) - np.uint64(least)
    if spread < np.uint64(min(_SPREAD * count, _MOST_CELLS)):
        return _net_dense(queue, first, count, least, np.int64(spread))
    return _net_sparse(queue, first, count, least, spread)


@kernel
def _net_few(queue: Array, first: int, count: int) -> int:
    """Net a queue by insertion."""
    net_count = np.int64(0)
    for k in range(first, first + count):
        word, change = queue[WORDS + k], queue[CHANGES + k]
        at = net_count
        # From the end: words that come in their order are in place at once.
        while at > 0 and queue[NET + at - 1] > word:
            at -= 1
        if at > 0 and queue[NET + at - 1] == word:
            queue[NET_CHANGES + at - 1] += change
            continue
        for j in range(net_count, at, -1):
            queue[NET + j] = queue[NET + j - 1]
            queue[NET_CHANGES + j] = queue[NET_CHANGES + j - 1]
        queue[NET + at] = word
        queue[NET_CHANGES + at] = change
        net_count += 1
    return _drop_zeros(queue, net_count)


@kernel
def _drop_zeros(queue: Array, count: int) -> int:
    """Drop the words whose changes add up to 0."""
    net_count = np.int64(0)
    for k in range(count):
        queue[NET + net_count] = queue[NET + k]
        queue[NET_CHANGES + net_count] = queue[NET_CHANGES + k]
        net_count += queue[NET_CHANGES + k] != 0
    return net_count


@kernel
def _net_dense(queue: Array, first: int, count: int, least: int, spread: int) -> int:
    """Net the changes in an array with a cell for each word that there may be."""
    for k in range(first, first + count):
        cell = queue[WORDS + k] - least
        queue[_CELLS + cell] += queue[CHANGES + k]
        queue[_BITS + (cell >> _GROUP)] |= 1 << (cell & 31)
    net_count = np.int64(0)
    for group in range((spread >> _GROUP) + 1):
        bits = queue[_BITS + group]
        # Cells and bits are cleared as they are read, and so are 0 for the next call.
        queue[_BITS + group] = 0
        while bits != 0:
            place = _PLACES[((bits & -bits) * _UNIQUE & 0xFFFFFFFF) >> 27]
            cell = (group << _GROUP) + place
            bits &= bits - 1
            # Written in any case and kept if it is a change: there is no branch to mispredict.
            queue[NET + net_count] = least + cell
            queue[NET_CHANGES + net_count] = queue[_CELLS + cell]
            net_count += queue[_CELLS + cell] != 0
            queue[_CELLS + cell] = 0
    return net_count


@kernel
def _net_sparse(queue: Array, first: int, count: int, least: int, spread: int) -> int:
    """Net a queue by digits, the last first; between the queue's own columns and those of what is netted."""
    source, target = WORDS + first, np.int64(NET)
    shift = np.uint64(0)
    # As many digits as the distance has, not eight: the words of a slot often lie near one another.
    while shift < np.uint64(64) and spread >> shift != np.uint64(0):
        # Each pass keeps the order that the passes before it have made among equal digits.
        _by_digit(queue, source, target, count, np.uint64(least), shift)
        source, target = target, source
        shift += np.uint64(_DIGIT)
    net_count = np.int64(0)
    for k in range(source, source + count):
        word, change = queue[k], queue[k + QUEUE]
        if net_count > 0 and queue[NET + net_count - 1] == word:
            queue[NET_CHANGES + net_count - 1] += change
        else:
            queue[NET + net_count] = word
            queue[NET_CHANGES + net_count] = change
            net_count += 1
    return _drop_zeros(queue, net_count)


@kernel
def _by_digit(queue: Array, source: int, target: int, count: int, least: int, shift: int) -> None:
    """Put the changes at `source` to `target`, in the order of one digit of the words' distance to the least."""
    for digit in range(1 << _DIGIT):
        queue[_DIGITS + digit] = 0
    for k in range(source, source + count):
        queue[_DIGITS + _digit(queue[k], least, shift)] += 1
    place = target
    for digit in range(1 << _DIGIT):
        begin = place
        place += queue[_DIGITS + digit]
        queue[_DIGITS + digit] = begin
    for k in range(source, source + count):
        digit = _digit(queue[k], least, shift)
        at = queue[_DIGITS + digit]
        queue[_DIGITS + digit] = at + 1
        queue[at] = queue[k]
        queue[at + QUEUE] = queue[k + QUEUE]


@kernel
def _digit(word: int, least: int, shift: int) -> int:
    return np.int64((np.uint64(word) - least) >> shift & np.uint64((1 << _DIGIT) - 1))
