"""Kernels of stored rows: their layout in arrays, comparison, insertion, deletion and reading, row by row.

A row is a word for each column. The word of a scalar equals another exactly when the values do (columns.py). The word
of a text (also of bytes, a wide decimal, a nested value) says where its bytes lie in the heap beside the rows and how
many they are: texts are moved, and compared only where an operator compares rows. Where the texts of a column repeat,
rows share their bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from aggloom.runtime.storage.arena import Array, NumberArray, SelectionArray
from aggloom.runtime.storage.byte_kernels import (
    SPARE,
    copy_string,
    hash_bytes,
    load_word,
    same_bytes,
)
from aggloom.runtime.storage.hashing import combine, mix
from aggloom.runtime.storage.jit import kernel

HIGH, FREE, LIVE, HEAP_USED, HEAP_LIVE = range(5)
"""Places in `meta`: ids assigned, the first free one + 1, rows, bytes of the heap in use, lengths of live texts."""
LENGTH_BITS: Final = 28
"""The lower bits of a text's word are its length in bytes, the upper ones its place in the heap."""
RECENT: Final = 1 << 12
"""Texts that are remembered by a hash, for rows to share them; all of their words stay in the nearest cache."""
# A column whose texts do not repeat is looked at once in 64 times or so: by the place in the heap, without a counter.
_PROBE: Final = 63
# A text has less than 256 MiB and a heap less than 32 GiB; the top bit stays 0, so that a word is never negative.
LONGEST: Final = (1 << LENGTH_BITS) - 1
FARTHEST: Final = (1 << 63 - LENGTH_BITS) - 1


class RowArrays(NamedTuple):
    """Arrays by id: `words` (id, column), `flags` (id, byte): bit 0: a row is there; bit c + 1: its column c is null.

    A free row's first word is the next free one + 1; `meta[FREE]` starts the list (0: none is free). The bytes of a
    row's texts lie side by side in `heap`. is_text: by column. recent: words of recent texts, by hash;
    shared: by column how many texts were looked for there, and how many were found.
    """

    words: Array  # int64[ids, columns]
    flags: Array  # uint8[ids, columns // 8 + 1]
    meta: Array  # int64[8]
    heap: Array  # uint8[bytes]
    is_text: Array  # bool[columns]
    recent: Array  # int64[RECENT]
    shared: Array  # int64[columns, 2]


class Encoded(NamedTuple):
    """Rows that are not stored, laid out as stored ones are, over the bytes of the batch that they arrived in."""

    words: Array  # int64[rows, columns]
    flags: Array  # uint8[rows, columns // 8 + 1]
    heap: Array  # uint8[bytes]
    is_text: Array  # bool[columns]

    def take(self, which: SelectionArray) -> Encoded:
        """Return the rows with these places (int64[m]), or that are marked (bool[n])."""
        which = np.flatnonzero(which) if which.dtype == np.bool_ else which
        words, flags = self.words.take(which, axis=0), self.flags.take(which, axis=0)
        return self._replace(words=words, flags=flags)


AnyRows = RowArrays | Encoded


@kernel
def is_null(flags: Array, r: int, c: int) -> bool:
    """Tell whether column c of a row is null."""
    # Bit 0 of a row's first byte says that the row is there; the columns begin after it.
    return flags[r, (c + 1) >> 3] >> ((c + 1) & 7) & 1 != 0


@kernel
def text_length(word: int) -> int:
    """Return the bytes of a text, which its word says."""
    return word & LONGEST


@kernel
def text_start(word: int) -> int:
    """Return the place in the heap at which a text begins, which its word says."""
    return word >> LENGTH_BITS


@kernel
def hash_value(rows: AnyRows, r: int, c: int) -> int:
    """Return a number that is the same for equal values of column c; for a NULL it is some value's."""
    word = rows.words[r, c]
    if rows.is_text[c]:
        return hash_bytes(rows.heap, text_start(word), text_length(word))
    return word


@kernel
def same_value(rows: AnyRows, r: int, others: AnyRows, s: int, c: int) -> bool:
    """Tell whether row r and row s of others have the same word or text in column c, whatever their flags say."""
    left, right = rows.words[r, c], others.words[s, c]
    if not rows.is_text[c]:
        return left == right
    length = text_length(left)
    # Lengths are in the words: texts of different lengths are not read at all.
    if length != text_length(right):
        return False
    return same_bytes(rows.heap, text_start(left), others.heap, text_start(right), length)


