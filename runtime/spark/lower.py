"""A plan as a Spark query: packed rows between keyed operators, ordinary columns where expressions are evaluated.

Calcs that only pick columns, and Expands, run where rows are packed; a Calc with expressions is Spark's own business.
UNION ALL below an exchange is a union of packed rows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ByteType, StringType, StructField, StructType

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import (
    Calc,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Plan,
    Scan,
    Union,
    WindowAggregate,
    WindowAssign,
    WindowTable,
    described,
    lineage,
)
from aggloom.runtime.operators.windows.make import WindowSettings, late_schema
from aggloom.runtime.spark.expressions import (
    check_columns,
    check_output,
    projected,
    quote,
    spark_arrow,
    spark_schema,
)
from aggloom.runtime.spark.files import WholeFiles, whole_files
from aggloom.runtime.spark.host import OperatorProcessor, Options
from aggloom.runtime.spark.pack import Pack
from aggloom.runtime.spark.routes import PACKED_DDL, SIDE, HandlerText, Packer, Route
from aggloom.runtime.spark.sources import CHANGE_COLUMN
from aggloom.runtime.spark.store import Operator
from aggloom.runtime.spark.unpack import Having, Respell, Stepped, Unpack
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, PROFILES

HandlerOf = Callable[[AggSpec], HandlerText]
LATE_ROW = "late_row"
"""The column that holds rows that came too late, if they are asked for."""

_KIND, _TIME, _PATH = "row kind", "file time", "file path"
Keyed = GroupAggregate | IncrementalAggregate | WindowAggregate


@dataclass(frozen=True)
class Table:
    """A DataFrame of the query, and its change column; without one every row is an insertion.

    moving: whether it has a watermark.
    """

    df: DataFrame
    change_column: str | None = None
    moving: bool = False


@dataclass(frozen=True)
class Settings:
    """How a plan is hosted: buckets (None: twice the shuffle partitions), where live state is, the words for kinds.

    state_limit: how many bytes the directory for live state may take (None: by the host's settings).
    """

    buckets: int | None = None
    state_directory: str | None = None
    profile: str = "spark"
    state_limit: int | None = None


@dataclass(frozen=True)
class OperatorFactory:
    """What a worker needs to make an operator; `description`: what its state is made from, as JSON."""

    name: str
    digest: str
    description: str
    handler: HandlerText
    input_schema: pa.Schema
    settings: tuple[tuple[str, Any], ...] | WindowSettings

    def open(self, directory: Path | None, bucket: int) -> Operator:
        """The operator of a bucket, over the mapped files of `directory` if given."""
        from aggloom.runtime.operators.group_aggregate import GroupAggOperator

        if isinstance(self.settings, WindowSettings):
            return self.settings.make(self.handler.load(), bucket, directory)
        made = GroupAggOperator(self.handler.load(), directory=directory, **dict(self.settings))
        return cast(Operator, made)


@dataclass(frozen=True)
class _Rows:
    """Rows as ordinary columns under the node's names; after them `kind`, and what orders input files."""

    df: DataFrame
    kind: str | None = None
    files: tuple[str, ...] = ()
    change_column: str | None = None
    append_only: bool = False

    @property
    def extra(self) -> list[str]:
        return [*([self.kind] if self.kind else []), *self.files]


class Lowering:
    """One plan on its way to a DataFrame."""

    def __init__(
        self, plan: Plan, tables: Mapping[str, Table], handler_of: HandlerOf, settings: Settings
    ) -> None:
        self.plan, self.tables, self.handler_of, self.settings = plan, tables, handler_of, settings
        self._places = 0
        self._streams = any(table.df.isStreaming for table in tables.values())
        partitions = _any(tables).df.sparkSession.conf.get("spark.sql.shuffle.partitions")
        self._buckets = settings.buckets or 2 * int(partitions or 200)

    def result(self) -> DataFrame:
        """The changelog of the plan's result: its columns, then the change column."""
        change_column = CHANGE_COLUMNS[self.settings.profile]
        check_output(self.plan.schema.names, change_column)
        shown = self._shown(self.plan.root)
        return shown.select(
            *(F.col(quote(name)) for name in self.plan.schema.names),
            *(F.col(name) for name in shown.columns if name == LATE_ROW),
            F.col(quote(_KIND)).alias(change_column),
        )

    def _shown(self, node: Node) -> DataFrame:
        """A part of the plan above the last aggregates: its columns, and kinds in the profile's words."""
        profile = self.settings.profile
        if isinstance(node, Union):
            parts = [self._shown(part) for part in node.parts]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.union(part)
            return whole
        if isinstance(node, GroupAggregate | WindowAggregate):
            return self._unpacked(node, profile)
        if isinstance(node, WindowTable):
            return _stepped(self._shown(node.input), node, (StringType(), _KIND))
        if isinstance(node, Calc):
            below = self._shown(node.input)
            if node.where is not None:
                condition = f"({node.where}) AS `row passes`"
                schema = _with_kind(node.input.schema, pa.string())
                upsert = not self.plan.options.update_before
                below = below.selectExpr("*", condition).mapInArrow(
                    Having(schema, profile, upsert), _spark(node.input.schema, StringType())
                )
            late = [name for name in below.columns if name == LATE_ROW]
            return below.selectExpr(*projected(node), *late, quote(_KIND))
        assert isinstance(node, Scan)
        rows = self._scan(node)
        df = rows.df.select(*(F.col(quote(name)) for name in node.schema.names), *rows.extra[:1])
        if rows.kind is None:
            return df.withColumn(_KIND, F.lit(PROFILES[profile][0]))
        respell = Respell(_with_kind(node.schema, pa.string()), profile, str(rows.change_column))
        return df.mapInArrow(respell, _spark(node.schema, StringType()))

    def _rows(self, node: Node) -> _Rows:
        """A part of the plan below an aggregate as ordinary columns."""
        if isinstance(node, Scan):
            return self._scan(node)
        if isinstance(node, GroupAggregate | WindowAggregate):
            return _Rows(self._unpacked(node, None), _KIND, change_column=_KIND)
        if isinstance(node, WindowTable):
            rows = self._rows(node.input)
            return replace(rows, df=_stepped(rows.df, node, *_extra_fields(rows)))
        assert isinstance(node, Calc)
        below = self._rows(node.input)
        df = below.df if node.where is None else below.df.where(node.where)
        df = df.selectExpr(*projected(node), *(quote(name) for name in below.extra))
        return replace(below, df=df)

    def _scan(self, node: Scan) -> _Rows:
        table = self.tables[node.table]
        check_columns(table.df, node.schema)
        columns = [F.col(quote(name)) for name in node.schema.names]
        files: tuple[str, ...] = ()
        change = table.change_column
        if change is not None:
            columns.append(F.col(quote(change)).alias(_KIND))
        ordered = _file_order(table.df)
        if ordered:
            columns += ordered
            files = (_TIME, _PATH)
        if not columns:
            columns = [F.lit(0).cast("tinyint").alias("nothing")]
        append_only = node.changes == "append"
        kind = None if change is None else _KIND
        return _Rows(table.df.select(*columns), kind, files, change, append_only)

    def _packed(self, node: Node, route: Route, name: str, ordered: bool) -> DataFrame:
        """The rows of a part of the plan on their way to the next operator."""
        node = _below_unions(node)
        if isinstance(node, LocalAggregate):
            local = self.handler_of(node.spec)
            return self._packed(node.input, replace(route, local=local), name, False)
        if isinstance(node, IncrementalAggregate):
            steps = (*node.steps, *route.steps)
            local = self.handler_of(node.final)
            return self._hosted(node, replace(route, steps=steps, local=local))
        if isinstance(node, GroupAggregate | WindowAggregate):
            return self._hosted(node, route)
        if isinstance(node, Expand | WindowAssign | WindowTable):
            further = replace(route, steps=(node, *route.steps))
            return self._packed(node.input, further, name, ordered)
        if isinstance(node, Union):
            return self._united(_parts(node), route, name, ordered)
        if isinstance(node, Calc) and node.picked is not None and self._is_packed(node.input):
            further = replace(route, steps=(node, *route.steps))
            return self._packed(node.input, further, name, ordered)
        return self._from_rows(node, route, name, ordered)

    def _is_packed(self, node: Node) -> bool:
        """Whether rows leave a node packed, through Calcs that only pick columns."""
        while isinstance(node, Calc) and node.picked is not None:
            node = node.input
        if isinstance(node, Scan):
            return self._files(node) is not None
        return isinstance(node, Keyed | Expand | WindowAssign | WindowTable)

    def _files(self, node: Node) -> WholeFiles | None:
        """The files that a source is, unless Spark has to see its rows for their event times."""
        table = self.tables[node.table] if isinstance(node, Scan) else None
        if table is None or table.moving or table.change_column not in (None, CHANGE_COLUMN):
            return None
        return whole_files(table.df)

    def _united(self, parts: list[Node], route: Route, name: str, ordered: bool) -> DataFrame:
        whole: DataFrame | None = None
        for side, part in enumerate(parts):
            packed = self._packed(part, replace(route, side=route.side + side), name, ordered)
            whole = packed if whole is None else whole.union(packed)
        assert whole is not None
        return whole

    def _from_rows(self, node: Node, route: Route, name: str, ordered: bool) -> DataFrame:
        files = self._files(node)
        if files is not None:
            assert isinstance(node, Scan)
            change, append_only = self.tables[node.table].change_column, node.changes == "append"
            pack = Pack(route, node.schema, name, change, append_only, ordered)
            packed = files.packed(pack, f"{self._places} {route.side}")
            return self._with_marker(packed, route)
        rows = self._rows(node)
        by_file = list(rows.files) if ordered else []
        named = [
            F.col(quote(column)).alias(f"c{place}")
            for place, column in enumerate(node.schema.names)
        ]
        kind = [F.col(quote(rows.kind)).alias("kind")] if rows.kind else []
        columns = [*named, *kind, *(F.col(quote(file)) for file in by_file)]
        pack = Pack(
            route,
            node.schema,
            name,
            rows.change_column,
            append_only=rows.append_only,
            ordered=bool(by_file),
        )
        bare = rows.df.select(*(columns or [F.lit(0).alias("nothing")]))
        return self._with_marker(bare.mapInArrow(pack, PACKED_DDL), route)

    def _with_marker(self, packed: DataFrame, route: Route) -> DataFrame:
        """Packed rows of a batch query with one more, without rows in it: a DataFrame may have no partitions at all."""
        if self._streams or not route.always:
            return packed
        marker = Packer(replace(route, steps=(), local=None), SIDE - 1).finish()
        return packed.union(packed.sparkSession.createDataFrame(list(marker), PACKED_DDL))

    def _unpacked(self, node: GroupAggregate | WindowAggregate, profile: str | None) -> DataFrame:
        """An aggregate's changes as ordinary columns."""
        kind = pa.string() if profile else pa.int8()
        fields = node.schema
        late = isinstance(node, WindowAggregate) and node.windowing.late_rows and bool(profile)
        if isinstance(node, WindowAggregate) and late:
            fields = fields.append(pa.field(LATE_ROW, pa.struct(list(late_schema(node)))))
        schema = _with_kind(spark_arrow(fields), kind)
        columns = _spark(fields, StringType() if profile else ByteType())
        return self._hosted(node, None).mapInArrow(Unpack(schema, profile, late), columns)

    def _hosted(self, node: Keyed, route: Route | None) -> DataFrame:
        """A keyed operator: what leaves are blobs, or packed rows if there is a route."""
        spec, options, exchange = node.spec, self.plan.options, node.input
        assert isinstance(exchange, Exchange)
        place, self._places = self._places, self._places + 1
        settings = self._settings(node)
        if isinstance(settings, WindowSettings):
            keys, rows, wakes = spec.group_by[:-1], settings.rows, _needs_waking(settings)
            name = f"GROUP BY {', '.join(keys) or '()'} in windows"
            ordered = _needs_order(spec) or not settings.windowing.is_vectorised
        else:
            keys, rows, wakes = spec.group_by, spec.handler_schema, False
            name = f"GROUP BY {', '.join(keys) or '()'}"
            ordered = _needs_order(spec)
        # What is above may wait for a first bundle, which this node then has to hand on.
        always = spec.one_row or (route is not None and route.always)
        here = Route(rows, len(keys), self._count(exchange), wakes=wakes, always=always)
        packed = self._packed(exchange.input, here, name, ordered)
        handler = self.handler_of(spec)
        factory = OperatorFactory(
            name=name,
            digest=lineage(node),
            description=_description(node, name, place, here.buckets, handler, settings),
            handler=handler,
            input_schema=rows,
            settings=settings,
        )
        mode = self._time_mode(node)
        ttl = 0 if isinstance(settings, WindowSettings) else self.plan.ttl_of(node)
        hosting = Options(
            here.buckets,
            ttl,
            self.settings.state_directory,
            place,
            route,
            mode,
            self.settings.state_limit,
            added_calls=options.added_calls,
        )
        return packed.groupBy("bucket").transformWithStateInPandas(
            OperatorProcessor(factory, hosting),
            outputStructType=hosting.output_ddl,
            outputMode="Append",
            timeMode=mode,
        )

    def _settings(self, node: Keyed) -> tuple[tuple[str, Any], ...] | WindowSettings:
        options = self.plan.options
        if isinstance(node, WindowAggregate):
            return WindowSettings.of(node, options)
        return (
            ("mode", "mini_batch" if options.mini_batch_enabled else "per_record"),
            ("update_before", getattr(node, "update_before", True)),
            ("on_orphan_retraction", "keep" if node.merges else options.on_orphan_retraction),
            ("state_ttl_ms", self.plan.ttl_of(node)),
        )

    def _time_mode(self, node: Keyed) -> Literal["None", "ProcessingTime", "EventTime"]:
        """The timers that a node has; batch queries need none: with their rows time ends."""
        if not self._streams:
            return "None"
        if isinstance(node, WindowAggregate):
            return "EventTime" if node.windowing.assigner.event_time else "ProcessingTime"
        return "ProcessingTime" if self.plan.ttl_of(node) else "None"

    def _count(self, exchange: Exchange) -> int:
        """How many buckets an operator has; a global aggregate has one key, so one bucket."""
        return self._buckets if exchange.keys else 1


def _description(
    node: Keyed,
    name: str,
    place: int,
    buckets: int,
    handler: HandlerText,
    settings: tuple[tuple[str, Any], ...] | WindowSettings,
) -> str:
    """What a node's state is made from, as JSON: lies in the checkpoint beside it."""
    about = {
        "operator": name,
        "place": place,
        "buckets": buckets,
        "digest": lineage(node),
        "backend": handler.backend,
        **described(node),
        "settings": settings.to_data() if isinstance(settings, WindowSettings) else dict(settings),
    }
    return json.dumps(about, sort_keys=True)


def _needs_waking(settings: WindowSettings) -> bool:
    """Whether something may be due by the clock in a node that has timers by the watermark only."""
    windowing = settings.windowing
    return windowing.assigner.event_time and not windowing.on_time_only


def _extra_fields(rows: _Rows) -> list[tuple[Any, str]]:
    """The types and names of the columns that stand after the node's."""
    return [(rows.df.schema[name].dataType, name) for name in rows.extra]


def _stepped(df: DataFrame, node: WindowTable, *extra: tuple[Any, str]) -> DataFrame:
    """Rows as ordinary columns after a step that Arrow does; the extra columns go along."""
    fields = [*spark_schema(node.schema).fields, *(StructField(n, t) for t, n in extra)]
    return df.mapInArrow(Stepped(node), StructType(fields))


def _any(tables: Mapping[str, Table]) -> Table:
    return next(iter(tables.values()))


def _below_unions(node: Node) -> Node:
    """Calcs over a union as a union of Calcs: each part is packed by itself."""
    if not isinstance(node, Calc):
        return node
    below = _below_unions(node.input)
    if isinstance(below, Union):
        return Union(tuple(node.over(part) for part in below.parts))
    return node.over(below)


def _parts(node: Node) -> list[Node]:
    """The parts of a union, and of unions in it, so that each has a side of its own."""
    node = _below_unions(node)
    return [p for part in node.parts for p in _parts(part)] if isinstance(node, Union) else [node]


def _needs_order(spec: AggSpec) -> bool:
    """True unless the result is the same whatever the order of the rows, which saves carrying it."""
    entries = [spec.entry(call) for call in spec.calls]
    return spec.input_changes == "retract" or any(e.by_arrival or e.own for e in entries)


def _with_kind(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    return schema.append(pa.field(_KIND, kind))


def _spark(schema: pa.Schema, kind: Any) -> StructType:
    return StructType([*spark_schema(schema).fields, StructField(_KIND, kind)])


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
        F.col("_metadata.file_modification_time").alias(_TIME),
        F.col("_metadata.file_path").alias(_PATH),
    ]
