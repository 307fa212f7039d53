"""The results of every aggregate function, in plain Python over the rows that count: the tiny oracle of the suite."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

Row = tuple[Any, ...]
Rows = list[Row]
_WIDTH = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Case:
    """A call as its function needs it: argument types, result type, all options, the dialect."""

    types: tuple[pa.DataType, ...]
    result: pa.DataType
    options: dict[str, Any]
    dialect: str


def identity(value: Any) -> Any:
    """The value as a key: NaN equals NaN, -0.0 equals 0.0, True is not 1."""
    if isinstance(value, float):
        return ("float", "NaN" if math.isnan(value) else value + 0.0)
    if isinstance(value, dict):
        return ("struct", tuple((name, identity(inner)) for name, inner in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(map(identity, value)))
    return (type(value).__name__, value)


def rank(value: Any) -> Any:
    """Sort key: nulls first, NaN greater than everything, nested values by what they hold."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, dict):
        return (1, [rank(inner) for inner in value.values()])
    if isinstance(value, list | tuple):
        return (1, [rank(inner) for inner in value])
    return (1, value)


def only_first(rows: Rows) -> list[Any]:
    return [row[0] for row in rows]


# Sums and means.


def wrap(value: int, width: int) -> int:
    """Two's complement."""
    half = 1 << (width - 1)
    return (value + half) % (1 << width) - half


