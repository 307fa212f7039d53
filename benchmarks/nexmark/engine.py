"""Nexmark on the local engine: python -m nexmark.engine (PYTHONPATH=benchmarks).

Each query is judged over a restart in the middle, beside DuckDB, and then timed with its results thrown away and its
checkpoint on; with --flink in turn with Flink SQL, and the page is written.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
from flink import interpreter
from numba.core.event import Event, Listener, install_listener

from aggloom.codegen.planner import Plan, PlanOptions, plan_query
from aggloom.runtime.engine.file_source import FileInput
from aggloom.runtime.engine.query import LocalQuery, QuerySettings
from aggloom.runtime.engine.rows_source import RowsInput
from aggloom.runtime.engine.scan_columns import scan_columns
from aggloom.runtime.engine.sinks import FunctionBatches
from aggloom.runtime.engine.sources import Source
from aggloom.runtime.platform.memory_reuse import keep_memory
from nexmark.beside import Beside, format_option, python_option
from nexmark.catalogue import NAMES, QUERIES, Query
from nexmark.engine_page import publish_engine
from nexmark.events import SIDE_SCHEMA, Events
from nexmark.local import _COUNT_CHAR, plan_arguments
from nexmark.oracle import Oracle
from nexmark.processes import forget_peak, peak_mb

BATCHES: Final = 5
BUCKETS: Final = 4
_WINDOW_SECONDS: Final = 10
Out = str | FunctionBatches


def plan_of(query: Query, events: Events, *, update_before: bool = True) -> Plan:
    """The plan of a query, as of `plan_arguments`; q14's function of the user's is written out."""
    schemas = {table: events.schema(table) for table in query.streams}
    if "side" in query.tables:
        schemas["side"] = SIDE_SCHEMA
    given = plan_arguments(query, events, update_before=update_before)
    options = PlanOptions.of(given.pop("options"))
    sql = query.text("aggloom").replace(*_COUNT_CHAR)
    return plan_query(sql, schemas, options=options, **given)


def open_query(plan: Plan, query: Query, events: Events, place: Path, sink: Out) -> LocalQuery:
    """The query over the events' files, some of them a batch."""
    whole = query.whole_with_corrections and events.corrections
    files = events.files if whole else events.files // BATCHES

    def open_source(root: Path, name: str, position: Any) -> Source:
        scan = plan.scans[name]
        if name == "side":
            return RowsInput(scan, events.side(), position)
        options = {"maxFilesPerTrigger": files}
        folder = str(events.folder / name)
        more = [watermarks[name][0]] if name in watermarks else []
        columns = scan_columns(plan, name, more)
        about: dict[str, Any] = {"ends": True, "position": position, "columns": columns}
        return FileInput(root, folder, "parquet", scan, options, **about)

    watermarks = query.watermarks()
    settings = QuerySettings(sink, watermarks, buckets=BUCKETS)
    return LocalQuery(plan, open_source, place, settings)


def differences(query: Query, events: Events, oracle: Oracle) -> list[str]:
    """List the differences between its table and DuckDB's, over a restart after the second batch."""
    parts: list[pa.Table] = []
    plan = plan_of(query, events)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as made:
        for stop in (2, None):
            keep = FunctionBatches(lambda rows, _: parts.append(rows))
            run = open_query(plan, query, events, Path(made) / "state", keep)
            if stop is None:
                run.run()
                if query.by_clock:
                    # Its windows are of 10 seconds, and the end of the input does not close them.
                    time.sleep(_WINDOW_SECONDS + 1)
                    run.run_batch()
            else:
                for _ in range(stop):
                    run.run_batch()
            run.close()
    changes = pa.concat_tables(parts)
    kinds = changes.column(changes.num_columns - 1)
    names = [*changes.column_names[:-1], "op"]
    words = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
    short = pa.array([words[each] for each in kinds.to_pylist()], pa.string())
    columns = [*changes.columns[:-1], short]
    return oracle.changes_differ(query, pa.table(columns, names=names))


class Compilations(Listener):
    """The number of functions that Numba compiles: a run in which it is above zero is no measure of the engine."""

    count = 0

    def on_start(self, event: Event) -> None:
        """Count one more."""
        self.count += 1

    def on_end(self, event: Event) -> None:
        """Do nothing."""


