"""Rolling horizons on Spark: the model's table at the watermark of the last batch, over a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolling_model import COLUMNS, QUERY, random_batches, write_batch

import aggloom as al


def test_the_table_is_that_of_the_watermark(spark: Any, tmp_path: Path) -> None:
    made = list(random_batches(7, 8))
    for part in (range(5), range(5, 8)):
        for number in part:
            write_batch(tmp_path / "in", number, made[number][0])
        rows = al.read_changes(
            spark,
            tmp_path / "in",
            "jsonl",
            "k STRING, v INT, ts TIMESTAMP",
            max_files_per_trigger=2,
        )
        watermarks = {"t": ("ts", "3 minutes")}
        out = al.sql(QUERY, t=rows, watermarks=watermarks, backend="python", buckets=2)
        al.await_end(al.write_changes(out, "table", tmp_path / "c", trigger={"availableNow": True}))
        found = al.read_table(tmp_path / "c").to_pylist()
        # The batch without rows, by which Spark ends, has the watermark of the last rows.
        assert sorted(tuple(row[name] for name in COLUMNS) for row in found) == made[part[-1]][1]
