"""The facts of a query's checkpoint on Spark, as the local engine continues with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aggloom.checkpoint_file import read_text
from aggloom.codegen.planner import ONE_ROW
from aggloom.errors import CheckpointError
from aggloom.runtime.connectors.files.source_log import list_read_files
from aggloom.runtime.connectors.kafka.topics import noted_topics
from aggloom.runtime.engine.file_log import ListedFile
from aggloom.runtime.engine.hand_over import BucketState, HandOver
from aggloom.runtime.hosting.checkpoint_paths import batches, corrupt
from aggloom.runtime.hosting.framing import DESCRIPTION, stated_owner, unseal
from aggloom.runtime.spark.checkpoint import check_directory, check_records, id_of
from aggloom.runtime.spark.moving.source_lines import SOURCES_FILE, SourceLine, read_lines
from aggloom.runtime.spark.node.batch_context import LAST_WATERMARK
from aggloom.runtime.spark.watch.state_reader import SparkStateReader, open_spark_state
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL


def take_over(root: Path) -> HandOver:
    """The facts of a checkpoint of Spark; raises CheckpointError where the local engine cannot continue from them."""
    check_directory(root)
    check_records(root)
    planned, done = batches(root / "offsets"), batches(root / "commits")
    if not done:
        raise CheckpointError(
            f"{root}: no batch is committed, so that there is nothing to move. Start the query on the other engine."
        )
    if planned[-1] != done[-1]:
        raise CheckpointError(
            f"{root}: batch {planned[-1]} was begun and is not committed; the sink may have it. Run the query once "
            "more with --engine spark, so that the batch ends; then move it."
        )
    lines = read_lines(root)
    if lines is None:
        raise CheckpointError(
            f"{root}: it does not say which tables its sources are ({SOURCES_FILE}): this version of aggloom has not "
            "run it. Run the query once more with --engine spark; then move it."
        )
    batch = done[-1]
    # Behind the version and the line about the batch there is a line for each source.
    offsets = read_text(root, root / "offsets" / str(batch)).splitlines()[2:]
    if len(offsets) != len(lines):
        raise corrupt(
            f"offsets/{batch} has {len(offsets)} sources, and {SOURCES_FILE} {len(lines)}"
        )
    positions: dict[str, Any] = {}
    files: dict[str, list[ListedFile]] = {}
    for line, text in zip(lines, offsets, strict=True):
        _add_position(root, line, text, batch, positions, files)
    watermark = _watermark_of(root, batch)
    tables = {line.table for line in lines} - {ONE_ROW}
    return HandOver(
        id_of(root), batch, positions, files, dict.fromkeys(tables, BEFORE_ALL), watermark
    )


def _states_of(reader: SparkStateReader, batch: int) -> Iterator[BucketState]:
    """Yield the state of each bucket after a batch, by the places of the operators in the plan."""
    for operator in reader.operators():
        files = reader.files(operator.number, batch)
        for bucket in reader.buckets(operator.number, batch, files):
            key = _place_in(bucket.about), bucket.bucket
            rows = [bucket.about, *bucket.snapshot, *bucket.log]
            yield BucketState(key, bucket.head.text, rows)


def _place_in(about: bytes) -> int:
    """The place in the plan that the sealed description of a bucket says; raises StateCorruptError."""
    owner = stated_owner(about)
    try:
        return int(json.loads(bytes(unseal(about, owner, DESCRIPTION).payload))["place"])
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt(f"a description of {owner.where} cannot be read ({error})") from None


def _add_position(
    root: Path,
    line: SourceLine,
    text: str,
    batch: int,
    positions: dict[str, Any],
    files: dict[str, list[ListedFile]],
) -> None:
    """Add the position of a line of the log of offsets; raises CheckpointError for one of another kind of source."""
    if line.table == ONE_ROW or text == "-":
        return
    try:
        offset = json.loads(text)
    except ValueError:
        raise corrupt(f"offsets/{batch} cannot be read ({text[:80]!r})") from None
    position: Any
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        position = batch
        read = list_read_files(root, line.source, int(offset["logOffset"]))
        files[line.table] = [
            ListedFile(each.path, each.time, file_size(each.path), batch) for each in read
        ]
    elif isinstance(offset, dict) and {"table", "version"} <= set(offset):
        position = offset
    elif _is_topics(offset):
        ids = noted_topics(root)
        # A negative number says where a first batch began, which is done.
        position = {
            "topics": {
                name: {
                    "id": ids.get(name, ""),
                    "offsets": {n: at for n, at in offsets.items() if not n.startswith("-")},
                }
                for name, offsets in offset.items()
            }
        }
    else:
        raise CheckpointError(
            f"{root}: table {line.table} is read from a source that the local engine does not have (its position is "
            f"{text:.80}). It reads files, topics of Kafka, Delta and Iceberg; leave the query on Spark, or start over."
        )
    if positions.setdefault(line.table, position) != position:
        raise CheckpointError(
            f"{root}: the query reads table {line.table} more than once, and Spark is at two positions in it. Run the "
            "query once more with --engine spark until all of its input is read; then move it."
        )


def _is_topics(offset: Any) -> bool:
    """Tell whether an offset is one of Kafka's: a number for each partition of each topic."""
    return isinstance(offset, dict) and all(
        isinstance(each, Mapping)
        and all(str(number).removeprefix("-").isdigit() for number in each)
        for each in offset.values()
    )


def file_size(path: str) -> int:
    """The bytes of a file, which Spark does not note; -1 if it is gone."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return -1


def _watermark_of(root: Path, batch: int) -> int:
    """The watermark after a batch, as operators have it: a time at which no row may come any more."""
    try:
        text = read_text(root, root / "commits" / str(batch)).split("\n", 1)[1]
        ms = int(json.loads(text)["nextBatchWatermarkMs"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise corrupt(f"commits/{batch} cannot be read ({error})") from None
    if ms >= LAST_WATERMARK:
        return AFTER_ALL
    return ms - 1 if ms > 0 else BEFORE_ALL


def states_after(root: Path, batch: int) -> Iterator[BucketState]:
    """Yield the state of each bucket of a checkpoint after a batch, by a session that is there or is started."""
    if any((root / "state").glob("*")):
        yield from _states_of(open_spark_state(str(root), None), batch)
