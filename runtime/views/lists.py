"""Results that are lists: rows of (word, count), one after the other, in arrays that their caller lets grow.

A kernel that finds no room sets FULL. Its caller then gives the arrays more, sets USED back to where the row
started, and calls again for that row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aggloom.runtime.storage.allocation import require_memory
from aggloom.runtime.storage.arena import Array, NumberArray
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import cold_kernel, kernel
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.storage.tree import tree_start, tree_step
from aggloom.runtime.views.sequence import Sequence, is_ghost

USED, FULL = range(2)


class ListOut(NamedTuple):
    """`words` and `counts` of all rows; row k stops at `ends[k]`, where the next starts."""

    words: Array  # int64[elements]
    counts: Array  # int64[elements]
    ends: Array  # int64[rows]
    meta: Array  # int64[2]


@kernel
def put_element(out: ListOut, word: int, count: int) -> None:
    """Append to the row that is being written, or set FULL."""
    at = out.meta[USED]
    if at == len(out.words):
        # A kernel cannot let arrays grow: its caller does, and calls again for the row.
        out.meta[FULL] = 1
        return
    out.words[at] = word
    out.counts[at] = count
    out.meta[USED] = at + 1


@kernel
def end_list(out: ListOut, k: int) -> None:
    out.ends[k] = out.meta[USED]


@cold_kernel
def list_sequence(
    out: ListOut, k: int, view: Sequence, pool: PoolArrays, pooled: bool, slot: int
) -> None:
    """The values in the order they arrived."""
    node = np.int64(view.head[slot])
    while node != 0 and out.meta[FULL] == 0:
        if not is_ghost(view, node):
            put_element(out, view.words[node], 1)
        node = np.int64(view.following[node])
    end_list(out, k)


@cold_kernel
def list_ordered(
    out: ListOut,
    k: int,
    view: Tree,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    repeat: bool,
    backwards: bool,
) -> None:
    """The values in order: each once with its count, or (`repeat`) as often as it is there."""
    side = np.int64(backwards)
    leaf, entry = tree_start(view, slot, side)
    while entry != 0 and out.meta[FULL] == 0:
        count = view.heap[entry + 1]
        if count > 0 and not repeat:
            put_element(out, view.heap[entry], count)
        while repeat and count > 0 and out.meta[FULL] == 0:
            put_element(out, view.heap[entry], 1)
            count -= 1
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1 - side)
    end_list(out, k)


@kernel
def _raise_last(out: ListOut, start: int) -> None:
    """Let the last element go ahead of those from `start` on that are less frequent."""
    at = out.meta[USED] - 1
    word, count = out.words[at], out.counts[at]
    # Only past less frequent ones: equally frequent ones stay before it because they are smaller.
    while at > start and out.counts[at - 1] < count:
        out.words[at], out.counts[at] = out.words[at - 1], out.counts[at - 1]
        at -= 1
    out.words[at], out.counts[at] = word, count


@cold_kernel
def list_top(
    out: ListOut, k: int, view: Tree, pool: PoolArrays, pooled: bool, slot: int, n: int
) -> None:
    """The n most frequent values; of those as frequent, the smaller first."""
    start = out.meta[USED]
    leaf, entry = tree_start(view, slot, 0)
    while n > 0 and entry != 0 and out.meta[FULL] == 0:
        count = view.heap[entry + 1]
        last = out.meta[USED] - 1
        # The least frequent of n makes room, but for a more frequent value alone: of equals the smaller one stays.
        if last - start == n - 1 and count > out.counts[last]:
            out.meta[USED] = last
        if count > 0 and out.meta[USED] - start < n:
            put_element(out, view.heap[entry], count)
            if out.meta[FULL] == 0:
                _raise_last(out, start)
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1)
    end_list(out, k)


@cold_kernel
def mode(view: Tree, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    """The most frequent value, the smallest if there are several."""
    best, most = np.int64(0), np.int64(0)
    leaf, entry = tree_start(view, slot, 0)
    while entry != 0:
        # More, not as many: of several values the first one stays, which is the smallest.
        if view.heap[entry + 1] > most:
            best, most = view.heap[entry], view.heap[entry + 1]
        leaf, entry = tree_step(view, pool, pooled, slot, leaf, entry, side=1)
    return best, most > 0


def new_list_out(n: int) -> ListOut:
    """Room for n rows, for a start of about four elements each."""
    room = 4 * n + 64
    return ListOut(
        np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(n, np.int64), np.zeros(2, "i8")
    )


def enlarge_list(out: ListOut) -> ListOut:
    """The same with twice the room, not FULL; the caller sets USED back to the row's start."""
    # Two arrays of twice the length, with eight bytes an element.
    require_memory(32 * len(out.words), "the values of a result")
    more = np.zeros(len(out.words), np.int64)
    return ListOut(
        np.concatenate([out.words, more]),
        np.concatenate([out.counts, more]),
        out.ends,
        np.array([out.meta[USED], 0], np.int64),
    )


def _starts(out: ListOut) -> Array:
    return np.concatenate([np.zeros(1, np.int64), out.ends[:-1]])[: len(out.ends)]


def rows_of(out: ListOut, take: NumberArray) -> tuple[Array, Array, Array]:
    """(words, counts, offsets) of the lists at the rows `take`, one after the other."""
    # The places of each list's elements: from where it starts, less what lists before it have taken.
    starts = _starts(out)[take]
    lengths = out.ends[take] - starts
    offsets = np.zeros(len(take) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return out.words[places], out.counts[places], offsets


def lists_differ(a: ListOut, b: ListOut, n: int) -> Array:
    """Return in which of the first n rows the lists differ."""
    a_lengths, b_lengths = (a.ends - _starts(a))[:n], (b.ends - _starts(b))[:n]
    differ: Array = a_lengths != b_lengths
    same_length = np.flatnonzero(~differ)
    a_words, a_counts, offsets = rows_of(a, same_length)
    b_words, b_counts, _ = rows_of(b, same_length)
    # Differences are counted along all rows: a row has one where the count at its ends is not the same.
    unequal = np.zeros(len(a_words) + 1, np.int64)
    np.cumsum((a_words != b_words) | (a_counts != b_counts), out=unequal[1:])
    differ[same_length] = unequal[offsets[1:]] != unequal[offsets[:-1]]
    return differ


def concatenate_lists(a: ListOut, b: ListOut) -> ListOut:
    """The rows of a, then those of b."""
    # Behind the last end arrays are room, not elements.
    a_used = int(a.ends[-1]) if len(a.ends) else 0
    b_used = int(b.ends[-1]) if len(b.ends) else 0
    return ListOut(
        np.concatenate([a.words[:a_used], b.words[:b_used]]),
        np.concatenate([a.counts[:a_used], b.counts[:b_used]]),
        np.concatenate([a.ends, b.ends + a_used]),
        np.array([a_used + b_used, 0], np.int64),
    )
