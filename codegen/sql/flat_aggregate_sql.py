"""flat_aggregate_sql: the query of a table aggregate as text, from keys and a call."""

from __future__ import annotations

from collections.abc import Sequence

from aggloom.codegen.catalogue.registry import USER_DEFINED, find
from aggloom.codegen.scalar.expressions import quote_name
from aggloom.codegen.sql.argument_names import names_of
from aggloom.errors import SpecError, UnknownFunctionError, nearest


def flat_aggregate_sql(
    function: str,
    arguments: str | Sequence[str] = (),
    *,
    group_by: str | Sequence[str] = (),
    columns: str | Sequence[str] = (),
    where: str | None = None,
    table: str = "t",
) -> str:
    """The query of the rows that a table aggregate emits for each key of a table, behind the columns of the key.

    function: the name of a registered table aggregate. arguments: expressions over the table's columns. group_by:
    names of columns; without any the whole table is one group. columns: what to call the columns of its rows, if not
    as they are declared. where: a condition on the table's rows. table: its name. Raises SpecError,
    UnknownFunctionError.

    Example:
        >>> import aggloom as al
        >>> @al.table_aggregate("LARGEST", arguments={"v": "INT"}, columns={"value": "INT"}, replace=True)
        ... class Largest:
        ...     def create():
        ...         return None
        ...     def accumulate(state, v):
        ...         return v if state is None else max(state, v)
        ...     def rows(state):
        ...         return [] if state is None else [state]
        >>> al.flat_aggregate_sql("LARGEST", "amount", group_by="customer", columns="most")
        'SELECT `customer`, LARGEST(amount) AS (`most`) FROM `t` GROUP BY `customer`'
    """
    name = str(function).upper()
    entry = find(name)
    if entry is None or not entry.emits_rows:
        known = [each.name for each in USER_DEFINED.values() if each.emits_rows]
        raise UnknownFunctionError(
            f"flat_aggregate: no table aggregate {name} is registered. {nearest(name, known)}".rstrip()
        )
    assert entry.code is not None
    keys = names_of("flat_aggregate: group_by", group_by)
    names = names_of("flat_aggregate: columns", columns)
    if names and len(names) != len(entry.code.columns):
        raise SpecError(
            f"flat_aggregate: the rows of {name} have {len(entry.code.columns)} columns, and {len(names)} names are "
            "given; name each of them"
        )
    call = f"{name}({', '.join(names_of('flat_aggregate: arguments', arguments))})"
    renamed = f" AS ({', '.join(map(quote_name, names))})" if names else ""
    key_list = ", ".join(map(quote_name, keys))
    parts = [f"SELECT {key_list}{', ' * bool(keys)}{call}{renamed} FROM {quote_name(table)}"]
    parts += [f"WHERE {where}"] if where else []
    return " ".join([*parts, *([f"GROUP BY {key_list}"] if keys else [])])
