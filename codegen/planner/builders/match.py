"""plan_match: MATCH_RECOGNIZE in FROM becomes a MatchRows, under a Calc that computes the items of MEASURES."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.match.automaton import MOST_STATES, Automaton, automaton_of
from aggloom.codegen.match.conditions import condition_code
from aggloom.codegen.match.definition import MOST_VARIABLES, DefineCondition, MatchDefinition, Skip
from aggloom.codegen.match.pattern import parse_pattern, variables_of
from aggloom.codegen.operators import Calc, MatchRows, Node, compute_columns, pick_first
from aggloom.codegen.planner.builders.match_define import ConditionBuilder
from aggloom.codegen.planner.builders.match_measures import MeasureBuilder
from aggloom.codegen.planner.builders.match_references import PatternNames
from aggloom.codegen.planner.builders.select_items import refuse_twice
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.dtypes import has_order, is_supported, type_name
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.match_parser import MatchCall
from aggloom.codegen.sql.numbering import SortItem
from aggloom.codegen.sql.scope import Scope, bare, own_name
from aggloom.codegen.sql.windows import duration
from aggloom.errors import (
    DuplicateNameError,
    OptionError,
    SqlError,
    TypeMismatchError,
    UnsupportedExpressionError,
)


class MatchBuilder(Protocol):
    """The builder of the blocks of a query."""

    dialect: str
    options: PlanOptions

    def relation(self, source: exp.Expression) -> tuple[Node, set[str]]: ...

    def changes(self, node: Node) -> str: ...


def plan_match(builder: MatchBuilder, call: MatchCall) -> Node:
    """The plan of a MATCH_RECOGNIZE; raises SqlError and its kin for what no matcher does."""
    rows, tables = builder.relation(call.args["table"])
    return _Planner(builder, call, rows, tables).plan()


class _Planner:
    """Plans one MATCH_RECOGNIZE."""

    def __init__(
        self, builder: MatchBuilder, call: MatchCall, rows: Node, tables: set[str]
    ) -> None:
        self.builder, self.call, self.rows = builder, call, rows
        self.scope = Scope(rows.schema, builder.dialect, tables)
        self.automaton = self._automaton()
        numbers: dict[str, tuple[int, ...]] = {
            name: (number,) for number, name in enumerate(self.automaton.variables)
        }
        self.names = PatternNames({**numbers, **self._subsets(numbers)}, frozenset(tables))

    def plan(self) -> Node:
        partition, order = tuple(self._partition()), self._order()
        by: Literal["row", "processing"] = "row"
        if order[0].column in self.rows.clock_columns:
            by = "processing"
        corrects = self.builder.changes(self.rows) != "append"
        # A retraction would be read at another time than its row, and match nothing.
        if corrects and by == "processing":
            fix = (
                "order by a column with the time of the row, or say of a table whose rows are only added that they are "
                "('changes'='append' in WITH, changes=append of --table, input_changes='append' in Python)"
            )
            what = "MATCH_RECOGNIZE by PROCTIME() over rows that change is"
            raise refusal(self.call.args["order"], what, fix)
        words = self.call.args.get("rows") or "ONE ROW PER MATCH"
        if words.endswith(("SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES", "WITH UNMATCHED ROWS")):
            fix = "write ALL ROWS PER MATCH; a match has a row at least"
            raise refusal(span(self.call), f"{words} is", fix)
        all_rows = words.startswith("ALL")
        definition = self._definition()
        measures = MeasureBuilder(self.scope, self.names, order[0].column)
        items = [self._item(measures, each) for each in self.call.args.get("measures") or ()]
        columns = None
        if all_rows:
            columns = tuple(name for name in self.rows.schema.names if name not in partition)
        below = self._input(partition)
        node = MatchRows(
            below,
            partition,
            order,
            definition,
            measures.measures,
            pattern=" ".join(self.call.args["pattern"].name.split()),
            dialect=self.builder.dialect,
            row_columns=columns,
            by=by,
            corrects=corrects,
        )
        return self._items_over(node, items)

    def _automaton(self) -> Automaton:
        pattern = self.call.args["pattern"]
        place = span(pattern)
        tree = parse_pattern(pattern.name, place[0] if place else 0)
        automaton = automaton_of(tree)
        if automaton is None:
            what = f"a pattern of more than {MOST_STATES} steps is"
            raise refusal(place, what, "repeat less often, or a smaller group")
        if len(variables_of(tree)) > MOST_VARIABLES:
            raise refusal(
                place, f"a pattern of more than {MOST_VARIABLES} variables is", "name fewer"
            )
        if automaton.may_be_empty:
            fix = "let one variable at least be there, as in A+ for A*"
            raise refusal(place, "PATTERN: a match without rows is", fix)
        # DEFINE and MEASURES name variables in any case.
        folded = [name.casefold() for name in automaton.variables]
        twice = next((n for n in automaton.variables if folded.count(n.casefold()) > 1), None)
        if twice is not None:
            message = (
                f"PATTERN: variables that differ in case alone, such as {twice!r}; rename one."
            )
            raise place_error(DuplicateNameError(message), place)
        return automaton

    def _subsets(self, numbers: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The variables of SUBSET by name."""
        plain = PatternNames(numbers, frozenset())
        subsets: dict[str, tuple[int, ...]] = {}
        for subset in self.call.args.get("subsets") or ():
            name, *members = subset.expressions
            if plain.find(name.name) is not None or name.name in subsets:
                message = f"SUBSET: {name.name!r} is named twice; rename one."
                raise place_error(DuplicateNameError(message), name)
            each = {v for m in members for v in plain.require(m.name, m, "SUBSET")}
            subsets[name.name] = tuple(sorted(each))
        return subsets

    def _partition(self) -> Iterator[str]:
        names: set[str] = set()
        for node in self.call.args.get("partition") or ():
            name = self.scope.column(self.scope.resolve(node))
            kind = self.scope.columns_of([name]).field(0).type
            if not is_supported(kind):
                message = (
                    f"PARTITION BY {name}: {type_name(kind)} cannot be a key; take a part of it."
                )
                raise place_error(TypeMismatchError(message), node)
            if name not in names:
                yield name
            names.add(name)

    def _order(self) -> tuple[SortItem, ...]:
        order = self.call.args.get("order")
        if order is None:
            message = "MATCH_RECOGNIZE needs ORDER BY the time of the rows."
            raise place_error(SqlError(message), span(self.call))
        items: dict[str, SortItem] = {}
        for each in order.expressions:
            name = self.scope.column(self.scope.resolve(each.this))
            kind = self.scope.columns_of([name]).field(0).type
            if not has_order(kind):
                message = f"ORDER BY {name}: {type_name(kind)} has no order; order by a part of it."
                raise place_error(TypeMismatchError(message), each)
            down, first = bool(each.args.get("desc")), bool(each.args.get("nulls_first"))
            # A column that comes again decides nothing more.
            items.setdefault(name, SortItem(name, down, first))
        first_item = next(iter(items.values()))
        self._check_time(first_item, order.expressions[0])
        # The processing time of rows rises as they come: what follows it decides nothing.
        clock = first_item.column in self.rows.clock_columns
        return (first_item,) if clock else tuple(items.values())

    def _check_time(self, item: SortItem, place: exp.Expression) -> None:
        """Raise unless the first column of ORDER BY is the time by which rows come."""
        kind = self.scope.columns_of([item.column]).field(0).type
        times = self.rows.event_times
        clock = item.column in self.rows.clock_columns
        if item.descending:
            raise refusal(place, "MATCH_RECOGNIZE in descending order of time is", "write ASC")
        if not clock and not pa.types.is_timestamp(kind):
            message = (
                f"ORDER BY {item.column}: the first column of MATCH_RECOGNIZE is the time of the rows, a TIMESTAMP, "
                f"and not {type_name(kind)}."
            )
            raise place_error(TypeMismatchError(message), place)
        # A row can be sorted into its place only when no earlier one can come, and that is known of the watermark's
        # column.
        if not clock and times and item.column not in times:
            time_names = ", ".join(sorted(times))
            message = (
                f"ORDER BY {item.column}: the watermark goes by {time_names}; order by that first."
            )
            raise place_error(SqlError(message), place)

    def _definition(self) -> MatchDefinition:
        builder = ConditionBuilder(self.scope, self.names, self.builder.dialect)
        skip, skip_to = self._skip()
        conditions = self._conditions(builder)
        definition = MatchDefinition(
            self.automaton,
            builder.fields,
            tuple(builder.operands.values()),
            conditions,
            within=self._within(),
            skip=skip,
            skip_to=skip_to,
        )
        for condition, node in zip(conditions, self.call.args.get("define") or (), strict=True):
            with self.scope.at(node):
                condition_code(condition, definition)
        return definition

    def _conditions(self, builder: ConditionBuilder) -> tuple[DefineCondition, ...]:
        conditions: dict[int, DefineCondition] = {}
        for each in self.call.args.get("define") or ():
            name = each.args["alias"]
            variables = self.names.require(each.alias, name, "DEFINE")
            if len(variables) != 1 or variables[0] in conditions:
                message = f"DEFINE: {each.alias!r} is defined twice, or is a SUBSET; define each variable once."
                raise place_error(DuplicateNameError(message), name)
            conditions[variables[0]] = builder.condition(variables[0], each.this)
        return tuple(conditions.values())

    def _skip(self) -> tuple[Skip, tuple[int, ...]]:
        skip = self.call.args.get("skip")
        if skip is None:
            # As Flink and SQL have it.
            return "PAST LAST ROW", ()
        words: Any = skip.expressions[0].name
        if len(skip.expressions) == 1:
            return words, ()
        name = skip.expressions[1]
        variables = self.names.require(name.name, name, "AFTER MATCH SKIP")
        aims, automaton = frozenset(variables), self.automaton
        whole = f"AFTER MATCH SKIP {words} {name.name}"
        if automaton.avoids(aims):
            fix = "skip to a variable that every match has, or PAST LAST ROW"
            raise refusal(skip, f"{whole}, of which a match may have no row, is", fix)
        starts = automaton.starts_with(aims)
        if starts and (words == "TO FIRST" or any(automaton.avoids(aims, each) for each in starts)):
            fix = "the next match would be the same one; skip TO NEXT ROW"
            raise refusal(skip, f"{whole}, which may be the first row of the match, is", fix)
        return words, variables

    def _within(self) -> int:
        """The microseconds of WITHIN; -1 without one."""
        interval = self.call.args.get("within")
        if interval is None:
            return -1
        try:
            length = duration(interval)
        except OptionError as error:
            raise place_error(SqlError(f"WITHIN: {error}"), interval) from None
        if length <= 0:
            raise place_error(SqlError("WITHIN needs a length above zero."), interval)
        return length * 1000

    def _item(
        self, measures: MeasureBuilder, item: exp.Expression
    ) -> tuple[str, exp.Expression, exp.Expression]:
        """The name of an item of MEASURES, its expression over the values of a match, and where it is written."""
        written = item.this
        node = written.unalias()
        final = item.args.get("frame") == "FINAL"
        value = measures.expression(node, final=final)
        name = written.alias if isinstance(written, exp.Alias) else own_name(node, node)
        return name, bare(value), node

    def _input(self, partition: tuple[str, ...]) -> Node:
        """The rows with the columns that are computed of each, the key before all others."""
        return pick_first(compute_columns(self.rows, self.scope.computed.values()), partition)

    def _items_over(
        self, node: MatchRows, items: list[tuple[str, exp.Expression, exp.Expression]]
    ) -> Node:
        """The columns of the result: the key, for all rows those of the order, the items, and the other columns."""
        ordered = [each.column for each in node.order]
        columns = node.row_columns or ()
        before = [*node.partition, *(name for name in ordered if name in columns)]
        after = [name for name in columns if name not in before]
        scope = Scope(node.schema, self.builder.dialect, set())
        select, fields = [], []
        for name in before:
            select.append((name, quote_name(name)))
            fields.append(node.schema.field(name))
        for name, value, place in items:
            with scope.at(place):
                dtype = infer(scope.flink_divisions(value.copy(), scope.types), scope.types)
                if pa.types.is_null(dtype):
                    raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
            select.append((name, scope.input_sql(value)))
            fields.append(pa.field(name, dtype))
        for name in after:
            select.append((name, quote_name(name)))
            fields.append(node.schema.field(name))
        refuse_twice([name for name, _ in select], span(self.call))
        if not select:
            message = (
                "MATCH_RECOGNIZE has neither PARTITION BY nor MEASURES: its result has no column."
            )
            raise place_error(SqlError(message), span(self.call))
        return Calc(node, tuple(select), pa.schema(fields))
