"""lookup_sql: the query of a lookup join as text, from columns or a condition."""

from __future__ import annotations

from collections.abc import Sequence

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import both_of, names_of
from aggloom.errors import SpecError, nearest

_WORDS = {"inner": "JOIN", "left": "LEFT JOIN"}


def lookup_sql(
    on: str | Sequence[str] = (),
    *,
    condition: str | None = None,
    how: str = "left",
    select: str | Sequence[str] = "*",
    names: tuple[str, str] = ("l", "r"),
) -> str:
    """The query in which the rows of a table ask a lookup table.

    on: names of columns that both have, which become one column each. condition: SQL instead, such as `l.shop = r.id
    AND r.open`. how: left or inner. select: what to show, as SQL. names: what the query calls the two tables, instead
    of `l` and `r`. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> al.lookup_sql("shop")
        'SELECT * FROM `l` LEFT JOIN `r` FOR SYSTEM_TIME AS OF PROCTIME() USING (`shop`)'
    """
    # Spark's spellings: left_outer, leftouter.
    kind = str(how).lower().replace("outer", "").strip("_ ")
    if kind not in _WORDS:
        raise SpecError(f"lookup: how is {how!r}. {nearest(kind, _WORDS)}")
    columns = names_of("lookup: on", on)
    if bool(columns) == (condition is not None):
        raise SpecError(
            "lookup: give either on=[columns] or condition='l.id = r.id', and not both."
        )
    left, right = map(quote_name, both_of("lookup: names", names))
    items = ", ".join(names_of("lookup: select", select))
    test = f"USING ({', '.join(map(quote_name, columns))})" if columns else f"ON {condition}"
    at = "FOR SYSTEM_TIME AS OF PROCTIME()"
    return f"SELECT {items} FROM {left} {_WORDS[kind]} {right} {at} {test}"
