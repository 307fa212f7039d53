"""The rows of a sub-query: its FROM and WHERE as a part of the joins around it, its GROUP BY as a table below."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.join_tree import Correlated, Leaf, Tree, plan_of_tree
from aggloom.codegen.planner.builders.subquery_ties import (
    compare_in_one_type,
    split_ties,
    tie_by_values,
)
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.conditions import column_names, equality, never_null
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.grouping_sets import has_sets, plain_keys
from aggloom.codegen.sql.numbering_range import conjuncts, whole_number
from aggloom.codegen.sql.relations import Relation
from aggloom.codegen.sql.scope import bare, make_column, make_table, name_item, text_of
from aggloom.codegen.sql.subqueries import empty_value, has_windows, queries, unwrap_query
from aggloom.errors import SqlError, UnknownColumnError


@dataclass
class Body:
    """The parts that a sub-query gives: rows, items over them, and conditions that tie them to the query around it.

    single: whether it is an aggregate without GROUP BY, which gives one row over no rows too; `empty` are its items
    then. fixed: columns that a condition sets equal to a constant.
    """

    clause: Clause
    items: list[exp.Expression]
    single: bool = False
    empty: list[exp.Expression] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)

    @property
    def tree(self) -> Tree:
        """The rows."""
        return self.clause.tree

    @property
    def on(self) -> list[exp.Expression]:
        """The conditions over columns of both."""
        return self.clause.correlated


def plan_subquery(outer: Clause, query: exp.Expression, first_only: bool = False) -> Body:
    """The rows of a sub-query of a query; `first_only`: LIMIT 1 is heeded by each row of the query around it."""
    query = unwrap_query(query).copy()
    limited = any(query.args.get(key) for key in ("limit", "offset"))
    if not limited:
        # Without LIMIT an order of a sub-query's rows has no effect.
        query.set("order", None)
    plain = isinstance(query, exp.Select) and query.args.get("from_") is not None
    first = limited and first_only and plain and _is_first(query)
    plain = plain and (not limited or first)
    if not plain or query.args.get("qualify") or has_windows(query):
        return _plan_closed_query(outer, query)
    builder = outer.builder.within(query)
    clause = outer.sub(builder, query)
    clause.read_clause()
    conditions = clause.conditions()
    clause.filter(conditions)
    compare_in_one_type(outer, clause)
    fixed = {name for each in conditions for name in _find_fixed_columns(each)}
    # LIMIT 1 of a query that nothing around it is read in is one row for all: no key to number by.
    if limited and not clause.correlated:
        return _plan_closed_query(outer, query)
    select = clause.rewrite_query()
    if first or is_grouped(select):
        _tie_below(outer, clause, select)
    if first:
        _keep_first(clause, select)
    if not is_grouped(select):
        return Body(clause, list(select.expressions), fixed=fixed)
    single = not select.args.get("group")
    items, having = [bare(item.unalias()) for item in select.expressions], select.args.get("having")
    if single and having is not None:
        # A row that HAVING drops is not the same as no rows.
        items = [_build_case(having.this, item) for item in items]
        select.set("having", None)
    select.set("expressions", items)
    rows = plan_group_by(clause, select)
    rows.clause.filter(rows.tests)
    empty = [_evaluate_over_no_rows(rows, item) for item in rows.items] if single else []
    known = {name for name in fixed if name in rows.clause.tree.columns}
    return Body(rows.clause, rows.items, single, empty, known)


def _tie_below(outer: Clause, clause: Clause, select: exp.Select) -> None:
    """Make equalities of what ties the rows below an aggregate, or below LIMIT 1, to the query around them."""
    own, around = set(clause.tree.columns), set(outer.tree.columns)

    def is_mixed(part: exp.Expression) -> bool:
        names = set() if any(queries(part)) else column_names(part)
        is_outer = bool((names & around) - own)
        if is_outer and not names & own and isinstance(part, CallNode):
            # In the SQL standard it is one of the query around.
            fix = "aggregate a column of the sub-query, or count its rows"
            raise refusal(
                part, "an aggregate over columns of the query around this one alone is", fix
            )
        return is_outer and bool(names & own)

    having, order = select.args.get("having"), select.args.get("order")
    above = [*select.expressions, *([having] if having is not None else [])]
    mixed = [each for item in above for each in _own(item) if isinstance(each, CallNode)]
    mixed = [each for each in mixed if is_mixed(each)]
    aliases = {item.alias.casefold() for item in select.expressions if item.alias}
    if order is not None and is_mixed(order):
        mixed += [order] if aliases.isdisjoint(map(str.casefold, column_names(order) - own)) else []
    rename = tie_by_values(outer, clause, mixed, select)
    for each in mixed:
        each.replace(rename(each))


def _evaluate_over_no_rows(rows: GroupByRows, item: exp.Expression) -> exp.Expression:
    """Return an item as it is over no rows, in the type that it has over rows.

    Each aggregate becomes 0 or NULL of its own type: of an untyped NULL nobody knows the type of `NULL - 1`.
    """
    if isinstance(item, exp.Column) and item.name in rows.calls:
        return empty_value(rows.calls[item.name])

    def visit(part: exp.Expression) -> exp.Expression:
        if not isinstance(part, exp.Column) or part.name not in rows.calls:
            return part
        value = empty_value(rows.calls[part.name])
        return exp.cast(value, type_name(rows.types[part.name]), dialect="spark")

    return item.transform(visit, copy=True)


def is_grouped(select: exp.Select) -> bool:
    """Tell whether a SELECT is an aggregation, what its sub-queries do aside."""
    # HAVING alone makes an aggregate, too.
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(isinstance(part, CallNode) for item in select.expressions for part in _own(item))


class GroupByRows(NamedTuple):
    """The rows of a GROUP BY, with the items and the conditions of HAVING over them.

    calls: the aggregate call behind each column that holds one; types: the type of each column.
    """

    clause: Clause
    items: list[exp.Expression]
    tests: list[exp.Expression]
    calls: dict[str, CallNode]
    types: dict[str, pa.DataType]


def plan_group_by(clause: Clause, select: exp.Select) -> GroupByRows:
    """Plan the GROUP BY of a SELECT."""
    group = select.args.get("group")
    if has_sets(group) or (group is not None and group.args.get("all")):
        fix = "group in a sub-query in FROM"
        raise refusal(group, "a sub-query beside grouping sets is", fix)
    aliases = {i.alias.casefold(): bare(i.this) for i in select.expressions if i.alias}
    items = [item.unalias() for item in select.expressions]
    written = plain_keys(group) if group is not None else ()
    nodes = [_key(each, items, aliases, clause.tree.columns) for each in written]
    ties, on = split_ties(clause)
    # The sub-query's side of an equality becomes a key: one group is then what one row around it asks for.
    nodes += [tie.own for tie in ties]
    table = _Groups(clause, nodes)
    having = select.args.get("having")
    upper = [table.above(item, {}) for item in items]
    tests = [table.above(e, aliases) for e in conjuncts(having.this)] if having is not None else []
    above = table.build_clause({name for each in (*upper, *tests) for name in _find_columns(each)})
    above.correlated += [*on, *(tie.by(table.keys[text_of(tie.own)][0]) for tie in ties)]
    # By the names of their columns above the table.
    calls = dict(table.calls.values())
    return GroupByRows(above, upper, tests, calls, table.types)


class _Groups:
    """A GROUP BY as a table: a column for each key and for each aggregate that is asked for."""

    def __init__(self, clause: Clause, keys: list[exp.Expression]) -> None:
        self.clause = clause
        self.keys: dict[str, tuple[str, exp.Expression]] = {}
        self.calls: dict[str, tuple[str, CallNode]] = {}
        self.place: dict[str, exp.Expression] = {}
        self.types: dict[str, pa.DataType] = {}
        for node in keys:
            plain = isinstance(node, exp.Column) and node.name in clause.tree.columns
            name = node.name if plain else clause.fresh("key")
            self.keys.setdefault(text_of(node), (name, node))

    def above(self, node: exp.Expression, aliases: dict[str, exp.Expression]) -> exp.Expression:
        """An expression over the columns of the table; `aliases`: the items by their aliases."""

        def visit(part: exp.Expression) -> exp.Expression:
            if isinstance(part, exp.Query):
                return part.copy()
            key = self.keys.get(text_of(part))
            if key is not None:
                return make_column(key[0])
            if isinstance(part, CallNode):
                if text_of(part) not in self.calls:
                    self.calls[text_of(part)] = (self.clause.fresh("agg"), part)
                return make_column(self.calls[text_of(part)][0])
            if isinstance(part, exp.Column):
                self.place.setdefault(part.name, part)
                if not part.table and part.name.casefold() in aliases:
                    item = aliases[part.name.casefold()]
                    if text_of(item) != text_of(part):
                        return exp.paren(self.above(item, {}))
            return part

        return bare(node.transform(visit, copy=True))

    def build_clause(self, columns: set[str]) -> Clause:
        """Return the clause that stands above the table; `columns`: those that are read there."""
        clause = self.clause
        for name in columns & set(clause.tree.columns) - {key for key, _ in self.keys.values()}:
            message = (
                f"column {name!r} is neither grouped nor aggregated; add it to GROUP BY or wrap it."
            )
            raise place_error(SqlError(message), self.place.get(name))
        pairs = [(n, clause.join_values(e)) for n, e in (*self.keys.values(), *self.calls.values())]
        node = plan_of_tree(clause.builder, clause.tree)
        if not pairs:
            # Neither keys nor calls are read: what is left is how many groups there are, which is one.
            pairs = [(clause.fresh("agg"), CallNode(this="COUNT", expressions=[exp.Star()]))]
        block = exp.select(*(name_item(each, n) for n, each in pairs)).from_("joined")
        if self.keys:
            block = block.group_by(*(each.copy() for _, each in self.keys.values()))
        rows = clause.builder.block(block, node, set())
        self.types = dict(zip(rows.schema.names, rows.schema.types, strict=True))
        there = {key for key, _ in self.keys.values()}
        tables = tuple(
            # Above the table only keys can be named by their old names.
            Relation(t.names, {n: o for n, o in t.columns.items() if o in there}, t.once)
            for t in clause.relations.tables
        )
        merged = {n: e for n, e in clause.relations.merged.items() if column_names(e) <= there}
        known = type(clause.relations)(tables, merged, clause.relations.outer)
        return clause.over(Leaf(rows), known)


def never_null_columns(tree: Tree) -> set[str]:
    """The columns of rows that are never NULL, as far as the plan says."""
    if isinstance(tree, Leaf):
        columns = set(tree.node.never_null)
    elif isinstance(tree, Correlated):
        columns = never_null_columns(tree.left)
    else:
        left, right = never_null_columns(tree.left), never_null_columns(tree.right)
        # A side that is padded has NULLs that its own rows do not.
        columns = left if tree.kind in ("inner", "left", "semi", "anti") else set()
        # A semi or anti join has no columns of its right.
        columns = columns | (right if tree.kind in ("inner", "right") else set())
        if tree.kind in ("inner", "semi"):
            columns |= {name for each in tree.on for name in never_null(each)}
    return (columns | {name for each in tree.where for name in never_null(each)}) & set(
        tree.columns
    )


def may_be_null(node: exp.Expression, never: set[str]) -> bool:
    """Tell whether an expression may be NULL."""
    node = bare(node)
    if isinstance(node, exp.Literal | exp.Boolean):
        return False
    return not (isinstance(node, exp.Column) and node.name in never)


def _is_first(query: exp.Expression) -> bool:
    """Tell whether a query asks for its first row, and computes nothing over all."""
    limit = query.args["limit"] if query.args.get("limit") else None
    if not isinstance(query, exp.Select) or not isinstance(limit, exp.Limit):
        return False
    one = whole_number(limit.expression) == 1 and not query.args.get("offset")
    return one and not query.args.get("distinct") and not is_grouped(query)


def _keep_first(clause: Clause, select: exp.Select) -> None:
    """Let the first row stay for each that the query around asks of."""
    ties, tied_by = split_ties(clause)
    keys = [clause.fresh("key") for _ in ties]
    tied_by += [tie.by(key) for tie, key in zip(ties, keys, strict=True)]
    node = plan_of_tree(clause.builder, clause.tree)
    columns = [make_column(name) for name in node.schema.names]
    columns += [name_item(tie.own, key) for tie, key in zip(ties, keys, strict=True)]
    rows = clause.builder.over(exp.select(*columns).from_("joined"), node, set())
    # LIMIT 1 without an order takes any row; by one column it takes the same one after a restart.
    order = select.args.get("order") or exp.Order(
        expressions=[exp.Ordered(this=make_column(node.schema.names[0]))]
    )
    number = exp.Window(
        this=CallNode(this="ROW_NUMBER", distinct=False),
        partition_by=[make_column(key) for key in keys],
        order=order.copy(),
        over="OVER",
    )
    top = exp.select(*(make_column(name) for name in rows.schema.names))
    top = top.from_(make_table("$rows"))
    first = exp.LTE(this=number, expression=exp.Literal.number(1))
    top.set("qualify", exp.Qualify(this=first))
    clause.tree = Leaf(clause.builder.with_tables({"$rows": rows}).query(top))
    clause.correlated = tied_by


def _plan_closed_query(outer: Clause, query: exp.Expression) -> Body:
    """A query that nothing around it is read in: UNION, LIMIT, numberings."""
    query.set("order", query.args.get("order"))
    try:
        node = outer.builder.query(query)
    # Planned by itself such a query lacks the columns around it: the error says so, and not that there is no such
    # column.
    except UnknownColumnError:
        tables = outer.relations
        for column in query.find_all(exp.Column):
            if column.table and tables.find(column) is not None:
                what = "a column of the query around it in a sub-query with UNION, LIMIT or OVER is"
                fix = "join the tables, or compare with a column of the sub-query"
                raise refusal(column, what, fix) from None
        raise
    node, columns = outer.apart(node, set())
    clause = outer.sub(outer.builder, exp.select())
    clause = clause.over(Leaf(node), outer.relations)
    return Body(clause, [make_column(name) for name in columns.values()])


def _key(
    node: exp.Expression,
    items: list[exp.Expression],
    aliases: dict[str, exp.Expression],
    known: list[str],
) -> exp.Expression:
    """The expression that an item of GROUP BY means: an ordinal, an alias or itself."""
    node = bare(node)
    number = whole_number(node)
    if number is not None and 1 <= number <= len(items):
        return bare(items[number - 1])
    if isinstance(node, exp.Column) and not node.table and node.name not in known:
        return aliases.get(node.name.casefold(), node)
    return node


def _own(item: exp.Expression) -> list[exp.Expression]:
    """The parts of an expression but for those of its sub-queries."""
    # A CallNode inside a sub-query is an aggregate of that one.
    return [
        part
        for part in item.walk(prune=lambda each: isinstance(each, exp.Query))
        if not isinstance(part, exp.Query)
    ]


def _find_columns(node: exp.Expression) -> set[str]:
    """The columns that an expression reads but for those of its sub-queries."""
    return {part.name for part in _own(node) if isinstance(part, exp.Column)}


def _build_case(condition: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _find_fixed_columns(condition: exp.Expression) -> set[str]:
    equation = equality(condition)
    if equation is None or any(queries(condition)):
        return set()
    sides = equation.sides
    return {
        own.name
        for own, other in (sides, sides[::-1])
        if isinstance(own, exp.Column) and not column_names(other)
    }
