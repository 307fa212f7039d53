"""The columns that a query compares with a constant, so that most of its table need not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

Equalities = Mapping[str, "str | int"]


def find_equalities(sql: str) -> tuple[str, Equalities]:
    """The table of a query over one table, and the columns that its WHERE requires to equal a text or whole number.

    The name is empty for any other query. The condition is evaluated all the same.

    Example:
        >>> find_equalities("SELECT n FROM operator_0 WHERE customer = 'Ada' AND n > 3")
        ('operator_0', {'customer': 'Ada'})
    """
    try:
        query = parse_one(sql, dialect="duckdb")
    # DuckDB may parse what sqlglot cannot. The query then reads every bucket, which is only slower.
    except (SqlglotError, RecursionError):
        return "", {}
    tables = list(query.find_all(exp.Table)) if isinstance(query, exp.Select) else []
    # A second SELECT or a second table may need rows that the condition of the first leaves out.
    selects = list(query.find_all(exp.Select, exp.SetOperation)) if tables else []
    if len(tables) != 1 or len(selects) != 1 or query.find(exp.Join, exp.Subquery, exp.With):
        return "", {}
    where = query.args.get("where")
    return tables[0].name, dict(_equalities(where.this)) if where is not None else {}


def _equalities(condition: exp.Expression) -> Iterator[tuple[str, str | int]]:
    """Yield each column that a conjunction requires to equal a literal."""
    # Under OR or NOT an equality need not hold for all rows, so only a conjunction is split.
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if not isinstance(part, exp.EQ):
            continue
        column, value = part.this, part.expression
        # `'Ada' = customer` means the same.
        if isinstance(column, exp.Literal):
            column, value = value, column
        if isinstance(column, exp.Column) and isinstance(value, exp.Literal):
            if value.is_string:
                yield column.name, value.name
            # Decimals and floats are left out: equal numbers of other types have other hashes.
            elif value.is_int:
                yield column.name, int(value.name)
