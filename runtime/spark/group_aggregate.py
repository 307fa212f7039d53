"""`group_aggregate`: a DataFrame of changes in, the changelog of its GROUP BY out.

Columns, WHERE and computed columns -> pack -> exchange by bucket -> the operator, hosted -> unpack -> HAVING and
the final projection. Streaming and batch DataFrames take the same way.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from aggloom.codegen import AggSpec, generate, load, load_text
from aggloom.errors import SpecError, UnknownColumnError, nearest
from aggloom.runtime.changelog import CHANGE_COLUMNS
from aggloom.runtime.spark.expressions import (
    check_output,
    quote,
    spark_arrow,
    spark_schema,
    with_computed,
)
from aggloom.runtime.spark.host import OUTPUT_DDL, OperatorProcessor, Options
from aggloom.runtime.spark.pack import PACKED_DDL, Pack
from aggloom.runtime.spark.session import ensure_query_settings
from aggloom.runtime.spark.store import Operator
from aggloom.runtime.spark.unpack import Having, Unpack


@dataclass(frozen=True)
class GroupAggFactory:
    """What a worker needs to make the operator: the generated text, not the class."""

    name: str
    digest: str
    text: str
    text_digest: str
    input_schema: pa.Schema
    settings: tuple[tuple[str, Any], ...]

    def open(self, directory: Path | None) -> Operator:
        """The operator, over the mapped files of `directory` if given."""
        from aggloom.runtime.group_agg import GroupAggOperator

        handler = load_text(self.text, self.text_digest)
        return cast(Operator, GroupAggOperator(handler, directory=directory, **dict(self.settings)))


def resolve(what: Any) -> tuple[AggSpec, str, str]:
    """The spec, the generated text and its digest, of a spec, a handler class or a module's path."""
    if isinstance(what, AggSpec):
        what = load(generate(what))
    elif isinstance(what, str | Path):
        what = load(what)
    if not hasattr(what, "SPEC_JSON") or not hasattr(what, "SOURCE_PATH"):
        raise SpecError(
            f"group_aggregate: {what!r} is neither an AggSpec, nor a loaded handler class, nor the path of "
            "a generated module"
        )
    text = Path(what.SOURCE_PATH).read_text(encoding="utf-8")
    return AggSpec.from_json(what.SPEC_JSON), text, what.DIGEST


def group_aggregate(
    df: DataFrame,
    spec: Any,
    *,
    change_column: str | None = None,
    buckets: int | None = None,
    mode: str = "mini_batch",
    update_before: bool = True,
    on_orphan_retraction: str = "drop",
    state_ttl: int | None = None,
    output_profile: str = "spark",
    state_directory: str | Path | None = None,
) -> DataFrame:
    """The changelog of a grouped aggregate over a DataFrame of rows or of changes.

    `spec` is an AggSpec, a loaded handler class or a generated module's path. `change_column` is found by its name
    (`_change_type`, or Flink's `op`) unless given; without one, every row is an insertion. `state_ttl` is in
    milliseconds.
    """
    if output_profile not in CHANGE_COLUMNS:
        raise SpecError(f"output_profile {output_profile!r}: known are {', '.join(CHANGE_COLUMNS)}")
    resolved, text, text_digest = resolve(spec)
    spark = df.sparkSession
    ensure_query_settings(spark, timers=bool(state_ttl))
    change_column = change_column or _find_change_column(df, resolved)
    if change_column is not None and change_column not in df.columns:
        raise UnknownColumnError(
            f"the DataFrame has no change column {change_column!r}. {nearest(change_column, df.columns)}"
        )
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    count = _bucket_count(resolved, buckets, partitions)
    name = f"GROUP BY {', '.join(resolved.group_by) or '()'}"
    rows, ordered = _handler_columns(df, resolved, change_column)
    pack = Pack(
        schema=resolved.handler_schema,
        keys=len(resolved.group_by),
        buckets=count,
        operator=name,
        change_column=change_column,
        append_only=resolved.input_changes == "append",
        ordered=ordered,
    )
    factory = GroupAggFactory(
        name=name,
        digest=resolved.digest,
        text=text,
        text_digest=text_digest,
        input_schema=resolved.handler_schema,
        settings=(
            ("mode", mode),
            ("update_before", update_before),
            ("on_orphan_retraction", on_orphan_retraction),
            ("state_ttl_ms", state_ttl or 0),
        ),
    )
    options = Options(count, state_ttl or 0, str(state_directory) if state_directory else None)
    changes = (
        rows.mapInArrow(pack, PACKED_DDL)
        .groupBy("bucket")
        .transformWithStateInPandas(
            OperatorProcessor(factory, options),
            outputStructType=OUTPUT_DDL,
            outputMode="Append",
            timeMode="ProcessingTime" if state_ttl else "None",
        )
    )
    return _finish(changes, resolved, output_profile)


