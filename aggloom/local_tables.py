"""Tables of the local engine's Python API: of files, topics, lakes, and rows of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import SchemaLike, to_schema
from aggloom.errors import AggloomError, OptionError, SpecError
from aggloom.runtime.local.harness_rows import is_table, table_schema, to_arrow
from aggloom.tables import TableSource, table_source


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
    own. watermark, keys, changes: as of `read_changes`. Raises DataError where rows have no types. A run that
    continues from a checkpoint is given the same rows, with new ones behind them.

    Example:
        >>> from aggloom import local
        >>> t = local.from_rows([("+I", 3), ("+I", 4), ("-D", 3)], "n INT")
        >>> local.collect(local.sql("SELECT MAX(n) AS largest FROM t", t=t, backend="python")).to_pylist()
        [{'largest': 4}]
    """
    # Once: a stream of Arrow, as of a RecordBatchReader, can be read only once, and a query may run again.
    rows = to_arrow(rows) if is_table(rows) else rows
    columns = table_schema(rows) if schema is None else to_schema(schema)
    table = read_changes(".", None, columns, watermark=watermark, keys=keys, changes=changes)
    return LocalTable(table.entries, rows)


def is_input(value: Any) -> bool:
    """Tell whether a keyword of `sql` is a table and no option of the planner."""
    return isinstance(value, LocalTable) or is_table(value) or hasattr(value, "sparkSession")


def to_table(name: str, value: Any) -> LocalTable:
    """A table as `sql` takes it by name; raises SpecError."""
    if isinstance(value, LocalTable):
        return value
    # Before Arrow's interface, which it has, too. By its attribute, as pyspark need not be installed.
    if hasattr(value, "sparkSession"):
        raise SpecError(
            f"local.sql: {name} is a DataFrame of Spark; use al.sql, which runs on Spark"
        )
    if not is_table(value):
        kind = type(value).__name__
        raise SpecError(f"local.sql: table {name!r} is a {kind}; make it by local.from_rows")
    return from_rows(value)


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
