"""The first start on Spark of a query that the local engine has handed over.

Spark's checkpoint is made by Spark: one batch of the query itself, over tables without rows, in which each bucket takes
its state from the directory that was handed over and sets its timers. What that batch has written then gets the number
of the last batch of the local engine, and Spark continues with the next. The directory is deleted as the last step: a
start that is killed before that begins again.
"""

from __future__ import annotations

import json
import shutil
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from aggloom.codegen.planner import ONE_ROW
from aggloom.durable_files import sync_directory, write_whole
from aggloom.errors import CheckpointError
from aggloom.runtime.connectors.kafka.topics import note_topics
from aggloom.runtime.engine.hand_over import HandOver, read_facts
from aggloom.runtime.hosting.checkpoint_paths import HAND_OVER, STATE_FILES, is_local, local
from aggloom.runtime.hosting.query_record import known_buckets
from aggloom.runtime.spark.api.watermarks import add_watermark
from aggloom.runtime.spark.failures import await_end, start_query
from aggloom.runtime.spark.moving.source_lines import SourceLine, find_lines
from aggloom.runtime.spark.node.batch_context import LAST_WATERMARK
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.lower import SparkLowering
from aggloom.runtime.spark.plan.one_batch_source import stream_nothing
from aggloom.runtime.spark.sessions import session as sessions
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL

_OF_SPARK = ("offsets", "commits", "sources", "state", STATE_FILES)
_SEED_SETTINGS = {
    # A snapshot of each store, which is renamed, and no log of changes, in which numbers stand.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_CHUNK = 512


def begin_handed_over(
    df: DataFrame, lowering: SparkLowering | None, checkpoint: str | Path
) -> None:
    """Make Spark's checkpoint of one that the local engine has handed over; nothing where there is none.

    Raises CheckpointError, before anything is written, where Spark cannot continue with it.
    """
    root = local(checkpoint)
    if not is_local(checkpoint):
        return
    done = root / f"{HAND_OVER}.done"
    # A start that was killed as its last step has left it.
    shutil.rmtree(done, ignore_errors=True)
    if not (root / HAND_OVER).is_dir():
        return
    lines = None if lowering is None else find_lines(df, lowering)
    if lowering is None or lines is None:
        raise CheckpointError(
            f"{checkpoint}: it was moved from the local engine, and Spark begins with it where the query is what "
            "al.sql has made over tables of files, topics, Delta and Iceberg. Start that query with al.write_changes, "
            "or `aggloom run --engine spark`."
        )
    if not sessions.is_local(df.sparkSession):
        raise CheckpointError(
            f"{checkpoint}: it was moved from the local engine, and the workers of a cluster do not see the directory "
            "of its state. Start the query once in a session with master=local[*]; the cluster goes on from there."
        )
    facts = read_facts(root / HAND_OVER)
    spoken = [_offset_of(each, lines, facts) for each in lines]
    # A start that was killed on the way has left some of these.
    for name in _OF_SPARK:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / ".metadata.crc").unlink(missing_ok=True)
    # The id stays that of the query, since sinks know by it which batches they have written.
    write_whole(root / "metadata", [json.dumps({"id": facts.id}).encode()])
    _take_states(lowering, root)
    _write_files(df.sparkSession, root, lines, facts)
    for name, table in lowering.tables.items():
        topics = facts.positions.get(name)
        if isinstance(topics, dict) and "topics" in topics:
            ids = {topic: str(about["id"]) for topic, about in topics["topics"].items()}
            note_topics(root, table.df, ids)
    _renumber(root, facts, spoken)
    # Renamed at once and deleted afterwards: of a directory that is half deleted no start could take the state.
    (root / HAND_OVER).rename(done)
    sync_directory(root)
    shutil.rmtree(done, ignore_errors=True)


def _offset_of(line: SourceLine, lines: list[SourceLine], facts: HandOver) -> str:
    """The position of a line's table as Spark's log of offsets has it."""
    table = line.table
    position = facts.positions.get(table)
    if table == ONE_ROW:
        return json.dumps({"given": 1})
    if position is None:
        # Spark's word for a source that has no offset yet.
        return "-"
    if table in facts.files:
        return json.dumps({"logOffset": 0}, separators=(",", ":")) if facts.files[table] else "-"
    if isinstance(position, dict) and "topics" in position:
        # Tables that are read together have one source, and so one position.
        tables = dict.fromkeys(each.table for each in lines if each.source == line.source)
        positions = [facts.positions.get(each) for each in tables]
        return json.dumps(join_positions(positions), separators=(",", ":"))
    return json.dumps(position)


