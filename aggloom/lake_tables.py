"""Tables of a job that are tables of files with versions: Delta's and Iceberg's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.codegen import to_schema
from aggloom.runtime.connectors.delta.options import DeltaSource
from aggloom.runtime.connectors.iceberg.options import IcebergSource
from aggloom.runtime.connectors.source_options import from_entries, job_types

if TYPE_CHECKING:
    from aggloom.runtime.connectors.delta.changes import DeltaLake
    from aggloom.runtime.connectors.iceberg.changes import IcebergLake

LAKES: dict[str, type[DeltaSource | IcebergSource]] = {
    "delta": DeltaSource,
    "iceberg": IcebergSource,
}
"""The options of a table of each kind."""
_MAPPINGS = {
    name for each in LAKES.values() for name, kind in job_types(each).items() if kind is dict
}
"""Entries that are mappings, which a command line gives as storage.NAME=VALUE."""


def lake_source(lake: Mapping[str, Any]) -> DeltaSource | IcebergSource:
    """The options of a table by its entries."""
    return from_entries(LAKES[lake["connector"]], lake)


def lake_columns(lake: Mapping[str, Any], schema: str | pa.Schema | None) -> pa.Schema:
    """The columns that are read of a table: the schema, or those that it has; raises SpecError."""
    return open_lake(lake, schema).schema


def open_lake(lake: Mapping[str, Any], schema: str | pa.Schema | None) -> DeltaLake | IcebergLake:
    """The table as changes, read without Spark; raises SpecError."""
    from aggloom.runtime.connectors.delta.changes import DeltaLake
    from aggloom.runtime.connectors.iceberg.changes import IcebergLake

    read_schema = to_schema(schema) if isinstance(schema, str) else schema
    source = lake_source(lake)
    if isinstance(source, IcebergSource):
        return IcebergLake.of(source, read_schema)
    return DeltaLake.of(source, read_schema)


def lake_frame(spark: Any, lake: Mapping[str, Any], schema: str | pa.Schema | None) -> Any:
    """The changes of a table, as a stream."""
    from aggloom.runtime.connectors.delta.source import read_delta
    from aggloom.runtime.connectors.iceberg.source import read_iceberg

    options = {name: value for name, value in lake.items() if name not in ("connector", "path")}
    read: Any = read_iceberg if lake["connector"] == "iceberg" else read_delta
    return read(spark, lake["path"], schema, **options)


def group_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose names have a point, as the mappings that these are entries of."""
    groups: dict[str, Any] = {}
    for name, value in options.items():
        group, _, rest = str(name).partition(".")
        if group in _MAPPINGS and rest:
            groups.setdefault(group, {})[rest] = value
        else:
            groups[str(name)] = value
    return groups
