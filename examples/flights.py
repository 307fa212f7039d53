"""A million changes through a GROUP BY on Spark: flights from New York in 2013, by carrier.

    python examples/flights.py            # go on where the last run stopped, if it did not finish
    python examples/flights.py --fresh    # start again

Everything it writes is under .demo/: the change files, the checkpoint, the changelog that came out.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
from flights_data import FILES, SCHEMA, Replay, quote_path, replay
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import aggloom as al
from aggloom.runtime.spark.watch.progress import ProgressPrinter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import JustifyMethod

ROOT = Path(__file__).parent.parent
DEMO = ROOT / ".demo"
CALLS = """
    COUNT(*) AS flights,
    SUM(dep_delay) AS dep_sum, AVG(dep_delay) AS dep_avg, MAX(dep_delay) AS dep_max,
    SUM(arr_delay) AS arr_sum, AVG(arr_delay) AS arr_avg, MAX(arr_delay) AS arr_max,
    COUNT(DISTINCT dest) AS dests
"""
QUERY = f"SELECT carrier, {CALLS} FROM flights GROUP BY carrier"
COLUMNS = [
    "carrier",
    *(part.split()[0].rstrip(",") for part in CALLS.split(" AS ")[1:]),
]
SHOWN_BATCHES, SHOWN_CHANGES = 3, 6

# The oracle's view of the same files: a row is there as often as it was put in and not taken out.
_FOLDED_INPUT = """
WITH message AS (
    SELECT before, after FROM read_json({files}, format = 'newline_delimited', columns = {{
        before: '{row}', after: '{row}'}})
), change AS (
    SELECT before AS r, -1 AS n FROM message WHERE before IS NOT NULL
    UNION ALL SELECT after, 1 FROM message WHERE after IS NOT NULL
), flights AS (SELECT unnest(r) FROM change GROUP BY r HAVING sum(n) > 0)
"""
_ROW = (
    "STRUCT(id BIGINT, carrier VARCHAR, flight INT, origin VARCHAR, dest VARCHAR,"
    " dep_delay INT, arr_delay INT)"
)
_FOLDED_OUTPUT = """
SELECT {columns} FROM read_parquet({files}) GROUP BY ALL
HAVING sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) > 0
ORDER BY carrier
"""


class Board:
    """The sink: keeps every batch of the changelog as a file, and shows the first few changes."""

    def __init__(self, directory: Path, console: Console) -> None:
        self.directory = directory
        self.console = console
        self.shown = 0
        self.started = time.perf_counter()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one batch, to the same place if Spark repeats it."""
        changes = batch.toArrow()
        self.directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(changes, self.directory / f"batch-{number:04}.parquet")
        elapsed = time.perf_counter() - self.started
        self.console.print(
            f"file {number + 1:>2} of {FILES}: {changes.num_rows:>3} changes out, {elapsed:5.1f} s"
        )
        if self.shown < SHOWN_BATCHES:
            self.shown += 1
            for change in changes.slice(0, SHOWN_CHANGES).to_pylist():
                self.console.print(_line(change), style="dim")


def _line(change: dict[str, Any]) -> str:
    """Print a change as one line, without the columns that a first look does not need."""
    return (
        f"    {change['_change_type']:<17} {change['carrier']}: {change['flights']:>6,} flights,"
        f" {change['dests']:>3} destinations, worst delay {change['dep_max']}"
    )


def run(data: Replay, home: Path, console: Console) -> Path:
    """Stream the change files through the job, one file a batch; return where the changelog is."""
    spec = al.AggSpec.from_sql(QUERY, schema=SCHEMA, input_changes="retract")
    spark = al.session("aggloom flights")
    changes = al.read_changes(
        spark, str(data.changes), format="debezium-json", schema=SCHEMA, max_files_per_trigger=1
    )
    board = Board(home / "changelog", console)
    query = (
        al.group_aggregate(changes, spec)
        .writeStream.foreachBatch(board)
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with ProgressPrinter(query):
        al.await_end(query)
    return board.directory


def oracle(data: Replay) -> dict[str, list[tuple[object, ...]]]:
    """Answer the query with DuckDB twice: from the change files, and from the package's rows."""
    files = _FOLDED_INPUT.format(files=quote_path(data.changes / "*.jsonl"), row=_ROW)
    with duckdb.connect() as db:
        return {
            "the change files, folded": db.execute(f"{files} {QUERY} ORDER BY carrier").fetchall(),
            "the rows of the package": db.execute(
                QUERY.replace("FROM flights", f"FROM {quote_path(data.net)}") + " ORDER BY carrier"
            ).fetchall(),
        }


def fold_changelog(changelog: Path) -> list[tuple[object, ...]]:
    """Fold the changelog that came out into the table it describes."""
    with duckdb.connect() as db:
        query = _FOLDED_OUTPUT.format(
            columns=", ".join(COLUMNS), files=quote_path(changelog / "*.parquet")
        )
        rows: list[tuple[object, ...]] = db.execute(query).fetchall()
    return rows


def show(rows: list[tuple[object, ...]], console: Console) -> None:
    """Print the final table."""
    title = "Flights from New York in 2013, cancelled ones gone (delays in minutes)"
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    for name in COLUMNS:
        justify: JustifyMethod = "left" if name == "carrier" else "right"
        table.add_column(name.replace("_", " "), justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> int:
    """Run the demo; 1 if DuckDB disagrees."""
    console = Console()
    console.print("Replaying 336,776 flights as Debezium messages ...")
    data = replay(DEMO)
    source = al.generate(al.AggSpec.from_sql(QUERY, schema=SCHEMA, input_changes="retract"))
    home = DEMO / f"job-{source.digest}"
    if "--fresh" in sys.argv[1:] or (home / "finished").exists():
        shutil.rmtree(home, ignore_errors=True)
    console.print(
        f"{data.messages:,} messages in {FILES} files, one a batch; the first compiles the job:"
    )
    changelog = run(data, home, console)
    (home / "finished").touch()
    table = fold_changelog(changelog)
    show(table, console)
    agreed = True
    for name, expected in oracle(data).items():
        same = table == expected
        agreed &= same
        console.print(f"DuckDB on {name}: {'the same table' if same else 'ANOTHER TABLE'}")
        if not same:
            show(expected, console)
    console.print(
        f"The generated handler: {source.path}\n"
        f"Read it: .venv/bin/aggloom inspect {source.digest}\n"
        f"The changelog: {changelog.relative_to(ROOT)}/, the checkpoint beside it.",
        soft_wrap=True,
    )
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
