"""Fragments: the operators of one stateful node, each fed by inputs of the node or by the changes of others.

Rows of an input are distributed to buckets by the columns of its exchange, and so are the keys of all operators. A
bundle has changes of all inputs at once: the result is that of the tables after the bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec, LoweredCalc
from aggloom.codegen.planner import (
    Exchange,
    Lookup,
    LookupJoin,
    Node,
    PlanOptions,
    Scan,
    Stateful,
    Union,
    rename_columns,
)
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.operators.base import (
    InputBatch,
    Operator,
    OperatorSpec,
    TimeMode,
    join_blocks,
    split_blocks,
)
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.operators.stateless import Step, run_steps, step_data, step_from, step_of
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows
from aggloom.runtime.storage.arena import Arena
from aggloom.runtime.values.clock import Clock


@dataclass(frozen=True)
class Feed:
    """A source of an operator's rows.

    source: the number of an input of the fragment, or if `inner` that of an operator before it. steps: the steps that
    the rows pass in between.
    """

    source: int
    inner: bool = False
    steps: tuple[Step, ...] = ()

    def to_data(self) -> list[Any]:
        """Return the feed as data for JSON."""
        return [self.source, self.inner, [step_data(step) for step in self.steps]]

    @classmethod
    def from_data(cls, data: Any) -> Feed:
        """Return the feed that `to_data` described; raises SpecError."""
        source, inner, steps = data
        return cls(source, inner, tuple(step_from(step) for step in steps))


@dataclass(frozen=True)
class FragmentPart:
    """An operator of a fragment: its spec, its name in messages, its key, and its inputs, each of one or more feeds.

    spread: those columns of its key by which rows lie in buckets, in the order of the exchanges. delay: the
    milliseconds by which its watermark is behind that of the node.
    """

    spec: OperatorSpec[Any]
    name: str
    keys: tuple[str, ...]
    spread: tuple[str, ...]
    inputs: tuple[tuple[Feed, ...], ...]
    delay: int = 0

    def clock(self, clock: Clock) -> Clock:
        """Return the clock as this operator knows it."""
        return clock._replace(watermark=clock.watermark - self.delay) if self.delay else clock


@dataclass(frozen=True)
class FragmentSpec:
    """The description of a fragment: its operators, each after those that feed it, the last the one that emits.

    inputs: the columns of each of its inputs.
    """

    parts: tuple[FragmentPart, ...]
    inputs: tuple[pa.Schema, ...]

    @property
    def root(self) -> OperatorSpec[Any]:
        """The spec of the operator whose changes the fragment emits."""
        return self.parts[-1].spec

    @property
    def specs(self) -> list[OperatorSpec[Any]]:
        """The specs of the operators."""
        return [part.spec for part in self.parts]

    @property
    def handler_specs(self) -> list[AggSpec | None]:
        """The aggregates that the handler of each operator is generated from; None where it has none."""
        return [spec.handler_spec for spec in self.specs]

    def make(
        self, handlers: Sequence[Any], bucket: int = 0, directory: Path | None = None
    ) -> Fragment:
        """The fragment of a bucket, over mapped files in `directory` if given; handlers: one for each operator."""
        single = len(self.parts) == 1
        operators = [
            spec.make(
                handler, bucket, directory if single or directory is None else directory / str(n)
            )
            for n, (spec, handler) in enumerate(zip(self.specs, handlers, strict=True))
        ]
        return Fragment(self, operators)

    def is_ordered(self, number: int) -> bool:
        """Tell whether the order of an input's rows counts for the operators that it feeds."""
        return any(part.spec.needs_order for part in self.consumers(number))

    def consumers(self, number: int) -> list[FragmentPart]:
        """The operators that an input feeds."""
        return [
            part
            for part in self.parts
            if any(f.source == number and not f.inner for feeds in part.inputs for f in feeds)
        ]

    @property
    def evaluates(self) -> bool:
        """True if expressions are evaluated between its operators."""
        feeds = (feed for part in self.parts for feeds in part.inputs for feed in feeds)
        return any(isinstance(step, LoweredCalc) for feed in feeds for step in feed.steps)

    @property
    def calls_python(self) -> bool:
        """True if an operator, or a step between operators, calls users' functions or queries other systems."""
        feeds = (feed for part in self.parts for feeds in part.inputs for feed in feeds)
        asks = any(isinstance(step, Lookup | LookupJoin) for feed in feeds for step in feed.steps)
        return asks or any(spec.calls_python for spec in self.specs)

    @property
    def ttls(self) -> list[int]:
        """The times to live of its operators, in milliseconds."""
        return sorted({spec.ttl_ms for spec in self.specs} - {0})

    @property
    def time_mode(self) -> TimeMode:
        """The time by which it has timers; operators with others do not share a fragment."""
        modes = {spec.time_mode for spec in self.specs} - {"None"}
        assert len(modes) <= 1
        return modes.pop() if modes else "None"

    @property
    def wakes_every_bucket(self) -> bool:
        """True if every bucket is called whenever any of them has rows."""
        return any(spec.wakes_every_bucket for spec in self.specs)

    @property
    def emits_without_rows(self) -> bool:
        """True if its first bundle emits a change even without rows."""
        return self.root.emits_without_rows


