"""Rank: the rows of each key whose number in an order is asked for, over rows that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import DataError
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.grouping import group_rows, order_by_arrival
from aggloom.runtime.operators.rank.difference import By, Difference, NumberedChanges
from aggloom.runtime.operators.rank.kernels import ROW_NUMBER, in_range, keep_best
from aggloom.runtime.operators.rank.replacements import find_replaced
from aggloom.runtime.operators.rank.settings import RankSettings
from aggloom.runtime.operators.rank.state import RankState
from aggloom.runtime.operators.rank.visible_rows import (
    FUNCTIONS,
    VisibleRows,
    ends_of,
    find_visible,
)
from aggloom.runtime.operators.record_rounds import run_in_rounds
from aggloom.runtime.operators.row_changes import SlotChanges, apply_changes
from aggloom.runtime.operators.sorted_by_key import SortedByKey
from aggloom.runtime.operators.step import KeyedStep
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, SlotArray
from aggloom.runtime.values.changelog import INSERT, UPDATE_BEFORE, Kinds, is_retraction
from aggloom.runtime.values.clock import Clock

_FAR = 1 << 40
"""A number that no row has."""
_CHUNK = 1 << 16
_FEW = 128
"""The number of rows of a key up to which the best rows of a bundle are found before any of them is stored."""


class RankOperator(SortedByKey[RankState], KeyedStep):
    """One bucket's operator; its first columns are the key. See RankSettings for its settings.

    Per record the changes are those of Flink's functions; else a bundle brings the net difference, and nothing for
    what did not change. Rows with the same sort key are numbered as they arrived.
    """

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(self, spec: RankSettings, directory: Path | None = None) -> None:
        self.spec, self.schema = spec, spec.result
        self.update_before, self.state_ttl_ms = spec.update_before, spec.state_ttl_ms
        self._function = FUNCTIONS[spec.function]
        keeps_debts = spec.strategy == "retract" and spec.on_orphan_retraction == "keep"
        # With ties there may be more.
        bounded = spec.strategy != "retract" and spec.function == "ROW_NUMBER"
        self.state = RankState(
            spec.schema,
            spec.keys,
            spec.sort,
            spec.unique,
            keeps_debts=keeps_debts,
            most=spec.end if bounded else None,
            only_added=spec.strategy == "append",
            directory=directory,
        )
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}
        self._difference = self._comparison()

    @property
    def name(self) -> str:
        keys = ", ".join(field.name for field in self.state.fields)
        return f"{self.spec.function} by {keys or '()'}"

    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        """Bring rows into the order of their keys; raises OrphanRetractionError (policy error)."""
        if self.spec.is_empty:
            return no_rows(self.schema)
        slots = self.state.lookup(batch)
        self._learn_ends(batch, slots, clock.processing)
        retracts = is_retraction(kinds)
        if self.spec.per_record:
            changes = self._one_by_one(batch, slots, retracts, clock.processing)
        else:
            every = np.arange(len(slots))
            changes, _ = self._bundle(batch, slots, retracts, every, clock.processing)
        # Only what takes rows away can leave a key without any.
        if retracts.any() or self.state.debts is not None:
            self._leave(np.unique(slots))
        self.state.pool.sweep()
        return changes

    def contents(self) -> Rows:
        """The rows that are seen, each an insertion."""
        slots = self.state.used_slots()
        visible = self._find_visible(slots)
        kinds = np.full(len(visible.ids), INSERT, np.int8)
        return (
            self._rows(NumberedChanges(visible.places, visible.ids, visible.numbers, kinds)),
            kinds,
        )

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        visible = self._find_visible(slots)
        kinds = np.full(len(visible.ids), INSERT, np.int8)
        rows = self._rows(NumberedChanges(visible.places, visible.ids, visible.numbers, kinds))
        written = int(self.state.table.stamps("written")[slots[0]])
        records = int(self.state.sorted.sizes(slots)[0][0])
        names = self.schema.names[key.num_columns :]
        for row in rows.select(names).to_pylist() if names else [{}] * rows.num_rows:
            yield StoredKeyState(None, None, records=records, written=written, results=row)

    def check_rows(self, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
        """Return the rows that the strategy takes; raises DataError for a row that goes where none may."""
        if self.spec.strategy == "update":
            # The new half of an update says all.
            news = (kinds != UPDATE_BEFORE) & ~find_replaced(batch, kinds, self.spec.unique)
            if not news.all():
                batch, kinds = batch.filter(pa.array(news)), kinds[news]
        retracts = is_retraction(kinds)
        if self.spec.strategy != "retract" and retracts.any():
            row = int(np.argmax(retracts))
            only = "only added" if self.spec.strategy == "append" else "never deleted"
            raise DataError(
                f"row {row} retracts a row; {self.name} is kept of rows that are {only}"
            )
        return batch, kinds

    def _learn_ends(self, batch: pa.RecordBatch, slots: SlotArray, now: int) -> None:
        """Learn the last number that is asked for of each new key, where the first row says it; no number: none."""
        column = self.spec.end_column
        if column is None:
            return
        fresh, rows = np.unique(slots, return_index=True)
        new = self.state.end[fresh] == 0
        if new.any():
            changed = pc.fill_null(
                batch.column(column).take(pa.array(rows[new])).cast(pa.int64()), 0
            )
            # One more, as 0 says that the key has yet to learn it.
            self.state.end[fresh[new]] = 1 + np.clip(changed.to_numpy(), 0, _FAR)
            self.state.table.stamps("written")[fresh[new]] = now

    def _ends(self, slots: SlotArray) -> Array:
        if self.spec.end_column is not None:
            return self.state.end[slots] - 1
        return np.full(len(slots), min(self.spec.end or 0, _FAR), np.int64)

    def _find_visible(self, slots: SlotArray) -> VisibleRows:
        return find_visible(
            self.state.sorted, self._function, slots, self.spec.first, self._ends(slots)
        )

    def _one_by_one(
        self, batch: pa.RecordBatch, slots: SlotArray, retracts: FlagArray, now: int
    ) -> Rows:
        """Each row by itself; rows of different keys, which do not see each other, at once."""

        def bundle(rows: NumberArray) -> tuple[Rows, Array]:
            some = batch.take(pa.array(rows))
            return self._bundle(some, slots[rows], retracts[rows], rows, now)

        return run_in_rounds(slots, bundle)

    def _bundle(
        self,
        batch: pa.RecordBatch,
        slots: SlotArray,
        retracts: FlagArray,
        rows: NumberArray,
        now: int,
    ) -> tuple[Rows, Array]:
        """Apply rows together, and return the changes with the first row of the key of each."""
        changes_in_range = SlotChanges(batch, slots, retracts, rows)
        if self.spec.strategy != "retract":
            changes_in_range = self._drop_unseen(changes_in_range)
        touched, firsts, order, _ = group_rows(changes_in_range.slots, self.state.table.capacity)
        before = self._find_visible(touched)
        gone, replaced = self._apply(changes_in_range, order)
        after = self._find_visible(touched)
        # Per record, a row that moves up is taken from its old number before it is at the new one.
        replaced_first = replaced if self.spec.per_record and len(replaced) else None
        changed = self._difference.find_changes(
            self.state.sorted.rows, before, after, touched, replaced_first
        )
        changed = changed.some(order_by_arrival(changed.places, firsts, len(order)))
        changes = self._rows(changed), changed.kinds
        # Not before the changes have been gathered from these rows.
        self.state.sorted.free(gone)
        self.state.table.stamps("written")[touched] = now
        return changes, changes_in_range.numbers[firsts[changed.places]]

    def _apply(self, changes: SlotChanges, order: NumberArray) -> tuple[Array, Array]:
        """Bring rows into the state: those that are gone, to be freed, and those that newer ones replaced.

        order: of the rows, slot by slot.
        """
        # Only retractions need the rows behind the last number: one of them may move up.
        if self.spec.strategy != "retract":
            return self._add(changes.batch, changes.slots)
        ledger = self._ledger(self.spec.on_orphan_retraction)
        applied = apply_changes(self.state.sorted, changes.some(order), ledger)
        return applied.gone, np.zeros(0, np.int64)

    def _add(self, batch: pa.RecordBatch, slots: SlotArray) -> tuple[Array, Array]:
        """Store the rows that are in range: as _apply."""
        every, replaced = [], []
        for start in range(0, max(len(slots), 1), _CHUNK):
            # What a part of the rows has put out of range need not be stored for the rest of them.
            part = slice(start, start + _CHUNK)
            some, cut = self._add_part(batch.slice(start, _CHUNK), slots[part], not start)
            replaced.append(some)
            every += [some, cut]
        return np.concatenate(every), np.concatenate(replaced)

    def _add_part(
        self, batch: pa.RecordBatch, slots: SlotArray, first: bool
    ) -> tuple[Array, Array]:
        """Store rows: those that newer ones replaced, and those that fell out of range.

        first: whether they are known to be in range.
        """
        rows = self.state.sorted
        if not first:
            fits = self._in_range(batch, slots)
            batch, slots = batch.filter(pa.array(fits)), slots[fits]
        touched, _, order, _ = group_rows(slots, self.state.table.capacity)
        applied = rows.insert(slots[order], batch, order)
        stops = self._ends(touched)
        if self._function != ROW_NUMBER:
            stops = ends_of(rows, self._function, touched, stops)
        # Rows are only added: what is behind the last number will never be seen.
        _, cut = rows.collect_between(touched, stops, np.full(len(touched), _FAR))
        rows.take(cut)
        return applied.gone[applied.gone >= 0], cut

    def _drop_unseen(self, changes: SlotChanges) -> SlotChanges:
        """The rows of a bundle that would be in range of the state and of the bundle itself."""
        by_bytes = self.state.sorted.key.by_bytes
        # To be compared with those of the state, keys of bytes have to be in the pool: first they are compared outside.
        if by_bytes:
            changes = self._drop_beaten(changes)
        fits = self._in_range(changes.batch, changes.slots)
        if not fits.all():
            changes = changes.some(np.flatnonzero(fits))
        return changes if by_bytes else self._drop_beaten(changes)

    def _drop_beaten(self, changes: SlotChanges) -> SlotChanges:
        """The rows of a bundle that the others of it do not put out of range; nothing is stored for those that are."""
        is_simple = self.spec.strategy == "append" and self._function == ROW_NUMBER
        if not is_simple or self.spec.per_record:
            return changes
        touched, _, order, _ = group_rows(changes.slots, self.state.table.capacity)
        ends = self._ends(changes.slots)
        most = int(ends.max(initial=0))
        if most > _FEW or len(touched) == len(order):
            return changes
        keys = self.state.sorted.key.read_keys(changes.batch, self.state.pool)
        keep = np.zeros(len(order), np.bool_)
        keep_best(order, changes.slots, keys, ends, np.empty(most, np.int64), keep)
        return changes if keep.all() else changes.some(np.flatnonzero(keep))

    def _in_range(self, batch: pa.RecordBatch, slots: SlotArray) -> Array:
        """Tell whether each row would be in range if it were inserted now, or replaces one that is."""
        rows = self.state.sorted
        words, tiers = rows.key.words(batch, self.state.pool)
        fits = np.empty(len(slots), np.bool_)
        tree, pool, by_bytes = rows.tree.arrays, self.state.pool.arrays, rows.key.by_bytes
        ends = self._ends(slots)
        in_range(
            tree,
            pool,
            by_bytes,
            function=self._function,
            slots=slots,
            words=words,
            tiers=tiers,
            ends=ends,
            out=fits,
        )
        if rows.unique:
            # A row that replaces one in range is taken wherever it would stand itself.
            fits |= rows.find(slots, batch) >= 0
        return fits

    def _leave(self, touched: Array) -> None:
        """Forget keys that have nothing left; a number that a key has learned outlives its rows."""
        if self.spec.end_column is None:
            super()._leave(touched)

    def _rows(self, changed: NumberedChanges) -> pa.RecordBatch:
        """Return the rows of changes."""
        rows = self.state.sorted.rows.gather(changed.ids)
        columns = list(rows.columns)
        if self.spec.number is not None:
            columns.append(pa.array(changed.numbers, pa.int64()))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _comparison(self) -> Difference:
        """Return the comparison that finds the changes to emit: per record those of Flink's functions."""
        spec, each = self.spec, self.spec.per_record
        by_row = spec.function == "ROW_NUMBER"
        known = bool(spec.identity)
        by: By = "row" if known or spec.update_before else "nothing"
        at_rank = each and spec.first > 1 and spec.update_before
        if by_row and (spec.number is not None or at_rank):
            by = "number"
        elif spec.one_row:
            by = "nothing" if each and spec.strategy == "retract" else "key"
        elif each and spec.number is None and spec.strategy != "update":
            by = "nothing"
        every = self.state.sorted.rows.every_column
        return Difference(
            np.array(spec.identity, np.int64) if known else every,
            by=by,
            numbered=spec.number is not None,
            update_before=spec.update_before,
        )
