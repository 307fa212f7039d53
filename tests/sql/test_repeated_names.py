"""Columns without an alias that would have one name, and aggregates that are ordered by a constant, over changes."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom import local
from aggloom.errors import DuplicateNameError

DDL = "k INT, s STRING"
ROWS = [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 2, "c"), ("+I", 1, "z"), ("-D", 1, "z")]
VALUES = "(VALUES (1, 'a'), (2, 'b'), (2, 'c')) AS t(k, s)"


def both_engines(query: str, dialect: str = "spark") -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names and the rows of a query's table, which the harness and the local engine have alike."""
    options: dict[str, Any] = {"backend": "python", "dialect": dialect}
    with al.Harness.from_sql(query, {"t": DDL}, **options) as harness:
        harness.process(ROWS)
        harness.flush()
        table, names = sorted(harness.table(), key=str), harness.plan.schema.names
    found = local.collect(local.sql(query, t=local.from_rows(ROWS, DDL), **options))
    assert found.schema.names == names
    assert sorted((tuple(row.values()) for row in found.to_pylist()), key=str) == table
    return names, table


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("items", "rest", "names"),
    [
        ("k, k", "", "k k0"),
        ("*, k, s, k", "", "k s k0 s0 k1"),
        ("k, s AS k0, k", "", "k k0 k1"),
        # An alias has the name, wherever it stands.
        ("k, s AS k", "", "k0 k"),
        ("DISTINCT k, k", "", "k k0"),
        ("k, k, COUNT(*) AS n", " GROUP BY k", "k k0 n"),
    ],
)
def test_a_name_that_comes_again_has_a_number(
    items: str, rest: str, names: str, dialect: str
) -> None:
    found, table = both_engines(f"SELECT {items} FROM t{rest}", dialect)
    assert found == names.split()
    expected = duckdb.sql(f"SELECT {items} FROM {VALUES}{rest}").fetchall()
    assert table == sorted(expected, key=str)


def test_calls_and_expressions_without_an_alias_come_twice() -> None:
    names, table = both_engines("SELECT COUNT(*), COUNT(*), k + 1, k + 1 FROM t GROUP BY k")
    assert names[1] == f"{names[0]}0" and names[3] == f"{names[2]}0"
    assert table == [(1, 1, 2, 2), (2, 2, 3, 3)]


def test_a_query_around_reads_both_columns() -> None:
    query = "SELECT k, k0, COUNT(*) AS n FROM (SELECT k, k FROM t) GROUP BY k, k0"
    assert both_engines(query) == (["k", "k0", "n"], [(1, 1, 1), (2, 2, 2)])


def test_two_aliases_of_one_name_are_refused() -> None:
    for query in ("SELECT k AS x, s AS x FROM t", "SELECT k AS x, COUNT(*) AS x FROM t GROUP BY k"):
        with pytest.raises(DuplicateNameError, match="called 'x'; give one an alias"):
            al.Harness.from_sql(query, {"t": DDL})


@pytest.mark.parametrize(
    "order", ["1", "'x'", "NULL", "CAST(1 AS INT) DESC", "1, s DESC", "s DESC, TRUE"]
)
@pytest.mark.parametrize(
    "call", ["ARRAY_AGG(s ORDER BY {})", "LISTAGG(s, ',') WITHIN GROUP (ORDER BY {})"]
)
def test_a_constant_orders_nothing(call: str, order: str) -> None:
    """The rows stay in the order in which they came, as in DuckDB, or in that of the other keys."""
    _, table = both_engines(f"SELECT k, {call.format(order)} AS x FROM t GROUP BY k")
    text = f"SELECT k, ARRAY_AGG(s ORDER BY {order}) FROM {VALUES} GROUP BY k ORDER BY k"
    connection = duckdb.connect(config={"order_by_non_integer_literal": True})
    expected = connection.sql(text).fetchall()
    as_list = call.startswith("ARRAY")
    assert table == [(k, x if as_list else ",".join(x)) for k, x in expected]
