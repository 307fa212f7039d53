"""The windows that the rows of a batch belong to, on the wall clock and in instants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import Aligned, Assigner, Window, to_instants, to_local
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.storage.arena import Array, NumberArray
from aggloom.runtime.values.clock import Clock

Assigned = tuple[Array, Array, Array]
Placed = Iterator[tuple[int, tuple[int, int], tuple[int, int]]]


class Placer:
    """Asks an assigner about whole batches. column: where the event time of rows is."""

    def __init__(self, assigner: Assigner, column: str) -> None:
        self._assigner, self._column = assigner, column

    def times(self, batch: pa.RecordBatch, clock: Clock) -> Array:
        """The time of each row: its own, or that of the clock."""
        if not self._assigner.event_time:
            return np.full(batch.num_rows, clock.processing, np.int64)
        times = batch.column(self._column)
        if times.null_count:
            row = int(np.argmax(times.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(f"row {row} has no event time; filter such rows before the window")
        return np.asarray(times.cast(pa.int64()).to_numpy())

    def windows(self, batch: pa.RecordBatch, times: NumberArray, stagger: int) -> Placed:
        """(row, window on the wall clock, window in instants) for every window of every row; stagger: an offset."""
        assigner = self._assigner
        if stagger and isinstance(assigner, Aligned):
            assigner = assigner.shift_windows(stagger)
        rows, starts, ends = self._assign_windows(assigner, batch, to_local(times, assigner.zone))
        # The last millisecond decides when a window fires (Flink's rule where clocks are changed).
        until = to_instants(ends - 1, assigner.zone) + 1
        since = to_instants(starts, assigner.zone)
        local = zip(starts.tolist(), ends.tolist(), strict=True)
        instants = zip(since.tolist(), until.tolist(), strict=True)
        return zip(rows.tolist(), local, instants, strict=True)

    def _assign_windows(self, assigner: Assigner, batch: pa.RecordBatch, local: Array) -> Assigned:
        gaps = self._gaps(batch)
        if gaps is not None:
            return assigner.assign(local, gaps)
        if type(assigner).assign_rows is Assigner.assign_rows:
            return assigner.assign(local)
        visible_rows = batch.drop_columns([self._column])
        try:
            windows = assigner.assign_rows(visible_rows, local)
            rows, starts, ends = (np.asarray(part, np.int64) for part in windows)
        except AggloomError:
            raise
        except Exception as error:
            raise DataError(
                f"assigner {assigner.text} failed in assign_rows: {type(error).__name__}: {error}"
            ) from error
        fits = rows.ndim == 1 and len(rows) == len(starts) == len(ends)
        # By row: numbers begin with 0 at the least, never fall, and end with the last row's at the most.
        if not fits or (len(rows) and (np.diff(rows, prepend=0, append=len(local) - 1) < 0).any()):
            raise DataError(
                f"assigner {assigner.text}: assign_rows must return the number of the row, the start and the end of "
                f"each window as three arrays of one length, by row, of {len(local)} rows"
            )
        if (starts >= ends).any():
            at = int(np.argmax(starts >= ends))
            raise DataError(
                f"assigner {assigner.text}: the window from {starts[at]} to {ends[at]} ms of row {rows[at]} has no "
                "time in it; let it end after its start"
            )
        return rows, starts, ends

    def _gaps(self, batch: pa.RecordBatch) -> Array | None:
        name = getattr(self._assigner, "gap_column", None)
        if name is None:
            return None
        column = batch.column(name).cast(pa.int64())
        gaps = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False))
        if (gaps <= 0).any():
            row = int(np.argmax(gaps <= 0))
            raise DataError(
                f"row {row}: the session gap `{name}` is {column[row].as_py()}; it must be more than 0 ms"
            )
        return gaps


def instants_of(window: Window, zone: str) -> Window:
    """A window of the wall clock in instants."""
    start, last = to_instants(np.array([window.start, window.end - 1], np.int64), zone).tolist()
    return Window(start, last + 1)
