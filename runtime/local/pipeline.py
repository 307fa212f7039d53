"""A plan run without Spark: the same operators, with tasks and buckets played one after the other."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, calculate, generate, load, on_large_stack
from aggloom.codegen.planner import (
    Calc,
    Exchange,
    Expand,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Plan,
    Scan,
    Stateful,
    Union,
    WindowAssign,
    WindowTable,
    walk,
)
from aggloom.errors import OptionError, StateCorruptError, UnsupportedExpressionError
from aggloom.runtime.operators.base import Operator, OperatorSpec
from aggloom.runtime.operators.local_aggregate import LocalAggregator
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.operators.steps import Rows, no_rows, run_steps, split
from aggloom.runtime.values.clock import NO_TIME, Clock

Handlers = Callable[[AggSpec], type[Any]]
Parts = list[Rows]
_MAGIC = b"AGLP"


class Bundle(NamedTuple):
    """What an exchange brings to a bucket: rows in the order in which they are to be applied, and accumulators."""

    rows: Parts
    partials: list[bytes]


@cache
def handlers(backend: Literal["numba", "python"]) -> Handlers:
    """The handler classes of specs, generated when they are first asked for."""
    return lru_cache(maxsize=256)(lambda spec: load(generate(spec, backend=backend)))


def asking(session: Any) -> AbstractContextManager[None]:
    """While a query is planned, a session's analyser, if there is one, tells the types that the rules do not know."""
    if session is None:
        return nullcontext()
    from aggloom.runtime.spark.expressions import asking

    return asking(session)


_TALL = 100
"""Nodes from which on a plan may need more calls, one within the other, than the usual stack holds."""


