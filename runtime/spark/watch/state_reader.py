"""The state in a checkpoint, read through Spark's own state data source: read only, whether the query runs or not.

All variables are read at one batch, which is pinned, so that a running query does not move between them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from aggloom.errors import CheckpointError, StateCorruptError
from aggloom.runtime.connectors.files.paths import absolute_path
from aggloom.runtime.hosting.bucket_store import Head
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.hosting.framing import DESCRIPTION, LOG, OVERHEAD, SNAPSHOT
from aggloom.runtime.inspection.description import FragmentDescription
from aggloom.runtime.inspection.stored import (
    BucketFiles,
    StoredBucket,
    StoredOperator,
    described_by,
)
from aggloom.runtime.spark.arguments import check_session
from aggloom.runtime.spark.checkpoint import require_directory
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.node.partitioning import bucket_keys, hash_int
from aggloom.runtime.spark.node.state_files import REFERENCE_MAGIC, fetch_row
from aggloom.runtime.spark.sessions.session import session

_VARIABLES, _FORMER = {"commit", "log"}, {"head", "log"}
_BYTES_AT_ONCE = 256 << 20


class SparkStateReader:
    """A checkpoint directory, seen by a session."""

    retention = "Spark keeps as many as spark.sql.streaming.minBatchesToRetain says."

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.path = spark, path
        self._root = local(path) if is_local(path) else None

    def operators(self) -> list[StoredOperator]:
        """The operators of ours; raises CheckpointError if there are none."""
        rows = self._collect(self._spark.read.format("state-metadata").load(self.path))
        if not rows:
            raise CheckpointError(
                f"{self.path}: no state of a stateful query. Give the directory that the query has as its "
                "checkpointLocation (`aggloom run --checkpoint`), once it has committed a batch."
            )
        operators, foreign = [], []
        for row in rows:
            variables = _variables(row["operatorProperties"])
            if variables >= _FORMER:
                raise CheckpointError(
                    f"{self.path}: operator {row['operatorId']} was written by an older version of aggloom, "
                    "whose state lies otherwise. Read it with that version."
                )
            if not variables >= _VARIABLES:
                foreign.append(row["operatorName"])
            else:
                batches = row["minBatchId"], row["maxBatchId"]
                operators.append(StoredOperator(row["operatorId"], row["numPartitions"], batches))
        if not operators:
            raise CheckpointError(
                f"{self.path}: its state is that of {', '.join(sorted(set(foreign)))}, not of aggloom. "
                'Spark reads it with spark.read.format("statestore").'
            )
        return sorted(operators)

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        """All buckets that were ever written, with their sizes; no state leaves the JVM."""
        heads = self._variable("commit", operator, batch).select(
            "key.bucket", "partition_id", "value.head"
        )
        blobs = self._variable("log", operator, batch)
        sized = blobs.select("key.bucket", _content().alias("content"), _size().alias("size"))
        summed = sized.groupBy("bucket", "content").agg(F.sum("size").alias("size"))
        sizes = {(key, int(content, 16)): int(size) for key, content, size in self._collect(summed)}
        bucket_files = [
            BucketFiles(
                hash_int(key),
                partition,
                Head.of(head),
                sizes.get((key, SNAPSHOT), 0),
                sizes.get((key, LOG), 0),
            )
            for key, partition, head in self._collect(heads)
        ]
        return sorted(bucket_files)

    def description(self, operator: int, batch: int, trust: bool) -> FragmentDescription:
        """Return the description that the state of an operator was made from, as one of its buckets says."""
        blobs = self._variable("log", operator, batch).where(_content() == f"{DESCRIPTION:02X}")
        rows = blobs.select("key.bucket", "list_element.blob").limit(1)
        for key, blob in self._collect(rows):
            return described_by(fetch_row(bytes(blob), self._root), hash_int(key), trust)
        raise self._missing_description(operator)

    def buckets(
        self, operator: int, batch: int, bucket_files: Collection[BucketFiles]
    ) -> Iterator[StoredBucket]:
        """Yield the contents of these buckets, as many at once as fit into memory well."""
        chunk: list[BucketFiles] = []
        room = _BYTES_AT_ONCE
        for each in sorted(bucket_files):
            size = each.snapshot_bytes + each.log_bytes
            # One bucket at least, however large it is.
            if chunk and size > room:
                yield from self._read_buckets(operator, batch, chunk)
                chunk, room = [], _BYTES_AT_ONCE
            chunk.append(each)
            room -= size
        if chunk:
            yield from self._read_buckets(operator, batch, chunk)

    def _read_buckets(
        self, operator: int, batch: int, chunk: list[BucketFiles]
    ) -> Iterator[StoredBucket]:
        names = bucket_keys(max(each.bucket for each in chunk) + 1)
        keys = {names[each.bucket]: each.bucket for each in chunk}

        lines_by_bucket: dict[int, list[bytes]] = {bucket: [] for bucket in keys.values()}
        rows = self._variable("log", operator, batch).where(F.col("key.bucket").isin(*keys))
        for key, blob in self._collect(rows.select("key.bucket", "list_element.blob")):
            lines_by_bucket[keys[key]].append(fetch_row(bytes(blob), self._root))
        for each in chunk:
            if not lines_by_bucket[each.bucket]:
                raise self._missing_description(operator)
            yield StoredBucket.of(each.bucket, each.head, lines_by_bucket[each.bucket])

    def _missing_description(self, operator: int) -> StateCorruptError:
        return StateCorruptError(
            f"{self.path}: the state of operator {operator} has no description. "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        )

    def _variable(self, name: str, operator: int, batch: int) -> DataFrame:
        reader = self._spark.read.format("statestore").option("operatorId", operator)
        reader = reader.option("batchId", batch).option("stateVarName", name)
        try:
            return reader.load(self.path)
        except PySparkException as failure:
            raise explain_failure(failure) from failure

    def _collect(self, df: DataFrame) -> list[Any]:
        try:
            return df.collect()
        except Exception as failure:
            # What Spark cannot read is reported in its own words, cut to a line.
            raise explain_failure(failure) from failure


def open_spark_state(checkpoint: str | Path, spark: SparkSession | None) -> SparkStateReader:
    """The reader of a checkpoint by a session (None: the active one, else one that is made)."""
    if spark is not None:
        check_session("state", spark)
    require_directory(str(checkpoint))
    # What fails is said once, and not by each thread of Spark that it passes through.
    spark = (
        spark or SparkSession.getActiveSession() or session("aggloom", **{"spark.log.level": "OFF"})
    )
    return SparkStateReader(spark, absolute_path(spark, checkpoint))


def _content() -> Column:
    """Return the column with the kind of a frame's content, by a byte of its header."""
    return F.hex(F.substring("list_element.blob", 7, 1))


def _size() -> Column:
    """Return the column with the bytes of a frame, also of one to which there is only a reference."""
    blob = F.col("list_element.blob")
    referred = F.conv(F.hex(F.substring(blob, OVERHEAD + 1, 8)), 16, 10).cast("long") + OVERHEAD
    is_reference = F.substring(blob, 1, len(REFERENCE_MAGIC)) == F.lit(REFERENCE_MAGIC)
    return F.when(is_reference, referred).otherwise(F.length(blob))


def _variables(properties: str | None) -> set[str]:
    """The names of an operator's state variables."""
    try:
        listed = json.loads(properties or "{}").get("stateVariables", [])
        return {each["stateName"] for each in listed}
    except (ValueError, AttributeError, KeyError, TypeError):
        return set()
