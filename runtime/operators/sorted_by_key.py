"""The part that operators share which remember the rows of each key in an order."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.operators.rows_by_key import KeyedRowsOperator, RowState
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, SlotArray


class SortedState(RowState):
    """Keys with their rows in an order. owed: rows that were retracted before they arrived, if they are remembered."""

    sorted: SortedRows
    debts: RowBag | None

    def rows_of(self, slots: SlotArray) -> tuple[Array, Array]:
        """The rows of slots in order: (number in `slots`, id) of each."""
        sizes, _ = self.sorted.sizes(slots)
        return self.sorted.collect_between(slots, np.zeros(len(slots), np.int64), sizes)

    def has_debts(self, slots: SlotArray) -> Array:
        """Tell whether each of the slots has orphan retractions."""
        return np.zeros(len(slots), np.bool_) if self.debts is None else self.debts.holds(slots)


S = TypeVar("S", bound=SortedState)


class SortedByKey(KeyedRowsOperator[S]):
    """An operator of one input with such a state."""

    def count_key_rows(self) -> Array:
        return self.state.sorted.sizes(self.state.used_slots())[0]

    def _ledger(self, policy: str) -> OrphanLedger:
        """Return the ledger of the orphan retractions of its input."""
        state = self.state
        return OrphanLedger(state.table, state.debts, policy=policy, counters=self.counters)

    def _leave(self, touched: Array) -> None:
        """Forget keys that have nothing left."""
        sizes, _ = self.state.sorted.sizes(touched)
        empty = touched[(sizes == 0) & ~self.state.has_debts(touched)]
        if len(empty):
            self.state.forget(empty)
