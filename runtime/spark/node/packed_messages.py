"""Messages decoded where their rows are packed, so that no row crosses from Python into the JVM and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from aggloom.runtime.formats.base import Messages
from aggloom.runtime.formats.decoder import Decoder
from aggloom.runtime.formats.side_table import SideTable
from aggloom.runtime.hosting.blobs import empty_columns
from aggloom.runtime.spark.node.batch_context import part_name
from aggloom.runtime.spark.node.pack import NO_ROWS, Pack, packed_batch
from aggloom.runtime.spark.node.topic_facts import read_fact
from aggloom.runtime.spark.plan.metrics import PASSED_OVER, number
from aggloom.runtime.spark.plan.routes import PACKED_DDL, PackedRow, Packer
from aggloom.runtime.spark.read.files import METRIC
from aggloom.runtime.values.changelog import Kinds

COUNTED_DDL = f"{PACKED_DDL}, rows BIGINT, files BIGINT, refused BIGINT, notices BIGINT"
A_MESSAGE = "a message"
"""The place of one of which nothing tells it."""
PLACES = ("topic", "partition", "offset")
"""Columns that say where a message lies."""
_COUNTS = ("rows", "files", "refused", "notices")
DecodedRows = tuple[pa.RecordBatch, Kinds, int, int]
"""Rows of messages, their kinds, how many messages are refused, and how many are no rows."""


@dataclass(frozen=True)
class PackedMessages:
    """A DataFrame of messages once more: their values, keys, what tells their places, and what reads them."""

    messages: DataFrame
    decoder: Decoder
    side: SideTable | None

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """The messages' rows, packed; how many there are, and how many are refused or no rows, are observed metrics."""
        stage = PackMessages(pack, self.decoder, self.side)
        return count_packed(self.messages.mapInArrow(stage, COUNTED_DDL), table)


def count_packed(packed: DataFrame, table: str) -> DataFrame:
    """Packed rows of messages without the counts beside them, which are observed."""
    # Spark has counted the messages; what is in them counts instead.
    counts = (F.sum(name).alias(name) for name in ("rows", "files"))
    packed = packed.observe(f"{METRIC} {table}", *counts)
    passed_over = (F.sum(name).alias(name) for name in ("refused", "notices"))
    packed = packed.observe(f"{PASSED_OVER} #{number()}", *passed_over)
    return packed.where(f"seq <> {NO_ROWS}").drop(*_COUNTS)


@dataclass(frozen=True)
class PackMessages:
    """The `mapInArrow` stage over messages, as Pack is over rows."""

    pack: Pack
    decoder: Decoder
    side: SideTable | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's messages."""
        from pyspark import TaskContext

        context = TaskContext.get()
        decoded = ((self.rows(batch), batch.num_rows) for batch in batches)
        yield from self.pack_decoded(decoded, context.partitionId() if context else 0)

    def pack_decoded(
        self, decoded: Iterable[tuple[DecodedRows, int]], partition: int
    ) -> Iterator[pa.RecordBatch]:
        """Pack the rows of messages of a map partition, each with how many rows of Spark's they were."""
        packer = Packer(self.pack.route, partition)
        counts = np.zeros(len(_COUNTS), np.int64)
        # What was counted since the last packed row goes out beside the next one.
        for (rows, kinds, refused, notices), messages in decoded:
            for packed in packer.add(rows, kinds):
                yield _add_counts(packed, counts)
            counts += (len(kinds), messages, refused, notices)
        for packed in packer.finish():
            yield _add_counts(packed, counts)
        # A task all of whose messages are passed over has no packed row beside which it could say so.
        if counts.any():
            yield _add_counts((0, 0, 0, NO_ROWS, b""), counts)

    def rows(self, batch: pa.RecordBatch) -> DecodedRows:
        """The rows of some messages, as `decode` returns them."""
        values, keys = (batch.column(place).to_pylist() for place in range(2))
        columns_of = dict(zip(batch.schema.names, batch.columns, strict=True))
        facts = partial(read_fact, columns_of)
        return self.decode(Messages(values, keys, lambda at: place_of(batch, at), facts))

    def decode(self, messages: Messages) -> DecodedRows:
        """The rows of some messages, their kinds, and how many messages are refused, and how many are no rows."""
        decoded = self.decoder.decode(messages)
        if decoded.refused and self.side is not None:
            self.side.write(decoded.side_table(), part_name(self.side.token))
        names = self.decoder.columns.names
        columns = []
        for field in self.pack.schema:
            column = decoded.columns[names.index(field.name)]
            columns.append(column if column.type == field.type else column.cast(field.type))
        total = len(decoded.words)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.pack.schema)
        kinds: Any = np.zeros(total, np.int8)
        if self.pack.change_column:
            kinds = self.pack.kinds(decoded.words)
        notices = int(decoded.notices.sum())
        return rows if columns else empty_columns(total), kinds, len(decoded.refused), notices


def place_of(batch: pa.RecordBatch, at: int) -> str:
    """Return the place of a message, by the columns that tell it."""
    values = {name: batch.column(name)[at].as_py() for name in PLACES if name in batch.schema.names}
    parts = [f"{name} {value}" for name, value in values.items() if value is not None]
    return ", ".join(parts) or A_MESSAGE


def _add_counts(packed: PackedRow, counts: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """A packed row, and what has been counted since the last that said so."""
    batch = packed_batch(packed, **dict(zip(_COUNTS, counts.tolist(), strict=True)))
    counts[:] = 0
    return batch
