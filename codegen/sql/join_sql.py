"""join_sql: the query of a join as text, from columns or a condition."""

from __future__ import annotations

from collections.abc import Sequence

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import both_of, names_of
from aggloom.errors import SpecError, nearest

_WORDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "cross": "CROSS JOIN",
}
_SPARK = {"outer": "full", "fullouter": "full", "leftouter": "left", "rightouter": "right"} | {
    "leftsemi": "semi",
    "leftanti": "anti",
}


def join_sql(
    on: str | Sequence[str] = (),
    *,
    condition: str | None = None,
    how: str = "inner",
    select: str | Sequence[str] = "*",
    ttl: tuple[int | str | None, int | str | None] = (None, None),
    names: tuple[str, str] = ("l", "r"),
) -> str:
    """The query of the join of two tables.

    on: names of columns that both have, which become one column each. condition: SQL instead, such as `l.id = r.id AND
    l.at >= r.since`. how: inner, left, right, full, semi, anti or cross, or as Spark spells them. select: what to
    show, as SQL. ttl: how long each side is kept without a change, in ms or as text: `("1 h", None)`; None: as the
    options say. names: what the query calls the tables, instead of `l` and `r`. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> al.join_sql("customer", how="left")
        'SELECT * FROM `l` LEFT JOIN `r` USING (`customer`)'
    """
    if not isinstance(how, str):
        raise SpecError(f"join: how is {how!r}. {nearest('', _WORDS)}")
    folded = how.lower().replace("_", "").replace(" ", "")
    kind = _SPARK.get(folded, folded)
    if kind not in _WORDS:
        raise SpecError(f"join: how is {how!r}. {nearest(folded, _WORDS)}")
    columns = names_of("join: on", on)
    if kind == "cross" and (columns or condition is not None):
        raise SpecError("join: a cross join pairs all rows; leave out on and condition.")
    if kind != "cross" and bool(columns) == (condition is not None):
        raise SpecError("join: give either on=[columns] or condition='l.id = r.id', and not both.")
    if not isinstance(ttl, list | tuple) or len(ttl) != 2:
        raise SpecError(f"join: ttl is {ttl!r}; give one of each side: ttl=('1 h', None).")
    left, right = both_of("join: names", names)
    items = ", ".join(names_of("join: select", select))
    ttls = [f"'{name}' = '{time}'" for name, time in zip((left, right), ttl, strict=True) if time]
    hint = f"/*+ STATE_TTL({', '.join(ttls)}) */ " if ttls else ""
    test = f" USING ({', '.join(map(quote_name, columns))})" if columns else ""
    test = f" ON {condition}" if condition is not None else test
    return f"SELECT {hint}{items} FROM {quote_name(left)} {_WORDS[kind]} {quote_name(right)}{test}"
