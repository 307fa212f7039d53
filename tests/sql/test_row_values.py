"""Rows beside rows and in lists of rows, compared field by field: a NULL field equals a NULL field in Spark alone."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom import local
from aggloom.errors import AggloomError, SqlError

TABLES = {"t": "k INT, s STRING"}
ROWS = [("+I", 1, "a"), ("+I", 2, None), ("+I", None, "b"), ("+I", 1, "z"), ("-D", 1, "z")]


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM t WHERE (k, s) IN ((1, 'a'), (2, 'b'))", [(1,)]),
        ("SELECT k, (k, s) IN ((1, 'a')) FROM t", [(None, False), (1, True), (2, False)]),
        (
            "SELECT COUNT(*) FILTER (WHERE (k, s) IN ((1, LOWER('A')), (2, 'b'))) AS n FROM t",
            [(1,)],
        ),
        (
            "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING (k, COUNT(*)) IN ((1, 1), (2, 2))",
            [(1, 1)],
        ),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k AND (a.s, b.s) IN (('a', 'a'))", [(1,)]),
    ],
)
def test_rows_are_compared_field_by_field(
    sql: str, expected: list[tuple[object, ...]], dialect: str
) -> None:
    with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
        harness.process(ROWS, table="t")
        harness.flush()
        assert [tuple(row) for row in harness.table()] == expected


@pytest.mark.parametrize(
    ("condition", "standard", "in_spark"),
    [
        ("(k, s) IN ((1, 'b'), (2, NULL))", "k = 1 AND s = 'b' OR k = 2 AND s = NULL", [(2,)]),
        (
            "(k, s) IN ((1, UPPER('A')), (k, 'b'))",
            "k = 1 AND s = UPPER('A') OR k = k AND s = 'b'",
            [(None,)],
        ),
        (
            "(k, s) NOT IN ((1, 'a'), (2, 'b'))",
            "NOT (k = 1 AND s = 'a' OR k = 2 AND s = 'b')",
            [(None,), (2,)],
        ),
        (
            "(k, s) NOT IN ((1, 'a'), (3, 'b'))",
            "NOT (k = 1 AND s = 'a' OR k = 3 AND s = 'b')",
            [(None,), (2,)],
        ),
    ],
)
def test_null_fields_are_compared_by_the_dialect(
    condition: str, standard: str, in_spark: list[tuple[object, ...]]
) -> None:
    values = "(VALUES (1, 'a'), (2, NULL), (NULL, 'b')) AS t(k, s)"
    in_flink = duckdb.sql(f"SELECT k FROM {values} WHERE {standard}").fetchall()
    for dialect, expected in {"spark": in_spark, "flink": in_flink}.items():
        sql = f"SELECT k FROM t WHERE {condition}"
        with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
            harness.process(ROWS, table="t")
            harness.flush()
            assert [tuple(row) for row in harness.table()] == expected


def test_a_column_keeps_its_text_as_its_name() -> None:
    with al.Harness.from_sql("SELECT (k, s) IN ((1, 'a')) FROM t", TABLES, backend="python") as h:
        assert h.to_arrow().schema.names == ["(k, s) IN ((1, 'a'))"]


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(SqlError, match="a row of 3 is compared with a row of 2") as refusal:
        al.Harness.from_sql("SELECT k FROM t WHERE (k, s) IN ((1, 'a', 2))", TABLES)
    assert "^^^" in str(refusal.value)


SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
VALUES = [None, 1, 2]


def compare_in_spark(sign: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """The answer of Spark 4.3 for structs: NULL is a value, less than all others."""
    first, second = ([(each is not None, each or 0) for each in row] for row in (left, right))
    return bool(SIGNS[sign](first, second))


def compare_in_standard(sign: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool | None:
    """The answer of the SQL standard, by DuckDB: the first field that is not surely equal decides."""
    equal, less = "l{0} = r{0}", "l{0} < r{0}"
    tie = " AND ".join(equal.format(place) for place in range(2))
    before = f"({less.format(0)} OR ({equal.format(0)} AND {less.format(1)}))"
    after = before.replace("<", ">")
    text = {"=": tie, "<>": f"NOT ({tie})", "<": before, ">": after}
    text |= {"<=": f"({before} OR ({tie}))", ">=": f"({after} OR ({tie}))"}
    fields = [("NULL::INT" if each is None else str(each)) for each in (*left, *right)]
    names = ("l0", "l1", "r0", "r1")
    items = ", ".join(f"{value} AS {name}" for value, name in zip(fields, names, strict=True))
    ((answer,),) = duckdb.sql(f"SELECT {text[sign]} FROM (SELECT {items})").fetchall()
    return bool(answer) if answer is not None else None


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize("sign", SIGNS)
def test_two_rows_are_compared_in_the_order_of_their_fields(sign: str, dialect: str) -> None:
    model = compare_in_standard if dialect == "flink" else compare_in_spark
    sql = f"SELECT a, b, c, d, (a, b) {sign} (c, d) AS r FROM t"
    schema = {"t": "a INT, b INT, c INT, d INT"}
    rows = list(itertools.product(VALUES, repeat=4))
    with al.Harness.from_sql(sql, schema, backend="python", dialect=dialect) as harness:
        harness.process([("+I", *row) for row in rows])
        harness.flush()
        for *fields, answer in harness.table():
            left, right = tuple(fields[:2]), tuple(fields[2:])
            assert answer == model(sign, left, right), (left, sign, right)


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_distinct_from_knows_no_unknown(dialect: str) -> None:
    sql = "SELECT k FROM t WHERE (k, s) IS DISTINCT FROM (2, NULL)"
    with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
        harness.process(ROWS, table="t")
        harness.flush()
        assert [tuple(row) for row in harness.table()] == [(None,), (1,)]


def test_rows_that_are_equal_are_keys_of_a_join() -> None:
    sql = "SELECT a.k FROM t AS a JOIN t AS b ON (a.k, a.s) = (b.k, b.s)"
    for dialect, expected in (("spark", [(None,), (1,), (2,)]), ("flink", [(1,)])):
        with al.Harness.from_sql(sql, TABLES, backend="python", dialect=dialect) as harness:
            harness.process(ROWS, table="t")
            harness.flush()
            assert [tuple(row) for row in harness.table()] == expected


def between(sign: str, dialect: str, row: tuple[Any, ...], ends: list[tuple[Any, ...]]) -> Any:
    """BETWEEN, or BETWEEN SYMMETRIC, as two comparisons; None if the answer is unknown."""
    compare = compare_in_spark if dialect == "spark" else compare_in_standard

    def both(low: tuple[Any, ...], high: tuple[Any, ...]) -> bool | None:
        parts = [compare("<=", low, row), compare("<=", row, high)]
        return False if False in parts else None if None in parts else True

    answers = [both(*ends)] + ([both(*reversed(ends))] if "SYMMETRIC" in sign else [])
    answer = True if True in answers else None if None in answers else False
    return answer if "NOT" not in sign or answer is None else not answer


@pytest.mark.parametrize("dialect", ["spark", "flink"])
@pytest.mark.parametrize("sign", ["BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC"])
def test_a_row_lies_between_two_others(sign: str, dialect: str) -> None:
    """Over rows that come and go, in the harness and the local engine."""
    rows = list(itertools.product(VALUES, VALUES))
    ends = [
        ((1, 1), (2, 1)),
        ((2, 1), (1, 1)),
        ((None, 1), (1, 2)),
        ((1, None), (1, 2)),
        ((1, 2), (2, None)),
    ]
    changes = [("+I", *row) for row in rows] + [("+I", 1, 1), ("-D", 1, 1)]
    items = []
    for place, end in enumerate(ends):
        low, high = (", ".join(map(sql_value, each)) for each in end)
        items.append(f"(a, b) {sign} ({low}) AND ({high}) AS x{place}")
    query = f"SELECT a, b, {', '.join(items)} FROM t"
    options: dict[str, Any] = {"backend": "python", "dialect": dialect}
    with al.Harness.from_sql(query, {"t": "a INT, b INT"}, **options) as harness:
        harness.process(changes, table="t")
        harness.flush()
        table = sorted(harness.table(), key=str)
    expected = [(*row, *(between(sign, dialect, row, list(end)) for end in ends)) for row in rows]
    assert table == sorted(expected, key=str)
    stream = local.sql(query, t=local.from_rows(changes, "a INT, b INT"), **options)
    found = [tuple(row.values()) for row in local.collect(stream).to_pylist()]
    assert sorted(found, key=str) == table


def sql_value(value: Any) -> str:
    return "CAST(NULL AS INT)" if value is None else str(value)


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_a_row_within_a_row_counts_as_its_fields(dialect: str) -> None:
    """Nested and flat forms of one comparison are columns of one query, which agree."""
    rows = list(itertools.product(VALUES, VALUES))
    items = []
    for sign in (*SIGNS, "IN", "BETWEEN"):
        for left, right in (("((a, b), a)", "((1, 2), 1)"), ("(a, b, a)", "(1, 2, 1)")):
            ends = {"IN": f"({right})", "BETWEEN": f"{right} AND {right}"}
            items.append(f"{left} {sign} {ends.get(sign, right)} AS x{len(items)}")
    query = f"SELECT {', '.join(items)} FROM t"
    tables = {"t": "a INT, b INT"}
    with al.Harness.from_sql(query, tables, backend="python", dialect=dialect) as harness:
        harness.process([("+I", *row) for row in rows], table="t")
        harness.flush()
        table = harness.table()
    assert len(table) == len(rows)
    for row in table:
        assert row[::2] == row[1::2]
    assert all(any(column) for column in zip(*table, strict=True))


@pytest.mark.parametrize(
    "condition", ["(k, s) BETWEEN (1, 'a', 2) AND (1, 'b')", "((k, s), k) = ((1, 'a', 2), 1)"]
)
def test_ranges_and_inner_rows_of_another_length_are_refused(condition: str) -> None:
    with pytest.raises(SqlError, match=r"a row of . is compared with a row of .") as refusal:
        al.Harness.from_sql(f"SELECT k FROM t WHERE {condition}", TABLES)
    assert "^^^" in str(refusal.value)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "(k, s) BETWEEN 1 AND 2",
            r"\(k, s\), a row of 2 values, is compared with 1, which is no row",
        ),
        ("(k, s) NOT BETWEEN (1, 'a') AND (2)", r"is compared with \(?2\)?, which is no row"),
        ("(k, s, 1) = -1", "a row of 3 values, is compared with -1"),
        ("(k, s) IN ((1, 'a'), 3)", "write a row of 2 values there, or compare one value"),
    ],
)
def test_a_row_beside_a_value_is_refused(condition: str, said: str) -> None:
    with pytest.raises(SqlError, match=said) as raised:
        al.Harness.from_sql(f"SELECT k FROM t WHERE {condition}", TABLES)
    assert "\nAt line 1" in str(raised.value)


def test_a_row_beside_a_column_of_another_type_is_refused() -> None:
    sql = "SELECT k FROM t WHERE (k, s) BETWEEN k AND s"
    said = "compares a row with INT; write a row of 2 values there"
    with pytest.raises(AggloomError, match=said), al.Harness.from_sql(sql, TABLES) as harness:
        harness.process(ROWS)
        harness.flush()