@kernel
def same_row(columns: Array, rows: AnyRows, r: int, others: AnyRows, s: int) -> bool:
    """Tell whether row r and row s of others are the same in some columns; both may be rows that are not stored."""
    for k in range(len(columns)):
        c = columns[k]
        # Flags before words: the word of a NULL is 0, which is some value's word, too.
        if is_null(rows.flags, r, c) != is_null(others.flags, s, c):
            return False
        if not same_value(rows, r, others, s, c):
            return False
    return True


@kernel
def same_rows(rows: RowArrays, left: Array, right: Array, columns: Array, out: Array) -> None:
    """Write to `out` whether stored rows are the same in some columns."""
    for k in range(len(left)):
        out[k] = same_row(columns, rows, left[k], rows, right[k])


@kernel
def compare_rows(
    columns: Array, rows: RowArrays, ids: Array, batch: Encoded, which: Array, out: Array
) -> None:
    """Write to `out` whether stored rows are the same in some columns as rows that are not stored."""
    for k in range(len(ids)):
        out[k] = same_row(columns, rows, ids[k], batch, which[k])


@kernel
def row_bytes(rows: AnyRows, r: int) -> int:
    """Return the bytes of a row's texts."""
    total = np.int64(0)
    for c in range(len(rows.is_text)):
        if rows.is_text[c]:
            total += text_length(rows.words[r, c])
    return total


@kernel
def measure_rows(rows: Encoded, which: Array) -> int:
    """Return the bytes of the texts of some rows."""
    total = np.int64(0)
    for k in range(len(which)):
        total += row_bytes(rows, which[k])
    return total


@kernel
def has_heap_room(rows: RowArrays, batch: Encoded, r: int) -> bool:
    """Tell whether the heap has room for the texts of row r of the batch."""
    # `copy_string` writes up to SPARE bytes further than the text, and they have to be inside the heap.
    return rows.meta[HEAP_USED] + row_bytes(batch, r) + SPARE <= len(rows.heap)


@kernel
def _recent_cell(source: Array, start: int, length: int) -> int:
    """The first of two cells of `recent` for a text, by its first and last bytes: all would cost as much as a copy."""
    if length < 8:
        # What follows the text is not part of it.
        first = load_word(source, start) & ((1 << 8 * length) - 1)
        # The mask leaves an even cell; its neighbour is the second place for the same hash.
        return mix(first + length) & RECENT - 2
    first, last = load_word(source, start), load_word(source, start + length - 8)
    return mix(combine(first, last) + length) & RECENT - 2


@kernel
def place_text(
    rows: RowArrays, c: int, source: Array, start: int, length: int, heap: Array, used: int
) -> tuple[int, int]:
    """Store a text of column c in a heap, of which so many bytes are in use: (its word, the bytes in use then).

    A recent text is in the heap already, and is shared. Columns whose texts do not repeat are looked up only sometimes.
    """
    if length == 0:
        # An empty text has no place: its word is that of a NULL, so that equal rows have equal words.
        return np.int64(0), used
    cell = np.int64(-1)
    lookups, hits = rows.shared[c, 0], rows.shared[c, 1]
    # At first every text is looked for; later only while half of the look-ups find something, and by the sample.
    looks = lookups < RECENT or 2 * hits >= lookups or used & _PROBE == 0
    if looks:
        cell = _recent_cell(source, start, length)
        rows.shared[c, 0] += 1
        for place in range(cell, cell + 2):
            word = rows.recent[place]
            # A cell that was never written has length 0, as no text has that is looked for: it is never a hit.
            if text_length(word) == length and same_bytes(
                heap, text_start(word), source, start, length
            ):
                rows.shared[c, 1] += 1
                return word, used
        if lookups > 4 * RECENT:
            # Old texts count less and less.
            rows.shared[c, 0], rows.shared[c, 1] = lookups >> 1, hits >> 1
    copy_string(source, start, heap, used, length)
    word = used << LENGTH_BITS | length
    if cell >= 0:
        # Two texts that share their cells both stay.
        rows.recent[cell + 1] = rows.recent[cell]
        rows.recent[cell] = word
    return word, used + length


