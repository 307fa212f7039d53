"""Group aggregation twice more: a few lines of exact Python, and DuckDB over the net rows."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from aggloom.codegen import AggCall, AggSpec

Row = tuple[Any, ...]
ADDS = ("+I", "+U")
_WIDTH = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def identity(value: Any) -> Any:
    """The value as a key: NaN equals NaN, -0.0 equals 0.0, True is not 1."""
    if isinstance(value, float):
        return ("float", "NaN" if math.isnan(value) else value + 0.0)
    return (type(value).__name__, value)


def rank(value: Any) -> Any:
    """Sort key of a non-null value: NaN is greater than everything."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


class Bag:
    """The arguments of one call, in order of arrival; DISTINCT keeps the first of equal ones."""

    def __init__(self, distinct: bool) -> None:
        self.distinct = distinct
        self.values: list[Any] = []
        self.copies: Counter[Any] = Counter()

    def add(self, value: Any) -> None:
        """One more copy."""
        self.copies[identity(value)] += 1
        if not self.distinct or self.copies[identity(value)] == 1:
            self.values.append(value)

    def remove(self, value: Any) -> None:
        """One copy less: the oldest."""
        self.copies[identity(value)] -= 1
        if not self.distinct or self.copies[identity(value)] == 0:
            position = [identity(v) for v in self.values].index(identity(value))
            del self.values[position]


class GroupModel:
    """The table that a changelog of input rows leads to, recomputed from scratch for each look.

    A retraction for a key without live rows is ignored, as the operator's default policy does.
    """

    def __init__(self, spec: AggSpec) -> None:
        self.spec = spec
        self.columns = spec.schema.names
        self.groups: dict[Row, tuple[Row, list[int], list[Bag]]] = {}
        self.ignored = 0

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
            self.groups[key] = (shown, [0], [Bag(call.distinct) for call in self.spec.calls])
        _, count, bags = self.groups[key]
        count[0] += 1 if adds else -1
        for call, bag in zip(self.spec.calls, bags, strict=True):
            argument = row[call.args[0]] if call.args else 1
            if argument is not None and (call.filter is None or row[call.filter] is True):
                (bag.add if adds else bag.remove)(argument)
        if count[0] == 0:
            del self.groups[key]

    def table(self) -> list[Row]:
        """Keys and results of every live group."""
        return [
            shown
            + tuple(
                result(self.spec, c, b.values) for c, b in zip(self.spec.calls, bags, strict=True)
            )
            for shown, _, bags in self.groups.values()
        ]


def result(spec: AggSpec, call: AggCall, values: list[Any]) -> Any:
    """The value of a call over its non-null, filtered, possibly distinct arguments."""
    if call.function == "COUNT":
        return len(values)
    kind = spec.schema.field(call.args[0]).type
    if call.function == "SUM0":
        return total(values, kind, spec.dialect) if values else zero(kind)
    if not values:
        return None
    return _NAMED[call.function](values, kind, spec.dialect)


def zero(kind: pa.DataType) -> Any:
    """The SUM0 of nothing."""
    if pa.types.is_decimal(kind):
        return Decimal(0)
    return 0.0 if pa.types.is_floating(kind) else 0


def total(values: list[Any], kind: pa.DataType, dialect: str) -> Any:
    """An exact sum, rounded or wrapped once at the end."""
    if pa.types.is_floating(kind):
        return float_sum(values)
    if pa.types.is_decimal(kind):
        with localcontext(prec=90):
            return sum(values, Decimal(0))
    exact = sum(values)
    return wrap(exact, _WIDTH[str(kind)]) if dialect == "flink" else exact


