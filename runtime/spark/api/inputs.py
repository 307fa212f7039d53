"""The arguments that the calls on DataFrames share: tables, their change columns, and settings of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from aggloom.codegen import ABSENT, MODES, to_schema
from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.spark.api.watermarks import add_watermark
from aggloom.runtime.spark.node.live_state import size_of
from aggloom.runtime.spark.plan.column_frames import InputTable
from aggloom.runtime.spark.plan.host_settings import HostSettings
from aggloom.runtime.spark.read.messages import upsert_keys
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.values.changelog import CHANGE_COLUMNS
from aggloom.runtime.values.markers import MARKER_HINT, MARKERS


def check_frame(
    call: str, df: Any, name: str = "", upserts: bool = False, partial: bool = False
) -> None:
    """Raise SpecError unless `df` is a DataFrame, of whole changes or of `upserts`; name: of the table that it is.

    partial: whether its rows may leave columns out.
    """
    table = f"table {name}" if name else "the input"
    if hasattr(df, "sparkSession"):
        if upsert_keys(df) and not upserts:
            raise SpecError(
                f"{call}: {table} was read by its keys, so that its changes lack the rows that they replace; give it "
                "to al.sql, which makes them whole, or to al.deduplicate(df, keys, input_changes='upsert') first"
            )
        if ABSENT in df.columns and not partial:
            raise SpecError(
                f"{call}: rows of {table} leave out columns ({ABSENT}), which keep what they had; give it to al.sql, "
                "which completes rows by their key"
            )
        return
    what = f"the path {str(df)!r}" if isinstance(df, str | Path) else f"a {type(df).__name__}"
    raise SpecError(
        f"{call}: {table} is {what}, not a DataFrame of Spark; read it first, such as with "
        'al.read_changes(spark, "changes/", "jsonl", schema="name STRING, cnt INT")'
    )


def table_of(
    name: str,
    df: DataFrame,
    change_column: str | Mapping[str, str | None] | None,
    watermark: tuple[str, Any] | None,
) -> InputTable:
    """A DataFrame as a table of a query, with its change column and its watermark. change_column: may be by table."""
    own: Any = change_column
    if isinstance(change_column, Mapping):
        own = change_column.get(name, "")
    return add_watermark(df, resolve_change_column(df, own, name=name), watermark)


def columns_of(table: InputTable) -> pa.Schema:
    """The columns of a table without its change column."""
    schema = to_schema(table.df)
    names = [name for name in schema.names if name != table.change_column]
    return pa.schema([schema.field(name) for name in names])


def resolve_change_column(
    df: DataFrame, change_column: str | None, used: Sequence[str] = (), name: str = ""
) -> str | None:
    """The change column of a DataFrame: as it is called, found by its name if that is "", or none.

    used: columns that are none. name: of the table that it is. Raises UnknownColumnError and SpecError.
    """
    if change_column == "":
        return _find_change_column(df, used)
    if change_column is not None and change_column not in df.columns:
        table = f"table {name}" if name else "the DataFrame"
        hint = nearest(change_column, df.columns)
        raise UnknownColumnError(f"{table} has no change column {change_column!r}. {hint}")
    return change_column


def _find_change_column(df: DataFrame, used: Sequence[str]) -> str | None:
    """The change column that a DataFrame has under a known name, in any case, that is not used as a column.

    Raises SpecError where it cannot be determined.
    """
    used_names = {name.lower() for name in used}
    free = [name for name in df.columns if name.lower() not in used_names]
    candidates = [name for name in free if name.lower() in CHANGE_COLUMNS.values()]
    # A changelog has its change column last; what is before it under another such name is a column like others.
    if len(candidates) > 1 and df.columns[-1] == CHANGE_COLUMN:
        candidates = [CHANGE_COLUMN]
    if len(candidates) > 1:
        raise SpecError(
            f"the DataFrame has {' and '.join(map(repr, candidates))}; say which is the change column: "
            "change_column=..."
        )
    flattened = [name for name in free if name.lower() in MARKERS]
    if flattened and not candidates:
        raise SpecError(
            f"the DataFrame's column {flattened[0]!r} {MARKER_HINT}, or pass change_column=None"
        )
    return candidates[0] if candidates else None


def is_mini_batch(mode: str) -> bool:
    """Tell whether changes leave by bundles; raises SpecError for what is no mode."""
    if mode not in MODES:
        raise SpecError(f"mode {mode!r}: known are {' and '.join(MODES)}")
    return mode == "mini_batch"


def check_host_settings(
    buckets: int | None,
    output_profile: str,
    state_directory: str | Path | None,
    state_limit: str | int | None,
) -> HostSettings:
    """The settings of a query's host, checked."""
    if output_profile not in tuple(CHANGE_COLUMNS):
        raise SpecError(f"output_profile {output_profile!r}: known are {', '.join(CHANGE_COLUMNS)}")
    if buckets is not None and (type(buckets) is not int or buckets < 1):
        raise SpecError(f"buckets={buckets!r}: it must be a whole number, at least 1")
    if not isinstance(state_directory, str | Path | None):
        raise SpecError(
            f"state_directory is {state_directory!r}; it must be the path of a directory"
        )
    directory = str(state_directory) if state_directory else None
    limit = None if state_limit is None else size_of(state_limit)
    return HostSettings(buckets, directory, output_profile, limit)
