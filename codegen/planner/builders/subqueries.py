"""Sub-queries as joins: tests of WHERE become semi and anti joins, values a LEFT JOIN with one match at most."""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.planner.builders.clause import Clause
from aggloom.codegen.planner.builders.field_stars import take_stars_off
from aggloom.codegen.planner.builders.join_tree import JoinedParts, Leaf, Tree, plan_of_tree, sunk
from aggloom.codegen.planner.builders.subquery_bounds import existence_by_bound, membership_by_bound
from aggloom.codegen.planner.builders.subquery_marks import (
    ValueOfRows,
    distinct_rows,
    extremes_of_rows,
    membership_of_several,
)
from aggloom.codegen.planner.builders.subquery_rows import (
    Body,
    is_grouped,
    may_be_null,
    never_null_columns,
    plan_group_by,
    plan_subquery,
)
from aggloom.codegen.planner.builders.subquery_ties import (
    cast_to_common,
    match_equality,
    tie_by_values,
)
from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.sql.conditions import column_names
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import bare, make_column, name_item, pretty, text_of
from aggloom.codegen.sql.subqueries import (
    as_membership,
    extremes_of,
    has_queries,
    is_single,
    quantified_value,
    queries,
    split_quantifier,
    unwrap_query,
)
from aggloom.errors import SqlError


def join_test(clause: Clause, condition: exp.Expression) -> None:
    """Let only rows pass for which a sub-query has rows, or none: a semi or anti join."""
    negative = isinstance(condition, exp.Not)
    inner = bare(condition.this) if negative else condition
    kind: JoinKind = "anti" if negative else "semi"
    compared = split_quantifier(inner)
    if isinstance(inner, exp.Exists):
        body = plan_subquery(clause, take_stars_off(inner.this))
        _join(clause, kind, body.tree, body.on, inner)
    elif compared is not None:
        comparison, word, query = compared
        left = join_values(clause, comparison.this)
        body = plan_subquery(clause, query)
        (item,) = _items(body, 1, query)
        each: exp.Expression = type(comparison)(this=left, expression=item)
        if word == "ALL":
            # All rows pass if there is none of which it is not TRUE.
            each = exp.Not(this=exp.func("COALESCE", exp.paren(each), exp.false()))
        _join(clause, "anti" if word == "ALL" else "semi", body.tree, [*body.on, each], inner)
    else:
        _membership(clause, inner, negative)


def join_values(clause: Clause, node: exp.Expression, loose: bool = False) -> exp.Expression:
    """An expression whose sub-queries are columns of joins; `loose`: NULL is as good as FALSE."""
    if not any(queries(node)):
        return node
    node = as_membership(node)
    if isinstance(node, exp.Paren):
        return exp.paren(join_values(clause, node.this, loose))
    if isinstance(node, exp.And | exp.Or):
        sides = [join_values(clause, side, loose) for side in (node.this, node.expression)]
        return type(node)(this=sides[0], expression=sides[1])
    if isinstance(node, exp.Exists | exp.Subquery) or (
        isinstance(node, exp.In) and node.args.get("query")
    ):
        # The same sub-query twice is one join. A loose one answers FALSE for NULL, so that it is another.
        known = (text_of(node), loose)
        if known not in clause.known:
            clause.known[known] = _value(clause, node, loose)
        return clause.known[known].copy()
    compared = split_quantifier(node)
    # A comparison with one row at most needs no quantifier: ALL and ANY are the same there.
    if compared is not None:
        comparison, word, query = compared
        if not is_single(query):
            return exp.paren(_join_quantified(clause, comparison, word, query, loose))
        left, right = join_values(clause, comparison.this), _scalar(clause, query)
        return type(comparison)(this=left, expression=right)
    # What is left has no comparison around it that says how many rows and columns it may have.
    if isinstance(node, exp.Query):
        raise refusal(node, "a sub-query here is", "compare it with a value, IN or EXISTS")
    # Parts of an operator are never loose: NULL and FALSE are not the same to NOT, to = or to CASE.
    whole = node.copy()
    for key, part in list(whole.args.items()):
        if isinstance(part, exp.Expression):
            whole.set(key, join_values(clause, part))
        elif isinstance(part, list):
            whole.set(
                key,
                [join_values(clause, e) if isinstance(e, exp.Expression) else e for e in part],
            )
    return whole


