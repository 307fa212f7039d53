"""Columns of a handler: Arrow batches bound as its kernels read them, and results as Arrow columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec, describe_call, parse_type, prepare, type_name
from aggloom.errors import AggloomError, TypeMismatchError
from aggloom.runtime.handlers.layout import FieldLayout, InputLayout, OutputLayout, ViewLayout
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.values import results, rows
from aggloom.type_layout import is_variant


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
    changes: Callable[..., int] | None = None
    mark: Callable[..., None] | None = None


class HandlerColumns:
    """The columns of a generated class, and what follows from them; a backend brings the conversions."""

    SPEC_JSON: ClassVar[str]
    BACKEND: ClassVar[str]
    RETRACTING: ClassVar[bool]
    INPUTS: ClassVar[tuple[InputLayout, ...]]
    FIELDS: ClassVar[tuple[FieldLayout, ...]]
    VIEWS: ClassVar[tuple[ViewLayout, ...]]
    OUTPUTS: ClassVar[tuple[OutputLayout, ...]]
    RESULTS: ClassVar[dict[str, tuple[str, Any, Any]]]
    KERNELS: ClassVar[Kernels]
    FUNCTIONS: ClassVar[tuple[str, ...]] = ()
    UNMERGEABLE: ClassVar[tuple[str, ...]] = ()
    OPENS: ClassVar[tuple[tuple[str, Callable[[], None]], ...]] = ()
    CLOSES: ClassVar[tuple[tuple[str, Callable[[], None]], ...]] = ()
    COMPACTS: ClassVar[bool] = True
    EMITTED: ClassVar[str] = ""
    """The field of a table aggregate that says itself what differs: whether a key's rows have been emitted."""
    SOURCE_PATH: ClassVar[Path]
    DIGEST: ClassVar[str]

    @classmethod
    @functools.cache
    def spec(cls) -> AggSpec:
        """The spec that the handler was generated from; its module runs here, so its functions may."""
        return AggSpec.from_json(cls.SPEC_JSON, trust=True)

    def batch_of(self, data: Any) -> pa.RecordBatch:
        """A tuple, a list of tuples (in the schema's order) or a record batch, as the handler's columns."""
        spec = self.spec()
        if isinstance(data, pa.RecordBatch):
            batch = data
        else:
            listed = [data] if isinstance(data, tuple) else list(data)
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
            # A form that several calls read is made once.
            if (name, form) in bound:
                continue
            if form == "row":
                listed = [_cast_column(batch, column, schema) for column, _ in name]
                encoded = rows.encode(listed, [rows.ColumnOrder(*part) for _, part in name])
                self.bind_column(encoded, name, "word", bound)
                bound[name, "row"] = bound[name, "word"]
            else:
                self.bind_column(_cast_column(batch, name, schema), name, form, bound)
        if not self.INPUTS:
            # The number of rows has to be known where no column is read.
            return self.KERNELS.inputs(np.zeros(batch.num_rows, np.int8))
        return self.KERNELS.inputs(*(bound[name, form] for _, name, form in self.INPUTS))

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        """Enter a column in one form (and validity beside it) into `bound`."""
        raise AggloomError("a backend binds columns")

    def pick(self, inputs: Any, rows: NumberArray) -> Any:
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

    def enlarge_lists(self, out: Any, row: int) -> Any:
        """The outputs with more room in their lists, to go on at a row."""
        raise AggloomError("a backend makes outputs")

    def pick_outputs(self, out: Any, rows: NumberArray) -> Any:
        """The outputs with these rows, in this order."""
        raise AggloomError("a backend picks outputs")

    def overflow(self, out: Any) -> tuple[int, int] | None:
        """(call, slot) of an overflow in the outputs, if there was one and the dialect makes it an error."""
        wraps = self.spec().dialect != "spark"
        single = np.array([output.check in ("single", "user") for output in self.OUTPUTS])
        # In dialect flink sums wrap around; a second row, and a value of a user's function, are errors in both.
        hits = np.flatnonzero(np.asarray(out.overflow)[: len(single)] * (single if wraps else 1))
        return (int(hits[0]), int(out.overflow[hits[0]]) - 1) if len(hits) else None

    def refuse_overflow(self, out: Any, place: Callable[[int], str]) -> None:
        """Raise ArithmeticOverflowError naming the call, and the key by `place(slot)`."""
        from aggloom.errors import ArithmeticOverflowError, CardinalityError

        overflow = self.overflow(out)
        if overflow is not None:
            spec = self.spec()
            dtype = spec.aggregate_schema.types[len(spec.group_by) + overflow[0]]
            if self.OUTPUTS[overflow[0]].check == "single":
                raise CardinalityError(
                    f"{describe_call(spec.calls[overflow[0]])}: there is more than one row "
                    f"({place(overflow[1])}); take FIRST_VALUE or MAX, or filter the input"
                )
            if self.OUTPUTS[overflow[0]].check == "user":
                raise ArithmeticOverflowError(
                    f"{describe_call(spec.calls[overflow[0]])}: the value does not fit {type_name(dtype)} "
                    f"({place(overflow[1])}); declare the function with a wider result"
                )
            raise ArithmeticOverflowError(
                f"{describe_call(spec.calls[overflow[0]])}: the result does not fit {type_name(dtype)} "
                f"({place(overflow[1])}); cast the argument to a wider type, or use dialect 'flink' to wrap"
            )

    def to_arrow(
        self, out: Any, fields: list[pa.Field], take: NumberArray | None = None
    ) -> list[pa.Array]:
        """Outputs (or their rows `take`) as Arrow columns."""
        return [
            self._column(out[1 + 2 * k], out[2 + 2 * k], self.OUTPUTS[k], field.type, take)
            for k, field in enumerate(fields)
        ]

    def _column(
        self, data: Any, valid: Any, output: OutputLayout, dtype: pa.DataType, take: Array | None
    ) -> pa.Array:
        form = output.form
        returns, options, element = self.RESULTS.get(output.name, ("", (), None))
        if form == "list":
            rows_taken = np.arange(len(valid)) if take is None else take
            words, counts, offsets = self.lists(data, rows_taken)
            is_value = np.asarray(valid)[rows_taken].astype(np.bool_)
            if returns == "rows":
                return self._rows(words, counts, offsets, is_value, dtype)
            elements = self._elements(words, np.ones(len(counts), np.bool_), element)
            return results.finish(
                returns,
                elements,
                counts=np.asarray(counts, np.int64),
                offsets=np.asarray(offsets, np.int64),
                valid=is_value,
                result=dtype,
                options=dict(options),
            )
        data, valid = self.select_rows(data, valid, take)
        if returns == "part":
            return self._elements(data, valid, element)
        if form in ("words", "floats"):
            return self._arrays(data, valid, form, dtype, output.columns)
        return self.scalars(data, valid, form, dtype)

    def _rows(
        self, words: Any, counts: Any, offsets: Any, valid: FlagArray, dtype: pa.DataType
    ) -> pa.Array:
        """The values of rows, one after the other, as an ARRAY of STRUCT; counts: 1, or 0 where a value is NULL."""
        fields = list(dtype.value_type)
        is_value = np.asarray(counts, np.int64) > 0
        columns = [
            self.scalars(
                words[place :: len(fields)], is_value[place :: len(fields)], "word", field.type
            )
            for place, field in enumerate(fields)
        ]
        structs = pa.StructArray.from_arrays(columns, fields=fields)
        # Lists count values, of which a row has as many as there are fields.
        ends = pa.array(np.asarray(offsets, np.int64) // len(fields), pa.int32())
        return pa.ListArray.from_arrays(ends, structs, type=dtype, mask=pa.array(~valid))

    def _arrays(
        self, data: Any, valid: FlagArray, form: str, dtype: pa.DataType, width: int
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

    def _elements(self, words: Any, valid: FlagArray, element: Any) -> pa.Array:
        """Words as the values that they stand for: a part of a row, or several as a STRUCT."""
        names, parts, take = element
        types = [parse_type(name) for name in names]
        if parts is None:
            return self.scalars(words, valid, "word", types[0])
        is_value = np.asarray(valid, np.bool_)
        encoded = self.scalars(words, valid, "word", pa.binary()).filter(pa.array(is_value))
        columns = [
            rows.decode(encoded, types, [rows.ColumnOrder(*p) for p in parts], t) for t in take
        ]
        whole = (
            columns[0]
            if len(take) == 1
            else pa.StructArray.from_arrays(columns, names=["key", "value"])
        )
        # NULLs have no bytes to decode: the number of each value among those that do.
        places = pa.array(np.cumsum(is_value) - 1, mask=~is_value)
        return whole.take(places)

    def scalars(self, data: Any, valid: Any, form: str, dtype: pa.DataType) -> pa.Array:
        """Results or elements in one form as a column."""
        raise AggloomError("a backend converts outputs")

    def select_rows(self, data: Any, valid: Any, take: NumberArray | None) -> tuple[Any, Any]:
        """The rows `take` of a result and its validity."""
        raise AggloomError("a backend converts outputs")

    def lists(self, data: Any, take: NumberArray) -> tuple[Any, Any, Any]:
        """(words, counts, offsets) of the lists at the rows `take`."""
        raise AggloomError("a backend converts outputs")


def _cast_column(batch: pa.RecordBatch, name: str, schema: pa.Schema) -> pa.Array:
    """A column in the type that the spec says it has."""
    column, dtype = batch.column(name), schema.field(name).type
    return column if column.type == dtype else column.cast(dtype)


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
            values = [row[position] for row in rows]
            if pa.types.is_integer(field.type):
                _refuse_fractions(values)
            elif pa.types.is_decimal(field.type):
                values = [_read_decimal(v) if isinstance(v, str) else v for v in values]
            elif is_variant(field.type):
                columns.append(_read_variants(values))
                continue
            columns.append(_array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise TypeMismatchError(f"column {field.name!r} is {type_name(field.type)}: {e}") from e
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_variants(texts: list[Any]) -> pa.Array:
    """Texts of JSON as VARIANTs; raises ValueError."""
    # Loaded where there are any: the functions of expressions take longer to load than all of a handler.
    from aggloom.runtime.scalar.variant_columns import read_variants

    return read_variants(pa.array(texts, pa.string()))


def _read_decimal(text: str) -> Decimal:
    """Read a decimal that is written as text; raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None


def _array(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Python values as Arrow's; plain numbers without `pa.array`, which imports pandas the first time."""
    kinds = set(map(type, values))
    if kinds == {int} and pa.types.is_signed_integer(dtype):
        numbers = np.array(values, f"i{dtype.bit_width // 8}")
    elif kinds == {float} and pa.types.is_float64(dtype):
        numbers = np.array(values, "f8")
    else:
        return pa.array(values, dtype)
    return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(numbers)])


def _refuse_fractions(values: list[Any]) -> None:
    """Raise ValueError for a number with a fraction, which Arrow would cut off."""
    for value in values:
        if isinstance(value, float | Decimal) and value != value // 1:
            raise ValueError(f"{value!r} is no whole number")
