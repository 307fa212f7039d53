"""What is known of a node's changes: which kinds of rows leave it, its unique key, and what never shrinks.

Each trait has an answer for each kind of node, written out: a kind that gives none is refused, not guessed at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

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
    WindowAssign,
    WindowTable,
    column_name,
)
from aggloom.codegen.scalar.expressions import columns as columns_of
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.windows import Aligned
from aggloom.errors import InternalError

Trend = Literal["constant", "increasing", "decreasing"]
_TRENDS: dict[str, Trend] = {"COUNT": "increasing", "MAX": "increasing", "MIN": "decreasing"}
_ALL = ("I", "UB", "UA", "D")
T = TypeVar("T")
Answer = TypeVar("Answer", bound=Callable[[Any], Any])


class Trait(Generic[T]):
    """A question about nodes, with the answer of each kind of node; an answer is kept with its node.

    Traits ask each other, so that without keeping depth would cost exponentially.
    """

    def __init__(self, name: str, doc: str) -> None:
        self.name, self.__doc__ = name, doc
        self._answers: dict[type[Node], Callable[[Any], T]] = {}

    def of(self, *kinds: type[Node]) -> Callable[[Answer], Answer]:
        """A decorator: the function answers for these kinds of node."""

        def given(answer: Answer) -> Answer:
            self._answers |= dict.fromkeys(kinds, answer)
            return answer

        return given

    def __call__(self, node: Node) -> T:
        """The answer for a node; raises InternalError for a kind of node that has none."""
        kept, name = node.__dict__, f"_{self.name}"
        if name not in kept:
            answer = self._answers.get(type(node))
            if answer is None:
                raise InternalError(
                    f"planner: nodes of the kind {type(node).__name__} do not say their trait {self.name!r}; "
                    "give them an answer in codegen/planner/traits.py"
                )
            kept[name] = answer(node)
        found: T = kept[name]
        return found


changelog: Trait[tuple[str, ...]] = Trait(
    "changelog", "The kinds of rows that leave a node, of I, UB, UA, D."
)
is_complete: Trait[bool] = Trait(
    "is_complete",
    "Whether each retraction follows the row that it takes back: so it is for what an operator emits.",
)
unique_key: Trait[tuple[str, ...] | None] = Trait(
    "unique_key", "Columns of which no two rows have the same values; None if there are none."
)
never_deletes: Trait[bool] = Trait(
    "never_deletes",
    "Whether a row that is there stays, or is replaced by another one of the same origin.",
)
trends: Trait[dict[str, Trend]] = Trait(
    "trends",
    "How columns change when a row is replaced; those that may go either way are not among them.",
)
TRAITS: tuple[Trait[Any], ...] = (changelog, is_complete, unique_key, never_deletes, trends)
_PASSING = (Expand, WindowTable, WindowAssign, Exchange)
"""Nodes that leave the changes of their input what they are."""


@changelog.of(LocalAggregate, IncrementalAggregate)
def _accumulators(node: Node) -> tuple[str, ...]:
    return ("I",)


@changelog.of(Scan)
def _scanned(node: Scan) -> tuple[str, ...]:
    return ("I",) if node.changes == "append" else _ALL


@changelog.of(Aggregate)
def _grouped(node: Aggregate) -> tuple[str, ...]:
    return _replaced(node, True)


@changelog.of(GroupAggregate)
def _emitted(node: GroupAggregate) -> tuple[str, ...]:
    return _replaced(node, node.update_before)


@changelog.of(WindowAggregate)
def _windowed(node: WindowAggregate) -> tuple[str, ...]:
    return _replaced(node, node.update_before) if _updates(node) else ("I",)


@changelog.of(Union, *_PASSING)
def _passed(node: Node) -> tuple[str, ...]:
    found = {kind for each in node.inputs for kind in changelog(each)}
    return tuple(kind for kind in _ALL if kind in found)


@changelog.of(Calc)
def _calculated(node: Calc) -> tuple[str, ...]:
    found = set(changelog(node.input))
    if "UA" in found and not never_deletes(node):
        found.add("D")
    return tuple(kind for kind in _ALL if kind in found)


def _replaced(node: Node, before: bool) -> tuple[str, ...]:
    kinds = ("I", "UB", "UA") if before else ("I", "UA")
    return kinds if never_deletes(node) else (*kinds, "D")


def appends_only(node: Node) -> bool:
    """Whether nothing is ever taken back."""
    return changelog(node) == ("I",)


@is_complete.of(Scan)
def _complete_scan(node: Scan) -> bool:
    return node.changes == "append"


@is_complete.of(Aggregate, GroupAggregate, WindowAggregate)
def _complete_result(node: Node) -> bool:
    return True


@is_complete.of(Calc, Union, LocalAggregate, IncrementalAggregate, *_PASSING)
def _complete_inputs(node: Node) -> bool:
    return all(is_complete(each) for each in node.inputs)


@unique_key.of(Aggregate, GroupAggregate)
def _group_key(node: Aggregate | GroupAggregate) -> tuple[str, ...]:
    return node.spec.group_by


@unique_key.of(WindowAggregate)
def _window_key(node: WindowAggregate) -> tuple[str, ...] | None:
    once = node.windowing.on_time_only or _updates(node)
    return (*node.keys, node.bounds.start, node.bounds.end) if once else None


@unique_key.of(WindowTable)
def _table_key(node: WindowTable) -> tuple[str, ...] | None:
    key = unique_key(node.input)
    return None if key is None else (*key, node.bounds.start, node.bounds.end)


@unique_key.of(Calc)
def _selected_key(node: Calc) -> tuple[str, ...] | None:
    key = unique_key(node.input)
    if key is None:
        return None
    names = {column_name(sql): name for name, sql in reversed(node.select)}
    kept = [names.get(column) for column in key]
    return None if None in kept else tuple(str(name) for name in kept)


@unique_key.of(Exchange)
def _passed_key(node: Exchange) -> tuple[str, ...] | None:
    return unique_key(node.input)


@unique_key.of(Scan, Union, Expand, WindowAssign, LocalAggregate, IncrementalAggregate)
def _no_key(node: Node) -> None:
    return None


@never_deletes.of(Scan)
def _kept_scan(node: Scan) -> bool:
    return node.changes == "append"


@never_deletes.of(Calc)
def _kept_rows(node: Calc) -> bool:
    steady = _constants(node.input)
    passes = node.where is None or appends_only(node.input)
    passes = passes or set(columns_of(node.where or "")) <= steady
    return never_deletes(node.input) and passes


@never_deletes.of(Aggregate, GroupAggregate)
def _kept_groups(node: Aggregate | GroupAggregate) -> bool:
    if node.spec.one_row:
        return True
    below = _rows_below(node)
    moves = not appends_only(below) and not set(node.spec.group_by) <= _constants(below)
    return never_deletes(below) and not moves


@never_deletes.of(WindowAggregate)
def _kept_windows(node: WindowAggregate) -> bool:
    # A session that grows into another takes its result back; what an evictor leaves may be nothing.
    apart = node.windowing.is_vectorised and isinstance(node.windowing.assigner, Aligned)
    return not _updates(node) or (apart and appends_only(_rows_below(node)))


@never_deletes.of(Union, LocalAggregate, IncrementalAggregate, *_PASSING)
def _kept_inputs(node: Node) -> bool:
    return all(never_deletes(each) for each in node.inputs)


@trends.of(Scan)
def _scanned_trends(node: Scan) -> dict[str, Trend]:
    return dict.fromkeys(node.schema.names, "constant") if node.changes == "append" else {}


@trends.of(Calc)
def _selected_trends(node: Calc) -> dict[str, Trend]:
    below = trends(node.input)
    found = {name: below.get(column_name(sql) or "") for name, sql in node.select}
    for name, sql in node.select:
        if set(columns_of(sql)) <= _constants(node.input):
            found[name] = "constant"
    return {name: trend for name, trend in found.items() if trend}


@trends.of(Union)
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


@trends.of(Expand)
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


@trends.of(Aggregate, GroupAggregate)
def _result_trends(node: Aggregate | GroupAggregate) -> dict[str, Trend]:
    input_ = _rows_below(node)
    found: dict[str, Trend] = dict.fromkeys(node.spec.group_by, "constant")
    for index, call in enumerate(node.spec.calls):
        trend = call_trend(node.spec, index, input_)
        if trend is not None:
            found[call.output_name] = trend
    return found


@trends.of(WindowAggregate)
def _window_trends(node: WindowAggregate) -> dict[str, Trend]:
    kept = [*node.keys, *node.bounds.names] if _updates(node) else node.schema.names
    return dict.fromkeys(kept, "constant")


@trends.of(WindowTable, WindowAssign, Exchange, LocalAggregate, IncrementalAggregate)
def _passed_trends(node: Node) -> dict[str, Trend]:
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
        # What has a trend never becomes NULL again, so that a row that counts goes on to count.
        return trend if set(call.args) <= (steady if call.distinct else set(below)) else None
    return trend if below.get(call.args[0]) in (trend, "constant") else None


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