def join_positions(positions: Iterable[Any]) -> dict[str, dict[str, int]]:
    """The offsets of topics in several positions, by partition the furthest.

    Example: two tables that are read together; the second was not in the last batch.
        >>> both = ({"topics": {t: {"id": "", "offsets": {"0": n}}}} for t, n in (("a", 3), ("b", 1)))
        >>> join_positions(both)
        {'a': {'0': 3}, 'b': {'0': 1}}
    """
    joint: dict[str, dict[str, int]] = {}
    for position in positions:
        for name, about in position["topics"].items() if position is not None else ():
            known = joint.setdefault(name, {})
            for number, at in about["offsets"].items():
                known[number] = max(int(at), known.get(number, 0))
    return joint


def _take_states(lowering: SparkLowering, root: Path) -> None:
    """Run a batch of the query in which each bucket takes its state."""
    spark = next(iter(lowering.tables.values())).df.sparkSession
    with _settings(spark):
        tables = {
            name: _without_rows(table) for name, table in lowering.tables.items() if name != ONE_ROW
        }
        buckets = known_buckets(root) or lowering.settings.buckets
        seed = lowering.lower_again(0, buckets, tables, str(root / HAND_OVER))
        writer = seed.writeStream.outputMode("append").option("checkpointLocation", str(root))
        writer = writer.trigger(availableNow=True).foreachBatch(_run_through)
        await_end(start_query(writer))


def _run_through(batch: DataFrame, _: int) -> None:
    """Have a batch run; it has no rows."""
    batch.write.format("noop").mode("overwrite").save()


def _without_rows(table: InputTable) -> InputTable:
    """A stream of a table's columns that brings no row."""
    watermark = None if table.time is None else (table.time, "0 seconds")
    return add_watermark(stream_nothing(table.df), table.change_column, watermark)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Have the settings of the first batch while the context lasts."""
    before = {name: spark.conf.get(name, None) for name in _SEED_SETTINGS}
    for name, value in _SEED_SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _write_files(spark: SparkSession, root: Path, lines: list[SourceLine], facts: HandOver) -> None:
    """Write the logs of the sources of files: what was read, as one batch of the source's own."""
    session: Any = spark
    path_of, conf = session._jvm.org.apache.hadoop.fs.Path, session._jsparkSession.sessionState()
    files_of = path_of("file:///").getFileSystem(conf.newHadoopConf())
    shutil.rmtree(root / "sources", ignore_errors=True)
    for table, source in dict.fromkeys(lines):
        files = facts.files.get(table, ())
        if not files:
            continue
        entries = ["v1"]
        for each in files:
            path = str(files_of.makeQualified(path_of(each.path)).toUri().toString())
            entry = {"path": path, "timestamp": each.time, "batchId": 0}
            entries.append(json.dumps(entry, separators=(",", ":"), ensure_ascii=False))
        directory = root / "sources" / str(source)
        directory.mkdir(parents=True)
        _write_record(directory / "0", "\n".join(entries))


def _renumber(root: Path, facts: HandOver, spoken: list[str]) -> None:
    """Give what the first batch has written the number of the query's last one, and the query's own positions."""
    batch, watermark = facts.batch, _watermark_of(facts.watermark)
    version, metadata, *_ = (root / "offsets" / "0").read_text("utf-8").split("\n")
    about = {
        **json.loads(metadata),
        "batchWatermarkMs": watermark,
        "batchTimestampMs": time.time_ns() // 1_000_000,
    }
    record = "\n".join([version, json.dumps(about, separators=(",", ":")), *spoken])
    committed_version, committed = (root / "commits" / "0").read_text("utf-8").split("\n", 1)
    committed_about = {**json.loads(committed), "nextBatchWatermarkMs": watermark}
    text = "\n".join([committed_version, json.dumps(committed_about, separators=(",", ":"))])
    for name in ("offsets", "commits"):
        shutil.rmtree(root / name)
        (root / name).mkdir()
    for number in range(max(batch - 1, 0), batch + 1):
        # Spark looks at the batch before the last one, too.
        _write_record(root / "offsets" / str(number), record)
    _write_record(root / "commits" / str(batch), text)
    if batch:
        # The store that a batch writes has the number after the batch's. A list, because the names change meanwhile.
        for file in list(root.glob("state/*/*/*1[._]*")):
            _rename_store(file, batch + 1)


def _rename_store(file: Path, version: int) -> None:
    """Give a file of a state store's first version another number; the checksums beside it go along."""
    dots = "." if file.name.startswith(".") else ""
    rest = file.name[len(dots) :]
    if rest[:2] in ("1.", "1_"):
        file.rename(file.with_name(f"{dots}{version}{rest[1:]}"))


def _watermark_of(ms: int) -> int:
    """The watermark as Spark has it: a time at which rows may still come."""
    if ms >= AFTER_ALL:
        return LAST_WATERMARK
    return 0 if ms <= BEFORE_ALL else max(0, ms + 1)


def _write_record(file: Path, text: str) -> None:
    """Write a record of one of Spark's logs, and the checksums of Hadoop's beside it, one for each chunk."""
    data = text.encode()
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    sums = b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    write_whole(file.with_name(f".{file.name}.crc"), [b"crc\0" + struct.pack(">i", _CHUNK) + sums])
    write_whole(file, [data])
