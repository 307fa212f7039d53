"""The harness: the operator without Spark, fed by Python rows, for tests, notebooks and debugging."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, finish, generate, load, prepare
from aggloom.errors import UnsupportedExpressionError
from aggloom.runtime.arena import Array
from aggloom.runtime.changelog import KIND_NAMES, fold, parse_kinds, sort_key
from aggloom.runtime.group_agg import GroupAggOperator, Mode, OrphanPolicy
from aggloom.runtime.handler import rows_to_batch

Change = tuple[Any, ...]


class Harness:
    """Feeds an operator and collects its changes.

    spec: an AggSpec, a loaded handler class or a generated module's path. In mode mini_batch rows are buffered
    until `flush`, or until `bundle_size` of them are there; in mode per_record each row acts at once.
    session: a Spark session, asked only for expressions that pyarrow cannot evaluate as Spark does.
    """

    def __init__(
        self,
        spec: AggSpec | type[Any] | str | Path,
        *,
        mode: Mode = "mini_batch",
        backend: Literal["numba", "python"] = "numba",
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
        self.operator = GroupAggOperator(
            handler,
            mode=mode,
            update_before=update_before,
            on_orphan_retraction=on_orphan_retraction,
            state_ttl_ms=state_ttl_ms,
        )
        self.bundle_size, self.session = bundle_size, session
        self._clock_ms = 0
        self._buffer: list[tuple[pa.RecordBatch, Array]] = []
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

    def process(self, rows: list[Change] | pa.RecordBatch, kinds: Array | None = None) -> None:
        """Take rows as (kind, value, ...) tuples in the schema's order, or a record batch with its kinds."""
        if isinstance(rows, pa.RecordBatch):
            batch = rows
            codes = np.zeros(len(rows), np.int8) if kinds is None else np.asarray(kinds, np.int8)
        else:
            codes = parse_kinds(pa.array([row[0] for row in rows], pa.string()), "harness rows")
            batch = rows_to_batch([tuple(row[1:]) for row in rows], self.spec.schema)
        if self.operator.mode == "per_record":
            self._run(batch, codes)
            return
        start = 0
        while start < len(batch):
            room = len(batch) - start
            if self.bundle_size is not None:
                room = min(room, self.bundle_size - self._buffered)
            self._buffer.append((batch.slice(start, room), codes[start : start + room]))
            self._buffered += room
            start += room
            if self.bundle_size is not None and self._buffered >= self.bundle_size:
                self.flush()

    def flush(self) -> None:
        """End the bundle."""
        if not self._buffer:
            return
        batches = [b for b, _ in self._buffer]
        codes = np.concatenate([k for _, k in self._buffer])
        self._buffer, self._buffered = [], 0
        self._run(pa.concat_batches(batches), codes)

    def changes(self) -> list[Change]:
        """The changes since the last call, as (kind, value, ...) tuples."""
        new, self._new = self._new, []
        return new

    def table(self) -> list[tuple[Any, ...]]:
        """The table that all changes so far fold to, sorted by its columns, nulls first and NaN last."""
        width = None if self.operator.update_before else len(self.spec.group_by)
        return sorted(fold(self._all, width), key=lambda row: [sort_key(v) for v in row])

    def snapshot(self) -> bytes:
        """The operator's state; the buffered rows are flushed first."""
        self.flush()
        return self.operator.snapshot()

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot: the table is the one that it held, and no change tells of the step."""
        self._buffer, self._buffered = [], 0
        self.operator.restore(data)
        self._new, self._all = [], self._rows(*self.operator.contents())

    def set_ttl_time(self, ms: int) -> None:
        """Set the clock of the state TTL."""
        self._clock_ms = ms

    @property
    def counters(self) -> dict[str, int]:
        return dict(self.operator.counters, keys=self.operator.keys)

    def close(self) -> None:
        self.operator.close()

    def _run(self, batch: pa.RecordBatch, codes: Array) -> None:
        ready, codes = self._prepare(batch, codes)
        changes = self._rows(*self.operator.process(ready, codes, self._clock_ms))
        self._new += changes
        self._all += changes

    def _rows(self, batch: pa.RecordBatch, codes: Array) -> list[Change]:
        out, out_codes = self._finish(batch, codes)
        names = [KIND_NAMES[k] for k in out_codes]
        return list(zip(names, *(column.to_pylist() for column in out.columns), strict=True))

    def _prepare(self, batch: pa.RecordBatch, codes: Array) -> tuple[pa.RecordBatch, Array]:
        try:
            return prepare(self.spec, batch, codes)
        except UnsupportedExpressionError:
            if self.session is None:
                raise
        from aggloom.runtime.spark.expressions import prepare_with

        return prepare_with(self.session, self.spec, batch, codes)

    def _finish(self, batch: pa.RecordBatch, codes: Array) -> tuple[pa.RecordBatch, Array]:
        try:
            return finish(self.spec, batch, codes)
        except UnsupportedExpressionError:
            if self.session is None:
                raise
        from aggloom.runtime.spark.expressions import finish_with

        return finish_with(self.session, self.spec, batch, codes)
