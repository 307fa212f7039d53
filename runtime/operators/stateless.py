"""The steps of a plan that remember nothing: picking columns, filters, expanding rows, laying them into windows.

They run where rows are packed and inside fragments, on columns. A step is its node over a scan in place of its input,
or a Calc that was lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import LoweredCalc, columns_of, lower_calc
from aggloom.codegen.planner import (
    Bucket,
    Calc,
    Column,
    Correlate,
    Expand,
    FromChangelog,
    Lookup,
    LookupJoin,
    Node,
    RecursionLimit,
    Scan,
    ToChangelog,
    WindowAssign,
    WindowTable,
    call_data,
    call_from,
)
from aggloom.codegen.windows import windowing_data, windowing_of
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.operators.changelog_conversion import from_changelog, to_changelog
from aggloom.runtime.operators.columns import columns_data, columns_from
from aggloom.runtime.operators.correlate import correlate, correlate_rows
from aggloom.runtime.operators.recursion_limit import check_limit
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.assign import assign_windows, window_rows
from aggloom.runtime.storage.arena import NumberArray
from aggloom.runtime.values.key_hash import bucket_column

Step = Node | LoweredCalc


def step_of(node: Node, zone: str = "UTC") -> Step:
    """Return a node as a step.

    zone: where times are that name none. Raises UnsupportedExpressionError for a Calc whose expressions only Spark
    evaluates, SpecError for options that a lookup table's files do not have.
    """
    if isinstance(node, Calc) and node.picked_columns is None:
        columns = node.where, node.select, node.schema, node.input.schema
        return lower_calc(*columns, zone=zone, is_shown=node.shows)
    if isinstance(node, Lookup | LookupJoin):
        from aggloom.runtime.operators.lookup.step import prepare_lookup

        node = prepare_lookup(node, zone)
    return bare(node)


def columns_read(steps: tuple[Step, ...], rows: pa.Schema) -> tuple[str, ...]:
    """Those columns of the rows that go into steps which the first of them reads; all where that is not known."""
    every = tuple(rows.names)
    first = steps[0] if steps else None
    if not isinstance(first, Calc | LoweredCalc):
        return every
    texts = [*(sql for _, sql in first.select), *([first.where] if first.where else [])]
    read = {name for sql in texts for name in columns_of(sql)}
    # Where there are no columns nobody knows how many rows there are.
    return tuple(name for name in every if name in read) or every


def bare(node: Node) -> Node:
    """A node over a scan in place of what is below it."""
    return node.over(Scan("", node.inputs[0].schema, "append"))


def is_step(node: Node) -> bool:
    """Tell whether a node is a step that needs no lowering."""
    if isinstance(node, Lookup | LookupJoin):
        return not node.question.by_engine
    return type(node) in _RUN and (not isinstance(node, Calc) or node.picked_columns is not None)


def run_steps(steps: tuple[Step, ...], rows: Rows) -> Rows:
    """The rows after these steps, in this order."""
    for step in steps:
        if isinstance(step, LoweredCalc):
            rows = step.run(*rows)
        elif is_step(step):
            rows = _RUN[type(step)](step, rows)
        else:
            raise AggloomError(f"{type(step).__name__} is no step that runs on packed rows")
    return rows


def run_alone(step: Node, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NumberArray]:
    """The rows after a step, and for each the number of the row that it was made of (int64[n])."""
    if isinstance(step, Correlate):
        return correlate_rows(step, batch)
    # The numbers stand for the kinds, which no other step changes.
    numbers: Any = np.arange(batch.num_rows)
    return run_steps((step,), (batch, numbers))  # type: ignore[return-value]


def step_data(step: Step) -> dict[str, Any]:
    """A step of a fragment as JSON can hold it."""
    if isinstance(step, WindowAssign):
        windowing = windowing_data(step.windowing)
        return {"windows": windowing, "name": step.name, "rows": columns_data(step.input.schema)}
    if isinstance(step, ToChangelog | FromChangelog):
        return {
            "op": step.op,
            "codes": [list(pair) for pair in step.codes],
            **({"skips": step.skips} if isinstance(step, FromChangelog) else {}),
            "rows": columns_data(step.input.schema),
        }
    if isinstance(step, Correlate):
        return {
            "call": call_data(step.call),
            "answers": columns_data(step.call.answers),
            "outer": step.outer,
            "columns": list(step.columns),
            **({"nets_updates": True} if step.nets_updates else {}),
            "rows": columns_data(step.input.schema),
        }
    if isinstance(step, RecursionLimit):
        rows = columns_data(step.input.schema)
        return {"flag": step.flag, "limit": step.limit, "name": step.name, "rows": rows}
    assert isinstance(step, Calc | LoweredCalc)
    lowered = step if isinstance(step, LoweredCalc) else None
    return {
        "where": step.where,
        "select": [list(pair) for pair in step.select],
        "columns": columns_data(step.schema),
        "rows": columns_data(lowered.rows if lowered else step.input.schema),  # type: ignore[union-attr]
        "zone": lowered.zone if lowered else "",
    }


def step_from(data: Mapping[str, Any]) -> Step:
    """The step of what `step_data` gave; raises SpecError."""
    try:
        scan = Scan("", columns_from(data["rows"]), "append")
        if "windows" in data:
            return WindowAssign(scan, windowing_of(data["windows"]), data["name"])
        if "codes" in data:
            codes = tuple((code, kind) for code, kind in data["codes"])
            if "skips" not in data:
                return ToChangelog(scan, data["op"], codes)
            return FromChangelog(scan, data["op"], codes, skips=bool(data["skips"]))
        if "call" in data:
            call = call_from(data["call"], columns_from(data["answers"]))
            nets = bool(data.get("nets_updates"))
            return Correlate(scan, call, bool(data["outer"]), tuple(data["columns"]), nets)
        if "limit" in data:
            return RecursionLimit(scan, data["flag"], int(data["limit"]), data["name"])
        select = tuple((name, sql) for name, sql in data["select"])
        calc = Calc(scan, select, columns_from(data["columns"]), data["where"])
        return step_of(calc, data["zone"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"a step that cannot be read: {error!r}.") from None


def expand(node: Expand, rows: Rows) -> Rows:
    """Each row once for each projection; the order of rows stays within each."""
    batch, kinds = rows
    parts = [
        _rebuilt(
            [
                _item(item, batch, field.type)
                for item, field in zip(project, node.schema, strict=True)
            ],
            node.schema,
            batch,
        )
        for project in node.projects
    ]
    # One projection is a Calc in disguise: nothing has to be repeated.
    if len(parts) == 1:
        return parts[0], kinds
    # Projection by projection: the kinds are repeated as a whole.
    return pa.concat_batches(parts), np.tile(kinds, len(parts))


def _pick(node: Calc, rows: Rows) -> Rows:
    batch, kinds = rows
    assert node.picked_columns is not None
    return _rebuilt([batch.column(name) for name in node.picked_columns], node.schema, batch), kinds


def _item(item: object, batch: pa.RecordBatch, dtype: pa.DataType) -> pa.Array:
    if isinstance(item, Column):
        return batch.column(item.name)
    if isinstance(item, Bucket):
        columns = [batch.column(name) for name in item.columns]
        return bucket_column(columns, batch.num_rows, item.buckets)
    value = getattr(item, "value", None)
    if value is None:
        return pa.nulls(batch.num_rows, dtype)
    return pa.repeat(pa.scalar(value, dtype), batch.num_rows)


def _attach_lists(node: Lookup, rows: Rows) -> Rows:
    # Few plans ask tables, which needs formats and connections.
    from aggloom.runtime.operators.lookup.step import attach_lists

    return attach_lists(node, rows)


def _join_answers(node: LookupJoin, rows: Rows) -> Rows:
    from aggloom.runtime.operators.lookup.step import join_answers

    return join_answers(node, rows)


def _rebuilt(arrays: list[pa.Array], schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_RUN: dict[type[Node], Callable[[Any, Rows], Rows]] = {
    Calc: _pick,
    Correlate: correlate,
    Expand: expand,
    FromChangelog: from_changelog,
    Lookup: _attach_lists,
    LookupJoin: _join_answers,
    RecursionLimit: check_limit,
    ToChangelog: to_changelog,
    WindowAssign: lambda node, rows: (assign_windows(node, rows[0]), rows[1]),
    WindowTable: lambda node, rows: window_rows(node, *rows),
}
