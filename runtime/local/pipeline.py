"""A plan run without Spark: the same operators, with tasks and buckets played one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from aggloom.active_session import active_session
from aggloom.codegen import AggSpec, Backend, calculate, generate, load, on_large_stack
from aggloom.codegen.planner import (
    Calc,
    Exchange,
    FromChangelog,
    Node,
    Plan,
    Scan,
    Stateful,
    ToChangelog,
    Union,
    walk,
)
from aggloom.errors import OptionError, SpecError, UnsupportedExpressionError
from aggloom.runtime.operators.base import InputBatch, Operator, join_blocks, split_blocks
from aggloom.runtime.operators.fragment import Fragment, FragmentSpec, fragment_of
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.operators.stateless import run_steps, step_of
from aggloom.runtime.operators.steps import Rows, concat_changes, cut_evenly, no_rows, split
from aggloom.runtime.operators.workers import ALONE, Workers
from aggloom.runtime.values.changelog import INSERT
from aggloom.runtime.values.clock import NO_TIME, Clock

Handlers = Callable[[AggSpec], type[Any]]
Parts = list[Rows]
Bundles = Sequence[InputBatch]
"""A bundle of each input of a stateful node."""


class HostedNode(Protocol):
    """A stateful node of a plan: a fragment of operators for each of its buckets."""

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The fragments, by bucket."""

    def run(self, bundles: Sequence[Bundles], clock: Clock) -> Parts:
        """Apply the bundles of each bucket; return the changes of each."""


class Host(Protocol):
    """The keeper of the state of a plan's nodes, which decides on their local phases, too."""

    def open_node(
        self, place: int, nodes: Sequence[Stateful], spec: FragmentSpec, buckets: int
    ) -> HostedNode:
        """The node of this place in the plan; nodes: those of its operators."""

    def aggregate(
        self, parts: Parts, handler: type[Any], keys: Sequence[int], buckets: int
    ) -> list[tuple[Parts, list[bytes]]]:
        """The rows of each task as accumulators by bucket, or as rows where that is worth more."""


class MemoryNode:
    """A node whose state lies in memory alone."""

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        self.fragments = fragments

    def run(self, bundles: Sequence[Bundles], clock: Clock) -> Parts:
        """Apply the bundles of each bucket; return the changes of each."""
        pairs = zip(self.fragments, bundles, strict=True)
        return [fragment.run(each, clock) for fragment, each in pairs]


class MemoryHost:
    """The host of a harness: nothing outlives it, and every local phase makes accumulators."""

    def __init__(self, handler_of: Handlers) -> None:
        self._handler_of = handler_of

    def open_node(
        self, place: int, nodes: Sequence[Stateful], spec: FragmentSpec, buckets: int
    ) -> HostedNode:
        """The node of this place in the plan; nodes: those of its operators."""
        specs = spec.handler_specs
        handlers = [None if each is None else self._handler_of(each) for each in specs]
        return MemoryNode([spec.make(handlers, bucket) for bucket in range(buckets)])

    def aggregate(
        self, parts: Parts, handler: type[Any], keys: Sequence[int], buckets: int
    ) -> list[tuple[Parts, list[bytes]]]:
        """The accumulators of each task's rows, by bucket."""
        shares: list[tuple[Parts, list[bytes]]] = [([], []) for _ in range(buckets)]
        for rows in parts:
            for bucket, (batch, kinds) in split(rows, keys, buckets):
                local = LocalAggregator(handler)
                local.add(batch, kinds)
                shares[bucket][1].append(local.take())
        return shares


def handlers(backend: Backend) -> Handlers:
    """The handler classes of specs, generated when they are first asked for."""
    # Before the cache, whose keys have to be hashable.
    if not isinstance(backend, str):
        raise SpecError(f"backend is {backend!r}; it must be 'numba' or 'python'.")
    return _handlers(backend)


@cache
def _handlers(backend: Backend) -> Handlers:
    return lru_cache(maxsize=256)(lambda spec: load(generate(spec, backend=backend)))


def ask_session(session: Any) -> AbstractContextManager[None]:
    """While a query is planned, a session's analyser, if there is one, tells the types that the rules do not know."""
    if session is None:
        return nullcontext()
    # Imported here: without a session nothing of Spark is loaded.
    from aggloom.runtime.spark.plan.expressions import use_analyser

    return use_analyser(session)


_TALL = 100
"""Nodes from which on a plan may need more calls, one within the other, than the usual stack holds."""