def join_subqueries(clause: Clause, select: exp.Select) -> tuple[Clause, exp.Select]:
    """A SELECT whose sub-queries are columns of joins, and the rows that it is over: those of its GROUP BY, perhaps."""
    if not has_queries(select):
        return clause, select
    # Without a GROUP BY everything is over the same rows.
    if not is_grouped(select):
        items = [join_values(clause, item) for item in select.expressions]
        select.set("expressions", items)
        return clause, select
    group = select.args.get("group")
    for key in group.expressions if group is not None else ():
        if any(queries(_find_key_item(clause, select, key))):
            fix = "compute it in a sub-query in FROM, and group by its column"
            place = key if span(key) else next(queries(_find_key_item(clause, select, key)))
            raise refusal(place, "a sub-query in GROUP BY is", fix)

    def below(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.Query):
            return part.copy()
        return join_values(clause, part).copy() if isinstance(part, CallNode) else part

    # Arguments of calls are read below the aggregate, and have to be columns of joins there; all else stays above it.
    for key in ("expressions", "having"):
        clause_parts = select.args.get(key)
        if clause_parts:
            parts = clause_parts if isinstance(clause_parts, list) else [clause_parts]
            parts = [part.transform(below, copy=True) for part in parts]
            select.set(key, parts if isinstance(clause_parts, list) else parts[0])
    if not has_queries(select):
        return clause, select
    names = [_name(item) for item in select.expressions]
    above, items, tests, *_ = plan_group_by(clause, select)
    above.filter(tests)
    items = [join_values(above, item) for item in items]
    outer = exp.select(*(name_item(item, name) for name, item in zip(names, items, strict=True)))
    outer.set("from_", select.args["from_"].copy())
    # DISTINCT is of the result, and so goes to the outermost block.
    outer.set("distinct", select.args.get("distinct"))
    return above, outer


def _find_key_item(clause: Clause, select: exp.Select, key: exp.Expression) -> exp.Expression:
    """The item of SELECT that a key of GROUP BY names by its number or its alias; any other key as it is."""
    items, plain = select.expressions, bare(key)
    if isinstance(plain, exp.Literal) and plain.is_int and 0 < int(plain.name) <= len(items):
        return items[int(plain.name) - 1]
    # A column of the table goes before an alias, as in Spark's GROUP BY.
    own = {name.casefold() for name in clause.tree.columns}
    if isinstance(plain, exp.Column) and not plain.table and plain.name.casefold() not in own:
        for item in items:
            if item.alias and item.alias.casefold() == plain.name.casefold():
                return item
    return key


def _value(clause: Clause, node: exp.Expression, loose: bool) -> exp.Expression:
    if isinstance(node, exp.Exists):
        return _existence(clause, node)
    if isinstance(node, exp.In):
        return _mark(clause, node, loose)
    return _scalar(clause, node)


def _existence(clause: Clause, node: exp.Exists) -> exp.Expression:
    """EXISTS as a value."""
    query = unwrap_query(take_stars_off(node.this))
    if is_single(query):
        if not query.args.get("having"):
            # An aggregate without GROUP BY has one row at all times.
            return exp.true()
        query = query.copy()
        # HAVING decides whether the one row is there; what it selects does not matter.
        query.set("expressions", [exp.true()])
        return exp.func("COALESCE", _scalar(clause, query), exp.false())
    body = plan_subquery(clause, query)
    bounded = existence_by_bound(clause, body)
    if bounded is not None:
        return _join_value(clause, bounded, node)
    tie_by_values(clause, body.clause, [], node)
    # One row for each value that the query around asks of, so that the LEFT JOIN copies no row.
    rows, _, mark, on = distinct_rows(clause, body, [])
    _join(clause, "left", rows, on, node)
    return exp.func("COALESCE", make_column(mark), exp.false())


