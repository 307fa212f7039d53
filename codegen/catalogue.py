"""The catalogue: every aggregate function is one entry here and nothing elsewhere.

An entry says which arguments it takes, what it returns in each dialect, which state it keeps and, as expressions
over that state *before* the step (like an SQL UPDATE), how a row changes it. Expressions may use the names of
the entry's fields, `x` (the argument), `other_<field>` (in merge) and the words of `codegen/lower.py`:
add, subtract, combine, before, total, average, least, greatest, oldest, newest.
State is a Field (one value a key) or a View (a collection a key); equal fields over equal arguments are kept once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from aggloom.codegen.dtypes import type_name
from aggloom.errors import TypeMismatchError

Dialect = Literal["spark", "flink"]
ResultType = Callable[[pa.DataType | None, str], pa.DataType]


@dataclass(frozen=True)
class Field:
    """One value a key. `kind`: count (int64), number (as the argument sums) or word (as the argument compares)."""

    name: str
    kind: Literal["count", "number", "word"]
    accumulate: str
    merge: str
    retract: str | None = None


@dataclass(frozen=True)
class View:
    """A collection a key: `ordered` (values with counts, in order) or `sequence` (values in arrival order)."""

    kind: Literal["ordered", "sequence"]


State = Field | View


@dataclass(frozen=True)
class Aggregate:
    """A function. `retracting` is the state over a retracting input where it differs from `state`.

    `empty` is the condition under which the value is NULL (None: never); `ignores_distinct`: DISTINCT changes nothing.
    `example`: argument values and the result they give.
    """

    name: str
    doc: str
    arguments: Literal["any", "numeric", "optional"]
    result: ResultType
    state: tuple[State, ...]
    value: str
    example: tuple[tuple[object, ...], object]
    empty: str | None = None
    retracting: tuple[State, ...] | None = None
    retracting_value: str | None = None
    retracting_empty: str | None = None
    ignores_distinct: bool = False

    def state_for(self, retracting: bool) -> tuple[State, ...]:
        return self.retracting if retracting and self.retracting is not None else self.state

    def value_for(self, retracting: bool) -> str:
        return self.retracting_value if retracting and self.retracting_value else self.value

    def empty_for(self, retracting: bool) -> str | None:
        if retracting and self.retracting is not None:
            return self.retracting_empty
        return self.empty


def _bigint(argument: pa.DataType | None, dialect: str) -> pa.DataType:
    return pa.int64()


def _same(argument: pa.DataType | None, dialect: str) -> pa.DataType:
    return argument


def _sum(argument: pa.DataType | None, dialect: str) -> pa.DataType:
    """Spark: BIGINT, DOUBLE, DECIMAL(p + 10, s). Flink: the argument's own type, DECIMAL(38, s)."""
    assert argument is not None
    if pa.types.is_decimal(argument):
        precision = 38 if dialect == "flink" else min(38, argument.precision + 10)
        return pa.decimal128(precision, argument.scale)
    if dialect == "flink":
        return argument
    return pa.float64() if pa.types.is_floating(argument) else pa.int64()


def _average(argument: pa.DataType | None, dialect: str) -> pa.DataType:
    """Spark: DOUBLE, DECIMAL(p + 4, s + 4). Flink: the argument's own type, DECIMAL(38, max(6, s))."""
    assert argument is not None
    if pa.types.is_decimal(argument):
        if dialect == "flink":
            return pa.decimal128(38, max(6, argument.scale))
        return pa.decimal128(min(38, argument.precision + 4), min(38, argument.scale + 4))
    return argument if dialect == "flink" else pa.float64()


_COUNT = Field("count", "count", "count + 1", "count + other_count", "count - 1")
_SUM = Field("sum", "number", "add(sum, x)", "combine(sum, other_sum)", "subtract(sum, x)")
_MIN = Field(
    "least",
    "word",
    "x if count == 0 or before(x, least) else least",
    "other_least if other_count > 0 and (count == 0 or before(other_least, least)) else least",
)
_MAX = Field(
    "greatest",
    "word",
    "x if count == 0 or before(greatest, x) else greatest",
    "other_greatest if other_count > 0 and (count == 0 or before(greatest, other_greatest)) else greatest",
)
_FIRST = Field("first", "word", "x if count == 0 else first", "first if count > 0 else other_first")
_LAST = Field("last", "word", "x", "other_last if other_count > 0 else last")

