"""Stateful nodes of the local engine: each bucket has a fragment in memory, and a store that makes it durable."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from aggloom.codegen.planner import Stateful
from aggloom.runtime.engine.bucket_threads import BucketThreads
from aggloom.runtime.engine.checkpoint import LocalCheckpoint
from aggloom.runtime.engine.forgetter import Forgetter
from aggloom.runtime.engine.state_rows import HeadOf
from aggloom.runtime.hosting.added_columns import AddedColumns
from aggloom.runtime.hosting.blobs import pack_blob, with_kinds
from aggloom.runtime.hosting.bucket_store import Blob, BucketInput, BucketStore
from aggloom.runtime.hosting.evolution import evolve_state
from aggloom.runtime.hosting.factory import FragmentFactory, factory_of
from aggloom.runtime.hosting.framing import Owner
from aggloom.runtime.hosting.handler_text import HandlerTexts
from aggloom.runtime.hosting.local_phase import aggregate_rows
from aggloom.runtime.local.pipeline import Bundles, HostedNode, Parts
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.counts import Tally
from aggloom.runtime.operators.fragment import Fragment, FragmentSpec
from aggloom.runtime.operators.steps import (
    MANY_ROWS,
    Rows,
    concat_changes,
    cut_runs,
    no_rows,
)
from aggloom.runtime.values.batches import make_batch
from aggloom.runtime.values.clock import NO_TIME, Clock

_ROW_BYTES = 64
_LOCAL_ROWS = 250_000
"""Rows are aggregated before the exchange in runs of about so many, for threads; however many of those there are, the
accumulators are the same."""
_TIMER_STEPS = 16
"""An idle bucket forgets what is past its time to live once in so many parts of that time."""


@dataclass
class DurableHost:
    """Hosts the nodes of a plan over a checkpoint.

    added_calls: what becomes of calls that the state does not know. packers: packs the rows for the log beside the
    operators. threads: run the buckets of large bundles. added: the columns that the checkpoint does not know.
    """

    checkpoint: LocalCheckpoint
    text_of: HandlerTexts
    added_calls: str
    packers: Executor
    threads: BucketThreads
    added: AddedColumns | None = None
    factories: dict[int, FragmentFactory] = field(default_factory=dict)
    nodes: dict[int, DurableNode] = field(default_factory=dict)
    operators: dict[int, Sequence[Stateful]] = field(default_factory=dict)
    forgetter: Forgetter | None = None

    @property
    def node_seconds(self) -> dict[int, float]:
        """The seconds that each stateful node has taken so far."""
        return {place: node.seconds for place, node in self.nodes.items()}

    def open_node(
        self, place: int, nodes: Sequence[Stateful], spec: FragmentSpec, buckets: int
    ) -> HostedNode:
        """The node of this place in the plan; nodes: those of its operators."""
        texts = [None if each is None else self.text_of(each) for each in spec.handler_specs]
        factory = factory_of(nodes, place, buckets, tuple(texts), spec)
        if self.added is not None:
            factory = self.added.carry_over(place, factory)
        durable_buckets = [
            DurableBucket(self, factory, place, bucket, buckets) for bucket in range(buckets)
        ]
        node = DurableNode(durable_buckets, factory, self.threads)
        self.factories[place], self.nodes[place] = factory, node
        self.operators[place] = nodes
        return node

    def aggregate(
        self, parts: Parts, handler: type[Any], keys: Sequence[int], buckets: int
    ) -> list[tuple[Parts, list[bytes]]]:
        """The rows of each task as accumulators by bucket, or as rows where those are not clearly fewer."""
        shares: list[tuple[Parts, list[bytes]]] = [([], []) for _ in range(buckets)]
        calls = [
            partial(aggregate_rows, rows, handler, keys, buckets)
            for part in parts
            for rows in cut_runs(part, _LOCAL_ROWS)
        ]
        # As in a bucket: functions of users stay in one thread.
        is_parallel = not (handler.BACKEND == "python" or handler.OPENS or handler.CLOSES)
        results = self.threads.run(calls) if is_parallel else [call() for call in calls]
        # In the order of the rows, whichever thread was first.
        for partials, rows_by_bucket in results:
            for bucket, data in partials:
                shares[bucket][1].append(data)
            for bucket, part in rows_by_bucket:
                shares[bucket][0].append(part)
        return shares


class DurableNode:
    """A stateful node with a bucket for each part of its keys; seconds: that its operators have taken so far."""

    def __init__(
        self, buckets: Sequence[DurableBucket], factory: FragmentFactory, threads: BucketThreads
    ) -> None:
        self.buckets, self._spec, self._threads = buckets, factory.fragment, threads
        self.seconds = 0.0
        # Functions of users know nothing of threads, and gain nothing by them: they run under Python's lock.
        self._is_parallel = not (
            self._spec.calls_python
            or any(each is not None and each.backend == "python" for each in factory.handlers)
        )

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The fragments, by bucket."""
        return [bucket.fragment for bucket in self.buckets]

    def run(self, bundles: Sequence[Bundles], clock: Clock) -> Parts:
        """Apply the bundles of each bucket; return the changes of each."""
        began = time.perf_counter()
        try:
            return self._run(bundles, clock)
        finally:
            self.seconds += time.perf_counter() - began

    def _run(self, bundles: Sequence[Bundles], clock: Clock) -> Parts:
        """Run the buckets one after the other, or side by side where it is worth it."""
        clock = self._restrict_clock(clock)
        called = self._spec.wakes_every_bucket and any(map(_has_rows, bundles))
        inputs = self._spec.inputs
        cast_bundles = [list(map(_cast_bundle, each, inputs)) for each in bundles]
        calls = [
            partial(bucket.run, each, clock, called)
            for bucket, each in zip(self.buckets, cast_bundles, strict=True)
        ]
        # Handing calls to threads takes longer than a few rows do (decision 078).
        if self._is_parallel and sum(map(_count_rows, bundles)) >= MANY_ROWS:
            return self._threads.run(calls)
        return [call() for call in calls]

    def is_due(self, clock: Clock) -> bool:
        """Tell whether a bucket has something to do by the clock alone."""
        clock = self._restrict_clock(clock)
        return any(bucket.is_due(clock) for bucket in self.buckets)

    def _restrict_clock(self, clock: Clock) -> Clock:
        """The clock as far as the node looks at it: what it does not look at is not in its log."""
        if self._spec.time_mode == "EventTime":
            return clock
        forgets = bool(self._spec.ttls) or self._spec.time_mode == "ProcessingTime"
        return Clock(clock.processing) if forgets else NO_TIME


