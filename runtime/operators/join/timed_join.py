"""Joins whose rows leave with the watermark: what those by bounds of times and those in windows have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen.windows import to_instants
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.join.operator import JoinOperator
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.operators.join.timed_settings import TimedSettings
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Arena, Array, ByteArray
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.clock import BEFORE_ALL, Clock


class TimedState(JoinState):
    """The state of a Join, and the watermark that rows were judged by last."""

    @property
    def clock(self) -> Array:
        """The watermark."""
        return self.arena.array("clock", 0, "i8")

    def check_restored(self, audit: Audit, used: ByteArray) -> None:
        super().check_restored(audit, used)
        audit.require_length(1, "clock", self.clock)

    def _open(self, arena: Arena) -> None:
        super()._open(arena)
        if "clock" not in arena:
            arena.array("clock", 1, "i8")[0] = BEFORE_ALL

    def _compact(self) -> None:
        # The clock has one place and no slot: copying keys does not take it along.
        now = int(self.clock[0])
        super()._compact()
        self.clock[0] = now


class TimedJoinOperator(ClockedStep[Sequence[InputBatch]], JoinOperator):
    """One bucket's operator over rows that the watermark takes away. See TimedSettings for its settings."""

    state_class: ClassVar[type[JoinState]] = TimedState
    spec: TimedSettings
    state: TimedState

    def __init__(self, spec: TimedSettings, directory: Path | None = None) -> None:
        super().__init__(spec, directory)
        late = (f"late_dropped_{name}" for name in spec.names)
        self.counters |= {"late_dropped": 0, **dict.fromkeys(late, 0)}

    @property
    def is_chained(self) -> bool:
        return self.spec.is_chained

    def take(self, checked: Sequence[InputBatch], clock: Clock) -> Rows | None:
        """Take the rows of both inputs that are in time.

        Raises OrphanRetractionError (policy error), AggloomError for more joined rows than a bundle may bring.
        """
        if not any(each.batch.num_rows for each in checked):
            return None
        return self._apply_inputs(self._in_time(checked), clock)

    @property
    def now(self) -> int:
        """The watermark."""
        return int(self.state.clock[0])

    def move_clock(self, clock: Clock) -> Rows:
        """Move the watermark, and return the rows that leave by it."""
        advance_time(self.state.clock, clock.watermark)
        return self._drop_passed()

    @abstractmethod
    def _apply_inputs(self, inputs: Sequence[InputBatch], clock: Clock) -> Rows:
        """Store rows; what they bring at once."""

    @abstractmethod
    def _drop_passed(self) -> Rows:
        """Forget what the watermark has passed; what that brings."""

    @abstractmethod
    def _is_late(self, which: int, batch: pa.RecordBatch) -> Array | None:
        """Return which rows of a side come too late; None: none does."""

    def _in_time(self, inputs: Sequence[InputBatch]) -> list[InputBatch]:
        """The rows that are not too late; the others are counted."""
        on_time = []
        for which, each in enumerate(inputs):
            late = self._is_late(which, each.batch)
            if late is not None and late.any():
                count = int(late.sum())
                self.counters["late_dropped"] += count
                self.counters[f"late_dropped_{self.spec.names[which]}"] += count
                each = InputBatch(each.batch.filter(pa.array(~late)), each.kinds[~late])
            on_time.append(each)
        return on_time

    def _emit_insertions(self, rows: Weighted) -> Rows:
        return self._output.build_changes(rows, np.full(len(rows.weight), INSERT, np.int8))


def times_of(column: pa.Array, zone: str, missing: int, later: int = 0) -> Array:
    """Times as milliseconds since 1970, rounded down, after so many microseconds were added; NULL is `missing`."""
    micros = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    there = np.asarray(micros.fill_null(0).to_numpy(zero_copy_only=False))
    # Shifted before it is rounded: bounds have microseconds.
    millis = (there + later) // 1000
    if column.type.tz is None:
        millis = to_instants(millis, zone)
    if column.null_count:
        millis = np.where(column.is_valid().to_numpy(zero_copy_only=False), millis, missing)
    return millis