class Pipeline:
    """The operators of a plan, each with its state in `buckets`, fed by `partitions` tasks.

    session: a Spark session, asked only for expressions that pyarrow cannot evaluate as Spark does. Raises OptionError
    for a number of parts below 1.
    """

    def __init__(
        self,
        plan: Plan,
        handler_of: Handlers,
        *,
        buckets: int = 1,
        partitions: int = 1,
        session: Any = None,
    ) -> None:
        for name, parts in (("buckets", buckets), ("partitions", partitions)):
            if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
                raise OptionError(f"{name}={parts!r}: it is a number of parts, at least 1")
        self.plan, self.session = plan, session
        self._partitions = partitions
        self._stages = _Builder(plan, handler_of, buckets, self)
        self._is_tall = len(walk(plan.root)) > _TALL
        self._root = self._called(lambda: self._stages.build(plan.root, True))
        self.operators = self._stages.operators

    def process(self, tables: Mapping[str, Rows], clock: Clock = NO_TIME) -> Rows:
        """Run one bundle of rows through the plan and return the changes of the result."""
        return self._called(lambda: _joined(self._root(tables, clock), self.plan.schema))

    def _called(self, call: Callable[[], Any]) -> Any:
        """What a call returns that goes through the plan from end to end."""
        return on_large_stack(call) if self._is_tall else call()

    def take_late(self) -> Parts:
        """The rows that came too late for their windows since the last call, where the windowing keeps them."""
        return [rows for each in self.operators for rows in each.take_late()]

    def contents(self) -> Rows:
        """The result's rows that the state holds, each an insertion; of windows, those that may still change."""
        with self._stages.showing():
            return self.process({})

    def snapshot(self) -> bytes:
        """The state of every operator as one block of bytes."""
        blocks = [operator.snapshot() for operator in self.operators]
        head = json.dumps([len(block) for block in blocks]).encode()
        return b"".join([_MAGIC, struct.pack("<I", len(head)), head, *blocks])

    def restore(self, data: bytes) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        try:
            (size,) = struct.unpack_from("<I", data, 4)
            sizes = json.loads(data[8 : 8 + size])
            if data[:4] != _MAGIC or len(data) != 8 + size + sum(sizes):
                raise ValueError("wrong length")
        except (ValueError, TypeError, struct.error) as e:
            raise StateCorruptError(f"the snapshot cannot be read: {e}; take another one.") from e
        if len(sizes) != len(self.operators):
            raise StateCorruptError(
                f"the snapshot holds {len(sizes)} operators, the plan has {len(self.operators)}; "
                "restore it into the query and options that it was taken from."
            )
        at = 8 + size
        for operator, length in zip(self.operators, sizes, strict=True):
            operator.restore(data[at : at + length])
            at += length

    def close(self) -> None:
        for operator in self.operators:
            operator.close()

    def calculate(self, node: Calc, rows: Rows, shown: bool) -> Rows:
        """A Calc's rows, by Arrow, or by Spark for expressions that only it evaluates."""
        upsert = not self.plan.options.update_before
        try:
            return calculate(
                node.where, node.select, node.schema, *rows, shown=shown, upsert=upsert
            )
        except UnsupportedExpressionError:
            if self.session is None:
                raise
        from aggloom.runtime.spark.expressions import calculate_with

        return calculate_with(self.session, node, *rows, shown=shown, upsert=upsert)

    def cut(self, rows: Rows) -> Parts:
        """The rows as so many tasks read them, each a run of neighbours."""
        batch, kinds = rows
        size = max(1, -(-batch.num_rows // self._partitions))
        starts = range(0, max(batch.num_rows, 1), size)
        return [(batch.slice(at, size), kinds[at : at + size]) for at in starts]


Stage = Callable[[Mapping[str, Rows], Clock], Parts]
Exchanged = Callable[[Mapping[str, Rows], Clock], list[Bundle]]


class _Builder:
    """Turns nodes into functions of a bundle's rows; `shown` is true above the last aggregates."""

    def __init__(
        self,
        plan: Plan,
        handler_of: Handlers,
        buckets: int,
        pipeline: Pipeline,
    ) -> None:
        self.plan, self.pipeline, self.handler_of = plan, pipeline, handler_of
        self.buckets = buckets
        self.operators: list[Operator] = []
        self._shows = False

    @contextmanager
    def showing(self) -> Iterator[None]:
        """A context in which the last operators give out what they hold instead of processing."""
        self._shows = True
        try:
            yield
        finally:
            self._shows = False

    def build(self, node: Node, shown: bool = False) -> Stage:
        if isinstance(node, Scan):
            return self._scan(node)
        if isinstance(node, Stateful):
            return self._keyed(node, shown)
        if isinstance(node, Union):
            stages = [self.build(part, shown) for part in node.parts]
            return lambda tables, clock: [
                (batch.rename_columns(node.schema.names), kinds)
                for stage in stages
                for batch, kinds in stage(tables, clock)
            ]
        below = self.build(node.inputs[0], shown)
        step: Callable[[Rows], Rows]
        if isinstance(node, Calc):
            calc = node
            step = lambda rows: self.pipeline.calculate(calc, rows, shown)  # noqa: E731
        else:
            assert isinstance(node, Expand | WindowAssign | WindowTable)
            packed = node
            step = lambda rows: run_steps((packed,), rows)  # noqa: E731
        return lambda tables, clock: [step(rows) for rows in below(tables, clock)]

    def _scan(self, node: Scan) -> Stage:
        empty = no_rows(node.schema)

        def scan(tables: Mapping[str, Rows], clock: Clock) -> Parts:
            return self.pipeline.cut(tables.get(node.table, empty))

        return scan

    def _keyed(self, node: Stateful, shown: bool) -> Stage:
        (exchange,) = node.inputs
        assert isinstance(exchange, Exchange)
        below = self._exchange(exchange)
        made, operators = self._operators(node)
        return self._stage(below, operators, made.rows, shown)

    def _stage(
        self, below: Exchanged, operators: Sequence[Operator], rows: pa.Schema, shown: bool
    ) -> Stage:
        def stage(tables: Mapping[str, Rows], clock: Clock) -> Parts:
            if self._shows and shown:
                return [operator.contents() for operator in operators]
            return _processed(operators, below(tables, clock), rows, clock)

        return stage

    def _operators(self, node: Stateful) -> tuple[OperatorSpec, list[Operator]]:
        """What a node's operators are made from, and the operators, one for each bucket."""
        made = operator_of(node, self.plan.options)
        handler = None if made.handler_spec is None else self.handler_of(made.handler_spec)
        count = self.buckets if node.keys else 1
        operators = [made.make(handler, bucket) for bucket in range(count)]
        self.operators += operators
        return made, operators

    def _exchange(self, node: Exchange) -> Exchanged:
        buckets = self.buckets if node.keys else 1
        if isinstance(node.input, LocalAggregate):
            return self._local(node.input, self.build(node.input.input), len(node.keys), buckets)
        if isinstance(node.input, IncrementalAggregate):
            return self._incremental(node.input, buckets)
        below = self.build(node.input)

        def exchange(tables: Mapping[str, Rows], clock: Clock) -> list[Bundle]:
            bundles = [Bundle([], []) for _ in range(buckets)]
            for rows in below(tables, clock):
                for bucket, part in split(rows, len(node.keys), buckets):
                    bundles[bucket].rows.append(part)
            return bundles

        return exchange

    def _local(self, node: LocalAggregate, below: Stage, keys: int, buckets: int) -> Exchanged:
        handler = self.handler_of(node.spec)
        return lambda tables, clock: _aggregated(below(tables, clock), handler, keys, buckets)

    def _incremental(self, node: IncrementalAggregate, buckets: int) -> Exchanged:
        below = self._exchange(node.input)
        made, operators = self._operators(node)
        final, keys = self.handler_of(node.final), len(node.final.group_by)

        def incremental(tables: Mapping[str, Rows], clock: Clock) -> list[Bundle]:
            parts = _processed(operators, below(tables, clock), made.rows, clock)
            stepped = [run_steps(node.steps, rows) for rows in parts]
            return _aggregated(stepped, final, keys, buckets)

        return incremental


def _processed(
    operators: Sequence[Operator], bundles: list[Bundle], rows: pa.Schema, clock: Clock
) -> Parts:
    """What the operator of each bucket makes of its bundle."""
    return [
        operator.process(*_joined(bundle.rows, rows), clock, bundle.partials)
        for operator, bundle in zip(operators, bundles, strict=True)
    ]


def _aggregated(parts: Parts, handler: type[Any], keys: int, buckets: int) -> list[Bundle]:
    """The accumulators of each task's rows, by bucket."""
    bundles = [Bundle([], []) for _ in range(buckets)]
    for rows in parts:
        for bucket, (batch, kinds) in split(rows, keys, buckets):
            local = LocalAggregator(handler)
            local.add(batch, kinds)
            bundles[bucket].partials.append(local.take())
    return bundles


def _joined(parts: Parts, schema: pa.Schema) -> Rows:
    """All parts as one batch."""
    parts = [part for part in parts if part[0].num_rows]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_rows(schema)
    kinds = np.concatenate([kinds for _, kinds in parts])
    if not schema.names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(kinds), pa.struct([]))), kinds
    return pa.concat_batches([batch for batch, _ in parts]), kinds
