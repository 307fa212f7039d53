"""The steps that a recursive query can take, where a column counts them: it begins as a number, and each step adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from aggloom.codegen.sql.numbering_range import conjuncts
from aggloom.codegen.sql.recursion import RecursiveQuery
from aggloom.codegen.sql.recursive_path import find_path
from aggloom.codegen.sql.scope import bare

_WIDE: Final = (exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
IsColumn = Callable[[exp.Expression], bool]
_MIRRORED: Final = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_BEYOND: Final = 2**30
"""Numbers below it are the same in every type of a column that counts, and two of them add up to an INT."""


def count_steps(query: RecursiveQuery, names: Sequence[str]) -> int | None:
    """The number of steps after which a recursive query is at its end, whatever its tables hold; None: none is known.

    names: those of its columns.
    """
    bounds = (_count_by(query, place, names) for place in range(len(names)))
    return min((each for each in bounds if each is not None), default=None)


def _count_by(query: RecursiveQuery, place: int, names: Sequence[str]) -> int | None:
    """The number of steps as a column bounds it."""
    starts = [_start(branch, place) for branch in query.starts]
    steps = [_advance(step, query, place, names) for step in query.steps]
    moves = [each for each in steps if each is not None]
    first = [each for each in starts if each is not None]
    # A branch or a step of which nothing is known could continue without an end.
    if len(first) < len(starts) or len(moves) < len(steps):
        return None
    signs = {addend > 0 for addend, _ in moves}
    # Steps in both directions could lead back and forth.
    if len(signs) > 1:
        return None
    sign = 1 if signs.pop() else -1
    # The slowest of the steps from the furthest of the starts, up to the last of the ends.
    addend = min(sign * each for each, _ in moves)
    last = max(sign * end for _, end in moves)
    distance = last - min(sign * each for each in first)
    return max(0, distance // addend + 1)


def _start(branch: exp.Expression, place: int) -> int | None:
    """The whole number that a column is in each row of a branch."""
    while isinstance(branch, exp.Subquery):
        branch = branch.this
    if not isinstance(branch, exp.Select) or place >= len(branch.expressions):
        return None
    # A * stands for any number of columns.
    if any(item.is_star for item in branch.expressions[: place + 1]):
        return None
    return _whole(branch.expressions[place])


def _advance(
    step: exp.Select, query: RecursiveQuery, place: int, names: Sequence[str]
) -> tuple[int, int] | None:
    """The number that a step adds to a column, and the last value of which it takes a step."""
    # Below a sub-query the column might be another one of its name.
    block, *outer = find_path(step, query.name, query.distinct)
    alias = block.source.args.get("alias")
    renamed = [each.name for each in alias.columns] if alias is not None else []
    own = (renamed or list(names))[place : place + 1]
    items = step.expressions
    if outer or not own or place >= len(items) or any(i.is_star for i in items[: place + 1]):
        return None
    table = block.source.alias_or_name

    def is_column(node: exp.Expression) -> bool:
        return (
            isinstance(node, exp.Column)
            and node.name.casefold() == own[0].casefold()
            and node.table.casefold() in ("", table.casefold())
        )

    addend = _addend(bare(items[place].unalias()), is_column)
    # A step that adds nothing, or something that is not known, bounds nothing.
    if not addend:
        return None
    ends = [
        end
        for condition in _conditions(step)
        for end in _last_value(condition, is_column, rising=addend > 0)
    ]
    return (addend, min(ends) if addend > 0 else max(ends)) if ends else None


def _addend(node: exp.Expression, is_column: IsColumn) -> int | None:
    """The number that is added to a column, or, below zero, taken from it."""
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    left, right = bare(node.this), bare(node.expression)
    if is_column(left) and (number := _whole(right)) is not None:
        return -number if isinstance(node, exp.Sub) else number
    return _whole(left) if isinstance(node, exp.Add) and is_column(right) else None


def _conditions(step: exp.Select) -> Iterator[exp.Expression]:
    """The conditions that each row of a step meets."""
    where = step.args.get("where")
    yield from conjuncts(where.this) if where is not None else ()
    for join in step.args.get("joins") or []:
        # ON of an outer join drops no row of the padded side.
        if join.args.get("on") is not None and not join.side and join.kind.upper() in ("", "INNER"):
            yield from conjuncts(join.args["on"])


def _last_value(condition: exp.Expression, is_column: IsColumn, *, rising: bool) -> Iterator[int]:
    """Yield the last value of a column that a condition lets pass, if it is one that ends it."""
    node = bare(condition)
    kind = type(node)
    if kind not in _MIRRORED:
        return
    left, right = bare(node.this), bare(node.expression)
    if is_column(right):
        left, right, kind = right, left, _MIRRORED[kind]
    number = _whole(right)
    if not is_column(left) or number is None:
        return
    if rising and kind in (exp.LT, exp.LTE):
        yield number - (kind is exp.LT)
    if not rising and kind in (exp.GT, exp.GTE):
        yield number + (kind is exp.GT)


def _whole(node: exp.Expression) -> int | None:
    """The whole number that an expression is, also in a CAST to INT or BIGINT."""
    node = bare(node.unalias())
    if isinstance(node, exp.Cast) and node.to.this in _WIDE:
        return _whole(node.this)
    if isinstance(node, exp.Neg):
        number = _whole(node.this)
        return None if number is None else -number
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    return int(node.name) if int(node.name) < _BEYOND else None
