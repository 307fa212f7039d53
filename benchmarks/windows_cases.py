"""The windows that are measured, in the words of each contender, and the rows that all of them read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

import aggloom as al
from aggloom.codegen.windows import Assigner

os.environ["POLARS_MAX_THREADS"] = "1"  # read when it is imported
pl: Any
try:
    import polars as pl
except ImportError:
    pl = None

DATA = Path(__file__).resolve().parent.parent / "build" / "bench"
FILES, FILES_A_BATCH = 8, 2
SLIDE = 60_000
FEW_KEYS, FEW_ROWS = 1_000, 200_000
MOST_OPEN = 500_000
START = 1_714_521_600_000  # 2024-05-01, in milliseconds
DELAY = "10 seconds"
DDL = "k BIGINT, ts TIMESTAMP, v INT"
SQL = "SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n FROM t GROUP BY k"
INSTANT = pa.timestamp("us", "UTC")
FLINK_SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
}
# So that a count of all results does not come as a change for each of them.
FLINK_BUNDLED = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "10 s",
    "table.exec.mini-batch.size": "1000000",
}
FLINK_SOURCE = """CREATE TABLE t (
  k BIGINT, at_ms BIGINT, v INT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv')"""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order of their event time: parquet files in `folder`, and the same for the others."""

    folder: Path
    keys: int
    rows: int
    minutes: int

    @classmethod
    def of(cls, keys: int, rows: int, most: int = 240) -> Self:
        """Rows over at most so many minutes, fewer if tumbling windows gave out over a third of them; written once."""
        minutes = min(max(rows // (3 * keys), 6), most)
        made = cls(DATA / f"windows-{keys}-{rows}-{minutes}", keys, rows, minutes)
        if not made.folder.exists():
            draft = made.folder.with_suffix(".draft")
            draft.mkdir(parents=True, exist_ok=True)
            rng = np.random.default_rng(7)
            times = START + np.sort(rng.integers(0, minutes * SLIDE, rows))
            for part, ms in enumerate(np.array_split(times, FILES)):
                columns = {
                    "k": rng.integers(0, keys, len(ms)),
                    "ts": pa.array(ms * 1000).cast(INSTANT),
                    "v": rng.integers(0, 1000, len(ms), dtype=np.int32),
                }
                pq.write_table(pa.table(columns), draft / f"part-{part:02}.parquet")
            draft.rename(made.folder)
        return made

    @property
    def gap(self) -> int:
        """Seconds between sessions: three times what lies between two rows of a key on average."""
        return max(round(3 * self.keys * self.minutes * 60 / self.rows), 1)

    @cached_property
    def table(self) -> pa.Table:
        """All rows with the columns k, t (milliseconds) and v, in memory."""
        read = pq.read_table(self.folder)
        ms = pa.array(read["ts"].cast(pa.int64()).to_numpy() // 1000)
        return pa.table({"k": read["k"], "t": ms, "v": read["v"]}).combine_chunks()

    @cached_property
    def csv(self) -> Path:
        """A folder of two CSV files, each with every second row: two readers walk through time together."""
        folder = self.folder.with_name(f"{self.folder.name}-csv")
        if not folder.exists():
            draft = folder.with_suffix(".draft")
            draft.mkdir(exist_ok=True)
            for turn in range(2):
                half = self.table.take(pa.array(np.arange(turn, self.rows, 2)))
                bare = pa.csv.WriteOptions(include_header=False)
                pa.csv.write_csv(half, draft / f"half-{turn}.csv", bare)
            draft.rename(folder)
        return folder


@dataclass(frozen=True, kw_only=True)
class Case:
    """Windows, in the words of each contender. `steps`: slides or steps in a window; 0 for sessions."""

    name: str
    steps: int
    assigner: Callable[[Rows], Assigner]
    flink: str
    duckdb: str
    polars: Callable[[Any, Rows], Any]
    spark: Callable[[Rows], Column] | None


def _calls() -> list[Any]:
    return [pl.sum("v").alias("s"), pl.max("v").alias("m"), pl.len().alias("n")]


def _hop(steps: int) -> Case:
    tumbles = steps == 1
    size = f"INTERVAL '{steps}' MINUTE"

    def polars(rows: Any, _: Rows) -> Any:
        if tumbles:
            return rows.group_by("k", pl.col("t") // SLIDE).agg(_calls())
        every, period, offset = (f"{n * SLIDE}i" for n in (1, steps, 1 - steps))
        return rows.group_by_dynamic(
            "t", every=every, period=period, offset=offset, group_by="k"
        ).agg(_calls())

    return Case(
        name="tumble 1 min" if tumbles else f"hop {steps} min / 1 min",
        steps=steps,
        assigner=lambda _: (
            al.Tumble(SLIDE, on="ts") if tumbles else al.Hop(steps * SLIDE, SLIDE, on="ts")
        ),
        flink=(
            f"TUMBLE(TABLE t, DESCRIPTOR(ts), {size})"
            if tumbles
            else f"HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, {size})"
        ),
        duckdb=f"SELECT k, t // {SLIDE} - i AS w, SUM(v), MAX(v), COUNT(*) FROM t, range({steps}) r(i) GROUP BY ALL",
        polars=polars,
        spark=lambda _: F.window("ts", f"{steps} minutes", "1 minute"),
    )


def _cumulate(steps: int) -> Case:
    size = steps * SLIDE
    return Case(
        name=f"cumulate {steps} min / 1 min",
        steps=steps,
        assigner=lambda _: al.Cumulate(size, SLIDE, on="ts"),
        flink=f"CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '{steps}' MINUTE)",
        duckdb=f"SELECT k, t // {size} AS w, i, SUM(v), MAX(v), COUNT(*) FROM t, range({steps}) r(i) "
        f"WHERE i >= t % {size} // {SLIDE} GROUP BY ALL",
        polars=lambda rows, _: rows.lazy()
        .join(pl.LazyFrame({"i": range(steps)}), how="cross")
        .filter(pl.col("i") >= pl.col("t") % size // SLIDE)
        .group_by("k", pl.col("t") // size, "i")
        .agg(_calls())
        .collect(engine="streaming"),
        spark=None,
    )


SESSION = Case(
    name="session",
    steps=0,
    assigner=lambda rows: al.Session(rows.gap * 1000, on="ts"),
    flink="SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND(4))",
    duckdb="SELECT k, i, SUM(v), MAX(v), COUNT(*) FROM (SELECT *, COUNT(*) FILTER (new) OVER "
    "(PARTITION BY k ORDER BY t) AS i FROM (SELECT *, t - LAG(t) OVER (PARTITION BY k ORDER BY t) > {gap} * 1000 "
    "AS new FROM t)) GROUP BY k, i",
    polars=lambda rows, data: rows.group_by(
        "k", (pl.col("t").diff() > data.gap * 1000).fill_null(False).cum_sum().over("k").alias("i")
    ).agg(_calls()),
    spark=lambda rows: F.session_window("ts", f"{rows.gap} seconds"),
)
CASES = {
    "tumble": _hop(1),
    "hop10": _hop(10),
    "hop60": _hop(60),
    "cumulate": _cumulate(60),
    "session": SESSION,
}
