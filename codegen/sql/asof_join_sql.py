"""asof_join_sql: the query of a join with the nearest row, or with the version of a time, as text."""

from __future__ import annotations

from collections.abc import Sequence

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import both_of, names_of
from aggloom.errors import SpecError, nearest

_HOW = {"inner": "", "left": "LEFT ", "leftouter": "LEFT "}


def asof_join_sql(
    on: str | Sequence[str] = (),
    *,
    match: str | None = None,
    as_of: str | None = None,
    how: str = "inner",
    select: str | Sequence[str] = "*",
    names: tuple[str, str] = ("l", "r"),
) -> str:
    """The query of the join of each row of a table with one row of another.

    on: names of columns that both have and that agree. Either match: an inequality such as `l.t >= r.t`, for the row
    that comes nearest to it; or as_of: the left's row time, such as `l.t`, for the version that was valid then. how:
    inner or left. select: what to show, as SQL. names: what the query calls the tables, instead of `l` and `r`. Raises
    SpecError.

    Example:
        >>> import aggloom as al
        >>> al.asof_join_sql("symbol", match="l.t >= r.t")
        'SELECT * FROM `l` ASOF JOIN `r` MATCH_CONDITION (l.t >= r.t) USING (`symbol`)'
    """
    if not isinstance(how, str) or (kind := how.lower().replace("_", "")) not in _HOW:
        raise SpecError(f"asof_join: how is {how!r}. {nearest(str(how), ('inner', 'left'))}")
    if (match is None) == (as_of is None):
        raise SpecError(
            "asof_join: give either match='l.t >= r.t' or as_of='l.t', a row time, and not both."
        )
    columns = ", ".join(map(quote_name, names_of("asof_join: on", on)))
    # Without a key there is no telling whose version a row is.
    if as_of is not None and not columns:
        raise SpecError("asof_join: a version is of a key; give on='id'.")
    left, right = map(quote_name, both_of("asof_join: names", names))
    items = ", ".join(names_of("asof_join: select", select))
    using = f" USING ({columns})" if columns else ""
    if as_of is not None:
        joined = f"{_HOW[kind]}JOIN {right} FOR SYSTEM_TIME AS OF {as_of} AS {right}{using}"
    else:
        joined = f"ASOF {_HOW[kind]}JOIN {right} MATCH_CONDITION ({match}){using}"
    return f"SELECT {items} FROM {left} {joined}"
