"""Topics fetched where their rows are packed: Spark stores the offsets, and passes ranges of them to tasks as texts.

A worker fetches its ranges by librdkafka, decodes the messages in blocks and packs the rows: no message enters Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from aggloom.runtime.connectors.kafka.broker import TopicPlace
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import (
    OffsetPlanner,
    cut_ranges,
    find_ranges,
    read_offsets,
    write_offsets,
)
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.transactions.groups import open_planner
from aggloom.runtime.connectors.kafka.transactions.marks import TransactionMarks
from aggloom.runtime.connectors.kafka.transactions.planner import TransactionPlanner
from aggloom.runtime.formats.base import Messages
from aggloom.runtime.formats.decoder import Decoder
from aggloom.runtime.formats.side_table import SideTable
from aggloom.runtime.spark.node.batch_context import part_name, work_for_this_batch
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.node.packed_counts import EventTime
from aggloom.runtime.spark.node.packed_messages import COUNTS, PackMessages, pack_messages
from aggloom.runtime.spark.plan.expressions import spark_arrow, spark_schema
from aggloom.runtime.spark.plan.metrics import PASSED_OVER, number
from aggloom.runtime.spark.read.files import METRIC, remember_packed
from aggloom.runtime.spark.read.messages import remember_keys
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.spark.read.text_source import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    TextBatch,
    TextStream,
    load_texts,
)
from aggloom.runtime.spark.sessions.session import is_here

_WHERE = "read_kafka"
TRANSACTION_SOURCE = "aggloom_transactions_"
"""The begin of the names of sources that cut no transaction."""
_LEAST = 10_000
"""Fewer messages are no task of their own."""
_TASKS = 8
"""Tasks of a batch where a session does not say how many run at once."""
_KEPT_FETCHERS = 4
_FETCHERS: dict[str, MessageFetcher] = {}
"""Clients of this worker, which the next task continues with."""


@dataclass(frozen=True)
class TopicTable:
    """A table of topics: its source, what decodes its messages, the columns of its rows, and what reads their marks."""

    source: KafkaSource
    decoder: Decoder
    side: SideTable | None
    names: tuple[str, ...]
    marks: TransactionMarks | None = None

    def read(self, ranges: DataFrame) -> DataFrame:
        """The changes in a DataFrame of ranges: the columns of these names and `_change_type`."""
        reading = ReadRanges(self.source, self.decoder, self.side)
        rows = ranges.mapInArrow(reading, reading.output_type)
        rows = rows.observe(f"{METRIC} #{number()}", *_sums(("rows", "files")))
        rows = rows.observe(f"{PASSED_OVER} #{number()}", *_sums(("refused", "notices")))
        places = self.decoder.columns.names
        fields = spark_schema(self.decoder.columns).fields
        columns = [
            F.col(f"c{at}").alias(name, metadata=fields[at].metadata)
            for name in self.names
            for at in (places.index(name),)
        ]
        # Rows without a change bring counts alone.
        changes = rows.where("change IS NOT NULL").select(
            *columns, F.col("change").alias(CHANGE_COLUMN)
        )
        if self.decoder.upserts:
            changes = remember_keys(changes, self.decoder.keys)
        packed = PackedRanges(ranges, self.source, self.decoder, self.side)
        return remember_packed(changes, packed)


def load_ranges(
    spark: SparkSession, source: KafkaSource, marks: TransactionMarks | None, where: str
) -> DataFrame:
    """The ranges of a source's topics as a DataFrame, a row for each task; marks: where they cut no transaction."""
    tasks = spark.sparkContext.defaultParallelism if is_here(spark) else _TASKS
    prefix = "aggloom_topics_" if marks is None else TRANSACTION_SOURCE
    stream = partial(RangeStream, source, tasks, marks, where)
    return load_texts(spark, prefix, stream, partial(RangeBatch, source, tasks), source.streaming)


def _sums(names: Sequence[str]) -> list[Column]:
    return [F.sum(name).alias(name) for name in names]


class RangeStream(TextStream):
    """The reading of topics: Spark's log of offsets says the same ranges when a batch runs again.

    Up to Spark 4.1 nothing passes the offset that is asked from: it is the last one up to which ranges were asked for,
    as Spark asks for those of the log's last offset before anything else when a query goes on.
    """

    def __init__(
        self,
        source: KafkaSource,
        tasks: int,
        marks: TransactionMarks | None = None,
        where: str = _WHERE,
    ) -> None:
        self._source, self._tasks, self._marks, self._where = source, tasks, marks, where
        self._own_planner: OffsetPlanner | TransactionPlanner | None = None
        self._ids: dict[str, str] = {}
        self._at: Any = None

    @property
    def _planner(self) -> OffsetPlanner | TransactionPlanner:
        """The planner, which is made where it is used: a worker has no need of it."""
        if self._own_planner is None:
            self._own_planner = open_planner(self._source, self._marks, self._where)
        return self._own_planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first batch, whose own offset says where it begins."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._source.max_messages_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planner.stop_here()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return the offset up to which the next batch reads."""
        known = self._at if start is None else start
        position = read_offsets(known, _WHERE)[0] if known else None
        planned = self._planner.plan(position, self._ids, getattr(limit, "max_rows", None))
        self._ids = {**self._planner.ids, **self._ids}
        if planned.ends == position:
            # Spark compares texts.
            return dict(known)
        return write_offsets(planned.ends, {} if known else planned.starts)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._own_planner is None else write_offsets(self._own_planner.last, {})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._at = end
        ranges = find_ranges(start, end, _WHERE)
        of_tables = (each for each in ranges if each.place.topic != self._source.transaction_topic)
        return _tasks_of(of_tables, self._tasks)