def measure(query: Query, events: Events) -> dict[str, float]:
    """Time a run over all files, and once more if something had to be compiled in it.

    A small run before it compiles most of the kernels. A few are for what only many rows have, such as buckets in
    several threads.
    """
    time_run(query, Events(200_000, events.corrections))
    with install_listener("numba:compile", Compilations()) as compilations:
        facts = time_run(query, events)
        if compilations.count:
            facts = time_run(query, events) | {"first_seconds": facts["seconds"]}
    return facts


def time_run(query: Query, events: Events) -> dict[str, float]:
    """Time a run over all files; its results are thrown away, those of q10 go into files."""
    plan = plan_of(query, events, update_before=False)
    with tempfile.TemporaryDirectory(prefix="nexmark-") as made:
        forget_peak(os.getpid())
        hole = FunctionBatches(lambda *_: None)
        sink = f"parquet:{made}/out" if query.files else hole
        run = open_query(plan, query, events, Path(made) / "state", sink)
        begin, spent = time.perf_counter(), time.process_time()
        run.run()
        seconds, spent = time.perf_counter() - begin, time.process_time() - spent
        run.close()
    rows = sum(events.size(table) for table in query.streams)
    return {
        "rows": rows,
        "seconds": seconds,
        "processor": spent,
        "rate": rows / seconds,
        "peak_mb": peak_mb(os.getpid()),
    }


def rounds_of(
    query: Query, events: Events, rounds: int, beside: Beside | None, limit: float
) -> Iterator[dict[str, Any]]:
    """Yield what each round has measured; Flink takes turns with us, unless it refuses the query."""
    refused = query.not_flink
    for _ in range(rounds):
        facts: dict[str, Any] = dict(measure(query, events))
        if beside is not None and not refused:
            try:
                theirs = beside.measure(query, events, limit)
                facts |= {"flink_rate": facts["rows"] / theirs.job, "flink_plan": theirs.plan}
                facts |= {"flink_peak_mb": theirs.peak_mb}
            except click.ClickException as error:
                refused = error.message
        if beside is not None and refused:
            facts["flink_error"] = refused
        yield facts


@click.command()
@click.option("--events", default=1_000_000, show_default=True)
@click.option("--queries", default="", help="Such as 'q4 q5'; all of them otherwise.")
@click.option("--corrections", is_flag=True, help="A tenth of the rows are corrected later.")
@click.option("--unchecked", is_flag=True, help="Measure only.")
@click.option("--unmeasured", is_flag=True, help="Compare the tables only.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--flink", is_flag=True, help="Flink SQL beside it, in turn; writes the page.")
@format_option
@click.option("--limit", default=600.0, show_default=True, help="Seconds that Flink may take.")
@python_option
def main(
    events: int,
    queries: str,
    corrections: bool,
    unchecked: bool,
    unmeasured: bool,
    rounds: int,
    flink: bool,
    form: str,
    limit: float,
    flink_python: Path | None,
) -> None:
    """Run the queries on the local engine; a line of JSON each."""
    # As the command does.
    keep_memory()
    made = Events(events, corrections)
    wanted = queries.replace(",", " ").split() or list(NAMES)
    oracle = None if unchecked else Oracle(made)
    beside = Beside(flink_python or interpreter(), form) if flink else None
    records = dict[str, list[dict[str, Any]]]()
    wrong = 0
    for query in QUERIES:
        if query.name not in wanted:
            continue
        facts: dict[str, Any] = {"query": query.name}
        try:
            if oracle is not None:
                found = differences(query, made, oracle)
                facts["table"] = "; ".join(found) or "right"
                wrong += bool(found)
            for measured in () if unmeasured else rounds_of(query, made, rounds, beside, limit):
                records.setdefault(query.name, []).append(measured)
                click.echo(json.dumps(facts | measured))
        except Exception as error:
            # The other queries are worth running whatever happened to this one.
            facts["error"] = f"{type(error).__name__}: {error}"[:500]
            wrong += 1
        if unmeasured or "error" in facts:
            click.echo(json.dumps(facts))
        if beside is not None and records:
            publish_engine(made, form, records, beside.version, BATCHES, BUCKETS)
    if beside is not None:
        beside.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
