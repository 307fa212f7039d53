"""Exactness: sums, means and variances against fractions, overflow, and both backends against each other."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from handlers import Backend, Row, empty, fed
from model import same_row
from reference import nearest, wrap
from variants import changes_for, compiled, rows_for

from aggloom.codegen import AggCall, AggSpec
from aggloom.errors import ArithmeticOverflowError

backends = pytest.mark.parametrize("backend", ["numba", "python"])
SCHEMA = "x DOUBLE, y DOUBLE, b BIGINT, t TINYINT, v DECIMAL(38,2), m DECIMAL(10,2)"
NULLS: Row = (None,) * 6
FLOATS = AggSpec(
    SCHEMA,
    (),
    tuple(AggCall(f, ("x",), alias=f) for f in ("SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP"))
    + tuple(AggCall(f, ("y", "x"), alias=f) for f in ("COVAR_POP", "REGR_AVGX", "REGR_SXX")),
)
_SUMS = [
    ("SUM", "b"),
    ("AVG", "b"),
    ("SUM", "t"),
    ("AVG", "t"),
    ("SUM", "v"),
    ("AVG", "v"),
    ("AVG", "m"),
]
SUMS = {
    dialect: AggSpec(
        SCHEMA, (), tuple(AggCall(f, (c,), alias=f + c) for f, c in _SUMS), "retract", dialect  # type: ignore[arg-type]
    )
    for dialect in ("spark", "flink")
}
EXTREMES = [1e308, -1e308, 1.5, 5e-324, -5e-324, 1e-300, 1.0, 3.3, -1e16, 1e16, 1e150, 0.1, -0.0]


def ulps(a: float, b: float) -> float:
    return 0.0 if a == b else abs(a - b) / math.ulp(b)


def moments(pairs: list[tuple[float, float]]) -> list[float]:
    """Compute the results of FLOATS exactly; each is rounded once, at the end."""
    n = len(pairs)
    y, x = [Fraction(p[1]) for p in pairs], [Fraction(p[0]) for p in pairs]
    sxx = sum(v * v for v in x) - sum(x) ** 2 / n
    sxy = sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y) / n
    root = nearest(sxx / n)
    exact = [sum(x), sum(x) / n, sxx / n, sxx / (n - 1)]
    return [
        *map(nearest, exact),
        math.sqrt(root),
        nearest(sxy / n),
        nearest(sum(x) / n),
        nearest(sxx),
    ]


@backends
@pytest.mark.parametrize("seed", range(25))
def test_floats_are_exact_over_net_rows(backend: Backend, seed: int) -> None:
    draw = random.Random(seed)
    # Small enough for squares to be finite, unless they are to be tried.
    pool = EXTREMES if seed % 5 == 0 else [v for v in EXTREMES if abs(v) < 1e150]
    pool = [*pool, *(draw.uniform(-1, 1) * 10.0 ** draw.randint(-20, 20) for _ in range(6))]
    rows: list[Row] = [(draw.choice(pool), draw.choice(pool), *NULLS[2:]) for _ in range(30)]
    gone = draw.sample(rows, draw.randint(0, 27))
    left = list(rows)
    for row in gone:
        left.remove(row)
    found = fed(FLOATS, rows, gone, backend).getValue()
    expected = moments([(row[0], row[1]) for row in left])
    limits = [1] + [4] * 7
    for name, got, want, limit in zip(FLOATS.calls, found, expected, limits, strict=True):
        if math.isinf(want) or math.isinf(got):
            # A sum that is too large for a double: its mean need not be.
            assert got == want or name.function not in ("SUM", "AVG", "REGR_AVGX")
        else:
            assert ulps(got, want) <= limit, name.text


@backends
@pytest.mark.parametrize(
    ("values", "total"),
    [
        ((math.inf, 1.0), math.inf),
        ((-math.inf, 1e308, 1e308), -math.inf),
        ((math.inf, -math.inf), math.nan),
        ((math.nan, math.inf), math.nan),
        ((1e308, 1e308), math.inf),
        ((1e308, 1e308, -1e308), 1e308),
    ],
)
def test_special_floats_are_summed_as_ieee_has_it_and_leave_again(
    backend: Backend, values: tuple[float, ...], total: float
) -> None:
    rows: list[Row] = [(value, 1.0, *NULLS[2:]) for value in values]
    found = fed(FLOATS, rows, (), backend).getValue()[0]
    assert found == total or (math.isnan(found) and math.isnan(total))
    kept: list[Row] = [(1.5, 1.0, *NULLS[2:]), (2.5, 2.0, *NULLS[2:])]
    assert fed(FLOATS, kept + rows, rows, backend).getValue() == fed(FLOATS, kept).getValue()


def one(**values: Any) -> Row:
    return tuple(values.get(name) for name in ("x", "y", "b", "t", "v", "m"))


@backends
def test_a_bigint_sum_that_does_not_fit_is_an_error_in_spark(backend: Backend) -> None:
    top = 2**63 - 1
    over = fed(SUMS["spark"], [one(b=top), one(b=1)], (), backend)
    with pytest.raises(ArithmeticOverflowError, match="SUM"):
        over.getValue()
    over.accumulate(one(b=-2))
    assert over.getValue()[0] == top - 1
    over.retract(one(b=-2))
    over.retract(one(b=1))
    assert over.getValue()[:2] == (top, float(top))


@backends
def test_integer_sums_wrap_in_flink(backend: Backend) -> None:
    rows = [one(b=2**63 - 1, t=127), one(b=2**63 - 1, t=127), one(b=5, t=3)]
    found = fed(SUMS["flink"], rows, (), backend).getValue()
    wide = wrap(2 * (2**63 - 1) + 5, 64)
    assert found[:4] == (wide, wide // 3, wrap(257, 8), 257 // 3)
    negative = fed(SUMS["flink"], [one(t=-3), one(t=-4)], (), backend).getValue()
    assert negative[3] == -3


@backends
def test_decimals_of_38_digits_are_summed_exactly(backend: Backend) -> None:
    top = Decimal("9" * 30 + ".99")
    rows = [one(v=top), one(v=Decimal("0.01")), one(v=top.copy_negate()), one(v=Decimal("0.02"))]
    for dialect in ("spark", "flink"):
        spec = SUMS[dialect]
        assert fed(spec, rows, (), backend).getValue()[4] == Decimal("0.03")
        assert fed(spec, rows, rows[1:], backend).getValue()[4] == top
    high = Decimal("9" * 36 + ".99")
    twice = [one(v=high), one(v=high)]
    with pytest.raises(ArithmeticOverflowError):
        fed(SUMS["spark"], twice, (), backend).getValue()
    handler = fed(SUMS["flink"], twice, (), backend)
    assert handler.getValue()[4] is None
    handler.retract(twice[0])
    assert handler.getValue()[4] == high


@backends
@pytest.mark.parametrize(
    ("cents", "copies", "spark"),
    [(1, 32, "0.000313"), (-1, 32, "-0.000313"), (2, 3, "0.006667"), (-2, 3, "-0.006667")],
)
def test_decimal_means_are_rounded_half_up(
    backend: Backend, cents: int, copies: int, spark: str
) -> None:
    value = Decimal(cents).scaleb(-2)
    rows = [one(m=value, v=value)] + [one(m=Decimal("0.00"), v=Decimal("0.00"))] * (copies - 1)
    for dialect in ("spark", "flink"):
        found = fed(SUMS[dialect], rows, (), backend).getValue()
        assert found[5:] == (Decimal(spark), Decimal(spark))


@pytest.mark.slow
@pytest.mark.parametrize("name", compiled())
@pytest.mark.sampled(2)
def test_both_backends_agree_on_changelogs(name: str) -> None:
    """All functions, a few specs: changes one by one, merged, dirty and restored."""
    spec = compiled()[name]
    for seed in range(10):
        rows = rows_for(spec, seed, 20)
        changes = changes_for(rows, seed)
        for one_step, other in zip(
            history(spec, changes, rows, "numba"),
            history(spec, changes, rows, "python"),
            strict=True,
        ):
            assert same_row(spec, one_step, other) is None, seed


def history(spec: AggSpec, changes: list[Any], rows: list[Row], backend: Backend) -> list[Row]:
    """The results along a way of changes, a merge, and retractions of rows that may be gone."""
    middle = len(changes) // 2
    handler, out = empty(spec, backend), []
    for kind, *row in changes[:middle]:
        (handler.accumulate if kind == "+I" else handler.retract)(tuple(row))
        out.append(handler.getValue())
    other = fed(spec, [tuple(row) for kind, *row in changes[middle:] if kind == "+I"], (), backend)
    handler.merge(other.getAccumulators())
    out.append(handler.getValue())
    handler.retract(rows[:5])
    return [*out, handler.getValue()]
