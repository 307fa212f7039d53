"""OVER of changes: the values of window functions over rows that are inserted and retracted.

A bundle is applied to the sorted rows of its keys. The values of rows whose frames it changes are computed again, and
those that differ from the last emitted values are emitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.grouping import group_rows
from aggloom.runtime.operators.ordered_rows import OrderedRowsState
from aggloom.runtime.operators.over.affected_rows import Balance, Stretches, reach
from aggloom.runtime.operators.over.bounds import Standing
from aggloom.runtime.operators.over.function_values import Computing
from aggloom.runtime.operators.over.output import (
    ValuedChanges,
    ValuedRows,
    inserts,
    order_changes,
    pair_values,
)
from aggloom.runtime.operators.over.settings import OverSettings
from aggloom.runtime.operators.record_rounds import run_in_rounds
from aggloom.runtime.operators.row_changes import SlotChanges, apply_changes
from aggloom.runtime.operators.sorted_by_key import SortedByKey
from aggloom.runtime.operators.step import KeyedStep
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.state.row_kernels import Encoded, same_rows
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray, SlotArray
from aggloom.runtime.values.changelog import INSERT, Kinds, is_retraction
from aggloom.runtime.values.clock import Clock


class _Keys(NamedTuple):
    """The keys of a bundle: slots, the first row of each of all rows, (rows, distinct sort keys) before and after."""

    slots: Array  # int64[keys]
    firsts: Array  # int64[keys]
    rows: int
    before: tuple[Array, Array]  # int64[keys] of both
    after: tuple[Array, Array]  # int64[keys] of both

    @property
    def balance(self) -> Balance:
        """Tell which keys have as many rows, and as many distinct sort keys, as before."""
        return Balance(*(had == has for had, has in zip(self.before, self.after, strict=True)))

    def sizes_of(self, places: NumberArray) -> tuple[Array, Array]:
        """Return the sizes that some of them have after it."""
        return self.after[0][places], self.after[1][places]


class OverOperator(SortedByKey[OrderedRowsState], KeyedStep):
    """One bucket's operator; its first columns are the key. See OverSettings for its settings.

    Per record every row acts at once, as in Flink; else a bundle brings the net difference. Rows with the same sort key
    stand as they arrived.
    """

    keeps_calls = "it has emitted the values of its calls"

    def __init__(
        self, spec: OverSettings, handler_class: Any = None, directory: Path | None = None
    ) -> None:
        self.spec, self.schema, self.update_before = spec, spec.result, spec.update_before
        self.state_ttl_ms = spec.state_ttl_ms
        self.handler_class = handler_class
        handler = None if handler_class is None else handler_class()
        self._computing = Computing(spec, handler)
        keeps_debts = spec.on_orphan_retraction == "keep"
        self.state = OrderedRowsState(
            list(spec.schema),
            spec.keys,
            spec.sort,
            spec.results,
            keeps_debts=keeps_debts,
            directory=directory,
        )
        every = self.state.sorted.rows.every_column
        self._identity = np.array(spec.identity, np.int64) if spec.identity else every
        self._replaced = np.zeros(0, np.int64)
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "computed": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return f"OVER by {', '.join(field.name for field in self.state.fields) or '()'}"

    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        """Bring rows into the order of their keys, and compute what they change.

        Raises OrphanRetractionError (policy error), ArithmeticOverflowError, DataError.
        """
        slots = self.state.lookup(batch)
        if self.spec.per_record:

            def bundle(rows: NumberArray) -> tuple[Rows, Array]:
                some = batch.take(pa.array(rows))
                changes, places = self._bundle(some, slots[rows], kinds[rows], clock.processing)
                return changes, rows[places]

            changes = run_in_rounds(slots, bundle)
        else:
            changes, _ = self._bundle(batch, slots, kinds, clock.processing)
        # Insertions leave no key without rows, unless they pay debts.
        if is_retraction(kinds).any() or self.state.debts is not None:
            self._leave(np.unique(slots))
        self.state.tidy()
        return changes

    def contents(self) -> Rows:
        """The rows with their values, each an insertion."""
        changed = self._read_current(self.state.used_slots())
        return self._rows(changed), changed.kinds

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        rows = self._rows(self._read_current(slots))
        written = int(self.state.table.stamps("written")[slots[0]])
        names = self.schema.names[key.num_columns :]
        for row in rows.select(names).to_pylist() if names else [{}] * rows.num_rows:
            yield StoredKeyState(None, None, records=rows.num_rows, written=written, results=row)

    def _read_current(self, slots: SlotArray) -> ValuedChanges:
        places, ids = self.state.rows_of(slots)
        return inserts(places, ids, self.state.value_numbers[ids] - 1)

    def _bundle(
        self, batch: pa.RecordBatch, slots: SlotArray, kinds: Kinds, now: int
    ) -> tuple[Rows, Array]:
        """Apply rows together; return their changes, and by change the first row of its key."""
        state = self.state
        touched, firsts, rows, places = group_rows(slots, state.table.capacity)
        bundle = SlotChanges(
            batch.take(pa.array(rows)), slots[rows], is_retraction(kinds[rows]), rows
        )
        before = state.sorted.sizes(touched)
        ledger = self._ledger(self.spec.on_orphan_retraction)
        inserted, inserted_by, deleted, deleted_by = apply_changes(state.sorted, bundle, ledger)
        state.fit_rows()
        # A row may be removed in the bundle that inserted it: it was never emitted.
        brief = deleted[state.value_numbers[deleted] == 0]
        if len(brief):
            stays = ~np.isin(inserted, brief)
            inserted, inserted_by = inserted[stays], inserted_by[stays]
        keys = _Keys(touched, firsts, len(rows), before, state.sorted.sizes(touched))
        owners = places[np.concatenate([inserted_by, deleted_by])]
        changed = self._find_changes(keys, inserted, deleted, owners, kinds[rows[inserted_by]])
        changes = self._rows(changed), changed.kinds
        # Only now: the changes above have read the removed rows and the replaced values.
        self._free_rows(deleted)
        state.table.stamps("written")[touched] = now
        return changes, firsts[changed.places]

    def _find_changes(
        self,
        keys: _Keys,
        ids: RowIdArray,
        gone: RowIdArray,
        owners: NumberArray,
        kinds: Kinds,
    ) -> ValuedChanges:
        """Return the changes for inserted and removed rows, and for the rows around them."""
        state = self.state
        known = state.value_numbers[gone] > 0
        lost = ValuedRows(
            owners[len(ids) :][known], gone[known], state.value_numbers[gone[known]] - 1
        )
        changed = np.concatenate([ids, gone])
        inserted = np.arange(len(changed)) < len(ids)
        slots, sizes = keys.slots[owners], keys.sizes_of(owners)
        standing = Standing(state.sorted, state.pool, slots, changed, sizes=sizes)
        stretches = reach(self.spec.calls, standing, owners, inserted, keys.balance)
        places, every, positions, values = self._compute_values(keys, stretches)
        was = state.value_numbers[every] - 1
        compared = np.flatnonzero(was >= 0)
        differs = was < 0
        differs[compared] = ~state.results.equal(was[compared], values, compared)
        new = state.results.insert(values, np.flatnonzero(differs))
        places, every, was = places[differs], every[differs], was[differs]
        where = standing.position[len(ids) :][known], positions[differs]
        state.value_numbers[every] = new + 1
        new_kinds = np.full(len(every), -1, np.int8)
        fresh = np.flatnonzero(was < 0)
        new_kinds[fresh] = INSERT
        if self.spec.per_record:
            # The kinds of the inserted rows, by the ids that they got.
            by_id = np.argsort(ids)
            new_kinds[fresh] = kinds[by_id[np.searchsorted(ids[by_id], every[fresh])]]
        self._replaced = was[was >= 0]
        # A copy, since merging puts other ids into `before` alone.
        before, after = ValuedRows(places, every.copy(), was), ValuedRows(places, every, new)
        if not self.spec.per_record:
            left, stays = self._merge_replaced(lost, before, after, new_kinds, keys.slots)
            lost, before, after = lost.take(left), before.take(stays), after.take(stays)
            new_kinds, where = new_kinds[stays], (where[0][left], where[1][stays])
        return order_changes(
            lost,
            before,
            after,
            inserted=new_kinds,
            positions=where,
            firsts=keys.firsts,
            rows=keys.rows,
            update_before=self.update_before,
        )

    def _merge_replaced(
        self,
        lost: ValuedRows,
        before: ValuedRows,
        after: ValuedRows,
        inserted: Kinds,
        touched: SlotArray,
    ) -> tuple[Array, Array]:
        """Join a removed and an inserted row into one that changes: which of `lost`, and of the others, are left."""
        fresh = np.flatnonzero(inserted >= 0)
        store = self.state.sorted.rows
        old, new = pair_values(store, lost, after.take(fresh), touched, self._identity)
        new = fresh[new]
        before.ids[new], before.value_numbers[new] = lost.ids[old], lost.value_numbers[old]
        inserted[new] = -1
        same = np.empty(len(new), np.bool_)
        same_rows(store.arrays, lost.ids[old], after.ids[new], store.every_column, same)
        values, equal = self.state.results, np.empty(len(new), np.bool_)
        same_rows(
            values.arrays,
            lost.value_numbers[old],
            after.value_numbers[new],
            values.every_column,
            equal,
        )
        left = np.ones(len(lost.ids), np.bool_)
        left[old] = False
        stays = np.ones(len(after.ids), np.bool_)
        stays[new[same & equal]] = False
        return left, stays

    def _compute_values(
        self, keys: _Keys, stretches: Stretches
    ) -> tuple[Array, Array, Array, Encoded]:
        """(place, row, position, new values) of the rows of stretches."""
        state = self.state
        slots = keys.slots[stretches.places]
        stretch, ids = state.sorted.collect_within(slots, stretches.starts, stretches.stops)
        opens = np.r_[0, np.cumsum(stretches.stops - stretches.starts)]
        position = np.arange(len(ids)) - opens[stretch] + stretches.starts[stretch]
        sizes = keys.sizes_of(stretches.places[stretch])
        standing = Standing(state.sorted, state.pool, slots[stretch], ids, position, sizes)

        def place(number: int) -> str:
            return state.table.place(int(slots[number]))

        values = self._computing.values(state.sorted, standing, stretch, place)
        self.counters["computed"] += len(ids)
        return stretches.places[stretch], ids, position, state.results.encode(values)

    def _free_rows(self, gone: Array) -> None:
        """Free the removed rows, and delete the emitted values that others replace."""
        self.state.results.delete(self._replaced)
        self._replaced = np.zeros(0, np.int64)
        self.state.free(gone)

    def _rows(self, changed: ValuedChanges) -> pa.RecordBatch:
        """Return the rows of changes."""
        rows = self.state.sorted.rows.gather(changed.ids)
        values = self.state.results.gather(changed.value_numbers)
        return pa.RecordBatch.from_arrays([*rows.columns, *values.columns], schema=self.schema)
