"""Calc: a filter and a projection of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.base import (
    Key,
    Node,
    Pruner,
    Title,
    Trend,
    WindowColumns,
    sort_kinds,
)
from aggloom.codegen.operators.plan_text import shown_projection
from aggloom.codegen.scalar.calc import lower_calc
from aggloom.codegen.scalar.expressions import (
    column_name,
    columns_of,
    parse_scalar,
    quote_name,
    quoted_text,
    select_names,
)
from aggloom.codegen.scalar.signs import Signs
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.conditions import never_null
from aggloom.codegen.sql.shape import is_clock
from aggloom.errors import UnsupportedExpressionError

NO_TIME = "CAST(NULL AS TIMESTAMP)"
"""Text that stands for the time of day where nothing reads it."""


@dataclass(frozen=True)
class Calc(Node):
    """A filter and a projection; expressions are Spark SQL over the input's columns.

    shows: an update that leaves the filter is a deletion, one that enters it an insertion, as in a result. Else each
    half is judged alone, which is as good where kinds are read for their signs alone.
    """

    input: Node
    select: tuple[tuple[str, str], ...]
    columns: pa.Schema
    where: str | None = None
    shows: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    @property
    def picked_columns(self) -> tuple[str, ...] | None:
        """The input's columns that it takes, if that is all it does."""
        if self.where is not None:
            return None
        names = [column_name(sql) for _, sql in self.select]
        return None if None in names else tuple(str(name) for name in names)

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        kinds = set(self.input.changelog)
        # The new half of an update may fail the filter that the old one has passed.
        return sort_kinds(kinds | ({"D"} if "UA" in kinds and not self.never_deletes else set()))

    @property
    def is_complete(self) -> bool:
        return self.input.is_complete

    @cached_property
    def never_deletes(self) -> bool:
        below = self.input
        passes = self.where is None or below.appends_only
        # A filter of columns that never change lets both halves of an update pass, or none.
        passes = passes or set(columns_of(self.where or "")) <= below.constants
        return below.never_deletes and passes

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # A filter takes rows away, and no key stops being one by that.
        return self._rename_keys(self.input.unique_keys)

    @cached_property
    def ordered_keys(self) -> tuple[Key, ...]:
        return self._rename_keys(self.input.ordered_keys)

    @cached_property
    def never_null(self) -> frozenset[str]:
        below = set(self.input.never_null)
        if self.where is not None:
            # A filter that is true only where a column has a value rules its NULL out.
            below |= never_null(parse_scalar(self.where))
        return frozenset(name for name, sql in self.select if column_name(sql) in below)

    @cached_property
    def trends(self) -> dict[str, Trend]:
        # Other expressions of a column may turn its trend around.
        below, steady = self.input.trends, self.input.constants
        trends: dict[str, Trend] = {}
        for name, sql in self.select:
            trend = below.get(column_name(sql) or "")
            if set(columns_of(sql)) <= steady:
                trends[name] = "constant"
            elif trend:
                trends[name] = trend
        return trends

    @cached_property
    def non_negative(self) -> frozenset[str]:
        below = self.input.schema
        types = dict(zip(below.names, below.types, strict=True))
        signs = Signs(self.input.non_negative, types).where(self.where)
        return frozenset(name for name, sql in self.select if signs.holds(sql))

    @cached_property
    def clock_columns(self) -> frozenset[str]:
        # Only columns as they are: what is computed of a clock is another value than the time of the row.
        below = self.input.clock_columns
        return frozenset(
            name
            for name, sql in self.select
            if column_name(sql) in below or is_clock(parse_scalar(sql))
        )

    @cached_property
    def event_times(self) -> frozenset[str]:
        below = self.input.event_times
        names = {name for name, sql in self.select if column_name(sql) in below}
        computed = below - set(self.input.schema.names)
        if computed:
            # The time of a table may be an expression: it is a column from here on, or passes with its columns.
            same = {name for name, sql in self.select if column_name(sql) == name}
            names |= {name for name, sql in self.select if quoted_text(sql) in computed}
            names |= {sql for sql in computed if same >= set(columns_of(sql))}
        return frozenset(names)

    @cached_property
    def window_columns(self) -> WindowColumns | None:
        below = self.input.window_columns
        # Reversed, so that of a column which is picked twice the first name stays.
        names = {column_name(sql): name for name, sql in reversed(self.select)}
        if below is None or not {below.start, below.end} <= names.keys():
            return None
        time = names.get(below.time) if below.time else None
        return WindowColumns(names[below.start], names[below.end], time, below.text)

    @cached_property
    def distribution(self) -> Key | None:
        below = self.input.distribution
        names = {column_name(sql): name for name, sql in reversed(self.select)}
        if below is None or not set(below) <= set(names):
            return None
        return tuple(names[column] for column in below)

    def within(self, names: Key) -> tuple[dict[str, str], ...] | str:
        # Pairs of kinds are needed there, and the steps inside a node treat each row alone.
        if self.shows:
            return "between them is a filter whose changes are logged"
        if self.picked_columns is None:
            try:
                lower_calc(self.where, self.select, self.columns, self.input.schema)
            except UnsupportedExpressionError as error:
                return f"between them is an expression that only Spark evaluates ({error})"
        known = {name: column_name(sql) for name, sql in self.select}
        return ({name: own for name in names if (own := known[name]) is not None},)

    @property
    def lineage(self) -> str:
        types = [type_name(field.type) for field in self.schema]
        return f"calc {self.where!r} {self.select!r} {types!r}"

    @property
    def lineage_data(self) -> dict[str, Any]:
        types = (type_name(field.type) for field in self.schema)
        columns = {name: [sql, t] for (name, sql), t in zip(self.select, types, strict=True)}
        return {"where": self.where, "columns": columns}

    @property
    def title(self) -> Title:
        select = {"select": [shown_projection(name, sql) for name, sql in self.select]}
        return "Calc", select | ({} if self.where is None else {"where": [self.where]})

    def emit_changes(self) -> Node:
        # A filter or an expression may read the list, which has to be whole.
        return self if self.picked_columns is None else self.over(self.input.emit_changes())

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        pairs = tuple(pair for pair in self.select if pair[0] in names) or self._spare()
        read = {name for _, sql in pairs for name in columns_of(sql)}
        # Columns that only the filter reads are read below and do not leave.
        read |= set(columns_of(self.where)) if self.where is not None else set()
        below = prune.input(self.input, [n for n in self.input.schema.names if n in read])
        columns = pa.schema([self.columns.field(name) for name, _ in pairs])
        return replace(self, input=below, select=pairs, columns=columns)

    def without_before(self) -> Node:
        return self.over(self.input.without_before())

    def _rename_keys(self, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        """Those of the input's keys that are picked, by their names here."""
        names = {column_name(sql): name for name, sql in reversed(self.select)}
        return tuple(
            tuple(names[column] for column in key)
            for key in keys
            if all(column in names for column in key)
        )

    def _spare(self) -> tuple[tuple[str, str], ...]:
        """A column to keep where only the number of rows matters: none that would be the time of day."""
        plain = [pair for pair in self.select if pair[0] not in self.clock_columns]
        if plain or not self.select:
            return tuple(plain[:1])
        return ((self.select[0][0], NO_TIME),)


def rename_columns(node: Node, schema: pa.Schema) -> Calc:
    """A Calc that gives all columns of a node the names of a schema."""
    pairs = zip(schema.names, node.schema.names, strict=True)
    return Calc(node, tuple((name, quote_name(own)) for name, own in pairs), schema)


def pick(node: Node, names: list[str]) -> Node:
    """A Calc that takes these columns, or the node itself if that changes nothing."""
    if names == node.schema.names:
        return node
    columns = pa.schema([node.schema.field(name) for name in names])
    return Calc(node, select_names(names), columns)


def pick_first(node: Node, names: Iterable[str]) -> Node:
    """A Calc that takes some columns before the others, or the node itself if that changes nothing."""
    return pick(node, list(dict.fromkeys([*names, *node.schema.names])))


def filter_node(node: Node, condition: str | None) -> Node:
    """A Calc of the rows for which a condition is true, or the node itself without one."""
    if condition is None:
        return node
    return Calc(node, select_names(node.schema.names), node.schema, condition)


def compute_columns(node: Node, computed: Iterable[Computed]) -> Node:
    """A Calc that computes columns behind those of a node, or the node itself if there are none."""
    added = tuple(computed)
    if not added:
        return node
    select = (*select_names(node.schema.names), *((each.name, each.sql) for each in added))
    fields = (pa.field(each.name, each.type) for each in added)
    return Calc(node, select, pa.schema([*node.schema, *fields]))
