"""The logical plan of a spec: the steps below its aggregate, the aggregate, the steps above it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from aggloom.codegen.operators import (
    AggregateNode,
    Calc,
    Column,
    Constant,
    Expand,
    Item,
    Node,
    pick,
)
from aggloom.codegen.scalar.expressions import quote_name, select_names
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.grouping_sets import GROUP_ID


def plan_of_spec(spec: AggSpec, source: Node, sets: list[tuple[str, ...]] | None = None) -> Node:
    """Return the nodes of a spec over the plan of its table: steps below the aggregate, itself, and steps above it."""
    rows = rows_of_spec(spec, source)
    if sets:
        rows, spec = _expand_rows(spec, rows, sets)
    core = core_of(spec)
    return results_of_spec(spec, AggregateNode(rows, core))


def core_of(spec: AggSpec) -> AggSpec:
    """The spec over the columns that its handler reads, with nothing before and nothing after."""
    return AggSpec(spec.handler_schema, spec.group_by, spec.calls, spec.input_changes, spec.dialect)


def rows_of_spec(spec: AggSpec, source: Node) -> Node:
    """WHERE and the computed columns of a spec: the columns that its handler reads."""
    # The number of a set is made by the Expand, not by the rows.
    return calculate_columns(spec, source, [n for n in spec.handler_schema.names if n != GROUP_ID])


def calculate_columns(spec: AggSpec, source: Node, names: list[str]) -> Node:
    """These columns of a spec's input, computed ones among them, of the rows that pass its WHERE."""
    computed = {column.name: column for column in spec.computed}
    # Without a filter or a computed column there is nothing to evaluate.
    if spec.where is None and not set(names) & set(computed):
        return pick(source, names)
    select = []
    for name in names:
        if name in computed:
            column = computed[name]
            select.append((name, f"CAST({column.sql} AS {type_name(column.type)})"))
        else:
            select.append((name, quote_name(name)))
    columns = pa.schema([spec.input_schema.field(name) for name in names])
    return Calc(source, tuple(select), columns, spec.where)


def results_of_spec(spec: AggSpec, node: Node) -> Node:
    """HAVING and the final projection of a spec over the aggregate."""
    if spec.having is None and spec.select is None:
        return node
    select = spec.select or select_names(node.schema.names)
    return Calc(node, tuple(select), spec.output_schema, spec.having)


def _expand_rows(spec: AggSpec, rows: Node, sets: list[tuple[str, ...]]) -> tuple[Node, AggSpec]:
    """The rows once for each set of keys, keys outside the set NULL; calls read the columns as they were."""
    keys = [name for name in spec.group_by if name != GROUP_ID]
    columns = set(rows.schema.names)
    copies: dict[str, str] = {}
    calls = []
    for call in spec.calls:
        read = {*call.args, *(key.column for key in call.order_by), call.filter}
        for name in keys:
            if name in read and name not in copies:
                # SUM(a) .. GROUP BY ROLLUP (a) reads a as it was, also in the sets in which the key is NULL.
                copies[name] = next(n for i in range(999) if (n := f"{name}${i}") not in columns)
        calls.append(
            replace(
                call,
                args=tuple(copies.get(name, name) for name in call.args),
                order_by=tuple(
                    replace(key, column=copies.get(key.column, key.column)) for key in call.order_by
                ),
                filter=copies.get(call.filter, call.filter) if call.filter else None,
                alias=call.output_name,
            )
        )
    # Keys come first, then the set's number, as the aggregate's handler reads them.
    others = [name for name in rows.schema.names if name not in keys]
    fields = [rows.schema.field(name) for name in keys] + [pa.field(GROUP_ID, pa.int64())]
    fields += [rows.schema.field(name) for name in others]
    fields += [pa.field(copy, rows.schema.field(name).type) for name, copy in copies.items()]
    projects = []
    for number, names in enumerate(sets):
        items: list[Item] = [Column(k) if k in names else Constant(None) for k in keys]
        # The number of the set is a key: a NULL that the set has made is no NULL of the data.
        items.append(Constant(number))
        items += [Column(name) for name in (*others, *copies)]
        projects.append(tuple(items))
    schema = pa.schema(fields)
    select = spec.select or select_names(spec.aggregate_schema.names)
    moved = AggSpec(
        schema,
        spec.group_by,
        tuple(calls),
        spec.input_changes,
        spec.dialect,
        having=spec.having,
        select=select,
    )
    return pick(Expand(rows, tuple(projects), schema), moved.handler_schema.names), moved