def float_sum(values: list[float]) -> float:
    """The sum of floats as if computed without rounding; NaN and infinities follow IEEE."""
    special = [v for v in values if math.isnan(v) or math.isinf(v)]
    if special:
        return sum(special)
    exact = sum((Fraction(v) for v in values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def wrap(value: int, width: int) -> int:
    """Two's complement."""
    half = 1 << (width - 1)
    return (value + half) % (1 << width) - half


def average(values: list[Any], kind: pa.DataType, dialect: str) -> Any:
    """AVG as the dialect types it."""
    return average_of(_average_sum(values, kind, dialect), len(values), kind, dialect)


def _average_sum(values: list[Any], kind: pa.DataType, dialect: str) -> Any:
    if pa.types.is_integer(kind):
        return wrap(sum(values), 64) if dialect == "flink" else sum(values)
    return total(values, kind, dialect)


def average_of(summed: Any, count: int, kind: pa.DataType, dialect: str) -> Any:
    """Divide as the dialect does: integers truncate in flink and become DOUBLE in spark."""
    if pa.types.is_floating(kind):
        return summed / count
    if pa.types.is_decimal(kind):
        scale = max(6, kind.scale) if dialect == "flink" else min(38, kind.scale + 4)
        with localcontext(prec=90):
            return (Decimal(summed) / count).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if dialect == "flink":
        quotient = abs(summed) // count
        return quotient if summed >= 0 else -quotient
    return float(Fraction(summed, count))


_NAMED: dict[str, Callable[[list[Any], pa.DataType, str], Any]] = {
    "SUM": total,
    "AVG": average,
    "MIN": lambda values, kind, dialect: min(values, key=rank),
    "MAX": lambda values, kind, dialect: max(values, key=rank),
    "FIRST_VALUE": lambda values, kind, dialect: values[0],
    "LAST_VALUE": lambda values, kind, dialect: values[-1],
}


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_table(spec: AggSpec, net_rows: Sequence[Row]) -> list[Row]:
    """What DuckDB computes from the net rows; for calls that do not depend on order."""
    data = pa.Table.from_pylist(
        [dict(zip(spec.schema.names, row, strict=True)) for row in net_rows], schema=spec.schema
    )
    parts = [quoted(name) for name in spec.group_by]
    for call in spec.calls:
        parts += _duckdb_calls(call)
    grouping = ", ".join(quoted(name) for name in spec.group_by)
    group_by = f"GROUP BY {grouping}" if grouping else ""
    sql = f"SELECT {', '.join(parts)} FROM data {group_by} HAVING COUNT(*) > 0"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        connection.register("data", data)
        answer = connection.sql(sql).to_arrow_table()
    columns = [column.to_pylist() for column in answer.columns]
    return [_duckdb_row(spec, row) for row in zip(*columns, strict=True)]


def _duckdb_calls(call: AggCall) -> list[str]:
    distinct = "DISTINCT " if call.distinct else ""
    where = f" FILTER (WHERE {quoted(call.filter)})" if call.filter else ""
    argument = quoted(call.args[0]) if call.args else "*"
    if call.function in ("SUM", "SUM0", "AVG"):
        return [f"{name}({distinct}{argument}){where}" for name in ("SUM", "COUNT")]
    return [f"{call.function}({distinct}{argument}){where}"]


def _duckdb_row(spec: AggSpec, row: Row) -> Row:
    width = len(spec.group_by)
    out, rest = list(row[:width]), iter(row[width:])
    for call in spec.calls:
        if call.function not in ("SUM", "SUM0", "AVG"):
            out.append(next(rest))
            continue
        kind, summed, count = spec.schema.field(call.args[0]).type, next(rest), next(rest)
        if count == 0:
            out.append(zero(kind) if call.function == "SUM0" else None)
            continue
        if pa.types.is_integer(kind):
            summed = int(summed)
            width_of_sum = 64 if call.function == "AVG" else _WIDTH[str(kind)]
            summed = wrap(summed, width_of_sum) if spec.dialect == "flink" else summed
        out.append(
            average_of(summed, count, kind, spec.dialect) if call.function == "AVG" else summed
        )
    return tuple(out)


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
    singles = [pa.types.is_float32(field.type) for field in spec.aggregate_schema]
    for key, row in a.items():
        for position, (x, y) in enumerate(zip(row, b[key], strict=True)):
            if not _close(x, y, scale, singles[position]):
                field = spec.aggregate_schema.field(position)
                return f"row {row} against {b[key]}: {field.name} is {x!r} against {y!r}"
    return None


def _close(x: Any, y: Any, scale: float, single: bool) -> bool:
    if x is None or y is None:
        return x is y
    if isinstance(x, float) or isinstance(y, float):
        x, y = float(x), float(y)
        if single:
            x, y = _as_single(x), _as_single(y)
        if x == y or (math.isnan(x) and math.isnan(y)):
            return True
        return math.isclose(x, y, rel_tol=1e-5 if single else 1e-9, abs_tol=scale * 1e-12)
    return bool(x == y) and isinstance(x, bool) == isinstance(y, bool)


def _as_single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
