"""Delays at New York's airports in 2013, by the hour and over the last 24 hours, from changes that come late.

    python examples/delays.py             # go on where the last run stopped, if it did not finish
    python examples/delays.py --fresh     # start again

Two streaming queries read the same Debezium messages of flights; their event time is when a flight was due to leave.
An hour's delays are given out once the announcements of flights are a day past it, and corrected for a week as flights
leave and land. Whatever comes later is left out. Everything is under .demo/delays/.
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
from flights_data import Feed, Replay, quoted, replay
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import aggloom as al
from aggloom.runtime.spark.progress import ProgressPrinter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent
DEMO = ROOT / ".demo" / "delays"
FEED = Feed(("id", "origin", "due", "dep_delay", "arr_delay"), files=20, held_up=240)
SCHEMA = "id BIGINT, origin STRING, due TIMESTAMP, dep_delay INT, arr_delay INT"
WATERMARK, LATENESS = "1 day", "7 days"
CALLS = """COUNT(*) AS flights, COUNT(dep_delay) AS departed,
    AVG(dep_delay) AS dep_avg, MAX(dep_delay) AS dep_max, AVG(arr_delay) AS arr_avg"""
HOURLY = f"SELECT origin, {CALLS} FROM flights GROUP BY origin"
ROLLING = f"""
SELECT origin, window_start, window_end, {CALLS}
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(due), INTERVAL '1' HOUR, INTERVAL '24' HOURS))
GROUP BY origin, window_start, window_end
"""
SHOWN_HOURS, SHOWN_CORRECTIONS, WORTH_SHOWING = 8, 4, 10
_VALUES = "flights, departed, dep_avg, dep_max, arr_avg"
_WINDOW = "origin, window_start, window_end"

# The oracle reads the same files. A change counts in those of its windows that still take rows when it comes: their
# end is less than the lateness behind the watermark, which is what the files before have brought. `opens` is the end
# of the first such window.
_CHANGES = """
CREATE TABLE change AS
WITH message AS (
    SELECT before, after, filename AS file
    FROM read_json({files}, format = 'newline_delimited', filename = true, columns = {{
        before: '{row}', after: '{row}'}})
), change AS (
    SELECT file, before AS row, -1 AS n FROM message WHERE before IS NOT NULL
    UNION ALL SELECT file, after, 1 FROM message WHERE after IS NOT NULL
)
SELECT file, n, row.* REPLACE (make_timestamp(row.due * 1000) AS due),
       date_trunc('hour', make_timestamp(row.due * 1000)) + INTERVAL 1 HOUR AS hour_end
FROM change;
CREATE TABLE clock AS
SELECT file, max(newest) OVER earlier AS watermark
FROM (SELECT file, max(due) - INTERVAL '{watermark}' AS newest FROM change GROUP BY file)
WINDOW earlier AS (ORDER BY file ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);
CREATE TABLE placed AS
SELECT change.*, hour_end <= watermark AS corrects, coalesce(
    date_trunc('hour', watermark - INTERVAL '{lateness}') + INTERVAL 1 HOUR, hour_end) AS opens
FROM change JOIN clock USING (file);
"""
_ROW = "STRUCT(id BIGINT, origin VARCHAR, due BIGINT, dep_delay INT, arr_delay INT)"
_LAST_END = "hour_end + INTERVAL {size} HOUR - INTERVAL 1 HOUR"
_EXPECTED = f"""
WITH net AS (
    SELECT id, origin, dep_delay, arr_delay, hour_end, greatest(opens, hour_end) AS opens, sum(n) AS n
    FROM placed GROUP BY ALL HAVING sum(n) <> 0
), placed_net AS (
    SELECT * EXCLUDE (opens, hour_end),
           unnest(generate_series(opens, {_LAST_END}, INTERVAL 1 HOUR)) AS window_end
    FROM net
), windowed AS (
    SELECT * EXCLUDE (n) FROM placed_net GROUP BY ALL HAVING sum(n) > 0
)
SELECT origin, window_end - INTERVAL {{size}} HOUR AS window_start, window_end, {CALLS}
FROM windowed WHERE window_end <= (SELECT max(due) - INTERVAL '{WATERMARK}' FROM change)
GROUP BY origin, window_end
"""
# The second opinion knows nothing of changes: the rows of the package, in all their windows.
_PACKAGE = f"""
WITH windowed AS (
    SELECT *, unnest(generate_series(hour_end, {_LAST_END}, INTERVAL 1 HOUR)) AS window_end
    FROM (SELECT *, date_trunc('hour', due) + INTERVAL 1 HOUR AS hour_end FROM {{net}})
)
SELECT origin, window_end - INTERVAL {{size}} HOUR AS window_start, window_end, {CALLS}
FROM windowed WHERE window_end <= (SELECT max(due) - INTERVAL '{WATERMARK}' FROM change)
GROUP BY origin, window_end
"""
# The windows that changes came too late for.
_MISSED = f"""
SELECT DISTINCT origin, unnest(generate_series(
    hour_end, least(opens - INTERVAL 1 HOUR, {_LAST_END}), INTERVAL 1 HOUR)) AS window_end
FROM placed WHERE opens > hour_end
"""
_FOLDED = f"""
SELECT {_WINDOW}, {_VALUES} FROM {{changelog}} GROUP BY ALL
HAVING sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) <> 0
"""
_FIGURES = """
SELECT count(*) FILTER (_change_type = 'insert'),
       count(DISTINCT (origin, window_end)) FILTER (_change_type <> 'insert'),
       count(*) FILTER (_change_type IN ('update_postimage', 'delete'))