def nearest(exact: Fraction) -> float:
    """The double nearest to a fraction."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def float_sum(values: list[float]) -> float:
    """The sum of floats as if computed without rounding; NaN and infinities follow IEEE."""
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else nearest(sum(map(Fraction, values), Fraction(0)))


def zero(kind: pa.DataType) -> Any:
    """The SUM0 of nothing."""
    return Decimal(0) if pa.types.is_decimal(kind) else 0.0 if pa.types.is_floating(kind) else 0


def total(values: list[Any], kind: pa.DataType, dialect: str) -> Any:
    """An exact sum, rounded or wrapped once at the end."""
    if pa.types.is_floating(kind):
        return float_sum(values)
    if pa.types.is_decimal(kind):
        with localcontext(prec=90):
            return sum(values, Decimal(0))
    exact = sum(values)
    return wrap(exact, _WIDTH[str(kind)]) if dialect == "flink" else exact


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


def _sum(rows: Rows, case: Case) -> Any:
    return total(only_first(rows), case.types[0], case.dialect) if rows else None


def _sum0(rows: Rows, case: Case) -> Any:
    return _sum(rows, case) if rows else zero(case.types[0])


def _average(rows: Rows, case: Case) -> Any:
    kind, values = case.types[0], only_first(rows)
    if not rows:
        return None
    if pa.types.is_floating(kind) and all(map(math.isfinite, values)):
        return nearest(sum(map(Fraction, values), Fraction(0)) / len(values))
    if pa.types.is_integer(kind):
        summed = wrap(sum(values), 64) if case.dialect == "flink" else sum(values)
    else:
        summed = total(values, kind, case.dialect)
    return average_of(summed, len(values), kind, case.dialect)


# Moments: exact, and rounded where the product rounds.


def reals(rows: Rows, place: int = 0) -> list[float]:
    return [float(row[place]) for row in rows]


def deviation(xs: list[float], ys: list[float]) -> float:
    """The sum of (x - mean of x) * (y - mean of y)."""
    if not all(map(math.isfinite, [*xs, *ys])):
        return math.nan
    a, b = list(map(Fraction, xs)), list(map(Fraction, ys))
    return nearest(sum(x * y for x, y in zip(a, b, strict=True)) - sum(a) * sum(b) / len(a))


def _spread(rows: Rows, case: Case, divisor: int, root: bool) -> Any:
    if divisor < 1:
        return None
    value = deviation(reals(rows), reals(rows)) / divisor
    return as_result(math.sqrt(value) if root else value, case.result)


def as_result(value: float, kind: pa.DataType) -> Any:
    """A float as a result of another type: integers truncate, decimals round, what does not fit is NULL."""
    if pa.types.is_integer(kind):
        top = 1 << (_WIDTH[str(kind)] - 1)
        return 0 if math.isnan(value) else int(max(-top, min(top - 1, value)))
    if not pa.types.is_decimal(kind):
        return value
    if not math.isfinite(value):
        return None
    with localcontext(prec=400):
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
        return rounded if abs(rounded) < Decimal(10) ** (kind.precision - kind.scale) else None


def _central(rows: Rows, power: int) -> Fraction | None:
    """The central moment of this power; None where a power of a value is no finite double."""
    values = reals(rows)
    if not all(math.isfinite(v) and abs(v) < 1.7e308 ** (1 / power) for v in values):
        return None
    exact = list(map(Fraction, values))
    mean = sum(exact) / len(exact)
    return sum((v - mean) ** power for v in exact) / len(exact)


def _standardise(rows: Rows, power: int) -> float | None:
    """The central moment in units of the deviation; None where nothing varies."""
    if not rows or deviation(reals(rows), reals(rows)) == 0:
        return None
    top, second = _central(rows, power), _central(rows, 2)
    if top is None or second is None:
        return math.nan
    square = top**2 / second**power
    return math.copysign(math.sqrt(square), top) if power == 3 else nearest(top / second**2 - 3)


def _correlation(rows: Rows, case: Case) -> float | None:
    sides = _sides(rows)
    if not rows or sides["yy"] == 0 or sides["xx"] == 0:
        return None
    if not all(map(math.isfinite, sides.values())):
        return math.nan
    x, ex = math.frexp(sides["xx"])
    y, ey = math.frexp(sides["yy"])
    half = (ex + ey) // 2
    scaled = math.ldexp(sides["xy"], -half) / math.sqrt(x * y * 2 ** ((ex + ey) % 2))
    return max(-1.0, min(1.0, scaled))


def _sides(rows: Rows) -> dict[str, float]:
    """Sums about the means; the first argument is y."""
    if not rows:
        return {"yy": 0.0, "xx": 0.0, "xy": 0.0}
    y, x = reals(rows), reals(rows, 1)
    return {"yy": deviation(y, y), "xx": deviation(x, x), "xy": deviation(x, y)}


def _mean(rows: Rows, place: int) -> float | None:
    return _average([(v,) for v in reals(rows, place)], _DOUBLES) if rows else None


def _regression(rows: Rows, value: Callable[[dict[str, float]], float]) -> float | None:
    sides = _sides(rows)
    return None if not rows or sides["xx"] == 0 else value(sides)


def _intercept(rows: Rows, case: Case) -> float | None:
    return _regression(
        rows, lambda s: _mean(rows, 0) - s["xy"] / s["xx"] * _mean(rows, 1)  # type: ignore[operator]
    )


def _r2(rows: Rows, case: Case) -> float | None:
    def value(sides: dict[str, float]) -> float:
        found = _correlation(rows, case)
        return 1.0 if sides["yy"] == 0 else math.nan if found is None else found**2

    return _regression(rows, value)


def _product(rows: Rows, case: Case) -> float | None:
    counts = Counter(rank(v) for v in reals(rows))
    result = np.float64(1.0)
    with np.errstate(all="ignore"):
        for _, is_nan, value in sorted(counts):
            base = np.float64(math.nan if is_nan else value)
            result *= np.power(base, np.float64(counts[1, is_nan, value]))
    return float(result) if rows else None


# What sorts or counts values.


def count_values(rows: Rows) -> list[tuple[Any, int]]:
    """Each value and how often it is there, in order."""
    shown = {identity(row[0]): row[0] for row in rows}
    counts = Counter(identity(row[0]) for row in rows)
    return [(shown[k], counts[k]) for k in sorted(counts, key=lambda k: rank(shown[k]))]


def _top(rows: Rows, k: int) -> list[tuple[Any, int]]:
    return sorted(count_values(rows), key=lambda pair: -pair[1])[:k]


At = Callable[[int], Any]
"""The value at a rank."""


def by_fraction(pick: Callable[[At, int, float], Any]) -> Callable[[Rows, Case], Any]:
    """A function of sorted values, how many there are and a fraction, or each of several fractions."""

    def value(rows: Rows, case: Case) -> Any:
        fractions = case.options.get("fraction", 0.5)
        ordered = sorted(rows, key=lambda row: rank(row[0]))
        ends = list(accumulate(row[1] if len(row) > 1 else 1 for row in ordered))
        if not rows:
            return None

        def at(position: int) -> Any:
            # Of more rows than a double counts, the last may seem to be one further.
            return ordered[bisect_right(ends, min(position, ends[-1] - 1))][0]

        if isinstance(fractions, tuple):
            return [pick(at, ends[-1], fraction) for fraction in fractions]
        return pick(at, ends[-1], fractions)

    return value


def interpolate(at: At, n: int, fraction: float) -> float:
    place = fraction * (n - 1)
    low, high = math.floor(place), math.ceil(place)
    a, b = float(at(low)), float(at(high))
    return a if identity(a) == identity(b) else (high - place) * a + (place - low) * b


def discrete(at: At, n: int, fraction: float) -> Any:
    return at(max(math.ceil(fraction * n), 1) - 1)


def _discrete_real(at: At, n: int, fraction: float) -> Any:
    found = discrete(at, n, fraction)
    return float(found) if type(found) in (int, Decimal) else found


def middle(at: At, n: int, fraction: float) -> float:
    return float(at(math.floor(fraction * (n - 1) + 0.5)))


# Texts.


def text_of(value: Any) -> str:
    """CAST AS STRING, of the types that need few words."""
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def json_of(value: Any) -> str:
    if value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return text_of(value)


def _join_values(rows: Rows, case: Case) -> str | None:
    if not rows:
        return None
    separator = case.options["separator"] if len(rows[0]) == 1 else text_of(rows[-1][1] or "")
    return str(separator).join(text_of(row[0]) for row in rows)


def _json_object(rows: Rows, case: Case) -> str:
    members = {json_of(text_of(key)): json_of(value) for key, value in rows}
    return "{" + ",".join(f"{key}:{value}" for key, value in members.items()) + "}"


def _single(rows: Rows, case: Case) -> Any:
    assert len(rows) < 2, "SINGLE_VALUE of several rows is an error"
    return rows[0][0] if rows else None


_DOUBLES = Case((pa.float64(),), pa.float64(), {}, "spark")


def _unless_empty(value: Callable[[Rows], Any]) -> Callable[[Rows, Case], Any]:
    return lambda rows, case: value(rows) if rows else None


def _array(rows: Rows, case: Case) -> list[Any] | None:
    return only_first(rows)


def _items(rows: Rows, case: Case) -> list[dict[str, Any]]:
    return [{"item": value, "count": n} for value, n in _top(rows, case.options["k"])]


def _extreme(best: Callable[..., Row], *places: int) -> Callable[[Rows, Case], Any]:
    return _unless_empty(lambda rows: best(rows, key=lambda r: [rank(r[p]) for p in places])[0])


def _bits(step: Callable[[int, int], int]) -> Callable[[Rows, Case], Any]:
    return _unless_empty(lambda rows: reduce(step, only_first(rows)))


FUNCTIONS: dict[str, Callable[[Rows, Case], Any]] = {
    "COUNT": lambda rows, case: len(rows),
    "COUNT_IF": lambda rows, case: sum(only_first(rows)),
    "SUM": _sum,
    "SUM0": _sum0,
    "AVG": _average,
    "MIN": _extreme(min, 0),
    "MAX": _extreme(max, 0),
    "MIN_BY": _extreme(min, 1, 0),
    "MAX_BY": _extreme(max, 1, 0),
    "FIRST_VALUE": _unless_empty(lambda rows: rows[0][0]),
    "ANY_VALUE": _unless_empty(lambda rows: rows[0][0]),
    "LAST_VALUE": _unless_empty(lambda rows: rows[-1][0]),
    "BOOL_AND": _unless_empty(lambda rows: all(only_first(rows))),
    "BOOL_OR": _unless_empty(lambda rows: any(only_first(rows))),
    "BIT_AND": _bits(lambda a, b: a & b),
    "BIT_OR": _bits(lambda a, b: a | b),
    "BIT_XOR": _bits(lambda a, b: a ^ b),
    "SINGLE_VALUE": _single,
    "VAR_POP": lambda rows, case: _spread(rows, case, len(rows), False),
    "VAR_SAMP": lambda rows, case: _spread(rows, case, len(rows) - 1, False),
    "STDDEV_POP": lambda rows, case: _spread(rows, case, len(rows), True),
    "STDDEV_SAMP": lambda rows, case: _spread(rows, case, len(rows) - 1, True),
    "SKEWNESS": lambda rows, case: _standardise(rows, 3),
    "KURTOSIS": lambda rows, case: _standardise(rows, 4),
    "PRODUCT": _product,
    "COVAR_POP": _unless_empty(lambda rows: _sides(rows)["xy"] / len(rows)),
    "COVAR_SAMP": lambda rows, case: _sides(rows)["xy"] / (len(rows) - 1) if rows[1:] else None,
    "CORR": _correlation,
    "REGR_COUNT": lambda rows, case: len(rows),
    "REGR_AVGX": lambda rows, case: _mean(rows, 1),
    "REGR_AVGY": lambda rows, case: _mean(rows, 0),
    "REGR_SXX": _unless_empty(lambda rows: _sides(rows)["xx"]),
    "REGR_SYY": _unless_empty(lambda rows: _sides(rows)["yy"]),
    "REGR_SXY": _unless_empty(lambda rows: _sides(rows)["xy"]),
    "REGR_SLOPE": lambda rows, case: _regression(rows, lambda s: s["xy"] / s["xx"]),
    "REGR_INTERCEPT": _intercept,
    "REGR_R2": _r2,
    "LISTAGG": _join_values,
    "ARRAY_AGG": lambda rows, case: (
        None if case.dialect == "flink" and not rows else _array(rows, case)
    ),
    "COLLECT_LIST": _array,
    "COLLECT_SET": lambda rows, case: [value for value, _ in count_values(rows)],
    "COLLECT": lambda rows, case: count_values(rows),
    "HISTOGRAM": _unless_empty(count_values),
    "TOP_K": _items,
    "APPROX_TOP_K": _items,
    "MODE": _unless_empty(lambda rows: _top(rows, 1)[0][0]),
    "MEDIAN": by_fraction(interpolate),
    "PERCENTILE": by_fraction(interpolate),
    "PERCENTILE_CONT": by_fraction(interpolate),
    "PERCENTILE_DISC": by_fraction(_discrete_real),
    "JSON_ARRAYAGG": lambda rows, case: f"[{','.join(map(json_of, only_first(rows)))}]",
    "JSON_OBJECTAGG": _json_object,
    "APPROX_COUNT_DISTINCT": lambda rows, case: len(count_values(rows)),
    "APPROX_PERCENTILE": by_fraction(discrete),
    "LOG_PERCENTILE": by_fraction(middle),
}
