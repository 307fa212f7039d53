"""Lookup joins on Spark: tables asked in workers, a batch DataFrame, and what a row got over kills and restarts."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.spark.failures import await_end

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

S = "id INT, k INT"
DIM = "k INT, name STRING"


def lines(path: Path, rows: list[tuple[Any, ...]]) -> None:
    """A file of changes."""
    path.parent.mkdir(exist_ok=True)
    names = ("_change_type", "id", "k")
    text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def written(
    spark: Any, folder: Path, sink: str, checkpoint: Path, table: Any, **options: Any
) -> None:
    """Run a lookup of what has come into a sink."""
    changes = al.read_changes(spark, str(folder), "jsonl", S)
    out = al.lookup(changes, table, "k", select=["id", "k", "name"], **options)
    await_end(al.write_changes(out, sink, checkpoint))


def rows_of(checkpoint: Path) -> Counter[tuple[Any, ...]]:
    """The rows of the sink's table."""
    return Counter(tuple(row.values()) for row in al.read_table(checkpoint).to_pylist())


def test_what_a_row_got_outlives_kills_and_restarts(spark: Any, tmp_path: Path) -> None:
    place, mark = tmp_path / "dim.db", tmp_path / "killed"

    def fill(word: str) -> None:
        with sqlite3.connect(place) as made:
            made.execute("CREATE TABLE IF NOT EXISTS dim (k INT PRIMARY KEY, name TEXT)")
            made.executemany(
                "INSERT OR REPLACE INTO dim VALUES (?, ?)", [(k, f"{word}{k}") for k in range(1, 4)]
            )
        made.close()

    name = str(place)

    def connect() -> Any:
        import sqlite3

        return sqlite3.connect(name)

    table = al.lookup_table(DIM, connect=connect, table="dim", key="k")
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "s"
    fill("old")
    lines(
        folder / "0.jsonl",
        [("insert", 1, 1), ("insert", 2, 2), ("insert", 3, 9), ("insert", 4, None)],
    )
    written(spark, folder, "table", checkpoint, table)
    first = {(1, 1, "old1"), (2, 2, "old2"), (3, 9, None), (4, None, None)}
    assert rows_of(checkpoint) == Counter(first)

    # The table says other things by now; a worker is killed while it asks.
    fill("new")
    mark.touch()
    flag = str(mark)

    def dies_once() -> Any:
        import sqlite3

        if os.path.exists(flag):  # noqa: PTH110
            os.remove(flag)  # noqa: PTH107
            os.kill(os.getpid(), signal.SIGKILL)
        return sqlite3.connect(name)

    dying = al.lookup_table(DIM, connect=dies_once, table="dim", key="k")
    changes = [
        ("delete", 1, 1),
        ("delete", 3, 9),
        ("update_preimage", 2, 2),
        ("update_postimage", 2, 3),
    ]
    lines(folder / "1.jsonl", [*changes, ("insert", 5, 1)])
    for _ in range(2):
        try:
            written(spark, folder, "table", checkpoint, dying)
            break
        except Exception as error:
            assert not mark.exists(), error
    assert not mark.exists()
    assert rows_of(checkpoint) == Counter({(4, None, None), (2, 3, "new3"), (5, 1, "new1")})

    # The live state is gone: what is left is the log of rows with their answers.
    fill("later")
    lines(folder / "2.jsonl", [("delete", 2, 3), ("delete", 5, 1), ("insert", 6, 1)])
    written(spark, folder, "table", checkpoint, table, state_directory=tmp_path / "elsewhere")
    assert rows_of(checkpoint) == Counter({(4, None, None), (6, 1, "later1")})


