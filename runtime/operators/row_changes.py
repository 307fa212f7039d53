"""A bundle's changes applied to sorted rows, orphan retractions included."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray, SlotArray


class SlotChanges(NamedTuple):
    """Rows; of each its slot (int64[n]), whether it is retracted (bool[n]), its number in the bundle (int64[n])."""

    batch: pa.RecordBatch
    slots: SlotArray  # int64[changes]
    retracts: FlagArray  # bool[changes]
    numbers: NumberArray  # int64[changes]

    def some(self, which: NumberArray) -> SlotChanges:
        """Return the changes with these places (int64[m])."""
        batch = self.batch.take(pa.array(which))
        return SlotChanges(batch, self.slots[which], self.retracts[which], self.numbers[which])


class AppliedRows(NamedTuple):
    """The inserted rows, and the removed ones, which have to be freed; of each the place of its change."""

    inserted: Array  # int64[inserted]
    inserted_by: Array  # int64[inserted]
    gone: Array  # int64[gone]
    gone_by: Array  # int64[gone]


def apply_changes(rows: SortedRows, changes: SlotChanges, ledger: OrphanLedger) -> AppliedRows:
    """Add rows and retract rows, one after another as they stand.

    Raises OrphanRetractionError, where the ledger's policy is "error".
    """

    def encode(which: NumberArray) -> Encoded:
        return rows.rows.encode(changes.batch.take(pa.array(which)))

    places = ledger.cancel(changes.slots, changes.retracts, encode)
    if len(places) < len(changes.slots):
        changes = changes.some(places)
    applied = rows.apply(changes.slots, changes.batch, changes.retracts)
    went = applied.gone >= 0
    gone, gone_by = [applied.gone[went]], [places[went]]
    orphans = np.flatnonzero(applied.outcomes == ORPHAN)
    if len(orphans):
        early = changes.some(orphans)
        ledger.report(early.numbers, early.slots)
        if ledger.keeps:
            # The row may have come later in this bundle.
            again = rows.remove(early.slots, early.batch)
            went = again.gone >= 0
            gone.append(again.gone[went])
            gone_by.append(places[orphans][went])
            never = early.some(np.flatnonzero(again.outcomes == ORPHAN))
            ledger.add(never.slots, rows.rows.encode(never.batch))
    # In the order of the changes: a row that was inserted and removed in one bundle is in both lists.
    inserts = ~changes.retracts
    return AppliedRows(
        applied.ids[inserts], places[inserts], np.concatenate(gone), np.concatenate(gone_by)
    )
