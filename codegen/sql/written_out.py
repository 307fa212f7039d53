"""Forms of a SELECT that others say, too, and are written out so: DISTINCT ON, LATERAL aggregates, MAX_BY(x, y, n).

`SELECT DISTINCT ON (k) .. ORDER BY k, t` takes the first row of each key: a Top-1. A LATERAL sub-query that aggregates
without GROUP BY has one row for each row to its left: each of its columns is a sub-query with one value. Any other one
is a join (`lateral_rows.py`).
MAX_BY(x, y, n) is the beginning of a list in order. A sub-query of nothing but a value, `(SELECT 2)`, is that value.
"""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.catalogue.registry import canonical
from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.lateral_rows import join_lateral_rows
from aggloom.codegen.sql.lateral_top import lateral_top
from aggloom.codegen.sql.scope import bare, name_item, replace_expression, text_of
from aggloom.errors import SqlError

_BY = {"MAX_BY": True, "ARG_MAX": True, "MIN_BY": False, "ARG_MIN": False}
"""Functions that take n values, and whether those of the greatest y."""
_AGGREGATE_CLAUSES = {"expressions", "from_", "joins", "where"}
"""Clauses of a sub-query that has one row, whatever its source has."""


def write_out(tree: exp.Expression) -> None:
    """Write out these forms wherever a tree has them; raises SqlError for a DISTINCT ON without its order."""
    for query in list(tree.find_all(exp.Subquery)):
        _take_value(query)
    for call in list(tree.find_all(CallNode)):
        _list_greatest(call)
    # From the inside out: a LATERAL sub-query is copied when it is written out, with what is in it.
    for select in reversed(list(tree.find_all(exp.Select))):
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            _number_rows(select, distinct)
        for join in list(select.args.get("joins") or []):
            _ask_for_values(select, join)
        joins = list(select.args.get("joins") or [])
        # Of one table no join is needed.
        for join in joins if joins and lateral_top(select) is None else ():
            join_lateral_rows(select, join)


def _take_value(query: exp.Subquery) -> None:
    """Put the value in the place of a sub-query that has no table: it has one row."""
    select, parent = query.unnest(), query.parent
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return
    # LIMIT and the like may also follow the parentheses around it.
    wrappers = [each for each in query.find_all(exp.Subquery) if each.unnest() is select]
    if any(_has_clauses(each, "this") for each in wrappers) or _has_clauses(select, "expressions"):
        return
    is_item = isinstance(parent, exp.Select) and query.arg_key == "expressions"
    is_operand = (
        isinstance(parent, exp.Condition | exp.Alias | exp.Where | exp.Having)
        and not isinstance(parent, exp.SubqueryPredicate)
        and query.arg_key != "query"
    )
    item = select.expressions[0]
    value: exp.Expression = item.this if isinstance(item, exp.Alias) else item
    # An aggregate, a window or a table function has rows of its own.
    if value.is_star or value.find(CallNode, exp.Window, exp.AggFunc, exp.UDTF, exp.Query):
        return
    if is_item or is_operand:
        replace_expression(query, exp.paren(value))


def _has_clauses(node: exp.Expression, body: str) -> bool:
    return any(value for key, value in node.args.items() if key != body)


def _list_greatest(call: CallNode) -> None:
    """Make the beginning of an ordered list of MAX_BY(x, y, n) and MIN_BY(x, y, n); NULL where no y is known."""
    is_greatest = _BY.get(canonical(call.name))
    if is_greatest is None or len(call.expressions) != 3 or isinstance(call.parent, exp.Window):
        return
    value, by, most = (bare(each) for each in call.expressions)
    if not (isinstance(most, exp.Literal) and most.name.isdigit() and int(most.name) > 0):
        message = f"{call.name.upper()} takes the number of values last, a whole number from 1 on."
        raise place_error(SqlError(message), call)
    # MAX_BY passes over rows without y, which have no place in the order.
    known = exp.Not(this=exp.Is(this=by.copy(), expression=exp.null()))
    own = call.args.get("filter")
    condition = known if own is None else exp.and_(own.copy(), known)
    terms = [exp.Ordered(this=each.copy(), desc=is_greatest) for each in (by, value)]
    for term in terms:
        # As these directions have them by themselves: NULL is the least value.
        term.set("nulls_first", not is_greatest)
    listed = CallNode(this="ARRAY_AGG", expressions=[value.copy()], distinct=False)
    listed.set("order", exp.Order(expressions=terms))
    listed.set("nulls", "respect")
    counted = CallNode(this="COUNT", expressions=[by.copy()], distinct=False)
    for each in (listed, counted):
        each.set("filter", condition.copy())
        each.meta.update(call.meta)
    some = exp.GT(this=counted, expression=exp.Literal.number(0))
    # So many values or, where there is none, NULL: a list of that length is NULL.
    length = exp.Case(ifs=[exp.If(this=some, true=most.copy())])
    call_list = exp.Anonymous(this="SLICE", expressions=[listed, exp.Literal.number(1), length])
    replace_expression(call, call_list)