def _mark(clause: Clause, node: exp.In, loose: bool) -> exp.Expression:
    """IN as a value: TRUE, FALSE, or NULL where a NULL may be the value that is sought."""
    query, sought = unwrap_query(node.args["query"]), _sought(clause, node)
    if is_single(query):
        if len(sought) > 1 or (query.args.get("having") and not loose):
            what = "IN over an aggregate without GROUP BY, with several columns or with HAVING, is"
            raise refusal(node, what, "compare each value with = and a sub-query")
        return exp.paren(exp.EQ(this=sought[0], expression=_scalar(clause, query)))
    body = plan_subquery(clause, query)
    items = _items(body, len(sought), query)
    pairs = zip(sought, items, strict=True)
    items = [cast_to_common(clause, body.clause, item, own) for own, item in pairs]
    # Where no NULL can be on either side, IN is never NULL: the second join, which looks for them, is not needed.
    empty = any(may_be_null(e, never_null_columns(clause.tree)) for e in sought)
    empty = empty or any(may_be_null(e, never_null_columns(body.tree)) for e in items)
    has_nulls = empty and not loose
    if has_nulls and len(sought) > 1:
        return _join_value(clause, membership_of_several(clause, body, sought, items, node), node)
    bounded = membership_by_bound(clause, body, sought, items, has_nulls)
    if bounded is not None:
        return _join_value(clause, bounded, node)
    rename = tie_by_values(clause, body.clause, items, node)
    items = [rename(item) for item in items]
    rows, names, mark, on = distinct_rows(clause, body, items)
    equal = [
        exp.EQ(this=own.copy(), expression=make_column(name))
        for own, name in zip(sought, names, strict=True)
    ]
    _join(clause, "left", rows, [*equal, *on], node)
    # Where NULL counts as FALSE, or cannot be, the first join says all.
    if not has_nulls:
        return exp.func("COALESCE", make_column(mark), exp.false())
    # A second join, for the rows of the sub-query as a whole: whether there are any, and whether one of them is NULL.
    nulls = exp.Is(this=items[0].copy(), expression=exp.null())
    rows, (is_null,), there, on = distinct_rows(clause, body, [nulls], any_of=True)
    _join(clause, "left", rows, on, node)
    sides = exp.or_(exp.Is(this=sought[0].copy(), expression=exp.null()), make_column(is_null))
    return exp.Case(
        ifs=[
            exp.If(this=make_column(mark), true=exp.true()),
            # Over no rows IN is FALSE, even for a NULL that is sought.
            exp.If(this=exp.Is(this=make_column(there), expression=exp.null()), true=exp.false()),
            exp.If(this=sides, true=exp.cast(exp.null(), "BOOLEAN", dialect="spark")),
        ],
        default=exp.false(),
    )


def _join_quantified(
    clause: Clause, comparison: exp.Expression, word: str, query: exp.Expression, loose: bool
) -> exp.Expression:
    """ANY and ALL as values."""
    plain = extremes_of(query)
    if plain is not None:
        return join_values(clause, quantified_value(comparison, word, plain), loose)
    # Rows of GROUP BY, LIMIT or UNION are planned first: aggregates of their own may stand in their items.
    comparison = type(comparison)(this=join_values(clause, comparison.this), expression=exp.null())
    body = plan_subquery(clause, query)
    (item,) = _items(body, 1, query)
    (rows, on), extremes = extremes_of_rows(clause, body, item, query)
    _join(clause, "left", rows, on, query)
    return quantified_value(comparison, word, extremes)


def _scalar(clause: Clause, query: exp.Expression) -> exp.Expression:
    """The value of a query that has one row at most."""
    body = plan_subquery(clause, query, first_only=True)
    (item,) = _items(body, 1, query)
    inner, builder = set(body.tree.columns), clause.builder
    node = plan_of_tree(builder, body.tree)
    if not body.single:
        # What is set equal to a column of the query around has one value for each of its rows.
        ties = [tie for each in body.on if (tie := match_equality(each, inner)) is not None]
        # One row at most is known only of a unique key all of whose columns are set equal to something.
        equated = body.fixed | {tie.own.name for tie in ties if isinstance(tie.own, exp.Column)}
        if not any(set(key) <= equated for key in node.unique_keys):
            what = "a sub-query that may have several rows, as a value, is"
            fix = "aggregate it (MAX, ANY_VALUE), set its primary key equal to a value, or add LIMIT 1"
            raise refusal(query, what, fix)
    outside = not column_names(item) <= inner
    read_ = {name for each in body.on for name in column_names(each)} & inner
    read_ |= column_names(item) & inner if outside else set()
    value, mark = clause.fresh("value"), clause.fresh("found")
    select = [make_column(name) for name in node.schema.names if name in read_]
    # An item that reads the query around is computed above the join.
    if not outside:
        select.append(name_item(item, value))
    empty = body.empty[0] if body.single else exp.null()
    counts = isinstance(empty, exp.Literal) and isinstance(item, exp.Column)
    # NULL of a LEFT JOIN without a match is also what most aggregates give over no rows; elsewhere a mark distinguishes
    # both.
    marked = outside or not (counts or isinstance(empty, exp.Null))
    if marked:
        select.append(name_item(exp.true(), mark))
    rows = builder.over(exp.select(*select).from_("joined"), node, set())
    _join(clause, "left", Leaf(rows), body.on, query)
    if counts:
        return exp.func("COALESCE", make_column(value), empty.copy())
    if not marked:
        return make_column(value)
    default = None if isinstance(empty, exp.Null) else empty.copy()
    result = item if outside else make_column(value)
    return exp.Case(ifs=[exp.If(this=make_column(mark), true=result)], default=default)


