"""Messages decoded where their rows are packed, so that no row crosses from Python into the JVM and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from aggloom.runtime.formats.base import Messages
from aggloom.runtime.formats.decoder import Decoder
from aggloom.runtime.formats.side_table import SideTable
from aggloom.runtime.spark.node.batch_context import map_partition, part_name
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.node.packed_counts import (
    CountingPacker,
    EventTime,
    counted_ddl,
    take_counts,
)
from aggloom.runtime.spark.node.topic_facts import read_fact
from aggloom.runtime.spark.plan.metrics import PASSED_OVER, number
from aggloom.runtime.spark.read.files import METRIC
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.changelog import Kinds

A_MESSAGE = "a message"
"""The place of a message whose place is not known."""
PLACES = ("topic", "partition", "offset")
"""Columns that say where a message lies."""
COUNTS = ("rows", "files", "refused", "notices")
"""The numbers that are counted beside rows of messages."""


class DecodedRows(NamedTuple):
    """Rows of messages as they are packed, their kinds, how many messages are refused, and how many are no rows.

    whole: the rows in all columns of the table.
    """

    rows: pa.RecordBatch
    kinds: Kinds
    refused: int
    notices: int
    whole: pa.RecordBatch


@dataclass(frozen=True)
class PackedMessages:
    """A DataFrame of messages once more: their values, keys, what tells their places, and what reads them."""

    messages: DataFrame
    decoder: Decoder
    side: SideTable | None
    time: EventTime | None = None

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """The messages' rows, packed; how many there are, and how many are refused or no rows, are observed metrics."""
        stage = PackMessages(pack, self.decoder, self.side, self.time)
        return pack_messages(self.messages, stage, stage, table)


def pack_messages(
    df: DataFrame, stage: Callable[..., Any], packing: PackMessages, table: str
) -> DataFrame:
    """The packed rows that a stage makes of a DataFrame, without the counts beside them, which are observed."""
    packed = df.mapInArrow(stage, counted_ddl(COUNTS, packing.time))
    # Spark has counted the messages; what is in them counts instead.
    metrics = {f"{METRIC} {table}": COUNTS[:2], f"{PASSED_OVER} #{number()}": COUNTS[2:]}
    return take_counts(packed, metrics, packing.time)


@dataclass(frozen=True)
class PackMessages:
    """The `mapInArrow` stage over messages, as Pack is over rows."""

    pack: Pack
    decoder: Decoder
    side: SideTable | None
    time: EventTime | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one map task's messages."""
        yield from self.pack_decoded((self.rows(batch), batch.num_rows) for batch in batches)

    def pack_decoded(self, decoded: Iterable[tuple[DecodedRows, int]]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of messages of a map task, each with how many rows of Spark's they were."""
        packer = CountingPacker(self.pack.route, COUNTS, self.time, map_partition())
        for content, messages in decoded:
            # In all columns, and before anything is packed: rows that no operator gets move the watermark as well.
            packer.note_times(content.whole)
            yield from packer.add(content.rows, content.kinds)
            packer.count(len(content.kinds), messages, content.refused, content.notices)
        yield from packer.finish()

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
            # The name is the same when the batch runs again, so that its rows are replaced and not doubled.
            self.side.write(decoded.side_table(), part_name(self.side.token))
        names = self.decoder.columns.names
        columns = [decoded.columns[names.index(name)] for name in self.pack.schema.names]
        total = len(decoded.words)
        rows = make_batch(columns, self.pack.schema, total)
        kinds: Any = np.zeros(total, np.int8)
        if self.pack.change_column:
            kinds = self.pack.kinds(decoded.words)
        whole = pa.RecordBatch.from_arrays(decoded.columns, names=names)
        return DecodedRows(rows, kinds, len(decoded.refused), int(decoded.notices.sum()), whole)


def place_of(batch: pa.RecordBatch, at: int) -> str:
    """Return the place of a message, by the columns that tell it."""
    values = {name: batch.column(name)[at].as_py() for name in PLACES if name in batch.schema.names}
    parts = [f"{name} {value}" for name, value in values.items() if value is not None]
    return ", ".join(parts) or A_MESSAGE
