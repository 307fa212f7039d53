"""Windows: rows with their windows as columns, rows on their way into windows, and aggregates in windows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.aggregate import LocalAggregate
from aggloom.codegen.operators.base import (
    Key,
    Node,
    Pruner,
    Stateful,
    Title,
    Trend,
    Waker,
    WindowColumns,
    constant,
    sort_kinds,
)
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.passing import Passing
from aggloom.codegen.operators.plan_text import shown_calls, shown_names
from aggloom.codegen.operators.window_footprint import state_of_windows
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.windows import Aligned, Assigner, Tumble, Windowing, result_schema


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

    @property
    def text(self) -> str:
        """Names and types in one line."""
        return f"{self.names!r} {type_name(self.type)} {type_name(self.time_type)}"


@dataclass(frozen=True)
class WindowTable(Passing):
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

    @property
    def roles(self) -> dict[str, str]:
        """The meaning of each column that it adds: start, end, time, or horizon."""
        return dict(zip(self.bounds.names, ("start", "end", "time"), strict=True))

    @property
    def changelog(self) -> tuple[str, ...]:
        # The new half of an update may be in other windows than the old one: no row replaces another.
        return self.input.changelog if self.keeps_updates or self.input.appends_only else ("I", "D")

    @property
    def never_deletes(self) -> bool:
        return self.input.never_deletes if self.keeps_updates else self.input.appends_only

    @property
    def keeps_updates(self) -> bool:
        """True if the halves of an update stay together: a row is in one window."""
        # Both halves may still be in different windows, as the time of a row may change.
        return isinstance(self.assigner, Tumble)

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # A row is there once for each window, so that its own key is one only with the window.
        return tuple((*key, self.bounds.start, self.bounds.end) for key in self.input.unique_keys)

    @property
    def clock_columns(self) -> frozenset[str]:
        # The last millisecond of a window by the clock is a time of the clock.
        by_clock = set() if self.assigner.event_time else {self.bounds.time}
        return self.input.clock_columns | by_clock

    @property
    def event_times(self) -> frozenset[str]:
        own = frozenset({self.bounds.time} if self.assigner.event_time else ())
        # A row of a session leaves when that is over: only the time of its window is that of the watermark then.
        return own if self.assigner.merges else self.input.event_times | own

    @property
    def awaits_watermark(self) -> bool:
        return self.assigner.merges and self.assigner.event_time

    @property
    def window_columns(self) -> WindowColumns | None:
        columns = WindowColumns(*self.bounds.names, self.assigner.text)
        return columns if self.assigner.event_time and not self.assigner.merges else None

    @property
    def distribution(self) -> None:
        return None

    @property
    def lineage(self) -> str:
        return f"windows {self.assigner.text} {self.bounds.text} {self.partition!r}"

    @property
    def title(self) -> Title:
        return "WindowTableFunction", {"window": [self.assigner.text]}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        read = {*names, *self.assigner.columns, *(self.partition or ())}
        below = _prune_input(self.input, read, prune)
        if not self.assigner.merges:
            return self.over(below)
        # Rows that wait for the end of their session are stored unchanged.
        return self.over(pick(below, [name for name in below.schema.names if name in read]))


@dataclass(frozen=True)
class WindowAssign(Passing):
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

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return ()

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        # The slice of a row follows from its own time, so that it may be made inside a stateful node.
        return ({name: name for name in names if name != self.name},)

    @property
    def lineage(self) -> str:
        return f"assign {self.windowing.text} {self.name!r}"

    @property
    def title(self) -> Title:
        return "WindowAssign", {"window": [self.windowing.assigner.text]}

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self.over(
            _prune_input(self.input, {*names, *self.windowing.assigner.columns}, prune)
        )


@dataclass(frozen=True)
class WindowAggregate(Stateful):
    """GROUP BY in windows. The spec's last group key is the column that WindowAssign made.

    columns out: the other keys, the window's bounds, the calls. merges: its input are accumulators by slice.
    is_chained: rows come from another window operator, so that they are not late however far the watermark has come
    with them.
    """

    input: Node
    spec: AggSpec
    windowing: Windowing
    bounds: Bounds
    merges: bool = False
    update_before: bool = True
    is_chained: bool = False

    @property
    def subject(self) -> AggSpec:
        return self.spec

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return (self.spec,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The group keys without the window."""
        return self.spec.group_by[:-1]

    @property
    def schema(self) -> pa.Schema:
        fields = list(self.spec.aggregate_schema)
        keys = len(self.keys)
        more = result_schema(self.windowing.function)
        return pa.schema([*fields[:keys], *self.bounds.fields, *fields[keys + 1 :], *more])

    @property
    def awaits_watermark(self) -> bool:
        return self.windowing.assigner.event_time

    @property
    def updates(self) -> bool:
        """True if results are replaced: else each is a row of its own, emitted once and for all."""
        return self.windowing.fires_again and bool(self.windowing.updates)

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        if not self.updates:
            return ("I",)
        kinds = {"I", "UA"} | ({"UB"} if self.update_before else set())
        return sort_kinds(kinds if self.never_deletes else kinds | {"D"})

    @property
    def is_complete(self) -> bool:
        return True

    @cached_property
    def never_deletes(self) -> bool:
        # A session that grows into another retracts its result; an evictor may leave no rows.
        apart = self.windowing.is_vectorised and isinstance(self.windowing.assigner, Aligned)
        return not self.updates or (apart and self.input.rows.appends_only)

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # A window that fires again without retracting its result emits several rows.
        once = self.windowing.on_time_only or self.updates
        return ((*self.keys, self.bounds.start, self.bounds.end),) if once else ()

    @property
    def trends(self) -> dict[str, Trend]:
        # Without updates rows are only added, and nothing ever changes.
        return constant([*self.keys, *self.bounds.names] if self.updates else self.schema.names)

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset() if self.windowing.assigner.event_time else frozenset({self.bounds.time})

    @property
    def event_times(self) -> frozenset[str]:
        columns = self.window_columns
        return frozenset() if columns is None else frozenset({self.bounds.time})

    @property
    def window_columns(self) -> WindowColumns | None:
        # Results that are replaced may come after the end of their window: no window above could wait for them.
        columns = WindowColumns(*self.bounds.names, self.windowing.assigner.text)
        return columns if self.awaits_watermark and not self.updates else None

    def wakes_by(self, ttl: int) -> Waker:
        return "the watermark" if self.awaits_watermark else "the clock"

    @property
    def lineage(self) -> str:
        return f"window aggregate {self.spec.to_json()} {self._windows}"

    @property
    def title(self) -> Title:
        names = [*self.keys, *self.bounds.names]
        details = shown_windows(self.spec, self.windowing, names)
        return "Global" * self.merges + "WindowAggregate", details

    @property
    def state_description(self) -> dict[str, Any]:
        return {"spec": json.loads(self.spec.to_json()), "windows": self._windows}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        return state_of_windows(self.spec, self.keys, self.windowing, backend)

    @property
    def name(self) -> str:
        return f"{super().name} in windows"

    @property
    def local_obstacle(self) -> str:
        windowing = self.windowing
        # Slices are known by the row's own time, before any exchange (decision 011).
        if windowing.is_sliced:
            return ""
        if not windowing.is_vectorised:
            return "its windows look at single rows"
        if getattr(windowing.assigner, "stagger", "aligned") != "aligned":
            return "each bucket staggers its windows by itself"
        if not windowing.assigner.event_time:
            return "the windows of processing time are known only where they are kept"
        return "sessions are known only where all rows of a key are"

    def local_half(self, rows: Node) -> Node:
        return LocalWindowAggregate(rows, self.spec, windowing=self.windowing)

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        spec = self.spec
        calls = tuple(call for call in spec.calls if call.output_name in names)
        pruned = replace(spec, calls=calls)
        # In two steps: the handler's columns follow from the calls that are left.
        pruned = replace(pruned, schema=pruned.handler_schema)
        # Triggers, evictors and window functions look at columns that no call reads.
        extras = [name for name in self.input.schema.names if name not in spec.schema.names]
        read = [*pruned.schema.names, *extras]
        prune.note_replacement(spec, pruned)
        prune.note_dropped_calls(spec, pruned)
        return replace(self, input=pick(prune.input(self.input, read), read), spec=pruned)

    def insert_exchange(self) -> Node:
        return self.over(Exchange(self.input, self.keys))

    def without_before(self) -> Node:
        return replace(self, update_before=False)

    @property
    def _windows(self) -> str:
        return f"{self.windowing.text} {self.bounds.text}"


@dataclass(frozen=True)
class LocalWindowAggregate(LocalAggregate):
    """Rows are aggregated by slice before the exchange."""

    windowing: Windowing = field(kw_only=True)

    @property
    def title(self) -> Title:
        names = list(self.spec.group_by)
        return "LocalWindowAggregate", shown_windows(self.spec, self.windowing, names)


def shown_windows(spec: AggSpec, windowing: Windowing, names: list[str]) -> dict[str, list[str]]:
    """The details of the line of an aggregate in windows, or of its local half."""
    keys = spec.group_by[:-1]
    calls = shown_calls(spec)[len(spec.group_by) :]
    details = {"groupBy": shown_names(keys)} if keys else {}
    return {**details, "window": [windowing.text], "select": [*shown_names(names), *calls]}


def _prune_input(node: Node, names: set[str], prune: Pruner) -> Node:
    """The input of a step that adds columns to those of its rows."""
    return prune.input(node, [name for name in node.schema.names if name in names])