def test_a_batch_dataframe_is_read_again_in_every_batch(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "dim")
    frame = spark.createDataFrame([(1, "one"), (2, "two"), (None, "none")], DIM)
    folder = tmp_path / "s"
    lines(folder / "0.jsonl", [("insert", 1, 1), ("insert", 2, 7), ("insert", 3, None)])
    frame.write.parquet(place)
    checkpoint = tmp_path / "checkpoint"
    written(spark, folder, "table", checkpoint, spark.read.parquet(place))
    other = spark.createDataFrame([(1, "uno"), (2, "dos")], DIM)
    other.write.mode("overwrite").parquet(place)
    lines(folder / "1.jsonl", [("insert", 4, 1), ("delete", 1, 1), ("delete", 2, 7)])
    written(spark, folder, "table", checkpoint, spark.read.parquet(place))
    assert rows_of(checkpoint) == Counter([(3, None, None), (4, 1, "uno")])
    # Insertions, a condition of the pair, and rows that are left as they are.
    rows = spark.createDataFrame([(1, 1), (2, 2), (3, None)], S)
    condition = "l.k = r.k AND r.name <> 'two' AND l.id < 9"
    for how, found in (("left", {(1, "one"), (2, None), (3, None)}), ("inner", {(1, "one")})):
        out = al.lookup(rows, frame, condition=condition, how=how, select=["l.id", "name"])
        assert {tuple(row)[:2] for row in out.collect()} == found


def test_functions_in_workers_above_and_below_aggregates(spark: Any, tmp_path: Path) -> None:
    async def ask(k: int) -> Any:
        return (k, f"n{k % 2}") if k < 4 else None

    table = al.lookup_table(DIM, function=ask, key="k", capacity=10, cache="partial")
    sql = """
        SELECT name, SUM(n) AS total FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS c
        LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON c.k = d.k GROUP BY name"""
    rows = [(n, n % 6) for n in range(60)]
    out = al.sql(sql, tables={"s": spark.createDataFrame(rows, S)}, lookups={"dim": table})
    folded: Counter[Any] = Counter()
    for row in out.collect():
        sign = -1 if row["_change_type"] in ("delete", "update_preimage") else 1
        folded[row["name"], row["total"]] += sign
    assert +folded == Counter({("n0", 20): 1, ("n1", 20): 1, (None, 20): 1})


def test_failures_in_workers_are_told_in_a_line(spark: Any, tmp_path: Path) -> None:
    def ask(k: int) -> Any:
        return (k, 5)

    table = al.lookup_table(DIM, function=ask, key="k")
    lines(tmp_path / "s" / "0.jsonl", [("insert", 1, 1)])
    with pytest.raises(AggloomError, match=r"lookup table r, key k=1: column 'name' is STRING"):
        written(spark, tmp_path / "s", "table", tmp_path / "checkpoint", table)
    stream = al.read_changes(spark, str(tmp_path / "s"), "jsonl", S)
    with pytest.raises(SpecError, match="'r' streams"):
        al.lookup(stream, stream, "k")


def test_times_of_csv_without_a_zone_are_those_of_a_stream(spark: Any, tmp_path: Path) -> None:
    """The session's zone, and the options of the file, hold in workers for both."""
    (tmp_path / "dim").mkdir()
    (tmp_path / "dim" / "f.csv").write_text("v;ts\n1;2026-01-01 01:02:03\n2;NA\n")
    options = {"sep": ";", "nullValue": "NA"}
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        rows = al.read_changes(
            spark, str(tmp_path / "dim"), "csv", "v INT, ts TIMESTAMP", **options
        )
        table = al.lookup_table(
            "v INT, ts TIMESTAMP", files=str(tmp_path / "dim"), format="csv", format_options=options
        )
        asked = "SELECT t.v, t.ts, r.ts AS found FROM t JOIN r FOR SYSTEM_TIME AS OF PROCTIME() ON t.v = r.v"
        await_end(
            al.write_changes(
                al.sql(asked, t=rows, lookups={"r": table}), "table", tmp_path / "checkpoint"
            )
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    found = rows_of(tmp_path / "checkpoint")
    moment = dt.datetime(2026, 1, 1, 6, 2, 3, tzinfo=dt.UTC)
    assert found == Counter([(1, moment, moment), (2, None, None)])
