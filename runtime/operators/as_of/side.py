"""One side of an AsOfJoin: the rows of each key in order of time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.sort_key import SortColumn
from aggloom.runtime.state.sorted_rows import SortedRows
from aggloom.runtime.storage.arena import Arena, Array, RowIdArray, SlotArray
from aggloom.runtime.storage.pool import Pool


class AsOfSide:
    """The rows of a side in an arena, created there or found there again.

    number: 0 is the left. more: columns besides. keeps_debts: whether orphan retractions are remembered.
    """

    def __init__(
        self,
        arena: Arena,
        pool: Pool,
        settings: AsOfSettings,
        number: int,
        slots: int,
        more: Sequence[pa.Field] = (),
        *,
        keeps_debts: bool = False,
    ) -> None:
        self.name = ("left", "right")[number]
        stored = settings.stored_fields(number)
        self.fields = [*stored, *more]
        self.names = [field.name for field in stored]
        self.places = {field.name: place for place, field in enumerate(self.fields)}
        # Rows without a time precede all others, where nothing finds them.
        order = SortColumn(self.places[settings.times[number]], descending=settings.is_descending)
        known = [self.places[name] for name in settings.known[number] or ()]
        self.rows = SortedRows(arena, pool, self.name, self.fields, (order,), slots, unique=known)
        self.debts = (
            RowBag(arena, pool, f"{self.name}.debts", self.fields, slots) if keeps_debts else None
        )

    @property
    def bag(self) -> SortedRows:
        """The store that holds the rows."""
        return self.rows

    def select_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The stored columns of rows."""
        return batch.select(self.names)

    def all_of(self, slots: SlotArray) -> Array:
        """The ids of all rows of slots, in order."""
        sizes, _ = self.rows.sizes(slots)
        return self.rows.collect_between(slots, sizes * 0, sizes)[1]

    def slots_of(self, ids: RowIdArray) -> Array:
        """The slot of each row."""
        return self.rows.index.arrays.slot[ids].astype("i8")
