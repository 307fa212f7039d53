"""`state` and `why`: what a checkpoint holds, and how a key came to its value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from aggloom.errors import CheckpointError, StateMismatchError, UntrustedCodeError
from aggloom.runtime.inspection import (
    BucketSize,
    Entry,
    KeyState,
    OperatorState,
    Part,
    State,
    Why,
    WindowFilter,
    bucket_of,
    described,
    keys_of,
    nearest_keys,
    replay,
    split_key,
    times,
)
from aggloom.runtime.spark.framing import LAYOUT
from aggloom.runtime.spark.session import session
from aggloom.runtime.spark.state_reader import (
    BucketFiles,
    Checkpoint,
    StoredBucket,
    StoredOperator,
    require_directory,
)
from aggloom.runtime.values.clock import Clock

_LARGEST = 5
_WORTH_A_SEARCH = 64 << 20


def state(
    checkpoint: str | Path,
    *,
    key: Mapping[str, Any] | None = None,
    operator: int | None = None,
    batch: int | None = None,
    limit: int | None = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> State:
    """What the operators of a checkpoint hold after a batch (None: the last), and what they hold of a key.

    key: values by column, or text that is read as the column's type; None is NULL. In windows the start or the end of
    one may be among them. limit: how many values of a view are told. trust: run Python source
    that lies in the checkpoint.
    """
    looks = _looks(checkpoint, operator, batch, trust, spark)
    if key is not None:
        looks = _fitting(looks, key)
    return State(str(checkpoint), tuple(look.state(key, limit) for look in looks))


def why(
    checkpoint: str | Path,
    *,
    key: Mapping[str, Any],
    operator: int | None = None,
    batch: int | None = None,
    trust: bool = False,
    spark: SparkSession | None = None,
) -> Why:
    """The changes of a key since its bucket's snapshot, replayed, each with the value before and after.

    key, operator, batch, trust: as in `state`; of several operators the one with such a key.
    """
    looks = _fitting(_looks(checkpoint, operator, batch, trust, spark), key)
    if len(looks) > 1:
        listed = "; ".join(f"{look.stored.number}: {look.description.operator}" for look in looks)
        raise CheckpointError(
            f"{checkpoint}: several operators have such a key. Name one with --operator: {listed}."
        )
    return looks[0].why(key)


class Look:
    """An operator of a checkpoint at a batch."""

    def __init__(
        self, checkpoint: Checkpoint, stored: StoredOperator, batch: int | None, trust: bool
    ) -> None:
        self.checkpoint, self.stored, self.trust = checkpoint, stored, trust
        self.batch = _batch(stored, batch, checkpoint.path)
        self.files = checkpoint.files(stored.number, self.batch)
        if not self.files:
            raise CheckpointError(
                f"{checkpoint.path}: operator {stored.number} has no state after batch {self.batch}."
            )
        self.description = checkpoint.description(stored.number, self.batch, trust)
        self.where = f"{checkpoint.path}, {self.description.operator}"

    def state(self, key: Mapping[str, Any] | None, limit: int | None) -> OperatorState:
        """The operator's sizes, and what it holds of a key."""
        files, note = self.files, ""
        sizes = {each.bucket: _size(each) for each in files}
        clock, found = Clock(), None
        if key is not None:
            found, clock = self._key_state(key, limit)
        else:
            try:
                for stored, operator, last in self._rebuilt(files):
                    keys, _ = keys_of(operator)
                    counted = {"keys": keys, "held": operator.keys}
                    live = {"live_bytes": operator.state_bytes}
                    old = vars(sizes[stored.bucket])
                    sizes[stored.bucket] = BucketSize(**{**old, **counted, **live})
                    clock = Clock(*map(max, clock, last))
            except (StateMismatchError, UntrustedCodeError) as error:
                note = str(error)
        return self._told(sizes, clock, found, note)

    def why(self, key: Mapping[str, Any]) -> Why:
        """How a key came to its value."""
        row, window = self._split(key)
        bucket = bucket_of(row, self.description.buckets)
        shown = {name: row.column(name)[0].as_py() for name in row.schema.names}
        about = (self.checkpoint.path, self.stored.number, self.description.operator, self.batch)
        files = [each for each in self.files if each.bucket == bucket]
        for stored in self.checkpoint.buckets(self.stored.number, self.batch, files):
            description = stored.description(self.trust)
            store = stored.store(description)
            snapshot, entries = store.snapshot(stored.head), list(store.bundles(stored.head))
            partials = [data for bundle, _ in entries for data in bundle.partials]
            handler = description.handler(snapshot, *partials)
            played = replay(
                partial(description.open, handler, bucket),
                [Entry(each.batch, each.kinds, each.partials, clock) for each, clock in entries],
                row,
                snapshot=snapshot,
                moves_last=description.moves_last,
            )
            near = () if played.first or played.bundles else self._nearest(row)
            return Why(
                *about,
                shown,
                bucket,
                bool(snapshot),
                window.parts(played.first),
                len(entries),
                window.bundles(played.bundles),
                window.parts(played.last),
                near,
            )
        return Why(*about, shown, bucket, False, (), 0, (), (), self._nearest(row))

    def _split(self, key: Mapping[str, Any]) -> tuple[pa.RecordBatch, WindowFilter]:
        """The key's columns as a row, and which of its windows are asked for."""
        fields = list(self.description.agg_spec.aggregate_schema)[: len(self.description.key_names)]
        settings = self.description.window_settings
        return split_key(key, fields, settings.bounds if settings else None, self.where)

    def _key_state(self, key: Mapping[str, Any], limit: int | None) -> tuple[KeyState, Clock]:
        row, window = self._split(key)
        bucket = bucket_of(row, self.description.buckets)
        clock, parts = Clock(), tuple[Part, ...]()
        files = [each for each in self.files if each.bucket == bucket]
        for _, operator, last in self._rebuilt(files):
            clock, parts = last, window.parts(described(operator, row, limit))
        shown = {name: row.column(name)[0].as_py() for name in row.schema.names}
        near = () if parts else self._nearest(row)
        return KeyState(shown, bucket, parts, near), clock

    def _rebuilt(self, files: Sequence[BucketFiles]) -> Iterator[tuple[StoredBucket, Any, Clock]]:
        """Buckets, their operators in their state, and the clock of the last bundle in the log."""
        for stored in self.checkpoint.buckets(self.stored.number, self.batch, files):
            description = stored.description(self.trust)
            store = stored.store(description)
            handler = description.handler(store.snapshot(stored.head), *stored.log)
            operator = description.open(handler, stored.bucket)
            store.rebuild(stored.head, operator)
            yield stored, operator, stored.last_clock(store)

    def _nearest(self, row: pa.RecordBatch) -> tuple[str, ...]:
        """Keys that read like one that is not there, if looking for them takes little."""
        if sum(each.snapshot_bytes + each.log_bytes for each in self.files) > _WORTH_A_SEARCH:
            return ()
        columns = [keys_of(operator)[1] for _, operator, _ in self._rebuilt(self.files)]
        whole = [pa.concat_arrays(parts) for parts in zip(*columns, strict=True)]
        return nearest_keys(row, whole)

    def _told(
        self, sizes: dict[int, BucketSize], clock: Clock, found: KeyState | None, note: str
    ) -> OperatorState:
        description, every = self.description, list(sizes.values())
        counted = found is None and not note
        largest = sorted(every, key=lambda e: (-(e.snapshot_bytes + e.log_bytes), e.bucket))
        processing, watermark = times(clock)

        def total(name: str) -> int | None:
            return sum(getattr(each, name) for each in every) if counted else None

        return OperatorState(
            number=self.stored.number,
            name=description.operator,
            key_columns=description.key_names,
            calls=description.call_names,
            digest=description.digest,
            layout=LAYOUT,
            buckets=description.buckets,
            windows=description.windows,
            settings=description.plain_settings,
            batch=self.batch,
            first_batch=self.stored.batches[0],
            last_batch=self.stored.batches[1],
            keys=total("keys"),
            held=total("held"),
            snapshot_bytes=sum(each.snapshot_bytes for each in every),
            log_bytes=sum(each.log_bytes for each in every),
            log_entries=sum(each.log_entries for each in every),
            live_bytes=total("live_bytes"),
            processing=processing,
            watermark=watermark,
            largest=tuple(largest[:_LARGEST]),
            key=found,
            note=note,
        )


