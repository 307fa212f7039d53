"""A table of Delta as a stream of changes on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aggloom.codegen import to_schema
from aggloom.runtime.connectors.delta.changes import DeltaLake
from aggloom.runtime.connectors.delta.options import DeltaSource
from aggloom.runtime.spark.read.lakes import changes_of


def read_delta(
    spark: SparkSession,
    path: str | Path,
    schema: pa.Schema | StructType | str | None = None,
    *,
    start: str | int = "snapshot",
    streaming: bool = True,
    max_versions_per_trigger: int | None = None,
    metadata: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The changes of a Delta table: its columns and `_change_type`.

    spark: the session. path: the table's directory or URL. schema: the columns to read, as the table has them, if not
    all. start: "snapshot" (the current table, then the changes of its versions), "latest", a version, or the time of
    one (ISO); a query continues where its checkpoint is. A table with a change data feed has the rows that are
    retracted; one without is read as long as its versions only add rows. max_versions_per_trigger: versions in a
    batch. metadata: add `_commit_version` and `_commit_timestamp`; only where no row is retracted. storage: options of
    the object store. streaming=False: the current changes only. Raises SpecError and its subclasses.

    Example:
        >>> import aggloom as al, pyarrow as pa
        >>> from deltalake import write_deltalake
        >>> from pathlib import Path
        >>> path = Path("orders").resolve()
        >>> write_deltalake(path, pa.table({"shop": ["a"], "n": [3]}))
        >>> al.read_delta(al.session(), path, streaming=False).columns
        ['shop', 'n', '_change_type']
    """
    read_schema = None if schema is None else to_schema(schema)
    source = DeltaSource(
        path=path,
        start=start,
        streaming=streaming,
        max_versions_per_trigger=max_versions_per_trigger,
        metadata=metadata,
        storage=storage,
    )
    lake = DeltaLake.of(source, read_schema)
    return changes_of(spark, lake, lake.schema, streaming, max_versions_per_trigger)
