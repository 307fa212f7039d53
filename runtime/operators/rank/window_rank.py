"""The rank of rows in windows: it waits for the end of a window, emits its rows once, and forgets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import to_instants
from aggloom.runtime.operators.rank.difference import NumberedChanges
from aggloom.runtime.operators.rank.operator import RankOperator
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.clock import BEFORE_ALL, Clock

if TYPE_CHECKING:
    from aggloom.runtime.operators.rank.settings import RankSettings


class WindowRankOperator(ClockedStep[Rows], RankOperator):
    """One bucket's operator, of which one of the key columns is the end of the row's window.

    Rows are only added. One that comes when its window is over is dropped and counted. The clock moves before a
    bundle's rows, or after them where windows below give them out when the watermark passes their end.
    """

    def __init__(self, spec: RankSettings, directory: Path | None = None) -> None:
        super().__init__(spec, directory)
        self.counters = {**self.counters, "late_dropped": 0, "fired": 0}

    @property
    def clock(self) -> Array:
        """The watermark, in milliseconds."""
        arena = self.state.arena
        if "clock" not in arena:
            arena.array("clock", 1, "i8")[:] = BEFORE_ALL
        return arena.array("clock", 1, "i8")

    @property
    def is_chained(self) -> bool:
        return self.spec.is_chained

    def move_clock(self, clock: Clock) -> None:
        advance_time(self.clock, clock.watermark)

    def take(self, checked: Rows, clock: Clock) -> None:
        batch, _ = checked
        if batch.num_rows and not self.spec.is_empty:
            self._take(batch)

    def emit_due(self, now: int) -> Rows:
        changes = self._fire()
        self.state.pool.sweep()
        return changes

    def contents(self) -> Rows:
        """Nothing: rows that were emitted are not kept."""
        return no_rows(self.schema)

    def next_timers(self) -> tuple[int | None, int | None]:
        """Return when the next window is over."""
        lasts = self._lasts(self.state.used_slots())
        return (int(lasts.min()) if len(lasts) else None), None

    def snapshot(self) -> bytes:
        # Every snapshot has a clock, also that of a bucket which no row has reached.
        self.clock  # noqa: B018
        return super().snapshot()

    def _take(self, batch: pa.RecordBatch) -> None:
        """Store the rows that are in range."""
        assert self.spec.window is not None
        # The end of a window is the first moment that is not in it.
        late = self._milliseconds(batch.column(self.spec.window)) - 1 <= self.clock[0]
        self.counters["late_dropped"] += int(late.sum())
        if late.any():
            batch = batch.filter(pa.array(~late))
        slots = self.state.lookup(batch)
        fits = self._in_range(batch, slots)
        some = slots[fits]
        gone, _ = self._add(batch.filter(pa.array(fits)), some)
        self.state.sorted.free(gone)

    def _fire(self) -> Rows:
        """The rows of windows that are over, in order of time; the windows are forgotten."""
        used = self.state.used_slots()
        lasts = self._lasts(used)
        over = lasts <= self.clock[0]
        if not over.any():
            return no_rows(self.schema)
        slots = used[over][np.argsort(lasts[over], kind="stable")]
        visible = self._find_visible(slots)
        kinds = np.full(len(visible.ids), INSERT, np.int8)
        changes = (
            self._rows(NumberedChanges(visible.places, visible.ids, visible.numbers, kinds)),
            kinds,
        )
        self.counters["fired"] += len(slots)
        self.state.forget(slots)
        return changes

    def _lasts(self, slots: SlotArray) -> Array:
        """The last millisecond of the window of each slot."""
        assert self.spec.window is not None
        return self._milliseconds(self.state.table.key_columns(slots)[self.spec.window]) - 1

    def _milliseconds(self, ends: pa.Array) -> Array:
        """Ends of windows as instants; a row without one belongs to a window that is over."""
        if pa.types.is_timestamp(ends.type):
            wall = ends.type.tz is None
            numbers = ends.cast(pa.int64()).fill_null(BEFORE_ALL).to_numpy() // 1000
            return to_instants(numbers, self.spec.zone) if wall else numbers
        return np.asarray(ends.cast(pa.int64()).fill_null(BEFORE_ALL).to_numpy())
