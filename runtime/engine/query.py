"""A query on the local engine: a batch is planned, run, handed to the sink and committed, one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from aggloom.codegen import Backend, calculate, milliseconds
from aggloom.codegen.planner import ONE_ROW, Calc, Plan, Stateful, walk
from aggloom.errors import UnsupportedExpressionError
from aggloom.runtime.engine.bucket_threads import BucketThreads
from aggloom.runtime.engine.checkpoint import BatchPlan, LocalCheckpoint
from aggloom.runtime.engine.forgetter import Forgetter
from aggloom.runtime.engine.journal import BatchReport, Laps, LocalJournal
from aggloom.runtime.engine.node import DurableHost
from aggloom.runtime.engine.read_ahead import ReadAhead
from aggloom.runtime.engine.resume import note_query
from aggloom.runtime.engine.sinks import FunctionBatches, leaving_rows, open_sink
from aggloom.runtime.engine.sources import Source, close_sources, reading_ahead
from aggloom.runtime.engine.totals import QueryTotals
from aggloom.runtime.hosting.added_columns import AddedColumns
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.hosting.journal_files import JournalFiles
from aggloom.runtime.hosting.query_record import known_buckets
from aggloom.runtime.local.message_reader import Read
from aggloom.runtime.local.pipeline import Pipeline, one_row
from aggloom.runtime.local.watermarks import Watermarks
from aggloom.runtime.lookup.batch import batch_scope
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.counts import Counts
from aggloom.runtime.operators.fragment import FragmentSpec
from aggloom.runtime.operators.steps import Rows, concat_changes, no_rows, table_of_changes
from aggloom.runtime.operators.windows.assign import watermark_behind
from aggloom.runtime.values.clock import AFTER_ALL, Clock

_ROWS_AT_ONCE, _BYTES_AT_ONCE = 500_000, 256 << 20
"""Rows of a table are joined up to about so many, or so many bytes, before the operators run."""
BUCKETS = 4
"""State is cut into so many parts where nothing else is said."""

OpenSource = Callable[[Path, str, Any], Source]
"""Opens the source of a table over a checkpoint, from a position (None: from the start)."""


@dataclass(frozen=True)
class QuerySettings:
    """Settings of a query on the local engine.

    sink: as of `write_changes`. watermarks: by table the event-time column and how far rows may be out of order.
    key_columns: by which a sink distinguishes rows. buckets: the number of parts of the state. threads: those that
    run them; 0: one for each core. keep_open: whether windows stay open at the end of finite input. poll_seconds: how
    often sources are asked for what is new. text: of the query. forgets: whether it is opened to forget a subject.
    """

    sink: str | Mapping[str, Any] | FunctionBatches = "console"
    watermarks: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    key_columns: Sequence[str] | None = None
    backend: Backend = "numba"
    buckets: int = BUCKETS
    threads: int = 0
    keep_open: bool = False
    poll_seconds: float = 0.1
    text: str = ""
    forgets: bool = False


class LocalQuery:
    """A query over sources into a sink, with its checkpoint, which it has for itself until it is closed.

    added: the columns that it carries and the checkpoint does not know.
    Raises StateError and its kin for a checkpoint of another query, SpecError for a sink that cannot take the result,
    UnsupportedExpressionError for an expression that only Spark evaluates.
    """

    def __init__(
        self,
        plan: Plan,
        open_source: OpenSource,
        checkpoint: Path,
        settings: QuerySettings,
        added: AddedColumns | None = None,
    ) -> None:
        check_expressions(plan)
        self.plan, self.settings = plan, settings
        self.closed = 0
        """Windows and slices, each of one key, that the end of the input has closed."""
        self._stop = threading.Event()
        self._closing = ExitStack()
        try:
            self._open(checkpoint, open_source, added)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, root: Path, open_source: OpenSource, added: AddedColumns | None) -> None:
        plan, settings = self.plan, self.settings
        # The checkpoint is opened first, as its lock keeps all others away.
        opened = LocalCheckpoint(root, forgets=settings.forgets)
        self.checkpoint = self._closing.enter_context(opened)
        last = self.checkpoint.last
        packers = self._closing.enter_context(ThreadPoolExecutor(1, "aggloom-pack"))
        threads = self._closing.enter_context(BucketThreads(settings.threads))
        texts = handler_texts(settings.backend)
        calls = plan.options.added_calls
        self._host = DurableHost(self.checkpoint, texts, calls, packers, threads, added)
        handlers = cache(lambda spec: texts(spec).load())
        # The number of buckets is fixed for the life of a checkpoint, which may have begun on another engine.
        buckets = (known_buckets(root) if last else None) or settings.buckets
        self._pipeline = Pipeline(plan, handlers, buckets=buckets, host=self._host, workers=threads)
        self._closing.callback(self._pipeline.close)
        note_query(root, plan, self._host.factories, added)
        positions = last.positions if last else {}
        self._positions = dict(positions)
        self._sources = {
            name: open_source(root, name, positions.get(name))
            for name in plan.scans
            if name != ONE_ROW
        }
        self._closing.callback(close_sources, self._sources.values())
        self._times = {
            name: (column, milliseconds(f"watermark of {name}", delay))
            for name, (column, delay) in settings.watermarks.items()
            if name in plan.scans
        }
        began = time.time_ns() // 1_000_000
        idle, interval = plan.options.source_idle_timeout, plan.options.watermark_interval
        self._watermarks = Watermarks(self._sources, idle, began, interval)
        if last is not None:
            for name, ms in last.watermarks.items():
                self._watermarks.advance(name, ms)
            # Not by `advance`, which combines: the committed watermark may be ahead of every table's.
            self._watermarks.current = last.watermark
        names = added.names if added else frozenset()
        keys = settings.key_columns
        self._sink = open_sink(settings.sink, plan, root, self.checkpoint.id, keys, names)
        self._totals = QueryTotals(self._host)
        self.journal = LocalJournal(JournalFiles(root))
        self._fresh = last is None

    @property
    def counts(self) -> Counts:
        """The counts of the query since it was opened."""
        return self._totals.counts(self._watermarks.current)

    @property
    def fragments(self) -> list[FragmentSpec]:
        """The operators of each stateful node."""
        return [factory.fragment for factory in self._host.factories.values()]

    @property
    def has_ended(self) -> bool:
        """True if the end of the input is behind the checkpoint: rows that arrive now are late."""
        last = self.checkpoint.last
        return last is not None and last.watermark >= AFTER_ALL

    def run(self) -> None:
        """Run until the input ends, or `stop` is called; the batch that runs then is finished."""
        self.journal.begin(self.plan, self.settings.text, self._host)
        try:
            self._run_batches()
        except BaseException as failure:
            self.journal.end(failure)
            raise
        self.journal.end(None)

    def _run_batches(self) -> None:
        while not self._stop.is_set():
            if self.run_batch():
                continue
            if all(source.ends for source in self._sources.values()):
                self.close_windows()
                return
            self._stop.wait(self.settings.poll_seconds)

    def finish_planned(self) -> None:
        """Run the batch that was planned and not committed, if there is one."""
        if self.checkpoint.planned is not None:
            self.journal.begin(self.plan, self.settings.text, self._host)
            self.run_batch()
            self.journal.end(None)

    def stop(self) -> None:
        """Ask `run` to return after the batch that runs."""
        self._stop.set()

    def forget(self, forgetter: Forgetter) -> None:
        """Run a batch without input in which the operators lose a subject, and write the whole state anew."""
        self._host.forgetter = forgetter
        plan = self.checkpoint.planned
        if plan is None:
            now, number = time.time_ns() // 1_000_000, self.checkpoint.next_batch
            plan = BatchPlan(number, {}, now, self._watermarks.current)
            self.checkpoint.plan(plan)
        self._run_planned(plan, Laps())

    @property
    def stateful_nodes(self) -> dict[int, Sequence[Stateful]]:
        """The nodes of the plan whose operators share a stateful node, by its place."""
        return self._host.operators

    def operators_at(self, place: int) -> list[Operator]:
        """The operators of the first bucket of a stateful node."""
        return self._host.nodes[place].fragments[0].operators

    def close(self) -> None:
        """Let the state and the checkpoint go."""
        self._closing.close()

    def run_batch(self) -> bool:
        """Run a batch that was planned, or of what is new; False if there is nothing to do."""
        laps = Laps()
        plan = self.checkpoint.planned or self._plan_batch()
        if plan is None:
            return False
        laps.end("plan")
        self._run_planned(plan, laps)
        return True

    def _plan_batch(self) -> BatchPlan | None:
        """Plan the next batch durably; None if nothing is new, and nothing is due by the clock."""
        batch = self.checkpoint.next_batch
        ranges = {}
        for name, source in self._sources.items():
            planned = source.plan(batch, self._positions.get(name))
            if planned is not None:
                ranges[name] = planned
        now = time.time_ns() // 1_000_000
        clock = Clock(now, self._watermarks.processing_time(now))
        first = self._fresh and (self.plan.says_rows or self._emits_without_rows())
        if not (ranges or first or self._is_due(clock)):
            return None
        plan = BatchPlan(batch, ranges, now, clock.watermark)
        self.checkpoint.plan(plan)
        return plan

    def _emits_without_rows(self) -> bool:
        """Tell whether the first bundle brings a change even without rows."""
        return any(each.fragment.emits_without_rows for each in self._host.factories.values())

    def _is_due(self, clock: Clock) -> bool:
        return any(node.is_due(clock) for node in self._host.nodes.values())

    def close_windows(self) -> None:
        """Run the last batch of finite input, by which everything that waits for the watermark ends."""
        waits = self.plan.awaits_watermark and not self.settings.keep_open
        if not waits or self._fresh or self.has_ended or self._stop.is_set():
            return
        laps = Laps()
        self.closed = self.counts.windows
        now = time.time_ns() // 1_000_000
        plan = BatchPlan(self.checkpoint.next_batch, {}, now, AFTER_ALL)
        self.checkpoint.plan(plan)
        for name in self._sources:
            self._watermarks.advance(name, AFTER_ALL)
        self._watermarks.current = AFTER_ALL
        laps.end("plan")
        self._run_planned(plan, laps)

    def _run_planned(self, plan: BatchPlan, laps: Laps) -> None:
        """Run a batch; lookup tables read anew with every batch are read once in it."""
        with batch_scope((self.checkpoint.id, plan.batch)):
            self._run_and_commit(plan, laps)

    def _run_and_commit(self, plan: BatchPlan, laps: Laps) -> None:
        """Run a batch, hand its changes to the sink, and commit it."""
        clock = Clock(plan.now, plan.watermark)
        parts, watermarks = list[Rows](), dict[str, int]()
        before = {name: self._totals.table(name).rows for name in plan.ranges}
        for tables in self._read_tables(plan):
            laps.end("read")
            for name, rows in tables.items():
                self._note_watermark(watermarks, name, rows[0])
            if self._fresh and self.plan.says_rows:
                tables[ONE_ROW] = one_row()
            self._fresh = False
            parts += self._pipeline.process_parts(tables, clock)
            laps.end("operators")
        changes, kinds = table_of_changes(parts, self.plan.schema)
        laps.end("operators")
        forgetter = self._host.forgetter
        if forgetter is not None:
            forgetter.check(each for node in self._host.nodes.values() for each in node.fragments)
        # The sink before the commit: killed between the two, the batch runs again and the sink knows its number.
        self._sink.write(leaving_rows(changes), kinds, plan.batch)
        laps.end("sink")
        if forgetter is not None:
            forgetter.note_removed(forgetter, plan.batch)
        for name, planned in plan.ranges.items():
            self._positions[name] = self._sources[name].end(planned)
            self._watermarks.rows(name, plan.now)
        for name, ms in watermarks.items():
            self._watermarks.advance(name, ms)
        if plan.watermark >= AFTER_ALL:
            self._watermarks.current = AFTER_ALL
        self.checkpoint.commit(
            plan.batch,
            positions=self._positions,
            watermarks={name: self._watermarks.of(name) for name in self._sources},
            watermark=self._watermarks.current,
        )
        laps.end("commit")
        self._totals.add_batch(len(kinds))
        read = {name: self._totals.table(name).rows - rows for name, rows in before.items()}
        self._note_batch(plan, read, len(kinds), laps)

    def _note_batch(
        self, plan: BatchPlan, read: Mapping[str, int], changes: int, laps: Laps
    ) -> None:
        """Note a batch that is committed in the journal."""
        backlog = dict[str, int]()
        for source in self._sources.values():
            for unit, number in source.backlog.items():
                backlog[unit] = backlog.get(unit, 0) + number
        watermark, operators = self._watermarks.current, self._totals.operators()
        counts = self._totals.sum_counts(watermark, operators)
        self.journal.note(
            BatchReport(
                batch=plan.batch,
                at=plan.now,
                rows=read,
                changes=changes,
                seconds=laps.seconds,
                watermark=watermark,
                backlog=backlog,
                operators=operators,
                counts=counts,
                node_seconds=self._host.node_seconds,
            )
        )

    def _read_tables(self, plan: BatchPlan) -> Iterator[dict[str, Rows]]:
        """Yield the rows of a batch, of each table some at once; once at least, perhaps without any."""
        with ExitStack() as closing:
            readers = {}
            for name, planned in plan.ranges.items():
                reads = self._join_reads(name, self._sources[name].read(planned))
                ahead = reading_ahead(self._sources[name], planned)
                readers[name] = ReadAhead(reads, _goes_on, ahead)
                closing.callback(readers[name].close)
            once = False
            while True:
                tables: dict[str, Rows] = {}
                for name, reader in readers.items():
                    rows = next(reader, None)
                    if rows is not None:
                        tables[name] = rows
                if not tables and once:
                    return
                once = True
                yield tables

    def _join_reads(self, name: str, reads: Iterator[Read]) -> Iterator[Rows]:
        """Yield rows of a table as they are read, small parts joined; what is refused is counted."""
        totals = self._totals.table(name)
        parts, size, width = list[Rows](), 0, 0
        for batch, kinds, refused, notices in reads:
            totals.add(len(kinds), len(refused), notices)
            parts.append((batch, kinds))
            size += len(kinds)
            width += batch.nbytes
            if size >= _ROWS_AT_ONCE or width >= _BYTES_AT_ONCE:
                yield concat_changes(parts, batch.schema)
                parts, size, width = [], 0, 0
        if parts:
            yield concat_changes(parts, parts[0][0].schema)

    def _note_watermark(self, watermarks: dict[str, int], name: str, batch: pa.RecordBatch) -> None:
        """Note the watermark behind the rows of a table, if it follows them."""
        if name not in self._times or not batch.num_rows:
            return
        ms = watermark_behind(batch, *self._times[name])
        watermarks[name] = max(watermarks.get(name, ms), ms)


def check_expressions(plan: Plan) -> None:
    """Raise UnsupportedExpressionError for an expression that only Spark evaluates, before anything runs."""
    for node in walk(plan.root):
        if isinstance(node, Calc):
            rows = no_rows(node.input.schema)
            try:
                calculate(node.where, node.select, node.schema, *rows, is_shown=False, upsert=True)
            except UnsupportedExpressionError as error:
                what = str(error).rstrip(".")
                raise UnsupportedExpressionError(
                    f"{what}. The local engine has no Spark to ask: run the query with --engine spark."
                ) from None


def _goes_on(rows: Rows) -> bool:
    """Tell whether more rows may follow: these are as many as are joined, and not the rest."""
    return len(rows[1]) >= _ROWS_AT_ONCE or rows[0].nbytes >= _BYTES_AT_ONCE
