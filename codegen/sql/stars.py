"""The columns of a *: all of them except those in its EXCEPT, as in Spark 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from sqlglot import exp

from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.errors import (
    AmbiguousColumnError,
    DuplicateNameError,
    SqlError,
    UnknownColumnError,
    nearest,
)

T = TypeVar("T")


def left_out(item: exp.Expression) -> dict[str, exp.Expression]:
    """The names in the EXCEPT of * or t.*, without regard to case, each with its place.

    Raises UnsupportedSqlError, DuplicateNameError for a name that comes twice, SqlError for an EXCEPT without names.
    """
    star = item.this if isinstance(item, exp.Column) else item
    for part, value in star.args.items():
        if value is not None and part != "except_":
            raise refusal(item, f"a * with {part.upper()} is", "name the columns")
    names = star.args.get("except_")
    # None: there is no EXCEPT; an empty list: there is one that names nothing.
    if names == []:
        raise place_error(SqlError("EXCEPT names no column; name one, or take it out."), span(item))
    columns: dict[str, exp.Expression] = {}
    for name in names or ():
        if isinstance(name, exp.Column) and name.table:
            raise refusal(
                name,
                "a qualified name in EXCEPT is",
                "write that of a column or field of the * alone",
            )
        if name.name.casefold() in columns:
            message = f"EXCEPT names {name.name!r} twice; leave one out."
            raise place_error(DuplicateNameError(message), span(name))
        columns[name.name.casefold()] = name
    return columns


def select_star_columns(
    item: exp.Expression, columns: Sequence[tuple[str, T]]
) -> list[tuple[str, T]]:
    """The columns, (name, whatever), that * or t.* shows of these.

    Raises UnknownColumnError, AmbiguousColumnError and SqlError for what EXCEPT cannot leave out.
    """
    out = left_out(item)
    known = Counter(name.casefold() for name, _ in columns)
    for name, place in out.items():
        if not known[name]:
            message = f"there is no column {place.name!r} to leave out. {nearest(place.name, [n for n, _ in columns])}"
            raise place_error(UnknownColumnError(message), span(place))
        if known[name] > 1:
            message = f"column {place.name!r} is in several tables; name the columns that you want."
            raise place_error(AmbiguousColumnError(message), span(place))
    left = [(name, each) for name, each in columns if name.casefold() not in out]
    if columns and not left:
        raise place_error(SqlError("EXCEPT leaves no column."), span(item))
    return left
