"""The base of window operators: the clock that they remember, late rows, and their life as a whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Bounds
from aggloom.codegen.windows import Aligned, Windowing, result_schema
from aggloom.errors import DataError, NotMergeableError
from aggloom.runtime.operators.base import InputBatch, OneInput, Partials
from aggloom.runtime.operators.step import ClockedStep, advance_time
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows
from aggloom.runtime.operators.windows.assign import bound_columns
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.storage.arena import Array, FlagArray
from aggloom.runtime.storage.audit import corrupt_snapshot
from aggloom.runtime.values.changelog import Kinds, is_retraction
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, Clock, instant

WATERMARK, PROCESSING, DUE, STAGGER, FIRED = range(5)
"""Places in the clock: the watermark, the processing time, when something is due, 1 + the stagger, how far it fired."""


class WindowOperator(OneInput, ClockedStep[InputBatch]):
    """The operator of windows over one bucket, which harness and engines make; subclasses add rows, follow the clock.

    handler_class: the class made from `window_spec`. windowing: the windows. bounds: which bounds of a window are in
    its result. is_chained: rows come from another window operator, so that they are judged by the watermark before
    this bundle's. update_before: whether updates come with the row that they replace. per_record: each row acts at
    once, so that a window may fire several times in a bundle.

    Example:
        >>> import aggloom as al
        >>> def count_fired(operators: list[al.WindowOperator]) -> int:
        ...     return sum(each.counters["fired"] for each in operators)
        >>> count_fired([])
        0
    """

    in_windows = True
    keeps_calls = "sessions, and windows with triggers or evictors of their own, keep their calls"

    def __init__(
        self,
        handler_class: type[Any],
        windowing: Windowing,
        bounds: Bounds,
        is_chained: bool,
        update_before: bool,
        per_record: bool = False,
    ) -> None:
        self.handler_class, self.windowing = handler_class, windowing
        self.spec = handler_class.spec()
        self.update_before, self.bounds = update_before, bounds
        self._is_chained = is_chained and windowing.assigner.event_time
        # Where windows fire once, it is the same whether rows act one by one.
        self._per_record = per_record and bool(windowing.updates)
        more = result_schema(windowing.function)
        self._output = WindowOutput(self.spec, bounds, windowing.assigner.zone, more)
        self.schema = self._output.schema
        self.nothing = no_rows(self.schema)
        self._late: list[Rows] = []
        self.counters = dict.fromkeys(
            ("rows", "orphans_dropped", "late_dropped", "fired", "emitted"), 0
        )

    @abstractmethod
    def _take(self, batch: pa.RecordBatch, kinds: Kinds, partials: Partials) -> Rows:
        """Apply rows, and accumulators; the clock stands still."""

    @abstractmethod
    def _advance(self) -> Rows:
        """Return the rows that are due now that the clock has moved."""

    @property
    def clock(self) -> Array:
        """The times that the operator remembers; see the names of its places."""
        arena = self.states[0].arena
        if "clock" not in arena:
            arena.array("clock", 5, "i8")[:] = (BEFORE_ALL, 0, AFTER_ALL, 0, BEFORE_ALL)
        return arena.array("clock", 5, "i8")

    @property
    def is_chained(self) -> bool:
        return self._is_chained

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> InputBatch:
        return inputs[0]

    def take(self, checked: InputBatch, clock: Clock) -> Rows | None:
        """Apply rows (columns of the spec's handler_schema), which are judged by the operator's own watermark."""
        batch, kinds, partials = checked
        if not self._per_record:
            return self._take(batch, kinds, partials) if batch.num_rows or partials else None
        rows = range(batch.num_rows)
        parts = [self._take(batch.slice(i, 1), kinds[i : i + 1], ()) for i in rows]
        return concat_changes(parts, self.schema)

    def snapshot(self) -> bytes:
        # Makes the clock of a bucket that no bundle has reached, so that every snapshot has one.
        self.clock  # noqa: B018
        return super().snapshot()

    def check_restored(self) -> None:
        """Raise StateCorruptError unless the clock of a snapshot is one."""
        now, assigner = self.clock, self.windowing.assigner
        # As doubles, since the least integer of 64 bits has no magnitude in 64 bits.
        right = len(now) > FIRED and bool((np.abs(now.astype(np.float64)) <= AFTER_ALL).all())
        most = assigner.size_ms if isinstance(assigner, Aligned) else 0
        if not right or not 0 <= now[STAGGER] <= 1 + most:
            raise corrupt_snapshot("clock: its times are out of bounds")

    def start_with(self, other: WindowOperator) -> None:
        # Windows may start by the time of the bucket's first row, which may be another key's.
        if self.clock[STAGGER] == 0:
            self.clock[STAGGER] = other.clock[STAGGER]

    def take_late(self) -> list[Rows]:
        """The rows that arrived too late since the last call, if the windowing says late_rows."""
        late, self._late = self._late, []
        return late

    def be_due_at(self, times: Array) -> None:
        """Be due at the first of some times (int64[n]), unless something is due before."""
        if len(times):
            self.clock[DUE] = min(int(self.clock[DUE]), int(times.min()))

    def require_merge(self, what: str) -> None:
        """Raise NotMergeableError if a function of the handler has no merge."""
        if self.handler_class.UNMERGEABLE:
            names = ", ".join(self.handler_class.UNMERGEABLE)
            raise NotMergeableError(
                f"{names} has no merge, which {what} need; give its class `def merge(state, other)`"
            )

    def drop_late(self, batch: pa.RecordBatch, kinds: Kinds, late: FlagArray) -> None:
        """Count the rows that arrived too late, and keep them if they are asked for."""
        count = int(late.sum())
        self.counters["late_dropped"] += count
        if count and self.windowing.late_rows:
            rows = batch.filter(pa.array(late))
            on = self.windowing.assigner.columns[0]
            self._late.append((self._output.late(rows, on), kinds[late]))

    def retractions(self, kinds: Kinds) -> Array:
        """Return which rows retract; raises DataError if the handler cannot."""
        retracts = is_retraction(kinds)
        if not self.handler_class.RETRACTING and retracts.any():
            row = int(np.argmax(retracts))
            raise DataError(
                f"row {row} retracts, but the spec says input_changes='append'; use input_changes='retract'"
            )
        return retracts

    @property
    def name(self) -> str:
        return f"GROUP BY {', '.join(self.spec.group_by[:-1]) or '()'} in windows"

    def format_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row without the column by which it is placed, which is emitted as the time that it stands for."""
        place, assigner = self.spec.group_by[-1], self.windowing.assigner
        rest = {name: value for name, value in row.items() if name != place}
        if place not in row or not assigner.event_time:
            return rest
        if self.windowing.is_sliced:
            return {"slice ends": self.format_window((row[place], row[place]))[1], **rest}
        return {"event time": instant(row[place]), **rest}

    def format_window(self, window: tuple[int, int]) -> tuple[Any, Any]:
        start, end = (np.array([each], np.int64) for each in window)
        columns = bound_columns(self.bounds, start, end, self.windowing.assigner.zone)
        return columns[0][0].as_py(), columns[1][0].as_py()

    @property
    def now(self) -> int:
        """The last millisecond that is over, by the clock that windows fire by."""
        if self.windowing.assigner.event_time:
            return int(self.clock[WATERMARK])
        # The millisecond of the clock is not over yet.
        return int(self.clock[PROCESSING]) - 1

    def move_clock(self, clock: Clock) -> Rows:
        advance_time(self.clock, clock.watermark, WATERMARK)
        advance_time(self.clock, clock.processing, PROCESSING)
        return self._advance()

    def _give_out(
        self,
        handler: Any,
        keys: Any,
        windows: tuple[Array, Array],
        results: tuple[Any, Any],
        live: tuple[Array, Array],
    ) -> Rows:
        return self._output.changes(handler, keys, windows, results, live, self.update_before)
