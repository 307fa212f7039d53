"""The harness: a query's operators without Spark, fed by Python rows, for tests, notebooks and debugging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, generate, load
from aggloom.codegen.planner import Plan, PlanOptions, plan_query, plan_spec
from aggloom.errors import AggloomError, UnknownTableError, nearest
from aggloom.runtime.arena import Array
from aggloom.runtime.changelog import KIND_NAMES, fold, parse_kinds, sort_key
from aggloom.runtime.group_agg import GroupAggOperator, Mode, OrphanPolicy
from aggloom.runtime.handler import rows_to_batch
from aggloom.runtime.mini_batch import MiniBatch
from aggloom.runtime.pipeline import Handlers, Pipeline, handlers
from aggloom.runtime.steps import Rows

Change = tuple[Any, ...]
Backend = Literal["numba", "python"]


class Harness:
    """Feeds a query's operators and collects the changes of its result.

    spec: an AggSpec, a loaded handler class or a generated module's path; `from_sql` takes whole queries. In mode
    mini_batch rows are buffered until `flush`, until `bundle_size` of them are there, or until a watermark or the
    processing time ends the bundle; in mode per_record each row acts at once.
    session: a Spark session, asked only for expressions that pyarrow cannot evaluate as Spark does.
    """

    def __init__(
        self,
        spec: AggSpec | type[Any] | str | Path,
        *,
        mode: Mode = "mini_batch",
        backend: Backend = "numba",
        update_before: bool = True,
        on_orphan_retraction: OrphanPolicy = "drop",
        state_ttl_ms: int = 0,
        bundle_size: int | None = None,
        session: Any = None,
    ) -> None:
        if isinstance(spec, AggSpec):
            handler = load(generate(spec, backend=backend))
        else:
            handler = spec if isinstance(spec, type) else load(spec)
        self.handler = handler
        self.spec: AggSpec = handler.spec()
        if mode not in ("mini_batch", "per_record"):
            raise AggloomError(f"mode={mode!r} does not exist; use mini_batch or per_record")
        options = PlanOptions(
            mini_batch_enabled=mode == "mini_batch",
            mini_batch_size=bundle_size or -1,
            agg_phase_strategy="ONE_PHASE",
            state_ttl=state_ttl_ms,
            update_before=update_before,
            on_orphan_retraction=on_orphan_retraction,
        )
        plan = plan_spec(self.spec, options=options)
        self._start(plan, lambda _: handler, session=session)

    @classmethod
    def from_sql(
        cls,
        sql: str,
        tables: Mapping[str, Any],
        *,
        input_changes: str | Mapping[str, str] = "retract",
        dialect: str = "spark",
        backend: Backend = "numba",
        buckets: int = 1,
        partitions: int = 1,
        options: Mapping[str, Any] | PlanOptions | None = None,
        session: Any = None,
        **keywords: Any,
    ) -> Harness:
        """A harness of a script over tables, given as schemas by name: the plan that al.sql runs on Spark.

        buckets, partitions: into how many parts state and input are cut, of which the result does not depend.
        Planner options go into `options` by Flink's names or follow as keywords (see PlanOptions).
        """
        if not isinstance(options, PlanOptions):
            options = PlanOptions.of(options or {})
        plan = plan_query(
            sql,
            tables,
            input_changes=input_changes,
            dialect=dialect,
            options=options.updated(keywords),
        )
        return cls.of_plan(
            plan,
            handlers(backend),
            buckets=buckets,
            partitions=partitions,
            session=session,
        )

    @classmethod
    def of_plan(cls, plan: Plan, handler_of: Handlers, **options: Any) -> Harness:
        """A harness of a plan; `handler_of` gives the handler class of a spec."""
        harness = cls.__new__(cls)
        harness._start(plan, handler_of, **options)
        return harness

    def _start(self, plan: Plan, handler_of: Handlers, **options: Any) -> None:
        self.plan = plan
        self.pipeline = Pipeline(plan, handler_of, **options)
        chosen = plan.options
        size = chosen.mini_batch_size if chosen.mini_batch_size > 0 else None
        self._mini_batch = MiniBatch(size, chosen.mini_batch_allow_latency)
        self._clock_ms = 0
        self._buffer: list[tuple[str, Rows]] = []
        self._buffered = 0
        self._new: list[Change] = []
        self._all: list[Change] = []

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def operator(self) -> GroupAggOperator:
        """The operator of a query with one aggregate."""
        (operator,) = self.pipeline.operators
        return operator

    def process(
        self,
        rows: list[Change] | pa.RecordBatch,
        kinds: Array | None = None,
        table: str | None = None,
    ) -> None:
        """Take rows as (kind, value, ...) tuples in the table's order, or a record batch with its kinds.

        table: which of the query's tables they are of, if it has several.
        """
        name = self._table(table)
        if isinstance(rows, pa.RecordBatch):
            batch = rows
            codes = np.zeros(len(rows), np.int8) if kinds is None else np.asarray(kinds, np.int8)
        else:
            codes = parse_kinds(pa.array([row[0] for row in rows], pa.string()), "harness rows")
            batch = rows_to_batch([tuple(row[1:]) for row in rows], self.plan.scans[name].schema)
        if not self.plan.options.mini_batch_enabled:
            self._run({name: (batch, codes)})
            return
        start = 0
        while start < len(batch):
            room = self._mini_batch.room(self._buffered, len(batch) - start)
            self._buffer.append((name, (batch.slice(start, room), codes[start : start + room])))
            self._buffered += room
            start += room
            if self._mini_batch.is_full(self._buffered):
                self.flush()

    def flush(self) -> None:
        """End the bundle."""
        if not self._buffer:
            return
        buffer, self._buffer, self._buffered = self._buffer, [], 0
        tables: dict[str, Rows] = {}
        for name in dict.fromkeys(name for name, _ in buffer):
            parts = [rows for own, rows in buffer if own == name]
            batch = pa.concat_batches([batch for batch, _ in parts])
            tables[name] = batch, np.concatenate([kinds for _, kinds in parts])
        self._run(tables)

    def watermark(self, ms: int) -> None:
        """Say that no row before `ms` is expected; it ends the bundle, with a latency only once an interval."""
        if self._mini_batch.watermark(ms):
            self.flush()

    def processing_time(self, ms: int) -> None:
        """Set the clock; with table.exec.mini-batch.allow-latency its intervals end bundles."""
        if self._mini_batch.processing_time(ms):
            self.flush()

    def changes(self) -> list[Change]:
        """The changes since the last call, as (kind, value, ...) tuples."""
        new, self._new = self._new, []
        return new

    def table(self) -> list[tuple[Any, ...]]:
        """The table that all changes so far fold to, sorted by its columns, nulls first and NaN last."""
        return sorted(self._folded(), key=lambda row: [sort_key(v) for v in row])

    def snapshot(self) -> bytes:
        """The operators' state; the buffered rows are flushed first."""
        self.flush()
        return self.pipeline.snapshot()

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot: the table is the one that it held, and no change tells of the step.

        Rows that reach the result without an aggregate are in no state, so that the table does not have them.
        """
        self._buffer, self._buffered = [], 0
        self.pipeline.restore(data)
        self._new, self._all = [], _changes(self.pipeline.contents())

    def set_ttl_time(self, ms: int) -> None:
        """Set the clock of the state TTL."""
        self._clock_ms = ms

    @property
    def counters(self) -> dict[str, int]:
        """What the operators have counted, added up."""
        total: Counter[str] = Counter()
        for operator in self.pipeline.operators:
            total.update(operator.counters, keys=operator.keys)
        return dict(total)

    def close(self) -> None:
        self.pipeline.close()

    def _table(self, name: str | None) -> str:
        names = list(self.plan.scans)
        if name is None and len(names) == 1:
            return names[0]
        if name is None or name not in names:
            hint = "name it" if name is None else nearest(name, names)
            raise UnknownTableError(
                f"process: the query reads the tables {', '.join(names)}; {hint}"
            )
        return name

    def _run(self, tables: dict[str, Rows]) -> None:
        changes = _changes(self.pipeline.process(tables, self._clock_ms))
        self._new += changes
        self._all += changes

    def _folded(self) -> list[tuple[Any, ...]]:
        if self.plan.options.update_before:
            return fold(self._all)
        key = self.plan.key
        if key is None:
            raise AggloomError(
                "without update_before the table can only be told by its key, which the query drops; select the key"
            )
        names = self.plan.schema.names
        order = [names.index(name) for name in key]
        order += [place for place in range(len(names)) if place not in order]
        moved = [(kind, *(row[place] for place in order)) for kind, *row in self._all]
        back = [order.index(place) for place in range(len(names))]
        return [
            tuple(row[place] for place in back) for row in fold(moved, len(key), idempotent=True)
        ]


def _changes(rows: Rows) -> list[Change]:
    batch, kinds = rows
    names = [KIND_NAMES[k] for k in kinds]
    if not batch.num_columns:
        return [(name,) for name in names]
    return list(zip(names, *(column.to_pylist() for column in batch.columns), strict=True))
