"""Joins by time on Spark: a temporal join of two streams over restarts, and both joins over batch DataFrames."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.spark.failures import await_end

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

ORDERS = "id INT, currency STRING, t TIMESTAMP"
RATES = "currency STRING, t TIMESTAMP, rate INT"
AT_ITS_TIME = """
    SELECT orders.id, rate FROM orders LEFT JOIN rates FOR SYSTEM_TIME AS OF orders.t
    ON orders.currency = rates.currency"""


def at(second: int) -> str:
    """A time as JSON has it."""
    return f"2026-01-01T00:00:{second:02}Z"


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_orders_with_the_rates_of_their_time_over_restarts(spark: Any, tmp_path: Path) -> None:
    steps: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
        ([(1, "EUR", 3), (2, "EUR", 9), (3, "USD", 9)], [("insert", "EUR", 1, 10)]),
        # Rates come in a batch after their orders; the last rows only move the watermark.
        (
            [(4, "EUR", 12), (5, "EUR", 16), (6, "USD", 59)],
            [
                *(("update_postimage", "EUR", 8, 20), ("insert", "USD", 8, 5)),
                *(("delete", "EUR", 14, 20), ("insert", "JPY", 59, 1)),
            ],
        ),
    ]
    for number, (orders, rates) in enumerate(steps):
        left = [{"id": i, "currency": c, "t": at(t)} for i, c, t in orders]
        right = [
            {"_change_type": kind, "currency": c, "t": at(t), "rate": rate}
            for kind, c, t, rate in rates
        ]
        lines(tmp_path / "orders" / f"{number}.jsonl", left)
        lines(tmp_path / "rates" / f"{number}.jsonl", right)
        changes = al.sql(
            AT_ITS_TIME,
            orders=spark.readStream.schema(ORDERS).json(str(tmp_path / "orders")),
            rates=al.read_changes(spark, str(tmp_path / "rates"), "jsonl", RATES),
            input_changes={"orders": "append", "rates": "upsert"},
            keys={"rates": ["currency"]},
            watermarks={"orders": ("t", "0 s"), "rates": ("t", "0 s")},
        )
        await_end(al.write_changes(changes, "table", tmp_path / "checkpoint"))
    told = al.read_table(tmp_path / "checkpoint").to_pylist()
    assert sorted((row["id"], row["rate"]) for row in told if row["id"] < 6) == [
        *((1, 10), (2, 20), (3, 5), (4, 20), (5, None)),
    ]


def test_batches(spark: Any) -> None:
    zone = dt.UTC
    times = [dt.datetime(2026, 1, 1, 0, 0, n, tzinfo=zone) for n in range(10)]
    orders = spark.createDataFrame(
        [(1, "EUR", times[3]), (2, "EUR", times[9]), (3, None, times[3])], ORDERS
    )
    rates = spark.createDataFrame([("EUR", times[1], 10), ("EUR", times[9], 20)], RATES)
    nearest = al.asof_join(
        *(orders, rates, "currency"), match="l.t > r.t", how="left", select=["l.id", "rate"]
    )
    found = Counter(map(tuple, nearest.drop("_change_type").collect()))
    assert found == Counter([(1, 10), (2, 10), (3, None)])
    held = al.asof_join(
        *(orders, rates, "currency"),
        as_of="l.t",
        select=["l.id", "rate"],
        keys={"r": ["currency"]},
    )
    found = Counter(map(tuple, held.drop("_change_type").collect()))
    assert found == Counter([(1, 10), (2, 20)])
