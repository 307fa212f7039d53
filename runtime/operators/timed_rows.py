"""TimedRowsOperator: the part of operators that see the rows of a key in the order of their time, once it has come.

By row time rows wait for the watermark; by processing time they are seen as they come, and have that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.deduplicate.choice import milliseconds_of
from aggloom.runtime.operators.deduplicate.immediate import refuse_retractions
from aggloom.runtime.operators.ordered_rows import OrderedRowsState
from aggloom.runtime.operators.sorted_by_key import SortedByKey
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.timed_spec import TimedRowsSettings
from aggloom.runtime.storage.arena import Array, FlagArray
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.clock import Clock


class TimedRows(NamedTuple):
    """Rows, and when the time of each has come (int64[n], milliseconds)."""

    batch: pa.RecordBatch
    kinds: Kinds
    due: Array  # int64[rows]


class TimedRowsOperator(SortedByKey[OrderedRowsState], ClockedStep[TimedRows]):
    """An operator over rows that are only added; its result is only added to. See TimedRowsSettings.

    title: the first words of its name in messages.
    """

    title: ClassVar[str]
    update_before = True
    spec: TimedRowsSettings

    def __init__(self, spec: TimedRowsSettings, schema: pa.Schema) -> None:
        self.spec, self.schema = spec, schema
        self._waits = spec.by == "row"
        self._late: list[Rows] = []
        self.counters = {"rows": 0, "expired": 0, "late_dropped": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return f"{self.title} by {', '.join(field.name for field in self.state.fields) or '()'}"

    @property
    def is_chained(self) -> bool:
        return self.spec.is_chained

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> TimedRows:
        """Return rows with their times; raises DataError for one that retracts one, or has no time."""
        (bundle,) = inputs
        refuse_retractions(bundle.kinds, self.name)
        return TimedRows(bundle.batch, bundle.kinds, self._due(bundle.batch, clock.processing))

    def contents(self) -> Rows:
        """No row: what waits is not emitted yet, and what was emitted is not kept."""
        return no_rows(self.schema)

    def take_late(self) -> list[Rows]:
        late, self._late = self._late, []
        return late

    def move_clock(self, clock: Clock) -> None:
        advance_time(self.state.clock, clock.watermark if self._waits else clock.processing)

    @property
    def _now(self) -> int:
        """The time by which rows are judged."""
        return int(self.state.clock[0])

    @property
    def _time_column(self) -> str:
        return str(self.spec.schema.names[self.spec.sort[0].column])

    def _due(self, batch: pa.RecordBatch, now: int) -> Array:
        """The times of rows, in milliseconds; in processing time all are of now."""
        if not self._waits:
            return np.full(batch.num_rows, now, np.int64)
        return milliseconds_of(batch, self._time_column, self.spec.zone)

    def _drop_late(self, rows: TimedRows, late: FlagArray) -> TimedRows:
        """The rows that are in time; the others are counted, and handed out if they are asked for."""
        if not late.any():
            return rows
        batch, kinds, due = rows
        self.counters["late_dropped"] += int(late.sum())
        if self.spec.late_rows:
            self._late.append((batch.filter(pa.array(late)), kinds[late]))
        return TimedRows(batch.filter(pa.array(~late)), kinds[~late], due[~late])

    def _stamp_rows(self, batch: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """The rows with the time at which they are seen, in processing time, where they are ordered by it."""
        if self._waits or not self.spec.sort:
            return batch
        place = self.spec.sort[0].column
        field = self.spec.schema.field(place)
        stamp = pa.scalar(now, pa.int64()).cast(pa.timestamp("ms")).cast(field.type)
        return batch.set_column(place, field, pa.repeat(stamp, batch.num_rows))
