"""PIVOT and UNPIVOT over changes, beside Spark's own and a model in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError, UnknownColumnError, UnsupportedSqlError

TABLES = {"t": "id INT, k STRING, v INT, w INT"}
OWN = "(SELECT id, k, v FROM t)"
PIVOTS = [
    f"SELECT * FROM {OWN} PIVOT (SUM(v) FOR k IN ('a', 'b', NULL))",
    f"SELECT * FROM {OWN} PIVOT (SUM(v) AS s, COUNT(*) AS c FOR k IN ('a' AS x, 'b')) AS p WHERE p.x_c > 0",
    f"SELECT a, COUNT(*) AS n FROM {OWN} PIVOT (MAX(v) FOR k IN ('a')) GROUP BY a",
    "SELECT * FROM (SELECT k, v FROM t) PIVOT (COUNT(v) AS n FOR k IN ('a', 'z'))",
    "SELECT * FROM t PIVOT (SUM(v) FOR (k, id) IN (('a', 1) AS x, ('b', 2) AS y))",
    f"SELECT t.id, p.x FROM t JOIN (SELECT * FROM {OWN} PIVOT (MIN(v) FOR k IN ('a' AS x))) AS p ON t.id = p.id",
    "SELECT * FROM t UNPIVOT (x FOR n IN (v AS `the v`, w))",
    "SELECT n, SUM(x) AS s FROM t UNPIVOT INCLUDE NULLS (x FOR n IN (v, w)) AS p GROUP BY n",
    "SELECT * FROM t UNPIVOT ((x, y) FOR n IN ((v, w) AS p, (w, v)))",
]


def random_rows(seed: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Random changes, and the rows that are left."""
    draw = random.Random(seed)
    live: list[tuple[Any, ...]] = []
    changes = []
    for _ in range(40):
        if live and draw.random() < 0.35:
            changes.append(("-D", *live.pop(draw.randrange(len(live)))))
            continue
        numbers = [draw.choice([None, 0, 1, 2, -3]) for _ in range(2)]
        live.append((draw.randint(1, 3), draw.choice(["a", "b", "c", None]), *numbers))
        changes.append(("+I", *live[-1]))
    return changes, live


def table_of(sql: str, changes: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    harness = al.Harness.from_sql(sql, TABLES, backend="python", mini_batch_size=7)
    harness.process(changes)
    harness.flush()
    return Counter(harness.table())


@pytest.mark.spark
@pytest.mark.parametrize("sql", PIVOTS)
def test_beside_spark(sql: str, spark: Any) -> None:
    changes, live = random_rows(PIVOTS.index(sql))
    spark.createDataFrame(live, TABLES["t"]).createOrReplaceTempView("t")
    expected = spark.sql(sql)
    harness = al.Harness.from_sql(sql, TABLES, backend="python")
    assert [field.name for field in harness.plan.schema] == expected.columns
    assert table_of(sql, changes) == Counter(tuple(row) for row in expected.collect())


@pytest.mark.parametrize("seed", range(5))
def test_beside_a_model(seed: int) -> None:
    changes, live = random_rows(seed)
    sums: dict[int, list[int | None]] = {row[0]: [None, None] for row in live}
    for number, key, value, _ in live:
        if key in ("a", "b") and value is not None:
            place = "ab".index(key)
            sums[number][place] = (sums[number][place] or 0) + value
    sql = f"SELECT * FROM {OWN} PIVOT (SUM(v) FOR k IN ('a', 'b'))"
    assert table_of(sql, changes) == Counter((number, *pair) for number, pair in sums.items())
    rows = Counter(
        (number, key, name, value)
        for number, key, v, w in live
        for name, value in (("v", v), ("w", w))
        if value is not None
    )
    assert table_of("SELECT * FROM t UNPIVOT (x FOR n IN (v, w))", changes) == rows


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT * FROM t PIVOT (SUM(v) FOR q IN ('a'))", UnknownColumnError, "no column 'q'"),
        ("SELECT * FROM t UNPIVOT (x FOR n IN (v, z))", UnknownColumnError, "no column 'z'"),
        (
            "SELECT * FROM t PIVOT (SUM(v), COUNT(*) FOR k IN ('a'))",
            UnsupportedSqlError,
            "several aggregates in a PIVOT without names",
        ),
        (
            "SELECT * FROM t PIVOT (SUM(v) FOR (k, id) IN ('a'))",
            UnsupportedSqlError,
            "1 values for 2 columns",
        ),
        (
            "SELECT * FROM t PIVOT (SUM(v) FOR (k, id) IN (('a', 1)))",
            UnsupportedSqlError,
            "a list of values without a name",
        ),
        (
            "SELECT * FROM t PIVOT (SUM(v) FOR k IN ())",
            UnsupportedSqlError,
            "without a list of values",
        ),
        ("SELECT * FROM t PIVOT (SUM(v) FOR k IN (SELECT k FROM t))", AggloomError, "PIVOT|read"),
        ("SELECT * FROM t UNPIVOT ((x, y) FOR n IN (v, w))", UnsupportedSqlError, "for 2 values"),
        ("SELECT * FROM t PIVOT (UPPER(k) FOR k IN ('a'))", AggloomError, "PIVOT|read"),
    ],
)
def test_refusals(sql: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        al.Harness.from_sql(sql, TABLES, backend="python")


def test_a_spec_refuses_it() -> None:
    with pytest.raises(UnsupportedSqlError, match="PIVOTS after the table"):
        al.AggSpec.from_sql("SELECT SUM(a) AS s FROM t PIVOT (SUM(v) FOR k IN ('a'))", TABLES["t"])
