"""The ledger of accumulators: changes are noted row by row, and applied to the accumulators column by column.

Triggers decide when a window fires without looking at its result, so results can wait: the number of calls is that of
the firings of one window, not that of all firings. The changes of a pane are divided into rounds. In a round other
panes are merged into it, then rows are added, then its result is read. No pane has changes that depend on another
pane of the same round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import OrphanPolicy
from aggloom.errors import OrphanRetractionError
from aggloom.runtime.operators.keyed_state import AWAY_FROM_ZERO, KeyedState
from aggloom.runtime.operators.windows.general_registry import Pane
from aggloom.runtime.state.key_table import place_of
from aggloom.runtime.storage.arena import Array, FlagArray, SlotArray

Source = Callable[[Array], tuple[Any, Array]]
"""A function from numbers of rows to the bound rows and whether each retracts."""


class WindowState(KeyedState):
    """Accumulators by key and number of a pane; 0 stands for the key without a window."""

    moved: dict[int, int] | None = None

    def key_slots(self, batch: pa.RecordBatch) -> Array:
        """The slot of each row's key, without a window."""
        keys = batch.columns[: len(self.key_fields) - 1]
        none = pa.array(np.zeros(batch.num_rows, np.int64))
        names = [field.name for field in self.key_fields]
        return self.lookup(pa.RecordBatch.from_arrays([*keys, none], names=names))

    def open_panes(self, panes: list[Pane]) -> None:
        """Give panes without accumulators new ones."""
        new = [pane for pane in panes if pane.slot < 0]
        if not new:
            return
        keys = np.array([pane.key.slot for pane in new], np.int64)
        words, nulls = self.index.keys(keys)
        words[:, -1] = [pane.id for pane in new]
        for pane, slot in zip(new, self._slots(words, nulls).tolist(), strict=True):
            pane.slot = slot

    def merge_within(self, into: SlotArray, others: SlotArray) -> None:
        """Add accumulators of this state to others of it, each to one."""
        # By way of a copy: no function is written to read the views that it changes.
        copies = self.handler.create(len(others))
        every = np.arange(len(others), dtype=np.int64)
        self.handler.merge_slots(copies, every, self.accumulators, others)
        self.handler.merge_slots(self.accumulators, into, copies, every)

    def drop(self, slots: SlotArray) -> dict[int, int] | None:
        """Forget slots; return the new slots of the others by their old ones, None if they have not moved."""
        self.moved = None
        self.forget(slots)
        return self.moved

    def place(self, slot: int) -> str:
        return place_of(self.index, self.key_fields[:-1], slot)

    def _compact(self) -> None:
        used = self.index.used_slots()
        super()._compact()
        # A new index hands its slots out in the order of the old ones.
        self.moved = {old: new for new, old in enumerate(used.tolist())}


class LedgerRound:
    """The merges, rows and firings of panes that have no result in this round yet."""

    def __init__(self) -> None:
        self.merges: list[tuple[Pane, Pane]] = []
        self.rows: list[int] = []
        self.panes: list[Pane] = []
        self.fired: list[Pane] = []
        self.firings: list[int] = []


