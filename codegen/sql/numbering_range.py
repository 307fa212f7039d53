"""The range of numbers that the conditions of a query ask for: bounds that are constants, or a column of the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp

from aggloom.codegen.sql.scope import bare

MOST_ROWS: Final = 2**61
"""A number of rows that no table has, and of which two still add up to 64 bits."""


@dataclass(frozen=True)
class Range:
    """The row numbers that a query asks for: from `start` to `end`, or to the value of a column, or to the last."""

    start: int = 1
    end: int | None = None
    end_column: str | None = None

    @property
    def is_open(self) -> bool:
        """True if there is no last number."""
        return self.end is None and self.end_column is None


def range_of(
    conditions: Iterable[exp.Expression],
    is_number: Callable[[exp.Expression], bool],
    bound: Callable[[exp.Expression], str | None],
) -> tuple[Range, list[exp.Expression]]:
    """Return the range that conditions set for a number, and those that say something else.

    bound: the column that an expression names, by which numbers may end.
    """
    constant: list[exp.Expression] = []
    variable: list[tuple[str, exp.Expression]] = []
    rest: list[exp.Expression] = []
    start, end = 1, None
    for each in conditions:
        limits = list(_limits(each, is_number))
        # A bound that is no number makes the whole condition a filter, unless it is a column.
        numbers = [
            (limit, number) for limit, v in limits if (number := whole_number(v)) is not None
        ]
        by = bound(limits[0][1]) if len(limits) == 1 and limits[0][0] == "most" else None
        if limits and len(numbers) == len(limits):
            constant.append(each)
            start = max([start, *(number for limit, number in numbers if limit == "least")])
            ends = [number for limit, number in numbers if limit == "most"]
            end = min([*ends, *([] if end is None else [end])], default=None)
        elif by is not None:
            variable.append((by, each))
        else:
            rest.append(each)
    if not variable:
        return Range(start, end), rest
    # A column ends the numbers; what else is said of them is a filter of its rows.
    return Range(end_column=variable[0][0]), [*rest, *constant, *(e for _, e in variable[1:])]


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """The conditions that AND joins."""
    node = bare(node)
    if not isinstance(node, exp.And):
        return [node]
    return [part for side in (node.this, node.expression) for part in conjuncts(side)]


def _limits(
    node: exp.Expression, is_number: Callable[[exp.Expression], bool]
) -> Iterator[tuple[Literal["least", "most"], exp.Expression]]:
    """Yield the bounds that a condition sets for a number: at least or at most a value. Strict ones move by one."""
    node = bare(node)
    if isinstance(node, exp.Between):
        if is_number(bare(node.this)) and not node.args.get("symmetric"):
            yield "least", node.args["low"]
            yield "most", node.args["high"]
        return
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return
    left, right, kind = bare(node.this), bare(node.expression), type(node)
    if not is_number(left):
        left, right = right, left
        turned = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
        kind = turned.get(kind, kind)
    # A number compared with itself bounds nothing.
    if not is_number(left) or is_number(right):
        return
    if kind in (exp.EQ, exp.GTE):
        yield "least", right
    if kind in (exp.EQ, exp.LTE):
        yield "most", right
    # Numbers are whole, so that n < 4 is n <= 3.
    if kind in (exp.LT, exp.GT):
        moved = whole_number(right)
        if moved is not None:
            step = 1 if kind is exp.GT else -1
            value = exp.Literal.number(moved + step)
            yield ("least" if kind is exp.GT else "most"), value


def whole_number(node: exp.Expression) -> int | None:
    """The whole number that an expression is, or None; one beyond all numbers of rows is the greatest of them."""
    node, sign = bare(node), 1
    if isinstance(node, exp.Neg):
        node, sign = bare(node.this), -1
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    text = str(node.this)
    if not text.lstrip("-").isdigit():
        return None
    return max(-MOST_ROWS, min(sign * int(text), MOST_ROWS))