class Fragment:
    """The operators of one bucket. The same bundles in the same order give the same changes."""

    def __init__(self, spec: FragmentSpec, operators: Sequence[Operator]) -> None:
        self.spec, self.operators = spec, list(operators)

    @property
    def root(self) -> Operator:
        """The operator whose changes the fragment emits."""
        return self.operators[-1]

    def run(
        self,
        inputs: Sequence[InputBatch],
        clock: Clock,
        then: Callable[[int, Operator], Rows] | None = None,
    ) -> Rows:
        """Apply a bundle of each input, and return the emitted changes.

        then: more changes of an operator, by its number, once it has taken its bundles.
        """
        out: list[Rows] = []
        # `_flow` is lazy: it reads `out` when it reaches an operator, when the changes of those before are in it.
        for part, (operator, bundles) in zip(self.spec.parts, self._flow(inputs, out), strict=True):
            rows = operator.run(bundles, part.clock(clock))
            if then is not None:
                rows = concat_changes([rows, then(len(out), operator)], operator.schema)
            out.append(rows)
        return out[-1]

    def run_before(
        self, inputs: Sequence[InputBatch], clock: Clock, number: int
    ) -> list[InputBatch]:
        """Return an operator's bundles for a bundle of each input, once the operators before it have run."""
        out: list[Rows] = []
        for place, (operator, bundles) in enumerate(self._flow(inputs, out)):
            if place == number:
                return bundles
            out.append(operator.run(bundles, self.spec.parts[place].clock(clock)))
        raise AggloomError(f"the fragment has no operator {number}")

    def empty_inputs(self) -> list[InputBatch]:
        """A bundle without rows of each input."""
        return [InputBatch(*no_rows(schema)) for schema in self.spec.inputs]

    def contents(self) -> Rows:
        """The rows of its result according to the state, each an insertion."""
        return self.root.contents()

    def take_late(self) -> list[Rows]:
        """The late rows since the last call, if they are to be emitted."""
        return [rows for each in self.operators for rows in each.take_late()]

    def next_timers(self) -> tuple[int | None, int | None]:
        """The next time at which something is due, by the watermark and by the clock; None: nothing is."""
        times = [
            # The watermark of an operator with a delay is behind that of the node, which calls it so much later.
            (event if event is None else event + part.delay, processing)
            for part, each in zip(self.spec.parts, self.operators, strict=True)
            for event, processing in [each.next_timers()]
        ]
        event, processing = (
            min((time for time in side if time is not None), default=None)
            for side in zip(*times, strict=True)
        )
        return event, processing

    def snapshot(self) -> bytes:
        """The state of all operators as bytes."""
        return join_blocks([each.snapshot() for each in self.operators])

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the state by a snapshot's; raises StateCorruptError."""
        for operator, block in zip(
            self.operators, split_blocks(data, len(self.operators)), strict=True
        ):
            operator.restore(block)

    def close(self) -> None:
        """Prepare mapped files for the next use."""
        for operator in self.operators:
            operator.close()

    @property
    def state_bytes(self) -> int:
        """Bytes of the arenas, free room included."""
        return sum(each.state_bytes for each in self.operators)

    @property
    def arenas(self) -> list[Arena]:
        """The arenas in which its state lies."""
        return [arena for each in self.operators for arena in each.arenas]

    def _flow(
        self, inputs: Sequence[InputBatch], out: Sequence[Rows]
    ) -> Iterator[tuple[Operator, list[InputBatch]]]:
        """Yield each operator with its input; `out` has the changes of the operators before it."""
        for part, operator in zip(self.spec.parts, self.operators, strict=True):
            schemas = part.spec.inputs
            yield operator, [
                _bundle(feeds, schema, inputs, out)
                for feeds, schema in zip(part.inputs, schemas, strict=True)
            ]


