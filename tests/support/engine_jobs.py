"""Jobs for tests of the local engine: random changes in files, queries over them, and the tables that they have."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aggloom.job import Job, complete
from aggloom.job_plan import harness_of
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.engine.query import LocalQuery
from aggloom.runtime.values.changelog import sort_key
from aggloom.tables import table_source

Row = tuple[Any, ...]
ORDERS = "id INT, customer STRING, amount INT, at TIMESTAMP"
QUERIES = {
    "sums": "SELECT customer, COUNT(*) AS n, SUM(amount) AS s, MAX(amount) AS m FROM orders GROUP BY customer",
    "global": "SELECT COUNT(*) AS n, SUM(amount) AS s FROM orders",
    "nested": "SELECT n, COUNT(*) AS c FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n",
    "distinct": "SELECT customer, COUNT(DISTINCT amount) AS d FROM orders GROUP BY customer",
    "join": "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.customer = b.customer AND a.amount < b.amount",
    "joined": "SELECT a.customer, COUNT(*) AS n, SUM(b.amount) AS s FROM orders a JOIN orders b ON a.id = b.id"
    " GROUP BY a.customer",
    "rank": "SELECT * FROM (SELECT id, customer, amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC,"
    " id) AS r FROM orders) WHERE r <= 2",
    "unnest": "SELECT customer, e, o, COUNT(*) AS n FROM orders LEFT JOIN UNNEST(ARRAY(amount, id % 3)) "
    "WITH ORDINALITY AS u(e, o) ON TRUE GROUP BY customer, e, o",
    "filter": "SELECT id, amount + 1 AS more FROM orders WHERE amount > 3",
    "logged": "SELECT customer, n FROM FROM_CHANGELOG(input => (SELECT * FROM TO_CHANGELOG(input => (SELECT customer,"
    " COUNT(*) AS n FROM orders GROUP BY customer), op_mapping => MAP['INSERT, UPDATE_AFTER', 'w', 'DELETE', 'x']))"
    " PARTITION BY customer, op_mapping => MAP['w', 'UPDATE_AFTER', 'x', 'DELETE'])",
    "windows": "SELECT window_start, customer, SUM(amount) AS s FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at),"
    " INTERVAL '10' SECOND)) GROUP BY window_start, window_end, customer",
}
"""Queries over changes; "windows" is over insertions."""


def random_changes(seed: int, rows: int, retracts: bool = True) -> list[tuple[str, Row]]:
    """Random changes of orders, each retraction after its insertion; times go forward."""
    draw = random.Random(seed)
    live: list[Row] = []
    found = []
    for number in range(rows):
        if retracts and live and draw.random() < 0.3:
            found.append(("delete", live.pop(draw.randrange(len(live)))))
            continue
        at = f"2026-01-01 00:{number // 60 % 60:02d}:{number % 60:02d}"
        amount = draw.choice([None, *range(6)])
        live.append((number, draw.choice(["Ada", "Zoë", "", None]), amount, at))
        found.append(("insert", live[-1]))
    return found


def write_files(
    folder: Path, changes: Sequence[tuple[str, Row]], files: int, start: int = 0
) -> None:
    """Write changes as lines of JSON into files, one after the other by their times of modification."""
    folder.mkdir(exist_ok=True)
    size = max(1, -(-len(changes) // files))
    for number in range(files):
        part = changes[number * size : (number + 1) * size]
        names = ("id", "customer", "amount", "at", "_change_type")
        lines = [json.dumps(dict(zip(names, (*row, kind), strict=True))) for kind, row in part]
        file = folder / f"part-{start + number:03d}.json"
        # A query that follows the folder reads a file as soon as it has a name of its own, and only once.
        aside = folder / f".{file.name}"
        aside.write_text("".join(line + "\n" for line in lines), "utf-8")
        moment = 1_700_000_000 + start + number
        os.utime(aside, (moment, moment))
        aside.rename(file)


def job_over(folder: Path, query: str, checkpoint: Path, sink: Any = "table", **given: Any) -> Job:
    """The job of one of the queries; a file is a batch."""
    settings = {
        "path": str(folder),
        "format": "jsonl",
        "schema": ORDERS,
        "watermark": "at 5 seconds",
        "options": {"maxFilesPerTrigger": 1},
    }
    if query == "windows":
        settings["changes"] = "append"
    tables = (table_source("orders", settings, "a test"),)
    entries = {"sql": QUERIES[query], "tables": tables, "backend": "python", **given}
    dialect = {"dialect": "flink"} if query == "windows" else {}
    return complete({**entries, **dialect, "sink": sink, "checkpoint": checkpoint}, "a test")


def run_to_end(job: Job) -> LocalQuery:
    """Run a job to the end of its input; the query is closed."""
    assert job.checkpoint is not None
    query = open_query(job, job.checkpoint)
    try:
        query.run()
    finally:
        query.close()
    return query


def rows_of_table(checkpoint: Path) -> list[Row]:
    """The rows of sink `table`, sorted."""
    rows = [tuple(row.values()) for row in read_table(checkpoint).to_pylist()]
    return sorted(rows, key=lambda row: [sort_key(value) for value in row])


def expected_rows(job: Job) -> list[Row]:
    """The rows of a job's result, by the harness in one bundle."""
    harness = harness_of(job)
    for table in job.tables:
        options = {n: v for n, v in table.options.items() if n != "maxFilesPerTrigger"}
        harness.read(table.path, table.format, table.name, options)
    harness.end_of_input()
    return [tuple(row) for row in harness.table()]


def changes_in(folder: Path) -> Iterator[dict[str, Any]]:
    """The changes that sink `jsonl` has committed."""
    from aggloom.runtime.connectors.files.discovery import files_at

    for file in files_at(folder):
        yield from map(json.loads, file.read_text("utf-8").splitlines())