def _find_change_column(df: DataFrame, spec: AggSpec) -> str | None:
    """The change column that the DataFrame has under a known name that the spec does not use itself."""
    names = [name for name in CHANGE_COLUMNS.values() if name in df.columns]
    free = [name for name in names if name not in spec.schema.names]
    return free[0] if free else None


def _bucket_count(spec: AggSpec, buckets: int | None, partitions: int) -> int:
    """Twice the shuffle partitions unless given; a global aggregate has one key, so one bucket."""
    if buckets is not None and buckets < 1:
        raise SpecError(f"buckets={buckets}: at least one is needed")
    return (buckets or 2 * partitions) if spec.group_by else 1


def _handler_columns(
    df: DataFrame, spec: AggSpec, change_column: str | None
) -> tuple[DataFrame, bool]:
    """The columns that pack reads, under names that cannot clash, and whether file order comes with them."""
    computed = [(column.name, column.sql, column.type) for column in spec.computed]
    full = with_computed(df, spec.schema, spec.where, computed)
    columns = [
        F.col(quote(name)).alias(f"c{place}")
        for place, name in enumerate(spec.handler_schema.names)
    ]
    if change_column:
        columns.append(F.col(quote(change_column)).alias("kind"))
    files = _file_order(full) if _needs_order(spec, change_column) else []
    columns += files
    if not columns:
        columns = [F.lit(0).cast("tinyint").alias("nothing")]
    return full.select(*columns), bool(files)


def _needs_order(spec: AggSpec, change_column: str | None) -> bool:
    """True unless the result is the same whatever the order of the rows, which saves carrying it."""
    entries = [spec.entry(call) for call in spec.calls]
    return change_column is not None or any(entry.by_arrival or entry.own for entry in entries)


def _file_order(df: DataFrame) -> list[Any]:
    """The columns by which rows of several input files are put in order: when each was written, and its path.

    Spark packs a batch's files into tasks by size, so without them a correction might overtake what it corrects.
    """
    wanted = {"file_path", "file_modification_time"}
    if "_metadata" in df.columns:
        return []
    logger = logging.getLogger("DataFrameQueryContextLogger")
    disabled, logger.disabled = logger.disabled, True
    try:
        metadata = json.loads(df.select("_metadata").schema["_metadata"].dataType.json())
    except Exception:
        # Not a file source; each Spark, classic and Connect, says so with an error class of its own.
        return []
    finally:
        logger.disabled = disabled
    if not wanted <= {field["name"] for field in metadata.get("fields", [])}:
        return []
    return [
        F.col("_metadata.file_modification_time").alias("file_time"),
        F.col("_metadata.file_path").alias("file_path"),
    ]


def _finish(changes: DataFrame, spec: AggSpec, profile: str) -> DataFrame:
    """Ordinary columns, HAVING applied, projected; the change column last."""
    change_column = CHANGE_COLUMNS[profile]
    names = [name for name, _ in spec.select] if spec.select else spec.aggregate_schema.names
    check_output(names, change_column)
    check_output(spec.aggregate_schema.names, change_column)
    schema = spark_arrow(spec.aggregate_schema).append(pa.field(change_column, pa.string()))
    spark_columns = StructType(
        [*spark_schema(spec.aggregate_schema).fields, StructField(change_column, StringType())]
    )
    out = changes.mapInArrow(Unpack(schema, profile), spark_columns)
    if spec.having:
        condition = out.selectExpr("*", f"({spec.having}) AS `having condition`")
        out = condition.mapInArrow(Having(schema, profile), spark_columns)
    if spec.select:
        projected = [f"{sql} AS {quote(name)}" for name, sql in spec.select]
        out = out.selectExpr(*projected, quote(change_column))
    return out