def _membership(clause: Clause, node: exp.In, negative: bool) -> None:
    """IN and NOT IN as joins: NOT IN is not met either where a NULL may be the value that is sought."""
    query, sought = node.args["query"], _sought(clause, node)
    body = plan_subquery(clause, query)
    items = _items(body, len(sought), query)
    never, never_inner = never_null_columns(clause.tree), never_null_columns(body.tree)
    nulls = []
    equal: list[exp.Expression] = []
    for own, item in zip(sought, items, strict=True):
        may = [e for e, s in ((own, never), (item, never_inner)) if may_be_null(e, s)]
        equal.append(exp.EQ(this=own.copy(), expression=item.copy()))
        nulls.append([exp.Is(this=e.copy(), expression=exp.null()) for e in may])
    # Without NOT, a comparison that is NULL lets a row pass as little as one that is FALSE: a semi join will do.
    if not negative or not any(nulls):
        _join(clause, "anti" if negative else "semi", body.tree, [*equal, *body.on], node)
        return
    if len(sought) > 1:
        # A NULL in one place leaves the others to decide.
        either = [exp.paren(exp.or_(e, *n)) if n else e for e, n in zip(equal, nulls, strict=True)]
        _join(clause, "anti", body.tree, [*either, *body.on], node)
        return
    inner = set(body.tree.columns)
    plan = plan_of_tree(clause.builder, body.tree)
    # NOT IN in two anti joins: one by equality, which has a key to lie by, and one for NULLs, whose sub-query is small.
    # As one condition with OR it would have no key, and compare all rows with all.
    _join(clause, "anti", Leaf(plan), [*equal, *body.on], node)
    if all(not column_names(e) & inner or match_equality(e, inner) for e in body.on) and (
        column_names(items[0]) <= inner
    ):
        unknown = exp.Is(this=items[0].copy(), expression=exp.null())
        body.clause.tree = Leaf(plan)
        rows, (name,), _, on = distinct_rows(clause, body, [unknown])
        either = [exp.Is(this=sought[0].copy(), expression=exp.null())]
        either = either if may_be_null(sought[0], never) else []
        if may_be_null(items[0], never_inner):
            either.append(make_column(name))
        _join(clause, "anti", rows, [exp.or_(*either), *on], node)
    else:
        _join(clause, "anti", Leaf(plan), [exp.or_(*nulls[0]), *body.on], node)


def _join(
    clause: Clause,
    kind: JoinKind,
    rows: Tree,
    on: list[exp.Expression],
    place: exp.Expression,
) -> None:
    """Join the rows of a sub-query to those of the query around it."""
    names = {name for each in on for name in column_names(each)}
    if not names <= {*clause.tree.columns, *rows.columns}:
        what = "a sub-query that reads a column of a query two levels out is"
        fix = "let the query between select that column from a join"
        raise refusal(place, what, fix)
    # A LEFT JOIN adds columns that conditions around it read; a semi or anti join may go below others.
    if kind == "left":
        clause.tree = JoinedParts(kind, clause.tree, rows, on)
    else:
        clause.tree = sunk(clause.tree, JoinedParts(kind, clause.tree, rows, on))


def _join_value(clause: Clause, tested: ValueOfRows, place: exp.Expression) -> exp.Expression:
    """The value of a test for rows, whose rows are joined."""
    for rows, on in tested.joins:
        _join(clause, "left", rows, on, place)
    return tested.value


def _sought(clause: Clause, node: exp.In) -> list[exp.Expression]:
    """The values that IN seeks."""
    left = bare(node.this)
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    return [bare(join_values(clause, part)) for part in parts]


def _items(body: Body, count: int, place: exp.Expression) -> list[exp.Expression]:
    """Return the items that a sub-query selects, over its rows."""
    if len(body.items) != count:
        has, needs = len(body.items), f"{count} column" + "s" * (count > 1)
        message = f"this sub-query selects {has}, and {needs} is needed; name as many."
        raise place_error(SqlError(message), span(place) or span(next(queries(place), place)))
    items = [bare(item.unalias()) for item in body.items]
    return [bare(join_values(body.clause, item)) for item in items]


def _name(item: exp.Expression) -> str:
    """Return the name of a column of the result."""
    if item.alias:
        return str(item.alias)
    node = bare(item)
    return str(node.name) if isinstance(node, exp.Column) else pretty(node)
