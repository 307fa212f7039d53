"""Normalise: the upserts and deletions of keys in, whole changes out (Flink's ChangelogNormalize)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from aggloom.codegen import ABSENT
from aggloom.codegen.planner import Normalise, PlanOptions
from aggloom.runtime.operators.absent_columns import AbsentColumns, absent_columns
from aggloom.runtime.operators.base import ExpiringSpec, StoredKeyState
from aggloom.runtime.operators.deduplicate.immediate import cast_rows, read_row_state
from aggloom.runtime.operators.deduplicate.state import NONE, DeduplicateState
from aggloom.runtime.operators.replacements import find_unlike, replace_rows
from aggloom.runtime.operators.rows_by_key import KeyedRowsOperator
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.step import KeyedStep
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.values.changelog import INSERT, Kinds, is_retraction
from aggloom.runtime.values.clock import Clock


@kernel
def _follow(
    groups: Array, adds: Array, partial: Array, row: Array, before: Array, last: Array
) -> None:
    """Take rows one after the other; `row` is what each key has (-1: nothing), `last` its last row in the bundle.

    A row that leaves columns out adds nothing where nothing says what these had: it is taken out of `adds`.
    """
    for r in range(len(groups)):
        g = groups[r]
        before[r] = row[g]
        if partial[r] and row[g] < 0:
            adds[r] = False
        row[g] = r if adds[r] else -1
        last[g] = r


class NormaliseOperator(KeyedRowsOperator[DeduplicateState], KeyedStep):
    """One bucket's operator over upserts; their first `keys` columns are the key.

    +I and +U set the row of a key, -U and -D take it away, of which only the key is read. filtered: after the columns
    of the schema comes one, BOOLEAN, without whose truth a row is not there. per_record: each row acts at once; else
    a bundle emits what it has changed in the end. An equal row is emitted again only with a state_ttl_ms, after which a
    key that was not written is forgotten without an emission. Deletions of keys that are not there are counted as
    orphans, unless a filter may have kept them out. partial: after the columns of the schema comes one that names those
    which a row leaves out: they keep what the row of the key had. Of a key without a row that is an orphan, too.
    """

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        *,
        filtered: bool = False,
        partial: bool = False,
        update_before: bool = True,
        per_record: bool = False,
        state_ttl_ms: int = 0,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.update_before, self._filtered = schema, update_before, filtered
        self._partial = partial
        self._per_record, self.state_ttl_ms = per_record, state_ttl_ms
        self.state = DeduplicateState(schema, keys, True, (), directory)
        self.counters = {"rows": 0, "expired": 0, "orphans_dropped": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return f"upserts by {', '.join(field.name for field in self.state.fields)}"

    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        adds = ~is_retraction(kinds)
        if self._filtered:
            passes = batch.column(len(self.schema)).fill_null(False)
            adds &= passes.to_numpy(zero_copy_only=False)
        absent = None
        if self._partial:
            absent = absent_columns(batch.column(len(self.schema)), self.schema.names)
        batch = cast_rows(batch.select(range(len(self.schema))), self.schema)
        return self._set_rows(batch, adds, absent, clock.processing)

    def contents(self) -> Rows:
        rows = self.state.gather(self.state.with_rows())
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return read_row_state(self.state, key, bool(self.state_ttl_ms))

    def _set_rows(
        self, batch: pa.RecordBatch, adds: Array, absent: AbsentColumns | None, now: int
    ) -> Rows:
        """Set and delete the rows of keys, and return the changes; adds: bool[n], whether a row sets its key's."""
        state, n = self.state, batch.num_rows
        slots, groups = state.group_slots(state.lookup(batch))
        stored = state.row[slots] != NONE
        had = np.full(len(slots), -1, np.int64)
        # The row that a key has is numbered behind those of the bundle.
        had[stored] = n + np.arange(int(stored.sum()))
        row, last = had.copy(), np.empty(len(slots), np.int64)
        before = np.empty(n, np.int64)
        partial = np.zeros(n, np.bool_) if absent is None else absent.rows & adds
        _follow(groups, adds, partial, row, before, last)
        if not self._filtered:
            self.counters["orphans_dropped"] += int((~adds & (before < 0)).sum())
        acting = np.arange(n)
        old = state.row[slots[stored]] - 1
        stored_rows = state.rows.gather(old)
        if absent is not None:
            batch = absent.complete_rows(batch, stored_rows, before, adds)
        if not self._per_record:
            # A key's last row says what became of it; what it had before the bundle is what it had before that row.
            before[last], acting = had, np.sort(last)
        rows = state.rows.encode(batch)
        if not self.state_ttl_ms:
            # A row that goes is not compared: there is nothing that it could be the same as.
            inserted = np.where(adds, before, -1)
            acting = find_unlike(state.rows, rows, acting, inserted, old)
        changes = replace_rows(
            batch, stored_rows, acting, before, adds, update_before=self.update_before
        )
        there = row >= 0
        # Old rows go first: their ids, and their room, are used for the new ones.
        state.rows.delete(old)
        state.row[slots] = NONE
        state.row[slots[there]] = state.rows.insert(rows, row[there]) + 1
        state.write_times[slots] = now
        # A key without a row is forgotten at once: an upsert brings it back as new.
        gone = slots[~there]
        if len(gone):
            state.forget(gone)
        else:
            state.tidy()
        return changes


@dataclass(frozen=True, kw_only=True)
class NormaliseSpec(ExpiringSpec[Normalise]):
    """The description that a Normalise is made from; see NormaliseOperator."""

    kind: ClassVar[str] = "normalise"
    carries: ClassVar[bool] = True
    schema: pa.Schema
    keys: int
    filtered: bool = False
    partial: bool = False
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    state_ttl_ms: Changing[int] = 0

    @classmethod
    def of(cls, node: Normalise, options: PlanOptions, zone: str = "UTC") -> Self:
        return cls(
            schema=node.schema,
            keys=len(node.key),
            filtered=node.passes is not None,
            partial=node.absent is not None,
            update_before=node.update_before,
            per_record=not options.mini_batch_enabled,
            state_ttl_ms=options.state_ttl,
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> NormaliseOperator:
        return NormaliseOperator(
            self.schema,
            self.keys,
            filtered=self.filtered,
            partial=self.partial,
            update_before=self.update_before,
            per_record=self.per_record,
            state_ttl_ms=self.state_ttl_ms,
            directory=directory,
        )

    @property
    def rows(self) -> pa.Schema:
        flag = [pa.field("passes", pa.bool_())] if self.filtered else []
        names = [pa.field(ABSENT, pa.string())] if self.partial else []
        return pa.schema([*self.schema, *flag, *names])
