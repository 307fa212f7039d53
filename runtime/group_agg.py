"""The group-aggregate operator: a bundle of changes in, the changes of the aggregated table out.

It knows no engine. Emission follows Flink's GroupAggFunction (per_record) and MiniBatchGroupAggFunction
(mini_batch), SEMANTICS 3.1 and 3.2, except that a key is visible while it holds more than 0 rows and that an
orphan retraction is judged row by row in both modes, so that the table never depends on the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError, DataError, OrphanRetractionError
from aggloom.runtime.arena import Array
from aggloom.runtime.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retraction
from aggloom.runtime.jit import kernel
from aggloom.runtime.keyed_state import AWAY_FROM_ZERO, KeyedState

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

    directory: where its state's arrays are mapped; None keeps them on the heap.
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
        self.handler_class = handler_class
        self.mode, self.update_before = mode, update_before
        self.on_orphan_retraction, self.state_ttl_ms = on_orphan_retraction, state_ttl_ms
        self.state = KeyedState(handler_class, directory, stamped=bool(state_ttl_ms))
        self.handler, self.spec = self.state.handler, self.state.spec
        self.schema: pa.Schema = self.spec.aggregate_schema
        self._results = list(self.schema)[len(self.spec.group_by) :]
        self._rows = np.zeros(self.state.capacity, np.int64)
        self._failed = False
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}

    def process(
        self,
        batch: pa.RecordBatch,
        kinds: Array,
        clock_ms: int = 0,
        partials: Sequence[bytes | memoryview] = (),
    ) -> tuple[pa.RecordBatch, Array]:
        """Apply one bundle (columns of the spec's handler_schema, a row kind each) and return the changes.

        partials: accumulators that LocalAggregators of the same handler have taken, to be merged after the rows.
        Raises OrphanRetractionError (policy error; the state is untouched), ArithmeticOverflowError, DataError.
        """
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )
        retracts = is_retraction(kinds)
        if not self.handler.RETRACTING and retracts.any():
            row = int(np.argmax(retracts))
            raise DataError(
                f"row {row} retracts, but the spec says input_changes='append'; use input_changes='retract'"
            )
        keeps = self.on_orphan_retraction == "keep" or not self.handler.RETRACTING
        if partials and (self.mode == "per_record" or not keeps):
            raise AggloomError(
                "accumulators say nothing of single rows; merge them in mini_batch, and keep orphans"
            )
        if self.state_ttl_ms:
            self._expire(clock_ms)
        if batch.num_rows == 0 and not partials:
            return self._emit(None, None, *(np.zeros(0, np.bool_),) * 2, np.zeros(0, np.int64))
        slots = self.state.lookup(batch)
        if self.on_orphan_retraction == "error":
            self._refuse_orphans(slots, retracts)
        self._failed = True
        if self.mode == "per_record":
            result = self._apply_rows(batch, slots, retracts, clock_ms)
        else:
            result = self._apply(batch, slots, retracts, clock_ms, partials)
        self._failed = False
        return result

    def contents(self) -> tuple[pa.RecordBatch, Array]:
        """The aggregated table now: its rows, each an insertion."""
        slots = self.state.index.used_slots()
        slots = slots[self.state.records[slots] > 0]
        values = self.handler.values(slots)
        live = np.ones(len(slots), np.bool_)
        return self._emit(values, values, ~live, live, slots)

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return self.state.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.state.restore(data)
        self._failed = False

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self.state.flush_files()

    def close(self) -> None:
        if self.state.arena.directory is not None and not self._failed:
            self.flush_files()

    @property
    def state_bytes(self) -> int:
        """Bytes of the arena, free room included."""
        return self.state.arena.nbytes

    @property
    def keys(self) -> int:
        """Keys that the state holds."""
        return len(self.state)

    def _apply_rows(
        self, batch: pa.RecordBatch, slots: Array, retracts: Array, clock_ms: int
    ) -> tuple[pa.RecordBatch, Array]:
        """Per record: the changes that each row brings."""
        handler, keep = self.handler, self.on_orphan_retraction == "keep"
        touched = self._distinct(slots)
        dropped, before, after, was, now = handler.trace(
            handler.bind(batch), slots, retracts, keep_orphans=keep
        )
        handler.refuse_overflow(after, self.state.place)
        emitted = self._emit(before, after, was, now, slots)
        self._finish(batch.num_rows, dropped, emitted, touched, clock_ms)
        return emitted

    def _apply(
        self,
        batch: pa.RecordBatch,
        slots: Array,
        retracts: Array,
        clock_ms: int,
        partials: Sequence[bytes | memoryview],
    ) -> tuple[pa.RecordBatch, Array]:
        """Mini-batch: the one change that the whole bundle brings to each key."""
        handler, keep = self.handler, self.on_orphan_retraction == "keep"
        merged = [self._opened(data) for data in partials]
        targets = [self.state.lookup_keys_of(other) for other in merged]
        touched = self._distinct(np.concatenate([slots, *targets]) if targets else slots)
        was = self.state.records[touched] > 0
        before = handler.values(touched)
        # What is kept may come in any order: no accumulator may pass through zero rows, where it resets itself.
        away = AWAY_FROM_ZERO if keep and handler.RETRACTING else 0
        if away:
            self.state.accumulators.shift_records(touched, away)
        dropped = 0
        if len(slots):
            inputs = handler.bind(batch)
            if handler.VIEWS and not targets:
                # Slot by slot: a slot's views are in the cache for all its rows, and rows are read in sequence.
                order = np.empty(len(slots), np.int64)
                _grouped(slots, self._rows, touched, order)
                inputs, slots, retracts = handler.pick(inputs, order), slots[order], retracts[order]
            dropped = handler.update(inputs, slots, retracts, keep_orphans=keep)
        for target, other in zip(targets, merged, strict=True):
            self.state.merge(target, other)
        if away:
            self.state.accumulators.shift_records(touched, -away)
            gone = touched[self.state.records[touched] == 0]
            handler.KERNELS.reset(self.state.accumulators.state, gone)
        after = handler.values(touched)
        now = self.state.records[touched] > 0
        handler.refuse_overflow(after, self.state.place)
        emitted = self._emit(before, after, was, now, touched)
        self._finish(batch.num_rows, dropped, emitted, touched, clock_ms)
        return emitted

    def _opened(self, partial: bytes | memoryview) -> KeyedState:
        other = KeyedState(self.handler_class)
        other.restore(partial)
        return other

    def _distinct(self, slots: Array) -> Array:
        """The slots that rows go to, in the order of their first; `_rows` counts the rows of each."""
        if len(self._rows) != self.state.capacity:
            self._rows = np.zeros(self.state.capacity, np.int64)
        touched = np.empty(min(len(slots), self.state.capacity), np.int64)
        return touched[: _touched(slots, self._rows, touched)]

    def _finish(
        self,
        rows: int,
        dropped: int,
        emitted: tuple[pa.RecordBatch, Array],
        touched: Array,
        clock_ms: int,
    ) -> None:
        self._rows[touched] = 0
        self.counters["rows"] += rows
        self.counters["emitted"] += len(emitted[1])
        self.counters["orphans_dropped"] += dropped
        if self.state_ttl_ms:
            self.state.written[touched] = clock_ms
        records = self.state.records[touched]
        keep = self.on_orphan_retraction == "keep"
        self.state.forget(touched[records == 0 if keep else records <= 0])

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
        keys = self.state.key_columns(slots[item])
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

    def _refuse_orphans(self, slots: Array, retracts: Array) -> None:
        records = self.state.records.astype(np.int64)
        row = _first_orphan(slots, retracts, records)
        if row < 0:
            return
        place = self.state.place(int(slots[row]))
        self.state.forget(np.unique(slots[self.state.records[slots] == 0]))
        raise OrphanRetractionError(
            f"row {row} retracts from {place}, which holds no row; "
            "let on_orphan_retraction be 'drop' or 'keep' if the input may be out of order"
        )

    def _expire(self, clock_ms: int) -> None:
        used = self.state.index.used_slots()
        expired = used[clock_ms >= self.state.written[used] + self.state_ttl_ms]
        if len(expired):
            self.handler.KERNELS.reset(self.state.accumulators.state, expired)
            self.counters["expired"] += len(expired)
            self.state.forget(expired)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise AggloomError(f"{option}={value!r} does not exist; use one of {', '.join(allowed)}")
