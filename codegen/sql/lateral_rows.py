"""LATERAL sub-queries that read the tables to their left in WHERE alone, as joins on those conditions.

`FROM s, LATERAL (SELECT a FROM u WHERE u.k = s.k ORDER BY v LIMIT 3) AS l` joins each s with the first rows of u that
have its key: ROW_NUMBER numbers them by the columns that are set equal to those of s. Without LIMIT it is a plain join.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.numbering_range import conjuncts
from aggloom.codegen.sql.scope import bare
from aggloom.codegen.sql.subqueries import has_queries

_CLAUSES = {"expressions", "from_", "joins", "where", "order", "limit"}


def join_lateral_rows(select: exp.Select, join: exp.Join) -> None:
    """Make a join of a LATERAL sub-query whose conditions alone read the tables to its left; leave any other."""
    query, alias = _read_lateral(join)
    if query is None:
        return
    if alias is None:
        # In Flink it needs none; each has a name of its own for the columns that the join goes by.
        place = next(i for i, each in enumerate(select.args["joins"]) if each is join)
        alias = exp.TableAlias(this=exp.to_identifier(f"$lateral{place}", quoted=True))
    outer = _names_to_the_left(select, join) - set(_names_of(query))
    own, tied = list[exp.Expression](), list[exp.Expression]()
    where = query.args.get("where")
    for each in conjuncts(where.this) if where is not None else ():
        (tied if _reads(each, outer) else own).append(each)
    parts = [each for each in query.args.items() if each[0] != "where"]
    rest = [e for _, value in parts for e in (value if isinstance(value, list) else [value])]
    if not tied or any(isinstance(e, exp.Expression) and _reads(e, outer) for e in rest):
        return
    if any(has_queries(each) for each in tied):
        return
    inner, conditions = query.copy(), list[exp.Expression]()
    hidden: list[exp.Expression] = []
    keys: list[exp.Expression] = []
    for each in tied:
        pair = _split_equality(each, outer)
        # The first rows of a key are numbered by what is equal, so that with LIMIT all has to be.
        if pair is None and query.args.get("limit"):
            return
        sides = [pair[0]] if pair is not None else _find_own(each, outer)
        condition = each.copy()
        for side in sides:
            # No name that a query has by itself.
            name = f"${alias.name}.{len(hidden)}"
            hidden.append(exp.alias_(side.copy(), name, quoted=True))
            keys.append(side)
            _replace(condition, side, exp.column(name, table=alias.name, quoted=True))
        conditions.append(condition)
    inner.set("where", exp.Where(this=exp.and_(*own)) if own else None)
    inner.set("expressions", [*_name_items(query, alias), *hidden])
    if query.args.get("limit"):
        _number(inner, keys)
    side = "LEFT" if join.side == "LEFT" else None
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=alias.this.copy()))
    join.replace(exp.Join(this=source, side=side, on=exp.and_(*conditions)))
    for item in select.expressions:
        _leave_out(item, alias.name, [each.alias for each in hidden])


def _leave_out(item: exp.Expression, alias: str, names: list[str]) -> None:
    """Let * and l.* list the columns of the sub-query without those that the join goes by."""
    of = item.table.casefold() if isinstance(item, exp.Column) else ""
    star = item.this if isinstance(item, exp.Column) else item
    if isinstance(star, exp.Star) and of in ("", alias.casefold()):
        hidden = [exp.to_identifier(name, quoted=True) for name in names]
        star.set("except_", [*(star.args.get("except_") or []), *hidden])


def _read_lateral(join: exp.Join) -> tuple[exp.Select | None, exp.TableAlias | None]:
    """The query of a LATERAL join and its alias, if it has one; None for what is none of this form."""
    lateral, on = join.this, join.args.get("on")
    is_true = on is None or (isinstance(bare(on), exp.Boolean) and bool(bare(on).this))
    if not isinstance(lateral, exp.Lateral) or lateral.args.get("view") or not is_true:
        return None, None
    query = lateral.this.this if isinstance(lateral.this, exp.Subquery) else None
    alias = lateral.args.get("alias")
    if join.side not in ("", "LEFT") or not isinstance(query, exp.Select):
        return None, None
    if any(value and key not in _CLAUSES for key, value in query.args.items()):
        return None, None
    order, limit = query.args.get("order"), query.args.get("limit")
    counted = limit is None or (isinstance(limit, exp.Limit) and limit.expression.name.isdigit())
    calls = any(item.find(CallNode, exp.Star) for item in query.expressions)
    named = (alias is not None and alias.columns) or all(
        item.alias_or_name for item in query.expressions
    )
    if calls or not named or not counted or bool(order) != bool(limit):
        return None, None
    return query, alias


def _names_of(select: exp.Select) -> Iterator[str]:
    """The names of the tables in a FROM, without regard to case."""
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in sources:
        if source is not None:
            yield source.this.alias_or_name.casefold()


def _names_to_the_left(select: exp.Select, join: exp.Join) -> set[str]:
    """The names of the tables that precede a join."""
    left = {select.args["from_"].this.alias_or_name.casefold()}
    for each in select.args["joins"]:
        if each is join:
            break
        left.add(each.this.alias_or_name.casefold())
    return left


def _reads(node: exp.Expression, tables: set[str]) -> bool:
    """Tell whether an expression names a column of one of these tables with its table."""
    return any(column.table.casefold() in tables for column in node.find_all(exp.Column))


def _split_equality(
    condition: exp.Expression, outer: set[str]
) -> tuple[exp.Expression, exp.Expression] | None:
    """The side of the sub-query and the other side of an equality; None for any other condition."""
    condition = bare(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    sides = [condition.this, condition.expression]
    outside = [_reads(side, outer) for side in sides]
    if outside not in ([True, False], [False, True]):
        return None
    own, other = sides[outside.index(False)], sides[outside.index(True)]
    # Of a side with columns of both, or none of its own, no rows could be numbered.
    mixed = any(c.table.casefold() not in outer for c in other.find_all(exp.Column))
    return None if mixed or not own.find(exp.Column) else (own, other)


def _find_own(condition: exp.Expression, outer: set[str]) -> list[exp.Expression]:
    """The columns of the sub-query in a condition, each once."""
    own = (c for c in condition.find_all(exp.Column) if c.table.casefold() not in outer)
    return list({(c.table, c.name): c for c in own}.values())


def _replace(condition: exp.Expression, old: exp.Expression, new: exp.Expression) -> None:
    """Put an expression in the place of all that equal another one."""
    for part in [each for each in condition.walk() if each == old]:
        part.replace(new.copy())


def _name_items(query: exp.Select, alias: exp.TableAlias) -> list[exp.Expression]:
    """The items under the names that the alias gives them."""
    if not alias.columns:
        return [item.copy() for item in query.expressions]
    plain = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    return [
        exp.alias_(item.copy(), name.name, quoted=True)
        for item, name in zip(plain, alias.columns, strict=True)
    ]


def _number(inner: exp.Select, keys: list[exp.Expression]) -> None:
    """Keep the first rows of each key in place of the first of all."""
    number = exp.Window(
        this=CallNode(this="ROW_NUMBER", distinct=False),
        partition_by=[key.copy() for key in keys],
        order=inner.args["order"].copy(),
        over="OVER",
    )
    first = exp.LTE(this=number, expression=inner.args["limit"].expression.copy())
    inner.set("order", None)
    inner.set("limit", None)
    inner.set("qualify", exp.Qualify(this=first))
