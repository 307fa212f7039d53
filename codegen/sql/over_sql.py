"""over_sql: the query of window functions as text, from calls, keys, an order and a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import names_of
from aggloom.errors import SpecError


def over_sql(
    calls: Mapping[str, str],
    *,
    partition_by: str | Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    frame: str | None = None,
    table: str = "t",
) -> str:
    """The query of a table's rows with window functions beside them.

    calls: by the name of the new column the function, such as {"total": "SUM(amount)", "before": "LAG(amount)"}.
    partition_by: names of columns. order_by: expressions as ORDER BY has them, such as "at DESC NULLS LAST". frame:
    such as "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"; without one all rows of the key, or with an order those up to
    the row and its ties. table: its name. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> al.over_sql({"total": "SUM(amount)"}, partition_by="account", order_by="at")
        'SELECT *, SUM(amount) OVER (PARTITION BY `account` ORDER BY at) AS `total` FROM `t`'
    """
    keys = names_of("over: partition_by", partition_by)
    order = names_of("over: order_by", order_by)
    if not isinstance(calls, Mapping):
        raise SpecError(f"over: calls is {calls!r}; name each column: {{'s': 'SUM(x)'}}.")
    if not calls:
        raise SpecError("over: there is no call; name a column and its function, {'s': 'SUM(x)'}.")
    for name, call in calls.items():
        if not isinstance(call, str):
            raise SpecError(f"over: {name!r} is {call!r}; give a function such as 'SUM(x)'.")
    if not isinstance(frame, str | None):
        raise SpecError(f"over: frame is {frame!r}; give a text such as 'ROWS 9 PRECEDING'.")
    parts = [f"PARTITION BY {', '.join(map(quote_name, keys))}"] if keys else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    parts += [frame] if frame else []
    # PARTITION BY, ORDER BY, frame: the order that the grammar has.
    window = " ".join(parts)
    items = [f"{call} OVER ({window}) AS {quote_name(name)}" for name, call in calls.items()]
    return f"SELECT *, {', '.join(items)} FROM {quote_name(table)}"
