"""The row store: rows by id, as words; whole columns are gathered to Arrow at once, and no row is decoded by itself.

A value is the word that equals another exactly when the values do (columns.py), so that NaN is NaN, -0.0 is kept as
0.0, and strings, wide decimals and nested values are ids of the pool. The rows of a batch are encoded once, and are
then compared with and put beside stored ones as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.storage.arena import (
    Arena,
    Array,
    NumberArray,
    RowIdArray,
    SelectionArray,
    airy,
)
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.index_audit import check_chain
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import Pool, PoolArrays, hold, release
from aggloom.runtime.values import columns
from aggloom.type_layout import is_pooled

HIGH, FREE, LIVE = range(3)
FIRST_ROWS = 16


class RowArrays(NamedTuple):
    """Arrays by id: `words` (id, column), `flags` (id, byte): bit 0: a row is there; bit c + 1: its column c is null.

    A free row's first word is the next free one + 1; `meta[FREE]` starts the list (0: none is free).
    """

    words: Array  # int64[ids, columns]
    flags: Array  # uint8[ids, columns // 8 + 1]
    meta: Array  # int64[4]


class Encoded(NamedTuple):
    """Rows that are not stored, laid out as stored ones are; nothing holds their strings in the pool."""

    words: Array  # int64[rows, columns]
    flags: Array  # uint8[rows, columns // 8 + 1]

    def take(self, which: SelectionArray) -> Encoded:
        """Return the rows with these places (int64[m]), or that are marked (bool[n])."""
        return Encoded(self.words[which], self.flags[which])


@kernel
def is_null(flags: Array, r: int, c: int) -> bool:
    """Tell whether column c of a row is null."""
    return flags[r, (c + 1) >> 3] >> ((c + 1) & 7) & 1 != 0


@kernel
def same_row(
    columns: Array, words: Array, flags: Array, r: int, others: Array, marks: Array, s: int
) -> bool:
    """Tell whether row r and row s of others are the same in some columns."""
    for k in range(len(columns)):
        c = columns[k]
        # Equal values have equal words, texts too: equal bytes have one id in the pool.
        if words[r, c] != others[s, c] or is_null(flags, r, c) != is_null(marks, s, c):
            return False
    return True


@kernel
def same_rows(rows: RowArrays, left: Array, right: Array, columns: Array, out: Array) -> None:
    """Write to `out` whether stored rows are the same in some columns."""
    for k in range(len(left)):
        out[k] = same_row(
            columns, rows.words, rows.flags, left[k], rows.words, rows.flags, s=right[k]
        )


@kernel
def store_row(rows: RowArrays, pool: PoolArrays, pooled: Array, given: Encoded, r: int) -> int:
    """The id that row r of the given ones gets; room was reserved."""
    # Free ids first: every array by id stays as short as it can.
    if rows.meta[FREE] > 0:
        row = rows.meta[FREE] - 1
        rows.meta[FREE] = rows.words[row, 0]
    else:
        row = rows.meta[HIGH]
        rows.meta[HIGH] += 1
    rows.meta[LIVE] += 1
    for b in range(rows.flags.shape[1]):
        rows.flags[row, b] = given.flags[r, b]
    for c in range(rows.words.shape[1]):
        rows.words[row, c] = given.words[r, c]
        if pooled[c]:
            # Encoding holds no text, and a sweep of the pool drops those that nobody holds.
            hold(pool, given.words[r, c])
    return row


@kernel
def _store(
    rows: RowArrays, pool: PoolArrays, pooled: Array, given: Encoded, which: Array, ids: Array
) -> None:
    for k in range(len(which)):
        ids[k] = store_row(rows, pool, pooled, given, which[k])


@kernel
def _delete(rows: RowArrays, pool: PoolArrays, pooled: Array, ids: Array) -> None:
    for k in range(len(ids)):
        row = ids[k]
        for c in range(rows.words.shape[1]):
            if pooled[c]:
                # Before the row's first word becomes the link to the next free row.
                release(pool, rows.words[row, c])
        for b in range(rows.flags.shape[1]):
            rows.flags[row, b] = 0
        rows.words[row, 0] = rows.meta[FREE]
        rows.meta[FREE] = row + 1
        rows.meta[LIVE] -= 1


@kernel
def _check_rows(rows: RowArrays, pooled: Array, references: Array) -> int:
    """Return the number of rows, -1 if one is none; `references` (int64[ids]) counts those to the pool."""
    count = np.int64(0)
    for row in range(len(rows.flags)):
        if rows.flags[row, 0] & 1 == 0:
            continue
        # No id from there on was given out: the next new row would overwrite this one.
        if row >= rows.meta[HIGH]:
            return np.int64(-1)
        count += 1
        for c in range(rows.words.shape[1]):
            if pooled[c]:
                i = rows.words[row, c]
                if i < 0 or i >= len(references):
                    return np.int64(-1)
                references[i] += 1
    return count


@kernel
def _gather(rows: RowArrays, ids: Array, columns: Array, words: Array, valid: Array) -> None:
    """Transpose some columns of rows; an id of -1 is a row of nulls."""
    for k in range(len(ids)):
        row = ids[k]
        for n in range(len(columns)):
            c = columns[n]
            there = row >= 0 and not is_null(rows.flags, max(row, 0), c)
            valid[n, k] = there
            words[n, k] = rows.words[row, c] if there else 0


@kernel
def _compare(
    columns: Array, rows: RowArrays, ids: Array, given: Encoded, which: Array, out: Array
) -> None:
    for k in range(len(ids)):
        out[k] = same_row(
            columns, rows.words, rows.flags, ids[k], given.words, given.flags, s=which[k]
        )


class RowStore:
    """Rows of some columns in an arena, created there or found there again.

    name: what its arrays are called by. fields: the columns, at least one.
    """

    def __init__(self, arena: Arena, pool: Pool, name: str, fields: Sequence[pa.Field]) -> None:
        self.arena, self.pool, self.name = arena, pool, name
        self.schema = pa.schema(fields)
        self.pooled = np.array([is_pooled(f.type) for f in fields], np.bool_)
        self.every_column = np.arange(len(fields), dtype=np.int64)
        arena.array(f"{name}.words", FIRST_ROWS, "i8", len(fields))
        arena.array(f"{name}.flags", FIRST_ROWS, "u1", len(fields) // 8 + 1)
        arena.array(f"{name}.meta", 4, "i8")
        self._reload()

    def __len__(self) -> int:
        return int(self.arrays.meta[LIVE])

    @property
    def capacity(self) -> int:
        """Ids that there is room for: arrays by id need as many places."""
        return len(self.arrays.words)

    @property
    def high(self) -> int:
        """One more than the greatest id that has been given out."""
        return int(self.arrays.meta[HIGH])

    @property
    def is_airy(self) -> bool:
        """True if copying the rows that are left would give much memory back."""
        return airy(len(self), self.high)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes, without those of its strings in the pool."""
        return 8 * self.arrays.words.shape[1] + int(self.arrays.flags.shape[1])

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are rows."""
        rows, name = self.arrays, self.name
        audit.require_length(len(rows.words), name, rows.flags)
        audit.require_length(4, name, rows.meta)
        high, free, live = rows.meta[:3].tolist()
        right = 0 <= live <= high <= len(rows.words)
        right = right and _check_rows(rows, self.pooled, audit.held) == live
        audit.require(right, name, "its rows are not as many as it says")
        self._note_types(audit)
        used = np.ascontiguousarray(rows.flags[:, 0])
        right = check_chain(rows.words, free, high - live, high, used)
        audit.require(right, name, "free rows are not listed once")

    def _note_types(self, audit: Audit) -> None:
        if not self.pooled.any():
            return
        there = self.live()
        for c in np.flatnonzero(self.pooled):
            valid = self.arrays.flags[there, (c + 1) >> 3] >> ((c + 1) & 7) & 1 == 0
            audit.note_type(self.schema.field(int(c)).type, self.arrays.words[there[valid], c])

    def require_live(self, audit: Audit, name: str, ids: RowIdArray) -> None:
        """Raise StateCorruptError unless ids (int64[n]) are those of rows that are there, each once."""
        right = not len(ids) or (ids.min() >= 0 and ids.max() < len(self.arrays.flags))
        right = right and bool((self.arrays.flags[ids, 0] & 1 != 0).all())
        audit.require(right and len(np.unique(ids)) == len(ids), name, "it names rows wrongly")

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """The rows of a batch, whose columns are cast to the store's; its strings are in the pool until it is swept.

        Raises ArrowInvalid where a value does not fit.
        """
        n = batch.num_rows
        words = np.empty((n, len(self.schema)), np.int64)
        flags = np.zeros((n, self.arrays.flags.shape[1]), np.uint8)
        # Bit 0 says that the row is there; the bits of nulls begin after it.
        flags[:, 0] = 1
        for c, field in enumerate(self.schema):
            column = batch.column(c)
            if column.type != field.type:
                column = column.cast(field.type)
            words[:, c], valid = columns.words(column, self.pool)
            if column.null_count:
                flags[:, (c + 1) >> 3] |= (~valid).astype(np.uint8) << ((c + 1) & 7)
        return Encoded(words, flags)

    def insert(self, rows: Encoded, which: NumberArray | None = None) -> Array:
        """Store rows, those with numbers `which` or all; their ids."""
        which = np.arange(len(rows.words)) if which is None else which
        self.reserve(len(which))
        ids = np.empty(len(which), np.int64)
        _store(self.arrays, self.pool.arrays, self.pooled, rows, which, ids)
        return ids

    def delete(self, ids: RowIdArray) -> None:
        """Forget rows, each of which is there; their ids are free."""
        _delete(self.arrays, self.pool.arrays, self.pooled, ids)

    def gather(self, ids: RowIdArray) -> pa.RecordBatch:
        """The rows with these ids, in this order; -1 is a row of NULLs, with which outer joins pad."""
        return pa.RecordBatch.from_arrays(
            self.gather_columns(ids, self.every_column), schema=self.schema
        )

    def gather_columns(self, ids: RowIdArray, among: NumberArray) -> list[pa.Array]:
        """As gather, the columns with these numbers."""
        words = np.empty((len(among), len(ids)), np.int64)
        valid = np.empty(words.shape, np.bool_)
        _gather(self.arrays, ids, among, words, valid)
        types = [self.schema.field(int(c)).type for c in among]
        return [
            columns.from_words(words[n], valid[n], dtype, self.pool, fresh=True)
            for n, dtype in enumerate(types)
        ]

    def equal(
        self,
        ids: RowIdArray,
        rows: Encoded,
        which: NumberArray | None = None,
        among: NumberArray | None = None,
    ) -> Array:
        """Return whether each stored row equals the encoded one beside it, those with numbers `which` or all.

        among: numbers of the columns that count; all by default.
        """
        which = np.arange(len(ids)) if which is None else which
        among = self.every_column if among is None else among
        out = np.empty(len(ids), np.bool_)
        _compare(among, self.arrays, ids, rows, which, out)
        return out

    def live(self) -> Array:
        """The ids of all rows, rising."""
        return np.flatnonzero(self.arrays.flags[: self.high, 0] & 1).astype(np.int64)

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows."""
        need = len(self) + rows
        if need > self.capacity:
            self._resize(self.arena.roomier(self.capacity, need))

    def trim(self) -> None:
        """Give back the room that no id has used yet."""
        self._resize(max(FIRST_ROWS, self.high))

    def shrink(self) -> None:
        """Give the memory back when no row is left."""
        if len(self) == 0 and self.capacity > FIRST_ROWS:
            self.arrays.meta[:] = 0
            self._resize(FIRST_ROWS)

    def copy_into(self, arena: Arena, pool: Pool) -> tuple[RowStore, Array]:
        """Copy what is left into another arena: the new store, and by old id the new one, -1 where there was no row."""
        ids = self.live()
        words, flags = self.arrays.words[ids], self.arrays.flags[ids]
        pool.reserve_import(self.pool)
        for column in np.flatnonzero(self.pooled):
            words[:, column] = pool.import_ids(self.pool, np.ascontiguousarray(words[:, column]))
        new = RowStore(arena, pool, self.name, list(self.schema))
        moved = np.full(self.high, -1, np.int64)
        moved[ids] = new.insert(Encoded(words, flags))
        return new, moved

    def _resize(self, rows: int) -> None:
        if rows == self.capacity:
            return
        for part in ("words", "flags"):
            self.arena.resize(f"{self.name}.{part}", rows)
        self._reload()

    def _reload(self) -> None:
        self.arrays = RowArrays(
            *(self.arena.array(f"{self.name}.{n}", 0, "i8") for n in RowArrays._fields)
        )
