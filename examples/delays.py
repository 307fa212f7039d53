"""Delays at New York's airports, by the hour and over the last 24 hours, from changes of which some come late.

    python examples/delays.py             # go on where the last run stopped, if it did not finish
    python examples/delays.py --fresh     # start again

Two streaming queries read the same Debezium messages; their event time is when a flight was due to leave. Flights are
announced a day ahead, so that a window is emitted once the announcements are a day past its end. For a week it is
corrected, as its flights leave and land and are heard of; what comes later is left out. All is kept in .demo/delays/.
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from flights_data import Feed, Replay, quote_path, replay
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import aggloom as al

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent
DEMO = ROOT / ".demo" / "delays"
FEED = Feed(
    ("id", "origin", "due", "dep_delay", "arr_delay"), files=8, held_up=240, until="2013-07-01"
)
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
BUSY = 10
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
# A row that is there twice, or less than never, is there twice: nothing that is expected is.
_FOLDED = f"""
WITH folded AS (
    SELECT {_WINDOW}, {_VALUES}, sum(CASE WHEN comes THEN 1 ELSE -1 END) AS n FROM changelog GROUP BY ALL
)
SELECT * EXCLUDE (n) FROM folded WHERE n <> 0
UNION ALL SELECT * EXCLUDE (n) FROM folded WHERE n NOT IN (0, 1)
"""
_CHANGELOG = """
SELECT * REPLACE (window_start::TIMESTAMP AS window_start, window_end::TIMESTAMP AS window_end),
       (filename, file_row_number) AS place, _change_type IN ('insert', 'update_postimage') AS comes
FROM read_parquet({files}, filename = true, file_row_number = true)
"""
_FIGURES = """
SELECT count(*) FILTER (_change_type = 'insert'),
       count(DISTINCT (origin, window_end)) FILTER (_change_type <> 'insert'),
       (SELECT count(*) FROM placed WHERE corrects),
       (SELECT count(*) FROM placed WHERE opens > {last_end}),
       (SELECT count(*) FROM missed)
FROM changelog
"""
_WORST = """
SELECT origin, window_start, departed, dep_avg, dep_max, arr_avg, corrections
FROM {name} JOIN (
    SELECT origin, window_start, count(*) - 1 AS corrections FROM changelog WHERE comes GROUP BY ALL
) USING (origin, window_start)
WHERE departed >= {busy}
QUALIFY row_number() OVER (PARTITION BY origin ORDER BY dep_avg DESC, window_start) <= {shown}
ORDER BY dep_avg DESC
"""
# What the hourly query hands out as late, and what the oracle found to be too late: as often there, and there.
_LATE_DIFFERENCES = """
WITH late AS (
    SELECT origin, due::TIMESTAMP AS due, dep_delay, arr_delay,
           CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS n
    FROM read_parquet({files})
), expected AS (SELECT origin, due, dep_delay, arr_delay, n FROM placed WHERE opens > {last_end})
SELECT count(*) FROM (
    (FROM late EXCEPT ALL FROM expected) UNION ALL (FROM expected EXCEPT ALL FROM late)
)
"""
_CORRECTED = """
SELECT _change_type, origin, window_start, flights, departed, dep_avg, arr_avg
FROM changelog SEMI JOIN (
    SELECT origin, window_start FROM changelog WHERE comes GROUP BY ALL
    HAVING min(departed) >= {busy} ORDER BY max(dep_avg) - min(dep_avg) DESC, origin, window_start LIMIT 1
) USING (origin, window_start) ORDER BY place
"""


@dataclass(frozen=True)
class Job:
    """One of the two queries: its windows are `hours` long; so many of the worst are shown for each airport."""

    name: str
    hours: int
    shown: int


JOBS = (Job("hourly", 1, 2), Job("rolling", 24, 1))


class Board:
    """The sink: keeps every batch of the changelog as a file, and says what was in it."""

    def __init__(self, job: Job, directory: Path, console: Console, files: int) -> None:
        self.job, self.directory, self.console, self.files = job, directory, console, files
        self.started = time.perf_counter()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one batch, to the same place if Spark repeats it."""
        if "late_row" in batch.columns:
            batch.persist()
            late = al.late_rows(batch).toArrow()
            self._keep(late, "late", number)
            changes = al.on_time(batch).toArrow()
            batch.unpersist()
        else:
            changes = batch.toArrow()
        self._keep(changes, "changes", number)
        kinds = changes.column("_change_type").to_pylist()
        corrected = kinds.count("update_postimage") + kinds.count("delete")
        what = f"file {number + 1:>2} of {self.files}" if number < self.files else "no more file"
        elapsed = time.perf_counter() - self.started
        self.console.print(
            f"{self.job.name:<7} {what}: {kinds.count('insert'):>5,} windows out,"
            f" {corrected:>5,} corrected, {elapsed:5.1f} s"
        )

    def _keep(self, rows: pa.Table, what: str, number: int) -> None:
        (self.directory / what).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.directory / what / f"batch-{number:04}.parquet")