def _looks(
    checkpoint: str | Path,
    operator: int | None,
    batch: int | None,
    trust: bool,
    spark: SparkSession | None,
) -> list[Look]:
    require_directory(str(checkpoint))
    # What fails is said once, and not by each thread of Spark that it passes through.
    spark = (
        spark or SparkSession.getActiveSession() or session("aggloom", **{"spark.log.level": "OFF"})
    )
    opened = Checkpoint(spark, str(checkpoint))
    found = opened.operators()
    chosen = [each for each in found if operator in (None, each.number)]
    if not chosen:
        known = ", ".join(str(each.number) for each in found)
        raise CheckpointError(
            f"{checkpoint}: there is no operator {operator} of aggloom; there is {known}."
        )
    return [Look(opened, each, batch, trust) for each in chosen]


def _fitting(looks: list[Look], key: Mapping[str, Any]) -> list[Look]:
    """The operators with the columns of a key; the first, which will say what is wrong, if none has."""
    fitting = [look for look in looks if set(look.description.key_names) <= set(key)]
    exact = [look for look in fitting if set(look.description.key_names) == set(key)]
    return exact or fitting or looks[:1]


def _batch(stored: StoredOperator, batch: int | None, path: str) -> int:
    first, last = stored.batches
    if batch is None:
        return last
    if not first <= batch <= last:
        raise CheckpointError(
            f"{path}: batch {batch} of operator {stored.number} cannot be read; {first} to {last} can. "
            "Spark keeps as many as spark.sql.streaming.minBatchesToRetain says."
        )
    return batch


def _size(files: BucketFiles) -> BucketSize:
    return BucketSize(
        files.bucket,
        files.partition,
        files.snapshot_bytes,
        files.log_bytes,
        files.head.log_entries,
    )
