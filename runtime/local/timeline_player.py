"""The player of a timeline: the bundles of a harness once more through the window operator alone, to see what it did.

So the story is what it emitted, also where expressions and other aggregates stand below it, and filters above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.planner import (
    Node,
    Plan,
    RollingAggregate,
    Scan,
    WindowAggregate,
    WindowAssign,
    walk,
)
from aggloom.codegen.windows import Session, to_instants
from aggloom.errors import AggloomError, StateCorruptError, UnknownColumnError, nearest
from aggloom.runtime.local.pipeline import Handlers, Pipeline
from aggloom.runtime.local.timeline_story import Firing, Key, Mark, Row, Story
from aggloom.runtime.local.timeline_windows import ChangingSessions, Sessions, SpanBook, Watch
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.assign import event_times
from aggloom.runtime.values.changelog import KIND_NAMES
from aggloom.runtime.values.clock import Clock
from aggloom.runtime.values.columns import to_python

_TABLE = "rows"


def story_of(
    plan: Plan,
    handler_of: Handlers,
    history: Sequence[tuple[str, Any]],
    label: str | None,
    **options: Any,
) -> Story:
    """Play the bundles of a history, since the last restore, through the only window aggregate of a plan.

    label: the column whose values stand on the rows (default: the first that is aggregated). Raises AggloomError unless
    the plan has exactly one window aggregate.
    """
    nodes = [node for node in walk(plan.root) if isinstance(node, WindowAggregate)]
    if len(nodes) != 1:
        fix = "draw each of its windows in a query of its own" if nodes else "give window=..."
        raise AggloomError(f"timeline: the plan has {len(nodes) or 'no'} window aggregates; {fix}.")
    if isinstance(nodes[0], RollingAggregate):
        raise AggloomError(
            "timeline: rolling horizons are no windows that end; draw a HOP of one horizon."
        )
    player = _Player(plan, nodes[0], handler_of, label, options)
    restores = [at for at, (what, _) in enumerate(history) if what == "restore"]
    # State before a restore is gone, so nothing from before it could explain what follows.
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
        self.watch = Watch(node.windowing) if self.story.by_order else None
        # Windows of order are asked which rows they use; for windows of time the bounds say it.
        watched = node if self.watch is None else replace(node, windowing=self.watch.windowing)
        alone = _replace_node(watched, assign.input, Scan(_TABLE, self.schema))
        # Two pipelines: what feeds the windows, whose rows are drawn, and the windows alone.
        self.below = Pipeline(replace(plan, root=assign.input), handler_of, **options)
        self.windows = Pipeline(replace(plan, root=alone), handler_of, **options)
        self.book: SpanBook = SpanBook(self.story)
        # Where retractions may split a session, its times are counted; otherwise sessions only grow.
        if node.spec.input_changes == "retract" and node.windowing.can_split:
            keeps = plan.options.on_orphan_retraction == "keep"
            self.book = ChangingSessions(self.story, keeps)
        elif isinstance(node.windowing.assigner, Session):
            self.book = Sessions(self.story)

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
        # Only a watermark that moved is a mark.
        if clock.watermark > (story.marks[-1].watermark if story.marks else Clock().watermark):
            story.marks.append(Mark(len(story.rows), clock.watermark))
        batch, kinds = self.below.process(tables, clock)
        if self.watch is None:
            arrivals = self._note_rows((batch, kinds), clock)
            self.book.enter(arrivals, self._gaps(batch), _now(story, clock))
            for key, start, end, firing in self._changes((batch, kinds), clock):
                self.book.note_firing(key, start, end, firing)
            return
        # One by one, so that it is known which row makes a window fire.
        # The clock first, without a row: what fires by it does not belong to the first row.
        self._step((batch.slice(0, 0), kinds[:0]), clock, self.watch)
        for at in range(len(kinds)):
            self._step((batch.slice(at, 1), kinds[at : at + 1]), clock, self.watch)

    def _step(self, rows: Rows, clock: Clock, watch: Watch) -> None:
        """Take at most one row, and note which rows the firings cover."""
        for row in self._note_rows(rows, clock):
            watch.hold(row)
        for key, _, _, firing in self._changes(rows, clock):
            self.book.note_firing(key, 0, 0, firing._replace(rows=watch.take_covered(key)))
        watch.end_step()

    def _note_rows(self, rows: Rows, clock: Clock) -> list[Row]:
        """The rows of a batch, which are written down."""
        batch, kinds = rows
        node, first = self.story.node, len(self.story.rows) + 1
        assigner = node.windowing.assigner
        # In processing time a row is where the clock was when it arrived.
        places = np.full(len(kinds), clock.processing, np.int64)
        if self.story.by_order:
            places = np.arange(first, first + len(kinds))
        elif assigner.event_time:
            places = event_times(batch, assigner.columns[0])
        labels = [""] * len(kinds)
        if self.label is not None:
            labels = [format_value(value) for value in batch.column(self.label).to_pylist()]
        keys, values = _keys(batch, node.keys), _tuples(batch, self.schema.names)
        arrivals = [
            Row(
                first + at,
                KIND_NAMES[kinds[at]],
                keys[at],
                int(places[at]),
                labels[at],
                _format_row(self.schema.names, values[at]),
            )
            for at in range(len(kinds))
        ]
        self.story.rows += arrivals
        return arrivals

    def _changes(self, rows: Rows, clock: Clock) -> list[tuple[Key, int, int, Firing]]:
        """Process rows; return the windows' changes, each with its key, start and end."""
        changes, kinds = self.windows.process({_TABLE: rows}, clock)
        # The key, then the bounds of the window: the calls' results begin behind them.
        node, first = self.story.node, len(self.story.node.keys) + 3
        names = changes.schema.names[first:]
        texts = [_format_row(names, value, short=True) for value in _tuples(changes, names)]
        starts = ends = [0] * len(kinds)
        if not self.story.by_order:
            starts, ends = (self._read_bound(changes, name) for name in node.bounds.names[:2])
        after = len(self.story.rows)
        firings = [
            Firing(KIND_NAMES[kind], text, after) for kind, text in zip(kinds, texts, strict=True)
        ]
        return list(zip(_keys(changes, node.keys), starts, ends, firings, strict=True))

    def _read_bound(self, changes: pa.RecordBatch, name: str) -> list[int]:
        times = event_times(changes, name)
        # Bounds without a zone are times on the clocks; the axis has instants.
        local = changes.schema.field(name).type.tz is None
        return (to_instants(times, self.story.zone) if local else times).tolist()

    def _gaps(self, batch: pa.RecordBatch) -> Any:
        name = getattr(self.story.node.windowing.assigner, "gap_column", None)
        if name is None:
            return None
        return batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)


def format_value(value: Any) -> str:
    """A value in few letters."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        # Milliseconds are enough, and the zone is on the axis.
        return value.replace(tzinfo=None).isoformat(" ", "auto").removesuffix("000")
    return str(value)


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


def _replace_node(node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    return node.over(*(_replace_node(each, old, new) for each in node.inputs))


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> list[Key]:
    """Keys as texts: equal if the keys are, whatever their type."""
    keys = _tuples(batch, names)
    return [tuple(None if each is None else str(each) for each in key) for key in keys]


def _tuples(batch: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Any, ...]]:
    if not names:
        return [()] * batch.num_rows
    return list(zip(*to_python(batch.select(names)), strict=True))


def _format_row(names: Sequence[str], values: tuple[Any, ...], *, short: bool = False) -> str:
    """`a=1, b=2`; only the value of a single one if it may be short."""
    if short and len(values) == 1:
        return format_value(values[0])
    return ", ".join(
        f"{name}={format_value(value)}" for name, value in zip(names, values, strict=True)
    )
