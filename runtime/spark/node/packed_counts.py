"""Numbers beside packed rows: how many rows were read, and the greatest event time, by which Spark's watermark moves.

Spark has no need of the rows for its watermark: a column with the greatest time that a task has seen so far is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from aggloom.codegen import LoweredCalc
from aggloom.runtime.spark.node.pack import NO_ROWS, packed_batch
from aggloom.runtime.spark.plan.column_frames import filter_rows
from aggloom.runtime.spark.plan.routes import PACKED_DDL, PackedRow, Packer, Route
from aggloom.runtime.values.changelog import Kinds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIME = "greatest_time"
_INSTANT = pa.timestamp("us", "UTC")
_BEFORE_ALL = -62_135_596_800_000_000
"""The first microsecond of the year 1: less than any event time, which NULL is not to Spark's watermark."""


@dataclass(frozen=True)
class EventTime:
    """The event time of a table's rows; `delay` behind the greatest is Spark's watermark.

    columns: the one that it is, or those that `calc` computes it of.
    """

    columns: tuple[str, ...]
    delay: str
    calc: LoweredCalc | None = None

    def find_latest(self, rows: pa.RecordBatch) -> int:
        """The greatest time of rows in microseconds; a wall clock is taken for that of UTC, NULL is before all."""
        times = rows.column(self.columns[0]) if self.calc is None else self._compute(rows)
        latest = pc.max(times).cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).as_py()
        return _BEFORE_ALL if latest is None else int(latest)

    def _compute(self, rows: pa.RecordBatch) -> pa.Array:
        """The times of rows that no column has."""
        assert self.calc is not None
        declared = self.calc.rows
        columns = [rows.column(name).cast(declared.field(name).type) for name in declared.names]
        bare = pa.RecordBatch.from_arrays(columns, schema=declared)
        # A lowered Calc takes kinds, on which no time depends.
        return self.calc.run(bare, np.zeros(rows.num_rows, np.int8))[0].column(0)


class CountingPacker:
    """Packs the rows of a task; numbers that were counted since the last packed row go out beside the next one."""

    def __init__(
        self, route: Route, names: Sequence[str], time: EventTime | None, partition: int
    ) -> None:
        self._packer = Packer(route, partition)
        self._names, self._time = names, time
        self._counts = np.zeros(len(names), np.int64)
        self._latest = _BEFORE_ALL

    def count(self, *counts: int) -> None:
        """Add numbers, in the order of the names."""
        self._counts += counts

    def note_times(self, rows: pa.RecordBatch) -> None:
        """Look at the event times of rows, those that no operator gets among them."""
        if self._time is not None:
            self._latest = max(self._latest, self._time.find_latest(rows))

    def add(
        self, rows: pa.RecordBatch, kinds: Kinds, order: bytes = b""
    ) -> Iterator[pa.RecordBatch]:
        """Take rows, and yield what is packed by then. order: as of Packer.add."""
        yield from map(self._put_beside, self._packer.add(rows, kinds, order))

    def _put_beside(self, packed: PackedRow) -> pa.RecordBatch:
        """A packed row, and what has been counted since the last that said so."""
        batch = packed_batch(packed, **dict(zip(self._names, self._counts.tolist(), strict=True)))
        # Spark sums the counts, so each leaves once; of times it takes the greatest, which may leave again.
        self._counts[:] = 0
        if self._time is not None:
            batch = batch.append_column(_TIME, pa.array([self._latest], _INSTANT))
        return batch

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the packed rows that are left, and numbers that no packed row is beside."""
        yield from map(self._put_beside, self._packer.finish())
        # A task all of whose rows are passed over has no packed row.
        if self._counts.any():
            yield self._put_beside((0, 0, 0, NO_ROWS, b""))


def counted_ddl(names: Sequence[str], time: EventTime | None) -> str:
    """The columns of packed rows with numbers beside them."""
    counts = "".join(f", {name} BIGINT" for name in names)
    return f"{PACKED_DDL}{counts}{'' if time is None else f', {_TIME} TIMESTAMP'}"


def take_counts(
    packed: DataFrame, metrics: Mapping[str, Sequence[str]], time: EventTime | None
) -> DataFrame:
    """Packed rows without the numbers beside them, which are observed and move the watermark.

    metrics: the name of each observed metric, with the numbers that it sums.
    """
    # Before the filters below, which drop rows that only have counts.
    for metric, names in metrics.items():
        packed = packed.observe(metric, *(F.sum(name).alias(name) for name in names))
    counts = [name for names in metrics.values() for name in names]
    if time is None:
        return packed.where(f"seq <> {NO_ROWS}").drop(*counts)
    # With a plain filter Spark would drop rows without a blob below the watermark, and with them their times.
    moving = packed.withWatermark(_TIME, time.delay)
    return filter_rows(moving, f"seq <> {NO_ROWS}").drop(*counts, _TIME)
