"""Keeping: which rows that were emitted later frames may still reach."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.ordered_rows import OrderedRowsState
from aggloom.runtime.operators.over.bounds import Standing
from aggloom.runtime.operators.over.settings import OverSettings
from aggloom.runtime.storage.arena import Array, SlotArray

_UNITS = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001"), "ns": Decimal("0.000001")}


@dataclass(frozen=True)
class Keeping:
    """The rows that are kept: how many of the last ones, and those within which distance of the last one.

    until: that distance in milliseconds, rounded up; None: no frame goes by time. by_last: whether a row is late by its
    key's last time, not by the watermark. slides: whether rows leave frames. forgets: whether nothing is left of a key
    once its rows are gone.
    """

    rows: int
    distance: str | None
    until: int | None
    by_last: bool
    slides: bool
    forgets: bool

    @classmethod
    def of(cls, spec: OverSettings) -> Keeping:
        """Return the keeping that the calls of an Over by time need."""
        bounded = [c.frame for c in spec.calls if not c.function and c.frame.start is not None]
        rows = [abs(int(frame.start or 0)) for frame in bounded if frame.rows]
        rows += [call.number for call in spec.calls if call.function == "LAG"]
        far = [Decimal(frame.start or 0) for frame in bounded if not frame.rows]
        distance, until = None, None
        if far:
            distance = str(min(far))
            unit = spec.schema.field(spec.sort[0].column).type
            scale = _UNITS[unit.unit] if pa.types.is_timestamp(unit) else Decimal(1)
            until = int((-min(far) * scale).to_integral_value("ROUND_CEILING"))
        numbers = any(call.function and call.function != "LAG" for call in spec.calls)
        return cls(
            max(rows, default=0),
            distance,
            until,
            bool(bounded),
            bool(bounded),
            bool(far) and not rows and not numbers,
        )

    def first(self, state: OrderedRowsState, slots: SlotArray) -> Array:
        """The position of the first row of slots that is kept; all have rows that were emitted."""
        emitted = state.number("emitted")[slots]
        first = emitted - self.rows
        if self.distance is None or not len(slots):
            return first
        _, ids = state.sorted.collect_between(slots, emitted - 1, emitted)
        standing = Standing(state.sorted, state.pool, slots, ids, emitted - 1)
        if Decimal(self.distance) == 0:
            # At distance 0 are the rows of the same time, which a frame holds whole.
            return np.minimum(first, standing.first)
        return np.minimum(first, standing.at(self.distance, equals=False))
