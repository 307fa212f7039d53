"""FROM with several tables: a tree of joins, and a SELECT over the joined rows, whose columns have one name each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.operators import Node, rename_columns
from aggloom.codegen.planner.builders.clause import Clause, ClauseBuilder
from aggloom.codegen.planner.builders.hints import ttls_of
from aggloom.codegen.planner.builders.join_kinds import join_kind
from aggloom.codegen.planner.builders.join_tree import (
    Correlated,
    JoinedParts,
    Leaf,
    Tree,
    place,
    plan_of_tree,
    schema_of,
    sunk,
    without_padding,
)
from aggloom.codegen.planner.builders.lookup_hints import lookup_hints, refuse_unheeded
from aggloom.codegen.planner.builders.select_items import resolve_items
from aggloom.codegen.planner.builders.subqueries import (
    join_subqueries,
    join_test,
    join_values,
)
from aggloom.codegen.planner.builders.table_functions import (
    check_correlation,
    check_known,
    check_read,
    plan_call,
    rename_answers,
)
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.sql.as_of import AsOf, as_of, without_version
from aggloom.codegen.sql.conditions import column_names, never_null
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.relations import Relation, Relations
from aggloom.codegen.sql.scope import Scope, bare
from aggloom.codegen.sql.shape import check_expression
from aggloom.codegen.sql.subqueries import (
    has_queries,
    is_test,
    queries,
    simplify_condition,
)
from aggloom.codegen.sql.table_calls import TableFunction, read_table_function
from aggloom.errors import SqlError

Merged = Mapping[str, exp.Expression]


def has_joins(tree: exp.Select) -> bool:
    """Tell whether the FROM of a query has several tables, or sub-queries that become some."""
    several = bool(tree.args.get("joins")) or _is_parenthesised(tree.args["from_"].this)
    return several or has_queries(tree)


def plan_from_clause(builder: ClauseBuilder, tree: exp.Select) -> tuple[exp.Select, Node]:
    """The query over the rows of its joins, and their plan."""
    clause = FromClause(builder, tree)
    clause.read_clause()
    return clause.finish()


class FromClause:
    """A FROM on its way: the tree of its joins, and what its columns are called.

    outer: the FROM of the query around this sub-query. correlated: conditions of WHERE or HAVING over columns of both.
    """

    def __init__(
        self, builder: ClauseBuilder, tree: exp.Select, outer: Clause | None = None
    ) -> None:
        self.builder, self.select, self.outer = builder, tree, outer
        self.names_in_use: set[str] = set() if outer is None else outer.names_in_use
        self.correlated: list[exp.Expression] = []
        self.known: dict[tuple[str, bool], exp.Expression] = {}
        self._ttls = ttls_of(tree, _names_in(tree)) if tree.args.get("hint") else {}
        self._lookups, self._looked_up = lookup_hints(tree), set[str]()
        self.tree: Tree
        self.relations: Relations

    def read_clause(self) -> None:
        """Read FROM and its joins from the left to the right."""
        source, joins = self.select.args["from_"].this, self.select.args.get("joins") or []
        self.tree, self.relations = self._joins(source, joins)
        refuse_unheeded(self.select, self._looked_up)

    def finish(self) -> tuple[exp.Select, Node]:
        """The query without its FROM, over the plan of the FROM."""
        self.filter(self.conditions())
        clause, select = join_subqueries(self, self.rewrite_query())
        # Conditions that stayed above the joins go back to WHERE; of a single table they become its filter.
        rest = clause.tree.where
        clause.tree.where = []
        if isinstance(clause.tree, Leaf):
            clause.tree.where, rest = rest, []
        node = plan_of_tree(self.builder, clause.tree)
        select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
        return select, node

    def conditions(self) -> list[exp.Expression]:
        """The conjuncts of WHERE over the joined rows; sub-queries in them are as they were written."""
        where = self.select.args.get("where")
        simplified = simplify_condition(where.this) if where is not None else []
        return [bare(self.relations.resolve(each)) for each in simplified]

    def filter(self, conditions: list[exp.Expression]) -> None:
        """Let only rows pass that meet all conditions, those with sub-queries among them."""
        tests = [each for each in conditions if is_test(each)]
        # Those without sub-queries first: a sub-query may ask of the rows that are left.
        for has in (False, True):
            plain = [e for e in conditions if e not in tests and any(queries(e)) == has]
            self._place_conditions([join_values(self, each, True) for each in plain])
        # Tests last: a semi join is pushed below joins that the conditions have already made inner ones.
        for each in tests:
            join_test(self, each)

    def _place_conditions(self, plain: list[exp.Expression]) -> None:
        for each in plain:
            check_expression(each, is_condition=True)
        known = set(self.tree.columns)
        own = [each for each in plain if column_names(each) <= known]
        self.correlated += [each for each in plain if not column_names(each) <= known]
        # A row that is padded has NULLs there, and fails the condition: the outer join becomes an inner one.
        without_padding(self.tree, {name for each in own for name in never_null(each)})
        for each in own:
            place(self.tree, each)

    def sub(self, builder: ClauseBuilder, query: exp.Select) -> FromClause:
        """The FROM of a sub-query."""
        return FromClause(builder, query, self)

    def join_values(self, node: exp.Expression) -> exp.Expression:
        """An expression whose sub-queries are columns of joins."""
        return join_values(self, node)

    def over(self, tree: Tree, relations: Relations) -> FromClause:
        """The clause above a part of the query: its rows, and the tables by which its columns are still known."""
        above = FromClause(self.builder, exp.select(), self.outer)
        above.names_in_use, above.tree, above.relations = self.names_in_use, tree, relations
        return above

    def fresh(self, stem: str) -> str:
        """A new name for a column."""
        # Names are compared without regard to case, as columns are.
        folded, number = {name.casefold() for name in self.names_in_use}, 0
        while f"${stem}{number}" in folded:
            number += 1
        self.names_in_use.add(f"${stem}{number}")
        return f"${stem}{number}"

    def rewrite_query(self) -> exp.Select:
        """The query with its columns as the joined rows call them; without what FROM and WHERE say."""
        tree = self.select.copy()
        for clause in ("joins", "hint", "where"):
            tree.set(clause, None)
        place = tree.args["from_"].this
        tree.set("from_", exp.From(this=exp.to_table(place.alias_or_name or "joined")))
        aliases = {item.alias.casefold() for item in tree.expressions if item.alias}

        def keep(column: exp.Column) -> bool:
            return not column.table and column.name.casefold() in aliases

        known = self.builder.dialect == "spark"
        tree.set("expressions", resolve_items(tree.expressions, self.relations, known))
        for clause in ("group", "having", "qualify", "order", "windows", "distinct"):
            value = tree.args.get(clause)
            if isinstance(value, exp.Expression):
                tree.set(clause, self.relations.resolve(value, keep))
        return tree

    def _joins(self, source: exp.Expression, joins: list[exp.Join]) -> tuple[Tree, Relations]:
        tree, relations = self._part(source)
        for join in joins:
            tree, relations = self._join(tree, relations, join)
        return tree, relations

    def _part(self, source: exp.Expression) -> tuple[Tree, Relations]:
        """A table of FROM, or joins: in parentheses, or as in `a JOIN b JOIN c ON .. ON ..`."""
        if source.args.get("joins"):
            inner = source.copy()
            inner.set("joins", None)
            return self._joins(inner, source.args["joins"])
        if _is_parenthesised(source) and not source.args.get("pivots"):
            inner = source.this.copy()
            joins = inner.args.get("joins") or []
            inner.set("joins", None)
            tree, relations = self._joins(inner, joins)
            if source.alias:
                columns = dict(self._columns(relations, source))
                relations = self._tables(Relation(frozenset({source.alias}), columns))
            return tree, relations
        if isinstance(source, exp.Lateral) and read_table_function(source) is None:
            fix = "join on the condition, or number the rows with ROW_NUMBER() OVER (...)"
            raise refusal(source, "this LATERAL is", fix)
        function = read_table_function(source)
        if function is not None and self.outer is not None:
            check_known(function, self.outer.relations)
        node, names = self.builder.relation(source)
        if source.alias:
            names = {source.alias}
        node, columns = self.apart(node, names)
        return Leaf(node), self._tables(Relation(frozenset(names), columns))

    def _tables(self, *tables: Relation, merged: Merged | None = None) -> Relations:
        outer = None if self.outer is None else self.outer.relations
        return Relations(tables, merged or {}, outer)

    def _columns(self, relations: Relations, source: exp.Expression) -> list[tuple[str, str]]:
        """The columns of joins in parentheses that have a name, each by its own."""
        columns = []
        for name, node in relations.star():
            if not isinstance(node, exp.Column):
                fix = "take the name away, or write a sub-query"
                raise refusal(source, "a name for a FULL JOIN with USING is", fix)
            columns.append((name, node.name))
        return columns

    def apart(self, node: Node, names: set[str]) -> tuple[Node, dict[str, str]]:
        """A table whose columns have names that no other table's have, and what each is called now."""
        columns = self._name_apart(node.schema.names, names)
        if list(columns) == list(columns.values()):
            return node, columns
        fields = zip(columns.values(), node.schema.types, strict=True)
        return rename_columns(node, pa.schema(list(fields))), columns

    def _name_apart(self, own_names: list[str], names: set[str]) -> dict[str, str]:
        """Names for columns that no other table's have, by their own; names: those of their table."""
        columns: dict[str, str] = {}
        folded = {name.casefold() for name in self.names_in_use}
        # Of several names of a table the shortest makes the shortest columns.
        table = min(names, key=len, default="")
        for name in own_names:
            own, number = name, 2
            while own.casefold() in folded:
                own = f"{table}.{name}" if number == 2 and table else f"{table}.{name}_{number}"
                number += 1
            folded.add(own.casefold())
            columns[name] = own
        self.names_in_use |= set(columns.values())
        return columns

    def _join(self, left: Tree, relations: Relations, join: exp.Join) -> tuple[Tree, Relations]:
        kind = join_kind(join)
        function = read_table_function(join.this)
        if function is not None:
            return self._correlate(left, relations, join, kind, function)
        source_, version = without_version(join.this)
        found_as_of, matching = as_of(join, version, relations)
        right, others = self._part(source_)
        merged = dict(relations.merged)
        both = self._tables(*relations.tables, *others.tables, merged=merged)
        on = join.args.get("on")
        names = [each.name for each in join.args.get("using") or []]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            if len(others.tables) != 1:
                fix = "write the condition with ON"
                raise refusal(join, "NATURAL before joins is", fix)
            (other,) = others.tables
            names = relations.common(other)
        if names:
            if len(others.tables) != 1:
                fix = "write the condition with ON"
                raise refusal(join, "USING of joins in parentheses is", fix)
            conditions, both = self._merge_using(relations, others, names, kind, join)
        else:
            parts = [] if on is None else simplify_condition(on)
            conditions = [bare(both.resolve(each)) for each in parts]
        if names and found_as_of is not None and found_as_of.time is None and not matching:
            # As in DuckDB, the last column is the one that is not equal.
            last = conditions[-1]
            conditions[-1] = exp.GTE(this=last.this, expression=last.expression)
        conditions += [bare(both.resolve(each)) for each in matching]
        # The columns of the right are not seen above a semi or anti join.
        visible = both if kind not in ("semi", "anti") else relations
        ttls = self._ttl(left, relations), self._ttl(right, others)
        joined = JoinedParts(kind, left, right, [], ttls, as_of=found_as_of)
        if found_as_of is not None:
            joined.hint = self._hint(others)
        self._check_as_of(found_as_of, kind)
        columns = {*left.columns, *right.columns}
        outside = [e for e in conditions if any(queries(e)) or not column_names(e) <= columns]
        joined.on = [each for each in conditions if each not in outside]
        for each in joined.on:
            check_expression(each, is_condition=True)
        if not outside:
            return sunk(left, joined) if kind in ("semi", "anti") else joined, visible
        if kind != "inner":
            what = f"a sub-query, or a column of the query around this one, in ON of a {kind.upper()} JOIN is"
            fix = "write the condition in WHERE, or in a sub-query in FROM for one side"
            raise refusal(on, what, fix)
        above = self.over(joined, visible)
        above.filter(outside)
        self.correlated += above.correlated
        return above.tree, visible

    def _correlate(
        self,
        left: Tree,
        relations: Relations,
        join: exp.Join,
        kind: JoinKind,
        function: TableFunction,
    ) -> tuple[Tree, Relations]:
        """Rows joined with those that a table function makes of them; ON is a condition on these."""
        check_correlation(join, kind, function, self.select)
        schema = schema_of(left)
        arguments = [relations.resolve(each) for each in function.arguments]
        for each in arguments:
            check_read(function, each, set(schema.names))
        scope = Scope(schema, self.builder.dialect, set())
        call = plan_call(replace(function, arguments=tuple(arguments)), scope)
        names = {function.alias} - {""}
        columns = self._name_apart(list(call.own), names)
        tree = Correlated(left, rename_answers(call, columns), kind == "left")
        other = Relation(frozenset(names), columns, hidden=function.hidden)
        both = self._tables(*relations.tables, other, merged=dict(relations.merged))
        on = join.args.get("on") if kind == "inner" else None
        for each in simplify_condition(on) if on is not None else []:
            condition = bare(both.resolve(each))
            check_expression(condition, is_condition=True)
            place(tree, condition)
        return tree, both

    def _check_as_of(self, as_of: AsOf | None, kind: JoinKind) -> None:
        """Refuse kinds of joins in which a row of the right finds none of the left."""
        if as_of is not None and kind not in ("inner", "left"):
            what = "ASOF" if as_of.time is None else "FOR SYSTEM_TIME AS OF"
            fix = "write JOIN or LEFT JOIN"
            raise refusal(as_of.place, f"{what} in a {kind.upper()} JOIN is", fix)

    def _merge_using(
        self, left: Relations, right: Relations, names: list[str], kind: JoinKind, join: exp.Join
    ) -> tuple[list[exp.Expression], Relations]:
        """The conditions of USING, and the tables in which its columns are one."""
        conditions, merged = [], dict(left.merged)
        (other,) = right.tables
        once: set[str] = set()
        for name in names:
            sides = [tables.find(exp.column(name)) for tables in (left, right)]
            if sides[0] is None or sides[1] is None:
                which = "left" if sides[0] is None else "right"
                message = f"USING ({name}): the {which} side has no such column."
                raise place_error(SqlError(message), span(join))
            conditions.append(exp.EQ(this=sides[0].copy(), expression=sides[1].copy()))
            # The side that is never padded; of a FULL JOIN whichever has a value.
            whole = {"right": sides[1], "full": exp.func("COALESCE", *sides)}.get(kind, sides[0])
            folded = {known.casefold(): known for known in merged}
            merged[folded.get(name.casefold(), name)] = whole
            once.add(name.casefold())
        tables = tuple(_once(each, once) for each in (*left.tables, other))
        return conditions, self._tables(*tables, merged=merged)

    def _hint(self, table: Relations) -> dict[str, Any]:
        """Return the options that a LOOKUP hint gives for a table that is joined as it is now."""
        names = {name for each in table.tables for name in each.names}
        self._looked_up |= names
        folded = {name.casefold() for name in names}
        return next((hint for name, hint in self._lookups.items() if name in folded), {})

    def _ttl(self, tree: Tree, relations: Relations) -> int | None:
        """Return the time for which a hint keeps a side that is one table."""
        # A hint names a table, and a side of several tables is none.
        if not isinstance(tree, Leaf):
            return None
        (table,) = relations.tables
        return next((ms for name, ms in self._ttls.items() if table.is_called(name)), None)


def _once(table: Relation, names: set[str]) -> Relation:
    own = {name for name in table.columns if name.casefold() in names}
    return replace(table, once=table.once | own)


def _is_parenthesised(source: exp.Expression) -> bool:
    """Tell whether a source is joins in parentheses."""
    return (
        isinstance(source, exp.Subquery)
        and isinstance(source.this, exp.Table | exp.Subquery)
        and bool(source.this.args.get("joins"))
    )


def _names_in(tree: exp.Select) -> set[str]:
    """The names of the tables of a FROM."""
    names = set()
    for clause in [tree.args["from_"], *(tree.args.get("joins") or [])]:
        for source in clause.find_all(exp.Table, exp.Subquery):
            names |= {source.alias_or_name} - {""}
    return names