FROM {changelog}
"""
_WORST = f"""
WITH story AS (
    SELECT origin, window_start, count(*) AS versions, arg_min(dep_avg, place) AS first_avg,
           arg_min(departed, place) AS first_departed
    FROM (SELECT *, (filename, file_row_number) AS place FROM {{changelog}}
          WHERE _change_type IN ('insert', 'update_postimage'))
    GROUP BY ALL
)
SELECT origin, window_start, departed, dep_avg, dep_max, arr_avg, versions - 1, first_departed,
       first_avg
FROM hourly JOIN story USING (origin, window_start)
WHERE departed >= {WORTH_SHOWING} ORDER BY dep_avg DESC, origin, window_start LIMIT {SHOWN_HOURS}
"""
_CORRECTED = f"""
WITH change AS (
    SELECT *, count(*) FILTER (departed > 0) OVER one AS versions,
           max(dep_avg) OVER one - min(dep_avg) OVER one AS moved
    FROM {{changelog}} WHERE _change_type IN ('insert', 'update_postimage')
    WINDOW one AS (PARTITION BY origin, window_start)
), picked AS (
    SELECT origin, window_start FROM change
    WHERE departed >= {WORTH_SHOWING} AND versions BETWEEN 2 AND {SHOWN_CORRECTIONS}
    ORDER BY moved DESC, origin, window_start LIMIT 1
)
SELECT _change_type, origin, window_start, flights, departed, dep_avg, arr_avg
FROM {{changelog}} SEMI JOIN picked USING (origin, window_start)
ORDER BY filename, file_row_number
"""


@dataclass(frozen=True)
class Job:
    """One of the two queries: its windows are `size` hours long."""

    name: str
    size: int


JOBS = (Job("hourly", 1), Job("rolling", 24))


class Board:
    """The sink: keeps every batch of the changelog as a file, and says what was in it."""

    def __init__(self, job: Job, directory: Path, console: Console, files: int) -> None:
        self.job, self.directory, self.console, self.files = job, directory, console, files
        self.started = time.perf_counter()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one batch, to the same place if Spark repeats it."""
        changes = batch.toArrow()
        self.directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(changes, self.directory / f"batch-{number:04}.parquet")
        kinds = changes.column("_change_type").to_pylist()
        corrected = kinds.count("update_postimage") + kinds.count("delete")
        what = f"file {number + 1:>2} of {self.files}" if number < self.files else "no more file"
        elapsed = time.perf_counter() - self.started
        self.console.print(
            f"{self.job.name:<7} {what}: {kinds.count('insert'):>5,} windows out,"
            f" {corrected:>5,} corrected, {elapsed:5.1f} s"
        )


def changelog_of(job: Job, changes: DataFrame) -> DataFrame:
    """The job's query: one told in Python, the other in SQL."""
    if job.name == "hourly":
        return al.window_aggregate(
            changes,
            al.AggSpec.from_sql(HOURLY, schema=SCHEMA, input_changes="retract"),
            window=al.Tumble("1 hour", on="due"),
            watermark=WATERMARK,
            allowed_lateness=LATENESS,
        )
    return al.sql(
        ROLLING, flights=changes, watermarks={"flights": ("due", WATERMARK)}, allow_lateness=LATENESS
    )


def run(spark: SparkSession, data: Replay, feed: Feed, home: Path, console: Console) -> None:
    """Stream the change files through both jobs at once, one file a batch."""
    queries = []
    for job in JOBS:
        changes = al.read_changes(
            spark, str(data.changes), format="debezium-json", schema=SCHEMA, max_files_per_trigger=1
        )
        queries.append(
            changelog_of(job, changes)
            .writeStream.foreachBatch(Board(job, home / job.name, console, feed.files))
            .option("checkpointLocation", str(home / f"{job.name} checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
    for query in queries:
        with ProgressPrinter(query):
            al.await_end(query)


class Judge:
    """What DuckDB says: of the change files, of the package's rows, and of the changelogs that came out."""

    def __init__(self, data: Replay) -> None:
        self.data = data
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        files = quoted(data.changes / "*.jsonl")
        self.db.execute(
            _CHANGES.format(files=files, row=_ROW, watermark=WATERMARK, lateness=LATENESS)
        )

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """The rows of a query, filled in."""
        found: list[tuple[Any, ...]] = self.db.execute(query.format(**values)).fetchall()
        return found

    def tables(self, job: Job, changelog: str) -> None:
        """Make the tables of a job: what came out under its name, what is expected, and of the package's rows."""
        made = {
            job.name: _FOLDED.format(changelog=changelog),
            "expected": _EXPECTED.format(size=job.size),
            "package": _PACKAGE.format(size=job.size, net=quoted(self.data.net)),
            "missed": _MISSED.format(size=job.size),
        }
        for name, query in made.items():
            self.db.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def differences(self, one: str, other: str, without: str | None = None) -> int:
        """How many windows are not in both tables with the same values, those in a third left out."""
        columns = f"SELECT {_WINDOW}, {_VALUES} FROM"
        parts = [
            f"({columns} {a} EXCEPT ALL {columns} {b})" for a, b in ((one, other), (other, one))
        ]
        skip = "" if without is None else f"ANTI JOIN {without} USING (origin, window_end)"
        return int(
            self.rows(
                f"SELECT count(DISTINCT (origin, window_end)) FROM ({' UNION ALL '.join(parts)}) {skip}"
            )[0][0]
        )
