"""Good, bad and damaged messages in topics, decoded from what both clients fetch, and by queries on each engine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from aggloom import local
from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import OffsetPlanner
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.lines import NOTHING, cut_line
from aggloom.runtime.spark import await_end, read_kafka, read_table, sql, write_changes
from doors.example import DDL, Row
from doors.messages import VARIANTS, Lines, Variant, lines_of
from doors.mixed import check_messages
from doors.oracle import RETRACTIONS
from doors.reading import signed

PARTITIONS = 3


class TopicOffset(NamedTuple):
    """The place of a message in its topic."""

    partition: int
    offset: int


class Topic(NamedTuple):
    """A topic of one format. made: its messages as lines; places: the partition and offset of each."""

    name: str
    variant: Variant
    made: Lines
    places: list[TopicOffset]


def check_topics(
    spark: Any,
    broker: Any,
    r: random.Random,
    count: int,
    directory: Path,
    done: Counter[str],
    *,
    by_spark: int = 3,
) -> None:
    """So many times a few messages, of each format in one topic; raises AssertionError where one is read wrongly.

    Each topic is decoded from both clients' messages, and read by a query on the local engine. Spark reads some, in
    its workers and by its own connector: by_spark formats, each one twice.
    """
    chosen = r.sample(VARIANTS, by_spark)
    for variant in VARIANTS:
        topic = _fill(broker, r, variant, count)
        rows, refused = _check_clients(broker, topic, done)
        expected = _latest(rows) if variant.keys else signed(rows)
        side = directory / f"{topic.name}-local"
        kinds = "upsert" if variant.keys else "retract"
        about = broker.servers, topic.name, variant.format, DDL
        table = local.read_kafka(*about, changes=kinds, **_options(variant, side))
        found = local.collect(local.sql(_query(variant), t=table, **_SETTINGS)).to_pylist()
        _check_query(topic, "the local engine", found, expected, side, refused)
        done["topics"] += 1
        for fetch in ("workers", "connector") if variant in chosen else ():
            side = directory / f"{topic.name}-{fetch}"
            options = {**_options(variant, side), "fetch": fetch}
            df = read_kafka(spark, *about, **options)
            out = sql(_query(variant), t=df, input_changes={"t": kinds}, buckets=1, **_SETTINGS)
            await_end(write_changes(out, "table", directory / f"{topic.name}-{fetch}-checkpoint"))
            found = read_table(directory / f"{topic.name}-{fetch}-checkpoint").to_pylist()
            _check_query(topic, f"Spark by its {fetch}", found, expected, side, refused)
            done[f"topics by {fetch}"] += 1


_SETTINGS = {"backend": "python", "on_orphan_retraction": "keep"}


def _options(variant: Variant, side: Path) -> dict[str, Any]:
    """The options of a table over a topic, whose bad messages go to a directory."""
    return {"keys": variant.keys or None, "unreadable": "side", "side": side}


def _query(variant: Variant) -> str:
    """A query whose table shows each row that is there in the end."""
    if variant.keys:
        return "SELECT name, MAX(cnt) AS cnt FROM t GROUP BY name"
    return "SELECT name, cnt, COUNT(*) AS n FROM t GROUP BY name, cnt"


def _latest(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The rows that are there in the end, of changes by their key, in the order of their topic."""
    table: dict[str | None, int | None] = {}
    for name, cnt, word in rows:
        if word in RETRACTIONS:
            table.pop(name, None)
        else:
            table[name] = cnt
    return Counter(table.items())


def _fill(broker: Any, r: random.Random, variant: Variant, count: int) -> Topic:
    """Make a topic of messages by chance, in partitions by chance; changes by key are in one partition."""
    made, messages, places = Lines(), list[Any](), list[TopicOffset]()
    ends = Counter[int]()
    separator = variant.separator.encode() if variant.separator else None
    for some in (lines_of(r, variant) for _ in range(count)):
        for at, line in enumerate(some.lines):
            message = cut_line(line, separator, "")
            if message is None and separator:
                # A line without anything on it is no message.
                continue
            if at in some.hurt:
                made.hurt.add(len(made.lines))
            made.lines.append(line)
            made.changes.append(some.changes[at])
            made.whole.append(some.whole[at])
            key, value = (message.key, message.value) if message else (None, None)
            if value is None and r.random() < 0.5:
                value = r.choice(NOTHING)
            partition = 0 if variant.keys else r.randrange(PARTITIONS)
            messages.append((key, value, partition))
            places.append(TopicOffset(partition, ends[partition]))
            ends[partition] += 1
    name = broker.topic(f"doors.{r.randrange(1 << 60)}", 1 if variant.keys else PARTITIONS)
    broker.send(name, *messages)
    return Topic(name, variant, made, places)


def _check_clients(broker: Any, topic: Topic, done: Counter[str]) -> tuple[list[Row], Counter[str]]:
    """Decode messages as columns and as objects, held to what was made; all rows, and the places of what is refused."""
    source = KafkaSource(servers=broker.servers, topic=topic.name)
    planned = OffsetPlanner(source, "a test").plan_whole()
    ranges = [OffsetRange(p, at, planned.ends[p]) for p, at in sorted(planned.starts.items())]
    readings = []
    for facts in ((), None):
        variant = topic.variant
        reading = decoder(variant.format, DDL, variant.keys or None, "drop", topic.name)
        rows_at, refused, rows = dict[str, list[Row]](), dict[str, str](), list[Row]()
        for messages in MessageFetcher(source, "a test", facts).fetch(ranges):
            found = reading.decode(messages)
            columns = [column.to_pylist() for column in found.columns]
            some = list(zip(*columns, found.words.to_pylist(), strict=True))
            refused.update((message.place, why) for message, why in found.refused)
            at = 0
            for message, length in zip(messages, found.lengths.tolist(), strict=True):
                rows_at[message.place] = some[at : at + length]
                at += length
            assert at == len(some)
            rows += some
        check_messages(
            variant,
            topic.made,
            {n: rows_at[place] for n, place in enumerate(_places(topic), 1)},
            {n: refused[place] for n, place in enumerate(_places(topic), 1) if place in refused},
            done,
        )
        readings.append((rows, Counter(list(refused))))
    assert readings[0] == readings[1], (variant, topic.name)
    return readings[0]


def _places(topic: Topic) -> list[str]:
    """The places of a topic's messages, as errors name them."""
    return [f"topic {topic.name}, partition {p}, offset {at}" for p, at in topic.places]


def _check_query(
    topic: Topic,
    reader: str,
    found: Sequence[dict[str, Any]],
    expected: Counter[tuple[Any, ...]],
    side: Path,
    refused: Counter[str],
) -> None:
    """Hold the table of a query to the rows that were decoded, and its side table to what was refused."""
    if topic.variant.keys:
        table = Counter(tuple(row.values()) for row in found)
    else:
        table = Counter({(row["name"], row["cnt"]): row["n"] for row in found})
    assert table == expected, (reader, topic.variant, table - expected, expected - table)
    rows = pq.read_table(side).to_pylist() if side.exists() else []
    at_side = Counter(row["place"] for row in rows)
    assert at_side == Counter(dict.fromkeys(refused, 1)), (reader, topic.variant, at_side, refused)
