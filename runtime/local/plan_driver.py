"""A plan fed by hand: rows, watermarks and clocks in, changes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from aggloom.codegen import milliseconds, type_name
from aggloom.codegen.planner import ONE_ROW, Plan, Stateful, walk
from aggloom.display import html_block, html_fold, html_line
from aggloom.errors import AggloomError, DataError, SpecError, UnknownTableError, nearest
from aggloom.runtime.formats.base import Message
from aggloom.runtime.local.dropped_rows import DroppedWatch
from aggloom.runtime.local.file_reader import read_files
from aggloom.runtime.local.harness_rows import change_tuples, scanned_rows
from aggloom.runtime.local.mini_batch import MiniBatch
from aggloom.runtime.local.pipeline import Handlers, Pipeline, one_row
from aggloom.runtime.local.table import RowTable, changes_schema
from aggloom.runtime.local.timeline import Timeline, timeline
from aggloom.runtime.local.watermarks import Watermarks, check_watermarks
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.counts import Counts, counts_of, time_of
from aggloom.runtime.operators.registry import operator_of
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.operators.windows.assign import watermark_behind
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import ChangelogLawError, fold, sort_key
from aggloom.runtime.values.clock import AFTER_ALL, Clock

if TYPE_CHECKING:
    import pandas as pd

Change = tuple[Any, ...]


class FedPlan:
    """A plan's operators, fed with rows and times, and the changes of its result.

    handler_of: gives the handler class of a spec. watermarks: by table the column and how far out of order its rows
    may be. options: those of the Pipeline.
    """

    def __init__(
        self,
        plan: Plan,
        handler_of: Handlers,
        watermarks: Mapping[str, tuple[str, Any]] | None,
        **options: Any,
    ) -> None:
        self.plan = plan
        self._parts = handler_of, options
        self.pipeline = Pipeline(plan, handler_of, **options)
        chosen = plan.options
        size = chosen.mini_batch_size if chosen.mini_batch_size > 0 else None
        self._mini_batch = MiniBatch(size, chosen.mini_batch_allow_latency)
        self._clock = Clock()
        self._unread: dict[str, str] = {}
        self._watermark_columns = {
            self._table(name): (column, milliseconds(f"watermark of {name}", delay))
            for name, (column, delay) in check_watermarks(watermarks).items()
        }
        idle, interval = chosen.source_idle_timeout, chosen.watermark_interval
        self._watermarks = Watermarks(plan.scans, idle, interval=interval)
        self._has_windows = any(
            each.awaits_watermark or (isinstance(each, Stateful) and bool(each.wakes_by(0)))
            for each in walk(plan.root)
        )
        self.history: list[tuple[str, Any]] = []
        self._buffer: list[tuple[str, Rows]] = []
        self._buffered = self._bundles = 0
        self._needs_first_bundle = self._emits_without_rows = any(
            isinstance(each, Stateful) and operator_of(each, plan.options).emits_without_rows
            for each in walk(plan.root)
        )
        self._says_rows = plan.says_rows
        self._needs_first_bundle = self._needs_first_bundle or self._says_rows
        self.unreadable: list[tuple[Message, str]] = []
        self.notices = 0
        self._new: list[Change] = []
        self._all: list[Change] = []
        self._is_restored = False
        self._dropped = DroppedWatch(self.pipeline, self.unreadable)

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {type_name(f.type)}" for f in self.plan.schema)
        waiting = f"; {self._buffered:,} buffered rows" if self._buffered else ""
        return f"{type(self).__name__}({columns}; {self.counts}{waiting})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.pipeline.close()

    @property
    def operator(self) -> Operator:
        """The operator of a query with one aggregate."""
        (operator,) = self.pipeline.operators
        return operator

    def process(
        self,
        rows: Any,
        kinds: Any = None,
        table: str | None = None,
    ) -> None:
        """Take rows as (kind, value, ...) tuples in the table's order, as dicts, or as a table of Arrow or pandas.

        rows: columns of dicts and tables go by name, as `_change_type` or `op` does, which says the kinds unless they
        are given. Decimals may be texts. kinds: 0 to 3, or words; without any each row is an insertion. table: which
        of the query's tables they are of, if it has several. Raises DataError for what is no such row.
        """
        name = self._table(table)
        batch, codes = scanned_rows(rows, kinds, self.plan.scans[name])
        with self._dropped.warn_after():
            self._watermarks.rows(name, self._clock.processing)
            self.history.append(("rows", (name, batch, codes)))
            self._buffer_rows(name, batch, codes)
            self._advance_watermark(name, batch)

    def read(
        self,
        path: str | Path,
        format: str,
        table: str | None = None,
        format_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> int:
        """Take the changes of files in a format that streams read, too; how many there are.

        path: a directory, a pattern or one file. format: see docs/formats.md. table: which of the query's tables.
        options: those of the format; unreadable="drop" passes over messages that cannot be read, which `unreadable`
        lists. format_options: options by name, also one that is called as an argument, such as the pattern `table` of
        names of captured tables. Raises SpecError and its kin, InputFormatError for a bad message.
        """
        name = self._table(table)
        for option in options.keys() & (format_options or {}).keys():
            raise SpecError(f"read: {option!r} is there twice; leave it out of format_options.")
        options = {**options, **(format_options or {})}
        total = 0
        scan = self.plan.scans[name]
        with self._dropped.warn_after():
            for batch, codes, refused, notices in read_files(path, format, scan, options):
                self.unreadable += refused
                self.notices += notices
                self.process(batch, codes, name)
                total += len(codes)
        return total

    def _buffer_rows(self, name: str, batch: pa.RecordBatch, codes: Array) -> None:
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
        """End the bundle; the first runs without rows too, where a global aggregate has its row over nothing."""
        if not self._needs_first_bundle and not self._buffer:
            return
        buffer, self._buffer, self._buffered = self._buffer, [], 0
        tables: dict[str, Rows] = {}
        for name in dict.fromkeys(name for name, _ in buffer):
            parts = [rows for own, rows in buffer if own == name]
            batch = pa.concat_batches([batch for batch, _ in parts])
            tables[name] = batch, np.concatenate([kinds for _, kinds in parts])
        with self._dropped.warn_after():
            self._run(tables)

    def watermark(self, ms: int, table: str | None = None) -> None:
        """Say that no row is expected any more up to a time; windows that are over fire.

        ms: milliseconds since 1970. table: which of the query's tables; None: all. It ends the bundle, with
        table.exec.mini-batch.allow-latency only once an interval unless there are windows.
        """
        names = list(self.plan.scans) if table is None else [self._table(table)]
        with self._dropped.warn_after():
            for name in names:
                self._watermarks.advance(name, ms)
            if self._mini_batch.watermark(ms) or self._has_windows:
                self.flush()
            self._move_clocks(self._clock.processing)

    def idle(self, table: str) -> None:
        """Let a table no longer hold back the watermark, until it has rows.

        table: its name.
        """
        with self._dropped.warn_after():
            self.flush()
            self._watermarks.idle(self._table(table))
            self._move_clocks(self._clock.processing)

    def processing_time(self, ms: int) -> None:
        """Set the clock; windows in processing time, and early and late results, fire by it.

        ms: milliseconds since 1970. With table.exec.mini-batch.allow-latency its intervals end bundles, as it does
        wherever there are windows.
        """
        with self._dropped.warn_after():
            if self._mini_batch.processing_time(ms) or self._has_windows:
                self.flush()
            self._watermarks.processing_time(ms)
            self._move_clocks(ms)

    def end_of_input(self) -> None:
        """Say that no row comes any more: every window in event time fires."""
        with self._dropped.warn_after(ended=True):
            self.flush()
            self.watermark(AFTER_ALL)

    def late(self) -> list[Change]:
        """The rows that arrived too late for their windows since the last call, if the windowing says late_rows."""
        return [change for rows in self.pipeline.take_late() for change in change_tuples(rows)]

    def changes(self) -> RowTable:
        """The changes since the last call, as (kind, value, ...) tuples."""
        new, self._new = self._new, []
        return RowTable(new, changes_schema(self.plan.schema))

    def timeline(self, **options: Any) -> Timeline:
        """A picture of what the query's windows did so far, for notebooks and files.

        options: see `timeline`. The buffered rows are flushed first. Raises AggloomError unless the plan has one
        window aggregate.
        """
        self.flush()
        handler_of, parts = self._parts
        return timeline(self.plan, handler_of, self.history, parts, **options)

    def table(self) -> RowTable:
        """The table that all changes so far fold to, sorted by its columns, nulls first and NaN last."""
        try:
            live_rows = self._fold_changes()
        except ChangelogLawError as error:
            if not self._is_restored:
                raise
            why = "The harness was restored, and rows that reach the result without state are in no snapshot"
            raise DataError(f"table: {error}. {why}; follow changes() instead.") from None
        rows = sorted(live_rows, key=lambda row: [sort_key(v) for v in row])
        return RowTable(rows, self.plan.schema)

    def to_arrow(self) -> pa.Table:
        """`table` as a table of Arrow."""
        return self.table().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """`table` as a DataFrame of pandas; a NULL is `pd.NA` in numbers, and None elsewhere."""
        return self.table().to_pandas()

    def _repr_html_(self) -> str:
        plan: str = self.plan._repr_html_()
        try:
            table_html = self.table()._repr_html_()
        except AggloomError as error:
            table_html = html_line(str(error))
        return html_block(html_line(str(self.counts)), table_html, html_fold("plan", plan))

    def snapshot(self) -> bytes:
        """The operators' state; the buffered rows are flushed first."""
        self.flush()
        return self.pipeline.snapshot()

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot: the table is the one that it had, and no change is emitted for the step.

        data: what `snapshot` gave. Rows that reach the result without an aggregate are in no state, so that the table
        does not have them.
        """
        self._buffer, self._buffered = [], 0
        self._needs_first_bundle, self._says_rows = self._emits_without_rows, False
        self.pipeline.restore(data)
        self._is_restored = True
        self.history.append(("restore", data))
        self._new, self._all = [], change_tuples(self.pipeline.contents())

    def set_ttl_time(self, ms: int) -> None:
        """Set the clock of the state TTL; nothing ends or fires by it before the next bundle.

        ms: milliseconds since 1970.
        """
        self._clock = self._clock._replace(processing=ms)

    @property
    def current_watermark(self) -> int:
        """The watermark of all tables, in milliseconds; before the first one very small."""
        return self._watermarks.current

    @property
    def counters(self) -> dict[str, int]:
        """Counters of all operators, added up by name."""
        total: Counter[str] = Counter()
        for operator in self.pipeline.operators:
            total.update(operator.counters, keys=operator.keys)
        return dict(total)

    @property
    def counts(self) -> Counts:
        """Counts of the query since it was made, like `al.progress` of one on Spark; str is one line."""
        rows = sum(len(bundle[1]) for what, bundle in self.history if what == "rows")
        return counts_of(
            self.pipeline.operators,
            batches=self._bundles,
            rows=rows,
            changes=sum(len(bundle) for what, bundle in self.history if what == "changes"),
            refused=len(self.unreadable),
            notices=self.notices,
            watermark=time_of(self._watermarks.current),
        )

    def silence(self) -> None:
        """Have no warnings of dropped rows: the caller reports them itself, by `counts`."""
        self._dropped.silence()

    def close(self) -> None:
        """Close the operators; a warning names the rows that were dropped since the last one."""
        with self._dropped.warn_after(ended=True):
            self.pipeline.close()

    def _table(self, name: str | None) -> str:
        names = list(self.plan.scans)
        if name is None and len(names) == 1:
            return names[0]
        if name is None or name not in names:
            if name is None:
                raise UnknownTableError(
                    f"process: the query reads the tables {', '.join(names)}; say which by table="
                )
            why = self._unread.get(name) or nearest(name, names)
            raise UnknownTableError(f"process: the query reads no table {name!r}. {why}")
        return name

    def _run(self, tables: dict[str, Rows]) -> None:
        if self._says_rows:
            tables = {ONE_ROW: one_row(), **tables}
        self._needs_first_bundle = self._says_rows = False
        changes = change_tuples(self.pipeline.process(tables, self._clock))
        self._bundles += bool(tables)
        if self._has_windows:
            self.history.append(("bundle", (tables, self._clock)))
        self._new += changes
        self._all += changes
        if changes:
            self.history.append(("changes", changes))

    def _move_clocks(self, now: int) -> None:
        """Set the clocks, and let windows fire by them."""
        clock = Clock(now, self._watermarks.current)
        if clock == self._clock:
            return
        self._clock = clock
        self.history.append(("clock", clock))
        if self._has_windows:
            self._run({})

    def _advance_watermark(self, name: str, batch: pa.RecordBatch) -> None:
        """Advance the watermark of a table behind its rows, if the table has a watermark column."""
        if name not in self._watermark_columns or not batch.num_rows:
            return
        column, delay = self._watermark_columns[name]
        self.watermark(watermark_behind(batch, column, delay), name)

    def _fold_changes(self) -> list[tuple[Any, ...]]:
        if self.plan.has_old_rows:
            return fold(self._all)
        key = self.plan.key
        if key is None:
            raise AggloomError(
                "without update_before rows can only be found by the key, which the query drops; select the key"
            )
        names = self.plan.schema.names
        order = [names.index(name) for name in key]
        order += [place for place in range(len(names)) if place not in order]
        moved = [(kind, *(row[place] for place in order)) for kind, *row in self._all]
        back = [order.index(place) for place in range(len(names))]
        return [
            tuple(row[place] for place in back) for row in fold(moved, len(key), idempotent=True)
        ]
