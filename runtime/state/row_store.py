"""The row store: rows by id; whole columns are gathered to Arrow at once, and no row is decoded by itself.

The rows of a batch are encoded once, and are then compared with stored ones and put beside them (row_kernels.py).
NaN is NaN, and -0.0 is kept as 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError, StateRoomError
from aggloom.runtime.state.row_kernels import (
    FARTHEST,
    HEAP_LIVE,
    HEAP_USED,
    HIGH,
    LENGTH_BITS,
    LIVE,
    LONGEST,
    RECENT,
    Encoded,
    RowArrays,
    check_rows,
    compact_texts,
    compare_rows,
    delete_rows,
    gather_texts,
    gather_words,
    measure_rows,
    store_rows,
)
from aggloom.runtime.storage.arena import Arena, Array, NumberArray, RowIdArray, airy
from aggloom.runtime.storage.audit import Audit, corrupt_snapshot
from aggloom.runtime.storage.byte_kernels import SPARE
from aggloom.runtime.storage.index_audit import check_chain
from aggloom.runtime.values import columns, scalars
from aggloom.type_layout import is_pooled

FIRST_ROWS = 16
FIRST_BYTES = 256
_PART = 1 << 12
_PIECE = 1 << 26
"""The number of bytes of text, roughly, that a check reads together."""


class RowStore:
    """Rows of some columns in an arena, created there or found there again.

    name: what its arrays are called by. fields: the columns, at least one.
    """

    def __init__(self, arena: Arena, name: str, fields: Sequence[pa.Field]) -> None:
        self.arena, self.name = arena, name
        self.schema = pa.schema(fields)
        self.is_text = np.array([is_pooled(f.type) for f in fields], np.bool_)
        self.every_column = np.arange(len(fields), dtype=np.int64)
        self._recent = np.zeros(RECENT, np.int64)
        self._shared = np.zeros((len(fields), 2), np.int64)
        arena.array(f"{name}.words", FIRST_ROWS, "i8", len(fields))
        arena.array(f"{name}.flags", FIRST_ROWS, "u1", len(fields) // 8 + 1)
        arena.array(f"{name}.meta", 8, "i8")
        arena.array(f"{name}.heap", FIRST_BYTES, "u1")
        if f"{name}.texts" not in arena:
            # Beside the rows: whoever has the arrays alone knows which words lead to the heap.
            arena.array(f"{name}.texts", len(fields), "u1")[:] = self.is_text
        self._reload()

    def __len__(self) -> int:
        return int(self.arrays.meta[LIVE])

    @property
    def capacity(self) -> int:
        """Ids that there is room for: arrays by id need as many places."""
        return len(self.arrays.words)

    @property
    def high(self) -> int:
        """One more than the greatest id that has been assigned."""
        return int(self.arrays.meta[HIGH])

    @property
    def is_airy(self) -> bool:
        """True if copying the rows that are left would give much memory back."""
        return airy(len(self), self.high)

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts of all rows."""
        return int(self.arrays.meta[HEAP_LIVE])

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes, without those of its texts."""
        return 8 * self.arrays.words.shape[1] + int(self.arrays.flags.shape[1])

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are rows."""
        rows, name = self.arrays, self.name
        audit.require_length(len(rows.words), name, rows.flags)
        audit.require_length(8, name, rows.meta)
        # If a column had become a text, its numbers would be read as places in the heap.
        noted = self.arena.array(f"{name}.texts", 0, "u1")
        right = len(noted) == len(self.is_text) and bool((noted == self.is_text).all())
        audit.require(right, name, "its columns of texts are others")
        high, free, live, used, _ = rows.meta[:5].tolist()
        right = 0 <= live <= high <= len(rows.words)
        right = right and 0 <= used <= len(rows.heap) - SPARE and check_rows(rows) == live
        audit.require(right, name, "its rows are not as many as it says")
        used_ids = np.ascontiguousarray(rows.flags[:, 0])
        right = check_chain(rows.words, free, high - live, high, used_ids)
        audit.require(right, name, "free rows are not listed once")
        self._check_texts()

    def _check_texts(self) -> None:
        """Raise StateCorruptError unless texts are UTF-8, decimals have 16 bytes and nested values can be decoded."""
        checked = [
            c for c in np.flatnonzero(self.is_text) if not pa.types.is_binary(self.schema.types[c])
        ]
        for c in checked:
            for ids in self._pieces(self.live(), int(c)):
                try:
                    self.gather_columns(ids, np.array([c]))[0].validate(full=True)
                except (ValueError, IndexError) as error:
                    what = f"{self.name}: a string is no value of {self.schema.types[c]}"
                    raise corrupt_snapshot(f"{what} ({error})") from error

    def _pieces(self, ids: RowIdArray, column: int) -> Iterator[Array]:
        """Ids in pieces whose texts of a column have about `_PIECE` bytes."""
        # One more than its bytes for each row: pieces of empty texts end, too.
        ends = np.cumsum((self.arrays.words[ids, column] & LONGEST) + 1)
        yield from np.split(ids, np.flatnonzero(np.diff(ends // _PIECE)) + 1)

    def require_live(self, audit: Audit, name: str, ids: RowIdArray) -> None:
        """Raise StateCorruptError unless ids (int64[n]) are those of rows that are there, each once."""
        right = not len(ids) or (ids.min() >= 0 and ids.max() < len(self.arrays.flags))
        right = right and bool((self.arrays.flags[ids, 0] & 1 != 0).all())
        audit.require(right and len(np.unique(ids)) == len(ids), name, "it names rows wrongly")

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """The rows of a batch, whose columns are cast to the store's.

        Raises ArrowInvalid where a value does not fit, DataError for a text of more than 256 MiB.
        """
        n = batch.num_rows
        words = np.empty((n, len(self.schema)), np.int64)
        flags = np.zeros((n, self.arrays.flags.shape[1]), np.uint8)
        # Bit 0 says that the row is there; the bits of nulls begin after it.
        flags[:, 0] = 1
        heap = _Heap()
        for c, field in enumerate(self.schema):
            column = batch.column(c)
            if column.type != field.type:
                column = column.cast(field.type)
            if self.is_text[c]:
                words[:, c] = heap.add_column(field.name, column)
            else:
                words[:, c] = scalars.scalar_words(column)
            if column.null_count:
                valid = scalars.validity(column)
                flags[:, (c + 1) >> 3] |= (~valid).astype(np.uint8) << ((c + 1) & 7)
        return Encoded(words, flags, heap.join(), self.is_text)

    def insert(self, rows: Encoded, which: NumberArray | None = None) -> Array:
        """Store rows, those with numbers `which` or all; their ids."""
        which = np.arange(len(rows.words)) if which is None else which
        self.reserve(len(which))
        ids = np.empty(len(which), np.int64)
        # In parts, for room is reserved as if no text were shared.
        for start in range(0, len(which), _PART):
            stop = min(start + _PART, len(which))
            self.reserve_texts(rows, which[start:stop])
            store_rows(self.arrays, rows, which, ids, start=start, stop=stop)
        return ids

    def delete(self, ids: RowIdArray) -> None:
        """Forget rows, each of which is there; their ids are free."""
        delete_rows(self.arrays, ids)
        used, live = (int(self.arrays.meta[place]) for place in (HEAP_USED, HEAP_LIVE))
        # Once more bytes are dead than alive: copying those that live costs less than what was written since. Shared
        # texts count once for each row, so that a heap of them is copied later.
        if used > max(FIRST_BYTES, 2 * live):
            self._compact(2 * live + SPARE)

    def gather(self, ids: RowIdArray) -> pa.RecordBatch:
        """The rows with these ids, in this order; -1 is a row of NULLs, with which outer joins pad."""
        return pa.RecordBatch.from_arrays(
            self.gather_columns(ids, self.every_column), schema=self.schema
        )

    def gather_columns(self, ids: RowIdArray, among: NumberArray) -> list[pa.Array]:
        """Gather the columns with these numbers."""
        words = np.empty((len(among), len(ids)), np.int64)
        valid = np.empty(words.shape, np.bool_)
        texts = np.flatnonzero(self.is_text[among])
        ends = np.zeros((len(among), len(ids) + 1 if len(texts) else 1), np.int64)
        gather_words(self.arrays, ids, among, words, valid, ends)
        # SPARE bytes behind each column: a text is copied 16 bytes at a time, and the next one overwrites the rest.
        begins = np.r_[0, np.cumsum(ends[texts, -1] + SPARE)]
        out = np.empty(int(begins[-1]), np.uint8)
        gather_texts(self.arrays.heap, texts, words, ends, begins, out)
        gathered = []
        for n, c in enumerate(among):
            dtype = self.schema.field(int(c)).type
            if not self.is_text[c]:
                gathered.append(scalars.from_scalar_words(words[n], valid[n], dtype, fresh=True))
                continue
            begin = begins[np.searchsorted(texts, n)]
            data = out[begin : begin + ends[n, -1]]
            gathered.append(columns.from_bytes(ends[n], data, valid[n], dtype))
        return gathered

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
        compare_rows(among, self.arrays, ids, rows, which, out)
        return out

    def live(self) -> Array:
        """The ids of all rows, rising."""
        return np.flatnonzero(self.arrays.flags[: self.high, 0] & 1).astype(np.int64)

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows, without that for their texts."""
        need = len(self) + rows
        if need > self.capacity:
            self._resize(self.arena.roomier(self.capacity, need))

    def reserve_texts(self, rows: Encoded, which: NumberArray) -> None:
        """Make room for the texts of some rows; raises StateRoomError where the heap would be beyond its limit."""
        size, heap = measure_rows(rows, which), self.arrays.heap
        need = int(self.arrays.meta[HEAP_USED]) + int(size) + SPARE
        if need > FARTHEST:
            raise StateRoomError(
                f"{self.name}: the texts of one bucket's rows take {need:,} bytes, and {FARTHEST:,} are the most. "
                "Give the query more partitions."
            )
        if need > len(heap):
            self.arena.resize(f"{self.name}.heap", self.arena.roomier(len(heap), need))
            self._reload()

    def trim(self) -> None:
        """Give back the room that no id has used yet."""
        self._resize(max(FIRST_ROWS, self.high))
        used = int(self.arrays.meta[HEAP_USED]) + SPARE
        if max(FIRST_BYTES, used) < len(self.arrays.heap):
            self.arena.resize(f"{self.name}.heap", max(FIRST_BYTES, used))
            self._reload()

    def shrink(self) -> None:
        """Give the memory back when no row is left."""
        if len(self):
            return
        self.arrays.meta[:] = 0
        # Their words name places that other texts take now.
        self._recent[:] = 0
        self._resize(FIRST_ROWS)
        if len(self.arrays.heap) > FIRST_BYTES:
            self._compact(0)

    def copy_into(self, arena: Arena) -> tuple[RowStore, Array]:
        """Copy what is left into another arena: the new store, and by old id the new one, -1 where there was no row."""
        ids, old = self.live(), self.arrays
        new = RowStore(arena, self.name, list(self.schema))
        rows = Encoded(old.words, old.flags, old.heap, old.is_text)
        moved = np.full(self.high, -1, np.int64)
        moved[ids] = new.insert(rows, ids)
        return new, moved

    def _compact(self, size: int) -> None:
        """Move the texts of all rows together, into a heap with so much room at least."""
        name, old = f"{self.name}.heap", self.arrays
        compact_texts(old, self.arena.replace(name, max(FIRST_BYTES, size)))
        self._reload()

    def _resize(self, rows: int) -> None:
        if rows == self.capacity:
            return
        for part in ("words", "flags"):
            self.arena.resize(f"{self.name}.{part}", rows)
        self._reload()

    def _reload(self) -> None:
        self.arrays = RowArrays(
            words=self.arena.array(f"{self.name}.words", 0, "i8", len(self.schema)),
            flags=self.arena.array(f"{self.name}.flags", 0, "u1", len(self.schema) // 8 + 1),
            meta=self.arena.array(f"{self.name}.meta", 0, "i8"),
            heap=self.arena.array(f"{self.name}.heap", 0, "u1"),
            is_text=self.is_text,
            recent=self._recent,
            shared=self._shared,
        )


class _Heap:
    """The bytes of a batch's text columns, one behind the other."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._size = 0

    def add_column(self, name: str, column: pa.Array) -> Array:
        """Add the texts of a column; return their words, 0 for nulls (int64[n])."""
        if not len(column):
            return np.zeros(0, np.int64)
        data, offsets = columns.text_bytes(column)
        lengths = np.diff(offsets)
        if lengths.max() > LONGEST:
            raise DataError(
                f"column {name!r}: a value of {int(lengths.max()):,} bytes in row {int(lengths.argmax())}; rows "
                f"that are remembered have values of {LONGEST:,} bytes at most. Shorten it in the query."
            )
        begin = int(offsets[0])
        # The offsets of a sliced column do not begin at 0.
        words = (offsets[:-1] + (self._size - begin)) << LENGTH_BITS | lengths
        if column.null_count:
            words[~scalars.validity(column)] = 0
        part = data[begin : int(offsets[-1])]
        self._parts.append(part)
        self._size += len(part)
        return words

    def join(self) -> Array:
        """The bytes of all columns, and `SPARE` more."""
        # Kernels read eight bytes at a time, beyond the end of the last text.
        return np.concatenate([*self._parts, np.zeros(SPARE, np.uint8)])
