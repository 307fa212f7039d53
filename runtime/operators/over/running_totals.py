"""Accumulators by key of frames that no row leaves, whose values are read after each row, or each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.over.settings import OverSettings
from aggloom.runtime.operators.over.sliding import results_after
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.storage.arena import NumberArray, SlotArray


class Sums:
    """The accumulators of a handler class by slot, as many as the key table has."""

    def __init__(self, handler_class: Any, directory: Path | None) -> None:
        self.state = SlotState(handler_class, directory)

    def fit(self, slots: int) -> None:
        """Have so many accumulators; those beyond are as new."""
        if self.state.accumulators.slots != slots:
            self.state.resize(slots)

    def add_rows(
        self, rows: pa.RecordBatch, slots: SlotArray, peers: NumberArray, spec: OverSettings
    ) -> list[Any]:
        """The values of each row's frame, by call; rows come slot by slot, and are added up.

        peers: by row the number of its slot and time, rising: frames by distance hold all rows of it.
        """
        handler = self.state.handler
        handler.set(self.state.accumulators, None)
        fields = [spec.results[number] for number in spec.aggregates]

        def place(slot: int) -> str:
            return f"accumulator {slot}"

        results, where = results_after(handler, rows, slots, place)
        # The last row that ties with each.
        last = np.searchsorted(peers, peers, side="right") - 1
        by_row = list(handler.to_arrow(results, fields, where))
        columns: list[Any] = [None] * len(spec.calls)
        for number, column in zip(spec.aggregates, by_row, strict=True):
            frame = spec.calls[number].frame
            columns[number] = column if frame.rows else column.take(pa.array(last))
        self.state.accumulators.sweep()
        return columns
