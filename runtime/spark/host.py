"""The host: a stateful processor that runs an operator over whole columns, one bucket at a time.

This is the one file that speaks Spark's camelCase. It turns a bucket's binaries into a batch, brings the operator to
the bucket's last committed state, processes, commits, and turns the changes into binaries again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.windows.base import WindowOperator
from aggloom.runtime.spark.blobs import cut, late_blob, with_kinds, write_blob
from aggloom.runtime.spark.evolution import evolved
from aggloom.runtime.spark.framing import Owner
from aggloom.runtime.spark.partitioning import hash_int
from aggloom.runtime.spark.residency import (
    Residence,
    clean_up,
    default_limit,
    default_root,
    directory_of,
    make_room,
    residence,
)
from aggloom.runtime.spark.routes import PACKED_DDL, Packer, Route
from aggloom.runtime.spark.store import BucketStore, Bundle, Head, Operator, gather
from aggloom.runtime.values.clock import AFTER_ALL, BEFORE_ALL, NO_TIME, Clock

BLOB_DDL = "blob BINARY"
_BLOB = StructType([StructField("blob", BinaryType())])
_HEAD = StructType(
    [
        StructField("token", StringType()),
        StructField("description", StringType()),
        StructField("snapshot_chunks", IntegerType()),
        StructField("log_frames", IntegerType()),
        StructField("log_entries", IntegerType()),
        StructField("log_bytes", LongType()),
    ]
)
_QUERY_ID = "sql.streaming.queryId"
_TIMER_STEPS = 16


class OperatorFactory(Protocol):
    """How a worker makes the operator: picklable, and named for error messages."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> pa.Schema: ...

    def open(self, directory: Path | None, bucket: int) -> Operator: ...


@dataclass(frozen=True)
class Options:
    """What the host itself needs to know. `place` tells the nodes of a query apart; `route`: where changes go on to.

    time_mode: Spark's word for the timers that there are.
    """

    buckets: int
    state_ttl_ms: int = 0
    state_directory: str | None = None
    place: int = 0
    route: Route | None = None
    time_mode: Literal["None", "ProcessingTime", "EventTime"] = "None"
    state_limit: int | None = None
    added_calls: str = "refuse"

    @property
    def output_ddl(self) -> str:
        """The columns that leave: those of packed rows if they go on to another operator."""
        return PACKED_DDL if self.route else BLOB_DDL


class OperatorProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs one operator for every bucket that Spark hands over."""

    def __init__(self, factory: OperatorFactory, options: Options) -> None:
        self._factory = factory
        self._options = options

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self._handle = handle
        self._head = handle.getValueState("head", _HEAD)
        self._snapshot = handle.getListState("snapshot", _BLOB)
        self._log = handle.getListState("log", _BLOB)
        self._about = handle.getValueState("about", _BLOB)
        self._query = _query_id()
        if self._query:
            given = self._options.state_limit
            self._limit = default_limit() if given is None else given
            _clean_up_once(self._root(), self._limit)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Apply one micro-batch's changes to one bucket."""
        blobs: list[tuple[int, int, bytes]] = [
            (int(partition), int(sequence), blob)
            for frame in rows
            for partition, sequence, blob in _columns(frame)
        ]
        yield from self._run(int(key[0]), gather(blobs, self._factory.input_schema), timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Let the operator expire what is past its time to live, and fire windows that are due."""
        yield from self._run(int(key[0]), None, timerValues)

    def close(self) -> None:
        """Nothing is held between batches."""

    def _root(self) -> Path:
        """The directory for live state."""
        configured = self._options.state_directory
        return Path(configured) if configured else default_root()

    def _run(self, key: int, bundle: Bundle | None, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Process one bundle (None: only the clock moved) of the bucket with this grouping key."""
        factory, options = self._factory, self._options
        bucket = hash_int(key)
        owner = Owner(factory.name, factory.digest, bucket, options.buckets)
        bundle = bundle or Bundle(*no_rows(factory.input_schema))
        clock = self._clock(timerValues)
        if options.state_ttl_ms:
            self._arm_timer(clock.processing)
        if not self._query:
            yield from self._run_once(bucket, bundle, clock)
            return
        store = BucketStore(
            self._head, self._snapshot, self._log, self._about, owner, factory.description
        )
        directory = directory_of(self._query, options.place, factory.digest, options.buckets)
        with residence(self._root(), directory, bucket, self._limit) as home:
            head = store.head()
            carried: Rows | None = None
            if head and head.description != store.described:
                place = home.renew() if home else None
                operator, carried = evolved(factory, store, head, place, clock, options.added_calls)
            else:
                operator = _wake(factory, store, head, home, bucket)
            changes, change_kinds = _processed(operator, bundle, clock)
            late = operator.take_late() if isinstance(operator, WindowOperator) else []
            self._set_timer(operator)
            token = store.commit(head, operator, bundle, clock)
            operator.close()
            if home:
                home.mark_clean(token, operator.arenas)
        if carried:
            yield from self._emit(bucket, *carried)
        yield from self._emit(bucket, changes, change_kinds)
        if self._options.route is None:
            yield from (_frame(late_blob(*rows)) for rows in late)

    def _run_once(self, bucket: int, bundle: Bundle, clock: Clock) -> Iterator[pd.DataFrame]:
        """A batch query sees each bucket once and keeps nothing; with its rows time ends."""
        operator = self._factory.open(None, bucket)
        yield from self._emit(bucket, *_processed(operator, bundle, clock))
        if isinstance(operator, WindowOperator):
            nothing = Bundle(*no_rows(self._factory.input_schema))
            yield from self._emit(
                bucket, *_processed(operator, nothing, Clock(AFTER_ALL, AFTER_ALL))
            )
        operator.close()

    def _clock(self, timer_values: Any) -> Clock:
        """What the batch knows of time.

        Spark's watermark is a time at which rows may still come; an operator's is one at which none does.
        """
        if self._options.time_mode == "None":
            return NO_TIME if self._query else Clock(time.time_ns() // 1_000_000)
        now = timer_values.getCurrentProcessingTimeInMs()
        watermark = timer_values.getCurrentWatermarkInMs()
        event_time = self._options.time_mode == "EventTime" and watermark > 0
        return Clock(
            now if now > 0 else time.time_ns() // 1_000_000,
            watermark - 1 if event_time else BEFORE_ALL,
        )

    def _emit(self, bucket: int, changes: pa.RecordBatch, kinds: Any) -> Iterator[pd.DataFrame]:
        """The changes as frames: of one binary each, or packed for the operator that they go on to."""
        route = self._options.route
        if not changes.num_rows and not (route and route.always):
            return
        if route is None:
            for piece in cut(with_kinds(changes, kinds)):
                yield _frame(write_blob(piece.schema, [(piece, b"")]))
            return
        packer = Packer(route, bucket)
        rows = [*packer.add(changes, kinds), *packer.finish()]
        if rows:
            yield pd.DataFrame(rows, columns=["bucket", "partition", "seq", "blob"])

    def _set_timer(self, operator: Operator) -> None:
        """One timer a bucket: when the next of the operator's own is due."""
        if not isinstance(operator, WindowOperator):
            return
        event, processing = operator.next_timers()
        due = processing if self._options.time_mode == "ProcessingTime" else event
        # The operator's watermark is one millisecond behind Spark's.
        due = due + 1 if due is not None and self._options.time_mode == "EventTime" else due
        armed = list(self._handle.listTimers())
        for old in armed:
            if old != due:
                self._handle.deleteTimer(old)
        if due is not None and due < AFTER_ALL // 2 and due not in armed:
            self._handle.registerTimer(due)

    def _arm_timer(self, clock_ms: int) -> None:
        """Wake up when what this batch touched expires; times are rounded so that timers coincide."""
        step = max(1, self._options.state_ttl_ms // _TIMER_STEPS)
        due = clock_ms + self._options.state_ttl_ms
        self._handle.registerTimer((due // step + 1) * step)


def _wake(
    factory: OperatorFactory,
    store: BucketStore,
    head: Head | None,
    home: Residence | None,
    bucket: int,
) -> Operator:
    """The operator in the state of `head`: as it lies in its residence, else rebuilt from the store."""
    if home and head and home.take(head.token):
        # Whatever is wrong with what lies there, the store has it all.
        with contextlib.suppress(Exception):
            operator = factory.open(home.arena, bucket)
            if all(arena.reopened for arena in operator.arenas):
                return operator
    operator = factory.open(home.renew() if home else None, bucket)
    if head:
        try:
            store.rebuild(head, operator)
            if isinstance(operator, WindowOperator):
                # The rows that were late in a bundle of the log have been handed out by then.
                operator.take_late()
        except BaseException:
            with contextlib.suppress(Exception):
                operator.close()
            raise
    return operator


@lru_cache(maxsize=8)
def _clean_up_once(root: Path, limit: int | None) -> None:
    """Delete what dead queries left in a directory for live state; once for each worker process."""
    clean_up(root)
    make_room(root, limit)


def _query_id() -> str | None:
    """The id of the streaming query this task works for; None in a batch query and on the driver."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.getLocalProperty(_QUERY_ID) if context else None


def _frame(blob: bytes) -> pd.DataFrame:
    return pd.DataFrame({"blob": [blob]})


def _columns(frame: pd.DataFrame) -> Iterable[tuple[int, int, bytes]]:
    """The (partition, sequence, blob) triples of a frame whose columns are known by position."""
    return zip(frame.iloc[:, -3], frame.iloc[:, -2], frame.iloc[:, -1], strict=True)


def _processed(operator: Operator, bundle: Bundle, clock: Clock) -> tuple[pa.RecordBatch, Any]:
    return operator.process(bundle.batch, bundle.kinds, clock, bundle.partials)
