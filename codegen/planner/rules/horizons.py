"""horizons: a GROUP BY over ROLLING becomes an aggregate that keeps slices, and emits every horizon of a key.

With the horizon among the keys a result has a row for each key and horizon. Without it each call names its horizon in
FILTER, and a key has one row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from aggloom.codegen.operators import (
    AggregateNode,
    Calc,
    Node,
    RollingAggregate,
    RollingColumn,
    RollingLayout,
    RollingTable,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.lifted_windows import LiftedWindow, lift_window
from aggloom.codegen.planner.rules.window_checks import find_call
from aggloom.codegen.planner.rules.windows import bounds_of, namespace_spec, over_windows
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.windows import Rolling, Windowing
from aggloom.errors import SqlError, UnsupportedSqlError, nearest

_PLACE: Final = partial(find_call, "ROLLING")
_FILTER: Final = "FILTER (WHERE horizon = '{}')"
_WHY: Final = "they share their slices; a result is replaced as time passes"
_EMIT: Final = "; table.exec.emit is for windows that end"


def horizons(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Replace every aggregate over a RollingTable; raises UnsupportedSqlError where its horizons are not known."""

    def change(node: Node) -> Node:
        lifted = lift_window(node.input) if isinstance(node, AggregateNode) else None
        if lifted is None or not isinstance(lifted.table, RollingTable):
            return node
        assert isinstance(node, AggregateNode)
        return _make_rolling(node, lifted, options, notes)

    return transform(root, change)


def rolling_over(
    rows: Node, spec: AggSpec, windowing: Windowing, table: RollingTable, layout: RollingLayout
) -> Node:
    """The aggregate of a spec, whose last key is the window's column, over rows without that column."""
    base = over_windows(rows, spec, windowing, bounds_of(spec, table.bounds))
    return RollingAggregate(
        base.input, spec, windowing, base.bounds, is_chained=base.is_chained, layout=layout
    )


def _make_rolling(
    node: AggregateNode, lifted: LiftedWindow, options: PlanOptions, notes: Notes
) -> Node:
    old, assigner = node.spec, lifted.table.assigner
    assert isinstance(assigner, Rolling)
    _check(node, lifted)
    if assigner.event_time:
        # The steps between may have renamed the time.
        assigner = replace(assigner, on=lifted.carried[assigner.columns[0]])
    keys = tuple(name for name in old.group_by if name not in lifted.roles)
    named = [name for name in old.group_by if name in lifted.roles]
    layout, computed = RollingLayout(named[0] if named else ""), old
    if not named:
        layout, calls = _widen(old, keys, lifted, assigner)
        computed = replace(old, schema=lifted.rows.schema, calls=calls)
    spec = namespace_spec(computed, keys, lifted.rows.schema)
    notes.move(old, spec)
    emits = options.early_fire_enabled or options.late_fire_enabled or options.allow_lateness
    notes.add("horizons", spec, True, _WHY + _EMIT * bool(emits))
    windowing = Windowing(assigner, late_rows=options.late_rows)
    assert isinstance(lifted.table, RollingTable)
    aggregate = rolling_over(lifted.rows, spec, windowing, lifted.table, layout)
    own = [named[0] if name in named else name for name in old.aggregate_schema.names]
    select = tuple(zip(old.aggregate_schema.names, map(quote_name, own), strict=True))
    return Calc(aggregate, select, old.aggregate_schema)


def _widen(
    old: AggSpec, keys: tuple[str, ...], lifted: LiftedWindow, assigner: Rolling
) -> tuple[RollingLayout, tuple[AggCall, ...]]:
    """The columns of one row for each key, and the calls that they need: each once, whatever its horizons."""
    lengths = dict(zip(assigner.names, assigner.horizons, strict=True))
    names: dict[AggCall, str] = {}
    columns = []
    for call in old.calls:
        name, rest = lifted.filters[call.filter or ""]
        if name not in lengths:
            message = f"ROLLING has no horizon {name!r}. {nearest(name, list(lengths))}"
            raise place_error(SqlError(message), _PLACE)
        # Without the horizon equal calls are one: each slice holds it once, whatever the horizons that read it.
        core = replace(call, filter=rest or None, alias=None)
        used = {*keys, *names.values()}
        # The text of the call is a name that no user has chosen; ticks tell it from others that happen to be the
        # same.
        alias = next(
            t for t in (core.text + "'" * n for n in range(len(used) + 1)) if t not in used
        )
        columns.append(
            RollingColumn(call.output_name, names.setdefault(core, alias), lengths[name])
        )
    calls = tuple(replace(core, alias=alias) for core, alias in names.items())
    return RollingLayout("", tuple(columns)), calls


def _check(node: AggregateNode, lifted: LiftedWindow) -> None:
    """Refuse what a rolling aggregate does not compute, with the query that does."""
    spec, table = node.spec, lifted.table
    assert isinstance(table.assigner, Rolling)
    first = table.assigner.names[0]
    # A rolling aggregate has one state for all horizons, so its rows cannot be filtered by them before it.
    if lifted.barrier:
        raise _refusal(
            "WHERE over the horizon of ROLLING",
            f"GROUP BY horizon HAVING horizon = '{first}', or write {_FILTER.format(first)}",
        )
    # A horizon as a condition of a call is fine, as its value it is not.
    values = {*spec.group_by, *(name for call in spec.calls for name in _values_of(call))}
    hidden = {*lifted.mixed, *(values & lifted.filters.keys())}
    computed = [name for name in spec.schema.names if name in hidden]
    if computed:
        fix = f"write {_FILTER.format(first)}, with AND for other conditions, or GROUP BY horizon"
        raise _refusal(f"{computed[0]}, which is computed from a horizon,", fix)
    for call in spec.calls:
        if {*_values_of(call), call.filter} & lifted.roles.keys():
            raise _refusal(f"{call.text} of the horizon", "GROUP BY horizon and select it")
    _check_horizons(spec, lifted, first)
    if not table.assigner.event_time and not node.input.appends_only:
        fix = "roll over a time of the rows, DESCRIPTOR(ts)"
        raise _refusal("ROLLING in processing time over changes", fix)


def _values_of(call: AggCall) -> tuple[str, ...]:
    """The columns that a call reads as values, not as a condition."""
    return (*call.args, *(key.column for key in call.order_by))


def _check_horizons(spec: AggSpec, lifted: LiftedWindow, first: str) -> None:
    """Refuse calls of which no one can tell the horizon, or that have two."""
    grouped = any(name in lifted.roles for name in spec.group_by)
    for call in spec.calls:
        if grouped and call.filter in lifted.filters:
            what = f"{call.text} beside GROUP BY horizon"
            raise _refusal(what, "leave the horizon to one of the two")
        if not grouped and call.filter not in lifted.filters:
            fix = f"write {_FILTER.format(first)} after it, or GROUP BY horizon"
            raise _refusal(f"{call.text} over ROLLING without a horizon", fix)
    # Its one row is there at all times, and a key of a rolling aggregate is forgotten once its slices have left.
    if not grouped and spec.one_row:
        fix = "GROUP BY horizon, or by a column of the table that is a constant"
        raise _refusal("ROLLING without GROUP BY, whose only row would have to stay,", fix)


def _refusal(what: str, fix: str) -> UnsupportedSqlError:
    return refusal(_PLACE, f"{what} is", fix)
