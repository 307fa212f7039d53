"""Joins on Spark: two streams over restarts, a table beside a stream, and answers that are those of whole batches."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.spark.failures import await_end

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

ORDERS = "id INT, customer INT, amount BIGINT"
CUSTOMERS = "customer INT, name STRING"
PAID = """
    SELECT name, COUNT(*) AS orders, SUM(amount) AS amount
    FROM orders LEFT JOIN customers ON orders.customer = customers.customer
    WHERE amount > 0 GROUP BY name"""


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def table(checkpoint: Path) -> Counter[tuple[Any, ...]]:
    """The rows of the sink's table."""
    return Counter(tuple(row.values()) for row in al.read_table(checkpoint).to_pylist())


def test_two_streams_over_restarts_one_of_them_idle(spark: Any, tmp_path: Path) -> None:
    schemas = {"orders": ORDERS, "customers": CUSTOMERS}
    harness = Harness.from_sql(PAID, schemas, backend="python")
    steps = [
        (
            [("insert", 1, 7, 5), ("insert", 2, 8, 6), ("insert", 3, None, 1)],
            [("insert", 7, "ada")],
        ),
        ([("delete", 2, 8, 6), ("insert", 4, 9, 2)], []),
        (
            [],
            [("update_before", 7, "ada"), ("update_after", 7, "bob"), ("insert", 9, "bob")],
        ),
    ]
    names = {"insert": "+I", "delete": "-D", "update_before": "-U", "update_after": "+U"}
    words = {"update_before": "update_preimage", "update_after": "update_postimage"}
    for number, (orders, customers) in enumerate(steps):
        for name, rows, columns in (
            ("orders", orders, ("id", "customer", "amount")),
            ("customers", customers, ("customer", "name")),
        ):
            given = [
                {"_change_type": words.get(kind, kind), **dict(zip(columns, row, strict=True))}
                for kind, *row in rows
            ]
            lines(tmp_path / name / f"{number}.jsonl", given)
            harness.process([(names[kind], *row) for kind, *row in rows], table=name)
        harness.flush()
        tables = {
            name: al.read_changes(spark, str(tmp_path / name), "jsonl", ddl)
            for name, ddl in schemas.items()
        }
        await_end(al.write_changes(al.sql(PAID, tables=tables), "table", tmp_path / "checkpoint"))
        assert table(tmp_path / "checkpoint") == Counter(harness.table())


@pytest.mark.thorough
def test_what_does_not_stream_is_read_once(spark: Any, tmp_path: Path) -> None:
    """A batch DataFrame, rows that the query says, and a sub-query that lies in one place."""
    sql = """
        SELECT id, name, word, (SELECT COUNT(*) FROM orders) AS n FROM orders
        LEFT JOIN customers ON orders.customer = customers.customer
        JOIN (VALUES (0, 'none'), (1, 'one')) AS words(amount, word) ON orders.amount = words.amount"""
    customers = spark.createDataFrame([(7, "ada"), (8, "bob")], CUSTOMERS)
    for number, customer in enumerate((7, 8, 5)):
        row = {"id": number, "customer": customer, "amount": 1}
        lines(tmp_path / "in" / f"{number}.jsonl", [row])
        orders = al.read_changes(spark, str(tmp_path / "in"), "jsonl", ORDERS)
        joined = al.sql(sql, orders=orders, customers=customers)
        await_end(al.write_changes(joined, "table", tmp_path / "checkpoint"))
    expected = [(0, "ada", "one", 3), (1, "bob", "one", 3), (2, None, "one", 3)]
    assert table(tmp_path / "checkpoint") == Counter(expected)