def _bundle(
    feeds: Sequence[Feed], schema: pa.Schema, inputs: Sequence[InputBatch], out: Sequence[Rows]
) -> InputBatch:
    """Return the bundle of an input of an operator, from all of its feeds."""
    outer = [inputs[feed.source] for feed in feeds if not feed.inner]
    # The usual case: rows of an input, as they are.
    if len(feeds) == 1 and outer and not feeds[0].steps:
        return outer[0]
    parts = [
        run_steps(feed.steps, out[feed.source] if feed.inner else inputs[feed.source][:2])
        for feed in feeds
    ]
    return InputBatch(*concat_changes(parts, schema))


def fragment_of(
    node: Stateful, options: PlanOptions, zone: str = "UTC"
) -> tuple[FragmentSpec, tuple[Exchange, ...], tuple[Stateful, ...]]:
    """The fragment that a node of a plan emits from, its inputs by number, and the nodes of its operators.

    zone: the session's time zone.
    """
    walk = _Walk(options, zone)
    walk.operator(node)
    return (
        FragmentSpec(tuple(walk.parts), tuple(walk.schemas)),
        tuple(walk.exchanges),
        tuple(walk.nodes),
    )


class _Walk:
    """A walk from the operator on top down to the exchanges."""

    def __init__(self, options: PlanOptions, zone: str) -> None:
        self._options, self._zone = options, zone
        self.parts: list[FragmentPart] = []
        self.nodes: list[Stateful] = []
        self.exchanges: list[Exchange] = []
        self.schemas: list[pa.Schema] = []

    def operator(self, node: Stateful) -> int:
        """The number of a node's operator, after those below it."""
        spec = operator_of(node, self._options, self._zone)
        # The operators below are entered by this recursion: each number is above those that feed it.
        inputs = tuple(
            tuple(self._feeds(below, schema))
            for below, schema in zip(node.inputs, spec.inputs, strict=True)
        )
        spread = node.inputs[0].distribution or ()
        delay = max((each.watermark_delay for each in node.inputs), default=0)
        self.parts.append(FragmentPart(spec, node.name, node.keys, spread, inputs, delay))
        self.nodes.append(node)
        return len(self.parts) - 1

    def _feeds(self, node: Node, schema: pa.Schema, steps: tuple[Step, ...] = ()) -> Iterator[Feed]:
        """The feeds by which rows come to an operator, or to steps before it, in these columns."""
        if isinstance(node, Exchange):
            yield Feed(self._input(node, schema), steps=steps)
        elif isinstance(node, Stateful):
            yield Feed(self.operator(node), True, steps)
        elif isinstance(node, Union):
            for part in node.parts:
                named = _rename_columns(part, node.schema)
                yield from self._feeds(part, part.schema, (*named, *steps))
        else:
            (below,) = node.inputs
            yield from self._feeds(below, below.schema, (step_of(node, self._zone), *steps))

    def _input(self, node: Exchange, schema: pa.Schema) -> int:
        """The number of an input of the fragment; what is reused has one."""
        # A part of the plan that occurs twice is shuffled once. Read in other columns, it is another input.
        if node.reuse:
            for number, known in enumerate(self.exchanges):
                if known.reuse == node.reuse and self.schemas[number] == schema:
                    return number
        self.exchanges.append(node)
        self.schemas.append(schema)
        return len(self.exchanges) - 1


def _rename_columns(part: Node, schema: pa.Schema) -> tuple[Step, ...]:
    """The step that gives the columns of a union's part the union's names, if they have others."""
    if part.schema.names == schema.names:
        return ()
    return (rename_columns(Scan("", part.schema, "append"), schema),)


def feeds_data(spec: FragmentSpec) -> list[Any]:
    """Return the feeds of each operator of a fragment, as JSON can hold them."""
    return [[[feed.to_data() for feed in feeds] for feeds in part.inputs] for part in spec.parts]


def inputs_data(spec: FragmentSpec) -> list[Any]:
    """The columns of each input as JSON can hold them."""
    return [columns_data(rows) for rows in spec.inputs]


def feeds_from(data: Any) -> tuple[tuple[Feed, ...], ...]:
    """Return the feeds of an operator; raises SpecError."""
    try:
        return tuple(tuple(Feed.from_data(feed) for feed in feeds) for feeds in data)
    except (TypeError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"a fragment that cannot be read: {error!r}.") from None


def inputs_from(data: Any) -> tuple[pa.Schema, ...]:
    """The columns of each input; raises SpecError."""
    try:
        return tuple(columns_from(rows) for rows in data)
    except (TypeError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"a fragment that cannot be read: {error!r}.") from None
