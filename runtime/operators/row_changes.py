"""A bundle's changes brought into sorted rows, and what becomes of one that is taken back and is not there."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from aggloom.errors import OrphanRetractionError
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, NumberArray


class HasSortedRows(Protocol):
    """Keys, their rows, and those that were taken back before they came, if these are remembered."""

    table: KeyTable
    sorted: SortedRows
    debts: RowBag | None


class SlotChanges(NamedTuple):
    """Rows, the slot of each, whether it is taken back, and its number in the bundle."""

    batch: pa.RecordBatch
    slots: Array  # int64[changes]
    retracts: Array  # bool[changes]
    numbers: Array  # int64[changes]

    def some(self, which: NumberArray) -> SlotChanges:
        """Those with these places."""
        batch = self.batch.take(pa.array(which))
        return SlotChanges(batch, self.slots[which], self.retracts[which], self.numbers[which])


class AppliedRows(NamedTuple):
    """The stored rows that came and those that are gone, which have to be freed; of each the place of its change."""

    came: Array  # int64[came]
    came_by: Array  # int64[came]
    gone: Array  # int64[gone]
    gone_by: Array  # int64[gone]


def apply_changes(
    state: HasSortedRows, changes: SlotChanges, policy: str, counters: dict[str, int]
) -> AppliedRows:
    """Add rows and take rows back, one after another as they stand.

    policy: about a row that is taken back and is not there: "error", "drop", or "keep" it in mind until it comes.
    Raises OrphanRetractionError.
    """
    debts, places = state.debts, np.arange(len(changes.slots))
    if debts is not None and len(debts):
        places = _cancel_debts(debts, changes)
        changes = changes.some(places)
    applied = state.sorted.apply(changes.slots, changes.batch, changes.retracts)
    went = applied.gone >= 0
    gone, gone_by = [applied.gone[went]], [places[went]]
    orphans = np.flatnonzero(applied.outcomes == ORPHAN)
    if len(orphans) and policy == "error":
        _refuse(state.table, changes.some(orphans))
    if len(orphans) and debts is None:
        counters["orphans_dropped"] += len(orphans)
    elif len(orphans):
        assert debts is not None
        # The row may have come later in this bundle.
        early = changes.some(orphans)
        again = state.sorted.remove(early.slots, early.batch)
        went = again.gone >= 0
        gone.append(again.gone[went])
        gone_by.append(places[orphans][went])
        never = early.some(np.flatnonzero(again.outcomes == ORPHAN))
        debts.insert(never.slots, never.batch)
    came = ~changes.retracts
    return AppliedRows(
        applied.ids[came], places[came], np.concatenate(gone), np.concatenate(gone_by)
    )


def _cancel_debts(debts: RowBag, changes: SlotChanges) -> Array:
    """The places of the changes that are left without rows that were taken back before they came."""
    news = np.flatnonzero(~changes.retracts)
    found = debts.remove(changes.slots[news], changes.batch.take(pa.array(news)))
    debts.free(found.gone[found.gone >= 0])
    left = np.ones(len(changes.slots), np.bool_)
    left[news[found.outcomes != ORPHAN]] = False
    return np.flatnonzero(left)


def _refuse(table: KeyTable, orphans: SlotChanges) -> None:
    first = int(np.argmin(orphans.numbers))
    raise OrphanRetractionError(
        f"row {orphans.numbers[first]} retracts from {table.place(int(orphans.slots[first]))}, which does not hold it; "
        "let on_orphan_retraction be 'drop' or 'keep' if the input may be out of order"
    )
