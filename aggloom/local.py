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

from aggloom.codegen import Backend, Dialect, SchemaLike, to_schema
from aggloom.codegen.planner import Plan
from aggloom.errors import AggloomError, OptionError, SpecError
from aggloom.job import Job, complete
from aggloom.job_plan import explain_job, plan_of_job
from aggloom.local_query import RunningQuery, await_end, progress
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.hosting.arguments import check_checkpoint, check_key_columns, check_tables_read
from aggloom.runtime.local.harness_rows import is_table, table_schema
from aggloom.tables import TableSource, table_source
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
class LocalTable:
    """A table of changes for `sql`, which `read_changes`, `from_rows` and their kin make.

    entries: those of a job's table. rows: of this process, for a table that no file or topic has.

    Example:
        >>> from aggloom import local
        >>> local.from_rows([("+I", 3)], "n INT", keys="n").entries["keys"]
        'n'
    """

    entries: Mapping[str, Any]
    rows: Any = None

    def name_table(self, name: str) -> TableSource:
        """The table under a name; raises SpecError for entries that do not fit together."""
        if self.rows is None:
            return table_source(name, self.entries, f"table {name}")
        table = table_source(
            name, {**self.entries, "path": ".", "format": "jsonl"}, f"table {name}"
        )
        return replace(table, path="")


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


