"""The host: a stateful processor that runs a fragment of operators over whole columns, one bucket at a time.

This is the only file with Spark's camelCase names. It decodes a bucket's binaries into a batch, opens or rebuilds the
bucket's last committed state, runs the operators, commits, and encodes the changes.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from aggloom.runtime.engine.hand_over import read_state
from aggloom.runtime.hosting.bucket_store import Blob, BucketInput, BucketStore, Head, gather
from aggloom.runtime.hosting.evolution import evolve_state
from aggloom.runtime.hosting.factory import FragmentFactory
from aggloom.runtime.hosting.framing import Owner
from aggloom.runtime.operators.counts import Tally
from aggloom.runtime.operators.fragment import Fragment
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.platform.memory_reuse import keep_memory
from aggloom.runtime.spark.node.batch_context import LAST_WATERMARK, query_id
from aggloom.runtime.spark.node.blob_files import fetch_blob
from aggloom.runtime.spark.node.lazy_processor import LazyProcessor, Variables
from aggloom.runtime.spark.node.list_state import BlobList
from aggloom.runtime.spark.node.live_state import (
    LiveState,
    clean_up,
    default_limit,
    default_root,
    directory_of,
    make_room,
    open_live_state,
)
from aggloom.runtime.spark.node.output_encoding import BlobOutput, OutputEncoding, emit_frames
from aggloom.runtime.spark.node.partitioning import hash_int
from aggloom.runtime.spark.node.state_files import StateFiles
from aggloom.runtime.values.clock import AFTER_ALL, NO_TIME, Clock, find_held_time, hold_watermark

_TIMER_STEPS = 16


@dataclass(frozen=True)
class Options:
    """Options of the host itself. `place` identifies the stateful node within the query.

    encoding: the form in which changes leave the node.
    ttls: the times to live of the operators, in milliseconds.
    time_mode: Spark's word for the timers that there are.
    stamped: whether the first column of packed rows is the time of their batch, for operators without timers of Spark.
    handed_over: the directory from which each bucket takes the state that another engine has left, and does no more.
    watermark_interval: that of mini-batches, for whose end watermarks wait, in milliseconds; 0: none waits.
    file_bytes: the size from which a row of the state lies in a file of the checkpoint; None: none does.
    """

    buckets: int
    ttls: tuple[int, ...] = ()
    state_directory: str | None = None
    place: int = 0
    encoding: OutputEncoding = field(default_factory=BlobOutput)
    time_mode: Literal["None", "ProcessingTime", "EventTime"] = "None"
    state_limit: int | None = None
    added_calls: str = "refuse"
    stamped: bool = False
    handed_over: str | None = None
    watermark_interval: int = 0
    file_bytes: int | None = None


class FragmentProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs one fragment for every bucket that Spark passes to it."""

    def __init__(self, factory: FragmentFactory, options: Options) -> None:
        self._factory = factory
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as what is made once there are rows."""
        # Spark broadcasts pickles of more than 1 MB, and its worker beside the driver reads no broadcasts.
        pickled = cloudpickle.dumps((type(self), self._factory, self._options))
        return LazyProcessor, (zlib.compress(pickled),)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        self.begin(handle, Variables.of(handle))

    def begin(self, handle: StatefulProcessorHandle, variables: Variables) -> None:
        """Take the state variables of a task."""
        keep_memory()
        self._handle, self._variables = handle, variables
        self._query = query_id()
        if self._query:
            limit = self._options.state_limit
            self._limit = default_limit() if limit is None else limit
            _clean_up_once(self._root(), self._limit)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Apply one micro-batch's changes to one bucket."""
        # All frames of a bucket: their blobs have to be put in order before any of them is applied.
        frames = list(rows)
        blobs = [blob for frame in frames for blob in _blobs(frame)]
        now = _stamp(frames) if self._options.stamped else None
        yield from self._run(int(key[0]), self._gather_inputs(blobs), self._clock(timerValues, now))

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Let the operator expire what is past its time to live, and fire windows that are due."""
        yield from self._run(int(key[0]), self._gather_inputs([]), self._clock(timerValues))

    def close(self) -> None:
        """Do nothing: no state is kept between batches."""

    def _gather_inputs(self, blobs: Sequence[Blob]) -> BucketInput:
        return gather(blobs, self._factory.fragment.inputs)

    def _root(self) -> Path:
        """The directory for live state."""
        configured = self._options.state_directory
        return Path(configured) if configured else default_root()

    def _run(self, key: int, bucket_input: BucketInput, clock: Clock) -> Iterator[pd.DataFrame]:
        """Process the input of the bucket with this grouping key; there is none if only the clock moved."""
        factory, options = self._factory, self._options
        bucket = hash_int(key)
        owner = Owner(factory.name, factory.digest, bucket, options.buckets)
        # Before the run, which may fail: a timer that is set for nothing costs one empty call.
        self._arm_timers(clock.processing)
        if not self._query:
            yield from self._run_once(bucket, bucket_input, clock)
            return
        head, log = self._variables
        files = StateFiles(
            BlobList(log), options.place, bucket, options.file_bytes, bucket_input.blobs
        )
        store = BucketStore(head, files, owner, factory.description)
        if options.handed_over is not None:
            yield from self._take_over(store, files, options.handed_over)
            return
        directory = directory_of(self._query, options.place, factory.digest, options.buckets)
        with open_live_state(self._root(), directory, bucket, self._limit) as live:
            # The context holds the bucket's lock until the commit is out: two attempts never write one arena.
            head = store.head()
            carried: Rows | None = None
            if head and head.description != store.described:
                place = live.renew() if live else None
                fragment, carried = evolve_state(
                    factory, store, head, place, clock, options.added_calls
                )
            else:
                fragment = _wake(factory, store, head, live, bucket)
            tallies = [Tally(operator) for operator in fragment.operators]
            changes = fragment.run(bucket_input.bundles, clock)
            late = fragment.take_late()
            # By the state after this batch; the commit that follows makes both durable together.
            self._set_timer(fragment)
            token = store.commit(head, fragment, bucket_input, clock)
            files.delete_superseded(head.token if head else "", token)
            counts = [bucket, *_take_counts(tallies)]
            # Files have to be flushed before the token names them: a token vouches for what lies on the disk.
            fragment.close()
            if live:
                live.mark_clean(token, fragment.arenas)
        emitted = [changes] if carried is None else [carried, changes]
        yield from emit_frames(options.encoding, bucket, emitted, late, counts)

    def _take_over(
        self, store: BucketStore, files: StateFiles, place: str
    ) -> Iterator[pd.DataFrame]:
        """Read the state of a bucket from a directory, and set the timer that it needs."""
        number, bucket = self._options.place, store.owner.bucket
        state = read_state(place, (number, bucket))
        if state is not None:
            self._variables.head.update((state.head,))
            files.put([(row,) for row in state.rows])
            self._arm_taken(store)
        fragment = self._factory.open(None, bucket)
        changes = no_rows(fragment.root.schema)
        counts = [bucket, *_take_counts([Tally(operator) for operator in fragment.operators])]
        yield from emit_frames(self._options.encoding, bucket, [changes], (), counts)

    def _arm_taken(self, store: BucketStore) -> None:
        """Set the timers of a bucket whose state was just moved here."""
        head = store.head()
        assert head is not None
        if head.description == store.described:
            fragment = _wake(self._factory, store, head, None, store.owner.bucket)
            self._set_timer(fragment)
            fragment.close()
        elif self._options.time_mode != "None":
            # The first batch carries the state of another version over, and sets the timers that it asks for.
            self._handle.registerTimer(1)

    def _run_once(
        self, bucket: int, bucket_input: BucketInput, clock: Clock
    ) -> Iterator[pd.DataFrame]:
        """Process a bucket of a batch query: it is called once, keeps no state, and its time ends with its rows."""
        fragment = self._factory.open(None, bucket)
        tallies = [Tally(operator) for operator in fragment.operators]
        # With its rows time ends: windows close, and rows that wait leave.
        after_all = Clock(AFTER_ALL, AFTER_ALL)
        emitted = [
            fragment.run(bucket_input.bundles, clock),
            fragment.run(fragment.empty_inputs(), after_all),
        ]
        counts = [bucket, *_take_counts(tallies)]
        fragment.close()
        yield from emit_frames(self._options.encoding, bucket, emitted, (), counts)

    def _clock(self, timer_values: Any, now: int | None = None) -> Clock:
        """Return the clock of the batch.

        Spark's watermark is a time at which rows may still come; an operator's is one at which none does.
        now: the time of the batch, if its rows say it.
        """
        if now is not None:
            return Clock(now)
        if self._options.time_mode == "None":
            return NO_TIME if self._query else Clock(time.time_ns() // 1_000_000)
        now = timer_values.getCurrentProcessingTimeInMs()
        watermark = timer_values.getCurrentWatermarkInMs()
        now = now if now > 0 else time.time_ns() // 1_000_000
        if self._options.time_mode != "EventTime" or watermark <= 0:
            return Clock(now)
        if watermark >= LAST_WATERMARK:
            return Clock(now, AFTER_ALL)
        return Clock(now, hold_watermark(watermark - 1, self._options.watermark_interval))

    def _set_timer(self, fragment: Fragment) -> None:
        """Set the bucket's one timer, to the next time at which an operator has something due."""
        if self._options.time_mode == "None" or self._options.ttls:
            return
        event, processing = fragment.next_timers()
        due = processing if self._options.time_mode == "ProcessingTime" else event
        if due is not None and self._options.time_mode == "EventTime":
            # An operator's watermark is one millisecond behind Spark's.
            due = find_held_time(due, self._options.watermark_interval) + 1
        armed = list(self._handle.listTimers())
        for old in armed:
            # A timer that stays is not set again: each call crosses to the JVM.
            if old != due:
                self._handle.deleteTimer(old)
        if due is not None and due < AFTER_ALL // 2 and due not in armed:
            self._handle.registerTimer(due)

    def _arm_timers(self, clock_ms: int) -> None:
        """Set a timer for the expiry of the keys of this batch; times are rounded so that timers coincide."""
        if self._options.time_mode != "ProcessingTime":
            return
        for ttl in self._options.ttls:
            step = max(1, ttl // _TIMER_STEPS)
            # Rounded up to a sixteenth of the time: buckets touched at about the same time wake together.
            self._handle.registerTimer(((clock_ms + ttl) // step + 1) * step)


def _wake(
    factory: FragmentFactory,
    store: BucketStore,
    head: Head | None,
    live: LiveState | None,
    bucket: int,
) -> Fragment:
    """Return the fragment in the state of `head`: from its live state, or else rebuilt from the store."""
    if live and head and live.take(head.token):
        # Whatever is wrong with what lies there, the store has it all.
        with contextlib.suppress(Exception):
            fragment = factory.open(live.arena, bucket)
            if all(arena.reopened for arena in fragment.arenas):
                return fragment
    fragment = factory.open(live.renew() if live else None, bucket)
    if head:
        try:
            store.rebuild(head, fragment)
            # The rows that were late in a bundle of the log have been handed out by then.
            fragment.take_late()
        except BaseException:
            with contextlib.suppress(Exception):
                fragment.close()
            raise
    return fragment


@lru_cache(maxsize=8)
def _clean_up_once(root: Path, limit: int | None) -> None:
    """Delete live state of ended queries in a directory; once for each worker process."""
    clean_up(root)
    make_room(root, limit)


def _blobs(frame: pd.DataFrame) -> Iterator[Blob]:
    """The blobs of a frame of packed rows, whose columns are known by position."""
    places = (frame.iloc[:, at] for at in (-4, -3, -2))
    for number, source, sequence, data in zip(*places, frame.iloc[:, -1], strict=True):
        yield Blob(int(number), int(source), int(sequence), *fetch_blob(data))


def _stamp(frames: Sequence[pd.DataFrame]) -> int | None:
    """The time of the batch, in the first column of its packed rows."""
    return next((int(frame.iloc[:, 0].to_numpy()[0]) for frame in frames if len(frame)), None)


def _take_counts(tallies: Sequence[Tally]) -> Iterator[int]:
    """Return the counts of each operator, one after the other."""
    return (count for tally in tallies for count in tally.read_counts())