@kernel
def store_row(rows: RowArrays, batch: Encoded, r: int) -> int:
    """The id that row r of the batch gets; room was reserved."""
    # Free ids first: every array by id stays as short as it can.
    if rows.meta[FREE] > 0:
        row = rows.meta[FREE] - 1
        rows.meta[FREE] = rows.words[row, 0]
    else:
        row = rows.meta[HIGH]
        rows.meta[HIGH] += 1
    rows.meta[LIVE] += 1
    for b in range(rows.flags.shape[1]):
        rows.flags[row, b] = batch.flags[r, b]
    used = rows.meta[HEAP_USED]
    for c in range(rows.words.shape[1]):
        word = batch.words[r, c]
        if rows.is_text[c]:
            start, length = text_start(word), text_length(word)
            # The texts of a row side by side: reading it again touches one place of the heap.
            word, used = place_text(rows, c, batch.heap, start, length, heap=rows.heap, used=used)
            rows.meta[HEAP_LIVE] += length
        rows.words[row, c] = word
    rows.meta[HEAP_USED] = used
    return row


@kernel
def store_rows(
    rows: RowArrays, batch: Encoded, which: Array, ids: Array, start: int, stop: int
) -> None:
    """Store some rows, from one on and up to another, and write their ids."""
    for k in range(start, stop):
        ids[k] = store_row(rows, batch, which[k])


@kernel
def delete_rows(rows: RowArrays, ids: Array) -> None:
    """Forget rows, each of which is there."""
    for k in range(len(ids)):
        row = ids[k]
        # Before the row's first word becomes the link to the next free row.
        rows.meta[HEAP_LIVE] -= row_bytes(rows, row)
        # All flags, not bit 0 alone: a row that gets this id brings its own, and free rows have none that a check may
        # read.
        for b in range(rows.flags.shape[1]):
            rows.flags[row, b] = 0
        rows.words[row, 0] = rows.meta[FREE]
        rows.meta[FREE] = row + 1
        rows.meta[LIVE] -= 1


@kernel
def compact_texts(rows: RowArrays, heap: Array) -> None:
    """Copy the texts of all rows into another heap, and let their words name the places there."""
    used = np.int64(0)
    # These words name places of the heap that goes.
    rows.recent[:] = 0
    for row in range(rows.meta[HIGH]):
        if rows.flags[row, 0] & 1 == 0:
            continue
        for c in range(len(rows.is_text)):
            if rows.is_text[c]:
                start, length = text_start(rows.words[row, c]), text_length(rows.words[row, c])
                # This remembers the words of the new heap one after another: texts that rows shared stay shared.
                word, used = place_text(rows, c, rows.heap, start, length, heap=heap, used=used)
                rows.words[row, c] = word
    rows.meta[HEAP_USED] = used


@kernel
def check_rows(rows: RowArrays) -> int:
    """Return the number of rows, -1 if one is none or has a text that is not in the heap."""
    count, total = np.int64(0), np.int64(0)
    used = rows.meta[HEAP_USED]
    for row in range(len(rows.flags)):
        if rows.flags[row, 0] & 1 == 0:
            continue
        # No id from there on was emitted: the next new row would overwrite this one.
        if row >= rows.meta[HIGH]:
            return np.int64(-1)
        count += 1
        for c in range(len(rows.is_text)):
            if rows.is_text[c]:
                word = rows.words[row, c]
                if word < 0 or text_start(word) > used - text_length(word):
                    return np.int64(-1)
                # A NULL has no bytes: nobody would take their length off again.
                if is_null(rows.flags, row, c) and text_length(word) != 0:
                    return np.int64(-1)
                total += text_length(word)
                # Rows that share bytes could be longer together than what is known of them.
                if total > rows.meta[HEAP_LIVE]:
                    return np.int64(-1)
    return count if total == rows.meta[HEAP_LIVE] else np.int64(-1)


@kernel
def gather_words(
    rows: RowArrays, ids: NumberArray, columns: Array, words: Array, valid: Array, ends: Array
) -> None:
    """Transpose some columns of rows; an id of -1 is a row of nulls. ends: the bytes of their texts up to each row."""
    for k in range(len(ids)):
        row = ids[k]
        for n in range(len(columns)):
            c = columns[n]
            there = row >= 0 and not is_null(rows.flags, max(row, 0), c)
            word = rows.words[row, c] if there else np.int64(0)
            valid[n, k] = there
            words[n, k] = word
            if rows.is_text[c]:
                ends[n, k + 1] = ends[n, k] + text_length(word)


@kernel
def gather_texts(
    heap: Array, texts: Array, words: Array, ends: Array, begins: Array, out: Array
) -> None:
    """Copy the texts of rows to where each column's bytes begin in `out`.

    texts: int64[m], the columns that are texts, among those of words and ends.
    """
    for k in range(words.shape[1]):
        # Row by row, as they lie in the heap.
        for place in range(len(texts)):
            n = texts[place]
            word = words[n, k]
            length = text_length(word)
            copy_string(heap, text_start(word), out, begins[place] + ends[n, k], length)
