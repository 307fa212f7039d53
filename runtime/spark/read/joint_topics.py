"""Topics of several tables as one source of Spark: each of its batches has whole transactions of all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from aggloom.errors import SpecError
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.connectors.kafka.topics import known_topics, same_topics
from aggloom.runtime.connectors.kafka.transactions.groups import join_tables
from aggloom.runtime.spark.read.topic_ranges import TRANSACTION_SOURCE, TopicTable, load_ranges
from aggloom.runtime.spark.sessions.session import is_here

_NAME = re.compile(rf"\b{TRANSACTION_SOURCE}\d+")
_TABLES: WeakKeyDictionary[DataFrame, TopicTable] = WeakKeyDictionary()


def read_table(spark: SparkSession, table: TopicTable, where: str) -> DataFrame:
    """The changes of a table of topics; where: begins messages."""
    df = table.read(load_ranges(spark, table.source, table.marks, where))
    _TABLES[df] = table
    return df


def join_topics(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables of a query that have one transaction_topic, anew from one source; raises SpecError.

    Spark asks each source by itself how far a batch reads, and only one that has all topics can say it of all.
    """
    _refuse_derived(frames)
    joined: dict[str, DataFrame] = {}
    tables = {name: _TABLES[df] for name, df in frames.items() if df in _TABLES}
    marks = {name: each.marks for name, each in tables.items() if each.marks is not None}
    if not marks:
        return joined
    for joint in join_tables(_sources_of(frames), marks):
        if len(joint.names) == 1:
            continue
        spark = frames[joint.names[0]].sparkSession
        ranges = load_ranges(spark, joint.source, joint.marks, joint.where)
        for name in joint.names:
            joined[name] = same_topics(frames[name], tables[name].read(ranges))
    return joined


def _sources_of(frames: Mapping[str, DataFrame]) -> dict[str, KafkaSource]:
    """The sources of the tables that are topics, whatever reads them."""
    sources: dict[str, KafkaSource] = {}
    for name, df in frames.items():
        topics = known_topics(df)
        if df in _TABLES:
            sources[name] = _TABLES[df].source
        elif topics is not None:
            sources[name] = KafkaSource(
                servers=topics.servers, topic=topics.names, pattern=topics.pattern
            )
    return sources


def _refuse_derived(frames: Mapping[str, DataFrame]) -> None:
    """Raise SpecError for a table that is made from tables of topics: its source would read by itself."""
    for name, df in frames.items():
        if df in _TABLES or not df.isStreaming or not is_here(df.sparkSession):
            continue
        frame: Any = df
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        texts = (str(leaves.apply(at).toString()) for at in range(leaves.size()))
        sources = {each for text in texts for each in _NAME.findall(text)}
        if len(sources) > 1 or (sources and len(frames) > 1):
            raise SpecError(
                f"table {name}: it is made from what read_kafka returned, so that its batches could have a part of a "
                "transaction that other tables have; give the query what read_kafka returned, and filter in the query"
            )
