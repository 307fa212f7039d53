"""SQL to a logical plan: each SELECT is a block over the plan of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import AggregateNode, Calc, Node, Union, rename_columns, walk
from aggloom.codegen.planner.builders.changelog_conversion import plan_changelog_conversion
from aggloom.codegen.planner.builders.constants import values, with_from
from aggloom.codegen.planner.builders.field_stars import write_fields_out
from aggloom.codegen.planner.builders.from_clause import has_joins, plan_from_clause
from aggloom.codegen.planner.builders.hints import set_state_ttl, state_ttl
from aggloom.codegen.planner.builders.insert import type_inserted
from aggloom.codegen.planner.builders.match import plan_match
from aggloom.codegen.planner.builders.numbering import plan_numbering, push_number_bounds
from aggloom.codegen.planner.builders.over import over, plan_open_numberings
from aggloom.codegen.planner.builders.qualified_names import (
    check_columns,
    check_qualified,
    qualify_name,
)
from aggloom.codegen.planner.builders.recursion import plan_recursion
from aggloom.codegen.planner.builders.select_items import name_columns, refuse_twice
from aggloom.codegen.planner.builders.set_operations import (
    cast_columns,
    common_type,
    nameless,
    plan_set_operation,
)
from aggloom.codegen.planner.builders.spec_plan import plan_of_spec
from aggloom.codegen.planner.builders.table_functions import constant_rows
from aggloom.codegen.planner.builders.temporal_filters import filter_groups, filter_rows
from aggloom.codegen.planner.builders.untyped_nulls import type_nulls
from aggloom.codegen.planner.builders.window_query import (
    grouped_by_window,
    refuse_windows,
    table_window,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.rules.windows import windows
from aggloom.codegen.planner.scripts.script import Script, ViewQuery
from aggloom.codegen.scalar.result_types import infer
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.grouping_sets import GROUP_ID, has_sets
from aggloom.codegen.sql.lateral_top import lateral_top
from aggloom.codegen.sql.match_parser import MatchCall
from aggloom.codegen.sql.numbering import numbering_query
from aggloom.codegen.sql.over import over_query
from aggloom.codegen.sql.pivots import pivot_query
from aggloom.codegen.sql.query import SelectBlock
from aggloom.codegen.sql.recursion import read_recursion
from aggloom.codegen.sql.scope import Scope
from aggloom.codegen.sql.shape import check_block, check_source, without_pivots
from aggloom.codegen.sql.stars import select_star_columns
from aggloom.codegen.sql.table_calls import read_table_function
from aggloom.codegen.sql.window_parser import CHANGELOG_FUNCTIONS, WindowCall
from aggloom.codegen.sql.windows import table_arguments
from aggloom.errors import (
    DuplicateNameError,
    SqlError,
    UnknownTableError,
    UnsupportedExpressionError,
    nearest,
)


def logical_plan(
    script: Script, tables: Mapping[str, Node], dialect: str, options: PlanOptions, notes: Notes
) -> Node:
    """Return the logical plan of a script's query over its tables; errors show the place in the text."""
    named: dict[str, Node | ViewQuery] = {name.casefold(): scan for name, scan in tables.items()}
    named |= script.views
    check_qualified(script, named)
    check_columns(script)
    builder = _Builder(named, dialect, options, notes)
    root = builder.query(type_inserted(script, builder._prober(), dialect))
    return plan_open_numberings(dialect, options, root)


