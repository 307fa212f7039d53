"""Made rows: each is a function of the seed and its number, so that a batch that runs again has the same rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.random import Generator

from aggloom.codegen import type_name
from aggloom.errors import SpecError, nearest
from aggloom.runtime.connectors.datagen.options import ColumnRule, DatagenSource

_BLOCK: Final = 4096
"""Rows are made in blocks of so many, whatever part of one is asked for."""
_DIGITS: Final = 18
"""The digits of a decimal that are random; what its type holds beyond them is 0."""
_TEXT: Final = 100
_ITEMS: Final = 3
"""The lengths of texts and of lists where none is said, as Flink has them."""
Maker = Callable[[Generator, int, int, int], pa.Array]
"""Makes the values of so many rows from the number of the first one, at a time in milliseconds."""


class RowMaker:
    """Makes the rows of a table; raises SpecError for a rule that does not fit its column."""

    def __init__(self, source: DatagenSource, schema: pa.Schema, where: str) -> None:
        source.check(where)
        self._source, self._schema = source, schema
        self._makers = _Makers(source, where)
        self._columns = [self._makers.of(each.name, each.type) for each in schema]
        self._makers.check_all_read()
        totals = [*self._makers.totals, source.number_of_rows]
        self.total: int | None = min((each for each in totals if each is not None), default=None)

    def make(self, start: int, end: int, at: int) -> pa.RecordBatch:
        """The rows of the numbers from start to end, made at a time (milliseconds since 1970)."""
        blocks = [
            self._block(block, at).slice(
                max(start - block * _BLOCK, 0), end - max(start, block * _BLOCK)
            )
            for block in range(start // _BLOCK, -(-end // _BLOCK))
        ]
        table = pa.Table.from_batches(blocks, schema=self._schema).combine_chunks()
        return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], schema=self._schema))

    def _block(self, block: int, at: int) -> pa.RecordBatch:
        columns = []
        for field, maker in zip(self._schema, self._columns, strict=True):
            rng = np.random.default_rng([self._source.seed, zlib.crc32(field.name.encode()), block])
            columns.append(maker(rng, _BLOCK, block * _BLOCK, at))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _Makers:
    """The makers of columns by their types and rules. totals: how many rows each sequence has."""

    def __init__(self, source: DatagenSource, where: str) -> None:
        self._rules, self._where = source.rules, where
        self._read = set[str]()
        self.totals: list[int] = []

    def of(self, path: str, kind: pa.DataType) -> Maker:
        """The maker of a column, or of a part of one; raises SpecError for a type of which there is none."""
        rule = ColumnRule(path, self._where, self._rules.get(path, {}))
        self._read.add(path)
        if rule.is_sequence:
            return _with_nulls(self._sequence(rule, kind), rule)
        if pt.is_struct(kind):
            parts = [self.of(f"{path}.{each.name}", each.type) for each in kind]
            return _with_nulls(_rows_of(parts, kind), rule)
        if pt.is_list(kind):
            return _with_nulls(self._list(rule, path, kind), rule)
        if pt.is_map(kind):
            return _with_nulls(self._map(rule, path, kind), rule)
        return _with_nulls(_scalar(rule, kind), rule)

    def check_all_read(self) -> None:
        """Raise SpecError for a rule of a column that there is not."""
        for path in self._rules:
            if path not in self._read:
                hint = nearest(path, sorted(self._read))
                raise SpecError(f"{self._where}: 'fields.{path}' names no column. {hint}")

    def _sequence(self, rule: ColumnRule, kind: pa.DataType) -> Maker:
        start, end = rule.number("start", None), rule.number("end", None)
        if start is None or end is None or end < start:
            raise SpecError(
                f"{self._where}: a sequence needs 'fields.{rule.path}.start' and 'fields.{rule.path}.end' behind it"
            )
        numbers = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
        if not (numbers or pt.is_string(kind)):
            raise rule.wrong("kind", f"{type_name(kind)} is no number and no STRING")
        self.totals.append(end - start + 1)

        def make(_: Generator, count: int, first: int, __: int) -> pa.Array:
            # Behind the end are rows of a block that nobody asks for.
            values = np.minimum(np.arange(first, first + count) + start, end)
            return pa.array(values, pa.int64()).cast(kind)

        return make

    def _list(self, rule: ColumnRule, path: str, kind: pa.ListType) -> Maker:
        length, inner = rule.length(_ITEMS), self.of(f"{path}.element", kind.value_type)

        def make(rng: Generator, count: int, first: int, at: int) -> pa.Array:
            items = inner(rng, count * length, first, at)
            offsets = pa.array(np.arange(0, count * length + 1, length), pa.int32())
            return pa.ListArray.from_arrays(offsets, items).cast(kind)

        return make

    def _map(self, rule: ColumnRule, path: str, kind: pa.MapType) -> Maker:
        length = rule.length(_ITEMS)
        keys, items = self.of(f"{path}.key", kind.key_type), self.of(
            f"{path}.value", kind.item_type
        )

        def make(rng: Generator, count: int, first: int, at: int) -> pa.Array:
            own = keys(rng, count * length, first, at).to_pylist()
            values = items(rng, count * length, first, at).to_pylist()
            pairs = list(zip(own, values, strict=True))
            cut = range(0, count * length, length)
            return pa.array([list(dict(pairs[n : n + length]).items()) for n in cut], kind)

        return make


def _rows_of(parts: list[Maker], kind: pa.StructType) -> Maker:
    """The maker of rows of parts."""

    def make(rng: Generator, count: int, first: int, at: int) -> pa.Array:
        columns = [part(rng, count, first, at) for part in parts]
        return pa.StructArray.from_arrays(columns, fields=list(kind))

    return make


def _scalar(rule: ColumnRule, kind: pa.DataType) -> Maker:
    """The maker of random values; raises SpecError."""
    if pt.is_integer(kind):
        bits = kind.bit_width - 1
        low, high = rule.number("min", -(1 << bits)), rule.number("max", (1 << bits) - 1)
        _check_range(rule, low, high, -(1 << bits), (1 << bits) - 1)
        return lambda rng, n, _, __: pa.array(rng.integers(low, high, n, endpoint=True)).cast(kind)
    if pt.is_floating(kind):
        most = float(np.finfo(kind.to_pandas_dtype()).max)
        low, high = rule.number("min", -most, float), rule.number("max", most, float)
        _check_range(rule, low, high, -most, most)
        return lambda rng, n, _, __: pa.array(_spread(rng.random(n), low, high), kind)
    if pt.is_decimal(kind):
        return _decimals(rule, kind)
    if pt.is_boolean(kind):
        return lambda rng, n, _, __: pa.array(rng.integers(0, 2, n) > 0)
    if pt.is_string(kind):
        return _texts(rule, lambda raw: raw.hex())
    if pt.is_binary(kind):
        return _texts(rule, bytes)
    if pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_time(kind):
        return _times(rule, kind)
    raise SpecError(
        f"{rule.where}: datagen makes no {type_name(kind)}, which column {rule.path!r} is; leave it out"
    )


def _spread(shares: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """Numbers between two by their shares of the way (float64[n]); their distance may be more than a number holds."""
    return low * (1 - shares) + high * shares


def _check_range(rule: ColumnRule, low: Any, high: Any, least: Any, most: Any) -> None:
    """Raise SpecError for a range without numbers, or with numbers that a column cannot hold."""
    for name, value in (("min", low), ("max", high)):
        if not least <= value <= most:
            raise rule.wrong(name, f"the column holds {least} to {most}")
    if low > high:
        raise rule.wrong("min", f"it is more than the max, {high}")


def _decimals(rule: ColumnRule, kind: pa.Decimal128Type) -> Maker:
    digits, scale = min(kind.precision, _DIGITS), kind.scale
    most = Decimal(10**digits - 1).scaleb(-scale)
    low, high = rule.number("min", -most, Decimal), rule.number("max", most, Decimal)
    _check_range(rule, low, high, -most, most)
    least, greatest = int(low.scaleb(scale).to_integral()), int(high.scaleb(scale).to_integral())

    def make(rng: Generator, count: int, _: int, __: int) -> pa.Array:
        values = rng.integers(least, greatest, count, endpoint=True).tolist()
        return pa.array([Decimal(value).scaleb(-scale) for value in values], kind)

    return make


def _texts(rule: ColumnRule, shape: Callable[[bytes], Any]) -> Maker:
    """The maker of texts or bytes. shape: makes one of random bytes; as many of it as its length says are taken."""
    length, is_any = rule.length(_TEXT), rule.has_any_length

    def make(rng: Generator, count: int, _: int, __: int) -> pa.Array:
        raw = rng.bytes(count * length)
        lengths = (
            rng.integers(1, length, count, endpoint=True).tolist() if is_any else [length] * count
        )
        return pa.array(
            [shape(raw[n * length : (n + 1) * length])[:own] for n, own in enumerate(lengths)]
        )

    return make


def _times(rule: ColumnRule, kind: pa.DataType) -> Maker:
    past = rule.past

    def make(rng: Generator, count: int, _: int, at: int) -> pa.Array:
        times = pa.array(
            at - rng.integers(0, past, count, endpoint=True), pa.timestamp("ms", "UTC")
        )
        if pt.is_timestamp(kind):
            own = times.cast(pa.timestamp("us", "UTC"))
            return own if kind.tz is not None else own.cast(pa.int64()).cast(kind)
        return times.cast(pa.timestamp("ms")).cast(kind)

    return make


def _with_nulls(maker: Maker, rule: ColumnRule) -> Maker:
    """A maker whose values are NULL as often as a rule says; raises SpecError."""
    rate = rule.number("null-rate", 0.0, float)
    if not 0 <= rate <= 1:
        raise rule.wrong("null-rate", "it must lie between 0 and 1")
    if not rate:
        return maker

    def make(rng: Generator, count: int, first: int, at: int) -> pa.Array:
        values = maker(rng, count, first, at)
        keep = pa.array(rng.random(count) >= rate)
        return pc.if_else(keep, values, pa.scalar(None, values.type))

    return make
