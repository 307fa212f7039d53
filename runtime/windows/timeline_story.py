"""What windows did, step by step: which rows came, which windows they went to, and what was given out.

The window operator is played once more, over the bundles that a harness ran, so that what is told is what it gave out:
also where expressions and other aggregates stand below it, and filters above.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import Node, Plan, Scan, WindowAggregate, WindowAssign, walk
from aggloom.codegen.windows import (
    Elements,
    Evictor,
    GlobalWindow,
    Trigger,
    TriggerResult,
    Windowing,
    to_instants,
    to_local,
)
from aggloom.errors import AggloomError, StateCorruptError, UnknownColumnError, nearest
from aggloom.runtime.changelog import KIND_NAMES
from aggloom.runtime.clock import Clock
from aggloom.runtime.pipeline import Handlers, Pipeline
from aggloom.runtime.steps import Rows
from aggloom.runtime.windows.assign import event_times

Key = tuple[str | None, ...]
_TABLE = "rows"


@dataclass
class Row:
    """A row that came to the windows. place: milliseconds, or its number among all rows if windows are not of time."""

    number: int
    kind: str
    key: Key
    place: int
    label: str
    values: str
    late: bool = False
    outside: bool = False

    @property
    def adds(self) -> bool:
        """Whether it is an insertion, and takes nothing back."""
        return self.kind in ("+I", "+U")


class Firing(NamedTuple):
    """A change that a window brought when so many rows had come. rows: the numbers of those that made its result."""

    kind: str
    text: str
    after: int
    rows: tuple[int, ...] = ()


class Merge(NamedTuple):
    """A session as it was before a row made it part of a larger one."""

    start: int
    end: int
    row: int


@dataclass
class Span:
    """A window of a key, from start up to end in milliseconds; of windows that are not of time one for each key."""

    key: Key
    start: int = 0
    end: int = 0
    rows: int = 0
    firings: list[Firing] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)


class Mark(NamedTuple):
    """Where the watermark stands from when so many rows have come."""

    after: int
    watermark: int


@dataclass
class Story:
    """All that happened. by_order: rows are placed by their number."""

    node: WindowAggregate
    rows: list[Row] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def by_order(self) -> bool:
        """Whether windows are not of time."""
        return isinstance(self.node.windowing.assigner, GlobalWindow)

    @property
    def zone(self) -> str:
        """The time zone by which times are told."""
        return self.node.windowing.assigner.zone

    @property
    def keys(self) -> list[Key]:
        """The keys in the order in which they came."""
        return list(dict.fromkeys(each.key for each in (*self.rows, *self.spans)))


def story_of(
    plan: Plan,
    handler_of: Handlers,
    history: Sequence[tuple[str, Any]],
    label: str | None,
    **options: Any,
) -> Story:
    """What the only window aggregate of a plan did in the bundles of a history, since the last restore.

    label: the column whose values stand on the rows (default: the first that is aggregated).
    """
    nodes = [node for node in walk(plan.root) if isinstance(node, WindowAggregate)]
    if len(nodes) != 1:
        fix = "draw each of its windows in a query of its own" if nodes else "give window=..."
        raise AggloomError(f"timeline: the plan has {len(nodes) or 'no'} window aggregates; {fix}.")
    player = _Player(plan, nodes[0], handler_of, label, options)
    restores = [at for at, (what, _) in enumerate(history) if what == "restore"]
    for what, entry in history[restores[-1] if restores else 0 :]:
        if what == "restore":
            player.restore(entry)
        elif what == "bundle":
            player.bundle(*entry)
    return player.story


class _Player:
    """Plays bundles once more and writes down what happens."""

    def __init__(
        self,
        plan: Plan,
        node: WindowAggregate,
        handler_of: Handlers,
        label: str | None,
        options: dict[str, Any],
    ) -> None:
        assign = [each for each in walk(node) if isinstance(each, WindowAssign)][-1]
        self.schema = assign.input.schema
        self.story = Story(node)
        self.label = _label(node, self.schema, label)
        self.watch = _Watch(node.windowing) if self.story.by_order else None
        watched = node if self.watch is None else replace(node, windowing=self.watch.windowing)
        alone = _replaced(watched, assign.input, Scan(_TABLE, self.schema))
        self.below = Pipeline(replace(plan, root=assign.input), handler_of, **options)
        self.windows = Pipeline(replace(plan, root=alone), handler_of, **options)
        merges = node.windowing.assigner.merges
        self.book: _Book = _Sessions(self.story) if merges else _Book(self.story)

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot of the whole plan."""
        try:
            self.windows.restore(data)
        except StateCorruptError as e:
            raise AggloomError(
                "timeline: after a restore only a query with one operator can be drawn; draw it before."
            ) from e

    def bundle(self, tables: Mapping[str, Rows], clock: Clock) -> None:
        """Take one bundle, and what the windows make of it."""
        story = self.story
        if clock.watermark > (story.marks[-1].watermark if story.marks else Clock().watermark):
            story.marks.append(Mark(len(story.rows), clock.watermark))
        batch, kinds = self.below.process(tables, clock)
        if self.watch is None:
            came = self._came((batch, kinds), clock)
            self.book.enter(came, self._gaps(batch), _now(story, clock))
            for key, start, end, firing in self._changes((batch, kinds), clock):
                self.book.fired(key, start, end, firing)
            return
        # One by one, so that it is known which row makes a window fire.
        self._step((batch.slice(0, 0), kinds[:0]), clock, self.watch)
        for at in range(len(kinds)):
            self._step((batch.slice(at, 1), kinds[at : at + 1]), clock, self.watch)

    def _step(self, rows: Rows, clock: Clock, watch: _Watch) -> None:
        """Take at most one row, and note which rows the firings cover."""
        for row in self._came(rows, clock):
            watch.hold(row)
        for key, _, _, firing in self._changes(rows, clock):
            self.book.fired(key, 0, 0, firing._replace(rows=watch.covered(key)))
        watch.settle()

    def _came(self, rows: Rows, clock: Clock) -> list[Row]:
        """The rows of a batch, which are written down."""
        batch, kinds = rows
        node, first = self.story.node, len(self.story.rows) + 1
        assigner = node.windowing.assigner
        places = np.full(len(kinds), clock.processing, np.int64)
        if self.story.by_order:
            places = np.arange(first, first + len(kinds))
        elif assigner.event_time:
            places = event_times(batch, assigner.columns[0])
        labels = [""] * len(kinds)
        if self.label is not None:
            labels = [shown(value) for value in batch.column(self.label).to_pylist()]
        keys, values = _keys(batch, node.keys), _tuples(batch, self.schema.names)
        came = [
            Row(
                first + at,
                KIND_NAMES[kinds[at]],
                keys[at],
                int(places[at]),
                labels[at],
                _named(self.schema.names, values[at]),
            )
            for at in range(len(kinds))
        ]
        self.story.rows += came
        return came

    def _changes(self, rows: Rows, clock: Clock) -> list[tuple[Key, int, int, Firing]]:
        """What the windows give out: key, start, end, and the change."""
        changes, kinds = self.windows.process({_TABLE: rows}, clock)
        node, first = self.story.node, len(self.story.node.keys) + 3
        names = changes.schema.names[first:]
        texts = [_named(names, value, short=True) for value in _tuples(changes, names)]
        starts = ends = [0] * len(kinds)
        if not self.story.by_order:
            starts, ends = (self._bound(changes, name) for name in node.bounds.names[:2])
        after = len(self.story.rows)
        firings = [
            Firing(KIND_NAMES[kind], text, after) for kind, text in zip(kinds, texts, strict=True)
        ]
        return list(zip(_keys(changes, node.keys), starts, ends, firings, strict=True))

    def _bound(self, changes: pa.RecordBatch, name: str) -> list[int]:
        times = event_times(changes, name)
        local = changes.schema.field(name).type.tz is None
        return (to_instants(times, self.story.zone) if local else times).tolist()

    def _gaps(self, batch: pa.RecordBatch) -> Any:
        name = getattr(self.story.node.windowing.assigner, "gap_column", None)
        if name is None:
            return None
        return batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)