class Pipeline:
    """The operators of a plan, each with its state in `buckets`, fed by `partitions` tasks.

    session: a Spark session, asked only for expressions that pyarrow cannot evaluate as Spark does. host: keeps the
    state of its nodes (default: memory alone). workers: compute expressions, and gather the rows of buckets. Raises
    OptionError for a number of parts below 1.
    """

    def __init__(
        self,
        plan: Plan,
        handler_of: Handlers,
        *,
        buckets: int = 1,
        partitions: int = 1,
        session: Any = None,
        host: Host | None = None,
        workers: Workers = ALONE,
    ) -> None:
        for name, parts in (("buckets", buckets), ("partitions", partitions)):
            if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
                raise OptionError(f"{name}={parts!r}: it is a number of parts, at least 1")
        self.plan, self.session, self.workers = plan, session, workers
        self._partitions = partitions
        self._stages = _Builder(plan, handler_of, buckets, self, host or MemoryHost(handler_of))
        self._is_tall = len(walk(plan.root)) > _TALL
        # Stages close over each other, one call within the other for each node on the way down.
        self._root = self._call_on_stack(lambda: self._stages.build(plan.root, True))

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments of all nodes and buckets."""
        return [fragment for node in self._stages.nodes for fragment in node.fragments]

    @property
    def operators(self) -> list[Operator]:
        """The operators of all fragments."""
        return [each for fragment in self.fragments for each in fragment.operators]

    def process(self, tables: Mapping[str, Rows], clock: Clock = NO_TIME) -> Rows:
        """Run one bundle of rows through the plan and return the changes of the result."""
        return concat_changes(self.process_parts(tables, clock), self.plan.schema)

    def process_parts(self, tables: Mapping[str, Rows], clock: Clock = NO_TIME) -> Parts:
        """Run one bundle as `process` does; return the changes in the parts in which they were made, not copied."""
        parts: Parts = self._call_on_stack(lambda: self._root(tables, clock))
        return parts

    def _call_on_stack(self, call: Callable[[], Any]) -> Any:
        """Make a call that goes through the plan from end to end, on a large stack if the plan is tall."""
        return on_large_stack(call) if self._is_tall else call()

    def take_late(self) -> Parts:
        """The rows that arrived too late for their windows since the last call, where the windowing keeps them."""
        return [rows for each in self.operators for rows in each.take_late()]

    def contents(self) -> Rows:
        """The result's rows that the state holds, each an insertion; of windows, those that may still change."""
        # No rows go in: the nodes next to the result give what they store, and steps above run as usual.
        with self._stages.show_contents():
            return self.process({})

    def snapshot(self) -> bytes:
        """The state of every operator as one block of bytes."""
        return join_blocks([fragment.snapshot() for fragment in self.fragments])

    def restore(self, data: bytes) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        blocks = split_blocks(
            data, len(self.fragments), "the query and options that it was taken from"
        )
        for fragment, block in zip(self.fragments, blocks, strict=True):
            fragment.restore(block)

    def close(self) -> None:
        for operator in self.operators:
            operator.close()

    def calculate(self, node: Calc, rows: Rows, is_result: bool) -> Parts:
        """A Calc's rows, by Arrow, or by Spark for expressions that only it evaluates; of a result in several parts."""
        # A condition over an update may let one half pass: then it is an insertion or a deletion.
        is_shown = is_result or node.shows
        # Of a result the two halves of an update are judged together. Columns that are only picked cost nothing, and to
        # join their parts would copy them.
        is_one_part = (is_shown and rows[1].any()) or node.picked_columns is not None
        parts = [rows] if is_one_part else cut_evenly(rows, self.workers)
        calls = [partial(self._calculate_part, node, part, is_shown) for part in parts]
        parts = self.workers.run(calls)
        # Below an operator they are joined: it would split each of them by bucket.
        return parts if is_result else [concat_changes(parts, node.schema)]

    def _calculate_part(self, node: Calc, rows: Rows, is_shown: bool) -> Rows:
        # With upserts, the row before an update is missing, and a row that no longer fits must still be deleted.
        upsert = not self.plan.has_old_rows and not node.shows
        try:
            return calculate(
                node.where, node.select, node.schema, *rows, is_shown=is_shown, upsert=upsert
            )
        except UnsupportedExpressionError:
            # pyarrow is tried first for each batch: some expressions fail for certain values only.
            session = self.session or active_session()
            if session is None:
                raise
        from aggloom.runtime.spark.failures import translate_failures, while_java_lives
        from aggloom.runtime.spark.plan.session_calc import calculate_with

        # A session that the user made says what went wrong in a class of its own, or with a trace of Java's.
        with translate_failures("expressions"), while_java_lives(session):
            return calculate_with(session, node, *rows, is_shown=is_shown, upsert=upsert)

    def cut(self, rows: Rows) -> Parts:
        """The rows as so many tasks read them, each a run of neighbours."""
        batch, kinds = rows
        # At least one part, even without rows: operators run on empty bundles, when only time passes.
        size = max(1, -(-batch.num_rows // self._partitions))
        starts = range(0, max(batch.num_rows, 1), size)
        return [(batch.slice(at, size), kinds[at : at + size]) for at in starts]


Stage = Callable[[Mapping[str, Rows], Clock], Parts]
Exchanged = Callable[[Mapping[str, Rows], Clock], list[InputBatch]]
"""The function of an exchange: from tables to the bundle of each bucket."""


class _Builder:
    """Turns nodes into functions of a bundle's rows; `is_result` is true above the last operators with state."""

    def __init__(
        self,
        plan: Plan,
        handler_of: Handlers,
        buckets: int,
        pipeline: Pipeline,
        host: Host,
    ) -> None:
        self.plan, self.pipeline, self.handler_of, self.host = plan, pipeline, handler_of, host
        self.buckets = buckets
        self.nodes: list[HostedNode] = []
        self._places = count()
        self._shows = False

    @contextmanager
    def show_contents(self) -> Iterator[None]:
        """A context in which the last operators give out what they hold instead of processing."""
        self._shows = True
        try:
            yield
        finally:
            self._shows = False

    def build(self, node: Node, is_result: bool = False) -> Stage:
        if isinstance(node, Scan):
            return self._scan(node)
        if isinstance(node, Stateful):
            return self._build_fragments(node, is_result)
        if isinstance(node, Union):
            # Branches may name their columns differently; the first one's names are those of the union.
            stages = [self.build(part, is_result) for part in node.parts]
            return lambda tables, clock: [
                (batch.rename_columns(node.schema.names), kinds)
                for stage in stages
                for batch, kinds in stage(tables, clock)
            ]
        # What a log tells of is not in the result: it has no contents.
        is_result = is_result and not isinstance(node, ToChangelog | FromChangelog)
        below = self.build(node.inputs[0], is_result)
        step = self._step(node, is_result)
        return lambda tables, clock: [part for rows in below(tables, clock) for part in step(rows)]

    def _step(self, node: Node, is_result: bool) -> Callable[[Rows], Parts]:
        if isinstance(node, Calc):
            return lambda rows: self.pipeline.calculate(node, rows, is_result)
        step = step_of(node)
        return lambda rows: [run_steps((step,), rows)]

    def _scan(self, node: Scan) -> Stage:
        empty = no_rows(node.without_clock.schema)

        def scan(tables: Mapping[str, Rows], clock: Clock) -> Parts:
            batch, kinds = tables.get(node.table, empty)
            if node.clock is not None:
                # One time for the whole batch, so that all its rows agree on what is now (decision 082).
                now = pa.scalar(clock.processing * 1000, pa.timestamp("us", "UTC"))
                columns = [*batch.columns, pa.repeat(now, batch.num_rows)]
                batch = pa.RecordBatch.from_arrays(columns, schema=node.schema)
            return self.pipeline.cut((batch, kinds))

        return scan

    def _build_fragments(self, node: Stateful, is_result: bool) -> Stage:
        """The fragment that a node emits from, one for each bucket; places are counted from the result down."""
        # The number is taken before the inputs are built, so the result's own node is 0.
        place = next(self._places)
        spec, exchanges, nodes = fragment_of(node, self.plan.options)
        feeds = [self._exchange(each, spec.inputs[n]) for n, each in enumerate(exchanges)]
        # Without keys all rows meet in one bucket, and the others would be empty for ever.
        hosted = self.host.open_node(place, nodes, spec, self.buckets if exchanges[0].keys else 1)
        self.nodes.append(hosted)

        def stage(tables: Mapping[str, Rows], clock: Clock) -> Parts:
            if self._shows and is_result:
                # Not run: contents are read without an input, and the clock must not move.
                return [fragment.contents() for fragment in hosted.fragments]
            return hosted.run(
                list(zip(*(feed(tables, clock) for feed in feeds), strict=True)), clock
            )

        return stage

    def _exchange(self, node: Exchange, schema: pa.Schema) -> Exchanged:
        """Build the function that sends each bucket its rows over an exchange, or the accumulators of each task's
        rows.
        """
        buckets = self.buckets if node.keys else 1
        keys = [node.input.schema.names.index(name) for name in node.keys]
        spec = node.input.accumulators
        if spec is not None:
            below = self._rows_of_accumulators(node.input)
            handler = self.handler_of(spec)
            return lambda tables, clock: [
                InputBatch(*concat_changes(rows, schema), partials)
                for rows, partials in self.host.aggregate(
                    below(tables, clock), handler, keys, buckets
                )
            ]
        below = self.build(node.input)

        def exchange(tables: Mapping[str, Rows], clock: Clock) -> list[InputBatch]:
            parts: list[Parts] = [[] for _ in range(buckets)]
            for rows in below(tables, clock):
                for bucket, part in split(rows, keys, buckets, self.pipeline.workers):
                    parts[bucket].append(part)
            # Also buckets without rows get a bundle: their timers may be due.
            return [InputBatch(*concat_changes(each, schema)) for each in parts]

        return exchange

    def _rows_of_accumulators(self, node: Node) -> Stage:
        """The rows of which a node makes accumulators."""
        if not isinstance(node, Stateful):
            return self.build(node.inputs[0])
        below, steps = self._build_fragments(node, False), node.onward
        return lambda tables, clock: [run_steps(steps, rows) for rows in below(tables, clock)]


def one_row() -> Rows:
    """The row of ONE_ROW, the table that a query without a table reads."""
    return pa.RecordBatch.from_pydict({"one": [True]}), np.array([INSERT], np.int8)
