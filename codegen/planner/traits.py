"""What is known of a node's changes: which kinds of rows leave it, its unique key, and what never shrinks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Literal, TypeVar

from aggloom.codegen.planner.nodes import (
    Aggregate,
    Bucket,
    Calc,
    Column,
    Constant,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Scan,
    Union,
    WindowAggregate,
    WindowTable,
    column_name,
)
from aggloom.codegen.scalar.expressions import columns as columns_of
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.windows import Aligned

Trend = Literal["constant", "increasing", "decreasing"]
_TRENDS: dict[str, Trend] = {"COUNT": "increasing", "MAX": "increasing", "MIN": "decreasing"}
_ALL = ("I", "UB", "UA", "D")
T = TypeVar("T")


def _once(trait: Callable[[Node], T]) -> Callable[[Node], T]:
    """The trait, kept with its node: traits ask each other, so that depth would cost exponentially."""
    name = f"_{trait.__name__}"

    @wraps(trait)
    def kept(node: Node) -> T:
        if name not in node.__dict__:
            node.__dict__[name] = trait(node)
        found: T = node.__dict__[name]
        return found

    return kept


@_once
def changelog(node: Node) -> tuple[str, ...]:
    """The kinds of rows that leave a node, of I, UB, UA, D."""
    if isinstance(node, LocalAggregate | IncrementalAggregate):
        return ("I",)
    if isinstance(node, Scan):
        return ("I",) if node.changes == "append" else _ALL
    if isinstance(node, GroupAggregate | Aggregate):
        before = isinstance(node, Aggregate) or node.update_before
        kinds = ("I", "UB", "UA") if before else ("I", "UA")
        return kinds if never_deletes(node) else (*kinds, "D")
    if isinstance(node, WindowAggregate):
        if not _updates(node):
            return ("I",)
        kinds = ("I", "UB", "UA") if node.update_before else ("I", "UA")
        return kinds if never_deletes(node) else (*kinds, "D")
    found = {kind for each in node.inputs for kind in changelog(each)}
    if isinstance(node, Calc) and "UA" in found and not never_deletes(node):
        found.add("D")
    return tuple(kind for kind in _ALL if kind in found)


def appends_only(node: Node) -> bool:
    """Whether nothing is ever taken back."""
    return changelog(node) == ("I",)


def is_complete(node: Node) -> bool:
    """Whether each retraction follows the row that it takes back: so it is for what an operator emits."""
    if isinstance(node, Scan):
        return node.changes == "append"
    if isinstance(node, Aggregate | GroupAggregate | WindowAggregate):
        return True
    return all(is_complete(each) for each in node.inputs)


def unique_key(node: Node) -> tuple[str, ...] | None:
    """Columns of which no two rows have the same values; None if there are none."""
    if isinstance(node, Aggregate | GroupAggregate):
        return node.spec.group_by
    if isinstance(node, WindowAggregate):
        once = node.windowing.on_time_only or _updates(node)
        return (*node.keys, node.bounds.start, node.bounds.end) if once else None
    if isinstance(node, WindowTable):
        key = unique_key(node.input)
        return None if key is None else (*key, node.bounds.start, node.bounds.end)
    if isinstance(node, Calc):
        key = unique_key(node.input)
        if key is None:
            return None
        names = {column_name(sql): name for name, sql in reversed(node.select)}
        kept = [names.get(column) for column in key]
        return None if None in kept else tuple(str(name) for name in kept)
    if isinstance(node, Exchange):
        return unique_key(node.input)
    return None


@_once
def never_deletes(node: Node) -> bool:
    """Whether a row that is there stays, or is replaced by another one of the same origin."""
    if isinstance(node, Scan):
        return node.changes == "append"
    if isinstance(node, Calc):
        steady = _constants(node.input)
        passes = node.where is None or appends_only(node.input)
        passes = passes or set(columns_of(node.where or "")) <= steady
        return never_deletes(node.input) and passes
    if isinstance(node, Aggregate | GroupAggregate):
        below = _rows_below(node)
        moves = not appends_only(below) and not set(node.spec.group_by) <= _constants(below)
        return never_deletes(below) and not moves
    if isinstance(node, WindowAggregate):
        # A session that grows into another takes its result back; what an evictor leaves may be nothing.
        apart = node.windowing.is_vectorised and isinstance(node.windowing.assigner, Aligned)
        return not _updates(node) or (apart and appends_only(_rows_below(node)))
    return all(never_deletes(each) for each in node.inputs)


@_once
def trends(node: Node) -> dict[str, Trend]:
    """How columns change when a row is replaced; those that may go either way are not among them."""
    if isinstance(node, Scan):
        return dict.fromkeys(node.schema.names, "constant") if node.changes == "append" else {}
    if isinstance(node, Calc):
        below = trends(node.input)
        found = {name: below.get(column_name(sql) or "") for name, sql in node.select}
        for name, sql in node.select:
            if set(columns_of(sql)) <= _constants(node.input):
                found[name] = "constant"
        return {name: trend for name, trend in found.items() if trend}
    if isinstance(node, Union):
        return _common(node)
    if isinstance(node, Expand):
        return _expanded(node)
    if isinstance(node, Aggregate | GroupAggregate):
        return _aggregated(node.spec, _rows_below(node))
    if isinstance(node, WindowAggregate):
        kept = [*node.keys, *node.bounds.names] if _updates(node) else node.schema.names
        return dict.fromkeys(kept, "constant")
    return trends(node.inputs[0])


def call_trend(spec: AggSpec, index: int, input_: Node) -> Trend | None:
    """How the result of a call changes, if it only ever goes one way."""
    call = spec.calls[index]
    trend = _TRENDS.get(call.function)
    below = trends(input_)
    if trend is None or not never_deletes(input_):
        return None
    steady = {name for name, way in below.items() if way == "constant"}
    if appends_only(input_):
        return trend
    if not set(spec.group_by) <= steady or (call.filter is not None and call.filter not in steady):
        return None
    if call.function == "COUNT":
        return trend if not call.distinct or set(call.args) <= steady else None
    return trend if below.get(call.args[0]) in (trend, "constant") else None


def _aggregated(spec: AggSpec, input_: Node) -> dict[str, Trend]:
    found: dict[str, Trend] = dict.fromkeys(spec.group_by, "constant")
    for index, call in enumerate(spec.calls):
        trend = call_trend(spec, index, input_)
        if trend is not None:
            found[call.output_name] = trend
    return found


def _updates(node: WindowAggregate) -> bool:
    """Whether results are replaced: else each is a row of its own, given out once and for all."""
    return node.windowing.fires_again and bool(node.windowing.updates)


def _rows_below(node: Node) -> Node:
    """The input of an aggregate, before its exchange and local half."""
    (below,) = node.inputs
    while isinstance(below, Exchange | LocalAggregate):
        below = below.input
    if isinstance(below, IncrementalAggregate):
        rows: Node = GroupAggregate(below.input, below.spec, "partial", below.merges)
        for step in below.steps:
            rows = step.over(rows)
        return rows
    return below


def _constants(node: Node) -> set[str]:
    return {name for name, trend in trends(node).items() if trend == "constant"}


def _common(node: Union) -> dict[str, Trend]:
    parts = [trends(each) for each in node.parts]
    columns = zip(*(each.schema.names for each in node.parts), strict=True)
    found: dict[str, Trend] = {}
    for name, names in zip(node.schema.names, columns, strict=True):
        ways = {part.get(own) for part, own in zip(parts, names, strict=True)} - {"constant"}
        if not ways:
            found[name] = "constant"
        elif len(ways) == 1 and None not in ways:
            found[name] = next(way for way in ways if way)
    return found


def _expanded(node: Expand) -> dict[str, Trend]:
    below, steady = trends(node.input), _constants(node.input)
    found: dict[str, Trend] = {}
    for place, name in enumerate(node.schema.names):
        ways: set[Trend | None] = set()
        for project in node.projects:
            item = project[place]
            if isinstance(item, Constant):
                ways.add("constant")
            elif isinstance(item, Bucket):
                ways.add("constant" if set(item.columns) <= steady else None)
            else:
                assert isinstance(item, Column)
                ways.add(below.get(item.name))
        if len(ways) == 1 and None not in ways:
            found[name] = next(way for way in ways if way)
    return found