class RangeBatch(TextBatch):
    """The ranges that there are now, from where the source begins to its end."""

    def __init__(self, source: KafkaSource, tasks: int) -> None:
        self._source, self._tasks = source, tasks

    def partitions(self) -> Sequence[InputPartition]:
        planned = OffsetPlanner(self._source, _WHERE).plan_whole()
        ranges = [OffsetRange(p, at, planned.ends[p]) for p, at in sorted(planned.starts.items())]
        return _tasks_of(ranges, self._tasks)


def _tasks_of(ranges: Iterable[OffsetRange], tasks: int) -> list[InputPartition]:
    """The ranges of each task as text; one task without any where there are none."""
    return [InputPartition(_write_task(task)) for task in cut_ranges(ranges, tasks, _LEAST)]


def _write_task(ranges: Iterable[OffsetRange]) -> str:
    return json.dumps([[*each.place, each.start, each.end] for each in ranges])


def _read_task(text: str) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPlace(topic, partition), start, end)
        for topic, partition, start, end in json.loads(text)
    ]


def _fetch_blocks(
    source: KafkaSource, batches: Iterable[pa.RecordBatch], facts: frozenset[str]
) -> Iterator[tuple[Messages, int]]:
    """Yield the messages of a task, some thousands at once, the first with the number of its texts."""
    texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    ranges = [each for text in texts for each in _read_task(text)]
    if source.transaction_topic is not None:
        # Tables that are read together share their ranges.
        ranges = [each for each in ranges if each.place.topic in source.topics]
    number = len(texts)
    for block in _fetch(source, ranges, facts):
        yield block, number
        number = 0
    if number:
        yield Messages([], [], str), number


def _fetch(
    source: KafkaSource, ranges: Sequence[OffsetRange], facts: frozenset[str]
) -> Iterator[Messages]:
    """Yield the messages of ranges."""
    if not ranges:
        return
    # A client that has failed is not used again.
    about = _key_of(source, facts)
    fetcher = _FETCHERS.pop(about, None) or MessageFetcher(source, _WHERE, facts)
    yield from fetcher.fetch(ranges)
    _FETCHERS[about] = fetcher
    # The client that was used longest ago is the first: a dict keeps the order of entry.
    while len(_FETCHERS) > _KEPT_FETCHERS:
        del _FETCHERS[next(iter(_FETCHERS))]


def _key_of(source: KafkaSource, facts: frozenset[str]) -> str:
    """The text by which a worker knows the client of a source."""
    properties = sorted((source.properties or {}).items())
    return json.dumps([source.servers, source.lost_data, sorted(facts), properties], default=str)


@dataclass(frozen=True)
class PackedRanges:
    """A DataFrame of ranges, to be fetched where their rows are packed."""

    ranges: DataFrame
    source: KafkaSource
    decoder: Decoder
    side: SideTable | None
    time: EventTime | None = None

    def pack_rows(self, pack: Pack, table: str) -> DataFrame:
        """The messages' rows, packed; how many there are, and how many are refused or no rows, are observed metrics."""
        packing = PackMessages(pack, self.decoder, self.side, self.time)
        return pack_messages(self.ranges, PackRanges(self.source, packing), packing, table)


@dataclass(frozen=True)
class PackRanges:
    """The `mapInArrow` stage over ranges, as PackMessages is over messages."""

    source: KafkaSource
    packing: PackMessages

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the messages of one task."""
        blocks = _fetch_blocks(self.source, batches, self.packing.decoder.topic_facts)
        decoded = ((self.packing.decode(block), texts) for block, texts in blocks)
        yield from self.packing.pack_decoded(decoded)


@dataclass(frozen=True)
class ReadRanges:
    """The `mapInArrow` stage that fetches ranges into ordinary rows, with counts beside the first of each block."""

    source: KafkaSource
    decoder: Decoder
    side: SideTable | None

    @property
    def output_type(self) -> StructType:
        """The columns by number, for a user's name must not meet the change's; then the change and the counts."""
        fields = spark_schema(self.decoder.columns).fields
        columns = [StructField(f"c{at}", field.dataType) for at, field in enumerate(fields)]
        counts = [StructField(name, LongType()) for name in COUNTS]
        return StructType([*columns, StructField("change", StringType()), *counts])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one task's messages."""
        work_for_this_batch()
        for block, texts in _fetch_blocks(self.source, batches, self.decoder.topic_facts):
            yield self._rows(block, texts)

    def _rows(self, messages: Messages, texts: int) -> pa.RecordBatch:
        decoded = self.decoder.decode(messages)
        if decoded.refused and self.side is not None:
            self.side.write(decoded.side_table(), part_name(self.side.token))
        types = spark_arrow(self.decoder.columns).types
        words = decoded.words.cast(pa.string())
        columns = [
            column if column.type == dtype else column.cast(dtype)
            for column, dtype in zip(decoded.columns, types, strict=True)
        ]
        counts = (len(words), texts, len(decoded.refused), int(decoded.notices.sum()))
        if not len(words):
            # The counts of messages without rows are a row of their own.
            columns, words = [pa.nulls(1, kind) for kind in types], pa.nulls(1, pa.string())
        numbers = [_first_of(each, len(words)) for each in counts]
        names = [*(f"c{at}" for at in range(len(columns))), "change", *COUNTS]
        return pa.RecordBatch.from_arrays([*columns, words, *numbers], names=names)


def _first_of(number: int, length: int) -> pa.Array:
    """A column with a number in its first row, and 0 in the others."""
    numbers = np.zeros(length, np.int64)
    numbers[:1] = number
    return pa.array(numbers)
