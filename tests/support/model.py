"""Group aggregation in a few lines of exact Python, with the functions of reference.py."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from reference import FUNCTIONS, Case, Row, identity, rank

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.catalogue.entry import Aggregate, Field, View
from aggloom.codegen.catalogue.registry import CATALOGUE, arguments_of, options_of

ADDS = ("+I", "+U")
_SKETCHES = ("hyperloglog", "quantiles", "ddsketch")
_TEXTS = ("text", "json_array", "json_object", "join")
UNJUDGED = object()
"""Stands where an oracle does not know the value."""


def states(entry: Aggregate) -> list[Field | View]:
    """All state that a function may keep."""
    shapes = (entry.append, entry.retract, entry.ordered, entry.ordered_retract)
    return [state for shape in shapes if shape is not None for state in shape.state]


def is_sketch(entry: Aggregate) -> bool:
    """Tell whether the function is approximate."""
    return any(isinstance(s, View) and s.kind in _SKETCHES for s in states(entry))


def is_moment(entry: Aggregate) -> bool:
    """Tell whether the function works on DOUBLEs whatever it is given."""
    return any(isinstance(s, Field) and s.kind == "real" for s in states(entry))


def respects_nulls(call: AggCall, entry: Aggregate, dialect: str) -> bool:
    """Tell whether a NULL is a value for this call."""
    if entry.nulls is None:
        return call.function == "JSON_ARRAYAGG" and dict(call.options).get("on_null") == "null"
    return (call.nulls or entry.nulls[dialect == "flink"]) == "respect"


class Bag:
    """The rows of one call (its arguments, then its order keys), in order of arrival; DISTINCT keeps the first."""

    def __init__(self, spec: AggSpec, call: AggCall) -> None:
        self.spec, self.call, self.entry = spec, call, CATALOGUE[call.function]
        self.columns = [*call.args, *(key.column for key in call.order_by)]
        self.rows: list[Row] = []
        self.copies: dict[Any, int] = {}

    def counts(self, row: dict[str, Any]) -> bool:
        """Tell whether the function sees the row at all."""
        call, entry = self.call, self.entry
        if call.filter is not None and row[call.filter] is not True:
            return False
        if respects_nulls(call, entry, self.spec.dialect):
            return True
        for argument, column in zip(arguments_of(entry, len(call.args)), call.args, strict=True):
            if argument.name == "frequency" and (row[column] or 0) <= 0:
                return False
            needed = entry.skips is None or argument.name in entry.skips
            absent = dict(call.options).get("on_null") == "absent"
            if row[column] is None and (needed or absent):
                return False
        return True

    def apply(self, adds: bool, row: dict[str, Any]) -> None:
        """One more copy of a row, or one less: the oldest, but of an ORDER BY for a first value the newest."""
        if not self.counts(row):
            return
        item = tuple(row[name] for name in self.columns)
        key = identity(item)
        self.copies[key] = self.copies.get(key, 0) + (1 if adds else -1)
        if adds and (not self.call.distinct or self.copies[key] == 1):
            self.rows.append(item)
        elif not adds and (not self.call.distinct or self.copies[key] == 0):
            places = [i for i, kept in enumerate(self.rows) if identity(kept) == key]
            newest = self.call.order_by and self.call.function in ("FIRST_VALUE", "ANY_VALUE")
            del self.rows[places[-1 if newest else 0]]

    def value(self) -> Any:
        """The function's result over the rows that are there."""
        call, dialect = self.call, self.spec.dialect
        types = self.spec.arg_types(call)
        if not knows(call, types):
            return UNJUDGED
        options = options_of(self.entry, dict(call.options), dialect)
        case = Case(types, self.spec.result_type(call), options, dialect)
        return FUNCTIONS[call.function]([row[: len(types)] for row in self._sort_rows()], case)

    def _sort_rows(self) -> list[Row]:
        """The rows by ORDER BY; of equal ones the first to arrive first, or in lists the smallest."""
        rows, width = list(self.rows), len(self.call.args)
        if not self.call.order_by:
            return rows
        if self.entry.returns:
            rows.sort(key=lambda row: [rank(v) for v in reversed(row[:width])])
        for place, key in reversed(list(enumerate(self.call.order_by, start=width))):
            rows.sort(key=lambda row, p=place: rank(row[p]), reverse=key.descending)
            rows.sort(key=lambda row, p=place: (row[p] is None) != key.nulls_first)
        return rows


def knows(call: AggCall, types: tuple[pa.DataType, ...]) -> bool:
    """Tell whether reference.py has a value for the call: it spells only some types as text."""
    entry = CATALOGUE[call.function]
    if entry.returns not in _TEXTS:
        return call.function in FUNCTIONS
    simple = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_decimal)
    return all(any(check(kind) for check in simple) for kind in types)