class Ledger:
    """The rounds of a bundle. Firings are numbered from 0; `gone` are panes that nothing needs after the bundle."""

    def __init__(self, state: WindowState, on_orphan_retraction: OrphanPolicy) -> None:
        self.state, self._policy = state, on_orphan_retraction
        self.dropped = 0
        self.gone: list[Pane] = []
        self.records: list[Array] = []
        self.columns: list[list[pa.Array]] = []
        self.firings: list[int] = []
        self.size = 0
        self._rounds: list[LedgerRound] = []
        self._touched: list[Pane] = []
        self._results = list(state.spec.aggregate_schema)[len(state.key_fields) :]

    def add(self, row: int, pane: Pane) -> None:
        """Note that a row is added to a pane, or retracted from it."""
        # Rows that arrive after its result was read belong to the next round.
        if pane.round < 0 or pane.closed:
            self._enter(pane, pane.round + 1)
        last = self._rounds[pane.round]
        last.rows.append(row)
        last.panes.append(pane)
        self.size += 1

    def fire(self, pane: Pane, firing: int) -> None:
        """Note that the result of a pane is to be read."""
        if pane.round < 0:
            self._enter(pane, 0)
        last = self._rounds[pane.round]
        last.fired.append(pane)
        last.firings.append(firing)
        pane.closed = True

    def merge(self, into: Pane, other: Pane) -> None:
        """Note that a pane is merged into another one."""
        # After all earlier changes of both.
        number = max(into.round, other.round) + 1
        if other.round < 0:
            self._enter(other, number)
        self._enter(into, number)
        self._rounds[number].merges.append((into, other))
        self.gone.append(other)

    def run(self, source: Source) -> None:
        """Apply all changes that were noted so far."""
        self.state.open_panes(self._touched)
        for each in self._rounds:
            if each.merges:
                into, others = (_slots(panes) for panes in zip(*each.merges, strict=True))
                self.state.merge_within(into, others)
            if each.rows:
                self._update(np.array(each.rows, np.int64), _slots(each.panes), source)
            if each.fired:
                self._read_results(_slots(each.fired), each.firings)
        for pane in self._touched:
            pane.round, pane.closed = -1, False
        self._rounds, self._touched, self.size = [], [], 0

    def take(self) -> tuple[Array, list[pa.Array]]:
        """Return the number of rows behind each firing and the results, by firing, and begin the next bundle."""
        if not self.firings:
            return np.zeros(0, np.int64), [pa.array([], f.type) for f in self._results]
        order = np.argsort(np.array(self.firings), kind="stable")
        records = np.concatenate(self.records)[order]
        columns = [pa.concat_arrays(parts) for parts in zip(*self.columns, strict=True)]
        self.firings, self.records, self.columns = [], [], []
        return records, [column.take(pa.array(order)) for column in columns]

    def forget(self, keys: list[int]) -> dict[int, int] | None:
        """Free the slots of panes that are gone and of keys without windows; return the others' new slots, if moved."""
        slots = np.array([pane.slot for pane in self.gone if pane.slot >= 0], np.int64)
        self.gone = []
        self.state.reset(slots)
        return self.state.drop(np.concatenate([slots, np.array(keys, np.int64)]))

    def _enter(self, pane: Pane, number: int) -> None:
        if pane.round < 0:
            self._touched.append(pane)
        pane.round, pane.closed = number, False
        if number == len(self._rounds):
            self._rounds.append(LedgerRound())

    def _update(self, rows: Array, slots: SlotArray, source: Source) -> None:
        state, keep = self.state, self._policy == "keep"
        inputs, retracts = source(rows)
        if self._policy == "error" and retracts.any():
            self._refuse_orphans(slots, retracts)
        # The count of a pane with debts may pass zero in between. It is moved far from zero until all rows are applied,
        # so that no retraction is mistaken for that of the last row.
        away = AWAY_FROM_ZERO if keep and state.handler.RETRACTING else 0
        touched = np.unique(slots) if away else slots
        if away:
            state.accumulators.shift_records(touched, away)
        self.dropped += state.handler.update(inputs, slots, retracts, keep_orphans=keep)
        if away:
            state.accumulators.shift_records(touched, -away)
            state.reset(touched[state.records[touched] == 0])

    def _read_results(self, slots: SlotArray, firings: list[int]) -> None:
        handler = self.state.handler
        values = handler.values(slots)
        handler.refuse_overflow(values, self.state.place)
        self.records.append(self.state.records[slots])
        self.columns.append(handler.to_arrow(values, self._results))
        self.firings += firings

    def _refuse_orphans(self, slots: SlotArray, retracts: FlagArray) -> None:
        records = self.state.records
        rows_left = {slot: int(records[slot]) for slot in np.unique(slots).tolist()}
        for slot, back in zip(slots.tolist(), retracts.tolist(), strict=True):
            if back and rows_left[slot] <= 0:
                raise orphan(self.state.place(slot))
            rows_left[slot] += -1 if back else 1


def orphan(place: str) -> OrphanRetractionError:
    """The error about a retraction of a row that a window does not have."""
    return OrphanRetractionError(
        f"a row retracts from a window of {place} that does not hold it; "
        "let on_orphan_retraction be 'drop' if the input may be out of order"
    )


def _slots(panes: Any) -> Array:
    return np.array([pane.slot for pane in panes], np.int64)