class DurableBucket:
    """A bucket: its operators in memory, and their state in the checkpoint."""

    def __init__(
        self, host: DurableHost, factory: FragmentFactory, place: int, bucket: int, buckets: int
    ) -> None:
        self._host, self._factory, self._bucket, self._place = host, factory, bucket, place
        owner = Owner(factory.name, factory.digest, bucket, buckets)
        rows = host.checkpoint.bucket(place, bucket)
        self._store = BucketStore(HeadOf(rows), rows, owner, factory.description)
        self._ttl = min(factory.fragment.ttls, default=0)
        self._last_run = 0
        self._evolves = False
        self.fragment = self._open()
        self.tallies = [Tally(operator) for operator in self.fragment.operators]

    def _open(self) -> Fragment:
        """The fragment in the state that the checkpoint has, unless another version of the query has left it."""
        fragment = self._factory.open(None, self._bucket)
        head = self._store.head()
        self._evolves = head is not None and head.description != self._store.described
        if head is not None and not self._evolves:
            self._store.rebuild(head, fragment)
            # The rows that were late in a bundle of the log have been handed out by then.
            fragment.take_late()
        return fragment

    def run(self, bundles: Bundles, clock: Clock, called: bool) -> Rows:
        """Apply a bundle of each input, and make it durable with the batch; called: even if it has no rows."""
        if self._host.forgetter is not None:
            return self._forget(self._host.forgetter, bundles, clock)
        carried: Rows | None = None
        if self._evolves:
            carried = self._evolve(clock)
        elif not (called or _has_rows(bundles) or self._is_first() or self.is_due(clock)):
            # A bucket with nothing to do writes nothing, so its log does not grow with every batch.
            return no_rows(self.fragment.root.schema)
        # Begun before the operators run, so that another thread packs beside them.
        packed = self._pack(bundles)
        changes = self.fragment.run(bundles, clock)
        self._last_run = clock.processing
        self._store.commit(self._store.head(), self.fragment, _input_of(bundles, packed), clock)
        parts = [changes] if carried is None else [carried, changes]
        return concat_changes(parts, self.fragment.root.schema)

    def _forget(self, forgetter: Forgetter, bundles: Bundles, clock: Clock) -> Rows:
        """Apply a bundle, forget a subject, and have nothing but a snapshot of what is left."""
        carried = [self._evolve(clock)] if self._evolves else []
        # A bucket that was never written has nothing to forget.
        if self._store.head() is None and not _has_rows(bundles):
            return no_rows(self.fragment.root.schema)
        place = self._place
        changes = self.fragment.run(
            bundles, clock, lambda n, each: forgetter.forget(place, n, each)
        )
        # Written as a whole: a log would still contain the rows of the subject.
        self._store.rewrite(self.fragment)
        return concat_changes([*carried, changes], self.fragment.root.schema)

    def _pack(self, bundles: Bundles) -> Future[tuple[Blob, ...]]:
        """Pack the bundles for the log: beside the operators if they are large, for a thread has its price."""
        if _count_rows(bundles) >= MANY_ROWS:
            return self._host.packers.submit(_pack_bundles, bundles)
        done: Future[tuple[Blob, ...]] = Future()
        done.set_result(_pack_bundles(bundles))
        return done

    def is_due(self, clock: Clock) -> bool:
        """Tell whether the operators have something to do by the clock alone."""
        # State of another version has to be carried over, with rows or without.
        if self._evolves:
            return True
        event, processing = self.fragment.next_timers()
        if event is not None and event <= clock.watermark:
            return True
        if self._ttl:
            # Keys may expire a fraction of the TTL late, so that idle buckets need not run with every batch.
            return clock.processing - self._last_run >= max(1, self._ttl // _TIMER_STEPS)
        return processing is not None and processing <= clock.processing

    def _is_first(self) -> bool:
        """True if nothing has run yet and the first bundle brings a change even without rows."""
        return self._factory.fragment.emits_without_rows and self._store.head() is None

    def _evolve(self, clock: Clock) -> Rows:
        """Carry the state of another version of the query over; return the changes that this brings."""
        head = self._store.head()
        assert head is not None
        added = self._host.added_calls
        self.fragment, carried = evolve_state(self._factory, self._store, head, None, clock, added)
        self.tallies = [Tally(operator) for operator in self.fragment.operators]
        self._evolves = False
        return carried


def _cast_bundle(bundle: InputBatch, schema: pa.Schema) -> InputBatch:
    """The bundle in the names and types of its input: the log has no others, and what is replayed is what has run."""
    batch = bundle.batch
    if batch.schema.equals(schema) or not schema.names:
        return bundle
    return bundle._replace(batch=make_batch(batch.columns, schema, batch.num_rows))


def _count_rows(bundles: Bundles) -> int:
    """Count the rows of bundles; accumulators count by their bytes."""
    partials = sum(len(data) for each in bundles for data in each.partials)
    return sum(each.batch.num_rows for each in bundles) + partials // _ROW_BYTES


def _has_rows(bundles: Iterable[Any]) -> bool:
    """Tell whether a bundle has rows or accumulators."""
    return any(each.batch.num_rows or each.partials for each in bundles)


def _pack_bundles(bundles: Bundles) -> tuple[Blob, ...]:
    """The bundles as the log keeps them."""
    return tuple(_list_blobs(bundles))


def _list_blobs(bundles: Bundles) -> Iterator[Blob]:
    for number, bundle in enumerate(bundles):
        for sequence, data in enumerate(bundle.partials):
            yield Blob(number, 0, sequence, data)
        if bundle.batch.num_rows:
            rows = with_kinds(bundle.batch, bundle.kinds)
            yield Blob(number, 0, len(bundle.partials), pack_blob([(rows, b"")]))


def _input_of(bundles: Bundles, packed: Future[tuple[Blob, ...]]) -> BucketInput:
    return BucketInput(list(bundles), packed.result())
