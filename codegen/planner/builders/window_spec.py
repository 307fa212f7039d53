"""A spec in windows that Python code describes: what the rule `windows` makes of SQL, from a spec and a Windowing."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from aggloom.codegen.operators import HORIZON, Bounds, Calc, Node, RollingLayout, RollingTable, Scan
from aggloom.codegen.planner.builders.spec_plan import calculate_columns, core_of
from aggloom.codegen.planner.builders.window_query import bounds_types, time_type
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.horizons import rolling_over
from aggloom.codegen.planner.rules.window_options import in_zone, with_options
from aggloom.codegen.planner.rules.windows import namespace_spec, over_windows
from aggloom.codegen.scalar.expressions import columns_of, infer_type, select_names
from aggloom.codegen.spec import checks as spec_check
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import INSTANT, type_name
from aggloom.codegen.windows import DeltaTrigger, Rolling, Trigger, Windowing, result_schema
from aggloom.errors import DuplicateNameError, SpecError, TypeMismatchError

Select = tuple[tuple[str, str], ...]
_WHERE = "window"
_OURS = "aggloom.codegen.windows"


def plan_of_windows(
    spec: AggSpec,
    windowing: Windowing,
    scan: Scan,
    options: PlanOptions,
    notes: Notes,
    names: tuple[str, str, str],
    having: str | None = None,
    select: Select | None = None,
) -> Node:
    """The logical plan of a spec in windows over its table: rows, aggregate, HAVING and the final projection."""
    dtype = _check_columns(spec, windowing)
    # First, since the options decide the trigger, and what follows asks for the columns that it reads.
    windowing = with_options(windowing, options)
    is_rolling = isinstance(windowing.assigner, Rolling)
    if is_rolling and not windowing.assigner.event_time and not scan.appends_only:
        raise SpecError(
            f"{_WHERE}: Rolling in processing time over changes is not supported; give it a column on=...."
        )
    # Only instants have clocks of a zone; a wall clock is laid out as it is.
    if dtype == INSTANT:
        assigner = in_zone(windowing.assigner, options.local_time_zone)
        windowing = replace(windowing, assigner=assigner)
    elif getattr(windowing.assigner, "time_zone", None) is not None:
        raise TypeMismatchError(
            f"{_WHERE}: time_zone is for instants, and column {_on(windowing)!r} is a wall clock "
            f"({type_name(dtype)}); take time_zone out."
        )
    bounds = Bounds(*names, *bounds_types(dtype, spec.dialect))
    more = result_schema(windowing.function)
    _refuse_clashes(spec, (HORIZON,) if is_rolling else names, more)
    extras = _extras(spec, windowing)
    own = namespace_spec(core_of(spec), spec.group_by, spec.input_schema)
    read = [name for name in own.schema.names if name != own.group_by[-1]]
    needed = list(dict.fromkeys((*read, *extras, *windowing.assigner.columns)))
    rows = calculate_columns(spec, scan, needed)
    # Columns that only the trigger or the user's function reads: they go along with the row, and no aggregate sees
    # them.
    besides = tuple(name for name in extras if name not in read)
    notes.add("windows", own, True, "the windows are those that were asked for")
    if isinstance(windowing.assigner, Rolling):
        table = RollingTable(scan, windowing.assigner, bounds)
        node: Node = rolling_over(rows, own, windowing, table, RollingLayout())
    else:
        node = over_windows(rows, own, windowing, bounds, besides)
    return _results(node, having or spec.having, select or spec.select)


def _check_columns(spec: AggSpec, windowing: Windowing) -> pa.DataType:
    """The type of the time by which windows go, all columns that they look at being there."""
    assigner, evictor = windowing.assigner, windowing.evictor
    assert windowing.trigger is not None
    looked = (*assigner.columns, *windowing.trigger.columns)
    for name in (*looked, *(() if evictor is None else evictor.columns)):
        spec_check.require_column(name, spec.input_schema, _WHERE)
    _check_delta(windowing.trigger.innermost, spec.input_schema)
    gap = getattr(assigner, "gap_column", None)
    if gap is not None and not pa.types.is_integer(spec.input_schema.field(gap).type):
        dtype_name = type_name(spec.input_schema.field(gap).type)
        raise TypeMismatchError(
            f"{_WHERE}: gap_column {gap!r} is {dtype_name}; it must be a whole number of milliseconds, so cast it."
        )
    on = _on(windowing)
    # Windows without a column go by the clock, whose times are instants.
    if on is None:
        return INSTANT
    return time_type(Scan("t", spec.input_schema), on, _WHERE)


def _check_delta(trigger: Trigger, schema: pa.Schema) -> None:
    """Raise TypeMismatchError for a DeltaTrigger over values whose difference is no number, or that have no state."""
    if not isinstance(trigger, DeltaTrigger):
        return
    kind = schema.field(trigger.column).type
    tests = (pt.is_integer, pt.is_floating, pt.is_decimal)
    own = (pt.is_string, pt.is_boolean) if trigger.delta is not None else ()
    if not any(test(kind) for test in (*tests, *own)):
        raise TypeMismatchError(
            f"{_WHERE}: DeltaTrigger compares column {trigger.column!r}, which is {type_name(kind)}; it takes numbers, "
            "and with delta= texts and BOOLEANs as well."
        )


def _on(windowing: Windowing) -> str | None:
    return getattr(windowing.assigner, "on", None)


def _refuse_clashes(spec: AggSpec, bounds: tuple[str, ...], more: pa.Schema) -> None:
    names = (*bounds, *more.names)
    for name in names:
        if name in spec.aggregate_schema.names or names.count(name) > 1:
            raise DuplicateNameError(
                f"{_WHERE}: two columns of the result are called {name!r}; rename the key or the call, "
                "or give bounds_names, or another name in the schema of the window function."
            )


def _extras(spec: AggSpec, windowing: Windowing) -> tuple[str, ...]:
    """The columns of a row that its windows look at, besides the time."""
    on = _on(windowing)
    columns = tuple(name for name in windowing.assigner.columns if name != on)
    if windowing.evictor is not None:
        columns += windowing.evictor.columns
    assert windowing.trigger is not None
    columns += windowing.trigger.columns
    # A function of the user's may look at any column.
    if windowing.function is not None or not _is_built_in(windowing.trigger):
        columns += tuple(spec.input_schema.names)
    return tuple(dict.fromkeys(columns))


def _is_built_in(trigger: Trigger) -> bool:
    """Tell whether a trigger says which columns it looks at: a user's own may look at all."""
    return type(trigger.innermost).__module__.startswith(_OURS)


def _results(node: Node, having: str | None, select: Select | None) -> Node:
    """HAVING and the final projection over the aggregate and its windows' bounds."""
    if having is None and select is None:
        return node
    schema = node.schema
    if having is not None:
        _require_columns(having, schema, "having")
        if infer_type(having, schema) != pa.bool_():
            raise TypeMismatchError(f"having: {having} is no condition; compare it with something.")
    chosen = select or select_names(schema.names)
    for name, sql in chosen:
        _require_columns(sql, schema, f"select {name!r}")
    fields = [pa.field(name, infer_type(sql, schema)) for name, sql in chosen]
    return Calc(node, chosen, pa.schema(fields), having)


def _require_columns(sql: str, schema: pa.Schema, where: str) -> None:
    for name in columns_of(sql):
        spec_check.require_column(name, schema, where)