def changelog_of(job: Job, changes: DataFrame) -> DataFrame:
    """The job's query: one told in Python, the other in SQL."""
    if job.name == "hourly":
        return al.window_aggregate(
            changes,
            al.AggSpec.from_sql(HOURLY, schema=SCHEMA, input_changes="retract"),
            window=al.Tumble("1 hour", on="due"),
            watermark=WATERMARK,
            allowed_lateness=LATENESS,
            late_rows=True,
        )
    return al.sql(
        ROLLING,
        flights=changes,
        watermarks={"flights": ("due", WATERMARK)},
        allow_lateness=LATENESS,
    )


def run(spark: SparkSession, data: Replay, feed: Feed, home: Path, console: Console) -> None:
    """Stream the change files through both jobs at once, one file a batch."""
    queries = []
    try:
        for job in JOBS:
            changes = al.read_changes(
                spark, str(data.changes), schema=SCHEMA, max_files_per_trigger=1
            )
            queries.append(
                changelog_of(job, changes)
                .writeStream.foreachBatch(Board(job, home / job.name, console, feed.files))
                .option("checkpointLocation", str(home / f"{job.name} checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        for query in queries:
            al.await_end(query)
    finally:
        for query in queries:
            query.stop()


@dataclass(frozen=True)
class Verdict:
    """The figures of a job, and the number of windows in which DuckDB finds something else.

    late: changes that came after their windows had ended, too_late: those that came when none of them took rows any
    more. missed: windows that some change came too late for; only those may differ from the package's rows.
    late_wrong: in how many rows what the query handed out as late is something else; None if it hands out none.
    """

    windows: int
    corrected: int
    late: int
    too_late: int
    missed: int
    wrong: int
    wrong_elsewhere: int
    late_wrong: int | None

    @property
    def right(self) -> bool:
        """True if DuckDB agrees."""
        return not (self.wrong or self.wrong_elsewhere or self.late_wrong)


class Judge:
    """DuckDB's view: of the change files, of the package's rows, and of the changelogs that came out."""

    def __init__(self, data: Replay) -> None:
        self.data = data
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        self.db.execute(
            _CHANGES.format(
                files=quote_path(data.changes / "*.jsonl"),
                row=_ROW,
                watermark=WATERMARK,
                lateness=LATENESS,
            )
        )

    def verdict(self, job: Job, home: Path) -> Verdict:
        """Judge the changelog of a job; it and its table are there by name from then on."""
        made = {
            "changelog": _CHANGELOG.format(
                files=quote_path(home / job.name / "changes" / "*.parquet")
            ),
            job.name: _FOLDED,
            "expected": _EXPECTED.format(size=job.hours),
            "package": _PACKAGE.format(size=job.hours, net=quote_path(self.data.net)),
            "missed": _MISSED.format(size=job.hours),
        }
        for name, query in made.items():
            self.db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
        last_end = _LAST_END.format(size=job.hours)
        windows, corrected, late, too_late, missed = self.rows(_FIGURES, last_end=last_end)[0]
        late_files = home / job.name / "late"
        return Verdict(
            windows,
            corrected,
            late,
            too_late,
            missed,
            wrong=self._differences(job.name, "expected"),
            wrong_elsewhere=self._differences(
                job.name, "package", "ANTI JOIN missed USING (origin, window_end)"
            ),
            late_wrong=(
                self.rows(
                    _LATE_DIFFERENCES, files=quote_path(late_files / "*.parquet"), last_end=last_end
                )[0][0]
                if late_files.exists()
                else None
            ),
        )

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """The rows of a query, filled in."""
        found: list[tuple[Any, ...]] = self.db.execute(query.format(**values)).fetchall()
        return found

    def _differences(self, one: str, other: str, without: str = "") -> int:
        """Count the windows that the two tables do not have in common, value for value."""
        sides = [
            f"(SELECT {_WINDOW}, {_VALUES} FROM {a} EXCEPT ALL SELECT {_WINDOW}, {_VALUES} FROM {b})"
            for a, b in ((one, other), (other, one))
        ]
        query = "SELECT count(DISTINCT (origin, window_end)) FROM ({}) {}"
        (found,) = self.rows(query.format(" UNION ALL ".join(sides), without))
        return int(found[0])


def show_worst(worst: list[tuple[Job, tuple[Any, ...]]], console: Console) -> None:
    """Print the worst windows."""
    table = _table(f"The worst windows, of {BUSY} departures or more (average delays in minutes)")
    for name in ("airport", "from", "hours"):
        table.add_column(name, no_wrap=True)
    for name in ("departed", "delay", "longest", "at arrival", "corrected"):
        table.add_column(name, justify="right", no_wrap=True)
    for job, (origin, start, *values) in worst:
        table.add_row(origin, f"{start:%d %b %H:%M}", str(job.hours), *map(_cell, values))
    console.print(table)


def show_correction(job: Job, changes: list[tuple[Any, ...]], console: Console) -> None:
    """Print what came out for the window that was corrected most."""
    console.print(f"What corrections have moved most, {job.name}:")
    for kind, origin, start, flights, departed, dep_avg, arr_avg in changes:
        console.print(
            f"    {kind:<17} {origin} {start:%d %b %H:%M}: {departed} of {flights} departed,"
            f" delay {_cell(dep_avg)}, at arrival {_cell(arr_avg)}",
            style="dim",
            soft_wrap=True,
        )


def show_verdicts(verdicts: dict[str, Verdict], console: Console) -> None:
    """Print what became of the jobs, side by side."""
    table = _table("What came out")
    table.add_column("")
    for name in verdicts:
        table.add_column(name, justify="right")
    lines = {
        "windows emitted": "windows",
        "windows corrected afterwards": "corrected",
        "changes after their hour was emitted": "late",
        f"changes more than {LATENESS} later: left out": "too_late",
        "windows that go without such a change": "missed",
    }
    for line, field in lines.items():
        table.add_row(line, *(_cell(getattr(each, field)) for each in verdicts.values()))
    for line, field in {
        "DuckDB on the files, less what is left out": "wrong",
        "DuckDB on the package, in the other windows": "wrong_elsewhere",
        "DuckDB on what is handed out as left out": "late_wrong",
    }.items():
        table.add_row(line, *(_agreement(getattr(each, field)) for each in verdicts.values()))
    console.print(table)


def _table(title: str) -> Table:
    return Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)


def _agreement(differences: int | None) -> str:
    if differences is None:
        return "-"
    return f"{differences:,} DIFFER" if differences else "the same"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)


def plan() -> str:
    """The plan of the query in SQL, without what EXPLAIN says about state."""
    text = al.explain(ROLLING, tables={"flights": SCHEMA}, allow_lateness=LATENESS)
    return text.partition("\n\n")[0].partition("\n")[2]


def main() -> int:
    """Run the demo; 1 if DuckDB disagrees."""
    console = Console()
    console.print(
        "Replaying half a year of flights, the reports of one in twenty held up by days ..."
    )
    started = time.perf_counter()
    data = replay(DEMO, FEED)
    spec = al.AggSpec.from_sql(HOURLY, schema=SCHEMA, input_changes="retract")
    source = al.generate(al.window_spec(spec, al.Tumble("1 hour", on="due")))
    home = DEMO / f"job-{source.digest}"
    if "--fresh" in sys.argv[1:] or (home / "finished").exists():
        shutil.rmtree(home, ignore_errors=True)
    console.print(
        f"{data.messages:,} messages in {FEED.files} files; two queries read them side by side, one file"
        " a batch; the first compiles the job:",
        soft_wrap=True,
    )
    run(al.session("aggloom delays"), data, FEED, home, console)
    (home / "finished").touch()
    judge, verdicts, worst = Judge(data), {}, []
    for job in JOBS:
        verdicts[job.name] = judge.verdict(job, home)
        show_correction(job, judge.rows(_CORRECTED, busy=BUSY), console)
        found = judge.rows(_WORST, name=job.name, busy=BUSY, shown=job.shown)
        worst += [(job, row) for row in found]
    show_worst(worst, console)
    show_verdicts(verdicts, console)
    console.print(
        f"The plan of the rolling query:\n{plan()}\n"
        f"The generated handler, the same for both: {source.path}\n"
        f"Read it: .venv/bin/aggloom inspect {source.digest}\n"
        f"The changelogs: {home.relative_to(ROOT)}/, their checkpoints beside them.\n"
        f"{time.perf_counter() - started:.0f} s in all.",
        markup=False,
        soft_wrap=True,
    )
    return 0 if all(each.right for each in verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
