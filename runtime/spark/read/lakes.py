"""Tables of files as streams of changes: Spark stores the position, and passes pieces to workers, which read them.

A piece is a text: no row crosses from Python into the JVM before it is packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from aggloom.errors import SpecError
from aggloom.runtime.lakes.pieces import Lake, Piece
from aggloom.runtime.spark.node.batch_context import map_partition
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.node.packed_counts import (
    CountingPacker,
    EventTime,
    counted_ddl,
    take_counts,
)
from aggloom.runtime.spark.plan.expressions import spark_arrow, spark_schema
from aggloom.runtime.spark.read.files import METRIC, remember_packed
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.spark.read.text_source import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    TextBatch,
    TextStream,
    load_texts,
)
from aggloom.runtime.values.batches import make_batch

_COUNTS = ("rows", "files")


def changes_of(
    spark: SparkSession, lake: Lake, schema: pa.Schema, streaming: bool, most: int | None
) -> DataFrame:
    """The changes of a lake as a DataFrame: the schema's columns and `_change_type`."""
    if most is not None and ReadMaxFiles is None:
        raise SpecError(f"max_versions_per_trigger is {most}; it needs Spark 4.2 or later")
    stream, batch = partial(PieceStream, lake, most), partial(PieceBatch, lake)
    pieces = load_texts(spark, "aggloom_lake_", stream, batch, streaming)
    output_type = StructType(
        [*spark_schema(schema).fields, StructField(CHANGE_COLUMN, StringType())]
    )
    changes = pieces.mapInArrow(ReadPieces(lake, schema), output_type)
    return remember_packed(changes, PackedPieces(pieces, lake, schema))


class PieceStream(TextStream):
    """The reading of a lake: offsets go into the checkpoint, and say the same pieces when a batch runs again."""

    def __init__(self, lake: Lake, most: int | None) -> None:
        self._lake, self._most = lake, most
        self._end: dict[str, Any] | None = None
        self._stops = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._lake.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stops = True

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return the offset up to which the next batch reads; without a start (Spark 4.1 and older) the end."""
        at = self._lake.first() if start is None else start
        most = getattr(limit, "max_files", None)
        if not self._stops:
            return self._lake.latest(at, most)
        # availableNow ends with what there is at its first batch, even if the table grows meanwhile.
        if self._end is None:
            self._end = self._lake.latest(at, None)
        end = self._lake.latest(at, most)
        return min(end, self._end, key=_version) if _version(at) < _version(self._end) else at

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(piece.text) for piece in self._lake.pieces(start, end)]


class PieceBatch(TextBatch):
    """The pieces that there are now."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def partitions(self) -> Sequence[InputPartition]:
        start = self._lake.first()
        end = self._lake.latest(start, None)
        return [InputPartition(piece.text) for piece in self._lake.pieces(start, end)]


def _version(offset: Mapping[str, Any]) -> int:
    return int(offset["version"])


@dataclass(frozen=True)
class ReadPieces:
    """The `mapInArrow` stage that reads pieces into ordinary rows."""

    lake: Lake
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one task's pieces, with their changes."""
        schema = spark_arrow(self.schema).append(pa.field(CHANGE_COLUMN, pa.string()))
        for piece in _list_pieces(batches):
            for rows, words in self.lake.rows(piece):
                yield make_batch([*rows.columns, words], schema, rows.num_rows)


@dataclass(frozen=True)
class PackedPieces:
    """A DataFrame of pieces, to be read where their rows are packed."""

    pieces: DataFrame
    lake: Lake
    schema: pa.Schema
    time: EventTime | None = None

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """The pieces' rows, packed; how many there are is an observed metric of the query."""
        packing = PackPieces(pack, self.lake, self.time)
        packed = self.pieces.mapInArrow(packing, counted_ddl(_COUNTS, self.time))
        return take_counts(packed, {f"{METRIC} {table}": _COUNTS}, self.time)


@dataclass(frozen=True)
class PackPieces:
    """The `mapInArrow` stage over pieces, as Pack is over rows."""

    pack: Pack
    lake: Lake
    time: EventTime | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's pieces."""
        packer = CountingPacker(self.pack.route, _COUNTS, self.time, map_partition())
        for piece in _list_pieces(batches):
            for rows, words in self.lake.rows(piece):
                packer.note_times(rows)
                yield from packer.add(*self._rows(rows, words))
                packer.count(rows.num_rows, 0)
            packer.count(0, 1)
        yield from packer.finish()

    def _rows(self, rows: pa.RecordBatch, words: pa.Array) -> tuple[pa.RecordBatch, Any]:
        """The rows in the columns that are packed, and their kinds."""
        columns = [rows.column(name) for name in self.pack.schema.names]
        kinds: Any = np.zeros(rows.num_rows, np.int8)
        if self.pack.change_column:
            kinds = self.pack.kinds(words)
        return make_batch(columns, self.pack.schema, rows.num_rows), kinds


def _list_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        yield from map(Piece.of, batch.column(0).to_pylist())
