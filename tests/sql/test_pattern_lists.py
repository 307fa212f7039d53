"""LIKE ANY, LIKE ALL, and comparisons with ANY and ALL of a list, beside the same conditions one by one in DuckDB."""

from __future__ import annotations

import duckdb
import pytest

import aggloom as al
from aggloom.errors import SqlError

ROWS = ["apple", "bean", "Avocado", "", None, "a%b"]


def answers(condition: str) -> list[tuple[object, ...]]:
    """Rows and the condition's value, in the harness."""
    sql = f"SELECT k, {condition} AS r FROM t"
    with al.Harness.from_sql(sql, {"t": "k STRING"}, backend="python") as harness:
        harness.process([("+I", each) for each in ROWS])
        harness.flush()
        return [tuple(row) for row in harness.table()]


@pytest.mark.parametrize("word", ["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
@pytest.mark.parametrize("listed", ["ANY", "SOME", "ALL"])
@pytest.mark.parametrize("patterns", [("a%",), ("a%", "%n"), ("a%", None), ("", "%", "A%")])
def test_a_list_is_its_patterns_one_by_one(
    word: str, listed: str, patterns: tuple[str | None, ...]
) -> None:
    texts = ["CAST(NULL AS STRING)" if each is None else f"'{each}'" for each in patterns]
    connect = " AND " if listed == "ALL" else " OR "
    negated, plain = word.startswith("NOT"), word.removeprefix("NOT ")
    single = [f"k {plain} {text}" for text in texts]
    condition = connect.join(f"(NOT ({each}))" if negated else f"({each})" for each in single)
    table = ", ".join("(NULL)" if each is None else f"('{each}')" for each in ROWS)
    wanted = duckdb.sql(f"SELECT k, {condition} FROM (VALUES {table}) AS t(k)").fetchall()
    found = answers(f"k {word} {listed} ({', '.join(texts)})")
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_a_column_is_named_by_its_text() -> None:
    sql = "SELECT k LIKE ANY ('a%', 'b%') FROM t"
    with al.Harness.from_sql(sql, {"t": "k STRING"}, backend="python") as harness:
        (name,) = harness.to_arrow().schema.names
    assert "k LIKE ANY ('a%', 'b%')" in name


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(SqlError, match="a list without patterns") as refusal:
        al.Harness.from_sql("SELECT k FROM t WHERE k LIKE ANY ()", {"t": "k STRING"})
    assert "^" in str(refusal.value)


@pytest.mark.parametrize("sign", ["=", "<>", "<", ">="])
@pytest.mark.parametrize("listed", ["ANY", "SOME", "ALL"])
@pytest.mark.parametrize("form", ["({})", "(VALUES {})"])
def test_a_value_beside_a_list(sign: str, listed: str, form: str) -> None:
    connect = " AND " if listed == "ALL" else " OR "
    values = ["1", "3", "CAST(NULL AS INT)"]
    condition = connect.join(f"k {sign} {each}" for each in values)
    wanted = duckdb.sql(f"SELECT k, {condition} FROM (VALUES (1), (2), (NULL)) AS t(k)").fetchall()
    sql = f"SELECT k, k {sign} {listed} {form.format(', '.join(values))} AS r FROM t"
    with al.Harness.from_sql(sql, {"t": "k INT"}, backend="python") as harness:
        harness.process([("+I", each) for each in (1, 2, None)])
        harness.flush()
        assert sorted(harness.table(), key=repr) == sorted(wanted, key=repr)
