"""Deduplicate: the first row of each key, or the last, in the order in which rows come (SEMANTICS 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, parse_type, type_name
from aggloom.codegen.planner import PlanOptions
from aggloom.errors import AggloomError, DataError, SpecError
from aggloom.runtime.operators.base import Held, OneInput, OperatorSpec, Partials, TimeMode
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_store import RowStore
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.changelog import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    is_retraction,
)
from aggloom.runtime.values.clock import NO_TIME, Clock

Keep = Literal["first", "last"]


class DeduplicateState:
    """The keys that came, when each was written, and its row + 1 (of the first rows: 1).

    directory: where the arena's arrays are mapped, created or reopened; None keeps them on the heap.
    """

    handler = None

    def __init__(
        self, schema: pa.Schema, keys: int, keep: Keep, directory: Path | None = None
    ) -> None:
        self.schema, self.fields, self.keep = schema, list(schema)[:keys], keep
        self._open(Arena(directory))

    @property
    def row(self) -> Array:
        """Each slot's row + 1, 0 if it has none."""
        return self.arena.array("row", 0, "i8")

    @property
    def key_texts(self) -> int:
        """How many columns of a slot's key are texts."""
        return int(self.table.index.pooled.sum())

    def used(self) -> Array:
        """The slots in use."""
        return self.table.used_slots()

    def lookup(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key; new keys get one."""
        slots = self.table.lookup(batch)
        self._fit()
        return slots

    def forget(self, slots: Array) -> None:
        """Remove keys with their rows, and give memory back."""
        if self.rows is not None:
            self.rows.delete(self.row[slots] - 1)
            self.rows.shrink()
        self.row[slots] = 0
        self.table.forget(slots)
        self._fit()
        self.pool.sweep()
        if self.table.is_airy or (self.rows is not None and self.rows.is_airy):
            self._compact()

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return self.arena.snapshot()

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        self.arena.restore(data)
        self._open(self.arena)

    def flush_files(self) -> None:
        """Bring everything into the mapped files."""
        self.arena.flush()

    def _open(self, arena: Arena) -> None:
        self.arena, self.pool = arena, Pool(arena)
        self.table = KeyTable(arena, self.pool, self.fields, ("written",))
        self.rows: RowStore | None = None
        if self.keep == "last":
            self.rows = RowStore(arena, self.pool, "rows", list(self.schema))
        arena.array("row", self.table.capacity, "i8")

    def _fit(self) -> None:
        if len(self.row) != self.table.capacity:
            self.arena.resize("row", self.table.capacity)

    def _compact(self) -> None:
        """Copy what is left into arrays of its size."""
        arena, was = Arena(), self.row
        pool = Pool(arena)
        table, moved = self.table.copied(arena, pool)
        row = arena.array("row", table.capacity, "i8")
        there = np.flatnonzero(moved >= 0)
        row[moved[there]] = was[there]
        if self.rows is not None:
            _, places = self.rows.copied(arena, pool)
            row[moved[there]] = places[was[there] - 1] + 1
        self.arena.adopt(arena)
        self._open(self.arena)


class DeduplicateOperator(OneInput):
    """One bucket's operator over rows that are only added; their first `keys` columns are the key.

    keep: the first row of a key, given out once, or the last, which replaces the one before unless it is the same.
    per_record: each row acts at once; else only the last row of a key in a bundle does. state_ttl_ms: a key not
    written for so long is forgotten without a message; then equal rows are given out again, as they are in Flink.
    """

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        keep: Keep,
        *,
        update_before: bool = True,
        per_record: bool = False,
        state_ttl_ms: int = 0,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.keep, self.update_before = schema, keep, update_before
        self._per_record, self._ttl = per_record, state_ttl_ms
        self.state = DeduplicateState(schema, keys, keep, directory)
        self.counters = {"rows": 0, "expired": 0, "emitted": 0}

    @property
    def name(self) -> str:
        keys = ", ".join(field.name for field in self.state.fields)
        return f"{self.keep} row by {keys or '()'}"

    @property
    def states(self) -> list[DeduplicateState]:
        return [self.state]

    @property
    def keys(self) -> int:
        """Keys that the state holds."""
        return len(self.state.table)

    def process(
        self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock = NO_TIME, partials: Partials = ()
    ) -> Rows:
        """Take rows, and return those that come and go.

        Raises DataError for a row that takes one back.
        """
        if self._failed:
            raise AggloomError(
                "the operator failed in an earlier bundle; restore it from a snapshot"
            )
        retracts = is_retraction(kinds)
        if retracts.any():
            raise DataError(
                f"row {int(np.argmax(retracts))} takes a row back; {self.name} is kept of rows that are only added"
            )
        if self._ttl:
            self._expire(clock.processing)
        if not batch.num_rows:
            return no_rows(self.schema)
        self._failed = True
        slots = self.state.lookup(batch)
        took = self._take_first if self.keep == "first" else self._take_last
        changes = took(batch, slots, clock.processing)
        self._failed = False
        self.counters["rows"] += batch.num_rows
        self.counters["emitted"] += len(changes[1])
        return changes

    def contents(self) -> Rows:
        """The last rows, each an insertion; first rows are not kept."""
        if self.state.rows is None:
            return no_rows(self.schema)
        rows = self.state.rows.gather(self.state.row[self.state.used()] - 1)
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def key_columns(self) -> list[pa.Array]:
        return self.state.table.key_columns(self.state.used())

    def held(self, key: pa.RecordBatch) -> Iterator[Held]:
        slot = int(self.state.table.find(key)[0])
        if slot < 0:
            return
        row: dict[str, Any] = {}
        if self.state.rows is not None:
            found = self.state.rows.gather(self.state.row[[slot]] - 1)
            names = self.schema.names[key.num_columns :]
            row = {name: found.column(name)[0].as_py() for name in names}
        written = int(self.state.table.stamps("written")[slot]) if self._ttl else 0
        yield Held(None, None, records=1, written=written, results=row)

    def _take_first(self, batch: pa.RecordBatch, slots: Array, now: int) -> Rows:
        """The rows of keys that were not there."""
        fresh, rows = np.unique(slots, return_index=True)
        new = self.state.row[fresh] == 0
        self.state.row[fresh[new]] = 1
        self.state.table.stamps("written")[fresh[new]] = now
        rows = np.sort(rows[new])
        self.state.pool.sweep()
        return batch.take(pa.array(rows)), np.full(len(rows), INSERT, np.int8)

    def _take_last(self, batch: pa.RecordBatch, slots: Array, now: int) -> Rows:
        """The rows that replace others: of a bundle each, or of each key the last."""
        store, state = self.state.rows, self.state
        assert store is not None
        order = np.argsort(slots, kind="stable")
        starts = np.flatnonzero(np.r_[True, slots[order][1:] != slots[order][:-1]])
        lasts = order[np.r_[starts[1:], len(order)] - 1]
        touched = slots[lasts]
        stored = state.row[touched] - 1
        old = stored[stored >= 0]
        n = batch.num_rows
        # A row's predecessor: a row of the bundle, n + the place of a stored one, or -1.
        before = np.full(n, -1, np.int64)
        place = np.cumsum(stored >= 0) - 1
        first = lasts if not self._per_record else order[starts]
        before[first] = np.where(stored >= 0, n + place, -1)
        acting = np.sort(lasts)
        if self._per_record:
            later = np.setdiff1d(np.arange(n), starts)
            before[order[later]] = order[later - 1]
            acting = np.arange(n)
        rows = store.encode(batch)
        both = pa.concat_batches([_fitted(batch, self.schema), store.gather(old)])
        if not self._ttl:
            acting = acting[~self._same(rows, acting, before, old)]
        changes = self._replaced(both, acting, before)
        store.delete(old)
        state.row[touched] = store.insert(rows, lasts) + 1
        state.table.stamps("written")[touched] = now
        state.pool.sweep()
        return changes

    def _same(self, rows: Any, acting: Array, before: Array, old: Array) -> Array:
        """Whether rows are as their predecessors."""
        store = self.state.rows
        assert store is not None
        n, was = len(rows.words), before[acting]
        same = np.zeros(len(acting), np.bool_)
        inside = np.flatnonzero((was >= 0) & (was < n))
        here, there = acting[inside], was[inside]
        same[inside] = (rows.words[here] == rows.words[there]).all(axis=1) & (
            rows.flags[here] == rows.flags[there]
        ).all(axis=1)
        kept = np.flatnonzero(was >= n)
        same[kept] = store.equal(old[was[kept] - n], rows, acting[kept])
        return same

    def _replaced(self, both: pa.RecordBatch, acting: Array, before: Array) -> Rows:
        """The messages of rows: +I, or -U of the predecessor and +U."""
        was = before[acting]
        fresh, pairs = was < 0, (was >= 0) & self.update_before
        ends = np.cumsum(1 + pairs)
        taken, kinds = np.empty(int(ends[-1]) if len(ends) else 0, np.int64), None
        kinds = np.full(len(taken), UPDATE_AFTER, np.int8)
        taken[ends - 1] = acting
        kinds[ends[fresh] - 1] = INSERT
        taken[ends[pairs] - 2] = was[pairs]
        kinds[ends[pairs] - 2] = UPDATE_BEFORE
        return both.take(pa.array(taken)), kinds

    def _expire(self, now: int) -> None:
        used = self.state.used()
        expired = used[now >= self.state.table.stamps("written")[used] + self._ttl]
        if len(expired):
            self.counters["expired"] += len(expired)
            self.state.forget(expired)


@dataclass(frozen=True)
class DeduplicateSpec(OperatorSpec):
    """What a Deduplicate is made from; see DeduplicateOperator."""

    kind: ClassVar[str] = "deduplicate"
    schema: pa.Schema
    keys: int
    keep: Keep
    update_before: bool = True
    per_record: bool = False
    state_ttl_ms: int = 0

    @classmethod
    def of(cls, node: Any, options: PlanOptions) -> DeduplicateSpec:
        return cls(
            node.schema,
            len(node.key),
            node.keep,
            node.update_before,
            not options.mini_batch_enabled,
            options.state_ttl,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> DeduplicateOperator:
        return DeduplicateOperator(
            self.schema,
            self.keys,
            self.keep,
            update_before=self.update_before,
            per_record=self.per_record,
            state_ttl_ms=self.state_ttl_ms,
            directory=directory,
        )

    def to_data(self) -> dict[str, Any]:
        return {
            "columns": [[field.name, type_name(field.type)] for field in self.schema],
            "keys": self.keys,
            "keep": self.keep,
            **self._changing(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], spec: AggSpec) -> DeduplicateSpec:
        given = dict(data)
        try:
            columns = given.pop("columns")
            schema = pa.schema([(name, parse_type(text)) for name, text in columns])
            return cls(schema, **given)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"deduplicate: settings that cannot be read: {error!r}.") from None

    def resettled(self, data: Mapping[str, Any]) -> DeduplicateSpec:
        return replace(self, **{name: data[name] for name in self._changing()})

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def ttl_ms(self) -> int:
        return self.state_ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        return "ProcessingTime" if self.state_ttl_ms else "None"

    def _changing(self) -> dict[str, Any]:
        """The settings that may change under a state."""
        names = ("update_before", "per_record", "state_ttl_ms")
        return {name: getattr(self, name) for name in names}


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the schema's types and names."""
    return batch if batch.schema == schema else batch.rename_columns(schema.names).cast(schema)