class _Book:
    """The windows that rows went to, and what they gave out."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.assigner = story.node.windowing.assigner
        self.lateness = int(story.node.windowing.allowed_lateness)
        self.spans: dict[tuple[Key, int, int], Span] = {}

    def enter(self, rows: list[Row], gaps: Any, now: int) -> None:
        """Put rows into their windows."""
        if not rows or getattr(self.assigner, "stagger", "aligned") != "aligned":
            # Each bucket staggers its windows by itself: only what they give out is known.
            return
        zone = self.story.zone
        times = to_local(np.array([row.place for row in rows], np.int64), zone)
        owners, starts, ends = self.assigner.assign(times)
        live = to_instants(ends - 1, zone) + self.lateness > now
        bounds = to_instants(starts, zone), to_instants(ends, zone)
        found: list[list[bool]] = [[] for _ in rows]
        for at, (owner, start, end) in enumerate(zip(owners, *bounds, strict=True)):
            found[owner].append(bool(live[at]))
            if live[at]:
                self.span(rows[owner].key, int(start), int(end)).rows += 1
        for row, lives in zip(rows, found, strict=True):
            row.outside, row.late = not lives, bool(lives) and not any(lives)

    def fired(self, key: Key, start: int, end: int, firing: Firing) -> None:
        """Note a change of a window."""
        self.span(key, start, end).firings.append(firing)

    def span(self, key: Key, start: int, end: int) -> Span:
        """The window of a key, made if it is not there."""
        found = self.spans.get((key, start, end))
        if found is None:
            found = self.spans[key, start, end] = Span(key, start, end)
            self.story.spans.append(found)
        return found


class _Sessions(_Book):
    """Sessions, which grow and merge as the operators' do (SEMANTICS 4.2)."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.live: dict[Key, list[Span]] = defaultdict(list)

    def enter(self, rows: list[Row], gaps: Any, now: int) -> None:
        times = np.array([row.place for row in rows], np.int64)
        _, starts, ends = self.assigner.assign(times, gaps)
        for row, start, end in zip(rows, starts.tolist(), ends.tolist(), strict=True):
            live = [each for each in self.live[row.key] if each.end - 1 + self.lateness > now]
            touched = [each for each in live if each.start <= end and start <= each.end]
            if not touched and end - 1 + self.lateness <= now:
                row.late = True
                continue
            span = self._grown(row, touched, start, end)
            self.live[row.key] = [each for each in live if each not in touched] + [span]
            span.rows += 1

    def _grown(self, row: Row, touched: list[Span], start: int, end: int) -> Span:
        if not touched:
            return self.span(row.key, start, end)
        first, *others = sorted(touched, key=lambda each: each.start)
        if others:
            merged = [Merge(each.start, each.end, row.number) for each in (first, *others)]
            first.merges = [each for span in (first, *others) for each in span.merges] + merged
        for other in others:
            self.story.spans.remove(other)
            first.rows += other.rows
            first.firings = sorted(first.firings + other.firings, key=lambda each: each.after)
        known = [bounds for bounds, span in self.spans.items() if span in others]
        self.spans |= dict.fromkeys(known, first)
        first.start = min(start, first.start)
        first.end = max(end, *(each.end for each in touched))
        self.spans[row.key, first.start, first.end] = first
        return first


