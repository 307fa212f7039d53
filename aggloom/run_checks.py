"""Checks of a run that need no Spark: they come before Spark starts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from aggloom.codegen.planner import Plan, Scan, walk
from aggloom.errors import DirectoryError, SpecError
from aggloom.job import Job
from aggloom.runtime.connectors.database.options import DatabaseOptions
from aggloom.runtime.connectors.registry import destination, made_sink
from aggloom.runtime.connectors.sink_key import find_key
from aggloom.table_metadata import check_metadata


def check_run(job: Job, plan: Plan) -> None:
    """Raise SpecError, or what the sink's client raises, for a job that cannot run as it is planned."""
    check_watermarks(plan)
    check_metadata({each.name: each.metadata for each in job.tables}, plan)
    _check_sink(job, plan)


def check_watermarks(plan: Plan) -> None:
    """Raise SpecError if an operator waits for the watermark of a table that has none."""
    for node in walk(plan.root):
        if not node.awaits_watermark:
            continue
        for scan in walk(node):
            if isinstance(scan, Scan) and scan.table in plan.scans and scan.time is None:
                raise SpecError(
                    f"table {scan.table}: windows and first rows in event time need a watermark; say watermark=COLUMN "
                    "10 minutes behind --table, `watermark: COLUMN 10 minutes` in a job file, or in CREATE TABLE "
                    "WATERMARK FOR column AS column - INTERVAL '10' MINUTE"
                )


def _check_sink(job: Job, plan: Plan) -> None:
    """Raise SpecError unless the sink has the key that it needs and a client to write with."""
    kind, path, options = destination(job.sink)
    if options is None:
        if kind in ("jsonl", "parquet") and "://" not in path and Path(path).is_file():
            raise DirectoryError(f"sink {kind}: {path} is a file; name a directory for its files")
        return
    key, has_before = find_key(plan, plan.schema.names, list(job.key) or None, options)
    # Made and thrown away: a library that is missing, or an option that does not fit, is reported before a row is read.
    made_sink(options, key, has_before)
    if isinstance(options, DatabaseOptions) and find_spec(options.driver.partition(".")[0]) is None:
        raise SpecError(
            f"sink database: the driver {options.driver!r} is not installed; pip install "
            f"{_PACKAGES.get(options.driver, options.driver)}"
        )


_PACKAGES = {"psycopg": "'aggloom[postgres]'", "pymysql": "'aggloom[mysql]'"}