_ENTRIES = (
    Aggregate(
        "COUNT",
        "Rows, or rows where the argument is not NULL.",
        "optional",
        _bigint,
        (_COUNT,),
        "count",
        ((3, None, 3), 2),
    ),
    Aggregate(
        "SUM",
        "Sum of the values that are not NULL; NULL without any.",
        "numeric",
        _sum,
        (_COUNT, _SUM),
        "total(sum)",
        ((3, None, 4), 7),
        empty="count == 0",
    ),
    Aggregate(
        "SUM0",
        "Sum of the values that are not NULL; 0 without any.",
        "numeric",
        _sum,
        (_COUNT, _SUM),
        "total(sum)",
        ((None,), 0),
    ),
    Aggregate(
        "AVG",
        "Mean of the values that are not NULL; NULL without any.",
        "numeric",
        _average,
        (_COUNT, _SUM),
        "average(sum, count)",
        ((3, None, 4), 3.5),
        empty="count == 0",
    ),
    Aggregate(
        "MIN",
        "Smallest value that is not NULL.",
        "any",
        _same,
        (_COUNT, _MIN),
        "least",
        ((3, None, 4), 3),
        empty="count == 0",
        retracting=(View("ordered"),),
        retracting_value="least(ordered)",
        ignores_distinct=True,
    ),
    Aggregate(
        "MAX",
        "Greatest value that is not NULL.",
        "any",
        _same,
        (_COUNT, _MAX),
        "greatest",
        ((3, None, 4), 4),
        empty="count == 0",
        retracting=(View("ordered"),),
        retracting_value="greatest(ordered)",
        ignores_distinct=True,
    ),
    Aggregate(
        "FIRST_VALUE",
        "The value that came first of those that are not NULL and still there.",
        "any",
        _same,
        (_COUNT, _FIRST),
        "first",
        ((None, 4, 3), 4),
        empty="count == 0",
        retracting=(View("sequence"),),
        retracting_value="oldest(sequence)",
    ),
    Aggregate(
        "LAST_VALUE",
        "The value that came last of those that are not NULL and still there.",
        "any",
        _same,
        (_COUNT, _LAST),
        "last",
        ((4, 3, None), 3),
        empty="count == 0",
        retracting=(View("sequence"),),
        retracting_value="newest(sequence)",
    ),
)

CATALOGUE: dict[str, Aggregate] = {entry.name: entry for entry in _ENTRIES}

ALIASES = {"$SUM0": "SUM0", "FIRST": "FIRST_VALUE", "LAST": "LAST_VALUE", "MEAN": "AVG"}

_OVER = "it numbers or shifts rows; that is an OVER or Top-N operator, not a group aggregate"
REFUSED: dict[str, str] = dict.fromkeys(
    ("LAG", "LEAD", "ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "CUME_DIST", "PERCENT_RANK"), _OVER
)


def canonical(function: str) -> str:
    """The catalogue's spelling of a function name."""
    name = function.upper()
    return ALIASES.get(name, name)


def is_numeric(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)
    )


def result_type(function: str, arg_types: tuple[pa.DataType, ...], dialect: str) -> pa.DataType:
    """The type that a call returns.

    Raises TypeMismatchError if the number or the types of the arguments do not fit.
    """
    entry = CATALOGUE[canonical(function)]
    if entry.arguments == "optional" and not arg_types:
        return entry.result(None, dialect)
    if len(arg_types) != 1:
        wanted = "at most one argument" if entry.arguments == "optional" else "one argument"
        raise TypeMismatchError(f"{entry.name} takes {wanted}, got {len(arg_types)}")
    if entry.arguments == "numeric" and not is_numeric(arg_types[0]):
        raise TypeMismatchError(
            f"{entry.name} needs a number, got {type_name(arg_types[0])}; cast the argument or use another function"
        )
    return entry.result(arg_types[0], dialect)
