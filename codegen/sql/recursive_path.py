"""The way of a recursive query's rows through one of its steps, and a column that is to come along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from aggloom.codegen.sql.dialect import CallNode
from aggloom.codegen.sql.errors import place_error, refusal
from aggloom.codegen.sql.match_parser import MatchCall
from aggloom.codegen.sql.recursion import find_references
from aggloom.codegen.sql.window_parser import WindowCall
from aggloom.errors import SqlError, UnsupportedSqlError

_CLAUSES: Final = {
    "group": "GROUP BY",
    "having": "HAVING",
    "distinct": "SELECT DISTINCT",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
}
_AFTER: Final = "do that in the query that reads it"
_OUTER: Final = "write an inner join, or keep the rows of {name}, as {name} LEFT JOIN u does"


@dataclass(frozen=True)
class Block:
    """A SELECT through which the rows come, and the source in its FROM from which it has them."""

    select: exp.Select
    source: exp.Table | exp.Subquery


def find_path(step: exp.Select, name: str, distinct: bool) -> list[Block]:
    """The blocks from where a step reads its query up to the step itself.

    Each row of the step is made of one row of the query, so that the rows of several are those of each together.
    distinct: whether equal rows of the query count once, so that SELECT DISTINCT changes nothing. Raises
    UnsupportedSqlError where that does not hold.
    """
    (table,) = find_references(step, name)
    source: exp.Table | exp.Subquery = table
    blocks: list[Block] = []
    while True:
        select = _block_of(source, table, name)
        _check_clauses(select, table, name, distinct)
        _check_joins(select, source, table, name)
        blocks.append(Block(select, source))
        if select is step:
            return blocks
        outer = select.parent
        if not isinstance(outer, exp.Subquery):
            raise _refuse(table, name, _describe_place(outer))
        # A clause around the sub-query, such as LIMIT, looks at several rows at a time.
        for key, value in outer.args.items():
            if value and key not in ("this", "alias"):
                word = _CLAUSES.get(key, key.strip("_").upper())
                raise _refuse(table, name, f"below {word}")
        source = outer


def carry_column(step: exp.Select, name: str, flag: str) -> exp.Select:
    """A copy of a step that shows a further column of its query, the last one, as the last of its own."""
    copy: exp.Select = step.copy()
    for block in find_path(copy, name, True):
        alias = block.source.args.get("alias")
        # A list of names names all columns of the query, the further one among them.
        if alias is not None and alias.columns:
            alias.append("columns", exp.to_identifier(flag, quoted=True))
        owner = block.source.alias_or_name
        for item in block.select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star) and item.text("table").casefold() in (
                "",
                owner.casefold(),
            ):
                # A * would show the further column as well, in the middle of the others.
                names = star.args.get("except_") or []
                star.set("except_", [*names, exp.to_identifier(flag, quoted=True)])
        table = exp.to_identifier(owner, quoted=True) if owner else None
        column = exp.column(exp.to_identifier(flag, quoted=True), table=table)
        block.select.append("expressions", exp.alias_(column, flag, quoted=True))
    return copy


def without_distinct(step: exp.Select, name: str) -> exp.Select:
    """A copy of a step without the SELECT DISTINCT of its blocks, which UNION makes superfluous."""
    copy: exp.Select = step.copy()
    for block in find_path(copy, name, True):
        block.select.set("distinct", None)
    return copy


def _block_of(source: exp.Expression, table: exp.Table, name: str) -> exp.Select:
    """The SELECT in whose FROM a source stands."""
    holder = source.parent
    in_from = isinstance(holder, exp.From) or (
        isinstance(holder, exp.Join) and holder.this is source
    )
    select = holder.parent if in_from and holder is not None else None
    if not isinstance(select, exp.Select):
        raise _refuse(table, name, _describe_place(holder))
    return select


def _check_clauses(select: exp.Select, table: exp.Table, name: str, distinct: bool) -> None:
    for key, word in _CLAUSES.items():
        value = select.args.get(key) or (table.args.get(key) if key == "pivots" else None)
        plain = key == "distinct" and distinct and value and not value.args.get("on")
        if value and not plain:
            raise _refuse(table, name, f"below {word}")
    if not select.expressions:
        message = "SELECT names nothing; write columns before FROM."
        raise place_error(SqlError(message), table)
    for item in select.expressions:
        for part in item.walk(prune=lambda each: isinstance(each, exp.Query)):
            if isinstance(part, CallNode):
                raise _refuse(table, name, f"below the aggregate {part.name.upper()}")
            if isinstance(part, exp.Window):
                raise _refuse(table, name, "below OVER")


def _check_joins(select: exp.Select, source: exp.Expression, table: exp.Table, name: str) -> None:
    """Refuse joins whose rows are not each made of one row of the source."""
    reached = isinstance(source.parent, exp.From)
    for join in select.args.get("joins") or []:
        own, side, kind = join.this is source, join.side.upper(), join.kind.upper()
        words = " ".join(filter(None, (join.method.upper(), side, kind, "JOIN")))
        inner = own and (side in ("LEFT", "FULL") or kind in ("SEMI", "ANTI"))
        # A row of the right without a partner is made of no row of the query.
        after = reached and not own and side in ("RIGHT", "FULL")
        if inner or after:
            place = "right" if own else "left"
            fix = _OUTER.format(name=name)
            raise refusal(table, f"{name} on the {place} side of a {words} is", fix)
        if join.method.upper() == "ASOF" and (own or reached):
            raise _refuse(table, name, "in an ASOF JOIN")
        reached = reached or own


def _describe_place(node: exp.Expression | None) -> str:
    """The words for where a query stands that is not simply in FROM."""
    while node is not None:
        if isinstance(node, exp.In | exp.Exists):
            word = "IN" if isinstance(node, exp.In) else "EXISTS"
            return f"in {'NOT ' * isinstance(node.parent, exp.Not)}{word}"
        if isinstance(node, exp.SetOperation):
            return f"on a side of {type(node).__name__.upper()} below its step"
        if isinstance(node, exp.With):
            return "in a WITH of its own"
        if isinstance(node, WindowCall | MatchCall):
            return "in MATCH_RECOGNIZE" if isinstance(node, MatchCall) else "in a window"
        if isinstance(node, exp.Lateral):
            return "in LATERAL"
        if isinstance(node, exp.Select):
            return "in a sub-query of an expression"
        node = node.parent
    return "elsewhere than in FROM"


def _refuse(table: exp.Table, name: str, where: str) -> UnsupportedSqlError:
    fix = _AFTER if where.startswith("below") else f"join {name} in the FROM of a branch"
    return refusal(table, f"{name} {where} is", fix)
