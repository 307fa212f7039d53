"""The first rows of each key as a correlated sub-query: FROM the keys of t, LATERAL the rows of t, ordered and cut.

Where the keys are the different values of columns of t, and the sub-query takes the rows of the same t that are equal
in all of them, this is a Top-N of t by these columns (Flink's CorrelateSortToRank).
"""

from __future__ import annotations

from sqlglot import exp

from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.numbering_range import conjuncts
from aggloom.codegen.sql.scope import bare

_KEYS = {"expressions", "from_", "where", "distinct"}
_ROWS = {"expressions", "from_", "where", "order", "limit"}


def lateral_top(tree: exp.Select) -> exp.Select | None:
    """The query as a numbering of the rows of t; None for queries of another form."""
    parts = _parts(tree)
    if parts is None:
        return None
    keys, alias, rows, other = parts
    # Unqualified: keys and rows are of one table, and become one source.
    names = [bare(item).name for item in keys.expressions]
    where, filtered = rows.args.get("where"), keys.args.get("where")
    conditions = conjuncts(where.this) if where is not None else []
    equal = [_equal(each, alias) for each in conditions]
    rest = [each for each, key in zip(conditions, equal, strict=True) if key is None]
    # With fewer equalities a row would belong to several keys, with more to some of them only.
    if {key for key in equal if key} != {name.casefold() for name in names}:
        return None
    if any(_reads(each, alias) for each in (*rest, *rows.expressions, rows.args["order"])):
        return None
    if filtered is not None:
        columns = {column.name.casefold() for column in filtered.find_all(exp.Column)}
        if not columns <= {name.casefold() for name in names}:
            return None
        # A WHERE of the keys drops all rows of a key: it may as well drop the rows.
        rest += conjuncts(filtered.this)
    others = [item for item in rows.expressions if _name(item).casefold() not in _fold_names(names)]
    # A column that both sides have is one afterwards, which a * would show once instead of twice.
    if len(others) != len(rows.expressions) and any(i.find(exp.Star) for i in tree.expressions):
        return None
    # NULL equals nothing.
    rest += [exp.column(name).is_(exp.null()).not_() for name in names]
    window = exp.Window(
        this=CallNode(this="ROW_NUMBER", distinct=False),
        partition_by=[exp.column(name) for name in names],
        order=rows.args["order"].copy(),
        over="OVER",
    )
    table = rows.args["from_"].this
    top = exp.select(*(exp.column(name) for name in names), *others).from_(table.copy())
    top.set("where", exp.Where(this=exp.and_(*(each.copy() for each in rest))))
    last = exp.LTE(this=window, expression=rows.args["limit"].expression.copy())
    top.set("qualify", exp.Qualify(this=last))
    # Both sides are one source now.
    source = exp.Subquery(this=_plain(top, {alias, table.alias_or_name}))
    left = _plain(tree, {alias, other} - {""})
    left.set("joins", None)
    left.set("from_", exp.From(this=source))
    return left


def _parts(tree: exp.Select) -> tuple[exp.Select, str, exp.Select, str] | None:
    """The query of the keys and its name, the query of the rows and its name; None if there are no such parts."""
    source, joins = tree.args["from_"].this, tree.args.get("joins") or []
    if len(joins) != 1 or not isinstance(source, exp.Subquery) or not source.alias:
        return None
    lateral = joins[0].this
    if (
        not isinstance(lateral, exp.Lateral)
        or lateral.args.get("outer")
        or lateral.args.get("view")
    ):
        return None
    if (
        joins[0].args.get("on")
        or joins[0].args.get("side")
        or not isinstance(lateral.this, exp.Subquery)
    ):
        return None
    keys, rows = source.this, lateral.this.this
    if not isinstance(keys, exp.Select) or not isinstance(rows, exp.Select):
        return None
    if not _has_only(keys, _KEYS) or not _has_only(rows, _ROWS) or not keys.args.get("distinct"):
        return None
    # FETCH may have ties, and LIMIT without an order takes any rows.
    if not isinstance(rows.args.get("limit"), exp.Limit) or not rows.args.get("order"):
        return None
    tables = [each.args["from_"].this for each in (keys, rows)]
    same = all(isinstance(t, exp.Table) for t in tables) and tables[0].name == tables[1].name
    plain = all(
        type(bare(item)) is exp.Column and not item.find(exp.Star) for item in keys.expressions
    )
    if not same or not plain or any(item.find(exp.Star) for item in rows.expressions):
        return None
    return keys, source.alias, rows, lateral.alias


def _has_only(tree: exp.Select, clauses: set[str]) -> bool:
    return all(not value or key in clauses for key, value in tree.args.items())


def _equal(condition: exp.Expression, alias: str) -> str | None:
    """The key that a condition sets equal to the column of its name."""
    condition = bare(condition)
    if not isinstance(condition, exp.EQ):
        return None
    sides = [bare(condition.this), bare(condition.expression)]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    # One side is the keys', the other the rows' own.
    outer = [side.table.casefold() == alias.casefold() for side in sides]
    named = sides[0].name.casefold() == sides[1].name.casefold()
    return str(sides[0].name.casefold()) if named and sum(outer) == 1 else None


def _reads(node: exp.Expression, alias: str) -> bool:
    """Tell whether an expression reads the keys."""
    return any(c.table.casefold() == alias.casefold() for c in node.find_all(exp.Column))


def _name(item: exp.Expression) -> str:
    return str(item.alias or bare(item).name)


def _fold_names(names: list[str]) -> set[str]:
    return {name.casefold() for name in names}


def _plain(tree: exp.Select, tables: set[str]) -> exp.Select:
    """A copy of the query whose columns are not qualified by these names."""
    copy: exp.Select = tree.copy()
    for column in copy.find_all(exp.Column):
        if column.table.casefold() in _fold_names(list(tables)):
            column.set("table", None)
    return copy
