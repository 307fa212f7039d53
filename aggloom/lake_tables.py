"""Tables of a job that are tables of files with versions: Delta's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from aggloom.codegen import to_schema
from aggloom.errors import SpecError

ENTRIES = {"delta": ("start", "max_versions_per_trigger", "metadata", "storage")}
"""What is said of a table of each kind, besides where it is."""


def lake_columns(lake: Mapping[str, Any], schema: str | pa.Schema | None) -> pa.Schema:
    """The columns that are read of a table: the schema, or those that it has; raises SpecError."""
    from aggloom.runtime.lakes.delta import DeltaPlace
    from aggloom.runtime.lakes.delta_source import DeltaSource

    wanted = to_schema(schema) if isinstance(schema, str) else schema
    place = DeltaPlace.of(lake["path"], lake.get("storage"))
    return DeltaSource.of(place, metadata=lake.get("metadata", False), schema=wanted).schema


def lake_frame(spark: Any, lake: Mapping[str, Any], schema: str | pa.Schema | None) -> Any:
    """The changes of a table, as a stream."""
    from aggloom.runtime.spark.lakes import read_delta

    told = {name: value for name, value in lake.items() if name not in ("connector", "path")}
    return read_delta(spark, lake["path"], schema, **told)


def check_lake(lake: Mapping[str, Any], where: str) -> None:
    """Raise SpecError for what cannot be said of a table."""
    storage = lake.get("storage")
    if storage is not None and not isinstance(storage, Mapping):
        raise SpecError(f"{where}: storage is {storage!r}; it must be a mapping.")
