"""Tables of a job that are tables of files with versions: Delta's and Iceberg's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen import to_schema
from aggloom.errors import SpecError

ENTRIES = {
    "delta": ("start", "max_versions_per_trigger", "metadata", "storage"),
    "iceberg": ("start", "max_versions_per_trigger", "catalog", "connect"),
}
"""Options of a table of each kind, besides its path."""
MAPPINGS = ("storage", "connect")
"""Those of it that are mappings, which a command line gives as storage.NAME=VALUE."""


def lake_columns(lake: Mapping[str, Any], schema: str | pa.Schema | None) -> pa.Schema:
    """The columns that are read of a table: the schema, or those that it has; raises SpecError."""
    from aggloom.runtime.connectors.delta.changes import DeltaSource
    from aggloom.runtime.connectors.delta.table import DeltaPlace
    from aggloom.runtime.connectors.iceberg.changes import IcebergSource
    from aggloom.runtime.connectors.iceberg.table import IcebergPlace

    wanted = to_schema(schema) if isinstance(schema, str) else schema
    if lake["connector"] == "iceberg":
        told = {str(name): str(value) for name, value in lake.get("connect", {}).items()}
        table = IcebergPlace(lake["path"], lake.get("catalog", "default"), told)
        return IcebergSource.of(table, schema=wanted).schema
    place = DeltaPlace.of(lake["path"], lake.get("storage"))
    return DeltaSource.of(place, metadata=lake.get("metadata", False), schema=wanted).schema


def lake_frame(spark: Any, lake: Mapping[str, Any], schema: str | pa.Schema | None) -> Any:
    """The changes of a table, as a stream."""
    from aggloom.runtime.connectors.delta.source import read_delta
    from aggloom.runtime.connectors.iceberg.source import read_iceberg

    told = {name: value for name, value in lake.items() if name not in ("connector", "path")}
    read: Any = read_iceberg if lake["connector"] == "iceberg" else read_delta
    return read(spark, lake["path"], schema, **told)


def check_lake(lake: Mapping[str, Any], where: str) -> None:
    """Raise SpecError for what cannot be said of a table."""
    for name in MAPPINGS:
        if not isinstance(lake.get(name, {}), Mapping):
            raise SpecError(f"{where}: {name} is {lake[name]!r}; it must be a mapping.")
    if lake["connector"] == "iceberg" and "." not in lake["path"]:
        raise SpecError(
            f"{where}: path is {lake['path']!r}; write the table's name with its namespace, as in db.orders."
        )


def group_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose names have a point, as the mappings that these are entries of."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        group, _, rest = str(name).partition(".")
        if group in MAPPINGS and rest:
            found.setdefault(group, {})[rest] = value
        else:
            found[str(name)] = value
    return found
