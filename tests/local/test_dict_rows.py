"""Rows of a harness as dicts, and decimals as texts: the table is that of the same rows as tuples."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError

TABLES = {"t": "k STRING, n INT, price DECIMAL(10, 2)"}
QUERY = "SELECT k, SUM(n) AS n, SUM(price) AS price FROM t GROUP BY k"


def table_of(rows: Any, tables: dict[str, str] = TABLES, sql: str = QUERY) -> list[tuple[Any, ...]]:
    with al.Harness.from_sql(sql, tables, backend="python") as harness:
        harness.process(rows)
        harness.flush()
        return list(harness.table())


def test_dicts_are_rows_by_name() -> None:
    """3 - 1 of a with 1.50 + 2.25 - 1.50, and b with a NULL."""
    rows = [
        {"k": "a", "n": 1, "price": "1.50"},
        {"price": Decimal("2.25"), "N": 2, "K": "a"},
        {"k": "b", "n": None, "price": None, "op": "+I"},
        {"_change_type": "delete", "k": "a", "n": 1, "price": "1.5"},
    ]
    assert table_of(rows) == [("a", 2, Decimal("2.25")), ("b", None, None)]


def test_decimals_are_texts_in_tuples_too() -> None:
    rows = [("+I", "a", 1, "0.10"), ("+I", "a", 1, Decimal("0.20")), ("-D", "a", 1, "0.1")]
    assert table_of(rows) == [("a", 1, Decimal("0.20"))]


def test_a_column_of_a_table_comes_before_a_kind() -> None:
    found = table_of(
        [{"op": "x", "_change_type": "insert"}, {"op": "x"}],
        {"t": "op STRING"},
        "SELECT op, COUNT(*) AS c FROM t GROUP BY op",
    )
    assert found == [("x", 2)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"k": "a", "n": 1}], "row 0 has no column 'price'; give it, or None for NULL"),
        (
            [{"k": "a", "n": 1, "price": "1", "prise": "1"}],
            "column 'prise', which the table does not have. Did you mean 'price'",
        ),
        ([{"k": "a", "n": 1, "price": "1"}, ("+I", "a", 1, "1")], "row 1 is ('+I', 'a', 1, '1')"),
        ([{"k": "a", "n": 1, "price": "1", "op": "+I", "_change_type": "insert"}], "both 'op' and"),
        (
            [{"k": "a", "n": 1, "price": "dear"}],
            "column 'price' is DECIMAL(10,2): 'dear' is no number",
        ),
        ([{"k": "a", "n": 1, "price": "1.005"}], "column 'price' is DECIMAL(10,2)"),
        ([{"k": "a", "n": 1, "price": "1", "op": "*"}], "'*'"),
        ({"k": "a"}, "give a list of (kind, value, ...) tuples or of dicts"),
    ],
)
def test_what_is_no_row_is_named(rows: Any, said: str) -> None:
    with pytest.raises(AggloomError) as raised:
        table_of(rows)
    assert said in str(raised.value)
