"""What every generated handler class inherits: the life cycle, and the bulk calls that operators make.

The generated class brings kernels and tables of names; a backend (compiled, plain) brings accumulators, the
binding of Arrow columns, and outputs. A single row is a batch of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, describe_call, parse_type, prepare, type_name
from aggloom.errors import AggloomError, DataError, NotMergeableError, TypeMismatchError
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.values import results, rows

CHUNK = 65536

# Accumulators reset themselves where no row is left. Where -1 +1 is a change of its own, or -1 comes before its +1,
# they are given more rows for a while than any bundle takes back.
AWAY_FROM_ZERO = 1 << 40


class Kernels(NamedTuple):
    """The generated types and functions that the base class calls."""

    inputs: Callable[..., Any]
    state: Callable[..., Any]
    outputs: Callable[..., Any]
    update: Callable[..., tuple[int, int]]
    fold: Callable[..., tuple[int, int]] | None
    values: Callable[..., int]
    merge: Callable[..., int]
    reset: Callable[..., None]


class Noted(NamedTuple):
    """Results of items before and after a bundle, the rows of both in one, and whether they were and are live."""

    before: Any
    after: Any
    both: Any
    was: Array
    now: Array


class HandlerBase:
    """The life cycle over accumulators of the class `accumulators_type`."""

    SPEC_JSON: ClassVar[str]
    BACKEND: ClassVar[str]
    RETRACTING: ClassVar[bool]
    INPUTS: ClassVar[tuple[tuple[str, Any, str], ...]]
    FIELDS: ClassVar[tuple[tuple[Any, ...], ...]]
    VIEWS: ClassVar[tuple[tuple[str, str, bool, int], ...]]
    OUTPUTS: ClassVar[tuple[tuple[str, str, int, str], ...]]
    RESULTS: ClassVar[dict[str, tuple[str, Any, Any]]]
    KERNELS: ClassVar[Kernels]
    FUNCTIONS: ClassVar[tuple[str, ...]] = ()
    UNMERGEABLE: ClassVar[tuple[str, ...]] = ()
    COMPACTS: ClassVar[bool] = True
    SOURCE_PATH: ClassVar[Path]
    DIGEST: ClassVar[str]
    accumulators_type: ClassVar[type[Any]]

    def __init__(self) -> None:
        self.accumulators: Any = None
        self._slots: Array = np.zeros(0, np.int64)

    @classmethod
    @functools.cache
    def spec(cls) -> AggSpec:
        """The spec that the handler was generated from; its module runs here, so its functions may."""
        return AggSpec.from_json(cls.SPEC_JSON, trust=True)

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

    def apply(self, given: Any, retract: bool) -> None:
        if retract and not self.RETRACTING:
            raise DataError(
                "retract: the handler was generated for an append-only input; generate it with input_changes='retract'"
            )
        batch = self.batch_of(given)
        slots = self._row_slots(batch.num_rows)
        retracts = np.full(batch.num_rows, retract, np.bool_)
        self.update(self.bind(batch), slots, retracts, keep_orphans=True)
        if self.RETRACTING:
            touched = np.unique(slots)
            empty = touched[self.accumulators.records[touched] == 0]
            self.KERNELS.reset(self.accumulators.state, empty)

    def merge_with(self, other: Any) -> None:
        if self.UNMERGEABLE:
            names = ", ".join(self.UNMERGEABLE)
            raise NotMergeableError(
                f"merge: {names} has no merge; give its class `def merge(state, other)`"
            )
        accumulators = self._current()
        self.merge_slots(accumulators, self._row_slots(other.slots), other)
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
        return self._run(self.KERNELS.update, inputs, retracts, keep_orphans, slots)

    def fold(
        self, inputs: Any, slots: Array, retracts: Array, items: Array, *, keep_orphans: bool
    ) -> tuple[int, Noted]:
        """As update, with the results before and after each item: neighbouring rows of a slot, numbered from 0."""
        if self.KERNELS.fold is None:
            return self._fold_rows(inputs, slots, retracts, keep_orphans)
        n = int(items[-1]) + 1 if len(items) else 0
        out, live = self.outputs(2 * n), np.zeros(2 * n, np.bool_)
        dropped = self._run(
            self.KERNELS.fold, inputs, retracts, keep_orphans, slots, items, out, live
        )
        return dropped, Noted(*self.halves(out, n), out, live[:n], live[n:])

    def noted(self, before: Any, after: Any, was: Array, now: Array) -> Noted:
        """Results that were read apart."""
        return Noted(before, after, self.concatenate(before, after), was, now)

    def no_results(self) -> Noted:
        """The results of no items."""
        none = self.outputs(0)
        return self.noted(none, none, np.zeros(0, np.bool_), np.zeros(0, np.bool_))

    def _fold_rows(
        self, inputs: Any, slots: Array, retracts: Array, keep_orphans: bool
    ) -> tuple[int, Noted]:
        """As fold, where each row is an item: lists of unknown length are written by no kernel that changes state."""
        n, dropped = len(slots), 0
        was, now = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        before, after = [self.outputs(0)], [self.outputs(0)]
        for i in range(n):
            one = slice(i, i + 1)
            was[i] = self.accumulators.records[slots[i]] > 0
            before.append(self.values(slots[one]))
            picked = self.pick(inputs, np.array([i]))
            dropped += self.update(picked, slots[one], retracts[one], keep_orphans=keep_orphans)
            now[i] = self.accumulators.records[slots[i]] > 0
            after.append(self.values(slots[one]))
        return dropped, self.noted(self._joined(before), self._joined(after), was, now)

    def _joined(self, outs: list[Any]) -> Any:
        """The rows of several outputs, in order; in pairs, so that none is copied more than log(n) times."""
        while len(outs) > 1:
            halves = zip(outs[::2], outs[1::2], strict=False)
            outs = [self.concatenate(a, b) for a, b in halves] + outs[len(outs) // 2 * 2 :]
        return outs[0]

    def _run(
        self,
        step: Callable[..., tuple[int, int]],
        inputs: Any,
        retracts: Array,
        keep_orphans: bool,
        slots: Array,
        *noted: Any,
    ) -> int:
        """Call a kernel until all rows are through, with room made before each call."""
        start = dropped = 0
        while start < len(slots):
            stop = start + self._current().reserve(min(CHUNK, len(slots) - start))
            state = self.accumulators.state
            with self._users_errors():
                start, lost = step(
                    state, inputs, retracts, keep_orphans, slots, start, stop, *noted
                )
            dropped += lost
        return dropped

    def merge_slots(self, into: Any, slots: Array, other: Any, others: Array | None = None) -> None:
        """Merge other accumulators, slot by slot or those at the slots `others`, into the given slots."""
        if others is None:
            others = np.arange(len(slots), dtype=np.int64)
        row = 0
        while row < len(slots):
            into.reserve_merge(other)
            with self._users_errors():
                row = self.KERNELS.merge(into.state, slots, other.state, others, row)

    def values(self, slots: Array) -> Any:
        """The results at the given slots."""
        out = self.outputs(len(slots))
        row = 0
        state, n = self._current().state, len(slots)
        while row < n:
            with self._users_errors():
                row = self.KERNELS.values(state, slots, out, row, n)
            out = self.grown(out, row) if row < n else out
        return out

    @contextlib.contextmanager
    def _users_errors(self) -> Iterator[None]:
        """What a user's function raises, as a DataError that names it."""
        try:
            yield
        except AggloomError:
            raise
        except Exception as error:
            if not self.FUNCTIONS:
                raise
            names = ", ".join(self.FUNCTIONS)
            raise DataError(f"{names} failed: {type(error).__name__}: {error}") from error

    def overflow(self, out: Any) -> tuple[int, int] | None:
        """(call, slot) of an overflow in the outputs, if there was one and the dialect makes it an error."""
        wraps = self.spec().dialect != "spark"
        single = np.array([check in ("single", "own") for *_, check in self.OUTPUTS])
        hits = np.flatnonzero(np.asarray(out.overflow)[: len(single)] * (single if wraps else 1))
        return (int(hits[0]), int(out.overflow[hits[0]]) - 1) if len(hits) else None

    def refuse_overflow(self, out: Any, place: Callable[[int], str]) -> None:
        """Raise ArithmeticOverflowError naming the call, and the key by `place(slot)`."""
        from aggloom.errors import ArithmeticOverflowError, CardinalityError

        found = self.overflow(out)
        if found is not None:
            spec = self.spec()
            dtype = spec.aggregate_schema.types[len(spec.group_by) + found[0]]
            if self.OUTPUTS[found[0]][3] == "single":
                raise CardinalityError(
                    f"{describe_call(spec.calls[found[0]])}: there is more than one row "
                    f"({place(found[1])}); take FIRST_VALUE or MAX, or filter the input"
                )
            if self.OUTPUTS[found[0]][3] == "own":
                raise ArithmeticOverflowError(
                    f"{describe_call(spec.calls[found[0]])}: the value does not fit {type_name(dtype)} "
                    f"({place(found[1])}); declare the function with a wider result"
                )
            raise ArithmeticOverflowError(
                f"{describe_call(spec.calls[found[0]])}: the result does not fit {type_name(dtype)} "
                f"({place(found[1])}); cast the argument to a wider type, or use dialect 'flink' to wrap"
            )

    def batch_of(self, given: Any) -> pa.RecordBatch:
        """A tuple, a list of tuples (in the schema's order) or a record batch, as the handler's columns."""
        spec = self.spec()
        if isinstance(given, pa.RecordBatch):
            batch = given
        else:
            listed = [given] if isinstance(given, tuple) else list(given)
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
            if form == "row":
                listed = [_typed(batch, column, schema) for column, _ in name]
                encoded = rows.encode(listed, [rows.Part(*part) for _, part in name])
                self.bind_column(encoded, name, "word", bound)
                bound[name, "row"] = bound[name, "word"]
            else:
                self.bind_column(_typed(batch, name, schema), name, form, bound)
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

    def halves(self, out: Any, n: int) -> tuple[Any, Any]:
        """The first n rows of outputs, and the others."""
        raise AggloomError("a backend splits outputs")

    def concatenate(self, before: Any, after: Any) -> Any:
        """The rows of two outputs, one after the other."""
        raise AggloomError("a backend joins outputs")

    def grown(self, out: Any, row: int) -> Any:
        """The outputs with more room in their lists, to go on at a row."""
        raise AggloomError("a backend makes outputs")

    def to_arrow(
        self, out: Any, fields: list[pa.Field], take: Array | None = None
    ) -> list[pa.Array]:
        """Outputs (or their rows `take`) as Arrow columns."""
        return [
            self._column(out[1 + 2 * k], out[2 + 2 * k], self.OUTPUTS[k], field.type, take)
            for k, field in enumerate(fields)
        ]

    def _column(
        self, data: Any, valid: Any, output: Any, dtype: pa.DataType, take: Array | None
    ) -> pa.Array:
        attr, form, width, _ = output
        returns, options, element = self.RESULTS.get(attr, ("", (), None))
        if form == "list":
            rows_taken = np.arange(len(valid)) if take is None else take
            words, counts, offsets = self.lists(data, rows_taken)
            shown = np.asarray(valid)[rows_taken].astype(np.bool_)
            elements = self._elements(words, np.ones(len(counts), np.bool_), element)
            return results.finish(
                returns,
                elements,
                np.asarray(counts, np.int64),
                np.asarray(offsets, np.int64),
                shown,
                dtype,
                dict(options),
            )
        data, valid = self.taken(data, valid, take)
        if returns == "part":
            return self._elements(data, valid, element)
        if form in ("words", "floats"):
            return self._arrays(data, valid, form, dtype, width)
        return self.scalars(data, valid, form, dtype)

    def _arrays(
        self, data: Any, valid: Array, form: str, dtype: pa.DataType, width: int
    ) -> pa.Array:
        """Rows of as many values each as an ARRAY."""
        n = len(valid)
        flat = (
            data.reshape(-1) if isinstance(data, np.ndarray) else [v for row in data for v in row]
        )
        inner = self.scalars(flat, np.repeat(valid, width), form, dtype.value_type)
        offsets = pa.array(np.arange(n + 1) * width, pa.int32())
        mask = pa.array(~np.asarray(valid, np.bool_))
        return pa.ListArray.from_arrays(offsets, inner, type=dtype, mask=mask)

    def _elements(self, words: Any, valid: Array, element: Any) -> pa.Array:
        """Words as the values that they stand for: a part of a row, or several as a STRUCT."""
        names, parts, take = element
        types = [parse_type(name) for name in names]
        if parts is None:
            return self.scalars(words, valid, "word", types[0])
        shown = np.asarray(valid, np.bool_)
        encoded = self.scalars(words, valid, "word", pa.binary()).filter(pa.array(shown))
        columns = [rows.decode(encoded, types, [rows.Part(*p) for p in parts], t) for t in take]
        whole = (
            columns[0]
            if len(take) == 1
            else pa.StructArray.from_arrays(columns, names=["key", "value"])
        )
        places = pa.array(np.cumsum(shown) - 1, mask=~shown)
        return whole.take(places)

    def scalars(self, data: Any, valid: Any, form: str, dtype: pa.DataType) -> pa.Array:
        """Results or elements in one form as a column."""
        raise AggloomError("a backend converts outputs")

    def taken(self, data: Any, valid: Any, take: Array | None) -> tuple[Any, Any]:
        """The rows `take` of a result and its validity."""
        raise AggloomError("a backend converts outputs")

    def lists(self, data: Any, take: Array) -> tuple[Any, Any, Any]:
        """(words, counts, offsets) of the lists at the rows `take`."""
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


def _typed(batch: pa.RecordBatch, name: str, schema: pa.Schema) -> pa.Array:
    """A column in the type that the spec says it has."""
    column, wanted = batch.column(name), schema.field(name).type
    return column if column.type == wanted else column.cast(wanted)


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
