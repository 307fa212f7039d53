"""The state in a checkpoint, read through Spark's own state data source: read only, whether the query runs or not.

All variables are read at one batch, which is pinned, so that a running query does not move between them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from aggloom.errors import CheckpointError, StateCorruptError
from aggloom.runtime.hosting.bucket_store import BucketStore, Head
from aggloom.runtime.hosting.framing import (
    DESCRIPTION,
    LOG,
    SNAPSHOT,
    Owner,
    stated_owner,
    unseal,
)
from aggloom.runtime.inspection import FragmentDescription
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.spark.node.partitioning import bucket_keys, hash_int
from aggloom.runtime.values.clock import NO_TIME, Clock

_VARIABLES, _FORMER = {"commit", "log"}, {"head", "log"}
_BYTES_AT_ONCE = 256 << 20


class StoredOperator(NamedTuple):
    """A stateful operator of a query by its number in it; batches: the first and the last that can be read."""

    number: int
    partitions: int
    batches: tuple[int, int]


class BucketFiles(NamedTuple):
    """A bucket without what it holds: its head, and the bytes of snapshot and log in the store."""

    bucket: int
    partition: int
    head: Head
    snapshot_bytes: int
    log_bytes: int


@dataclass
class StoredBucket:
    """The contents of the state store for one bucket."""

    bucket: int
    head: Head
    about: bytes
    snapshot: list[bytes] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, bucket: int, head: Head, blobs: Sequence[bytes]) -> StoredBucket:
        """Make one of what lies in a bucket's list: the description, the snapshot's chunks, the log."""
        start = 1 + head.snapshot_chunks
        return cls(bucket, head, blobs[0], list(blobs[1:start]), list(blobs[start:]))

    def description(self, trust: bool) -> FragmentDescription:
        """Return the description the state was made from; raises StateError if the blob is not whole."""
        return described_by(self.about, self.bucket, trust)

    def last_clock(self, store: BucketStore) -> Clock:
        """The clock of the last bundle in the log."""
        return unseal(self.log[-1], store.owner, LOG).clock if self.log else NO_TIME

    def store(self, description: FragmentDescription) -> BucketStore:
        """The bucket as the host sees it, with every check that the host makes."""
        owner = Owner(description.operator, description.digest, self.bucket, description.buckets)
        blobs = [self.about, *self.snapshot, *self.log]
        return BucketStore(_Kept([self.head]), _Kept(blobs), owner, "")


class Checkpoint:
    """A checkpoint directory, seen by a session."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.path = spark, path

    def operators(self) -> list[StoredOperator]:
        """The operators of ours; raises CheckpointError if there are none."""
        rows = self._collect(self._spark.read.format("state-metadata").load(self.path))
        if not rows:
            raise CheckpointError(
                f"{self.path}: no state of a stateful query. Give the directory that the query has as its "
                "checkpointLocation (`aggloom run --checkpoint`), once it has committed a batch."
            )
        found, foreign = [], []
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
                found.append(StoredOperator(row["operatorId"], row["numPartitions"], batches))
        if not found:
            raise CheckpointError(
                f"{self.path}: its state is that of {', '.join(sorted(set(foreign)))}, not of aggloom. "
                'Spark reads it with spark.read.format("statestore").'
            )
        return sorted(found)

    def files(self, operator: int, batch: int) -> list[BucketFiles]:
        """All buckets that were ever written, with their sizes; no state leaves the JVM."""
        heads = self._variable("commit", operator, batch).select(
            "key.bucket", "partition_id", "value.head"
        )
        blobs = self._variable("log", operator, batch)
        sized = blobs.select(
            "key.bucket", _content().alias("content"), F.length("list_element.blob").alias("size")
        )
        summed = sized.groupBy("bucket", "content").agg(F.sum("size").alias("size"))
        sizes = {(key, int(content, 16)): int(size) for key, content, size in self._collect(summed)}
        found = [
            BucketFiles(
                hash_int(key),
                partition,
                Head.of(head),
                sizes.get((key, SNAPSHOT), 0),
                sizes.get((key, LOG), 0),
            )
            for key, partition, head in self._collect(heads)
        ]
        return sorted(found)

    def description(self, operator: int, batch: int, trust: bool) -> FragmentDescription:
        """Return the description that the state of an operator was made from, as one of its buckets says."""
        blobs = self._variable("log", operator, batch).where(_content() == f"{DESCRIPTION:02X}")
        rows = blobs.select("key.bucket", "list_element.blob").limit(1)
        for key, blob in self._collect(rows):
            return described_by(bytes(blob), hash_int(key), trust)
        raise self._missing_description(operator)

    def buckets(
        self, operator: int, batch: int, wanted: Collection[BucketFiles]
    ) -> Iterator[StoredBucket]:
        """Yield the contents of these buckets, as many at once as fit into memory well."""
        chunk: list[BucketFiles] = []
        room = _BYTES_AT_ONCE
        for each in sorted(wanted):
            size = each.snapshot_bytes + each.log_bytes
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

        found: dict[int, list[bytes]] = {bucket: [] for bucket in keys.values()}
        rows = self._variable("log", operator, batch).where(F.col("key.bucket").isin(*keys))
        for key, blob in self._collect(rows.select("key.bucket", "list_element.blob")):
            found[keys[key]].append(bytes(blob))
        for each in chunk:
            if not found[each.bucket]:
                raise self._missing_description(operator)
            yield StoredBucket.of(each.bucket, each.head, found[each.bucket])

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
            # What Spark cannot read is told in its own words, cut to a line.
            raise explain_failure(failure) from failure


def _content() -> Column:
    """Return the column that tells the kind of a frame's content, by a byte of its header."""
    return F.hex(F.substring("list_element.blob", 7, 1))


class _Kept:
    """A state variable that was read: of one value, or a list."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def get(self) -> Iterator[Any]:
        """The values as rows of one column."""
        return ((value,) for value in self._values)


def described_by(about: bytes, bucket: int, trust: bool) -> FragmentDescription:
    """Return the sealed description of a bucket; raises StateError if it is not whole or another's."""
    owner = stated_owner(about, "a checkpoint")
    text = bytes(unseal(about, owner, DESCRIPTION).payload)
    if owner.bucket != bucket:
        raise StateCorruptError(
            f"the description of bucket {bucket} is that of bucket {owner.bucket}. "
            "Restore the checkpoint from a copy."
        )
    return FragmentDescription.parse(text, trust)


def _variables(properties: str | None) -> set[str]:
    """The names of an operator's state variables."""
    try:
        listed = json.loads(properties or "{}").get("stateVariables", [])
        return {each["stateName"] for each in listed}
    except (ValueError, AttributeError, KeyError, TypeError):
        return set()
