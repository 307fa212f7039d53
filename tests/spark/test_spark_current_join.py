"""A table joined as it is now, on Spark and on the local engine: the same rows after each batch, over restarts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import rows_of_table, run_to_end

import aggloom as al
from aggloom.job import complete
from aggloom.runtime.spark.failures import await_end
from aggloom.tables import table_source

pytestmark = pytest.mark.spark

ORDERS, RATES = "id INT, currency STRING", "currency STRING, rate INT"
NOW = """
    SELECT orders.id, r.rate FROM orders LEFT JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r
    ON orders.currency = r.currency"""
STEPS: list[tuple[list[tuple[int, str]], list[tuple[str, str, int]], list[tuple[int, Any]]]] = [
    ([(1, "EUR"), (2, "USD")], [("insert", "EUR", 10)], [(1, 10), (2, None)]),
    (
        [(3, "EUR"), (4, "USD")],
        [("delete", "EUR", 10), ("insert", "EUR", 11), ("insert", "USD", 7)],
        [(3, 11), (4, 7)],
    ),
    ([(5, "EUR"), (6, "USD")], [("delete", "USD", 7)], [(5, 11), (6, None)]),
]
"""Orders, changes of rates and the rows of each batch."""


def write(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{number}.jsonl").write_text(text, encoding="utf-8")


def test_rows_meet_the_table_of_their_batch_on_both_engines(spark: Any, tmp_path: Path) -> None:
    sources = {"orders": (tmp_path / "orders", ORDERS), "rates": (tmp_path / "rates", RATES)}
    changes = {"orders": "append", "rates": "retract"}
    tables = tuple(
        table_source(
            name,
            {"format": "jsonl", "path": str(path), "schema": schema, "changes": changes[name]},
            "a test",
        )
        for name, (path, schema) in sources.items()
    )
    entries = {"sql": NOW, "tables": tables, "sink": "table", "backend": "python"}
    job = complete({**entries, "checkpoint": tmp_path / "local"}, "a test")
    wanted: Counter[Any] = Counter()
    for number, (orders, rates, rows) in enumerate(STEPS):
        write(tmp_path / "orders", number, [{"id": n, "currency": c} for n, c in orders])
        words = ({"_change_type": kind, "currency": c, "rate": rate} for kind, c, rate in rates)
        write(tmp_path / "rates", number, list(words))
        frames = {
            name: al.read_changes(spark, str(path), "jsonl", schema)
            for name, (path, schema) in sources.items()
        }
        result = al.sql(NOW, tables=frames, input_changes=changes, buckets=2)
        await_end(al.write_changes(result, "table", tmp_path / "spark"))
        run_to_end(job)
        wanted += Counter(rows)
        found = (tuple(row.values()) for row in al.read_table(tmp_path / "spark").to_pylist())
        assert Counter(found) == wanted
        assert Counter(rows_of_table(tmp_path / "local")) == wanted