@dataclass
class _Builder:
    """Builds the plans of queries that see the same names; `open_views` are those that are being built."""

    named: dict[str, Node | ViewQuery]
    dialect: str
    options: PlanOptions
    notes: Notes
    open_views: frozenset[str] = frozenset()

    def query(self, tree: exp.Expression) -> Node:
        inner = self.within(tree)
        if isinstance(tree, exp.Select):
            tree = with_from(tree)
        if isinstance(tree, exp.Select) and tree.args.get("from_"):
            tree = write_fields_out(lateral_top(tree) or tree, inner._prober().query)
        functions = over_query(tree)
        if functions is not None:
            return over(inner, functions)
        numbering = numbering_query(tree)
        if numbering is not None:
            return plan_numbering(inner, numbering)
        if isinstance(tree, exp.Subquery):
            self._refuse_around(tree)
            return inner.query(tree.this)
        if isinstance(tree, exp.SetOperation):
            return inner._union(tree)
        if isinstance(tree, exp.Select):
            return inner._select(tree)
        raise refusal(tree, "this query is", "write SELECT ... FROM ...")

    def _prober(self) -> _Builder:
        """A builder of plans that are only asked for their columns: what it notes is nobody's."""
        return replace(self, named=dict(self.named), notes=Notes())

    def within(self, tree: exp.Expression) -> _Builder:
        """A builder that sees the WITH queries of a query too."""
        clause = tree.args.get("with_")
        if clause is None:
            return self
        builder = self.with_tables({})
        own: set[str] = set()
        for item in clause.expressions:
            name = item.alias.casefold()
            if name in own:
                message = f"WITH names {item.alias!r} twice; rename one."
                raise place_error(DuplicateNameError(message), item)
            own.add(name)
            builder.named[name] = builder._plan_with(clause, item)
        return builder

    def _plan_with(self, clause: exp.With, item: exp.CTE) -> Node:
        """The plan of a query of WITH."""
        recursion = read_recursion(clause, item)
        if recursion is not None:
            return plan_recursion(self.within(item.this), recursion)
        columns = tuple(column.name for column in item.args["alias"].columns)
        return self.renamed_query(item.this, columns, item)

    def with_tables(self, rows: Mapping[str, Node]) -> _Builder:
        """A builder that sees these rows too, as tables of these names."""
        return replace(self, named={**self.named, **rows})

    def _refuse_around(self, tree: exp.Subquery) -> None:
        for key, value in tree.args.items():
            if value and key not in ("this", "alias", "with_"):
                fix = "take it out; a changelog has no order and no limit"
                raise refusal(tree, f"{key.strip('_').upper()} around a query is", fix)

    def _union(self, tree: exp.SetOperation) -> Node:
        for key, value in tree.args.items():
            if value and key not in ("this", "expression", "distinct", "with_"):
                what = f"{key.strip('_').upper()} after {type(tree).__name__.upper()} is"
                raise refusal(tree, what, "take it out")
        tree = type_nulls(self._prober(), tree)
        distinct = tree.args.get("distinct")
        parts = [self.query(tree.this), self.query(nameless(tree.expression))]
        if isinstance(tree, exp.Union):
            node = self.plan_union(parts, tree)
            return self._distinct(node, tree) if distinct else node
        return plan_set_operation(self, parts, tree)

    def _distinct(self, node: Node, tree: exp.Expression) -> Node:
        """The different rows of a node."""
        return self.aggregate_rows(node, list(node.schema.names), (), tree)

    def aggregate_rows(
        self, node: Node, keys: list[str], calls: tuple[AggCall, ...], tree: exp.Expression
    ) -> Node:
        changes: Any = self.changes(node)
        dialect: Any = self.dialect
        with self._at(tree):
            return AggregateNode(node, AggSpec(node.schema, tuple(keys), calls, changes, dialect))

    def plan_union(self, parts: list[Node], tree: exp.SetOperation) -> Node:
        """The inputs of a UNION with the names of the first and types that all fit into."""
        widths = [len(part.schema) for part in parts]
        if len(set(widths)) > 1:
            counts = " and ".join(map(str, widths))
            message = f"the sides of UNION have {counts} columns; give them as many each."
            raise place_error(SqlError(message), span(tree))
        fields = []
        for first, second in zip(parts[0].schema, parts[1].schema, strict=True):
            dtype = first.type
            if dtype != second.type:
                with self._at(tree):
                    dtype = common_type(first, second)
            fields.append(pa.field(first.name, dtype))
        schema = pa.schema(fields)
        flat: list[Node] = []
        for part in parts:
            cast = cast_columns(part, schema)
            flat += cast.parts if isinstance(cast, Union) else [cast]
        return Union(tuple(flat))

    def _select(self, tree: exp.Select) -> Node:
        if tree.args.get("from_") and has_joins(tree):
            tree, rows = plan_from_clause(self, tree)
            check_block(tree)
            return self.block(tree, rows, set())
        check_block(tree)
        tree, source, names = self._push_number_bounds(
            tree, *self.relation(tree.args["from_"].this)
        )
        alias = tree.args["from_"].this.alias
        ttl = state_ttl(tree, {alias} if alias else names)
        if ttl is None:
            return self.block(tree, source, names)
        node = set_state_ttl(self.block(tree, source, names), source, ttl)

        def count_heeding(of: Node) -> int:
            nodes = walk(windows(of, self.options, Notes()))
            return sum(isinstance(each, AggregateNode) and each.state_ttl == ttl for each in nodes)

        # What the source has is another block's: it may have the same hint.
        if count_heeding(node) == count_heeding(source):
            what = "STATE_TTL on a query whose aggregate is not a GROUP BY without windows is"
            raise refusal(span(tree.args["hint"]), what, "take it out")
        return node

    def over(self, tree: exp.Select, source: Node, names: set[str]) -> Node:
        """The plan of a SELECT over a source of which it may number the rows."""
        return self.block(*self._push_number_bounds(tree, source, names))

    def _push_number_bounds(
        self, tree: exp.Select, source: Node, names: set[str]
    ) -> tuple[exp.Select, Node, set[str]]:
        left, rows = push_number_bounds(Scope(source.schema, self.dialect, names), tree, source)
        return left, rows, names

    def block(self, tree: exp.Select, source: Node, names: set[str]) -> Node:
        """The plan of a SELECT over the plan of its source."""
        tree, source = filter_rows(self.dialect, tree, source, names)
        aggregates = tree.args.get("group") or tree.args.get("having")
        aggregates = aggregates or any(item.find(CallNode) for item in tree.expressions)
        distinct = tree.args.get("distinct")
        if aggregates and distinct is not None and not distinct.args.get("on"):
            plain = tree.copy()
            plain.set("distinct", None)
            return self._distinct(self._aggregate(plain, source, names), tree)
        if aggregates or distinct is not None:
            return self._aggregate(self._starless(tree, source, names), source, names)
        return self._project(tree, source, names)

    def relation(self, source: exp.Expression) -> tuple[Node, set[str]]:
        """The plan of a table in FROM, and the names under which its columns may be qualified."""
        if source.args.get("pivots"):
            return self._pivot(source)
        check_source(source)
        function = read_table_function(source)
        if function is not None:
            return constant_rows(self.dialect, function)
        alias = source.args.get("alias")
        columns = tuple(column.name for column in alias.columns) if alias is not None else ()
        if isinstance(source, exp.Subquery):
            body = source.this if source.alias else source
            node = self.query(nameless(body) if columns else body)
            names = {source.alias} if source.alias else set()
        elif isinstance(source, exp.Values):
            node, names = values(self, source), {source.alias} - {""}
        elif isinstance(source.this, WindowCall):
            node, names = self._windows(source.this), {source.alias}
        elif isinstance(source.this, MatchCall):
            node, names = plan_match(self, source.this), {source.alias} - {""}
        else:
            node, names = self._table(source), {source.alias or source.name, source.name}
        return self.rename_columns(node, columns, source), names

    def _pivot(self, source: exp.Expression) -> tuple[Node, set[str]]:
        """The plan of a table with PIVOT or UNPIVOT after it."""
        node, names = self.relation(without_pivots(source))
        for pivot in source.args["pivots"]:
            query = pivot_query(pivot, node.schema.names, "$pivot")
            node = self.with_tables({"$pivot": node}).query(query)
            alias = pivot.args.get("alias")
            if alias is not None:
                node = self.rename_columns(node, tuple(each.name for each in alias.columns), pivot)
                names = {pivot.alias}
        return node, names

    def _windows(self, call: WindowCall) -> Node:
        """The plan of a window function in FROM, or of what converts changelogs."""
        if call.name in CHANGELOG_FUNCTIONS:
            return plan_changelog_conversion(self, call)
        arguments = table_arguments(call)
        assert arguments.table is not None
        table = arguments.table.this
        rows, _ = self.relation(table)
        names = {table.alias_or_name}
        scope = Scope(rows.schema, self.dialect, names)
        return table_window(scope, rows, arguments, self.options)

    def _table(self, source: exp.Table) -> Node:
        name = qualify_name(source)
        if name not in self.named:
            name = source.name.casefold()
        table = self.named.get(name)
        if table is None or name in self.open_views:
            what = f"there is no table {source.name!r}" if table is None else "a view reads itself"
            message = f"{what}. {nearest(source.name, sorted(self.named))}"
            raise place_error(UnknownTableError(message), source)
        if isinstance(table, ViewQuery):
            names, open_views = dict(self.named), self.open_views | {name}
            builder = replace(self, named=names, open_views=open_views)
            table = builder.renamed_query(table.query, table.columns, source)
            self.named[name] = table
        return table

    def renamed_query(
        self, tree: exp.Expression, names: tuple[str, ...], place: exp.Expression
    ) -> Node:
        """The plan of a query whose columns get these names, if any; its own may then come twice."""
        return self.rename_columns(self.query(nameless(tree) if names else tree), names, place)

    def rename_columns(self, node: Node, names: tuple[str, ...], place: exp.Expression) -> Node:
        if not names:
            return node
        if len(names) != len(node.schema):
            message = f"{len(names)} names for {len(node.schema)} columns; name each of them."
            raise place_error(SqlError(message), span(place))
        refuse_twice(names, place)
        return rename_columns(node, pa.schema(list(zip(names, node.schema.types, strict=True))))

    def _starless(self, tree: exp.Select, source: Node, names: set[str]) -> exp.Select:
        """The block with * written out, as DISTINCT reads it; other aggregates refuse it themselves."""
        if not tree.args.get("distinct"):
            return tree
        scope = Scope(source.schema, self.dialect, names)
        items = [node for item in tree.expressions for node in self._items(item, scope)]
        copy = tree.copy()
        copy.set("expressions", items)
        return copy

    def _items(self, item: exp.Expression, scope: Scope) -> list[exp.Expression]:
        """An item of SELECT, or the columns that its * stands for."""
        inner = item.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if not isinstance(star, exp.Star):
            return [item]
        if inner is not item:
            raise refusal(item, "a name for * is", "take it out, or name the columns")
        if item is not star and item.table.casefold() not in scope.tables:
            raise scope.unknown(item)
        columns = [(n, exp.to_identifier(n, quoted=True)) for n in scope.schema.names]
        return [exp.column(name) for _, name in select_star_columns(item, columns)]

    def _project(self, tree: exp.Select, source: Node, names: set[str]) -> Node:
        """A block without aggregates."""
        scope = Scope(source.schema, self.dialect, names)
        refuse_windows(tree)
        where = scope.where_of(tree)
        select, types, aliases = [], [], []
        left: dict[str, exp.Expression] = {}
        for item in (node for each in tree.expressions for node in self._items(each, scope)):
            written = item.unalias()
            alias = item.alias if isinstance(item, exp.Alias) else None
            node, name = scope.item(written, alias, left)
            with scope.at(node):
                flink = scope.flink_divisions(node.copy(), scope.types)
                dtype = infer(flink, scope.types)
                if pa.types.is_null(dtype):
                    raise UnsupportedExpressionError("NULL has no type; write CAST(NULL AS type).")
            select.append((name, scope.input_sql(node)))
            types.append(dtype)
            aliases.append(alias)
        named = name_columns(select, aliases, tree.expressions[0])
        schema = pa.schema([(name, kind) for (name, _), kind in zip(named, types, strict=True)])
        calc = Calc(source, tuple(named), schema, where)
        is_same = calc.schema == source.schema and calc.picked_columns == tuple(calc.schema.names)
        return source if is_same else calc

    def _aggregate(self, tree: exp.Select, source: Node, names: set[str]) -> Node:
        timed = filter_groups(self._aggregate, self.dialect, tree, source, names)
        if timed is not None:
            return timed
        scope = Scope(source.schema, self.dialect, names)
        tree, source = grouped_by_window(scope, tree, source, self.options)
        schema = source.schema
        if has_sets(tree.args.get("group")):
            if GROUP_ID in schema.names:
                fix = "it is the name of the set of keys; rename the column in a subquery"
                raise refusal(tree.args["group"], f"a column {GROUP_ID} is", fix)
            schema = schema.append(pa.field(GROUP_ID, pa.int64()))
        block = SelectBlock(tree, schema, self.dialect, names)
        return plan_of_spec(AggSpec.of(block.content(self.changes(source))), source, block.sets)

    def changes(self, node: Node) -> str:
        """Changes that an aggregate gets from a node, whose windows are aggregates that know their windows by then."""
        rewritten = windows(node, self.options, Notes())
        return "append" if rewritten.appends_only else "retract"

    def _at(self, node: exp.Expression) -> Any:
        return Scope(pa.schema([]), self.dialect, set()).at(node)