def _number_rows(select: exp.Select, distinct: exp.Distinct) -> None:
    """Make a Top-1 of a SELECT DISTINCT ON with its ORDER BY."""
    on = distinct.args["on"]
    keys = list(on.expressions) if isinstance(on, exp.Tuple) else [bare(on)]
    order = select.args.get("order")
    terms = [_as_written(each, select) for each in order.expressions] if order is not None else []
    texts = {text_of(key) for key in keys}
    leading = 0
    # The keys may be in any order, but before all else: so one order serves the groups and the first row in each.
    while leading < len(terms) and text_of(bare(terms[leading].this)) in texts:
        leading += 1
    leading_texts = {text_of(bare(each.this)) for each in terms[:leading]}
    if leading_texts != texts or leading == len(terms):
        message = (
            "DISTINCT ON takes the first row of each key in the order of ORDER BY; write ORDER BY the keys, and behind "
            "them what says which row is the first."
        )
        raise place_error(SqlError(message), span(on) or span(select))
    for clause in ("limit", "offset", "qualify"):
        if select.args.get(clause):
            fix = "put it around a sub-query with the DISTINCT ON"
            raise refusal(span(on), f"{clause.upper()} beside DISTINCT ON is", fix)
    # The keys are in PARTITION BY: what follows them orders the rows of one key.
    number = exp.Window(
        this=CallNode(this="ROW_NUMBER", distinct=False),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=[each.copy() for each in terms[leading:]]),
        over="OVER",
    )
    select.set("distinct", None)
    select.set("order", None)
    first = exp.EQ(this=number, expression=exp.Literal.number(1))
    select.set("qualify", exp.Qualify(this=first))


def _as_written(term: exp.Expression, select: exp.Select) -> exp.Expression:
    """A term of ORDER BY with an item's expression in place of its name or its number."""
    inner = bare(term.this)
    items = select.expressions
    item = None
    if (
        isinstance(inner, exp.Literal)
        and inner.name.isdigit()
        and 0 < int(inner.name) <= len(items)
    ):
        item = items[int(inner.name) - 1]
    elif isinstance(inner, exp.Column) and not inner.table:
        named = (each for each in items if isinstance(each, exp.Alias))
        item = next((e for e in named if e.alias.casefold() == inner.name.casefold()), None)
    if item is None:
        return term
    order = term.copy()
    order.set("this", item.unalias().copy())
    return order


def _ask_for_values(select: exp.Select, join: exp.Join) -> None:
    """Make sub-queries with one value of the columns of a LATERAL sub-query that aggregates."""
    values = _values_of(join)
    if values is None:
        return
    stars = [each for each in select.expressions if isinstance(each, exp.Star)]
    # * lists tables in order: the columns of a join in the middle would move to the end.
    if stars and select.args["joins"][-1] is not join:
        return
    # Each column becomes a sub-query of its own; the join is gone.
    alias = join.this.alias.casefold()
    select.set("joins", [each for each in select.args["joins"] if each is not join] or None)
    items = []
    for item in select.expressions:
        items.append(item)
        if isinstance(item, exp.Star):
            items += [name_item(query, name) for name, query in values.items()]
        elif _is_star_of(item, alias):
            items.pop()
            items += [name_item(query, name) for name, query in values.items()]
    select.set("expressions", items)
    folded = {name.casefold(): query for name, query in values.items()}
    # Listed first: columns are replaced while they are gone through.
    for column in [each for each in select.find_all(exp.Column) if _is_of(each, alias, select)]:
        query = folded.get(column.name.casefold())
        if query is None:
            continue
        value: exp.Expression = query.copy()
        if column.parent is select and column.arg_key == "expressions":
            value = name_item(query, column.name)
        column.replace(value)


def _is_star_of(item: exp.Expression, alias: str) -> bool:
    """Tell whether an item is all columns of a source: `s.*`."""
    is_star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    return is_star and item.table.casefold() == alias


def _is_of(column: exp.Column, alias: str, select: exp.Select) -> bool:
    """Tell whether a column of a SELECT, not of a sub-query in it, may be one of a source."""
    if column.find_ancestor(exp.Select) is not select:
        return False
    return column.table.casefold() == alias if column.table else True


def _values_of(join: exp.Join) -> dict[str, exp.Expression] | None:
    """The columns of a LATERAL sub-query that aggregates, each as a sub-query; None for another join."""
    lateral, on = join.this, join.args.get("on")
    is_true = on is None or (isinstance(bare(on), exp.Boolean) and bool(bare(on).this))
    if not isinstance(lateral, exp.Lateral) or lateral.args.get("view") or not is_true:
        return None
    if join.args.get("side") not in (None, "", "LEFT") or not isinstance(
        lateral.this, exp.Subquery
    ):
        return None
    query, alias = lateral.this.this, lateral.args.get("alias")
    if not isinstance(query, exp.Select) or alias is None or not alias.name:
        return None
    if any(value and key not in _AGGREGATE_CLAUSES for key, value in query.args.items()):
        return None
    aliases = [each.name for each in alias.columns]
    names = aliases or [each.alias_or_name for each in query.expressions]
    inner = [each.unalias() for each in query.expressions]
    # An item without an aggregate would be a sub-query with many rows.
    if len(names) != len(inner) or not all(names) or not all(each.find(CallNode) for each in inner):
        return None
    values = {}
    for name, item in zip(names, inner, strict=True):
        one = query.copy()
        one.set("expressions", [item.copy()])
        values[name] = exp.Subquery(this=one)
    return values
