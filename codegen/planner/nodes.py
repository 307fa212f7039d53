"""The nodes of a plan: frozen, printable, each with the columns that leave it.

Logical: Scan, Calc, Union, Expand, Aggregate, WindowTable, WindowAssign, WindowAggregate. In a physical plan the
aggregates have become GroupAggregate over an Exchange, perhaps with a LocalAggregate below it, or
IncrementalAggregate; a WindowAggregate reads an Exchange too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.expressions import parse_scalar, quoted
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.windows import Assigner, Windowing

Role = Literal["", "partial", "final"]


@dataclass(frozen=True)
class Node(ABC):
    """A step of a plan."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Where its rows come from."""
        single = getattr(self, "input", None)
        return () if single is None else (single,)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that leave it."""

    def over(self, *inputs: Node) -> Node:
        """The same step over other inputs."""
        changes: dict[str, Any] = {"input": inputs[0]} if inputs else {}
        return replace(self, **changes)


@dataclass(frozen=True)
class Scan(Node):
    """A table of the query: rows that are only added (append), or changes."""

    table: str
    columns: pa.Schema
    changes: Literal["append", "retract"] = "retract"

    @property
    def schema(self) -> pa.Schema:
        return self.columns


@dataclass(frozen=True)
class Calc(Node):
    """A filter and a projection; expressions are Spark SQL over the input's columns."""

    input: Node
    select: tuple[tuple[str, str], ...]
    columns: pa.Schema
    where: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    @property
    def picked(self) -> tuple[str, ...] | None:
        """The input's columns that it takes, if that is all it does."""
        if self.where is not None:
            return None
        names = [column_name(sql) for _, sql in self.select]
        return None if None in names else tuple(str(name) for name in names)


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL: the rows of several inputs with the same columns."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @property
    def schema(self) -> pa.Schema:
        return self.parts[0].schema

    def over(self, *inputs: Node) -> Node:
        return replace(self, parts=inputs)


@dataclass(frozen=True)
class Column:
    """A column of the input, as it is."""

    name: str


@dataclass(frozen=True)
class Constant:
    """The same value in every row."""

    value: bool | int | None


@dataclass(frozen=True)
class Bucket:
    """INT: one of so many buckets, by the hash of some columns."""

    columns: tuple[str, ...]
    buckets: int


Item = Column | Constant | Bucket


@dataclass(frozen=True)
class Expand(Node):
    """Each row once for each projection: grouping sets, and the sets of keys of a split aggregate."""

    input: Node
    projects: tuple[tuple[Item, ...], ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.columns


@dataclass(frozen=True)
class Aggregate(Node):
    """GROUP BY: the spec's schema is the input's, and nothing stands before its keys or after its calls.

    state_ttl: after how many milliseconds without a change it forgets a key, if that differs from the plan's option.
    """

    input: Node
    spec: AggSpec
    role: Role = ""
    state_ttl: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.spec.aggregate_schema


@dataclass(frozen=True)
class Bounds:
    """The columns that tell a window: their names, and the types of start and end and of time.

    INSTANT bounds are instants, WALL_CLOCK ones what the clocks of the window's time zone show; time, the last
    millisecond of the window, is what a further window over the result is laid out by.
    """

    start: str
    end: str
    time: str
    type: pa.DataType
    time_type: pa.DataType

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of the columns in their order."""
        return self.start, self.end, self.time

    @property
    def fields(self) -> list[pa.Field]:
        """The columns in their order."""
        types = (self.type, self.type, self.time_type)
        return [pa.field(name, kind) for name, kind in zip(self.names, types, strict=True)]


@dataclass(frozen=True)
class WindowTable(Node):
    """Each row once for each window that it belongs to, with the window's bounds after its columns.

    partition: the columns by which rows have sessions of their own; None: the keys that the rows are grouped by.
    """

    input: Node
    assigner: Assigner
    bounds: Bounds
    partition: tuple[str, ...] | None = None

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *self.bounds.fields])


@dataclass(frozen=True)
class WindowAssign(Node):
    """Rows with one more column, BIGINT, by which a WindowAggregate places them.

    It is the end of the row's slice, in milliseconds of the wall clock, if windows are made of slices; else the row's
    event time, an instant in milliseconds; 0 in processing time, which only the operator knows.
    """

    input: Node
    windowing: Windowing
    name: str

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema.append(pa.field(self.name, pa.int64()))


@dataclass(frozen=True)
class WindowAggregate(Node):
    """GROUP BY in windows. The spec's last group key is the column that WindowAssign made.

    columns out: the other keys, the window's bounds, the calls. merges: its input are accumulators by slice. chained:
    rows come from another window operator, so that they are not late however far the watermark has come with them.
    """

    input: Node
    spec: AggSpec
    windowing: Windowing
    bounds: Bounds
    merges: bool = False
    update_before: bool = True
    chained: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The group keys without the window."""
        return self.spec.group_by[:-1]

    @property
    def schema(self) -> pa.Schema:
        fields = list(self.spec.aggregate_schema)
        keys = len(self.keys)
        return pa.schema([*fields[:keys], *self.bounds.fields, *fields[keys + 1 :]])


@dataclass(frozen=True)
class Exchange(Node):
    """Rows (or accumulators) go to the bucket of their key; without keys to the only one."""

    input: Node
    keys: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class LocalAggregate(Node):
    """Rows are aggregated before the exchange; what leaves are accumulators of the spec."""

    input: Node
    spec: AggSpec
    role: Role = ""

    @property
    def schema(self) -> pa.Schema:
        return self.spec.handler_schema


@dataclass(frozen=True)
class GroupAggregate(Node):
    """A keyed operator; `merges`: its input are accumulators. update_before: whether it emits -U."""

    input: Exchange
    spec: AggSpec
    role: Role = ""
    merges: bool = False
    update_before: bool = True
    state_ttl: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.spec.aggregate_schema


@dataclass(frozen=True)
class IncrementalAggregate(Node):
    """The global half of a partial aggregate and the local half of the final one, in one node.

    What leaves are accumulators of `final`; `steps` (Calc and Expand) stand between the halves.
    """

    input: Exchange
    spec: AggSpec
    final: AggSpec
    steps: tuple[Node, ...] = ()
    merges: bool = True
    state_ttl: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.final.handler_schema


def column_name(sql: str) -> str | None:
    """The column that an expression is, or None."""
    node = parse_scalar(sql)
    return node.name if isinstance(node, exp.Column) and not node.table else None


def mark(*schemas: pa.Schema) -> str:
    """How a planner's own names start: `$`, or as many of them as no name of these columns starts with."""
    found = "$"
    while any(name.startswith(found) for schema in schemas for name in schema.names):
        found += "$"
    return found


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first."""
    inputs = tuple(transform(each, change) for each in node.inputs)
    changed = inputs and any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
    return change(node.over(*inputs) if changed else node)


def walk(node: Node) -> list[Node]:
    """All nodes, each after its inputs."""
    return [*(found for each in node.inputs for found in walk(each)), node]


def pick(node: Node, names: list[str]) -> Node:
    """A Calc that takes these columns, or the node itself if that changes nothing."""
    if names == node.schema.names:
        return node
    columns = pa.schema([node.schema.field(name) for name in names])
    return Calc(node, tuple((name, quoted(name)) for name in names), columns)
