"""What every generated handler class inherits: the life cycle, and the bulk calls that operators make.

The generated class brings kernels and tables of names; a backend (compiled, plain) brings accumulators, the
binding of Arrow columns, and outputs. A single row is a batch of one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, describe_call, prepare, type_name
from aggloom.errors import AggloomError, DataError, TypeMismatchError
from aggloom.runtime.arena import Arena, Array

CHUNK = 65536


class Kernels(NamedTuple):
    """The generated types and functions that the base class calls."""

    inputs: Callable[..., Any]
    state: Callable[..., Any]
    outputs: Callable[..., Any]
    update: Callable[..., int]
    trace: Callable[..., int]
    values: Callable[..., None]
    merge: Callable[..., None]
    reset: Callable[..., None]


class HandlerBase:
    """The life cycle over accumulators of the class `accumulators_type`."""

    SPEC_JSON: ClassVar[str]
    BACKEND: ClassVar[str]
    RETRACTING: ClassVar[bool]
    INPUTS: ClassVar[tuple[tuple[str, str, str], ...]]
    FIELDS: ClassVar[tuple[tuple[str, str, int, str, bool], ...]]
    VIEWS: ClassVar[tuple[tuple[str, str, bool, int], ...]]
    OUTPUTS: ClassVar[tuple[tuple[str, str], ...]]
    KERNELS: ClassVar[Kernels]
    SOURCE_PATH: ClassVar[Path]
    DIGEST: ClassVar[str]
    accumulators_type: ClassVar[type[Any]]

    def __init__(self) -> None:
        self.accumulators: Any = None
        self._slots: Array = np.zeros(0, np.int64)

    @classmethod
    @functools.cache
    def spec(cls) -> AggSpec:
        """The spec that the handler was generated from."""
        return AggSpec.from_json(cls.SPEC_JSON)

    # The life cycle, called by the generated methods.

    def create(self, n: int) -> Any:
        return self.accumulators_type(type(self), Arena(), n)

    def set(self, accumulators: Any, slots: Sequence[int] | Array | None) -> None:
        self.accumulators = accumulators
        self._slots = (
            np.arange(accumulators.slots, dtype=np.int64)
            if slots is None
            else np.asarray(slots, np.int64)
        )

    def apply(self, rows: Any, retract: bool) -> None:
        if retract and not self.RETRACTING:
            raise DataError(
                "retract: the handler was generated for an append-only input; generate it with input_changes='retract'"
            )
        batch = self.batch_of(rows)
        slots = self._row_slots(batch.num_rows)
        retracts = np.full(batch.num_rows, retract, np.bool_)
        self.update(self.bind(batch), slots, retracts, keep_orphans=True)

    def merge_with(self, other: Any) -> None:
        accumulators = self._current()
        accumulators.reserve_merge(other)
        self.KERNELS.merge(accumulators.state, self._row_slots(other.slots), other.state)
        accumulators.sweep()

    def reset(self) -> None:
        self.KERNELS.reset(self._current().state, self._slots)
        self.accumulators.sweep()

    def drop(self) -> None:
        self.accumulators = None

    def value(self) -> Any:
        out = self.values(self._slots)
        self.refuse_overflow(out, lambda slot: f"accumulator {slot}")
        fields = list(self.spec().aggregate_schema)[len(self.spec().group_by) :]
        columns = self.to_arrow(out, fields)
        if len(self._slots) == 1:
            return tuple(column[0].as_py() for column in columns)
        return pa.RecordBatch.from_arrays(columns, names=[f.name for f in fields])

    # The bulk calls of operators.

    def update(self, inputs: Any, slots: Array, retracts: Array, *, keep_orphans: bool) -> int:
        """Apply the bound rows; returns the number of orphan retractions dropped."""
        dropped = 0
        for start, stop in self._runs(len(slots)):
            dropped += self.KERNELS.update(
                self.accumulators.state, inputs, retracts, keep_orphans, slots, start, stop
            )
        return dropped

    def trace(
        self, inputs: Any, slots: Array, retracts: Array, *, keep_orphans: bool
    ) -> tuple[int, Any, Any, Array, Array]:
        """As update: (dropped, results before each row, after it, whether its key was live before, after)."""
        n = len(slots)
        noted = self.outputs(n), self.outputs(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        dropped = 0
        for start, stop in self._runs(n):
            dropped += self.KERNELS.trace(
                self.accumulators.state, inputs, retracts, keep_orphans, slots, start, stop, *noted
            )
        return dropped, *noted

    def _runs(self, rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows to work on at once, with room made for each."""
        start = 0
        while start < rows:
            stop = start + self._current().reserve(min(CHUNK, rows - start))
            yield start, stop
            start = stop

    def values(self, slots: Array) -> Any:
        """The results at the given slots."""
        out = self.outputs(len(slots))
        self.KERNELS.values(self._current().state, slots, out)
        return out

    def overflow(self, out: Any) -> tuple[int, int] | None:
        """(call, slot) of an overflow in the outputs, if there was one and the dialect makes it an error."""
        if self.spec().dialect != "spark":
            return None
        hits = np.flatnonzero(out.overflow)
        return (int(hits[0]), int(out.overflow[hits[0]]) - 1) if len(hits) else None

    def refuse_overflow(self, out: Any, place: Callable[[int], str]) -> None:
        """Raise ArithmeticOverflowError naming the call, and the key by `place(slot)`."""
        from aggloom.errors import ArithmeticOverflowError

        found = self.overflow(out)
        if found is not None:
            spec = self.spec()
            dtype = spec.aggregate_schema.types[len(spec.group_by) + found[0]]
            raise ArithmeticOverflowError(
                f"{describe_call(spec.calls[found[0]])}: the result does not fit {type_name(dtype)} "
                f"({place(found[1])}); cast the argument to a wider type, or use dialect 'flink' to wrap"
            )

    def batch_of(self, rows: Any) -> pa.RecordBatch:
        """A tuple, a list of tuples (in the schema's order) or a record batch, as the handler's columns."""
        spec = self.spec()
        if isinstance(rows, pa.RecordBatch):
            batch = rows
        else:
            listed = [rows] if isinstance(rows, tuple) else list(rows)
            batch = rows_to_batch(listed, spec.schema)
        names = spec.handler_schema.names
        if set(names) <= set(batch.schema.names):
            return batch.select(names)
        whole = dataclasses.replace(spec, where=None)
        return prepare(whole, batch, np.zeros(batch.num_rows, np.int8))[0]

    def bind(self, batch: pa.RecordBatch) -> Any:
        """The batch's columns as the kernels read them."""
        schema = self.spec().input_schema
        bound: dict[tuple[str, str], Any] = {}
        for _, name, form in self.INPUTS:
            if (name, form) in bound:
                continue
            column = batch.column(name)
            wanted = schema.field(name).type
            if column.type != wanted:
                column = column.cast(wanted)
            self.bind_column(column, name, form, bound)
        if not self.INPUTS:
            return self.KERNELS.inputs(np.zeros(batch.num_rows, np.int8))
        return self.KERNELS.inputs(*(bound[name, form] for _, name, form in self.INPUTS))

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        """Enter a column in one form (and validity beside it) into `bound`."""
        raise AggloomError("a backend binds columns")

    def pick(self, inputs: Any, rows: Array) -> Any:
        """The bound columns with these rows, in this order."""
        raise AggloomError("a backend picks rows")

    def outputs(self, n: int) -> Any:
        """Room for n rows of results."""
        raise AggloomError("a backend makes outputs")

    def to_arrow(
        self, out: Any, fields: list[pa.Field], take: Array | None = None
    ) -> list[pa.Array]:
        """Outputs (or their rows `take`) as Arrow columns."""
        raise AggloomError("a backend converts outputs")

    def _current(self) -> Any:
        if self.accumulators is None:
            raise AggloomError("no accumulators are set; call setAccumulators first")
        return self.accumulators

    def _row_slots(self, rows: int) -> Array:
        self._current()
        if len(self._slots) == 1:
            return np.repeat(self._slots, rows)
        if len(self._slots) != rows:
            raise AggloomError(
                f"{rows} rows for {len(self._slots)} slots; give setAccumulators one slot for each row"
            )
        return self._slots


def rows_to_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Python rows as a record batch.

    Raises TypeMismatchError naming the column (or the row, if its length is wrong).
    """
    for number, row in enumerate(rows):
        if len(row) != len(schema):
            raise TypeMismatchError(
                f"row {number} has {len(row)} values, the schema has {len(schema)}: {', '.join(schema.names)}"
            )
    columns = []
    for position, field in enumerate(schema):
        try:
            columns.append(pa.array([row[position] for row in rows], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise TypeMismatchError(f"column {field.name!r} is {type_name(field.type)}: {e}") from e
    return pa.RecordBatch.from_arrays(columns, schema=schema)
