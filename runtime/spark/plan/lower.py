"""A plan as a Spark query: packed rows between keyed operators, ordinary columns where Spark evaluates expressions.

Calcs that Arrow computes, and Expands, run where rows are packed, and UNION ALL below an exchange unites packed rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ByteType, StringType

from aggloom.codegen import spell_zone
from aggloom.codegen.planner import (
    ONE_ROW,
    Calc,
    Exchange,
    FromChangelog,
    Node,
    Plan,
    Scan,
    Stateful,
    ToChangelog,
    Union,
    below_unions,
    union_parts,
)
from aggloom.errors import OptionError, SpecError
from aggloom.platform_switch import is_tuned
from aggloom.runtime.hosting.added_columns import AddedColumns, ResumedPlan, describe_query
from aggloom.runtime.hosting.factory import FragmentFactory, factory_of
from aggloom.runtime.hosting.handler_text import HandlerTexts
from aggloom.runtime.hosting.query_record import Query
from aggloom.runtime.operators.fragment import FragmentSpec, fragment_of
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.operators.stateless import Step, is_step, step_of
from aggloom.runtime.spark.node.blob_files import LARGE_BYTES
from aggloom.runtime.spark.node.host import FragmentProcessor, Options
from aggloom.runtime.spark.node.output_encoding import (
    BlobOutput,
    ColumnOutput,
    OutputEncoding,
    PackedRowOutput,
    is_column_output,
)
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.plan import kind_names, metrics
from aggloom.runtime.spark.plan.column_frames import (
    KIND,
    InputTable,
    OrdinaryRows,
    apply_step,
    extra_fields,
    filter_changes,
    scan_table,
    spark_fields,
    with_kind,
)
from aggloom.runtime.spark.plan.expressions import (
    check_output,
    is_ansi,
    project_columns,
    quote,
    refusals,
    spark_arrow,
)
from aggloom.runtime.spark.plan.file_arrivals import find_orderly
from aggloom.runtime.spark.plan.host_settings import HostSettings
from aggloom.runtime.spark.plan.one_batch_source import stream_once
from aggloom.runtime.spark.plan.own_calls import compute_own_calls
from aggloom.runtime.spark.plan.routes import PACKED_DDL, SIDE, Packer, Route
from aggloom.runtime.spark.plan.timers import is_stamped, time_mode
from aggloom.runtime.spark.plan.unpack import Unpack
from aggloom.runtime.spark.plan.variant_frames import leaving_column
from aggloom.runtime.spark.read.files import Packable, packable
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.spark.release import for_state
from aggloom.runtime.spark.sessions.session import is_local, prepare_session
from aggloom.runtime.values.changelog import CHANGE_COLUMNS

LATE_ROW = "late_row"
"""The column that holds rows that arrived too late, if they are asked for."""

_NOW = "unix_millis(current_timestamp()) AS now"
_LOWERED: WeakKeyDictionary[DataFrame, SparkLowering] = WeakKeyDictionary()


def find_lowering(df: DataFrame) -> SparkLowering | None:
    """Return the lowering by which a DataFrame was made, if it is still as it was."""
    return _LOWERED.get(df)


class SparkLowering:
    """One plan on its way to a DataFrame.

    still: the tables that do not stream, beside others that do. orderly: the tables whose order of files affects the
    result. factories, nodes: of its fragments, by place. carries: the number of a batch in which every bucket is
    called. text: the query, if it was given as SQL. handed_over: the directory from which each bucket reads its state
    in the first batch. scans: the tables in the order in which the query reads them. added: columns new to the
    checkpoint.
    """

    def __init__(
        self,
        plan: Plan,
        tables: Mapping[str, InputTable],
        handler_of: HandlerTexts,
        settings: HostSettings,
        carries: int | None = None,
        text: str | None = None,
        handed_over: str | None = None,
        added: AddedColumns | None = None,
    ) -> None:
        self.scans: list[str] = []
        self._streams = any(table.df.isStreaming for table in tables.values())
        spark = prepare_session(_any(tables).df.sparkSession, self._streams)
        self.still = [name for name, table in tables.items() if self._stands_still(table)]
        if plan.says_rows:
            row = spark.createDataFrame([(True,)], "one BOOLEAN")
            tables = {**tables, ONE_ROW: InputTable(row)}
        self.tables = {
            name: replace(table, df=stream_once(table.df)) if self._stands_still(table) else table
            for name, table in tables.items()
        }
        self.plan, self.handler_of, self.settings = plan, handler_of, settings
        self._carries, self.text, self._handed_over, self.added = carries, text, handed_over, added
        self.nodes: dict[int, tuple[Stateful, ...]] = {}
        self._factories: dict[int, FragmentFactory] = {}
        self.orderly: set[str] = set()
        self._places, self._reads, self._number = 0, 0, metrics.number()
        # Under a local master a file of one worker is there for all others.
        shares_files = self._streams and is_local(spark) and is_tuned()
        self._file_bytes = LARGE_BYTES if shares_files else None
        self.zone = spell_zone(str(spark.conf.get("spark.sql.session.timeZone")))
        self._is_ansi = is_ansi(spark)
        partitions = spark.conf.get("spark.sql.shuffle.partitions") or 200
        self._buckets = settings.buckets or 2 * int(partitions)

    def result(self) -> DataFrame:
        """The changelog of the plan's result: its columns, then the change column."""
        change_column = CHANGE_COLUMNS[self.settings.profile]
        check_output(self.plan.schema.names, change_column)
        with refusals("the query"):
            lowered = self._lower_result(self.plan.root)
        late = [name for name in lowered.columns if name == LATE_ROW]
        selected = lowered.select(
            *map(leaving_column, self.plan.schema),
            *(F.col(name) for name in late),
            F.col(quote(KIND)).alias(change_column),
        )
        result = metrics.result_counted(selected, self._number, late[0] if late else None)
        _LOWERED[result] = self
        return result

    def lower_again(
        self,
        carries: int | None = None,
        buckets: int | None = None,
        tables: Mapping[str, InputTable] | None = None,
        handed_over: str | None = None,
        resumed: ResumedPlan | None = None,
    ) -> DataFrame:
        """The result once more, with other settings: a batch in which every bucket is called, buckets, tables, plan."""
        plan, added = resumed or ResumedPlan(self.plan, self.added)
        settings = replace(self.settings, buckets=buckets or self.settings.buckets)
        about = self.handler_of, settings, carries, self.text, handed_over, added
        return SparkLowering(plan, tables or self.tables, *about).result()

    @property
    def factories(self) -> list[FragmentFactory]:
        """The factories of the fragments of a plan that has been lowered, by place."""
        return [factory for _, factory in sorted(self._factories.items())]

    def about(self) -> Query:
        """Return the data of a lowered plan that a checkpoint stores."""
        return describe_query(self.plan, self._factories, self.zone)

    def _stands_still(self, table: InputTable) -> bool:
        """Tell whether a table is a batch beside streams."""
        return self._streams and not table.df.isStreaming

    def _lower_result(self, node: Node) -> DataFrame:
        """A part of the plan above the last aggregates: its columns, and kinds in the profile's words."""
        profile = self.settings.profile
        if isinstance(node, Union):
            return reduce(DataFrame.union, map(self._lower_result, node.parts))
        if isinstance(node, Stateful):
            return self._unpack_changes(node, profile)
        if not isinstance(node, Calc | Scan):
            return kind_names.apply_result_step(self._lower_result(node.inputs[0]), node, profile)
        if isinstance(node, Calc):
            below, node = compute_own_calls(self._lower_result(node.input), node, self.zone)
            late = [name for name in below.columns if name == LATE_ROW]
            if node.where is not None:
                upsert = not self.plan.has_old_rows and not node.shows
                below = filter_changes(below, node, late, profile, upsert)
            return below.selectExpr(*project_columns(node), *late, quote(KIND))
        assert isinstance(node, Scan)
        return kind_names.spell_kinds(self._scan(node), node, profile)

    def _rows(self, node: Node) -> OrdinaryRows:
        """A part of the plan below an aggregate as ordinary columns."""
        if isinstance(node, Scan):
            return self._scan(node)
        if isinstance(node, Stateful):
            return OrdinaryRows(self._unpack_changes(node, None), KIND, change_column=KIND)
        if isinstance(node, ToChangelog | FromChangelog):
            return kind_names.convert_changes(self._rows(node.input), node)
        if not isinstance(node, Calc):
            rows = self._rows(node.inputs[0])
            return replace(rows, df=apply_step(rows.df, node, *extra_fields(rows)))
        below = self._rows(node.input)
        df, node = compute_own_calls(below.df, node, self.zone)
        below = kind_names.filter_below(replace(below, df=df), node)
        df = below.df.selectExpr(*project_columns(node), *(quote(name) for name in below.extra))
        return replace(below, df=df)

    def _scan(self, node: Scan) -> OrdinaryRows:
        """A table as the columns that a scan reads."""
        self.scans.append(node.table)
        return scan_table(self.tables[node.table], node)

    def _pack_node(self, node: Node, route: Route, name: str, ordered: bool) -> DataFrame:
        """Return the rows of a part of the plan, packed for the next operator."""
        node = below_unions(node)
        if node.accumulators is not None:
            route, ordered = replace(route, local=self.handler_of(node.accumulators)), False
            if not isinstance(node, Stateful):
                return self._pack_node(node.inputs[0], route, name, ordered)
        if isinstance(node, Stateful):
            steps = (*node.onward, *route.steps)
            return self._host_fragment(node, PackedRowOutput(replace(route, steps=steps)))
        if isinstance(node, Union):
            return self._unite_parts(union_parts(node), route, name, ordered)
        step = self._step(node)
        if step is not None and self._is_packed(node):
            further = replace(route, steps=(step, *route.steps))
            return self._pack_node(node.inputs[0], further, name, ordered)
        return self._from_rows(node, route, name, ordered)

    def _step(self, node: Node) -> Step | None:
        """A node as a step on packed rows; None if it is none, or if only Spark evaluates its expressions."""
        if is_step(node):
            return step_of(node, self.zone)
        # The halves of an update, which a filter above a log judges together, may be packed apart.
        if not isinstance(node, Calc) or node.shows or not self._is_ansi:
            return None
        try:
            return step_of(node, self.zone)
        except SpecError:
            return None

    def _is_packed(self, node: Node) -> bool:
        """Tell whether rows leave a node packed, through steps that are lowered."""
        while isinstance(node, Calc) and self._step(node) is not None:
            node = node.input
        if isinstance(node, Scan):
            return self._files(node) is not None
        return isinstance(node, Stateful) or is_step(node)

    def _files(self, node: Node) -> Packable | None:
        """Return the source that workers can read and pack, unless Spark needs its rows for their event times."""
        table = self.tables[node.table] if isinstance(node, Scan) else None
        if table is None or table.change_column not in (None, CHANGE_COLUMN):
            return None
        if CHANGE_COLUMN in node.schema.names or (isinstance(node, Scan) and node.clock):
            return None  # What the reader made of a column of that name; a batch's time is Spark's.
        return packable(table.df, node.schema.names)

    def _unite_parts(self, parts: list[Node], route: Route, name: str, ordered: bool) -> DataFrame:
        whole: DataFrame | None = None
        for side, part in enumerate(parts):
            packed = self._pack_node(part, replace(route, side=route.side + side), name, ordered)
            whole = packed if whole is None else whole.union(packed)
        assert whole is not None
        return whole

    def _from_rows(self, node: Node, route: Route, name: str, ordered: bool) -> DataFrame:
        if isinstance(node, Scan):
            route, node = replace(route, digits=node.digits), replace(node, digits=())
        files = self._files(node)
        if files is not None and isinstance(node, Scan):
            change, append_only = self.tables[node.table].change_column, node.changes == "append"
            pack = Pack(route, node.schema, name, change, append_only, ordered)
            self.scans.append(node.table)
            packed = files.pack_rows(pack, f"{self._reads} #{self._number}")
            self._reads += 1
            return self._with_marker(packed, route)
        rows = self._rows(node)
        by_file = list(rows.files) if ordered else []
        named = [
            F.col(quote(column)).alias(f"c{place}")
            for place, column in enumerate(node.schema.names)
        ]
        kind = [F.col(quote(rows.kind)).alias("kind")] if rows.kind else []
        columns = [*named, *kind, *(F.col(quote(file)) for file in by_file)]
        pack = Pack(route, node.schema, name, rows.change_column, rows.append_only, bool(by_file))
        bare = rows.df.select(*(columns or [F.lit(0).alias("nothing")]))
        return self._with_marker(bare.mapInArrow(pack, PACKED_DDL), route)

    def _with_marker(self, packed: DataFrame, route: Route) -> DataFrame:
        """Packed rows of a batch query with one more, without rows in it: a DataFrame may have no partitions at all."""
        if self._streams or not route.emits_without_rows:
            return packed
        marker = Packer(replace(route, steps=(), local=None), SIDE - 1).finish()
        return packed.union(packed.sparkSession.createDataFrame(list(marker), PACKED_DDL))

    def _unpack_changes(self, node: Stateful, profile: str | None) -> DataFrame:
        """An aggregate's changes as ordinary columns."""
        kind, fields = pa.string() if profile else pa.int8(), node.schema
        late = operator_of(node, self.plan.options).late_columns if profile else None
        if late is not None:
            fields = fields.append(pa.field(LATE_ROW, pa.struct(list(late))))
        schema = with_kind(spark_arrow(fields), kind)
        columns = spark_fields(fields, StringType() if profile else ByteType())
        if is_column_output(schema):
            return self._host_fragment(node, ColumnOutput(schema, columns, profile))
        opened = Unpack(schema, profile, late is not None)
        return self._host_fragment(node, BlobOutput()).mapInArrow(opened, columns)

    def _host_fragment(self, node: Stateful, encoding: OutputEncoding) -> DataFrame:
        """The fragment that a node emits from, and how changes leave it."""
        fragment, exchanges, nodes = fragment_of(node, self.plan.options, self.zone)
        if fragment.evaluates and not self._is_ansi:
            raise OptionError(
                "fragments_enabled is true, and the session is not in ANSI mode, whose meaning expressions inside a "
                "stateful node have; set spark.sql.ansi.enabled, or leave fragments_enabled out"
            )
        place, self._places = self._places, self._places + 1
        # A global aggregate has one key, so one bucket.
        buckets = self._buckets if exchanges[0].keys else 1
        # What is above may wait for a first bundle, which this node then has to hand on.
        emits_without_rows = fragment.emits_without_rows or (
            isinstance(encoding, PackedRowOutput) and encoding.route.emits_without_rows
        )
        for each, part in zip(nodes, fragment.parts, strict=True):
            self.orderly |= find_orderly(each, part.spec.needs_order)
        packed = [
            self._feed_fragment(exchange, fragment, number, buckets, emits_without_rows, place)
            for number, exchange in enumerate(exchanges)
        ]
        handlers = tuple(None if s is None else self.handler_of(s) for s in fragment.handler_specs)
        factory = factory_of(nodes, place, buckets, handlers, fragment)
        factory = self.added.carry_over(place, factory) if self.added else factory
        self._factories[place], self.nodes[place] = factory, nodes
        # Batch queries end with their rows.
        stamped = self._streams and is_stamped(fragment, self.plan.awaits_watermark)
        mode = time_mode(fragment, self.plan.awaits_watermark) if self._streams else "None"
        live = self.settings.state_directory, place, encoding, mode, self.settings.state_limit
        chosen = self.plan.options
        more = chosen.added_calls, stamped, self._handed_over, chosen.watermark_interval
        hosting = Options(buckets, tuple(fragment.ttls), *live, *more, self._file_bytes)
        if stamped:
            packed = [each.selectExpr(_NOW, "*") for each in packed]
        groups = for_state(reduce(DataFrame.union, packed).groupBy("bucket"))
        hosted = groups.transformWithStateInPandas(
            FragmentProcessor(factory, hosting),
            outputStructType=encoding.fields,
            outputMode="Append",
            timeMode=mode,
        )
        names = [part.name for part in fragment.parts]
        about = (hosting.place, self._number, hosting.buckets, hosting.encoding.change_column)
        return metrics.operators_counted(hosted, names, *about)

    def _feed_fragment(
        self,
        exchange: Exchange,
        fragment: FragmentSpec,
        number: int,
        buckets: int,
        emits_without_rows: bool,
        place: int,
    ) -> DataFrame:
        """The packed rows of an input of a fragment."""
        # Spark finds the watermark of a node below it, and finds none below an exchange that it uses twice.
        moving = any(table.has_watermark for table in self.tables.values())
        rows = fragment.inputs[number]
        route = Route(
            rows,
            tuple(exchange.input.schema.names.index(name) for name in exchange.keys),
            buckets,
            number,
            wakes_every_bucket=fragment.wakes_every_bucket,
            emits_without_rows=emits_without_rows and number == 0,
            carries=self._carries,
            node=place if moving else 0,
            file_bytes=self._file_bytes,
        )
        name = ", ".join(dict.fromkeys(part.name for part in fragment.consumers(number)))
        return self._pack_node(exchange.input, route, name, fragment.is_ordered(number))


def _any(tables: Mapping[str, InputTable]) -> InputTable:
    return next(iter(tables.values()))
