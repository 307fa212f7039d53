"""Recursive queries that read no table, such as one that counts to 100: their rows are computed with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from aggloom.codegen.operators import ONE_ROW, Calc, Node, Scan, Union, walk
from aggloom.codegen.planner.builders.set_operations import cast_columns
from aggloom.codegen.scalar.calc import calculate
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.recursion import RecursiveQuery
from aggloom.codegen.sql.shape import is_clock
from aggloom.errors import SqlError, UnsupportedExpressionError

_MOST: Final = 10_000
"""Rows that are computed with the plan at most."""
_SIGNS: Final = (",", ";", "#", "~", "\t")
"""Signs that may stand between the values of a column: none means more than itself in a regular expression."""
FIRST_ROWS: Final = "$start"
"""The name of the rows with which each level begins."""
_ROWS: Final = "$rows"
"""The name of the rows that a step is computed of."""


class StepBuilder(Protocol):
    """The builder of the blocks of a query."""

    def query(self, tree: exp.Expression) -> Node: ...

    def with_tables(self, rows: Mapping[str, Node]) -> StepBuilder: ...


def plan_constants(
    builder: StepBuilder, query: RecursiveQuery, step: exp.Expression, start: Node, limit: int
) -> Node | None:
    """The plan of the rows of a recursive query that reads no table; None of any other.

    step: its first rows and all its steps as one query. limit: how many it may take; 0: as many as it likes,
    up to a number of rows. Raises SqlError for one that goes on beyond that.
    """
    branches = (*query.starts, *query.steps)
    # PROCTIME() is another value with each batch, so that its rows cannot be laid down now.
    if not _reads(start, ONE_ROW) or any(is_clock(n) for each in branches for n in each.walk()):
        return None
    # The step is planned over tables that stand for the rows of the level before.
    scans = {
        name: Scan(table, start.schema, "append")
        for name, table in ((query.name.casefold(), _ROWS), (FIRST_ROWS, FIRST_ROWS))
    }
    step_plan = builder.with_tables(scans).query(step)
    if not _reads(step_plan, _ROWS, FIRST_ROWS) or not all(map(_has_text, start.schema.types)):
        return None
    step_plan = cast_columns(step_plan, start.schema)
    try:
        rows = _compute(query, start, step_plan, limit)
    except UnsupportedExpressionError:
        # Only Spark evaluates it, and there may be no session yet.
        return None
    if not rows.num_rows:
        return start
    tree = _make_query(rows)
    return None if tree is None else builder.query(tree)


def _compute(query: RecursiveQuery, start: Node, step: Node, limit: int) -> pa.Table:
    one = pa.record_batch({"one": [True]})
    earlier: set[str] = set()
    rows = _new_rows(query, _evaluate(start, {ONE_ROW: one}), earlier)
    levels, count = [rows], rows.num_rows
    while rows.num_rows:
        # Each level of its own: first rows count once, in the first level.
        tables = {_ROWS: rows, FIRST_ROWS: rows.slice(0, 0)}
        rows = _new_rows(query, _evaluate(step, tables), earlier)
        levels.append(rows)
        count += rows.num_rows
        if limit and len(levels) > limit + 1 and rows.num_rows:
            what = f"is not at its end after {limit} steps"
        elif count > _MOST or len(levels) > _MOST:
            what = f"makes more than {_MOST} rows without a table"
        else:
            continue
        message = f"{query.name} {what}; end it by a condition, as in WHERE n < 100."
        raise place_error(SqlError(message), query.place)
    return pa.Table.from_batches(levels, start.schema)


def _new_rows(query: RecursiveQuery, rows: pa.RecordBatch, earlier: set[str]) -> pa.RecordBatch:
    """Those rows that count: all of them, or with UNION those that have not come before."""
    if not query.distinct:
        return rows
    numbers = []
    for number, row in enumerate(rows.to_pylist()):
        # By text, since a row may have values that have no hash.
        if repr(row) not in earlier:
            earlier.add(repr(row))
            numbers.append(number)
    return rows.take(pa.array(numbers, pa.int64()))


def _evaluate(node: Node, tables: Mapping[str, pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of a plan of Calcs and Unions over known rows."""
    if isinstance(node, Scan):
        return tables[node.table]
    if isinstance(node, Union):
        parts = [_evaluate(part, tables) for part in node.parts]
        named = [pa.RecordBatch.from_arrays(part.columns, schema=node.schema) for part in parts]
        return pa.concat_batches(named)
    assert isinstance(node, Calc)
    rows = _evaluate(node.input, tables)
    kinds: Any = np.zeros(rows.num_rows, np.int8)
    return calculate(node.where, node.select, node.schema, rows, kinds)[0]


def _reads(plan: Node, *tables: str) -> bool:
    """Tell whether a plan filters and projects these tables, and does nothing else."""
    return all(
        node.table in tables if isinstance(node, Scan) else isinstance(node, Calc | Union)
        for node in walk(plan)
    )


def _has_text(dtype: pa.DataType) -> bool:
    """Tell whether the values of a type have a text from which a CAST makes them again."""
    types = pa.types
    kinds = (
        types.is_integer,
        types.is_decimal,
        types.is_floating,
        types.is_boolean,
        types.is_string,
    )
    return any(is_kind(dtype) for is_kind in (*kinds, types.is_date, types.is_timestamp))


def _make_query(rows: pa.Table) -> exp.Expression | None:
    """The query that makes these rows, of a text a column; None where no sign can stand between its values."""
    lists, names, items = list[str](), list[str](), list[str]()
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        values = [None if value is None else _text(value) for value in column.to_pylist()]
        texts = {value for value in values if value is not None}
        sign = next((s for s in _SIGNS if not any(s in value for value in texts)), None)
        if sign is None:
            return None
        null = "NULL"
        # The text for NULL must not be that of a value.
        while null in texts:
            null += "_"
        list_text = sign.join(null if value is None else value for value in values)
        text = quote_name(f"$text{len(items)}")
        lists.append(f"SPLIT({_literal(list_text)}, {_literal(sign)})")
        names.append(text)
        value = f"NULLIF({text}, {_literal(null)})" if None in values else text
        items.append(f"CAST({value} AS {type_name(column.type)}) AS {quote_name(name)}")
    source = f"UNNEST({', '.join(lists)}) AS `$constants`({', '.join(names)})"
    query = sqlglot.parse_one(f"SELECT {', '.join(items)} FROM {source}", dialect=AggloomSpark)
    assert isinstance(query, exp.Expression)
    return query


def _text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _literal(text: str) -> str:
    return str(exp.Literal.string(text).sql(dialect=AggloomSpark))
