"""The group-aggregate operator: a bundle of changes in, the changes of the aggregated table out.

It knows no engine. Emission follows Flink's GroupAggFunction (per_record) and MiniBatchGroupAggFunction
(mini_batch), SEMANTICS 3.1 and 3.2, except that a key is visible while it holds more than 0 rows and that an
orphan retraction is judged row by row in both modes, so that the table never depends on the mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError, DataError, OrphanRetractionError
from aggloom.physical import is_pooled
from aggloom.runtime import columns
from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from aggloom.runtime.jit import kernel
from aggloom.runtime.keyindex import FIRST_SLOTS, KeyIndex
from aggloom.runtime.pool import Pool

Mode = Literal["mini_batch", "per_record"]
OrphanPolicy = Literal["drop", "error", "keep"]


@kernel
def _touched(slots: Array, rows: Array, out: Array) -> int:
    """The distinct slots in the order of their first row; `rows`, zero before, counts the rows of each."""
    found = 0
    for r in range(len(slots)):
        if rows[slots[r]] == 0:
            out[found] = slots[r]
            found += 1
        rows[slots[r]] += 1
    return found


@kernel
def _grouped(slots: Array, rows: Array, touched: Array, out: Array) -> None:
    """The numbers of the rows, slot by slot, in each by arrival; `rows`, from _touched, is used up."""
    at = 0
    for k in range(len(touched)):
        at += rows[touched[k]]
        rows[touched[k]] = at - rows[touched[k]]
    for r in range(len(slots)):
        out[rows[slots[r]]] = r
        rows[slots[r]] += 1


@kernel
def _first_orphan(slots: Array, retracts: Array, records: Array) -> int:
    """The first row that retracts from a key without rows, or -1; `records` is scratch."""
    for r in range(len(slots)):
        if not retracts[r]:
            records[slots[r]] += 1
        elif records[slots[r]] > 0:
            records[slots[r]] -= 1
        else:
            return r
    return -1


class GroupAggOperator:
    """One bucket's operator. Deterministic: the same bundles in the same order give the same changes.

    directory: where the arena's arrays are mapped, created or reopened; None keeps them on the heap.
    state_ttl_ms: a key not written for so long is forgotten without a message; 0 means never.
    After a DataError in the middle of a bundle the operator refuses further work: restore a snapshot.
    """

    def __init__(
        self,
        handler_class: type[Any],
        *,
        mode: Mode = "mini_batch",
        update_before: bool = True,
        on_orphan_retraction: OrphanPolicy = "drop",
        state_ttl_ms: int = 0,
        directory: Path | None = None,
    ) -> None:
        _one_of("mode", mode, ("mini_batch", "per_record"))
        _one_of("on_orphan_retraction", on_orphan_retraction, ("drop", "error", "keep"))
        self.handler = handler_class()
        self.spec = handler_class.spec()
        self.mode, self.update_before = mode, update_before
        self.on_orphan_retraction, self.state_ttl_ms = on_orphan_retraction, state_ttl_ms
        self.schema: pa.Schema = self.spec.aggregate_schema
        self._keys = [self.schema.field(i) for i in range(len(self.spec.group_by))]
        self._results = list(self.schema)[len(self._keys) :]
        self._failed = False
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}
        self._open(Arena(directory))

    def process(
        self, batch: pa.RecordBatch, kinds: Array, clock_ms: int = 0
    ) -> tuple[pa.RecordBatch, Array]:
        """Apply one bundle (columns of the spec's handler_schema, a row kind each) and return the changes.

        Raises OrphanRetractionError (policy error; the state is untouched), ArithmeticOverflowError, DataError.
        """
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )
        retracts = (kinds & 1).astype(np.bool_)
        if not self.handler.RETRACTING and retracts.any():
            row = int(np.argmax(retracts))
            raise DataError(
                f"row {row} retracts, but the spec says input_changes='append'; use input_changes='retract'"
            )
        if self.state_ttl_ms:
            self._expire(clock_ms)
        if batch.num_rows == 0:
            return self._emit(None, None, *(np.zeros(0, np.bool_),) * 2, np.zeros(0, np.int64))
        slots = self._lookup(batch)
        if self.on_orphan_retraction == "error":
            self._refuse_orphans(slots, retracts)
        self._failed = True
        result = self._apply(batch, slots, retracts, clock_ms)
        self._failed = False
        return result

    def contents(self) -> tuple[pa.RecordBatch, Array]:
        """The aggregated table now: its rows, each an insertion."""
        slots = self._index.used_slots()
        slots = slots[self._accumulators.records[slots] > 0]
        values = self.handler.values(slots)
        live = np.ones(len(slots), np.bool_)
        return self._emit(values, values, ~live, live, slots)

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self._accumulators.sync()
        return self.arena.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.arena.restore(data)
        self._open(self.arena)
        self._failed = False

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self._accumulators.sync()
        self.arena.flush()

    def close(self) -> None:
        if self.arena.directory is not None and not self._failed:
            self.flush_files()

    @property
    def state_bytes(self) -> int:
        """Bytes of the arena, free room included."""
        return self.arena.nbytes

    @property
    def keys(self) -> int:
        """Keys that the state holds."""
        return len(self._index)

    def _open(self, arena: Arena) -> None:
        self.arena = arena
        self._accumulators = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        self._pool = getattr(self._accumulators, "pool", None) or Pool(arena)
        self._index = KeyIndex(arena, self._pool, [is_pooled(f.type) for f in self._keys])
        arena.array("ttl.written", self._index.capacity if self.state_ttl_ms else 0, "i8")
        self._rows = np.zeros(self._index.capacity, np.int64)
        self.handler.set(self._accumulators, None)

    def _lookup(self, batch: pa.RecordBatch) -> Array:
        n = batch.num_rows
        words = np.zeros((n, len(self._keys)), np.int64)
        nulls = np.zeros(n, self._index.mask_type)
        for c, field in enumerate(self._keys):
            column = batch.column(c)
            if column.type != field.type:
                column = column.cast(field.type)
            words[:, c], valid = columns.words(column, self._pool)
            nulls |= (~valid).astype(nulls.dtype) << c
        slots = self._index.lookup(words, nulls)
        if self._index.capacity > self._accumulators.slots:
            self._resize(self._index.capacity)
        return slots

    def _resize(self, slots: int) -> None:
        self._accumulators.resize(slots)
        if self.state_ttl_ms:
            self.arena.resize("ttl.written", slots)
        self._rows = np.zeros(slots, np.int64)

    def _apply(
        self, batch: pa.RecordBatch, slots: Array, retracts: Array, clock_ms: int
    ) -> tuple[pa.RecordBatch, Array]:
        handler, keep = self.handler, self.on_orphan_retraction == "keep"
        inputs = handler.bind(batch)
        touched = np.empty(min(len(slots), self._index.capacity), np.int64)
        touched = touched[: _touched(slots, self._rows, touched)]
        if self.mode == "per_record":
            dropped, before, after, was, now = handler.trace(
                inputs, slots, retracts, keep_orphans=keep
            )
            handler.refuse_overflow(after, self._place)
            emitted = self._emit(before, after, was, now, slots)
        else:
            was = self._accumulators.records[touched] > 0
            before = handler.values(touched)
            if handler.VIEWS:
                # Slot by slot: a slot's views are in the cache for all its rows, and rows are read in sequence.
                order = np.empty(len(slots), np.int64)
                _grouped(slots, self._rows, touched, order)
                inputs, slots, retracts = handler.pick(inputs, order), slots[order], retracts[order]
            dropped = handler.update(inputs, slots, retracts, keep_orphans=keep)
            after = handler.values(touched)
            now = self._accumulators.records[touched] > 0
            handler.refuse_overflow(after, self._place)
            emitted = self._emit(before, after, was, now, touched)
        self._rows[touched] = 0
        self.counters["rows"] += batch.num_rows
        self.counters["emitted"] += len(emitted[1])
        self.counters["orphans_dropped"] += dropped
        if self.state_ttl_ms:
            self.arena.array("ttl.written", 0, "i8")[touched] = clock_ms
        records = self._accumulators.records[touched]
        self._forget(touched[records == 0 if keep else records <= 0])
        return emitted

    def _emit(
        self, before: Any, after: Any, was: Array, now: Array, slots: Array
    ) -> tuple[pa.RecordBatch, Array]:
        """The messages of items that were and are now (live), with results before and after."""
        n = len(slots)
        both = was & now
        if n and not self.state_ttl_ms:
            both &= self.handler.differ(before, after, n)
        first = np.full(n, -1, np.int8)
        first[was & ~now] = DELETE
        if self.update_before:
            first[both] = UPDATE_BEFORE
        second = np.full(n, -1, np.int8)
        second[both] = UPDATE_AFTER
        second[now & ~was] = INSERT
        kinds = np.stack([first, second], axis=1).reshape(-1)
        picked = np.flatnonzero(kinds >= 0)
        kinds = kinds[picked]
        item = picked >> 1
        keys = self._key_columns(slots[item])
        values: list[pa.Array]
        if n:
            pair = self.handler.concatenate(before, after)
            take = np.where(picked & 1, item + n, item)
            values = self.handler.to_arrow(pair, self._results, take)
        else:
            values = [pa.array([], f.type) for f in self._results]
        if not self.schema.names:
            return pa.RecordBatch.from_arrays([], schema=self.schema), kinds
        return pa.RecordBatch.from_arrays([*keys, *values], schema=self.schema), kinds

    def _key_columns(self, slots: Array) -> list[pa.Array]:
        words, nulls = self._index.arrays.words[slots], self._index.arrays.nulls[slots]
        return [
            columns.from_words(words[:, c].copy(), (nulls >> c) & 1 == 0, field.type, self._pool)
            for c, field in enumerate(self._keys)
        ]

    def _place(self, slot: int) -> str:
        keys = self._key_columns(np.array([slot], np.int64))
        shown = (f"{f.name}={k[0].as_py()!r}" for f, k in zip(self._keys, keys, strict=True))
        return "key " + ", ".join(shown) if keys else "the only group"

    def _refuse_orphans(self, slots: Array, retracts: Array) -> None:
        records = self._accumulators.records.astype(np.int64)
        row = _first_orphan(slots, retracts, records)
        if row < 0:
            return
        place = self._place(int(slots[row]))
        self._forget(np.unique(slots[self._accumulators.records[slots] == 0]))
        raise OrphanRetractionError(
            f"row {row} retracts from {place}, which holds no row; "
            "let on_orphan_retraction be 'drop' or 'keep' if the input may be out of order"
        )

    def _expire(self, clock_ms: int) -> None:
        used = self._index.used_slots()
        written = self.arena.array("ttl.written", 0, "i8")[used]
        expired = used[clock_ms >= written + self.state_ttl_ms]
        if len(expired):
            self.handler.KERNELS.reset(self._accumulators.state, expired)
            self.counters["expired"] += len(expired)
            self._forget(expired)

    def _forget(self, slots: Array) -> None:
        """Remove keys whose accumulators are as new, and give memory back."""
        self._index.remove(slots)
        if len(self._index) == 0 and self._index.capacity > FIRST_SLOTS:
            self._index.reset()
            self._resize(FIRST_SLOTS)
        self._pool.sweep()
        self._accumulators.sweep()
        if self.handler.COMPACTS and (self._index.is_airy or self._accumulators.is_airy):
            self._compact()

    def _compact(self) -> None:
        """Copy what is left into arrays of its size: merging into new accumulators is copying."""
        old, used = self._accumulators, self._index.used_slots()
        words, nulls = self._index.arrays.words[used], self._index.arrays.nulls[used]
        arena = Arena()
        new = self.handler.accumulators_type(type(self.handler), arena, FIRST_SLOTS)
        pool = getattr(new, "pool", None) or Pool(arena)
        index = KeyIndex(arena, pool, [is_pooled(f.type) for f in self._keys])
        pool.reserve_import(self._pool)
        for column in np.flatnonzero(index.pooled):
            words[:, column] = pool.import_ids(self._pool, words[:, column])
        slots = index.lookup(words, nulls)
        # One slot more than there are keys: what nothing uses is merged into it.
        index.reserve(1)
        new.resize(index.capacity)
        target = np.full(old.slots, len(used), np.int64)
        target[used] = slots
        self.handler.merge_slots(new, target, old)
        new.trim()
        new.sync()
        if self.state_ttl_ms:
            written = arena.array("ttl.written", index.capacity, "i8")
            written[slots] = self.arena.array("ttl.written", 0, "i8")[used]
        self.arena.adopt(arena)
        self._open(self.arena)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise AggloomError(f"{option}={value!r} does not exist; use one of {', '.join(allowed)}")