def read_changes(
    path: str | Path,
    format: str | None = None,
    schema: SchemaLike | None = None,
    *,
    watermark: str | None = None,
    keys: str | Sequence[str] | None = None,
    changes: str | None = None,
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> LocalTable:
    """A table of changes in files, as `al.read_changes` reads them on Spark.

    path: a directory, a pattern or a file. format: by default that of the names of files. schema: where the files do
    not have it. watermark: "COLUMN DELAY". keys: the primary key. changes: append, retract or upsert.
    metadata: columns that no row has, each with its source, such as {"path": "file.path"}. options: those of the
    format, and maxFilesPerTrigger. Raises SpecError when `sql` puts it under a name.

    Example:
        >>> from aggloom import local
        >>> from aggloom.sample import write_sample
        >>> _ = write_sample("changes")
        >>> orders = local.read_changes("changes/", "debezium-json", "customer STRING, amount INT")
        >>> totals = local.sql("SELECT COUNT(*) AS n FROM orders", orders=orders, backend="python")
        >>> local.collect(totals).to_pylist()
        [{'n': 5}]
    """
    about = {"path": str(path), "format": format, "schema": _to_ddl(schema), "metadata": metadata}
    rows = {"watermark": watermark, "keys": keys, "changes": changes}
    return LocalTable(_entries({**about, **rows}, options=options or None))


def read_kafka(
    servers: str,
    topic: str,
    format: str,
    schema: SchemaLike,
    keys: str | Sequence[str] | None = None,
    *,
    watermark: str | None = None,
    changes: str | None = None,
    **options: Any,
) -> LocalTable:
    """A table of changes in topics, fetched by librdkafka.

    servers: host:port, several with commas. topic: a name. format: see docs/formats.md. schema: of the values.
    keys: the primary key. options: those of `al.read_kafka`, such as start, pattern and lost_data, and those of the
    format; `properties` are those of librdkafka. watermark, changes: as of `read_changes`. Raises SpecError when `sql`
    puts it under a name.

    Example:
        >>> from aggloom import local
        >>> local.read_kafka("broker:9092", "orders", "debezium-json", "id INT", start="latest").entries["start"]
        'latest'
    """
    place = {"connector": "kafka", "servers": servers, "topic": topic, "format": format}
    rows = {"schema": _to_ddl(schema), "watermark": watermark, "keys": keys, "changes": changes}
    return LocalTable(_entries({**place, **rows}, **options))


def read_delta(
    path: str | Path,
    schema: SchemaLike | None = None,
    *,
    watermark: str | None = None,
    **options: Any,
) -> LocalTable:
    """A table of Delta as changes.

    path: its directory or URL. schema: those columns that are read, if not all. watermark: as of `read_changes`.
    options: start, max_versions_per_trigger, metadata, storage, as of `al.read_delta`. Raises SpecError when `sql`
    puts it under a name.

    Example:
        >>> import pyarrow as pa
        >>> from aggloom import local
        >>> from deltalake import write_deltalake
        >>> write_deltalake("orders", pa.table({"n": [3, 4]}))
        >>> total = local.sql("SELECT SUM(n) AS s FROM orders", orders=local.read_delta("orders"), backend="python")
        >>> local.collect(total).to_pylist()
        [{'s': 7}]
    """
    place = {
        "connector": "delta",
        "path": str(path),
        "schema": _to_ddl(schema),
        "watermark": watermark,
    }
    return LocalTable(_entries(place, **options))


def read_iceberg(
    table: str, schema: SchemaLike | None = None, *, watermark: str | None = None, **options: Any
) -> LocalTable:
    """A table of Iceberg as changes.

    table: its name with its namespace. schema: those columns that are read, if not all. watermark: as of
    `read_changes`. options: catalog, connect, start, max_versions_per_trigger, as of `al.read_iceberg`. Raises
    SpecError when `sql` puts it under a name.

    Example:
        >>> import pyarrow as pa
        >>> from pathlib import Path
        >>> from aggloom import local
        >>> from pyiceberg.catalog import load_catalog
        >>> here = Path.cwd()
        >>> connect = {"type": "sql", "uri": f"sqlite:///{here}/catalog.db", "warehouse": f"file://{here}/warehouse"}
        >>> catalog = load_catalog("default", **connect)
        >>> catalog.create_namespace("shop")
        >>> rows = pa.table({"n": [3, 4]})
        >>> catalog.create_table("shop.orders", rows.schema).append(rows)
        >>> orders = local.read_iceberg("shop.orders", connect=connect)
        >>> local.collect(local.sql("SELECT SUM(n) AS s FROM orders", orders=orders, backend="python")).to_pylist()
        [{'s': 7}]
    """
    place = {
        "connector": "iceberg",
        "path": table,
        "schema": _to_ddl(schema),
        "watermark": watermark,
    }
    return LocalTable(_entries(place, **options))


def _entries(entries: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The entries of a job's table, without those that are not given."""
    whole = {**entries, **more}
    if whole.get("keys") is not None and not isinstance(whole["keys"], str):
        whole["keys"] = ", ".join(whole["keys"])
    return {name: value for name, value in whole.items() if value is not None}


def from_rows(
    rows: Any,
    schema: SchemaLike | None = None,
    *,
    watermark: str | None = None,
    keys: str | Sequence[str] | None = None,
    changes: str | None = None,
) -> LocalTable:
    """A table of rows of this process.

    rows: tuples of (kind, value, ...), or a table of Arrow, pandas or Polars. schema: as of AggSpec; a table has its
    own. watermark, keys, changes: as of `read_changes`. Raises DataError where rows have no types. A run that continues from a checkpoint is given the same rows, with new ones
    behind them.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3), ("+I", 4), ("-D", 3)], "n INT")
        >>> local.collect(local.sql("SELECT MAX(n) AS largest FROM t", t=t, backend="python")).to_pylist()
        [{'largest': 4}]
    """
    columns = table_schema(rows) if schema is None else to_schema(schema)
    table = read_changes(".", None, columns, watermark=watermark, keys=keys, changes=changes)
    return LocalTable(table.entries, rows)


def sql(
    query: str,
    /,
    *,
    tables: Mapping[str, LocalTable] | None = None,
    input_changes: str = "retract",
    dialect: Dialect = "spark",
    backend: Backend = "numba",
    options: Mapping[str, Any] | None = None,
    **named: Any,
) -> LocalChanges:
    """The changes of a query over tables.

    query: the script. tables: by name; those that are keywords are tables, too, also those of Arrow, pandas and Polars
    as `from_rows` takes them, and other keywords of `named` planner
    options, as is what `options` holds by Flink's names. input_changes: of tables that do not say what they send.
    dialect: "spark" or "flink". backend: "numba" or "python". Raises SpecError and its kin, with the place in the
    text.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", "a", 3), ("+I", "b", 4)], "k STRING, n INT")
        >>> local.collect(local.sql("SELECT k, SUM(n) AS s FROM t GROUP BY k", t=t, backend="python")).to_pylist()
        [{'k': 'a', 's': 3}, {'k': 'b', 's': 4}]
    """
    own = {n: from_rows(v) if is_table(v) else v for n, v in named.items()}
    own = {n: v for n, v in own.items() if isinstance(v, LocalTable)}
    for name in own.keys() & (tables or {}):
        raise SpecError(f"local.sql: table {name!r} is given twice; leave one out")
    # One name in both would be decided by the order of this merge, so it was refused above.
    tables_by_name = {**(tables or {}), **own}
    # What is no table is an option of the planner, whose check names those that it does not know.
    keywords = {n: v for n, v in named.items() if n not in own}
    for name, value in keywords.items():
        # Asked by its attribute: importing pyspark takes seconds, and it need not be installed.
        if hasattr(value, "sparkSession"):
            raise SpecError(
                f"local.sql: {name} is a DataFrame of Spark; use al.sql, which runs on Spark"
            )
    job = complete(
        {
            "sql": query,
            "tables": tuple(table.name_table(name) for name, table in tables_by_name.items()),
            "changes": input_changes,
            "dialect": dialect,
            "backend": backend,
            "options": {**(options or {}), **keywords},
            "engine": "local",
        },
        "local.sql",
    )
    check_tables_read("local.sql", query, plan_of_job(job), own)
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


def _to_ddl(schema: SchemaLike | None) -> str | None:
    """A schema in DDL; text stays as it is."""
    if schema is None or isinstance(schema, str):
        return schema
    return ", ".join(f"`{each.name}` {_ddl_type(each.type)}" for each in to_schema(schema))


def _ddl_type(dtype: pa.DataType) -> str:
    """The type of a column in DDL; raises OptionError for one that DDL has no word for."""
    from aggloom.codegen import type_name

    try:
        return type_name(dtype)
    except AggloomError as error:
        raise OptionError(f"local.from_rows: {error}") from None
