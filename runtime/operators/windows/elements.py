"""The rows that windows with an evictor keep: numbered as they arrive, each once, however many windows share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen.windows import (
    CountEvictor,
    DeltaEvictor,
    Elements,
    Evictor,
    EvictorContext,
    TimeEvictor,
    Window,
)
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.operators.windows.general_registry import Pane
from aggloom.runtime.storage.arena import NumberArray
from aggloom.runtime.values import rows

_TIME = pa.field("", pa.int64())
_ROOMY = 1024


class ElementStore:
    """Rows and their times. codes: whether equal rows have one code, by which a retraction finds its row."""

    def __init__(self, schema: pa.Schema, *, codes: bool) -> None:
        self._schema = pa.schema([*schema, _TIME])
        self._coded = codes
        self._fill([])

    def __len__(self) -> int:
        return self._count

    def add(self, batch: pa.RecordBatch, times: NumberArray) -> int:
        """Keep rows and their times; the number of the first."""
        first = self._count
        columns = [batch.column(f.name).cast(f.type) for f in list(self._schema)[:-1]]
        self._append(pa.RecordBatch.from_arrays([*columns, pa.array(times)], schema=self._schema))
        return first

    def take(self, numbers: NumberArray) -> pa.RecordBatch:
        """The rows of these numbers with their times as the last column."""
        rows = pa.Table.from_batches(self._chunks, self._schema).take(pa.array(numbers))
        batches = rows.combine_chunks().to_batches()
        return batches[0] if batches else empty(self._schema)

    def elements(self, numbers: list[int]) -> Elements:
        """The rows of these numbers as users see them."""
        batch = self.take(np.array(numbers, np.int64))
        rows = batch.select(list(range(batch.num_columns - 1)))
        return Elements(rows, batch.columns[-1].to_numpy())

    def find(self, numbers: list[int], row: int) -> int | None:
        """The place in `numbers` of the first row that equals another one, time included."""
        code = self._codes[row]
        codes = self._codes
        return next((at for at, number in enumerate(numbers) if codes[number] == code), None)

    def tidy(self, panes: Iterable[Pane], *, wholly: bool = False) -> None:
        """Forget rows that no pane has, once they are many or `wholly`; panes get the new numbers."""
        # Copying pays once half of the rows are of no window.
        if not wholly and self._count <= 2 * self._tidy_count + _ROOMY:
            return
        listed = [pane for pane in panes if pane.rows]
        numbers = sorted({number for pane in listed for number in pane.rows})
        places = {number: place for place, number in enumerate(numbers)}
        for pane in listed:
            pane.rows = [places[number] for number in pane.rows]
        self._fill([self.take(np.array(numbers, np.int64))] if numbers else [])

    def dump(self) -> bytes:
        """All rows as an Arrow stream."""
        return to_bytes(pa.Table.from_batches(self._chunks, self._schema))

    def load(self, data: bytes) -> None:
        """Load what `dump` wrote, instead of all rows; raises ValueError or ArrowException."""
        self._fill(from_bytes(data, self._schema).to_batches())

    def _fill(self, chunks: list[pa.RecordBatch]) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._codes: list[bytes] = []
        self._count = 0
        for chunk in chunks:
            self._append(chunk)
        self._tidy_count = self._count

    def _append(self, chunk: pa.RecordBatch) -> None:
        if self._coded and chunk.num_rows:
            self._codes += rows.encode(chunk.columns, [rows.PLAIN] * chunk.num_columns).to_pylist()
        self._count += chunk.num_rows
        self._chunks.append(chunk)
        # Chunks at least double from the last to the first: there are few, and no row is copied often.
        while len(self._chunks) > 1 and self._chunks[-2].num_rows <= 2 * self._chunks[-1].num_rows:
            self._chunks[-2:] = [_concat_batches(self._chunks[-2:])]


class Eviction:
    """Asks an evictor which rows of a window stay.

    counters: of the operator; `evicted` counts the rows that did not stay, once for each window that dropped them.
    """

    def __init__(self, evictor: Evictor, store: ElementStore, counters: dict[str, int]) -> None:
        self._evictor, self._store, self._counters = evictor, store, counters
        self._idle: tuple[str, ...] = ()
        if isinstance(evictor, CountEvictor | TimeEvictor | DeltaEvictor):
            self._idle = ("evict_before" if evictor.after else "evict_after",)
        elif type(evictor) is Evictor:
            self._idle = ("evict_before", "evict_after")
        self._counts = isinstance(evictor, CountEvictor)
        self._nothing = store.take(np.zeros(0, np.int64))

    def before(self, numbers: list[int], window: Window, ctx: EvictorContext) -> list[int]:
        """The rows that are added up."""
        return self._filter_numbers("evict_before", numbers, window, ctx)

    def after(self, numbers: list[int], window: Window, ctx: EvictorContext) -> list[int]:
        """Return the rows that stay of those that were added up."""
        return self._filter_numbers("evict_after", numbers, window, ctx)

    def _filter_numbers(
        self, method: str, numbers: list[int], window: Window, ctx: EvictorContext
    ) -> list[int]:
        if method in self._idle:
            return numbers
        elements = self._elements(numbers)
        try:
            answer = getattr(self._evictor, method)(elements, window, ctx)
        except AggloomError:
            raise
        except Exception as error:
            raise DataError(
                f"evictor {self._evictor.text} failed in {method}: {type(error).__name__}: {error}"
            ) from error
        mask = np.asarray(answer)
        if mask.dtype != np.bool_ or mask.shape != (len(numbers),):
            raise DataError(
                f"evictor {self._evictor.text}: {method} must return a boolean for each of {len(numbers)} "
                f"rows, not {mask.dtype} of shape {mask.shape}"
            )
        if mask.all():
            return numbers
        left = [numbers[at] for at in np.flatnonzero(mask).tolist()]
        self._counters["evicted"] += len(numbers) - len(left)
        return left

    def _elements(self, numbers: list[int]) -> Elements:
        if self._counts:
            # It counts and looks at no row.
            return Elements(self._nothing, np.zeros(len(numbers), np.int64))
        return self._store.elements(numbers)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: bytes, schema: pa.Schema) -> Any:
    """The table of an Arrow stream with these columns; raises ValueError or ArrowException unless it is one."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    if table.schema.types != schema.types or table.schema.names != schema.names:
        raise ValueError(f"columns {table.schema.names} instead of {schema.names}")
    # What lies in a stream need not be an array: offsets may lead out of it.
    table.validate(full=True)
    return table


def _concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole[0] if whole else batches[0]
