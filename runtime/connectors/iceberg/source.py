"""A table of Iceberg as a stream of changes on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aggloom.codegen import to_schema
from aggloom.runtime.connectors.iceberg.changes import IcebergLake
from aggloom.runtime.connectors.iceberg.options import IcebergSource
from aggloom.runtime.spark.read.lakes import changes_of


def read_iceberg(
    spark: SparkSession,
    table: str,
    schema: pa.Schema | StructType | str | None = None,
    *,
    catalog: str = "default",
    connect: Mapping[str, Any] | None = None,
    start: str | int = "snapshot",
    streaming: bool = True,
    max_versions_per_trigger: int | None = None,
) -> DataFrame:
    """The changes of an Iceberg table: its columns and `_change_type`.

    spark: the session. table: its name with its namespace. catalog, connect: the catalog's name, and its properties
    (PyIceberg's type, uri, warehouse, ...). schema: the columns to read, as the table has them, if not all. start:
    "snapshot" (the current table, then the changes of its snapshots), "latest", or the id of the snapshot after which
    reading begins; a query continues where its checkpoint is. max_versions_per_trigger: snapshots in a batch.
    streaming=False: the current changes only. Raises SpecError and its subclasses.

    Example:
        >>> import aggloom as al, pyarrow as pa
        >>> from pathlib import Path
        >>> from pyiceberg.catalog import load_catalog
        >>> here = Path.cwd()
        >>> connect = {"type": "sql", "uri": f"sqlite:///{here}/catalog.db", "warehouse": f"file://{here}/warehouse"}
        >>> catalog = load_catalog("default", **connect)
        >>> catalog.create_namespace("shop")
        >>> rows = pa.table({"shop": ["a"], "n": [3]})
        >>> catalog.create_table("shop.orders", rows.schema).append(rows)
        >>> al.read_iceberg(al.session(), "shop.orders", connect=connect, streaming=False).columns
        ['shop', 'n', '_change_type']
    """
    read_schema = None if schema is None else to_schema(schema)
    source = IcebergSource(
        table=table,
        start=start,
        streaming=streaming,
        max_versions_per_trigger=max_versions_per_trigger,
        catalog=catalog,
        connect=connect,
    )
    lake = IcebergLake.of(source, read_schema)
    return changes_of(spark, lake, lake.schema, streaming, max_versions_per_trigger)
