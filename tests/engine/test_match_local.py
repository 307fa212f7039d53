"""MATCH_RECOGNIZE on the local engine: one answer however files are cut into batches, over restarts; state and why."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from pathlib import Path
from typing import Any

import match_model
import pytest
from engine_jobs import rows_of_table
from match_model import Query

from aggloom.job import Job, complete
from aggloom.run_local import open_query
from aggloom.runtime.inspection.checkpoint import state, why
from aggloom.tables import table_source

SCHEMA = "g STRING, id INT, price INT, name STRING, rate DOUBLE, cost DECIMAL(10, 2), ts TIMESTAMP"
NAMES = [column.split()[0] for column in SCHEMA.replace("10, 2", "10").split(", ")]
KINDS = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}
FILES = 6


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as lines of JSON into files, one after the other by their times of modification."""
    folder.mkdir()
    size = -(-len(rows) // FILES)
    for number in range(FILES):
        part = rows[number * size : (number + 1) * size]
        lines = [json.dumps({**row, "ts": row["ts"].isoformat()}) + "\n" for row in part]
        file = folder / f"part-{number}.json"
        file.write_text("".join(lines), "utf-8")
        os.utime(file, (1_700_000_000 + number,) * 2)


def job_over(folder: Path, query: Query, checkpoint: Path, changes: str = "append") -> Job:
    settings = {
        "path": str(folder),
        "format": "jsonl",
        "schema": SCHEMA,
        "watermark": "ts 1 second",
        "changes": changes,
        "options": {"maxFilesPerTrigger": 1},
    }
    tables = (table_source("t", settings, "a test"),)
    entries = {"sql": query.sql(), "tables": tables, "backend": "python", "sink": "table"}
    return complete({**entries, "checkpoint": checkpoint}, "a test")


@pytest.mark.parametrize("changes", ["append", "retract"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(4)
def test_files_batches_and_restarts(seed: int, changes: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    query, rows = match_model.random_query(rng), match_model.random_rows(rng, 60)
    lines = rows
    if changes == "retract":
        waiting, live, lines = rows, dict[int, Any](), list[dict[str, Any]]()
        while waiting:
            for kind, *values in match_model.change_rows(rng, live, waiting):
                lines.append({**dict(zip(NAMES, values, strict=True)), "_change_type": KINDS[kind]})
        rows = list(live.values())
    write_rows(tmp_path / "in", lines)
    job = job_over(tmp_path / "in", query, tmp_path / "checkpoint", changes)
    for _ in range(3):
        # Two batches, and a process that ends.
        running = open_query(job, tmp_path / "checkpoint")
        try:
            for _ in range(2):
                running.run_batch()
        finally:
            running.close()
    running = open_query(job, tmp_path / "checkpoint")
    try:
        running.run()
    finally:
        running.close()
    wanted = match_model.expected(query, rows, None)
    assert sorted(map(str, rows_of_table(tmp_path / "checkpoint"))) == sorted(map(str, wanted))


def test_state_and_why(tmp_path: Path) -> None:
    pattern = ("seq", (("var", "A"), ("many", ("var", "B"), 1, None, False), ("var", "C")))
    less = match_model.less
    query = Query(
        pattern,
        {
            "A": ("price = 1", lambda look: look.now["price"] == 1),
            "B": (
                "B.price > LAST(price, 1)",
                lambda k: less(k.last("price", "", 1), k.now["price"]),
            ),
            "C": ("price = 0", lambda look: look.now["price"] == 0),
        },
    )
    prices = [1, 2, 3, 0, 5, 1, 2, 2, 1, 7, 8, 9]
    rows = [
        {**row, "g": "x", "price": price, "ts": match_model.START + dt.timedelta(seconds=number)}
        for number, (row, price) in enumerate(
            zip(match_model.random_rows(random.Random(1), len(prices)), prices, strict=True)
        )
    ]
    write_rows(tmp_path / "in", rows)
    checkpoint = tmp_path / "checkpoint"
    running = open_query(job_over(tmp_path / "in", query, checkpoint), checkpoint)
    try:
        while running.run_batch():
            pass
    finally:
        running.close()
    (operator,) = state(checkpoint, key={"g": "x"}).operators
    assert operator.key is not None
    (part,) = operator.key.parts
    assert part.results is not None and part.results["matches"] == 1
    story = why(checkpoint, key={"g": "x"})
    assert story.agrees
    emitted = [row for bundle in story.bundles for _, row in bundle.emitted]
    assert len(emitted) == 1
