"""rank_sql: the query of a rank as text, from keys, an order and a range of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import names_of
from aggloom.codegen.sql.numbering import Function
from aggloom.errors import SpecError, nearest


def rank_sql(
    *,
    order_by: str | Sequence[str],
    last: int | str,
    partition_by: str | Sequence[str] = (),
    first: int = 1,
    function: str = "ROW_NUMBER",
    number: str | None = None,
    table: str = "t",
) -> str:
    """The query of the rows of a table whose number in an order, within each key, is from `first` to `last`.

    order_by: expressions as ORDER BY has them, such as "score DESC NULLS LAST". partition_by: names of columns. first:
    a number. last: a number, or the column whose value in the first row of a key says it. function: ROW_NUMBER, RANK
    or DENSE_RANK. number: what to call the number's column; None leaves it out, and then a row that only moves is no
    change. table: its name. Raises SpecError.

    Example:
        >>> import aggloom as al
        >>> al.rank_sql(partition_by="category", order_by="sales DESC", last=3)
        'SELECT * FROM `t` QUALIFY ROW_NUMBER() OVER (PARTITION BY `category` ORDER BY sales DESC) BETWEEN 1 AND 3'
    """
    name = str(function).upper()
    if name not in get_args(Function):
        raise SpecError(f"rank: function is {function!r}. {nearest(name, get_args(Function))}")
    keys = names_of("rank: partition_by", partition_by)
    order = names_of("rank: order_by", order_by)
    if not order:
        raise SpecError("rank: order_by is empty; name at least one column, such as 'score DESC'.")
    for argument, value in (("first", first), ("last", last)):
        # A BOOLEAN is an int in Python, and no number of rows.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not (is_number or (argument == "last" and isinstance(value, str) and value)):
            raise SpecError(f"rank: {argument} is {value!r}; it must be a whole number.")
    if isinstance(last, str) and first != 1:
        raise SpecError("rank: first goes with a number as last, not with a column; leave it out.")
    parts = f"PARTITION BY {', '.join(map(quote_name, keys))} " if keys else ""
    window = f"{name}() OVER ({parts}ORDER BY {', '.join(order)})"
    items = "*" if number is None else f"*, {window} AS {quote_name(number)}"
    condition = f"<= {quote_name(last)}" if isinstance(last, str) else f"BETWEEN {first} AND {last}"
    # QUALIFY may say the function again, so that no column of the number is needed.
    number_sql = window if number is None else quote_name(number)
    return f"SELECT {items} FROM {quote_name(table)} QUALIFY {number_sql} {condition}"