class _Watch:
    """Sees what the trigger and the evictor of windows that are not of time decide, and which rows are held."""

    def __init__(self, windowing: Windowing) -> None:
        trigger, evictor = windowing.trigger, windowing.evictor
        assert trigger is not None
        self.windowing = replace(
            windowing,
            trigger=_Watched(trigger, self),
            evictor=None if evictor is None else _WatchedEvictor(evictor, self),
        )
        self.held: dict[Key, list[Row]] = defaultdict(list)
        self.purged = False
        self.stays: list[list[bool]] = []
        self.row: Row | None = None
        self.fired: set[Key] = set()

    def hold(self, row: Row) -> None:
        """A row comes to its window; with an evictor, a retraction takes an equal one away."""
        self.row, held = row, self.held[row.key]
        if row.adds or self.windowing.evictor is None:
            held.append(row)
            return
        equal = next((each for each in held if each.values == row.values), None)
        if equal is not None:
            held.remove(equal)

    def covered(self, key: Key) -> tuple[int, ...]:
        """The rows that the firing of a key has just added up."""
        self.fired.add(key)
        if len(self.fired) == 1 and self.stays:
            self.held[key] = _kept(self.held[key], self.stays.pop(0))
        return tuple(row.number for row in self.held[key])

    def settle(self) -> None:
        """A step is over: forget what was evicted and purged."""
        keys = self.fired if self.row is None else {self.row.key}
        for key in keys:
            for stays in self.stays if len(keys) == 1 else []:
                self.held[key] = _kept(self.held[key], stays)
            if self.purged:
                self.held[key] = []
        self.purged, self.stays, self.row, self.fired = False, [], None, set()


