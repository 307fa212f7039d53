"""Temporal filters: conditions on the clock become a TemporalFilter, those of WHERE below their block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Calc, Node, TemporalFilter, TimeBound, mark, pick
from aggloom.codegen.operators.temporal_filter import MOST_KEYS
from aggloom.codegen.scalar.expressions import select_names
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK, is_supported, type_name
from aggloom.codegen.sql.clock_conditions import (
    ClockBound,
    ClockConditions,
    has_clock,
    show_condition,
    split_conditions,
    without_digits,
)
from aggloom.codegen.sql.errors import place_error
from aggloom.codegen.sql.numbering_range import conjuncts
from aggloom.codegen.sql.scope import Scope, make_column, name_item, text_of
from aggloom.errors import TypeMismatchError

_TIMES: Final = (INSTANT, WALL_CLOCK, pa.date32())
Aggregate = Callable[[exp.Select, Node, set[str]], Node]


def filter_rows(
    dialect: str, tree: exp.Select, source: Node, names: set[str]
) -> tuple[exp.Select, Node]:
    """A block without its WHERE over the rows that are there now, where that has conditions on the clock.

    Raises UnsupportedSqlError for a condition that has no moments at which rows come and leave.
    """
    where = tree.args.get("where")
    if where is None or not has_clock(where.this):
        return tree, source
    scope = Scope(source.schema, dialect, names)
    # Before the columns are resolved: the error is about the clause, not about names.
    scope.refuse_aggregates(where.this, "WHERE", "move the condition to HAVING")
    parts = [scope.resolve(without_digits(each)) for each in conjuncts(where.this)]
    left = tree.copy()
    # The other conditions go along: the filter's node tests them below.
    left.set("where", None)
    return left, _filter(scope, source, split_conditions(parts), _show(where.this))


def filter_groups(
    aggregate: Aggregate, dialect: str, tree: exp.Select, source: Node, names: set[str]
) -> Node | None:
    """The plan of a block whose HAVING has conditions on the clock; None for others.

    Their values are columns beside those of the block, by which its rows are there.
    """
    having = tree.args.get("having")
    if having is None or not has_clock(having.this):
        return None
    # As GROUP BY has it, whatever the case of the letters.
    aliases = {item.alias.casefold(): item.this for item in tree.expressions if item.alias}
    known = {name.casefold() for name in source.schema.names}

    def name_alias(part: exp.Expression) -> exp.Expression:
        # HAVING may name items by their aliases; a column of the source goes before them.
        own = isinstance(part, exp.Column) and not part.table and part.name.casefold()
        return aliases[own].copy() if own and own in aliases and own not in known else part

    parts = [without_digits(each.transform(name_alias)) for each in conjuncts(having.this)]
    clock_conditions = split_conditions(parts)
    sign = mark(
        source.schema, pa.schema([(item.alias_or_name, pa.null()) for item in tree.expressions])
    )
    values: dict[str, exp.Expression] = {}

    def column(node: exp.Expression | None) -> exp.Expression | None:
        if node is None:
            return None
        # Equal values share a hidden column.
        name = next((n for n, each in values.items() if text_of(each) == text_of(node)), None)
        name = name or f"{sign}value{len(values)}"
        values[name] = node
        return make_column(name)

    bounds = [
        replace(each, value=column(each.value), unless=column(each.unless))
        for each in clock_conditions.bounds
    ]
    inner = tree.copy()
    inner.set(
        "having",
        exp.Having(this=exp.and_(*clock_conditions.plain)) if clock_conditions.plain else None,
    )
    for name, node in values.items():
        inner.append("expressions", name_item(node, name))
    rows = aggregate(inner, source, names)
    scope = Scope(rows.schema, dialect, set())
    timed = _filter(scope, rows, ClockConditions([], bounds), _show(having.this))
    return pick(timed, [name for name in rows.schema.names if name not in values])


def _filter(scope: Scope, source: Node, conditions: ClockConditions, title: str) -> Node:
    """The rows of a source that meet conditions, those on the clock among them."""
    sign = mark(source.schema)
    columns: dict[str, tuple[str, pa.DataType]] = {}
    bounds = tuple(_make_bound(scope, each, columns, sign) for each in conditions.bounds)
    key, is_unique = _find_key(source)
    # The key first: operators find it by its place.
    every = list(dict.fromkeys([*key, *source.schema.names]))
    select = (*select_names(every), *((name, sql) for sql, (name, _) in columns.items()))
    fields = [source.schema.field(name) for name in every]
    fields += [pa.field(name, dtype) for name, dtype in columns.values()]
    where = scope.where_of(exp.select().where(*conditions.plain)) if conditions.plain else None
    rows = Calc(source, select, pa.schema(fields), where)
    return pick(TemporalFilter(rows, key, bounds, title, is_unique), list(source.schema.names))


def _make_bound(
    scope: Scope, bound: ClockBound, columns: dict[str, tuple[str, pa.DataType]], sign: str
) -> TimeBound:
    """A bound over columns, which are added to those that have to be computed."""

    def column(node: exp.Expression, types: tuple[pa.DataType, ...]) -> str:
        sql = scope.input_sql(node)
        with scope.at(node):
            dtype = infer(scope.flink_divisions(node.copy(), scope.types), scope.types)
        if dtype not in types:
            what = "BOOLEAN" if types[0] == pa.bool_() else "TIMESTAMP or DATE"
            problem = f"{show_condition(node)} is {type_name(dtype)}"
            message = f"a condition on the clock needs {what}, and {problem}; cast it."
            raise place_error(TypeMismatchError(message), node)
        # Equal texts share a column, too.
        return columns.setdefault(sql, (f"{sign}time{len(columns)}", dtype))[0]

    unless = None if bound.unless is None else column(bound.unless, (pa.bool_(),))
    value = column(bound.value, _TIMES)
    return TimeBound(bound.sign, bound.clock, value, bound.shift, unless)


def _find_key(source: Node) -> tuple[tuple[str, ...], bool]:
    """The columns by which rows lie: those of a unique key, or all that can be a part of one."""
    unique = source.unique_key
    if unique is not None and len(unique) <= MOST_KEYS:
        return unique, True
    # Any columns will do for where rows lie: equal rows have equal values in them, and meet.
    columns = [field.name for field in source.schema if is_supported(field.type)]
    return tuple(columns[:MOST_KEYS]), False


def _show(node: exp.Expression) -> str:
    return " AND ".join(show_condition(each) for each in conjuncts(node) if has_clock(each))
