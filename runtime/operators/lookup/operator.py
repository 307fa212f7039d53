"""MaterialisedLookup: a row that is retracted retracts what it got, whatever the table says by then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import OrphanPolicy
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.differences import diff_rows
from aggloom.runtime.operators.lookup.kernels import follow
from aggloom.runtime.operators.lookup.state import LookupState
from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.operators.rows_by_key import KeyedRowsOperator
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.step import KeyedStep
from aggloom.runtime.operators.steps import Rows, concat_changes
from aggloom.runtime.storage.allocation import require_memory
from aggloom.runtime.storage.arena import Array, FlagArray, RowIdArray, SlotArray
from aggloom.runtime.values.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    is_retraction,
)
from aggloom.runtime.values.clock import Clock


@dataclass(frozen=True, kw_only=True)
class LookupSettings:
    """The settings that a MaterialisedLookup is made from.

    input_schema: the columns that come: `keys` of the key, others of the row, the list of answers. result: those that
    leave. replaces: whether a row takes the place of the one of its key. output_key: by which an update is identified,
    if by any.
    """

    name: str
    input_schema: pa.Schema
    keys: int
    result: pa.Schema
    replaces: bool
    output_key: Changing[tuple[str, ...] | None] = None
    update_before: Changing[bool] = True
    per_record: Changing[bool] = False
    state_ttl_ms: Changing[int] = 0
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"

    @property
    def key(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema(list(self.input_schema)[: self.keys])


class _Arrivals(NamedTuple):
    """Joined rows that arrive: by each its slot, the number of its arrival, whether it stands for none."""

    slots: SlotArray  # int64[rows]
    arrivals: Array  # int64[rows]
    rows: pa.RecordBatch
    nothing: FlagArray  # bool[rows]


class LookupOperator(KeyedRowsOperator[LookupState], KeyedStep):
    """One bucket's operator; see LookupSettings. It never asks: its rows bring their answers along."""

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(self, settings: LookupSettings, directory: Path | None = None) -> None:
        self.settings, self.schema = settings, settings.result
        self.update_before, self.state_ttl_ms = settings.update_before, settings.state_ttl_ms
        self.state = LookupState(settings.key, settings.result, directory)
        self.counters = {"rows": 0, "expired": 0, "orphans_dropped": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return self.settings.name

    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        """Apply rows with their answers; raises OrphanRetractionError (policy error)."""
        if not self.settings.per_record:
            return self._bundle(batch, kinds, clock.processing)
        each = [
            self._bundle(batch.slice(n, 1), kinds[n : n + 1], clock.processing)
            for n in range(batch.num_rows)
        ]
        return concat_changes(each, self.schema)

    def contents(self) -> Rows:
        """The joined rows, each an insertion."""
        rows = self._read_joined(self.state.used_slots())
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def count_key_rows(self) -> Array:
        return self.state.depth[self.state.used_slots()]

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        records, written = int(self.state.depth[slots[0]]), int(self.state.write_times[slots[0]])
        rows = self._read_joined(slots)
        joined_rows = rows.to_pylist() if rows.num_columns else [{}] * rows.num_rows
        for row in joined_rows or [{}]:
            yield StoredKeyState(None, None, records=records, written=written, results=row)

    def _read_joined(self, slots: SlotArray) -> pa.RecordBatch:
        none = np.zeros(0, np.int64)
        ids = np.concatenate([none, *(each for _, each in self.state.bag.walk(slots))])
        ids = ids[~self.state.is_nothing(ids)]
        return self.state.gather(_repeat_rows(ids, self.state.bag.counts(ids)))

    def _bundle(self, batch: pa.RecordBatch, kinds: Kinds, now: int) -> Rows:
        """Return the changes that a bundle brings."""
        state, settings, n = self.state, self.settings, batch.num_rows
        adds = ~is_retraction(kinds)
        slots, groups = np.unique(state.lookup(batch), return_inverse=True)
        depth, debts = state.depth[slots], state.debts[slots]
        stays, removals = np.zeros(n, np.bool_), np.zeros(len(slots), np.int64)
        under, top = np.full(n, -1, np.int64), np.full(len(slots), -1, np.int64)
        stray = np.empty(n, np.int64)
        keeps = settings.on_orphan_retraction == "keep"
        replaces = settings.replaces
        orphan_count = follow(
            groups,
            adds,
            replaces,
            keeps=keeps,
            depth=depth,
            debts=debts,
            stays=stays,
            removals=removals,
            under=under,
            top=top,
            stray=stray,
        )
        if orphan_count:
            policy = settings.on_orphan_retraction
            ledger = OrphanLedger(state.table, None, policy=policy, counters=self.counters)
            ledger.report(stray[:orphan_count], slots[groups[stray[:orphan_count]]])
        places, gone = state.latest(slots[removals > 0], removals[removals > 0])
        gone_slots = slots[removals > 0][places]
        # An arrival that got no answer is stored, but nothing was emitted for it.
        real = ~state.is_nothing(gone)
        counts = state.bag.counts(gone[real])
        old_ids, old_slots = _repeat_rows(gone[real], counts), np.repeat(gone_slots[real], counts)
        rows = np.flatnonzero(stays)
        arrivals = self._join_arrivals(batch, rows, slots[groups[rows]])
        # Before new rows come: one of them may equal a row that goes.
        state.bag.take(gone)
        new_ids = state.arrive(arrivals.slots, arrivals.arrivals, arrivals.rows, arrivals.nothing)
        state.depth[slots] = depth - removals + np.bincount(groups[rows], minlength=len(slots))
        state.debts[slots] = debts
        state.write_times[slots] = now
        real = ~arrivals.nothing
        ids, every = np.concatenate([old_ids, new_ids[real]]), (old_slots, arrivals.slots[real])
        comes = np.arange(len(ids)) >= len(old_ids)
        kind = int(kinds[0]) if settings.per_record else None
        changes = self._find_changes(ids, np.concatenate(every), comes, kind)
        # Not before: the changes were read from the rows that go.
        state.bag.free(gone)
        state.leave(slots)
        return changes

    def _find_changes(
        self, ids: RowIdArray, slots: SlotArray, comes: FlagArray, kind: int | None
    ) -> Rows:
        """Return the changes between stored rows that go and come; kind: of the one row that brings them, or None."""
        state, settings = self.state, self.settings
        # The changes of a single row keep its kind: those of a half of an update are halves of updates.
        if kind is not None:
            goes = UPDATE_BEFORE if kind == UPDATE_BEFORE else DELETE
            news = UPDATE_AFTER if kind == UPDATE_AFTER else INSERT
            return state.gather(ids), np.where(comes, news, goes).astype(np.int8)
        key, names = settings.output_key, self.schema.names
        order, kinds = diff_rows(
            state.bag.rows,
            slots,
            ids,
            comes,
            columns=state.result_places,
            key=None if key is None else state.result_places[[names.index(name) for name in key]],
            update_before=settings.update_before,
        )
        return state.gather(ids[order]), kinds

    def _join_arrivals(self, batch: pa.RecordBatch, rows: Array, slots: SlotArray) -> _Arrivals:
        """The joined rows of the rows of a batch that come and stay."""
        picked = batch.take(pa.array(rows))
        lists = picked.column(batch.num_columns - 1)
        counts = np.diff(lists.offsets.to_numpy())
        # A row without answers is stored as well, once, so that a retraction of it finds something.
        nothing = np.repeat(counts == 0, np.maximum(counts, 1))
        arrivals = np.repeat(np.arange(len(rows)), np.maximum(counts, 1))
        # Where there is no answer, what is beside it is NULL.
        ends = np.cumsum(counts)
        starts = np.repeat(ends - counts, np.maximum(counts, 1))
        within = np.arange(len(arrivals)) - np.repeat(
            np.cumsum(np.maximum(counts, 1)) - np.maximum(counts, 1), np.maximum(counts, 1)
        )
        answers = lists.flatten()
        answer = pa.array(starts + within, mask=nothing)
        own = picked.select(range(batch.num_columns - 1)).take(pa.array(arrivals))
        parts = dict(zip([f.name for f in answers.type], answers.flatten(), strict=True))
        columns = [
            (
                own.column(field.name)
                if field.name in own.schema.names
                else parts[field.name].take(answer)
            )
            for field in self.schema
        ]
        joined_rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return _Arrivals(slots[arrivals], arrivals, joined_rows, nothing)


def _repeat_rows(ids: RowIdArray, counts: Array) -> Array:
    """Rows (int64[n]), each as often as it is there; raises StateRoomError where those are too many."""
    require_memory(64 * int(counts.sum(dtype=np.int64)), "joined rows")
    return np.repeat(ids, counts)