class _Watched(Trigger):
    """A trigger that tells a watch what it decides."""

    def __init__(self, inner: Trigger, watch: _Watch) -> None:
        self.inner, self.watch = inner, watch
        self.on_merge, self.clear = inner.on_merge, inner.clear  # type: ignore[method-assign]

    def on_element(self, *args: Any) -> TriggerResult:
        return self._seen(self.inner.on_element, *args)

    def on_event_time(self, *args: Any) -> TriggerResult:
        return self._seen(self.inner.on_event_time, *args)

    def on_processing_time(self, *args: Any) -> TriggerResult:
        return self._seen(self.inner.on_processing_time, *args)

    def _seen(self, ask: Callable[..., TriggerResult], *args: Any) -> TriggerResult:
        result = ask(*args)
        self.watch.purged |= result.purges
        return result


class _WatchedEvictor(Evictor):
    """An evictor that tells a watch which rows stay."""

    def __init__(self, inner: Evictor, watch: _Watch) -> None:
        self.inner, self.watch = inner, watch

    def evict_before(self, elements: Elements, *args: Any) -> Any:
        return self._seen(self.inner.evict_before(elements, *args))

    def evict_after(self, elements: Elements, *args: Any) -> Any:
        return self._seen(self.inner.evict_after(elements, *args))

    def _seen(self, stays: Any) -> Any:
        self.watch.stays.append(np.asarray(stays).tolist())
        return stays


def shown(value: Any) -> str:
    """A value in few letters."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "auto").removesuffix("000")
    return str(value)


def _kept(rows: list[Row], stays: list[bool]) -> list[Row]:
    return [row for row, stay in zip(rows, stays, strict=False) if stay]


def _label(node: WindowAggregate, schema: pa.Schema, label: str | None) -> str | None:
    if label is None:
        return next((call.args[0] for call in node.spec.calls if call.args), None)
    if label not in schema.names:
        raise UnknownColumnError(
            f"timeline: there is no column {label!r}. {nearest(label, schema.names)}"
        )
    return label


def _now(story: Story, clock: Clock) -> int:
    """The time by which windows are over."""
    return clock.watermark if story.node.windowing.assigner.event_time else clock.processing


def _replaced(node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    return node.over(*(_replaced(each, old, new) for each in node.inputs))


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> list[Key]:
    """Keys as texts: equal if the keys are, whatever their type."""
    found = _tuples(batch, names)
    return [tuple(None if each is None else str(each) for each in key) for key in found]


def _tuples(batch: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Any, ...]]:
    if not names:
        return [()] * batch.num_rows
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def _named(names: Sequence[str], values: tuple[Any, ...], *, short: bool = False) -> str:
    """`a=1, b=2`; only the value of a single one if it may be short."""
    if short and len(values) == 1:
        return shown(values[0])
    return ", ".join(f"{name}={shown(value)}" for name, value in zip(names, values, strict=True))