class GroupModel:
    """The table that a changelog of input rows leads to, recomputed from scratch for each look.

    A retraction for a key without live rows is ignored, as the operator's default policy does.
    """

    def __init__(self, spec: AggSpec) -> None:
        self.spec = spec
        self.columns = spec.schema.names
        self.groups: dict[Row, tuple[Row, list[int], list[Bag]]] = {}
        self.ignored = 0
        if spec.one_row:
            self.groups[()] = ((), [0], self._bags())

    def process(self, rows: Iterable[Sequence[Any]]) -> None:
        """Apply changes in order."""
        for kind, *values in rows:
            self._apply(kind in ADDS, dict(zip(self.columns, values, strict=True)))

    def _apply(self, adds: bool, row: dict[str, Any]) -> None:
        shown = tuple(row[name] for name in self.spec.group_by)
        key = tuple(identity(value) for value in shown)
        if key not in self.groups:
            if not adds:
                self.ignored += 1
                return
            self.groups[key] = (shown, [0], self._bags())
        _, count, bags = self.groups[key]
        if not adds and not count[0]:
            self.ignored += 1
            return
        count[0] += 1 if adds else -1
        for bag in bags:
            bag.apply(adds, row)
        if count[0] == 0 and not self.spec.one_row:
            del self.groups[key]

    def _bags(self) -> list[Bag]:
        return [Bag(self.spec, call) for call in self.spec.calls]

    def table(self) -> list[Row]:
        """Keys and results of every live group."""
        return [
            shown + tuple(bag.value() for bag in bags) for shown, _, bags in self.groups.values()
        ]


def value_of(spec: AggSpec, rows: Iterable[Row]) -> Row:
    """Compute the results of a spec without keys over rows that are only added, or over none."""
    bags = [Bag(spec, call) for call in spec.calls]
    for row in rows:
        for bag in bags:
            bag.apply(True, dict(zip(spec.schema.names, row, strict=True)))
    return tuple(bag.value() for bag in bags)


def same_table(
    spec: AggSpec, left: Iterable[Row], right: Iterable[Row], scale: float = 0.0
) -> str | None:
    """None if the tables agree, else what differs; floats within rounding of `scale`."""
    width = len(spec.group_by)
    a = {tuple(identity(v) for v in row[:width]): row for row in left}
    b = {tuple(identity(v) for v in row[:width]): row for row in right}
    if a.keys() != b.keys():
        return (
            f"keys differ: left only {list(a.keys() - b.keys())}, right {list(b.keys() - a.keys())}"
        )
    for key, row in a.items():
        problem = same_row(spec, row[width:], b[key][width:], scale)
        if problem:
            return f"key {row[:width]}: {problem}"
    return None


def same_row(spec: AggSpec, left: Row, right: Row, scale: float = 0.0) -> str | None:
    """None if the results of all calls agree, else the first that does not."""
    for call, x, y in zip(spec.calls, left, right, strict=True):
        if UNJUDGED in (x, y):
            continue
        entry, kind = CATALOGUE[call.function], spec.result_type(call)
        loose = float(dict(call.options).get("error", 0.01)) if is_sketch(entry) else 0.0
        if is_moment(entry) and pa.types.is_decimal(kind) and None not in (x, y):
            # A rounded double: its last digits are no more certain than that.
            x, y = float(x), float(y)
        if not same(x, y, scale, pa.types.is_float32(kind), max(loose * 1.001, 1e-9)):
            return f"{call.text}: {x!r} against {y!r}"
    return None


def same(x: Any, y: Any, scale: float = 0.0, single: bool = False, loose: float = 1e-9) -> bool:
    """Tell whether two results are equal but for rounding."""
    if x is None or y is None:
        return x is y
    if isinstance(x, dict) and isinstance(y, dict):
        return list(x) == list(y) and same(list(x.values()), list(y.values()), scale, single, loose)
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        pairs = zip(x, y, strict=False)
        return len(x) == len(y) and all(same(a, b, scale, single, loose) for a, b in pairs)
    if isinstance(x, float) or isinstance(y, float):
        return _close(float(x), float(y), scale, single, loose)
    return bool(x == y) and isinstance(x, bool) == isinstance(y, bool)


def _close(x: float, y: float, scale: float, single: bool, loose: float) -> bool:
    if single:
        x, y = _as_single(x), _as_single(y)
    if x == y or (math.isnan(x) and math.isnan(y)):
        return True
    return math.isclose(x, y, rel_tol=max(loose, 1e-5 * single), abs_tol=scale * 1e-12)


def _as_single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
