"""Recursive queries, unrolled: each step is a join, or what else it is, over the rows of all steps before it.

The rows of k steps are the first rows, and a step from the rows of k - 1 steps. So the plan is a chain, and the rows
that a retracted row has caused are retracted step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node, RecursionLimit, compute_columns, mark, walk
from aggloom.codegen.planner.builders.constant_recursion import FIRST_ROWS, plan_constants
from aggloom.codegen.planner.builders.set_operations import cast_columns
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.agg_spec import AggCall
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.recursion import BOUNDED, RecursiveQuery
from aggloom.codegen.sql.recursion_bound import count_steps
from aggloom.codegen.sql.recursive_path import carry_column, find_path, without_distinct
from aggloom.codegen.sql.scope import make_table
from aggloom.errors import TypeMismatchError

_WIDENINGS: Final = 3
"""The times that the types of the columns may widen until they fit what a step makes of them."""


class RecursionBuilder(Protocol):
    """The builder of the blocks of a query."""

    options: PlanOptions

    def query(self, tree: exp.Expression) -> Node: ...

    def with_tables(self, rows: Mapping[str, Node]) -> RecursionBuilder: ...

    def aggregate_rows(
        self, node: Node, keys: list[str], calls: tuple[AggCall, ...], tree: exp.Expression
    ) -> Node: ...

    def renamed_query(
        self, tree: exp.Expression, names: tuple[str, ...], place: exp.Expression
    ) -> Node: ...


def plan_recursion(builder: RecursionBuilder, query: RecursiveQuery) -> Node:
    """The plan of a recursive query; raises UnsupportedSqlError where nothing says how many steps it may take."""
    for step in query.steps:
        find_path(step, query.name, query.distinct)
    start = builder.renamed_query(_unite(query.starts), query.columns, query.place)
    # Types first: each level has to have those of all others.
    start = _fit_types(builder, query, start)
    limit = query.limit or builder.options.recursion_limit
    # Without a table all rows are known now, and there is nothing to unroll.
    constant = plan_constants(builder, query, _unite((_first_rows(), *query.steps)), start, limit)
    if constant is not None:
        return constant
    steps, unrolling = count_steps(query, start.schema.names), _Unrolling(builder, query, start)
    if steps is not None and (not limit or steps <= limit):
        query.check_unrolled(steps)
        return unrolling.rows_within(steps)
    if not limit:
        what = f"the recursive query {query.name} without a number of steps that it may take is"
        raise refusal(query.place, what, BOUNDED)
    query.check_unrolled(limit)
    # Row by row a row may be too far away for a moment, which would fail the query (decision 107).
    if not builder.options.mini_batch_enabled:
        what = f"a limit for the recursive query {query.name} without mini_batch_enabled is"
        fix = "end it by a condition on a column that counts the steps: 0 AS n .. n + 1 .. WHERE n < 8"
        raise refusal(query.place, what, fix)
    return unrolling.limited_rows(limit)


@dataclass(frozen=True)
class _Unrolling:
    """A recursive query over its first rows, which have its columns' names and types."""

    builder: RecursionBuilder
    query: RecursiveQuery
    start: Node

    def rows_within(self, steps: int) -> Node:
        """The rows of a query that is at its end after so many steps."""
        rows = self.start
        for _ in range(steps):
            rows = self._make_level(self.start, rows, self._plain_steps, ())
        # Without a step the different rows of the first branch still have to be found.
        return rows if steps or not self.query.distinct else self._count_once(rows, ())

    def limited_rows(self, limit: int) -> Node:
        """The rows that are so many steps away, with an error for those that are a step further.

        In a further column the rows that start with a level are true, and those that have started below the first one
        are false. Above the last level these are the ones that have taken one step too many.
        """
        flag = f"{mark(self.start.schema)}within"
        steps = tuple(carry_column(step, self.query.name, flag) for step in self._plain_steps)
        calls = (AggCall("BOOL_OR", (flag,), alias=flag),)
        first, rows = (_with_flag(self.start, flag, text) for text in ("TRUE", "FALSE"))
        # One level more than allowed: what reaches it is the error.
        for _ in range(limit + 1):
            rows = self._make_level(first, rows, steps, calls)
        return RecursionLimit(rows, flag, limit, self.query.name)

    @property
    def _plain_steps(self) -> tuple[exp.Select, ...]:
        if not self.query.distinct:
            return self.query.steps
        return tuple(without_distinct(step, self.query.name) for step in self.query.steps)

    def _make_level(
        self, start: Node, below: Node, steps: tuple[exp.Select, ...], calls: tuple[AggCall, ...]
    ) -> Node:
        """The first rows and those that a step makes of the rows below."""
        inner = self.builder.with_tables({self.query.name.casefold(): below, FIRST_ROWS: start})
        rows = cast_columns(inner.query(_unite((_first_rows(), *steps))), start.schema)
        return self._count_once(rows, calls) if self.query.distinct else rows

    def _count_once(self, rows: Node, calls: tuple[AggCall, ...]) -> Node:
        """The different rows, with the calls over what their copies have in a further column."""
        names = [name for name in rows.schema.names if name not in {c.alias for c in calls}]
        return self.builder.aggregate_rows(rows, names, calls, self.query.place)


def _fit_types(builder: RecursionBuilder, query: RecursiveQuery, start: Node) -> Node:
    """The first rows with types into which fits what any number of steps makes of them."""
    tree = _unite((_first_rows(), *query.steps))
    # A step may make wider values than it reads: a sum of decimals gains a digit each time.
    for _ in range(_WIDENINGS):
        inner = builder.with_tables({query.name.casefold(): start, FIRST_ROWS: start})
        wide = inner.query(tree)
        if any(node.asks_elsewhere for node in walk(wide)):
            what = f"a lookup join in the recursive query {query.name} is"
            fix = "look the rows up in a query that reads it"
            raise refusal(query.place, what, fix)
        if wide.schema.types == start.schema.types:
            return start
        schema = pa.schema(list(zip(start.schema.names, wide.schema.types, strict=True)))
        changed = [n for n in schema.names if schema.field(n).type != start.schema.field(n).type]
        start = cast_columns(start, schema)
    name = changed[0]
    message = (
        f"column {name!r} of {query.name} gets wider with each step, {type_name(schema.field(name).type)} "
        f"by now; CAST it in the step to the type that it has in the beginning."
    )
    raise place_error(TypeMismatchError(message), query.place)


def _unite(branches: tuple[exp.Expression, ...]) -> exp.Expression:
    """The rows of several branches, one after the other."""
    copies = [each.copy() for each in branches]
    return reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), copies)


def _first_rows() -> exp.Select:
    return exp.select(exp.Star()).from_(make_table(FIRST_ROWS))


def _with_flag(rows: Node, flag: str, text: str) -> Node:
    """The rows with a constant in a further column."""
    return compute_columns(rows, [Computed(flag, text, pa.bool_())])