def test_money_that_moves_between_tables_is_never_counted_twice(spark: Any, tmp_path: Path) -> None:
    """Both halves of a transfer come in one batch: the sum over both tables is told once, and never another.

    One operator joins three inputs, over restarts.
    """
    sql = """
        SELECT SUM(a.amount + b.amount) AS total FROM a JOIN b ON a.account = b.account
        JOIN b AS again ON again.account = a.account"""
    for number in range(3):
        for name, sign in (("a", 1), ("b", -1)):
            rows: list[dict[str, Any]] = []
            for account in range(4):
                if number:
                    old = 10 + sign * (number - 1) * account
                    rows.append({"_change_type": "delete", "account": account, "amount": old})
                new = 10 + sign * number * account
                rows.append({"_change_type": "insert", "account": account, "amount": new})
            lines(tmp_path / name / f"{number}.jsonl", rows)
        tables = {
            name: al.read_changes(
                spark,
                str(tmp_path / name),
                "jsonl",
                "account INT, amount BIGINT",
            )
            for name in "ab"
        }
        changes = al.sql(sql, tables=tables)
        query = al.write_changes(changes, f"jsonl:{tmp_path / 'out'}", tmp_path / "checkpoint")
        await_end(query)
    told = [
        json.loads(line)
        for file in (tmp_path / "out").glob("*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert [row for row in told if row.get("total") is not None] == [
        {"total": 80, "_change_type": "insert"}
    ]
    operators = al.state(tmp_path / "checkpoint", spark=spark).operators
    join = next(each for each in operators if each.name.startswith("MULTI JOIN (INNER, INNER)"))
    assert (join.keys, join.calls) == (4, ())


CLICKS = "id INT, ad INT, at TIMESTAMP"
SEEN_AND_CLICKED = """
    WITH near AS (
      SELECT shown.id, shown.at, clicks.id AS click FROM shown LEFT JOIN clicks
      ON shown.ad = clicks.ad AND clicks.at BETWEEN shown.at AND shown.at + INTERVAL '10' MINUTE)
    SELECT window_start, COUNT(*) AS shown, COUNT(click) AS clicked
    FROM TABLE(TUMBLE(TABLE near, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end"""


@pytest.mark.thorough
def test_an_interval_join_under_a_window_over_restarts(spark: Any, tmp_path: Path) -> None:
    """Two streams with watermarks of their own: rows without a partner come in time for their windows."""
    minutes = {
        "shown": [(0, 2), (7, 12), (31, 33), (90,)],
        "clicks": [(1, 4), (13, 30), (40,), (90,)],
    }
    for number in range(4):
        tables = {}
        for name, times in minutes.items():
            rows = [
                {"id": m, "ad": m % 2, "at": f"2024-05-01T{9 + m // 60:02d}:{m % 60:02d}:00Z"}
                for m in times[number]
            ]
            lines(tmp_path / name / f"{number}.jsonl", rows)
            tables[name] = al.read_changes(spark, str(tmp_path / name), "jsonl", CLICKS)
        out = al.sql(
            SEEN_AND_CLICKED,
            tables=tables,
            input_changes="append",
            watermarks=dict.fromkeys(tables, ("at", "1 minute")),
        )
        await_end(al.write_changes(out, "table", tmp_path / "checkpoint"))
    found = {start.strftime("%H:%M"): tuple(n) for start, *n in table(tmp_path / "checkpoint")}
    # 0 with 4; 2 with 4; 7 with 13; 12 with 30: no; 31 and 33 with 40: no, other ads.
    assert found == {"09:00": (2, 2), "09:05": (1, 1), "09:10": (1, 0), "09:30": (2, 0)}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_batches_as_spark_joins_them(spark: Any, how: str) -> None:
    left = spark.createDataFrame([(1, "a"), (1, "b"), (2, "c"), (None, "n")], "k INT, v STRING")
    right = spark.createDataFrame([(1, "x"), (3, "y"), (None, "z"), (1, "w")], "k INT, w STRING")
    found = al.join(left, right, "k", how=how).drop("_change_type")
    expected = left.join(right, "k", how)
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, expected.collect()))
