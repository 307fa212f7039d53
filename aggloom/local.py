"""Queries over changes in this process, without Spark and Java: the Python API of the local engine.

The calls have the form of those on Spark. Tables are made by `read_changes`, `read_kafka`, `read_delta`, `read_iceberg`
or `from_rows`, `sql` gives the changes of a query over them, `write_changes` starts it.

Example:
    >>> from aggloom import local
    >>> orders = local.from_rows([("+I", "Ada", 30), ("+I", "Ada", 12)], "customer STRING, amount INT")
    >>> totals = local.sql("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders)
    >>> local.collect(totals).to_pylist()
    [{'customer': 'Ada', 's': 42}]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from aggloom.codegen import Arguments, Backend, Dialect
from aggloom.codegen.planner import Plan
from aggloom.errors import SpecError
from aggloom.job import Job, complete
from aggloom.job_plan import explain_job, plan_of_job
from aggloom.local_query import RunningQuery, await_end, progress
from aggloom.local_tables import (
    LocalTable,
    from_rows,
    is_input,
    read_changes,
    read_delta,
    read_iceberg,
    read_kafka,
    to_table,
)
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.hosting.arguments import check_checkpoint, check_key_columns, check_tables_read
from aggloom.terminal_table import in_order

__all__ = [
    "LocalChanges",
    "LocalTable",
    "RunningQuery",
    "await_end",
    "collect",
    "from_rows",
    "progress",
    "read_changes",
    "read_delta",
    "read_iceberg",
    "read_kafka",
    "sql",
    "write_changes",
]
Sink = str | Mapping[str, Any] | Callable[[pa.Table, int], None]
"""A sink as `aggloom run` names it, or a function that is called with the changes of each batch and its number."""


@dataclass(frozen=True)
class LocalChanges:
    """The changes of a query, not yet started; `sql` makes it.

    job: the query with its tables. rows: of tables of this process, by name.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3)], "n INT")
        >>> local.sql("SELECT SUM(n) AS s FROM t", t=t).schema.names
        ['s']
    """

    job: Job
    rows: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan of the query."""
        return plan_of_job(self.job)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.plan.schema

    def explain(self) -> str:
        """Explain the plan as text."""
        return explain_job(self.job, on_spark=False)


def sql(
    query: str,
    /,
    *,
    tables: Mapping[str, Any] | None = None,
    input_changes: str = "retract",
    dialect: Dialect = "spark",
    backend: Backend = "numba",
    options: Mapping[str, Any] | None = None,
    args: Arguments | None = None,
    **named: Any,
) -> LocalChanges:
    """The changes of a query over tables.

    query: the script. tables: by name; those that are keywords are tables, too, also those of Arrow, pandas and Polars,
    as `from_rows` takes them. Other keywords of `named` are planner options, as is what `options` holds by Flink's
    names. input_changes: of tables that do not say what they send. args: values of the text's parameters, by name for
    `:name` or in order for `?`. dialect: "spark" or "flink". backend: "numba" or "python". Raises SpecError and its
    kin, with the place in the text.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", "a", 3), ("+I", "b", 4)], "k STRING, n INT")
        >>> local.collect(local.sql("SELECT k, SUM(n) AS s FROM t GROUP BY k", t=t, backend="python")).to_pylist()
        [{'k': 'a', 's': 3}, {'k': 'b', 's': 4}]
    """
    own = {n: v for n, v in named.items() if is_input(v)}
    for name in own.keys() & (tables or {}):
        raise SpecError(f"local.sql: table {name!r} is given twice; leave one out")
    # One name in both would be decided by the order of this merge, so it was refused above.
    tables_by_name = {n: to_table(n, v) for n, v in {**(tables or {}), **own}.items()}
    # What is no table is an option of the planner, whose check names those that it does not know.
    keywords = {n: v for n, v in named.items() if n not in own}
    job = complete(
        {
            "sql": query,
            "args": args,
            "tables": tuple(table.name_table(name) for name, table in tables_by_name.items()),
            "changes": input_changes,
            "dialect": dialect,
            "backend": backend,
            "options": {**(options or {}), **keywords},
            "engine": "local",
        },
        "local.sql",
    )
    check_tables_read("local.sql", job.sql, plan_of_job(job), own)
    rows = {name: table.rows for name, table in tables_by_name.items() if table.rows is not None}
    return LocalChanges(job, rows)


def write_changes(
    changes: LocalChanges,
    sink: Sink,
    checkpoint: str | Path,
    *,
    continuous: bool = False,
    keep_open: bool = False,
    key_columns: Sequence[str] | None = None,
) -> RunningQuery:
    """Start a query that writes its changes to a sink; it ends with its input, unless it is continuous.

    changes: a result of `sql`. sink: `console`, `table`, `jsonl:PATH`, `parquet:PATH`, a mapping of a kind and its
    options (docs/sinks.md), or a function of a table of changes and the number of their batch, which comes again after
    a kill. checkpoint: the directory of its progress and state. continuous: wait for more input. keep_open: leave
    windows open at the end of the input. key_columns: those by which rows are written, if not by the result's key.
    Raises StateError and its kin for a checkpoint of another query.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3), ("+I", 4)], "n INT")
        >>> total = local.sql("SELECT SUM(n) AS s FROM t", t=t, backend="python")
        >>> query = local.write_changes(total, lambda rows, batch: print(batch, rows.to_pylist()), "state/")
        >>> local.await_end(query)
        0 [{'s': 7, '_change_type': 'insert'}]
        >>> local.progress(query).rows, query.is_active
        (2, False)
    """
    if not isinstance(changes, LocalChanges):
        raise SpecError("local.write_changes: give what local.sql has made")
    check_checkpoint("local.write_changes", checkpoint)
    check_key_columns("local.write_changes", key_columns)
    if not callable(sink):
        destination(sink)
    job = replace(
        changes.job,
        sink="console" if callable(sink) else sink,
        continuous=continuous,
        keep_open=keep_open,
        key=tuple(key_columns or ()),
    )
    return RunningQuery(job, changes.rows, Path(checkpoint), sink if callable(sink) else None)


def collect(changes: LocalChanges) -> pa.Table:
    """The table of a query over its whole input, by its key and without a checkpoint that lasts.

    changes: a result of `sql`.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3), ("+I", 4)], "n INT")
        >>> local.collect(local.sql("SELECT COUNT(*) AS n FROM t", t=t, backend="python")).to_pylist()
        [{'n': 2}]
    """
    with TemporaryDirectory(prefix="aggloom-local-") as place:
        await_end(write_changes(changes, "table", Path(place) / "checkpoint"))
        return in_order(read_table(Path(place) / "checkpoint"), changes.plan.key)
